"""Learners with planted errors or other settings: those of examples/checks, of which lines are
replaced.
"""

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
Changes = Mapping[str, Mapping[str, Sequence[Sequence[str]]]]
"""For each family and name, pairs of an old text and a new one."""
CHANGES: Mapping[str, Changes] = read_table(__file__)
LEARNER_ERRORS = CHANGES["wrong"]
SETTINGS = CHANGES["right"]
"""Other settings of right learners."""


def plant(family: str, name: str | None = None) -> Callable[..., Any]:
    """Return ``train`` of a family with an error or other settings; with None as it is.

    Raises:
        ValueError: an old text does not occur exactly once.
    """
    path = ROOT / "examples" / "checks" / FILES[family]
    source = path.read_text("utf-8")
    changes = {**LEARNER_ERRORS[family], **SETTINGS[family]}
    for old, new in [] if name is None else changes[name]:
        if source.count(old) != 1:
            raise ValueError(f"{old!r} occurs {source.count(old)} times in {path}")
        source = source.replace(old, new)
    module = ModuleType(path.stem)
    exec(compile(source, str(path), "exec"), vars(module))
    train: Callable[..., Any] = module.train
    return train
