"""Learners with planted errors: those of examples/checks, of which lines are replaced."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from ttt_envs.core.files import read_table

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # the learners import examples.checks
FILES = {"tabular": "q_learning.py", "dqn": "dqn.py", "ppo": "ppo.py"}
"""Files of examples/checks by family."""
LEARNER_ERRORS: Mapping[str, Mapping[str, Sequence[Sequence[str]]]] = read_table(__file__)
"""For each family and error, pairs of an old text and a new one."""


def plant(family: str, error: str | None = None) -> Callable[..., Any]:
    """Return ``train`` of a family with an error; with None the right one.

    Raises:
        ValueError: an old text does not occur exactly once.
    """
    path = ROOT / "examples" / "checks" / FILES[family]
    source = path.read_text("utf-8")
    for text, replacement in [] if error is None else LEARNER_ERRORS[family][error]:
        if source.count(text) != 1:
            raise ValueError(f"{text!r} occurs {source.count(text)} times in {path}")
        source = source.replace(text, replacement)
    module = ModuleType(path.stem)
    exec(compile(source, str(path), "exec"), vars(module))
    train: Callable[..., Any] = module.train
    return train
