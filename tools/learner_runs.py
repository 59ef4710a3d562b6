"""Learners in the probes, as in the tables of docs/how-to/check-learner.md.

``python tools/learner_runs.py limits`` trains right learners, and writes the limits of
``check_learner``, ttt_eval/checks/learner.toml. ``errors`` trains learners with planted errors,
``alarms`` right ones with other seeds; both print a table. All runs are kept in a log, a file of
JSON lines, and none is repeated. ``open-errors`` and ``open-alarms`` check learners with errors,
and right ones with other settings, without a family.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from pathlib import Path
from time import process_time
from typing import Literal, NamedTuple

import numpy as np
import tyro
from check_power import one_sided_bound
from planted_learners import LEARNER_ERRORS, SETTINGS, plant

from ttt_envs.core.files import write_bytes
from ttt_eval.checks import check_learner, learner
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
VALUE_ROWS = {name: (f"{name}, values", f"{name}, critic") for name in PROBES}
MAX_OTHERS = 2
"""Maximum number of probes that are named in place of all others."""


class Failures(NamedTuple):
    """By what all runs in a probe fail."""

    by_score: bool
    by_value: bool
    """or by the critic"""


class Runs:
    """Runs of learners, kept in a log."""

    def __init__(self, log: Path) -> None:
        self.log = log
        lines = log.read_text("utf-8").splitlines() if log.exists() else []
        rows = [json.loads(line) for line in lines]
        self.runs = {tuple(row["job"]): LearnerRun(**row["run"], mistake=None) for row in rows}

    def run(self, family: str, error: str, name: str, seed: int) -> LearnerRun:
        """Return the run of a learner with an error, "" for none, in a probe."""
        job = (family, error, name, seed)
        if job not in self.runs:
            probe = PROBES[name]
            agent = plant(family, error or None)(probe.make_env, probe.steps, seed)
            run = measure_agent(probe, agent)
            numbers = {name: getattr(run, name) for name in ("score", "error", "entropy", "excess")}
            with self.log.open("a", encoding="utf-8") as file:
                file.write(f"{json.dumps({'job': job, 'run': numbers})}\n")
            self.runs[job] = run._replace(mistake=None)
        return self.runs[job]

    def judge(self, family: str, error: str, name: str, first_seed: int) -> Failures:
        """Return by what all runs in a probe fail."""
        right = FAMILIES[family][name]
        runs: list[LearnerRun] = []
        for seed in range(first_seed, first_seed + NUM_SEEDS):
            runs.append(self.run(family, error, name, seed))
            by_score = all(run.score < right.score_limit for run in runs)
            by_value = all(run.error > right.error_limit for run in runs)
            if not (by_score or by_value):
                break
        return Failures(by_score, by_value)


def summarize(runs: Sequence[LearnerRun]) -> RightRuns:
    """Return the limits of right runs."""
    scores = np.array([run.score for run in runs])
    errors = np.array([run.error for run in runs])
    entropies = np.array([run.entropy for run in runs])
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
        reference = summarize([runs.run(family, "", name, seed) for seed in seeds])
        yield f"\n[{family}.{name}]"
        for key, number in reference._asdict().items():
            yield f"{key} = {np.round(number, 3).tolist()}"


def judge_all(runs: Runs, cases: Iterable[tuple[str, str, int]]) -> Iterator[str]:
    """Yield a table of verdicts about learners, given by family, error and first seed."""
    yield "| learner | scores fail | values fail |\n|---|---|---|"
    num_failed = 0
    num_cases = 0
    for family, error, seed in cases:
        failures = {name: runs.judge(family, error, name, seed) for name in PROBES}
        scores = list_names(name for name in PROBES if failures[name].by_score)
        values = list_names(name for name in PROBES if failures[name].by_value)
        num_cases += 1
        num_failed += bool(scores or values)
        yield f"| {family}: {error or seed} | {scores} | {values} |"
    yield f"\n{num_failed} of {num_cases} fail a probe"


def list_names(names: Iterable[str]) -> str:
    """Return names of probes in words."""
    chosen = list(names)
    others = [name for name in PROBES if name not in chosen]
    if chosen and len(others) <= MAX_OTHERS:
        return f"all but {', '.join(others)}" if others else "all"
    return ", ".join(chosen)


def check_open(family: str, name: str, probes: Sequence[str], seed: int) -> bool:
    """Print the verdict without a family, as a row of a table, and return whether it fails."""
    start = process_time()
    check = check_learner(plant(family, name), probes, seed=seed)
    seconds = process_time() - start
    failed = set(check.failed)
    scores = list_names(name for name in PROBES if name in failed)
    values = list_names(name for name in PROBES if not failed.isdisjoint(VALUE_ROWS[name]))
    open_rows = [row.name for row in check.rows if row.status == "no evidence"]
    cells = [f"{family}: {name}", scores, values, check.cause, ", ".join(open_rows)]
    print(f"| {' | '.join(cells)} | {seconds:.0f} |", flush=True)
    return bool(failed)


def main(
    command: tyro.conf.Positional[
        Literal["limits", "errors", "alarms", "open-errors", "open-alarms"]
    ],
    log: Path = Path("runs.jsonl"),
    families: tuple[str, ...] = tuple(NUM_RUNS),
    count: int = 20,
    names: tuple[str, ...] = (),
    probes: tuple[str, ...] = tuple(PROBES),
    seed: int = ERROR_SEED,
) -> None:
    """Train what the log does not have, and write the limits or print a table.

    Args:
        command: what to do.
        log: a file of JSON lines.
        families: of errors and alarms.
        count: number of alarms of each family.
        names: of errors or settings without a family, by default all.
        probes: of checks without a family.
        seed: the first of a check without a family.
    """
    if command.startswith("open"):
        changes = LEARNER_ERRORS if command == "open-errors" else SETTINGS
        heads = "scores fail | values fail | cause | no evidence | CPU s"
        print(f"| learner | {heads} |\n|---|---|---|---|---|--:|")
        fails = [
            check_open(family, name, probes, seed)
            for family in families
            for name in names or changes[family]
        ]
        bound = one_sided_bound(sum(fails), len(fails))
        print(f"\n{sum(fails)} of {len(fails)} checks fail, at most {bound:.1%} (one-sided 95%)")
        return
    runs = Runs(log)
    if command == "limits":
        write_bytes(LIMITS, "\n".join([*limit_lines(runs), ""]).encode())
        return
    seeds = range(ALARM_SEED, ALARM_SEED + NUM_SEEDS * count, NUM_SEEDS)
    cases = [(family, "", seed) for family in families for seed in seeds]
    if command == "errors":
        cases = [
            (family, error, ERROR_SEED) for family in families for error in LEARNER_ERRORS[family]
        ]
    for line in judge_all(runs, cases):
        print(line, flush=True)


if __name__ == "__main__":
    tyro.cli(main)
