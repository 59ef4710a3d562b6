"""The task set ``ttt-text`` of verifiers, which imports each task set as a module: see evaluation/verifiers_env.py."""

from evaluation.verifiers_env import TextTaskset, VerifiersEnv

__all__ = ["TextTaskset", "VerifiersEnv"]
