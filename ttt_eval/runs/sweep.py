"""Sweeps: many runs described in a file, and a table of their results, with intervals over
seeds.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Self

from msgspec import Meta, Struct, convert, field, toml

from ttt_envs.core.checks import Refusal, find_named, name_place
from ttt_envs.core.files import read_bounded
from ttt_envs.envs.config import game_keywords
from ttt_envs.game.game import VARIANTS
from ttt_envs.game.phantom import AnyGame
from ttt_eval.store.metrics import metric
from ttt_eval.store.result_store import Data
from ttt_eval.store.results import Result, Spec
from ttt_eval.store.statistics import Interval, interval_from_seeds

MAX_FILE_BYTES = 1 << 20
"""Maximum size of a file in bytes."""
MAX_RUNS = 10_000
"""Maximum number of runs in a file."""
AGENT = "agent"
"""Option of a setting without training: a policy that is measured beside the learners."""
AGENT_OPTIONS = (
    *(AGENT, "game", "size", "win-length", "skip-chance", "phantom", "opponent"),
    *(prefix + rule for rule in VARIANTS for prefix in ("", "no-")),
)
"""Options that apply to an agent."""

Seed = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
Name = Annotated[str, Meta(pattern=r"^[A-Za-z][\w-]*$")]
"""of an option. A row becomes words of a command line, where a name such as ``out=x`` would be
another option.
"""
Word = str | int | float | bool
Value = Word | list[Word]

Label = str | int | float | bool | None
Row = dict[str, object]
"""Options by name, with dashes, as in train.py."""


class _Parts(Struct):
    seeds: (
        Annotated[int, Meta(ge=1, le=MAX_RUNS)]
        | Annotated[list[Seed], Meta(min_length=1, max_length=MAX_RUNS)]
    ) = 1
    fixed: dict[Name, Value] = {}
    grid: dict[Name, list[Word | list[Word]]] = {}
    runs: Annotated[list[dict[Name, Value]], Meta(min_length=1)] = field(
        default_factory=lambda: [{}]
    )


def read_sweep(path: Path, forbidden: Sequence[str] = ()) -> tuple[list[Row], list[int]]:
    """Read a TOML file with these optional parts::

        seeds = 3                       # 0, 1 and 2; or a list of seeds
        fixed = {games = 2000}          # options of train.py that all runs have
        grid = {epsilon = [0.1, 0.3]}   # every combination of these
        [[runs]]                        # each of these with every combination
        learner = "q-learning"
        [[runs]]                        # a policy that is measured, and not trained
        agent = "win-or-block"

    Args:
        path: the file.
        forbidden: options that are not allowed.

    Returns:
        The settings, in order, and the seeds with which every setting is run.

    Raises:
        ValueError: no file, or an invalid one.
    """
    try:
        with name_place(f"{path} is no sweep (see train.py sweep --help)"):
            data: dict[str, object] = toml.decode(read_bounded(path, MAX_FILE_BYTES))
            for name in data:
                find_named("part", name, dict.fromkeys(_Parts.__struct_fields__))
            parts = convert(data, _Parts)
    except FileNotFoundError:
        raise Refusal(f"there is no file {path}: train.py sweep --help describes one") from None
    seeds = list(range(parts.seeds)) if isinstance(parts.seeds, int) else parts.seeds
    count = len(parts.runs) * len(seeds) * math.prod(map(len, parts.grid.values()))
    if not 0 < count <= MAX_RUNS or len(set(seeds)) < len(seeds):
        raise Refusal(
            f"{path} describes {count:,} runs: give options of grid values, seeds once, "
            f"{MAX_RUNS:,} at most"
        )
    rows: list[Row] = []
    for run in parts.runs:
        for values in itertools.product(*parts.grid.values()):
            options = {**parts.fixed, **dict(zip(parts.grid, values, strict=True)), **run}
            row = _read_row(options, path)
            # the options of learners do not distinguish agents
            if AGENT not in row or row not in rows:
                rows.append(row)
    _check_rows(rows, path, forbidden)
    return rows, seeds


def _read_row(options: Mapping[str, Value], path: Path) -> Row:
    """Return a setting, with dashes in its names; an agent has no options of learners."""
    row: Row = {name.replace("_", "-"): value for name, value in options.items()}
    if AGENT in row and "learner" in row:
        raise Refusal(f"{path} has a run with an agent and a learner: write one of them")
    if AGENT not in row:
        return row
    return {name: row[name] for name in AGENT_OPTIONS if name in row}


def _check_rows(rows: Sequence[Row], path: Path, forbidden: Sequence[str]) -> None:
    """Raise ValueError for values that would be options, forbidden options, and equal settings."""
    values = [value for row in rows for value in row.values()]
    words = [value if isinstance(value, list) else [value] for value in values]
    for word in itertools.chain.from_iterable(words):
        # a pattern in a union crashes Python at exit (msgspec 0.22)
        if isinstance(word, str) and word.startswith("-"):
            raise Refusal(
                f"{path} has {word!r}, which would be an option: write a value that begins "
                "otherwise"
            )
    for name in forbidden:
        if any(name in row for row in rows):
            raise Refusal(f"{path} has {name!r}, which is not for a file to say: leave it out")
    if any(rows.count(row) > 1 for row in rows):
        raise Refusal(
            f"{path} describes the same run twice: leave one out, or give them other options"
        )


def to_command_line(row: Mapping[str, object]) -> list[str]:
    """Convert a setting to command-line words; options without a value, False or None, are left
    out.
    """
    words: list[str] = []
    for name, value in row.items():
        if value is None or value is False:
            continue
        words.append(f"--{name.replace('_', '-')}")
        if value is not True:
            words += map(str, value if isinstance(value, list | tuple) else [value])
    return words


class SweepRun(Struct, frozen=True):
    """Result of a run."""

    row: int
    """index of the setting"""
    seed: int
    numbers: dict[str, float]
    """measurements by name"""
    run: str = ""
    """its folder, in that of the sweep"""


class SweepLine(Struct, frozen=True):
    """A setting with its results over seeds."""

    options: Row
    seeds: int
    """number of runs"""
    numbers: dict[str, Interval]
    """means by name; that of a single run has no interval"""

    def to_dict(self) -> Row:
        """Return the line as in files, with the numbers beside the options."""
        line: Row = {"options": self.options, "seeds": self.seeds}
        for name, mean in self.numbers.items():
            line[name] = mean.to_dict() if self.seeds > 1 else {"mean": mean.mean}
        return line


class SweepResult(Result, tag="sweep", kw_only=True):
    """A sweep."""

    source: Spec
    """name of the file that describes it"""
    trust: bool = False
    """whether classes outside this package were allowed"""
    table: Annotated[list[SweepLine], Meta(min_length=1)]
    runs: list[SweepRun]

    @classmethod
    def from_dict(cls, data: Mapping[str, object], folder: Path = Path()) -> Self:
        """Return the sweep that :meth:`to_dict` stored; see
        :meth:`ttt_eval.store.results.Result.from_dict`.
        """
        content = dict(data)
        table = content.get("table")
        if isinstance(table, list):
            content["table"] = [_nest_numbers(line) for line in table]
        return super().from_dict(content, folder)

    def to_dict(self) -> Data:
        """Return the content of the file, JSON-ready; docs/files.md documents the keys."""
        return {**super().to_dict(), "table": [line.to_dict() for line in self.table]}


def _nest_numbers(line: object) -> object:
    """Return a line of a file with its numbers in one dictionary."""
    if not isinstance(line, dict):
        return line
    numbers = {
        name: value
        for name, value in line.items()
        if name != "options" and isinstance(value, dict) and "mean" in value
    }
    return {**line, "numbers": numbers}


def tabulate_runs(rows: Sequence[Row], runs: Iterable[SweepRun]) -> list[SweepLine]:
    """Return a line for each setting."""
    sorted_runs = sorted(runs, key=lambda run: (run.row, run.seed))
    lines = []
    for index, row in enumerate(rows):
        results = [run.numbers for run in sorted_runs if run.row == index]
        lines.append(SweepLine(row, len(results), _mean_numbers(results)))
    return lines


def _mean_numbers(results: Sequence[Mapping[str, float]]) -> dict[str, Interval]:
    """Return the means of the numbers that all results have."""
    if len(results) == 1:
        return {name: Interval(value, value, value) for name, value in results[0].items()}
    means = {}
    for name in results[0] if results else ():
        values = [numbers[name] for numbers in results if name in numbers]
        if len(values) == len(results):
            means[name] = interval_from_seeds(values, bounds=metric(name).bounds)
    return means


# --------------------------------------------------------------------------------------------------
# Names of settings


def game_labels(game: AnyGame) -> dict[str, Label]:
    """Return the parameters of a game by name, of its rules those that are unusual."""
    size = str(game.rows) if game.rows == game.columns else f"{game.rows}x{game.columns}"
    return {"game": str(game), **game_keywords(game), "size": size}


def varied_names(rows: Sequence[Mapping[str, object]], ignored: Sequence[str] = ()) -> list[str]:
    """Return the names of values in which rows differ, in order of first appearance."""
    names = dict.fromkeys(name for row in rows for name in row)
    first = rows[0] if rows else {}
    return [
        name
        for name in names
        if name not in ignored and any(row.get(name) != first.get(name) for row in rows)
    ]


def varied_options(rows: Sequence[Row]) -> list[str]:
    """Return the options in which settings differ, in order of first appearance; agents have no
    options of learners.
    """
    of_learners = varied_names([row for row in rows if AGENT not in row])
    names = ("learner", *AGENT_OPTIONS, *of_learners)
    return [name for name in varied_names(rows) if name in names]


def setting_name(row: Mapping[str, object], options: Sequence[str]) -> str:
    """Return a setting as text, such as "q-learning, epsilon 0.3"."""
    texts = []
    for name in options:
        value = row.get(name)
        if value is not None:
            is_clear = name in ("learner", AGENT, "game", "opponent")
            texts.append(str(value) if is_clear else f"{name.replace('_', ' ')} {value}")
    return ", ".join(texts) or ("default settings" if options else "the only setting")
