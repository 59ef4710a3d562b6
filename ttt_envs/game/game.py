"""The game: its parameters, and what of them follows."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ttt_envs.core.checks import (
    Refusal,
    TypeRefusal,
    check_range,
    check_whole,
    find_named,
    is_whole,
    truncate,
)
from ttt_envs.core.jit import Int8Array, Int64Array
from ttt_envs.game.bits import MAX_CELLS_IN_BITS
from ttt_envs.game.lines import Line, line_masks, list_lines
from ttt_envs.game.parameters import GRAVITY, MISERE, NO_OVERLINES, TORUS, Parameters

FORMAT = 1
"""version of the storage format"""
MAX_EDGE = 19


@dataclass(frozen=True)
class Game:
    """The parameters of a game.

    Players alternately put stones on empty cells, ``player_0`` (o) first. ``win_length`` or more
    own stones in a row, column or diagonal win; a full board without such a line is a draw. After
    every stone that does not end the game, the other player's turn is skipped with probability
    ``skip_chance``, and the mover moves again; skips chain.

    Four fields change these rules, alone or together, see ``docs/rules.md``.

    Raises:
        TypeError: a size is not an integer, the skip chance is not a number, or a rule is not a
            bool.
        ValueError: a size is out of range, no line fits on the board, or the skip chance is outside
            [0, 1).
    """

    rows: int = 3
    """number of rows, 1 to 19"""
    columns: int = 3
    """number of columns, 1 to 19"""
    win_length: int = 3
    """stones in a line needed to win, 1 to the longer edge"""
    skip_chance: float = 0.0
    """probability of a skipped turn, at least 0 and below 1"""
    gravity: bool = False
    """stones fall to the lowest empty cell of their column, as in Connect Four"""
    overlines: bool = True
    """longer lines count too; without them only lines of exactly ``win_length``, as in standard
    gomoku
    """
    misere: bool = False
    """a player who completes a line loses"""
    torus: bool = False
    """lines continue across the edges: the board is a torus"""

    def __post_init__(self) -> None:
        for name in ("rows", "columns", "win_length"):
            check_whole(name, getattr(self, name), 3)
            object.__setattr__(self, name, int(getattr(self, name)))
        for name in ("rows", "columns"):
            hint = f" {name}, as in size=3 or size=(5, 6)"
            check_range(name, getattr(self, name), 1, MAX_EDGE, "is not the edge of a board", hint)
        misfit = f"does not fit a board of {self.rows} x {self.columns}"
        check_range("win_length", self.win_length, 1, max(self.rows, self.columns), misfit)
        skip = self.skip_chance
        if isinstance(skip, bool) or not isinstance(skip, (int, float, np.integer, np.floating)):
            raise TypeRefusal(
                f"skip_chance={skip!r} is not a number: write for example skip_chance=0.25"
            )
        if not 0 <= skip < 1:  # also rejects NaN
            percent = f"; {skip:g}% is {skip / 100:g}" if 1 < skip < 100 else ""
            raise Refusal(
                f"skip_chance={skip} is not a probability below 1: choose 0 (turns are never "
                "skipped) "
                f"up to, but not including, 1 (the other player would never move){percent}"
            )
        object.__setattr__(self, "skip_chance", float(skip))
        for name in VARIANTS:
            value = getattr(self, name)
            if not isinstance(value, (bool, np.bool_)):
                raise TypeRefusal(
                    f"{name}={value!r} is not a truth value: write {name}=True or {name}=False"
                )
            object.__setattr__(self, name, bool(value))

    @classmethod
    def of_size(
        cls,
        size: int | tuple[int, int] = 3,
        win_length: int | None = None,
        skip_chance: float = 0.0,
        **rules: bool,
    ) -> Game:
        """Return the game on a square board of edge ``size``, or on ``size = (rows, columns)``.

        Args:
            size: edge of the board, or (rows, columns).
            win_length: stones in a line needed to win; by default :func:`default_win_length`.
            skip_chance: probability of a skipped turn.
            rules: ``gravity``, ``overlines``, ``misere`` and ``torus``, as of the class.

        Raises:
            TypeError, ValueError: as the class.
        """
        if isinstance(size, (tuple, list)):
            if len(size) != 2:
                raise Refusal(
                    f"size={size!r} is not a board: write size=3 or size=(5, 6), rows first"
                )
            rows, columns = size
        else:
            rows = columns = size
        if not (is_whole(rows) and is_whole(columns)):
            raise TypeRefusal(
                f"size={size!r} is not a board: write size=3 or size=(5, 6), rows first"
            )
        if win_length is None:
            win_length = default_win_length(rows, columns)
        return cls(rows, columns, win_length, skip_chance, **rules)

    def __getstate__(self) -> dict[str, object]:
        # Fields alone: kernels would be compiled again for cached arrays, because copies of them
        # are writable
        return dataclasses.asdict(self)

    @cached_property
    def cells(self) -> int:
        """Number of cells of the board, which is also the number of actions."""
        return self.rows * self.columns

    @cached_property
    def parameters(self) -> Parameters:
        """The rules for kernels."""
        variants = (
            self.gravity * GRAVITY
            | (not self.overlines) * NO_OVERLINES
            | self.misere * MISERE
            | self.torus * TORUS
        )
        run = self.win_length - 1
        fits = self.cells <= MAX_CELLS_IN_BITS
        lists_lines = self.torus or not self.overlines
        return Parameters(
            self.rows,
            self.columns,
            self.win_length,
            self.skip_chance,
            variants,
            row_starts=self._bits_of(0, run) if fits else 0,
            falling_starts=self._bits_of(run, run) if fits else 0,
            rising_starts=self._bits_of(run, -run) if fits else 0,
            lines=line_masks(self.lines if fits else []) if lists_lines else None,
        )

    @cached_property
    def lines(self) -> list[Line]:
        """All lines of the board, in order of their cells.

        A player with stones on all cells of a line wins, or loses in misère, unless it is longer
        and overlines do not count.
        """
        return list_lines(
            self.rows, self.columns, self.win_length, overlines=self.overlines, torus=self.torus
        )

    @cached_property
    def line_cells(self) -> Int64Array:
        """int64[W, win_length]: the cells of all lines, see :attr:`lines`; not writeable."""
        cells = np.array([line.cells for line in self.lines], np.int64).reshape(-1, self.win_length)
        cells.flags.writeable = False
        return cells

    def _bits_of(self, row_step: int, column_step: int) -> int:
        """Return the cells, as bits, from which a step of so many rows and columns stays on the
        board.
        """
        return sum(
            1 << row * self.columns + column
            for row, column in np.ndindex(self.rows, self.columns)
            if row + row_step < self.rows and 0 <= column + column_step < self.columns
        )

    def to_dict(self) -> dict[str, object]:
        """Return the game as JSON-ready data, with the format version; rules that do not hold are
        left out.
        """
        absent = VARIANTS.keys() - self.variants
        fields = dataclasses.asdict(self)
        return {"format": FORMAT, **{name: fields[name] for name in fields if name not in absent}}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Game:
        """Return the game that :meth:`to_dict` stored; missing fields get their defaults.

        Raises:
            ValueError: it is no mapping, the format is newer, or a field is unknown to this version
                or is invalid.
        """
        if not isinstance(data, Mapping):
            raise Refusal(
                f"{truncate(repr(data))} is no stored game: that has rows, columns and other fields"
            )
        fields = dict(data)
        version = fields.pop("format", FORMAT)
        if version != FORMAT:
            raise Refusal(
                f"format={truncate(repr(version))} of a stored game is not known here: this "
                f"version reads {FORMAT}"
            )
        own_fields = {field.name: field for field in dataclasses.fields(cls)}
        for name in fields:
            find_named("field of a game", name, own_fields)
        try:
            return cls(**fields)
        except TypeError as problem:
            raise Refusal(str(problem)) from None

    def __str__(self) -> str:
        count = f"{self.win_length}" if self.overlines else f"exactly {self.win_length}"
        goal = f"{count} to lose" if self.misere else f"{count} to win"
        parts = [f"{self.rows} x {self.columns}", goal]
        parts.extend(name for name in ("gravity", "torus") if getattr(self, name))
        if self.skip_chance:
            parts.append(f"skip {self.skip_chance:g}")
        return ", ".join(parts)

    @property
    def variants(self) -> dict[str, bool]:
        """The fields that change the standard rules, as keywords."""
        return {name: value for name, value in VARIANTS.items() if getattr(self, name) == value}

    @property
    def variant_names(self) -> list[str]:
        """The rules of :attr:`variants` as words for names and options: ``gravity``, or
        ``no-overlines``.
        """
        return [name if value else f"no-{name}" for name, value in self.variants.items()]

    @property
    def slug(self) -> str:
        """Short form for file names, as in ``3x3-3-skip0.25`` or ``6x7-4-gravity``."""
        skip = f"-skip{self.skip_chance}" if self.skip_chance else ""
        rules = "".join(f"-{name}" for name in self.variant_names)
        return f"{self.rows}x{self.columns}-{self.win_length}{rules}{skip}"


VARIANTS = {
    field.name: not field.default
    for field in dataclasses.fields(Game)
    if isinstance(field.default, bool)
}
"""the fields of :class:`Game` that change the standard rules, and the values that do"""


def default_win_length(rows: int, columns: int) -> int:
    """Return the win length of a board of which only the size is given, by its shorter edge.

    3 up to an edge of 3, 4 up to 6, and 5 from 7 on; on a board up to 2 x 2, its longer edge. On an
    edge of 4 or more, three to win is won by the first player at once.
    """
    edge = min(rows, columns)
    if edge <= 3:
        return min(3, max(rows, columns))
    return 4 if edge <= 6 else 5


class Position(NamedTuple):
    """One position of a game."""

    cells: Int8Array
    """int8[rows * columns], row by row: 0 empty, 1 a stone of player_0, 2 a stone of player_1"""
    mover: int
    """player to move, 0 or 1"""
