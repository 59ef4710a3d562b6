"""A value net trained by imitation of a search, as in the report on tree search.

It learns the teacher's values of the positions in the teacher's games. It plays one ply deep, or replaces the heuristic
of a search. Input and output are from the mover's view. Q(a) = p V(after a, same mover) - (1 - p) V(after a, other
mover), where p is the skip chance. The net stands for a search of the teacher's depth D, so a move judged by it is a
search of depth D + 1, in which an immediate win scores D + 1. All values are fractions of that score.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Unpack, get_args

import numpy as np
from msgspec import Meta

from learners.base import Arrays, Checkpointable, check_shapes, one_ply_ahead
from learners.config import (
    TEACHER,
    Fraction,
    Layers,
    LearnerConfig,
    NonNegativeInt,
    NumProcesses,
    Positive,
    PositiveInt,
    TrainingOptions,
)
from learners.imitation import Teacher, TrainingExamples, play_blocks
from learners.mlp import Activation, TFNet, dense_layers, forward, import_tensorflow, layer_shapes, planes
from learners.training import Marks, TrainingLoop, make_initial_rng
from ttt_envs.agents.policy import best_shares
from ttt_envs.agents.specs import make_policy
from ttt_envs.core.jit import Float64Array, Int64Array
from ttt_envs.core.parallel import Jobs, check_jobs
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import VARIANTS, Game
from ttt_envs.game.phantom import HIDING, AnyGame, visible
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
class ValueNetConfig(LearnerConfig):
    """A value net in TensorFlow, trained on the games of a search against itself."""

    name: ClassVar[str] = "value-net"
    variants: ClassVar[tuple[str, ...]] = tuple(VARIANTS)
    refusal_reasons: ClassVar[Mapping[str, str]] = {
        HIDING: "it reads the whole board, to value the positions after its moves"
    }
    games: ClassVar[int] = 25
    """Default number of the teacher's games, as in the report."""
    batch: ClassVar[int] = 1
    opponent: ClassVar[str] = TEACHER
    own_loop: ClassVar[bool] = True

    preset: Preset = "40-20"
    """hidden layers of the report's four nets: 40-20 one sigmoid after the second, 20 sigmoid, 30-10 tanh, 10-20
    sigmoid"""
    hidden: Layers | None = None
    """units of the hidden layers, in place of the preset's"""
    activations: tuple[Activation, ...] | None = None
    """activation of each hidden layer, in place of the preset's: linear (identity), relu, tanh or sigmoid"""
    teacher: str = "expectiminimax:depth=3,width=15"
    """policy that plays both seats and labels positions: a search, or a policy with values such as optimal"""
    epsilon: Fraction = 0.0
    """probability of a random move in the teacher's games, 0 to 1"""
    iterations: NonNegativeInt = 1_000
    """number of steps of Adam"""
    learning_rate: Positive = 0.01
    """learning rate of Adam, above 0"""
    batch_size: NonNegativeInt = 0
    """number of positions in a minibatch; 0: every step uses all positions"""
    held_out: Annotated[float, Meta(ge=0, le=0.9)] = 0.1
    """share of the games held out to measure the validation error, on their positions that no symmetry maps to one
    learned from, 0 to 0.9"""
    keep: Literal["last", "best"] = "last"
    """weights to keep: those after the last step, or those with the lowest validation error"""
    symmetries: Symmetries = "none"
    """augment training data with the rotations, or all symmetries, of the positions, and average over them at play"""
    log_iterations: PositiveInt = 10
    """number of steps between two points of the learning curve"""
    jobs: NumProcesses = -1
    """number of processes for the teacher's games, -1 for one per core; short work takes none. Results do not depend on
    it"""

    def __post_init__(self) -> None:
        super().__post_init__()
        hidden, activations = self.layers()
        if len(activations) != len(hidden) or not set(activations) <= set(get_args(Activation)):
            raise ValueError(
                f"activations={self.activations} does not work for {self.name}: choose one of "
                f"{', '.join(get_args(Activation))} for each of the {len(hidden)} hidden layers"
            )
        if self.keep == "best" and self.held_out == 0:
            raise ValueError("keep=best chooses by positions that are held out: choose a held_out above 0")

    def layers(self) -> tuple[tuple[int, ...], tuple[Activation, ...]]:
        """Return the units and activations of the hidden layers."""
        hidden, activations = PRESETS[self.preset]
        return self.hidden or hidden, self.activations or activations

    def build(self, game: AnyGame, rng: np.random.Generator) -> ValueNet:
        """Return a net with random weights, as the report's: uniform in +-1 / sqrt(inputs), and so are biases."""
        shapes = layer_shapes((3 * game.cells, *self.layers()[0], 1))
        inputs = {name: np.float32(shapes[name.replace("bias", "weights")][0]) for name in shapes}
        weights = {
            name: rng.uniform(-1, 1, shape).astype(np.float32) / np.sqrt(inputs[name]) for name, shape in shapes.items()
        }
        unit = np.array(1, np.float32)
        return ValueNet(self, visible(game), {"scale": unit, "bound": unit, **weights})

    def check_opponent(self, opponent: str, game: AnyGame) -> None:
        """Check that the opponent is its teacher: see :meth:`LearnerConfig.check_opponent`."""
        if opponent != TEACHER:
            raise ValueError(
                f"{self.name} has no opponent {opponent}, it learns from games of its teacher: "
                f"leave opponent= out, and choose a teacher="
            )
        make_policy(self.teacher, game)

    def training(self, game: AnyGame, games: int, **options: Unpack[TrainingOptions]) -> Imitation:
        """See :meth:`LearnerConfig.training`; it ignores the seat and the batch.

        Raises:
            ValueError: no games, a teacher without scores, another opponent, no TensorFlow.
        """
        self.check_game(game)
        self.check_opponent(options.get("opponent", TEACHER), game)
        rng, cluster = make_initial_rng(options["seed"]), options.get("cluster")
        return Imitation(self.build(game, rng), games, options["seed"], rng, cluster or self.jobs)


class Imitation(TrainingLoop):
    """The training of a value net: the teacher plays its games, then the net learns the values of their positions.

    A step is a block of games, or ``config.log_iterations`` iterations of Adam; the first of these are none, to measure
    the untrained net.

    Args:
        learner: the untrained net, trained in place.
        games: number of the teacher's games.
        seed: of the games.
        rng: chooses the games held out, and minibatches.
        workers: processes that play the games, or a cluster.
    """

    learner: ValueNet
    any_length = ("",)

    def __init__(self, learner: ValueNet, games: int, seed: int, rng: np.random.Generator, workers: Jobs) -> None:
        super().__init__(learner, games, 1)
        if games == 0:
            raise ValueError("games=0 gives no training data: choose 1 or more of the teacher's games")
        check_jobs(workers)
        teacher = Teacher.from_spec(learner.config.teacher, learner.game)
        import_tensorflow(learner.config.name)  # report a missing TensorFlow before games are played
        self._scale = {"scale": np.array(teacher.scale, np.float32), "bound": np.array(teacher.bound, np.float32)}
        learner.state = {**learner.state, **self._scale}
        self._weights = {name: array for name, array in learner.state.items() if name not in self._scale}
        self._seed, self._rng, self._workers = seed, rng, workers
        self._examples = TrainingExamples.empty(learner.game.cells)
        self._logged: dict[str, float] = {}
        self._blocks, self._fits = self._play(), self._fit()

    @property
    def running(self) -> bool:
        """Whether games or iterations remain."""
        return super().running or self._logged.get("iterations", -1) < self.learner.config.iterations

    def is_log_point(self, following: Marks) -> bool:
        """Return whether this step was one of iterations."""
        return len(self._logged) > 0

    @property
    def is_measured(self) -> bool:
        """Whether this is the end: the net is measured once."""
        return not self.running

    @property
    def logged(self) -> dict[str, float]:
        """The number of iterations, the errors after them, and the number of positions."""
        return self._logged

    def step(self) -> None:
        """Play a block of games, or learn.

        Raises:
            ValueError: the net has diverged, or no position is held out to choose the best net by.
        """
        if super().running:
            examples = next(self._blocks)
            self._examples = TrainingExamples.concatenate([self._examples, examples])
            self.done.count(examples.results)
        else:
            self._logged = next(self._fits) | {"positions": len(self._examples.value)}

    def _play(self) -> Iterator[TrainingExamples]:
        config, numbers = self.learner.config, range(self.done.games, self.games)
        yield from play_blocks(self.learner.game, config.teacher, config.epsilon, self._seed, numbers, self._workers)

    def _fit(self) -> Iterator[dict[str, float]]:
        """Train the net on the teacher's values; yield the errors before, and after every ``log_iterations``."""
        learner, config, (obs, value, *_) = self.learner, self.learner.config, self._examples
        net = TFNet(config.name, self._weights, (*config.layers()[1], "linear"), config.learning_rate)
        learned, held = hold_out(learner.game, self._examples, config.held_out, self._rng)
        if config.keep == "best" and not len(held):
            raise ValueError(f"keep=best needs new positions in games held out: choose more games than {self.games}")
        tf, value, permutations = net.tf, value.astype(np.float32), symmetries(learner.game, config.symmetries)
        images = np.concatenate([obs[learned][:, permutation] for permutation in permutations])
        x, y = tf.constant(planes(images)), tf.constant(np.tile(value[learned], len(permutations)))
        x_held, y_held = tf.constant(planes(obs[held])), tf.constant(value[held])

        def error(x: Any, y: Any) -> Any:
            # the report sums, here is the mean: Adam is invariant to the factor
            return tf.reduce_mean(tf.square(net.outputs(x)[:, 0] - y))

        def iterate(rows: Any, rates: Any) -> Any:
            def losses(n: Any) -> tuple[Any]:
                batch = (tf.gather(x, rows[n]), tf.gather(y, rows[n])) if config.batch_size else (x, y)
                return (error(*batch),)

            net.steps(losses, rates)
            return error(x, y), error(x_held, y_held)

        train = net.compile(iterate, ((None, None), "int64"), ((None,), "float32"))
        lowest = math.inf
        for start in range(-config.log_iterations, config.iterations, config.log_iterations):
            count = min(config.log_iterations, config.iterations - start) if start >= 0 else 0
            rows = self._rng.integers(len(images), size=(count, config.batch_size))
            loss, held_loss = (float(number) for number in train(rows, net.next_rates(count)))
            net.check(loss)
            if config.keep == "last" or held_loss < lowest:
                lowest, learner.state = held_loss, {**net.arrays, **self._scale}
            yield {"iterations": net.updates, "loss": loss} | ({"held_out_loss": held_loss} if len(held) else {})

    @property
    def arrays(self) -> Arrays:
        """The games; the net learns again from the beginning, which takes seconds."""
        return self._examples._asdict()

    def restore(self, arrays: Arrays) -> None:
        """See :class:`TrainingLoop`."""
        self._examples = TrainingExamples(**{name: arrays[name] for name in TrainingExamples._fields})
        self.continues = False


def hold_out(
    game: AnyGame, examples: TrainingExamples, share: float, rng: np.random.Generator
) -> tuple[Int64Array, Int64Array]:
    """Return the rows of positions to learn from, and of those held out, both int64.

    The ``share`` is of the games, rounded up, because positions of one game have similar values; at least one game is
    learned from. Games begin alike: a position that a symmetry maps to one learned from is on neither side.
    More games are held out while no position remains.

    Args:
        game: the game.
        examples: of the teacher's games.
        share: of the games, to hold out.
        rng: chooses them.
    """
    classes = np.unique(canonical_keys(examples.obs, symmetries(game))[0], axis=0, return_inverse=True)[1].reshape(-1)
    order = rng.permutation(len(examples.results))
    for count in range(math.ceil(share * len(order)), len(order)):
        held = np.isin(examples.game, order[:count])
        new = np.flatnonzero(held & ~np.isin(classes, classes[~held]))
        if count == 0 or len(new):
            return np.flatnonzero(~held), new
    return np.arange(len(classes)), np.zeros(0, np.int64)


# ---------------------------------------------------------------------------------------------------------------------
# Playing


class ValueNet(Checkpointable):
    """A value net at play, one ply deep; TensorFlow is not needed.

    Args:
        config: the settings.
        game: the game.
        arrays: float32, the weights from :func:`planes` to one number; ``scale``, the output's scale, is the score of a
            win; ``bound`` is the maximum absolute value of a position that is not over, as a fraction of a win.
    """

    colour_blind = True
    name = ValueNetConfig.name
    game: Game

    def __init__(self, config: ValueNetConfig, game: Game, arrays: Arrays) -> None:
        self.config, self.game = config, game
        self._permutations = symmetries(game, config.symmetries)
        self._arrays = self.state = arrays

    @property
    def state(self) -> Arrays:
        """The arrays."""
        return self._arrays

    @state.setter
    def state(self, arrays: Arrays) -> None:
        check_shapes(self._arrays, arrays, self.config.name)
        self._arrays = {name: arrays[name] for name in self._arrays}
        self._scale, self._bound = float(arrays["scale"]), float(arrays["bound"])
        self._layers = dense_layers(arrays, (*self.config.layers()[1], "linear"))

    def values(self, boards: Boards) -> Float64Array:
        """Return the net's values float64[B] from the mover's view, as fractions of a win."""
        obs = boards.own_first()
        total = sum(forward(planes(obs[:, permutation]), self._layers)[:, 0] for permutation in self._permutations)
        return np.clip(total / (len(self._permutations) * self._scale), -self._bound, self._bound)

    def action_values(self, boards: Boards) -> Float64Array:
        """Return action values float64[B, cells] from the mover's view, NaN where illegal; an immediate win has value
        1.
        """
        return one_ply_ahead(self.game, boards, self.values)

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Float64Array:
        """Return float64[B, cells]: equal shares for the moves of highest value."""
        return best_shares(self.action_values(boards))
