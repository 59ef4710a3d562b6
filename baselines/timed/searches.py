"""Searches around which a clock can be put: what they have in common, and the two that there are."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol, runtime_checkable

import numpy as np

from baselines.expectiminimax import Expectiminimax, Search
from baselines.mcts import MCTS, KeptTree, MCTSSearch, Trees
from ttt_envs.boards import Boards
from ttt_envs.compiling import Reals
from ttt_envs.policy import TIE, Policy, best_shares
from ttt_envs.rules import Position, legal
from ttt_envs.specs import nearest

Now = Callable[[], float]
"""a clock: seconds from some moment on"""
STEP_S = 0.005
"""seconds between two looks at the clock"""
RATE_KEPT = 0.95
"""of the best speed, at every look at the clock after it: slower are those in which others had the core"""
NOISE_S = 0.001
"""a depth that takes less tells nothing of the next"""
FEWEST_NODES = 256
"""positions between two looks, at least"""
FEWEST_SIMULATIONS = 8
LARGEST = 1 << 62
"""a depth without a bound"""
AGREED = 0.1
"""scores of two depths that differ by no more agree"""
TABLE_MIB = 16
"""for the table of a search: to move a larger one into one still larger takes longer than a player in need has"""
TREE_BYTES = 1 << 27
"""for a tree, after which it does not grow: the same"""


class TimedSearch(Protocol):
    """A search of one position that goes deeper for as long as it is let.

    What it finds depends on the position, and on how deep it came, and not on how often it was stopped on the way.
    """

    @property
    def depth(self) -> int:
        """How far it came: plies that are done, or simulations; 0 before the first."""
        ...

    @property
    def next_s(self) -> float:
        """Seconds that one step more is predicted to take; what of it is done is left out."""
        ...

    @property
    def agreed(self) -> int:
        """How many depths, the last included, came to the same move and score; 0 where depths do not compare."""
        ...

    def can_change(self, seconds: float) -> bool:
        """Whether another move may still be chosen if it goes on for so long."""
        ...

    def go_on(self, until: float, most: int = LARGEST) -> bool:
        """Go on until one step more is done, the clock shows ``until``, or the depth is ``most``.

        Returns:
            Whether the step is done.
        """
        ...

    def best(self) -> Reals:
        """float64[rows * columns]: the shares of the moves to play, after the first step at the earliest."""
        ...

    def reply(self, cell: int, going: Callable[[], bool]) -> int | None:
        """The likeliest answer to a move, None where there is none; may think about it while ``going()``."""
        ...


@runtime_checkable
class CanBeTimed(Protocol):
    """A policy of another kind around whose search a clock can be put."""

    def begin_timed(
        self, position: Position, key: np.uint64, before: tuple[TimedSearch, int] | None, now: Now
    ) -> TimedSearch:
        """A search of a position that is not over.

        Args:
            position: to be searched.
            key: for what is drawn.
            before: the search of the same player's position before in this game, and the move chosen; None where there
                is none.
            now: the clock.
        """
        ...


def begin_timed(
    policy: Policy, position: Position, key: np.uint64, before: tuple[TimedSearch, int] | None, now: Now
) -> TimedSearch:
    """A search of a position by a policy; see :class:`CanBeTimed`."""
    if isinstance(policy, Expectiminimax):
        return Deepening(policy, position, key, now)
    if isinstance(policy, MCTS):
        kept = before[0].after(before[1]) if before is not None and isinstance(before[0], Sampling) else None
        return Sampling(policy, position, key, kept, now)
    assert isinstance(policy, CanBeTimed)
    return policy.begin_timed(position, key, before, now)


def check_can_be_timed(policy: Policy, name: str) -> None:
    """Raise ValueError for a policy without a search around which a clock can be put."""
    if not isinstance(policy, Expectiminimax | MCTS | CanBeTimed):
        raise ValueError(
            f"search={name} has no search that could be stopped: {nearest(str(name), ('expectiminimax', 'mcts'))}"
        )


# ---------------------------------------------------------------------------------------------------------------------
# Expectiminimax


class Deepening:
    """``expectiminimax`` to depth 1, 2, 3, ..., each with what the one before has left in the table.

    One more depth is predicted to take ``t(i) * t(i) / t(i - 1)`` (Hsu, Theory of Computer Games: time usage). Of a
    depth that is not done, the moves that are count where the best move of the depth before is among them: it is
    looked at first, and if another one is better then it is better by one ply more. Where even the first is not done,
    the depth before decides.

    With leaves of another policy a depth cannot be stopped.
    """

    def __init__(self, policy: Expectiminimax, position: Position, key: np.uint64, now: Now) -> None:
        self._policy, self._position, self._key, self._now = policy, position, key, now
        self._boards = Boards.of([position])
        self._search = None if policy.leaf is not None else self._searched(self._boards)
        self._empty = int(np.count_nonzero(position.cells == 0))
        self._values = np.full(policy.game.cells, np.nan)
        self._first = -1
        self._taken = [0.0, 0.0]
        """seconds for the last two depths"""
        self._spent = 0.0
        """seconds for what is done of the next"""
        self._nodes, self._rate = FEWEST_NODES, 0.0
        """positions to look at before the next look at the clock, and a second"""
        self.depth = 0
        self.agreed = 0

    def _searched(self, boards: Boards) -> Search:
        return self._policy.search(boards, self._keys, every_move=False, most=TABLE_MIB)

    @property
    def next_s(self) -> float:
        """By the last two depths, of which the former counts for a millisecond at least: no less than the last took.

        After the first depth it is what that took, with unpruned leaves times the moves.
        """
        before, last = self._taken
        growth = last / max(before, NOISE_S)
        if self.depth < 2:
            growth = self._empty if self._search is None else 1.0
        return max(0.0, last * max(1.0, growth) - self._spent)

    def can_change(self, seconds: float) -> bool:
        """Whether it is not decided, however long it takes.

        Decided is a search to the end, a win at once and, where no turn can be skipped, a win or loss by force, and a
        position in which all moves but one lose.
        """
        if self.depth == 0:
            return True
        value = float(np.nanmax(self._values))
        if self.depth >= self._empty or value >= self.depth - TIE:
            return False
        if self._policy.game.skip_chance > 0 or self._policy.leaf is not None:
            return True
        return abs(value) < 1 - TIE and int(np.sum(self._values > TIE - 1)) > 1

    def go_on(self, until: float, most: int = LARGEST) -> bool:
        """One ply deeper, or what there is time for."""
        if self.depth >= min(self._empty, most):
            return False
        begun = self._now()
        if self._search is None:
            values = self._policy._search(self._boards, self._keys, self.depth + 1, every_move=False)[0][0]
            self._spent = self._now() - begun
        else:
            if not self._stretch(self._search, begun, until):
                return False
            values = self._search.move_values[0].copy()
        self._done(values)
        return True

    @property
    def _keys(self) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
        return np.full(1, self._key, np.uint64)

    def _stretch(self, search: Search, begun: float, until: float) -> bool:
        spent, now = self._spent, begun
        while True:
            looked, nodes = now, int(search.nodes[0])
            done = search.run(self.depth + 1, self._nodes)
            now = self._now()
            self._spent = spent + now - begun
            if done:
                return True
            held_up = now - looked if now - looked > 2 * STEP_S else 0.0  # others run on this core: it may come again
            if now + held_up >= until:
                return False
            if now > looked:
                self._rate = max(RATE_KEPT * self._rate, (int(search.nodes[0]) - nodes) / (now - looked))
            self._nodes = max(FEWEST_NODES, int(self._rate * min(STEP_S, (until - now) / 2)))

    def _done(self, values: Reals) -> None:
        """One more depth is done."""
        first = int(np.nanargmax(values))
        same = first == self._first and abs(np.nanmax(values) - np.nanmax(self._values)) <= AGREED
        self.agreed = self.agreed + 1 if same else 1
        self._values, self._first = values, first
        self._taken = [self._taken[1], self._spent]
        self._spent = 0.0
        self.depth += 1

    def best(self) -> Reals:
        """The best moves of the last depth, or of the one that was begun, as above."""
        values = self._values
        if self._search is not None and self._search.depth > self.depth:
            begun = self._search.move_values[0]
            if np.isfinite(begun[self._first]):
                values = begun
        return np.asarray(best_shares(values[None], self._policy.tie)[0])

    def reply(self, cell: int, going: Callable[[], bool]) -> int | None:
        """The best answer, searched one ply less deeply."""
        cells = self._position.cells.copy()
        cells[cell] = self._position.mover + 1
        boards = Boards.of([Position(cells, 1 - self._position.mover)])
        depth = max(1, self.depth - 1)
        if self._search is None:
            return int(np.nanargmax(self._policy._search(boards, self._keys, 1, every_move=False)[0][0]))
        search = self._searched(boards)
        for one in range(1, depth + 1):
            while not search.run(one, max(FEWEST_NODES, self._nodes)):
                if not going():
                    return None
        return int(np.nanargmax(search.move_values[0]))


# ---------------------------------------------------------------------------------------------------------------------
# Monte Carlo tree search


class Sampling:
    """``mcts``, some simulations at a time, on a tree that goes on from that of the move before."""

    agreed = 0

    def __init__(self, policy: MCTS, position: Position, key: np.uint64, kept: KeptTree | None, now: Now) -> None:
        self._policy, self._position, self._now = policy, position, now
        boards = Boards.of([position])
        self._search: MCTSSearch = policy.search(boards, np.array([key], np.uint64), [kept] if policy.reuse else None)
        self._turns = 2 if policy.game.skip_chance > 0 else 1
        self._legal = legal(policy.game, position.cells)
        self._simulations, self._rate = FEWEST_SIMULATIONS, 0.0
        self._spent = 0.0
        self._after: dict[int, KeptTree | None] = {}
        self.next_s = 0.0

    @property
    def depth(self) -> int:
        """Simulations of this search."""
        return self._search.simulations

    @property
    def _full(self) -> bool:
        return Trees.bytes_of(int(self._search.counts[0]) + self._simulations, self._turns) > TREE_BYTES

    def can_change(self, seconds: float) -> bool:
        """Whether the most visited move can still be overtaken at this speed, and not all is known."""
        if self._full:
            return False
        if self.depth == 0:
            return True
        visits, values, settled = (of_moves[0] for of_moves in self._search._of_moves)
        if settled[self._legal].all() or (settled & (values == 1)).any():
            return False
        if self._policy.temperature > 0 or not math.isfinite(seconds):
            return True
        visits = np.sort(visits[self._legal])
        lead = visits[-1] - visits[-2] if len(visits) > 1 else math.inf
        rate = self.depth / self._spent if self._spent > 0 else math.inf
        return bool(lead <= rate * max(0.0, seconds))

    def go_on(self, until: float, most: int = LARGEST) -> bool:
        """Some simulations more, of about :data:`STEP_S`, or of what there is time for."""
        simulations = min(self._simulations, most - self.depth)
        if self._full or simulations < 1:
            return False
        begun = self._now()
        in_time = self._rate * (until - begun)
        if self._rate > 0 and in_time < simulations:
            simulations = min(simulations, max(FEWEST_SIMULATIONS, int(in_time)))
        self._search.run(simulations)
        taken = self._now() - begun
        self._spent += taken
        self.next_s = taken
        if taken > 0:
            self._rate = max(RATE_KEPT * self._rate, simulations / taken)
        most = max(FEWEST_SIMULATIONS, int(self._rate * STEP_S))
        self._simulations = min(2 * self._simulations, most)
        return True

    def best(self) -> Reals:
        """As of the policy."""
        return np.asarray(self._search.probabilities(self._policy.temperature)[0])

    def reply(self, cell: int, going: Callable[[], bool]) -> int | None:
        """What was visited most after the move, where that is a turn of the opponent's."""
        line = self._search.variation(0)
        if len(line) < 2 or line[0][1] != cell or line[1][0] == self._position.mover:
            return None
        return line[1][1]

    def after(self, cell: int) -> KeptTree | None:
        """The tree after a move."""
        if cell not in self._after:
            self._after[cell] = self._search.keep(0, cell)
        return self._after[cell]
