"""The study of AlphaZero with chance nodes, in three parts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain
from typing import Any

from ttt_apps.studies.alpha_zero import ablation, curves, proved_positions
from ttt_eval.reports.formats import join_names
from ttt_eval.result_store import Unit
from ttt_eval.study import Caption, Report, Row, Study, read_intervals, read_numbers

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


LEARNERS = ("alpha-zero", "q-learning", "q-net")
"""Learners of the curves."""
THOUGHT = "alpha-zero, 32 simulations"
"""The player of the answer on larger boards."""


def _rows_of_learner(report: Report, learner: str) -> dict[str, list[Row]]:
    """Return the rows of a learner's curves by board, each with every skip chance."""
    found: dict[str, list[Row]] = {}
    for row in report.rows:
        if re.fullmatch(rf"\d+ x \d+, skip [\d.]+: {learner}", row.what):
            found.setdefault(row.what.partition(",")[0], []).append(row)
    return found


def _count_runs(rows: Sequence[Row]) -> tuple[int, int]:
    """Return how many of the runs play perfectly at the end, and how many runs there are."""
    pairs = [re.search(r"; 0 in (\d+) of (\d+)", row.exact) for row in rows]
    return sum(int(one[1]) for one in pairs if one), sum(int(one[2]) for one in pairs if one)


def _answer_cpu(report: Report) -> str:
    parts: dict[str, list[str]] = {}
    for learner in LEARNERS:
        for board, rows in _rows_of_learner(report, learner).items():
            arrived, medians = 0, []
            for row in rows:
                if found := re.search(r"for good (?:in (\d+) of \d+ runs )?after ([\d.]+)", row.ours):
                    arrived += int(found[1] or _count_runs([row])[1])
                    medians.append(found[2])
            low, high = min(medians, key=float, default=""), max(medians, key=float, default="")
            times = low if low == high else f"{low} to {high}"
            said = f"after {times} CPU seconds in {arrived} of {_count_runs(rows)[1]} runs" if medians else "never"
            parts.setdefault(board, []).append(f"{learner} {said}")
    boards = "; ".join(f"on {board} {', '.join(found)}" for board, found in parts.items())
    return f"Below 0.01 for good, medians by skip chance: {boards}."


def _answer_games(report: Report) -> str:
    parts: dict[str, list[str]] = {}
    for learner in LEARNERS:
        for board, rows in _rows_of_learner(report, learner).items():
            perfect, runs = _count_runs(rows)
            games = sorted({int(read_numbers(row.ours)[0].replace(",", "")) for row in rows})
            most = " to ".join(f"{number:,}" for number in dict.fromkeys((games[0], games[-1])))
            parts.setdefault(board, []).append(f"{learner} in {perfect} of {runs} runs of {most} games")
    boards = "; ".join(f"on {board} {', '.join(found)}" for board, found in parts.items())
    return f"Perfect at the end: {boards}."


def _answer_ablation(report: Report) -> str:
    sooner, others = [], []
    for claim in report.claims:
        if part := re.fullmatch(r"with (.*) play is below 0.01 for good after less CPU", claim.words):
            # a part of the evidence is a game: its times with the verdict, then the exploitability at the end with its
            verdicts = re.findall(r"(\d+ x \d+, skip [\d.]+): (.*?\((yes|no|undecided)\)); at the end", claim.evidence)
            games = [game for game, _, holds in verdicts if holds == "yes"]
            if games:
                sooner.append(f"{part[1]} ({'; '.join(games)})")
            else:
                others.append(part[1])
    first = f"Runs are sooner below 0.01 for good with {', '.join(sooner)}." if sooner else ""
    return f"{first} No game shows it for {join_names(others)}.".lstrip() if others else first


def _answer_proved(report: Report) -> str:
    shares, fewer, searches = [], 0, 0
    for row in report.rows:
        board, _, player = row.what.partition(": ")
        if player == THOUGHT and "skip" not in board:
            [own] = read_intervals(row.exact)
            shares.append(f"{own.mean:.1%} on {board}")
            found = [read_intervals(one.exact)[0] for one in report.find_rows(board) if f", for {THOUGHT}" in one.what]
            fewer, searches = fewer + sum(one.high < own.low for one in found), searches + len(found)
    searched = f"{fewer} of {searches} searches that take as long do so significantly less often"
    return f"With 32 simulations in {join_names(shares)} of positions; {searched}."


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
            _answer_cpu,
            "Thin lines are seeds, thick lines with marks their medians.",
        ),
        "alpha-zero-games": Caption(
            "How many games until AlphaZero plays perfectly, and the others?",
            _answer_games,
            "Thin lines are seeds, thick lines with marks their medians.",
        ),
        "alpha-zero-ablation": Caption(
            "Which parts of AlphaZero make it learn fast?",
            _answer_ablation,
            "Circles are runs with default settings, squares those without a part or with another number; bars "
            "are medians. The dashed line stands for never.",
        ),
        "alpha-zero-proved": Caption(
            "How often does AlphaZero keep a proved result on larger boards?",
            _answer_proved,
            "Diamonds are AlphaZero, circles the searches, with 95% intervals.",
        ),
    },
)
