"""Networks of torch as agents of ``check_learner``: a part of learners, and of adapters."""

import torch
from torch import nn


def make_net(num_inputs, num_outputs):
    """Return a net with two hidden layers."""
    return nn.Sequential(
        nn.Linear(num_inputs, 64),
        nn.ReLU(),
        nn.Linear(64, 64),
        nn.ReLU(),
        nn.Linear(64, num_outputs),
    )


def to_agent(net, critic=None):
    """Return a network as a function of observations; with a critic, a network with one output."""

    @torch.no_grad()
    def scores(observations):
        return net(torch.as_tensor(observations)).numpy()

    if critic is not None:
        values = to_agent(critic)
        scores.critic = lambda observations: values(observations).ravel()
    return scores


def to_value_agent(net):
    """Return a network of the values of actions as a function of observations."""
    agent = to_agent(net)
    agent.values = agent
    return agent
