"""Bounded caches of expensive objects."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any


class LRUCache:
    """A thread-safe LRU cache, which makes each value once even for concurrent requests.

    Args:
        max_size: maximum number of values.
    """

    def __init__(self, max_size: int) -> None:
        self._max_size = max_size
        self._lock = threading.Lock()
        self._entries: dict[Hashable, _Entry] = {}
        """the last used one is the last"""

    def __contains__(self, key: Hashable) -> bool:
        entry = self._entries.get(key)
        return entry is not None and entry.value is not None

    def get(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return the cached value of ``key``, or make it."""
        with self._lock:
            entry = self._entries[key] = self._entries.pop(key, None) or _Entry()
            while len(self._entries) > self._max_size:
                del self._entries[next(iter(self._entries))]
        with entry.lock:
            if entry.value is None:
                entry.value = make()
        return entry.value


class _Entry:
    """A value, None until it is made, and the lock to hold while it is."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.value: Any = None
