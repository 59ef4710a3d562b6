"""Presentations: the same positions and moves in different words.

A presentation is a bijection: every cell has one name, and two positions never have the same text. The presentations
differ in what a reader has to know: a drawn board, coordinates without a drawing, sums (the magic square), or letters
of words (Hot).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from ttt_envs.core.checks import closest_names
from ttt_envs.core.jit import BoolArray
from ttt_envs.game.actions import legal_actions
from ttt_envs.game.boards import COLUMNS, STONES, coordinate
from ttt_envs.game.game import VARIANTS, Game, Position
from ttt_envs.game.phantom import check_variants
from ttt_envs.game.rules import check_cells

MAGIC_SQUARE = (2, 7, 6, 9, 5, 1, 4, 3, 8)
"""The numbers of the cells, row by row: the lines are all triples of different numbers from 1 to 9 with the sum 15.

Berlekamp, Conway and Guy, Winning Ways for your Mathematical Plays, second edition, volume 3, chapter 22.
"""
MAGIC_SUM = 15
HOT = ("HOT", "FORM", "WOES", "TANK", "HEAR", "WASP", "TIED", "BRIM", "SHIP")
"""The words of the cells, row by row: the lines are all triples of words with a common letter.

Leo Moser's game Hot; the same chapter.
"""

Layout = Literal["board", "lists"]
_ORDINALS = ("first", "second")


@dataclass(frozen=True)
class Presentation:
    """A way to write the positions and moves of one game; see :func:`make_presentation`."""

    name: str
    game: Game
    cell_names: tuple[str, ...]
    """name of each cell, row by row; all differ, also in lower case"""
    layout: Layout
    """a drawn board, or lists of both players' cells"""
    noun: str
    """what a move names: ``"cell"``, ``"column"``, ``"number"`` or ``"word"``"""
    goal: str
    """sentences: what the cells are, and what wins"""

    def __str__(self) -> str:
        return self.name

    @cached_property
    def move_names(self) -> tuple[str, ...]:
        """Name of each action: of the cells, or with gravity the letters of the columns."""
        return tuple(COLUMNS[: self.game.columns]) if self.game.gravity else self.cell_names

    @cached_property
    def moves(self) -> dict[str, int]:
        """Action of each name, in lower case."""
        return {name.lower(): action for action, name in enumerate(self.move_names)}

    def move_name(self, cell: int) -> str:
        """Return the name of the move that puts a stone on a cell."""
        return self.move_names[cell % self.game.columns if self.game.gravity else cell]

    def rules(self) -> str:
        """Return the rules of the game, including the skip chance, as sentences."""
        skip = self.game.skip_chance
        turns = (
            f"After every move that does not end the game, the other player's turn is skipped with probability "
            f"{skip:g}, and the same player moves again. This can happen several times in a row, and no player knows "
            f"it in advance."
            if skip
            else "The players take turns; no turn is skipped."
        )
        return f"{self.goal} {turns}"

    def legal_names(self, position: Position) -> list[str]:
        """Return the names of the legal moves of a position that is not over."""
        return self._listed(legal_actions(self.game, position.cells), self.move_names)

    def _listed(self, chosen: BoolArray, names: tuple[str, ...]) -> list[str]:
        """Return the chosen names, in an order that tells nothing about the places of cells."""
        listed = [name for name, is_chosen in zip(names, chosen, strict=True) if is_chosen]
        if self.name in ("grid", "coordinates"):
            return listed
        return sorted(listed, key=lambda name: (len(name), name) if name.isdigit() else (0, name))

    def position_text(self, position: Position) -> str:
        """Return a position as lines of text, for the player to move."""
        return self.view(position, position.mover)

    def view(self, position: Position, seat: int) -> str:
        """Return a position as lines of text, for the player of a seat, without the names of the legal moves."""
        player = f"You are the {_ORDINALS[seat]} player"
        if self.layout == "board":
            return f"{self._board(position)}\n{player}, {STONES[seat + 1]}."
        things = "cells" if self.game.gravity else f"{self.noun}s"
        own, other = (
            ", ".join(self._listed(position.cells == stone, self.cell_names)) for stone in (seat + 1, 2 - seat)
        )
        return f"{player}.\nYour {things}: {own or 'none'}\nThe other player's {things}: {other or 'none'}"

    def _board(self, position: Position) -> str:
        """Return the drawn board: with coordinates at its edges, or with the names of empty cells in their places."""
        rows, columns = self.game.rows, self.game.columns
        is_grid = self.name == "grid"
        marks = [
            STONES[stone] if stone or is_grid else name
            for stone, name in zip(position.cells.tolist(), self.cell_names, strict=True)
        ]
        labels = [f"{row + 1:>{len(str(rows))}} " * is_grid for row in range(rows)]
        lines = [" " * len(labels[0]) + " ".join(COLUMNS[:columns])] if is_grid else []
        width = 1 if is_grid else max(map(len, self.cell_names))
        for row, label in enumerate(labels):
            lines.append(label + " ".join(f"{mark:>{width}}" for mark in marks[row * columns : (row + 1) * columns]))
        return "\n".join(lines)


def _line_goal(game: Game, parts: str = "stones") -> str:
    """Return what wins, or in misère loses, on a board of which the lines can be seen."""
    more = "" if game.win_length == max(game.rows, game.columns) and not game.torus else " or more"
    count = f"exactly {game.win_length}" if not game.overlines else f"{game.win_length}{more}"
    goal = (
        f"The first player with {count} own {parts} in an unbroken line, in a row, a column or a "
        f"diagonal, {'loses' if game.misere else 'wins'}. A full board without such a line is a draw."
    )
    wraps = " Lines continue across the edges: the first and the last row are neighbours, and so are the first and the "
    longer = f" A line of more than {game.win_length} does not count."
    return goal + (wraps + "last column.") * game.torus + longer * (not game.overlines)


def _board_goal(game: Game) -> str:
    """Return what players do on a drawn board, and what wins."""
    board = f"a board of {game.rows} rows and {game.columns} columns"
    do = f"put stones on the empty cells of {board}"
    if game.gravity:
        do = f"drop stones into the columns of {board}, where they fall to the lowest empty cell"
    return f"Two players {do}, the first player o, the second player x. {_line_goal(game)}"


def _list_goal(things: str, thing: str, wins: str) -> str:
    """Return what players do who take numbers or words, and what wins."""
    return (
        f"Two players take {things}, one {thing} in each turn; a {thing} that is taken cannot be taken again. The "
        f"first player who holds three {wins} wins. If all {thing}s are taken and neither player has won, the game is "
        f"a draw."
    )


def _grid(game: Game, seed: int) -> Presentation:
    names = tuple(coordinate(cell, game) for cell in range(game.cells))
    noun, row = ("move", "") if game.gravity else ("cell", ", and its row, a number counted from the top")
    goal = f"{_board_goal(game)} A {noun} is named by its column, a letter{row}."
    return Presentation("grid", game, names, "board", "column" if game.gravity else "cell", goal)


def _coordinates(game: Game, seed: int) -> Presentation:
    goal = (
        f"Two players take cells of a board of {game.rows} rows and {game.columns} columns, one cell in each turn; a "
        f"cell that is taken cannot be taken again. A cell is named by its column, a letter from a to "
        f"{COLUMNS[game.columns - 1]}, and its row, a number from 1 to {game.rows}. {_line_goal(game, 'cells')}"
    )
    falls = (
        " A player chooses a column and takes the lowest cell of it that is not taken; row 1 is the highest. A move is "
        "named by its column."
    )
    return replace(_grid(game, seed), name="coordinates", layout="lists", goal=goal + falls * game.gravity)


def _numbered(name: str, game: Game, numbers: Iterable[int], order: str) -> Presentation:
    if game.gravity:
        raise ValueError(
            f"presentation {name} names cells, and with gravity a move is a column: choose grid or coordinates"
        )
    goal = f"{_board_goal(game)} The cells {order}; the board shows the number of each empty cell."
    return Presentation(name, game, tuple(map(str, numbers)), "board", "cell", goal)


def _numbers(game: Game, seed: int) -> Presentation:
    return _numbered("numbers", game, range(game.cells), f"are numbered from 0 to {game.cells - 1}, row by row")


def _shuffled(game: Game, seed: int) -> Presentation:
    numbers = np.random.default_rng(seed).permutation(game.cells).tolist()
    return _numbered("shuffled", game, numbers, f"have the numbers from 0 to {game.cells - 1}, in no order")


def _tic_tac_toe(name: str, game: Game, names: Iterable[object], noun: str, goal: str) -> Presentation:
    if (game.rows, game.columns, game.win_length) != (3, 3, 3) or game.variants:
        raise ValueError(
            f"presentation {name} is of 3 x 3 with 3 to win, not of {game}: only its lines are what wins there. Choose "
            f"grid, coordinates, numbers or shuffled"
        )
    return Presentation(name, game, tuple(map(str, names)), "lists", noun, goal)


def _magic_square(game: Game, seed: int) -> Presentation:
    goal = _list_goal("numbers from 1 to 9", "number", f"numbers with the sum {MAGIC_SUM}")
    return _tic_tac_toe("magic-square", game, MAGIC_SQUARE, "number", goal)


def _words(game: Game, seed: int) -> Presentation:
    goal = _list_goal(f"words from {', '.join(sorted(HOT))}", "word", "words with a common letter")
    return _tic_tac_toe("words", game, HOT, "word", goal)


PRESENTATIONS = {
    "grid": _grid,
    "coordinates": _coordinates,
    "numbers": _numbers,
    "shuffled": _shuffled,
    "magic-square": _magic_square,
    "words": _words,
}
"""name -> function of the game and the seed that makes the presentation"""


def make_presentation(presentation: str | Presentation, game: Game, seed: int = 0) -> Presentation:
    """Return a presentation of a game by its name; a presentation is returned unchanged.

    Args:
        presentation: ``"grid"``, a drawn board with coordinates; ``"coordinates"``, the same without a drawing;
            ``"numbers"``, a drawn board with the action of each empty cell; ``"shuffled"``, the same with permuted
            numbers; on 3 x 3 with 3 to win also ``"magic-square"`` (numbers from 1 to 9, sum 15) and ``"words"`` (Hot).
        game: the game.
        seed: of the permutation of ``"shuffled"``; the others ignore it.

    Raises:
        ValueError: an unknown name, a presentation that the game does not have, one of another game, or a game with
            hidden stones.
    """
    check_variants("a text game", game, VARIANTS, reasons="it reads the whole board, to print it for the mover")
    if isinstance(presentation, Presentation):
        if presentation.game != game:
            raise ValueError(f"presentation {presentation} is of {presentation.game}, not of {game}: make another one")
        return presentation
    if presentation not in PRESENTATIONS:
        raise ValueError(f"{presentation!r} is no presentation: {closest_names(str(presentation), PRESENTATIONS)}")
    return PRESENTATIONS[presentation](game, seed)


def present(
    game: Game,
    position: Position,
    presentation: str | Presentation = "grid",
    *,
    seed: int = 0,
    rules: bool = True,
    show_legal: bool = True,
) -> str:
    """Return the prompt for a position that is not over: rules, position, legal moves, and the form of the answer.

    Args:
        game: the game.
        position: the position; the reader is its mover.
        presentation, seed: see :func:`make_presentation`.
        rules: whether the prompt begins with the rules.
        show_legal: whether it lists the legal moves.

    Raises:
        ValueError: see :func:`make_presentation`; or the cells are not a board of the game.
    """
    check_cells(game, position.cells)
    chosen = make_presentation(presentation, game, seed)
    parts = [chosen.rules()] if rules else []
    parts += [chosen.position_text(position), question(chosen, position, show_legal)]
    return "\n\n".join(parts)


def question(presentation: Presentation, position: Position, show_legal: bool) -> str:
    """Return the last lines of a prompt: whose turn it is, the legal moves, and the form of the answer."""
    lines = ["It is your turn."]
    if show_legal:
        lines.append(f"Legal moves: {', '.join(presentation.legal_names(position))}")
    kind = "an empty cell" if presentation.layout == "board" else f"a {presentation.noun} that is not taken"
    if presentation.game.gravity:
        kind = "a column that is not full"
    lines.append(f"Answer with the name of {kind}, between <move> and </move>.")
    return "\n".join(lines)
