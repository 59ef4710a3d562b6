"""DQN in one file, in the style of CleanRL, with action masks.

It plays against a fixed opponent inside the environment: a step includes its own move and the
reply, so it is to move in every observation. Masks are needed in three places: in exploration, in
play, and in the target, where the best action of the next position must be legal. If the third is
forgotten, values of illegal moves leak into all others.

    pip install torch
    python examples/cleanrl_style_dqn.py --steps 200000 --opponent optimal:epsilon=0.5
"""

import argparse

import gymnasium
import numpy as np
import torch
from torch import nn
from torch.nn.functional import smooth_l1_loss

from ttt_envs import Game, as_policy
from ttt_eval.exact import exploitability, match_outcome

parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
)
parser.add_argument("--steps", type=int, default=200_000, help="moves that it learns from")
parser.add_argument(
    "--opponent", default="optimal:epsilon=0.5", help="whom it learns against, a spec string"
)
parser.add_argument("--seed", type=int, default=0, help="of all that is drawn")
options = parser.parse_args()

GAME = Game(3, 3, 3)
GAMES = 64
SIZE = 50_000
BATCH = 256
rng = np.random.default_rng(options.seed)
torch.manual_seed(options.seed)
torch.set_num_threads(1)  # for a small net, more threads only wait for each other


def make_net():
    """Return a net with the values of all moves."""
    return nn.Sequential(
        nn.Linear(18, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 9)
    )


envs = gymnasium.make_vec(
    "ttt_envs:ttt/TicTacToe-v0",
    num_envs=GAMES,
    opponent=options.opponent,
    seat="alternate",
    illegal_action="raise",  # a forgotten mask is an error
    autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP,
)
q_network = make_net()
target_network = make_net()
target_network.load_state_dict(q_network.state_dict())
optimizer = torch.optim.Adam(q_network.parameters(), lr=1e-3)
buffer = {
    "obs": np.zeros((SIZE, 18), np.float32),
    "action": np.zeros(SIZE, np.int64),
    "reward": np.zeros(SIZE, np.float32),
    "goes_on": np.zeros(SIZE, np.float32),
    "next_obs": np.zeros((SIZE, 18), np.float32),
    "next_mask": np.zeros((SIZE, 9), np.int8),
}

iterations = options.steps // GAMES
obs, info = envs.reset(seed=options.seed)
for iteration in range(iterations):
    mask = info["action_mask"]
    with torch.no_grad():
        values = q_network(torch.as_tensor(obs)).numpy()
    epsilon = max(0.1, 1 - 2 * iteration / iterations)
    explores = rng.random(GAMES) < epsilon
    scores = np.where(explores[:, None], rng.random(mask.shape), values)
    action = np.where(mask == 1, scores, -np.inf).argmax(axis=1)

    next_obs, reward, terminated, truncated, info = envs.step(action)
    # after the end of a game, this is the first position of the next one; goes_on excludes it from
    # the target
    rows = np.arange(GAMES * iteration, GAMES * (iteration + 1)) % SIZE
    transitions = (obs, action, reward, ~terminated, next_obs, info["action_mask"])
    for name, column in zip(buffer, transitions, strict=True):
        buffer[name][rows] = column
    obs = next_obs

    drawn = rng.integers(0, min(SIZE, GAMES * (iteration + 1)), BATCH)
    data = {name: torch.as_tensor(column[drawn]) for name, column in buffer.items()}
    with torch.no_grad():
        next_value = (
            target_network(data["next_obs"])
            .masked_fill(data["next_mask"] == 0, -torch.inf)
            .max(dim=1)
            .values
        )
        target = data["reward"] + data["goes_on"] * next_value
    chosen = q_network(data["obs"]).gather(1, data["action"][:, None]).squeeze(1)
    loss = smooth_l1_loss(chosen, target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if iteration % 100 == 0:
        target_network.load_state_dict(q_network.state_dict())
    if (iteration + 1) % max(1, iterations // 5) == 0:
        policy = as_policy(q_network, GAME, returns="values")
        print(
            f"{GAMES * (iteration + 1):9,} moves, exploitability {exploitability(GAME, policy):.4f}"
        )

policy = as_policy(q_network, GAME, returns="values")
for opponent in ("random", "optimal"):
    result = match_outcome(GAME, policy, opponent)
    print(
        f"against {opponent}: {result.win:.2%} won, {result.draw:.2%} drawn, {result.loss:.2%} lost"
    )
print(f"exploitability: {exploitability(GAME, policy):.4f}")
