"""The page of the benchmark: leaderboard, axes, tasks, profiles, pairs of submissions, and score by cost."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ttt_eval.benchmark.comparison import THRESHOLDS, Comparison, Entry
from ttt_eval.benchmark.records import SubmissionScores
from ttt_eval.benchmark.tasks import TASKS, VERSION
from ttt_eval.matches.ladder import pareto_front
from ttt_eval.reports import formats, page, parts, plots
from ttt_eval.reports.curves import MAX_GROUPS
from ttt_eval.statistics import Interval

SCORES = (
    "A score of 0 is uniformly random play, 1 the best possible; each is computed exactly from the submitted table. "
    "Intervals are the 2.5% and 97.5% percentiles of a stratified bootstrap over seeds, the only source of error. With "
    "few seeds they are too short: of two seeds they contain the true value in about 80%, of five in about 90%. Fewer "
    "than five decide nothing."
)
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
    report = benchmark_report(comparison)
    reproduction = [page.Text("The command that writes this page:", [command])]
    return page.write_report(out, report._replace(sections={**report.sections, "Reproduction": reproduction}))


def benchmark_report(comparison: Comparison) -> page.Report:
    """Return the page of submissions: leaderboard, axes, tasks, profiles, pairs, and score by cost."""
    return page.Report(
        f"Benchmark ttt-exact {VERSION}",
        describe_leader(comparison),
        [],
        {
            "": _leaderboard(comparison),
            "Axes": _axes(comparison),
            "Tasks": _tasks(comparison),
            "Performance profiles": _profiles(comparison),
            "Probability of improvement": _pairs(comparison),
            "Score and cost": _cost(comparison),
            "Win rate against random play": _misleading(comparison),
            "Tables": _tables(comparison),
        },
    )


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
        numbers = [
            formats.format_interval(value, _format) for value in (one.interquartile_mean, one.mean, one.optimality_gap)
        ]
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


def _escape_markdown(text: str) -> str:
    return "".join(f"\\{letter}" if letter in "\\`*_[]<>|" else letter for letter in text)


def describe_leader(comparison: Comparison) -> str:
    """Name the best submission, as far as intervals decide it."""
    first, *others = comparison.entries
    value = f"interquartile mean {formats.format_interval(first.interquartile_mean, _format)}"
    if not others:
        return f"{first.name}: {value}"
    second = f"{others[0].name}, {formats.format_interval(others[0].interquartile_mean, _format)}"
    return parts.describe_best(first.name, len(comparison.entries), value, len(comparison.undecided()), second)


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


def _cost_texts(submission: SubmissionScores) -> tuple[str, str]:
    """Return CPU seconds of an average run and peak memory, "" where unknown."""
    cpu, memory = submission.cpu_s, submission.peak_rss_bytes
    return "" if cpu is None else f"{cpu:,.1f} s", "" if memory is None else formats.mebibytes(memory)


def _bar(value: Interval) -> page.Cell:
    return parts.interval_cell(value, _format, 0.0, 1.0)


def _leaderboard(comparison: Comparison) -> page.Parts:
    rows: list[page.Row] = [
        (
            one.name,
            one.submission.setting,
            *map(_bar, (one.interquartile_mean, one.mean, one.optimality_gap)),
            *_cost_texts(one.submission),
            f"{len(one.scores)}",
        )
        for one in comparison.entries
    ]
    chart = [plots.IntervalRow(one.name, one.interquartile_mean) for one in comparison.entries]
    label = "; ".join(f"{row.name} {formats.format_interval(row.value, _format)}" for row in chart)
    head = (
        "submission",
        "setting",
        "interquartile mean",
        "mean",
        "optimality gap",
        "CPU of a run",
        "peak memory",
        "seeds",
    )
    tasks = f"{len(comparison.tasks)} of {len(TASKS)} tasks."
    return [
        page.Text(f"{tasks} {SCORES}"),
        *map(page.left_out, comparison.notes),
        page.Figures([
            parts.figure(
                plots.draw_intervals(chart, "interquartile mean of exact scores", 0.0),
                f"Interquartile means: {label}.",
                "The interquartile mean: the mean of the middle half of all runs of all tasks.",
                plots.figure_size(len(chart)),
            )
        ]),
        page.Table("Leaderboard", head, rows),
    ]  # fmt: skip


def _axes(comparison: Comparison) -> page.Parts:
    names = list(comparison.entries[0].axes)
    rows: list[page.Row] = [(one.name, *(_bar(one.axes[axis]) for axis in names)) for one in comparison.entries]
    table = page.Table("Mean score of each axis", ("submission", *names), rows)
    if len(names) < 3:
        return [table]
    lines = [
        plots.Line(one.name, [], [one.axes[axis].mean for axis in names], *_style(index))
        for index, one in enumerate(comparison.entries[:MAX_GROUPS])
    ]
    label = "Radar of the axes; the numbers are those of the table."
    caption = "Mean score of each axis, from 0 in the centre to 1; scores below 0 are drawn in the centre."
    return [
        page.Figures([parts.figure(plots.draw_radar(names, lines), label, caption, plots.radar_size(lines))]),
        table,
    ]


def _style(index: int) -> tuple[str, str]:
    return plots.SERIES[index % len(plots.SERIES)], plots.STYLES[index // len(plots.SERIES) % len(plots.STYLES)]


def _tasks(comparison: Comparison) -> page.Parts:
    rows = list[page.Row]()
    for (task, texts), means in zip(_mean_rows(comparison), comparison.task_means().values(), strict=True):
        cells = (
            page.Cell(text, shade=0.0 if one is None else max(-1.0, one.mean))
            for text, one in zip(texts, means, strict=True)
        )
        rows.append((task, *cells))
    head = ("task", *(one.name for one in comparison.submissions))
    caption = "Mean score of each task. Blue is better than random play, orange worse."
    return [page.Table(caption, head, rows), page.left_out(_about_means(comparison))]


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


def _profiles(comparison: Comparison) -> page.Parts:
    lines = []
    for index, one in enumerate(comparison.entries[:MAX_GROUPS]):
        means, low, high = (list(column) for column in zip(*one.profile, strict=True))
        lines.append(plots.Line(one.name, THRESHOLDS.tolist(), means, *_style(index), low, high))
    draw = plots.draw_curves(lines, "score", "share of runs above it", distances=False, linear=("x",))
    middle = len(THRESHOLDS) // 2
    shares = "; ".join(f"{one.name} {_format(one.profile[middle].mean)}" for one in comparison.entries)
    label = f"Performance profiles; above a score of 0.5 are: {shares}."
    caption = "Share of runs with a score above the threshold, with pointwise bootstrap intervals; higher is better."
    return [page.Figures([parts.figure(draw, label, caption, plots.curves_size(lines))])]


def _pairs(comparison: Comparison) -> page.Parts:
    if len(comparison.entries) < 2:
        return [page.left_out("There is one submission.")]
    cells = {
        pair: parts.score_cell(value.mean, _format(value.mean), formats.format_ends(value, _format))
        for pair, value in comparison.improvement.items()
    }
    names = {one.name: one.name for one in comparison.entries}
    caption = (
        "Probability that a run of the row is better than one of the column on a random task, bootstrap intervals."
    )
    return [parts.cross_table(caption, names, cells)]


def _cost(comparison: Comparison) -> page.Parts:
    known = [(one, cost) for one in comparison.entries if (cost := one.submission.cpu_s)]
    if not known:
        return [page.left_out("The CPU time of the runs is not known.")]
    front = pareto_front([one.interquartile_mean.mean for one, _ in known], [cost for _, cost in known])
    points = [
        plots.CostPoint(one.name, cost, one.interquartile_mean, bool(on))
        for (one, cost), on in zip(known, front, strict=True)
    ]
    best = ", ".join(point.name for point in points if point.front)
    chart = parts.figure(
        plots.draw_pareto_front(points, "CPU seconds of a run", "interquartile mean"),
        f"Score by CPU seconds of a run; on the Pareto front: {best}.",
        "Interquartile mean by the CPU time of an average run. Full marks and the dashed line are the Pareto front: "
        f"{best}.",
        plots.figure_size(max(9, len(points))),
    )
    return [page.Figures([chart]), page.left_out("Times are as the submissions report them, on different machines.")]


def _misleading(comparison: Comparison) -> page.Parts:
    reversals, pairs = find_reversals(comparison)
    rows = [
        (task, *(_beside(one, column, task) for one in comparison.entries))
        for column, task in enumerate(comparison.tasks)
        if any(one.submission.win_random(task) is not None for one in comparison.entries)
    ]
    if not rows:
        return [page.left_out("Win rates against random play are not among these scores.")]
    words = f"In {len(reversals)} of {pairs} comparisons of two submissions on a task, the win rate names the wrong one"
    if reversals:
        task, better, worse = reversals[0]
        words += (
            f": for example, on {task} {better} has the better score, and {worse} wins more often against random play"
        )
    head = ("task", *(one.name for one in comparison.entries))
    table = page.Table("Exact win rate against random play / score, means over seeds", head, rows)
    return [*([page.Text(f"{words}.")] if pairs else []), table]


def _beside(one: Entry, column: int, task: str) -> str:
    win = one.submission.win_random(task)
    return "" if win is None else f"{win:.3f} / {_format(float(one.scores[:, column].mean()))}"


def _tables(comparison: Comparison) -> page.Parts:
    rows = []
    for one in comparison.submissions:
        last = {(row.task, row.seed): row for row in sorted(one.checkpoints, key=lambda row: row.steps)}
        rows += [
            (
                one.name,
                row.task,
                str(row.seed),
                f"{row.steps:,}",
                f"{row.score:.6f}",
                f"{row.value:.6f}",
                " ".join(row.sha256),
            )
            for row in last.values()
        ]
    if not rows:
        return [page.left_out("The scores have no checkpoints.")]
    head = ("submission", "task", "seed", "steps", "score", "measure", "SHA-256")
    count = f"The first {MAX_HASHES} of {len(rows):,} are shown; --csv FILE has all."
    caption = "The last table of each run, by its SHA-256"
    table = page.Table(caption, head, rows[:MAX_HASHES], folded="Last table of each run")
    return [table, *([page.left_out(count)] if len(rows) > MAX_HASHES else [])]
