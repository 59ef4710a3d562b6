"""Sweeps: many runs described in a file, and a table of their results, with intervals over
seeds.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from msgspec import Meta, Struct, convert, field, toml

from ttt_envs.core.checks import Refusal, find_named, name_place
from ttt_envs.core.files import read_bounded, write_json
from ttt_envs.game.game import VARIANTS
from ttt_envs.game.phantom import AnyGame, PhantomGame
from ttt_eval.store.metrics import metric
from ttt_eval.store.result_store import RESULT
from ttt_eval.store.statistics import interval_from_seeds

MAX_FILE_BYTES, MAX_RUNS = 1 << 20, 10_000
"""Maximum size of a file in bytes, and maximum number of runs in it."""
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
Row = dict[str, Any]
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


def read_sweep(path: Path, refused: Sequence[str] = ()) -> tuple[list[Row], list[int]]:
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
        refused: options that are not allowed.

    Returns:
        The settings, in order, and the seeds with which every setting is run.

    Raises:
        ValueError: no file, or an invalid one.
    """
    try:
        with name_place(f"{path} is no sweep (see train.py --sweep FILE --help)"):
            data: dict[str, Any] = toml.decode(read_bounded(path, MAX_FILE_BYTES))
            for name in data:
                find_named("part", name, dict.fromkeys(_Parts.__struct_fields__))
            parts = convert(data, _Parts)
    except FileNotFoundError:
        raise Refusal(
            f"there is no file {path}: train.py --sweep FILE --help describes one"
        ) from None
    seeds = list(range(parts.seeds)) if isinstance(parts.seeds, int) else parts.seeds
    count = len(parts.runs) * len(seeds) * math.prod(map(len, parts.grid.values()))
    if not 0 < count <= MAX_RUNS or len(set(seeds)) < len(seeds):
        raise Refusal(
            f"{path} describes {count:,} runs: give options of grid values, seeds once, "
            f"{MAX_RUNS:,} at most"
        )
    rows: list[Row] = []
    for run in parts.runs:
        for chosen in itertools.product(*parts.grid.values()):
            options = {**parts.fixed, **dict(zip(parts.grid, chosen, strict=True)), **run}
            row = {name.replace("_", "-"): value for name, value in options.items()}
            if AGENT in row and "learner" in row:
                raise Refusal(f"{path} has a run with an agent and a learner: write one of them")
            if AGENT in row:
                row = {name: row[name] for name in AGENT_OPTIONS if name in row}
            if (
                AGENT not in row or row not in rows
            ):  # the options of learners do not distinguish agents
                rows.append(row)
    values = [value for row in rows for value in row.values()]
    for word in itertools.chain.from_iterable(
        value if isinstance(value, list) else [value] for value in values
    ):
        if isinstance(word, str) and word.startswith(
            "-"
        ):  # a pattern in a union crashes Python at exit (msgspec 0.22)
            raise Refusal(
                f"{path} has {word!r}, which would be an option: write a value that begins "
                "otherwise"
            )
    for name in {name for row in rows for name in row} & set(refused):
        raise Refusal(f"{path} has {name!r}, which is not for a file to say: leave it out")
    if any(rows.count(row) > 1 for row in rows):
        raise Refusal(
            f"{path} describes the same run twice: leave one out, or give them other options"
        )
    return rows, seeds


def to_command_line(row: Mapping[str, Any]) -> list[str]:
    """Convert a setting to command-line words; options without a value, False or None, are left
    out.
    """
    words: list[str] = []
    for name, value in row.items():
        if value is not None and value is not False:
            words.append(f"--{name.replace('_', '-')}")
            words += (
                []
                if value is True
                else map(str, value if isinstance(value, list | tuple) else [value])
            )
    return words


class RunResult(NamedTuple):
    """Result of a run."""

    row: int
    """index of the setting"""
    seed: int
    numbers: Mapping[str, float]
    """measurements by name"""
    run: str = ""
    """its folder, in that of the sweep"""


def tabulate_runs(rows: Sequence[Row], runs: Iterable[RunResult]) -> list[Row]:
    """Return a row for each setting, JSON-ready: ``options``, ``seeds`` and the means over them,
    with intervals.

    The mean of a single run has no interval.
    """
    ordered = sorted(runs, key=lambda run: (run.row, run.seed))
    table = []
    for index, row in enumerate(rows):
        results = [run.numbers for run in ordered if run.row == index]
        line: Row = {"options": row, "seeds": len(results)}
        for name in results[0] if results else ():
            if all(name in numbers for numbers in results):
                mean = interval_from_seeds(
                    [numbers[name] for numbers in results], bounds=metric(name).bounds
                )
                line[name] = mean._asdict() if len(results) > 1 else {"mean": mean.mean}
        table.append(line)
    return table


# --------------------------------------------------------------------------------------------------
# Names of settings


def game_labels(game: AnyGame) -> dict[str, Label]:
    """Return the parameters of a game by name, of its rules those that are unusual."""
    size = str(game.rows) if game.rows == game.columns else f"{game.rows}x{game.columns}"
    labels: dict[str, Label] = {
        "game": str(game),
        "size": size,
        "win_length": game.win_length,
        "skip_chance": game.skip_chance,
        **game.variants,
    }
    if isinstance(game, PhantomGame):
        labels["phantom"] = game.kind
    return labels


def varied(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of values in which rows differ, in order of first appearance."""
    names = dict.fromkeys(name for row in rows for name in row)
    return [name for name in names if any(row.get(name) != rows[0].get(name) for row in rows)]


def varied_options(rows: Sequence[Row]) -> list[str]:
    """Return the options in which settings differ, in order of first appearance; agents have no
    options of learners.
    """
    of_learners = varied([row for row in rows if AGENT not in row])
    return [name for name in varied(rows) if name in ("learner", *AGENT_OPTIONS, *of_learners)]


def setting_name(row: Mapping[str, Any], options: Sequence[str]) -> str:
    """Return a setting as text, such as "q-learning, epsilon 0.3"."""
    texts = [
        str(row[name])
        if name in ("learner", AGENT, "game", "opponent")
        else f"{name.replace('_', ' ')} {row[name]}"
        for name in options
        if row.get(name) is not None
    ]
    return ", ".join(texts) or ("default settings" if options else "the only setting")


def write_sweep(
    folder: Path,
    source: str,
    provenance: Mapping[str, Any],
    rows: Sequence[Row],
    runs: Sequence[RunResult],
    *,
    trust: bool = False,
) -> None:
    """Write ``result.json`` into a folder.

    Args:
        folder: the folder.
        source: the name of the file that describes the sweep.
        provenance: JSON-ready: versions and code.
        rows: the settings.
        runs: the results of all runs.
        trust: whether classes outside this package were allowed.
    """
    data = {
        "format": 1,
        "kind": "sweep",
        "source": source,
        "trust": trust,
        "provenance": dict(provenance),
        "table": tabulate_runs(rows, runs),
        "runs": [run._asdict() for run in runs],
    }
    write_json(folder / RESULT, data)
