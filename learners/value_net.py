"""A value net trained by imitation of a search, as in the report on tree search.

It learns the teacher's values of the positions in the teacher's games. It plays one ply deep, or replaces the heuristic
of a search. Input and output are from the mover's view. Q(a) = p V(after a, same mover) - (1 - p) V(after a, other
mover), where p is the skip chance. The net stands for a search of the teacher's depth D, so a move judged by it is a
search of depth D + 1, in which an immediate win scores D + 1. All values are fractions of that score.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Unpack, get_args

import numpy as np
from msgspec import Meta

from learners import config as types
from learners.base import Arrays, Checkpointable, GreedyPolicy, concatenate, one_ply_ahead
from learners.mlp import Activation, TFNet, dense_layers, forward, import_tensorflow, layer_shapes, planes
from learners.training import SPAWN_TEACHER, Marks, TrainingLoop, make_rng
from ttt_envs.agents.policy import VALUE_TOLERANCE, Policy
from ttt_envs.agents.specs import make_policy
from ttt_envs.core.jit import Float64Array, Int8Array, Int64Array
from ttt_envs.core.parallel import Jobs, check_jobs, map_blocks, results_in_order
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import VARIANTS, Game
from ttt_envs.game.phantom import HIDING, AnyGame, visible
from ttt_envs.game.rules import DRAW, NOT_OVER, legal, next_mover, place
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
    """A value net in TensorFlow, trained on the games of a search against itself."""

    name: ClassVar[str] = "value-net"
    variants: ClassVar[tuple[str, ...]] = tuple(VARIANTS)
    refusal_reasons: ClassVar[Mapping[str, str]] = {
        HIDING: "it reads the whole board, to value the positions after its moves"
    }
    games: ClassVar[int] = 25
    """Default number of the teacher's games, as in the report."""
    batch: ClassVar[int] = 1
    opponent: ClassVar[str] = types.TEACHER
    only_opponent: ClassVar[bool] = True
    loop: ClassVar[str] = "learners.value_net:Imitation"

    preset: Preset = "40-20"
    """hidden layers of the report's four nets: 40-20 one sigmoid after the second, 20 sigmoid, 30-10 tanh, 10-20
    sigmoid"""
    hidden: types.Layers | None = None
    """units of the hidden layers, in place of the preset's"""
    activations: tuple[Activation, ...] | None = None
    """activation of each hidden layer, in place of the preset's: linear (identity), relu, tanh or sigmoid"""
    teacher: str = "expectiminimax:depth=3,width=15"
    """policy that plays both seats and labels positions: a search, or a policy with values such as optimal"""
    epsilon: types.Fraction = 0.0
    """probability of a random move in the teacher's games, 0 to 1"""
    iterations: types.NonNegativeInt = 1_000
    """number of steps of Adam"""
    learning_rate: types.Positive = 0.01
    """learning rate of Adam, above 0"""
    batch_size: types.NonNegativeInt = 0
    """number of positions in a minibatch; 0: every step uses all positions"""
    held_out: Annotated[float, Meta(ge=0, le=0.9)] = 0.1
    """share of the games held out to measure the validation error, on their positions that no symmetry maps to one
    learned from, 0 to 0.9"""
    keep: Literal["last", "best"] = "last"
    """weights to keep: those after the last step, or those with the lowest validation error"""
    symmetries: Symmetries = "none"
    """augment training data with the rotations, or all symmetries, of the positions, and average over them at play"""
    log_iterations: types.PositiveInt = 10
    """number of steps between two points of the learning curve"""
    jobs: types.NumProcesses = -1
    """number of processes for the teacher's games, -1 for one per core; short work takes none. Results do not depend on
    it"""

    def __post_init__(self) -> None:
        super().__post_init__()
        hidden, activations = self.layers()
        if len(activations) != len(hidden):
            choices = ", ".join(get_args(Activation))
            raise ValueError(f"activations={self.activations}: choose one of {choices} for each hidden layer {hidden}")
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
        return ValueNet(self, visible(game), {"scale": unit, "bound": unit, **weights}, rng)


# ---------------------------------------------------------------------------------------------------------------------
# The teacher's games

BLOCK = 4
"""Number of teacher's games played together; a game depends on its number alone."""
MIN_SECONDS_FOR_WORKERS = 10.0
"""Minimum seconds of work for which processes are started, as starting them takes time."""


class Teacher(NamedTuple):
    """Scoring function of a teacher, with its scale."""

    scores: Callable[[Boards, np.random.Generator], Float64Array]
    """Scores moves: float64[B, cells] from the mover's view, NaN where illegal; the best moves' scores are values."""
    scale: float
    """Score of an immediate win, one ply before the teacher's scores."""
    bound: float
    """Maximum score, as a fraction of ``scale``."""

    @classmethod
    def from_spec(cls, spec: str | Policy, game: AnyGame) -> Teacher:
        """Return the teacher named by a spec string.

        Raises:
            ValueError: not a policy, or one that does not score moves.
        """
        policy = make_policy(spec, game)
        if hasattr(policy, "scores") and hasattr(policy, "depth"):  # a search: a win is worth its depth
            depth = float(policy.depth)
            return cls(policy.scores, depth + 1, depth / (depth + 1))
        if (values := policy.action_values) is not None:
            return cls(lambda boards, rng: values(boards), 1.0, 1 - 2.0**-10)
        raise ValueError(f"teacher={spec} has no action values: choose a search, as expectiminimax:depth=3, or optimal")


class TrainingExamples(NamedTuple):
    """Positions of some games, in order, with their values."""

    obs: Int8Array
    """int8[N, cells], own stones first"""
    value: Float64Array
    """float64[N], the teacher's values from the mover's view"""
    game: Int64Array
    """int64[N]: the number of the game"""
    results: Float64Array
    """float64[games], for player_0"""


def play_training_games(game: Game, teacher: str, epsilon: float, seed: int, numbers: range) -> TrainingExamples:
    """Return the examples of the teacher's games with these numbers; each depends on its number and the seed alone.

    Moves within 1e-9 of the best have equal shares.
    """
    scorer = Teacher.from_spec(teacher, game)
    obs, value, games, results = [], [], [], []
    for number in numbers:
        rng, boards, outcome = make_rng(seed, SPAWN_TEACHER, number), Boards.start(game), NOT_OVER
        cells, mover = boards.cells[0], boards.mover
        while outcome == NOT_OVER:
            scores = scorer.scores(boards, rng)[0]
            best = float(np.nanmax(scores))
            obs.append(boards.own_first()[0])
            value.append(best)
            games.append(number)
            moves = np.flatnonzero(scores >= best - VALUE_TOLERANCE)
            if epsilon > 0 and rng.random() < epsilon:
                moves = np.flatnonzero(legal(game, cells))
            outcome = place(cells, int(mover[0]), int(rng.choice(moves)), int(np.count_nonzero(cells)), game.parameters)
            mover[0] = next_mover(int(mover[0]), rng.random(), game.skip_chance)
        results.append(0.0 if outcome == DRAW else 1.0 - 2.0 * outcome)
    return TrainingExamples(np.array(obs, np.int8), np.array(value), np.array(games), np.array(results))


def play_blocks(
    game: Game, teacher: str, epsilon: float, seed: int, games: range, workers: Jobs
) -> Iterator[TrainingExamples]:
    """Play the teacher's games with these numbers, and yield the examples of up to :data:`BLOCK` games, in order.

    Args:
        game: the game.
        teacher: a spec string.
        epsilon: probability of a random move.
        seed: of the games.
        games: their numbers.
        workers: the processes, or a cluster. Games that are known to take little time are played here.

    Raises:
        ValueError: a teacher that does not score moves.
    """
    play = partial(play_training_games, game, teacher, epsilon, seed)
    blocks = [(games[start : start + BLOCK],) for start in range(0, len(games), BLOCK)]
    for number, block in enumerate(blocks, start=1):
        begun = time.perf_counter()
        examples = play(*block)
        seconds = time.perf_counter() - begun
        yield examples
        if workers != 1 and number > 1 and seconds * (len(blocks) - number) > MIN_SECONDS_FOR_WORKERS:
            yield from results_in_order(map_blocks(play, blocks[number:], workers))  # the first block compiles
            return


# ---------------------------------------------------------------------------------------------------------------------
# Training


class Imitation(TrainingLoop):
    """The training of a value net: the teacher plays its games, then the net learns the values of their positions.

    A step is a block of games, or ``config.log_iterations`` iterations of Adam; the first of these are none, to measure
    the untrained net. ``logged`` has the number of iterations, the errors after them, and the number of positions. A
    restored training keeps the games; the net learns again from the beginning, which takes seconds.

    Args:
        learner: the untrained net, trained in place; its ``rng`` chooses the games held out, and minibatches.
        games: number of the teacher's games.
        options: ``seed``, of the games, and ``cluster``, which plays them, by default the processes of its settings.
    """

    learner: ValueNet
    stored = ("counts", "examples")
    any_length = ("examples.",)
    measured_at_end = True

    def __init__(self, learner: ValueNet, games: int, **options: Unpack[types.TrainingOptions]) -> None:
        super().__init__(learner, games, 1)
        workers = options.get("cluster") or learner.config.jobs
        if games == 0:
            raise ValueError("games=0 gives no training data: choose 1 or more of the teacher's games")
        check_jobs(workers)
        teacher = Teacher.from_spec(learner.config.teacher, learner.game)
        import_tensorflow(learner.config.name)  # report a missing TensorFlow before games are played
        self._weights = {name: array for name, array in learner.state.items() if name not in ("scale", "bound")}
        self._scale = {"scale": np.array(teacher.scale, np.float32), "bound": np.array(teacher.bound, np.float32)}
        learner.from_arrays({**self._weights, **self._scale})
        no_obs, no_games = np.zeros((0, learner.game.cells), np.int8), np.zeros(0, np.int64)
        self.examples = TrainingExamples(no_obs, np.zeros(0), no_games, np.zeros(0))
        self._blocks, self._fits = self._play(options["seed"], workers), self._fit()

    @property
    def running(self) -> bool:
        """Whether games or iterations remain."""
        return super().running or self.logged.get("iterations", -1) < self.learner.config.iterations

    def is_log_point(self, following: Marks) -> bool:
        """Return whether this step was one of iterations."""
        return len(self.logged) > 0

    def from_arrays(self, arrays: Arrays) -> None:
        """See :class:`~learners.base.Stored`."""
        super().from_arrays(arrays)
        self.continues = False

    def step(self) -> None:
        """Play a block of games, or learn.

        Raises:
            ValueError: the net has diverged, or no position is held out to choose the best net by.
        """
        if super().running:
            examples = next(self._blocks)
            self.examples = concatenate([self.examples, examples])
            self.done.count(examples.results)
        else:
            self.logged = next(self._fits) | {"positions": len(self.examples.value)}

    def _play(self, seed: int, workers: Jobs) -> Iterator[TrainingExamples]:
        config, numbers = self.learner.config, range(self.done.games, self.games)
        yield from play_blocks(self.learner.game, config.teacher, config.epsilon, seed, numbers, workers)

    def _fit(self) -> Iterator[dict[str, float]]:
        """Train the net on the teacher's values; yield the errors before, and after every ``log_iterations``."""
        learner, config, (obs, value, *_) = self.learner, self.learner.config, self.examples
        net = TFNet(config.name, self._weights, (*config.layers()[1], "linear"), config.learning_rate)
        learned, held = hold_out(learner.game, self.examples, config.held_out, learner.rng)
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
            rows = learner.rng.integers(len(images), size=(count, config.batch_size))
            loss, held_loss = (float(number) for number in train(rows, net.next_rates(count)))
            net.check(loss)
            if config.keep == "last" or held_loss < lowest:
                lowest = held_loss
                learner.from_arrays({**net.arrays, **self._scale})
            yield {"iterations": net.updates, "loss": loss} | ({"held_out_loss": held_loss} if len(held) else {})


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


class ValueNet(GreedyPolicy, Checkpointable):
    """A value net at play, one ply deep; TensorFlow is not needed.

    Args:
        config: the settings.
        game: the game.
        arrays: float32, the weights from :func:`planes` to one number; ``scale``, the output's scale, is the score of a
            win; ``bound`` is the maximum absolute value of a position that is not over, as a fraction of a win.
        rng: generator of its training.
    """

    colour_blind = True
    name = ValueNetConfig.name
    game: Game

    def __init__(
        self, config: ValueNetConfig, game: Game, arrays: Arrays, rng: np.random.Generator | None = None
    ) -> None:
        self.config, self.game, self.rng = config, game, rng or np.random.default_rng(0)
        self._permutations = symmetries(game, config.symmetries)
        self.from_arrays(arrays)

    def to_arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return the arrays."""
        return dict(self._arrays)

    def from_arrays(self, arrays: Arrays) -> None:
        """Replace the arrays."""
        self._arrays = arrays
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
