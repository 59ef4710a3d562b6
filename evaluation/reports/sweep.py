"""The page of a sweep: the best setting, a table of all settings, and links to the runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from evaluation.reports.comparison_parts import (
    Data,
    count_in,
    in_brackets,
    interval_in,
    join_names,
    object_in,
    objects_in,
    optional_section,
    settings,
    spec_in,
    text_in,
    verdict,
)
from evaluation.reports.html import Html, element, encoded, joined, reach, section, table, tiles
from evaluation.reports.run_parts import left_out
from evaluation.run_files import REPORT
from evaluation.statistics import Interval
from evaluation.sweep import MOST, varied

SHOWN = 200
"""Maximum number of settings in the table, best first."""
LINKED = 10
"""Maximum number of linked runs per setting."""
MEASURES = 20
LESS = ("exploitability", "regret", "cpu_s", "peak_rss_bytes")
"""Measures for which lower is better."""
NAMES = {"cpu_s": "CPU", "peak_rss_bytes": "peak memory"}
UNTOLD = ("options", "seeds")


class Setting(NamedTuple):
    """A row of the table."""

    row: int
    options: Mapping[str, Any]
    seeds: int
    numbers: Mapping[str, Interval]


def sweep_page(data: Data, folder: Path) -> tuple[str, list[Html]]:
    """Return the title and sections of the page.

    Args:
        data: the result.
        folder: folder of the page; only runs with a page of their own are linked.

    Raises:
        ValueError: there is no table.
    """
    lines = [
        Setting(
            row,
            object_in(one, "options"),
            count_in(one, "seeds"),
            {name: interval_in(one, name) for name in list(one)[: MEASURES + 2] if name not in UNTOLD},
        )
        for row, one in enumerate(objects_in(data, "table", MOST))
    ]
    if not lines:
        raise ValueError("table is empty, and must have a setting or more")
    names = list(dict.fromkeys(name for line in lines for name in line.numbers))
    first = names[0] if names else None
    order = sorted((line for line in lines if first in line.numbers), key=lambda line: _rank(line.numbers, first))
    order += [line for line in lines if first not in line.numbers]
    return f"Sweep {text_in(data, 'source')}", [
        optional_section("The answer", partial(_answer_section, order, names, first)),
        optional_section("Settings", partial(_table, data, order, names, folder)),
        optional_section("What it cost", partial(_cost_section, order)),
        optional_section("The same again", partial(_reproduce_section, data)),
    ]


def _rank(numbers: Mapping[str, Interval], name: str | None) -> float:
    mean = numbers[name or ""].mean
    return mean if name in LESS else -mean


def _display_name(name: str) -> str:
    return NAMES.get(name, name.replace("_", " "))[:80]


def _format_measure(name: str, value: float) -> str:
    if name == "cpu_s":
        return f"{value:,.2f} s"
    return f"{value / 2**20:,.0f} MiB" if name.endswith("bytes") else f"{value:.4f}"


def _format_value(value: object) -> str:
    """Format the value of an option."""
    text = "" if value is None else value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _setting(line: Setting, options: Sequence[str]) -> str:
    """Format a setting as a phrase."""
    told = [f"{name[:80]} {_format_value(line.options[name])}" for name in options if name in line.options]
    return ", ".join(told[:6]) or "the only setting"


def _answer_section(order: Sequence[Setting], names: Sequence[str], first: str | None) -> Html:
    options = varied([dict(line.options) for line in order])
    runs = sum(line.seeds for line in order)
    best = order[0]
    if first is None or first not in best.numbers:
        raise ValueError("the table has no numbers")
    written = partial(_format_measure, first)
    told = f"{_display_name(first)} {in_brackets(best.numbers[first], written)}"
    others = [line for line in order[1:] if first in line.numbers]
    if not others:
        sentence = f"{_setting(best, options)}: {told}"
    elif min(line.seeds for line in order) < 2:
        sentence = f"Undecided, for one run has no interval: {_setting(best, options)} came out first, {told}"
    elif all(_is_worse(best.numbers[first], line.numbers[first], first) for line in others):
        after = in_brackets(others[0].numbers[first], written)
        sentence = f"{_setting(best, options)} is best of {len(order)}: {told}; next {after}"
    else:
        level = [line for line in others if not _is_worse(best.numbers[first], line.numbers[first], first)]
        sentence = (
            f"Undecided: {_setting(best, options)} came out first of {len(order)}, {told}, and "
            f"{len(level)} {'other is' if len(level) == 1 else 'others are'} not told apart from it"
        )
    about = (
        f"{len(order):,} settings, {runs:,} runs. Numbers are means over seeds with 95% intervals by Student's t; "
        f"settings are ordered by {_display_name(first)}, {'least' if first in LESS else 'most'} first."
    )
    tile: list[tuple[str, object, str]] = [
        (_display_name(name), written_(best.numbers[name].mean), "of the first setting")
        for name in names[:4]
        if name in best.numbers
        for written_ in [partial(_format_measure, name)]
    ]
    return element("section", verdict(f"{sentence}."), element("p", about), tiles(tile))


def _is_worse(best: Interval, other: Interval, name: str) -> bool:
    """Return whether the intervals show that the other is worse."""
    return best.high < other.low if name in LESS else best.low > other.high


def _table(data: Data, order: Sequence[Setting], names: Sequence[str], folder: Path) -> Html:
    options = varied([dict(line.options) for line in order])
    ends = {
        name: (min(one.low for one in seen), max(one.high for one in seen))
        for name in names
        for seen in [[line.numbers[name] for line in order if name in line.numbers]]
    }
    runs: dict[int, list[Data]] = {}
    for one in objects_in(data, "runs", MOST):
        runs.setdefault(count_in(one, "row", MOST), []).append(one)
    rows = []
    for line in order[:SHOWN]:
        cells: list[object] = [_format_value(line.options.get(name)) for name in options] or ["the only setting"]
        cells.append(_links(runs.get(line.row, []), folder))
        rows.append((*cells, *(_number(name, line.numbers.get(name), *ends[name]) for name in names)))
    head = (*(name[:80] for name in options or ["setting"]), "seeds", *map(_display_name, names))
    fixed = {name: value for name, value in order[0].options.items() if name not in options}
    same = (
        f"All have {join_names([f'{name[:80]} {_format_value(value)}' for name, value in list(fixed.items())[:20]])}."
        if fixed
        else ""
    )
    more = left_out(f"The first {SHOWN} of {len(order):,} are shown; table.md has all.") if len(order) > SHOWN else None
    return section(
        "Settings",
        element("p", same) if same else None,
        table("What differs, a link to each run that has a page, and what became of it", head, rows),
        more,
    )


def _number(name: str, value: Interval | None, low: float, high: float) -> object:
    if value is None:
        return ""
    known = value.low < value.high
    ends = (
        element("small", f"{_format_measure(name, value.low)} to {_format_measure(name, value.high)}")
        if known
        else None
    )
    return element("div", _format_measure(name, value.mean), ends, reach(value, low, high))


def _links(runs: Sequence[Data], folder: Path) -> Html:
    """List the runs of a setting, linked if they have a page."""
    shown = []
    for one in runs[:LINKED]:
        seed, path = str(count_in(one, "seed", 2**63)), PurePosixPath(text_in(one, "run"))
        inside = not path.is_absolute() and ".." not in path.parts and "\0" not in str(path)
        there = inside and (folder / path / REPORT).is_file()
        shown.append(element("a", seed, href=encoded(str(path / REPORT))) if there else element("span", seed))
    more = [element("span", f"and {len(runs) - LINKED} more")] if len(runs) > LINKED else []
    return joined([*shown, *more], " ")


def _cost_section(order: Sequence[Setting]) -> Html:
    spent = [line for line in order if "cpu_s" in line.numbers]
    if not spent:
        return section("What it cost", left_out("It is not known what the runs took."))
    total = sum(line.numbers["cpu_s"].mean * line.seeds for line in spent)
    peaks = [line.numbers["peak_rss_bytes"].mean for line in spent if "peak_rss_bytes" in line.numbers]
    shown: list[tuple[str, object, str]] = [
        ("training of all runs", f"{total:,.1f} s", "of CPU"),
        ("runs", f"{sum(line.seeds for line in order):,}", f"of {len(order):,} settings"),
    ]
    if peaks:
        shown.append(("peak memory", f"{max(peaks) / 2**20:,.0f} MiB", "of the setting that took most"))
    return section("What it cost", tiles(shown))


def _reproduce_section(data: Data) -> Html:
    return settings(data, ["train.py", "--sweep", spec_in(data, "source")], ("source", "made_by"))
