"""OpenSpiel's tree search against a policy of ours, and that policy's exploitability by both
libraries.

``ttt_envs.open_spiel`` converts positions in both directions. The bot samples its moves, so its
match gives an interval instead of an exact number. Both libraries measure the policy: OpenSpiel
traverses all sequences of moves in Python, ours traverses all positions in compiled code.

    pip install open_spiel
    python examples/open_spiel_bot.py --policy win-or-block --games 100
"""

import time
from dataclasses import dataclass

import numpy as np
import tyro
from open_spiel.python import policy as policies
from open_spiel.python.algorithms import exploitability as open_spiel_exploitability
from open_spiel.python.algorithms import mcts

from ttt_envs import Game, act, make_policy
from ttt_envs.open_spiel import load_game, to_boards
from ttt_eval import interval_from_pairs
from ttt_eval.exact import exploitability, match_outcome


@dataclass
class Options:
    """What the command line sets."""

    policy: str = "win-or-block"
    """ours, by its spec string"""
    rows: int = 3
    columns: int = 3
    win_length: int = 3
    games: int = 100
    """against the bot, half of them in each seat"""
    simulations: int = 50
    """of the bot's search, for a move"""
    seed: int = 0
    """of all that is drawn"""


options = tyro.cli(Options, description=__doc__)

game = Game(options.rows, options.columns, options.win_length)
other = load_game(game)
policy = make_policy(options.policy, game)
rng = np.random.default_rng(options.seed)
random = np.random.RandomState(options.seed)  # the type that OpenSpiel requires
bot = mcts.MCTSBot(
    other, 2.0, options.simulations, mcts.RandomRolloutEvaluator(1, random), random_state=random
)


def play(seat):
    """Return the score of the bot in that seat: 1, 1/2 or 0."""
    state = other.new_initial_state()
    while not state.is_terminal():
        is_bot = state.current_player() == seat
        state.apply_action(
            bot.step(state) if is_bot else int(act(policy, to_boards([state]), rng)[0])
        )
    return (state.returns()[seat] + 1) / 2


pairs = np.array([(play(0) + play(1)) / 2 for _ in range(options.games // 2)])
share = interval_from_pairs(pairs.mean(), pairs.var(ddof=1), len(pairs))
print(
    f"MCTSBot against {policy}: {share.mean:.3f} points a game, 95% interval {share.low:.3f} to "
    f"{share.high:.3f}"
)

exploitability(game, policy)  # the first call compiles
start = time.process_time()
table = policies.TabularPolicy(other)
table.action_probability_array[:] = policy.probabilities(to_boards(table.states))
gain = open_spiel_exploitability.exploitability(other, table)
print(f"exploitability by OpenSpiel: {gain:.4f}, {time.process_time() - start:.3f} s of CPU")
start = time.process_time()
gain = exploitability(game, policy)
print(f"exploitability by ours: {gain:.4f}, {time.process_time() - start:.3f} s of CPU")
print(f"{policy} against optimal: {match_outcome(game, policy, 'optimal').text}")
