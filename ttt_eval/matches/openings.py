"""Openings of a match: drawn positions for each pair, all positions after a number of plies, or those of a file."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from math import comb
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ttt_envs.core.files import open_to_read, read_bounded
from ttt_envs.core.jit import Int8Array, Int64Array, UInt64Array, int8, int64, kernel
from ttt_envs.core.random import splitmix64, uniform
from ttt_envs.game.boards import Boards, check_opening, from_text, keys, to_text
from ttt_envs.game.game import MAX_EDGE, Game, Position
from ttt_envs.game.parameters import Parameters
from ttt_envs.game.rules import (
    NOT_OVER,
    STREAM_OPPONENT,
    completing_cells,
    is_legal,
    mover_after,
    nth_empty_cell,
    play_rows,
)
from ttt_eval.matches.games import read_games

MAX_SIZE = 1 << 26
"""Maximum total number of cells of all openings, and maximum size of a file of them in bytes."""
MAX_POSITION_LENGTH = MAX_EDGE * (MAX_EDGE + 1) + 1
"""Maximum length of a position in characters."""
TRIES = 1000
"""Maximum number of attempts to draw an opening that does not force the end of the game."""
EXAMPLES = "write random:2 for two random plies, all:2 for every position after two, or the name of a file"


class Openings(NamedTuple):
    """Openings of the pairs of a match."""

    text: str
    """as specified by the user"""
    plies: int
    """number of random plies drawn for each pair; 0 if the positions are listed"""
    boards: Boards | None
    """the listed positions, which pairs take in turn"""

    @classmethod
    def from_text(cls, text: str, game: Game, *, tell: Callable[[str], object] = warnings.warn) -> Openings:
        """Parse the option ``--openings``.

        Args:
            text: ``random:N``, N uniformly random plies that end no game, with the game's skips; ``all:N``, every
                unfinished position after N plies without skips, by their keys; or the name of a file, either of
                positions, one per line, or of games: of each its last position, or its first if it is over. Duplicates
                in a file are dropped.
            game: the game.
            tell: receives a sentence about an incomplete last line of a log; see
                :func:`~ttt_eval.matches.games.read_games`.

        Raises:
            OSError, ValueError: none of these, too many positions, a position that is unreachable or finished.
        """
        match = re.fullmatch(r"(random|all):(\d{1,4})", text)
        if match is None:
            return cls(text, 0, _from_file(text, game, tell))
        plies = int(match[2])
        if not 1 <= plies < game.cells:
            fewer = f"choose 1 to {game.cells - 1} plies" if game.cells > 1 else "leave them out"
            raise ValueError(f"openings={text!r} are none of a game on {game.cells} cells: {fewer}")
        return cls(text, 0, _all_positions(plies, game, text)) if match[1] == "all" else cls(text, plies, None)

    def for_pairs(self, numbers: range) -> int | Boards:
        """Return the opening of the pairs with these numbers: a number of plies, or a position for each."""
        if self.boards is None:
            return self.plies
        return self.boards.take(np.arange(numbers.start, numbers.stop) % len(self.boards.mover))


def draw_openings(game: Game, plies: int, episode_keys: UInt64Array) -> Boards:
    """Return a position after ``plies`` random plies for each of the keys, uint64[B].

    Every ply is uniformly random among those that do not end the game, and followed by the game's skips; where none is
    left, the opening is redrawn.

    Raises:
        ValueError: none can be found.
    """
    boards = Boards.start(game, len(episode_keys))
    if _draw(boards.cells, boards.mover, episode_keys, plies, game.parameters) >= 0:
        raise ValueError(
            f"{TRIES} times {plies} random plies of {game} led to where every move ends the game: "
            f"choose openings of fewer plies"
        )
    return boards


@kernel(allocates=True)
def _draw(cells: Int8Array, mover: Int8Array, episode_keys: UInt64Array, plies: int, parameters: Parameters) -> int:
    """Draw openings on empty boards for :func:`draw_openings`; return the first row without one, or -1."""
    closed = np.empty(cells.shape[1], np.int8)  # cells that are not legal, or where a stone ends the game
    for b in range(len(cells)):
        board = cells[b]
        ply = int64(0)
        for attempt in range(TRIES):
            board[:] = 0
            own = splitmix64(episode_keys[b], attempt)
            player = int64(0)
            ply = int64(0)
            while ply < plies:
                completing_cells(board, player, parameters, closed)
                for cell in range(len(board)):
                    closed[cell] |= int8(not is_legal(board, cell, parameters))
                cell = nth_empty_cell(closed, uniform(own, STREAM_OPPONENT, ply))
                if cell < 0:
                    break
                board[cell] = player + 1
                player = mover_after(player, own, ply, parameters.skip_chance)
                ply += 1
            mover[b] = player
            if ply == plies:
                break
        if ply < plies:
            return b
    return -1


def _all_positions(plies: int, game: Game, text: str) -> Boards:
    """Return every position after ``plies`` plies without skips in which the game is not over, by their keys."""
    most = max(comb(game.cells, n) * comb(n, n // 2) for n in range(plies + 1))
    if most * game.cells > MAX_SIZE:
        raise ValueError(
            f"openings={text!r} are up to {most:,} positions, and at most {MAX_SIZE // game.cells:,} are held: "
            f"choose fewer plies, or random:{plies}"
        )
    boards = Boards.start(game)
    for _ in range(plies):
        boards = unfinished_successors(game, boards)
        if not len(boards.mover):
            raise ValueError(f"openings={text!r} are not in this game: {game} is over by then, choose fewer plies")
        _, first = np.unique(keys(boards.cells), axis=0, return_index=True)
        boards = boards.take(first)
    return boards


def distinct_boards(boards: Boards) -> tuple[Boards, Int64Array]:
    """Return the distinct positions of boards of at most 39 cells, and the row among them of each, int64[B]."""
    numbers = 2 * keys(boards.cells) + boards.mover.astype(np.uint64)
    _, rows, inverse = np.unique(numbers, return_index=True, return_inverse=True)
    return boards.take(rows), inverse


def unfinished_successors(game: Game, boards: Boards) -> Boards:
    """Return the positions after each move that does not end the game, with the other player to move."""
    parts = []
    legal, stones = boards.legal(game), np.count_nonzero(boards.cells, axis=1)
    for cell in range(game.cells):
        cells, mover = boards.take(legal[:, cell])
        following, rows = 1 - mover, np.arange(len(mover))
        outcome, episode_keys = np.zeros(len(mover), np.int8), np.zeros(len(mover), np.uint64)
        actions = np.full(len(mover), cell)
        play_rows(cells, mover, stones[legal[:, cell]], episode_keys, rows, actions, game.parameters, outcome)
        parts.append((cells[outcome == NOT_OVER], following[outcome == NOT_OVER]))
    return Boards(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _from_file(text: str, game: Game, tell: Callable[[str], object]) -> Boards:
    """Return the distinct positions of a file."""
    path = Path(text)
    if not path.exists():
        raise ValueError(f"openings={text!r} are not known, and there is no such file: {EXAMPLES}")
    with open_to_read(path, MAX_SIZE) as file:
        is_log = file.read(1) == b"{"
    found: dict[str, Position] = {}
    for number, position in _from_games(path, game, tell) if is_log else _from_lines(path, game):
        name = to_text(position, game)
        try:
            check_opening(game, position, repr(name))
        except ValueError as problem:
            raise ValueError(f"{path}, line {number}: {problem}") from None
        found[name] = position
        if len(found) * game.cells > MAX_SIZE:
            raise ValueError(f"{path} has more than {MAX_SIZE // game.cells:,} positions, and no more are held")
    if not found:
        raise ValueError(f'{path} has no positions: write one in a line, as in "x.o/.../..o x"')
    return Boards.from_positions(found.values())


def _from_lines(path: Path, game: Game) -> Iterator[tuple[int, Position]]:
    """Yield line numbers, and the positions in them."""
    for number, line in enumerate(read_bounded(path, MAX_SIZE).decode(errors="replace").splitlines(), 1):
        words = line.strip()
        if not words or words.startswith("#"):
            continue
        if len(words) > MAX_POSITION_LENGTH:
            raise ValueError(f"{path}, line {number}: {len(words):,} characters are no position")
        try:
            yield number, from_text(words, game)
        except ValueError as problem:
            raise ValueError(f"{path}, line {number}: {problem}") from None


def _from_games(path: Path, game: Game, tell: Callable[[str], object]) -> Iterator[tuple[int, Position]]:
    """Yield line numbers, and the positions of the games in them."""
    for number, played in enumerate(read_games(path, limit=MAX_SIZE, tell=tell), 2):  # the first line is the header
        if replace(played.game, skip_chance=game.skip_chance) != game:
            raise ValueError(f"{path}, line {number}: a game of {played.game} is no opening of {game}")
        yield number, played.end() if played.result is None else played.start()
