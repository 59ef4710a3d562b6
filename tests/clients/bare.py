"""An adapter between TorchRL and the AEC environment."""

from pettingzoo.utils import BaseWrapper


class Bare(BaseWrapper):
    """The AEC environment without infos: TorchRL makes tensors of them, and takes the mask from one place only."""

    @property
    def infos(self):
        return {agent: {} for agent in self.env.agents}

    def last(self, observe=True):
        return (*self.env.last(observe)[:-1], {})
