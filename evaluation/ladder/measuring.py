"""A ladder is measured: all that its plan names meet each other, and their ratings are written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from evaluation.cost import cost_of_moves, processor
from evaluation.ladder.kept import Ladder, read_ladder, sha256_of
from evaluation.ladder.plans import ANCHOR, Plan
from evaluation.ladder.results import CONFIDENCE, check_games, made, result_of, seed_of, strength_of, weights_of
from evaluation.statistics import Interval
from evaluation.tournament import DRAWS, bradley_terry
from evaluation.units import Unit, do_units
from ttt_envs.files import write_json
from ttt_envs.parallel import Jobs
from ttt_envs.rules import Game


def measure_ladder(
    name: str,
    plan: Plan,
    folder: Path,
    made_by: Mapping[str, Any],
    *,
    jobs: Jobs = 1,
    progress: Callable[[int, int], None] | None = None,
) -> Ladder:
    """Measure a ladder, and write it to ``NAME.json`` in a folder.

    Every result is kept there as soon as it is known: killed at any time, the same call goes on. All but what moves
    cost is the same however many work. Costs are measured at the end, by one process at a time.

    Args:
        name: of the ladder.
        plan: what it is measured from.
        folder: where results are kept.
        made_by: JSON-ready: versions and code; results that something else made are thrown away.
        jobs: who works.
        progress: called with how many pieces of work are done, and how many there are.

    Raises:
        ValueError: a number of games that makes no pairs; another process that works in the folder.
    """
    check_games(plan.games, least=0)
    rungs = plan.rungs
    pairings = list(combinations(range(len(rungs)), 2))
    found = _all_measured(name, plan, pairings, folder, made_by, jobs, progress or (lambda done, total: None))
    met, strengths, costs = found[: len(pairings)], found[len(pairings) : -len(rungs)], found[-len(rungs) :]
    graded = dict(zip(plan.graded, strengths, strict=True))
    ratings = _round_robin(len(rungs), pairings, met, rungs.index(ANCHOR), exact=plan.games == 0)
    order = sorted(range(len(rungs)), key=lambda i: ratings[i].mean)
    place_of = {rung: place for place, rung in enumerate(order)}
    data: dict[str, Any] = {
        "format": 1,
        "kind": "rungs",
        "name": name,
        "game": plan.game.to_dict(),
        "anchor": ANCHOR,
        "games": plan.games,
        "seed": plan.seed,
        "command": f"evaluate.py ladder --measure {name}",
        "made_by": dict(made_by),
        "processor": processor(),
        "rungs": [
            {
                "spec": rungs[i],
                "rating": ratings[i].mean,
                "low": ratings[i].low,
                "high": ratings[i].high,
                **graded.get(rungs[i], {"exploitability": None, "regret": None}),
                "cost": costs[i],
            }
            for i in order
        ],
        "results": [
            {"a": place_of[i], "b": place_of[j], **result} for (i, j), result in zip(pairings, met, strict=True)
        ],
    }
    write_json(folder / f"{name}.json", {**data, "sha256": sha256_of(data)})
    return read_ladder(folder / f"{name}.json")


def _all_measured(
    name: str,
    plan: Plan,
    pairings: Sequence[tuple[int, int]],
    folder: Path,
    made_by: Mapping[str, Any],
    jobs: Jobs,
    progress: Callable[[int, int], None],
) -> list[dict[str, Any]]:
    """What is measured: of each pairing the result, of who is graded the strength, of each rung what its moves cost."""
    described = plan.game.to_dict()
    units: list[dict[str, Any]] = [
        {
            "what": "pairing",
            "game": described,
            "players": [plan.rungs[i], plan.rungs[j]],
            "games": plan.games,
            "seed": seed_of(plan.seed, number),
        }
        for number, (i, j) in enumerate(pairings)
    ]
    units += [{"what": "strength", "game": described, "policy": spec} for spec in plan.graded]
    costs: list[dict[str, Any]] = [{"what": "cost", "game": described, "policy": spec} for spec in plan.rungs]
    total = len(units) + len(costs)
    progress(0, total)
    found: dict[int, dict[str, Any]] = {}
    for place, work, workers in ((folder, units, jobs), (folder / "costs", costs, 1)):
        before = len(found)
        with closing(do_units(_measure, work, place, made_by, jobs=workers, others=(f"{name}.json",))) as results:
            for number, result in results:
                found[before + number] = result
                progress(len(found), total)
    return [found[number] for number in range(total)]


def _measure(unit: Unit) -> dict[str, Any]:
    """A piece of work of :func:`measure_ladder`."""
    game = Game.from_dict(unit["game"])
    if unit["what"] == "pairing":
        a, b = unit["players"]
        return result_of(game, a, b, unit["games"], unit["seed"])
    if unit["what"] == "strength":
        return strength_of(game, made(game, unit["policy"]))
    cost_of_moves(game, unit["policy"])  # what is compiled is kept on disk, and is no part of the cost
    return cost_of_moves(game, unit["policy"])[0]._asdict()


def _round_robin(
    count: int, pairings: Sequence[tuple[int, int]], met: Sequence[Mapping[str, Any]], anchor: int, *, exact: bool
) -> list[Interval]:
    pairs = np.zeros((count, count, 5))
    for (i, j), result in zip(pairings, met, strict=True):
        pairs[i, j] = weights_of(result)
    found = bradley_terry(pairs, anchor=anchor, confidence=CONFIDENCE, draws=1 if exact else DRAWS)
    return [Interval(one.mean, one.mean, one.mean) for one in found] if exact else found
