"""Random positions with which games begin."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from ttt_envs.core.checks import Refusal
from ttt_envs.core.jit import Int8Array, Int64Array, UInt64Array, int8, kernel
from ttt_envs.core.random import draw_keys, splitmix64, uniform, uniforms
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game
from ttt_envs.game.parameters import Parameters
from ttt_envs.game.rules import (
    STREAM_OPENING,
    STREAM_OPPONENT,
    completing_cells,
    is_legal,
    mover_after,
    nth_empty_cell,
)

TRIES = 1000
"""Maximum number of attempts to draw an opening that does not force the end of the game."""
NUM_OPENINGS = 1 << 12
"""Number of positions of :func:`random_openings`."""


class RandomPlies(NamedTuple):
    """Numbers of random plies with which games begin, and the share of games that do."""

    first: int
    last: int
    share: float

    @classmethod
    def from_text(cls, text: str, game: Game) -> RandomPlies:
        """Parse the name of random openings.

        Args:
            text: ``random:2`` for two random plies; ``random:1-3`` for one, two or three, all
                equally often; ``random:1-3:SHARE`` for a share of all games, above 0 and at most 1,
                and the empty board for the others.
            game: the game.

        Raises:
            ValueError: another text, or numbers that the game does not allow.
        """
        match = re.fullmatch(r"random:(\d{1,3})(?:-(\d{1,3}))?(?::(1|0?\.\d+))?", text)
        first = last = 0
        share = 1.0
        if match:
            first = int(match[1])
            last = int(match[2] or first)
            share = float(match[3] or share)
        if not (1 <= first <= last < game.cells and share > 0):
            raise Refusal(
                f"openings={text!r} are not known: write random:2 for games that begin after two "
                f"random plies, random:1-3 for one to three, of at most {game.cells - 1}, or "
                "random:1-3:0.5 for half of the games"
            )
        return cls(first, last, share)

    def draw(self, keys: UInt64Array) -> Int64Array:
        """Return the number of plies for each of the keys, uint64[B]; 0 for the empty board."""
        zeros = np.zeros(len(keys), np.int64)
        spread = self.last - self.first + 1
        plies = self.first + (uniforms(keys, STREAM_OPENING, zeros) * spread).astype(np.int64)
        has_plies = uniforms(keys, STREAM_OPENING, zeros + 1) < self.share
        return np.where(has_plies, plies, 0)


def random_openings(text: str, game: Game) -> Boards:
    """Return positions, always the same, of which games begin with one, drawn uniformly.

    Numbers of plies, and the share, are those of :meth:`RandomPlies.from_text` but for rounding.

    Raises:
        ValueError: another text, or numbers that the game does not allow.
    """
    first, last, share = RandomPlies.from_text(text, game)
    count = max(1, round(share * NUM_OPENINGS))
    rows = np.arange(NUM_OPENINGS - count, NUM_OPENINGS)
    lengths = range(first, last + 1)
    plies = np.zeros(NUM_OPENINGS, np.int64)
    for length, part in zip(lengths, np.array_split(rows, len(lengths)), strict=True):
        plies[part] = length
    keys = np.zeros(NUM_OPENINGS, np.uint64)
    keys[rows] = draw_keys(np.random.default_rng(0), count)
    return draw_openings(game, plies, keys)


def draw_openings(game: Game, plies: int | Int64Array, episode_keys: UInt64Array) -> Boards:
    """Return a position after ``plies`` random plies for each of the keys, uint64[B]; ``plies`` is
    a number for all, or int64[B].

    Every ply is uniformly random among those that do not end the game, and followed by the game's
    skips; where none is left, the opening is redrawn.

    Raises:
        ValueError: none can be found.
    """
    boards = Boards.start(game, len(episode_keys))
    lengths = np.zeros(len(episode_keys), np.int64) + plies
    row = _draw(boards.cells, boards.mover, episode_keys, lengths, game.parameters)
    if row >= 0:
        raise Refusal(
            f"{TRIES} times {lengths[row]} random plies of {game} led to where every move ends the "
            "game: choose openings of fewer plies"
        )
    return boards


@kernel(allocates=True)
def _draw(
    cells: Int8Array,
    mover: Int8Array,
    episode_keys: UInt64Array,
    plies: Int64Array,
    parameters: Parameters,
) -> int:
    """Draw openings on empty boards for :func:`draw_openings`; return the first row without one, or
    -1.
    """
    # cells that are not legal, or where a stone ends the game
    closed = np.empty(cells.shape[1], np.int8)
    for b in range(len(cells)):
        board = cells[b]
        ply = 0
        for attempt in range(TRIES):
            board[:] = 0
            own = splitmix64(episode_keys[b], attempt)
            player = 0
            ply = 0
            while ply < plies[b]:
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
            if ply == plies[b]:
                break
        if ply < plies[b]:
            return b
    return -1
