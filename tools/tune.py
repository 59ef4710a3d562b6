"""Chooses settings of the agents of the benchmark ttt-exact, one for all tasks: ``python
tools/tune.py --agents q-learning``.

tune.toml has the number of settings and their space. The default settings are the first, the others
are drawn from a seed. All settings learn in :data:`TASKS` with the first of :data:`SEEDS`; the best
quarter and the default settings learn with the others too, and the best mean score of these is
chosen. Every finished run is a line of ``benchmarks/tuning/AGENT/units.jsonl``: the same command
continues where it was stopped, and more settings can be tried later. What is chosen is written to
``benchmarks/tuning/chosen.json``, for ``evaluate.py bench run --settings``.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from msgspec import Struct, convert

from ttt_apps.cli.options import bar
from ttt_envs.core.checks import find_named, name_place
from ttt_envs.core.files import read_json, read_table, write_json
from ttt_envs.core.jit import Float64Array
from ttt_eval.benchmark.agents import agent_policy, load_agent
from ttt_eval.benchmark.runs import shorten, train_agent
from ttt_eval.benchmark.scoring import score_policies
from ttt_eval.benchmark.submission import StoredRun
from ttt_eval.benchmark.tasks import NUM_CHECKPOINTS, find_task
from ttt_eval.store.result_store import UNITS, Unit, collect_results
from ttt_eval.store.versions import make_provenance

TASKS = ("chance-25", "self-play-skip", "credit-3x4")
SEEDS = (100, 101, 102)
"""none of those of the scores"""
SHARE = 0.25
"""share of the settings that learn with all seeds"""
FAILED_SCORE = -1.0
"""of a run whose learning failed; 0 is random play"""
CHOSEN = "chosen.json"
Settings = dict[str, Any]
"""arguments of an agent that are not the default ones"""


class Range(Struct, frozen=True, forbid_unknown_fields=True):
    """A log-uniform distribution."""

    low: float
    high: float


class TuningPlan(Struct, frozen=True, forbid_unknown_fields=True):
    """How the settings of an agent are chosen."""

    settings: int
    """number of settings, the default ones among them"""
    steps: int
    """maximum environment steps of a run"""
    space: dict[str, list[Any] | Range]
    """values of each setting"""


class OutOfTime(Exception):  # noqa: N818  # what happened
    """The CPU time is spent, and runs are missing."""


PLANS: Mapping[str, TuningPlan] = convert(read_table(__file__), dict[str, TuningPlan])
"""Plans by agent."""


def draw_settings(plan: TuningPlan) -> list[Settings]:
    """Return the default settings and those drawn, each once. Each draw depends on its number and
    the space alone.
    """
    settings: dict[str, Settings] = {"{}": {}}
    for number in range(1, plan.settings):
        rng = np.random.default_rng(number)
        draws = {name: draw_value(values, rng) for name, values in plan.space.items()}
        settings[json.dumps(draws)] = draws
    return list(settings.values())


def draw_value(values: list[Any] | Range, rng: np.random.Generator) -> Any:
    """Return one of the values, or a number with three digits within a range."""
    if isinstance(values, Range):
        logarithm = rng.uniform(math.log(values.low), math.log(values.high))
        return float(f"{math.exp(logarithm):.3g}")
    return values[rng.integers(len(values))]


def measure(unit: Unit) -> dict[str, Any]:
    """Do one run.

    Returns:
        The ``score`` of the last policy, environment ``steps``, and ``cpu_s``; or the ``problem``
        that ended the learning, and :data:`FAILED_SCORE`.

    Raises:
        ValueError: there is no such agent, task or setting, or a setting is invalid.
    """
    task = shorten(find_task(unit["task"]), unit["steps"])
    seed = unit["seed"]
    with name_place(f"settings of {unit['agent']}", (TypeError,)):
        agent = load_agent(unit["agent"])(task, seed, **unit["settings"])
    try:
        arrays = train_agent(agent, task, seed, every=NUM_CHECKPOINTS)
    except ValueError as problem:  # such as a net that has diverged
        return {"score": FAILED_SCORE, "steps": unit["steps"], "problem": str(problem)}
    cost = json.loads(arrays[StoredRun(task, seed, ()).record].tobytes())["cost"]
    policies = [agent_policy(agent, task, game) for game in task.games]
    score = score_policies(task, policies).score
    return {"score": score, "steps": cost["steps"], "cpu_s": cost["cpu_s"]}


def measure_in_time(unit: Unit, deadline: float) -> dict[str, Any]:
    """Do one run, see :func:`measure`; raise OutOfTime if it begins after the deadline."""
    if time.process_time() >= deadline:
        raise OutOfTime
    return measure(unit)


def score_settings(
    agent: str,
    steps: int,
    settings: Sequence[Settings],
    seeds: Sequence[int],
    folder: Path,
    deadline: float,
) -> Float64Array:
    """Return the scores float64[settings, runs]. Runs that are not stored are done.

    Args:
        agent: its name.
        steps: maximum number of a run.
        settings: those to compare.
        seeds: each learns in :data:`TASKS` with each of them.
        folder: of the stored runs.
        deadline: CPU time of the process at which no further run begins.

    Raises:
        OutOfTime: a run is missing at the deadline.
        ValueError: see :func:`measure`.
    """
    units: list[Unit] = [
        {"agent": agent, "settings": choice, "task": task, "seed": seed, "steps": steps}
        for choice, seed, task in product(settings, seeds, TASKS)
    ]
    do_unit = partial(measure_in_time, deadline=deadline)
    with bar(agent) as progress:
        results = collect_results(do_unit, units, folder, {"agent": agent}, progress=progress)
    return np.array([result["score"] for result in results]).reshape(len(settings), -1)


def tune(agent: str, plan: TuningPlan, folder: Path, deadline: float = math.inf) -> dict[str, Any]:
    """Choose the settings of an agent.

    Args:
        agent: its name.
        plan: its plan.
        folder: of the stored runs.
        deadline: see :func:`score_settings`.

    Returns:
        What the file of chosen settings says of it: ``settings``; ``tuning_steps``, those of all
        stored runs; and mean scores.

    Raises:
        OutOfTime, ValueError: see :func:`score_settings`.
    """
    settings = draw_settings(plan)
    scores = score_settings(agent, plan.steps, settings, SEEDS[:1], folder, deadline)
    order = np.argsort(-scores.mean(axis=1), kind="stable")
    best = order[: math.ceil(SHARE * len(settings))]
    finalists = sorted({0, *best.tolist()})
    more_scores = score_settings(
        agent, plan.steps, [settings[row] for row in finalists], SEEDS[1:], folder, deadline
    )
    all_scores = np.column_stack([scores[finalists], more_scores])
    means = all_scores.mean(axis=1)
    choice = int(means.argmax())
    lines = (folder / UNITS).read_text().splitlines()[1:]
    return {
        "settings": settings[finalists[choice]],
        "tuning_steps": sum(json.loads(line)["result"]["steps"] for line in lines),
        "mean_score": means[choice],
        "mean_score_of_default": means[0],
        "runs_of_a_mean": all_scores.shape[1],
        "settings_tried": len(settings),
        "tasks": TASKS,
        "seeds": SEEDS,
        "steps": plan.steps,
        "command": f"python tools/tune.py --agents {agent}",
        "provenance": make_provenance(),
    }


def main(
    *,
    agents: tuple[str, ...] = tuple(PLANS),
    cpu_minutes: float = math.inf,
    out: Path = Path("benchmarks", "tuning"),
) -> None:
    """Choose settings of agents.

    Args:
        agents: their names.
        cpu_minutes: CPU time after which no further run begins.
        out: folder of the runs and of the chosen settings.
    """
    deadline = time.process_time() + 60 * cpu_minutes
    plans = {agent: find_named("plan of an agent", agent, PLANS) for agent in agents}
    for agent, plan in plans.items():
        try:
            choice = tune(agent, plan, out / agent, deadline)
        except OutOfTime:
            print(f"{agent}: the time is spent; the same command continues")
            return
        chosen = read_json(out / CHOSEN) if (out / CHOSEN).exists() else {}
        write_json(out / CHOSEN, {**chosen, agent: choice})
        print(f"{agent}: {choice['settings']}")


if __name__ == "__main__":
    tyro.cli(main)
