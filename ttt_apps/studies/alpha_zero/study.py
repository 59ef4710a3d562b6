"""The study of AlphaZero with chance nodes, in three parts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from evaluation.result_store import Unit
from evaluation.study import Caption, Report, Study
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
    title="AlphaZero with chance nodes",
    source="our own study",
    about=(
        "All learners train by self-play with their default settings, five seeds. On 4 x 4 with skips q-learning has "
        "room for a larger table, and the replay buffer of alpha-zero holds 150,000 positions. CPU seconds are those "
        "of the training steps, user and system, in one process, without imports, compilation and measurements. "
        "Exploitability is exact. For good means at a mark and at every later one; if its time is that of the whole "
        "training, it is the last mark alone. Numbers of several runs are the median (and the range). Goals are "
        "statements on the seeds trained. Runs are called sooner, later, better or worse than others if the exact "
        "rank test says so at 5%, else undecided. On the larger boards a network trains for five CPU minutes. "
        "mcts has the number of "
        "simulations, and expectiminimax the smallest depth, that take no less CPU per move than alpha-zero, for one "
        "position at a time. A player keeps the result of a proved position if its move, or the end of its game, is "
        "no worse than the proved result. Intervals are 95%."
    ),
    units=units,
    measure=measure,
    analyse=analyse,
    left_out="most seeds, games, variants and positions, 4 x 4, 6 x 6 and 7 x 7",
    parts={
        curves.PART: "exploitability by games and CPU seconds, beside q-learning and q-net",
        ablation.PART: "ablation of its parts",
        proved_positions.PART: "boards with proved positions only",
    },
    captions={
        "alpha-zero-cpu": Caption(
            "How much CPU time until AlphaZero plays perfectly, and the others?",
            "On 3 x 3 it is below 0.01 for good after 0.5 to 0.8 s (medians); q-learning needs 0.1 to 0.7 s. On 4"
            " x 4 without skips it takes 5 s, q-learning does not arrive in 300,000 games, and q-net takes 45 s "
            "in four of five runs.",
            "Thin lines are seeds, thick lines with marks their medians.",
        ),
        "alpha-zero-games": Caption(
            "How many games until AlphaZero plays perfectly, and the others?",
            "Fewer than q-net on every board where it arrives. q-learning, measured from some 10,000 games on, "
            "learns 3 x 3, but not 4 x 4 in 300,000 games.",
            "Thin lines are seeds, thick lines with marks their medians.",
        ),
        "alpha-zero-ablation": Caption(
            "Which parts of AlphaZero make it learn fast?",
            "Chance nodes, without which no run stays below 0.01 with skips; symmetries, without which none does "
            "on 4 x 4; on 3 x 3 random moves; and with skips and on 4 x 4 the Gumbel search. On lines and "
            "TD(lambda) five runs are undecided.",
            "Circles are runs with default settings, squares those without a part or with another number; bars "
            "are medians. The dashed line stands for never.",
        ),
        "alpha-zero-proved": Caption(
            "How often does AlphaZero keep a proved result on larger boards?",
            "With 32 simulations in 95%, 98% and 90% of positions on 5 x 5, 6 x 6 and 7 x 7, more often than "
            "searches that take as long.",
            "Diamonds are AlphaZero, circles the searches, with 95% intervals.",
        ),
    },
)
