"""PPO in one file, in the style of CleanRL, with action masks.

Masks are needed in two places: when moves are sampled, and when their probabilities are recomputed
for the ratio; the stored masks are those of the positions of the moves. Both set the logits of
illegal moves to -1e8, so that they have no probability and no gradient. (-inf would make the
entropy NaN.)

    pip install torch
    python examples/cleanrl_style_ppo.py --steps 300000 --opponent optimal:epsilon=0.5
"""

import argparse

import gymnasium
import torch
from torch import nn
from torch.distributions import Categorical

from ttt_envs import Game, as_policy
from ttt_eval.exact import exploitability, match_outcome

parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
)
parser.add_argument("--steps", type=int, default=300_000, help="moves that it learns from")
parser.add_argument(
    "--opponent", default="optimal:epsilon=0.5", help="whom it learns against, a spec string"
)
parser.add_argument("--seed", type=int, default=0, help="of all that is drawn")
options = parser.parse_args()

GAME = Game(3, 3, 3)
GAMES = 64
LENGTH = 32
EPOCHS = 4
BATCH = 512
LAMBDA = 0.95  # no discount, as games are short
CLIP = 0.2
ENTROPY = 0.01
VALUE = 0.5
torch.manual_seed(options.seed)
torch.set_num_threads(1)  # for a small net, more threads only wait for each other


def make_net(outputs):
    """Return the net of the actor or the critic."""
    return nn.Sequential(
        nn.Linear(18, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh(), nn.Linear(128, outputs)
    )


def distribution(observations, masks):
    """Return the distribution over legal moves."""
    return Categorical(logits=actor(observations).masked_fill(masks == 0, -1e8))


envs = gymnasium.make_vec(
    "ttt_envs:ttt/TicTacToe-v0",
    num_envs=GAMES,
    opponent=options.opponent,
    seat="alternate",
    illegal_action="raise",  # a forgotten mask is an error
    autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP,
)
actor = make_net(9)
critic = make_net(1)
parameters = [*actor.parameters(), *critic.parameters()]
optimizer = torch.optim.Adam(parameters, lr=1e-3)

iterations = max(1, options.steps // (GAMES * LENGTH))
obs, info = envs.reset(seed=options.seed)
for iteration in range(iterations):
    optimizer.param_groups[0]["lr"] = 1e-3 * (1 - iteration / iterations)
    data = {
        "obs": torch.zeros(LENGTH, GAMES, 18),
        "mask": torch.zeros(LENGTH, GAMES, 9),
        "action": torch.zeros(LENGTH, GAMES, dtype=torch.int64),
        "log_prob": torch.zeros(LENGTH, GAMES),
        "value": torch.zeros(LENGTH, GAMES),
    }
    reward = torch.zeros(LENGTH, GAMES)
    goes_on = torch.zeros(LENGTH, GAMES)
    for t in range(LENGTH):
        with torch.no_grad():
            obs_t = torch.as_tensor(obs)
            mask = torch.as_tensor(info["action_mask"])
            moves = distribution(obs_t, mask)
            action = moves.sample()
            row = (obs_t, mask, action, moves.log_prob(action), critic(obs_t).squeeze(1))
        for name, value in zip(data, row, strict=True):
            data[name][t] = value
        obs, gained, terminated, truncated, info = envs.step(action.numpy())
        reward[t] = torch.as_tensor(gained)
        goes_on[t] = torch.as_tensor(~terminated)

    with torch.no_grad():  # generalized advantage estimation, backwards in time
        advantage = torch.zeros(LENGTH, GAMES)
        next_value = critic(torch.as_tensor(obs)).squeeze(1)
        carried = torch.zeros(GAMES)
        for t in reversed(range(LENGTH)):
            delta = reward[t] + goes_on[t] * next_value - data["value"][t]
            carried = delta + LAMBDA * goes_on[t] * carried
            advantage[t] = carried
            next_value = data["value"][t]
    data |= {"advantage": advantage, "return": advantage + data["value"]}
    flat = {name: column.flatten(0, 1) for name, column in data.items()}

    for _ in range(EPOCHS):
        for rows in torch.randperm(LENGTH * GAMES).split(BATCH):
            part = {name: column[rows] for name, column in flat.items()}
            moves = distribution(part["obs"], part["mask"])
            ratio = (moves.log_prob(part["action"]) - part["log_prob"]).exp()
            gain = (part["advantage"] - part["advantage"].mean()) / (part["advantage"].std() + 1e-8)
            actor_loss = -torch.min(ratio * gain, ratio.clamp(1 - CLIP, 1 + CLIP) * gain).mean()
            critic_loss = (critic(part["obs"]).squeeze(1) - part["return"]).square().mean()
            loss = actor_loss + VALUE * critic_loss - ENTROPY * moves.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, 0.5)
            optimizer.step()
    if (iteration + 1) % max(1, iterations // 5) == 0:
        policy = as_policy(actor, GAME, returns="logits")
        moves = GAMES * LENGTH * (iteration + 1)
        print(
            f"{moves:9,} moves, exploitability of its distribution "
            f"{exploitability(GAME, policy):.4f}"
        )

policy = as_policy(actor, GAME, returns="values")  # the legal move of the highest logit
for opponent in ("random", "optimal"):
    result = match_outcome(GAME, policy, opponent)
    print(
        f"against {opponent}: {result.win:.2%} won, {result.draw:.2%} drawn, {result.loss:.2%} lost"
    )
print(f"exploitability: {exploitability(GAME, policy):.4f}")
