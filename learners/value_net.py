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
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, get_args

import numpy as np

from learners.base import Arrays
from learners.checkpoint import MODEL, load_weights, save_arrays
from learners.config import TEACHER, FitLearnerConfig
from learners.dense import Activation, Dense, forward, layer_shapes, planes
from learners.imitation import Teacher, training_examples
from learners.limits import Fraction, Layers, NonNegativeInt, NumProcesses, Positive, PositiveInt, Range
from learners.one_ply import one_ply_ahead
from learners.tensorflow_tools import DEVICE, import_tensorflow
from learners.training import Progress, Task, check_counts, make_initial_rng
from ttt_envs.agents.policy import Policy, best_shares
from ttt_envs.agents.specs import make_policy
from ttt_envs.core.jit import Float32Array, Float64Array, Int8Array, Int64Array
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
CHUNK = 1 << 14
"""Number of positions evaluated at once."""


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
    hidden: Annotated[tuple[int, ...], Layers(8, 8192)] | None = None
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
    held_out: Annotated[float, Range(0, 0.9)] = 0.1
    """share of the positions, up to symmetry, held out to measure the validation error, 0 to 0.9"""
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

    def shapes(self, game: AnyGame) -> dict[str, tuple[int, ...]]:
        """Return the shapes of a run's arrays: the layers' float32, and the scale and bound of the output."""
        hidden, _ = self.layers()
        widths = (3 * game.cells, *hidden, 1)
        return {"scale": (), "bound": (), **layer_shapes(widths)}

    def net(self, game: AnyGame, arrays: Arrays) -> ValueNet:
        """Return the net at play, from arrays of :meth:`shapes`."""
        activations: tuple[Activation, ...] = (*self.layers()[1], "linear")
        layers = [
            Dense(arrays[f"{layer}.weights"].astype(np.float64), arrays[f"{layer}.bias"].astype(np.float64), activation)
            for layer, activation in enumerate(activations)
        ]
        return ValueNet(visible(game), layers, float(arrays["scale"]), float(arrays["bound"]), self.symmetries)

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
        """Play ``task.games`` games of the teacher, train the net, and write ``model.npz`` to ``task.run``.

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
        seen = np.concatenate([part.seen for part in examples])
        value = np.concatenate([part.value for part in examples])
        started = time.perf_counter()

        def log(iterations: int, losses: dict[str, float]) -> None:
            counts = {"wins": done.wins, "draws": done.draws, "losses": done.losses, "positions": len(seen)}
            rate = iterations / max(1e-9, time.perf_counter() - started)
            task.log(done.games, {"iterations": iterations, "iterations_per_s": rate, **losses, **counts})

        rng = make_initial_rng(task.seed)
        arrays = self._fit_examples(task.game, seen, value, rng, log)
        arrays |= {"scale": np.array(teacher.scale, np.float32), "bound": np.array(teacher.bound, np.float32)}
        save_arrays(task.run / MODEL, arrays)
        net = self.net(task.game, arrays)
        measured: dict[str, float] = {}
        for callback in task.callbacks:
            measured |= callback(done.games, net)
        if measured:
            log(self.iterations, measured)
        return done

    def load(self, game: AnyGame, run: Path) -> ValueNet:
        """Load the net trained by a run; TensorFlow is not needed.

        Raises:
            ValueError: no file, a damaged one, or one of other settings.
        """
        arrays = load_weights(run / MODEL, self.shapes(game), f"{self.name} with hidden={self.layers()[0]}", game)
        if not (arrays["scale"] > 0 and 0 < arrays["bound"] <= 1):
            raise ValueError(f"{run / MODEL} is damaged: the scale of its values is missing")
        return self.net(game, arrays)

    def _fit_examples(
        self,
        game: AnyGame,
        seen: Int8Array,
        value: Float64Array,
        rng: np.random.Generator,
        log: Callable[[int, dict[str, float]], None],
    ) -> dict[str, np.ndarray[Any, Any]]:
        """Train layers on positions ``seen`` int8[N, cells], own stones first, with values float64[N]; return their
        arrays.
        """
        tf = import_tensorflow(self.name)
        learned, held = hold_out(game, seen, self.held_out, rng)
        permutations = symmetries(game, self.symmetries)
        inputs = np.concatenate([planes(seen[learned][:, permutation]) for permutation in permutations])
        targets = np.tile(value[learned], len(permutations)).astype(np.float32)[:, None]
        shapes = {name: shape for name, shape in self.shapes(game).items() if name not in ("scale", "bound")}

        def dense(units: int, activation: Activation) -> Any:  # the weights are set below
            return tf.keras.layers.Dense(units, activation, kernel_initializer="zeros")

        with tf.device(DEVICE):
            net = tf.keras.Sequential(
                [tf.keras.Input((3 * game.cells,))]
                + [dense(units, activation) for units, activation in zip(*self.layers(), strict=True)]
                + [dense(1, "linear")]
            )
            net.set_weights(_initial(list(shapes.values()), rng))
            adam = tf.keras.optimizers.Adam(self.learning_rate, epsilon=1e-8)
            adam.build(net.trainable_variables)
            x, y = tf.constant(inputs), tf.constant(targets)
            x_held, y_held = tf.constant(planes(seen[held])), tf.constant(value[held].astype(np.float32)[:, None])

            def error(x: Any, y: Any) -> Any:
                # the report sums, here is the mean: Adam is invariant to the factor
                return tf.reduce_mean(tf.square(net(x) - y))

            def steps(rows: Any) -> Any:
                def step(number: Any) -> tuple[Any]:
                    few = (tf.gather(x, rows[number]), tf.gather(y, rows[number])) if self.batch_size else (x, y)
                    with tf.GradientTape() as tape:
                        loss = error(*few)
                    adam.apply(tape.gradient(loss, net.trainable_variables))
                    return (number + 1,)

                tf.while_loop(lambda number: number < tf.shape(rows)[0], step, (tf.constant(0),))
                return error(x, y), error(x_held, y_held)

            signature = [tf.TensorSpec((None, None), tf.int64)]
            compiled_steps = tf.function(steps, input_signature=signature, autograph=False)
            lowest, best_weights = math.inf, net.get_weights()
            whole, rest = divmod(self.iterations, self.log_iterations)
            iterations = 0
            for count in (0, *[self.log_iterations] * whole, *[rest] * (rest > 0)):
                rows = rng.integers(len(inputs), size=(count, self.batch_size))
                loss, held_loss = (float(number) for number in compiled_steps(tf.constant(rows)))
                iterations += count
                if not math.isfinite(loss):
                    raise ValueError(
                        f"{self.name} has diverged after {iterations} steps: choose a learning_rate below "
                        f"{self.learning_rate:g}"
                    )
                log(iterations, {"loss": loss} | ({"held_out_loss": held_loss} if len(held) else {}))
                if self.keep == "last" or held_loss < lowest:
                    lowest, best_weights = held_loss, net.get_weights()
        return dict(zip(shapes, best_weights, strict=True))


def hold_out(game: AnyGame, seen: Int8Array, share: float, rng: np.random.Generator) -> tuple[Int64Array, Int64Array]:
    """Return the rows of positions to learn from, and of those held out, both int64.

    Games begin alike, so the same positions come back: those that a symmetry of the board maps to each other are on the
    same side. The ``share``, rounded up, is of these classes; at least one class is learned from.

    Args:
        game: the game.
        seen: positions int8[N, cells], own stones first.
        share: of the classes, to hold out.
        rng: chooses them.
    """
    _, of_position = np.unique(canonical_keys(seen, symmetries(game))[0], axis=0, return_inverse=True)
    order = rng.permutation(of_position.max() + 1)
    held = np.isin(of_position, order[: min(math.ceil(share * len(order)), len(order) - 1)])
    return np.flatnonzero(~held), np.flatnonzero(held)


def _initial(shapes: list[tuple[int, ...]], rng: np.random.Generator) -> list[Float32Array]:
    """Draw weights and biases uniform in +-1 / sqrt(inputs), the initialization of the report's nets."""
    arrays: list[Float32Array] = []
    inputs = 1
    for shape in shapes:
        inputs = shape[0] if len(shape) == 2 else inputs  # a bias follows its weights
        arrays.append(rng.uniform(-1, 1, shape).astype(np.float32) / np.float32(math.sqrt(inputs)))
    return arrays


# ---------------------------------------------------------------------------------------------------------------------
# Playing


class ValueNet(Policy):
    """A trained value net at play, one ply deep.

    Args:
        game: the game.
        layers: from :func:`planes` to one number.
        scale: the output's scale: the score of a win.
        bound: maximum absolute value of a position that is not over, as a fraction of a win.
        which: symmetries over which values are averaged.
    """

    colour_blind = True

    def __init__(self, game: Game, layers: list[Dense], scale: float, bound: float, which: Symmetries = "none") -> None:
        self.game = game
        self._layers = layers
        self._scale, self._bound = scale, bound
        self._permutations = symmetries(game, which)

    def values(self, boards: Boards) -> Float64Array:
        """Return the net's values float64[B] from the mover's view, as fractions of a win."""
        seen = boards.own_first()
        out = np.empty(len(seen))
        for start in range(0, len(seen), CHUNK):
            part = seen[start : start + CHUNK]
            total = sum(forward(planes(part[:, permutation]), self._layers)[:, 0] for permutation in self._permutations)
            out[start : start + CHUNK] = total / (len(self._permutations) * self._scale)
        return np.clip(out, -self._bound, self._bound)

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
