"""alpha-zero-general: PUCT with an evaluator, in a checkout."""

from MCTS import MCTS

from examples.checks.alpha_zero_general import search_of

search = search_of(MCTS)
