"""Searches that deepen as long as the clock allows: iterative deepening of expectiminimax, and simulations of MCTS."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np

from baselines.expectiminimax import Expectiminimax, Search
from baselines.mcts import MCTS, Tree
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
MIN_NODES, MIN_SIMULATIONS = 256, 8
"""Minimum number of positions, or of simulations, between two checks of the clock."""
UNBOUNDED_DEPTH = 1 << 62
"""a depth without a bound"""
AGREEMENT_TOLERANCE = 0.1
"""Maximum difference of scores of two depths that agree."""
TABLE_MIB = 16
"""Maximum size of a search's table in MiB: growing a larger one takes longer than a player in time trouble has."""
TREE_BYTES = 1 << 27
"""Size of a tree in bytes beyond which it does not grow, for the same reason."""


class TimedSearch(ABC):
    """A search of one position that deepens as long as it is called: in plies, or in simulations.

    Its result depends on the position and the depth, and not on interruptions.

    Args:
        min_work: minimum number of positions or simulations between two checks of the clock.
        max_depth: depth of a complete search.
        now: the clock.

    Attributes:
        depth: number of finished plies or simulations; 0 before the first.
        num_agreeing: number of consecutive depths, including the last, with the same move and score; 0 if not
            comparable.
    """

    def __init__(self, min_work: int, max_depth: int, now: Now) -> None:
        self._min_work, self._max_depth, self._now = min_work, max_depth, now
        self.depth = self.num_agreeing = 0
        self._work, self._rate = min_work, 0.0
        """number of positions or simulations until the next check of the clock, and per second"""
        self._total_s = self._spent = 0.0
        """seconds spent on all steps, and on the unfinished one"""
        self._durations = 0.0, 0.0
        """seconds for the last two steps"""
        self._first_growth = 1.0
        """predicted ratio of the durations of the second step and the first"""

    @abstractmethod
    def can_change(self, seconds: float) -> bool:
        """Return whether ``seconds`` more may still change the move."""

    @abstractmethod
    def best(self) -> Float64Array:
        """Return float64[rows * columns]: the shares of the moves to play; needs the first step."""

    @abstractmethod
    def reply(self, cell: int, going: Callable[[], bool]) -> int | None:
        """Return the likeliest reply to a move, None if there is none; may search for it while ``going()``."""

    @abstractmethod
    def _run(self, work: int, most: int) -> tuple[bool, int]:
        """Do some work, up to the depth ``most``; return whether the step is finished, and how much work was done."""

    @property
    def next_s(self) -> float:
        """Predicted seconds for the rest of the next step: ``t(i) * t(i) / t(i - 1)``, and at least ``t(i)``.

        The former duration counts as a millisecond or more (Hsu, Theory of Computer Games: time usage).
        """
        before, last = self._durations
        growth = self._first_growth if self.depth < 2 else last / max(before, NOISE_S)
        return max(0.0, last * max(1.0, growth) - self._spent)

    def search_until(self, until: float, most: int = UNBOUNDED_DEPTH) -> bool:
        """Continue until one more step is finished, the clock shows ``until``, or the depth is ``most``.

        Returns:
            Whether the step is finished.
        """
        if self.depth >= min(most, self._max_depth):
            return False
        now = self._now()
        while True:
            checked_at = now
            self._work = max(self._min_work, int(self._rate * min(STEP_S, (until - now) / 2)))
            is_finished, work = self._run(self._work, min(most, self._max_depth))
            now = self._now()
            self._spent, self._total_s = self._spent + now - checked_at, self._total_s + now - checked_at
            if now > checked_at:
                self._rate = max(RATE_DECAY * self._rate, work / (now - checked_at))
            if is_finished:
                self._spent, self._durations = 0.0, (self._durations[1], self._spent)
                return True
            delay = now - checked_at if now - checked_at > 2 * STEP_S else 0.0  # by other processes: it may recur
            if now + delay >= until:
                return False


class IterativeDeepening(TimedSearch):
    """Iterative deepening of ``expectiminimax``: depths 1, 2, 3, ..., which share the transposition table.

    The moves of an unfinished depth count if the best move of the previous depth is among them: that move is searched
    first, so a better one is better at the new depth. If even the first is not finished, the previous depth decides.

    With a leaf policy, a depth cannot be interrupted.
    """

    def __init__(self, policy: Expectiminimax, position: Position, key: np.uint64, now: Now) -> None:
        super().__init__(MIN_NODES, int(np.count_nonzero(position.cells == 0)), now)
        self._policy, self._position, self._key = policy, position, key
        self._search = None if policy.leaf is not None else self._make_search(position)
        if self._search is None:
            self._first_growth = self._max_depth
        self._values = self._next_values = np.full(policy.game.cells, np.nan)
        self._best_cell = -1

    # the calls of expectiminimax

    def _make_search(self, position: Position) -> Search:
        keys = np.full(1, self._key, np.uint64)
        return self._policy.search(Boards.from_positions([position]), keys, every_move=False, most=TABLE_MIB)

    def _search_by_leaves(self, position: Position, depth: int) -> Float64Array:
        """Return the values of the moves of a search with a leaf policy."""
        keys = np.full(1, self._key, np.uint64)
        return np.asarray(self._policy._search(Boards.from_positions([position]), keys, depth, every_move=False)[0][0])

    def _run(self, work: int, most: int) -> tuple[bool, int]:
        is_finished, nodes = True, 0
        if self._search is None:
            self._next_values = self._search_by_leaves(self._position, self.depth + 1)
        else:
            nodes = -int(self._search.nodes[0])
            is_finished = self._search.run(self.depth + 1, work)
            nodes += int(self._search.nodes[0])
            self._next_values = self._search.move_values[0].copy()
        if is_finished:
            cell = int(np.nanargmax(self._next_values))
            is_same = cell == self._best_cell
            if is_same and abs(self._next_values[cell] - np.nanmax(self._values)) <= AGREEMENT_TOLERANCE:
                self.num_agreeing += 1
            else:
                self.num_agreeing = 1
            self._values, self._best_cell = self._next_values, cell
            self.depth += 1
        return is_finished, nodes

    def can_change(self, seconds: float) -> bool:
        """Return whether the position is still undecided, for any amount of time.

        It is decided after a search to the end, by an immediate win and, without skips, by a forced win or loss, or if
        all moves but one lose.
        """
        if self.depth == 0:
            return True
        value = float(np.nanmax(self._values))
        if self.depth >= self._max_depth or value >= self.depth - VALUE_TOLERANCE:
            return False
        if self._policy.game.skip_chance > 0 or self._policy.leaf is not None:
            return True
        return abs(value) < 1 - VALUE_TOLERANCE and int(np.sum(self._values > VALUE_TOLERANCE - 1)) > 1

    def best(self) -> Float64Array:
        """Return the best moves of the last depth, or of an unfinished one, see the class."""
        counts = self._best_cell >= 0 and np.isfinite(self._next_values[self._best_cell])
        return np.asarray(best_shares((self._next_values if counts else self._values)[None], self._policy.tie)[0])

    def reply(self, cell: int, going: Callable[[], bool]) -> int | None:
        """Return the best reply, searched one ply less deeply."""
        cells = self._position.cells.copy()
        cells[cell] = self._position.mover + 1
        position = Position(cells, 1 - self._position.mover)
        if self._search is None:
            return int(np.nanargmax(self._search_by_leaves(position, 1)))
        search = self._make_search(position)
        for depth in range(1, max(1, self.depth - 1) + 1):
            while not search.run(depth, max(MIN_NODES, self._work)):
                if not going():
                    return None
        return int(np.nanargmax(search.move_values[0]))


class MCTSTimedSearch(TimedSearch):
    """``mcts`` in small steps, on a tree that continues the one of the previous move."""

    def __init__(self, policy: MCTS, position: Position, key: np.uint64, before: Tree | None, now: Now) -> None:
        self._policy, self._position = policy, position
        trees = [before] if policy.reuse else ()
        self._search = policy.search(Boards.from_positions([position]), np.array([key], np.uint64), trees)
        turns = 2 if policy.game.skip_chance > 0 else 1
        room = TREE_BYTES // Tree.num_bytes(1, turns) - int(self._search.tree.counts[0])
        super().__init__(MIN_SIMULATIONS, max(MIN_SIMULATIONS, room), now)
        self._legal = legal(policy.game, position.cells)

    # the calls of mcts

    def _run(self, work: int, most: int) -> tuple[bool, int]:
        simulations = min(work, most - self.depth)
        self._search.run(simulations)
        self.depth += simulations
        return True, simulations

    @property
    def next_s(self) -> float:
        """Duration of the last step."""
        return self._durations[1]

    @property
    def tree(self) -> Tree:
        """The tree so far."""
        return self._search.tree

    def can_change(self, seconds: float) -> bool:
        """Return whether the most visited move can still be overtaken at this speed, and the position is unsolved."""
        if self.depth == 0 or self.depth >= self._max_depth:
            return self.depth == 0
        visits, values, solved = (of_moves[0] for of_moves in self._search.root_moves)
        if solved[self._legal].all() or (solved & (values == 1)).any():
            return False
        if self._policy.temperature > 0 or not math.isfinite(seconds):
            return True
        visits = np.sort(visits[self._legal])
        lead = visits[-1] - visits[-2] if len(visits) > 1 else math.inf
        rate = self.depth / self._total_s if self._total_s > 0 else math.inf
        return bool(lead <= rate * max(0.0, seconds))

    def best(self) -> Float64Array:
        """Return the probabilities of the policy."""
        return np.asarray(self._search.probabilities(self._policy.temperature)[0])

    def reply(self, cell: int, going: Callable[[], bool]) -> int | None:
        """Return the most visited move after the given one, if it is the opponent's."""
        line = self._search.variation(0)
        if len(line) < 2 or line[0][1] != cell or line[1][0] == self._position.mover:
            return None
        return line[1][1]


def begin_timed(
    policy: Policy, position: Position, key: np.uint64, before: tuple[TimedSearch, int] | None, now: Now
) -> TimedSearch:
    """Start a policy's search of a position that is not over.

    Args:
        policy: ``expectiminimax`` or ``mcts``.
        position: the position.
        key: for random numbers.
        before: the search of the same player's previous position in this game, and the move chosen; None if there is
            none.
        now: the clock.
    """
    if isinstance(policy, Expectiminimax):
        return IterativeDeepening(policy, position, key, now)
    assert isinstance(policy, MCTS)
    tree = before[0].tree if before and isinstance(before[0], MCTSTimedSearch) else None
    return MCTSTimedSearch(policy, position, key, tree, now)


def check_interruptible(policy: Policy, name: str) -> None:
    """Raise ValueError for a policy without a search that can be stopped."""
    if not isinstance(policy, Expectiminimax | MCTS):
        raise ValueError(
            f"search={name} has no search that could be stopped: {closest_names(str(name), ('expectiminimax', 'mcts'))}"
        )
