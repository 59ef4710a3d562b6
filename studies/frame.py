"""Frame of the studies: resumable units of work; tables, claims and figures as data; the page made
from them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from inspect import cleandoc
from itertools import product
from math import isfinite, isnan
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from studies.verdicts import holds_for_all, is_within
from ttt_envs.core.checks import Refusal
from ttt_envs.core.files import read_table, write_bytes
from ttt_envs.core.parallel import Jobs
from ttt_eval.reports.page import markdown_rows
from ttt_eval.reports.plots import SERIES, error_bars, save_picture
from ttt_eval.store.result_store import (
    RESULT,
    TABLE,
    Data,
    Unit,
    collect_results,
    no_progress,
    write_csv,
)
from ttt_eval.store.statistics import Interval

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

SCALE_OPTIONS = {"symlog": {"linthresh": 0.001, "linscale": 0.5}}
"""Options of the scales of an axis that have any."""
VERDICTS = {True: "yes", False: "no", None: "undecided"}
RESULT_VALUES = (1, 0, -1)
"""Values of a win, a draw and a loss."""
Results = Sequence[tuple[Unit, Any]]
"""Units with their results, in order."""
Value = Any
"""A number, a word, a verdict (True, False or None), an :class:`Interval`, or a sequence or mapping
of these.
"""
Numbers = Mapping[str, Value]
"""Values by what they are."""


# --------------------------------------------------------------------------------------------------
# Results as data


class ResultRow(NamedTuple):
    """A row of a study's table; a cell is empty if its value is None."""

    what: str
    published: Value = None
    """None if the source gives no number"""
    ours: Value = None
    exact: Value = None
    agrees: bool | None = None
    """whether published and exact (or ours) agree within sampling error; None if that cannot be
    decided
    """


class Claim(NamedTuple):
    """A claim of a source in words, with its evidence."""

    words: str
    holds: bool | None
    """None if the measurements do not decide it"""
    numbers: Numbers


class Series(NamedTuple):
    """Numbers drawn alike, with error bars where they are intervals."""

    name: str
    """in the legend, once for all panels; "" for none"""
    x: Iterable[float]
    y: Iterable[float | Interval]
    form: str = "o-"
    """marker and line, as matplotlib's ``fmt``"""
    colour: int | str = 0
    """a number of the project's colours, or a colour"""
    width: float = 1.2
    """of the line, in points"""


class Panel(NamedTuple):
    """A diagram: its series and axes."""

    series: Sequence[Series]
    x_label: str = ""
    y_label: str = ""
    title: str = ""
    places: Sequence[str] = ()
    """names of x = 0, 1, ...; then x is the vertical axis, from the top"""
    scales: tuple[str, str] = ("linear", "linear")
    """of x and y: linear, log or, linearly below 0.001, symlog"""
    limits: tuple[float | None, float | None] = (None, None)
    """of y; of x if there are ``places``"""
    ticks: Sequence[float] = ()
    """numbers that x = 0, 1, ... stands for"""


class StudyFigure(NamedTuple):
    """A figure with its caption."""

    question: str
    symbols: str
    """what is drawn, as far as the legend does not say it"""
    panels: Sequence[Panel]
    columns: int = 2
    """largest number of panels side by side"""


@dataclass(frozen=True)
class StudyReport:
    """Results of a study."""

    rows: Sequence[ResultRow]
    claims: Sequence[Claim] = ()
    figures: Mapping[str, StudyFigure] = field(default_factory=dict)
    ours: str = "ours"
    """heading of the column of that name"""

    def table(self) -> list[list[str]]:
        """Return the header and the rows as text, without empty columns."""
        lines = [["what", "published", self.ours, "exact", "agree"]]
        for row in self.rows:
            values = row.published, row.ours, row.exact, row.agrees
            cells = ["" if value is None else format_value(value) for value in values]
            lines.append([row.what, *cells])
        columns = [column for column in zip(*lines, strict=True) if any(column[1:])]
        return [list(line) for line in zip(*columns, strict=True)]

    def claims_table(self) -> list[list[str]]:
        """Return the header and a line for each claim, as text."""
        lines = [
            [claim.words, VERDICTS[claim.holds], format_value(claim.numbers)]
            for claim in self.claims
        ]
        return [["claim of the source", "verdict", "evidence"], *lines]


def read_data(source: str) -> Data:
    """Return the published numbers, claims and settings of a source, ``studies/SOURCE.toml``."""
    return read_table(str(Path(__file__).with_name(source)))


WORDS = read_data("words")
"""Attributes of studies that are words for readers, by the name of their class."""


class Study:
    """A published table or figure, and its reproduction.

    The docstrings of a study and of its bases describe the original, the reproduction, and their
    differences.

    The quick form does fewer units, and decides no claim. Words for readers, such as the title,
    are in ``studies/words.toml``.

    Attributes:
        title: the subject.
        source: author, year, and the number of the table or figure.
        question: that its figure answers.
        symbols: what the figure draws, as far as its legend does not say it.
        left_out: parts that the quick form omits; "" if there are none, and it decides claims too.
        alone: whether units must not run in parallel, because they measure time.
        version: raised with a change of ``measure`` that alters the results of units.
    """

    title: str
    source: str = "our own study"
    question: str = ""
    symbols: str = ""
    left_out: str = ""
    alone: bool = False
    version: int = 1

    def __init_subclass__(cls) -> None:
        """Give a class its :data:`WORDS`."""
        for name, words in WORDS.get(cls.__name__, {}).items():
            setattr(cls, name, words)

    def use_checkouts(self, folders: Sequence[Path]) -> None:
        """Take folders of Git repositories of others.

        Raises:
            ValueError: the study reads none.
        """
        raise Refusal(f"the study {self.title!r} reads no data of others: leave out --source")

    def units(self, quick: bool) -> list[Unit]:
        """Return the units of work, JSON-ready, all different; those of the quick form if
        ``quick``.
        """
        raise NotImplementedError

    def measure(self, unit: Unit) -> Any:
        """Do one unit, perhaps in another process, and return JSON-ready data."""
        raise NotImplementedError

    def analyse(self, results: Results) -> StudyReport:
        """Return the report of all units."""
        raise NotImplementedError

    def figure(self, panels: Sequence[Panel], columns: int = 2, **numbers: object) -> StudyFigure:
        """Return the figure that answers the question; ``numbers`` are named in the symbols."""
        return StudyFigure(self.question, self.symbols.format(**numbers), panels, columns)


def combine(**values: Iterable[Any]) -> list[Unit]:
    """Return a unit for each combination of settings, given the values of each by its name."""
    return [dict(zip(values, choice, strict=True)) for choice in product(*values.values())]


def group(results: Results, *names: str) -> dict[Any, list[Any]]:
    """Return lists of results by one setting of their units or a tuple of several, without the
    units that lack one.
    """
    groups: dict[Any, list[Any]] = {}
    for unit, result in results:
        if all(name in unit for name in names):
            key = tuple(unit[name] for name in names)
            groups.setdefault(key if len(names) > 1 else key[0], []).append(result)
    return groups


def train_to(training: Any, marks: Iterable[float]) -> Iterator[float]:
    """Train to each of these numbers of games, and yield the CPU seconds of all steps so far.

    Args:
        training: a :class:`~learners.training.TrainingLoop`.
        marks: ascending.
    """
    cpu_s = 0.0
    for mark in marks:
        start = time.process_time()
        while training.running and training.done.games < mark:
            training.step()
        cpu_s += time.process_time() - start
        yield cpu_s


def judge_claims(claims: Iterable[Data], numbers: Numbers, subject: str = "") -> list[Claim]:
    """Return claims with their verdicts and evidence.

    Args:
        claims: tables with the keys ``words``; ``true_if``, the ranges in which numbers lie if the
            claim holds, by their names; and ``evidence``, the names of the numbers shown, or tables
            of what is shown beside them.
        numbers: what is measured. A claim about a sequence or a mapping is about each of its
            numbers; a mapping is shown as its items.
        subject: precedes the words of each.
    """
    judged_claims = []
    for claim in claims:
        verdicts = (is_within(numbers[name], *ends) for name, ends in claim["true_if"].items())
        evidence: dict[str, Value] = {}
        for item in claim["evidence"]:
            value = numbers[item] if isinstance(item, str) else item
            evidence |= value if isinstance(value, Mapping) else {item: value}
        judged_claims.append(Claim(subject + claim["words"], holds_for_all(verdicts), evidence))
    return judged_claims


# --------------------------------------------------------------------------------------------------
# Work, and its files


def reproduce(
    study: Study,
    name: str,
    folder: Path,
    provenance: Mapping[str, object],
    *,
    quick: bool = False,
    jobs: Jobs = 1,
    progress: Callable[[int, int], None] = no_progress,
) -> tuple[StudyReport, list[Path]]:
    """Do the units of a study that are not done yet; write ``table.md``, its tables as CSV,
    ``result.json``, figures.

    Every result is written to ``units.jsonl`` in the folder as soon as it is available: after a
    kill, the same call resumes.

    Args:
        study: the study.
        name: its name in the list of studies.
        folder: folder of the results.
        provenance: JSON-ready: versions and everything else that determines results besides the
            study's version.
        quick: the quick form.
        jobs: the workers.
        progress: called with the number of units done, and the total.

    Returns:
        The report, and the paths of the written files.

    Raises:
        ValueError: another process works in the folder, something in it is no file, or it has the
            results of another version or ``provenance``; there is no matplotlib.
    """
    units = study.units(quick)
    values = collect_results(
        study.measure,
        units,
        folder,
        {**provenance, "study": study.version},
        jobs=1 if study.alone else jobs,
        other_files=("*.csv", "*.png", "*.svg"),
        progress=progress,
    )
    report = study.analyse(list(zip(units, values, strict=True)))
    if quick and study.left_out:
        report = replace(report, claims=[claim._replace(holds=None) for claim in report.claims])
    command = f"python evaluate.py reproduce {name}"
    page = write_page(study, report, f"{command} --quick" if quick else command, quick)
    content = {
        "format": 2,
        "study": name,
        "quick": quick,
        "rows": [row._asdict() for row in report.rows],
        "claims": [claim._asdict() for claim in report.claims],
        "units": [
            {"unit": unit, "result": value} for unit, value in zip(units, values, strict=True)
        ],
    }
    # numbers that are not finite become null
    result = msgspec.json.encode(content, enc_hook=lambda value: value.tolist())
    write_bytes(folder / TABLE, page.encode())
    write_bytes(folder / RESULT, msgspec.json.format(result, indent=1) + b"\n")
    paths = [folder / TABLE, folder / RESULT]
    for stem, rows in ((name, report.table()), (f"{name}-claims", report.claims_table())):
        if len(rows) > 1:
            paths.append(folder / f"{stem}.csv")
            write_csv(paths[-1], rows)
    for figure_name, figure in report.figures.items():
        paths += save_picture(folder / f"{figure_name}.png", partial(draw_figure, figure))
    return report, paths


def write_page(study: Study, report: StudyReport, command: str, quick: bool) -> str:
    """Return the page of a report in Markdown."""
    kinds = [kind for kind in type(study).__mro__ if issubclass(kind, Study) and kind is not Study]
    description = " ".join(cleandoc(kind.__doc__ or "").replace("\n", " ") for kind in kinds)
    source = study.source[:1].upper() + study.source[1:]
    paragraphs = [f"# {study.title}", f"{source}. {description}"]
    if quick and study.left_out:
        paragraphs.append(f"Quick form: without {study.left_out}")
    paragraphs.append(f"`{command}`")
    paragraphs += [
        "\n".join(markdown_rows(rows))
        for rows in (report.table(), report.claims_table())
        if len(rows) > 1
    ]
    for name, figure in report.figures.items():
        picture = f"![{figure.question}]({name}.png)"
        paragraphs += [f"**{figure.question}**", picture, figure.symbols]
    return "\n\n".join(paragraphs) + "\n"


def format_value(value: Value, is_nested: bool = False) -> str:
    """Format a value for a table, evidence or caption.

    Fractions have four digits after the point, and an interval has its ends in brackets unless it
    is a point. Sequences are joined by slashes. Mappings are lists of names and values, those
    nested in others with commas.
    """
    if value is None or isinstance(value, bool):
        return VERDICTS[value]
    if isinstance(value, Mapping):
        colon, separator = (" ", ", ") if is_nested else (": ", "; ")
        parts = []
        for name, part in value.items():
            prefix = f"{name}{colon}" if name else ""
            parts.append(prefix + format_value(part, True))
        return separator.join(parts)
    if isinstance(value, Interval):
        mean, low, high = (_format_number(number, max(map(abs, value))) for number in value)
        return mean if low == high else f"{mean} ({low} to {high})"
    if isinstance(value, Real):
        return _format_number(value, abs(value))
    if isinstance(value, str):
        return value
    return " / ".join(format_value(part, True) for part in value)


def _format_number(number: Any, size: Any) -> str:
    """Format a number among numbers up to a size."""
    if isinstance(number, Integral):
        return f"{number:,}"
    if isnan(number):
        return "unknown"
    if not isfinite(number):
        return "infinite" if number > 0 else "-infinite"
    if size >= 10:
        return f"{number:,.1f}"
    return f"{number:.2g}" if 0 < size < 0.00095 else f"{number:.4f}"


# --------------------------------------------------------------------------------------------------
# Figures


def draw_figure(figure: StudyFigure, canvas: Canvas) -> None:
    """Draw the panels of a figure, with one legend for all."""
    columns = min(figure.columns, len(figure.panels))
    rows = -(-len(figure.panels) // columns)
    places = max(len(panel.places) for panel in figure.panels)
    canvas.set_size_inches(8.0, 1.0 + rows * max(3.2, 0.7 + 0.27 * places))
    panes = canvas.subplots(rows, columns, squeeze=False).ravel()
    handle_of_label: dict[str, Artist] = {}
    for axes, panel in zip(panes, figure.panels, strict=False):
        _draw_panel(axes, panel)
        handles, labels = axes.get_legend_handles_labels()
        handle_of_label |= dict(zip(labels, handles, strict=True))
    for axes in panes[len(figure.panels) :]:
        axes.remove()
    canvas.legend(
        list(handle_of_label.values()),
        list(handle_of_label),
        loc="outside upper center",
        ncols=3,
        frameon=False,
        fontsize="small",
    )


def _draw_panel(axes: Axes, panel: Panel) -> None:
    for series in panel.series:
        _draw_series(axes, series, is_horizontal=len(panel.places) > 0)
    axes.set_title(panel.title, fontsize="medium")
    axes.set(xlabel=panel.x_label, ylabel=panel.y_label)
    if panel.places:
        axes.set_yticks(range(len(panel.places)), panel.places, fontsize="small")
        axes.invert_yaxis()
        axes.set_xlim(*panel.limits)
    else:
        x_scale, y_scale = panel.scales
        axes.set_xscale(x_scale, **SCALE_OPTIONS.get(x_scale, {}))
        axes.set_yscale(y_scale, **SCALE_OPTIONS.get(y_scale, {}))
        axes.set_ylim(*panel.limits)
        if panel.ticks:
            axes.set_xticks(range(len(panel.ticks)), [format_value(tick) for tick in panel.ticks])


def _draw_series(axes: Axes, series: Series, is_horizontal: bool) -> None:
    """Draw a series; if ``is_horizontal``, its x is the vertical axis."""
    intervals = [y if isinstance(y, Interval) else Interval(y, y, y) for y in series.y]
    x = list(series.x)
    y = [interval.mean for interval in intervals]
    error = None
    if any(interval.low < interval.high for interval in intervals):
        error = error_bars(intervals)
    colour = SERIES[series.colour] if isinstance(series.colour, int) else series.colour
    points: dict[str, Any] = {"x": x, "y": y, "yerr": error}
    if is_horizontal:
        points = {"x": y, "y": x, "xerr": error}
    axes.errorbar(
        **points,
        fmt=series.form,
        label=series.name or None,
        ms=4,
        lw=series.width,
        capsize=2,
        alpha=0.4 if series.width < 1 else 1,
        color=colour,
    )
