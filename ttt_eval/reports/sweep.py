"""The page of a sweep: the best setting, a table of all settings, and links to the runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from ttt_envs.core.checks import truncate
from ttt_eval.curves import Group, read_curves, summarize_groups, write_csv
from ttt_eval.metrics import metric
from ttt_eval.reports import formats, page, parts
from ttt_eval.reports.page import Cell, Part, Parts, Report, Text, Tile, left_out
from ttt_eval.reports.results import SweepResult, read_result
from ttt_eval.run_files import REPORT
from ttt_eval.statistics import Interval
from ttt_eval.sweep import AGENT, CURVES, setting_name, varied_options

MAX_SHOWN = 200
"""Maximum number of settings in the table, best first."""
MAX_LINKED = 10
"""Maximum number of linked runs per setting."""
MIN_SEEDS = 3
"""Minimum number of seeds of each setting from which an order is concluded."""


class Setting(NamedTuple):
    """A setting of a sweep."""

    name: str
    labels: Mapping[str, str]
    """values of the options in which settings differ"""
    seeds: int
    numbers: Mapping[str, Interval]
    runs: Mapping[str, Path | None]
    """by seed, the folder of the run; None if it is not inside the sweep's"""
    trained: bool
    """whether it is no agent"""


def read_settings(result: SweepResult) -> list[Setting]:
    """Return the settings, best first by their first number."""
    rows = [row["options"] for row in result.table]
    options, settings = varied_options(rows), []
    for number, row in enumerate(result.table):
        numbers = {name: value for name, value in row.items() if isinstance(value, Interval)}
        runs = {str(run["seed"]): _run_folder(run["run"], result.folder) for run in result.runs if run["row"] == number}
        labels, name = {name: _text(rows[number].get(name)) for name in options}, setting_name(rows[number], options)
        settings.append(Setting(name, labels, row["seeds"], numbers, runs, AGENT not in rows[number]))
    first = next(iter(settings[0].numbers), "")
    sign = 1 if metric(first).better == "lower" else -1
    return sorted(settings, key=lambda one: sign * one.numbers[first].mean if first in one.numbers else float("inf"))


def _run_folder(name: str, folder: Path) -> Path | None:
    path = PurePosixPath(name)
    return None if path.is_absolute() or ".." in path.parts or "\0" in name else folder / path


def _text(value: object) -> str:
    """Format the value of an option."""
    return truncate("" if value is None else value)


def sweep_report(result: SweepResult) -> Report:
    """Return the page of a sweep; only runs with a page of their own are linked.

    Raises:
        ValueError: the table has no numbers.
    """
    settings, columns = read_settings(result), list[Sequence[str | Cell]]()
    best, first, shown = settings[0], metric(next(iter(settings[0].numbers), "")), settings[:MAX_SHOWN]
    metrics = [metric(name) for name in dict.fromkeys(name for one in settings for name in one.numbers)]
    if not metrics:
        raise ValueError("the table has no numbers")
    for one in metrics:
        columns.append(parts.interval_cells([each.numbers.get(one.name) for each in shown], one.format_with_unit))
    rows = [
        (*(one.labels.values() or [one.name]), Cell(links=_links(one, result.folder)), *cells)
        for one, *cells in zip(shown, *columns, strict=True)
    ]
    head = [*(best.labels or ["setting"]), "seeds", *(one.label for one in metrics)]
    common = [f"{name} {_text(value)}" for name, value in result.table[0]["options"].items() if name not in best.labels]
    counts = {"settings": f"{len(settings):,}", "runs": f"{sum(one.seeds for one in settings):,}"}
    order = page.words(
        "order of settings", **counts, measure=first.label, common=", ".join(common) or "no other options"
    )
    rest = [f"The first {MAX_SHOWN} of {len(settings):,} are shown; table.md has all."] * (len(settings) > MAX_SHOWN)
    notes = [f"Shown are the {parts.MAX_GROUPS} best of {len(settings)}."] * (len(settings) > parts.MAX_GROUPS)
    notes += [f"The numbers are in the file {CURVES} beside this page."] * (result.folder / CURVES).is_file()
    sections: dict[str, Parts] = {
        "": [Text(order)],
        "Settings": [parts.table("settings", rows, head=head), *map(left_out, rest)],
        "Learning curves": [*parts.curve_parts(*_groups(settings[: parts.MAX_GROUPS])), *map(left_out, notes)],
        "Cost": [_cost(settings)],
        "Reproduction": parts.reproduction(result, "train.py", sweep=result.source, trust=result.trust),
    }
    tiles = [
        Tile(metric(name).label, metric(name).format_with_unit(value.mean), "of the first setting")
        for name, value in list(best.numbers.items())[:4]
    ]
    return Report(f"Sweep {result.source}", _describe(settings, first.name), tiles, sections)


def _describe(settings: Sequence[Setting], name: str) -> str:
    """Return the best setting, as far as intervals decide it."""
    write, lower = partial(formats.format_interval, write=metric(name).format_with_unit), metric(name).better == "lower"
    best, *others = known = [one.numbers[name] for one in settings if name in one.numbers]
    undecided = sum(not (best.high < other.low if lower else best.low > other.high) for other in others)
    if others and any(one.seeds < MIN_SEEDS and one.trained for one in settings):
        return page.words(
            "few seeds", seeds=MIN_SEEDS, name=settings[0].name, value=f"{metric(name).label} {write(best)}"
        )
    values = [f"{metric(name).label} {write(value)}" for value in known[:2]]
    return formats.describe_best([one.name for one in settings], values, undecided)


def _links(setting: Setting, folder: Path) -> list[tuple[str, str]]:
    """List the runs of a setting, linked if they have a page."""
    links = [(seed, "" if path is None else page.link_to(path / REPORT, folder)) for seed, path in setting.runs.items()]
    rest = [(f"and {len(links) - MAX_LINKED} more", "")] if len(links) > MAX_LINKED else []
    return [*links[:MAX_LINKED], *rest]


def _groups(settings: Sequence[Setting]) -> tuple[list[Group], list[str]]:
    """Return the learning curves of settings that were trained, and the reasons why others are left out."""
    groups, notes = [], []
    for one in settings:
        curves = []
        for path in filter(None, one.runs.values()):
            try:
                curves += read_curves([path]) if path.is_dir() else []
            except ValueError as problem:
                notes.append(str(problem))
        if curves:
            groups.append(Group(one.name, one.labels, curves))
    return groups, notes


def write_sweep_curves(folder: Path) -> Path | None:
    """Write the learning curves of a sweep beside its ``result.json``: exact exploitability by games, of all settings.

    Returns:
        The path of the CSV file; None if the runs were not measured exactly.

    Raises:
        OSError: no result, or a file that cannot be written.
        ValueError: a damaged result.
    """
    result = read_result(folder)
    if not isinstance(result, SweepResult):
        raise ValueError(f"{folder} holds no sweep: train.py --sweep FILE writes one")
    (folder / CURVES).unlink(missing_ok=True)
    try:
        summaries, _ = summarize_groups(_groups(read_settings(result))[0], "games", "exploitability")
    except ValueError:
        return None
    write_csv(folder / CURVES, summaries, "games", "exploitability")
    return folder / CURVES


def _cost(settings: Sequence[Setting]) -> Part:
    spent = [
        (one.numbers["cpu_s"], one.numbers["peak_rss_bytes"], one.seeds) for one in settings if "cpu_s" in one.numbers
    ]
    if not spent:
        return left_out("The cost of the runs is not known.")
    total, peak = sum(cpu.mean * seeds for cpu, _, seeds in spent), max(memory.mean for _, memory, _ in spent)
    return Text(page.words("cost of the sweep", cpu=f"{total:,.1f}", memory=formats.mebibytes(peak)))
