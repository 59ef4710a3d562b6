"""What win rates say of a policy, beside its exact score: wrong comparisons."""

from __future__ import annotations

import hashlib
import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from studies.frame import (
    Panel,
    ResultRow,
    Results,
    Series,
    Study,
    StudyReport,
    judge_claims,
    read_data,
)
from ttt_envs.core.jit import Float64Array
from ttt_eval.benchmark import score_policies
from ttt_eval.benchmark.submission import open_submission
from ttt_eval.exact.measurement import Measurement
from ttt_eval.store.result_store import Data, Unit
from ttt_eval.store.statistics import Interval, interval_from_seeds

SUBMISSIONS = Path(__file__).parents[1] / "benchmarks" / "submissions"
"""Submissions to the benchmark of all agents in this repository; `make bench-submissions` makes
them.
"""
OPPONENTS = ("random", "win-or-block")
GAMES = (20, 100, 1_000)
REPLICATES = 200
"""Number of samples of each win rate, from its exact distribution."""
TIE = 1e-6
"""Maximum difference of scores of equal policies."""
DATA = read_data("noise")


class NoiseOfGames(Study):
    """The submissions to the benchmark ttt-exact in this repository: all agents, tasks with masks
    and one game, seeds and stored checkpoints; one agent has half of the tasks. Their policies have
    exact scores, and are also measured as is usual, by win rates over some games, which are drawn
    200 times from their exact distribution, with half of the games in each seat. A comparison is
    that of two agents after the same number of environment steps with the same seed; equal values
    count half. Intervals are 95%, by Student's t over the means of tasks, because seeds of one task
    have the task in common.
    """

    def units(self, quick: bool) -> list[Unit]:
        """Return a unit for each submission, with a hash of its file."""
        paths = sorted(SUBMISSIONS.glob("*.npz"))[:: 5 if quick else 1]
        return [
            {
                "agent": path.stem,
                "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
                "checkpoints": int(quick),
            }
            for path in paths
        ]

    def measure(self, unit: Unit) -> list[dict[str, object]]:
        """Measure the policies of an agent at the last ``checkpoints`` checkpoints of each run, at
        all if it is 0.

        Tasks without masks and those with several games are left out: their policies have no win
        rate in one game.

        Returns:
            For each policy ``task``, ``seed``, ``steps``, ``score``, and by opponent the win rates
            in both seats.
        """
        rows = []
        with open_submission(SUBMISSIONS / f"{unit['agent']}.npz") as submission:
            for run in submission.runs:
                if run.task.hides_masks or len(run.task.games) > 1:
                    continue
                [game] = run.task.games
                checkpoints = run.checkpoints
                if unit["checkpoints"]:
                    checkpoints = checkpoints[-unit["checkpoints"] :]
                for steps in checkpoints:
                    [policy] = submission.read_tables(run, steps)
                    row: dict[str, object] = {
                        "task": run.task.name,
                        "seed": run.seed,
                        "steps": steps,
                    }
                    row["score"] = score_policies(run.task, [policy], steps).score
                    for opponent in OPPONENTS:
                        outcomes = Measurement(game, policy).outcomes(opponent)
                        row[opponent] = [result.win for result in outcomes]
                    rows.append(row)
        return rows

    def analyse(self, results: Results) -> StudyReport:
        """Report wrong comparisons by measure over the tasks with two agents, and verdicts."""
        rows_of_agents: dict[tuple[str, int], dict[str, list[Any]]] = {}
        for unit, policy_rows in results:
            for row in policy_rows:
                by_agent = rows_of_agents.setdefault((row["task"], row["seed"]), {})
                by_agent.setdefault(unit["agent"], []).append(row)
        rng = np.random.default_rng(0)
        errors: defaultdict[str, dict[str, list[float]]] = defaultdict(dict)
        for (task, _), by_agent in sorted(rows_of_agents.items()):
            if len(by_agent) == 1:
                continue
            policies = list(itertools.chain(*by_agent.values()))
            for name, values in win_rates(policies, rng).items():
                error = error_share(values, policies)
                if error is not None:
                    errors[name].setdefault(task, []).append(error)
        shares = {name: mean_over_tasks(by_task) for name, by_task in errors.items()}
        claims = judge_claims(DATA["claims"], {name: {"": share} for name, share in shares.items()})
        series = Series("", range(len(shares)), shares.values(), "o")
        label = "share of comparisons that pick the worse algorithm"
        figure = self.figure([Panel([series], label, places=list(shares), limits=(0, None))])
        rows = [ResultRow(name, None, {"wrong": share}) for name, share in shares.items()]
        return StudyReport(rows, claims, {"what-games-say": figure})


def mean_over_tasks(shares: Mapping[str, Sequence[float]]) -> Interval:
    """Return the mean over tasks, with Student's t interval, of the means over the seeds of each
    task.

    Args:
        shares: by task, for each seed.
    """
    return interval_from_seeds([fmean(of_task) for of_task in shares.values()], bounds=(0, 1))


def win_rates(rows: Sequence[Data], rng: np.random.Generator) -> dict[str, Float64Array]:
    """Return the win rates of the policies of one task and seed by measure, float64[replicates,
    policies].

    Numbers of won games are drawn from their exact distribution: half of the games in each seat.
    """
    values = {}
    for opponent in OPPONENTS:
        exact = np.array([row[opponent] for row in rows])
        for games in GAMES:
            size = (REPLICATES, *exact.shape)
            wins = rng.binomial(games // 2, np.clip(exact, 0, 1), size).sum(axis=2)
            values[f"win rate against {opponent}, {games:,} games"] = wins / games
        values[f"win rate against {opponent}, exact"] = exact.mean(axis=1)[None].round(9)
    return values


def error_share(values: Float64Array, rows: Sequence[Data]) -> float | None:
    """Return how often values pick the worse of two agents after the same number of steps; ties
    count half.

    Args:
        values: float64[replicates, policies].
        rows: of the policies.

    Returns:
        The share of comparisons; None if all agents have equal scores.
    """
    errors = []
    for a, b in itertools.combinations(range(len(rows)), 2):
        lead = rows[a]["score"] - rows[b]["score"]
        if rows[a]["steps"] == rows[b]["steps"] and abs(lead) > TIE:
            # negative where the worse one has the higher value
            measured_lead = np.sign(lead) * (values[:, a] - values[:, b])
            errors.append(float(np.mean((measured_lead < 0) + 0.5 * (measured_lead == 0))))
    return float(np.mean(errors)) if errors else None
