"""The learner reaches what exact values say that it must."""

import pytest
from my_learner import train

from ttt_eval.checks import PROBES, check_learner

NOT_FOR = {"self-play": "it learns against opponents only"}
"""Probes in which ``train`` returns None, and why."""


@pytest.mark.parametrize("name", PROBES)
def test_the_learner_learns(name):
    """Each probe is a test of its own; a learner that needs more steps than it has fails."""
    if name in NOT_FOR:
        pytest.skip(NOT_FOR[name])
    check_learner(train, name).assert_ok()
