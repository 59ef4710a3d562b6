"""Import checks for Stable-Baselines3 and torch, and isolation of their global state."""

from __future__ import annotations

import importlib
import importlib.util
import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from ttt_envs.core.extras import install_command
from ttt_envs.core.silence import avoid_triton_crash, silence_native_output


@contextmanager
def preserve_random_state(threads: int | None = None) -> Iterator[None]:
    """Restore the process's random generators, which Stable-Baselines3 uses, and torch's thread count on exit."""
    import torch

    before = random.getstate(), np.random.get_state(), torch.get_rng_state(), torch.get_num_threads()  # noqa: NPY002
    try:
        if threads is not None:
            torch.set_num_threads(threads)
        yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])  # noqa: NPY002
        torch.set_rng_state(before[2])
        torch.set_num_threads(before[3])


def check_packages(wanted: str, *packages: str) -> None:
    """Import the needed packages without log output; ``wanted`` names the learner in messages.

    Raises:
        ValueError: a package that is not installed.
    """
    avoid_triton_crash()
    for package in ("torch", "stable_baselines3", *packages):
        if importlib.util.find_spec(package) is None:
            raise ValueError(f"{wanted} needs {package}, which is not installed: {install_command('sb3')}")
        with silence_native_output():  # Stable-Baselines3 imports TensorFlow if it is installed
            importlib.import_module(package)
