"""Groups of cells, which form the axes of a table's tensor."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from ttt_envs.core.checks import Refusal, check_choice
from ttt_envs.core.jit import Float64Array, Int64Array
from ttt_envs.game.game import Game

Method = Literal["svd", "hosvd", "hosvd2", "hooi", "tt"]

LETTERS = "0123456789abcdef"
"""letters of the cells in the text of a grouping"""
MOVE = "m"
"""letter of the move in the text of a grouping, for tables with a value for every move"""


@dataclass(frozen=True)
class Grouping:
    """A partition of the cells into the axes of a tensor.

    Args:
        game: the game.
        groups: cells, 0 to ``game.cells - 1``, each in one group; ``game.cells`` represents the
            move.
        of_moves: whether the table has a value for every move of a board, so that the move is in
            one of the groups.

    Raises:
        ValueError: a cell is missing, repeated or unknown.
    """

    game: Game
    groups: tuple[tuple[int, ...], ...]
    of_moves: bool = False

    def __post_init__(self) -> None:
        if sorted(itertools.chain(*self.groups)) != list(range(self.game.cells + self.of_moves)):
            raise Refusal(
                f"the grouping {self} does not name each cell once: "
                f"{describe_groupings(self.game, self.of_moves)}"
            )

    @classmethod
    def parse(cls, game: Game, split: str, *, of_moves: bool = False) -> Grouping:
        """Parse a grouping.

        Args:
            game: the game, up to 16 cells.
            split: cells 0 to 9 and a to f, groups joined by "/" like the rows of a position, as in
                ``"012/345/678"``; or a number, the cells in the first of two groups; or ``"rows"``,
                ``"columns"``, ``"cells"``.
            of_moves: whether the table has a value for every move of a board. The move is written
                ``m``. With a number, it is in the second group; with a name, it is in its own
                group.

        Raises:
            ValueError: the text is not a grouping, or a cell is missing, repeated or unknown.
        """
        size = game.cells
        board = np.arange(size).reshape(game.rows, game.columns)
        named = {"rows": board, "columns": board.T, "cells": board.reshape(-1, 1)}
        if split in named:
            groups = [tuple(map(int, group)) for group in named[split]]
            if of_moves:
                groups.append((size,))
            return cls(game, tuple(groups), of_moves)
        if split.isdecimal() and 1 <= int(split) < size + of_moves:
            axes = tuple(range(size + of_moves))
            return cls(game, (axes[: int(split)], axes[int(split) :]), of_moves)
        letters = LETTERS[:size] + (MOVE if of_moves else "")
        parts = split.split("/")
        if len(parts) < 2 or not all(parts) or set(split) - {*letters, "/"}:
            raise Refusal(f"split={split!r} is no grouping: {describe_groupings(game, of_moves)}")
        return cls(game, tuple(tuple(map(letters.index, part)) for part in parts), of_moves)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Lengths of the axes of the tensor."""
        return tuple(math.prod(self._shape[axis] for axis in group) for group in self.groups)

    @property
    def places(self) -> Int64Array:
        """int64[cells (+ 1), groups]: the place value of each cell (last, the move) in its group, 0
        in the others.
        """
        out = np.zeros((self.game.cells + self.of_moves, len(self.groups)), np.int64)
        for number, group in enumerate(self.groups):
            sizes = [self._shape[axis] for axis in group]
            out[list(group), number] = [math.prod(sizes[:index]) for index in range(len(group))]
        return out

    def tensor(self, entries: Float64Array) -> Float64Array:
        """Return a side of a table, by keys (and moves), as a tensor with one axis for each
        group.
        """
        return np.ascontiguousarray(
            entries.reshape(self._shape).transpose(self._order).reshape(self.sizes)
        )

    def entries(self, tensor: Float64Array) -> Float64Array:
        """Return the entries of a tensor, float64[3**cells, 1 or cells]: the inverse of
        :meth:`tensor`.
        """
        shape = [self._shape[axis] for axis in self._order]
        by_cells = tensor.reshape(shape).transpose(np.argsort(self._order))
        return by_cells.reshape(3**self.game.cells, -1)

    @property
    def _shape(self) -> tuple[int, ...]:
        """Shape of a side with one axis per cell, the first, least significant cell last, then the
        move.
        """
        cells = (3,) * self.game.cells
        return (*cells, self.game.cells) if self.of_moves else cells

    @property
    def _order(self) -> list[int]:
        """The axes of :attr:`_shape` in the order of groups; in a group, too, the first cell is
        least significant.
        """
        size = self.game.cells
        axes = [axis for group in self.groups for axis in reversed(group)]
        return [size - 1 - axis if axis < size else size for axis in axes]

    def __str__(self) -> str:
        letters = dict(enumerate(LETTERS[: self.game.cells] + MOVE))
        names = [[letters.get(axis, f"({axis})") for axis in group] for group in self.groups]
        return "/".join(map("".join, names))


def describe_groupings(game: Game, of_moves: bool) -> str:
    """Return the end of the error message for an invalid grouping."""
    cells = LETTERS[: game.cells]
    count = max(1, game.cells // 2)
    example = f"{cells[:count]}/{cells[count:]}{MOVE if of_moves else ''}"
    move = " and the move m" if of_moves else ""
    return (
        f"write groups that name each of the cells {cells[0]} to {cells[-1]}{move} once, as in "
        f"split={example}, or the number of cells in the first group, as in split={count}, or "
        "rows, columns or cells"
    )


def make_grouping(
    game: Game, method: Method, split: str | None = None, *, of_moves: bool = False
) -> Grouping:
    """Return the grouping of a method, by default two halves of the board for ``svd`` and rows for
    the others.

    A board of one row is grouped by cells. A table of moves has the move in its own group, which is
    the second one of ``svd``: (board x action).

    Raises:
        ValueError: the method is unknown, there are too few groups, more than two for ``svd``, or
            the text is invalid.
    """
    check_choice("method", method, get_args(Method))
    if split is None:
        split = _default_split(game, method, of_moves)
    if game.cells + of_moves < 2:
        raise Refusal(f"{method} needs two groups of cells, and a board of 1 x 1 has one cell")
    grouping = Grouping.parse(game, split, of_moves=of_moves)
    if len(grouping.groups) < 2 or (method == "svd" and len(grouping.groups) > 2):
        rule = "exactly two groups" if method == "svd" else "two groups or more"
        raise Refusal(
            f"{method} needs {rule}, and split={split} makes {len(grouping.groups)}: "
            f"{describe_groupings(game, of_moves)}"
        )
    return grouping


def _default_split(game: Game, method: Method, of_moves: bool) -> str:
    if method == "svd":
        return str(game.cells if of_moves else max(1, game.cells // 2))
    return "rows" if game.rows > 1 else "cells"


def tensor_grouping(method: Method, grouping: Grouping) -> Grouping:
    """Return the groups of the decomposed tensor: ``hosvd2`` merges all groups between the first
    and the last.
    """
    if method != "hosvd2":
        return grouping
    first, *between, last = grouping.groups
    return Grouping(
        grouping.game, (first, tuple(itertools.chain(*between)), last), grouping.of_moves
    )
