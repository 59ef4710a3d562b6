"""Learners with an error in their target: exact results name it without training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from ttt_envs.core.files import read_table


class WrongTarget(NamedTuple):
    """An error of a learner that has a fixed point of its own.

    The values that it learns are those of ``reward_scale * reward + discount * next value``.
    """

    discount: float = 1.0
    reward_scale: float = 1.0
    takes_illegal: bool = False
    """whether the maximum takes in illegal actions, whose values stay 0"""
    at_cuts: bool = False
    """whether only the last step of an episode that is cut has the error"""
    follows: Literal["", "next game", "reset step"] = ""
    """what follows a cut: the first position of the next game, as its next value; or the step that
    only begins the next game, which is learned with reward 0 in the position of the cut"""


NEXT_GAME = "next game's first position at a truncation"
"""The error of who reads the observation after an automatic reset."""
RESET_STEP = "the reset step of next-step autoreset is learned"
"""The error of who takes the step after the end of a game for one of a game."""
REWARD_TOO = "reward discounted too"
"""The error of a target that is the discount times reward and next value."""
RIGHT_TARGET = WrongTarget()
PREDICTED_ERRORS: Mapping[str, WrongTarget] = {
    name: WrongTarget(**row) for name, row in read_table(__file__).items()
}
"""Errors whose results are known without training, see
:meth:`ttt_eval.checks.probes.LearnerProbe.power`.
"""
