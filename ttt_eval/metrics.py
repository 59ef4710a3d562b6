"""The measures of runs and policies: their names, labels, directions and bounds, in one table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

from msgspec import convert

from ttt_envs.core.files import parse_json

MAX_LINE_BYTES = 1 << 16
"""Maximum length of a line of measurements in bytes."""
YAxis = Literal["exploitability", "regret", "score"]
"""Measures of which learning curves can be drawn."""


class Metric(NamedTuple):
    """A measure of a run or a policy."""

    name: str
    """key in results, logs and columns"""
    label: str
    better: Literal["lower", "higher"] = "higher"
    bounds: tuple[float, float] = (0.0, 1.0)
    """lowest and highest possible value"""
    note: str = ""
    """what its values mean, in a few words"""
    unit: str = ""
    unit_size: float = 1.0
    """value of one unit"""
    digits: int = 4

    def format(self, value: float) -> str:
        """Format a value without its unit."""
        return f"{value / self.unit_size:,.{self.digits}f}"

    def format_with_unit(self, value: float) -> str:
        """Format a value with its unit."""
        return f"{self.format(value)} {self.unit}".rstrip()


METRICS = {
    metric.name: metric
    for metric in (
        Metric("exploitability", "exploitability", "lower", note="0 is perfect, 1 is lost always"),
        Metric("regret", "regret", "lower", (0.0, 2.0), "lost by an average move"),
        Metric("score", "score, draws half"),
        Metric("exact_win", "win"),
        Metric("exact_draw", "draw"),
        Metric("exact_loss", "loss", "lower"),
        Metric("cpu_s", "CPU", "lower", (0.0, float("inf")), unit="s", digits=2),
        Metric("peak_rss_bytes", "peak memory", "lower", (0.0, float("inf")), unit="MiB", unit_size=2.0**20, digits=0),
    )
}
"""Measures by name; a name that is not here is a rate, of which more is better."""
LOSSES = ("exploitability", "regret")
"""Exact measures of a policy without an opponent; the second is not known for every game."""
LOSS_LABELS = tuple(METRICS[name].label for name in LOSSES)
RATES = ("exact_win", "exact_draw", "exact_loss")
"""Exact measures against an opponent."""


def parse_rows(lines: Iterable[bytes], path: Path, by: str, first: int = 1) -> list[dict[str, float]]:
    """Return the rows of lines of JSON, each an object of finite numbers.

    Args:
        lines: the lines.
        path: the file that they are from.
        by: a name that every row has, whose number is at least 0 and never decreases.
        first: the number of the first line.

    Raises:
        ValueError: a line of anything else.
    """
    rows = list[dict[str, float]]()
    for number, line in enumerate(lines, first):
        try:
            row = convert(parse_json(line, MAX_LINE_BYTES), dict[str, int | float])
            if row.get(by, -1) < (rows[-1][by] if rows else 0):
                raise ValueError(f"its {by} are missing, or fewer than before")
        except ValueError as problem:
            raise ValueError(f"line {number} of {path} cannot be read: {problem}") from None
        rows.append(row)
    return rows


def metric(name: str) -> Metric:
    """Return the measure of a name."""
    return METRICS.get(name) or Metric(name, name.replace("_", " "))


def describe_losses(values: Mapping[str, float | None], note: str = "") -> str:
    """Return the known ones of :data:`LOSSES` in words, with a note on the first."""
    parts = [f"{METRICS[name].label} {value:.6f}" for name in LOSSES if (value := values.get(name)) is not None]
    return ", ".join([parts[0] + note, *parts[1:]])
