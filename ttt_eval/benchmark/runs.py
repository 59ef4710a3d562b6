"""Runs of the benchmark: agents learn in its tasks, and their policies are stored as tables."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import gymnasium
from numpy.typing import NDArray

from ttt_envs.core.files import delete_temporary_files, read_bounded, subfolder
from ttt_envs.core.parallel import Jobs
from ttt_envs.envs.config import SELF
from ttt_eval.benchmark.agents import Agent, Env, agent_policy, load_agent
from ttt_eval.benchmark.policy_table import tabulate
from ttt_eval.benchmark.records import MAX_SEED, Cost, RunRecord, Submission, TrainingReturns
from ttt_eval.benchmark.submission import (
    FILE,
    MAX_FILE_BYTES,
    Run,
    encode_record,
    join_runs,
    open_submission,
    write_run,
)
from ttt_eval.benchmark.tasks import SEEDS, TASKS, Task, find_task, find_tasks
from ttt_eval.cost import Usage
from ttt_eval.result_store import Unit, do_units

QUICK_TASKS = ("random", "chance-25", "self-play", "masks")
QUICK_STEPS, QUICK_SEEDS = 20_000, 2
MIN_STEPS = 200
"""Minimum steps of a run, which has its first checkpoint after one step or more."""


class BudgetSpent(Exception):  # noqa: N818  # what happened
    """The steps of a run are taken: this ends the agent's ``learn``."""


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


class CountedEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Counts steps, and stores policies between two of them.

    A policy is stored when the step after a checkpoint begins, so that the agent has learned from all steps before.
    Seeds are ignored: the task has seeded the environment.

    Args:
        env: the environment.
        checkpoints: ascending numbers of steps, the last of which is the budget.
        store: called with each of them.
        both: whether the agent moves for both players.

    Attributes:
        steps: those taken.
        episodes: number of finished episodes.
        returned: sum of all rewards; if the agent moves for both players, those of player 0, where the other's count
            negatively.
    """

    def __init__(
        self, env: Env, checkpoints: Sequence[int], store: Callable[[int], None], *, both: bool = False
    ) -> None:
        super().__init__(env)
        self.steps = self.episodes = 0
        self.returned = 0.0
        self.budget = checkpoints[-1]
        self._both = both
        self._checkpoints = list(checkpoints)
        self._store = store

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; ``seed`` is ignored.

        Raises:
            ValueError: ``options`` are given, and there are none.
        """
        if options:
            raise ValueError("an agent has no options of reset: the task determines how episodes begin")
        return self.env.reset()

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """See :class:`gymnasium.Env`.

        Raises:
            BudgetSpent: all steps are taken.
        """
        self.store_due()
        if self.steps >= self.budget:
            raise BudgetSpent(f"all {self.budget:,} steps are taken")
        self.steps += 1
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.episodes += bool(terminated or truncated)
        self.returned += -float(reward) if self._both and info["seat"] == 1 else float(reward)
        return observation, reward, terminated, truncated, info

    def store_due(self, *, all_left: bool = False) -> None:
        """Store policies whose checkpoint is reached, or with ``all_left`` those of all that are left."""
        while self._checkpoints and (all_left or self.steps >= self._checkpoints[0]):
            self._store(self._checkpoints.pop(0))


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
    run, returns = Run(task, seed, task.checkpoints[::-every][::-1]), TrainingReturns()
    spent_on_tables = 0.0, 0.0

    def store(steps: int) -> None:
        nonlocal spent_on_tables, returns
        returns = returns.extend(steps, env.episodes, env.returned)
        before = Usage.now()
        for name, game in run.tables(steps).items():
            table = tabulate(game, agent_policy(agent, task, game), task.seats)
            arrays.update({f"{name}/{part}": array for part, array in table.items()})
        cpu, wall = _elapsed(before, Usage.now())
        spent_on_tables = spent_on_tables[0] + cpu, spent_on_tables[1] + wall

    begun = Usage.now()
    options = dict(getattr(agent, "env_options", {}))
    env = CountedEnv(task.make_env(seed, **options), run.checkpoints, store, both=task.opponent == SELF)
    with suppress(BudgetSpent):
        while env.steps < env.budget:
            taken = env.steps
            agent.learn(env, env.budget - env.steps)
            if env.steps == taken:
                break
    env.store_due(all_left=True)
    end = Usage.now()
    cpu, wall = _elapsed(begun, end)
    times = max(cpu - spent_on_tables[0], 0.0), max(wall - spent_on_tables[1], 0.0)
    record = RunRecord(Cost(*times, end.peak_rss_bytes, env.steps), returns)
    env.close()
    return {run.record: encode_record(record), **arrays}, record


def _elapsed(before: Usage, after: Usage) -> tuple[float, float]:
    """Return CPU and wall seconds."""
    return after.user_s + after.system_s - before.user_s - before.system_s, after.wall_s - before.wall_s


def run_unit(unit: Unit) -> dict[str, NDArray[Any]]:
    """Do one run; return its arrays."""
    task, seed = shorten(find_task(unit["task"]), unit["max_steps"]), unit["seed"]
    return train_agent(load_agent(unit["agent"])(task, seed), task, seed, unit["every"])[0]


def describe_agent(settings: RunSettings) -> tuple[Mapping[str, Any], str]:
    """Return the settings that the agent reports in the first task, and the package that it is of, "" if unknown."""
    unit = settings.units()[0]
    agent = load_agent(settings.agent)(find_task(unit["task"]), unit["seed"])
    try:
        found: Mapping[str, Any] = json.loads(
            json.dumps(getattr(agent, "hyperparameters", {}), default=str, allow_nan=False)
        )
    except (RecursionError, ValueError) as problem:  # such as of a number that is not finite
        raise ValueError(
            f"the hyperparameters of {settings.agent} cannot be written: {problem}; report flat ones of finite numbers"
        ) from None
    return found, str(getattr(agent, "library", ""))


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
            or provenance, or a link, a finished run was changed, or the agent fails to be one.
    """
    units = settings.units()
    encode_record(submission)  # refuses what cannot be read again before the first run
    if (folder / FILE).exists():
        with open_submission(folder) as stored:
            if stored.submission.name != submission.name:
                name = stored.submission.name
                raise ValueError(f"{folder} has the submission of {name}, not of {submission.name}: choose another one")
    for unit in units:
        _run_file(folder, unit)  # refuses links before the first run

    def write(unit: Unit, arrays: dict[str, NDArray[Any]]) -> dict[str, str]:
        path = _run_file(folder, unit)
        write_run(path, arrays)
        return {"sha256": _hash(path)}

    progress(0, len(units))
    own = {"agent_name": settings.agent, "max_steps": settings.max_steps, "every": settings.every}
    with closing(
        do_units(run_unit, units, folder, {**provenance, **own}, jobs=jobs, other_files=(FILE,), postprocess=write)
    ) as results:
        for done, (number, result) in enumerate(results, start=1):
            path = _run_file(folder, units[number])
            if not path.exists() or _hash(path) != result["sha256"]:
                raise ValueError(f"{path} is missing or was changed: remove {folder} and run again")
            progress(done, len(units))
    for task in TASKS:
        delete_temporary_files(subfolder(folder, task.name), ("seed-*.npz",))
    seeds = range(MAX_SEED + 1)
    paths = [folder / task.name / f"seed-{seed}.npz" for task in TASKS for seed in seeds]
    join_runs(folder / FILE, submission, [path for path in paths if path.exists()])


def _run_file(folder: Path, unit: Unit) -> Path:
    """Return the file of a run in a folder.

    Raises:
        ValueError: it is in a link.
    """
    return subfolder(folder, f"{unit['task']}/seed-{unit['seed']}.npz")


def _hash(path: Path) -> str:
    return hashlib.sha256(read_bounded(path, MAX_FILE_BYTES)).hexdigest()
