"""Learners of Stable-Baselines3 and sb3-contrib, trained in the Gymnasium environments, and their
files as policies.

Our runs hold the weights as plain arrays, and playing them needs neither package. A zip saved by
Stable-Baselines3 holds pickles, which can run any code when loaded: ``sb3:PATH`` loads it only if
it is trusted.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal, Protocol

import numpy as np
from msgspec import Meta

from learners.base import (
    AnyArray,
    Arrays,
    ArraySpec,
    Checkpointable,
    Tensor,
    discounts,
)
from learners.config import (
    Fraction,
    Layers,
    LearnerConfig,
    NonNegative,
    Positive,
    PositiveInt,
    Rate,
)
from learners.mlp import Activation, Dense, forward, net_specs, planes
from learners.training import (
    SPAWN_EXPLORATION,
    SPAWN_INITIAL,
    TrainingLoop,
    check_memory,
    check_opposite_values,
    make_seeds,
)
from ttt_envs.agents.adapters import as_policy
from ttt_envs.agents.policy import GreedyPolicy, Policy, best_shares
from ttt_envs.agents.softmax_table import softmax
from ttt_envs.agents.specs import TRUST, Named, load_object, trusted
from ttt_envs.core.checks import Refusal, name_place
from ttt_envs.core.jit import Float32Array, Float64Array
from ttt_envs.core.packages import avoid_triton_crash, hide_native_log, install_command
from ttt_envs.core.random import GlobalState
from ttt_envs.envs.config import SELF, SeatChoice, Symmetry, game_keywords
from ttt_envs.game.actions import num_actions
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import VARIANTS, Game
from ttt_envs.game.phantom import HIDING, AnyGame

# --------------------------------------------------------------------------------------------------
# Packages, and their global state


class RandomState:
    """The random generators of the process as Stable-Baselines3 uses them, apart from their use by
    others.

    In its context they continue where they were at the end of the last one, and torch has this
    number of threads. On exit they are as before.
    """

    def __init__(self, threads: int | None = None) -> None:
        self._threads = threads
        self._own: GlobalState | None = None

    def __enter__(self) -> None:
        import torch  # whose state it has from here on

        self._others = GlobalState.current()
        if self._own is not None:
            self._own.restore()
        elif self._threads is not None:
            torch.set_num_threads(self._threads)

    def __exit__(self, *_: object) -> None:
        self._own = GlobalState.current()
        self._others.restore()


def load_algorithm(owner: str, path: str) -> Any:
    """Import the class "package:Class" of an algorithm; ``owner`` names the learner in messages.

    Raises:
        ValueError: a package that is not installed.
    """
    avoid_triton_crash()
    try:
        # before TensorFlow, which Stable-Baselines3 imports if it is installed
        import torch  # noqa: F401

        with hide_native_log():
            return load_object(path)
    except (ImportError, ValueError) as problem:
        raise Refusal(
            f"{owner} needs Stable-Baselines3 ({problem}): {install_command('sb3')}"
        ) from None


# --------------------------------------------------------------------------------------------------
# Self-play: the next position is mostly the opponent's, and its value has the opposite sign (if the
# players see the same board: self-play is refused in phantom games). The buffers of
# Stable-Baselines3 know the end of a game as a number, 1 or 0, and multiply what comes after by 1 -
# end: with `1 - discount` for that number they compute with the discount, which is -1 before the
# opponent's turn.


class SignedGames(Protocol):
    """Games that know the sign of the next mover."""

    discount: Float32Array


def sign_buffer(games: SignedGames, buffer: Any) -> Any:
    """Turn a new buffer into one for self-play, and return it.

    The attribute ``discount`` float32[B] of ``games`` describes the last step as in
    ``learners.base.Transition``: 0 if the game is over, +1 if the mover moves again, -1 if the
    opponent is next.
    """
    from stable_baselines3.common.buffers import ReplayBuffer

    # the class is known at run time only: type checkers refuse it as a base class
    kind: Any = type(buffer)

    class SignedReplay(kind):  # type: ignore[misc]  # see kind
        def add(
            self,
            obs: AnyArray,
            next_obs: AnyArray,
            action: AnyArray,
            reward: AnyArray,
            done: AnyArray,
            infos: list[dict[str, object]],
        ) -> None:
            super().add(obs, next_obs, action, reward, 1 - games.discount, infos)

    class SignedRollout(kind):  # type: ignore[misc]  # see kind
        last_discount = games.discount

        def add(
            self,
            obs: AnyArray,
            action: AnyArray,
            reward: AnyArray,
            episode_start: AnyArray,
            *values: Tensor,
            **masks: AnyArray,
        ) -> None:
            super().add(obs, action, reward, 1 - self.last_discount, *values, **masks)
            self.last_discount = games.discount

        def compute_returns_and_advantage(self, last_values: Tensor, dones: AnyArray) -> None:
            super().compute_returns_and_advantage(last_values, 1 - games.discount)

    buffer.__class__ = SignedReplay if isinstance(buffer, ReplayBuffer) else SignedRollout
    return buffer


# --------------------------------------------------------------------------------------------------
# Nets at play, from plain arrays: neither torch nor Stable-Baselines3 is needed


class SB3Net(Checkpointable):
    """A net of Stable-Baselines3 at play. Its state is the policy's ``state_dict``, in float32; at
    first it has none.

    It is computed in float64, so that a position's probabilities do not depend on the rest of its
    batch.

    Args:
        config: the settings.
        game: the game.

    Attributes:
        stochastic: whether the outputs are logits of a distribution; else the legal moves of
            highest output share equally.
    """

    colour_blind = True
    towers: ClassVar[tuple[tuple[str, ...], ...]]
    """Beginnings of the names of the layers in play, and of those of the critic."""
    activation: ClassVar[Activation]
    """Between layers."""

    def __init__(self, config: SB3Config, game: AnyGame) -> None:
        self.name = config.name
        self.config = config
        self.game = game
        self.stochastic = getattr(config, "stochastic", False)
        self._arrays: Arrays = {}
        # shared with the actor
        self._layers: list[list[Dense]] = []

    def to_arrays(self) -> dict[str, AnyArray]:
        """Return the arrays."""
        return dict(self._arrays)

    def array_specs(self, arrays: Arrays) -> dict[str, ArraySpec]:
        """See :class:`~learners.base.Stored`; :meth:`from_arrays` compares the shapes of those that
        it uses.
        """
        float32 = np.dtype(np.float32)
        return {name: spec._replace(dtype=float32) for name, spec in net_specs(arrays).items()}

    def from_arrays(self, arrays: Arrays) -> None:
        """Replace the arrays.

        Raises:
            ValueError: they are not of these layers.
        """
        num_outputs = (num_actions(self.game), 1)
        layers = []
        for prefixes, outputs in zip(self.towers, num_outputs, strict=False):
            tower = {name: array for name, array in arrays.items() if name.startswith(prefixes)}
            layers.append(self._build_layers(list(tower.values()), outputs))
        self._arrays = arrays
        self._layers[:] = layers

    def _build_layers(self, arrays: Sequence[AnyArray], outputs: int) -> list[Dense]:
        """Return the layers of a part of the net, from weights and biases in turn.

        Raises:
            ValueError: they are not of these layers.
        """
        config = self.config
        shapes = list(pairwise((2 * self.game.cells, *config.hidden, outputs)))
        layers = [
            Dense(w.T.astype(np.float64), bias.astype(np.float64), self.activation)
            for w, bias in zip(arrays[::2], arrays[1::2], strict=True)
        ]
        if [(*layer.weights.shape, *layer.bias.shape) for layer in layers] != [
            (inputs, width, width) for inputs, width in shapes
        ]:
            needs = (
                f"{config.name} with hidden={config.hidden} needs layers of {shapes} for "
                f"{self.game}"
            )
            raise Refusal(f"{needs}, but these arrays are another game's or learner's")
        layers[-1] = layers[-1]._replace(activation="linear")
        return layers

    def outputs(self, boards: Boards, tower: int = 0) -> Float64Array:
        """Return float64[B, outputs] of a part of the net for ``observation="flat"``."""
        return forward(planes(boards.own_first(), 2), self._layers[tower])

    def scores(self, boards: Boards) -> Float64Array:
        """Return outputs float64[B, cells], NaN where illegal; with gravity a cell has that of its
        column.
        """
        outputs = self.outputs(boards)
        outputs = np.tile(outputs, (1, self.game.rows)) if self.game.gravity else outputs
        return np.where(boards.legal(self.game), outputs, np.nan)

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Float64Array:
        """Return float64[B, cells]: equal shares for the legal moves of highest score, or the
        masked distribution.
        """
        scores = self.scores(boards)
        return softmax(scores) if self.stochastic else best_shares(scores)


class SB3ActorCritic(SB3Net):
    """A net whose ``values`` are the critic's, of the stochastic policy, its ``actor``."""

    towers = (
        ("mlp_extractor.policy_net.", "action_net."),
        ("mlp_extractor.value_net.", "value_net."),
    )
    activation = "tanh"

    def __init__(self, config: SB3Config, game: AnyGame) -> None:
        super().__init__(config, game)
        self.actor = copy.copy(self)
        self.actor.stochastic = True

    def values(self, boards: Boards) -> Float64Array:
        """Return the critic's values float64[B] from the mover's view."""
        return self.outputs(boards, 1)[:, 0]


class SB3QNet(GreedyPolicy, SB3Net):
    """A net whose scores are action values."""

    towers = (("q_net.",),)
    activation = "relu"
    action_values = SB3Net.scores


# --------------------------------------------------------------------------------------------------
# Learners


@dataclass(frozen=True)
class SB3Config(LearnerConfig):
    """Settings that the three learners share."""

    algorithm: ClassVar[str]
    """Class of the algorithm, "package:Class"."""
    net: ClassVar[type[SB3Net]]
    """Class of the policy."""
    variants: ClassVar[tuple[str, ...]] = (*VARIANTS, HIDING)
    loop: ClassVar[str] = "learners.sb3:SB3Training"
    resumes: ClassVar[bool] = False
    needs: ClassVar[tuple[str, ...]] = ("torch", "stable_baselines3")
    test_settings: ClassVar[dict[str, object]] = {
        "games": 60,
        "hidden": 4,
        "rollout": 16,
        "batch_size": 16,
    }

    learning_rate: Rate = 1e-3
    """initial learning rate of Adam, above 0 and at most 1"""
    anneal_lr: bool = True
    """decay the learning rate linearly to 0 over the training"""
    gamma: Fraction = 1.0
    """discount factor per turn, 0 to 1"""
    hidden: Layers = (128, 128)
    """number of units of each hidden layer, 1 to 8192 in each of 1 to 8 layers"""
    symmetry: Symmetry = "random"
    """random: transform each game by a randomly drawn symmetry of the board"""
    threads: PositiveInt = 1
    """number of torch threads during training; with more than one the same seed need not give the
    same learner
    """

    def steps_per_update(self, batch: int) -> int:
        """Return the number of steps of ``batch`` parallel games between updates."""
        raise NotImplementedError

    def algorithm_arguments(self, batch: int) -> dict[str, object]:
        """Return the arguments of the algorithm for ``batch`` parallel games, without those that
        all three share.
        """
        raise NotImplementedError

    def build(self, game: AnyGame, rng: np.random.Generator) -> SB3Net:
        """Return a net of zeros; Stable-Baselines3 draws the initial weights."""
        return self.net(self, game)


class SB3Training(TrainingLoop):
    """A training by Stable-Baselines3. A step is the positions between two updates of its net, and
    these.

    At least ``games`` games are finished and learned from. Its state is not stored, so it cannot
    continue. ``logged`` has the values that Stable-Baselines3 logs, where they are finite.
    """

    learner: SB3Net
    continues_log = False

    def __init__(
        self,
        learner: SB3Net,
        games: int,
        *,
        batch: int,
        seed: int,
        opponent: str,
        seat: SeatChoice,
        openings: str | None = None,
    ) -> None:
        super().__init__(learner, games, batch)
        config = learner.config
        self._self_play = opponent == SELF
        if self._self_play:
            check_opposite_values(learner.game, "choose a policy as opponent")
        buffer_size = getattr(config, "buffer_size", 0)
        # of a position in the buffer of Stable-Baselines3
        num_bytes = 4 * learner.game.cells + 20
        check_memory(num_bytes * buffer_size, f"buffer_size={buffer_size:,}")
        algorithm = load_algorithm(config.name, config.algorithm)
        from stable_baselines3.common.logger import Logger

        from ttt_envs.sb3 import make_vec_env

        env = make_vec_env(
            n_envs=self.batch,
            dtype="int8",
            symmetry=config.symmetry,
            illegal_action=getattr(config, "illegal_action", "raise"),
            opponent=opponent,
            seat=seat,
            openings=openings,
            **game_keywords(learner.game),
        )
        self._positions = config.steps_per_update(self.batch) * self.batch
        rate = config.learning_rate
        schedule = (lambda remaining: rate * remaining) if config.anneal_lr else rate
        self._random_state = RandomState(config.threads)
        with self._random_state:
            self.model = model = algorithm(
                "MlpPolicy",
                env,
                seed=int(make_seeds(seed, SPAWN_INITIAL).generate_state(1)[0]),
                learning_rate=schedule,
                gamma=config.gamma,
                policy_kwargs={"net_arch": list(config.hidden)},
                device="cpu",
                **config.algorithm_arguments(self.batch),
            )
        # the games have seeds of their own, not those of the model
        game_seeds = make_seeds(seed, SPAWN_EXPLORATION).generate_state(self.batch, np.uint64)
        env._seeds = game_seeds.tolist()
        # the default logger would make a folder
        model.set_logger(Logger(folder=None, output_formats=[]))
        # by games, not by positions
        model._update_current_progress_remaining = self._update_remaining
        self.discount = np.ones(self.batch, np.float32)
        if self._self_play:
            sign_buffer(self, getattr(model, "rollout_buffer", None) or model.replay_buffer)
        self._store()

    def _update_remaining(self, *_: int) -> None:
        """Set the share of the training that remains, by which learning rate and exploration
        decay.
        """
        self.model._current_progress_remaining = max(0.0, 1 - self.done.games / max(1, self.games))

    def step(self) -> None:
        """Play, and learn.

        Raises:
            ValueError: the net has diverged.
        """
        with self._random_state:
            self.model.learn(
                self._positions, self.count, reset_num_timesteps=False, log_interval=None
            )
        self.steps = self.model.num_timesteps
        metrics = {}
        for key, value in self.model.logger.name_to_value.items():
            if math.isfinite(value):
                metrics[key.partition("/")[2]] = float(value)
        self.logged = metrics
        self._store()

    def count(self, step: Mapping[str, Any], _: object) -> bool:
        """Take a step of the games: count those that end, in self-play for player_0, and set the
        discounts.
        """
        over = step["dones"]
        rewards = step["rewards"].astype(np.float64)
        if self._self_play:
            mover = np.array([info["mover"] for info in step["infos"]])
            seat = np.array([info["seat"] for info in step["infos"]])
            rewards = np.where(seat == 1, -rewards, rewards)
            self.discount = discounts(over, seat, mover)
        self.done.count(rewards[over])
        return True

    def _store(self) -> None:
        """Hand the weights to the learner."""
        tensors = self.model.policy.state_dict()
        arrays = {name: tensor.detach().numpy().copy() for name, tensor in tensors.items()}
        if not all(np.isfinite(array).all() for array in arrays.values()):
            raise Refusal(
                f"{self.learner} diverged after {self.done.games} games: choose a smaller "
                "learning_rate"
            )
        self.learner.from_arrays(arrays)


@dataclass(frozen=True)
class DQNConfig(SB3Config):
    """DQN of Stable-Baselines3: Q-learning with a net, a replay buffer and a target net (Mnih et
    al., 2015).
    """

    name: ClassVar[str] = "sb3-dqn"
    test_settings: ClassVar[dict[str, object]] = {"games": 60, "hidden": 4, "learning_starts": 20}
    algorithm: ClassVar[str] = "stable_baselines3:DQN"
    net: ClassVar[type[SB3Net]] = SB3QNet

    illegal_action: Literal["lose", "penalize"] = "lose"
    """effect of an illegal action in training: lose the game, or penalize by as much and leave the
    board; greedy play uses legal moves only"""
    positions_per_update: PositiveInt = 16
    """number of positions played per step of Adam"""
    batch_size: PositiveInt = 256
    """number of positions in a minibatch"""
    buffer_size: PositiveInt = 100_000
    """capacity of the replay buffer in positions"""
    learning_starts: PositiveInt = 5_000
    """number of positions played at random before learning starts"""
    target_update_interval: PositiveInt = 2_000
    """number of positions played between copies of the net to the target net"""
    exploration_initial_eps: Fraction = 1.0
    """initial probability of a random move, 0 to 1"""
    exploration_final_eps: Fraction = 0.05
    """final probability of a random move, 0 to 1"""
    exploration_fraction: Rate = 0.5
    """share of the training over which the probability decays linearly, above 0 and at most 1"""

    def steps_per_update(self, batch: int) -> int:
        """See :class:`SB3Config`."""
        return max(1, self.positions_per_update // batch)

    def algorithm_arguments(self, batch: int) -> dict[str, object]:
        """See :class:`SB3Config`."""
        steps = self.steps_per_update(batch)
        return {
            "train_freq": steps,
            "gradient_steps": max(1, round(steps * batch / self.positions_per_update)),
            "batch_size": self.batch_size,
            "buffer_size": self.buffer_size,
            "learning_starts": self.learning_starts,
            "target_update_interval": self.target_update_interval,
            "exploration_initial_eps": self.exploration_initial_eps,
            "exploration_final_eps": self.exploration_final_eps,
            "exploration_fraction": self.exploration_fraction,
        }


@dataclass(frozen=True)
class MaskablePPOConfig(SB3Config):
    """PPO of sb3-contrib that gives illegal actions no probability (Huang and Ontañón, 2022)."""

    name: ClassVar[str] = "sb3-maskable-ppo"
    algorithm: ClassVar[str] = "sb3_contrib:MaskablePPO"
    needs: ClassVar[tuple[str, ...]] = (*SB3Config.needs, "sb3_contrib")
    net: ClassVar[type[SB3Net]] = SB3ActorCritic
    self_play: ClassVar[Mapping[str, object]] = {
        "hidden": (64, 64),
        "rollout": 4_096,
        "batch_size": 512,
        "ent_coef": 0.2,  # it must go on visiting what an opponent could choose
    }
    self_play_games: ClassVar[int] = 100_000

    learning_rate: Rate = 3e-3
    """initial learning rate of Adam, above 0 and at most 1"""
    stochastic: bool = False
    """sample moves from the net's distribution over legal moves at play, in place of its most
    likely move
    """
    rollout: Annotated[int, Meta(ge=2)] = 2_048
    """number of positions per rollout, over all parallel games"""
    batch_size: Annotated[int, Meta(ge=2)] = 256
    """number of positions in a minibatch, rounded up to the next divisor of the rollout"""
    n_epochs: PositiveInt = 5
    """number of epochs per rollout"""
    gae_lambda: Fraction = 0.95
    """lambda of generalized advantage estimation: 0 relies on the value of the next position, 1 on
    the result of the game"""
    clip_range: Positive = 0.2
    """PPO clip range: maximum relative change of a move's probability per rollout, above 0"""
    ent_coef: NonNegative = 0.02
    """entropy coefficient, 0 or more: encourages exploration"""
    vf_coef: NonNegative = 0.5
    """value loss coefficient, 0 or more"""

    def steps_per_update(self, batch: int) -> int:
        """See :class:`SB3Config`."""
        return max(2 if batch == 1 else 1, self.rollout // batch)

    def algorithm_arguments(self, batch: int) -> dict[str, object]:
        """See :class:`SB3Config`."""
        steps = self.steps_per_update(batch)
        total = steps * batch
        # a last minibatch of one position would have standard deviation 0
        sizes = range(min(self.batch_size, total), total + 1)
        return {
            "n_steps": steps,
            "batch_size": next(size for size in sizes if total % size == 0),
            "n_epochs": self.n_epochs,
            "gae_lambda": self.gae_lambda,
            "clip_range": self.clip_range,
            "ent_coef": self.ent_coef,
            "vf_coef": self.vf_coef,
        }


@dataclass(frozen=True)
class PPOConfig(MaskablePPOConfig):
    """PPO of Stable-Baselines3: policy gradients with clipped steps (Schulman et al., 2017)."""

    name: ClassVar[str] = "sb3-ppo"
    needs: ClassVar[tuple[str, ...]] = SB3Config.needs
    algorithm: ClassVar[str] = "stable_baselines3:PPO"

    illegal_action: Literal["lose", "penalize"] = "lose"
    """effect of an illegal action in training: lose the game, or penalize by as much and leave the
    board; greedy play uses legal moves only"""


# --------------------------------------------------------------------------------------------------
# Zips saved by Stable-Baselines3

Algorithm = Literal["dqn", "ppo", "maskable-ppo"]
CONFIGS: dict[str, type[SB3Config]] = {
    "dqn": DQNConfig,
    "ppo": PPOConfig,
    "maskable-ppo": MaskablePPOConfig,
}


@dataclass(frozen=True)
class ZipPolicy(Named):
    """A zip saved by Stable-Baselines3, ``sb3:PATH,algorithm=dqn``, playing the legal move of
    highest score.

    Args:
        game: the game, on the board on which the model was trained.
        path: the zip.
        algorithm: the algorithm that trained it.
        trust: whether the file may run code; the environment variable ``TTT_ENVS_TRUST`` = 1 trusts
            every file.

    Raises:
        ValueError: a file that is missing, not trusted, damaged, of another algorithm or another
            board.
    """

    name: ClassVar[str] = "sb3"
    needs = ("torch", "stable_baselines3")
    colour_blind = True
    plays_hidden = True
    # gravity shows by the number of actions
    variants = ("gravity",)
    refusals: ClassVar = dict.fromkeys(
        ("overlines", "misere", "torus"), "a zip does not store the rules of its game"
    )

    game: Game
    path: str
    algorithm: Algorithm
    trust: bool = False

    def __post_init__(self) -> None:
        if not (self.trust or trusted()):
            spec = f"sb3:{self.path},algorithm={self.algorithm},trust=true"
            why = (
                "a zip of Stable-Baselines3 holds pickles, which can run any code when they are "
                "loaded"
            )
            raise Refusal(
                f"{self.path} is not read: {why}. If you trust its source, set {TRUST}=1 or write "
                f"{spec}"
            )
        self.model  # noqa: B018  # reports a damaged file at once

    @cached_property
    def model(self) -> Policy:
        """The model."""
        kind = load_algorithm(str(self), CONFIGS[self.algorithm].algorithm)
        # a small buffer in place of one of a million positions
        memory = {"buffer_size": 1} if self.algorithm == "dqn" else {}
        place = (
            f"{self.path} cannot be read as a zip of {kind.__name__}, is it there, and of this "
            "algorithm?"
        )
        # a pickle can raise any; opened here, because Stable-Baselines3 would add .zip to the name
        # of a missing file
        with RandomState(), name_place(place, (Exception,)), open(self.path, "rb") as file:
            model = kind.load(file, device="cpu", seed=None, **memory)
            if not isinstance(model.policy, kind.policy_aliases["MlpPolicy"]):
                raise TypeError(f"it holds a {type(model.policy).__name__}")
        return as_policy(model, self.game)

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Float64Array:
        """Return float64[B, cells]: equal shares for the legal moves of highest score."""
        return self.model.probabilities(boards)
