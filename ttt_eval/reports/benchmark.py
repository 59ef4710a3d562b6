"""The page of the benchmark: leaderboard, axes, tasks, profiles, pairs of submissions, and score by cost."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ttt_eval.benchmark.comparison import THRESHOLDS, Comparison, Entry
from ttt_eval.benchmark.records import SubmissionScores
from ttt_eval.benchmark.tasks import TASKS, VERSION
from ttt_eval.matches.ladder import pareto_front
from ttt_eval.reports import formats, page, parts, plots
from ttt_eval.reports.curves import MAX_GROUPS
from ttt_eval.reports.formats import three_digits

MAX_HASHES = 500
"""Maximum number of runs whose table is listed by its hash."""


class Reversal(NamedTuple):
    """Two submissions that win rate against random play and exact score order differently."""

    task: str
    better: str
    """by the score"""
    worse: str


def write_benchmark(out: Path, comparison: Comparison, sources: Sequence[Path], tasks: Sequence[str] = ()) -> Path:
    """Write the page of submissions.

    Args:
        out: path of the page.
        comparison: of the submissions.
        sources: the arguments of the command, to repeat it.
        tasks: those of its option ``--task``.

    Returns:
        The page's path.
    """
    command = shlex.join([*report_command(sources, tasks), "--out", str(out)])
    return page.write_report(out, benchmark_report(comparison, command))


def benchmark_report(comparison: Comparison, command: str = "") -> page.Report:
    """Return the page of submissions: leaderboard, axes, tasks, profiles, pairs, and score by cost.

    Args:
        comparison: of the submissions.
        command: the command that writes the page, if it is shown.
    """
    entries, several = comparison.entries, len(comparison.entries) > 1
    rows = [plots.IntervalRow(one.name, one.interquartile_mean) for one in entries]
    middle = parts.intervals_figure(
        rows,
        "Interquartile means",
        "interquartile mean of exact scores",
        page.words("interquartile mean"),
        three_digits,
        0.0,
    )
    cells = {
        pair: (value.mean, three_digits(value.mean), formats.format_ends(value, three_digits))
        for pair, value in comparison.improvement.items()
    }
    pairs = parts.cross_table("improvement", {one.name: one.name for one in entries}, cells)
    sections: dict[str, page.Parts] = {
        "": [
            page.Text(f"{len(comparison.tasks)} of {len(TASKS)} tasks. {page.words('scores')}"),
            *map(page.left_out, comparison.notes),
            [middle],
            _leaderboard(comparison),
        ],
        "Axes": _axes(comparison),
        "Tasks": [_task_means(comparison), page.left_out(_about_means(comparison))],
        "Performance profiles": [[_draw_profiles(comparison)]],
        "Probability of improvement": [pairs if several else page.left_out("There is one submission.")],
        "Score and cost": _cost(comparison),
        "Win rate against random play": _misleading(comparison),
        "Tables": _tables(comparison),
        "Reproduction": [page.Text(page.words("command of the page"), [command])] if command else [],
    }
    return page.Report(f"Benchmark ttt-exact {VERSION}", describe_leader(comparison), [], sections)


def report_command(sources: Sequence[Path], tasks: Sequence[str] = ()) -> list[str]:
    """Return the words of the command of a report, without its outputs."""
    return ["python", "evaluate.py", "bench", "report", *map(str, sources), *(["--task", *tasks] if tasks else [])]


def leaderboard_markdown(comparison: Comparison, command: Sequence[str]) -> str:
    """Return the leaderboard and mean scores of tasks in Markdown.

    Args:
        comparison: of the submissions.
        command: the words of the command that writes it.
    """
    tasks = f"{len(comparison.tasks)} of {len(TASKS)} tasks; intervals are of a bootstrap."
    lines = [f"`{shlex.join(command)}`", "", tasks, *comparison.notes, "", *page.markdown(_leaderboard(comparison))]
    return "\n".join([*lines, "", _about_means(comparison), "", *page.markdown(_task_means(comparison)), ""])


def replace_section(text: str, section: str, content: str) -> str:
    """Return a page of Markdown with a section replaced.

    The section begins with the line ``<!-- bench report: SECTION -->``, and ends with ``<!-- until here -->``.

    Raises:
        ValueError: the page has no such section.
    """
    begin, end = f"<!-- bench report: {section} -->\n", "<!-- until here -->"
    before, found, rest = text.partition(begin)
    _, ended, after = rest.partition(end)
    if not found or not ended:
        raise ValueError(f"the page has no section {section}: it begins with {begin.strip()}, and ends with {end}")
    return f"{before}{begin}\n{content}\n{end}{after}"


def describe_leader(comparison: Comparison) -> str:
    """Name the best submission, as far as intervals decide it."""
    first, *others = comparison.entries
    value = f"interquartile mean {formats.format_interval(first.interquartile_mean, three_digits)}"
    if not others:
        return f"{first.name}: {value}"
    second = f"{others[0].name}, {formats.format_interval(others[0].interquartile_mean, three_digits)}"
    return parts.describe_best(first.name, len(comparison.entries), value, len(comparison.undecided()), second)


def find_reversals(comparison: Comparison) -> tuple[list[Reversal], int]:
    """Return the pairs of submissions that win rate and score order differently, and the number of all pairs.

    A pair is two submissions on a task, of which both win rates against random play are known. The score of a task
    is the mean over runs.
    """
    reversals, pairs = [], 0
    for column, task in enumerate(comparison.tasks):
        known = [
            (win, float(entry.scores[:, column].mean()), entry.name)
            for entry in comparison.entries
            if (win := entry.submission.win_random(task)) is not None
        ]
        for (win, score, name), (other_win, other_score, other) in itertools.combinations(known, 2):
            pairs += 1
            if (score - other_score) * (win - other_win) < 0:
                reversals.append(Reversal(task, *((name, other) if score > other_score else (other, name))))
    return reversals, pairs


def _leaderboard(comparison: Comparison) -> page.Table:
    rows = []
    for one in comparison.entries:
        numbers, cost = one[2:5], (one.submission.cpu_s, one.submission.peak_rss_bytes)
        rows.append((one.name, one.submission.setting, *numbers, *cost, len(one.scores)))
    return parts.table("leaderboard", rows)


def _axes(comparison: Comparison) -> page.Parts:
    names = list(comparison.entries[0].axes)
    rows = [(one.name, *(one.axes[axis] for axis in names)) for one in comparison.entries]
    means = [(one.name, [one.axes[axis].mean for axis in names]) for one in comparison.entries[:MAX_GROUPS]]
    lines = [plots.Line(name, [], values) for name, values in means]
    table = parts.table("axes", rows, head=("submission", *names))
    if len(names) < 3:
        return [table]
    draw, size = plots.draw_radar(names, lines), plots.radar_size(lines)
    return [[parts.figure(draw, page.words("radar label"), page.words("radar"), size)], table]


def _task_means(comparison: Comparison) -> page.Table:
    """Return the means of each task, with a number of seeds that is not the rank's."""
    seeds = [len(one.scores) for one in comparison.entries] + [0] * len(comparison.unranked)
    rows = list[page.Row]()
    for task, means in comparison.task_means().items():
        cells = [page.Cell("-")] * len(means)
        for column, (count, one) in enumerate(zip(seeds, means, strict=True)):
            if one is not None:
                number = "" if one.runs == count else f" (n = {one.runs})"
                cells[column] = page.Cell(f"{three_digits(one.mean)}{number}", shade=max(-1.0, one.mean))
        rows.append((task, *cells))
    return parts.table("tasks", rows, head=("task", *(one.name for one in comparison.submissions)))


def _about_means(comparison: Comparison) -> str:
    """Describe the numbers of the table of tasks."""
    cells = [cell.text for _, *row in _task_means(comparison).rows for cell in row if not isinstance(cell, str)]
    other_seeds = page.words("n seeds") if any("(n = " in text for text in cells) else ""
    return f"{page.words('task means')}{other_seeds}{page.words('dash') if '-' in cells else ''}"


def _draw_profiles(comparison: Comparison) -> page.Figure:
    lines = []
    for one in comparison.entries[:MAX_GROUPS]:
        means, low, high = (list(column) for column in zip(*one.profile, strict=True))
        lines.append(plots.Line(one.name, THRESHOLDS.tolist(), means, low=low, high=high))
    draw = plots.draw_curves(lines, "score", "share of runs above it", distances=False, linear=("x",))
    middle = len(THRESHOLDS) // 2
    shares = "; ".join(f"{one.name} {three_digits(one.profile[middle].mean)}" for one in comparison.entries)
    label = f"Performance profiles; above a score of 0.5 are: {shares}."
    return parts.figure(draw, label, page.words("profiles"), plots.curves_size(lines))


def _cost(comparison: Comparison) -> page.Parts:
    known = [(one, cost) for one in comparison.entries if (cost := one.submission.cpu_s)]
    if not known:
        return [page.left_out("The CPU time of the runs is not known.")]
    front = pareto_front([one.interquartile_mean.mean for one, _ in known], [cost for _, cost in known])
    points = [
        plots.IntervalRow(one.name, one.interquartile_mean, cost=cost, front=bool(on))
        for (one, cost), on in zip(known, front, strict=True)
    ]
    best = ", ".join(point.name for point in points if point.front)
    draw = plots.draw_pareto_front(points, "CPU seconds of a run", "interquartile mean")
    label = f"Score by CPU seconds of a run; on the Pareto front: {best}."
    caption, size = page.words("benchmark front", best=best), plots.figure_size(max(9, len(points)))
    return [[parts.figure(draw, label, caption, size)], page.left_out(page.words("reported times"))]


def _misleading(comparison: Comparison) -> page.Parts:
    reversals, pairs = find_reversals(comparison)
    rows = [
        (task, *(_beside(one, column, task) for one in comparison.entries))
        for column, task in enumerate(comparison.tasks)
        if any(one.submission.win_random(task) is not None for one in comparison.entries)
    ]
    if not rows:
        return [page.left_out(page.words("no win rates"))]
    words = f"In {len(reversals)} of {pairs} comparisons of two submissions on a task, the win rate names the wrong one"
    example = page.words("reversal", **reversals[0]._asdict()) if reversals else ""
    table = parts.table("win rates", rows, head=("task", *(one.name for one in comparison.entries)))
    return [page.Text(f"{words}{example}.") if pairs else None, table]


def _beside(one: Entry, column: int, task: str) -> str:
    win = one.submission.win_random(task)
    return "" if win is None else f"{win:.3f} / {three_digits(float(one.scores[:, column].mean()))}"


def _tables(comparison: Comparison) -> page.Parts:
    rows = [row for one in comparison.submissions for row in _last_tables(one)]
    if not rows:
        return [page.left_out("The scores have no checkpoints.")]
    count = f"The first {MAX_HASHES} of {len(rows):,} are shown; --csv FILE has all."
    return [parts.table("hashes", rows[:MAX_HASHES]), page.left_out(count) if len(rows) > MAX_HASHES else None]


def _last_tables(one: SubmissionScores) -> list[Sequence[Any]]:
    last = {(row.task, row.seed): row for row in sorted(one.checkpoints, key=lambda row: row.steps)}
    return [
        (one.name, row.task, str(row.seed), row.steps, row.score, row.value, " ".join(row.sha256))
        for row in last.values()
    ]
