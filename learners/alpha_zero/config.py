"""The settings of the learner."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from learners.config import Looper, check_kinds, check_limits
from learners.training import initial_rng
from ttt_envs.lockstep import SELF, SeatChoice
from ttt_envs.rules import Game
from ttt_envs.symmetry import Symmetries

if TYPE_CHECKING:
    from learners.alpha_zero.learner import AlphaZero
    from learners.alpha_zero.training import SelfPlay

LARGEST_LAYER, MOST_LAYERS = 4096, 8
FEW_CELLS = 9
"""boards of so many cells have so few positions that most are met again and again"""
LONGEST_OPENING = 14
"""plies of the random openings, at most, where nothing else is said"""


def value_scale_of(game: Game, asked: float | None = None) -> float:
    """How much values count in the Gumbel search: as asked for, by default 0.5, and 2 where turns are skipped."""
    if asked is not None:
        return asked
    return 2.0 if game.skip_chance > 0 else 0.5


@dataclass(frozen=True)
class AlphaZeroConfig(Looper):
    """AlphaZero with chance: a net with two heads in TensorFlow, taught by its own search in games against itself."""

    name: ClassVar[str] = "alpha-zero"
    games: ClassVar[int] = 8_192
    opponent: ClassVar[str] = SELF
    self_play_games: ClassVar[int] = 8_192

    hidden: tuple[int, ...] | None = None
    """units of the hidden layers, with ReLU; by default two of 64 on boards up to 9 cells, two of 256 on boards up to
    16 without skips, where play can become perfect and a single wrong reply costs half a game, and two of 128 on
    others"""
    lines: bool = True
    """let the net see of every line that can be won how many stones of one side are in it, or that both are; without
    it sees the cells alone"""
    simulations: int = 32
    """of the search for every move while learning"""
    search: Literal["gumbel", "puct"] = "gumbel"
    """gumbel: sequential halving of the root's moves under Gumbel noise, and its improved policy to learn from (2022);
    puct: Dirichlet noise at the root, moves drawn by their visits, and these to learn from (2018)"""
    considered: int = 16
    """moves of the root that the Gumbel search considers, 2 or more"""
    visit_scale: float = 50.0
    """visits that the values count for in the Gumbel search, beside those of the move made most often, 0 or more"""
    value_scale: float | None = None
    """how much the values count in the Gumbel search, for each of these visits, 0 or more; by default 0.5, and 2 where
    turns are skipped, as moves may then be worth almost the same"""
    c: float = 1.4
    """weight of exploration in the search by PUCT, 0 or more"""
    chance_nodes: bool = True
    """let the search weigh the turns that may be skipped; without it searches as if none was"""
    opening: int | None = None
    """games begin with 0 to so many random moves, drawn for each game; by default so many that
    two cells are left, half of the cells where turns are skipped, which brings games elsewhere by itself, and at most
    14"""
    epsilon: float = 0.25
    """probability of a random move after the opening, 0 to 1; no value is traced back through random moves"""
    trace: float = 0.1
    """how far the values that are learned look ahead, TD(lambda)'s lambda: 0 to what the search says of the position, 1
    to the end of the game"""
    learning_rate: float = 0.006
    """of Adam, above 0"""
    learning_rate_decay: float = 0.002
    """update n, from 0, has the rate learning_rate / (1 + learning_rate_decay n); 0 keeps it constant"""
    weight_decay: float = 1e-5
    """weight of half the sum of squares of all weights in the loss, 0 or more"""
    value_weight: float = 4.0
    """weight of the squared error of the value beside the cross entropy of the policy, above 0"""
    replay_size: int | None = None
    """positions that are remembered, of which updates draw; by default 15,000 on boards up to 9 cells, which are soon
    met again by a better search, and 60,000 on others"""
    replay_batch: int = 256
    """positions that an update draws"""
    updates: int = 200
    """updates after every set of games played side by side"""
    symmetries: Symmetries = "all"
    """learn from images of the positions under the rotations, or all symmetries, drawn at random, and play in earnest
    by the mean over them"""
    decisive: bool = True
    """in earnest, without a search, win with one stone, and where no turn can be skipped stop a stone that wins"""
    jobs: int = 1
    """processes that play the games, -1 one for each core; what is learned does not depend on it"""

    def __post_init__(self) -> None:
        check_kinds(self)
        hidden = (1,) if self.hidden is None else tuple(self.hidden)
        if self.hidden is not None:
            object.__setattr__(self, "hidden", hidden)  # JSON has no tuples
        limits = {
            "hidden": (
                1 <= len(hidden) <= MOST_LAYERS and all(type(n) is int and 1 <= n <= LARGEST_LAYER for n in hidden),
                f"1 to {MOST_LAYERS} layers of 1 to {LARGEST_LAYER} units",
            ),
            "simulations": (self.simulations >= 1, "1 or more"),
            "search": (self.search in ("gumbel", "puct"), "gumbel or puct"),
            "considered": (self.considered >= 2, "2 or more"),
            "visit_scale": (0 <= self.visit_scale < math.inf, "0 or more"),
            "value_scale": (self.value_scale is None or 0 <= self.value_scale < math.inf, "0 or more"),
            "c": (0 <= self.c < math.inf, "0 or more"),
            "opening": (self.opening is None or self.opening >= 0, "0 (none), 1 or more plies"),
            "epsilon": (0 <= self.epsilon <= 1, "0 to 1"),
            "trace": (0 <= self.trace <= 1, "0 to 1"),
            "learning_rate": (0 < self.learning_rate < math.inf, "above 0"),
            "learning_rate_decay": (0 <= self.learning_rate_decay < math.inf, "0 or above"),
            "weight_decay": (0 <= self.weight_decay < math.inf, "0 or above"),
            "value_weight": (0 < self.value_weight < math.inf, "above 0"),
            "replay_size": (self.replay_size is None or self.replay_size >= 1, "1 or more"),
            "replay_batch": (self.replay_batch >= 1, "1 or more"),
            "updates": (self.updates >= 1, "1 or more"),
            "symmetries": (self.symmetries in ("none", "rotations", "all"), "none, rotations or all"),
            "jobs": (self.jobs == -1 or self.jobs >= 1, "-1 (one for each core), 1 or more"),
        }
        check_limits(self, limits)

    def layers_of(self, game: Game) -> tuple[int, ...]:
        """Units of the hidden layers."""
        if self.hidden is not None:
            return self.hidden
        if game.cells <= FEW_CELLS:
            return 64, 64
        return (256, 256) if game.cells <= 16 and game.skip_chance == 0 else (128, 128)

    def replay_size_of(self, game: Game) -> int:
        """Positions that are remembered."""
        if self.replay_size is not None:
            return self.replay_size
        return 15_000 if game.cells <= FEW_CELLS else 60_000

    def opening_of(self, game: Game) -> int:
        """The longest random opening."""
        if self.opening is not None:
            return min(self.opening, game.cells)
        wanted = (game.cells + 1) // 2 if game.skip_chance > 0 else game.cells - 2
        return max(0, min(wanted, LONGEST_OPENING))

    def value_scale_of(self, game: Game) -> float:
        """How much the values count in the Gumbel search."""
        return value_scale_of(game, self.value_scale)

    def build(self, game: Game, rng: np.random.Generator) -> AlphaZero:
        """A learner with random weights, drawn from ``rng``; to play it needs no TensorFlow."""
        from learners.alpha_zero.learner import AlphaZero

        return AlphaZero(self, game, rng)

    def training(
        self,
        game: Game,
        games: int,
        *,
        batch: int,
        seed: int,
        opponent: str = SELF,
        seat: SeatChoice = "alternate",
        cluster: str = "",
    ) -> SelfPlay:
        """See :meth:`Looper.training`; the learner has both seats, whatever ``opponent`` and ``seat`` say.

        Raises:
            ValueError: numbers out of range, no TensorFlow.
        """
        from learners.alpha_zero.training import SelfPlay

        return SelfPlay(self.build(game, initial_rng(seed)), games, batch=batch, seed=seed, cluster=cluster)

    def check_opponent(self, opponent: str, game: Game) -> None:
        """See :meth:`Looper.check_opponent`."""
        if opponent != SELF:
            raise ValueError(
                f"{self.name} learns from games against itself, and not against {opponent}: leave --opponent out"
            )
