"""A cache of the values that were used last, for all threads of a process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Value = TypeVar("Value")


class _Entry(Generic[Value]):
    """An entry of a cache."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        """held while the value is made"""
        self.values: list[Value] = []
        """the value, once it is made"""


class LRUCache(Generic[Value]):
    """A thread-safe LRU cache, which makes each value once even for concurrent requests, and holds
    back no other.

    Args:
        max_size: maximum number of values.
    """

    def __init__(self, max_size: int) -> None:
        self._max_size = max_size
        self._lock = threading.Lock()
        self._entries: dict[Hashable, _Entry[Value]] = {}
        """by key; the last used one is the last"""

    def __contains__(self, key: Hashable) -> bool:
        return key in self._entries and bool(self._entries[key].values)

    def get(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """Return the cached value of ``key``, or make it."""
        with self._lock:
            entry = self._entries.pop(key, None) or _Entry()
            self._entries[key] = entry
            if len(self._entries) > self._max_size:
                del self._entries[next(iter(self._entries))]
        with entry.lock:
            if not entry.values:
                entry.values.append(make())
        return entry.values[0]
