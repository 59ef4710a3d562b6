"""The page of the benchmark: leaderboard, axes, tasks, and pairs of submissions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from ttt_eval.benchmark.comparison import MIN_SEEDS, Comparison
from ttt_eval.benchmark.scores import CPU_BUDGET_S, NOT_LEARNED
from ttt_eval.benchmark.tasks import TASKS, find_tasks, version_of
from ttt_eval.reports import formats, page, parts
from ttt_eval.reports.page import Cell, DataTable, Parts, Report, Text, left_out

_score = partial(formats.format_interval, write=formats.three_digits)


def write_benchmark(out: Path, comparison: Comparison, command: str) -> Path:
    """Write the page of submissions, and return its path.

    Args:
        out: path of the page.
        comparison: of the submissions.
        command: of :func:`report_command`.
    """
    return page.write_report(out, benchmark_report(comparison, f"{command} --out {out}"))


def benchmark_report(comparison: Comparison, command: str = "") -> Report:
    """Return the page of submissions: leaderboard, axes, tasks and pairs.

    Args:
        comparison: of the submissions.
        command: the command that writes the page, if it is shown.
    """
    cells = {}
    for name, improvements in comparison.improvement.items():
        for other, value in improvements.items():
            ends = formats.format_ends(value, formats.three_digits)
            cells[name, other] = (value.mean, formats.three_digits(value.mean), ends)
    names = {entry.name: entry.name for entry in comparison.entries}
    improvement = parts.cross_table("improvement", names, cells)
    sections: dict[str, Parts] = {
        "": [
            Text(f"{_count_tasks(comparison)}. {page.words('scores')}"),
            *map(left_out, comparison.notes),
            _leaderboard(comparison),
            *_equal_costs(comparison),
        ],
        "Axes": [_axes(comparison)],
        "Tasks": [_task_means(comparison), left_out(page.words("task means"))],
        "Probability of improvement": [improvement] if cells else [],
        "Reproduction": [Text(page.words("command of the page"), [command])] if command else [],
    }
    title = f"Benchmark ttt-exact {version_of(comparison.tasks)}"
    return Report(title, describe_leader(comparison), [], sections)


def report_command(sources: Sequence[Path], tasks: Sequence[str] = ()) -> str:
    """Return the command of a report, without its outputs."""
    return formats.command("evaluate.py", "bench", "report", *map(str, sources), task=tasks or None)


def leaderboard_markdown(comparison: Comparison, command: str) -> str:
    """Return a command, the leaderboard and mean scores of tasks in Markdown; see
    :func:`write_benchmark`.
    """
    lines = [
        f"`{command} --markdown FILE`",
        "",
        f"{_count_tasks(comparison)}; 95% intervals by Student's t and a bootstrap over seeds hold "
        "at once.",
        *comparison.notes,
        "",
        *page.markdown(_leaderboard(comparison)),
    ]
    for table in _equal_costs(comparison):
        lines += ["", table.caption, "", *page.markdown(table)]
    return "\n".join(
        [*lines, "", page.words("task means"), "", *page.markdown(_task_means(comparison)), ""]
    )


def describe_leader(comparison: Comparison) -> str:
    """Name the best submission, as far as intervals decide it; if too few seeds are the reason,
    they come first.
    """
    all_entries = comparison.entries
    entries = [entry for entry in all_entries if entry.setting != NOT_LEARNED] or all_entries
    leader = entries[0]
    values = [f"interquartile mean {_score(entry.interquartile_mean)}" for entry in entries]
    undecided = [entry for entry in entries if entry.name in comparison.undecided]
    if undecided and all(min(leader.seeds, entry.seeds) < MIN_SEEDS for entry in undecided):
        return page.words("few seeds", seeds=MIN_SEEDS, name=leader.name, value=values[0])
    return formats.describe_best([entry.name for entry in entries], values, len(undecided))


def _count_tasks(comparison: Comparison) -> str:
    return (
        f"{len(comparison.tasks)} of {len(find_tasks(version=version_of(comparison.tasks)))} tasks"
    )


def _equal_costs(comparison: Comparison) -> list[DataTable]:
    """Return the table of scores at equal cost, if they are known."""
    means = comparison.means_in_budget
    rows = [
        (row.name, means[row.name], row.mean) for row in comparison.entries if row.name in means
    ]
    return [parts.table("equal costs", rows, seconds=CPU_BUDGET_S)] if rows else []


def _leaderboard(comparison: Comparison) -> DataTable:
    rows = [
        (entry.name, entry.setting, entry.interquartile_mean, entry.mean, entry.cpu_s, entry.seeds)
        for entry in comparison.entries
    ]
    return parts.table("leaderboard", rows)


def _axes(comparison: Comparison) -> DataTable:
    names = list(comparison.entries[0].axes)
    rows = [(entry.name, *(entry.axes[axis] for axis in names)) for entry in comparison.entries]
    return parts.table("axes", rows, head=("submission", *names))


def _task_means(comparison: Comparison) -> DataTable:
    def cell(mean: float | None) -> Cell:
        if mean is None:
            return Cell("-")
        return Cell(formats.three_digits(mean), shade=max(-1.0, mean))

    rows: list[page.Row] = []
    for task in TASKS:
        means = [entry.tasks.get(task.name) for entry in comparison.entries]
        if any(mean is not None for mean in means):
            rows.append((task.name, *map(cell, means)))
    return parts.table("tasks", rows, head=("task", *(entry.name for entry in comparison.entries)))
