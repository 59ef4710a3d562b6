"""The policy that plays by the search, what it says of positions, and a player that keeps its trees between moves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np

from baselines.endgame import Endgame
from baselines.mcts.search import MCTSSearch, check_settings
from baselines.mcts.tree import KeptTree, Trees
from ttt_envs.boards import Boards
from ttt_envs.compiling import Flags, Integers, Keys, Reals
from ttt_envs.policy import Judge, Policy, Values, sample
from ttt_envs.rules import Game, Position
from ttt_envs.specs import Named, make_policy

MEMORY = 1 << 28
"""bytes that the trees of positions searched side by side may take; more positions are searched one group by another"""


class MCTSAnalysis(NamedTuple):
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

    game: Game
    simulations: int = 200
    """for every move"""
    c: float = 1.4
    """weight of exploration"""
    rollout: str | Policy = "random"
    """what judges a leaf: random play to the end, or the values of a policy, as in ``rollout=(run:PATH)``; one that
    says how likely moves are, too, such as a run of alpha-zero, guides the search by PUCT"""
    decisive: bool = True
    """win at once where possible, stop the other player's win first, and pass on what is certain"""
    temperature: float = 0.0
    """0 plays the most visited move, which several may share; else shares go as ``visits ** (1 / temperature)``"""
    reuse: bool = True
    """in matches, go on with the tree of the move before where the position is in it"""
    endgame: str | None = None
    """a folder that evaluate.py database build has made: what is in it is known instead of being judged"""

    def __post_init__(self) -> None:
        check_settings(self.simulations, self.c, self.temperature)
        self._leaf  # noqa: B018  # a wrong name is told now
        self._database  # noqa: B018

    @property
    def pure(self) -> bool:
        """Whether a judge guides the search: then nothing in it is drawn."""
        return isinstance(self._leaf, Judge)

    @cached_property
    def _database(self) -> Endgame | None:
        return None if self.endgame is None else Endgame(self.endgame, self.game)

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

    def search(self, boards: Boards, keys: Keys, kept: Sequence[KeptTree | None] | None = None) -> MCTSSearch:
        """Trees of positions with these settings, without a simulation yet; see :class:`MCTSSearch`."""
        return MCTSSearch(
            self.game,
            boards,
            keys,
            c=self.c,
            leaf=self._leaf,
            decisive=self.decisive,
            kept=kept,
            endgame=self._database,
        )

    def groups(self, count: int) -> Iterator[slice]:
        """Rows 0 to ``count - 1`` in groups whose trees fit into ``MEMORY``."""
        judged_cells = self.game.cells if self.pure else 0
        step = max(1, MEMORY // Trees.bytes_of(self.simulations + 1, 2, judged_cells))
        for start in range(0, count, step):
            yield slice(start, min(start + step, count))

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Reals:
        """float64[B, rows * columns], from one key of 64 bits a position.

        Raises:
            ValueError: without ``rng``.
        """
        if rng is None and not self.pure:
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

    def analyse(self, position: Position, rng: np.random.Generator | None = None) -> MCTSAnalysis:
        """All that a search says of one position that is not over; ``rng`` as in :meth:`values`."""
        ((_, search),) = self._searches(Boards.of([position]), rng)
        return MCTSAnalysis(
            float(search.values[0]),
            search.action_values[0],
            search.settled[0],
            search.visits[0],
            search.variation(0),
            int(search.counts[0]),
        )

    def _searches(self, boards: Boards, rng: np.random.Generator | None) -> Iterator[tuple[slice, MCTSSearch]]:
        """The rows of each group and their search, done."""
        keys = np.zeros(len(boards.mover), np.uint64) if rng is None else drawn_keys(rng, len(boards.mover))
        for rows in self.groups(len(keys)):
            search = self.search(Boards(boards.cells[rows], boards.mover[rows]), keys[rows])
            search.run(self.simulations)
            yield rows, search

    def player(self) -> MCTSPlayer:
        """The same with a memory of its trees between moves."""
        return MCTSPlayer(self)


def drawn_keys(rng: np.random.Generator, count: int) -> Keys:
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
        self.kept: dict[int, KeptTree | None] = {}
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
        keys, u = drawn_keys(rng, count), rng.random(count)
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
