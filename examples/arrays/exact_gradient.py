"""Exact returns and exploitability of a softmax table in torch, by backward induction over layers:
autograd gives their exact gradients. Gradient descent on exploitability then finds perfect play.

    pip install torch
    python examples/arrays/exact_gradient.py --steps 200
"""

from itertools import pairwise

import torch
import tyro

from ttt_envs import Game
from ttt_envs.arrays import game_arrays


def returns(arrays, policy, opponent=None):
    """Return the expected results of a policy that moves first, and of one that moves second.

    Args:
        arrays: the game.
        policy: float64[S + 1, A], probabilities of actions, differentiable.
        opponent: the same; None for the best response to the policy.
    """
    p = arrays.skip_chance
    zero = torch.zeros(1, dtype=torch.float64)
    own = zero  # values for the policy, where it is to move in the next layer; the last is over
    other = zero  # where the opponent is to move
    layers = arrays.layers.tolist()
    for start, stop in reversed(list(pairwise(layers))):
        rows = torch.tensor(arrays.next[start:stop]).long().sub(stop).clamp(max=len(own) - 1)
        rewards = torch.tensor(arrays.rewards[start:stop]).double()
        legal = torch.tensor(arrays.legal[start:stop])
        own_moves = rewards + (1 - p) * other[rows[..., 0]] + p * own[rows[..., 1]]
        other_moves = -rewards + (1 - p) * own[rows[..., 0]] + p * other[rows[..., 1]]
        if opponent is None:
            replies = other_moves.masked_fill(~legal, torch.inf).amin(dim=1)
        else:
            replies = (opponent[start:stop] * other_moves).sum(dim=1)
        own = torch.cat([(policy[start:stop] * own_moves).sum(dim=1), zero])
        other = torch.cat([replies, zero])
    return own[0], other[0]


def softmax_table(arrays, logits):
    """Return probabilities float64[S + 1, A] of legal actions."""
    return torch.softmax(logits.masked_fill(~torch.tensor(arrays.legal), -torch.inf), dim=1)


def main(steps: int = 200):
    """Descend the exploitability.

    Args:
        steps: of Adam.
    """
    arrays = game_arrays(Game(skip_chance=0.25))
    logits = torch.zeros(arrays.legal.shape, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([logits], lr=0.1)
    for step in range(steps + 1):
        exploitability = -sum(returns(arrays, softmax_table(arrays, logits))) / 2
        if step % 50 == 0:
            print(f"{step} steps: exploitability {exploitability.item():.6f}")
        optimizer.zero_grad()
        exploitability.backward()
        optimizer.step()


if __name__ == "__main__":
    tyro.cli(main, description=__doc__)
