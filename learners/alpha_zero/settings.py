"""Hyperparameters of the AlphaZero learner, below all that uses them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from learners import config
from learners.config import LearnerConfig
from ttt_envs.envs.config import SELF
from ttt_envs.game.game import VARIANTS, Game
from ttt_envs.game.phantom import HIDING
from ttt_envs.game.symmetry import Symmetries

MAX_SMALL_CELLS = 9
"""Maximum number of cells of a small board: most of its positions recur often."""
MAX_OPENING_PLIES = 14
"""Default maximum number of plies of a random opening."""


def value_scale_for(game: Game, chosen: float | None = None) -> float:
    """Return the weight of values in the Gumbel search: ``chosen`` if given, else 0.5, or 2 where turns are skipped."""
    if chosen is not None:
        return chosen
    return 2.0 if game.skip_chance > 0 else 0.5


@dataclass(frozen=True)
class AlphaZeroSettings(LearnerConfig):
    """Hyperparameters of :class:`~learners.alpha_zero.training.AlphaZeroConfig`."""

    name: ClassVar[str] = "alpha-zero"
    variants: ClassVar[tuple[str, ...]] = tuple(VARIANTS)
    refusal_reasons: ClassVar[Mapping[str, str]] = {
        HIDING: "it reads the whole board, to search the moves of both players"
    }
    games: ClassVar[int] = 8_192
    opponent: ClassVar[str] = SELF
    self_play_games: ClassVar[int] = 8_192
    own_loop: ClassVar[bool] = True

    hidden: config.Layers | None = None
    """units of the hidden ReLU layers; default: two of 64 on boards up to 9 cells; two of 256 on boards up to 16
    without skips, where play can become perfect and one wrong reply costs half a game; two of 128 on others"""
    lines: bool = True
    """add line features to the input: for each winnable line, the number of stones of one side, or that both sides are
    in it; without, the input is the cells alone"""
    simulations: config.PositiveInt = 32
    """number of simulations per move during training"""
    search: Literal["gumbel", "puct"] = "gumbel"
    """gumbel: sequential halving at the root with Gumbel noise; the target is the improved policy (2022); puct:
    Dirichlet noise at the root, moves sampled by visit count; the target is the visit distribution (2018)"""
    max_num_considered_actions: Annotated[int, Meta(ge=2)] = 16
    """maximum number of root moves that the Gumbel search considers, 2 or more"""
    maxvisit_init: config.NonNegative = 50.0
    """visits added to the highest visit count when the Gumbel search scales values, 0 or more"""
    value_scale: config.NonNegative | None = None
    """scale of the values per such visit in the Gumbel search, 0 or more; default: 0.5, or 2 where turns are skipped,
    because move values may then differ little"""
    c: config.NonNegative = 1.4
    """exploration constant of PUCT, 0 or more"""
    chance_nodes: bool = True
    """model skipped turns as chance nodes in the search; without, the search assumes no skips"""
    opening: config.NonNegativeInt | None = None
    """maximum number of random opening moves, drawn uniformly from 0 for each game; default: all but two cells, or half
    of the cells where turns are skipped (skips vary the games anyway), at most 14"""
    epsilon: config.Fraction = 0.25
    """probability of a random move after the opening, 0 to 1; value targets do not bootstrap through random moves"""
    td_lambda: config.Fraction = 0.1
    """lambda of the TD(lambda) value targets: 0 is the search's value of the position, 1 the result of the game"""
    learning_rate: config.Positive = 0.006
    """learning rate of Adam, above 0"""
    learning_rate_decay: config.NonNegative = 0.002
    """the learning rate of update n, from 0, is learning_rate / (1 + learning_rate_decay n); 0 keeps it constant"""
    weight_decay: config.NonNegative = 1e-5
    """L2 penalty: weight of half the sum of squared weights in the loss, 0 or more"""
    value_weight: config.Positive = 4.0
    """weight of the squared value error relative to the policy's cross entropy, above 0"""
    buffer_size: config.PositiveInt | None = None
    """capacity of the replay buffer in positions; default: 15,000 on boards up to 9 cells, where a better search soon
    revisits positions, and 60,000 on others"""
    batch_size: config.PositiveInt = 256
    """number of positions in a minibatch"""
    gradient_steps: config.PositiveInt = 200
    """number of updates after each batch of games"""
    symmetries: Symmetries = "all"
    """augment training data with randomly drawn rotations, or all symmetries, of the positions, and average over them
    in greedy play"""
    decisive: bool = True
    """in greedy play without a search, complete a line at once; where no turn can be skipped, also block an immediate
    win; in misère no move is forced"""
    jobs: config.NumProcesses = 1
    """number of processes that play the games, -1 for one per core; results do not depend on it"""
    threads: config.NumThreads = 1
    """number of threads of each process for the searches, or auto for cores / jobs; results do not depend on it"""

    def layers_for(self, game: Game) -> tuple[int, ...]:
        """Return the number of units of each hidden layer."""
        if self.hidden is not None:
            return self.hidden
        if game.cells <= MAX_SMALL_CELLS:
            return 64, 64
        return (256, 256) if game.cells <= 16 and game.skip_chance == 0 else (128, 128)

    def buffer_size_for(self, game: Game) -> int:
        """Return the capacity of the replay buffer in positions."""
        if self.buffer_size is not None:
            return self.buffer_size
        return 15_000 if game.cells <= MAX_SMALL_CELLS else 60_000

    def opening_for(self, game: Game) -> int:
        """Return the maximum number of random opening moves."""
        if self.opening is not None:
            return min(self.opening, game.cells)
        wanted = (game.cells + 1) // 2 if game.skip_chance > 0 else game.cells - 2
        return max(0, min(wanted, MAX_OPENING_PLIES))
