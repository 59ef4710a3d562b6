"""PettingZoo's own loop of tic-tac-toe, with one line changed: the import.

``from pettingzoo.classic import tictactoe_v3`` becomes ``from ttt_envs import mnk_v0 as
tictactoe_v3``. The loop is from PettingZoo's documentation. The rest counts the results, and
compares them with the exact results of random play, which PettingZoo does not provide.

    python examples/pettingzoo_drop_in.py --games 2000
"""

from collections import Counter
from dataclasses import dataclass

import tyro

from ttt_envs import Game
from ttt_envs import mnk_v0 as tictactoe_v3  # the changed line
from ttt_eval.exact import exploitability, outcome


@dataclass
class Options:
    """What the command line sets."""

    games: int = 2_000
    """how many games are played"""
    seed: int = 42
    """of all that is drawn"""


options = tyro.cli(Options, description=__doc__)

env = tictactoe_v3.env()
results = Counter()
for seat, agent in enumerate(env.possible_agents):
    env.action_space(agent).seed(options.seed + seat)  # the environment's seed does not seed them
for number in range(options.games):
    env.reset(seed=options.seed + number)

    for agent in env.agent_iter():
        observation, reward, termination, truncation, info = env.last()

        if termination or truncation:
            action = None
            results[agent, reward] += 1
        else:
            mask = observation["action_mask"]
            # this is where you would insert your policy
            action = env.action_space(agent).sample(mask)

        env.step(action)
env.close()

game = Game(3, 3, 3)
won, drawn, lost = (results["player_0", reward] / options.games for reward in (1, 0, -1))
print(f"player_0, counted: {won:.2%} won, {drawn:.2%} drawn, {lost:.2%} lost")
print(f"player_0, exactly: {outcome(game, 'random', 'random').text}")
print(f"exploitability: {exploitability(game, 'random'):.4f}")
