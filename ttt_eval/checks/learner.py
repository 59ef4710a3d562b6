"""Does a learner learn? Training in probes, whose exact answers say what it must reach."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import comb, inf, isnan, nan
from typing import Any, NamedTuple

import numpy as np

from ttt_envs.core.checks import (
    TypeRefusal,
    check_choice,
    check_range,
    find_named,
)
from ttt_envs.core.files import read_table
from ttt_envs.core.jit import Float64Array
from ttt_envs.core.random import kept_generators, seed_generators
from ttt_eval.checks.calls import read_numbers
from ttt_eval.checks.check import Check, CheckRow, Evidence, judge
from ttt_eval.checks.probes import ERRORS, PROBES, LearnerProbe, MakeEnv, Power

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
"""Rise of the score from half the budget to twice the budget by which a learner still learns."""
MAX_DISTANCE = 0.25
"""Maximum root mean square difference from the results of an error that is suspected."""
MAX_SUSPECTS = 3

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
    mistake: Evidence | None
    """the position in which its best actions lose most"""


def measure_agent(probe: LearnerProbe, agent: Any) -> LearnerRun:
    """Return what a trained agent reached, exactly.

    Args:
        probe: where it was trained.
        agent: as ``train`` returns it, see :func:`check_learner`.

    Raises:
        TypeError: it is no function.
        ValueError: its answers have another shape, or numbers that are not finite.
    """
    if not callable(agent):
        raise TypeRefusal(
            f"train returned {type(agent).__name__!r}: return a function of observations, which "
            "returns scores of actions"
        )
    exact = probe.exact
    shape = exact.model.allowed.shape

    def ask(function: Callable[..., Any], name: str, shape: tuple[int, ...]) -> Float64Array:
        return read_numbers(function(exact.observations.copy()), shape, name)

    scores = ask(agent, "scores", shape)
    policy = exact.greedy(scores)
    error = nan
    entropy = nan
    if hasattr(agent, "critic"):
        values = ask(agent.critic, "critic", shape[:1])
        own_policy = exact.softmax(scores)
        error = exact.critic_error(own_policy, values)
        entropy = exact.entropy(own_policy)
    elif hasattr(agent, "values"):
        values = ask(agent.values, "values", shape)
        error = exact.value_error(policy, exact.model.best(values))
    return LearnerRun(exact.score(policy), error, entropy, exact.mistake(policy))


def join_numbers(numbers: Iterable[float], digits: int = 2) -> str:
    """Return numbers as text."""
    return ", ".join(f"{number:.{digits}f}" for number in numbers)


def check_learner(
    train: Train,
    probes: str | Sequence[str] = QUICK,
    family: str | None = None,
    seeds: int = 2,
    *,
    seed: int = 0,
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
        probes: ``"quick"`` for all, or names in :data:`ttt_eval.checks.probes.PROBES`.
        family: whose right runs set the limits: ``"tabular"``, ``"dqn"`` or ``"ppo"``; or None for
            another kind of learner or other settings: its limits are lower, one that does not reach
            them with the budget has twice the budget, and it fails only if it no longer learns.
        seeds: maximum number of seeds of a probe.
        seed: the first of them.

    Returns:
        A row for each probe, and one for its values or critic. Evidence is the position in which
        the agent loses most; causes are errors with the nearest exact results.

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
        names = list(PROBES)
    checker = _LearnerCheck(train, FAMILIES.get(family or "", {}), range(seed, seed + seeds))
    chosen = [find_named("probe", name, PROBES) for name in names]
    check = Check("a learner", [row for probe in chosen for row in checker.check_probe(probe)])
    return replace(check, causes=checker.suspects()) if check.failed else check


class ProbeLimits(NamedTuple):
    """Limits in a probe."""

    score: float
    """the least that holds"""
    error: float
    """the largest that holds"""


@dataclass
class _LearnerCheck:
    """The rows of a check of a learner."""

    train: Train
    right: Mapping[str, RightRuns]
    """right runs of the family by probe; none without one"""
    seeds: range
    best_runs: dict[str, LearnerRun] = field(default_factory=dict)
    """of the probes with runs, the one with the largest score"""

    def run(self, probe: LearnerProbe, steps: int, seed: int) -> LearnerRun | None:
        """Train and measure; None if the learner is not for the probe."""
        with kept_generators():
            seed_generators(seed)
            agent = self.train(probe.make_env, steps, seed)
            return None if agent is None else measure_agent(probe, agent)

    def check_probe(self, probe: LearnerProbe) -> Iterator[CheckRow]:
        """Yield the rows of a probe."""
        runs: list[LearnerRun] = []
        limits = self.limits(probe)
        steps = probe.steps
        for seed in self.seeds:
            run = self.run(probe, steps, seed)
            if run is None:
                yield CheckRow(
                    probe.name, "train returned None: it is not for this probe", "no evidence"
                )
                return
            is_slow = not self.right and run.score < limits.score
            if is_slow and steps == probe.steps:  # slow is not wrong
                steps = 2 * probe.steps
                run = self.run(probe, steps, seed) or run
            runs.append(run)
            if run.score >= limits.score and not run.error > limits.error:
                break
        self.best_runs[probe.name] = max(runs, key=lambda run: run.score)
        yield self.judge_score(probe, steps, runs, limits.score)
        yield from self.judge_error(probe, runs, limits.error)

    def limits(self, probe: LearnerProbe) -> ProbeLimits:
        """Return the limits of the family.

        Without one, the score must reach the lowest limit of a family, or half of the way from the
        nearest error that the probe shows to the best policy.
        """
        if self.right:
            right = self.right[probe.name]
            return ProbeLimits(right.score_limit, right.error_limit)
        scores = [probe.power(error).score for error in ERRORS]
        nearest = max(score for score in scores if score < MAX_SHOWN_SCORE)
        lowest = min(family[probe.name].score_limit for family in FAMILIES.values())
        return ProbeLimits(min(lowest, (1 + nearest) / 2), inf)

    def judge_score(
        self, probe: LearnerProbe, steps: int, runs: Sequence[LearnerRun], limit: float
    ) -> CheckRow:
        """Return the row about scores."""
        best = self.best_runs[probe.name]
        text = f"score {join_numbers(run.score for run in runs)} with {steps:,} steps"
        row = judge(
            probe.name, text, best.score, limit, [best.mistake] if best.mistake else [],
            minimum=True, rule=f"at least {limit:.2f} with {self.count_seeds(probe)}",
        )  # fmt: skip
        if row.status == "fails" and not self.right:
            return self.judge_curve(probe, row, runs[-1].score)
        return row

    def judge_curve(self, probe: LearnerProbe, row: CheckRow, last_score: float) -> CheckRow:
        """Return the row of a learner below its limit, by the curve of the last seed."""
        runs = [
            self.run(probe, int(part * probe.steps), self.seeds[-1]) for part in (1 / 4, 1 / 2, 1)
        ]
        scores = [*(run.score for run in runs if run), last_score]
        text = f"score {join_numbers(scores)} with 1/4, 1/2, 1, 2 times {probe.steps:,} steps"
        if last_score - scores[1] > MIN_RISE:
            return CheckRow(probe.name, f"{text}: it still learns, give it more", "no evidence")
        return row._replace(measured=f"{text}: it no longer learns")

    def judge_error(
        self, probe: LearnerProbe, runs: Sequence[LearnerRun], limit: float
    ) -> Iterator[CheckRow]:
        """Yield the rows about values or the critic, and about the entropy."""
        best = self.best_runs[probe.name]
        if isnan(best.error):
            return
        kind = "values" if isnan(best.entropy) else "critic"
        name = f"{probe.name}, {kind}"
        errors = [run.error for run in runs]
        text = f"error {join_numbers(errors, 3)}"
        row = CheckRow(name, text, "remark")
        if self.right:
            row = judge(
                name, text, min(errors), limit,
                rule=f"at most {limit:.3f} with {self.count_seeds(probe)}",
            )  # fmt: skip
        yield row
        if kind == "critic":
            low, high = FAMILIES["ppo"][probe.name].entropies
            text = f"{best.entropy:.2f} nats; right PPO {low:.2f} to {high:.2f}"
            yield CheckRow(f"{probe.name}, entropy", text, "remark")

    def count_seeds(self, probe: LearnerProbe) -> str:
        """Return the number of seeds in words, with the chance that a right learner fails."""
        count = len(self.seeds)
        text = f"one of {count} seeds"
        if self.right:
            odds = comb(self.right[probe.name].runs + count, count)
            text += f"; a right learner fails in less than 1 of {odds:,}"
        return text

    def suspects(self) -> list[str]:
        """Return the errors whose exact results are nearest to those of the learner, at a smaller
        root mean square difference than those without an error.
        """
        results = np.array(
            [
                (run.score, run.error if isnan(run.entropy) else nan)
                for run in self.best_runs.values()
            ]
        )

        def distance(exact: Any) -> float:
            return float(np.sqrt(np.nanmean((results - exact) ** 2)))

        distances = {
            error: distance([PROBES[name].power(error) for name in self.best_runs])
            for error in ERRORS
        }
        limit = min(MAX_DISTANCE, distance(Power(1.0, 0.0)))
        names = sorted(distances, key=distances.__getitem__)
        return [error for error in names if distances[error] < limit][:MAX_SUSPECTS]
