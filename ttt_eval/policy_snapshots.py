"""Snapshots of a learner's policy in a few fixed positions, stored at the exact marks of its run: ``choices.jsonl``.

The positions are the same at every mark and depend on the game alone, so changes between marks show learning. Positions
from the learner's own play would change with it and could not be compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta, Struct

from learners.training import dense_first
from ttt_envs.agents.policy import Policy
from ttt_envs.core.files import read_bounded
from ttt_envs.core.jit import Int8Array
from ttt_envs.game.boards import Boards, check_opening, from_text, to_text
from ttt_envs.game.game import MAX_EDGE, Position
from ttt_envs.game.phantom import AnyGame
from ttt_envs.game.rules import legal
from ttt_eval.exact.strength import Choice, choice_in

CHOICES = "choices.jsonl"
MAX_SNAPSHOT_BYTES = 1 << 22
"""Maximum size of the file in bytes."""
MAX_CHOICES = 8
"""Maximum number of positions of a snapshot."""
SPARSE = 2
"""Snapshots are half as frequent as log lines by default, at most about 200."""
PLACES = 6
"""Number of decimal places in the file."""
MAX_POSITION_LENGTH = MAX_EDGE * (MAX_EDGE + 1) + 1
"""Maximum length of a position in characters."""
MAX_ABS_VALUE = 1e6
"""Maximum absolute value accepted; values are results, -1 to 1, but nets may exceed them."""


Share = Annotated[float, Meta(ge=0, le=1)]
Value = Annotated[float, Meta(ge=-MAX_ABS_VALUE, le=MAX_ABS_VALUE)]


class Snapshot(NamedTuple):
    """Choices of a learner after a number of games."""

    games: int
    choices: Sequence[Choice]


class StoredChoice(Struct, omit_defaults=True):
    """A choice as in the file."""

    position: Annotated[str, Meta(max_length=MAX_POSITION_LENGTH)]
    probabilities: list[Share]
    values: list[Value | None] | None = None
    """None where a move is illegal"""


class StoredSnapshot(Struct, forbid_unknown_fields=True):
    """A line of the file."""

    games: Annotated[int, Meta(ge=0, lt=1 << 53)]
    choices: Annotated[list[StoredChoice], Meta(min_length=1, max_length=MAX_CHOICES)]


def probe_positions(game: AnyGame) -> dict[str, Position]:
    """Return up to four named positions, those that exist in the game.

    They are the empty board; the reply to a stone in the middle; a line of o's that lacks one stone, with o to move;
    and the same line with x to move, who cannot win yet and has to block.
    """
    start = Boards.start(game).position(0)
    found = {"the empty board": start}
    if game.win_length == 1:
        return found
    grid = np.arange(game.cells).reshape(game.rows, game.columns)

    def with_stones(o: Sequence[int], x: Sequence[int], mover: int) -> Position:
        cells = start.cells.copy()
        cells[list(o)], cells[list(x)] = 1, 2
        return Position(cells, mover)

    if game.cells > 1:
        middle = int(grid[-1 if game.gravity else game.rows // 2, game.columns // 2])
        found["the middle taken"] = with_stones([middle], [], 1)
    along = grid if game.columns >= game.win_length else grid.T
    level = -1 if game.gravity else len(along) // 2  # near the middle, where real games are
    *line, last = along[level, : game.win_length].tolist()
    others = [cell for cell in along.ravel()[::-1].tolist() if cell not in (*line, last)]
    if len(others) >= len(line):
        found["a line to complete"] = with_stones(line, others[: len(line)], 0)
        if len(line) > 1:
            found["a line to block"] = with_stones(line, others[: len(line) - 1], 1)
    if game.gravity:  # those in which all stones rest
        return {name: one for name, one in found.items() if not _falls(one.cells, game.columns)}
    return found


def _falls(cells: Int8Array, columns: int) -> bool:
    """Return whether a stone stands above an empty cell."""
    return bool(((cells[:-columns] != 0) & (cells[columns:] == 0)).any())


def take_snapshot(game: AnyGame, games: int, policy: Policy) -> Snapshot:
    """Return the choices of a pure policy in the telling positions."""
    boards = Boards.from_positions(list(probe_positions(game).values()))
    return Snapshot(games, [choice_in(policy, boards, row, solution=None) for row in range(len(boards.mover))])


def next_due(games: int, kept: int) -> int:
    """Return the number of games at which the next snapshot is due, ``kept`` being the last, in a run of ``games``."""
    return dense_first(max(1, games // SPARSE))(kept) if kept else 0


def snapshot_line(game: AnyGame, mark: Snapshot) -> bytes:
    """Encode a snapshot as a line of ``choices.jsonl``; docs/files.md documents the keys."""
    choices = []
    for one in mark.choices:
        values = None
        if one.own is not None:
            values = [None if np.isnan(value) else round(float(value), PLACES) + 0.0 for value in one.own]
        shares = [round(float(share), PLACES) for share in one.probabilities]
        choices.append(StoredChoice(to_text(one.position, game), shares, values))
    return msgspec.json.encode(StoredSnapshot(mark.games, choices)) + b"\n"


def position_name(game: AnyGame, position: Position) -> str:
    """Return the name of a telling position, or the text of any other."""
    text = to_text(position, game)
    names = {to_text(one, game): name for name, one in probe_positions(game).items()}
    return names.get(text, text)


def read_choices(run: Path, game: AnyGame, most: int = MAX_SNAPSHOT_BYTES) -> list[Snapshot]:
    """Read the snapshots of a run's ``choices.jsonl``, in order of games; empty if there is no file.

    Args:
        run: the run directory.
        game: the game of its training.
        most: maximum size of the file in bytes.

    Raises:
        OSError: a file that cannot be read.
        ValueError: a line not written by :func:`snapshot_line`, or a larger file.
    """
    path, marks = run / CHOICES, list[Snapshot]()
    try:
        content = read_bounded(path, most)
    except FileNotFoundError:
        return marks
    for count, line in enumerate(content.splitlines(), 1):
        try:
            stored = msgspec.json.decode(line, type=StoredSnapshot)
            mark = Snapshot(stored.games, [_read_choice(choice, game) for choice in stored.choices])
            if marks and mark.games < marks[-1].games:
                raise ValueError("it has fewer games than the one before")
        except ValueError as problem:
            raise ValueError(f"line {count} of {path} is no mark with choices: {problem}") from None
        marks.append(mark)
    return marks


def _read_choice(stored: StoredChoice, game: AnyGame) -> Choice:
    """Return a choice of the file.

    Raises:
        ValueError: no position of the game in which a move is to be made, or numbers that are not of its moves.
    """
    position = from_text(stored.position, game)
    check_opening(game, position, "a position")
    playable = legal(game, position.cells)
    shares = np.array(stored.probabilities, np.float64)
    own = None if stored.values is None else np.array(stored.values, np.float64)
    if any(len(numbers) != game.cells for numbers in (shares, own) if numbers is not None):
        raise ValueError(f"its numbers are not those of {game.cells} cells: there must be one for each")
    if shares[~playable].any() or (own is not None and np.isnan(own[playable]).any()):
        raise ValueError("there must be a value for every legal move, and no probability elsewhere")
    return Choice(position, shares, None if own is None else np.where(playable, own, np.nan), None)
