"""Audits of advantage estimators against exact values.

An audit lets a policy play episodes against a fixed opponent, gives their rewards and a critic's
values to an estimator, and compares its estimates with the exact advantages of
:mod:`ttt_eval.exact.policy_evaluation`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ttt_envs.agents.policy import Policy
from ttt_envs.agents.softmax_table import PositionIndex
from ttt_envs.agents.specs import make_policy, make_pure
from ttt_envs.core.checks import Refusal, check_choice, check_range
from ttt_envs.core.hash_index import find_sorted
from ttt_envs.core.jit import BoolArray, Float64Array
from ttt_envs.game.boards import Boards, check_opening, from_text, keys, to_text
from ttt_envs.game.game import Game, Position
from ttt_envs.game.symmetry import symmetries
from ttt_eval.audit.episodes import (
    Episodes,
    Players,
    enumerate_episodes,
    enumerate_groups,
    sample_episodes,
)
from ttt_eval.audit.errors import (
    ROUNDING,
    Errors,
    Groups,
    Visits,
    advantage_errors,
    gradient_errors,
)
from ttt_eval.audit.estimators import Batch, Estimator, accumulate, make_estimator
from ttt_eval.exact.dynamic_programming import evaluate_policy
from ttt_eval.exact.policy_evaluation import Critic, PolicyEvaluation, query_values
from ttt_eval.store.statistics import Interval

EXACT, ZERO, LEARNED = "exact", "zero", "learned:"
"""Names of the critics that are no policy; a number of episodes follows the last."""
TRAINING_SEED = 0x5EED
"""Added to the seed for the episodes of the learned critic."""


@dataclass(frozen=True)
class AuditSettings:
    """Episodes of an audit, and the critic.

    Raises:
        ValueError: an invalid setting.
    """

    seat: int = 0
    """of the audited policy: 0 moves first, 1 second"""
    discount: float = 1.0
    """per decision of the audited policy; it weighs rewards, and no visits: see
    :mod:`ttt_eval.audit.errors`
    """
    critic: str | Critic = EXACT
    """exact, zero, learned:N (the mean returns of N episodes of other random numbers, by position),
    the spec string of a policy with values, or a function of boards"""
    behaviour: str | Policy | None = None
    """policy that plays in place of the audited one, for off-policy estimators; it must play every
    move that the audited policy plays"""
    position: str = ""
    """first position as text, by default the empty board"""
    max_steps: int | None = None
    """number of decisions after which an episode is truncated"""
    group_size: int = 8
    """number of episodes in a group, for estimators that compare them"""
    episodes: int | None = 20_000
    """number of sampled episodes; None enumerates all that can occur"""
    seed: int = 0
    """of all random numbers"""

    def __post_init__(self) -> None:
        check_choice("seat", self.seat, (0, 1))
        check_range("discount", self.discount, 0, 1)
        check_range("max_steps", self.max_steps, 1, problem="leaves no decision")
        check_range("group_size", self.group_size, 2, 10_000, hint=" episodes")


class Audit(NamedTuple):
    """Errors of an estimator."""

    estimator: Estimator
    exact: bool
    """whether all episodes were enumerated; else numbers have 95% intervals"""
    episodes: int
    """number of sampled or enumerated episodes"""
    advantage: Errors
    """of the estimates, given position and action, averaged over the decisions of an episode; the
    mean squared error is that of all decisions, bias and variance are those of the covered ones"""
    coverage: float
    """share of decisions whose pair of position and action was sampled at least twice, which bias
    and variance need; 1 where exact"""
    gradient: Errors
    """of the policy gradient of one episode, as sums of squares over all logits"""
    cosine: Interval
    """of the angle between the expected gradient and the exact one: 1 if a bias changes the length
    alone
    """
    exact_gradient_squared: Interval
    """squared length of the exact gradient, see :mod:`ttt_eval.audit.errors`"""

    @property
    def biased(self) -> bool | None:
        """Whether the expected gradient differs from the exact one; None if the sample does not
        decide it.
        """
        return _differs(self.gradient.bias_squared, self.exact)

    @property
    def biased_advantage(self) -> bool | None:
        """Whether the expected estimates differ from what they estimate, which may leave the
        gradient as it is.
        """
        return _differs(self.advantage.bias_squared, self.exact)

    def to_dict(self) -> dict[str, object]:
        """Return JSON-ready data; docs/files.md documents the keys."""
        return {
            "name": self.estimator.name,
            "estimates": self.estimator.estimates,
            "exact": self.exact,
            "episodes": self.episodes,
            "advantage": self.advantage.to_dict(),
            "coverage": self.coverage,
            "gradient": self.gradient.to_dict(),
            "cosine": self.cosine.to_dict(),
            "exact_gradient_squared": self.exact_gradient_squared.to_dict(),
            "biased": self.biased,
            "biased_advantage": self.biased_advantage,
        }


def _differs(square: Interval, exact: bool) -> bool | None:
    if exact:
        return square.mean > ROUNDING
    if square.low > ROUNDING:
        return True
    return False if square.high == square.low else None


def audit(
    estimator: str | Callable[[Batch], object] | Estimator,
    game: Game,
    policy: str | Policy,
    opponent: str | Policy | None = "random",
    settings: AuditSettings | None = None,
) -> Audit:
    """Return bias, variance and mean squared error of an advantage estimator and of the policy
    gradients made from it.

    Args:
        estimator: a built-in name with settings, such as ``"gae:lam=0.9"``, or a function of a
            :class:`ttt_eval.audit.estimators.Batch`.
        game: the game.
        policy: the audited policy, pure: a spec string or a policy. The gradient is that in the
            logits of its softmax; :mod:`ttt_eval.audit.errors` defines it.
        opponent: its fixed opponent, pure; None for a copy of the policy, held fixed.
        settings: episodes and critic.

    Raises:
        ValueError: an unknown name, a policy that is not pure, or an estimator that does not keep
            to its protocol.
        MemoryError: too many reachable positions.
    """
    estimator = make_estimator(estimator)
    return Auditor(game, policy, opponent, settings).audit(estimator)


class Auditor:
    """Audits several estimators on the same episodes; see :func:`audit` for the arguments and
    errors.
    """

    def __init__(
        self,
        game: Game,
        policy: str | Policy,
        opponent: str | Policy | None = "random",
        settings: AuditSettings | None = None,
    ) -> None:
        self.game = game
        self.settings = settings or AuditSettings()
        self._target = target = make_pure(policy, game)
        self._players = players = _make_players(game, target, opponent, self.settings)
        evaluation = evaluate_policy(
            game, target, players.opponent, seat=self.settings.seat,
            discount=self.settings.discount,
            merge_symmetries=target.symmetric and players.opponent.symmetric,
        )  # fmt: skip
        number = self.settings.episodes
        self._episodes = (
            enumerate_episodes(players)
            if number is None
            else sample_episodes(players, number, self.settings.seed)
        )
        cells = self._episodes.cells
        self._boards = Boards(cells, np.full(len(cells), self.settings.seat, np.int8))
        self._values, self._probabilities, self._action_values = _look_up(evaluation, self._boards)
        unreachable = self._first(np.isnan(self._values))
        if unreachable is not None:
            raise Refusal(
                f"{policy} never reaches {unreachable!r} against {opponent}, so it has no exact "
                "value there: choose a policy, a behaviour and a position that the audited policy "
                "can reach"
            )
        self._ratios = self._weigh_moves()
        self._critic = self._criticise()

    def audit(self, estimator: str | Callable[[Batch], object] | Estimator) -> Audit:
        """Return the errors of one estimator."""
        estimator = make_estimator(estimator)
        size = self.settings.group_size if estimator.uses_groups else 1
        episodes = self._in_groups(size)
        mask = episodes.mask
        rows = episodes.positions[:, :-1][mask]
        actions = episodes.actions[mask]
        estimates = estimator.estimate(self._make_batch(episodes, size))[mask]
        action_values = self._action_values[rows, actions]
        advantages = action_values - self._values[rows]
        targets = advantages if estimator.estimates == "advantage" else action_values
        weights = np.ones(len(mask) // size)
        if episodes.exact:
            weights = episodes.weights[::size] * size
        groups = Groups(size, weights, episodes.exact)
        visits = Visits(np.nonzero(mask)[0] // size, rows, actions, self._ratios[rows, actions])
        advantage, coverage = advantage_errors(visits, groups, estimates - targets, self.game.cells)
        gradient, cosine, exact_square = gradient_errors(
            visits, groups, (estimates, advantages), self._probabilities
        )
        return Audit(
            estimator=estimator,
            exact=episodes.exact,
            episodes=len(mask),
            advantage=advantage,
            coverage=coverage,
            gradient=gradient,
            cosine=cosine,
            exact_gradient_squared=exact_square,
        )

    def _make_batch(self, episodes: Episodes, size: int) -> Batch:
        """Return what an estimator is given of episodes in groups of a size."""
        mask = episodes.mask
        rows = episodes.positions
        ratios = np.zeros(mask.shape)
        ratios[mask] = self._ratios[rows[:, :-1][mask], episodes.actions[mask]]
        return Batch(
            episodes.rewards,
            np.where(rows >= 0, self._critic[rows], 0.0),
            episodes.terminated,
            episodes.truncated,
            mask,
            ratios,
            self.settings.discount,
            size,
        )

    def _in_groups(self, size: int) -> Episodes:
        """Return the episodes, in whole groups."""
        episodes = self._episodes
        if size == 1:
            return episodes
        if episodes.exact:
            return enumerate_groups(episodes, size)
        count = len(episodes.weights)
        if count < size:
            raise Refusal(f"episodes={count} make no group of {size}: choose {size} or more")
        rows = np.arange(count // size * size)
        return episodes.take(rows, episodes.weights[rows])

    def _first(self, rows: BoolArray) -> str | None:
        """Return the first of these positions as text, None if there is none."""
        if not rows.any():
            return None
        return to_text(self._boards.position(int(np.argmax(rows))), self.game)

    def _weigh_moves(self) -> Float64Array:
        """Return the ratios of the probabilities of moves to those of the behaviour, float64[P,
        cells].

        Raises:
            ValueError: the behaviour never plays a move that the audited policy plays.
        """
        probabilities = self._probabilities
        if self.settings.behaviour is None:
            return np.ones(probabilities.shape)
        behaviour = np.asarray(self._players.behaviour.probabilities(self._boards), np.float64)
        text = self._first(((behaviour == 0) & (probabilities > 0)).any(axis=1))
        if text is not None:
            raise Refusal(
                f"the behaviour {self.settings.behaviour} never plays some moves of {self._target} "
                f"in {text!r}: choose one that plays them all, such as random"
            )
        ratios = np.zeros(probabilities.shape)
        return np.divide(probabilities, behaviour, out=ratios, where=behaviour > 0)

    def _criticise(self) -> Float64Array:
        """Return the values of the critic at the positions of the episodes, float64[P].

        Raises:
            ValueError: an unknown critic, or one without values.
        """
        critic = self.settings.critic
        boards = self._boards
        if not isinstance(critic, str):
            return query_values(critic, boards)
        if critic.startswith(LEARNED):
            return self._learned(critic)
        if critic == EXACT:
            return self._values
        if critic == ZERO:
            return np.zeros(len(boards.mover))
        values = make_policy(critic, self.game).values
        if values is None:
            raise Refusal(
                f"{critic} has no values: choose {EXACT}, {ZERO}, {LEARNED}N or a policy such as "
                "run:PATH"
            )
        return query_values(values, boards)

    def _learned(self, critic: str) -> Float64Array:
        """Return the mean return of each position in other episodes of the audited policy, 0 where
        they have none.
        """
        count = critic.removeprefix(LEARNED)
        if not count.isdecimal():
            raise Refusal(
                f"critic {critic} has no number of episodes: write for example learned:1000"
            )
        players = self._players._replace(behaviour=self._target, max_steps=None)
        training = sample_episodes(players, int(count), self.settings.seed + TRAINING_SEED)
        returns = accumulate(training.rewards, np.full(training.mask.shape, self.settings.discount))
        rows = training.positions[:, :-1][training.mask]
        means: Float64Array = np.bincount(rows, returns[training.mask]) / np.bincount(rows)
        # episodes list positions by their keys
        places = find_sorted(keys(training.cells), keys(self._boards.cells))
        return np.where(places >= 0, means[places], 0.0)


def _make_players(
    game: Game, target: Policy, opponent: str | Policy | None, settings: AuditSettings
) -> Players:
    """Return the players of the episodes, ``target`` itself where no other is named."""
    other = target if opponent is None else make_pure(opponent, game)
    behaviour = target if settings.behaviour is None else make_pure(settings.behaviour, game)
    start = Position(np.zeros(game.cells, np.int8), 0)
    if settings.position:
        start = from_text(settings.position, game)
    check_opening(game, start, f"position {settings.position!r}")
    return Players(game, behaviour, other, settings.seat, settings.max_steps, start)


def _look_up(
    evaluation: PolicyEvaluation, boards: Boards
) -> tuple[Float64Array, Float64Array, Float64Array]:
    """Return exact values float64[P], NaN where games never come, and probabilities and action
    values float64[P, cells], which are arbitrary where illegal.
    """
    index = PositionIndex(evaluation.game, evaluation.boards)
    values = np.full(len(boards.mover), np.nan)
    probabilities = np.empty(boards.cells.shape)
    action_values = np.empty(boards.cells.shape)
    for image in symmetries(evaluation.game, "all" if evaluation.merged else "none"):
        rows = index.find(Boards(boards.cells[:, image], boards.mover))
        # of each class, the evaluation has one position
        members = np.flatnonzero(rows >= 0)
        class_rows = rows[members]
        values[members] = evaluation.values[class_rows]
        places = (members[:, None], image)
        probabilities[places] = np.nan_to_num(evaluation.probabilities[class_rows])
        action_values[places] = np.nan_to_num(evaluation.action_values[class_rows])
    return values, probabilities, action_values
