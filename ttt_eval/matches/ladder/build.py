"""Measurement of a ladder: a round robin of its rungs, from which their ratings follow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from ttt_envs.core.files import subfolder, write_json
from ttt_envs.core.parallel import Jobs
from ttt_envs.game.game import Game
from ttt_eval.cost import processor
from ttt_eval.exact.policy_cache import make_policy_once
from ttt_eval.exact.strength import strength
from ttt_eval.matches.ladder.files import Ladder, read_ladder
from ttt_eval.matches.ladder.plans import ANCHOR, LadderPlan
from ttt_eval.matches.ladder.results import (
    CONFIDENCE,
    check_games,
    pair_weights,
    pairing_seed,
    play_pairing,
)
from ttt_eval.matches.move_cost import measure_move_costs
from ttt_eval.matches.tournament import DRAWS, bradley_terry
from ttt_eval.metrics import LOSSES
from ttt_eval.result_store import Unit, collect_results, hash_data
from ttt_eval.statistics import Interval


def measure_ladder(
    name: str,
    plan: LadderPlan,
    folder: Path,
    provenance: Mapping[str, Any],
    *,
    jobs: Jobs = 1,
    progress: Callable[[int, int], None] | None = None,
) -> Ladder:
    """Measure a ladder, and write it to ``NAME.json`` in a folder.

    Every result is stored there as soon as it is known: after a kill, the same call resumes. Except for the costs of
    moves, results do not depend on the number of workers. Costs are measured at the end, by one process at a time.

    Args:
        name: of the ladder.
        plan: the plan of the ladder.
        folder: folder of the results.
        provenance: JSON-ready: versions and code; the same at every call.
        jobs: the workers.
        progress: called with the number of units done, and the total.

    Raises:
        ValueError: an invalid number of games; another process that works in the folder.
    """
    check_games(plan.games, least=0)
    rungs = plan.rungs
    pairings = list(combinations(range(len(rungs)), 2))
    units, cost_units = _units(plan, pairings)
    total = len(units) + len(cost_units)
    tell, other_files = progress or (lambda done, total: None), (f"{name}.json",)
    found = collect_results(
        _measure,
        units,
        folder,
        provenance,
        jobs=jobs,
        other_files=other_files,
        progress=lambda done, _: tell(done, total),
    )
    costs = collect_results(
        _measure, cost_units, subfolder(folder, "costs"), provenance, other_files=other_files,
        progress=lambda done, _: tell(len(units) + done, total),
    )  # fmt: skip
    met, strengths = found[: len(pairings)], found[len(pairings) :]
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
        "provenance": dict(provenance),
        "processor": processor(),
        "rungs": [
            {
                "spec": rungs[i],
                "rating": ratings[i].mean,
                "low": ratings[i].low,
                "high": ratings[i].high,
                **dict.fromkeys(LOSSES),
                **graded.get(rungs[i], {}),
                "cost": costs[i],
            }
            for i in order
        ],
        "results": [
            {"a": place_of[i], "b": place_of[j], **result} for (i, j), result in zip(pairings, met, strict=True)
        ],
    }
    write_json(folder / f"{name}.json", {**data, "sha256": hash_data(data)})
    return read_ladder(folder / f"{name}.json")


def _units(plan: LadderPlan, pairings: Sequence[tuple[int, int]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the units of the pairings and of the strengths of the graded rungs, and those of the costs of moves."""
    game = plan.game.to_dict()
    units: list[dict[str, Any]] = [
        {
            "what": "pairing",
            "game": game,
            "players": [plan.rungs[i], plan.rungs[j]],
            "games": plan.games,
            "seed": pairing_seed(plan.seed, number),
        }
        for number, (i, j) in enumerate(pairings)
    ]
    units += [{"what": "strength", "game": game, "policy": spec} for spec in plan.graded]
    return units, [{"what": "cost", "game": game, "policy": spec} for spec in plan.rungs]


def _measure(unit: Unit) -> dict[str, Any]:
    """Do one unit of work of :func:`measure_ladder`."""
    game = Game.from_dict(unit["game"])
    if unit["what"] == "pairing":
        a, b = unit["players"]
        return play_pairing(game, a, b, unit["games"], unit["seed"])
    if unit["what"] == "strength":
        return strength(game, make_policy_once(game, unit["policy"]), ()).measures
    measure_move_costs(game, unit["policy"])  # compiled code is cached on disk and is not part of the cost
    return measure_move_costs(game, unit["policy"])[0]._asdict()


def _round_robin(
    count: int, pairings: Sequence[tuple[int, int]], met: Sequence[Mapping[str, Any]], anchor: int, *, exact: bool
) -> list[Interval]:
    pairs, precision = np.zeros((count, count, 5)), np.zeros((count, count))
    for (i, j), result in zip(pairings, met, strict=True):
        pairs[i, j], precision[i, j] = pair_weights(result)
    draws = 1 if exact else DRAWS
    found = bradley_terry(pairs, anchor=anchor, precision=precision, confidence=CONFIDENCE, draws=draws)
    return [Interval(one.mean, one.mean, one.mean) for one in found] if exact else found
