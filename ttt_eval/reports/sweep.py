"""The page of a sweep: the best setting, a table of all settings, and links to the runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from ttt_envs.core.checks import Refusal, truncate
from ttt_envs.core.files import write_bytes
from ttt_eval.reports import formats, page, parts
from ttt_eval.reports.page import Cell, DataTable, Parts, Report, Text, left_out
from ttt_eval.runs.curves import Group, read_curves
from ttt_eval.runs.run_files import REPORT, RunDirectory
from ttt_eval.runs.sweep import AGENT, SweepResult, setting_name, varied_options
from ttt_eval.store.metrics import Metric, metric
from ttt_eval.store.result_store import TABLE
from ttt_eval.store.statistics import Interval

MAX_SHOWN = 200
"""Maximum number of settings in the table of the page, best first."""
MIN_SEEDS = 3
"""Minimum number of seeds of each setting from which an order is concluded."""


class SettingSummary(NamedTuple):
    """A setting of a sweep."""

    name: str
    labels: Mapping[str, str]
    """values of the options in which settings differ"""
    seeds: int
    numbers: Mapping[str, Interval]
    runs: Mapping[str, Path]
    """by seed, the folder of the run"""
    is_trained: bool
    """whether it is no agent"""


def summarize_settings(result: SweepResult) -> list[SettingSummary]:
    """Return the settings, best first by their first number.

    Raises:
        ValueError: the table has no numbers.
    """
    options = varied_options([line.options for line in result.table])
    settings = [_summarize_setting(result, number, options) for number in range(len(result.table))]
    if not _metrics(result):
        raise Refusal("the table has no numbers")
    first = _metrics(result)[0]
    sign = 1 if first.better == "lower" else -1

    def rank(setting: SettingSummary) -> float:
        mean = setting.numbers.get(first.name)
        return float("inf") if mean is None else sign * mean.mean

    return sorted(settings, key=rank)


def _summarize_setting(result: SweepResult, number: int, options: Sequence[str]) -> SettingSummary:
    """Return the setting in a row of the table."""
    line = result.table[number]
    return SettingSummary(
        name=setting_name(line.options, options),
        labels={name: _text(line.options.get(name)) for name in options},
        seeds=line.seeds,
        numbers=line.numbers,
        runs={str(run.seed): result.folder / run.run for run in result.runs if run.row == number},
        is_trained=AGENT not in line.options,
    )


def _metrics(result: SweepResult) -> list[Metric]:
    """Return the measures of a sweep, first that by which settings are ordered."""
    return [metric(name) for name in dict.fromkeys(chain(*(line.numbers for line in result.table)))]


def _text(value: object) -> str:
    """Format the value of an option."""
    return truncate("" if value is None else value)


def write_table(result: SweepResult) -> list[list[str]]:
    """Write all settings of a sweep into ``table.md`` in its folder, and return the rows, the head
    first.

    Raises:
        OSError: a file that cannot be written.
        ValueError: the table has no numbers.
    """
    table = _settings_table(result, summarize_settings(result))
    lines = [f"# {result.source}", "", *page.markdown(table), "", page.words("table of the sweep")]
    write_bytes(result.folder / TABLE, ("\n".join(lines) + "\n").encode())
    return page.table_texts(table)


def _settings_table(result: SweepResult, settings: Sequence[SettingSummary]) -> DataTable:
    """Return the table of settings; runs with a page of their own are linked."""
    metrics = _metrics(result)
    labels = settings[0].labels
    columns = [
        parts.interval_cells(
            [row.numbers.get(measure.name) for row in settings], measure.format_with_unit
        )
        for measure in metrics
    ]

    def row(setting: SettingSummary, *cells: str | Cell) -> page.Row:
        values = setting.labels.values() or [setting.name]
        links = [
            (seed, page.link_to(run / REPORT, result.folder)) for seed, run in setting.runs.items()
        ]
        return (*values, Cell(links=links), *cells)

    rows = [row(*entries) for entries in zip(settings, *columns, strict=True)]
    head = [*(labels or ["setting"]), "seeds", *(measure.label for measure in metrics)]
    return parts.table("settings", rows, head=head)


def sweep_report(result: SweepResult) -> Report:
    """Return the page of a sweep.

    Raises:
        ValueError: the table has no numbers.
    """
    settings = summarize_settings(result)
    sections: dict[str, Parts] = {
        "": [Text(_describe_order(result, settings))],
        "Settings": [
            _settings_table(result, settings[:MAX_SHOWN]),
            _omission(
                len(settings),
                MAX_SHOWN,
                f"The first {MAX_SHOWN} of {len(settings):,} are shown; {TABLE} has all.",
            ),
        ],
        "Learning curves": [
            *parts.curve_parts(_groups(settings[: parts.MAX_GROUPS])),
            _omission(
                len(settings),
                parts.MAX_GROUPS,
                f"Shown are the {parts.MAX_GROUPS} best of {len(settings)}.",
            ),
        ],
        "Reproduction": parts.reproduction(
            result, "train.py", "sweep", result.source, trust=result.trust
        ),
    }
    return Report(f"Sweep {result.source}", _describe(result, settings), [], sections)


def _omission(count: int, max_count: int, sentence: str) -> Text | None:
    """Return a sentence about what is not shown; None if all is."""
    return left_out(sentence) if count > max_count else None


def _describe_order(result: SweepResult, settings: Sequence[SettingSummary]) -> str:
    """Say by what settings are ordered, and which options all of them have."""
    shared = [
        f"{name} {_text(value)}"
        for name, value in result.table[0].options.items()
        if name not in settings[0].labels
    ]
    return page.words(
        "order of settings",
        settings=f"{len(settings):,}",
        runs=f"{sum(setting.seeds for setting in settings):,}",
        measure=_metrics(result)[0].label,
        common=", ".join(shared) or "no other options",
    )


def _describe(result: SweepResult, settings: Sequence[SettingSummary]) -> str:
    """Return the best setting, as far as intervals decide it."""
    first = _metrics(result)[0]
    write = partial(formats.format_interval, write=first.format_with_unit)
    means = [setting.numbers[first.name] for setting in settings if first.name in setting.numbers]
    best, *other_means = means

    def is_worse(mean: Interval) -> bool:
        return best.high < mean.low if first.better == "lower" else best.low > mean.high

    values = [f"{first.label} {write(mean)}" for mean in means]
    few_seeds = any(setting.seeds < MIN_SEEDS and setting.is_trained for setting in settings)
    if other_means and few_seeds:
        return page.words("few seeds", seeds=MIN_SEEDS, name=settings[0].name, value=values[0])
    num_undecided = sum(not is_worse(mean) for mean in other_means)
    return formats.describe_best([setting.name for setting in settings], values, num_undecided)


def _groups(settings: Sequence[SettingSummary]) -> list[Group]:
    """Return the learning curves of settings that were trained, of the runs that are there."""
    groups = []
    for setting in settings:
        runs = [run for run in setting.runs.values() if RunDirectory(run).exists()]
        if runs:
            groups.append(Group(setting.name, setting.labels, read_curves(runs)))
    return groups
