"""The MCTS policy, and a player that reuses trees between moves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from baselines.exact.tablebase import Tablebase
from baselines.mcts.search import MCTSSearch, check_settings
from baselines.mcts.tree import Tree
from ttt_envs.agents.policy import ALL_VARIANTS, Evaluator, Player, Policy, Values, need_rng, sample
from ttt_envs.agents.specs import Named, make_values
from ttt_envs.core.checks import check_properties
from ttt_envs.core.jit import Float64Array, Int64Array, UInt64Array
from ttt_envs.core.random import draw_keys
from ttt_envs.core.work import Threads, count_threads
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game, Position

MEMORY = 1 << 28
"""Maximum bytes of the trees of a batch; larger batches are searched in groups."""


@dataclass(frozen=True)
class MCTS(Named):
    """Monte Carlo tree search: UCT with chance nodes for skipped turns, playing the most visited
    move.

    Raises:
        ValueError: a setting is out of range, or ``rollout`` is neither random nor a policy with
            values.
    """

    name: ClassVar[str] = "mcts"
    variants = ALL_VARIANTS
    test_specs = ("mcts:simulations=64", "mcts:simulations=8,rollout=(run:{alpha-zero})")
    refusals: ClassVar = {"hidden": "it reads the whole board, to search the moves of both players"}

    game: Game
    simulations: int = 200
    """number of simulations per move"""
    c: float = 1.4
    """exploration weight"""
    rollout: str | Policy = "random"
    """evaluation of a leaf: random play to the end, or the values of a policy, as in
    ``rollout=(run:PATH)``; moves have equal priors, or those of a policy that has some, such as a
    run of alpha-zero"""
    decisive: bool = True
    """win at once if possible, without skips block the other player's win, and propagate solved
    values
    """
    temperature: float = 0.0
    """0 plays the most visited move, with equal shares for ties; else shares are ``visits ** (1 /
    temperature)``
    """
    reuse: bool = True
    """in matches, continue the tree of the previous move if the position is in it"""
    endgame: str | None = None
    """a folder built by evaluate.py database build, whose positions count as solved"""
    threads: Threads = 1
    """number of threads that search a batch of positions, or auto for one per core; results do not
    depend on it
    """

    def __post_init__(self) -> None:
        check_settings(self.simulations, self.c, self.temperature)
        count_threads(self.threads)
        check_properties(self, "_leaf", "_database")

    @cached_property
    def pure(self) -> bool:  # type: ignore[override]  # computed
        """Whether a network guides the search, which then draws no random numbers."""
        return self._leaf is not None and isinstance(self._leaf, Evaluator)

    @cached_property
    def _database(self) -> Tablebase | None:
        return None if self.endgame is None else Tablebase(self.endgame, self.game)

    @cached_property
    def _leaf(self) -> Values | None:
        return None if self.rollout == "random" else make_values("rollout", self.rollout, self.game)

    def search(
        self, boards: Boards, keys: UInt64Array, trees: Sequence[Tree | None] = (), room: int = 0
    ) -> MCTSSearch:
        """Return trees of positions with these settings, without simulations; see
        :class:`MCTSSearch`.
        """
        return MCTSSearch(
            self.game,
            boards,
            keys,
            c=self.c,
            leaf=self._leaf,
            decisive=self.decisive,
            trees=trees,
            endgame=self._database,
            room=room,
            threads=self.threads,
        )

    def groups(self, count: int) -> Iterator[slice]:
        """Yield rows 0 to ``count - 1`` in groups whose trees fit into ``MEMORY``."""
        prior_cells = self.game.cells if self.pure else 0
        step = max(1, MEMORY // Tree.num_bytes(self.simulations + 1, 2, prior_cells))
        for start in range(0, max(1, count), step):
            yield slice(start, min(start + step, count))

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Float64Array:
        """Return float64[B, rows * columns], from one 64-bit key per position.

        Raises:
            ValueError: without ``rng``.
        """
        if not self.pure:
            need_rng(self, rng)
        return self._collect(boards, rng, lambda search: search.probabilities(self.temperature))

    def values(self, boards: Boards, rng: np.random.Generator | None = None) -> Float64Array:
        """Return float64[B], values of the chosen moves for the mover; without ``rng`` every
        position has the key 0.
        """
        return self._collect(boards, rng, lambda search: search.values)

    def action_values(self, boards: Boards, rng: np.random.Generator | None = None) -> Float64Array:
        """Return float64[B, cells], for the mover, NaN where illegal or untried; ``rng`` as in
        :meth:`values`.
        """
        return self._collect(boards, rng, lambda search: search.action_values)

    def analyse(self, position: Position, rng: np.random.Generator | None = None) -> MCTSSearch:
        """Return the finished search of one position that is not over; ``rng`` as in
        :meth:`values`.
        """
        return next(self._searches(Boards.from_positions([position]), rng))

    def _searches(self, boards: Boards, rng: np.random.Generator | None) -> Iterator[MCTSSearch]:
        """Yield the finished search of each group of positions."""
        count = len(boards.mover)
        keys = np.zeros(count, np.uint64) if rng is None else draw_keys(rng, count)
        for rows in self.groups(count):
            group = Boards(boards.cells[rows], boards.mover[rows])
            search = self.search(group, keys[rows], room=self.simulations)
            search.run(self.simulations)
            yield search

    def _collect(
        self,
        boards: Boards,
        rng: np.random.Generator | None,
        read: Callable[[MCTSSearch], Float64Array],
    ) -> Float64Array:
        """Return the results of all groups, one after another."""
        return np.concatenate([read(search) for search in self._searches(boards, rng)])

    def player(self) -> MCTSPlayer:
        """Return a player that reuses its trees between moves."""
        return MCTSPlayer(self)


class MCTSPlayer(Player):
    """Plays games with ``mcts``, and continues the tree of the previous move in each.

    At its next move, it finds the position there through its own move, the other player's moves and
    the skips, and adds simulations to a copy of that subtree. So a tree never has more moves than
    the game has had simulations.
    """

    def __init__(self, policy: MCTS) -> None:
        self.policy = policy
        self.trees: dict[int, Tree] = {}
        """slot -> tree of the last position"""

    def begin(self, slots: Int64Array) -> None:
        """Start new games in ``slots`` int64[B], which discards their trees."""
        for slot in slots.tolist():
            self.trees.pop(slot, None)

    def act(
        self,
        boards: Boards,
        slots: Int64Array,
        rng: np.random.Generator,
        time_left: Float64Array | None = None,
    ) -> Int64Array:
        """Return int64[B], a move in each of the games ``slots``; from one key and one uniform
        number per position.

        ``time_left`` is ignored: the number of simulations is fixed.
        """
        policy = self.policy
        count = len(slots)
        keys = draw_keys(rng, count)
        u = rng.random(count)
        out = np.empty(count, np.int64)
        for rows in policy.groups(count):
            games = slots[rows].tolist()
            trees = [self.trees.pop(game, None) for game in games]
            positions = Boards(boards.cells[rows], boards.mover[rows])
            search = policy.search(positions, keys[rows], trees, policy.simulations)
            search.run(policy.simulations)
            out[rows] = sample(search.probabilities(policy.temperature), u[rows])
            if policy.reuse:
                for row, game in enumerate(games):
                    self.trees[game] = search.tree.rows(slice(row, row + 1))
        return out
