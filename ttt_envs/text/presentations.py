"""Presentations: the same positions and moves in different words.

A presentation is a bijection: every cell has one name, and two positions never have the same text.
The presentations differ in what a reader has to know: a drawn board, coordinates without a drawing,
sums (the magic square), or letters of words (Hot). ``presentations.toml`` is the table of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from ttt_envs.core.checks import Refusal, find_named
from ttt_envs.core.files import read_table
from ttt_envs.core.jit import BoolArray
from ttt_envs.game.actions import legal_actions
from ttt_envs.game.boards import COLUMNS, STONES, coordinate
from ttt_envs.game.game import Game, Position
from ttt_envs.game.phantom import HIDING, check_variants
from ttt_envs.game.rules import check_cells

_TABLE: dict[str, dict[str, Any]] = read_table(__file__)
COORDINATES = ("grid", "coordinates")
"""presentations whose names are coordinates"""
RULES = ("gravity", "overlines", "misere", "torus")
"""unusual rules that ``presentations.toml`` has words for; games with another one are refused"""
PRESENTATIONS = (*COORDINATES, "numbers", "shuffled", "magic-square", "words")


@dataclass(frozen=True)
class Presentation:
    """A way to write the positions and moves of one game; see :func:`make_presentation`."""

    name: str
    game: Game
    cell_names: tuple[str, ...]
    """name of each cell, row by row; all differ, also in lower case"""
    layout: Literal["board", "lists"]
    """a drawn board, or lists of both players' cells"""
    noun: str
    """what a move names: ``"cell"``, ``"column"``, ``"number"`` or ``"word"``"""
    rules: str
    """the rules of the game, including the skip chance, as sentences"""

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

    def legal_names(self, position: Position) -> list[str]:
        """Return the names of the legal moves of a position that is not over."""
        return self._select(legal_actions(self.game, position.cells), self.move_names)

    def _select(self, choice: BoolArray, names: tuple[str, ...]) -> list[str]:
        """Return the chosen names, in an order that tells nothing about the places of cells."""
        selection = [name for name, is_chosen in zip(names, choice, strict=True) if is_chosen]
        if self.name in COORDINATES:
            return selection
        return sorted(selection, key=lambda name: (len(name) if name.isdigit() else 0, name))

    def describe(self, position: Position, seat: int) -> str:
        """Return a position as lines of text, for the player of a seat, without the names of the
        legal moves.
        """
        player = f"You are the {('first', 'second')[seat]} player"
        if self.layout == "board":
            return f"{self._board(position)}\n{player}, {STONES[seat + 1]}."
        things = "cells" if self.game.gravity else f"{self.noun}s"
        own, other = (
            ", ".join(self._select(position.cells == stone, self.cell_names))
            for stone in (seat + 1, 2 - seat)
        )
        return (
            f"{player}.\nYour {things}: {own or 'none'}\nThe other player's {things}: "
            f"{other or 'none'}"
        )

    def _board(self, position: Position) -> str:
        """Return the drawn board: with coordinates at its edges, or with the names of empty cells
        in their places.
        """
        rows = self.game.rows
        columns = self.game.columns
        is_grid = self.name == "grid"
        width = 1 if is_grid else max(map(len, self.cell_names))
        digits = len(str(rows))
        marks = [
            f"{STONES[stone] if stone or is_grid else name:>{width}}"
            for stone, name in zip(position.cells.tolist(), self.cell_names, strict=True)
        ]
        lines = [" ".join(marks[row * columns : (row + 1) * columns]) for row in range(rows)]
        if is_grid:
            lines = [f"{row:>{digits}} {line}" for row, line in enumerate(lines, 1)]
            lines.insert(0, " " * (digits + 1) + " ".join(COLUMNS[:columns]))
        return "\n".join(lines)

    def question(self, position: Position, show_legal: bool) -> str:
        """Return the last lines of a prompt: whose turn it is, the legal moves, and the form of the
        answer.
        """
        kind = "an empty cell" if self.layout == "board" else f"a {self.noun} that is not taken"
        kind = "a column that is not full" if self.game.gravity else kind
        legal = f"Legal moves: {', '.join(self.legal_names(position))}\n" if show_legal else ""
        return (
            f"It is your turn.\n{legal}Answer with the name of {kind}, between <move> and </move>."
        )


def make_presentation(presentation: str | Presentation, game: Game, seed: int = 0) -> Presentation:
    """Return a presentation of a game by its name; a presentation is returned unchanged.

    Args:
        presentation: ``"grid"``, a drawn board with coordinates; ``"coordinates"``, the same
            without a drawing; ``"numbers"``, a drawn board with the action of each empty cell;
            ``"shuffled"``, the same with permuted numbers; on 3 x 3 with 3 to win also
            ``"magic-square"`` (numbers from 1 to 9, sum 15) and ``"words"`` (Hot).
        game: the game.
        seed: of the permutation of ``"shuffled"``; the others ignore it.

    Raises:
        ValueError: an unknown name, a presentation that the game does not have, one of another
            game, or a game with hidden stones.
    """
    reasons = {HIDING: "it reads the whole board, to print it for the mover"}
    check_variants("a text game", game, RULES, reasons=reasons)
    if isinstance(presentation, Presentation):
        if presentation.game != game:
            raise Refusal(
                f"presentation {presentation} is of {presentation.game}, not of {game}: make "
                "another one"
            )
        return presentation
    row = find_named(
        "presentation", str(presentation), {name: _TABLE[name] for name in PRESENTATIONS}
    )
    if "names" in row and (
        (game.rows, game.columns, game.win_length) != (3, 3, 3) or game.variants
    ):
        raise Refusal(
            f"presentation {presentation} is of 3 x 3 with 3 to win, not of {game}: only its lines "
            "are what wins "
            f"there. Choose grid, coordinates, numbers or shuffled"
        )
    if game.gravity and presentation not in COORDINATES:
        raise Refusal(
            f"presentation {presentation} names cells, and with gravity a move is a column: choose "
            "grid or coordinates"
        )
    numbers = (
        np.random.default_rng(seed).permutation(game.cells)
        if presentation == "shuffled"
        else range(game.cells)
    )
    cell_names = tuple(row.get("names", map(str, numbers)))
    if presentation in COORDINATES:
        cell_names = tuple(coordinate(cell, game) for cell in range(game.cells))
    noun = "column" if game.gravity else row["noun"]
    return Presentation(
        presentation, game, cell_names, row["layout"], noun, _write_rules(row["rules"], game)
    )


def _write_rules(template: str, game: Game) -> str:
    """Return the rules of a game, by a template of the table."""
    has_rule = {
        "longest": game.win_length == max(game.rows, game.columns) and not game.torus,
        "no-overlines": not game.overlines,
        "skips": game.skip_chance > 0,
        **{name: getattr(game, name) for name in ("gravity", "misere", "torus")},
    }
    changes = {
        part: text for rule in has_rule if has_rule[rule] for part, text in _TABLE[rule].items()
    }
    parts: dict[str, Any] = {
        "game": game,
        "last_column": COLUMNS[game.columns - 1],
        "last_cell": game.cells - 1,
    }
    for part, text in (_TABLE["parts"] | changes).items():
        parts[part] = text.format(**parts)
    return template.format(**parts)


def present(
    game: Game,
    position: Position,
    presentation: str | Presentation = "grid",
    *,
    seed: int = 0,
    rules: bool = True,
    show_legal: bool = True,
) -> str:
    """Return the prompt for a position that is not over: rules, position, legal moves, and the form
    of the answer.

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
    words = make_presentation(presentation, game, seed)
    parts = [words.describe(position, position.mover), words.question(position, show_legal)]
    if rules:
        parts.insert(0, words.rules)
    return "\n\n".join(parts)
