"""The page of a sweep: the best setting, a table of all settings, and links to the runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from markupsafe import Markup

from ttt_envs.core.checks import truncate
from ttt_envs.core.files import read_json
from ttt_eval.curve_summaries import X_LABELS, Group, XAxis, summarize_groups, write_csv
from ttt_eval.curves import read_curves
from ttt_eval.metrics import metric
from ttt_eval.reports.curves import MAX_GROUPS, draw_summaries, embed_figure
from ttt_eval.reports.formats import format_ends, format_interval, join_names, mebibytes
from ttt_eval.reports.html import Content, encode_url, interval_bar, macro, or_why, section
from ttt_eval.reports.result_reader import MAX_SEED, Record, reproduction
from ttt_eval.run_files import REPORT
from ttt_eval.statistics import Interval
from ttt_eval.sweep import AGENT, CURVES, MAX_RUNS, RESULT, setting_name, varied_options

MAX_SHOWN = 200
"""Maximum number of settings in the table, best first."""
MAX_LINKED = 10
"""Maximum number of linked runs per setting."""
MAX_MEASURES = 20
MIN_SEEDS = 3
"""Minimum number of seeds of each setting from which an order is concluded."""
MAX_OPTIONS = 6
"""Maximum number of options that name a setting in a sentence."""
NON_MEASURES = ("options", "seeds")


class Setting(NamedTuple):
    """A row of the table."""

    row: int
    options: Mapping[str, Any]
    seeds: int
    numbers: Mapping[str, Interval]


def sweep_page(data: Record, folder: Path) -> Content:
    """Return the content of the page.

    Args:
        data: the result.
        folder: folder of the page; only runs with a page of their own are linked.

    Raises:
        ValueError: there is no table.
    """
    lines = _read_settings(data)
    if not lines:
        raise ValueError("table is empty, and must have a setting or more")
    names = list(dict.fromkeys(name for line in lines for name in line.numbers))
    first = names[0] if names else ""
    sign = 1 if metric(first).better == "lower" else -1
    order = sorted((line for line in lines if first in line.numbers), key=lambda line: sign * line.numbers[first].mean)
    order += [line for line in lines if first not in line.numbers]
    return {
        "title": f"Sweep {data.text('source')}",
        "answer": section(partial(_answer, order, names, first)),
        "settings": section(partial(_settings, data, order, names, folder)),
        "learning": section(partial(_learning, data, order, folder)),
        "cost": section(partial(_cost, order)),
        "again": section(partial(_reproduction, data)),
    }


def _read_settings(data: Record) -> list[Setting]:
    """Read the rows of the table."""
    return [
        Setting(
            row,
            one.record("options"),
            one.count("seeds"),
            {name: one.interval(name) for name in list(one)[: MAX_MEASURES + 2] if name not in NON_MEASURES},
        )
        for row, one in enumerate(data.records("table", MAX_RUNS))
    ]


def _is_worse(best: Interval, other: Interval, name: str) -> bool:
    """Return whether the intervals show that the other is worse."""
    return best.high < other.low if metric(name).better == "lower" else best.low > other.high


def _answer(order: Sequence[Setting], names: Sequence[str], first: str) -> Content:
    best, *others = order
    if first not in best.numbers:
        raise ValueError("the table has no numbers")
    options = varied_options([dict(line.options) for line in order])
    write, name = metric(first).format_with_unit, _describe_setting(best, options)
    value = f"{_display_name(first)} {format_interval(best.numbers[first], write)}"
    others = [line for line in others if first in line.numbers]
    level = [line for line in others if not _is_worse(best.numbers[first], line.numbers[first], first)]
    if not others:
        verdict = f"{name}: {value}"
    elif any(line.seeds < MIN_SEEDS and AGENT not in line.options for line in order):
        verdict = f"Undecided, because there are fewer than {MIN_SEEDS} seeds: {name} came out first, {value}"
    elif not level:
        after = format_interval(others[0].numbers[first], write)
        verdict = f"{name} is best of {len(order)}: {value}; next {after}"
    else:
        rest = f"{len(level)} {'other is' if len(level) == 1 else 'others are'} not distinguished from it"
        verdict = f"Undecided: {name} came out first of {len(order)}, {value}, and {rest}"
    return {
        "verdict": verdict,
        "settings": f"{len(order):,}",
        "runs": f"{sum(line.seeds for line in order):,}",
        "first": _display_name(first),
        "direction": "least" if metric(first).better == "lower" else "most",
        "tiles": [
            (_display_name(name), metric(name).format_with_unit(best.numbers[name].mean), "of the first setting")
            for name in names[:4]
            if name in best.numbers
        ],
    }


def _settings(data: Record, order: Sequence[Setting], names: Sequence[str], folder: Path) -> Content:
    options = varied_options([dict(line.options) for line in order])
    ends = {
        name: (min(one.low for one in seen), max(one.high for one in seen))
        for name in names
        for seen in [[line.numbers[name] for line in order if name in line.numbers]]
    }
    runs = _runs_by_row(data)
    rows = []
    for line in order[:MAX_SHOWN]:
        cells: list[object] = [_format_value(line.options.get(name)) for name in options] or ["the only setting"]
        cells.append(_link_runs(runs.get(line.row, []), folder))
        cells += [_measure(name, line.numbers[name], *ends[name]) if name in line.numbers else "" for name in names]
        rows.append(cells)
    common = {name: value for name, value in order[0].options.items() if name not in options}
    return {
        "head": [*(name[:80] for name in options or ["setting"]), "seeds", *map(_display_name, names)],
        "rows": rows,
        "count": f"{len(order):,}" if len(order) > MAX_SHOWN else "",
        "common": join_names([f"{name[:80]} {_format_value(value)}" for name, value in list(common.items())[:20]])
        if common
        else "",
    }


def _runs_by_row(data: Record) -> dict[int, list[Record]]:
    """Return the runs of each setting."""
    runs: dict[int, list[Record]] = {}
    for one in data.records("runs", MAX_RUNS):
        runs.setdefault(one.count("row", MAX_RUNS), []).append(one)
    return runs


def _run_folder(one: Record, folder: Path) -> Path | None:
    """Return the folder of a run; None if it is not inside the sweep's."""
    path = PurePosixPath(one.text("run"))
    inside = not path.is_absolute() and ".." not in path.parts and "\0" not in str(path)
    return folder / path if inside else None


def _groups(data: Record, order: Sequence[Setting], folder: Path) -> tuple[list[Group], list[str]]:
    """Return the learning curves of settings that were trained, and the reasons why others are left out."""
    options, runs = varied_options([dict(line.options) for line in order]), _runs_by_row(data)
    groups, notes = [], []
    for line in order:
        curves = []
        for one in runs.get(line.row, []):
            path = _run_folder(one, folder)
            found, why = (None, "") if path is None or not path.is_dir() else or_why(partial(read_curves, [path]))
            curves += found or []
            notes += [why] if why else []
        if curves:
            labels = {name: _format_value(line.options.get(name)) for name in options}
            groups.append(Group(setting_name(dict(line.options), options)[:80], labels, curves))
    return groups, notes


def _learning(data: Record, order: Sequence[Setting], folder: Path) -> Content:
    """Return figures of the learning curves of the first settings: by games, and by CPU seconds."""
    groups, notes = _groups(data, order[:MAX_GROUPS], folder)
    figures = []
    axes: tuple[XAxis, ...] = ("games", "cpu")
    for x in axes:
        found, why = or_why(partial(summarize_groups, groups, x, "exploitability"))
        if found is not None and found[0]:
            label = "; ".join(f"{one.name}: {one.median[0]:.4g} to {one.median[-1]:.4g}" for one in found[0])
            draw = draw_summaries(found[0], x, "exploitability")
            figures.append(embed_figure(draw, f"by-{x}", f"Exploitability by {X_LABELS[x]}: {label}."))
            notes += found[1]
        elif x == "games":
            return {"missing": f"There are no learning curves: {why or 'no run is here'}."}
    return {
        "figures": figures,
        "notes": list(dict.fromkeys(notes)),
        "csv": encode_url(CURVES) if (folder / CURVES).is_file() else "",
        "most": f"{MAX_GROUPS} best of {len(order)}" if len(order) > MAX_GROUPS else "",
    }


def write_sweep_curves(folder: Path) -> Path | None:
    """Write the learning curves of a sweep beside its ``result.json``: exact exploitability by games, of all settings.

    Returns:
        The path of the CSV file; None if the runs were not measured exactly.

    Raises:
        OSError: no result, or a file that cannot be written.
        ValueError: a damaged result.
    """
    data = Record(read_json(folder / RESULT))
    groups, _ = _groups(data, _read_settings(data), folder)
    try:
        found, _ = summarize_groups(groups, "games", "exploitability")
    except ValueError:
        found = []
    if not found:
        (folder / CURVES).unlink(missing_ok=True)
        return None
    write_csv(folder / CURVES, found, "games", "exploitability")
    return folder / CURVES


def _measure(name: str, value: Interval, low: float, high: float) -> Markup:
    write = metric(name).format_with_unit
    ends = format_ends(value, write) if value.low < value.high else ""
    return macro("measure", write(value.mean), ends, interval_bar(value, low, high))


def _link_runs(runs: Sequence[Record], folder: Path) -> Markup:
    """List the runs of a setting, linked if they have a page."""
    shown = []
    for one in runs[:MAX_LINKED]:
        seed, path = str(one.count("seed", MAX_SEED)), _run_folder(one, folder)
        there = path is not None and (path / REPORT).is_file()
        shown.append((seed, encode_url(str(PurePosixPath(one.text("run")) / REPORT)) if there else ""))
    return macro("links", shown, len(runs) - len(shown))


def _cost(order: Sequence[Setting]) -> Content:
    spent = [line for line in order if "cpu_s" in line.numbers]
    if not spent:
        return {"missing": "The cost of the runs is not known."}
    total = sum(line.numbers["cpu_s"].mean * line.seeds for line in spent)
    peaks = [line.numbers["peak_rss_bytes"].mean for line in spent if "peak_rss_bytes" in line.numbers]
    shown = [
        ("training of all runs", f"{total:,.1f} s", "of CPU"),
        ("runs", f"{sum(line.seeds for line in order):,}", f"of {len(order):,} settings"),
    ]
    if peaks:
        shown.append(("peak memory", mebibytes(max(peaks)), "of the setting that took most"))
    return {"tiles": shown}


def _reproduction(data: Record) -> Content:
    trust = ["--trust"] if data.get("trust") is True else []
    return reproduction(data, ["train.py", "--sweep", data.spec("source"), *trust], ("source", "provenance"))


def _display_name(name: str) -> str:
    return metric(name).label[:80]


def _format_value(value: object) -> str:
    """Format the value of an option."""
    return truncate("" if value is None else value if isinstance(value, str) else json.dumps(value))


def _describe_setting(line: Setting, options: Sequence[str]) -> str:
    """Format a setting as a phrase."""
    shown = [f"{name[:80]} {_format_value(line.options[name])}" for name in options if name in line.options]
    return ", ".join(shown[:MAX_OPTIONS]) or ("default settings" if options else "the only setting")
