"""A handwritten agent, measured exactly: a function of observation and mask is enough.

It prefers the centre, then corners, then sides, and ignores everything else.

    python examples/own_agent.py
    python examples/own_agent.py --skip-chance 0.25
"""

from dataclasses import dataclass

import numpy as np
import tyro

from ttt_envs import Game, as_policy
from ttt_eval.exact import best_response, exploitability, match_outcome

CELL_VALUES = np.array([2, 1, 2, 1, 3, 1, 2, 1, 2])  # of each cell, row by row


def agent(observation, mask):
    """Return the legal cell (mask 1) with the highest value."""
    return int(np.argmax(np.where(mask == 1, CELL_VALUES, 0)))


@dataclass
class Options:
    """What the command line sets."""

    skip_chance: float = 0.0
    """probability that a turn is skipped"""


game = Game(3, 3, 3, tyro.cli(Options, description=__doc__).skip_chance)
policy = as_policy(agent, game)

for opponent in ("random", "win-or-block", "optimal"):
    print(f"against {opponent}: {match_outcome(game, policy, opponent).text}")
print(f"a best responder wins {best_response(game, policy, 1).win:.2%} moving second")
print(f"exploitability: {exploitability(game, policy):.4f}")
