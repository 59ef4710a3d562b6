"""Runs of the benchmark: agents learn in its tasks, and their policies are stored as tables."""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ttt_envs.core.checks import Refusal, TypeRefusal, check_range
from ttt_envs.core.files import make_subfolder, write_atomically
from ttt_envs.core.parallel import Jobs
from ttt_eval.benchmark.agents import Agent, agent_policy, load_agent
from ttt_eval.benchmark.submission import (
    FILE,
    Cost,
    Head,
    RunRecord,
    StoredRun,
    Submission,
    encode_record,
    join_runs,
    tabulate,
)
from ttt_eval.benchmark.tasks import (
    SEEDS,
    VERSIONS,
    BudgetSpent,
    Task,
    Version,
    find_task,
    find_tasks,
)
from ttt_eval.store.cost import Meter, cpu_seconds
from ttt_eval.store.result_store import Unit, collect_results, no_progress

MIN_STEPS, MAX_SEEDS = 200, 100
"""Minimum steps of a run, which has its first checkpoint after one step or more, and maximum number
of seeds.
"""

CHOSEN = "chosen_settings"
"""Hyperparameter of a submission: arguments of the agent that are not the default ones."""

RunArrays = dict[str, NDArray[np.generic]]
"""arrays of a run by name"""


def shorten(task: Task, max_steps: int) -> Task:
    """Return the task with at most so many steps, 0 for all."""
    return replace(task, steps=min(task.steps, max_steps)) if max_steps else task


def list_runs(
    tasks: Sequence[str] = (), seeds: int = len(SEEDS), version: Version = VERSIONS[0]
) -> list[Unit]:
    """Return the runs of tasks, by default all of a version: each the name of a task and a seed.

    Raises:
        ValueError: there is no such task, or no such number of seeds.
    """
    check_range("seeds", seeds, 1, MAX_SEEDS)
    names = [task.training for task in find_tasks(tasks, version)]
    return [
        {"task": task.name, "seed": seed} for task in find_tasks(names) for seed in range(seeds)
    ]


def train_agent(agent: Agent, task: Task, seed: int, every: int = 1) -> RunArrays:
    """Train an agent, and return the arrays of its run by name.

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
        raise TypeRefusal(f"{type(agent).__name__} is no agent: it has no method learn(env, steps)")
    arrays: RunArrays = {}
    run = StoredRun(task, seed, task.checkpoints[::-every][::-1])
    meter = Meter()
    cpu_s: dict[int, float] = {}

    def store(steps: int) -> None:
        meter.end("learning")
        cpu_s[steps] = cpu_seconds(meter.phases["learning"])
        for name, game in run.tables(steps).items():
            table = tabulate(game, agent_policy(agent, task, game), task.seats, task.positions)
            arrays.update({f"{name}/{part}": array for part, array in table.items()})
        meter.end("tables")

    env = task.make_env(seed, **getattr(agent, "env_options", {}))
    env.checkpoints = list(run.checkpoints)
    env.store = store
    steps_before = -1
    with closing(env), suppress(BudgetSpent):
        while steps_before < env.steps < task.steps:
            steps_before = env.steps
            agent.learn(env, task.steps - steps_before)
    env.store_due(at_end=True)
    meter.end("learning")
    usage = meter.phases["learning"]
    record = RunRecord(Cost(cpu_seconds(usage), usage["peak_rss_bytes"], env.steps), cpu_s)
    return {run.record: encode_record(record), **arrays}


def hash_code(agent: str) -> str:
    """Return the SHA-256 of the code of an agent: that of its module and of those of the same
    folder that this imports, directly or not; or of all modules of its package. An agent of this
    package has those of ``learners``.
    """
    name = agent.partition(":")[0] if ":" in agent else "learners"
    path = Path(str(import_module(name).__file__))
    files = [*path.parent.glob("**/*.py" if path.name == "__init__.py" else path.name)]
    for file in files:  # to which those that it imports are added
        for node in ast.walk(ast.parse(file.read_bytes())):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = re.findall(r"\w+", ast.unparse(node))
                siblings = {path.with_name(f"{name}.py") for name in names}.difference(files)
                files += filter(Path.exists, siblings)
    code = b"".join(file.name.encode() + file.read_bytes() for file in sorted(files))
    return hashlib.sha256(code).hexdigest()


def run_unit(
    unit: Unit, *, agent: str, settings: Mapping[str, Any], max_steps: int, every: int
) -> RunArrays:
    """Do one run; return its arrays."""
    task = shorten(find_task(unit["task"]), max_steps)
    seed = unit["seed"]
    return train_agent(load_agent(agent)(task, seed, **settings), task, seed, every)


def run_benchmark(
    agent: str,
    runs: Sequence[Unit],
    submission: Submission,
    folder: Path,
    *,
    every: int = 1,
    jobs: Jobs = 1,
    progress: Callable[[int, int], None] = no_progress,
) -> None:
    """Do the runs that are not done yet, and write the submission. After a kill, the same call
    continues.

    Args:
        agent: its name, or ``"module:make"``.
        runs: those of :func:`list_runs`.
        submission: what the folder says of itself; its ``steps`` are the maximum number of a run,
            and its hyperparameter :data:`CHOSEN` has the settings with which the agent is made.
        folder: of the submission, created if missing.
        every: store the last checkpoint of a run, and every so many before it.
        jobs: the workers.
        progress: called with the number of runs done, and the total.

    Raises:
        ValueError: a number of steps that is too small, tasks of different versions, another
            process works in the folder, it has the submission of another agent or runs of other
            steps, code or versions, a folder in it is a link, a finished run is missing, or the
            agent fails to be one.
    """
    check_range(
        "steps", submission.steps or None, MIN_STEPS, problem="is no number of steps of a run"
    )
    encode_record(Head(submission))  # refuses what cannot be read again before the first run

    def file_of(unit: Unit) -> Path:
        return folder / f"{unit['task']}/seed-{unit['seed']}.npz"

    def write(unit: Unit, arrays: dict[str, Any]) -> None:
        make_subfolder(folder, unit["task"])
        write_atomically(file_of(unit), lambda file: np.savez_compressed(file, **arrays))

    for path in folder.glob("*/seed-*.npz*"):  # those of other calls and unfinished files too
        make_subfolder(folder, path.parent.name)
    options: dict[str, Any] = {
        "agent": agent,
        "settings": submission.hyperparameters.get(CHOSEN, {}),
        "max_steps": submission.steps,
        "every": every,
    }
    collect_results(
        partial(run_unit, **options),
        runs,
        folder,
        {
            **submission.versions,
            **options,
            "source": submission.code_sha256,
            "name": submission.name,
        },
        progress=progress,
        jobs=jobs,
        other_files=(FILE, "*/seed-*.npz"),
        postprocess=write,
    )
    for path in map(file_of, runs):
        if not path.exists():
            raise Refusal(f"{path} is missing: remove {folder} and run again")
    join_runs(folder / FILE, submission, sorted(folder.glob("*/seed-*.npz")))
