"""A game walked by layers: the positions with so many stones, as far as two players reach them.

Going forward, every position of a layer hands its probability on to those of the next. Going backward, it takes the
values of a best responder from them. Rows are numbered in the order in which positions are met, which does not depend
on how many a policy is asked about at once: all sums come out the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from ttt_envs.boards import Boards, cells_of, to_text, words_of
from ttt_envs.compiling import Cells, Integers, Keys, Parameters, Reals, compiled, inlined
from ttt_envs.index import KeyIndex
from ttt_envs.policy import TIE, Policy
from ttt_envs.rules import DRAW, Game, end_of, is_legal, skip_chance_of, winning_cells

MOST = 1 << 27
"""positions of a layer that are evaluated; with more, give up"""


class Layer:
    """The positions with so many stones that can be reached.

    Attributes:
        index: the boards by their keys.
        reached: int8[capacity, 2]: 1 where a board is reached with this player to move.
        mass: float64[capacity, 2]: with what probability.
        answers: of policies, in the order of :func:`_questions`, as far as they are kept.
        values: float64[size, 2, 3]: value, wins and losses of the best responder, on the way back.
        following: how many boards of the next layer can be reached.
    """

    def __init__(self, game: Game, stones: int) -> None:
        self.game = game
        self.stones = stones
        self.index = KeyIndex(words_of(game))
        self.reached: Cells = np.zeros((0, 2), np.int8)
        self.mass: Reals = np.zeros((0, 2))
        self.answers: list[Reals | None] = []
        self.values: Reals = np.zeros((0, 2, 3))
        self.total = 0.0
        self.following = 0

    @classmethod
    def start(cls, game: Game) -> Layer:
        """The empty board, player_0 to move."""
        layer = cls(game, 0)
        row = layer.rows(np.zeros((1, words_of(game)), np.uint64))[0]
        layer.reached[row, 0] = 1
        layer.mass[row, 0] = 1.0
        return layer

    def rows(self, keys: Keys) -> Integers:
        """int64[B]: the rows of boards, new ones where they were not met."""
        needed = self.index.size + len(keys)
        capacity = len(self.index.keys)
        if needed > capacity:
            capacity = max(needed, 2 * capacity, 64)
            if self.index.size > MOST:
                raise MemoryError(
                    f"more than {MOST:,} positions of {self.game} with {self.stones} stones can be reached, too many "
                    f"to evaluate exactly: sample them with evaluate.py match, or take a smaller board"
                )
            self.index.reserve(capacity)
            for name in ("reached", "mass"):
                old = getattr(self, name)
                new = np.zeros((capacity, 2), old.dtype)
                new[: len(old)] = old
                setattr(self, name, new)
        return self.index.rows(keys)


Players = tuple[Policy | None, Policy | None]
"""by seat; None is the best responder, who may do anything"""


def _questions(layer: Layer, chunk: int) -> Iterator[tuple[int, Integers, Boards]]:
    """The positions of a layer, by mover, ``chunk`` at most at once: mover, rows of the layer, boards."""
    if chunk < 1:
        raise ValueError(f"chunk={chunk} leaves nothing to ask: choose 1 or more positions at once")
    for mover in (0, 1):
        rows = np.flatnonzero(layer.reached[: layer.index.size, mover])
        for start in range(0, len(rows), chunk):
            some = rows[start : start + chunk]
            cells = cells_of(layer.index.keys[some], layer.game)
            yield mover, some, Boards(cells, np.full(len(some), mover, np.int8))


def _ask(policy: Policy, boards: Boards) -> Reals:
    """The probabilities of a policy, float64[B, cells]."""
    answer = np.ascontiguousarray(policy.probabilities(boards), np.float64)
    if answer.shape != boards.cells.shape:
        raise ValueError(
            f"{policy} gave probabilities of shape {list(answer.shape)} for {len(boards.mover)} positions: "
            f"they must be {list(boards.cells.shape)}, one for each cell"
        )
    return answer


class _Moves(NamedTuple):
    """What may follow the positions of one question."""

    keys: Keys
    """uint64[K, words]: the boards on which the game goes on"""
    parent: Integers
    """int64[K]: from which position, in order"""
    cell: Integers
    """int64[K]: by which move"""
    won: Reals
    """float64[B]: the probability that the move wins; 1 where a best responder can win"""
    drawn: Reals
    """float64[B]: the probability that the move fills the board"""

    @classmethod
    def of(cls, layer: Layer, mover: int, rows: Integers, boards: Boards, player: object, p: Reals | None) -> _Moves:
        """The moves that the mover makes with some probability ``p``; of a best responder, where it is None, all.

        Raises:
            ValueError: what the policy answered is no distribution over legal moves.
        """
        count, cells = boards.cells.shape
        found = np.empty((count * (cells - layer.stones), layer.index.keys.shape[1]), np.uint64)
        parent, cell = np.empty(len(found), np.int64), np.empty(len(found), np.int64)
        won, drawn = np.zeros(count), np.zeros(count)
        asked = p is not None
        weights = np.zeros((1, cells)) if p is None else p
        size = _moves(
            layer.index.keys[rows], boards.cells, mover, layer.stones, asked, weights, layer.game.parameters,
            found, parent, cell, won, drawn,
        )  # fmt: skip
        if size < 0:
            row = -1 - size
            raise ValueError(
                f"{player} gave no distribution over legal moves in {to_text(boards.position(row), layer.game)!r}: "
                f"{np.array2string(weights[row], precision=4)} must be 0 on occupied cells, nowhere negative, and "
                f"sum to 1"
            )
        return cls(found[:size], parent[:size], cell[:size], won, drawn)


def forward(
    game: Game,
    players: Players,
    chunk: int,
    *,
    results: Reals | None = None,
    visit: Callable[[int, Boards, Reals, Reals], None] | None = None,
    kept: list[int] | None = None,
) -> Iterator[Layer]:
    """The layers that two players can reach, one after another.

    Args:
        game: what is played.
        players: who plays.
        chunk: positions in a question.
        results: float64[3, 2], to which the probabilities of a win of player_0, of player_1 and of a draw are added:
            sums, and what rounding took from them.
        visit: called with stones, boards, the mover's answers and the probability of the boards.
        kept: bytes of answers that may be kept in the layers, counted down; none by default.
    """
    layer = Layer.start(game)
    while layer.index.size:
        after = Layer(game, layer.stones + 1)
        layer.total = float(layer.mass[: layer.index.size].sum())
        for mover, rows, boards in _questions(layer, chunk):
            player = players[mover]
            p = None if player is None else _ask(player, boards)
            if kept is not None:
                fits = p is not None and p.nbytes <= kept[0]
                layer.answers.append(p if fits else None)
                kept[0] -= p.nbytes if p is not None and fits else 0
            mass = layer.mass[rows, mover]
            if visit is not None and p is not None:
                visit(layer.stones, boards, p, mass)
            moves = _Moves.of(layer, mover, rows, boards, player, p)
            if results is not None:
                _add_results(mass, moves.won, moves.drawn, mover, results)
            weights = np.ones((0, game.cells)) if p is None else p
            _spread(
                moves.parent, moves.cell, after.rows(moves.keys), mover, weights, mass, game.parameters,
                after.mass, after.reached,
            )  # fmt: skip
        layer.mass = layer.mass[:0]
        layer.following = after.index.size
        yield layer
        layer = after


def backward(game: Game, players: Players, chunk: int, layer: Layer, after: Layer) -> None:
    """Write ``layer.values``, of the best responder, from those of the layer ``after``."""
    size = layer.index.size
    layer.values = np.zeros((size, 2, 3))
    after.index.reserve(max(1, after.index.size))
    answers = iter(layer.answers)
    for mover, rows, boards in _questions(layer, chunk):
        player = players[mover]
        p = next(answers)
        if p is None and player is not None:
            p = _ask(player, boards)
        moves = _Moves.of(layer, mover, rows, boards, player, p)
        found = after.index.find(moves.keys)
        if player is None:
            _respond(moves.parent, found, moves.won, rows, mover, after.values, game.parameters, layer.values)
        else:
            assert p is not None
            _expect(
                moves.parent, moves.cell, found, moves.won, p, rows, mover, after.values, game.parameters, layer.values
            )
    after.index.pack()


@compiled
def _moves(
    keys: Keys,
    cells: Cells,
    mover: int,
    stones: int,
    asked: bool,
    p: Reals,
    parameters: Parameters,
    found: Keys,
    parent: Integers,
    cell_of: Integers,
    won: Reals,
    drawn: Reals,
) -> int:
    """:class:`_Moves`. Returns how many lead on, or -1 - b where row b of ``p`` is no distribution over legal moves."""
    count, size = cells.shape
    words = keys.shape[1]
    last = end_of(False, mover, stones + 1, parameters) == DRAW
    wins = np.zeros(size, np.int8)
    made = 0
    for b in range(count):
        board = cells[b]
        if asked:
            total = 0.0
            for cell in range(size):
                share = p[b, cell]
                total += share
                if not share >= 0 or (share > 0 and not is_legal(board, cell, parameters)):
                    return -1 - b
            if not abs(total - 1.0) <= 1e-6:
                return -1 - b
        winning_cells(board, mover, parameters, wins)
        for cell in range(size):
            if wins[cell]:
                won[b] += p[b, cell] if asked else 1.0
        if not asked and won[b] > 0:
            won[b] = 1.0  # a best responder who can win does, and nothing else is reached
            continue
        power = np.uint64(mover + 1)
        for cell in range(size):
            if is_legal(board, cell, parameters) and not wins[cell] and (not asked or p[b, cell] > 0):
                if last:
                    drawn[b] += p[b, cell] if asked else 1.0
                else:
                    for word in range(words):
                        found[made, word] = keys[b, word]
                    if words == 1:
                        found[made, 0] += power
                    else:
                        found[made, mover * (words // 2) + cell // 64] |= np.uint64(1) << np.uint64(cell % 64)
                    parent[made] = b
                    cell_of[made] = cell
                    made += 1
            power *= np.uint64(3)
    return made


@inlined
def _add(sums: Reals, row: int, term: float) -> None:
    """Compensated summation (Neumaier, 1974), for millions of terms without a loss of digits."""
    total = sums[row, 0] + term
    if abs(sums[row, 0]) >= abs(term):
        sums[row, 1] += (sums[row, 0] - total) + term
    else:
        sums[row, 1] += (term - total) + sums[row, 0]
    sums[row, 0] = total


@compiled
def _add_results(mass: Reals, won: Reals, drawn: Reals, mover: int, results: Reals) -> None:
    for b in range(len(mass)):  # in order, so that the sum does not depend on the size of a question
        _add(results, mover, mass[b] * won[b])
        _add(results, 2, mass[b] * drawn[b])


@compiled
def add_losses(action_values: Reals, p: Reals, mass: Reals, stones: int, lost: Reals) -> None:
    """Add the value that a policy is expected to lose by its moves to ``lost`` float64[cells + 1, 2], by stones.

    Args:
        action_values: float64[B, cells], of perfect play, NaN where illegal.
        p: float64[B, cells], the policy's probabilities; mass: float64[B], those of the positions.
        stones: on the boards.
        lost: sums, and what rounding took from them.
    """
    for b in range(len(mass)):
        best = -np.inf
        got = 0.0
        for cell in range(p.shape[1]):
            value = action_values[b, cell]
            if not np.isnan(value):
                best = max(best, value)
                got += p[b, cell] * value
        _add(lost, stones, mass[b] * max(0.0, best - got))


@compiled
def _spread(
    parent: Integers,
    cell_of: Integers,
    child: Integers,
    mover: int,
    p: Reals,
    mass: Reals,
    parameters: Parameters,
    after_mass: Reals,
    reached: Cells,
) -> None:
    """Hand the probability of positions on to those that follow."""
    skip = skip_chance_of(parameters)
    for k in range(len(parent)):
        b = parent[k]
        share = mass[b] * p[b, cell_of[k]] if len(p) else mass[b]
        after_mass[child[k], 1 - mover] += (1.0 - skip) * share
        reached[child[k], 1 - mover] = 1
        if skip > 0:
            after_mass[child[k], mover] += skip * share
            reached[child[k], mover] = 1


@compiled
def _expect(
    parent: Integers,
    cell_of: Integers,
    child: Integers,
    won: Reals,
    p: Reals,
    rows: Integers,
    mover: int,
    after: Reals,
    parameters: Parameters,
    values: Reals,
) -> None:
    """Values, wins and losses of the best responder where the other player is to move: what is expected."""
    skip = skip_chance_of(parameters)
    for b in range(len(rows)):  # a win of the other player's is a loss
        values[rows[b], mover, 0] = -won[b]
        values[rows[b], mover, 2] = won[b]
    for k in range(len(parent)):
        share = p[parent[k], cell_of[k]]
        for i in range(3):
            next_value = (1.0 - skip) * after[child[k], 1 - mover, i] + skip * after[child[k], mover, i]
            values[rows[parent[k]], mover, i] += share * next_value


@compiled
def _respond(
    parent: Integers,
    child: Integers,
    won: Reals,
    rows: Integers,
    mover: int,
    after: Reals,
    parameters: Parameters,
    values: Reals,
) -> None:
    """The same where the best responder is to move: the best, and the mean wins and losses of all that are as good.

    Wins less losses are the value of the best, to rounding.
    """
    skip = skip_chance_of(parameters)
    begin = 0
    for b in range(len(rows)):
        end = begin
        best = -2.0
        while end < len(parent) and parent[end] == b:
            best = max(best, (1.0 - skip) * after[child[end], 1 - mover, 0] + skip * after[child[end], mover, 0])
            end += 1
        out = values[rows[b], mover]
        if won[b] > 0:
            out[0] = 1.0
            out[1] = 1.0
        elif end > begin:
            out[0] = best
            ties = 0
            for k in range(begin, end):
                value = (1.0 - skip) * after[child[k], 1 - mover, 0] + skip * after[child[k], mover, 0]
                if value >= best - TIE:
                    ties += 1
                    for i in range(1, 3):
                        out[i] += (1.0 - skip) * after[child[k], 1 - mover, i] + skip * after[child[k], mover, i]
            out[1] /= ties
            out[2] /= ties
            # moves within TIE of the best share wins and losses, and are not worth less for it
            missing = max(0.0, best - (out[1] - out[2]))
            fewer = min(out[2], missing)
            out[2] -= fewer
            out[1] += missing - fewer
        begin = end
