"""Probes of learners: small environments that isolate one thing each, with exact answers.

A probe is the environment ``ttt/MNK-v0`` with options, nothing else, so that any library trains in
it. Its openings were searched by the exact loss of the error that it is for
(``tools/make_probes.py``); they are data, in ``probes.toml``.

>>> from ttt_eval.checks import PROBES
>>> probe = PROBES["credit"]
>>> probe.exact.best, round(probe.exact.random, 4)
(1.0, -0.191)
>>> round(probe.power("sign of the next value").score, 2)
-0.57
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ttt_envs.agents.policy import normalise
from ttt_envs.arrays import game_arrays
from ttt_envs.core.checks import find_named
from ttt_envs.core.files import read_table
from ttt_envs.core.jit import Float64Array
from ttt_envs.envs.config import SELF, EnvConfig
from ttt_envs.game.boards import to_text
from ttt_envs.game.phantom import refuse_hidden
from ttt_eval.checks.check import MOVE_NOTE, Evidence
from ttt_eval.checks.wrong_targets import PREDICTED_ERRORS, RIGHT_TARGET, WrongTarget
from ttt_eval.exact.decision_values import ActionModel, DecisionValues, SelfPlayValues

if TYPE_CHECKING:
    import gymnasium
    from gymnasium.vector import VectorEnv

ENV_ID = "ttt_envs:ttt/MNK-v0"
TIE = 1e-9
"""Scores within this distance are equal, and played equally often."""

Scores = Callable[[Any], Any]
"""Returns scores of actions, [B, A], from observations, float32[B, 2 * cells]."""


class Power(NamedTuple):
    """What a probe measures of a learner that has reached a fixed point."""

    score: float
    value_error: float


@dataclass(frozen=True)
class MakeEnv:
    """Makes environments of a probe: all that a learner gets to know of it."""

    options: Mapping[str, Any]
    """keyword arguments of ``gymnasium.make(ENV_ID)``"""
    masks: bool
    """whether the learner is measured with legal actions only; if not, it must not use action
    masks, because it is to learn which actions are illegal"""

    @property
    def self_play(self) -> bool:
        """Whether the learner moves for both players; ``info["mover"]`` names the player."""
        return bool(self.options["opponent"] == SELF)

    def __call__(self, num_envs: int | None = None, **options: Any) -> VectorEnv | gymnasium.Env:
        """Return a vector environment of Gymnasium, or with None a single one.

        Args:
            num_envs: number of simultaneous games.
            options: more keyword arguments, such as ``autoreset_mode``.
        """
        import gymnasium

        options = {**self.options, **options}
        if num_envs is None:
            return gymnasium.make(ENV_ID, **options)
        return gymnasium.make_vec(ENV_ID, num_envs=num_envs, **options)


@dataclass(frozen=True)
class LearnerProbe:
    """A task that isolates one thing, with exact answers."""

    name: str
    isolates: str
    """what a learner needs here"""
    steps: int
    """budget: steps of the environments together, in which right learners of all families arrive"""
    options: Mapping[str, Any]
    """of the environment"""
    masks: bool = True
    """whether only legal actions are measured"""
    scored: Sequence[str] = ()
    """openings from which it is measured; empty for those of the environment"""

    @property
    def make_env(self) -> MakeEnv:
        """What makes the environments."""
        return MakeEnv(self.options, self.masks)

    @cached_property
    def exact(self) -> ExactProbe:
        """The exact answers."""
        return ExactProbe(self)

    def power(self, error: str) -> Power:
        """Return the exact results of a learner with an error, without training.

        Args:
            error: a name in :data:`~ttt_eval.checks.wrong_targets.PREDICTED_ERRORS`.

        Raises:
            ValueError: it is unknown.
        """
        wrong = find_named("error", error, PREDICTED_ERRORS)
        exact = self.exact
        if wrong.at_cuts and "max_episode_steps" not in self.options:
            wrong = WrongTarget()
        values, action_values = exact.learned_values(wrong)
        probabilities = exact.greedy(action_values)
        return Power(
            exact.score(probabilities), exact.value_error(values, exact.weights(probabilities))
        )


class ExactProbe:
    """The exact answers of a probe, in its S positions with the learner to move; A actions.

    Attributes:
        model: what actions lead to.
        wrong_models: the same with an error at cuts, by what follows them, see
            :class:`~ttt_eval.checks.wrong_targets.WrongTarget`.
        cut_weights: float64[S], the share of each position in those in which games are cut, with
            best play.
        observations: float32[S, 2 * cells].
        values: float64[S], optimal values for the player to move: against the opponent of the
            probe, in self-play those of perfect play.
        action_values: float64[S, A], those of actions.
        best: the value of the best policy from the beginning; in self-play 0.
        random: that of equally likely actions; in self-play minus its exploitability.
    """

    def __init__(self, probe: LearnerProbe) -> None:
        options = {**probe.options, "openings": probe.scored or probe.options.get("openings")}
        options.pop("max_episode_steps", None)
        config = EnvConfig(**options)
        openings = config.opening_positions
        self._game = refuse_hidden(config.game)
        arrays = game_arrays(self._game, openings=openings)
        self._boards = arrays.boards(0)
        starts = 1 if openings is None else len(openings.mover)
        self.model: ActionModel
        if config.opponents:
            opponent = config.opponents[0][0]
            seat = ("first", "second").index(config.seat)
            self.model = DecisionValues(arrays, opponent, seat, starts, probe.masks)
        else:
            self.model = SelfPlayValues(arrays, starts)
        self.observations = self.model.observations
        self.values, self.action_values = self.model.optimum()
        self.wrong_models: dict[str, ActionModel] = {}
        self.cut_weights = np.zeros(len(self.values))
        self._learned_values: dict[WrongTarget, tuple[Float64Array, Float64Array]] = {}
        if "max_episode_steps" in probe.options:
            goes_on = 1 - self.model.expect_results(np.ones(3))  # openings are all positions
            first = np.ones(len(self.values)) / len(self.values)
            cut_model = self.wrong_models["next game"] = copy(self.model)
            cut_model.next = np.outer(goes_on, first)
            cuts = self.model.push(self.greedy(self.action_values))
            self.cut_weights = cuts / cuts.sum()
            share = np.ones_like(goes_on) / (1 + cuts[:, None])  # of steps in games
            reset_model = self.wrong_models["reset step"] = copy(self.model)
            reset_model.rewards = share * self.model.rewards
            reset_model.next = share.reshape(-1, 1) * self.model.next + np.outer(1 - share, first)
        self.best = self.model.value(self.greedy(self.action_values))
        self.random = self.model.value(normalise(self.model.allowed))

    def greedy(self, scores: Float64Array) -> Float64Array:
        """Return the policy that plays the best allowed actions, float64[S, A], from scores."""
        scores = np.where(self.model.allowed, scores, -np.inf)
        return normalise(scores >= scores.max(axis=1, keepdims=True) - TIE)

    def softmax(self, scores: Float64Array) -> Float64Array:
        """Return the policy of logits over the allowed actions, float64[S, A]."""
        from scipy.special import softmax

        return np.asarray(softmax(np.where(self.model.allowed, scores, -np.inf), axis=1))

    def score(self, probabilities: Float64Array) -> float:
        """Return the value of a policy, float64[S, A], as a share of the way from random to best: 0
        and 1.
        """
        value = self.model.value(probabilities)
        return (value - self.random) / (self.best - self.random)

    def learned_values(self, wrong: WrongTarget) -> tuple[Float64Array, Float64Array]:
        """Return the values of a learner with an error, float64[S], and those of actions,
        float64[S, A]; to be read only, for they are kept.
        """
        if wrong not in self._learned_values:
            self._learned_values[wrong] = self._learn_values(wrong)
        return self._learned_values[wrong]

    def _learn_values(self, wrong: WrongTarget) -> tuple[Float64Array, Float64Array]:
        is_open = ~self.model.allowed.all(axis=1) if wrong.takes_illegal else False

        def backup(action_values: Float64Array) -> Float64Array:
            values = self.model.best(action_values)
            return np.where(is_open, np.maximum(values, 0), values)

        model = self.followed(wrong)
        return model.fixed_point(backup, wrong.reward_scale * model.rewards, wrong.discount)

    def followed(self, wrong: WrongTarget) -> ActionModel:
        """Return what a learner with an error takes actions to lead to."""
        return self.wrong_models.get(wrong.follows, self.model)

    def weights(self, probabilities: Float64Array) -> Float64Array:
        """Return the share of each position in all visits of a policy, float64[S]."""
        visits = self.model.visits(probabilities)
        return np.asarray(visits / visits.sum())

    def value_error(
        self, values: Float64Array, weights: Float64Array, target: WrongTarget = RIGHT_TARGET
    ) -> float:
        """Return the mean absolute error of optimal values of positions with weights, float64[S]
        both.
        """
        optimum, _ = self.learned_values(target)
        return float(weights @ np.abs(values - optimum))

    def critic_error(
        self,
        probabilities: Float64Array,
        values: Float64Array,
        weights: Float64Array,
        target: WrongTarget = RIGHT_TARGET,
    ) -> float:
        """Return the root mean square error of values, float64[S], beside those of a policy, of
        positions with weights, float64[S].
        """
        model = self.followed(target)
        errors = values - model.policy_values(probabilities, discount=target.discount)[0]
        return float(np.sqrt(weights @ errors**2))

    def excess(self, values: Float64Array, weights: Float64Array) -> float:
        """Return the mean of what values are beyond 1 or -1, the largest results, of positions with
        weights, float64[S] both.
        """
        return float(weights @ np.maximum(np.abs(values) - 1, 0))

    def entropy(self, probabilities: Float64Array) -> float:
        """Return the mean entropy of a policy where it comes, in nats."""
        from scipy.special import entr

        return float(self.weights(probabilities) @ entr(probabilities).sum(axis=1))

    def losses(self, probabilities: Float64Array) -> Float64Array:
        """Return what a policy loses by its next action, float64[S]."""
        played = (probabilities * self.action_values).sum(axis=1)
        return np.asarray(self.values - played)

    def mistake(self, probabilities: Float64Array) -> Evidence | None:
        """Return the position in which a policy loses most, times its visits; None if it plays
        perfectly.
        """
        losses = self.losses(probabilities)
        row = int((self.model.visits(probabilities) * losses).argmax())
        if losses[row] <= TIE:
            return None
        best_actions = np.flatnonzero(self.greedy(self.action_values)[row]).tolist()
        actions = np.flatnonzero(probabilities[row]).tolist()
        played = actions[0] if len(actions) == 1 else f"one of {actions} at random"
        note = MOVE_NOTE.format(played, losses[row], best_actions)
        return Evidence(self.text(row), note)

    def text(self, row: int) -> str:
        """Return a position as text, the player to move as o."""
        return to_text(self._boards.position(self.model.rows[row]), self._game)


PROBES: Mapping[str, LearnerProbe] = {
    name: LearnerProbe(name, **row) for name, row in read_table(__file__).items()
}
"""The probes by name, the easiest first."""
