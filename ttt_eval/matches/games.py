"""Played games: stored as JSON lines, printed as readable text, and replayed.

The first line of a file is a header and every other line is a game, so games can be appended at any
time. docs/files.md documents the format. All games read are replayed through the rules: impossible
games are rejected.
"""

from __future__ import annotations

import json
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import numpy as np
from msgspec import Meta, Struct, convert
from msgspec.structs import asdict

from ttt_envs.core.checks import Refusal, name_place, quote
from ttt_envs.core.files import lock, open_to_read, parse_json, write_atomically
from ttt_envs.core.lines import find_end, is_torn, iterate_lines, replace_tail
from ttt_envs.game.boards import Boards, cell_at, coordinate, from_text
from ttt_envs.game.game import MAX_EDGE, Game, Position
from ttt_envs.game.rules import Outcome, action_index, place, winner

MAX_LINE_LENGTH = 1 << 16
"""Maximum length of a line in bytes."""
HUMAN = "human"
"""Name of a human player, in place of a policy."""
AGAIN = "+"
"""Suffix of a move after which the other player's turn is skipped, so that the same player moves
again.
"""
RESULTS = ("player_0", "player_1", "draw")
"""Stored names of the outcomes 0, 1 and 2."""

_HEAD_LINE = b'{"format": 1, "content": "games"}\n'


class Move(NamedTuple):
    """A move and the chance event after it."""

    action: int
    """index of the cell"""
    skipped: bool = False
    """whether the other player's turn was skipped after it"""

    @classmethod
    def from_text(cls, text: str, game: Game) -> Move:
        """Return the move of a word in a file, such as ``b2`` or ``b2+``."""
        return cls(cell_at(text.removesuffix(AGAIN), game), text.endswith(AGAIN))


class Ply(NamedTuple):
    """A position with its move, and the chance event after it."""

    position: Position
    action: int
    skipped: bool
    """whether the other player's turn was skipped after it"""


_Index = Annotated[int, Meta(ge=0)]
_Words = Annotated[str, Meta(min_length=1)]


class _Record(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A game as in files; docs/files.md documents the keys."""

    game: dict[str, object]
    players: tuple[_Words, _Words]
    moves: str
    result: Literal["player_0", "player_1", "draw"] | None
    seed: _Index | None = None
    episode: _Index | None = None
    opening: Annotated[str, Meta(max_length=MAX_EDGE * (MAX_EDGE + 1) + 1)] | None = None
    forfeit: _Words | None = None
    settings: dict[str, object] = {}

    def __post_init__(self) -> None:
        for text in (*self.players, self.forfeit or "none"):
            if not text.isprintable():
                raise Refusal(
                    f"{quote(text)} names nothing: write words that can be printed, on one line"
                )


@dataclass(frozen=True)
class PlayedGame:
    """A game from its first position to its end, or as far as it was played.

    Raises:
        TypeError: moves that are not integers.
        ValueError: fields of other types, or an impossible game: an illegal move, one after the
            end, a skip where turns are never skipped, a result that contradicts the board.
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
    settings: Mapping[str, object] = field(default_factory=dict, hash=False)
    """additional JSON-ready data"""

    def __post_init__(self) -> None:
        moves = tuple(
            Move(action_index(self.game, action), bool(skipped)) for action, skipped in self.moves
        )
        object.__setattr__(self, "moves", moves)
        if self.result is not None:
            if self.result not in range(len(RESULTS)):
                raise Refusal(
                    f"result={quote(self.result)} is not known: use 0, 1, 2 for a draw, or None"
                )
            object.__setattr__(self, "result", Outcome(self.result))
        convert(self.to_dict(), _Record)
        object.__setattr__(self, "players", tuple(self.players))
        if winner(self.game, self.start().cells) is not None:
            raise Refusal(
                f"the game is over in the opening {self.opening!r}: choose one of an unfinished "
                "game"
            )
        board_result = [None, *(result for *_, result in self._turns())][-1]
        if self.forfeit is not None:
            if board_result is not None or self.result is None or self.result.winner < 0:
                raise Refusal(
                    "a game that is forfeited has a winner, and a board on which it is not over"
                )
        elif board_result != self.result:
            names = [
                "none yet" if result is None else RESULTS[result]
                for result in (self.result, board_result)
            ]
            raise Refusal(f"its result is {names[0]}, and its moves end with {names[1]}")

    def start(self) -> Position:
        """Return the first position."""
        if self.opening is None:
            return Boards.start(self.game).position(0)
        return from_text(self.opening, self.game)

    def _turns(self) -> Iterator[tuple[Position, Move, Position, Outcome | None]]:
        """Yield positions with their moves, checked by the rules, the next position, and the result
        if it is over.

        In a finished game the mover of the last position is the last mover.
        """
        position = self.start()
        is_over = False
        stones = int(np.count_nonzero(position.cells))
        for number, move in enumerate(self.moves, 1):
            cell, is_skip = move
            cells = position.cells.copy()
            mover = position.mover
            if is_over:
                raise Refusal(
                    f"move {number} comes after the end of the game, which is over with move "
                    f"{number - 1}: leave it out"
                )
            outcome = Outcome(place(cells, mover, cell, stones + number - 1, self.game.parameters))
            is_over = outcome != Outcome.NOT_OVER
            if outcome == Outcome.ILLEGAL:
                reason = "stones fall to the lowest empty cell of a column"
                if cells[cell]:
                    reason = "the cell holds a stone"
                raise Refusal(f"move {number}, {coordinate(cell, self.game)}, is illegal: {reason}")
            if is_skip and is_over:
                raise Refusal(f"a turn is skipped after move {number}, and the game is over then")
            if is_skip and self.game.skip_chance == 0:
                raise Refusal(
                    f"a turn is skipped after move {number}, and turns are never skipped in this "
                    "game"
                )
            next_position = Position(cells, mover if is_skip or is_over else 1 - mover)
            yield position, move, next_position, outcome if is_over else None
            position = next_position

    def positions(self) -> Iterator[Ply]:
        """Yield every position with a move."""
        for position, move, *_ in self._turns():
            yield Ply(position, *move)

    def end(self) -> Position:
        """Return the last position; if the game is over, its mover is the last mover."""
        return [self.start(), *(position for _, _, position, _ in self._turns())][-1]

    def to_dict(self) -> dict[str, object]:
        """Return JSON-ready data without unknown fields; docs/files.md documents the keys."""
        moves = " ".join(
            coordinate(cell, self.game) + (AGAIN if skipped else "") for cell, skipped in self.moves
        )
        result = None if self.result is None else RESULTS[self.result]
        options = {name: getattr(self, name) for name in ("seed", "episode", "opening", "forfeit")}
        record: dict[str, object] = {
            "game": self.game.to_dict(),
            "players": list(self.players),
            "moves": moves,
            "result": result,
        }
        record |= {name: value for name, value in options.items() if value is not None}
        return record | ({"settings": dict(self.settings)} if self.settings else {})

    @classmethod
    def from_dict(cls, data: object) -> PlayedGame:
        """Return the game stored by :meth:`to_dict`.

        Raises:
            TypeError, ValueError: anything else.
        """
        record = convert(data, _Record)
        game = Game.from_dict(record.game)
        values = asdict(record) | {
            "game": game,
            "moves": tuple(Move.from_text(word, game) for word in record.moves.split()),
            "result": None if record.result is None else Outcome(RESULTS.index(record.result)),
        }
        return cls(**values)


# --------------------------------------------------------------------------------------------------
# Files


def read_games(
    path: str | Path, *, tell: Callable[[str], object] = warnings.warn
) -> Iterator[PlayedGame]:
    """Yield the games of a file, of which at most one is held in memory.

    A last line without its end, left by an interrupted writer, is skipped, and ``tell`` is called
    with a sentence.

    Args:
        path: the file.
        tell: receives that sentence; by default a warning.

    Raises:
        OSError: a file that cannot be read.
        ValueError: no file of games, or an invalid line; the message names the file and the line.
    """
    path = Path(path)
    with open_to_read(path) as file:
        for number, line in enumerate(iterate_lines(file, MAX_LINE_LENGTH), 1):
            if number > 1 and is_torn(line, MAX_LINE_LENGTH):
                tell(f"{path}, line {number} was not written to its end, and is left out")
                return
            with name_place(f"{path}, line {number}"):
                if number == 1:
                    _check_head(line)
                    continue
                played_game = PlayedGame.from_dict(parse_json(line, MAX_LINE_LENGTH))
            yield played_game


def write_games(path: str | Path, games: Iterable[PlayedGame]) -> None:
    """Write a file of games atomically.

    Raises:
        ValueError: settings that are not JSON-ready or too long.
    """
    write_atomically(Path(path), lambda file: file.writelines([_HEAD_LINE, *map(_encode, games)]))


def append_games(path: str | Path, games: Iterable[PlayedGame]) -> None:
    """Append games to a file, created if missing; they are on disk when this returns.

    A last line without its end, left by an interrupted writer, is cut off. Several writers may
    append to one file.

    Raises:
        OSError: they cannot be written, for example because the disk is full: no part of them
            remains; the error names the file.
        ValueError: not a file of games, settings that are not JSON-ready or too long; nothing is
            changed.
    """
    path = Path(path)
    lines = b"".join(map(_encode, games))
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        lock(file.fileno(), wait=True)
        with name_place(f"no games can be added to {path}"):
            file.seek(0)
            _check_head(file.readline(MAX_LINE_LENGTH + 1))
            size = find_end(file, MAX_LINE_LENGTH)
        replace_tail(file, path, size, lines if size else _HEAD_LINE + lines)


def new_games(path: str | Path) -> None:
    """Start a new file of games, so that problems with it are reported before the first game.

    Raises:
        OSError: it cannot be written.
        ValueError: the path exists and holds more than the beginning of such a file.
    """
    path = Path(path)
    if path.exists() and (not path.is_file() or path.stat().st_size > len(_HEAD_LINE)):
        raise Refusal(f"{path} is there already: name another file, or remove that one")
    append_games(path, [])


def _encode(played_game: PlayedGame) -> bytes:
    with name_place("a game could not be read again, keep other settings with it"):
        line = (
            json.dumps(played_game.to_dict(), allow_nan=False, separators=(",", ":")).encode()
            + b"\n"
        )
        parse_json(line, MAX_LINE_LENGTH)
    return line


def _check_head(line: bytes) -> None:
    """Raise ValueError unless a line is the header, or the part of it that an interrupted writer
    left.
    """
    head = None
    with suppress(ValueError):
        head = parse_json(line, MAX_LINE_LENGTH)
    if not _HEAD_LINE.startswith(line) and head != json.loads(_HEAD_LINE):
        raise Refusal(
            "it is no file of games of this version, which begins with "
            f"{_HEAD_LINE.decode().strip()}"
        )


# --------------------------------------------------------------------------------------------------
# Text for people

SKIPPED = "(skip)"
_WIDTH = 80


def to_notation(played_game: PlayedGame) -> str:
    """Format a game as readable text: a line for each key of the file format, with its JSON, and
    the moves.
    """
    record = played_game.to_dict()
    moves = str(record.pop("moves")).replace(AGAIN, f" {SKIPPED}")
    tags = [
        f"[{name} {json.dumps(value, ensure_ascii=name == 'settings')}]"
        for name, value in record.items()
    ]
    return "\n".join([*tags, "", *textwrap.wrap(moves, _WIDTH), ""])
