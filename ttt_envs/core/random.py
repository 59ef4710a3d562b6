"""Counter-based random numbers: each is indexed by key, stream and position, so the order of draws
does not matter; and the global generators that functions of others draw from.
"""

from __future__ import annotations

import functools
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from ttt_envs.core.jit import Float64Array, Int64Array, UInt64Array, kernel


@kernel(forceinline=True)
def splitmix64(state: np.uint64, n: int) -> np.uint64:
    """Return output number n, from 0, of splitmix64 for a 64-bit state (Steele, Lea and Flood,
    2014, figure 19).

    The generator is counter-based: a number depends on its index only, not on the order of draws.
    """
    z = state + (np.uint64(n) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@kernel(forceinline=True)
def uniform(key: np.uint64, stream: int, n: int) -> float:
    """Return number ``n`` of a key's stream, in [0, 1); each stream has 2**32 numbers."""
    return float(splitmix64(key, (stream << 32) + n) >> np.uint64(11)) * (1.0 / (1 << 53))


def uniforms(keys: UInt64Array, stream: int, n: Int64Array) -> Float64Array:
    """Return float64[B]: :func:`uniform` row by row, of keys uint64[B] and n int64[B]."""
    out = np.empty(len(n))
    _write_uniforms(keys, stream, n, out)
    return out


@kernel
def _write_uniforms(keys: UInt64Array, stream: int, n: Int64Array, out: Float64Array) -> None:
    for b in range(len(out)):
        out[b] = uniform(keys[b], stream, n[b])


def draw_key(rng: np.random.Generator) -> np.uint64:
    """Draw the 64-bit key of a seed: the only number that an environment draws from its
    generator.
    """
    return np.uint64(rng.integers(0, 1 << 64, dtype=np.uint64))


def draw_keys(rng: np.random.Generator, count: int) -> UInt64Array:
    """Draw 64-bit keys, uint64[count]."""
    if count == 1:  # the same number, drawn faster than an array of one
        return np.array([draw_key(rng)])
    return rng.integers(0, 1 << 64, count, np.uint64)


def seed_generators(seed: int) -> None:
    """Seed the global generators of ``random``, ``numpy.random`` and, if it is imported, torch."""
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002  # for those who use it
    if "torch" in sys.modules:
        _seeder_of_torch()(seed)


@functools.cache
def _seeder_of_torch() -> Callable[[int], object]:
    """Return what seeds torch: without a GPU (CUDA, MPS, XPU) only the generator of the CPU, in 1
    microsecond in place of 80, because ``torch.manual_seed`` (2.13) keeps the call stack for
    devices that begin later.
    """
    torch = sys.modules["torch"]
    backends = [torch.cuda, torch.backends.mps, getattr(torch, "xpu", torch.cuda)]
    has_gpu = any(backend.is_available() for backend in backends)
    seeder: Callable[[int], object] = (torch if has_gpu else torch.default_generator).manual_seed
    return seeder


class GlobalState(NamedTuple):
    """The states of the generators of :func:`seed_generators`, and the number of torch's
    threads.
    """

    python: tuple[object, ...]
    numpy: Any
    torch: Any
    """None if torch is not imported"""
    num_threads: int

    @classmethod
    def current(cls) -> GlobalState:
        """Return the present state."""
        torch = sys.modules.get("torch")
        return cls(
            python=random.getstate(),
            numpy=np.random.get_state(),  # noqa: NPY002
            torch=torch and torch.get_rng_state(),
            num_threads=torch.get_num_threads() if torch else 0,
        )

    def restore(self) -> None:
        """Make it the present state."""
        random.setstate(self.python)
        np.random.set_state(self.numpy)  # noqa: NPY002
        if self.torch is not None:
            sys.modules["torch"].set_rng_state(self.torch)
            sys.modules["torch"].set_num_threads(self.num_threads)


@contextmanager
def kept_generators() -> Iterator[None]:
    """Restore the state of the generators afterwards."""
    state = GlobalState.current()
    try:
        yield
    finally:
        state.restore()
