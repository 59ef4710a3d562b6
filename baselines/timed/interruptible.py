"""The interface of interruptible searches, and its implementations for expectiminimax and MCTS."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol, runtime_checkable

import numpy as np

from baselines.expectiminimax import Expectiminimax, Search
from baselines.mcts import MCTS, MCTSSearch, SavedSubtree, Tree
from ttt_envs.agents.policy import VALUE_TOLERANCE, Policy, best_shares
from ttt_envs.core.checks import closest_names
from ttt_envs.core.jit import Float64Array
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Position
from ttt_envs.game.rules import legal

Now = Callable[[], float]
"""a clock: seconds from any starting point"""
STEP_S = 0.005
"""Interval in seconds between two checks of the clock."""
RATE_DECAY = 0.95
"""Decay of the best measured speed per check of the clock; lower speeds are due to other processes."""
NOISE_S = 0.001
"""Minimum duration in seconds of a depth for a prediction of the next."""
MIN_NODES = 256
"""Minimum number of positions between two checks of the clock."""
MIN_SIMULATIONS = 8
UNBOUNDED_DEPTH = 1 << 62
"""a depth without a bound"""
AGREEMENT_TOLERANCE = 0.1
"""Maximum difference of scores of two depths that agree."""
TABLE_MIB = 16
"""Maximum size of a search's table in MiB: growing a larger one takes longer than a player in time trouble has."""
TREE_BYTES = 1 << 27
"""Size of a tree in bytes beyond which it does not grow, for the same reason."""


class TimedSearch(Protocol):
    """An interruptible search of one position that deepens as long as it is called.

    Its result depends on the position and the depth, and not on interruptions.
    """

    @property
    def depth(self) -> int:
        """Number of finished plies or simulations; 0 before the first."""
        ...

    @property
    def next_s(self) -> float:
        """Predicted seconds for the rest of the next step."""
        ...

    @property
    def num_agreeing(self) -> int:
        """Number of consecutive depths, including the last, with the same move and score; 0 if not comparable."""
        ...

    def can_change(self, seconds: float) -> bool:
        """Return whether ``seconds`` more may still change the move."""
        ...

    def search_until(self, until: float, most: int = UNBOUNDED_DEPTH) -> bool:
        """Continue until one more step is finished, the clock shows ``until``, or the depth is ``most``.

        Returns:
            Whether the step is finished.
        """
        ...

    def best(self) -> Float64Array:
        """Return float64[rows * columns]: the shares of the moves to play; needs the first step."""
        ...

    def reply(self, cell: int, going: Callable[[], bool]) -> int | None:
        """Return the likeliest reply to a move, None if there is none; may search for it while ``going()``."""
        ...


@runtime_checkable
class Interruptible(Protocol):
    """A further policy whose search can be timed."""

    def begin_timed(
        self, position: Position, key: np.uint64, before: tuple[TimedSearch, int] | None, now: Now
    ) -> TimedSearch:
        """Start a search of a position that is not over.

        Args:
            position: the position.
            key: for random numbers.
            before: the search of the same player's previous position in this game, and the move chosen; None if there
                is none.
            now: the clock.
        """
        ...


def begin_timed(
    policy: Policy, position: Position, key: np.uint64, before: tuple[TimedSearch, int] | None, now: Now
) -> TimedSearch:
    """Start a policy's search of a position; see :class:`Interruptible`."""
    if isinstance(policy, Expectiminimax):
        return Deepening(policy, position, key, now)
    if isinstance(policy, MCTS):
        subtree = before[0].after(before[1]) if before is not None and isinstance(before[0], Sampling) else None
        return Sampling(policy, position, key, subtree, now)
    assert isinstance(policy, Interruptible)
    return policy.begin_timed(position, key, before, now)


def check_interruptible(policy: Policy, name: str) -> None:
    """Raise ValueError for a policy without an interruptible search."""
    if not isinstance(policy, Expectiminimax | MCTS | Interruptible):
        raise ValueError(
            f"search={name} has no search that could be stopped: {closest_names(str(name), ('expectiminimax', 'mcts'))}"
        )


# ---------------------------------------------------------------------------------------------------------------------
# Expectiminimax


class Deepening:
    """Iterative deepening of ``expectiminimax``: depths 1, 2, 3, ..., which share the transposition table.

    The next depth is predicted to take ``t(i) * t(i) / t(i - 1)`` (Hsu, Theory of Computer Games: time usage). The
    moves of an unfinished depth count if the best move of the previous depth is among them: that move is searched
    first, so a better one is better at the new depth. If even the first is not finished, the previous depth decides.

    With a leaf policy, a depth cannot be interrupted.
    """

    def __init__(self, policy: Expectiminimax, position: Position, key: np.uint64, now: Now) -> None:
        self._policy, self._position, self._key, self._now = policy, position, key, now
        self._boards = Boards.from_positions([position])
        self._search = None if policy.leaf is not None else self._make_search(self._boards)
        self._empty = int(np.count_nonzero(position.cells == 0))
        self._values = np.full(policy.game.cells, np.nan)
        self._first = -1
        self._taken = [0.0, 0.0]
        """seconds for the last two depths"""
        self._spent = 0.0
        """seconds spent on the unfinished next depth"""
        self._nodes, self._rate = MIN_NODES, 0.0
        """number of positions until the next check of the clock, and per second"""
        self.depth = 0
        self.num_agreeing = 0

    def _make_search(self, boards: Boards) -> Search:
        return self._policy.search(boards, self._keys, every_move=False, most=TABLE_MIB)

    @property
    def next_s(self) -> float:
        """Predicted from the last two depths, with at least a millisecond for the former; at least the last duration.

        After the first depth, it is that depth's duration; with leaf policies, times the number of moves.
        """
        before, last = self._taken
        growth = last / max(before, NOISE_S)
        if self.depth < 2:
            growth = self._empty if self._search is None else 1.0
        return max(0.0, last * max(1.0, growth) - self._spent)

    def can_change(self, seconds: float) -> bool:
        """Return whether the position is still undecided, for any amount of time.

        It is decided after a search to the end, by an immediate win and, without skips, by a forced win or loss, or if
        all moves but one lose.
        """
        if self.depth == 0:
            return True
        value = float(np.nanmax(self._values))
        if self.depth >= self._empty or value >= self.depth - VALUE_TOLERANCE:
            return False
        if self._policy.game.skip_chance > 0 or self._policy.leaf is not None:
            return True
        return abs(value) < 1 - VALUE_TOLERANCE and int(np.sum(self._values > VALUE_TOLERANCE - 1)) > 1

    def search_until(self, until: float, most: int = UNBOUNDED_DEPTH) -> bool:
        """Search one ply deeper, or a part of it within the time limit."""
        if self.depth >= min(self._empty, most):
            return False
        start = self._now()
        if self._search is None:
            values = self._policy._search(self._boards, self._keys, self.depth + 1, every_move=False)[0][0]
            self._spent = self._now() - start
        else:
            if not self._stretch(self._search, start, until):
                return False
            values = self._search.move_values[0].copy()
        self._done(values)
        return True

    @property
    def _keys(self) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
        return np.full(1, self._key, np.uint64)

    def _stretch(self, search: Search, start: float, until: float) -> bool:
        spent, now = self._spent, start
        while True:
            checked_at, nodes = now, int(search.nodes[0])
            done = search.run(self.depth + 1, self._nodes)
            now = self._now()
            self._spent = spent + now - start
            if done:
                return True
            held_up = now - checked_at if now - checked_at > 2 * STEP_S else 0.0  # delays by other processes may recur
            if now + held_up >= until:
                return False
            if now > checked_at:
                self._rate = max(RATE_DECAY * self._rate, (int(search.nodes[0]) - nodes) / (now - checked_at))
            self._nodes = max(MIN_NODES, int(self._rate * min(STEP_S, (until - now) / 2)))

    def _done(self, values: Float64Array) -> None:
        """Update after a finished depth."""
        first = int(np.nanargmax(values))
        same = first == self._first and abs(np.nanmax(values) - np.nanmax(self._values)) <= AGREEMENT_TOLERANCE
        self.num_agreeing = self.num_agreeing + 1 if same else 1
        self._values, self._first = values, first
        self._taken = [self._taken[1], self._spent]
        self._spent = 0.0
        self.depth += 1

    def best(self) -> Float64Array:
        """Return the best moves of the last depth, or of an unfinished one, see the class."""
        values = self._values
        if self._search is not None and self._search.depth > self.depth:
            unfinished = self._search.move_values[0]
            if np.isfinite(unfinished[self._first]):
                values = unfinished
        return np.asarray(best_shares(values[None], self._policy.tie)[0])

    def reply(self, cell: int, going: Callable[[], bool]) -> int | None:
        """Return the best reply, searched one ply less deeply."""
        cells = self._position.cells.copy()
        cells[cell] = self._position.mover + 1
        boards = Boards.from_positions([Position(cells, 1 - self._position.mover)])
        depth = max(1, self.depth - 1)
        if self._search is None:
            return int(np.nanargmax(self._policy._search(boards, self._keys, 1, every_move=False)[0][0]))
        search = self._make_search(boards)
        for one in range(1, depth + 1):
            while not search.run(one, max(MIN_NODES, self._nodes)):
                if not going():
                    return None
        return int(np.nanargmax(search.move_values[0]))


# ---------------------------------------------------------------------------------------------------------------------
# Monte Carlo tree search


class Sampling:
    """``mcts`` in small steps, on a tree that continues the one of the previous move."""

    num_agreeing = 0

    def __init__(
        self, policy: MCTS, position: Position, key: np.uint64, subtree: SavedSubtree | None, now: Now
    ) -> None:
        self._policy, self._position, self._now = policy, position, now
        boards = Boards.from_positions([position])
        self._search: MCTSSearch = policy.search(
            boards, np.array([key], np.uint64), [subtree] if policy.reuse else None
        )
        self._turns = 2 if policy.game.skip_chance > 0 else 1
        self._legal = legal(policy.game, position.cells)
        self._simulations, self._rate = MIN_SIMULATIONS, 0.0
        self._spent = 0.0
        self._after: dict[int, SavedSubtree | None] = {}
        self.next_s = 0.0

    @property
    def depth(self) -> int:
        """Number of simulations of this search."""
        return self._search.simulations

    @property
    def _full(self) -> bool:
        return Tree.num_bytes(int(self._search.counts[0]) + self._simulations, self._turns) > TREE_BYTES

    def can_change(self, seconds: float) -> bool:
        """Return whether the most visited move can still be overtaken at this speed, and the position is unsolved."""
        if self._full:
            return False
        if self.depth == 0:
            return True
        visits, values, solved = (of_moves[0] for of_moves in self._search.root_moves)
        if solved[self._legal].all() or (solved & (values == 1)).any():
            return False
        if self._policy.temperature > 0 or not math.isfinite(seconds):
            return True
        visits = np.sort(visits[self._legal])
        lead = visits[-1] - visits[-2] if len(visits) > 1 else math.inf
        rate = self.depth / self._spent if self._spent > 0 else math.inf
        return bool(lead <= rate * max(0.0, seconds))

    def search_until(self, until: float, most: int = UNBOUNDED_DEPTH) -> bool:
        """Run simulations for about :data:`STEP_S`, or for the time left."""
        simulations = min(self._simulations, most - self.depth)
        if self._full or simulations < 1:
            return False
        start = self._now()
        in_time = self._rate * (until - start)
        if self._rate > 0 and in_time < simulations:
            simulations = min(simulations, max(MIN_SIMULATIONS, int(in_time)))
        self._search.run(simulations)
        taken = self._now() - start
        self._spent += taken
        self.next_s = taken
        if taken > 0:
            self._rate = max(RATE_DECAY * self._rate, simulations / taken)
        most = max(MIN_SIMULATIONS, int(self._rate * STEP_S))
        self._simulations = min(2 * self._simulations, most)
        return True

    def best(self) -> Float64Array:
        """Return the probabilities of the policy."""
        return np.asarray(self._search.probabilities(self._policy.temperature)[0])

    def reply(self, cell: int, going: Callable[[], bool]) -> int | None:
        """Return the most visited move after the given one, if it is the opponent's."""
        line = self._search.variation(0)
        if len(line) < 2 or line[0][1] != cell or line[1][0] == self._position.mover:
            return None
        return line[1][1]

    def after(self, cell: int) -> SavedSubtree | None:
        """Return the subtree of a move."""
        if cell not in self._after:
            self._after[cell] = self._search.subtree(0, cell)
        return self._after[cell]
