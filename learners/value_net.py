"""A value net trained by imitation of a search, as in the report on tree search.

It learns the teacher's values of the positions in the teacher's games. It plays one ply deep, or
replaces the heuristic of a search. Input and output are from the mover's view. Q(a) = p V(after a,
same mover) - (1 - p) V(after a, other mover), where p is the skip chance. The net stands for a
search of the teacher's depth D, so a move judged by it is a search of depth D + 1, in which an
immediate win scores D + 1. All values are fractions of that score.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
from msgspec import Meta

from learners import config as types
from learners.base import MAX_COUNT, MAX_NUMBER, Checkpointable, Limits
from learners.mlp import Activation, dense_layers, forward, layer_shapes, planes
from learners.net import TrainableNet
from learners.training import SPAWN_TEACHER, Marks, TrainingLoop, make_rng
from ttt_envs.agents.policy import GreedyPolicy, best_moves
from ttt_envs.agents.specs import make_policy
from ttt_envs.core.checks import Refusal, check_range
from ttt_envs.core.jit import Float32Array, Float64Array, Int8Array, Int64Array
from ttt_envs.core.parallel import check_jobs, map_blocks, results_in_order
from ttt_envs.core.records import chunks, concatenate
from ttt_envs.game.boards import Boards, one_ply_ahead
from ttt_envs.game.game import VARIANTS, Game
from ttt_envs.game.phantom import AnyGame, visible
from ttt_envs.game.rules import DRAW, NOT_OVER, legal, next_mover, put_stone
from ttt_envs.game.symmetry import Symmetries, canonical_keys, symmetries

Preset = Literal["40-20", "20", "30-10", "10-20"]

PRESETS: dict[Preset, tuple[tuple[int, ...], tuple[Activation, ...]]] = {
    "40-20": ((40, 20), ("linear", "sigmoid")),
    "20": ((20,), ("sigmoid",)),
    "30-10": ((30, 10), ("tanh", "tanh")),
    "10-20": ((10, 20), ("sigmoid", "sigmoid")),
}
"""Nets of the report's four authors: units of the hidden layers, and their activations."""


@dataclass(frozen=True)
class ValueNetConfig(types.LearnerConfig):
    """A value net trained on the games of a search against itself."""

    name: ClassVar[str] = "value-net"
    variants: ClassVar[tuple[str, ...]] = tuple(VARIANTS)
    games: ClassVar[int] = 25
    """Default number of the teacher's games, as in the report."""
    batch: ClassVar[int] = 1
    opponent: ClassVar[str] = types.TEACHER
    only_opponent: ClassVar[bool] = True
    loop: ClassVar[str] = "learners.value_net:Imitation"
    test_settings: ClassVar[dict[str, object]] = {
        "games": 6,
        "teacher": "expectiminimax:depth=2",
        "preset": 20,
        "iterations": 10,
        "jobs": 1,
    }

    preset: Preset = "40-20"
    """hidden layers of the report's four nets: 40-20 one sigmoid after the second, 20 sigmoid,
    30-10 tanh, 10-20 sigmoid"""
    hidden: types.Layers | None = None
    """units of the hidden layers, in place of the preset's"""
    activations: tuple[Activation, ...] | None = None
    """activation of each hidden layer, in place of the preset's: linear (identity), relu, tanh or
    sigmoid
    """
    teacher: str = "expectiminimax:depth=3,width=15"
    """policy that plays both seats and labels positions: a search, or a policy with values such as
    optimal
    """
    epsilon: types.Fraction = 0.0
    """probability of a random move in the teacher's games, 0 to 1"""
    iterations: types.NonNegativeInt = 1_000
    """number of steps of Adam, each on all positions"""
    learning_rate: types.Positive = 0.01
    """learning rate of Adam, above 0"""
    held_out: Annotated[float, Meta(ge=0, le=0.9)] = 0.1
    """share of the games held out to measure the validation error, on their positions that no
    symmetry maps to one learned from, 0 to 0.9"""
    keep: Literal["last", "best"] = "last"
    """weights to keep: those after the last step, or those with the lowest validation error, if any
    position is held out"""
    symmetries: Symmetries = "none"
    """augment training data with the rotations, or all symmetries, of the positions, and average
    over them at play
    """
    log_iterations: types.PositiveInt = 10
    """number of steps between two points of the learning curve"""
    jobs: types.NumProcesses = 1
    """number of processes for the teacher's games, -1 for one per core; results do not depend on it
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        hidden, activations = self.layers()
        if len(activations) != len(hidden) + 1:
            raise Refusal(
                f"activations={self.activations} do not fit: choose one for each hidden layer "
                f"{hidden}"
            )

    def layers(self) -> tuple[tuple[int, ...], tuple[Activation, ...]]:
        """Return the units of the hidden layers, and the activations of all layers."""
        hidden, activations = PRESETS[self.preset]
        return self.hidden or hidden, (*(self.activations or activations), "linear")

    def build(self, game: AnyGame, rng: np.random.Generator) -> ValueNet:
        """Return a net with random weights, as the report's: uniform in +-1 / sqrt(inputs), and so
        are biases.
        """
        hidden, _ = self.layers()
        shapes = layer_shapes((3 * game.cells, *hidden, 1))
        weights = {}
        for name, shape in shapes.items():
            num_inputs, _ = shapes[name.replace("bias", "weights")]
            scale = np.sqrt(np.float32(num_inputs))
            weights[name] = rng.uniform(-1, 1, shape).astype(np.float32) / scale
        return ValueNet(self, visible(game), weights, rng)


# --------------------------------------------------------------------------------------------------
# The teacher's games

BLOCK = 4
"""Number of teacher's games played together; a game depends on its number alone."""


Scores = Callable[[Boards, np.random.Generator], Float64Array]
"""Scores moves: float64[B, cells] from the mover's view, NaN where illegal; the best moves' scores
are values.
"""


def make_teacher(spec: str, game: AnyGame) -> tuple[Scores, float, float]:
    """Return the scores of the teacher named by a spec string, and their scale.

    Returns:
        The scores; that of an immediate win, one ply before them; and their maximum as a fraction
        of it.

    Raises:
        ValueError: not a policy, or one that does not score moves.
    """
    policy: Any = make_policy(spec, game)
    # a search: a win is worth its depth
    if hasattr(policy, "scores") and hasattr(policy, "depth"):
        return policy.scores, policy.depth + 1, policy.depth / (policy.depth + 1)
    if policy.action_values is not None:
        return (lambda boards, rng: policy.action_values(boards)), 1, 1 - 2**-10
    raise Refusal(
        f"teacher={spec} has no action values: choose a search, as expectiminimax:depth=3, or "
        "optimal"
    )


class LabelledPositions(NamedTuple):
    """Positions of some games, in order, with their values."""

    obs: Int8Array
    """int8[N, cells], own stones first"""
    value: Float64Array
    """float64[N], the teacher's values from the mover's view"""
    game: Int64Array
    """int64[N]: the number of the game"""
    results: Float64Array
    """float64[games], for player_0"""


def play_training_games(
    game: Game, teacher: str, epsilon: float, seed: int, numbers: range
) -> LabelledPositions:
    """Return the examples of the teacher's games with these numbers; each depends on its number and
    the seed alone.

    Moves within 1e-9 of the best have equal shares.
    """
    score_moves, _, _ = make_teacher(teacher, game)
    obs = []
    values = []
    game_numbers = []
    results = []
    for number in numbers:
        rng = make_rng(seed, SPAWN_TEACHER, number)
        boards = Boards.start(game)
        outcome = NOT_OVER
        cells = boards.cells[0]
        mover = boards.mover
        while outcome == NOT_OVER:
            scores = score_moves(boards, rng)[0]
            obs.append(boards.own_first()[0])
            values.append(float(np.nanmax(scores)))
            game_numbers.append(number)
            moves = best_moves(scores)
            if epsilon > 0 and rng.random() < epsilon:
                moves = np.flatnonzero(legal(game, cells))
            move = int(rng.choice(moves))
            outcome = put_stone(game, cells, int(mover[0]), move)
            mover[0] = next_mover(int(mover[0]), rng.random(), game.skip_chance)
        results.append(0.0 if outcome == DRAW else 1.0 - 2.0 * outcome)
    columns: list[Sequence[object]] = [obs, values, game_numbers, results]
    return LabelledPositions._make(map(np.array, columns))


# --------------------------------------------------------------------------------------------------
# Training


class Imitation(TrainingLoop):
    """The training of a value net: the teacher plays its games, then the net learns the values of
    their positions.

    A step is a block of games, or ``config.log_iterations`` iterations of Adam; the first of these
    are none, to measure the untrained net. ``logged`` has the number of iterations, the errors
    after them, and the number of positions. A restored training keeps the games; the net learns
    again from the beginning, which takes seconds.

    Args:
        learner: the untrained net, trained in place; its ``rng`` chooses the games held out.
        games: number of the teacher's games.
        seed: of the games.
        cluster: plays them, by default the processes of the settings.
    """

    learner: ValueNet
    stored = ("counts", "examples")
    measured_at_end = True
    continues_log = False

    def __init__(self, learner: ValueNet, games: int, *, seed: int, cluster: str = "") -> None:
        super().__init__(learner, games, 1)
        config = learner.config
        self._seed = seed
        self._workers = cluster or learner.config.jobs
        check_jobs(self._workers)  # before a run has a folder
        check_range(
            "games", games, 1, problem="gives no training data", hint=" of the teacher's games"
        )
        _, win, bound = make_teacher(config.teacher, learner.game)
        learner.scale = np.array([win, bound], np.float32)
        self._weights = learner.weights
        self.examples = LabelledPositions(
            obs=np.zeros((0, learner.game.cells), np.int8),
            value=np.zeros(0),
            game=np.zeros(0, np.int64),
            results=np.zeros(0),
        )
        self._steps = self._play_and_fit()

    def limits(self) -> Limits:
        """See :class:`~learners.base.Stored`."""
        return {
            **super().limits(),
            "examples.obs": (0, 2, "positions"),
            "examples.value": (-MAX_NUMBER, MAX_NUMBER, "positions"),
            "examples.game": (0, self.games - 1, "positions"),
            "examples.results": (-1, 1, "games"),
        }

    @property
    def running(self) -> bool:
        """Whether games or iterations remain."""
        return super().running or self.logged.get("iterations", -1) < self.learner.config.iterations

    def is_log_point(self, next_mark: Marks) -> bool:
        """Return whether this step was one of iterations."""
        return len(self.logged) > 0

    def step(self) -> None:
        """Play a block of games, or learn.

        Raises:
            ValueError: the net has diverged.
        """
        self.logged = next(self._steps)

    def _play_and_fit(self) -> Iterator[dict[str, float]]:
        """Play games, and yield nothing after each block; then train, and yield the numbers of
        :meth:`_fit`.
        """
        config = self.learner.config
        numbers = range(self.done.games, self.games)
        play = partial(
            play_training_games, self.learner.game, config.teacher, config.epsilon, self._seed
        )
        blocks = ((block,) for block in chunks(numbers, BLOCK))
        for examples in results_in_order(map_blocks(play, blocks, self._workers)):
            self.examples = concatenate([self.examples, examples])
            self.done.count(examples.results)
            yield {}
        yield from self._fit()

    def _fit(self) -> Iterator[dict[str, float]]:
        """Train the net on the teacher's values; yield the errors before, and after every
        ``log_iterations``.
        """
        learner = self.learner
        config = learner.config
        examples = self.examples
        net = TrainableNet(config, self._weights, learner.activations)
        rows, held_out_rows = hold_out(learner.game, examples, config.held_out, learner.rng)
        permutations = symmetries(learner.game, config.symmetries)
        value = examples.value.astype(np.float32)[:, None]
        obs = np.concatenate([examples.obs[rows][:, permutation] for permutation in permutations])
        learned = planes(obs), np.tile(value[rows], (len(permutations), 1))
        held_out = planes(examples.obs[held_out_rows]), value[held_out_rows]
        min_loss = math.inf
        for start in range(-config.log_iterations, config.iterations, config.log_iterations):
            # none at first, to measure the untrained net
            count = min(config.log_iterations, config.iterations - start) if start >= 0 else 0
            loss = descend(net, *learned, count)
            net.check(loss)
            metrics = {"iterations": net.updates, "loss": loss}
            if len(held_out_rows):
                metrics["held_out_loss"] = descend(net, *held_out, 0)
            held_out_loss = metrics.get("held_out_loss", math.inf)
            if config.keep == "last" or held_out_loss < min_loss or not len(held_out_rows):
                min_loss = held_out_loss
                learner.weights = net.arrays
            yield {**metrics, "positions": len(examples.obs)}


@np.errstate(all="ignore")  # divergence is reported after it
def descend(net: TrainableNet, x: Float32Array, y: Float32Array, count: int) -> float:
    """Make steps on all positions, and return the mean squared error after them.

    Args:
        net: the net.
        x: inputs, float32[N, inputs].
        y: targets, float32[N, 1].
        count: number of steps.
    """
    for _ in range(count):
        outputs = net.run(x)
        # the report sums, here is the mean: Adam is invariant to the factor
        net.step(outputs, 2 / len(y) * (outputs[-1] - y))
    return float(np.square(net.run(x)[-1] - y).mean())


def hold_out(
    game: AnyGame, examples: LabelledPositions, share: float, rng: np.random.Generator
) -> tuple[Int64Array, Int64Array]:
    """Return the rows of positions to learn from, and of those held out, both int64.

    The ``share`` is of the games, rounded up, because positions of one game have similar values; at
    least one game is learned from. Games begin alike: a position that a symmetry maps to one
    learned from is on neither side. More games are held out while no position remains.

    Args:
        game: the game.
        examples: of the teacher's games.
        share: of the games, to hold out.
        rng: chooses them.
    """
    keys, *_ = canonical_keys(examples.obs, symmetries(game))
    classes = np.unique(keys, axis=0, return_inverse=True)[1].reshape(-1)
    order = rng.permutation(len(examples.results))
    for count in range(math.ceil(share * len(order)), len(order)):
        is_held_out = np.isin(examples.game, order[:count])
        is_new = ~np.isin(classes, classes[~is_held_out])
        held_out_rows = np.flatnonzero(is_held_out & is_new)
        if count == 0 or len(held_out_rows):
            return np.flatnonzero(~is_held_out), held_out_rows
    return np.arange(len(classes)), np.zeros(0, np.int64)


# --------------------------------------------------------------------------------------------------
# Playing


class ValueNet(GreedyPolicy, Checkpointable):
    """A value net at play, one ply deep.

    Args:
        config: the settings.
        game: the game.
        weights: float32, from :func:`planes` to one number.
        rng: generator of its training.

    Attributes:
        activations: of all layers.
        scale: float32[2]: the net's output for a win, and the maximum absolute value of a position
            that is not over, as a fraction of that.
    """

    colour_blind = True
    name = ValueNetConfig.name
    stored = ("weights", "scale")
    game: Game

    def __init__(
        self,
        config: ValueNetConfig,
        game: Game,
        weights: dict[str, Float32Array],
        rng: np.random.Generator,
    ) -> None:
        self.config = config
        self.game = game
        _, self.activations = config.layers()
        self.weights = weights
        self.rng = rng
        self.scale = np.ones(2, np.float32)
        self._permutations = symmetries(game, config.symmetries)

    def limits(self) -> Limits:
        """See :class:`~learners.base.Stored`."""
        return {"weights": (-MAX_NUMBER, MAX_NUMBER), "scale": ([1, 0], [MAX_COUNT, 1])}

    def values(self, boards: Boards) -> Float64Array:
        """Return the net's values float64[B] from the mover's view, as fractions of a win."""
        obs = boards.own_first()
        win, bound = self.scale.tolist()
        layers = dense_layers(self.weights, self.activations)
        total = np.zeros(len(obs))
        for permutation in self._permutations:
            total += forward(planes(obs[:, permutation]), layers)[:, 0]
        return np.clip(total / (len(self._permutations) * win), -bound, bound)

    def action_values(self, boards: Boards) -> Float64Array:
        """Return action values float64[B, cells] from the mover's view, NaN where illegal; an
        immediate win has value
        1.
        """
        return one_ply_ahead(self.game, boards, self.values)
