"""The learner reaches what exact values say that it must."""

import pytest
from my_learner import train

from ttt_eval.checks import PROBES, check_learner


@pytest.mark.parametrize("name", PROBES)
def test_the_learner_learns(name):
    """Each probe is a test of its own."""
    check = check_learner(train, name)
    if not check.failed and not check.ok:
        pytest.skip("the learner is not for this probe, or needs more steps")
    check.assert_ok()
