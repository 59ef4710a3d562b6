"""Does a learner learn? Training in probes, whose exact answers say what it must reach."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from math import comb, nan
from typing import Any, NamedTuple

import numpy as np

from ttt_envs.core.checks import (
    TypeRefusal,
    check_choice,
    check_range,
    find_named,
)
from ttt_envs.core.files import read_table
from ttt_envs.core.jit import BoolArray, Float64Array
from ttt_envs.core.random import kept_generators, seed_generators
from ttt_eval.checks.calls import check_function, read_numbers
from ttt_eval.checks.check import (
    MAX_CAUSES,
    Check,
    CheckRow,
    Evidence,
    judge,
    list_fitting,
    no_error,
)
from ttt_eval.checks.probes import PROBES, ExactProbe, LearnerProbe, MakeEnv
from ttt_eval.checks.wrong_targets import (
    NEXT_GAME,
    PREDICTED_ERRORS,
    RESET_STEP,
    REWARD_TOO,
    WrongTarget,
)

QUICK = "quick"
"""Name of the ladder of all probes."""
MIN_SCORE_MARGIN = 0.05
MIN_ERROR_MARGIN = 0.02
"""Limits lie below the least score of right runs, and above their largest error, by the standard
deviation of these, or by this much.
"""
MAX_SHOWN_SCORE = 0.9
"""A probe shows an error whose exact score is below this."""
MIN_RISE = 0.1
"""Change of the score from half the budget to twice the budget by which a learner still learns."""
MIN_FALL = 1 / 3
"""Share of the way from an error of values, e, to e squared by which it falls with twice the budget
while a learner still learns. With twice the budget right values come all of this way, and those of
a wrong fixed point stay.
"""
MIN_WAY = 0.1
"""Smallest such way, as a share of the error."""
FALLING = ("error", "misfit", "lead", "reset_lead")
CURVES = {"score": (0.25, 0.5, 1, 2), **dict.fromkeys(FALLING, (1, 2, 4))}
"""Budgets by which it is seen, in units of the probe's."""
ONE_STEP = "bandit"
"""The probe in which no discount changes the values of best play."""
MAX_ONE_STEP_ERROR = 0.1
"""Largest error of values there that holds without a family: twice that of right runs."""
DISCOUNTS = (-1.0, 0.0, 0.5, 0.9, 0.95, 0.99, 1.0, 2.0)
"""Discounts of values that are compared with the declared one."""
REWARD_DISCOUNTS = (0.9, 0.95, 0.99)
"""Those of :data:`REWARD_TOO`; smaller ones fit all values that are too small."""
MAX_SCALED = 0.25
"""Maximum error beside values of :data:`REWARD_TOO`, as a share of that beside right ones, by which
it counts as found; the two are near each other.
"""
MIN_SPREAD = 0.03
"""Smallest deviation of values, as a share of that of exact ones, of a learner that learns."""
QUIET_S = 5.0
"""Wall time of a training after which the next is announced."""
MAX_VALUE_MISFIT = 0.005
MAX_CRITIC_MISFIT = 0.5
"""Largest misfits that hold without a family."""
MAX_CUT_MISFIT = 0.2
"""The same of values in ``truncation`` with ``gamma``. Of 33 right DQN and tabular runs 30 had at
most 0.08, and those with a step size of 0.02 had 0.25, with twice the budget 0.17; three DQN that
take a truncation for an end had 0.36 to 0.45. None of the 33 failed (8.7%, one-sided 95%).
"""
BETTER = "better than with half of it: not judged, give it more"
MAX_LEAD = 0.0
"""Largest lead that holds without a family. Of 117 right runs in ``truncation`` (36 tabular, 11
DQN, 70 PPO) it was above 0 in 7, of half the budget or a tenth of the learning rate, and with more
budget in none (2.5%, one-sided 95%); with this error in 9 runs at least 0.08. As ``reset_lead`` 280
right tabular runs, 160 of them with other settings, had at most -0.16, and 20 wrong ones at least
0.04.
"""
MAX_EXCESS = 0.25
"""Maximum mean of what learned values are beyond 1 and -1, the largest results. Right tabular
learners have 0; the largest of right DQN and PPO is 0.10, with learning rates from 3e-4 to 3e-2,
targets copied after 1 to 100 updates, and a quarter of the budget to twice the budget.
"""
NEARER = "values with this error are nearer by {}"
REWARD_ROW = f"{ONE_STEP}, reward"
"""The row of :data:`REWARD_TOO`."""

SURE_PROBES = ("bandit", "credit", "defence", "truncation")
"""Probes in which errors have sure scores, because nothing there is by chance."""
NEAR_SCORE = 0.04
"""Scores there within this distance are those of an error."""
CREDIT = "credit"
"""The probe in which values are sure too, and other next values have others."""
NEAREST_PROBES: Mapping[str, str] = {f"{CREDIT}, values": CREDIT, REWARD_ROW: ONE_STEP}
"""Probes whose nearest wrong target explains failed values, by the row that fails, the surest
first.
"""
TRUNCATION = "truncation"
CRITIC_ERRORS: Mapping[str, str] = {
    "discount -1.0": "sign of the next value",
    "discount 0.0": "no next value, or truncation taken for an end",
}
"""Errors by the wrong target whose values are the nearest to those of a wrong critic."""
NEAR_ERROR = 0.002
"""Errors of values within this distance are those of an error."""
NO_MASK = (
    "values beyond the possible results: no mask at the end of a game, whose next value is that of "
    "the next game's first position, done flags of another step, or an update without its own value"
)
NO_SELF_PLAY = (
    "it does not know self-play: return None from train there, or use info['mover'] for the sign "
    "of the next value"
)
WRONG_UPDATE = "values beyond the possible results: the sign of the update, or of the advantage"
OTHER_REWARD = "reward of the other player"
POLICY_SIGN = "sign of the advantage, or an inverted ratio"
"""The error of a policy with the scores of :data:`OTHER_REWARD`, but not with its critic."""
OTHER_SIGN = "reward of the other player; of a policy, also sign of the advantage, inverted ratio"
"""Either, without values that tell them apart."""
SELF_PLAY_ROWS = {"self-play", "self-play, values", "self-play, critic"}
FLAT = (
    "values that are nearly the same in all positions: broadcasting [B, 1] with [B] in their loss? "
    "Or they are not trained"
)
SKIPPED_STEP = (
    "values in games of one move are hardly trained: the step after the end of a game is left out, "
    "as for next-step autoreset, where environments reset in the same step"
)
DEFENCE = "defence"
"""The probe in which no game is won."""
OTHER_POSITIONS = "values are of other actions, games or positions, such as by a shifted index"
NO_LOSSES = "losses do not count: rewards below 0 are clipped or left out"
NO_LAST_STEP = "the step at a truncation is left out, or taken for an end"
OTHER_VALUES = (
    "values do not converge to those of best play: another discount; the next value is a mean, or "
    "that of the action played (SARSA); it plays the actions of the smallest values while it "
    "trains; or positions share values"
)
FAMILY_NOTE = (
    "limits of right runs with the settings of examples/checks: with others leave the family out"
)
OTHER_SETTINGS = "no known error, or other settings than examples/checks: leave the family out"
NOT_CONVERGED = "values have not converged: they are better with twice the budget"

_log = logging.getLogger("ttt_envs")

Train = Callable[[MakeEnv, int, int], Any]
"""``train(make_env, steps, seed)``, which returns an agent, see :func:`check_learner`."""


class RightRuns(NamedTuple):
    """What right learners of a family reached in a probe, with its budget."""

    runs: int
    """number of runs, each with a seed of its own"""
    min_score: float
    mean_score: float
    sd_score: float
    """standard deviation"""
    max_error: float
    """of values or critic, see :class:`LearnerRun`"""
    mean_error: float
    sd_error: float
    entropies: tuple[float, float] = (nan, nan)
    """smallest and largest entropy of learned policies, in nats"""

    @property
    def score_limit(self) -> float:
        """The least score that holds."""
        return self.min_score - max(MIN_SCORE_MARGIN, self.sd_score)

    @property
    def error_limit(self) -> float:
        """The largest error that holds."""
        return self.max_error + max(MIN_ERROR_MARGIN, self.sd_error)


FAMILIES: Mapping[str, Mapping[str, RightRuns]] = {
    family: {name: RightRuns(**row) for name, row in rows.items()}
    for family, rows in read_table(__file__).items()
}
"""Right runs by family and probe, made by ``tools/learner_runs.py``."""


class LearnerRun(NamedTuple):
    """What a trained agent reached in a probe."""

    score: float = nan
    """value of its best actions, as a share of the way from random play, 0, to the best policy, 1
    """
    error: float = nan
    """of a learner with ``values``, their mean absolute error where its best actions lead; of one
    with a ``critic``, the root mean square error beside the values of its own policy, where that
    leads; NaN without both"""
    entropy: float = nan
    """mean entropy of the policy of a learner with a ``critic``, in nats; else NaN"""
    excess: float = nan
    """mean of what values or critic are beyond 1 or -1, where the same policy leads; else NaN"""
    mistake: Evidence | None = None
    """the position in which its best actions lose most"""
    misfit: float = nan
    """of values, by how much their error is smaller beside those of another discount; of a critic,
    its error as a share of that of zeros"""
    nearest: str = ""
    """the target whose values are the nearest: ``"discount 0.9"`` and such, or
    :data:`REWARD_TOO`; of values only if they are near it"""
    kind: str = ""
    """what the agent has beside scores: ``"values"``, a ``"critic"``, or ``""``"""
    lead: float = nan
    """of values or a critic, the error beside those of the nearest of :data:`DISCOUNTS`, minus that
    beside those of :data:`NEXT_GAME`; above 0 only if these are the nearest"""
    reset_lead: float = nan
    """the same of :data:`RESET_STEP`, in the positions in which games are cut"""
    spread: float = nan
    """of values or a critic, their standard deviation over positions, as a share of that of optimal
    ones"""

    @property
    def reset_error(self) -> str:
        """The error of an automatic reset whose values are the nearest; empty if others are."""
        lead, error = max((self.lead, NEXT_GAME), (self.reset_lead, RESET_STEP))
        return error if lead > MAX_LEAD else ""

    def falls(self, before: LearnerRun, number: str = "error") -> bool:
        """Return whether an error, or a misfit, is that of values which still converge, after twice
        the budget of another run.
        """
        error = getattr(before, number)
        return bool(getattr(self, number) < error - MIN_FALL * error * max(MIN_WAY, 1 - error))


NO_RUN = LearnerRun()
"""In place of a run where there is none."""


def measure_agent(probe: LearnerProbe, agent: Any, gamma: float = 1.0) -> LearnerRun:
    """Return what a trained agent reached, exactly.

    Args:
        probe: where it was trained.
        agent: as ``train`` returns it, see :func:`check_learner`.
        gamma: its discount.

    Raises:
        TypeError: it is no function.
        ValueError: its answers have another shape, or numbers of allowed actions that are not
            finite.
    """
    if not callable(agent):
        raise TypeRefusal(
            f"train returned {type(agent).__name__!r}: return a function of observations, which "
            "returns scores of actions"
        )
    exact = probe.exact
    allowed = exact.model.allowed

    def ask(function: Callable[..., Any], name: str, where: BoolArray) -> Float64Array:
        return read_numbers(function(exact.observations.copy()), where.shape, name, where)

    scores = ask(agent, "scores", allowed)
    policy = exact.greedy(scores)
    run = LearnerRun(exact.score(policy), mistake=exact.mistake(policy))
    if hasattr(agent, "critic"):
        values = ask(agent.critic, "critic", np.ones(len(allowed), np.bool_))
        own_policy = exact.softmax(scores)
        visits = exact.weights(own_policy)
        run = run._replace(kind="critic", entropy=exact.entropy(own_policy))
        run = compare(
            run, partial(exact.critic_error, own_policy, values), gamma, exact, values, visits
        )
        error_of_zeros = exact.critic_error(own_policy, 0 * values, visits, WrongTarget(gamma))
        return run._replace(misfit=run.error / error_of_zeros if error_of_zeros else nan)
    if hasattr(agent, "values"):
        values = exact.model.best(ask(agent.values, "values", allowed))
        run = run._replace(kind="values")
        run = compare(
            run, partial(exact.value_error, values), gamma, exact, values, exact.weights(policy)
        )
        is_near = run.nearest == REWARD_TOO or run.error - run.misfit < NEAR_ERROR
        return run if is_near else run._replace(nearest="")
    return run


def compare(
    run: LearnerRun,
    measure: Callable[[Float64Array, WrongTarget], float],
    gamma: float,
    exact: ExactProbe,
    values: Float64Array,
    visits: Float64Array,
) -> LearnerRun:
    """Return a run with what its values are beyond possible ones, and their errors beside those
    of discounts and of errors.

    Args:
        run: the run.
        measure: returns the error beside a target, of positions with weights, float64[S].
        gamma: the discount.
        exact: of the probe.
        values: float64[S].
        visits: float64[S], the share of each position in all visits.
    """

    def least_error(weights: Float64Array) -> tuple[float, float]:
        discounts = (*DISCOUNTS, gamma)
        return min((measure(weights, WrongTarget(other)), other) for other in discounts)

    def lead_of(error: str, weights: Float64Array) -> float:
        wrong = PREDICTED_ERRORS[error]._replace(discount=gamma)
        return least_error(weights)[0] - measure(weights, wrong)

    error = measure(visits, WrongTarget(gamma))
    least, discount = least_error(visits)
    nearest = f"discount {discount}"
    reward_error = min(
        measure(visits, WrongTarget(other, other)) for other in (*REWARD_DISCOUNTS, gamma)
    )
    if reward_error < min(least, MAX_SCALED * error):
        least = reward_error
        nearest = REWARD_TOO
    return run._replace(
        error=error,
        misfit=error - least,
        nearest=nearest,
        lead=lead_of(NEXT_GAME, visits),
        reset_lead=lead_of(RESET_STEP, exact.cut_weights),
        excess=exact.excess(values, visits),
        spread=values.std() / exact.values.std(),
    )


def name_probe(row: str) -> str:
    """Return the name of the probe of a row."""
    return row.partition(",")[0]


def _list(runs: Sequence[LearnerRun], number: str) -> str:
    """Return a number of runs in words."""
    digits = 2 if number == "score" else 3
    return ", ".join(f"{getattr(run, number):.{digits}f}" for run in runs)


def _describe(runs: Sequence[LearnerRun], *numbers: str) -> str:
    """Return numbers of runs in words, with their names."""
    return ", ".join(f"{number} {_list(runs, number)}" for number in numbers)


def check_learner(
    train: Train,
    probes: str | Sequence[str] = QUICK,
    family: str | None = None,
    seeds: int = 2,
    *,
    gamma: float | None = None,
    seed: int = 0,
    on_row: Callable[[CheckRow], None] = lambda row: None,
) -> Check:
    """Check a learner by what it reaches in probes with exact answers.

    A row fails only if the runs of all seeds fail. Seeds are tried in turn until one holds, so a
    right learner trains once in most probes.

    Args:
        train: ``train(make_env, steps, seed)``, which trains a new agent. ``make_env(n)`` returns a
            vector environment of Gymnasium, ``make_env()`` a single one; ``make_env.options`` has
            their options, ``make_env.masks`` says whether action masks are to be used, and
            ``make_env.self_play`` whether it moves for both players. ``steps`` is the budget, of
            all environments together. It returns None in a probe that it is not for, else an agent:
            ``agent(observations)`` returns scores of actions, float[S, A], of which the largest is
            played, from float32[S, 2 * cells]. Attributes are optional: ``agent.values``, which
            returns learned values of actions, float[S, A]; or of an actor-critic ``agent.critic``,
            which returns values of positions, float[S], and the scores are logits.
        probes: ``"quick"`` for all, the cheapest first, or names in
            :data:`ttt_eval.checks.probes.PROBES`.
        family: whose right runs set the limits: ``"tabular"``, ``"dqn"`` or ``"ppo"``; or None for
            another kind of learner or other settings: its limits are lower, one that does not reach
            them with the budget has twice the budget, and it fails only if it no longer learns, or
            if its values are beyond the possible results; values that still become better are
            named as not judged.
        seeds: maximum number of seeds of a probe.
        gamma: the learner's discount, with which its values or critic are compared; None for 1, and
            without a family values are judged where no discount changes them alone.
        seed: the first of them.
        on_row: is called with each row when it is known.

    Returns:
        A row for each probe, and one for its values or critic. Evidence is the position in which
        the agent loses most; causes are signatures of errors, and errors with the nearest exact
        results.

    Raises:
        TypeError: ``train`` is no function, or returns none.
        ValueError: an argument is unknown or out of range, or an agent's answers have another
            shape.
    """
    check_function(train)
    check_choice("family", family, (*FAMILIES, None))
    check_range("seeds", seeds, 1)
    check_range("gamma", gamma, 0, 1)
    check_range("seed", seed, 0)
    names = [probes] if isinstance(probes, str) else probes
    if probes == QUICK:
        names = sorted(PROBES, key=lambda name: PROBES[name].steps)
    limits = partial(open_limits, gamma is not None)
    discount = 1.0 if gamma is None else gamma
    checker = LearnerCheck(train, limits, CURVES, range(seed, seed + seeds), on_row, discount)
    if family is not None:
        checker.limits = partial(family_limits, FAMILIES[family])
        checker.curves = ()
        checker.add(CheckRow("family", FAMILY_NOTE, "remark"))
    for name in names:
        checker.check_probe(find_named("probe", name, PROBES))
    causes = [checker.describe(cause) for cause in checker.causes()[:MAX_CAUSES]]
    if causes and len(checker.best_runs) == 1:
        causes = [f"consistent with {'; or '.join(causes)}. All probes together can tell"]
    statuses = {row.name: row.status for row in checker.rows}
    judged = [name for name, status in statuses.items() if status in ("holds", "fails")]
    unjudged = [name for name, status in statuses.items() if status == "no evidence"]
    undecided = [name for name in unjudged if name in checker.best_runs]
    if not any("," in name for name in judged):
        unjudged.append("values or a critic")
    if any(run.kind == "critic" for run in checker.best_runs.values()):
        unjudged.append("a clip and an entropy bonus (check_loss)")
    unseen = [error for error in checker.unseen if error != f"discount {discount:g}"]
    text = f"no score of these probes shows: {', '.join(unseen)}"
    checker.add(CheckRow("unseen", text, "remark"))
    if family is not None and judged:
        if "fails" in statuses.values() and set(causes) <= {NOT_CONVERGED}:
            causes.insert(0, OTHER_SETTINGS)
        odds = comb(min(right.runs for right in FAMILIES[family].values()) + seeds, seeds)
        text = (
            f"a row fails only if all {seeds} seeds do; of a right learner with the settings "
            f"of examples/checks in at most 1 of {odds:,} cases, and one of these {len(judged)} "
            f"rows in at most 1 of {odds // len(judged):,} checks"
        )
        checker.add(CheckRow("false alarms", text, "remark"))
    return Check("a learner", checker.rows, causes, right=no_error(unjudged), undecided=undecided)


class ProbeLimits(NamedTuple):
    """Limits in a probe."""

    score: float
    """the least that holds"""
    number: str = "excess"
    """of a run with values or a critic, which is judged: ``"error"``, ``"misfit"`` or
    ``"excess"``"""
    largest: float = MAX_EXCESS
    """the largest that holds"""

    def hold(self, run: LearnerRun) -> bool:
        """Return whether they hold in a run."""
        fits = not getattr(run, self.number) > self.largest
        return fits and run.score >= self.score and not run.reset_error


Number = tuple[str, float]
"""The number of a run that is judged, and the largest that holds."""
POSSIBLE: Number = ("excess", MAX_EXCESS)
"""That of values which need only be possible."""
OPEN_LIMITS: Mapping[tuple[str, str], Number] = {
    ("values", ONE_STEP): ("error", MAX_ONE_STEP_ERROR),
    ("critic", CREDIT): ("misfit", MAX_CRITIC_MISFIT),
    ("critic", TRUNCATION): ("misfit", MAX_CRITIC_MISFIT),
}
"""Limits without a family, by what a learner has and by the probe: where no discount changes
values, and for critics where values are far from 0.
"""
DISCOUNT_LIMITS: Mapping[tuple[str, str], Number] = {
    ("values", CREDIT): ("misfit", MAX_VALUE_MISFIT),
    ("values", TRUNCATION): ("misfit", MAX_CUT_MISFIT),
}
"""More of them, where the discount of values must be known."""
Limits = Callable[[LearnerProbe, str], ProbeLimits]
"""Returns the limits in a probe of an agent with ``"values"``, a ``"critic"`` or ``""``."""


def family_limits(rows: Mapping[str, RightRuns], probe: LearnerProbe, kind: str) -> ProbeLimits:
    """Return the limits of a family by its right runs."""
    return ProbeLimits(rows[probe.name].score_limit, "error", rows[probe.name].error_limit)


def open_limits(knows_discount: bool, probe: LearnerProbe, kind: str) -> ProbeLimits:
    """Return the limits of learners without a family.

    The score must reach the lowest limit of a family, or half of the way from the nearest error
    that the probe shows to the best policy. Values and critics must be possible; values right where
    no discount changes them, and in ``credit`` if it is known; critics near those of their policy
    in some probes.
    """
    scores = [probe.power(error).score for error in PREDICTED_ERRORS]
    nearest = max(score for score in scores if score < MAX_SHOWN_SCORE)
    lowest = min(family[probe.name].score_limit for family in FAMILIES.values())
    score = min(lowest, (1 + nearest) / 2)
    limits = {**OPEN_LIMITS, **(DISCOUNT_LIMITS if knows_discount else {})}
    return ProbeLimits(score, *limits.get((kind, probe.name), POSSIBLE))


@dataclass
class LearnerCheck:
    """The rows of a check of a learner."""

    train: Train
    """as of :func:`check_learner`"""
    limits: Limits
    """of each probe"""
    curves: Collection[str]
    """numbers of runs, of :data:`CURVES`, that may be beyond their limits while they become better
    with a larger budget; if there are any, a learner beyond a limit has twice the budget"""
    seeds: range
    """of runs"""
    on_row: Callable[[CheckRow], None] = lambda row: None
    """as of :func:`check_learner`"""
    gamma: float = 1.0
    """the learner's discount"""
    rows: list[CheckRow] = field(default_factory=list)
    runs: dict[tuple[str, int, int], LearnerRun | None] = field(default_factory=dict)
    """by probe, steps and seed"""
    best_runs: dict[str, LearnerRun] = field(default_factory=dict)
    """of the probes with runs, the one with the largest score"""
    unseen: Sequence[str] = tuple(PREDICTED_ERRORS)
    """predicted errors that no score of the probes shows"""
    training_s: float = 0.0
    """wall time of the last training"""

    def add(self, row: CheckRow) -> None:
        """Add a row."""
        self.rows.append(row)
        self.on_row(row)

    def run(self, probe: LearnerProbe, steps: int, seed: int) -> LearnerRun | None:
        """Train and measure; None if the learner is not for the probe."""
        job = probe.name, steps, seed
        if job not in self.runs:
            if self.training_s > QUIET_S:
                _log.warning("training in %s: %s steps, seed %s", probe.name, f"{steps:,}", seed)
            begin = time.monotonic()
            with kept_generators():
                seed_generators(seed)
                agent = self.train(probe.make_env, steps, seed)
                self.runs[job] = None if agent is None else measure_agent(probe, agent, self.gamma)
            self.training_s = time.monotonic() - begin
        return self.runs[job]

    def is_flat(self, probe: LearnerProbe, run: LearnerRun) -> bool:
        """Return whether the values of a run are the same everywhere, and have not begun to differ
        since a quarter of the budget.
        """
        if not run.spread < MIN_SPREAD:
            return False
        quarter = self.run(probe, probe.steps // 4, self.seeds[0]) or NO_RUN
        return run.spread <= 2 * quarter.spread

    def check_probe(self, probe: LearnerProbe) -> None:
        """Add the rows of a probe."""
        runs: list[LearnerRun] = []
        steps = probe.steps
        for seed in self.seeds:
            run = self.run(probe, steps, seed)
            if run is None:
                text = "train returned None: it is not for this probe"
                self.add(CheckRow(probe.name, text, "no evidence"))
                return
            limits = self.limits(probe, run.kind)
            is_slow = self.curves and not limits.hold(run)
            if is_slow and not self.is_flat(probe, run):
                steps = 2 * probe.steps
                run = self.run(probe, steps, seed) or run
            runs.append(run)
            if limits.hold(run):
                break
        best = max(runs, key=lambda run: run.score)
        self.best_runs[probe.name] = best
        self.unseen = [error for error in self.unseen if probe.power(error).score >= limits.score]
        text = f"{_describe(runs, 'score')} with {steps:,} steps"
        self.judge(probe, "", text, runs, "score", limits.score)
        if not best.kind:
            return
        text = f"{_describe(runs, 'error', 'misfit')}, beyond 1 or -1 by {_list(runs, 'excess')}"
        self.judge(probe, best.kind, text, runs, limits.number, limits.largest)
        if self.curves and probe.name == TRUNCATION:
            for name, number in {"next game": "lead", "reset step": "reset_lead"}.items():
                text = NEARER.format(_list(runs, number))
                self.judge(probe, name, text, runs, number, MAX_LEAD)
        if best.kind == "critic":
            low, high = FAMILIES["ppo"][probe.name].entropies
            text = f"{best.entropy:.2f} nats; right PPO {low:.2f} to {high:.2f}"
            self.add(CheckRow(f"{probe.name}, entropy", text, "remark"))
        elif best.nearest == REWARD_TOO and probe.name == ONE_STEP and self.curves:
            # values that still rise to the right ones pass smaller ones
            misfit = nan if self.improves(ONE_STEP) else best.misfit
            text = NEARER.format(_list([best], "misfit"))
            self.add(judge(REWARD_ROW, text, misfit, MAX_VALUE_MISFIT))

    def judge(
        self,
        probe: LearnerProbe,
        name: str,
        text: str,
        runs: Sequence[LearnerRun],
        number: str,
        limit: float,
    ) -> None:
        """Add a row about a number of runs; of some by the curve of the last seed too."""
        best = max(runs, key=lambda run: run.score)
        numbers = [getattr(run, number) for run in runs]
        minimum = number == "score"
        row = judge(
            ", ".join(filter(None, [probe.name, name])),
            text,
            max(numbers) if minimum else min(numbers),
            limit,
            [best.mistake] if minimum and best.mistake else [],
            minimum=minimum,
            rule=f"{number} at {'least' if minimum else 'most'} {limit:.3g}",
        )
        if row.status == "fails" and number in self.curves and not self.is_flat(probe, runs[-1]):
            row = self.judge_curve(probe, row, number, limit)
        if number == "excess" and row.status == "holds":
            row = CheckRow(row.name, text, "remark")  # possible values may be wrong
        self.add(row)

    def judge_curve(
        self, probe: LearnerProbe, row: CheckRow, number: str, limit: float
    ) -> CheckRow:
        """Return the row of a learner beyond its limit, by the curve of the last seed."""
        parts = CURVES[number]
        curve = [self.run(probe, int(part * probe.steps), self.seeds[-1]) for part in parts]
        runs = [run for run in curve if run is not None]
        budgets = ", ".join(map(str, parts))
        text = f"{_describe(runs, number)} with {budgets} times {probe.steps:,} steps"
        learns = getattr(runs[-1], number) <= limit or all(
            after.falls(before, number) for before, after in pairwise(runs)
        )
        if number == "score":
            learns = runs[-1].score - runs[1].score > MIN_RISE
        if learns:
            return CheckRow(row.name, f"{text}: {BETTER}", "no evidence")
        return row._replace(measured=f"{text}: it no longer learns")

    def causes(self) -> list[str]:
        """Return the errors that explain the failed rows, the likeliest first."""
        failed = [row.name for row in self.rows if row.status == "fails"]
        if not failed:
            return []
        places = {name_probe(name) for name in failed}
        runs = defaultdict(LearnerRun, self.best_runs)
        of_values = runs.keys().isdisjoint(failed)
        improves = of_values and self.improves(failed[0])
        wrong_values: Mapping[str, str] = {} if improves or not of_values else NEAREST_PROBES
        targets = [runs[probe].nearest for row, probe in wrong_values.items() if row in failed][:1]
        grows = any(run.excess > MAX_EXCESS for run in self.best_runs.values())
        signatures = {
            NO_MASK: grows and not runs[ONE_STEP].score < 0,
            WRONG_UPDATE: grows and not runs[ONE_STEP].score >= 0,
            FLAT: all(0 < run.spread < MIN_SPREAD for run in self.best_runs.values()),
            NO_SELF_PLAY: SELF_PLAY_ROWS.issuperset(failed) and len(self.best_runs) > 1,
            NOT_CONVERGED: improves and not self.find_reset_error(),
            **{error: self.explains(error) for error in PREDICTED_ERRORS},
            SKIPPED_STEP: ONE_STEP not in failed and {f"{ONE_STEP}, values", CREDIT} <= {*failed},
            **dict.fromkeys(filter(None, targets), True),
        }
        critics = [name_probe(name) for name in failed if name.endswith("critic")]
        critic_errors = [CRITIC_ERRORS.get(runs[name].nearest) for name in critics[:1]]
        # what fits if nothing else does, from the most specific to the least
        others = {
            OTHER_VALUES: bool(targets),
            **dict.fromkeys(filter(None, critic_errors), True),
        }
        alone = {
            OTHER_POSITIONS: places == {ONE_STEP},
            NO_LOSSES: places == {DEFENCE} and runs[DEFENCE].spread == 0,
            NO_LAST_STEP: places == {TRUNCATION},
        }
        return (
            list_fitting(signatures)
            or list_fitting(others)
            or list_fitting(alone if self.curves else {})
        )

    def improves(self, failed: str) -> bool:
        """Return whether the values of a failed row are better with twice the budget."""
        name = name_probe(failed)
        return self.double(name).falls(self.best_runs[name])

    def double(self, name: str) -> LearnerRun:
        """Return the run in a probe with the first seed and twice the budget."""
        return self.run(PROBES[name], 2 * PROBES[name].steps, self.seeds[0]) or NO_RUN

    def find_reset_error(self) -> str:
        """Return the error of an automatic reset whose values are the nearest, also with twice the
        budget; empty if others are nearer, without values, or if probes without it fail.
        """
        error = self.best_runs.get(TRUNCATION, NO_RUN).reset_error
        failed = {name_probe(row.name) for row in self.rows if row.status == "fails"}
        if not error or failed & {ONE_STEP, CREDIT}:
            return ""
        return self.double(TRUNCATION).reset_error

    def describe(self, error: str) -> str:
        """Return a cause; in place of the reward, a sign of the policy if the critic is right, and
        both if there are no values to tell them apart.
        """
        kinds = {run.kind for run in self.best_runs.values()}
        if error != OTHER_REWARD or "values" in kinds:
            return error
        if any(run.misfit <= MAX_CRITIC_MISFIT for run in self.best_runs.values()):
            return POLICY_SIGN
        return error if "critic" in kinds else OTHER_SIGN

    def explains(self, error: str) -> bool:
        """Return whether an error, and no right learner, has scores like these."""
        wrong = PREDICTED_ERRORS[error]
        reset_error = self.find_reset_error()
        if wrong.at_cuts and reset_error:
            return error == reset_error
        if self.best_runs.get(TRUNCATION, NO_RUN).kind and wrong.follows:
            return False
        scores = [
            (self.best_runs[name].score, PROBES[name].power(error).score)
            for name in SURE_PROBES
            if name in self.best_runs
        ]
        is_near = all(abs(score - wrong) <= NEAR_SCORE for score, wrong in scores)
        return is_near and any(wrong < MAX_SHOWN_SCORE for _, wrong in scores)
