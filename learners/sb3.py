"""Learners of Stable-Baselines3 and sb3-contrib, trained in the Gymnasium environments, and their files as policies.

Our runs hold the weights as plain arrays, and playing them needs neither package. A zip saved by Stable-Baselines3
holds pickles, which can run any code when loaded: ``sb3:PATH`` loads it only if it is trusted.
"""

from __future__ import annotations

import copy
import importlib
import importlib.util
import math
import random
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, get_args

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from learners.base import Arrays, Checkpointable, check_shapes
from learners.config import FitLearnerConfig
from learners.limits import Fraction, NonNegative, Positive, PositiveInt, layer_sizes, number_range
from learners.mlp import Activation, Dense, forward, planes
from learners.training import SPAWN_EXPLORATION, SPAWN_INITIAL, Progress, Task, check_counts, make_marks
from ttt_envs.agents.adapters import as_policy
from ttt_envs.agents.policy import Policy, best_shares
from ttt_envs.agents.specs import TRUST, Named, load_object, trusted
from ttt_envs.core.checks import check_choice
from ttt_envs.core.jit import Float64Array
from ttt_envs.core.packages import avoid_triton_crash, install_command
from ttt_envs.envs.config import SELF, IllegalAction, Symmetry, game_keywords
from ttt_envs.envs.vector_env import MNKVectorEnv
from ttt_envs.game.actions import num_actions
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import VARIANTS, Game
from ttt_envs.game.phantom import HIDING, AnyGame, PhantomGame

LearningRate = Annotated[float, number_range(0, 1, above=True)]
Shapes = dict[str, tuple[int, ...]]
"""Shapes of arrays by their names in a ``state_dict``."""


# ---------------------------------------------------------------------------------------------------------------------
# Packages, and their global state


@contextmanager
def preserve_random_state(threads: int | None = None) -> Iterator[None]:
    """Restore the process's random generators, which Stable-Baselines3 uses, and torch's thread count on exit."""
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


def check_packages(owner: str, algorithm: str) -> None:
    """Import the packages of an algorithm; ``owner`` names the learner in messages.

    Raises:
        ValueError: a package that is not installed.
    """
    avoid_triton_crash()
    for package in ("torch", "stable_baselines3", algorithm.partition(":")[0]):
        if importlib.util.find_spec(package) is None:
            raise ValueError(f"{owner} needs {package}, which is not installed: {install_command('sb3')}")
        importlib.import_module(package)  # Stable-Baselines3 imports TensorFlow if it is installed


# ---------------------------------------------------------------------------------------------------------------------
# Our games, and buffers that handle alternating turns in self-play


def make_sb3_games(task: Task, symmetry: Symmetry, illegal_action: IllegalAction, done: Progress) -> Any:
    """Wrap ``MNKVectorEnv`` as a vector environment of Stable-Baselines3; finished games are added to ``done``.

    Its ``discount`` float32[B] describes the last step as in ``learners.base.Transition``: 0 if the game is over, +1 if
    the mover moves again, -1 if the opponent is next (in self-play only).
    """
    from ttt_envs.sb3 import MNKVecEnv

    env = MNKVectorEnv(
        task.batch,
        **game_keywords(task.game),
        opponent=task.opponent,
        seat=task.seat,
        illegal_action=illegal_action,
        symmetry=symmetry,
        dtype="int8",  # the dtype of the buffers
        autoreset_mode=AutoresetMode.SAME_STEP,
    )
    both = task.opponent == SELF
    sequence = np.random.SeedSequence(task.seed, spawn_key=(SPAWN_EXPLORATION,))
    seeds: list[int] = sequence.generate_state(task.batch, np.uint64).tolist()

    class Games(MNKVecEnv):
        discount = np.ones(task.batch, np.float32)

        def reset(self) -> Any:
            self._seeds = [*seeds]  # in place of those that the model has drawn
            observation = super().reset()
            self._mover = np.array([info["mover"] for info in self.reset_infos])
            return observation

        def step_wait(self) -> Any:
            observation, rewards, over, infos = super().step_wait()
            begun = [self.reset_infos[row] if ended else infos[row] for row, ended in enumerate(over)]
            mover = np.array([info["mover"] for info in begun])
            self.discount = np.where(over, 0, np.where(both & (mover != self._mover), -1, 1)).astype(np.float32)
            self._mover = mover
            second = np.array([info["seat"] for info in infos]) == 1
            done.count(np.where(both & second, -rewards, rewards)[over].astype(np.float64))  # in self-play player_0's
            return observation, rewards, over, infos

    return Games(env)


# In self-play the next position is mostly the opponent's, and its value has the opposite sign (if the players see the
# same board: `check_opponent` refuses self-play in phantom games). Both buffers below know
# the end of a game as a number, 1 or 0, and multiply what comes after by 1 - end: with `1 - discount` for that number
# they compute with the discount, which is -1 before the opponent's turn.


def signed_replay(games: Any) -> Any:
    """Return a replay buffer class for self-play."""
    from stable_baselines3.common.buffers import ReplayBuffer

    class SignedReplay(ReplayBuffer):
        def add(self, obs: Any, next_obs: Any, action: Any, reward: Any, done: Any, infos: Any) -> None:
            super().add(obs, next_obs, action, reward, 1 - games.discount, infos)

    return SignedReplay


def signed_rollout(games: Any, buffer: Any) -> Any:
    """Turn a new rollout buffer into one for self-play, and return it."""

    class SignedRollout(type(buffer)):  # type: ignore[misc]
        before = games.discount

        def add(self, obs: Any, action: Any, reward: Any, episode_start: Any, *rest: Any, **masks: Any) -> None:
            super().add(obs, action, reward, 1 - self.before, *rest, **masks)
            self.before = games.discount

        def compute_returns_and_advantage(self, last_values: Any, dones: Any) -> None:
            super().compute_returns_and_advantage(last_values, 1 - games.discount)

    buffer.__class__ = SignedRollout
    return buffer


# ---------------------------------------------------------------------------------------------------------------------
# Nets at play, from plain arrays: neither torch nor Stable-Baselines3 is needed


def tower(prefix: str, *widths: int) -> Shapes:
    """Return the shapes of linear layers with even indices; activations between them have the odd ones."""
    return {
        name: shape for i, pair in enumerate(pairwise(widths)) for name, shape in linear(f"{prefix}.{2 * i}", *pair)
    }


def linear(name: str, inputs: int, outputs: int) -> list[tuple[str, tuple[int, ...]]]:
    """Return the names and shapes of the two arrays of a linear layer."""
    return [(f"{name}.weight", (outputs, inputs)), (f"{name}.bias", (outputs,))]


class SB3Net(Checkpointable):
    """A net of Stable-Baselines3 at play. Its arrays are those of the policy's ``state_dict``, in float32.

    It is computed in float64, so that a position's probabilities do not depend on the rest of its batch.

    Args:
        config: the settings, which give the layers.
        game: the game.

    Attributes:
        stochastic: whether the outputs are logits of a distribution; else the legal moves of highest output share
            equally.
    """

    colour_blind = True
    activation: ClassVar[Activation]
    """Between layers."""

    def __init__(self, config: _Settings, game: AnyGame) -> None:
        self.config, self.game = config, game
        self.stochastic = getattr(config, "stochastic", False)
        shapes = [pair for part in config.shapes(game) for pair in part.items()]
        self._arrays = {name: np.zeros(shape, np.float32) for name, shape in shapes}
        self._layers: dict[int, list[Dense]] = {}  # shared with the actor, as the arrays are
        self.state = self._arrays

    @property
    def state(self) -> Arrays:
        """The arrays."""
        return dict(self._arrays)

    @state.setter
    def state(self, arrays: Arrays) -> None:
        check_shapes(self._arrays, arrays, f"{self.config.name} with hidden={self.config.hidden}")
        self._arrays |= {name: arrays[name] for name in self._arrays}
        for part, names in enumerate(self.config.shapes(self.game)):
            numbers = [arrays[name].astype(np.float64) for name in names]
            layers = [Dense(w.T, bias, self.activation) for w, bias in zip(numbers[::2], numbers[1::2], strict=True)]
            self._layers[part] = [*layers[:-1], layers[-1]._replace(activation="linear")]

    def outputs(self, boards: Boards, part: int = 0) -> Float64Array:
        """Return float64[B, outputs] of a part of the net for ``observation="flat"``."""
        return forward(planes(boards.own_first(), 2), self._layers[part])

    def scores(self, boards: Boards) -> Float64Array:
        """Return outputs float64[B, cells], illegal actions included; with gravity a cell has that of its column."""
        outputs = self.outputs(boards)
        return np.tile(outputs, (1, self.game.rows)) if self.game.gravity else outputs

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Float64Array:
        """Return float64[B, cells]: equal shares for the legal moves of highest score, or the masked distribution."""
        legal, scores = boards.legal(self.game), self.scores(boards)
        if not self.stochastic:
            return best_shares(np.where(legal, scores, np.nan))
        scores = np.where(legal, scores, -np.inf)
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))


class SB3ActorCritic(SB3Net):
    """A net whose ``values`` are the critic's, of the stochastic policy, its ``actor``."""

    activation = "tanh"

    def __init__(self, config: _Settings, game: AnyGame) -> None:
        super().__init__(config, game)
        self.actor = copy.copy(self)
        self.actor.stochastic = True

    def values(self, boards: Boards) -> Float64Array:
        """Return the critic's values float64[B] from the mover's view."""
        return self.outputs(boards, 1)[:, 0]


class SB3QNet(SB3Net):
    """A net whose scores are action values."""

    activation = "relu"

    def action_values(self, boards: Boards) -> Float64Array:
        """Return action values float64[B, cells] from the mover's view, NaN where illegal."""
        return np.where(boards.legal(self.game), self.scores(boards), np.nan)

    def values(self, boards: Boards) -> Float64Array:
        """Return float64[B]: the value of the best legal move from the mover's view."""
        return np.asarray(np.nanmax(self.action_values(boards), axis=1))


# ---------------------------------------------------------------------------------------------------------------------
# Learners


@dataclass(frozen=True)
class _Settings(FitLearnerConfig):
    """Settings that the three learners share."""

    name: ClassVar[str]
    algorithm: ClassVar[str]
    """Class of the algorithm, "package:Class"."""
    net: ClassVar[type[SB3Net]]
    """Class of the policy."""
    variants: ClassVar[tuple[str, ...]] = (*VARIANTS, HIDING)

    learning_rate: LearningRate = 1e-3
    """initial learning rate of Adam, above 0 and at most 1"""
    anneal_lr: bool = True
    """decay the learning rate linearly to 0 over the training"""
    gamma: Fraction = 1.0
    """discount factor per turn, 0 to 1"""
    hidden: Annotated[tuple[int, ...], layer_sizes(4, 8192)] = (128, 128)
    """number of units of each hidden layer, 1 to 8192 in each of 1 to 4 layers"""
    symmetry: Symmetry = "random"
    """random: transform each game by a randomly drawn symmetry of the board"""
    threads: PositiveInt = 1
    """number of torch threads during training; with more than one the same seed need not give the same learner"""

    @abstractmethod
    def shapes(self, game: AnyGame) -> tuple[Shapes, Shapes]:
        """Return the shapes of the arrays used in play, and of the others, each in the order of the layers."""

    def build(self, game: AnyGame, rng: np.random.Generator) -> SB3Net:
        """Return a net of zeros; Stable-Baselines3 draws the initial weights."""
        return self.net(self, game)

    @abstractmethod
    def _model(self, games: Any, common: dict[str, Any], both: bool, remaining: Callable[[], float]) -> tuple[Any, int]:
        """Return the learner of Stable-Baselines3, and the number of positions between its updates.

        Args:
            games: the environment.
            common: arguments that every learner takes.
            both: whether it is self-play.
            remaining: returns the remaining share of the training.
        """

    def check_opponent(self, opponent: str, game: AnyGame) -> None:
        """See :meth:`FitLearnerConfig.check_opponent`; refuse self-play if stones are hidden."""
        super().check_opponent(opponent, game)
        if opponent == SELF and isinstance(game, PhantomGame):
            raise ValueError(
                f"{self.name} learns in self-play from the opposite of the other player's value, and in the game "
                f"{game} players see different boards: choose a policy as opponent, such as random, or the learner "
                f"q-learning"
            )

    def fit(self, task: Task) -> Progress:
        """Train until ``task.games`` games are finished and learned from; save at every line of the log.

        Raises:
            ValueError: an invalid task, a missing package, learning that diverges.
        """
        check_counts(task.games, task.batch)
        self.check_opponent(task.opponent, task.game)
        check_packages(self.name, self.algorithm)
        with preserve_random_state(self.threads):
            return self._fit(task)

    def _fit(self, task: Task) -> Progress:
        from stable_baselines3.common.logger import Logger

        done, next_mark, net = Progress(), make_marks(task.every), self.net(self, task.game)

        def remaining() -> float:
            return max(0.0, 1 - done.games / max(1, task.games))

        games = make_sb3_games(task, self.symmetry, getattr(self, "illegal_action", "raise"), done)
        common = {
            "policy": "MlpPolicy",
            "env": games,
            "seed": int(np.random.SeedSequence(task.seed, spawn_key=(SPAWN_INITIAL,)).generate_state(1)[0]),
            "device": "cpu",
            "gamma": self.gamma,
            "learning_rate": (lambda _: self.learning_rate * remaining()) if self.anneal_lr else self.learning_rate,
            "policy_kwargs": {"net_arch": list(self.hidden)},
        }
        model, positions = self._model(games, common, task.opponent == SELF, remaining)
        model.set_logger(Logger(folder=None, output_formats=[]))  # the default logger would make a folder
        due = next_mark(0)

        def log() -> None:
            nonlocal due
            due = next_mark(done.games)
            net.state = {name: tensor.detach().numpy().copy() for name, tensor in model.policy.state_dict().items()}
            if not all(np.isfinite(array).all() for array in net.state.values()):
                raise ValueError(f"{self.name} has diverged after {done.games} games: choose a smaller learning_rate")
            if done.games:
                measured = {key.partition("/")[2]: float(value) for key, value in model.logger.name_to_value.items()}
                measured = {key: value for key, value in measured.items() if math.isfinite(value)}
                measured |= {"wins": done.wins, "draws": done.draws, "losses": done.losses}
                measured["steps"] = model.num_timesteps
                with preserve_random_state():
                    for callback in task.callbacks:
                        measured |= callback(done.games, net)
                task.log(done.games, measured)
            task.save(done, net)

        def after_step(_: Any, __: Any) -> bool:
            task.progress(done)
            if due <= done.games < task.games:
                log()
            return True

        try:
            while done.games < task.games:
                model.learn(positions, after_step, reset_num_timesteps=False, log_interval=None)
        finally:
            games.close()
        log()
        return done


@dataclass(frozen=True)
class DQNConfig(_Settings):
    """DQN of Stable-Baselines3: Q-learning with a net, a replay buffer and a target net (Mnih et al., 2015)."""

    name: ClassVar[str] = "sb3-dqn"
    algorithm: ClassVar[str] = "stable_baselines3:DQN"
    net: ClassVar[type[SB3Net]] = SB3QNet

    illegal_action: Literal["lose", "penalize"] = "lose"
    """effect of an illegal action in training: lose the game, or penalize by as much and leave the board; greedy play
    uses legal moves only"""
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
    exploration_fraction: Fraction = 0.5
    """share of the training over which the probability decays linearly, 0 to 1"""

    def shapes(self, game: AnyGame) -> tuple[Shapes, Shapes]:
        """Return those of the net and of its target."""
        widths = (2 * game.cells, *self.hidden, num_actions(game))
        return tower("q_net.q_net", *widths), tower("q_net_target.q_net", *widths)

    def _model(self, games: Any, common: dict[str, Any], both: bool, remaining: Callable[[], float]) -> tuple[Any, int]:
        from stable_baselines3.common.utils import LinearSchedule

        count = games.num_envs
        steps = max(1, self.positions_per_update // count)
        model = load_object(self.algorithm)(
            **common,
            buffer_size=max(self.buffer_size, count),
            learning_starts=self.learning_starts,
            batch_size=self.batch_size,
            train_freq=steps,
            gradient_steps=max(1, round(steps * count / self.positions_per_update)),
            target_update_interval=max(self.target_update_interval, count),
            replay_buffer_class=signed_replay(games) if both else None,
        )

        ends = self.exploration_initial_eps, self.exploration_final_eps
        schedule = LinearSchedule(*ends, max(self.exploration_fraction, 1e-9))
        model.exploration_schedule = lambda _: schedule(remaining())
        return model, steps * count


@dataclass(frozen=True)
class MaskablePPOConfig(_Settings):
    """PPO of sb3-contrib that gives illegal actions no probability (Huang and Ontañón, 2022)."""

    name: ClassVar[str] = "sb3-maskable-ppo"
    algorithm: ClassVar[str] = "sb3_contrib:MaskablePPO"
    net: ClassVar[type[SB3Net]] = SB3ActorCritic
    self_play: ClassVar[Mapping[str, Any]] = {"learning_rate": 2e-3, "n_epochs": 10}

    learning_rate: LearningRate = 3e-3
    """initial learning rate of Adam, above 0 and at most 1"""
    stochastic: bool = False
    """sample moves from the net's distribution over legal moves at play, in place of its most likely move"""
    rollout: Annotated[int, number_range(2)] = 2_048
    """number of positions per rollout, over all parallel games"""
    batch_size: Annotated[int, number_range(2)] = 256
    """number of positions in a minibatch, rounded up to the next divisor of the rollout"""
    n_epochs: PositiveInt = 5
    """number of epochs per rollout"""
    gae_lambda: Fraction = 0.95
    """lambda of generalized advantage estimation: 0 relies on the value of the next position, 1 on the result of the
    game"""
    clip_range: Positive = 0.2
    """PPO clip range: maximum relative change of a move's probability per rollout, above 0"""
    ent_coef: NonNegative = 0.02
    """entropy coefficient, 0 or more: encourages exploration"""
    vf_coef: NonNegative = 0.5
    """value loss coefficient, 0 or more"""

    def shapes(self, game: AnyGame) -> tuple[Shapes, Shapes]:
        """Return those of the actor and of the critic."""
        widths, last = (2 * game.cells, *self.hidden), self.hidden[-1]
        actor = tower("mlp_extractor.policy_net", *widths) | dict(linear("action_net", last, num_actions(game)))
        return actor, tower("mlp_extractor.value_net", *widths) | dict(linear("value_net", last, 1))

    def _model(self, games: Any, common: dict[str, Any], both: bool, remaining: Callable[[], float]) -> tuple[Any, int]:
        steps = max(2 if games.num_envs == 1 else 1, self.rollout // games.num_envs)
        total = steps * games.num_envs
        names = ("n_epochs", "gae_lambda", "clip_range", "ent_coef", "vf_coef")
        model = load_object(self.algorithm)(
            **common,
            n_steps=steps,
            # a last minibatch of one position would have standard deviation 0
            batch_size=next(size for size in range(min(self.batch_size, total), total + 1) if total % size == 0),
            **{name: getattr(self, name) for name in names},
        )
        if both:
            signed_rollout(games, model.rollout_buffer)
        return model, total


@dataclass(frozen=True)
class PPOConfig(MaskablePPOConfig):
    """PPO of Stable-Baselines3: policy gradients with clipped steps (Schulman et al., 2017)."""

    name: ClassVar[str] = "sb3-ppo"
    algorithm: ClassVar[str] = "stable_baselines3:PPO"

    illegal_action: Literal["lose", "penalize"] = "lose"
    """effect of an illegal action in training: lose the game, or penalize by as much and leave the board; greedy play
    uses legal moves only"""


# ---------------------------------------------------------------------------------------------------------------------
# Zips saved by Stable-Baselines3

Algorithm = Literal["dqn", "ppo", "maskable-ppo"]


@dataclass(frozen=True)
class ZipPolicy(Named):
    """A zip saved by Stable-Baselines3, ``sb3:PATH,algorithm=dqn``, playing the legal move of highest score.

    Args:
        game: the game, on the board on which the model was trained with flat observations.
        path: the zip.
        algorithm: the algorithm that trained it.
        trust: whether the file may run code; the environment variable ``TTT_ENVS_TRUST`` = 1 trusts every file.

    Raises:
        ValueError: a file that is missing, not trusted, damaged, of another algorithm or another board.
    """

    name: ClassVar[str] = "sb3"
    colour_blind = plays_hidden = True
    variants = ("gravity",)  # which shows by the number of actions
    refusals: ClassVar = dict.fromkeys(
        ("overlines", "misere", "torus"),
        "a zip does not store the rules of its training, and its spaces do not show them",
    )

    game: Game
    path: str
    algorithm: Algorithm
    trust: bool = False
    model: Policy = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_choice("algorithm", self.algorithm, get_args(Algorithm))
        if not Path(self.path).is_file():
            raise ValueError(f"there is no file {self.path}: give the path of a zip that Stable-Baselines3 has saved")
        if not (self.trust or trusted()):
            raise ValueError(
                f"{self.path} is not read: a zip of Stable-Baselines3 holds pickles, which can run any code when they "
                f"are loaded. If you trust its source, set {TRUST}=1 or write "
                f"sb3:{self.path},algorithm={self.algorithm},trust=true"
            )
        object.__setattr__(self, "model", as_policy(_load_zip(self.path, self.algorithm, self.game), self.game))

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Float64Array:
        """Return float64[B, cells]: equal shares for the legal moves of highest score."""
        return self.model.probabilities(boards)


def _load_zip(path: str, algorithm: Algorithm, game: Game) -> Any:
    """Load a trusted zip.

    Raises:
        ValueError: a damaged file, one of another algorithm or another board.
    """
    configs: dict[str, type[_Settings]] = {"dqn": DQNConfig, "ppo": PPOConfig, "maskable-ppo": MaskablePPOConfig}
    name = configs[algorithm].algorithm
    check_packages(f"sb3:{path},algorithm={algorithm}", name)
    kind: Any = load_object(name)
    with preserve_random_state():
        try:
            # do not reseed the process's generators, and allocate no replay buffer of a million positions
            model = kind.load(path, device="cpu", seed=None, **({"buffer_size": 1} if algorithm == "dqn" else {}))
            if not isinstance(model.policy, kind.policy_aliases["MlpPolicy"]):
                raise TypeError(f"it holds a {type(model.policy).__name__}")
        except Exception as problem:  # a pickle can raise any exception
            why = str(problem).partition("\n")[0] or type(problem).__name__
            raise ValueError(
                f"{path} cannot be read as a zip of {kind.__name__}, is it of another algorithm? {why}"
            ) from None
    flat, actions = model.observation_space, num_actions(game)
    if getattr(flat, "shape", None) != (2 * game.cells,) or model.action_space != spaces.Discrete(actions):
        raise ValueError(
            f"{path} was trained on observations {flat} and actions {model.action_space}, and {game} has flat "
            f"observations of {2 * game.cells} numbers and {actions} actions: play it on its own board"
        )
    return model
