"""PufferLib's vectors of native environments, with masks: ``Games`` is ours in this form; measured
exactly.

A ``PufferEnv`` writes into arrays that PufferLib hands to it, in shared memory if the environment
runs in a process of ``pufferlib.vector.Multiprocessing``. ``Games`` plays many games, all stepped
by one kernel, so one of them is enough for a core. No mask is needed beside the observation: the
cells without a stone are legal. The learner is a small actor-critic, because PufferLib's own needs
an extension that few wheels have.

    pip install torch psutil
    pip install --no-deps pufferlib-core    # PufferLib without its pins; with those, another torch
    python examples/pufferlib_a2c.py --steps 300000
"""

import gymnasium
import pufferlib
import pufferlib.vector
import torch
import tyro
from torch import nn
from torch.distributions import Categorical

from ttt_envs import Game, as_policy
from ttt_eval.exact import result_lines

STEPS = 8
"""Moves of each game that an update learns from."""


class Games(pufferlib.PufferEnv):
    """The vector environment as PufferLib takes it; game j of the environment with seed s is seeded
    ``s * count + j``.

    ``buf`` has PufferLib's arrays; its vectors also pass a ``seed``, which counts at ``reset``
    alone.
    """

    def __init__(self, count=64, buf=None, seed=0, **settings):
        mode = gymnasium.vector.AutoresetMode.SAME_STEP
        name = "ttt_envs:ttt/TicTacToe-v0"
        self.games = gymnasium.make_vec(name, count, autoreset_mode=mode, copy=False, **settings)
        self.single_observation_space = self.games.single_observation_space
        self.single_action_space = self.games.single_action_space
        self.num_agents = count
        super().__init__(buf)

    def reset(self, seed=None):
        """Begin new games."""
        self.observations[:] = self.games.reset(
            seed=None if seed is None else seed * self.num_agents
        )[0]
        return self.observations, []

    def step(self, actions):
        """Make a move in every game."""
        observations, self.rewards[:], self.terminals[:], self.truncations[:], _ = self.games.step(
            actions
        )
        self.observations[:] = observations  # of the next game where one has ended
        ended = self.rewards[self.terminals]
        infos = [{"mean_result": float(ended.mean())}] if len(ended) else []
        return self.observations, self.rewards, self.terminals, self.truncations, infos

    def close(self):
        """Close the games."""
        self.games.close()


def distribution(logits, observations):
    """Return the distribution over the cells without a stone; an observation has the own stones,
    then the others.
    """
    return Categorical(
        logits=logits.masked_fill(observations.unflatten(-1, (2, 9)).sum(-2) > 0, -1e8)
    )


def make_net(outputs):
    """Return the net of the actor or the critic."""
    return nn.Sequential(
        nn.Linear(18, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh(), nn.Linear(128, outputs)
    )


def main(steps: int = 300_000, opponent: str = "optimal:epsilon=0.5", seed: int = 0):
    """Train and measure.

    Args:
        steps: moves that it learns from
        opponent: whom it learns against, a spec string
        seed: of all that is drawn
    """
    torch.manual_seed(seed)
    torch.set_num_threads(1)  # for a small net, more threads only wait for each other

    settings = {"opponent": opponent, "seat": "alternate", "illegal_action": "raise"}
    envs = pufferlib.vector.make(Games, env_kwargs=settings, backend=pufferlib.PufferEnv)
    actor = make_net(9)
    critic = make_net(1)
    optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=1e-3)
    envs.async_reset(seed)
    for _ in range(0, steps, STEPS * envs.num_agents):
        rows = []
        for _ in range(STEPS):
            obs = torch.tensor(envs.observations)  # a copy: each step writes into this memory
            moves = distribution(actor(obs), obs)
            action = moves.sample()
            envs.send(action.numpy())
            reward = torch.tensor(envs.rewards)
            goes_on = ~torch.tensor(envs.terminals)
            rows.append((critic(obs).squeeze(1), moves, action, reward, goes_on))
        target = critic(torch.tensor(envs.observations)).squeeze(1).detach()
        loss = 0.0
        for value, moves, action, reward, goes_on in reversed(rows):
            target = reward + goes_on * target
            gain = target - value
            terms = 0.5 * gain**2 - gain.detach() * moves.log_prob(action) - 0.01 * moves.entropy()
            loss += terms.mean() / STEPS
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    envs.close()

    game = Game(3, 3, 3)
    policy = as_policy(actor, game, returns="values")  # the legal move of the highest logit
    print(result_lines(game, policy))


if __name__ == "__main__":  # processes of Multiprocessing import this file
    tyro.cli(main, description=__doc__)
