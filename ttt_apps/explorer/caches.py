"""Bounded caches of expensive objects."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any


class LRUCache:
    """A thread-safe LRU cache, which makes each value once even for concurrent requests.

    Args:
        max_size: maximum number of values.
    """

    def __init__(self, max_size: int) -> None:
        self.max_size = max_size
        self._lock = threading.Lock()
        self._values: OrderedDict[Hashable, Any] = OrderedDict()
        self._making: dict[Hashable, threading.Lock] = {}

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._values

    def get(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return the cached value of ``key``, or make it."""
        with self._lock:
            making = self._making.setdefault(key, threading.Lock())
        try:
            with making:
                with self._lock:
                    if key in self._values:
                        self._values.move_to_end(key)
                        return self._values[key]
                made = make()
                with self._lock:
                    self._values[key] = made
                    while len(self._values) > self.max_size:
                        self._values.popitem(last=False)
                return made
        finally:
            with self._lock:
                if not making.locked():
                    self._making.pop(key, None)
