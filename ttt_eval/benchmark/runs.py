"""Runs of the benchmark: agents learn in its tasks, and their policies are stored as tables."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ttt_envs.core.files import read_bounded, write_atomically
from ttt_envs.core.parallel import Jobs
from ttt_eval.benchmark.agents import Agent, agent_policy, load_agent
from ttt_eval.benchmark.policy_table import tabulate
from ttt_eval.benchmark.records import MAX_SEED, Cost, RunRecord, Submission, TrainingReturns
from ttt_eval.benchmark.submission import FILE, MAX_FILE_BYTES, Run, encode_record, join_runs, open_submission
from ttt_eval.benchmark.tasks import SEEDS, TASKS, BudgetSpent, Task, find_task, find_tasks
from ttt_eval.cost import Meter
from ttt_eval.result_store import Unit, do_units

QUICK_TASKS = ("random", "chance-25", "self-play", "masks")
QUICK_STEPS, QUICK_SEEDS = 20_000, 2
MIN_STEPS = 200
"""Minimum steps of a run, which has its first checkpoint after one step or more."""


@dataclass(frozen=True)
class RunSettings:
    """What an agent is trained on.

    Raises:
        ValueError: a number is out of range, or there is no such task.
    """

    agent: str
    """name or ``"module:make"``"""
    tasks: tuple[str, ...] = ()
    """names; () for all"""
    seeds: int = len(SEEDS)
    """number of seeds: 0, 1, ..."""
    max_steps: int = 0
    """maximum environment steps of a run, 0 for those of the task"""
    every: int = 1
    """store the last checkpoint of a run, and every so many before it"""

    def __post_init__(self) -> None:
        if not 1 <= self.seeds <= MAX_SEED + 1:
            raise ValueError(f"{self.seeds} is no number of seeds: choose 1 to {MAX_SEED + 1}")
        if self.max_steps and self.max_steps < MIN_STEPS:
            raise ValueError(f"{self.max_steps} is no number of steps of a run: choose {MIN_STEPS} or more")
        if self.every < 1:
            raise ValueError(f"every={self.every} keeps no checkpoint: choose 1 or more")
        self.units()

    def units(self) -> list[Unit]:
        """Return the runs, each a unit of work."""
        names = {task.uses_runs_of or task.name for task in find_tasks(self.tasks)}
        return [
            {"agent": self.agent, "task": task.name, "seed": seed, "max_steps": self.max_steps, "every": self.every}
            for task in TASKS
            if task.name in names
            for seed in range(self.seeds)
        ]

    @property
    def shortened_steps(self) -> int:
        """The steps of runs if they are fewer than those of their tasks, else 0."""
        longest = max(find_task(str(unit["task"])).steps for unit in self.units())
        return self.max_steps if 0 < self.max_steps < longest else 0


def shorten(task: Task, max_steps: int) -> Task:
    """Return the task with at most so many steps, 0 for all."""
    return replace(task, steps=min(task.steps, max_steps)) if max_steps else task


def train_agent(agent: Agent, task: Task, seed: int, every: int = 1) -> tuple[dict[str, NDArray[Any]], RunRecord]:
    """Train an agent, and return the arrays of its run by name, and the run's record.

    An agent whose ``learn`` takes no step does not learn: its policy is that of all checkpoints.

    Args:
        agent: the agent.
        task: the task.
        seed: of the environment.
        every: store the last checkpoint, and every so many before it.

    Raises:
        TypeError, ValueError: the agent has no ``learn``, or is no argument of ``as_policy``.
    """
    if not isinstance(agent, Agent):
        raise TypeError(f"{type(agent).__name__} is no agent: it has no method learn(env, steps)")
    arrays: dict[str, NDArray[Any]] = {}
    run, meter = Run(task, seed, task.checkpoints[::-every][::-1]), Meter()
    totals: list[tuple[int, int, float]] = []

    def store(steps: int) -> None:
        meter.end("learning")
        totals.append((steps, env.episodes, env.returned))
        for name, game in run.tables(steps).items():
            table = tabulate(game, agent_policy(agent, task, game), task.seats)
            arrays.update({f"{name}/{part}": array for part, array in table.items()})
        meter.end("tables")

    env = task.make_env(seed, **getattr(agent, "env_options", {}))
    env.checkpoints, env.budget, env.store = list(run.checkpoints), task.steps, store
    taken = -1
    with closing(env), suppress(BudgetSpent):
        while taken < env.steps < task.steps:
            taken = env.steps
            agent.learn(env, task.steps - taken)
    env.store_due(at_end=True)
    meter.end("learning")
    used = meter.phases["learning"]
    cost = Cost(used["cpu_user_s"] + used["cpu_system_s"], used["wall_s"], used["peak_rss_bytes"], env.steps)
    record = RunRecord(cost, TrainingReturns(*zip(*totals, strict=True)))
    return {run.record: encode_record(record), **arrays}, record


def run_unit(unit: Unit) -> dict[str, NDArray[Any]]:
    """Do one run; return its arrays."""
    task, seed = shorten(find_task(unit["task"]), unit["max_steps"]), unit["seed"]
    return train_agent(load_agent(unit["agent"])(task, seed), task, seed, unit["every"])[0]


def describe_agent(settings: RunSettings) -> tuple[Mapping[str, Any], str]:
    """Return the settings that the agent reports in the first task, and the package that it is of, "" if unknown."""
    unit = settings.units()[0]
    agent = load_agent(settings.agent)(find_task(unit["task"]), unit["seed"])
    try:
        text = json.dumps(getattr(agent, "hyperparameters", {}), default=str, allow_nan=False)
    except (RecursionError, ValueError) as problem:  # such as of a number that is not finite
        raise ValueError(
            f"the hyperparameters of {settings.agent} cannot be written: {problem}; report flat ones of finite numbers"
        ) from None
    return json.loads(text), str(getattr(agent, "library", ""))


def run_benchmark(
    settings: RunSettings,
    submission: Submission,
    folder: Path,
    provenance: Mapping[str, Any],
    *,
    jobs: Jobs = 1,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> None:
    """Do the runs that are not done yet, and write the submission. After a kill, the same call continues.

    Args:
        settings: the agent, and what it is trained on.
        submission: what the folder says of itself.
        folder: of the submission, created if missing.
        provenance: JSON-ready: versions and everything else that determines results; the same at every call.
        jobs: the workers.
        progress: called with the number of runs done, and the total.

    Raises:
        ValueError: another process works in the folder, it has the submission of another agent or runs of other steps
            or provenance, a finished run was changed, or the agent fails to be one.
    """
    units = settings.units()
    encode_record(submission)  # refuses what cannot be read again before the first run
    if (folder / FILE).exists():
        with open_submission(folder) as stored:
            if (name := stored.submission.name) != submission.name:
                raise ValueError(f"{folder} has the submission of {name}, not of {submission.name}: choose another one")

    save: Any = np.savez_compressed  # whose named arrays have no type

    def file_of(unit: Unit) -> Path:
        return folder / f"{unit['task']}/seed-{unit['seed']}.npz"

    def write(unit: Unit, arrays: dict[str, NDArray[Any]]) -> dict[str, str]:
        write_atomically(file_of(unit), lambda file: save(file, **arrays))
        return {"sha256": _hash(file_of(unit))}

    paths = [file_of(unit) for unit in units]
    settings_of_runs = {"agent_name": settings.agent, "max_steps": settings.max_steps, "every": settings.every}
    own_files = (FILE, "*/seed-*.npz")
    progress(0, len(units))
    work = do_units(
        run_unit, units, folder, {**provenance, **settings_of_runs}, jobs=jobs, other_files=own_files, postprocess=write
    )
    with closing(work) as results:
        for done, (number, result) in enumerate(results, start=1):
            if not paths[number].exists() or _hash(paths[number]) != result["sha256"]:
                raise ValueError(f"{paths[number]} is missing or was changed: remove {folder} and run again")
            progress(done, len(units))
    all_paths = (folder / task.name / f"seed-{seed}.npz" for task in TASKS for seed in range(MAX_SEED + 1))
    join_runs(folder / FILE, submission, [path for path in all_paths if path.exists()])


def _hash(path: Path) -> str:
    return hashlib.sha256(read_bounded(path, MAX_FILE_BYTES)).hexdigest()
