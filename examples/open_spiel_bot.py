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

import tyro
from open_spiel.python import policy as policies
from open_spiel.python.algorithms import exploitability as open_spiel_exploitability

from ttt_envs import Game, make_policy
from ttt_envs.open_spiel import load_game, to_boards
from ttt_eval.exact import exploitability, match_outcome
from ttt_eval.matches import play_pairs


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
policy = make_policy(options.policy, game)
bot = f"openspiel:simulations={options.simulations},c=2"
points = play_pairs(game, bot, policy, options.games // 2, seed=options.seed).rate("score")
print(
    f"MCTSBot against {policy}: {points.mean:.3f} points a game, 95% interval {points.low:.3f} to "
    f"{points.high:.3f}"
)

exploitability(game, policy)  # the first call compiles
start = time.process_time()
other = load_game(game)
table = policies.TabularPolicy(other)
table.action_probability_array[:] = policy.probabilities(to_boards(table.states))
gain = open_spiel_exploitability.exploitability(other, table)
print(f"exploitability by OpenSpiel: {gain:.4f}, {time.process_time() - start:.3f} s of CPU")
start = time.process_time()
gain = exploitability(game, policy)
print(f"exploitability by ours: {gain:.4f}, {time.process_time() - start:.3f} s of CPU")
print(f"{policy} against optimal: {match_outcome(game, policy, 'optimal').text}")
