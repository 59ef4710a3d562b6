"""Monte Carlo tree search: UCT with chance nodes for the turns that may be skipped, compiled, many positions at once.

Every simulation goes down the tree from the position, adds one move, judges the position behind it and passes the
result back along its path (Kocsis and Szepesvari, "Bandit based Monte-Carlo planning", 2006; Browne et al., "A survey
of Monte Carlo tree search methods", 2012):

- *Down.* Where moves have not been tried, one of them is drawn and tried; else the move with the largest
  ``mean + c * sqrt(ln N / n)`` is followed, n its visits and N those of the position. A move that does not end the game
  leads to a chance node: the simulation draws whose turn is next, and either turn has a subtree and counts of its own.
- *Judge.* Random moves to the end of the game, or the values of another policy.
- *Back.* The result is kept for the player who made the move, whoever that was; after a skip the same player moves
  again, so no sign depends on the ply.

With ``decisive`` a player who can win with one stone does, and one who must stop a stone that wins tries that first,
and nothing else where no turn can be skipped (Teytaud and Teytaud, "On the huge benefit of decisive moves in
Monte-Carlo tree search algorithms", 2010). And results that are certain are passed on as such (Winands, Bjornsson and
Saito, "Monte-Carlo tree search solver", 2008): a position is *known* where a move surely wins or all moves are known, a
move where it ends the game or both turns after it are known, and then it is worth (1 - p) of one and p of the other.
What is known takes the place of what was sampled.

Simulation s of a position with a 64-bit key draws from ``splitmix64(key, s)`` alone. So a search is the same in one run
or in many, alone or beside others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ttt_envs.boards import Boards
from ttt_envs.compiling import Cells, Integers, Keys, Parameters, Reals, compiled, inlined, wide
from ttt_envs.policy import Named, Policy, Values, make_policy, sample
from ttt_envs.rules import (
    DRAW,
    NOT_OVER,
    OPPONENT,
    Game,
    Position,
    mover_after,
    pick,
    place,
    skip_chance_of,
    splitmix64,
    uniform,
    winning_cells,
)

Counts = NDArray[np.int32]
Flags = NDArray[np.bool_]

MEMORY = 1 << 28
"""bytes that the trees of positions searched side by side may take; more positions are searched one group by another"""

# ---------------------------------------------------------------------------------------------------------------------
# Trees

MAKER, CELL, NEXT, SETTLED = range(4)
"""what stands in a row of `Trees.moves`: who made the move; where; the sibling tried before, 0 for none; whether its
value is known"""
MEAN, WIDTH = range(2)
"""in a row of `Trees.rates`, of a move: its value to its maker; 1 / sqrt(visits)"""
FIRST, VISITS, TRIED, LIMIT, URGENT, OPEN = range(6)
"""in a row of `Trees.turns`, a position whose mover is known: the move tried last, 0 for none; visits; moves tried;
moves to try, 0 before that is known; how many of them come first; how many are not known"""
SUM, KNOWN = range(2)
"""in a row of `Trees.sums`, of such a position: the sum of its results, and its value where that is known; both to the
maker of the move that led there"""


class Trees(NamedTuple):
    """B trees with room for N moves each; T turns may follow a move, 1 where no turn is skipped, else 2.

    Row 0 stands for the move that led to the root, whoever made it, and its turn 0 is the root. Of the turns after
    move m, row ``m * T`` is the other player's and row ``m * T + 1`` its maker's own. The trees need no order: every
    simulation adds one row at the end.
    """

    moves: Counts
    """int32[B, N, 4]"""
    rates: Reals
    """float64[B, N, 2]"""
    turns: Counts
    """int32[B, N * T, 6]"""
    sums: Reals
    """float64[B, N * T, 2]"""

    @classmethod
    def empty(cls, count: int, room: int, turns: int) -> Trees:
        """Trees of nothing."""
        return cls(
            np.zeros((count, room, 4), np.int32),
            np.zeros((count, room, 2)),
            np.zeros((count, room * turns, 6), np.int32),
            np.zeros((count, room * turns, 2)),
        )

    def resized(self, room: int) -> Trees:
        """A copy with room for so many moves, more or fewer."""
        count, before, _ = self.moves.shape
        turns = self.turns.shape[1] // before
        new = Trees.empty(count, room, turns)
        used = min(room, before)
        new.moves[:, :used] = self.moves[:, :used]
        new.rates[:, :used] = self.rates[:, :used]
        new.turns[:, : used * turns] = self.turns[:, : used * turns]
        new.sums[:, : used * turns] = self.sums[:, : used * turns]
        return new

    @staticmethod
    def bytes_of(room: int, turns: int) -> int:
        """What one tree takes."""
        return room * (32 + 40 * turns)


class Kept(NamedTuple):
    """A move that was made, and the tree after it."""

    cells: Cells
    """int8[rows * columns], the board after it"""
    trees: Trees
    """one tree, whose row 0 is the move with all turns after it"""


@inlined
def _is_known(node: int, turns: Counts) -> bool:
    known: bool = turns[node, LIMIT] > 0 and turns[node, OPEN] == 0
    return known


# ---------------------------------------------------------------------------------------------------------------------
# One simulation


@compiled
def _winning(board: Cells, player: int, parameters: Parameters, out: Cells) -> int:
    """:func:`rules.winning_cells`, and how many there are."""
    winning_cells(board, player, parameters, out)
    count = 0
    for cell in range(len(board)):
        count += out[cell]
    return count


@compiled
def _untried(
    node: int,
    board: Cells,
    mover: int,
    stones: int,
    luck: np.uint64,
    moves: Counts,
    turns: Counts,
    urgent: Cells,
    closed: Cells,
    parameters: Parameters,
    decisive: bool,
) -> int:
    """Draw a cell among those that are to be tried next at a node; ``urgent`` and ``closed`` are scratch."""
    size = len(board)
    if turns[node, LIMIT] == 0:
        limit = size - stones
        pressing = 0
        if decisive:
            pressing = min(1, _winning(board, mover, parameters, urgent))
            if pressing > 0:
                limit = 1
            else:
                pressing = _winning(board, 1 - mover, parameters, urgent)
                if pressing > 0 and skip_chance_of(parameters) == 0:  # what does not stop the other player loses
                    limit = pressing
        turns[node, LIMIT] = turns[node, OPEN] = limit
        turns[node, URGENT] = pressing
    elif turns[node, TRIED] < turns[node, URGENT]:
        _winning(board, 1 - mover, parameters, urgent)
    pressed = turns[node, TRIED] < turns[node, URGENT]
    for cell in range(size):
        closed[cell] = board[cell] != 0 or (pressed and urgent[cell] == 0)
    move = wide(turns[node, FIRST])
    while move > 0:
        closed[moves[move, CELL]] = 1
        move = wide(moves[move, NEXT])
    return pick(closed, uniform(luck, OPPONENT, stones))


@inlined
def _most_promising(node: int, moves: Counts, rates: Reals, turns: Counts, c: float) -> int:
    """The move with the largest upper confidence bound; of equals the one tried last."""
    width = 0.0 if _is_known(node, turns) else c * math.sqrt(math.log(turns[node, VISITS]))
    best = 0
    most = -np.inf
    move = wide(turns[node, FIRST])
    while move > 0:
        bound = rates[move, MEAN] + width * rates[move, WIDTH]
        if bound > most:
            most = bound
            best = move
        move = wide(moves[move, NEXT])
    return best


@inlined
def _descend(
    luck: np.uint64,
    board: Cells,
    stones: int,
    count: int,
    moves: Counts,
    rates: Reals,
    turns: Counts,
    sums: Reals,
    path: Integers,
    urgent: Cells,
    closed: Cells,
    parameters: Parameters,
    c: float,
    decisive: bool,
) -> tuple[int, int, int, int]:
    """Go down a tree to a node that is known or was never visited, putting the stones on the board.

    Args:
        luck: the simulation's.
        board: int8[cells], the root; then the node.
        stones: on the board.
        count: rows of ``moves`` in use.
        path: int64[cells + 1], written: the nodes visited.

    Returns:
        (the node's place in the path, its mover, its stones, rows in use).
    """
    either = 2 if skip_chance_of(parameters) > 0 else 1
    mover = 1 - wide(moves[0, MAKER])
    node = wide(0)
    depth = 0
    path[0] = 0
    while True:
        if turns[node, LIMIT] == 0 or turns[node, TRIED] < turns[node, LIMIT]:
            cell = _untried(node, board, mover, stones, luck, moves, turns, urgent, closed, parameters, decisive)
            move = count
            count += 1
            moves[move, MAKER] = mover
            moves[move, CELL] = cell
            moves[move, NEXT] = turns[node, FIRST]
            turns[node, FIRST] = move
            turns[node, TRIED] += 1
            outcome = place(board, mover, cell, stones, parameters)
            if outcome != NOT_OVER:  # chance has no part in a result: either turn has it
                for turn in range(either):
                    turns[move * either + turn, LIMIT] = 1
                    sums[move * either + turn, KNOWN] = 0.0 if outcome == DRAW else 1.0
        else:
            move = _most_promising(node, moves, rates, turns, c)
            board[moves[move, CELL]] = mover + 1
        after = mover_after(mover, luck, stones, parameters)
        node = move * either + wide(after == mover)
        mover = after
        stones += 1
        depth += 1
        path[depth] = node
        if turns[node, VISITS] == 0 or _is_known(node, turns):
            return depth, mover, stones, count


@compiled
def _play_out(
    board: Cells, mover: int, stones: int, luck: np.uint64, parameters: Parameters, scratch: Cells, empty: Integers
) -> int:
    """Who wins, or ``DRAW``, when both move at random to the end; scratch int8[cells], empty int64[cells]."""
    left = 0
    for cell in range(len(board)):
        scratch[cell] = board[cell]
        empty[left] = cell
        left += board[cell] == 0
    while True:
        chosen = int(uniform(luck, OPPONENT, stones) * left)
        cell = empty[chosen]
        left -= 1
        empty[chosen] = empty[left]
        outcome = place(scratch, mover, cell, stones, parameters)
        if outcome != NOT_OVER:
            return outcome
        mover = mover_after(mover, luck, stones, parameters)
        stones += 1


@inlined
def _pass_back(
    value: float,
    depth: int,
    board: Cells,
    moves: Counts,
    rates: Reals,
    turns: Counts,
    sums: Reals,
    path: Integers,
    parameters: Parameters,
    decisive: bool,
) -> None:
    """Count a visit along a path, take the stones back, and pass on what has become known.

    Args:
        value: of the last node to player_0; not looked at where that node is known.
        depth: the last node's place in the path.
    """
    skip = skip_chance_of(parameters)
    either = 2 if skip > 0 else 1
    for place_in_path in range(depth, -1, -1):
        node = path[place_in_path]
        move = node // either
        sign = 1.0 - 2.0 * moves[move, MAKER]
        turns[node, VISITS] += 1
        if _is_known(node, turns):
            sums[node, SUM] = sums[node, KNOWN] * turns[node, VISITS]
            value = sign * sums[node, KNOWN]
        else:
            sums[node, SUM] += sign * value
        if place_in_path == 0:
            break
        board[moves[move, CELL]] = 0
        first = move * either
        last = first + either - 1
        if decisive and moves[move, SETTLED] == 0 and _is_known(first, turns) and _is_known(last, turns):
            known = sums[first, KNOWN] + skip * (sums[last, KNOWN] - sums[first, KNOWN])
            moves[move, SETTLED] = 1
            rates[move, MEAN] = known
            _settle(path[place_in_path - 1], wide(moves[move, MAKER]), known, either, moves, rates, turns, sums)
        visits = turns[first, VISITS]
        total = sums[first, SUM]
        if either == 2:
            visits += turns[last, VISITS]
            total += sums[last, SUM]
        rates[move, WIDTH] = 1.0 / math.sqrt(visits)
        if moves[move, SETTLED] == 1:
            value = sign * rates[move, MEAN]
        else:
            rates[move, MEAN] = total / visits


@inlined
def _settle(
    node: int, mover: int, known: float, either: int, moves: Counts, rates: Reals, turns: Counts, sums: Reals
) -> None:
    """A move of ``mover`` at a node has become known: so may the node."""
    if known == 1.0:
        turns[node, OPEN] = 0
        turns[node, LIMIT] = turns[node, TRIED]
    else:
        turns[node, OPEN] -= 1
    if turns[node, OPEN] == 0:
        best = known
        move = wide(turns[node, FIRST])
        while move > 0 and known < 1.0:
            best = max(best, rates[move, MEAN])
            move = wide(moves[move, NEXT])
        sums[node, KNOWN] = best if moves[node // either, MAKER] == mover else -best


# ---------------------------------------------------------------------------------------------------------------------
# Many positions


WHOLE, DOWN, BACK = range(3)
"""what :func:`_simulate` does of a simulation"""


@compiled
def _simulate(
    part: int,
    simulations: int,
    done: int,
    keys: Keys,
    cells: Cells,
    stones: Integers,
    counts: Integers,
    trees: Trees,
    parameters: Parameters,
    c: float,
    decisive: bool,
    paths: Integers,
    depths: Integers,
    leaves: Cells,
    movers: Cells,
    values: Reals,
) -> int:
    """Simulations in one tree after another.

    Args:
        part: ``WHOLE`` with random play to the end; or of a simulation that is judged elsewhere the way ``DOWN``, after
            which the stones stay on the boards, and then the way ``BACK``.
        simulations: for every position; 1 of which only a part is done.
        done: how many there were before.
        keys: uint64[B].
        cells: int8[B, rows * columns], the positions.
        stones: int64[B], on them.
        counts: int64[B], rows of ``trees.moves`` in use; there must be room for ``simulations`` more.
        paths, depths: int64[B, cells + 1] and int64[B]: what the way down leaves to the way back.
        leaves, movers: int8[B, cells] and int8[B]: the positions to be judged, in the order of the trees.
        values: float64[A], of these to their movers.

    Returns:
        How many positions are, or were, judged elsewhere.
    """
    all_moves, all_rates, all_turns, all_sums = trees
    size = cells.shape[1]
    empty = np.empty(size, np.int64)
    urgent = np.zeros(size, np.int8)
    scratch = np.zeros(size, np.int8)
    judged = 0
    for b in range(len(cells)):
        board, moves, rates, turns, sums = cells[b], all_moves[b], all_rates[b], all_turns[b], all_sums[b]
        path, depth, count = paths[b], depths[b], counts[b]
        mover, placed = wide(0), wide(0)
        for simulation in range(done, done + simulations):
            luck = splitmix64(keys[b], simulation)
            if part != BACK:
                depth, mover, placed, count = _descend(
                    luck,
                    board,
                    stones[b],
                    count,
                    moves,
                    rates,
                    turns,
                    sums,
                    path,
                    urgent,
                    scratch,
                    parameters,
                    c,
                    decisive,
                )
            value = 0.0
            if not _is_known(path[depth], turns):
                if part == WHOLE:
                    outcome = _play_out(board, mover, placed, luck, parameters, scratch, empty)
                    if outcome != DRAW:
                        value = 1.0 - 2.0 * outcome
                elif part == DOWN:
                    leaves[judged, :] = board
                    movers[judged] = mover
                    judged += 1
                else:
                    value = values[judged] if movers[judged] == 0 else -values[judged]
                    judged += 1
            if part != DOWN:
                _pass_back(value, depth, board, moves, rates, turns, sums, path, parameters, decisive)
        depths[b], counts[b] = depth, count
    return judged


@compiled
def _read(trees: Trees, either: int, visits: Integers, means: Reals, settled: Flags) -> None:
    """Of all moves at the roots: visits int64[B, cells], means float64[B, cells], known or not bool[B, cells]."""
    moves, rates, turns, _ = trees
    for b in range(len(moves)):
        move = wide(turns[b, 0, FIRST])
        while move > 0:
            cell = moves[b, move, CELL]
            for turn in range(either):
                visits[b, cell] += turns[b, move * either + turn, VISITS]
            means[b, cell] = rates[b, move, MEAN]
            settled[b, cell] = moves[b, move, SETTLED] == 1
            move = wide(moves[b, move, NEXT])


# ---------------------------------------------------------------------------------------------------------------------
# Trees that outlive a move


@compiled
def _reached(before: Cells, now: Cells, mover: int, moves: Counts, turns: Counts, either: int) -> int:
    """The node of a kept tree, as `Kept` has it, that is the position (now, mover); -1 where it is not in the tree.

    Several stones of the other player, made one after another through skips, may have come in any order: the one most
    visited is taken.
    """
    maker = wide(moves[0, MAKER])
    left = 0
    for cell in range(len(now)):
        if before[cell] != now[cell]:
            if before[cell] != 0 or now[cell] != 2 - maker:
                return -1
            left += 1
    if left == 0:
        own = wide(mover == maker)
        return own if own < either else -1
    if mover != maker:
        return -1
    node = 0
    while left > 0:
        most = 0
        best = 0
        move = wide(turns[node, FIRST])
        while move > 0:
            cell = moves[move, CELL]
            visits = 0
            for turn in range(either):
                visits += wide(turns[move * either + turn, VISITS])
            if before[cell] != now[cell] and visits > most:
                most = visits
                best = move
            move = wide(moves[move, NEXT])
        left -= 1
        own = wide(left > 0)
        if best == 0 or own >= either:
            return -1
        node = best * either + own
    return node


@compiled
def _copy(move: int, turn: int, old: Trees, row: int, new: Trees, to: int, either: int) -> int:
    """Copy a move of tree ``row`` and all that follows it into the empty tree ``to``; returns the moves copied.

    ``turn`` chooses the turn after the move that becomes turn 0, without the other one; -1 copies both.
    """
    moves, rates, turns, sums = old.moves[row], old.rates[row], old.turns[row], old.sums[row]
    new_moves, new_rates, new_turns, new_sums = new.moves[to], new.rates[to], new.turns[to], new.sums[to]
    origin = np.empty(len(new_moves), np.int64)
    origin[0] = move
    new_moves[0, :] = moves[move]
    new_moves[0, NEXT] = 0
    new_rates[0, :] = rates[move]
    count = 1
    copied = 0
    while copied < count:
        one = turn >= 0 and copied == 0
        for i in range(1 if one else either):
            node = origin[copied] * either + (turn if one else i)
            new_node = copied * either + i
            new_turns[new_node, :] = turns[node]
            new_sums[new_node, :] = sums[node]
            child = wide(turns[node, FIRST])
            if child > 0:
                new_turns[new_node, FIRST] = count
            while child > 0:
                origin[count] = child
                new_rates[count, :] = rates[child]
                new_moves[count, :] = moves[child]
                child = wide(moves[child, NEXT])
                new_moves[count, NEXT] = count + 1 if child > 0 else 0
                count += 1
        copied += 1
    return count


class Search:
    """Trees of B positions, side by side, that grow by as many simulations as they are given.

    >>> boards = Boards.start(Game())
    >>> search = Search(Game(), boards, np.zeros(1, np.uint64))
    >>> search.run(100)
    >>> search.run(200)  # the same as 300 at once
    >>> int(search.visits.sum())
    300

    Args:
        game: what is played.
        boards: positions that are not over.
        keys: uint64[B], what the simulations draw from.
        c: weight of exploration.
        leaf: a policy that judges the leaves of all trees in one call; None for random play to the end.
        decisive: see the module.
        kept: for each position a tree to go on from, where the position is in it; see :meth:`keep`.

    Attributes:
        simulations: how many each position had in this search.
        counts: int64[B]: moves in the trees, and 1 for the root.
    """

    def __init__(
        self,
        game: Game,
        boards: Boards,
        keys: Keys,
        *,
        c: float = 1.4,
        leaf: Values | None = None,
        decisive: bool = True,
        kept: Sequence[Kept | None] | None = None,
    ) -> None:
        check_settings(c=c)
        self.game = game
        self.simulations = 0
        self._boards, self._keys, self._leaf = boards, keys, leaf
        self._settings = (game.parameters, float(c), decisive)
        self._either = 2 if game.skip_chance > 0 else 1
        self._cells = boards.cells.copy()
        self._stones = np.count_nonzero(boards.cells, axis=1)
        count = len(boards.mover)
        self.counts = np.ones(count, np.int64)
        found = [(b, tree) for b, tree in enumerate(kept or ()) if tree is not None]
        self._trees = Trees.empty(count, max([1, *(tree.trees.moves.shape[1] for _, tree in found)]), self._either)
        for b, tree in found:
            self._graft(b, tree)
        self._trees.moves[:, 0, MAKER] = 1 - boards.mover
        paths, depths = np.zeros((count, game.cells + 1), np.int64), np.zeros(count, np.int64)
        self._between = (paths, depths, np.zeros(boards.cells.shape, np.int8), np.zeros(count, np.int8))

    def run(self, simulations: int) -> None:
        """Add simulations to every tree.

        Raises:
            ValueError: fewer than 1.
        """
        check_settings(simulations=simulations)
        self._make_room(simulations)
        fixed = (self._keys, self._cells, self._stones, self.counts, self._trees, *self._settings, *self._between)
        unjudged = np.zeros(0)
        if self._leaf is None:
            _simulate(WHOLE, simulations, self.simulations, *fixed, unjudged)
            self.simulations += simulations
            return
        _, _, leaves, movers = self._between
        for _ in range(simulations):
            asked = int(_simulate(DOWN, 1, self.simulations, *fixed, unjudged))
            values = unjudged
            if asked:
                values = np.asarray(self._leaf.values(Boards(leaves[:asked], movers[:asked])), np.float64)
            _simulate(BACK, 1, self.simulations, *fixed, values)
            self.simulations += 1

    def _make_room(self, simulations: int) -> None:
        """Every simulation adds one move at most; a search in small steps grows by a half at a time."""
        room = self._trees.moves.shape[1]
        needed = int(self.counts.max(initial=1)) + simulations
        if needed > room:
            needed = max(needed, room + room // 2 if self.simulations else 0)
            self._trees = self._trees.resized(needed)

    def keep(self, row: int, cell: int) -> Kept | None:
        """The tree after a move in position ``row``, None where it was never tried, in memory of its own."""
        trees = self._trees
        move = int(trees.turns[row, 0, FIRST])
        while move > 0 and trees.moves[row, move, CELL] != cell:
            move = int(trees.moves[row, move, NEXT])
        if move == 0:
            return None
        new = Trees.empty(1, int(self.counts[row]), self._either)
        count = _copy(move, -1, trees, row, new, 0, self._either)
        cells = self._boards.cells[row].copy()
        cells[cell] = self._boards.mover[row] + 1
        return Kept(cells, new.resized(count))

    def _graft(self, row: int, kept: Kept) -> None:
        """Begin with what a kept tree has of position ``row``, if it has it."""
        trees, mover = kept.trees, int(self._boards.mover[row])
        node = int(_reached(kept.cells, self._cells[row], mover, trees.moves[0], trees.turns[0], self._either))
        if node >= 0:
            move, turn = divmod(node, self._either)
            self.counts[row] = _copy(move, turn, trees, 0, self._trees, row, self._either)
            if turn == 1:  # row 0 stands for a move of the player who is not to move
                self._trees.sums[row, 0] *= -1

    @property
    def visits(self) -> Integers:
        """int64[B, rows * columns]: how often each move was made, with what a kept tree brought."""
        return self._of_moves[0]

    @property
    def action_values(self) -> Reals:
        """float64[B, rows * columns]: the mean result of each move to the mover, NaN where it was not tried."""
        return self._of_moves[1]

    @property
    def settled(self) -> Flags:
        """bool[B, rows * columns]: where the value of a move is no mean but known."""
        return self._of_moves[2]

    @property
    def _of_moves(self) -> tuple[Integers, Reals, Flags]:
        shape = self._cells.shape
        found = np.zeros(shape, np.int64), np.full(shape, np.nan), np.zeros(shape, np.bool_)
        _read(self._trees, self._either, *found)
        return found

    def probabilities(self, temperature: float = 0.0) -> Reals:
        """float64[B, rows * columns]: the most visited move, which several may share; needs a simulation.

        With a temperature the shares go as ``visits ** (1 / temperature)``. Moves known to be worse than another have
        none, nor have others beside one that surely wins, however often they were made before that was known.
        """
        visits, values, settled = self._of_moves
        tried = visits > 0
        worth_at_least = np.where(settled, values, np.where(tried, -1.0, -np.inf)).max(axis=1, keepdims=True)
        uncertain = (tried & ~settled).any(axis=1, keepdims=True)
        worse = np.where(settled, (values < worth_at_least) | ((values == -1) & uncertain), worth_at_least == 1)
        shares = np.where(worse, 0, visits).astype(np.float64)
        shares /= shares.max(axis=1, keepdims=True)
        shares = (shares == 1).astype(np.float64) if temperature == 0 else shares ** (1 / temperature)
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))

    @property
    def values(self) -> Reals:
        """float64[B], to the mover: of the move that :meth:`probabilities` chooses."""
        return np.asarray((self.probabilities() * np.nan_to_num(self.action_values)).sum(axis=1))

    def variation(self, row: int) -> tuple[tuple[int, int], ...]:
        """The moves (mover, cell) most visited from position ``row`` on, after the turn most visited each."""
        moves, _, turns, _ = (array[row] for array in self._trees)
        found = []
        node = 0
        while turns[node, FIRST] > 0:
            tried = []
            move = int(turns[node, FIRST])
            while move > 0:
                tried.append(move)
                move = int(moves[move, NEXT])
            after = turns[:, VISITS].reshape(-1, self._either)[tried]
            best = int(np.argmax(after.sum(axis=1)))
            found.append((int(moves[tried[best], MAKER]), int(moves[tried[best], CELL])))
            node = tried[best] * self._either + int(np.argmax(after[best]))
        return tuple(found)


# ---------------------------------------------------------------------------------------------------------------------
# The policy


def check_settings(simulations: int = 1, c: float = 1.0, temperature: float = 0.0) -> None:
    """Raise ValueError for settings of a search that are out of range."""
    if simulations < 1:
        raise ValueError(f"simulations={simulations} tries no move: choose 1 or more")
    if not 0 <= c < math.inf:
        raise ValueError(f"c={c:g} is no weight of exploration: choose 0 (none) or more, such as 1.4")
    if not 0 <= temperature < math.inf:
        raise ValueError(
            f"temperature={temperature:g} is no temperature: choose 0 (the most visited move) or more, such as 1"
        )


class Analysis(NamedTuple):
    """What a search says of one position."""

    value: float
    """to the mover, of the move chosen: -1 loss to 1 win"""
    action_values: Reals
    """float64[rows * columns], to the mover, NaN where a move was not tried"""
    settled: Flags
    """bool[rows * columns]: where the value is no mean but known"""
    visits: Integers
    """int64[rows * columns]"""
    variation: tuple[tuple[int, int], ...]
    """the moves (mover, cell) most visited; after a skip the same player moves again"""
    nodes: int
    """moves in the tree, and 1 for the root"""


@dataclass(frozen=True)
class MCTS(Named):
    """Monte Carlo tree search: UCT with chance nodes for skipped turns, the most visited move.

    Raises:
        ValueError: a setting out of range, a ``rollout`` that is neither random nor a policy with values.
    """

    name: ClassVar[str] = "mcts"
    pure: ClassVar[bool] = False

    game: Game
    simulations: int = 200
    """for every move"""
    c: float = 1.4
    """weight of exploration"""
    rollout: str | Policy = "random"
    """what judges a leaf: random play to the end, or the values of a policy, as in ``rollout=(run:PATH)``"""
    decisive: bool = True
    """win at once where possible, stop the other player's win first, and pass on what is certain"""
    temperature: float = 0.0
    """0 plays the most visited move, which several may share; else shares go as ``visits ** (1 / temperature)``"""
    reuse: bool = True
    """in matches, go on with the tree of the move before where the position is in it"""

    def __post_init__(self) -> None:
        check_settings(self.simulations, self.c, self.temperature)
        self._leaf  # noqa: B018  # a wrong name is told now

    @cached_property
    def _leaf(self) -> Values | None:
        if self.rollout == "random":
            return None
        try:
            policy = make_policy(self.rollout, self.game)
        except (ValueError, TypeError) as problem:
            raise ValueError(f"rollout={self.rollout} judges no leaves, {problem}") from None
        if not isinstance(policy, Values):
            raise ValueError(
                f"rollout={self.rollout} judges no leaves, it has no values: choose random or a policy that thinks in "
                f"values, as in rollout=(run:PATH)"
            )
        return policy

    def search(self, boards: Boards, keys: Keys, kept: Sequence[Kept | None] | None = None) -> Search:
        """Trees of positions with these settings, without a simulation yet; see :class:`Search`."""
        return Search(self.game, boards, keys, c=self.c, leaf=self._leaf, decisive=self.decisive, kept=kept)

    def groups(self, count: int) -> Iterator[slice]:
        """Rows 0 to ``count - 1`` in groups whose trees fit into ``MEMORY``."""
        step = max(1, MEMORY // Trees.bytes_of(self.simulations + 1, 2))
        for start in range(0, count, step):
            yield slice(start, min(start + step, count))

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Reals:
        """float64[B, rows * columns], from one key of 64 bits a position.

        Raises:
            ValueError: without ``rng``.
        """
        if rng is None:
            raise ValueError(f"{self} draws its simulations: give it rng=np.random.default_rng(seed)")
        out = np.empty(boards.cells.shape)
        for rows, search in self._searches(boards, rng):
            out[rows] = search.probabilities(self.temperature)
        return out

    def values(self, boards: Boards, rng: np.random.Generator | None = None) -> Reals:
        """float64[B], to the mover, of the move chosen; without ``rng`` every position has the key 0."""
        out = np.empty(len(boards.mover))
        for rows, search in self._searches(boards, rng):
            out[rows] = search.values
        return out

    def action_values(self, boards: Boards, rng: np.random.Generator | None = None) -> Reals:
        """float64[B, rows * columns], to the mover, NaN where illegal or not tried; ``rng`` as in :meth:`values`."""
        out = np.empty(boards.cells.shape)
        for rows, search in self._searches(boards, rng):
            out[rows] = search.action_values
        return out

    def analyse(self, position: Position, rng: np.random.Generator | None = None) -> Analysis:
        """All that a search says of one position that is not over; ``rng`` as in :meth:`values`."""
        ((_, search),) = self._searches(Boards.of([position]), rng)
        return Analysis(
            float(search.values[0]),
            search.action_values[0],
            search.settled[0],
            search.visits[0],
            search.variation(0),
            int(search.counts[0]),
        )

    def _searches(self, boards: Boards, rng: np.random.Generator | None) -> Iterator[tuple[slice, Search]]:
        """The rows of each group and their search, done."""
        keys = np.zeros(len(boards.mover), np.uint64) if rng is None else keys_of(rng, len(boards.mover))
        for rows in self.groups(len(keys)):
            search = self.search(Boards(boards.cells[rows], boards.mover[rows]), keys[rows])
            search.run(self.simulations)
            yield rows, search

    def player(self) -> MCTSPlayer:
        """The same with a memory of its trees between moves."""
        return MCTSPlayer(self)


def keys_of(rng: np.random.Generator, count: int) -> Keys:
    """uint64[count], one key of 64 bits for each position."""
    return rng.integers(0, 1 << 64, count, np.uint64)


class MCTSPlayer:
    """Plays games with ``mcts``, going on in each from the tree of the move before.

    Of that tree it keeps what followed the move played; when it is to move again, the position is looked up there,
    through the other player's moves and the skips, and its simulations add to what is known. So a tree holds no more
    moves than the game has had simulations.
    """

    def __init__(self, policy: MCTS) -> None:
        self.policy = policy
        self.kept: dict[int, Kept | None] = {}
        """by slot, what followed the last move"""

    def begin(self, slots: Integers) -> None:
        """New games begin in ``slots`` int64[B]: what was kept there is forgotten."""
        for slot in slots.tolist():
            self.kept.pop(slot, None)

    def act(
        self, boards: Boards, slots: Integers, rng: np.random.Generator, time_left: Reals | None = None
    ) -> Integers:
        """int64[B], a move in each of the games ``slots``; from one key and one uniform number a position.

        ``time_left`` is not looked at: the number of simulations is fixed.
        """
        policy, count = self.policy, len(slots)
        keys, u = keys_of(rng, count), rng.random(count)
        out = np.empty(count, np.int64)
        for rows in policy.groups(count):
            games = slots[rows].tolist()
            kept = [self.kept.pop(game, None) for game in games]
            search = policy.search(Boards(boards.cells[rows], boards.mover[rows]), keys[rows], kept)
            search.run(policy.simulations)
            out[rows] = sample(search.probabilities(policy.temperature), u[rows])
            if policy.reuse:
                for row, game in enumerate(games):
                    self.kept[game] = search.keep(row, int(out[rows][row]))
        return out
