"""The task set ``ttt-text`` of verifiers, which imports each task set as a module: see
ttt_eval/language_models/verifiers_env.py.
"""

from ttt_eval.language_models.verifiers_env import TextTaskset, VerifiersEnv

__all__ = ["TextTaskset", "VerifiersEnv"]
