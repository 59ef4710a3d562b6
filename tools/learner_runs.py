"""Learners in the probes, as in the tables of docs/how-to/check-learner.md.

``python tools/learner_runs.py limits`` trains right learners, and writes the limits of
``check_learner``, ttt_eval/checks/learner.toml. ``errors`` trains learners with planted errors,
``alarms`` right ones with other seeds; both print a table. All runs are kept in a log, a file of
JSON lines, and none is repeated.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import tyro
from planted_learners import LEARNER_ERRORS, plant

from ttt_eval.checks import learner
from ttt_eval.checks.learner import FAMILIES, LearnerRun, RightRuns, measure_agent
from ttt_eval.checks.probes import PROBES

LIMITS = Path(learner.__file__).with_suffix(".toml")
NUM_RUNS = {"tabular": 200, "dqn": 40, "ppo": 40}
"""Number of right runs, with the seeds from ``LIMIT_SEED`` on."""
LIMIT_SEED = 1_000
ERROR_SEED = 3_000
ALARM_SEED = 5_000
NUM_SEEDS = 2
"""Number of runs of which all must fail."""


class Runs:
    """Runs of learners, kept in a log."""

    def __init__(self, log: Path) -> None:
        self.log = log
        lines = log.read_text("utf-8").splitlines() if log.exists() else []
        rows = [json.loads(line) for line in lines]
        self.known = {tuple(row["job"]): LearnerRun._make([*row["run"], None]) for row in rows}

    def run(self, family: str, error: str, name: str, seed: int) -> LearnerRun:
        """Return the run of a learner with an error, "" for none, in a probe."""
        job = (family, error, name, seed)
        if job not in self.known:
            probe = PROBES[name]
            agent = plant(family, error or None)(probe.make_env, probe.steps, seed)
            run = measure_agent(probe, agent)
            with self.log.open("a", encoding="utf-8") as file:
                file.write(f"{json.dumps({'job': job, 'run': run[:3]})}\n")
            self.known[job] = run._replace(mistake=None)
        return self.known[job]

    def judge(
        self, family: str, error: str, name: str, first_seed: int
    ) -> tuple[bool, bool, float]:
        """Return whether a probe fails by its scores, whether by values or critic, and the largest
        score.
        """
        right = FAMILIES[family][name]
        runs: list[LearnerRun] = []
        for seed in range(first_seed, first_seed + NUM_SEEDS):
            runs.append(self.run(family, error, name, seed))
            by_score = all(run.score < right.score_limit for run in runs)
            by_value = all(run.error > right.error_limit for run in runs)
            if not (by_score or by_value):
                break
        return by_score, by_value, max(run.score for run in runs)


def summarize(runs: Sequence[LearnerRun]) -> RightRuns:
    """Return the limits of right runs."""
    scores, errors, entropies = np.array([run[:3] for run in runs], float).T
    return RightRuns(
        len(runs), scores.min(), scores.mean(), scores.std(),
        errors.max(), errors.mean(), errors.std(), (entropies.min(), entropies.max()),
    )  # fmt: skip


def limit_lines(runs: Runs) -> Iterator[str]:
    """Yield the lines of the file of the limits."""
    for seed, family, name in product(range(max(NUM_RUNS.values())), NUM_RUNS, PROBES):
        if seed < NUM_RUNS[family]:
            runs.run(family, "", name, LIMIT_SEED + seed)
    yield "# Made by tools/learner_runs.py"
    for family, name in product(NUM_RUNS, PROBES):
        seeds = range(LIMIT_SEED, LIMIT_SEED + NUM_RUNS[family])
        right = summarize([runs.run(family, "", name, seed) for seed in seeds])
        yield f"\n[{family}.{name}]"
        for key, number in right._asdict().items():
            yield f"{key} = {np.round(number, 3).tolist()}"


def error_lines(runs: Runs, families: Sequence[str]) -> Iterator[str]:
    """Yield a table of planted errors: largest score of the runs, ``*`` where all fail by their
    score, ``v`` where they fail by values or critic.
    """
    for family in families:
        yield f"\n| {family} | {' | '.join(PROBES)} |\n|{'---|' * (len(PROBES) + 1)}"
        for error in LEARNER_ERRORS[family]:
            cells = []
            for name in PROBES:
                by_score, by_value, score = runs.judge(family, error, name, ERROR_SEED)
                cells.append(f"{score:.2f}{'*' * by_score}{'v' * by_value}")
            yield f"| {error} | {' | '.join(cells)} |"


def alarm_lines(runs: Runs, families: Sequence[str], count: int) -> Iterator[str]:
    """Yield a table of checks of right learners, with the probes that fail."""
    yield "| family | checks | probes that fail |\n|---|---|---|"
    for family in families:
        failed = []
        for check, name in product(range(count), PROBES):
            by_score, by_value, _ = runs.judge(family, "", name, ALARM_SEED + NUM_SEEDS * check)
            failed += [name] if by_score or by_value else []
        yield f"| {family} | {count} | {', '.join(failed) or 'none'} |"


def main(
    command: tyro.conf.Positional[Literal["limits", "errors", "alarms"]],
    log: Path,
    families: tuple[str, ...] = tuple(NUM_RUNS),
    count: Annotated[int, tyro.conf.arg(help="number of checks of each family")] = 20,
) -> None:
    """Train what the log does not have, and write the limits or print a table.

    Args:
        command: what to do.
        log: a file of JSON lines.
        families: of errors and alarms.
    """
    runs = Runs(log)
    if command == "limits":
        LIMITS.write_text("\n".join([*limit_lines(runs), ""]), encoding="utf-8")
        return
    lines = alarm_lines(runs, families, count)
    if command == "errors":
        lines = error_lines(runs, families)
    for line in lines:
        print(line, flush=True)


if __name__ == "__main__":
    tyro.cli(main)
