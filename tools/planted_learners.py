"""Learners with planted errors or other settings: those of examples/checks, of which lines are
replaced.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from examples.checks import planting
from ttt_envs.core.files import read_table

CHECKS = Path(planting.__file__).parent
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
    source = (CHECKS / FILES[family]).read_text("utf-8")
    changes = {None: (), **LEARNER_ERRORS[family], **SETTINGS[family]}
    return planting.plant(source, changes[name])["train"]
