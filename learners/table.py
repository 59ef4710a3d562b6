"""A table over the positions met: key -> row of numbers, growing as positions come."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ttt_envs.boards import keys
from ttt_envs.rules import Cells, Game, Integers, Keys, Reals, compiled, inlined, splitmix64, wide


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
        self.size = 0
        self._words = keys(np.zeros((1, game.cells), np.int8)).reshape(1, -1).shape[1]
        self._row_keys = np.zeros((0, self._words), np.uint64)
        self.values = np.zeros((0, game.cells))
        self.counts = np.zeros((0, game.cells), np.int64)
        self._slots = np.full(16, -1)

    def find(self, cells: Cells) -> Integers:
        """int64[B]: the rows of boards int8[B, cells], -1 where a board was not met."""
        out = np.empty(len(cells), np.int64)
        _find(self._keys(cells), self._row_keys, self._slots, out)
        return out

    def rows(self, cells: Cells) -> Integers:
        """int64[B]: the rows of boards int8[B, cells], new ones where a board was not met.

        Raises:
            MemoryError: the table would grow beyond its limit.
        """
        wanted = self._keys(cells)
        self._make_room(len(wanted))
        out = np.empty(len(wanted), np.int64)
        self.size = _insert(wanted, self._row_keys, self._slots, self.size, out)
        return out

    def _keys(self, cells: Cells) -> Keys:
        return keys(cells).reshape(len(cells), self._words)

    def _make_room(self, more: int) -> None:
        needed = self.size + more
        if needed <= len(self._row_keys):
            return
        capacity = max(1024, 2 * len(self._row_keys))
        while capacity < needed:
            capacity *= 2
        row_bytes = 8 * (self._words + 2 * self.game.cells + 2)
        if capacity * row_bytes > self.memory:
            capacity = self.memory // row_bytes
        if capacity < needed:
            raise MemoryError(
                f"the table holds {self.size:,} positions of {self.game} and may take {self.memory / 2**20:,.0f} MiB: "
                f"give more with --memory, or learn with a net"
            )
        for name in ("_row_keys", "values", "counts"):
            old = getattr(self, name)
            new = np.zeros((capacity, old.shape[1]), old.dtype)
            new[: self.size] = old[: self.size]
            setattr(self, name, new)
        self._index()

    def _index(self) -> None:
        slots = 16
        while slots < 2 * len(self._row_keys):
            slots *= 2
        self._slots = np.full(slots, -1)
        _reinsert(self._row_keys, self.size, self._slots)

    def to_arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """The rows in use, in the order in which positions were met."""
        return {
            "keys": self._row_keys[: self.size],
            "values": self.values[: self.size],
            "counts": self.counts[: self.size],
        }

    def from_arrays(self, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Take back what :meth:`to_arrays` gave.

        Raises:
            ValueError: arrays of another game or type.
        """
        wanted = {"keys": (self._words, "u8"), "values": (self.game.cells, "f8"), "counts": (self.game.cells, "i8")}
        size = len(arrays["keys"]) if "keys" in arrays else 0
        for name, (width, kind) in wanted.items():
            array = arrays.get(name)
            if array is None or array.shape != (size, width) or array.dtype != np.dtype(kind):
                found = "nothing" if array is None else f"{array.dtype}{list(array.shape)}"
                raise ValueError(
                    f"the table of a learner of {self.game} needs {name} as {np.dtype(kind)}[{size}, {width}], "
                    f"but there is {found}: it is another game's, or damaged"
                )
        self._row_keys, self.values, self.counts = (arrays[name].copy() for name in wanted)
        self.size = size
        self._index()


@inlined
def _slot_of(key: Keys, slots: Integers) -> int:
    """Where the search for a key begins."""
    mixed = key[0]
    for word in range(1, len(key)):
        mixed = splitmix64(mixed, 0) ^ key[word]
    return wide(splitmix64(mixed, 0) & np.uint64(len(slots) - 1))


@inlined
def _equal(a: Keys, b: Keys) -> bool:
    for word in range(len(a)):
        if a[word] != b[word]:
            return False
    return True


@compiled
def _find(wanted: Keys, row_keys: Keys, slots: Integers, out: Integers) -> None:
    for b in range(len(wanted)):
        slot = _slot_of(wanted[b], slots)
        while slots[slot] >= 0 and not _equal(row_keys[slots[slot]], wanted[b]):
            slot = (slot + 1) & (len(slots) - 1)
        out[b] = slots[slot]


@compiled
def _insert(wanted: Keys, row_keys: Keys, slots: Integers, size: int, out: Integers) -> int:
    for b in range(len(wanted)):
        slot = _slot_of(wanted[b], slots)
        while slots[slot] >= 0 and not _equal(row_keys[slots[slot]], wanted[b]):
            slot = (slot + 1) & (len(slots) - 1)
        if slots[slot] < 0:
            slots[slot] = size
            row_keys[size, :] = wanted[b]
            size += 1
        out[b] = slots[slot]
    return size


@compiled
def _reinsert(row_keys: Keys, size: int, slots: Integers) -> None:
    for row in range(size):
        slot = _slot_of(row_keys[row], slots)
        while slots[slot] >= 0:
            slot = (slot + 1) & (len(slots) - 1)
        slots[slot] = row


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
