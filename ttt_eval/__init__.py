"""Evaluation of policies: playing strength, its uncertainty, and computational cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ttt_envs.core.names import public_names

if TYPE_CHECKING:
    from ttt_eval.credit import TurnReward as TurnReward
    from ttt_eval.credit import opponent_credit as opponent_credit
    from ttt_eval.credit import optimal_credit as optimal_credit
    from ttt_eval.curves import record as record
    from ttt_eval.puzzles import read_puzzles as read_puzzles
    from ttt_eval.statistics import interval_from_pairs as interval_from_pairs

__ttt_envs__ = True  # marks our package among others of this name: ttt_envs/core/packages.py

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
