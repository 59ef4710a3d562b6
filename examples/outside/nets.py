"""Networks of torch as agents of ``check_learner``: a part of the adapters of learners."""

import torch


def to_agent(net):
    """Return a network as a function of observations."""

    @torch.no_grad()
    def scores(observations):
        return net(torch.as_tensor(observations)).numpy()

    return scores
