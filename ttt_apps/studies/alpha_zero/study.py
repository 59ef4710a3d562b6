"""The study of AlphaZero with chance nodes, in three parts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from evaluation.result_store import Unit
from evaluation.study import Report, Study
from ttt_apps.studies.alpha_zero import ablation, curves, proved_positions

PARTS = {module.PART: module for module in (curves, ablation, proved_positions)}


def units(quick: bool) -> list[Unit]:
    """Return the units of all parts."""
    return [unit for module in PARTS.values() for unit in module.units(quick)]


def measure(unit: Unit) -> Any:
    """Do a unit by the function of its part."""
    return PARTS[unit["part"]].measure(unit)


def analyse(results: Sequence[tuple[Unit, Any]]) -> Report:
    """Combine the findings of the available parts."""
    found = {}
    for name, module in PARTS.items():
        mine = [(unit, result) for unit, result in results if unit["part"] == name]
        if mine:
            found[name] = module.analyse(mine)
    return Report(
        list(chain.from_iterable(one.rows for one in found.values())),
        list(chain.from_iterable(one.claims for one in found.values())),
        {name: draw for one in found.values() for name, draw in one.pictures.items()},
        ours="measured",
        data={name: one.data for name, one in found.items()},
    )


STUDY = Study(
    title="AlphaZero with chance",
    source="this suite's own",
    about=(
        "Games against itself with the settings that each learner has by default, five seeds; on 4 x 4 with skips "
        "q-learning has room for a larger table, and alpha-zero remembers 150,000 positions. CPU seconds are those of "
        "the steps of training, user and system, in one process: without imports, compiling and the measurements. "
        "Exploitability is exact; for good means at every mark from there to the end; numbers of several runs are the "
        "median (and the range). Runs are called sooner, later, better or worse than others where the exact test of "
        "ranks says so at 5%, else it is undecided. On the larger boards a net learns for five CPU minutes; mcts has "
        "the simulations, and expectiminimax the least depth, that take no less CPU for a move than alpha-zero, asked "
        "for one position at a time; a player keeps the result of a proved position where its move, or the end of its "
        "game, is no worse than is proved; intervals are 95%."
    ),
    units=units,
    measure=measure,
    analyse=analyse,
    left_out="most seeds, games, variants and positions, 4 x 4, 6 x 6 and 7 x 7",
    parts={
        curves.PART: "exploitability by games and CPU seconds, beside q-learning and q-net",
        ablation.PART: "ablation of its parts",
        proved_positions.PART: "boards of which only single positions are proved",
    },
)
