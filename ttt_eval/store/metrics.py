"""The measures of runs and policies: ``metrics.toml`` has their names, labels, directions and
bounds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct, convert

from ttt_envs.core.checks import Refusal, name_place
from ttt_envs.core.files import open_to_read, parse_json, read_table, write_bytes
from ttt_envs.core.lines import is_torn, iterate_lines

MAX_LINE_BYTES = 1 << 16
"""Maximum length of a line of measurements in bytes."""
_Number = Annotated[int, Meta(ge=-(1 << 53), le=1 << 53)] | float  # NumPy computes with them
YAxis = Literal["exploitability", "regret", "mean_loss", "score"]
"""Measures of which learning curves can be drawn."""


class Metric(Struct, frozen=True):
    """A measure of a run or a policy."""

    name: str
    """key in results, logs and columns"""
    label: str
    better: Literal["lower", "higher"] = "higher"
    bounds: tuple[float, float] = (0.0, 1.0)
    """lowest and highest possible value"""
    note: str = ""
    """what its values mean, in a few words"""
    long_label: str = ""
    """the label with its meaning, where there is room for it"""
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


class Losses(Struct, kw_only=True):
    """Exact measures of a policy without an opponent, None where they are not known. Its fields are
    the list of these measures: :class:`ttt_eval.exact.strength.Strength` computes them.
    """

    exploitability: float | None = None
    regret: float | None = None
    mean_loss: float | None = None


METRICS = {
    name: convert({"name": name, **row}, Metric) for name, row in read_table(__file__).items()
}
"""Measures by name; a name that is not here is a rate, of which more is better."""
LOSSES = Losses.__struct_fields__
"""Names of :class:`Losses`; all but the first are not known for every game."""
LOSS_LABELS = tuple(METRICS[name].label for name in LOSSES)
COUNTS = ("wins", "draws", "losses")
"""Counts of a run's games since its start, in a line of measurements."""
RATES = ("exact_win", "exact_draw", "exact_loss")
"""Exact measures against an opponent."""


def read_rows(path: Path, order: str) -> list[dict[str, float]]:
    """Return the rows of a file of lines of JSON, each an object of finite numbers; none if there
    is no file.

    A last line without its end is being written, and is left out.

    Args:
        path: the file.
        order: a name that every row has, whose number is at least 0 and never decreases.

    Raises:
        ValueError: a line of anything else.
    """
    rows: list[dict[str, float]] = []
    if not path.exists():
        return rows
    with open_to_read(path) as file:
        for line in iterate_lines(file, MAX_LINE_BYTES):
            if is_torn(line, MAX_LINE_BYTES):
                break
            with name_place(f"line {len(rows) + 1} of {path} cannot be read"):
                row = convert(parse_json(line, MAX_LINE_BYTES), dict[str, _Number])
                if row.get(order, -1) < (rows[-1][order] if rows else 0):
                    raise Refusal(f"its {order} are missing, or fewer than before")
            rows.append(row)
    return rows


def write_rows(path: Path, rows: Iterable[Mapping[str, object]]) -> None:
    """Write a file of lines of JSON, such as one of :func:`read_rows`, atomically."""
    write_bytes(path, b"".join(json.dumps(row).encode() + b"\n" for row in rows))


def metric(name: str) -> Metric:
    """Return the measure of a name."""
    return METRICS.get(name) or Metric(name, name.replace("_", " "))


def describe_losses(values: Mapping[str, float | None], note: str = "") -> str:
    """Return the known ones of :data:`LOSSES` in words, with a note on the first."""
    losses = {name: values[name] for name in LOSSES if values.get(name) is not None}
    parts = [f"{METRICS[name].label} {value:.6f}" for name, value in losses.items()]
    return ", ".join([parts[0] + note, *parts[1:]])
