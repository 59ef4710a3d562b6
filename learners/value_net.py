"""A value net trained by imitation of a search, as in the report on tree search.

It learns the teacher's values of the positions in the teacher's games. It plays one ply deep, or replaces the heuristic
of a search. Input and output are from the mover's view. Q(a) = p V(after a, same mover) - (1 - p) V(after a, other
mover), where p is the skip chance. The net stands for a search of the teacher's depth D, so a move judged by it is a
search of depth D + 1, in which an immediate win scores D + 1. All values are fractions of that score.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, get_args

import numpy as np

from learners.base import Arrays, Checkpointable, check_shapes
from learners.config import TEACHER, FitLearnerConfig
from learners.imitation import Teacher, TrainingExamples, training_examples
from learners.limits import Fraction, NonNegativeInt, NumProcesses, Positive, PositiveInt, layer_sizes, number_range
from learners.mlp import Activation, TFNet, dense_layers, forward, import_tensorflow, layer_shapes, planes
from learners.one_ply import one_ply_ahead
from learners.training import Progress, Task, check_counts, make_initial_rng
from ttt_envs.agents.policy import best_shares
from ttt_envs.agents.specs import make_policy
from ttt_envs.core.jit import Float32Array, Float64Array, Int64Array
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
class ValueNetConfig(FitLearnerConfig):
    """A value net in TensorFlow, trained on the games of a search against itself."""

    name: ClassVar[str] = "value-net"
    variants: ClassVar[tuple[str, ...]] = tuple(VARIANTS)
    refusal_reasons: ClassVar[Mapping[str, str]] = {
        HIDING: "it reads the whole board, to value the positions after its moves"
    }
    games: ClassVar[int] = 25
    """Default number of the teacher's games, as in the report."""
    opponent: ClassVar[str] = TEACHER
    resumes: ClassVar[bool] = True

    preset: Preset = "40-20"
    """hidden layers of the report's four nets: 40-20 one sigmoid after the second, 20 sigmoid, 30-10 tanh, 10-20
    sigmoid"""
    hidden: Annotated[tuple[int, ...], layer_sizes(8, 8192)] | None = None
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
    held_out: Annotated[float, number_range(0, 0.9)] = 0.1
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
        return (
            hidden if self.hidden is None else self.hidden,
            activations if self.activations is None else self.activations,
        )

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
        """Check that the opponent is its teacher: see :meth:`FitLearnerConfig.check_opponent`."""
        if opponent == TEACHER:
            make_policy(self.teacher, game)
            return
        super().check_opponent(opponent, game)
        raise ValueError(
            f"{self.name} has no opponent {opponent}, it learns from games of its teacher: "
            f"leave opponent= out, and choose a teacher="
        )

    def fit(self, task: Task) -> Progress:
        """Play ``task.games`` games of the teacher, train the net, and save it.

        Games are stored in the run as soon as they are played: after a stop or kill, the same call resumes. It ignores
        the task's opponent, seat and batch.

        Raises:
            ValueError: an invalid task, a teacher without scores, no TensorFlow, learning that diverges.
        """
        check_counts(task.games, 1)
        if task.games == 0:
            raise ValueError("games=0 gives no training data: choose 1 or more of the teacher's games")
        teacher = Teacher.from_spec(self.teacher, task.game)
        import_tensorflow(self.name)  # report a missing TensorFlow before games are played
        done = Progress()
        examples = training_examples(task, self.teacher, self.epsilon, self.jobs, done)
        started = time.perf_counter()

        def log(iterations: int, losses: dict[str, float]) -> None:
            counts = {"wins": done.wins, "draws": done.draws, "losses": done.losses, "positions": len(examples.value)}
            rate = iterations / max(1e-9, time.perf_counter() - started)
            task.log(done.games, {"iterations": iterations, "iterations_per_s": rate, **losses, **counts})

        rng = make_initial_rng(task.seed)
        net = self.build(task.game, rng)
        scale = {"scale": np.array(teacher.scale, np.float32), "bound": np.array(teacher.bound, np.float32)}
        net.state = self._fit_examples(net, examples, rng, log) | scale
        measured: dict[str, float] = {}
        for callback in task.callbacks:
            measured |= callback(done.games, net)
        if measured:
            log(self.iterations, measured)
        task.save(done, net)
        return done

    def _fit_examples(
        self,
        untrained: ValueNet,
        examples: TrainingExamples,
        rng: np.random.Generator,
        log: Callable[[int, dict[str, float]], None],
    ) -> dict[str, Float32Array]:
        """Train a net on the teacher's values; return its weights."""
        game = untrained.game
        weights = {name: array for name, array in untrained.state.items() if name not in ("scale", "bound")}
        net = TFNet(self.name, weights, (*self.layers()[1], "linear"), self.learning_rate)
        learned, held = hold_out(game, examples, self.held_out, rng)
        if self.keep == "best" and not len(held):
            raise ValueError(
                f"keep=best needs new positions in games held out: choose more games than {len(examples.results)}"
            )
        permutations = symmetries(game, self.symmetries)
        obs = np.concatenate([examples.obs[learned][:, permutation] for permutation in permutations])
        x, x_held = (net.tf.constant(planes(boards)) for boards in (obs, examples.obs[held]))
        y, y_held = (
            net.tf.constant(values.astype(np.float32))
            for values in (np.tile(examples.value[learned], len(permutations)), examples.value[held])
        )

        def error(x: Any, y: Any) -> Any:
            # the report sums, here is the mean: Adam is invariant to the factor
            return net.tf.reduce_mean(net.tf.square(net.outputs(x)[:, 0] - y))

        def train(rows: Any, rates: Any) -> Any:
            def losses(n: Any) -> tuple[Any]:
                batch = (net.tf.gather(x, rows[n]), net.tf.gather(y, rows[n])) if self.batch_size else (x, y)
                return (error(*batch),)

            net.steps(losses, rates)
            return error(x, y), error(x_held, y_held)

        train_steps = net.compile(train, ((None, None), "int64"), ((None,), "float32"))
        lowest, kept = math.inf, net.arrays
        for start in range(-self.log_iterations, self.iterations, self.log_iterations):
            count = min(self.log_iterations, self.iterations - start) if start >= 0 else 0
            rows = rng.integers(len(obs), size=(count, self.batch_size))
            loss, held_loss = (float(number) for number in train_steps(rows, net.next_rates(count)))
            net.check(loss)
            log(net.updates, {"loss": loss} | ({"held_out_loss": held_loss} if len(held) else {}))
            if self.keep == "last" or held_loss < lowest:
                lowest, kept = held_loss, net.arrays
        return kept


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

    def __str__(self) -> str:
        return ValueNetConfig.name
