"""The page of the benchmark: leaderboard, axes, tasks, profiles, pairs of submissions, and score by cost."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from ttt_eval.benchmark.comparison import THRESHOLDS, Comparison
from ttt_eval.benchmark.tasks import TASKS, VERSION
from ttt_eval.matches.ladder import pareto_front
from ttt_eval.reports import formats, page, parts, plots
from ttt_eval.reports.page import Cell, Parts, Report, Table, Text, left_out

_score = partial(formats.format_interval, write=formats.three_digits)


def write_benchmark(out: Path, comparison: Comparison, sources: Sequence[Path], tasks: Sequence[str] = ()) -> Path:
    """Write the page of submissions, and return its path.

    Args:
        out: path of the page.
        comparison: of the submissions.
        sources: the arguments of the command, to repeat it.
        tasks: those of its option ``--task``.
    """
    command = shlex.join([*report_command(sources, tasks), "--out", str(out)])
    return page.write_report(out, benchmark_report(comparison, command))


def benchmark_report(comparison: Comparison, command: str = "") -> Report:
    """Return the page of submissions: leaderboard, axes, tasks, profiles, pairs, and score by cost.

    Args:
        comparison: of the submissions.
        command: the command that writes the page, if it is shown.
    """
    entries, lines = comparison.entries, list[plots.Line]()
    for one in entries[: parts.MAX_GROUPS]:
        shares, low, high = zip(*one.profile, strict=True)
        lines.append(plots.Line(one.name, THRESHOLDS.tolist(), shares, low=low, high=high))
    cells = {
        pair: (value.mean, formats.three_digits(value.mean), formats.format_ends(value, formats.three_digits))
        for pair, value in comparison.improvement.items()
    }
    improvement = parts.cross_table("improvement", {one.name: one.name for one in entries}, cells)
    profiles = parts.curves_figure(
        lines, "score", "share of runs above it", page.words("profiles"), distances=False, x_scale="linear"
    )
    sections: dict[str, Parts] = {
        "": [
            Text(f"{len(comparison.tasks)} of {len(TASKS)} tasks. {page.words('scores')}"),
            *map(left_out, comparison.notes),
            _leaderboard(comparison),
        ],
        "Axes": [_axes(comparison)],
        "Tasks": [_task_means(comparison), left_out(page.words("task means"))],
        "Performance profiles": [[profiles]],
        "Probability of improvement": [improvement] if cells else [],
        "Score and cost": _cost(comparison),
        "Win rate against random play": _misleading(comparison),
        "Reproduction": [Text(page.words("command of the page"), [command])] if command else [],
    }
    return Report(f"Benchmark ttt-exact {VERSION}", describe_leader(comparison), [], sections)


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
    return "\n".join([*lines, "", page.words("task means"), "", *page.markdown(_task_means(comparison)), ""])


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
    values = [f"interquartile mean {_score(one.interquartile_mean)}" for one in comparison.entries[:2]]
    return formats.describe_best([one.name for one in comparison.entries], values, len(comparison.undecided))


def count_reversals(comparison: Comparison) -> tuple[int, int]:
    """Return the number of pairs of submissions that win rate and score order differently, and of all pairs.

    A pair is two submissions on a task, of which both win rates against random play are known. The score of a task
    is the mean over runs.
    """
    reversals, pairs = 0, 0
    for column, task in enumerate(comparison.tasks):
        wins = [(one.submission.win_random(task), one.scores[:, column].mean()) for one in comparison.entries]
        known = [(win, score) for win, score in wins if win is not None]
        for (win, score), (other_win, other_score) in itertools.combinations(known, 2):
            pairs += 1
            reversals += (score - other_score) * (win - other_win) < 0
    return reversals, pairs


def _leaderboard(comparison: Comparison) -> Table:
    rows = [
        (
            one.name, one.submission.setting, one.interquartile_mean, one.mean, one.optimality_gap,
            one.submission.cpu_s, one.submission.peak_rss_bytes, len(one.scores),
        )
        for one in comparison.entries
    ]  # fmt: skip
    return parts.table("leaderboard", rows)


def _axes(comparison: Comparison) -> Table:
    names = list(comparison.entries[0].axes)
    rows = [(one.name, *(one.axes[axis] for axis in names)) for one in comparison.entries]
    return parts.table("axes", rows, head=("submission", *names))


def _task_means(comparison: Comparison) -> Table:
    """Return the means of each task, with a number of seeds that is not the rank's."""
    seeds = [len(one.scores) for one in comparison.entries] + [0] * len(comparison.unranked)
    rows = list[page.Row]()
    for task, means in comparison.task_means().items():
        cells = [Cell("-")] * len(means)
        for column, (count, one) in enumerate(zip(seeds, means, strict=True)):
            if one is not None:
                number = "" if one.runs == count else f" (n = {one.runs})"
                cells[column] = Cell(f"{formats.three_digits(one.mean)}{number}", shade=max(-1.0, one.mean))
        rows.append((task, *cells))
    return parts.table("tasks", rows, head=("task", *(one.name for one in comparison.submissions)))


def _cost(comparison: Comparison) -> Parts:
    points = [
        plots.IntervalRow(one.name, one.interquartile_mean, cost=one.submission.cpu_s)
        for one in comparison.entries
        if one.submission.cpu_s
    ]
    if not points:
        return [left_out("The CPU time of the runs is not known.")]
    front = pareto_front([point.value.mean for point in points], [point.cost for point in points])
    points = [point._replace(front=bool(on)) for point, on in zip(points, front, strict=True)]
    figure = parts.pareto_figure(points, "CPU seconds of a run", "interquartile mean", "benchmark front")
    return [[figure], left_out(page.words("reported times"))]


def _misleading(comparison: Comparison) -> Parts:
    reversals, pairs = count_reversals(comparison)
    text = page.words("reversals", count=reversals, pairs=pairs) if pairs else page.words("no win rates")
    return [Text(text) if pairs else left_out(text)]
