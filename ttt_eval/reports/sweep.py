"""The page of a sweep: the best setting, a table of all settings, and links to the runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from ttt_envs.core.checks import truncate
from ttt_eval.curve_summaries import Group, summarize_groups, write_csv
from ttt_eval.curves import read_curves
from ttt_eval.metrics import metric
from ttt_eval.reports import formats, page, parts
from ttt_eval.reports.curves import MAX_GROUPS, curve_parts
from ttt_eval.reports.results import SweepResult, read_result
from ttt_eval.run_files import REPORT
from ttt_eval.sweep import AGENT, CURVES, Line, setting_name, varied_options

MAX_SHOWN = 200
"""Maximum number of settings in the table, best first."""
MAX_LINKED = 10
"""Maximum number of linked runs per setting."""
MIN_SEEDS = 3
"""Minimum number of seeds of each setting from which an order is concluded."""


def sweep_report(result: SweepResult) -> page.Report:
    """Return the page of a sweep; only runs with a page of their own are linked.

    Raises:
        ValueError: the table has no numbers.
    """
    lines, names = result.lines, list(dict.fromkeys(name for line in result.lines for name in line.numbers))
    if not names:
        raise ValueError("the table has no numbers")
    measures, lower = [metric(name) for name in names], metric(names[0]).better == "lower"

    def rank(row: int) -> float:
        value = lines[row].numbers.get(names[0])
        return float("inf") if value is None else value.mean if lower else -value.mean

    order = sorted(range(len(lines)), key=rank)
    ordered = [lines[row] for row in order]
    best, options = ordered[0], varied_options([line.row for line in ordered])
    tiles = [
        page.Tile(one.label, one.format_with_unit(best.numbers[one.name].mean), "of the first setting")
        for one in measures[:4]
        if one.name in best.numbers
    ]
    num = f"{len(lines):,} settings, {sum(line.seeds for line in lines):,} runs."
    sorting = f"settings are ordered by {measures[0].label}, {'least' if lower else 'most'} first."
    sections: dict[str, page.Parts] = {
        "": [page.Text(f"{num} {page.words('means over seeds')}; {sorting}")],
        "Settings": _settings(result, order, names, options),
        "Learning curves": _learning(result, order),
        "Cost": [_cost(ordered)],
        "Reproduction": parts.reproduction(
            result, ["train.py", "--sweep", result.source, *(["--trust"] if result.trust else [])]
        ),
    }
    verdict = _describe(ordered, names[0], setting_name(best.row, options))
    return page.Report(f"Sweep {result.source}", verdict, tiles, sections)


def _describe(order: Sequence[Line], name: str, setting: str) -> str:
    """Return the best setting, as far as intervals decide it."""
    best, *others = (line.numbers[name] for line in order if name in line.numbers)
    write, lower = partial(formats.format_interval, write=metric(name).format_with_unit), metric(name).better == "lower"
    value = f"{metric(name).label} {write(best)}"
    if not others:
        return f"{setting}: {value}"
    if any(line.seeds < MIN_SEEDS and AGENT not in line.row for line in order):
        return f"Undecided, because there are fewer than {MIN_SEEDS} seeds: {setting} came out first, {value}"
    worse = [best.high < other.low if lower else best.low > other.high for other in others]
    return parts.describe_best(setting, len(order), value, worse.count(False), write(others[0]))


def _settings(result: SweepResult, order: Sequence[int], names: Sequence[str], options: Sequence[str]) -> page.Parts:
    lines, rows = result.lines, list[page.Row]()
    columns = [
        parts.interval_cells([lines[row].numbers.get(name) for row in order], metric(name).format_with_unit)
        for name in names
    ]
    for row, *numbers in zip(order[:MAX_SHOWN], *columns, strict=False):
        settings = [_format_value(lines[row].row.get(name)) for name in options] or ["the only setting"]
        rows.append((*settings, _link_runs(result, row), *numbers))
    head = [*(options or ["setting"]), "seeds", *(metric(name).label for name in names)]
    common = [f"{name} {_format_value(value)}" for name, value in lines[order[0]].row.items() if name not in options]
    count = f"The first {MAX_SHOWN} of {len(order):,} are shown; table.md has all."
    return [
        page.Text(f"All have {formats.join_names(common)}.") if common else None,
        parts.table("settings", rows, head=head),
        page.left_out(count) if len(order) > MAX_SHOWN else None,
    ]


def _link_runs(result: SweepResult, row: int) -> page.Cell:
    """List the runs of a setting, linked if they have a page."""
    runs, folder = [run for run in result.runs if run.row == row], Path(result.folder)
    folders = [(str(run.seed), _run_folder(run.run, folder)) for run in runs[:MAX_LINKED]]
    links = [(seed, "" if path is None else page.link_to(path / REPORT, folder)) for seed, path in folders]
    rest = [(f"and {len(runs) - MAX_LINKED} more", "")] if len(runs) > MAX_LINKED else []
    return page.Cell(links=[*links, *rest])


def _run_folder(name: str, folder: Path) -> Path | None:
    """Return the folder of a run; None if it is not inside the sweep's."""
    path = PurePosixPath(name)
    return None if path.is_absolute() or ".." in path.parts or "\0" in name else folder / path


def _groups(result: SweepResult, order: Sequence[int]) -> tuple[list[Group], list[str]]:
    """Return the learning curves of settings that were trained, and the reasons why others are left out."""
    options, lines = varied_options([line.row for line in result.lines]), result.lines
    groups, notes = [], []
    for row in order:
        curves = []
        paths = [_run_folder(run.run, Path(result.folder)) for run in result.runs if run.row == row]
        for path in paths:
            if path is not None and path.is_dir():
                found, why = page.or_why(partial(read_curves, [path]))
                curves += found or []
                notes += [why] if why else []
        if curves:
            labels = {name: _format_value(lines[row].row.get(name)) for name in options}
            groups.append(Group(setting_name(lines[row].row, options), labels, curves))
    return groups, notes


def _learning(result: SweepResult, order: Sequence[int]) -> page.Parts:
    """Return figures of the learning curves of the first settings: by games, and by CPU seconds."""
    shown = f"Shown are the {MAX_GROUPS} best of {len(order)}."
    has_file = (Path(result.folder) / CURVES).is_file()
    return [
        *curve_parts(*_groups(result, order[:MAX_GROUPS])),
        page.left_out(shown) if len(order) > MAX_GROUPS else None,
        page.left_out(f"The numbers are in the file {CURVES} beside this page.") if has_file else None,
    ]


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
    groups, _ = _groups(result, range(len(result.table)))
    summaries, _ = page.or_why(partial(summarize_groups, groups, "games", "exploitability"))
    if not summaries or not summaries[0]:
        (folder / CURVES).unlink(missing_ok=True)
        return None
    write_csv(folder / CURVES, summaries[0], "games", "exploitability")
    return folder / CURVES


def _cost(order: Sequence[Line]) -> page.Part:
    spent = [line for line in order if "cpu_s" in line.numbers]
    if not spent:
        return page.left_out("The cost of the runs is not known.")
    total = sum(line.numbers["cpu_s"].mean * line.seeds for line in spent)
    peak = max((line.numbers["peak_rss_bytes"].mean for line in spent if "peak_rss_bytes" in line.numbers), default=0.0)
    memory = f" Peak memory was {formats.mebibytes(peak)}, of the setting that took most." if peak else ""
    return page.Text(f"The training of all runs took {total:,.1f} s of CPU.{memory}")


def _format_value(value: Any) -> str:
    """Format the value of an option."""
    return truncate("" if value is None else value if isinstance(value, str) else json.dumps(value))
