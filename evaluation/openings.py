"""Where games of a match begin: positions drawn for each pair, all after so many plies, or those of a file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from math import comb
from pathlib import Path
from typing import NamedTuple

import numpy as np

from evaluation.games import read_games
from ttt_envs.boards import Boards, check_opening, from_text, keys, to_text
from ttt_envs.compiling import Cells, Keys, Parameters, compiled_allocating, wide
from ttt_envs.files import open_to_read, read_bounded
from ttt_envs.rules import (
    LARGEST_EDGE,
    NOT_OVER,
    OPPONENT,
    Game,
    Position,
    mover_after,
    pick,
    play_rows,
    splitmix64,
    uniform,
    winning_cells,
)

LARGEST = 1 << 26
"""cells that the boards of all openings may have together, and bytes that a file of them may have"""
LONGEST = LARGEST_EDGE * (LARGEST_EDGE + 1) + 1
"""letters of a position"""
TRIES = 1000
"""how often an opening is begun anew that leads to where every move ends the game"""
EXAMPLES = "write random:2 for two random plies, all:2 for every position after two, or the name of a file"


class Openings(NamedTuple):
    """What the pairs of a match begin with."""

    text: str
    """as they were asked for"""
    plies: int
    """drawn for each pair: so many random plies; 0 where the positions are listed"""
    boards: Boards | None
    """the listed positions, which pairs take in turn"""

    @classmethod
    def of(cls, text: str, game: Game) -> Openings:
        """What ``--openings`` asks for.

        Args:
            text: ``random:N``, N uniformly random plies that end no game, with the game's skips; ``all:N``, every
                position after N plies without skips in which the game goes on, by their keys; or the name of a file,
                either of positions, one in a line, or of games: of each the position where it stops, or where it began
                if it is over. What occurs again in a file is left out.
            game: what is played.

        Raises:
            OSError, ValueError: none of these, more than can be held, a position that no game leads to or that is over.
        """
        match = re.fullmatch(r"(random|all):(\d{1,4})", text)
        if match is None:
            return cls(text, 0, _of_file(text, game))
        plies = int(match[2])
        if not 1 <= plies < game.cells:
            fewer = f"choose 1 to {game.cells - 1} plies" if game.cells > 1 else "leave them out"
            raise ValueError(f"openings={text!r} are none of a game on {game.cells} cells: {fewer}")
        return cls(text, 0, _all(plies, game, text)) if match[1] == "all" else cls(text, plies, None)

    def of_pairs(self, numbers: range) -> int | Boards:
        """What pairs of these numbers begin with: so many plies, or a position for each."""
        if self.boards is None:
            return self.plies
        return self.boards.take(np.arange(numbers.start, numbers.stop) % len(self.boards.mover))


def draw_openings(game: Game, plies: int, luck: Keys) -> Boards:
    """A position after ``plies`` random plies for each of the lucks, uint64[B].

    Every ply is uniformly random among those that do not end the game, and followed by the game's skips; where none is
    left the opening is drawn anew.

    Raises:
        ValueError: none can be found.
    """
    boards = Boards.start(game, len(luck))
    if _draw(boards.cells, boards.mover, luck, plies, game.parameters) >= 0:
        raise ValueError(
            f"{TRIES} times {plies} random plies of {game} led to where every move ends the game: "
            f"choose openings of fewer plies"
        )
    return boards


@compiled_allocating
def _draw(cells: Cells, mover: Cells, luck: Keys, plies: int, parameters: Parameters) -> int:
    """:func:`draw_openings` on empty boards; the first row for which none was found, or -1."""
    closed = np.empty(cells.shape[1], np.int8)  # cells that are taken, or where the game would end
    for b in range(len(cells)):
        board = cells[b]
        ply = wide(0)
        for attempt in range(TRIES):
            board[:] = 0
            own = splitmix64(luck[b], attempt)
            player = wide(0)
            ply = wide(0)
            while ply < plies:
                winning_cells(board, player, parameters, closed)
                for cell in range(len(board)):
                    closed[cell] |= board[cell]
                cell = pick(closed, uniform(own, OPPONENT, ply))
                if cell < 0:
                    break
                board[cell] = player + 1
                player = mover_after(player, own, ply, parameters)
                ply += 1
            mover[b] = player
            if ply == plies:
                break
        if ply < plies:
            return b
    return -1


def _all(plies: int, game: Game, text: str) -> Boards:
    """Every position after so many plies without skips in which the game goes on, by their keys."""
    most = max(comb(game.cells, n) * comb(n, n // 2) for n in range(plies + 1))
    if most * game.cells > LARGEST:
        raise ValueError(
            f"openings={text!r} are up to {most:,} positions, and at most {LARGEST // game.cells:,} are held: "
            f"choose fewer plies, or random:{plies}"
        )
    rules = replace(game, skip_chance=0.0).parameters
    boards = Boards.start(game)
    for ply in range(plies):
        parts = []
        for cell in range(game.cells):
            cells, mover = boards.take(boards.legal(game)[:, cell])
            rows = np.arange(len(mover))
            outcome, stones, luck = (
                np.zeros(len(rows), np.int8),
                np.full(len(rows), ply),
                np.zeros(len(rows), np.uint64),
            )
            play_rows(cells, mover, stones, luck, rows, np.full(len(rows), cell), rules, outcome)
            parts.append(cells[outcome == NOT_OVER])
        cells = np.concatenate(parts)
        if not len(cells):
            raise ValueError(f"openings={text!r} are none: {game} is over by then, choose fewer plies")
        _, first = np.unique(keys(cells), axis=0, return_index=True)
        boards = Boards(cells[first], np.full(len(first), (ply + 1) % 2, np.int8))
    return boards


def _of_file(text: str, game: Game) -> Boards:
    """The positions of a file, each once."""
    path = Path(text)
    if not path.exists():
        raise ValueError(f"openings={text!r} are not known, and there is no such file: {EXAMPLES}")
    with open_to_read(path, LARGEST) as file:
        read = _of_games if file.read(1) == b"{" else _of_lines
    found: dict[str, Position] = {}
    for number, position in read(path, game):
        name = to_text(position, game)
        try:
            check_opening(game, position, repr(name))
        except ValueError as problem:
            raise ValueError(f"{path}, line {number}: {problem}") from None
        found[name] = position
        if len(found) * game.cells > LARGEST:
            raise ValueError(f"{path} has more than {LARGEST // game.cells:,} positions, and no more are held")
    if not found:
        raise ValueError(f'{path} has no positions: write one in a line, as in "x.o/.../..o x"')
    return Boards.of(found.values())


def _of_lines(path: Path, game: Game) -> Iterator[tuple[int, Position]]:
    """Line numbers, and the positions in them."""
    for number, line in enumerate(read_bounded(path, LARGEST).decode(errors="replace").splitlines(), 1):
        words = line.strip()
        if not words or words.startswith("#"):
            continue
        if len(words) > LONGEST:
            raise ValueError(f"{path}, line {number}: {len(words):,} letters are no position")
        try:
            yield number, from_text(words, game)
        except ValueError as problem:
            raise ValueError(f"{path}, line {number}: {problem}") from None


def _of_games(path: Path, game: Game) -> Iterator[tuple[int, Position]]:
    """Line numbers, and the positions of the games in them."""
    for number, played in enumerate(read_games(path, limit=LARGEST), 2):  # the first line is the head
        if replace(played.game, skip_chance=game.skip_chance) != game:
            raise ValueError(f"{path}, line {number}: a game of {played.game} is no opening of {game}")
        yield number, played.end() if played.result is None else played.start()
