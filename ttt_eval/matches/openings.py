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
from ttt_envs.core.jit import UInt64Array
from ttt_envs.game.boards import Boards, check_opening, from_text, keys, play_moves, to_text
from ttt_envs.game.game import Game, Position
from ttt_envs.game.openings import RandomPlies, draw_openings
from ttt_envs.game.rules import NOT_OVER

MAX_SIZE = 1 << 26
"""Maximum total number of cells of ``all:N``, and maximum size of a file of positions in bytes."""
EXAMPLES = (
    "write random:2 for two random plies, all:2 for every position after two, or the name of a file"
)


class Openings(NamedTuple):
    """Openings of the pairs of a match."""

    text: str
    """as specified by the user"""
    random: RandomPlies | None
    """random plies drawn for each pair; None if the positions are listed"""
    boards: Boards | None
    """the listed positions, which pairs take in turn"""

    @classmethod
    def from_text(cls, text: str, game: Game) -> Openings:
        """Parse the option ``--openings``.

        Args:
            text: random plies that end no game, with the game's skips, in the words of
                :meth:`RandomPlies.from_text`; ``all:N``, every unfinished position after N plies
                without skips, by their keys; or the name of a file of positions, one per line, of
                which duplicates are dropped.
            game: the game.

        Raises:
            OSError, ValueError: none of these, too many positions, a position that is unreachable
                or finished.
        """
        if text.startswith("random:"):
            return cls(text, RandomPlies.from_text(text, game), None)
        match = re.fullmatch(r"all:(\d{1,4})", text)
        if match is None:
            return cls(text, None, _from_file(text, game))
        plies = int(match[1])
        if not 1 <= plies < game.cells:
            remedy = f"choose 1 to {game.cells - 1} plies" if game.cells > 1 else "leave them out"
            raise Refusal(f"openings={text!r} are none of a game on {game.cells} cells: {remedy}")
        return cls(text, None, _all_positions(plies, game, text))

    def for_pairs(self, numbers: range, game: Game, keys: UInt64Array) -> Boards:
        """Return the openings of the pairs with these numbers and keys, uint64[B]."""
        if self.random is not None:
            return draw_openings(game, self.random.draw(keys), keys)
        assert self.boards is not None
        return self.boards.take(np.arange(numbers.start, numbers.stop) % len(self.boards.mover))

    def digest(self) -> str:
        """Return the SHA-256 of the listed positions, "" if there are none."""
        parts = b"".join(np.ascontiguousarray(part).tobytes() for part in self.boards or ())
        return hashlib.sha256(parts).hexdigest() if parts else ""


def _all_positions(plies: int, game: Game, text: str) -> Boards:
    """Return every position after ``plies`` plies without skips in which the game is not over, by
    their keys.
    """
    bound = max(comb(game.cells, n) * comb(n, n // 2) for n in range(plies + 1))
    if bound * game.cells > MAX_SIZE:
        raise Refusal(
            f"openings={text!r} are up to {bound:,} positions, and at most "
            f"{MAX_SIZE // game.cells:,} are held: choose fewer plies, or random:{plies}"
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
