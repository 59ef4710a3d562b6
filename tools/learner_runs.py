"""Learners in the probes, as in the tables of docs/how-to/check-learner.md.

``python tools/learner_runs.py limits`` trains right learners, and writes the limits of
``check_learner``, ttt_eval/checks/learner.toml; its runs are kept in a folder, and none is
repeated. ``errors`` checks learners with planted errors, ``alarms`` right ones with
other seeds; ``open-errors`` and ``open-alarms`` check learners with errors, and right ones with
other settings, without a family. All four print a table.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from time import process_time
from typing import Any, Literal

import numpy as np
import tyro
from check_power import one_sided_bound
from planted_learners import LEARNER_ERRORS, SETTINGS, plant
from writing import print_head, print_row, to_toml

from studies.frame import combine, group
from ttt_envs.core.files import write_bytes
from ttt_eval.checks import check_learner, learner
from ttt_eval.checks.learner import LearnerRun, RightRuns, measure_agent
from ttt_eval.checks.probes import PROBES
from ttt_eval.store.result_store import Unit, collect_results
from ttt_eval.store.versions import make_provenance

LIMITS = Path(learner.__file__).with_suffix(".toml")
NUM_RUNS = {"tabular": 200, "dqn": 40, "ppo": 40}
"""Number of right runs, with the seeds from ``LIMIT_SEED`` on."""
LIMIT_SEED = 1_000
ERROR_SEED = 3_000
ALARM_SEED = 5_000
MAX_OTHERS = 2
"""Maximum number of probes that are named in place of all others."""


def measure_run(unit: Unit) -> dict[str, Any]:
    """Return the run of a right learner in a probe, JSON-ready."""
    probe = PROBES[unit["probe"]]
    agent = plant(unit["family"])(probe.make_env, probe.steps, unit["seed"])
    return measure_agent(probe, agent)._replace(mistake=None)._asdict()


def summarize(runs: Sequence[LearnerRun]) -> RightRuns:
    """Return the limits of right runs."""
    numbers = [(run.score, run.error, run.entropy) for run in runs]
    scores, errors, entropies = np.transpose(numbers)
    return RightRuns(
        len(runs),
        scores.min(),
        scores.mean(),
        scores.std(),
        errors.max(),
        errors.mean(),
        errors.std(),
        (entropies.min(), entropies.max()),
    )


def make_limits(folder: Path, num_runs: Mapping[str, int] = NUM_RUNS) -> dict[str, dict[str, Any]]:
    """Return the tables of the file of the limits, given the number of runs by family; those that
    the folder has are not repeated.
    """
    units: list[Unit] = []
    for family, count in num_runs.items():
        seeds = range(LIMIT_SEED, LIMIT_SEED + count)
        units += combine(family=[family], probe=PROBES, seed=seeds)
    results = collect_results(measure_run, units, folder, make_provenance())
    runs_of_probes = group([*zip(units, results, strict=True)], "family", "probe")
    limits = {}
    for (family, probe), rows in runs_of_probes.items():
        right = summarize([LearnerRun(**row) for row in rows])
        limits[f"{family}.{probe}"] = {
            key: np.round(number, 3).tolist() for key, number in right._asdict().items()
        }
    return limits


def list_names(names: Collection[str]) -> str:
    """Return the probes among names in words."""
    chosen = [name for name in PROBES if name in names]
    others = [name for name in PROBES if name not in names]
    if chosen and len(others) <= MAX_OTHERS:
        return f"all but {', '.join(others)}" if others else "all"
    return ", ".join(chosen)


def print_check(
    family: str, name: str | None, seed: int, probes: Sequence[str], /, **options: Any
) -> bool:
    """Print the verdict on a learner, as a row of a table, and return whether it fails.

    Args:
        family, name: of the learner, see :func:`planted_learners.plant`.
        seed, probes, options: of the check.
    """
    trainings: list[Any] = []

    def train(*job: Any) -> Any:
        trainings.append(job)
        return plant(family, name)(*job)

    start = process_time()
    check = check_learner(train, probes, seed=seed, **options)
    seconds = process_time() - start
    scores = list_names(check.failed)
    values = list_names([row.partition(",")[0] for row in check.failed if "," in row])
    open_rows = [row.name for row in check.rows if row.status == "no evidence"]
    cells = [f"{family}: {name or seed}", scores, values, check.cause, "; ".join(open_rows)]
    print_row(*cells, len(trainings), f"{seconds:.0f}")
    return bool(check.failed)


def main(
    command: tyro.conf.Positional[
        Literal["limits", "errors", "alarms", "open-errors", "open-alarms"]
    ],
    log: Path = Path("runs", "limits"),
    families: tuple[str, ...] = tuple(NUM_RUNS),
    count: int = 20,
    names: tuple[str, ...] = (),
    probes: tuple[str, ...] = tuple(PROBES),
    seed: int = ERROR_SEED,
    gamma: float | None = None,
) -> None:
    """Write the limits or print a table.

    Args:
        command: what to do.
        log: the folder of the runs of the limits.
        families: of the learners.
        count: number of alarms of each family.
        names: of errors or settings, by default all.
        probes: of the checks.
        seed: the first of a check of errors or settings.
        gamma: the declared discount without a family.
    """
    if command == "limits":
        write_bytes(LIMITS, to_toml("learner_runs.py", make_limits(log), str).encode())
        return
    changes: Any = LEARNER_ERRORS if command.endswith("errors") else SETTINGS
    heads = ("scores fail", "values fail", "cause", "no evidence", "trainings", "CPU s")
    print_head("learner", *heads)
    fails = []
    for family in families:
        cases = [(name, seed) for name in names or changes[family]]
        if command == "alarms":
            cases = [(None, ALARM_SEED + 2 * place) for place in range(count)]
        options = {"gamma": gamma, "family": None if command.startswith("open") else family}
        fails += [print_check(family, *case, probes, **options) for case in cases]
    bound = one_sided_bound(sum(fails), len(fails))
    print(f"\n{sum(fails)} of {len(fails)} checks fail, at most {bound:.1%} (one-sided 95%)")


if __name__ == "__main__":
    tyro.cli(main)
