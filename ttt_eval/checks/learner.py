"""Does a learner learn? Training in probes, whose exact answers say what it must reach."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from fractions import Fraction
from functools import partial
from itertools import pairwise
from math import comb, isnan, nan
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
from ttt_eval.checks.calls import read_numbers
from ttt_eval.checks.check import Check, CheckRow, Evidence, judge
from ttt_eval.checks.probes import PREDICTED_ERRORS, PROBES, LearnerProbe, MakeEnv

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
CURVES = {"score": (Fraction(1, 4), Fraction(1, 2), 1, 2), "error": (1, 2, 4)}
"""Budgets by which it is seen, in units of the probe's."""
ONE_STEP = "bandit"
"""The probe in which no discount changes the values of best play."""
MAX_ONE_STEP_ERROR = 0.1
"""Largest error of values there that holds without a family: twice that of right runs."""
MAX_EXCESS = 0.25
"""Maximum mean of what learned values are beyond 1 and -1, the largest results. Right tabular
learners have 0; the largest of right DQN and PPO is 0.10, with learning rates from 3e-4 to 3e-2,
targets copied after 1 to 100 updates, and a quarter of the budget to twice the budget.
"""
SURE_PROBES = ("bandit", "credit", "defence", "truncation")
"""Probes in which errors have sure scores, because nothing there is by chance."""
NEAR_SCORE = 0.04
"""Scores there within this distance are those of an error."""
CREDIT = "credit"
"""The probe in which values are sure too, and other next values have others."""
NEAR_ERROR = 0.002
"""Errors of values within this distance are those of an error."""
MAX_CAUSES = 3
NO_MASK = (
    "values beyond the possible results: no mask at the end of a game, whose next value is that of "
    "the next game's first position, or done flags of another step"
)
NO_SELF_PLAY = (
    "it does not know self-play: return None from train there, or use info['mover'] for the sign "
    "of the next value"
)
SELF_PLAY_ROWS = {"self-play", "self-play, values", "self-play, critic"}
OTHER_VALUES = (
    "values do not converge to those of best play: another discount; the next value is a mean, or "
    "that of the action played (SARSA); or positions share values"
)
OTHER_SETTINGS = "no known error, or other settings than examples/checks: leave the family out"
NOT_CONVERGED = "values have not converged: they are better with twice the budget"

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

    score: float
    """value of its best actions, as a share of the way from random play, 0, to the best policy, 1
    """
    error: float
    """of a learner with ``values``, their mean absolute error where its best actions lead; of one
    with a ``critic``, the root mean square error beside the values of its own policy, where that
    leads; NaN without both"""
    entropy: float
    """mean entropy of the policy of a learner with a ``critic``, in nats; else NaN"""
    excess: float
    """mean of what values or critic are beyond 1 or -1, where the same policy leads; else NaN"""
    mistake: Evidence | None
    """the position in which its best actions lose most"""

    @property
    def kind(self) -> str:
        """What the agent has beside scores: ``"values"``, a ``"critic"``, or ``""``."""
        if isnan(self.error):
            return ""
        return "values" if isnan(self.entropy) else "critic"

    def falls(self, before: LearnerRun) -> bool:
        """Return whether the error is that of values which still converge, after twice the budget
        of another run.
        """
        way = before.error * max(0, 1 - before.error)
        return self.error < before.error - MIN_FALL * way


def measure_agent(probe: LearnerProbe, agent: Any) -> LearnerRun:
    """Return what a trained agent reached, exactly.

    Args:
        probe: where it was trained.
        agent: as ``train`` returns it, see :func:`check_learner`.

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
    error = nan
    entropy = nan
    excess = nan
    if hasattr(agent, "critic"):
        values = ask(agent.critic, "critic", np.ones(len(allowed), np.bool_))
        own_policy = exact.softmax(scores)
        error = exact.critic_error(own_policy, values)
        entropy = exact.entropy(own_policy)
        excess = exact.excess(own_policy, values)
    elif hasattr(agent, "values"):
        values = exact.model.best(ask(agent.values, "values", allowed))
        error = exact.value_error(policy, values)
        excess = exact.excess(policy, values)
    return LearnerRun(exact.score(policy), error, entropy, excess, exact.mistake(policy))


def _list(runs: Sequence[LearnerRun], number: str) -> str:
    """Return a number of runs in words."""
    digits = 2 if number == "score" else 3
    return ", ".join(f"{getattr(run, number):.{digits}f}" for run in runs)


def check_learner(
    train: Train,
    probes: str | Sequence[str] = QUICK,
    family: str | None = None,
    seeds: int = 2,
    *,
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
            if its values are beyond the possible results.
        seeds: maximum number of seeds of a probe.
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
    if not callable(train):
        raise TypeRefusal(f"{train!r} is no function: give train(make_env, steps, seed)")
    check_choice("family", family, (*FAMILIES, None))
    check_range("seeds", seeds, 1)
    check_range("seed", seed, 0)
    names = [probes] if isinstance(probes, str) else probes
    if probes == QUICK:
        names = sorted(PROBES, key=lambda name: PROBES[name].steps)
    limits = open_limits
    curves = set(CURVES)
    if family is not None:
        limits = partial(family_limits, FAMILIES[family])
        curves = set()
    checker = LearnerCheck(train, limits, curves, range(seed, seed + seeds), on_row)
    for name in names:
        checker.check_probe(find_named("probe", name, PROBES))
    causes = checker.causes()
    statuses = [row.status for row in checker.rows]
    num_judged = statuses.count("holds") + statuses.count("fails")
    if family is not None and not causes and "fails" in statuses:
        causes = [OTHER_SETTINGS]
    if family is not None and num_judged:
        odds = comb(min(right.runs for right in FAMILIES[family].values()) + seeds, seeds)
        text = (
            f"a row fails only if all {seeds} seeds do; of a right learner with the settings "
            f"of examples/checks in at most 1 of {odds:,} cases, and one of these {num_judged} "
            f"rows in at most 1 of {odds // num_judged:,} checks"
        )
        checker.add(CheckRow("false alarms", text, "remark"))
    return Check("a learner", checker.rows, causes[:MAX_CAUSES])


class ProbeLimits(NamedTuple):
    """Limits in a probe."""

    score: float
    """the least that holds"""
    number: str
    """of a run with values or a critic, which is judged: ``"error"`` or ``"excess"``"""
    largest: float
    """the largest that holds"""

    def hold(self, run: LearnerRun) -> bool:
        """Return whether they hold in a run."""
        return run.score >= self.score and not getattr(run, self.number) > self.largest


Limits = Callable[[LearnerProbe, str], ProbeLimits]
"""Returns the limits in a probe of an agent with ``"values"``, a ``"critic"`` or ``""``."""


def family_limits(rows: Mapping[str, RightRuns], probe: LearnerProbe, kind: str) -> ProbeLimits:
    """Return the limits of a family by its right runs."""
    return ProbeLimits(rows[probe.name].score_limit, "error", rows[probe.name].error_limit)


def open_limits(probe: LearnerProbe, kind: str) -> ProbeLimits:
    """Return the limits of learners without a family.

    The score must reach the lowest limit of a family, or half of the way from the nearest error
    that the probe shows to the best policy. Values must be possible, and right where no discount
    changes them.
    """
    scores = [probe.power(error).score for error in PREDICTED_ERRORS]
    nearest = max(score for score in scores if score < MAX_SHOWN_SCORE)
    lowest = min(family[probe.name].score_limit for family in FAMILIES.values())
    score = min(lowest, (1 + nearest) / 2)
    if probe.name == ONE_STEP and kind == "values":
        return ProbeLimits(score, "error", MAX_ONE_STEP_ERROR)
    return ProbeLimits(score, "excess", MAX_EXCESS)


class LearnerCheck:
    """The rows of a check of a learner.

    Args:
        train, on_row: as of :func:`check_learner`.
        limits: of each probe.
        curves: numbers of runs, ``"score"`` or ``"error"``, that may be beyond their limits while
            they become better with a larger budget; if there are any, a learner beyond a limit has
            twice the budget.
        seeds: of runs.
    """

    def __init__(
        self,
        train: Train,
        limits: Limits,
        curves: Collection[str],
        seeds: range,
        on_row: Callable[[CheckRow], None] = lambda row: None,
    ) -> None:
        self.train = train
        self.limits = limits
        self.curves = curves
        self.seeds = seeds
        self.on_row = on_row
        self.rows: list[CheckRow] = []
        self.runs: dict[tuple[str, int, int], LearnerRun | None] = {}
        """by probe, steps and seed"""
        self.best_runs: dict[str, LearnerRun] = {}
        """of the probes with runs, the one with the largest score"""

    def add(self, row: CheckRow) -> None:
        """Add a row."""
        self.rows.append(row)
        self.on_row(row)

    def run(self, probe: LearnerProbe, steps: int, seed: int) -> LearnerRun | None:
        """Train and measure; None if the learner is not for the probe."""
        job = probe.name, steps, seed
        if job not in self.runs:
            with kept_generators():
                seed_generators(seed)
                agent = self.train(probe.make_env, steps, seed)
                self.runs[job] = None if agent is None else measure_agent(probe, agent)
        return self.runs[job]

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
            is_first = steps == probe.steps
            if self.curves and is_first and not limits.hold(run):  # slow is not wrong
                steps = 2 * probe.steps
                run = self.run(probe, steps, seed) or run
            runs.append(run)
            if limits.hold(run):
                break
        best = max(runs, key=lambda run: run.score)
        self.best_runs[probe.name] = best
        evidence = [] if best.mistake is None else [best.mistake]
        text = f"score {_list(runs, 'score')} with {steps:,} steps"
        self.judge(probe, probe.name, text, runs, "score", limits.score, evidence)
        if best.kind:
            text = f"error {_list(runs, 'error')}, beyond 1 or -1 by {_list(runs, 'excess')}"
            name = f"{probe.name}, {best.kind}"
            self.judge(probe, name, text, runs, limits.number, limits.largest)
        if best.kind == "critic":
            low, high = FAMILIES["ppo"][probe.name].entropies
            text = f"{best.entropy:.2f} nats; right PPO {low:.2f} to {high:.2f}"
            self.add(CheckRow(f"{probe.name}, entropy", text, "remark"))

    def judge(
        self,
        probe: LearnerProbe,
        name: str,
        text: str,
        runs: Sequence[LearnerRun],
        number: str,
        limit: float,
        evidence: Sequence[Evidence] = (),
    ) -> None:
        """Add a row about a number of runs; of some by the curve of the last seed too."""
        minimum = number == "score"
        numbers = [getattr(run, number) for run in runs]
        best = max(numbers) if minimum else min(numbers)
        rule = f"{number} at {'least' if minimum else 'most'} {limit:.3g}"
        row = judge(name, text, best, limit, evidence, minimum=minimum, rule=rule)
        if row.status == "fails" and number in self.curves:
            row = self.judge_curve(probe, row, number)
        if number == "excess" and row.status == "holds":
            row = CheckRow(name, text, "remark")  # possible values may be wrong
        self.add(row)

    def judge_curve(self, probe: LearnerProbe, row: CheckRow, number: str) -> CheckRow:
        """Return the row of a learner beyond its limit, by the curve of the last seed."""
        parts = CURVES[number]
        curve = [self.run(probe, int(part * probe.steps), self.seeds[-1]) for part in parts]
        runs = [run for run in curve if run is not None]
        budgets = f"{', '.join(map(str, parts))} times {probe.steps:,} steps"
        text = f"{number} {_list(runs, number)} with {budgets}"
        learns = {
            "score": runs[-1].score - runs[1].score > MIN_RISE,
            "error": all(after.falls(before) for before, after in pairwise(runs)),
        }
        if learns[number]:
            return CheckRow(row.name, f"{text}: it still learns, give it more", "no evidence")
        return row._replace(measured=f"{text}: it no longer learns")

    def causes(self) -> list[str]:
        """Return the errors that explain the failed rows, the likeliest first."""
        failed = {row.name for row in self.rows if row.status == "fails"}
        if not failed:
            return []
        of_values = failed.isdisjoint(self.best_runs)
        improves = of_values and self.improves()
        has_wrong_values = of_values and f"{CREDIT}, values" in failed and not improves
        signatures = {
            NO_MASK: any(run.excess > MAX_EXCESS for run in self.best_runs.values()),
            NO_SELF_PLAY: failed <= SELF_PLAY_ROWS and len(self.best_runs) > 1,
            NOT_CONVERGED: improves,
            **{error: self.explains(error, has_wrong_values) for error in PREDICTED_ERRORS},
        }
        causes = [cause for cause, fits in signatures.items() if fits]
        if has_wrong_values and not causes:
            return [OTHER_VALUES]
        return causes

    def improves(self) -> bool:
        """Return whether the values of the first failed row are better with twice the budget."""
        failed = next(row for row in self.rows if row.status == "fails")
        probe = PROBES[failed.name.partition(",")[0]]
        run = self.run(probe, 2 * probe.steps, self.seeds[0])
        return run is not None and run.falls(self.best_runs[probe.name])

    def explains(self, error: str, has_wrong_values: bool) -> bool:
        """Return whether an error, and no right learner, has scores like these; or, with right
        scores and wrong values, values like these.
        """
        powers = {name: PROBES[name].power(error) for name in SURE_PROBES if name in self.best_runs}
        scores = {name: self.best_runs[name].score for name in powers}
        if any(abs(scores[name] - powers[name].score) > NEAR_SCORE for name in powers):
            return False
        if any(power.score < MAX_SHOWN_SCORE for power in powers.values()):
            return True
        return has_wrong_values and (
            abs(self.best_runs[CREDIT].error - powers[CREDIT].value_error) < NEAR_ERROR
        )
