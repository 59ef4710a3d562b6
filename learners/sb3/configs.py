"""Learners of Stable-Baselines3 and sb3-contrib, trained in the Gymnasium environments."""

from __future__ import annotations

import math
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from learners.base import Arrays
from learners.checkpoint import MODEL, load_weights, save_arrays
from learners.config import FitLearnerConfig
from learners.dense import Activation
from learners.limits import Fraction, Layers, NonNegative, Positive, PositiveInt, Range
from learners.sb3.games import make_sb3_games, signed_replay, signed_rollout
from learners.sb3.libraries import check_packages, preserve_random_state
from learners.sb3.net import LinearLayer, SB3ActorCritic, SB3Net, SB3QNet, tower
from learners.training import SPAWN_INITIAL, Progress, Task, check_counts, make_marks
from ttt_envs.agents.policy import Policy
from ttt_envs.envs.config import SELF, IllegalAction, Symmetry
from ttt_envs.game.actions import num_actions
from ttt_envs.game.game import VARIANTS
from ttt_envs.game.phantom import HIDING, AnyGame, PhantomGame

SAVE_EVERY = 10.0  # seconds between two writings of MODEL while learning, at lines of the log
LearningRate = Annotated[float, Range(0, 1, above=True)]


@dataclass(frozen=True)
class _Settings(FitLearnerConfig):
    """Settings that the three learners share."""

    name: ClassVar[str]
    packages: ClassVar[tuple[str, ...]] = ()
    variants: ClassVar[tuple[str, ...]] = (*VARIANTS, HIDING)
    activation: ClassVar[Activation]

    learning_rate: LearningRate = 1e-3
    """initial learning rate of Adam, above 0 and at most 1"""
    anneal_lr: bool = True
    """decay the learning rate linearly to 0 over the training"""
    gamma: Fraction = 1.0
    """discount factor per turn, 0 to 1"""
    hidden: Annotated[tuple[int, ...], Layers(4, 8192)] = (128, 128)
    """number of units of each hidden layer, 1 to 8192 in each of 1 to 4 layers"""
    symmetry: Symmetry = "random"
    """random: transform each game by a randomly drawn symmetry of the board"""
    threads: PositiveInt = 1
    """number of torch threads during training; with more than one the same seed need not give the same learner"""

    def _illegal(self) -> IllegalAction:
        """Return the effect of an illegal action; it cannot occur with a mask."""
        return "raise"

    @abstractmethod
    def _layers(self, game: AnyGame) -> tuple[list[LinearLayer], list[LinearLayer]]:
        """Return the layers used in play, in order, and the other stored layers."""

    @abstractmethod
    def _net(self, game: AnyGame, arrays: Arrays) -> SB3Net:
        """Return the net used in play."""

    @abstractmethod
    def _model(self, games: Any, common: dict[str, Any], both: bool, left: Callable[[], float]) -> tuple[Any, int]:
        """Return the learner of Stable-Baselines3, and the number of positions between its updates.

        Args:
            games: the environment.
            common: arguments that every learner takes.
            both: whether it is self-play.
            left: returns the remaining share of the training.
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
        """Train until ``task.games`` games are finished and learned from, and write :data:`MODEL` to ``task.run``.

        After an interrupt, the weights learned so far are written too.

        Raises:
            ValueError: an invalid task, a missing package, learning that diverges.
        """
        check_counts(task.games, task.batch)
        self.check_opponent(task.opponent, task.game)
        if not callable(task.every) and task.every < 1:
            raise ValueError(f"every={task.every} is no number of games: choose 1 or more")
        check_packages(self.name, *self.packages)
        (task.run / MODEL).unlink(missing_ok=True)  # of an earlier run
        with preserve_random_state(self.threads):
            return self._fit(task)

    def _fit(self, task: Task) -> Progress:
        from stable_baselines3.common.logger import Logger

        done = Progress()

        def left() -> float:
            return max(0.0, 1 - done.games / max(1, task.games))

        games = make_sb3_games(task, self.symmetry, self._illegal(), done)
        seed = int(np.random.SeedSequence(task.seed, spawn_key=(SPAWN_INITIAL,)).generate_state(1)[0])
        common = {
            "policy": "MlpPolicy",
            "env": games,
            "seed": seed,
            "device": "cpu",
            "gamma": self.gamma,
            "learning_rate": (lambda _: self.learning_rate * left()) if self.anneal_lr else self.learning_rate,
            "policy_kwargs": {"net_arch": list(self.hidden)},
        }
        model, positions = self._model(games, common, task.opponent == SELF, left)
        model.set_logger(Logger(folder=None, output_formats=[]))  # the default logger would make a folder
        following = make_marks(task.every)
        due, saved = following(0), time.monotonic()

        def log() -> None:
            nonlocal due
            due = following(done.games)
            measured = _numbers(model.logger) | {"wins": done.wins, "draws": done.draws, "losses": done.losses}
            measured["steps"] = model.num_timesteps
            with preserve_random_state():
                for callback in task.callbacks:
                    measured |= callback(done.games, self._net(task.game, self._arrays(model, done.games)))
            task.log(done.games, measured)

        def after_step(_: Any, __: Any) -> bool:
            nonlocal saved
            task.progress(done)
            if due <= done.games < task.games:
                log()
                if time.monotonic() - saved > SAVE_EVERY:
                    save_arrays(task.run / MODEL, self._arrays(model, done.games))
                    saved = time.monotonic()
            return True

        try:
            while done.games < task.games:
                model.learn(positions, after_step, reset_num_timesteps=False, log_interval=None)
        except KeyboardInterrupt:
            save_arrays(task.run / MODEL, self._arrays(model, done.games))
            raise
        finally:
            games.close()
        save_arrays(task.run / MODEL, self._arrays(model, done.games))
        if done.games:
            log()
        return done

    def _arrays(self, model: Any, games: int) -> Arrays:
        """Return the weights of a model after a number of games.

        Raises:
            ValueError: they are not finite.
        """
        found = {name: tensor.detach().numpy().copy() for name, tensor in model.policy.state_dict().items()}
        if not all(np.isfinite(array).all() for array in found.values()):
            raise ValueError(f"{self.name} has diverged after {games} games: choose a smaller learning_rate")
        return found

    def load(self, game: AnyGame, run: Path) -> Policy:
        """Load the policy trained by a run; neither torch nor Stable-Baselines3 is needed.

        Raises:
            ValueError: no file, a damaged one, or one of other settings.
        """
        played, others = self._layers(game)
        wanted = {name: shape for layer in (*played, *others) for name, shape in layer.shapes().items()}
        return self._net(game, load_weights(run / MODEL, wanted, f"{self.name} with hidden={self.hidden}", game))


def _numbers(logger: Any) -> dict[str, float]:
    """Return the learner's latest metrics without prefixes; non-finite ones, such as explained_variance, are
    dropped.
    """
    logged = {key.partition("/")[2]: float(value) for key, value in logger.name_to_value.items()}
    return {key: value for key, value in logged.items() if math.isfinite(value)}


@dataclass(frozen=True)
class DQNConfig(_Settings):
    """DQN of Stable-Baselines3: Q-learning with a net, a replay buffer and a target net (Mnih et al., 2015)."""

    name: ClassVar[str] = "sb3-dqn"
    activation: ClassVar[Activation] = "relu"

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

    def _illegal(self) -> IllegalAction:
        return self.illegal_action

    def _layers(self, game: AnyGame) -> tuple[list[LinearLayer], list[LinearLayer]]:
        widths = (2 * game.cells, *self.hidden, num_actions(game))
        return tower("q_net.q_net", widths), tower("q_net_target.q_net", widths)

    def _net(self, game: AnyGame, arrays: Arrays) -> SB3QNet:
        return SB3QNet(game, self._layers(game)[0], arrays, self.activation, stochastic=False)

    def _model(self, games: Any, common: dict[str, Any], both: bool, left: Callable[[], float]) -> tuple[Any, int]:
        from stable_baselines3 import DQN

        count = games.num_envs
        steps = max(1, self.positions_per_update // count)
        model = DQN(
            **common,
            buffer_size=max(self.buffer_size, count),
            learning_starts=self.learning_starts,
            batch_size=self.batch_size,
            train_freq=steps,
            gradient_steps=max(1, round(steps * count / self.positions_per_update)),
            target_update_interval=max(self.target_update_interval, count),
            replay_buffer_class=signed_replay(games) if both else None,
        )

        def epsilon(_: float) -> float:
            share = min(1.0, (1 - left()) / self.exploration_fraction) if self.exploration_fraction else 1.0
            return self.exploration_initial_eps + share * (self.exploration_final_eps - self.exploration_initial_eps)

        model.exploration_schedule = epsilon
        return model, steps * count


@dataclass(frozen=True)
class _ProximalSettings(_Settings):
    """Settings that PPO and maskable PPO share."""

    activation: ClassVar[Activation] = "tanh"
    self_play: ClassVar[Mapping[str, Any]] = {"learning_rate": 2e-3, "n_epochs": 10}
    learning_rate: LearningRate = 3e-3
    """initial learning rate of Adam, above 0 and at most 1"""
    stochastic: bool = False
    """sample moves from the net's distribution over legal moves at play, in place of its most likely move"""
    rollout: Annotated[int, Range(2)] = 2_048
    """number of positions per rollout, over all parallel games"""
    batch_size: Annotated[int, Range(2)] = 256
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

    def _layers(self, game: AnyGame) -> tuple[list[LinearLayer], list[LinearLayer]]:
        widths, last = (2 * game.cells, *self.hidden), self.hidden[-1]
        return (
            [*tower("mlp_extractor.policy_net", widths), LinearLayer("action_net", last, num_actions(game))],
            [*tower("mlp_extractor.value_net", widths), LinearLayer("value_net", last, 1)],
        )

    def _net(self, game: AnyGame, arrays: Arrays) -> SB3ActorCritic:
        return SB3ActorCritic(game, self._layers(game), arrays, self.activation, self.stochastic)

    def _proximal(self, kind: Any, games: Any, common: dict[str, Any], both: bool) -> tuple[Any, int]:
        steps = max(2 if games.num_envs == 1 else 1, self.rollout // games.num_envs)
        total = steps * games.num_envs
        # a last minibatch of one position would have standard deviation 0
        size = next(size for size in range(min(self.batch_size, total), total + 1) if total % size == 0)
        model = kind(
            **common,
            n_steps=steps,
            batch_size=size,
            n_epochs=self.n_epochs,
            gae_lambda=self.gae_lambda,
            clip_range=self.clip_range,
            ent_coef=self.ent_coef,
            vf_coef=self.vf_coef,
        )
        if both:
            model.rollout_buffer = signed_rollout(games, model.rollout_buffer)
        return model, total


@dataclass(frozen=True)
class PPOConfig(_ProximalSettings):
    """PPO of Stable-Baselines3: policy gradients with clipped steps (Schulman et al., 2017)."""

    name: ClassVar[str] = "sb3-ppo"

    illegal_action: Literal["lose", "penalize"] = "lose"
    """effect of an illegal action in training: lose the game, or penalize by as much and leave the board; greedy play
    uses legal moves only"""

    def _illegal(self) -> IllegalAction:
        return self.illegal_action

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
