"""A table over the positions met: key -> row of numbers, growing as positions come."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ttt_envs.boards import keys, words_of
from ttt_envs.index import KeyIndex
from ttt_envs.rules import Cells, Game, Integers, Keys, Reals, compiled, inlined


class PositionTable:
    """A value and a count for every action in every position met; positions not met hold zeros.

    Args:
        game: whose positions.
        memory: bytes that the table may take; beyond that :meth:`rows` raises MemoryError.

    Attributes:
        values: float64[capacity, cells].
        counts: int64[capacity, cells].
        size: rows in use.
    """

    def __init__(self, game: Game, memory: int) -> None:
        self.game = game
        self.memory = memory
        self._index = KeyIndex(words_of(game))
        self.values = np.zeros((0, game.cells))
        self.counts = np.zeros((0, game.cells), np.int64)

    @property
    def size(self) -> int:
        """Rows in use."""
        return self._index.size

    def find(self, cells: Cells) -> Integers:
        """int64[B]: the rows of boards int8[B, cells], -1 where a board was not met."""
        return self._index.find(self._keys(cells))

    def rows(self, cells: Cells) -> Integers:
        """int64[B]: the rows of boards int8[B, cells], new ones where a board was not met.

        Raises:
            MemoryError: the table would grow beyond its limit.
        """
        wanted = self._keys(cells)
        self._make_room(len(wanted))
        return self._index.rows(wanted)

    def _keys(self, cells: Cells) -> Keys:
        return keys(cells).reshape(len(cells), -1)

    def _make_room(self, more: int) -> None:
        needed = self.size + more
        if needed <= len(self.values):
            return
        capacity = max(1024, 2 * len(self.values))
        while capacity < needed:
            capacity *= 2
        row_bytes = 8 * (words_of(self.game) + 2 * self.game.cells + 2)
        if capacity * row_bytes > self.memory:
            capacity = self.memory // row_bytes
        if capacity < needed:
            raise MemoryError(
                f"the table holds {self.size:,} positions of {self.game} and may take {self.memory / 2**20:,.0f} MiB: "
                f"give more with --memory, or learn with a net"
            )
        self._index.reserve(capacity)
        for name in ("values", "counts"):
            old = getattr(self, name)
            new = np.zeros((capacity, old.shape[1]), old.dtype)
            new[: self.size] = old[: self.size]
            setattr(self, name, new)

    def to_arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """The rows in use, in the order in which positions were met."""
        return {
            "keys": self._index.keys[: self.size],
            "values": self.values[: self.size],
            "counts": self.counts[: self.size],
        }

    def from_arrays(self, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Take back what :meth:`to_arrays` gave.

        Raises:
            ValueError: arrays of another game or type.
        """
        words = words_of(self.game)
        wanted = {"keys": (words, "u8"), "values": (self.game.cells, "f8"), "counts": (self.game.cells, "i8")}
        size = len(arrays["keys"]) if "keys" in arrays else 0
        for name, (width, kind) in wanted.items():
            array = arrays.get(name)
            if array is None or array.shape != (size, width) or array.dtype != np.dtype(kind):
                found = "nothing" if array is None else f"{array.dtype}{list(array.shape)}"
                raise ValueError(
                    f"the table of a learner of {self.game} needs {name} as {np.dtype(kind)}[{size}, {width}], "
                    f"but there is {found}: it is another game's, or damaged"
                )
        self.values, self.counts = arrays["values"].copy(), arrays["counts"].copy()
        self._index = KeyIndex(words)
        self._index.reserve(size)
        self._index.rows(arrays["keys"])


@inlined
def value_at(values: Reals, row: int, cell: int) -> float:
    """The value of an action; 0 in the row -1, of a position not met."""
    return values[row, cell] if row >= 0 else 0.0


@inlined
def best_of(seen: Cells, values: Reals, row: int) -> tuple[float, int]:
    """The highest value of the legal actions on a board int8[cells], and how many have it."""
    best = -np.inf
    ties = 0
    for cell in range(len(seen)):
        if seen[cell] == 0:
            value = value_at(values, row, cell)
            if value > best:
                best = value
                ties = 0
            ties += value == best
    return best, ties


@compiled
def greedy(seen: Cells, values: Reals, rows: Integers, out: Reals) -> None:
    """Equal shares, float64[B, cells], for the legal actions with the highest value."""
    for b in range(len(seen)):
        best, ties = best_of(seen[b], values, rows[b])
        for cell in range(seen.shape[1]):
            chosen = seen[b, cell] == 0 and value_at(values, rows[b], cell) == best
            out[b, cell] = 1.0 / ties if chosen else 0.0
