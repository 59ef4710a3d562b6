"""Learning curves: exact measurements during training, of runs and of other agents.

:func:`record` writes the measurements of a training loop that is not of this package; docs/files.md documents the file.
:func:`read_curves` reads these files and run directories. :mod:`ttt_eval.curve_summaries` summarizes them over seeds.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta, Struct, convert, to_builtins

from ttt_envs.agents.adapters import as_policy
from ttt_envs.agents.specs import make_policy
from ttt_envs.core.files import open_to_read, parse_json, read_bounded, write_atomically
from ttt_envs.envs.config import SELF
from ttt_envs.game.phantom import AnyGame, PhantomGame, game_from_dict
from ttt_eval.cost import is_number
from ttt_eval.exact.strength import measure
from ttt_eval.metrics import MAX_LINE_BYTES, parse_rows
from ttt_eval.run_files import RunDirectory

Label = str | int | float | bool | None
Row = Mapping[str, float]
Count = Annotated[int, Meta(ge=0, lt=1 << 53)]

MAX_CURVES = 10_000
"""Maximum number of curves that are read at once."""
SEED, LEARNER = "seed", "learner"
NO_LABELS = (
    "checkpoint_games", "checkpoint_seconds", "code", "exact_every", "format", "game", "log_every",
    "no_report", "resumed", "revision", "settings", "versions",
)  # fmt: skip
"""Fields of a ``config.json`` that do not distinguish groups of runs."""

_cpu_starts: dict[str, float | None] = {}
"""By path of a recorded curve: the CPU time of this process that counts as its start; None if unknown."""


class Head(Struct, kw_only=True):
    """The first line of a recorded curve."""

    format: Literal[1] = 1
    content: Literal["curve"]
    game: dict[str, Any]
    opponent: str | None = None
    seat: Literal[0, 1] | None = None
    labels: dict[str, Label]


class Curve(NamedTuple):
    """The exact measurements of one training."""

    name: str
    """its path, as given"""
    labels: Mapping[str, Label]
    """its settings by name, ``learner`` and ``seed`` among them"""
    rows: Sequence[Row]
    """lines with measurements, in order"""
    notes: Sequence[str] = ()
    """sentences about it for readers"""


# ---------------------------------------------------------------------------------------------------------------------
# Recording


def record(
    path: str | Path,
    game: AnyGame,
    policy: Any,
    games: int,
    *,
    steps: int | None = None,
    opponent: str | None = None,
    seat: int | None = None,
    **labels: Label,
) -> dict[str, float]:
    """Measure an agent exactly, and append a line to the file of its learning curve; call it in a training loop.

    Nothing is drawn, and no game is played: the agent learns the same with and without it. The line is on disk when
    the function returns. Lines of as many or more games are replaced, so that a loop that starts again or resumes from
    its own checkpoint may write to the same file.

    CPU seconds are those of this process without the measurements, counted from the call with ``games=0``. Without such
    a call in this process they are left out, unless the line of as many games is there already, as after a resumption.

    Args:
        path: the file, one for each training, such as ``curves/mine-seed0.jsonl``; folders are created.
        game: the game.
        policy: the agent in its current state: a policy, a spec string, or an argument of
            :func:`ttt_envs.as_policy`.
        games: number of games of the training so far.
        steps: number of the agent's moves so far, if counted.
        opponent: spec string of an opponent for exact results, None for none.
        seat: the agent's against the opponent, 0 or 1; None for the mean of both.
        **labels: names and settings that distinguish curves, such as ``learner="mine", seed=0, step_size=0.1``.

    Returns:
        The line: ``games``, ``steps``, ``cpu_s``, ``exploitability``, ``regret`` on boards that can be solved, and
        against an opponent ``exact_win``, ``exact_draw``, ``exact_loss``.

    Raises:
        OSError: the file cannot be written; no part of the line remains.
        ValueError: an invalid number or label, a policy that is not pure, or a file of anything else.
        MemoryError: a board that is too large to be measured exactly.
    """
    began, path = time.process_time(), Path(path)
    convert([games, steps or 0], list[Count])
    names: dict[str, Label] = {LEARNER: "agent", SEED: 0, **labels}
    data = {"content": "curve", "game": game.to_dict(), "opponent": opponent, "seat": seat, "labels": names}
    head, rows = convert(data, Head), list[dict[str, float]]()
    if path.exists():
        stored, rows = _read_lines(path)
        if stored != head:
            raise ValueError(f"{path} holds a curve of another game or other labels: choose another file, or remove it")
    spent = _cpu_spent(path, games, rows, began)
    agent = make_policy(policy, game) if isinstance(policy, str) else as_policy(policy, game)
    line = {"games": games, "steps": steps, "cpu_s": spent, **measure(game, agent, opponent, seat)}
    row = {name: value for name, value in line.items() if value is not None}
    lines = [to_builtins(head), *(row for row in rows if row["games"] < games), row]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(
        path, lambda file: file.write("".join(json.dumps(one, allow_nan=False) + "\n" for one in lines).encode())
    )
    if (start := _cpu_starts[os.path.abspath(path)]) is not None:
        _cpu_starts[os.path.abspath(path)] = start + time.process_time() - began  # without this measurement
    return row


def _cpu_spent(path: Path, games: int, rows: Sequence[Row], now: float) -> float | None:
    """Return the CPU seconds of the training up to now; None if unknown."""
    key = os.path.abspath(path)
    if games == 0:
        _cpu_starts[key] = now
    elif key not in _cpu_starts:
        stored = [row["cpu_s"] for row in rows if row["games"] == games and "cpu_s" in row]
        _cpu_starts[key] = now - stored[-1] if stored else None
    start = _cpu_starts[key]
    return None if start is None else now - start


def _read_lines(path: Path) -> tuple[Head, list[dict[str, float]]]:
    """Read a recorded curve.

    Raises:
        OSError: no file.
        ValueError: a file of anything else.
    """
    first, *lines = read_bounded(path).splitlines() or [b""]
    return _read_head(first, path), parse_rows(lines, path, "games", 2)


def _read_head(line: bytes, path: Path) -> Head:
    try:
        head = convert(parse_json(line, MAX_LINE_BYTES), Head)
        game_from_dict(head.game)
    except (ValueError, KeyError, TypeError) as problem:
        raise ValueError(f"line 1 of {path} is not of a learning curve: {problem}") from None
    return head


# ---------------------------------------------------------------------------------------------------------------------
# Reading


def read_curves(paths: Iterable[Path]) -> list[Curve]:
    """Read the learning curves of run directories, of files of :func:`record`, and of folders of either.

    Args:
        paths: a folder stands for the runs and files in it, in ``runs/`` in it, as in the folder of a sweep.

    Raises:
        ValueError: nothing to read, or damaged files.
    """
    found = list(dict.fromkeys(one for path in paths for one in _expand_path(path)))
    if not found:
        raise ValueError("there is nothing to read: name run directories, files of curves.record, or a sweep's folder")
    if len(found) > MAX_CURVES:
        raise ValueError(f"these are {len(found):,} curves, and at most {MAX_CURVES:,} are read: name fewer")
    return [_read_run(path) if path.is_dir() else _read_record(path) for path in found]


def _expand_path(path: Path) -> list[Path]:
    """Return the runs and recorded curves at a path."""
    if path.is_file() or RunDirectory(path).exists():
        return [path]
    if not path.is_dir():
        raise ValueError(f"there is no run and no file {path}: name run directories, or files of curves.record")
    inside = [each for folder in (path, path / "runs") if folder.is_dir() for each in sorted(folder.iterdir())]
    found = [each for each in inside if RunDirectory(each).exists() or _is_record(each)]
    if not found:
        raise ValueError(f"{path} holds no runs and no files of curves.record")
    return found


def _is_record(path: Path) -> bool:
    """Return whether a file begins as recorded curves do."""
    if path.suffix != ".jsonl" or not path.is_file():
        return False
    with open_to_read(path) as file, suppress(ValueError):
        return bool(_read_head(file.readline(MAX_LINE_BYTES), path))
    return False


def _read_record(path: Path) -> Curve:
    head, rows = _read_lines(path)
    labels = {**_game_labels(game_from_dict(head.game)), "opponent": head.opponent, **head.labels}
    return Curve(str(path), labels, [row for row in rows if "exploitability" in row])


def _read_run(path: Path) -> Curve:
    run = RunDirectory(path)
    config, game = run.read_config(), run.read_game()
    settings = config["settings"]
    labels = {
        name: value if value is None or isinstance(value, str | int | float) else json.dumps(value)
        for name, value in {**settings, **config}.items()
        if name not in NO_LABELS
    }
    labels["opponent"] = labels.get("opponent", SELF)
    rows = run.read_metrics()
    notes, games = [], config.get("games", 0)
    if not rows or (is_number(games) and rows[-1]["games"] < games):
        done = f"{rows[-1]['games']:,.0f}" if rows else "none"
        notes.append(f"{path} is unfinished: {done} of its {games:,} games are measured so far")
    measured = [row for row in rows if "exploitability" in row]
    return Curve(str(path), {**_game_labels(game), **labels}, measured, notes)


def _game_labels(game: AnyGame) -> dict[str, Label]:
    size = str(game.rows) if game.rows == game.columns else f"{game.rows}x{game.columns}"
    labels: dict[str, Label] = {"game": str(game), "size": size, "win_length": game.win_length}
    phantom = {"phantom": game.kind} if isinstance(game, PhantomGame) else {}
    return {**labels, "skip_chance": game.skip_chance, **game.variants, **phantom}
