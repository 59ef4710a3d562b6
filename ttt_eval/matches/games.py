"""Played games: stored as JSON lines or as readable text, and replayed.

The first line of a file is a header and every other line is a game, so games can be appended at any time. docs/files.md
documents the format. All games read are replayed through the rules: impossible games are rejected.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import IO, Annotated, Any, Literal, NamedTuple

import numpy as np
from msgspec import Meta, Struct, convert

from ttt_envs.core.checks import closest_names, quote, truncate
from ttt_envs.core.files import lock, open_to_read, parse_json, path_hint, read_bounded, replace_tail, write_atomically
from ttt_envs.game.boards import MOVERS, Boards, cell_at, coordinate, from_text
from ttt_envs.game.game import MAX_EDGE, Game, Position
from ttt_envs.game.rules import Outcome, action_index, place, winner

FORMAT = 1
"""Version of the file format."""
MAX_PROBLEM = 400
"""Maximum number of characters of an error in a message about a file."""
MAX_LINE_LENGTH = 1 << 16
"""Maximum length of a line in bytes."""
MAX_FILE_BYTES = 1 << 30
"""Default maximum size of a file in bytes."""
MAX_TEXT_BYTES = 1 << 26
"""Maximum size of a text of games in bytes; it is read at once."""
HUMAN = "human"
"""Name of a human player, in place of a policy."""
AGAIN = "+"
"""Suffix of a move after which the other player's turn is skipped, so that the same player moves again."""
RESULTS = ("player_0", "player_1", "draw")
"""Stored names of the outcomes 0, 1 and 2."""

_HEAD = {"format": FORMAT, "content": "games"}


class Move(NamedTuple):
    """A move and the chance event after it."""

    action: int
    """index of the cell"""
    skipped: bool = False
    """whether the other player's turn was skipped after it"""


@dataclass(frozen=True)
class PlayedGame:
    """A game from its first position to its end, or as far as it was played.

    Raises:
        TypeError: moves that are not integers.
        ValueError: fields of other types, or an impossible game: an illegal move, one after the end, a skip where turns
            are never skipped, a result that contradicts the board.
    """

    game: Game
    players: tuple[str, str]
    """player_0 and player_1: spec strings, or ``HUMAN``"""
    moves: tuple[Move, ...] = ()
    result: Outcome | None = None
    """a win or a draw; None for an unfinished game"""
    _: KW_ONLY
    seed: int | None = None
    """seed of all random numbers, if known"""
    episode: int | None = None
    """index of the game under that seed"""
    opening: str | None = None
    """the first position as text, if it is not the empty board"""
    forfeit: str | None = None
    """reason for a win without a decided board: the loser's time, say, or an illegal action"""
    settings: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """additional JSON-ready data"""

    def __post_init__(self) -> None:
        object.__setattr__(self, "players", tuple(self.players))
        moves = tuple(Move(action_index(self.game, action), bool(skipped)) for action, skipped in self.moves)
        object.__setattr__(self, "moves", moves)
        result: Any = self.result
        if result is not None:
            if isinstance(result, bool) or result not in range(len(RESULTS)):
                raise ValueError(f"result={quote(result)} is not known: use 0, 1, 2 for a draw, or None")
            object.__setattr__(self, "result", Outcome(result))
        _Record.check(self.to_dict())
        if winner(self.game, self.start().cells) is not None:
            raise ValueError(f"the game is over in the opening {self.opening!r}: choose one of an unfinished game")
        outcome = next((turn.outcome for turn in reversed(list(self._turns()))), Outcome.NOT_OVER)
        reached = None if outcome == Outcome.NOT_OVER else outcome
        if self.forfeit is not None:
            if reached is not None or self.result is None or self.result.winner < 0:
                raise ValueError("a game that is forfeited has a winner, and a board on which it is not over")
        elif reached != self.result:
            names = ["none yet" if each is None else RESULTS[each] for each in (self.result, reached)]
            raise ValueError(f"its result is {names[0]}, and its moves end with {names[1]}")

    def start(self) -> Position:
        """Return the first position."""
        if self.opening is None:
            return Boards.start(self.game).position(0)
        return from_text(self.opening, self.game)

    def _turns(self) -> Iterator[_Turn]:
        position, is_over = self.start(), False
        stones = int(np.count_nonzero(position.cells))
        for number, (cell, skipped) in enumerate(self.moves, 1):
            if is_over:
                raise ValueError(f"there is a move {number} and the game is over with move {number - 1}")
            cells, mover = position.cells.copy(), position.mover
            outcome = Outcome(place(cells, mover, cell, stones + number - 1, self.game.parameters))
            is_over = outcome != Outcome.NOT_OVER
            if outcome == Outcome.ILLEGAL:
                why = (
                    "the cell holds a stone" if cells[cell] else "stones fall to the lowest empty cell of their column"
                )
                raise ValueError(f"move {number}, {coordinate(cell, self.game)}, is illegal: {why}")
            if skipped and (self.game.skip_chance == 0 or is_over):
                why = "the game is over then" if is_over else "turns are never skipped in this game"
                raise ValueError(f"a turn is skipped after move {number}, and {why}")
            following = Position(cells, mover if skipped or is_over else 1 - mover)
            yield _Turn(position, Move(cell, skipped), outcome, following)
            position = following

    def positions(self) -> Iterator[tuple[Position, int, bool]]:
        """Yield every position with a move, the action, and whether the other player's turn was then skipped."""
        for turn in self._turns():
            yield turn.position, *turn.move

    def end(self) -> Position:
        """Return the last position; if the game is over, its mover is the last mover."""
        return [self.start(), *(turn.following for turn in self._turns())][-1]

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready data without unknown fields; docs/files.md documents the keys."""
        data: dict[str, Any] = {
            "game": self.game.to_dict(),
            "players": list(self.players),
            "moves": " ".join(coordinate(cell, self.game) + AGAIN * skipped for cell, skipped in self.moves),
            "result": None if self.result is None else RESULTS[self.result],
        }
        data |= {name: getattr(self, name) for name in _OPTIONAL if getattr(self, name) is not None}
        if self.settings:
            data["settings"] = dict(self.settings)
        return data

    @classmethod
    def from_dict(cls, data: Any) -> PlayedGame:
        """Return the game stored by :meth:`to_dict`.

        Raises:
            TypeError, ValueError: anything else.
        """
        record = _Record.check(data)
        game = Game.from_dict(record.game)
        moves = [Move(cell_at(word.removesuffix(AGAIN), game), word.endswith(AGAIN)) for word in record.moves.split()]
        result = None if record.result is None else Outcome(RESULTS.index(record.result))
        options = {name: getattr(record, name) for name in (*_OPTIONAL, "settings")}
        return cls(game, record.players, tuple(moves), result, **options)


class _Turn(NamedTuple):
    """A move of a game."""

    position: Position
    move: Move
    outcome: Outcome
    following: Position
    """the next position; in a finished game its mover is the last mover"""


_Index = Annotated[int, Meta(ge=0)]
_OPTIONAL = ("seed", "episode", "opening", "forfeit")


class _Record(Struct, forbid_unknown_fields=True):
    """A game as in files; docs/files.md documents the keys."""

    game: dict[str, Any]
    players: tuple[str, str]
    moves: str
    result: Literal["player_0", "player_1", "draw"] | None
    seed: _Index | None = None
    episode: _Index | None = None
    opening: Annotated[str, Meta(max_length=MAX_EDGE * (MAX_EDGE + 1) + 1)] | None = None
    forfeit: str | None = None
    settings: dict[str, Any] = {}

    @classmethod
    def check(cls, data: Any) -> _Record:
        """Return the fields of a game.

        Raises:
            ValueError: a field is missing, unknown or of another type, or a name cannot be printed.
        """
        record = convert(data, cls)
        for text in (*record.players, record.forfeit):
            if text is not None and not (text and text.isprintable()):
                raise ValueError(f"{quote(text)} names nothing: write words that can be printed, on one line")
        return record


# ---------------------------------------------------------------------------------------------------------------------
# Files


def read_games(
    path: str | Path, *, limit: int = MAX_FILE_BYTES, tell: Callable[[str], object] = warnings.warn
) -> Iterator[PlayedGame]:
    """Yield the games of a file; at most one line is held in memory.

    An incomplete last line, left by an interrupted writer, is skipped, and ``tell`` is called with a sentence.

    Args:
        path: the file.
        limit: maximum size of the file in bytes.
        tell: receives that sentence; by default a warning.

    Raises:
        ValueError: no file of games, or an invalid line; the message names the file and the line.
    """
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"there is no file {path} with games: {path_hint(path, 'name a log of games')}")
    if path.stat().st_size > limit:
        raise ValueError(f"{path} has {path.stat().st_size:,} bytes, and at most {limit:,} are read")
    with path.open("rb") as file:
        number = 0
        while line := file.readline(MAX_LINE_LENGTH + 1):
            number += 1
            try:
                if not line.endswith(b"\n") and len(line) <= MAX_LINE_LENGTH and not _is_whole(line):
                    if number == 1:
                        _check_torn_head(line)
                    tell(f"{path}, line {number} was not written to its end, and is left out")
                    return
                data = _parse_line(line)
                if number == 1:
                    _check_head(data)
                    continue
                played = PlayedGame.from_dict(data)
            except (ValueError, TypeError) as problem:
                raise ValueError(f"{path}, line {number}: {truncate(problem, MAX_PROBLEM)}") from None
            yield played


def write_games(path: str | Path, games: Iterable[PlayedGame]) -> None:
    """Write a file of games atomically.

    Raises:
        ValueError: settings that are not JSON-ready or too long.
    """
    lines = (_encode(played) for played in games)
    write_atomically(Path(path), lambda file: file.writelines([_HEAD_LINE, *lines]))


def append_games(path: str | Path, games: Iterable[PlayedGame]) -> None:
    """Append games to a file, created if missing; they are on disk when this returns.

    An incomplete last line, left by an interrupted writer, is cut off. Several writers may append to one file.

    Raises:
        OSError: they cannot be written, for example because the disk is full: no part of them remains; the error names
            the file.
        ValueError: not a file of games, settings that are not JSON-ready or too long; nothing is changed.
    """
    path = Path(path)
    lines = b"".join(map(_encode, games))
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        lock(file.fileno(), wait=True)
        try:
            size, between = _end_of_the_games(file)
        except ValueError as problem:
            raise ValueError(f"no games can be added to {path}: {problem}") from None
        replace_tail(file, path, size, (b"" if size else _HEAD_LINE) + between + lines)


def new_games(path: str | Path) -> None:
    """Start a new file of games, so that problems with it are reported before the first game.

    Raises:
        OSError: it cannot be written.
        ValueError: the path exists and holds more than the beginning of such a file.
    """
    path = Path(path)
    if path.exists() and (not path.is_file() or path.stat().st_size > len(_HEAD_LINE)):
        raise ValueError(f"{path} is there already: name another file, or remove that one")
    append_games(path, [])


def _end_of_the_games(file: IO[bytes]) -> tuple[int, bytes]:
    """Return the end of a file's games in bytes, and the missing separator there; 0 without even a header."""
    file.seek(0)
    head = file.readline(MAX_LINE_LENGTH + 1)
    if not head.endswith(b"\n"):
        _check_torn_head(head)
        return 0, b""
    _check_head(_parse_line(head))
    size = file.seek(0, os.SEEK_END)
    start = file.seek(max(0, size - MAX_LINE_LENGTH))
    before, end, last = file.read().rpartition(b"\n")
    if not end:
        raise ValueError(f"its last line has more than {MAX_LINE_LENGTH:,} bytes")
    if not last:
        return size, b""
    return (size, b"\n") if _is_whole(last) else (start + len(before) + 1, b"")


def _encode(played: PlayedGame) -> bytes:
    try:
        line = json.dumps(played.to_dict(), allow_nan=False, separators=(",", ":")).encode() + b"\n"
        _parse_line(line)
    except (ValueError, TypeError, RecursionError) as problem:
        raise ValueError(
            f"a game could not be read again: {truncate(problem, MAX_PROBLEM)}. Keep other settings with it"
        ) from None
    return line


_HEAD_LINE = json.dumps(_HEAD).encode() + b"\n"


def _check_head(head: object) -> None:
    if not isinstance(head, dict) or head.get("content") != _HEAD["content"]:
        raise ValueError("it is no file of games, which begins with the line " + _HEAD_LINE.decode().strip())
    if head != _HEAD:
        raise ValueError(f"format={quote(head.get('format'))} is not known here: this version reads {FORMAT}")


def _check_torn_head(line: bytes) -> None:
    if not _HEAD_LINE.startswith(line):
        _check_head(None)


def _is_whole(line: bytes) -> bool:
    """Return whether a line without newline is complete: no prefix of a JSON object is a JSON object."""
    try:
        _parse_line(line)
    except ValueError:
        return False
    return True


def _parse_line(line: bytes | str) -> Any:
    return parse_json(line, MAX_LINE_LENGTH)


def read_any_format(path: str | Path, *, tell: Callable[[str], object] = warnings.warn) -> Iterator[PlayedGame]:
    """Yield the games of a file of :func:`read_games` or of a text of :func:`to_notation`; ``tell`` as there.

    Raises:
        OSError: no file.
        ValueError: anything else; the message names the file and the line.
    """
    path = Path(path)
    with open_to_read(path) as file:
        is_text = file.read(1) != b"{"
    if not is_text:
        yield from read_games(path, tell=tell)
        return
    content = read_bounded(path, MAX_TEXT_BYTES)
    try:
        yield from from_notation(content.decode(errors="replace"))
    except ValueError as problem:
        raise ValueError(f"{path}, {truncate(problem, MAX_PROBLEM)}") from None


# ---------------------------------------------------------------------------------------------------------------------
# Text for people

SKIPPED = "(skip)"
_OF_GAME = tuple(each.name for each in dataclasses.fields(Game))
_TAGS = (*_OF_GAME, *MOVERS, "seed", "episode", "opening", "settings")
_WIDTH = 80
_ENDS = re.compile(r"(?P<winner>[ox]) wins(?:, (?P<loser>[ox]) forfeits: (?P<forfeit>.+))?|draw|unfinished")


def to_notation(played: PlayedGame) -> str:
    """Format a game as readable text: a line each for the game's parameters and players; then the moves, and the
    result.
    """
    o, x = played.players
    tags: dict[str, Any] = {name: value for name, value in played.game.to_dict().items() if name in _OF_GAME}
    tags |= {"o": o, "x": x}
    tags |= {name: value for name, value in played.to_dict().items() if name in _TAGS}
    lines = [f"[{name} {json.dumps(value, ensure_ascii=name == 'settings')}]" for name, value in tags.items()]
    words = [coordinate(cell, played.game) + f" {SKIPPED}" * skipped for cell, skipped in played.moves]
    lines += ["", *textwrap.wrap(" ".join(words), _WIDTH)]
    if played.result is not None and played.result.winner >= 0:
        winner = played.result.winner
        forfeits = f", {MOVERS[1 - winner]} forfeits: {played.forfeit}" if played.forfeit else ""
        lines.append(f"{MOVERS[winner]} wins{forfeits}")
    else:
        lines.append("unfinished" if played.result is None else "draw")
    return "\n".join(lines) + "\n"


def from_notation(text: str) -> list[PlayedGame]:
    """Parse the games in a text of :func:`to_notation`.

    Raises:
        ValueError: anything else; the message names the line.
    """
    games: list[PlayedGame] = []
    tags: dict[str, Any] = {}
    moves: list[str] = []
    number = 0
    for number, line in enumerate(map(str.strip, text.splitlines()), 1):
        try:
            if line.startswith("["):
                if moves:
                    raise ValueError("a game begins before the one above has a result")
                name, value = _parse_tag(line)
                if name in tags:
                    raise ValueError(f"{name} is given twice")
                tags[name] = value
            elif end := _ENDS.fullmatch(line):
                games.append(_game_from_parts(tags, moves, end))
                tags, moves = {}, []
            else:
                moves += line.split()
        except (ValueError, TypeError) as problem:
            raise ValueError(f"line {number}: {truncate(problem, MAX_PROBLEM)}") from None
    if tags or moves:
        raise ValueError(f"line {number}: the last game has no result: write o wins, x wins, draw or unfinished")
    return games


def _parse_tag(line: str) -> tuple[str, Any]:
    match = re.fullmatch(r"\[(\w+) (.*)\]", line)
    if match is None:
        raise ValueError(f'{quote(line)} is no line of a game: write a name and a value, as in [o "human"]')
    if match[1] not in _TAGS:
        raise ValueError(f"{quote(match[1])} is not known: {closest_names(match[1], _TAGS)}")
    return match[1], _parse_line(match[2])


def _game_from_parts(tags: Mapping[str, Any], words: list[str], end: re.Match[str]) -> PlayedGame:
    """Build a game from its parts, through the file format."""
    for name in MOVERS:
        if name not in tags:
            raise ValueError(f'{name} has no player: write [{name} "human"], or the name of a policy')
    moves = " ".join(words).replace(f" {SKIPPED}", AGAIN)
    if SKIPPED in moves or 2 * AGAIN in moves:
        raise ValueError(f"{SKIPPED} stands behind no move")
    winner = end["winner"]
    if winner is not None and winner == end["loser"]:
        raise ValueError(f"{winner} wins and forfeits: only the loser forfeits")
    return PlayedGame.from_dict(
        {
            **{name: value for name, value in tags.items() if name not in (*_OF_GAME, *MOVERS)},
            "game": {name: tags[name] for name in _OF_GAME if name in tags},
            "players": [tags[stone] for stone in MOVERS],
            "moves": moves,
            "result": {"draw": "draw", "unfinished": None}[end[0]] if winner is None else RESULTS[MOVERS.index(winner)],
            "forfeit": end["forfeit"],
        }
    )
