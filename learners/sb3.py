"""Learners of Stable-Baselines3 and sb3-contrib, trained in the Gymnasium environments, and their files as policies.

A run of ours holds the weights as plain arrays, and playing it needs neither package. A zip saved by Stable-Baselines3
itself holds pickles, which can run any code when they are read: ``sb3:PATH`` reads it only where it is trusted.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import math
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from learners.checkpoint import MODEL, load_weights, save_arrays
from learners.dense import Activation, Dense, forward
from learners.quiet import without_chatter
from learners.training import Progress, Task, check_counts, marks_of
from ttt_envs.boards import Boards
from ttt_envs.compiling import Cells, Reals
from ttt_envs.lockstep import SELF, IllegalAction, Symmetry
from ttt_envs.policy import TRUST, Named, Policy, trusted
from ttt_envs.rules import Game
from ttt_envs.vector_env import MNKVectorEnv

SAVE_EVERY = 10.0  # seconds between two writings of MODEL while learning, at lines of the log
LARGEST_LAYER, MOST_LAYERS = 8192, 4

Algorithm = Literal["dqn", "ppo", "maskable-ppo"]
Arrays = Mapping[str, np.ndarray[Any, Any]]
_ALGORITHMS = {
    "dqn": ("stable_baselines3", "DQN"),
    "ppo": ("stable_baselines3", "PPO"),
    "maskable-ppo": ("sb3_contrib", "MaskablePPO"),
}


# ---------------------------------------------------------------------------------------------------------------------
# Playing


def flat(boards: Boards) -> Cells:
    """int8[B, 2 * cells]: what the environments show with ``observation="flat"``, own stones first."""
    seen = boards.own_first()
    return np.concatenate((seen == 1, seen == 2), axis=1).astype(np.int8)


def choose(scores: Reals, cells: Cells, stochastic: bool) -> Reals:
    """float64[B, cells]: how likely each legal move is.

    Args:
        scores: float64[B, cells], values of actions or logits.
        cells: int8[B, cells], the boards.
        stochastic: whether scores are logits to draw from; else moves of the highest score share.
    """
    scores = np.where(cells == 0, scores, -np.inf)
    best = scores.max(axis=1, keepdims=True)
    shares = np.exp(scores - best) if stochastic else (scores == best).astype(np.float64)
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


class Layer(NamedTuple):
    """A linear layer by its name in a ``state_dict``, and its size."""

    name: str
    inputs: int
    outputs: int

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Its two arrays."""
        return {f"{self.name}.weight": (self.outputs, self.inputs), f"{self.name}.bias": (self.outputs,)}


class Net:
    """A net of Stable-Baselines3 at play, as it is at this moment.

    It is computed in float64, so that a position's probabilities do not depend on what else is in its batch.
    """

    pure = True

    def __init__(
        self, game: Game, layers: list[Layer], arrays: Arrays, activation: Activation, stochastic: bool
    ) -> None:
        self.game = game
        self.stochastic = stochastic
        self._layers = [
            Dense(
                arrays[f"{layer.name}.weight"].T.astype(np.float64),
                arrays[f"{layer.name}.bias"].astype(np.float64),
                "linear" if layer is layers[-1] else activation,
            )
            for layer in layers
        ]

    def scores(self, boards: Boards) -> Reals:
        """float64[B, cells]: the last layer, illegal actions included."""
        return forward(flat(boards), self._layers)

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Reals:
        """float64[B, cells]: equal shares for the legal moves of highest score, or the masked distribution."""
        return choose(self.scores(boards), boards.cells, self.stochastic)


class QNet(Net):
    """A net whose scores are the values of actions."""

    def action_values(self, boards: Boards) -> Reals:
        """float64[B, cells], to the mover, NaN where illegal."""
        return np.where(boards.cells == 0, self.scores(boards), np.nan)

    def values(self, boards: Boards) -> Reals:
        """float64[B]: of the best legal move, to the mover."""
        return np.asarray(np.where(boards.cells == 0, self.scores(boards), -np.inf).max(axis=1))


# ---------------------------------------------------------------------------------------------------------------------
# Learning


@contextmanager
def _randomness_kept(threads: int | None = None) -> Iterator[None]:
    """What is drawn inside from the generators of the process, which Stable-Baselines3 uses, is given back after."""
    import torch

    before = random.getstate(), np.random.get_state(), torch.get_rng_state(), torch.get_num_threads()  # noqa: NPY002
    try:
        if threads is not None:
            torch.set_num_threads(threads)
        yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])  # noqa: NPY002
        torch.set_rng_state(before[2])
        torch.set_num_threads(before[3])


def _check_packages(wanted: str, *packages: str) -> None:
    for package in ("torch", "stable_baselines3", *packages):
        if importlib.util.find_spec(package) is None:
            raise ValueError(
                f"{wanted} needs {package}, which is not installed: pip install stable-baselines3 sb3-contrib"
            )
        with without_chatter():  # Stable-Baselines3 imports TensorFlow where it is installed
            importlib.import_module(package)


def _games(task: Task, symmetry: Symmetry, illegal_action: IllegalAction, done: Progress) -> Any:
    """``MNKVectorEnv`` as a vector environment of Stable-Baselines3, which adds finished games to ``done``.

    Its ``discount`` float32[B] says what the last step led to, as in ``learners.base.Transition``: 0 the game is over,
    +1 the mover is to move again, -1 the opponent is (in self-play only).
    """
    from stable_baselines3.common.vec_env import VecEnv

    game = task.game
    env = MNKVectorEnv(
        task.batch,
        (game.rows, game.columns),
        game.win_length,
        game.skip_chance,
        opponent=task.opponent,
        seat=task.seat,
        illegal_action=illegal_action,
        symmetry=symmetry,
        dtype="int8",  # what buffers keep
        autoreset_mode=AutoresetMode.SAME_STEP,
    )
    both = task.opponent == SELF
    seeds = np.random.SeedSequence(task.seed, spawn_key=(0,)).generate_state(task.batch, np.uint64)

    class Games(VecEnv):
        def __init__(self) -> None:
            super().__init__(env.num_envs, env.single_observation_space, env.single_action_space)
            self.discount = np.ones(env.num_envs, np.float32)

        def reset(self) -> Any:
            observation, info = env.reset(seed=seeds.tolist())
            self._mover = info["mover"]
            return observation

        def step_async(self, actions: np.ndarray[Any, Any]) -> None:
            self._actions = actions

        def step_wait(self) -> Any:
            observation, rewards, terminated, truncated, info = env.step(self._actions)
            over = terminated | truncated
            self.discount = np.where(over, 0, np.where(both & (info["mover"] != self._mover), -1, 1)).astype(np.float32)
            self._mover = info["mover"]
            infos: list[dict[str, Any]] = [{}] * env.num_envs
            rows = np.flatnonzero(over)
            if len(rows):
                ended = rewards[rows]
                if both:  # counted for player_0
                    ended = np.where(info["final_info"]["seat"][rows] == 1, -ended, ended)
                done.count(ended)
                for row in rows:
                    infos[row] = {
                        "terminal_observation": info["final_obs"][row],
                        "TimeLimit.truncated": bool(truncated[row]),
                    }
            return observation, rewards.astype(np.float32), over, infos

        def close(self) -> None:
            env.close()

        def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
            assert method_name == "action_masks"
            return list(env.action_masks())

        def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
            if attr_name not in ("render_mode", "action_masks"):
                raise AttributeError(attr_name)
            return [getattr(env, attr_name)] * env.num_envs

        def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
            raise AttributeError(attr_name)

        def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
            return [False] * env.num_envs

    return Games()


# In self-play the next position is mostly the opponent's, and its value has the opposite sign. Both buffers below know
# the end of a game as a number, 1 or 0, and multiply what comes after by 1 - end: with `1 - discount` for that number
# they compute with the discount, which is -1 before the opponent's turn.


def _signed_replay(games: Any) -> Any:
    """A class of replay buffers for self-play."""
    from stable_baselines3.common.buffers import ReplayBuffer

    class SignedReplay(ReplayBuffer):
        def add(self, obs: Any, next_obs: Any, action: Any, reward: Any, done: Any, infos: Any) -> None:
            super().add(obs, next_obs, action, reward, 1 - games.discount, infos)

    return SignedReplay


def _signed_rollout(games: Any, buffer: Any) -> Any:
    """A rollout buffer for self-play, of the same kind and size as ``buffer``."""

    class SignedRollout(type(buffer)):  # type: ignore[misc]
        before = games.discount

        def add(self, obs: Any, action: Any, reward: Any, episode_start: Any, *rest: Any, **masks: Any) -> None:
            super().add(obs, action, reward, 1 - self.before, *rest, **masks)
            self.before = games.discount

        def compute_returns_and_advantage(self, last_values: Any, dones: Any) -> None:
            super().compute_returns_and_advantage(last_values, 1 - games.discount)

    return SignedRollout(
        buffer.buffer_size,
        buffer.observation_space,
        buffer.action_space,
        buffer.device,
        gae_lambda=buffer.gae_lambda,
        gamma=buffer.gamma,
        n_envs=buffer.n_envs,
    )


@dataclass(frozen=True)
class _Settings(ABC):
    """What the three learners have in common."""

    name: ClassVar[str]
    packages: ClassVar[tuple[str, ...]] = ()
    activation: ClassVar[Activation]

    learning_rate: float = 1e-3
    """step size of Adam at the beginning, above 0 and at most 1"""
    anneal: bool = True
    """lower the learning rate to 0 over the training, in a straight line"""
    gamma: float = 1.0
    """how much the next turn counts, 0 to 1"""
    hidden: tuple[int, ...] = (128, 128)
    """units of each hidden layer, 1 to 8192 in each of 1 to 4 layers"""
    symmetry: Symmetry = "random"
    """random: each game is learned from as seen through a symmetry of the board, drawn anew"""
    threads: int = 1
    """of torch while learning; with more than one the same seed need not give the same learner"""

    def __post_init__(self) -> None:
        as_stored: Any = self.hidden
        if isinstance(as_stored, list):  # JSON has no tuples
            object.__setattr__(self, "hidden", tuple(as_stored))
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            kinds = {"int": (int,), "float": (int, float), "bool": (bool,)}.get(str(field.type))
            if kinds and (not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds)):
                raise ValueError(f"{field.name}={value!r} does not work for {self.name}: it must be a {field.type}")
        for name, (holds, admissible) in self._limits().items():
            if not holds:
                raise ValueError(f"{name}={getattr(self, name)} does not work for {self.name}: choose {admissible}")

    def _limits(self) -> dict[str, tuple[bool, str]]:
        """Name -> whether its value works, and which do."""
        layers = self.hidden if isinstance(self.hidden, tuple) else ()
        sizes = all(type(units) is int and 1 <= units <= LARGEST_LAYER for units in layers)
        return {
            "learning_rate": (0 < self.learning_rate <= 1, "above 0 and at most 1"),
            "gamma": (0 <= self.gamma <= 1, "0 to 1"),
            "hidden": (sizes and 1 <= len(layers) <= MOST_LAYERS, f"1 to {MOST_LAYERS} of 1 to {LARGEST_LAYER} units"),
            "symmetry": (self.symmetry in ("none", "random"), "none or random"),
            "threads": (self.threads >= 1, "1 or more"),
        }

    @abstractmethod
    def _layers(self, game: Game) -> tuple[list[Layer], list[Layer]]:
        """The layers that play, in their order, and the others that are stored."""

    @abstractmethod
    def _net(self, game: Game, arrays: Arrays) -> Net:
        """The net at play."""

    @abstractmethod
    def _model(self, games: Any, common: dict[str, Any], both: bool, left: Callable[[], float]) -> tuple[Any, int]:
        """The learner of Stable-Baselines3, and how many positions it takes until it learns from them.

        Args:
            games: the environment.
            common: arguments that every learner takes.
            both: whether it is self-play.
            left: which share of the training is left.
        """

    def fit(self, task: Task) -> Progress:
        """Train until ``task.games`` games are finished and learned from, and leave :data:`MODEL` in ``task.run``.

        Stopped by an interrupt, what was learned until then is written too.

        Raises:
            ValueError: a task that makes no sense, a package that is missing, learning that diverges.
        """
        check_counts(task.games, task.batch)
        if not callable(task.every) and task.every < 1:
            raise ValueError(f"every={task.every} is no number of games: choose 1 or more")
        _check_packages(self.name, *self.packages)
        (task.run / MODEL).unlink(missing_ok=True)  # of an earlier run
        with _randomness_kept(self.threads):
            return self._fit(task)

    def _fit(self, task: Task) -> Progress:
        from stable_baselines3.common.logger import Logger

        done = Progress()

        def left() -> float:
            return max(0.0, 1 - done.games / max(1, task.games))

        illegal_action: IllegalAction = getattr(self, "illegal_action", "raise")  # behind a mask there is none
        games = _games(task, self.symmetry, illegal_action, done)
        seed = int(np.random.SeedSequence(task.seed, spawn_key=(1,)).generate_state(1)[0])
        common = {
            "policy": "MlpPolicy",
            "env": games,
            "seed": seed,
            "device": "cpu",
            "gamma": self.gamma,
            "learning_rate": (lambda _: self.learning_rate * left()) if self.anneal else self.learning_rate,
            "policy_kwargs": {"net_arch": list(self.hidden)},
        }
        model, positions = self._model(games, common, task.opponent == SELF, left)
        model.set_logger(Logger(folder=None, output_formats=[]))  # its own would make a folder
        following = marks_of(task.every)
        due, saved = following(0), time.monotonic()

        def arrays() -> Arrays:
            found = {name: tensor.detach().numpy().copy() for name, tensor in model.policy.state_dict().items()}
            if not all(np.isfinite(array).all() for array in found.values()):
                raise ValueError(f"{self.name} has diverged after {done.games} games: choose a smaller learning_rate")
            return found

        def log() -> None:
            nonlocal due
            due = following(done.games)
            measured = _numbers(model.logger) | {"wins": done.wins, "draws": done.draws, "losses": done.losses}
            with _randomness_kept():
                for callback in task.callbacks:
                    measured |= callback(done.games, self._net(task.game, arrays()))
            task.log(done.games, measured)

        def after_step(_: Any, __: Any) -> bool:
            nonlocal saved
            task.progress(done)
            if due <= done.games < task.games:
                log()
                if time.monotonic() - saved > SAVE_EVERY:
                    save_arrays(task.run / MODEL, arrays())
                    saved = time.monotonic()
            return True

        try:
            while done.games < task.games:
                model.learn(positions, after_step, reset_num_timesteps=False, log_interval=None)
        except KeyboardInterrupt:
            save_arrays(task.run / MODEL, arrays())
            raise
        finally:
            games.close()
        save_arrays(task.run / MODEL, arrays())
        if done.games:
            log()
        return done

    def load(self, game: Game, run: Path) -> Policy:
        """What a run has learned; neither torch nor Stable-Baselines3 is needed.

        Raises:
            ValueError: no file, a damaged one, or one of other settings.
        """
        played, others = self._layers(game)
        wanted = {name: shape for layer in (*played, *others) for name, shape in layer.shapes().items()}
        return self._net(game, load_weights(run / MODEL, wanted, f"{self.name} with hidden={self.hidden}", game))


def _numbers(logger: Any) -> dict[str, float]:
    """What the learner has logged last, without its prefixes; explained_variance may be missing, where it is none."""
    logged = {key.partition("/")[2]: float(value) for key, value in logger.name_to_value.items()}
    return {key: value for key, value in logged.items() if math.isfinite(value)}


def _tower(prefix: str, widths: tuple[int, ...]) -> list[Layer]:
    """Linear layers with activations between them, which take every second number."""
    return [Layer(f"{prefix}.{2 * i}", *pair) for i, pair in enumerate(pairwise(widths))]


@dataclass(frozen=True)
class DQNConfig(_Settings):
    """DQN of Stable-Baselines3: Q-learning with a net, a replay buffer and a target net (Mnih et al., 2015)."""

    name: ClassVar[str] = "sb3-dqn"
    activation: ClassVar[Activation] = "relu"

    illegal_action: Literal["lose", "penalize"] = "lose"
    """an illegal action loses the game, or costs as much and changes nothing; in earnest only legal moves are played"""
    positions_per_update: int = 16
    """positions that are played for each step of Adam"""
    minibatch_size: int = 256
    """positions in each step of Adam"""
    buffer_size: int = 100_000
    """positions that the replay buffer holds"""
    learning_starts: int = 5_000
    """positions that are played at random before learning"""
    target_every: int = 2_000
    """positions that are played between two copies of the net to the target net"""
    epsilon: float = 1.0
    """probability of random moves at the beginning, 0 to 1"""
    epsilon_end: float = 0.05
    """and at the end of the part of the training in which it falls, 0 to 1"""
    epsilon_part: float = 0.5
    """the part of the training in which it falls, 0 to 1"""

    def _limits(self) -> dict[str, tuple[bool, str]]:
        return super()._limits() | {
            "illegal_action": (self.illegal_action in ("lose", "penalize"), "lose or penalize"),
            "positions_per_update": (self.positions_per_update >= 1, "1 or more"),
            "minibatch_size": (self.minibatch_size >= 1, "1 or more"),
            "buffer_size": (self.buffer_size >= 1, "1 or more"),
            "learning_starts": (self.learning_starts >= 1, "1 or more"),
            "target_every": (self.target_every >= 1, "1 or more"),
            "epsilon": (0 <= self.epsilon <= 1, "0 to 1"),
            "epsilon_end": (0 <= self.epsilon_end <= 1, "0 to 1"),
            "epsilon_part": (0 <= self.epsilon_part <= 1, "0 to 1"),
        }

    def _layers(self, game: Game) -> tuple[list[Layer], list[Layer]]:
        widths = (2 * game.cells, *self.hidden, game.cells)
        return _tower("q_net.q_net", widths), _tower("q_net_target.q_net", widths)

    def _net(self, game: Game, arrays: Arrays) -> QNet:
        return QNet(game, self._layers(game)[0], arrays, self.activation, stochastic=False)

    def _model(self, games: Any, common: dict[str, Any], both: bool, left: Callable[[], float]) -> tuple[Any, int]:
        from stable_baselines3 import DQN

        count = games.num_envs
        steps = max(1, self.positions_per_update // count)
        model = DQN(
            **common,
            buffer_size=max(self.buffer_size, count),
            learning_starts=self.learning_starts,
            batch_size=self.minibatch_size,
            train_freq=steps,
            gradient_steps=max(1, round(steps * count / self.positions_per_update)),
            target_update_interval=max(self.target_every, count),
            replay_buffer_class=_signed_replay(games) if both else None,
        )

        def epsilon(_: float) -> float:
            share = min(1.0, (1 - left()) / self.epsilon_part) if self.epsilon_part else 1.0
            return self.epsilon + share * (self.epsilon_end - self.epsilon)

        model.exploration_schedule = epsilon
        return model, steps * count


@dataclass(frozen=True)
class _ProximalSettings(_Settings):
    """What PPO with and without masks have in common."""

    activation: ClassVar[Activation] = "tanh"
    self_play: ClassVar[Mapping[str, Any]] = {"learning_rate": 2e-3, "epochs": 10}
    learning_rate: float = 3e-3
    """step size of Adam at the beginning, above 0 and at most 1"""
    stochastic: bool = False
    """play in earnest by drawing from the net's distribution over legal moves, in place of its most likely move"""
    rollout: int = 2_048
    """positions that are played, in all games together, between two times of learning from them"""
    minibatch_size: int = 256
    """positions in each step of Adam; the next larger divisor of the rollout is taken"""
    epochs: int = 5
    """how often each rollout is learned from"""
    gae_lambda: float = 0.95
    """0 trusts the net's value of the next position, 1 the result of the game"""
    clip_range: float = 0.2
    """how far a move's probability may change in one rollout, as a share of it, above 0"""
    entropy: float = 0.02
    """weight of the distributions' entropy, 0 or more: keeps it exploring"""
    value_weight: float = 0.5
    """weight of the error of values, 0 or more"""

    def _limits(self) -> dict[str, tuple[bool, str]]:
        return super()._limits() | {
            "rollout": (self.rollout >= 2, "2 or more"),
            "minibatch_size": (self.minibatch_size >= 2, "2 or more"),
            "epochs": (self.epochs >= 1, "1 or more"),
            "gae_lambda": (0 <= self.gae_lambda <= 1, "0 to 1"),
            "clip_range": (0 < self.clip_range < math.inf, "above 0"),
            "entropy": (0 <= self.entropy < math.inf, "0 or more"),
            "value_weight": (0 <= self.value_weight < math.inf, "0 or more"),
        }

    def _layers(self, game: Game) -> tuple[list[Layer], list[Layer]]:
        widths, last = (2 * game.cells, *self.hidden), self.hidden[-1]
        return (
            [*_tower("mlp_extractor.policy_net", widths), Layer("action_net", last, game.cells)],
            [*_tower("mlp_extractor.value_net", widths), Layer("value_net", last, 1)],
        )

    def _net(self, game: Game, arrays: Arrays) -> Net:
        return Net(game, self._layers(game)[0], arrays, self.activation, self.stochastic)

    def _proximal(self, kind: Any, games: Any, common: dict[str, Any], both: bool) -> tuple[Any, int]:
        steps = max(2 if games.num_envs == 1 else 1, self.rollout // games.num_envs)
        total = steps * games.num_envs
        # a last minibatch of one position would divide by a deviation of zero
        size = next(size for size in range(min(self.minibatch_size, total), total + 1) if total % size == 0)
        model = kind(
            **common,
            n_steps=steps,
            batch_size=size,
            n_epochs=self.epochs,
            gae_lambda=self.gae_lambda,
            clip_range=self.clip_range,
            ent_coef=self.entropy,
            vf_coef=self.value_weight,
        )
        if both:
            model.rollout_buffer = _signed_rollout(games, model.rollout_buffer)
        return model, total


@dataclass(frozen=True)
class PPOConfig(_ProximalSettings):
    """PPO of Stable-Baselines3: policy gradients with clipped steps (Schulman et al., 2017)."""

    name: ClassVar[str] = "sb3-ppo"

    illegal_action: Literal["lose", "penalize"] = "lose"
    """an illegal action loses the game, or costs as much and changes nothing; in earnest only legal moves are played"""

    def _limits(self) -> dict[str, tuple[bool, str]]:
        return super()._limits() | {"illegal_action": (self.illegal_action in ("lose", "penalize"), "lose or penalize")}

    def _model(self, games: Any, common: dict[str, Any], both: bool, left: Callable[[], float]) -> tuple[Any, int]:
        from stable_baselines3 import PPO

        return self._proximal(PPO, games, common, both)


@dataclass(frozen=True)
class MaskablePPOConfig(_ProximalSettings):
    """PPO of sb3-contrib that gives illegal actions no probability (Huang and Ontañón, 2022)."""

    name: ClassVar[str] = "sb3-maskable-ppo"
    packages: ClassVar[tuple[str, ...]] = ("sb3_contrib",)

    def _model(self, games: Any, common: dict[str, Any], both: bool, left: Callable[[], float]) -> tuple[Any, int]:
        from sb3_contrib import MaskablePPO

        return self._proximal(MaskablePPO, games, common, both)


# ---------------------------------------------------------------------------------------------------------------------
# Files of Stable-Baselines3


@dataclass(frozen=True)
class ZipPolicy(Named):
    """A zip saved by Stable-Baselines3, ``sb3:PATH,algorithm=dqn``, playing the legal move of highest score.

    Args:
        game: what is played, on the board on which the model was trained with flat observations.
        path: the zip.
        algorithm: that trained it.
        trust: whether the file may run code; the environment variable ``TTT_ENVS_TRUST`` = 1 trusts every file.

    Raises:
        ValueError: a file that is missing, not trusted, damaged, of another algorithm or another board.
    """

    name: ClassVar[str] = "sb3"
    pure: ClassVar[bool] = True

    game: Game
    path: str
    algorithm: Algorithm
    trust: bool = False
    model: Any = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.algorithm not in _ALGORITHMS:
            raise ValueError(f"algorithm={self.algorithm!r} is not known: choose one of {', '.join(_ALGORITHMS)}")
        if not Path(self.path).is_file():
            raise ValueError(f"there is no file {self.path}: give the path of a zip that Stable-Baselines3 has saved")
        if not (self.trust or trusted()):
            raise ValueError(
                f"{self.path} is not read: a zip of Stable-Baselines3 holds pickles, which can run any code when they "
                f"are loaded. If you trust whoever made it, set {TRUST}=1 or write "
                f"sb3:{self.path},algorithm={self.algorithm},trust=true"
            )
        object.__setattr__(self, "model", _load_model(self.path, self.algorithm, self.game))

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Reals:
        """float64[B, cells]: equal shares for the legal moves of highest score."""
        import torch

        policy = self.model.policy
        with torch.no_grad():
            shown = policy.obs_to_tensor(flat(boards))[0]
            if self.algorithm == "dqn":
                scores = policy.q_net(shown)
            else:
                scores = policy.get_distribution(shown).distribution.logits
        return choose(scores.numpy().astype(np.float64), boards.cells, stochastic=False)


def _load_model(path: str, algorithm: Algorithm, game: Game) -> Any:
    """Read a trusted zip.

    Raises:
        ValueError: a damaged file, one of another algorithm or another board.
    """
    package, name = _ALGORITHMS[algorithm]
    _check_packages(f"sb3:{path},algorithm={algorithm}", package)
    kind = getattr(importlib.import_module(package), name)
    # neither the generators of the process are seeded anew, nor is room made for a million positions
    room = {"buffer_size": 1} if algorithm == "dqn" else {}
    with _randomness_kept():
        try:
            with open(path, "rb") as file:
                model = kind.load(file, device="cpu", seed=None, **room)
        except Exception as problem:  # whatever a pickle raises
            said = str(problem).partition("\n")[0] or type(problem).__name__
            raise ValueError(f"{path} cannot be read as a zip of {name}, is it of another algorithm? {said}") from None
    if not isinstance(model.policy, kind.policy_aliases["MlpPolicy"]):
        raise ValueError(
            f"{path} holds a {type(model.policy).__name__}, which is not of {name}: name its algorithm, "
            f"one of {', '.join(_ALGORITHMS)}"
        )
    seen, moves = model.observation_space, model.action_space
    if not isinstance(seen, spaces.Box) or seen.shape != (2 * game.cells,) or moves != spaces.Discrete(game.cells):
        raise ValueError(
            f"{path} was trained on observations {seen} and actions {moves}, and {game} has flat observations of "
            f"{2 * game.cells} numbers and {game.cells} actions: play it on its own board"
        )
    model.policy.set_training_mode(False)
    return model
