"""Exact evaluation during training with Stable-Baselines3 or sb3-contrib: a callback, beside their
own ``EvalCallback``.

Only this module imports Stable-Baselines3 at its top level.
"""

from __future__ import annotations

import os
from pathlib import Path

from ttt_envs.agents.adapters import as_policy
from ttt_envs.agents.observations import Observation
from ttt_envs.agents.policy import Policy
from ttt_envs.agents.specs import make_pure
from ttt_envs.core.checks import Refusal, check_choice
from ttt_envs.core.files import write_atomically
from ttt_envs.core.packages import avoid_triton_crash
from ttt_envs.game.phantom import AnyGame, refuse_hidden
from ttt_eval.exact.critics import critic_error
from ttt_eval.exact.strength import measure
from ttt_eval.store.metrics import read_rows, write_rows

avoid_triton_crash()  # Stable-Baselines3 imports TensorFlow where it is installed

from stable_baselines3.common.callbacks import BaseCallback, EventCallback  # noqa: E402

__all__ = ["ExactEvalCallback"]

EVALUATIONS = "exact.jsonl"
"""File in ``log_path``."""
BEST = "best_model.zip"
"""File in ``best_model_save_path``."""


class ExactEvalCallback(EventCallback):
    """Evaluates a model exactly during training, with the interface of Stable-Baselines3's
    ``EvalCallback``.

    It plays no games and draws nothing: the model learns the same with and without it. Illegal
    actions are masked for models without masks, and observations are normalised where the training
    environment is a ``VecNormalize``.

    It logs ``exact/exploitability``, on boards that can be solved ``exact/regret``, and against an
    opponent ``exact/win``, ``exact/draw``, ``exact/loss``. The best model is that of lowest
    exploitability.

    With ``critic=True`` it logs ``exact/critic_rmse``, ``exact/critic_bias`` and
    ``exact/critic_explained_variance``: the error of an actor-critic's values for its masked
    stochastic policy, of DQN's highest action values for its greedy policy, with the model's
    discount. The opponent is that of the exact result; None means self-play.

    A training resumed with ``learn(..., reset_num_timesteps=False)`` of a loaded model appends to
    its file, and its best is the best of both. Lines beyond the model's number of steps are
    dropped, so a new model starts a new file.

    Args:
        game: the game.
        opponent: opponent of the exact result, a spec string or a pure policy; None for none.
        callback_after_eval: called after every evaluation, such as Stable-Baselines3's callbacks
            that stop a training.
        eval_freq: number of calls of this callback between evaluations, each a step of all parallel
            games; 0 for none.
        log_path: folder for ``exact.jsonl``, a line for each evaluation: ``timesteps`` and the
            logged values, without ``exact/``. It is written atomically.
        best_model_save_path: folder for ``best_model.zip``.
        deterministic: play the legal action of highest value or probability; else sample from the
            masked distribution, which DQN does not have.
        seat: the model's against the opponent, 0 or 1; None for the mean of both.
        observation: the model's observation, as in ``ttt_envs.envs.single_env.SingleEnv``; by
            default derived from its space.
        critic: whether the critic's error is measured too, see :func:`ttt_eval.exact.critic_error`.
        verbose: 1 prints every evaluation.

    Attributes:
        evaluations: the lines of the file, oldest first.
        best_exploitability: the lowest so far; infinite before the first.

    Raises:
        ValueError: an invalid number or opponent; when training starts, a model of another board,
            or a file of evaluations that is damaged.
    """

    def __init__(
        self,
        game: AnyGame,
        opponent: str | Policy | None = None,
        *,
        callback_after_eval: BaseCallback | None = None,
        eval_freq: int = 10_000,
        log_path: str | os.PathLike[str] | None = None,
        best_model_save_path: str | os.PathLike[str] | None = None,
        deterministic: bool = True,
        seat: int | None = None,
        observation: Observation | None = None,
        critic: bool = False,
        verbose: int = 1,
    ) -> None:
        super().__init__(callback_after_eval, verbose=verbose)
        if eval_freq < 0:
            raise Refusal(
                f"eval_freq={eval_freq} is no number of calls: choose 1 or more, or 0 for no "
                "evaluation"
            )
        check_choice("seat", seat, (0, 1, None))
        self.game = game
        self.opponent = opponent
        self.eval_freq = eval_freq
        self.log_path = None if log_path is None else Path(log_path)
        self.best_model_save_path = (
            None if best_model_save_path is None else Path(best_model_save_path)
        )
        self.deterministic = deterministic
        self.seat = seat
        self.observation = observation
        self.critic = critic
        self.evaluations: list[dict[str, float]] = []
        self._opponent = None if opponent is None else make_pure(opponent, game)

    @property
    def best_exploitability(self) -> float:
        """Lowest exploitability so far; infinite before the first evaluation."""
        return min((line["exploitability"] for line in self.evaluations), default=float("inf"))

    @property
    def best_mean_reward(self) -> float:
        """Minus the lowest exploitability, for Stable-Baselines3's callbacks that stop a
        training.
        """
        return -self.best_exploitability

    def _on_training_start(self) -> None:
        self._policy(self.deterministic)  # reports a mismatch before training starts
        before = self.evaluations if self.log_path is None else _read(self.log_path / EVALUATIONS)
        self.evaluations = [line for line in before if line["timesteps"] <= self.num_timesteps]
        super()._on_training_start()

    def _policy(self, deterministic: bool) -> Policy:
        """Return the model's current policy."""
        return as_policy(
            self.model, self.game, self.observation, "actions" if deterministic else "probabilities"
        )

    def _critic_error(self) -> dict[str, float]:
        """Return the error of the model's critic by name."""
        game = refuse_hidden(self.game)
        policy = self._policy(not hasattr(self.model.policy, "get_distribution"))
        error = critic_error(
            game,
            policy,
            self._opponent,
            self.model,
            seat=self.seat,
            discount=float(getattr(self.model, "gamma", 1.0)),
            observation=self.observation,
        )
        return error.to_dict()

    def _on_step(self) -> bool:
        if self.eval_freq == 0 or self.n_calls % self.eval_freq:
            return True
        measures = measure(self.game, self._policy(self.deterministic), self._opponent, self.seat)
        measured_values = {name.removeprefix("exact_"): value for name, value in measures.items()}
        if self.critic:
            measured_values |= self._critic_error()
        for name, value in measured_values.items():
            self.logger.record(f"exact/{name}", value)
        self.logger.record("time/total_timesteps", self.num_timesteps, exclude="tensorboard")
        self.logger.dump(self.num_timesteps)
        if self.verbose >= 1:
            print(
                f"Exact num_timesteps={self.num_timesteps}, "
                f"exploitability={measured_values['exploitability']:.4f}"
            )
        if (
            measured_values["exploitability"] < self.best_exploitability
            and self.best_model_save_path is not None
        ):
            write_atomically(self.best_model_save_path / BEST, self.model.save)
        self.evaluations.append({"timesteps": self.num_timesteps, **measured_values})
        if self.log_path is not None:
            write_rows(self.log_path / EVALUATIONS, self.evaluations)
        return bool(self._on_event())


def _read(path: Path) -> list[dict[str, float]]:
    """Read the evaluations in a file; empty if there is no file.

    Raises:
        ValueError: it is damaged.
    """
    lines = read_rows(path, "timesteps")
    if (path.exists() and not lines) or not all("exploitability" in line for line in lines):
        raise Refusal(f"{path} holds no evaluations of this callback: choose another log_path")
    return lines
