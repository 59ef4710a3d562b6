"""Exact evaluation: outcome, best response, exploitability, regret and values of policies, without sampling."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ttt_envs.core.names import public_names

if TYPE_CHECKING:
    from ttt_eval.exact.critics import CriticError as CriticError
    from ttt_eval.exact.critics import critic_error as critic_error
    from ttt_eval.exact.dynamic_programming import Exploitation as Exploitation
    from ttt_eval.exact.dynamic_programming import OutcomeProbabilities as OutcomeProbabilities
    from ttt_eval.exact.dynamic_programming import best_response as best_response
    from ttt_eval.exact.dynamic_programming import exploitability as exploitability
    from ttt_eval.exact.dynamic_programming import exploitation as exploitation
    from ttt_eval.exact.dynamic_programming import match_outcome as match_outcome
    from ttt_eval.exact.dynamic_programming import outcome as outcome
    from ttt_eval.exact.dynamic_programming import perfect_value as perfect_value
    from ttt_eval.exact.dynamic_programming import regret as regret
    from ttt_eval.exact.dynamic_programming import regret_table as regret_table
    from ttt_eval.exact.policy_cache import cached as cached
    from ttt_eval.exact.policy_evaluation import PolicyEvaluation as PolicyEvaluation
    from ttt_eval.exact.policy_evaluation import evaluate_policy as evaluate_policy
    from ttt_eval.exact.policy_evaluation import policy_gradient as policy_gradient
    from ttt_eval.exact.proved_positions import keep_probabilities as keep_probabilities
    from ttt_eval.exact.proved_positions import read_proved as read_proved
    from ttt_eval.exact.proved_positions import summarize as summarize
    from ttt_eval.exact.strength import training_callback as training_callback
    from ttt_eval.exact.strength import worst_positions as worst_positions

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
