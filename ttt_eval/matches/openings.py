"""Openings of a match: drawn positions for each pair, all positions after a number of plies, or
those of a file.
"""

from __future__ import annotations

import hashlib
import re
from math import comb
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ttt_envs.core.checks import Refusal, name_place
from ttt_envs.core.files import read_bounded
from ttt_envs.core.jit import Int8Array, UInt64Array, int8, int64, kernel
from ttt_envs.core.random import splitmix64, uniform
from ttt_envs.game.boards import Boards, check_opening, from_text, keys, play_moves, to_text
from ttt_envs.game.game import Game, Position
from ttt_envs.game.parameters import Parameters
from ttt_envs.game.rules import (
    NOT_OVER,
    STREAM_OPPONENT,
    completing_cells,
    is_legal,
    mover_after,
    nth_empty_cell,
)

MAX_SIZE = 1 << 26
"""Maximum total number of cells of ``all:N``, and maximum size of a file of positions in bytes."""
TRIES = 1000
"""Maximum number of attempts to draw an opening that does not force the end of the game."""
EXAMPLES = (
    "write random:2 for two random plies, all:2 for every position after two, or the name of a file"
)


class Openings(NamedTuple):
    """Openings of the pairs of a match."""

    text: str
    """as specified by the user"""
    plies: int
    """number of random plies drawn for each pair; 0 if the positions are listed"""
    boards: Boards | None
    """the listed positions, which pairs take in turn"""

    @classmethod
    def from_text(cls, text: str, game: Game) -> Openings:
        """Parse the option ``--openings``.

        Args:
            text: ``random:N``, N uniformly random plies that end no game, with the game's skips;
                ``all:N``, every unfinished position after N plies without skips, by their keys; or
                the name of a file of positions, one per line, of which duplicates are dropped.
            game: the game.

        Raises:
            OSError, ValueError: none of these, too many positions, a position that is unreachable
                or finished.
        """
        match = re.fullmatch(r"(random|all):(\d{1,4})", text)
        if match is None:
            return cls(text, 0, _from_file(text, game))
        plies = int(match[2])
        if not 1 <= plies < game.cells:
            remedy = f"choose 1 to {game.cells - 1} plies" if game.cells > 1 else "leave them out"
            raise Refusal(f"openings={text!r} are none of a game on {game.cells} cells: {remedy}")
        if match[1] == "all":
            return cls(text, 0, _all_positions(plies, game, text))
        return cls(text, plies, None)

    def for_pairs(self, numbers: range, game: Game, keys: UInt64Array) -> Boards:
        """Return the openings of the pairs with these numbers and keys, uint64[B]."""
        if self.boards is None:
            return draw_openings(game, self.plies, keys)
        return self.boards.take(np.arange(numbers.start, numbers.stop) % len(self.boards.mover))

    def digest(self) -> str:
        """Return the SHA-256 of the listed positions, "" if there are none."""
        parts = b"".join(np.ascontiguousarray(part).tobytes() for part in self.boards or ())
        return hashlib.sha256(parts).hexdigest() if parts else ""


def draw_openings(game: Game, plies: int, episode_keys: UInt64Array) -> Boards:
    """Return a position after ``plies`` random plies for each of the keys, uint64[B].

    Every ply is uniformly random among those that do not end the game, and followed by the game's
    skips; where none is left, the opening is redrawn.

    Raises:
        ValueError: none can be found.
    """
    boards = Boards.start(game, len(episode_keys))
    if _draw(boards.cells, boards.mover, episode_keys, plies, game.parameters) >= 0:
        raise Refusal(
            f"{TRIES} times {plies} random plies of {game} led to where every move ends the game: "
            f"choose openings of fewer plies"
        )
    return boards


@kernel(allocates=True)
def _draw(
    cells: Int8Array,
    mover: Int8Array,
    episode_keys: UInt64Array,
    plies: int,
    parameters: Parameters,
) -> int:
    """Draw openings on empty boards for :func:`draw_openings`; return the first row without one, or
    -1.
    """
    # cells that are not legal, or where a stone ends the game
    closed = np.empty(cells.shape[1], np.int8)
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
    """Return every position after ``plies`` plies without skips in which the game is not over, by
    their keys.
    """
    bound = max(comb(game.cells, n) * comb(n, n // 2) for n in range(plies + 1))
    if bound * game.cells > MAX_SIZE:
        raise Refusal(
            f"openings={text!r} are up to {bound:,} positions, and at most "
            f"{MAX_SIZE // game.cells:,} are held: "
            f"choose fewer plies, or random:{plies}"
        )
    boards = Boards.start(game)
    for _ in range(plies):
        boards = unfinished_successors(game, boards)
        if not len(boards.mover):
            raise Refusal(
                f"openings={text!r} are not in this game: {game} is over by then, choose fewer "
                "plies"
            )
        _, first = np.unique(keys(boards.cells), axis=0, return_index=True)
        boards = boards.take(first)
    return boards


def unfinished_successors(game: Game, boards: Boards) -> Boards:
    """Return the positions after each move that does not end the game, with the other player to
    move.
    """
    rows, actions = np.nonzero(boards.legal(game))
    cells, outcome = play_moves(game, boards, rows, actions)
    is_running = outcome == NOT_OVER
    return Boards(cells[is_running], 1 - boards.mover[rows[is_running]])


def _from_file(text: str, game: Game) -> Boards:
    """Return the distinct positions of a file."""
    path = Path(text)
    if not path.exists():
        raise Refusal(f"openings={text!r} are not known, and there is no such file: {EXAMPLES}")
    positions: dict[str, Position] = {}
    for number, line in enumerate(
        read_bounded(path, MAX_SIZE).decode(errors="replace").splitlines(), 1
    ):
        if not line.strip() or line.strip().startswith("#"):
            continue
        with name_place(f"{path}, line {number}"):
            position = from_text(line.strip(), game)
            name = to_text(position, game)
            check_opening(game, position, repr(name))
        positions[name] = position
    if not positions:
        raise Refusal(f'{path} has no positions: write one in a line, as in "x.o/.../..o x"')
    return Boards.from_positions(positions.values())
