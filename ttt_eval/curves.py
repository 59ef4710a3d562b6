"""Learning curves: exact measurements during training, of runs and of other agents.

:func:`record` writes the measurements of a training loop that is not of this package; docs/files.md documents the file.
:func:`read_curves` reads these files and run directories. :mod:`ttt_eval.curve_summaries` summarizes them over seeds.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from ttt_envs.agents.adapters import as_policy
from ttt_envs.agents.specs import make_policy
from ttt_envs.core.checks import truncate
from ttt_envs.core.files import lock, open_to_read, open_to_write, parse_json, path_hint, read_bounded, replace_tail
from ttt_envs.envs.config import SELF
from ttt_envs.game.phantom import AnyGame, PhantomGame, game_from_dict
from ttt_eval.cost import is_number
from ttt_eval.exact.strength import measure
from ttt_eval.run_files import RunDirectory

Label = str | int | float | bool | None
Row = Mapping[str, float]

FORMAT = 1
"""Version of the format of recorded curves."""
CONTENT = "curve"
"""Name of the content of recorded curves, in their first line."""
MAX_LINE_BYTES = 1 << 16
"""Maximum length of a line of a recorded curve in bytes."""
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
    the function returns, and an incomplete line of a killed process is removed. Lines of as many or more games are
    replaced, so that a loop that starts again or resumes from its own checkpoint may write to the same file.

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
    began = time.process_time()
    _check_whole("games", games)
    _check_whole("steps", 0 if steps is None else steps)
    head = {
        "format": FORMAT, "content": CONTENT, "game": game.to_dict(), "opponent": opponent, "seat": seat,
        "labels": _check_labels({LEARNER: "agent", SEED: 0, **labels}),
    }  # fmt: skip
    path = Path(path)
    before = _read_lines(path)
    if before and before[0] != head:
        raise ValueError(f"{path} holds a curve of another game or other labels: choose another file, or remove it")
    line: dict[str, float] = {"games": games}
    if steps is not None:
        line["steps"] = steps
    if (spent := _cpu_spent(path, games, before, began)) is not None:
        line["cpu_s"] = spent
    agent = make_policy(policy, game) if isinstance(policy, str) else as_policy(policy, game)
    line |= measure(game, agent, opponent, seat)
    path.parent.mkdir(parents=True, exist_ok=True)
    with open_to_write(path) as file:
        lock(file.fileno(), wait=True)
        size = _end_of_lines(file, games)
        file.seek(0)
        if not size and not json.dumps(head).encode().startswith(file.read(MAX_LINE_BYTES)):
            raise ValueError(f"{path} is no file of a learning curve: choose another file, or remove it")
        lines = [line] if size else [head, line]
        replace_tail(file, path, size, "".join(json.dumps(one) + "\n" for one in lines).encode())
    if (start := _cpu_starts[os.path.abspath(path)]) is not None:
        _cpu_starts[os.path.abspath(path)] = start + time.process_time() - began  # without this measurement
    return line


def _cpu_spent(path: Path, games: int, before: Sequence[Row], now: float) -> float | None:
    """Return the CPU seconds of the training up to now; None if unknown."""
    key = os.path.abspath(path)
    if games == 0:
        _cpu_starts[key] = now
    elif key not in _cpu_starts:
        stored = [row["cpu_s"] for row in before[1:] if row["games"] == games and "cpu_s" in row]
        _cpu_starts[key] = now - stored[-1] if stored else None
    start = _cpu_starts[key]
    return None if start is None else now - start


def _check_whole(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not 0 <= value < 1 << 53:
        raise ValueError(f"{name}={value!r} is no count: write a whole number, 0 or more")


def _check_labels(labels: Mapping[str, Label]) -> dict[str, Label]:
    """Return the labels if they can be stored."""
    for name, value in labels.items():
        if not (value is None or isinstance(value, str | bool) or is_number(value)):
            shown = f"{truncate(name)}={truncate(repr(value))}"
            raise ValueError(f"{shown} is no label: write a text, a finite number, True, False or None")
    return dict(labels)


def _end_of_lines(file: IO[bytes], games: int) -> int:
    """Return the end of the complete lines with fewer games, in bytes; 0 without a first line."""
    size = 0
    file.seek(0)
    for number, line in enumerate(file):
        if not line.endswith(b"\n") or (number and parse_json(line, MAX_LINE_BYTES)["games"] >= games):
            break
        size += len(line)
    return size


def _read_lines(path: Path) -> list[dict[str, Any]]:
    """Read the lines of a recorded curve, its head first; empty if there is no file, or none that begins with a line.

    An incomplete last line, of a process that was killed or is writing, is left out.

    Raises:
        ValueError: a file of anything else.
    """
    try:
        content = read_bounded(path)
    except FileNotFoundError:
        return []
    *lines, _ = content.split(b"\n")
    found: list[dict[str, Any]] = []
    for number, line in enumerate(lines, 1):
        try:
            row = parse_json(line, MAX_LINE_BYTES)
            (_check_row if found else _check_head)(row, found)
        except ValueError as problem:
            raise ValueError(f"line {number} of {path} is not of a learning curve: {problem}") from None
        found.append(row)
    return found


def _check_head(head: Any, _: object) -> None:
    if not isinstance(head, dict) or head.get("content") != CONTENT or not isinstance(head.get("labels"), dict):
        raise ValueError("files of ttt_eval.curves.record begin with their game and labels")
    if head.get("format") != FORMAT:
        raise ValueError(f"format={truncate(repr(head.get('format')))} is not known here: this version reads {FORMAT}")
    try:
        game_from_dict(head["game"])
    except (KeyError, TypeError) as problem:
        raise ValueError(f"its game cannot be read: {problem}") from None
    _check_labels({**head["labels"], "opponent": head.get("opponent")})


def _check_row(row: Any, before: Sequence[Row]) -> None:
    if not isinstance(row, dict) or "games" not in row or not all(map(is_number, row.values())):
        raise ValueError("it must be an object of finite numbers, games among them")
    if len(before) > 1 and row["games"] <= before[-1]["games"]:
        raise ValueError("games must increase from line to line")


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
        hint = path_hint(path, "name run directories, or files of curves.record")
        raise ValueError(f"there is no run and no file {path}: {hint}")
    inside = [each for folder in (path, path / "runs") if folder.is_dir() for each in sorted(folder.iterdir())]
    found = [each for each in inside if RunDirectory(each).exists() or _is_record(each)]
    if not found:
        raise ValueError(f"{path} holds no runs and no files of curves.record")
    return found


def _is_record(path: Path) -> bool:
    """Return whether a file begins as recorded curves do."""
    if path.suffix != ".jsonl" or not path.is_file():
        return False
    with open_to_read(path) as file:
        line = file.readline(MAX_LINE_BYTES)
    try:
        _check_head(parse_json(line), ())
    except ValueError:
        return False
    return True


def _read_record(path: Path) -> Curve:
    lines = _read_lines(path)
    if not lines:
        raise ValueError(f"{path} holds no learning curve: write one with ttt_eval.curves.record")
    head, *rows = lines
    labels = {**_game_labels(game_from_dict(head["game"])), "opponent": head.get("opponent"), **head["labels"]}
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
