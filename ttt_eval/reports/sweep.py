"""The page of a sweep: the best setting, a table of all settings, and links to the runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from ttt_envs.core.checks import Refusal, truncate
from ttt_envs.core.files import write_bytes
from ttt_eval.reports import formats, page, parts
from ttt_eval.reports.page import Cell, Parts, Report, Table, Text, left_out
from ttt_eval.reports.results import SweepResult, read_result
from ttt_eval.runs.curves import Group, read_curves
from ttt_eval.runs.run_files import REPORT, RunDirectory
from ttt_eval.runs.sweep import AGENT, setting_name, varied_options
from ttt_eval.store.metrics import Metric, metric
from ttt_eval.store.result_store import TABLE
from ttt_eval.store.statistics import Interval

MAX_SHOWN = 200
"""Maximum number of settings in the table of the page, best first."""
MIN_SEEDS = 3
"""Minimum number of seeds of each setting from which an order is concluded."""


class Setting(NamedTuple):
    """A setting of a sweep."""

    name: str
    labels: Mapping[str, str]
    """values of the options in which settings differ"""
    seeds: int
    numbers: Mapping[str, Interval]
    runs: Mapping[str, Path]
    """by seed, the folder of the run"""
    trained: bool
    """whether it is no agent"""


def read_settings(result: SweepResult) -> list[Setting]:
    """Return the settings, best first by their first number.

    Raises:
        ValueError: the table has no numbers.
    """
    rows = [row["options"] for row in result.table]
    options, settings = varied_options(rows), []
    for number, row in enumerate(result.table):
        numbers = {name: value for name, value in row.items() if isinstance(value, Interval)}
        runs = {
            str(run["seed"]): result.folder / run["run"]
            for run in result.runs
            if run["row"] == number
        }
        labels, name = (
            {name: _text(rows[number].get(name)) for name in options},
            setting_name(rows[number], options),
        )
        settings.append(
            Setting(name, labels, row["seeds"], numbers, runs, AGENT not in rows[number])
        )
    if not any(setting.numbers for setting in settings):
        raise Refusal("the table has no numbers")
    first = _metrics(settings)[0]
    sign = 1 if first.better == "lower" else -1
    return sorted(
        settings,
        key=lambda setting: (
            sign * setting.numbers[first.name].mean
            if first.name in setting.numbers
            else float("inf")
        ),
    )


def _metrics(settings: Sequence[Setting]) -> list[Metric]:
    return [
        metric(name) for name in dict.fromkeys(name for row in settings for name in row.numbers)
    ]


def _text(value: object) -> str:
    """Format the value of an option."""
    return truncate("" if value is None else value)


def write_table(folder: Path) -> list[list[str]]:
    """Write all settings of a sweep into ``table.md`` beside its ``result.json``, and return the
    rows, the head first.

    Raises:
        OSError: no result, or a file that cannot be written.
        ValueError: a damaged result.
    """
    result = read_result(folder)
    if not isinstance(result, SweepResult):
        raise Refusal(f"{folder} holds no sweep: train.py --sweep FILE writes one")
    table = _settings_table(read_settings(result), folder)
    lines = [f"# {result.source}", "", *page.markdown(table), "", page.words("table of the sweep")]
    write_bytes(folder / TABLE, ("\n".join(lines) + "\n").encode())
    return page.table_texts(table)


def _settings_table(settings: Sequence[Setting], folder: Path) -> Table:
    """Return the table of settings; runs with a page of their own are linked."""
    metrics, labels = _metrics(settings), settings[0].labels
    columns = [
        parts.interval_cells([row.numbers.get(of.name) for row in settings], of.format_with_unit)
        for of in metrics
    ]
    rows = [
        (
            *(row.labels.values() or [row.name]),
            Cell(
                links=[(seed, page.link_to(run / REPORT, folder)) for seed, run in row.runs.items()]
            ),
            *cells,
        )
        for row, *cells in zip(settings, *columns, strict=True)
    ]
    return parts.table(
        "settings", rows, head=[*(labels or ["setting"]), "seeds", *(of.label for of in metrics)]
    )


def sweep_report(result: SweepResult) -> Report:
    """Return the page of a sweep.

    Raises:
        ValueError: the table has no numbers.
    """
    settings = read_settings(result)
    labels, options = settings[0].labels, result.table[0]["options"]
    order = page.words(
        "order of settings",
        settings=f"{len(settings):,}",
        runs=f"{sum(setting.seeds for setting in settings):,}",
        measure=_metrics(settings)[0].label,
        common=", ".join(
            f"{name} {_text(value)}" for name, value in options.items() if name not in labels
        )
        or "no other options",
    )
    rest = f"The first {MAX_SHOWN} of {len(settings):,} are shown; {TABLE} has all."
    best = settings[: parts.MAX_GROUPS]
    sections: dict[str, Parts] = {
        "": [Text(order)],
        "Settings": [
            _settings_table(settings[:MAX_SHOWN], result.folder),
            left_out(rest) if len(settings) > MAX_SHOWN else None,
        ],
        "Learning curves": [
            *parts.curve_parts(_groups(best)),
            left_out(f"Shown are the {len(best)} best of {len(settings)}.")
            if len(settings) > len(best)
            else None,
        ],
        "Reproduction": parts.reproduction(
            result, "train.py", sweep=result.source, trust=result.trust
        ),
    }
    return Report(f"Sweep {result.source}", _describe(settings), [], sections)


def _describe(settings: Sequence[Setting]) -> str:
    """Return the best setting, as far as intervals decide it."""
    of = _metrics(settings)[0]
    write = partial(formats.format_interval, write=of.format_with_unit)
    best, *others = means = [
        setting.numbers[of.name] for setting in settings if of.name in setting.numbers
    ]
    undecided = sum(
        not (best.high < other.low if of.better == "lower" else best.low > other.high)
        for other in others
    )
    values = [f"{of.label} {write(value)}" for value in means[:2]]
    if others and any(setting.seeds < MIN_SEEDS and setting.trained for setting in settings):
        return page.words("few seeds", seeds=MIN_SEEDS, name=settings[0].name, value=values[0])
    return formats.describe_best([setting.name for setting in settings], values, undecided)


def _groups(settings: Sequence[Setting]) -> list[Group]:
    """Return the learning curves of settings that were trained, of the runs that are there."""
    runs = [[run for run in row.runs.values() if RunDirectory(run).exists()] for row in settings]
    return [
        Group(row.name, row.labels, read_curves(of))
        for row, of in zip(settings, runs, strict=True)
        if of
    ]
