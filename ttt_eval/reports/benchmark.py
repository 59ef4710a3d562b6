"""The page of the benchmark: leaderboard, axes, tasks, profiles, pairs of submissions, and score by cost."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from ttt_eval.benchmark.comparison import THRESHOLDS, Comparison, Entry, ScoredSubmission
from ttt_eval.benchmark.tasks import TASKS, VERSION
from ttt_eval.matches.ladder.rate import pareto_front
from ttt_eval.reports.curves import MAX_GROUPS, embed_figure
from ttt_eval.reports.formats import format_ends, format_interval, mebibytes
from ttt_eval.reports.html import Content, Shaded, interval_bar, macro, section, write_page
from ttt_eval.reports.plots import (
    SERIES,
    STYLES,
    CostPoint,
    IntervalRow,
    Line,
    curves_size,
    draw_curves,
    draw_intervals,
    draw_pareto_front,
    draw_radar,
    figure_size,
    radar_size,
)
from ttt_eval.statistics import Interval

MAX_HASHES = 500
"""Maximum number of runs whose table is listed by its hash."""


class Reversal(NamedTuple):
    """Two submissions that win rate against random play and exact score order differently."""

    task: str
    better: str
    """by the score"""
    worse: str


def write_benchmark(page: Path, comparison: Comparison, sources: Sequence[Path], tasks: Sequence[str] = ()) -> Path:
    """Write the page of submissions.

    Args:
        page: path of the page.
        comparison: of the submissions.
        sources: the arguments of the command, to repeat it.
        tasks: those of its option ``--task``.

    Returns:
        The page's path.
    """
    return write_page(page, "benchmark.html", benchmark_page(comparison, sources, page, tasks))


def benchmark_page(comparison: Comparison, sources: Sequence[Path], page: Path, tasks: Sequence[str] = ()) -> Content:
    """Return the content of the page; arguments as in :func:`write_benchmark`."""
    return {
        "title": f"Benchmark ttt-exact {VERSION}",
        "notes": comparison.notes,
        "answer": section(partial(_answer, comparison)),
        "axes": section(partial(_axes, comparison)),
        "tasks": section(partial(_tasks, comparison)),
        "profiles": section(partial(_profiles, comparison)),
        "pairs": section(partial(_pairs, comparison)),
        "cost": section(partial(_cost, comparison)),
        "misleading": section(partial(_misleading, comparison)),
        "tables": section(partial(_tables, comparison)),
        "command": shlex.join([*report_command(sources, tasks), "--out", str(page)]),
    }


def report_command(sources: Sequence[Path], tasks: Sequence[str] = ()) -> list[str]:
    """Return the words of the command of a report, without its outputs."""
    return ["python", "evaluate.py", "bench", "report", *map(str, sources), *(["--task", *tasks] if tasks else [])]


def leaderboard_markdown(comparison: Comparison, command: Sequence[str]) -> str:
    """Return the leaderboard and mean scores of tasks in Markdown.

    Args:
        comparison: of the submissions.
        command: the words of the command that writes it.
    """
    lines = [f"`{shlex.join(command)}`", ""]
    lines += [f"{len(comparison.tasks)} of {len(TASKS)} tasks; intervals are of a bootstrap.", *comparison.notes, ""]
    lines += [
        "| submission | setting | interquartile mean | mean | optimality gap | CPU of a run | peak memory | seeds |",
        "|---" * 8 + "|",
    ]
    for one in comparison.entries:
        numbers = [format_interval(value, _format) for value in (one.interquartile_mean, one.mean, one.optimality_gap)]
        cost = " | ".join(_cost_texts(one.submission))
        name = _escape_markdown(one.name)
        lines.append(f"| {name} | {one.submission.setting} | {' | '.join(numbers)} | {cost} | {len(one.scores)} |")
    names = [_escape_markdown(one.name) for one in comparison.submissions]
    lines += ["", _about_means(comparison), "", f"| task | {' | '.join(names)} |", "|---" * (1 + len(names)) + "|"]
    lines += [f"| {task} | {' | '.join(cells)} |" for task, cells in _mean_rows(comparison)]
    return "\n".join(lines) + "\n"


def _about_means(comparison: Comparison) -> str:
    """Describe the numbers of the table of tasks."""
    text = "Means over seeds of each task."
    if any("(n = " in cell for _, cells in _mean_rows(comparison) for cell in cells):
        text += " n is the number of seeds where it is another one than on the leaderboard."
    if any(one is None for means in comparison.task_means().values() for one in means):
        text += " A dash is a task without runs."
    return text


def replace_section(page: str, section: str, text: str) -> str:
    """Return a page of Markdown with a section replaced.

    The section begins with the line ``<!-- bench report: SECTION -->``, and ends with ``<!-- until here -->``.

    Raises:
        ValueError: the page has no such section.
    """
    begin, end = f"<!-- bench report: {section} -->\n", "<!-- until here -->"
    before, found, rest = page.partition(begin)
    _, ended, after = rest.partition(end)
    if not found or not ended:
        raise ValueError(f"the page has no section {section}: it begins with {begin.strip()}, and ends with {end}")
    return f"{before}{begin}\n{text}\n{end}{after}"


def _escape_markdown(text: str) -> str:
    return "".join(f"\\{letter}" if letter in "\\`*_[]<>|" else letter for letter in text)


def describe_leader(comparison: Comparison) -> str:
    """Name the best submission, as far as intervals decide it."""
    first, *others = comparison.entries
    value = f"interquartile mean {format_interval(first.interquartile_mean, _format)}"
    if not others:
        return f"{first.name}: {value}"
    open_ = comparison.undecided()
    if not open_:
        second = format_interval(others[0].interquartile_mean, _format)
        return f"{first.name} is best of {len(comparison.entries)}: {value}; next {others[0].name}, {second}"
    rest = f"{len(open_)} {'other is' if len(open_) == 1 else 'others are'} not distinguished from it"
    return f"Undecided: {first.name} came out first of {len(comparison.entries)}, {value}, and {rest}"


def find_reversals(comparison: Comparison) -> tuple[list[Reversal], int]:
    """Return the pairs of submissions that win rate and score order differently, and the number of all pairs.

    A pair is two submissions on a task, of which both win rates against random play are known. The score of a task
    is the mean over runs.
    """
    found, pairs = [], 0
    for column, task in enumerate(comparison.tasks):
        for one, other in itertools.combinations(comparison.entries, 2):
            wins = [entry.submission.win_random(task) for entry in (one, other)]
            if wins[0] is None or wins[1] is None:
                continue
            pairs += 1
            lead = float(one.scores[:, column].mean() - other.scores[:, column].mean())
            if lead * (wins[0] - wins[1]) < 0:
                names = (one.name, other.name) if lead > 0 else (other.name, one.name)
                found.append(Reversal(task, *names))
    return found, pairs


def _format(value: float) -> str:
    return f"{round(value, 3) + 0.0:.3f}"  # no negative zero


def _cost_texts(submission: ScoredSubmission) -> tuple[str, str]:
    """Return CPU seconds of an average run and peak memory, "" where unknown."""
    cpu, memory = submission.cpu_s, submission.peak_rss_bytes
    return "" if cpu is None else f"{cpu:,.1f} s", "" if memory is None else mebibytes(memory)


def _bar(value: Interval, low: float = 0.0, high: float = 1.0) -> object:
    ends = format_ends(value, _format) if value.low < value.high else ""
    return macro("measure", _format(value.mean), ends, interval_bar(value, low, high))


def _answer(comparison: Comparison) -> Content:
    rows = [
        (
            one.name,
            one.submission.setting,
            _bar(one.interquartile_mean),
            _bar(one.mean),
            _bar(one.optimality_gap),
            *_cost_texts(one.submission),
            f"{len(one.scores)}",
        )
        for one in comparison.entries
    ]
    chart = [IntervalRow(one.name, one.interquartile_mean) for one in comparison.entries]
    label = "; ".join(f"{one.name} {format_interval(one.interquartile_mean, _format)}" for one in comparison.entries)
    draw = draw_intervals(chart, "interquartile mean of exact scores", 0.0)
    return {
        "verdict": describe_leader(comparison),
        "tasks": f"{len(comparison.tasks)} of {len(TASKS)}",
        "head": [
            *("submission", "setting", "interquartile mean", "mean", "optimality gap"),
            *("CPU of a run", "peak memory", "seeds"),
        ],
        "rows": rows,
        "chart": embed_figure(draw, "leaderboard", f"Interquartile means: {label}.", figure_size(len(chart))),
    }


def _axes(comparison: Comparison) -> Content:
    names = list(comparison.entries[0].axes)
    rows = [(one.name, *(_bar(one.axes[axis]) for axis in names)) for one in comparison.entries]
    figure = ""
    if len(names) > 2:
        lines = [
            Line(one.name, [], [one.axes[axis].mean for axis in names], *_style(index))
            for index, one in enumerate(comparison.entries[:MAX_GROUPS])
        ]
        label = "Radar of the axes; the numbers are those of the table."
        figure = embed_figure(draw_radar(names, lines), "axes", label, radar_size(lines))
    return {"head": ["submission", *names], "rows": rows, "figure": figure}


def _style(index: int) -> tuple[str, str]:
    return SERIES[index % len(SERIES)], STYLES[index // len(SERIES) % len(STYLES)]


def _tasks(comparison: Comparison) -> Content:
    rows = []
    for (task, texts), means in zip(_mean_rows(comparison), comparison.task_means().values(), strict=True):
        cells = [
            text if one is None else Shaded(text, max(-1.0, one.mean)) for text, one in zip(texts, means, strict=True)
        ]
        rows.append((task, *cells))
    return {
        "head": ["task", *(one.name for one in comparison.submissions)],
        "rows": rows,
        "about": _about_means(comparison),
    }


def _mean_rows(comparison: Comparison) -> list[tuple[str, list[str]]]:
    """Return for each task its name and the texts of its means, with a number of seeds that is not the rank's."""
    seeds = [len(one.scores) for one in comparison.entries] + [0] * len(comparison.unranked)
    rows = []
    for task, means in comparison.task_means().items():
        cells = []
        for count, one in zip(seeds, means, strict=True):
            number = "" if one is None or one.runs == count else f" (n = {one.runs})"
            cells.append("-" if one is None else f"{_format(one.mean)}{number}")
        rows.append((task, cells))
    return rows


def _profiles(comparison: Comparison) -> Content:
    lines = []
    for index, one in enumerate(comparison.entries[:MAX_GROUPS]):
        colour, style = _style(index)
        columns = [list(column) for column in zip(*one.profile, strict=True)]
        lines.append(Line(one.name, THRESHOLDS.tolist(), columns[0], colour, style, columns[1], columns[2]))
    draw = draw_curves(lines, "score", "share of runs above it", distances=False, linear=("x",))
    middle = len(THRESHOLDS) // 2
    shares = "; ".join(f"{one.name} {_format(one.profile[middle].mean)}" for one in comparison.entries)
    label = f"Performance profiles; above a score of 0.5 are: {shares}."
    return {"figure": embed_figure(draw, "profiles", label, curves_size(lines))}


def _pairs(comparison: Comparison) -> Content:
    if len(comparison.entries) < 2:
        return {"missing": "There is one submission."}
    rows = []
    for one in comparison.entries:
        cells: list[object] = []
        for other in comparison.entries:
            value = comparison.improvement.get((one.name, other.name))
            text = "" if value is None else macro("with_ends", _format(value.mean), f" {format_ends(value, _format)}")
            cells.append("" if value is None else Shaded(text, 2 * value.mean - 1))
        rows.append((one.name, *cells))
    return {"head": ["of the row over", *(one.name for one in comparison.entries)], "rows": rows}


def _cost(comparison: Comparison) -> Content:
    known = [(one, one.submission.cpu_s) for one in comparison.entries if one.submission.cpu_s]
    if not known:
        return {"missing": "The CPU time of the runs is not known."}
    front = pareto_front([one.interquartile_mean.mean for one, _ in known], [cost or 0.0 for _, cost in known])
    points = [
        CostPoint(one.name, cost or 0.0, one.interquartile_mean, bool(on))
        for (one, cost), on in zip(known, front, strict=True)
    ]
    best = [point.name for point in points if point.front]
    label = f"Score by CPU seconds of a run; on the Pareto front: {', '.join(best)}."
    draw = draw_pareto_front(points, "CPU seconds of a run", "interquartile mean")
    return {"figure": embed_figure(draw, "cost", label, figure_size(max(9, len(points)))), "front": ", ".join(best)}


def _misleading(comparison: Comparison) -> Content:
    reversals, pairs = find_reversals(comparison)
    rows = [
        (task, *(_beside(one, column, task) for one in comparison.entries))
        for column, task in enumerate(comparison.tasks)
        if any(one.submission.win_random(task) is not None for one in comparison.entries)
    ]
    if not rows:
        return {"missing": "Win rates against random play are not among these scores."}
    words = f"In {len(reversals)} of {pairs} comparisons of two submissions on a task, the win rate names the wrong one"
    return {
        "words": words if pairs else "",
        "example": f"for example, on {reversals[0].task} {reversals[0].better} has the better score, and "
        f"{reversals[0].worse} wins more often against random play"
        if reversals
        else "",
        "head": ["task", *(one.name for one in comparison.entries)],
        "rows": rows,
    }


def _beside(one: Entry, column: int, task: str) -> str:
    win = one.submission.win_random(task)
    return "" if win is None else f"{win:.3f} / {_format(float(one.scores[:, column].mean()))}"


def _tables(comparison: Comparison) -> Content:
    rows = []
    for one in comparison.submissions:
        last = {(row.task, row.seed): row for row in sorted(one.checkpoints, key=lambda row: row.steps)}
        rows += [
            (one.name, row.task, str(row.seed), f"{row.steps:,}", f"{row.score:.6f}", f"{row.value:.6f}", row.sha256)
            for row in last.values()
        ]
    if not rows:
        return {"missing": "The scores have no checkpoints."}
    return {
        "head": ["submission", "task", "seed", "steps", "score", "measure", "SHA-256"],
        "rows": rows[:MAX_HASHES],
        "count": f"{len(rows):,}" if len(rows) > MAX_HASHES else "",
    }
