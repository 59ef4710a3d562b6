"""Audits of advantage estimators against exact values.

An audit lets a policy play episodes against a fixed opponent, gives their rewards and a critic's values to an
estimator, and compares its estimates with the exact advantages of :mod:`ttt_eval.exact.policy_evaluation`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from baselines.softmax_table import PositionIndex
from ttt_envs.agents.policy import Policy
from ttt_envs.agents.specs import make_policy
from ttt_envs.core.hash_index import find_sorted
from ttt_envs.core.jit import BoolArray, Float64Array
from ttt_envs.game.boards import MAX_CELLS_BASE_3, Boards, check_opening, from_text, keys, to_text
from ttt_envs.game.game import Game, Position
from ttt_envs.game.symmetry import symmetries
from ttt_eval.audit.episodes import Episodes, Players, enumerate_episodes, enumerate_groups, sample_episodes
from ttt_eval.audit.errors import (
    ROUNDING,
    AdvantageErrors,
    GradientErrors,
    PositionErrors,
    Reference,
    Visits,
    advantage_errors,
    assign_blocks,
    gradient_errors,
    position_errors,
)
from ttt_eval.audit.estimators import Batch, Estimator, accumulate, make_estimator
from ttt_eval.exact.policy_evaluation import PolicyEvaluation, evaluate_policy, query_values
from ttt_eval.statistics import Interval

Critic = Callable[[Boards], Float64Array]
"""Returns float64[B]: values of positions for the player to move."""
EXACT, ZERO, LEARNED = "exact", "zero", "learned"
"""Names of the critics that are no policy."""
MAX_CELLS_UNMERGED = 9
"""Maximum number of cells of a board on which symmetric policies are evaluated in every single position."""
MAX_TRAINING = 10**7
"""Maximum number of episodes of the learned critic."""
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
    """per decision of the audited policy; it weighs rewards, and no visits: see :mod:`ttt_eval.audit.errors`"""
    critic: str | Critic = EXACT
    """exact, zero, learned:N (the mean returns of N episodes of other random numbers, by position), the spec string of
    a policy with values, or a function of boards"""
    behaviour: str | Policy | None = None
    """policy that plays in place of the audited one, for off-policy estimators; it must play every move that the
    audited policy plays"""
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
        if self.seat not in (0, 1):
            raise ValueError(f"seat={self.seat!r} is no seat: choose 0 (moves first) or 1 (second)")
        if not 0 <= self.discount <= 1:
            raise ValueError(f"discount={self.discount!r} is no discount: choose 0 to 1")
        if self.max_steps is not None and self.max_steps < 1:
            raise ValueError(f"max_steps={self.max_steps} leaves no decision: choose 1 or more")
        if not 2 <= self.group_size <= 10_000:
            raise ValueError(f"group_size={self.group_size} is no group: choose 2 to 10,000 episodes")


class Audit(NamedTuple):
    """Errors of an estimator."""

    estimator: Estimator
    exact: bool
    """whether all episodes were enumerated; else numbers have 95% intervals"""
    episodes: int
    """number of sampled or enumerated episodes"""
    advantage: AdvantageErrors
    """of the estimates"""
    gradient: GradientErrors
    """of the policy gradient"""
    positions: PositionErrors
    boards: Boards
    """the positions of ``positions``"""

    @property
    def biased(self) -> bool | None:
        """Whether the expected gradient differs from the exact one; None if the sample does not decide it."""
        return _differs(self.gradient.errors.bias_squared, self.exact)

    @property
    def biased_advantage(self) -> bool | None:
        """Whether the expected estimates differ from what they estimate, which may leave the gradient as it is."""
        return _differs(self.advantage.errors.bias_squared, self.exact)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready data without the positions; docs/files.md documents the keys."""
        return {
            "name": self.estimator.name,
            "estimates": self.estimator.estimates,
            "exact": self.exact,
            "episodes": self.episodes,
            "advantage": self.advantage.errors.to_dict(),
            "coverage": self.advantage.coverage,
            "biased_advantage": self.biased_advantage,
            "gradient": self.gradient.errors.to_dict(),
            "biased": self.biased,
            "cosine": self.gradient.cosine.to_dict(),
            "exact_gradient_squared": self.gradient.exact.to_dict(),
        }


def _differs(square: Interval, exact: bool) -> bool | None:
    if exact:
        return square.mean > ROUNDING
    return True if square.low > ROUNDING else False if square.high == square.low else None


def audit(
    estimator: str | Callable[[Batch], Any] | Estimator,
    game: Game,
    policy: str | Policy,
    opponent: str | Policy | None = "random",
    settings: AuditSettings | None = None,
) -> Audit:
    """Return bias, variance and mean squared error of an advantage estimator and of the policy gradients made from it.

    Args:
        estimator: a built-in name with settings, such as ``"gae:lam=0.9"``, or a function of a
            :class:`ttt_eval.audit.estimators.Batch`.
        game: the game.
        policy: the audited policy, pure: a spec string or a policy. The gradient is that in the logits of its softmax;
            :mod:`ttt_eval.audit.errors` defines it.
        opponent: its fixed opponent, pure; None for a copy of the policy, held fixed.
        settings: episodes and critic.

    Raises:
        ValueError: an unknown name, a policy that is not pure, or an estimator that does not keep to its protocol.
        MemoryError: too many reachable positions.
    """
    return Auditor(game, policy, opponent, settings or AuditSettings()).audit(estimator)


@dataclass(frozen=True)
class Auditor:
    """Audits several estimators on the same episodes; see :func:`audit` for the arguments."""

    game: Game
    policy: str | Policy
    opponent: str | Policy | None = "random"
    settings: AuditSettings = field(default_factory=AuditSettings)

    def audit(self, estimator: str | Callable[[Batch], Any] | Estimator) -> Audit:
        """Return the errors of one estimator."""
        chosen = make_estimator(estimator)
        size = self.settings.group_size if chosen.uses_groups else 1
        _ = self._players, self._evaluation  # reject what cannot be evaluated before episodes are played
        episodes, reference = self._episodes(size), self._reference
        mask, at = episodes.mask, (episodes.positions[:, :-1][episodes.mask], episodes.actions[episodes.mask])
        ratios, values = np.zeros(mask.shape), np.where(episodes.positions >= 0, self._critic[episodes.positions], 0.0)
        ratios[mask] = self._ratios[at]
        ends = episodes.terminated, episodes.truncated
        batch = Batch(episodes.rewards, values, *ends, mask, ratios, self.settings.discount, size)
        visits = Visits.from_episodes(episodes, ratios, size)
        estimates, exact = chosen.estimate(batch)[mask], reference.advantages[at]
        error = estimates - (exact if chosen.estimates == "advantage" else reference.action_values[at])
        blocks = None if episodes.exact else assign_blocks(len(mask) // size)
        positions = position_errors(visits, error, episodes.exact, len(mask))
        return Audit(
            chosen,
            episodes.exact,
            len(mask),
            advantage_errors(visits, error, self.game.cells, blocks),
            gradient_errors(visits, (estimates, exact), reference.probabilities, size, blocks),
            positions,
            self._boards.take(positions.rows),
        )

    # -- the game ------------------------------------------------------------------------------------------------

    @cached_property
    def _players(self) -> Players:
        settings, game = self.settings, self.game
        if game.cells > MAX_CELLS_BASE_3:
            raise ValueError(f"{game} is too large for an audit: choose a board of up to {MAX_CELLS_BASE_3} cells")
        target = make_policy(self.policy, game)
        opponent = target if self.opponent is None else make_policy(self.opponent, game)
        behaviour = target if settings.behaviour is None else make_policy(settings.behaviour, game)
        if not behaviour.pure:
            raise ValueError(f"{behaviour} is not pure: the ratios of its moves are unknown, choose another behaviour")
        start = Position(np.zeros(game.cells, np.int8), 0)
        if settings.position:
            start = from_text(settings.position, game)
            check_opening(game, start, f"position {settings.position!r}")
        return Players(game, behaviour, opponent, settings.seat, settings.max_steps, start)

    @cached_property
    def _evaluation(self) -> PolicyEvaluation:
        settings, game = self.settings, self.game
        target, opponent = make_policy(self.policy, game), self._players.opponent
        merge = game.cells > MAX_CELLS_UNMERGED and target.symmetric and opponent.symmetric
        return evaluate_policy(
            game, target, opponent, seat=settings.seat, discount=settings.discount, merge_symmetries=merge
        )

    @cached_property
    def _all_episodes(self) -> Episodes:
        if self.settings.episodes is None:
            return enumerate_episodes(self._players)
        return sample_episodes(self._players, self.settings.episodes, self.settings.seed)

    def _episodes(self, size: int) -> Episodes:
        """Return the episodes, in whole groups."""
        drawn = self._all_episodes
        if size == 1:
            return drawn
        if drawn.exact:
            return enumerate_groups(drawn, size)
        whole = len(drawn.weights) // size * size
        if not whole:
            raise ValueError(f"episodes={len(drawn.weights)} make no group of {size}: choose {size} or more")
        return drawn.take(np.arange(whole), np.full(whole, 1 / whole))

    @cached_property
    def _boards(self) -> Boards:
        cells = self._all_episodes.cells
        return Boards(cells, np.full(len(cells), self.settings.seat, np.int8))

    @cached_property
    def _reference(self) -> Reference:
        """Exact numbers at the positions of the episodes.

        Raises:
            ValueError: the policies never reach one of the positions.
        """
        evaluation, boards = self._evaluation, self._boards
        index = PositionIndex(self.game, evaluation.boards)
        values, *tables = np.full(len(boards.mover), np.nan), np.empty(boards.cells.shape), np.empty(boards.cells.shape)
        for image in symmetries(self.game, "all" if evaluation.merged else "none"):
            rows = index.find(Boards(boards.cells[:, image], boards.mover))
            at = np.flatnonzero(rows >= 0)  # of each class, the evaluation has one position
            values[at] = evaluation.values[rows[at]]
            for table, exact in zip(tables, (evaluation.probabilities, evaluation.action_values), strict=True):
                table[at[:, None], image] = np.nan_to_num(exact[rows[at]])
        if (lost := self._first(np.isnan(values))) is not None:
            raise ValueError(
                f"{self.policy} never reaches {lost!r} against {self.opponent}, so it has no exact value there: "
                f"choose a policy, a behaviour and a position that the audited policy can reach"
            )
        return Reference(tables[0], values, tables[1])

    def _first(self, rows: BoolArray) -> str | None:
        """Return the first of these positions as text, None if there is none."""
        return to_text(self._boards.position(int(np.argmax(rows))), self.game) if rows.any() else None

    # -- what estimators are given -------------------------------------------------------------------------------

    @cached_property
    def _ratios(self) -> Float64Array:
        """Ratios of the probabilities of moves to those of the behaviour, float64[P, cells].

        Raises:
            ValueError: the behaviour never plays a move that the audited policy plays.
        """
        audited = self._reference.probabilities
        if self.settings.behaviour is None:
            return np.ones(audited.shape)
        behaviour = np.asarray(self._players.behaviour.probabilities(self._boards), np.float64)
        if (text := self._first(((behaviour == 0) & (audited > 0)).any(axis=1))) is not None:
            raise ValueError(
                f"the behaviour {self.settings.behaviour} never plays some moves of {self.policy} in {text!r}: "
                f"choose one that plays them all, such as random"
            )
        return np.divide(audited, behaviour, out=np.zeros(audited.shape), where=behaviour > 0)

    @cached_property
    def _critic(self) -> Float64Array:
        """Values of the critic at the positions of the episodes, float64[P].

        Raises:
            ValueError: an unknown critic, or one without values.
        """
        critic, boards = self.settings.critic, self._boards
        if isinstance(critic, str):
            name, _, count = critic.partition(":")
            if name == LEARNED:
                return self._learned(count or "1000")
            if critic in (EXACT, ZERO):
                return self._reference.values if critic == EXACT else np.zeros(len(boards.mover))
            if (function := make_policy(critic, self.game).values) is None:
                raise ValueError(
                    f"{critic} has no values: choose {EXACT}, {ZERO}, {LEARNED}:N or a policy such as run:PATH"
                )
            critic = function
        return query_values(critic, boards)

    def _learned(self, count: str) -> Float64Array:
        """Return the mean return of each position in other episodes of the audited policy, 0 where they have none."""
        if not count.isdecimal() or not 0 < int(count) <= MAX_TRAINING:
            raise ValueError(f"critic learned:{count} has no number of episodes: write for example learned:1000")
        players = self._players._replace(behaviour=make_policy(self.policy, self.game), max_steps=None)
        training = sample_episodes(players, int(count), self.settings.seed + TRAINING_SEED)
        returns = accumulate(training.rewards, np.full(training.mask.shape, self.settings.discount))
        rows = training.positions[:, :-1][training.mask]
        means: Float64Array = np.bincount(rows, returns[training.mask]) / np.bincount(rows)
        places = find_sorted(keys(training.cells), keys(self._boards.cells))  # episodes list positions by their keys
        return np.where(places >= 0, means[places], 0.0)
