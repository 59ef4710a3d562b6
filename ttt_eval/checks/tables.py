"""Small games as arrays over their positions, with exact values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ttt_envs.core.checks import Refusal, check_choice, check_range, find_named, name_place
from ttt_envs.core.hash_index import distinct_rows, extend_rows
from ttt_envs.core.jit import BoolArray, Float64Array, Int8Array, Int64Array
from ttt_envs.game.actions import num_actions
from ttt_envs.game.boards import Boards, keys, play_moves, to_text
from ttt_envs.game.game import Game, Position
from ttt_envs.game.openings import draw_openings
from ttt_envs.game.phantom import check_variants
from ttt_envs.game.rules import NOT_OVER
from ttt_envs.game.symmetry import symmetries
from ttt_envs.graph.estimate import MAX_CELLS
from ttt_eval.checks.check import Evidence

Turns = Literal["plain", "turns", "skip"]
SKIP_CHANCE = 0.25
"""Probability of another turn in the games with chance."""
BOARDS = {
    "3x3": Game(),
    "4x4": Game(4, 4, 4),
    "connect-four": Game(4, 5, 4, gravity=True),
}
"""Boards by name."""
MAX_WHOLE = 9
"""Maximum number of cells of games that begin with the empty board; others begin with random
positions.
"""
FREE_CELLS = 8
"""Number of free cells of the first positions on larger boards."""
FIRST_KEYS = np.arange(8, dtype=np.uint64)
"""Keys of the random first positions on larger boards."""
LATE_FREE = 3
"""Largest number of free cells near the end."""
MIN_WON_VALUE = 0.5
"""Values above it are of positions in which good play wins, and those below its negative of lost
ones.
"""
NO_MOVE_VALUE = -9
"""Stands for the value of no move: below all sums of two values, and finite, so that differences
are numbers.
"""
MIN_TRAP_LOSS = 0.25
"""Minimum loss of the wrong move of a trap."""
TIE = 1e-9
"""Values within this distance are equal."""

Reduction = Callable[[Float64Array, Int64Array], Float64Array]
"""Returns one value, float64[B], from values of moves, float64[B, A], NaN where illegal, and the
rows of the positions, int64[B].
"""


def _reduce_by(function: Callable[..., Any]) -> Reduction:
    return lambda values, rows: function(values, axis=1)


best = _reduce_by(np.nanmax)
"""The reduction to the largest value of a legal move."""
worst = _reduce_by(np.nanmin)
mean = _reduce_by(np.nanmean)


def mean_by(shares: Float64Array) -> Reduction:
    """Return the reduction of a policy with shares of moves, float64[N + 1, A]."""
    return lambda values, rows: (shares[rows] * np.nan_to_num(values)).sum(axis=1)


class GameTable:
    """A game as arrays over all its N positions, as the player to move sees them.

    The last of the N + 1 rows stands for no position: illegal moves and impossible turns lead
    there. Arrays are read-only. Boards are numbers by cell: 1 a stone of the player to move, -1 of
    the other, 0 empty.

    Args:
        turns: who moves after a move that does not end the game: ``"plain"``, the other player;
            ``"turns"``, the mover again if row + column of the stone is odd; ``"skip"``, the mover
            again with probability 1/4. With gravity, the row is that where the stone lands.
        board: a name in :data:`BOARDS`, or a game of at most 31 cells, of whose other rules only
            gravity may be set; its skip chance is ignored. Up to :data:`MAX_WHOLE` cells all
            positions are there, else those after eight random ones with eight free cells.

    Raises:
        ValueError: an unknown or unsuitable argument.

    Attributes:
        turns: the argument.
        game: size, length of lines, gravity and skip chance.
        num_actions: A, the number of cells, with gravity of columns.
        boards: int8[N + 1, cells].
        next: int64[N + 1, A, 2], the position after a move: of the other player ([..., 0]), or of
            the mover, who has another turn ([..., 1]).
        reward: float64[N + 1, A], 1 for the mover of a move that wins at once, else 0.
        over: bool[N + 1, A], whether the move ends the game.
        again: float64[N + 1, A], probability that the mover has another turn.
        legal: bool[N + 1, A].
        ended: bool[N + 1], finished boards, and the last row.
        num_free: int64[N + 1], number of empty cells.
        max_free: that of the first positions.
        odd: bool[N + 1], whether the number of stones is odd.
        values: float64[N + 1], optimal values for the player to move; 0 for finished boards.
        action_values: float64[N + 1, A], optimal values of moves, NaN where illegal.
        mistaken_losses: float64[4, N + 1, A], ``losses`` in the eyes of searches that take turns to
            alternate, in the choice of moves, in the sign of values, or in that of results too; or
            that never negate values.
        losses: float64[N + 1, A], loss of value by a move, NaN where illegal.
        wins: bool[N + 1], positions with a move that wins at once.
        random_losses: float64[N + 1], mean loss of a random move.
        traps: float64[N + 1], by how much the values of rollouts and of a search that never negates
            prefer a wrong move to the right ones; -inf where rollouts alone do.
        random_values: float64[N + 1], values if both play at random.
        moves_differ: bool[N + 1], positions with moves of different values.
        forced: bool[N + 1], positions whose value does not depend on play.
        illegal_steps: positions with an illegal call of :meth:`step`, for a copy of the table that
            a search was given.
    """

    def __init__(self, turns: Turns = "plain", board: str | Game = "3x3") -> None:
        check_choice("game", turns, ("plain", "turns", "skip"))
        if isinstance(board, str):
            board = find_named("board", board, BOARDS)
        check_variants("a check", board, ["gravity"])
        check_range("board", board.cells, 1, MAX_CELLS, problem="cells are too many for a check")
        self.turns = turns
        plain = replace(board, skip_chance=0.0)
        skip = replace(board, skip_chance=SKIP_CHANCE)
        self.game = skip if turns == "skip" else plain
        self.num_actions = num_actions(board)
        self.illegal_steps: list[Evidence] = []
        self._chances = np.full(board.cells, self.game.skip_chance)
        if turns == "turns":
            self._chances += np.add(*np.divmod(np.arange(board.cells), board.columns)) % 2
        openings = Boards.start(plain)
        if board.cells > MAX_WHOLE:
            hint = f"choose longer lines: a check begins with {FREE_CELLS} free cells of {board}"
            with name_place(hint):
                openings = draw_openings(plain, board.cells - FREE_CELLS, FIRST_KEYS)
        # the rules of a game without chance know that its turns alternate
        self._list_positions(plain if turns == "plain" else skip, openings.own_first())
        self._index = {tuple(board): row for row, board in enumerate(self.boards[:-1].tolist())}
        tables, self.action_values = self.solve(best, best)
        self.values: Float64Array = tables[0]
        bounds, root_view = self.solve(best, worst)  # the largest and smallest values of any play
        mistaken = np.stack(
            [
                self.solve(best, worst, swap=1)[1],
                *(self.solve(best, best, again_sign=-1, end_sign=sign)[1] for sign in (1, -1)),
                root_view,
            ]
        )
        self.mistaken_losses = np.fmax.reduce(mistaken, axis=2, keepdims=True) - mistaken
        random_tables, random_play = self.solve(mean, mean)
        self.random_values = random_tables[0]
        self.forced = ~self.ended & (np.ptp(bounds, axis=0) < TIE)
        self.wins = self.reward.max(axis=1) > 0
        self.losses = self.values[:, None] - self.action_values
        losses = np.nan_to_num(self.losses)
        self.moves_differ = losses.max(axis=1) > TIE
        self.random_losses = losses.sum(axis=1) / np.maximum(1, self.legal.sum(axis=1))
        # rollouts that prefer a wrong move mislead right searches too
        is_fair = self.moves_differ & (self._lead(random_play) < TIE)
        self.traps = np.where(is_fair, self._lead(random_play + root_view).round(6), -np.inf)
        for array in vars(self).values():
            if isinstance(array, np.ndarray):
                array.setflags(write=False)

    def _lead(self, values: Float64Array) -> Float64Array:
        """Return by how much values of moves, float64[N + 1, A], prefer a wrong move to the right
        ones, float64[N + 1]; arbitrary where no move is wrong.
        """
        wrong_moves: Float64Array = np.where(self.losses > MIN_TRAP_LOSS, values, NO_MOVE_VALUE)
        right_moves = np.where(self.losses < TIE, values, NO_MOVE_VALUE)
        return np.asarray(wrong_moves.max(axis=1) - right_moves.max(axis=1))

    def _list_positions(self, game: Game, cells: Int8Array) -> None:
        """List the positions by their number of stones, and fill the arrays of the rules.

        Args:
            game: where a line ends the game; turns are those of the table.
            cells: int8[B, cells], the first positions in the mover's view.
        """
        first, _ = distinct_rows(keys(cells)[:, None])
        cells = cells[first]
        ended = np.zeros(len(cells), np.bool_)
        layers: list[Int8Array] = []
        moves: list[Any] = []
        count = 0
        while len(cells):
            boards = Boards(cells, np.zeros(len(cells), np.int8))
            row, place = np.nonzero(boards.legal(game) & ~ended[:, None])
            afterstates, outcomes = play_moves(game, boards, row, place)
            again = self._chances[place]
            is_last = outcomes != NOT_OVER
            turns = np.stack([again < 1, again > 0], axis=1) | is_last[:, None]
            next_cells = np.stack([2 * afterstates % 3, afterstates], axis=1)[turns]
            first, numbers = distinct_rows(keys(next_cells)[:, None])
            next_rows = np.zeros(turns.shape, np.int64)
            next_rows[turns] = count + len(cells) + numbers
            moves.append((count + row, place % self.num_actions, outcomes == 0, again, next_rows))
            layers.append(cells)
            count += len(cells)
            cells = next_cells[first]
            ended = np.repeat(is_last, turns.sum(axis=1))[first]
        rows, actions, *parts = map(np.concatenate, zip(*moves, strict=True))

        def spread(numbers: NDArray[Any]) -> NDArray[Any]:
            table = np.zeros((count + 1, self.num_actions, *numbers.shape[1:]), numbers.dtype)
            table[rows, actions] = numbers
            return table

        wins, self.again, self.next = map(spread, parts)
        cells = extend_rows(np.concatenate(layers), count + 1)
        self.boards: Int8Array = np.asarray((cells + 1) % 3 - 1, np.int8)
        self.next[self.next == 0] = count
        self.reward = 1.0 * wins
        self.legal: BoolArray = spread(rows >= 0)
        self.num_free = (self.boards == 0).sum(axis=1)
        self.num_free[-1] = -1
        self.max_free = int(self.num_free.max())
        self.odd = (self.game.cells - self.num_free) % 2 == 1
        self.ended = np.asarray(~self.legal.any(axis=1))
        self.over = self.ended[self.next].all(axis=2)

    @property
    def symmetries(self) -> Int64Array:
        """int64[S, cells]: symmetries of the board that keep the rules, the identity first."""
        images = symmetries(self.game)
        return np.asarray(images[(self._chances[images] == self._chances).all(axis=1)])

    def solve(
        self,
        own: Reduction,
        other: Reduction,
        *,
        swap: int = 0,
        again_sign: int = 1,
        end_sign: int = 1,
    ) -> tuple[Float64Array, Float64Array]:
        """Return values for the player to move, float64[2, N + 1], where that player moves by
        ``own`` and the other by ``other``, and the other way round; and those of the former's
        moves, float64[N + 1, A].

        Args:
            own, other: who moves how.
            swap: 1 if ``own`` and ``other`` alternate at every move, whoever has the turn.
            again_sign: of the value after a move that gives another turn.
            end_sign: of the result of a move that gives another turn and ends the game.
        """
        tables = np.zeros((2, len(self.boards)))
        action_values = np.full(self.legal.shape, np.nan)
        for num_free in range(1, self.max_free + 1):
            rows = np.flatnonzero((self.num_free == num_free) & ~self.ended)
            again = self.again[rows]
            for player, choose in ((1, other), (0, own)):
                same_next = tables[player ^ swap][self.next[rows, :, 1]]
                other_next = tables[1 - player ^ swap][self.next[rows, :, 0]]
                expected = again_sign * again * same_next - (1 - again) * other_next
                result = (1 - again + end_sign * again) * self.reward[rows]
                values = np.where(self.over[rows], result, expected)
                action_values[rows] = np.where(self.legal[rows], values, np.nan)
                tables[player, rows] = choose(action_values[rows], rows)
        return tables, action_values

    def depths(self, root: int) -> tuple[Int64Array, BoolArray]:
        """Return the depth of every position below a root, int64[N + 1], -1 if it is not below or
        finished; and whether its mover is the root's, bool[N + 1].
        """
        num_stones = self.game.cells - self.num_free[root]
        num_shared = self.boards @ self.boards[root]  # negative as the other player sees them
        is_below = (np.abs(num_shared) == num_stones) & ~self.ended
        depths = np.where(is_below, self.num_free[root] - self.num_free, -1)
        return depths, num_shared == num_stones

    # -- positions

    def find(self, board: ArrayLike) -> int:
        """Return the row of one board, a sequence of numbers; -1 if it is no position, as a batch
        of boards is.
        """
        return self._index.get(tuple(np.ravel(board).tolist()), -1)

    def index(self, board: ArrayLike) -> int:
        """Return the row of one board; those of a batch are
        ``[game.index(board) for board in boards]``.

        Raises:
            ValueError: it is no position of the game, or not one board.
        """
        row = self.find(board)
        if np.size(board) != self.game.cells:
            raise Refusal(
                f"{np.size(board)} numbers are not one board of {self.game.cells} cells: write "
                "[game.index(board) for board in boards] for a batch"
            )
        if row < 0:
            raise Refusal(f"{board!r} is no position of this game: no play leads to it")
        return row

    def board(self, index: int) -> tuple[int, ...]:
        """Return the board of a row."""
        return tuple(self.boards[index].tolist())

    def legal_actions(self, board: ArrayLike) -> list[int]:
        """Return the legal actions; none on a finished board."""
        return np.flatnonzero(self.legal[self.index(board)]).tolist()

    def best_moves(self, rows: Sequence[int]) -> list[list[int]]:
        """Return the moves that lose nothing, of some positions."""
        return [np.flatnonzero(losses < TIE).tolist() for losses in self.losses[rows]]

    def step(
        self, board: ArrayLike, action: int, again: bool = False
    ) -> tuple[tuple[int, ...], float, bool]:
        """Make a move.

        Args:
            board: as the player to move sees it.
            action: a legal action.
            again: whether the mover has another turn afterwards.

        Returns:
            The board as the next player to move sees it, the mover's reward, and whether the game
            is over.

        Raises:
            ValueError: the game is over, the action is illegal, or the turn is impossible.
        """
        row = self.index(board)
        nowhere = len(self.boards) - 1
        is_action = 0 <= action < self.num_actions
        next_row = int(self.next[row, action, int(again)]) if is_action else nowhere
        if next_row == nowhere:
            problem = f"action {action} with an impossible turn, again={bool(again)}"
            if self.ended[row]:
                problem = "a move on a finished board"
            elif action not in self.legal_actions(board):
                problem = f"the illegal action {action}"
            self.illegal_steps.append(self.evidence(row, problem))
            raise Refusal(f"{problem}, in {self.illegal_steps[-1].position}")
        reward = float(self.reward[row, action])
        return self.board(next_row), reward, bool(self.over[row, action])

    def to_boards(self, rows: Int64Array | Sequence[int]) -> Boards:
        """Return rows as a batch of positions; an odd number of stones is the second player's
        turn.
        """
        odd = self.odd[rows].astype(np.int8)
        return Boards((1 - 2 * odd[:, None]) * self.boards[rows] % 3, odd)

    def evidence(self, row: int, note: str) -> Evidence:
        """Return a position as text, the player to move as o, with a note."""
        return Evidence(to_text(Position(self.boards[row] % 3, 0), self.game), note)


_keep_table = lru_cache(maxsize=8)(GameTable)


def make_table(turns: Turns, board: str | Game = "3x3") -> GameTable:
    """Return the table of a game, which is kept."""
    return _keep_table(turns, board)


class PlantedEvaluator:
    """The evaluator that a search is given: values and priors by row, chosen by the check.

    ``priors, value = evaluator(board)`` gives those of one board; the value of what is no position
    is arbitrary. ``evaluator.priors`` and ``evaluator.values`` are the same as arrays by row, for
    batches and compiled code.

    Attributes:
        is_read: bool, whether anything was asked for.
    """

    def __init__(self, table: GameTable, values: Float64Array, priors: Float64Array) -> None:
        self._table = table
        self._arrays = priors, values
        self.is_read = False
        for array in self._arrays:
            array.setflags(write=False)

    def __call__(self, board: ArrayLike) -> tuple[Float64Array, float]:
        """Return the priors, float64[A], and the value for the player to move."""
        row = self._table.find(board)
        return self.priors[row], float(self.values[row])

    @property
    def priors(self) -> Float64Array:
        """float64[N + 1, A]: rows sum to 1; illegal moves have a part of it."""
        self.is_read = True
        return self._arrays[0]

    @property
    def values(self) -> Float64Array:
        """float64[N + 1]: for the player to move."""
        self.is_read = True
        return self._arrays[1]
