"""A hash index from keys to row numbers, the basis of every table over visited positions."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ttt_envs.core.jit import Int64Array, UInt64Array, int64, kernel
from ttt_envs.core.random import splitmix64

Scalar = TypeVar("Scalar", bound=np.generic)


def find_sorted(ascending: NDArray[Scalar], values: NDArray[Scalar]) -> Int64Array:
    """Return the indices of values in a sorted array, int64[B], -1 for unknown ones.

    Args:
        ascending: [N], ascending, maybe empty.
        values: [B], of the same dtype.
    """
    if not len(ascending):
        return np.full(len(values), -1)
    indices = np.minimum(np.searchsorted(ascending, values), len(ascending) - 1)
    return np.where(ascending[indices] == values, indices, -1)


def extend_rows(array: NDArray[Scalar], size: int) -> NDArray[Scalar]:
    """Return an array with ``size`` rows: those of ``array`` [N, ...], then zeros."""
    out = np.zeros((size, *array.shape[1:]), array.dtype)
    out[: len(array)] = array
    return out


class KeyIndex:
    """Numbers keys 0, 1, 2, ... in the order of first insertion; a hash table with open addressing,
    which grows.

    Args:
        words: number of 64-bit words of a key.

    Attributes:
        keys: uint64[capacity, words], of which ``size`` rows are in use.
        size: number of keys.
    """

    def __init__(self, words: int) -> None:
        self.keys: UInt64Array = np.zeros((0, words), np.uint64)
        self.size = 0
        self.pack()

    def pack(self) -> None:
        """Free all memory except the keys'; no key is found until :meth:`rows` inserts again."""
        self.keys = self.keys[: self.size].copy()
        self._slots = np.full(16, -1)

    def find(self, keys: UInt64Array) -> Int64Array:
        """Return int64[B]: the rows of keys uint64[B, words], -1 for unknown keys."""
        out = np.empty(len(keys), np.int64)
        _look_up(keys, self.keys, self._slots, self.size, False, out)
        return out

    def rows(self, keys: UInt64Array) -> Int64Array:
        """Return int64[B]: the rows of keys uint64[B, words], inserting unknown keys."""
        max_size = self.size + len(keys)
        capacity = len(self.keys)
        if max_size > capacity:
            self.keys = extend_rows(self.keys[: self.size], max(max_size, 2 * capacity, 64))
            self._slots = np.full(1 << (2 * len(self.keys) - 1).bit_length(), -1)
            _look_up(
                self.keys[: self.size],
                self.keys,
                self._slots,
                0,
                True,
                np.empty(self.size, np.int64),
            )
        out = np.empty(len(keys), np.int64)
        self.size = _look_up(keys, self.keys, self._slots, self.size, True, out)
        return out


def distinct_rows(keys: UInt64Array) -> tuple[Int64Array, Int64Array]:
    """Return the first row int64[N] of each distinct key, in order of keys, and the index of each
    row's key, int64[B].

    The same as ``np.unique`` returns of the rows of ``keys``, uint64[B, words], in less time.
    """
    index = KeyIndex(keys.shape[1])
    numbers = index.rows(keys)
    first = np.empty(index.size, np.int64)
    first[numbers[::-1]] = np.arange(len(keys))[::-1]  # the first row is written last
    order = np.lexsort(index.keys[: index.size].T[::-1])
    return first.take(order), np.argsort(order).take(numbers)


@kernel(nogil=True)
def _look_up(
    keys: UInt64Array,
    row_keys: UInt64Array,
    slots: Int64Array,
    size: int,
    inserts: bool,
    out: Int64Array,
) -> int:
    """Write the rows of keys uint64[B, words] to ``out``, and return the number of rows; unknown
    keys are inserted.
    """
    for b in range(len(keys)):
        key = keys[b]
        mixture = key[0]
        for word in range(1, len(key)):
            mixture = splitmix64(mixture, 0) ^ key[word]
        slot = int64(splitmix64(mixture, 0) & np.uint64(len(slots) - 1))
        while slots[slot] >= 0:
            num_equal = 0
            while num_equal < len(key) and row_keys[slots[slot], num_equal] == key[num_equal]:
                num_equal += 1
            if num_equal == len(key):
                break
            slot = (slot + 1) & (len(slots) - 1)
        if slots[slot] < 0 and inserts:
            slots[slot] = size
            for word in range(len(key)):
                row_keys[size, word] = key[word]
            size += 1
        out[b] = slots[slot]
    return size
