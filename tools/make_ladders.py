"""Makes the ladders of ``ttt_eval/data/ladders``.

``python tools/make_ladders.py 3x3 --jobs 2 --out runs/ladders`` plays a round robin of a ladder's
rungs, rates them and measures the costs of their moves. Without names it takes all ladders. After a
kill, the same command resumes. Copy the files from the folder of ``--out``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import tyro
from msgspec import convert
from msgspec.structs import asdict

from ttt_envs.core.files import read_table, write_json
from ttt_envs.core.parallel import Jobs
from ttt_envs.game.game import Game
from ttt_eval.exact.policy_cache import make_policy_once
from ttt_eval.exact.strength import strength
from ttt_eval.matches.ladder import (
    ANCHOR,
    LADDERS,
    Ladder,
    Pairing,
    check_games,
    pairing_seed,
    play_pairing,
    rate_rungs,
    read_ladder,
)
from ttt_eval.matches.move_cost import measure_move_costs
from ttt_eval.store.cost import processor
from ttt_eval.store.metrics import LOSSES
from ttt_eval.store.result_store import Unit, collect_results, with_hash
from ttt_eval.store.versions import make_provenance


@dataclass(frozen=True)
class LadderPlan:
    """Definition of a ladder.

    Attributes:
        game: the game.
        rungs: spec strings, ``random`` first.
        games: of each pairing, an even number; 0 where all results are exact.
        graded: the rungs whose exploitability and regret are computed.
        seed: seed of all random numbers.
    """

    game: Game
    rungs: Sequence[str]
    games: int
    graded: Sequence[str]
    seed: int = 1


PLANS: Mapping[str, LadderPlan] = {
    name: LadderPlan(LADDERS[name], **plan) for name, plan in read_table(__file__).items()
}
"""Plans of the ladders by name."""


def measure_ladder(
    name: str, plan: LadderPlan, folder: Path, provenance: Mapping[str, Any], *, jobs: Jobs = 1
) -> Ladder:
    """Measure a ladder, and write it to ``NAME.json`` in a folder.

    Every result is stored there as soon as it is known: after a kill, the same call resumes. Except
    for the costs of moves, results do not depend on the number of workers. Costs are measured at
    the end, by one process at a time.

    Args:
        name: of the ladder.
        plan: the plan of the ladder.
        folder: folder of the results.
        provenance: JSON-ready: versions and code; the same at every call.
        jobs: the workers.

    Raises:
        ValueError: an invalid number of games; another process that works in the folder.
    """
    check_games(plan.games, min_games=0)
    rungs = plan.rungs
    game = plan.game.to_dict()
    own = (f"{name}.json",)
    pairings = list(combinations(range(len(rungs)), 2))
    units: list[Unit] = [
        {
            "game": game,
            "players": [rungs[i], rungs[j]],
            "games": plan.games,
            "seed": pairing_seed(plan.seed, number),
        }
        for number, (i, j) in enumerate(pairings)
    ]
    units += [{"game": game, "graded": spec} for spec in plan.graded]
    all_results = collect_results(_measure, units, folder, provenance, jobs=jobs, other_files=own)
    cost_units: list[Unit] = [{"game": game, "costed": spec} for spec in rungs]
    costs = collect_results(_measure, cost_units, folder / "costs", provenance)
    results = dict(zip([*pairings, *plan.graded], all_results, strict=True))
    pairing_results = {pairing: convert(results[pairing], Pairing) for pairing in pairings}
    ratings = rate_rungs(
        pairing_results, len(rungs), exact=plan.games == 0, anchor=rungs.index(ANCHOR)
    )
    order = sorted(range(len(rungs)), key=lambda i: ratings[i].mean)
    data: dict[str, Any] = {
        "name": name,
        "game": game,
        "anchor": ANCHOR,
        "games": plan.games,
        "seed": plan.seed,
        "command": f"python tools/make_ladders.py {name}",
        "provenance": dict(provenance),
        "processor": processor(),
        "rungs": [
            {
                "spec": rungs[i],
                **dict(zip(("rating", "low", "high"), ratings[i], strict=True)),
                **dict.fromkeys(LOSSES),
                **results.get(rungs[i], {}),
                "cost": costs[i],
            }
            for i in order
        ],
        "results": [
            {"a": order.index(i), "b": order.index(j), **results[i, j]} for i, j in pairings
        ],
    }
    write_json(folder / f"{name}.json", with_hash("rungs", data))
    return read_ladder(folder / f"{name}.json")


def _measure(unit: Unit) -> dict[str, Any]:
    """Do one unit of work of :func:`measure_ladder`."""
    game = Game.from_dict(unit["game"])
    if "players" in unit:
        a, b = unit["players"]
        return play_pairing(game, a, b, unit["games"], unit["seed"])
    if "graded" in unit:
        return strength(game, make_policy_once(game, unit["graded"]), ()).measures
    # compiled code is cached on disk and is not part of the cost
    measure_move_costs(game, unit["costed"])
    return asdict(measure_move_costs(game, unit["costed"])[0])


def main(
    names: tyro.conf.Positional[tuple[str, ...]] = tuple(PLANS),
    *,
    out: Path = Path("runs", "ladders"),
    jobs: int = 1,
) -> None:
    """Measure ladders.

    Args:
        names: of the ladders.
        out: folder of the files.
        jobs: number of processes.
    """
    for name in names:
        measure_ladder(name, PLANS[name], out / name, make_provenance(), jobs=jobs)
        print(f"written: {out / name / name}.json")


if __name__ == "__main__":
    tyro.cli(main)
