"""Marks of right learners with other settings, for the limits of tasks of ``evaluate.py grade``.

``python tools/grading_runs.py q-learning`` trains the solution in ``examples/grading`` with each
combination of settings and seed, and prints what all of them reach: a limit in ``task.toml`` must
lie below the smallest best score of its probe.
"""

from __future__ import annotations

import importlib.util
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import tyro

from ttt_eval.grading import load_task
from ttt_eval.grading.judges import JUDGES

SOLUTIONS = Path(__file__).parents[1] / "examples" / "grading"
SETTINGS: Mapping[str, Mapping[str, Sequence[float]]] = {
    "q-learning": {"STEP_SIZE": (0.05, 0.1, 0.2, 0.5), "EPSILON": (0.1, 0.3, 0.6, 1.0)},
    "monte-carlo": {"EPSILON": (0.05, 0.1, 0.2, 0.3, 0.5)},
    "ppo": {"LEARNING_RATE": (2e-3, 5e-3, 1e-2), "ENTROPY_COEFFICIENT": (0.0, 0.01, 0.03)},
}
"""Constants of solutions, with values that are sensible."""


class LocalSubmission:
    """A submission in this process.

    Args:
        train: its function.
        offset: added to the seeds.
    """

    def __init__(self, train: Callable[..., Any], offset: int) -> None:
        self.train = train
        self.offset = offset

    def call(self, _: int, environment: Mapping[str, Any], steps: int, seed: int) -> Any:
        """Return the trained function."""
        return self.train(SimpleNamespace(**environment), steps, seed + self.offset)


def load(task: str, settings: Mapping[str, float]) -> Callable[..., Any]:
    """Return the function of a solution with other settings."""
    spec: Any = importlib.util.spec_from_file_location("solution", SOLUTIONS / f"{task}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    vars(module).update(settings)
    return module.train  # type: ignore[no-any-return]


def main(task: tyro.conf.Positional[str], seeds: int = 5) -> None:
    """Print the marks of right learners, and the rows that they do not hold.

    Args:
        task: one of those with settings.
        seeds: number of seeds of each combination.
    """
    graded = load_task(task)
    marks: list[float] = []
    measured: dict[str, list[str]] = defaultdict(list)
    for values in product(*SETTINGS[task].values()):
        settings = dict(zip(SETTINGS[task], values, strict=True))
        for seed in range(seeds):
            submission: Any = LocalSubmission(load(task, settings), 1_000 * seed)
            check = JUDGES[graded.judge](submission, **graded.options)
            marks.append(graded.points * graded.score(check))
            for row in check.rows:
                if row.status == "fails":
                    measured[row.name].append(f"{settings}, seed {seed}: {row.measured}")
            print(f"{settings}, seed {seed}: {marks[-1]:g}", flush=True)
    for name, texts in measured.items():
        print(name, *texts, sep="\n  ")
    full = sum(mark == graded.points for mark in marks)
    print(f"{full} of {len(marks)} right learners have {graded.points:g} points")


if __name__ == "__main__":
    tyro.cli(main)
