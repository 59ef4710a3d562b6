"""TorchRL's PPO with masks: a collector, ``MaskedCategorical``, ``GAE`` and ``ClipPPOLoss``,
measured exactly.

TorchRL requires boolean masks: one transform converts them, and ``MaskedCategorical`` reads the
same entry. ``as_policy`` accepts a torch module as it is: the actor's net returns logits, and
illegal ones are masked.

    pip install torchrl
    python examples/torchrl_ppo.py --steps 50000
"""

from dataclasses import dataclass

import torch
import tyro
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.collectors import Collector
from torchrl.envs import (
    ActionMask,
    Compose,
    DTypeCastTransform,
    FlattenObservation,
    GymEnv,
    TransformedEnv,
)
from torchrl.modules import MaskedCategorical, ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

from ttt_envs import Game, as_policy
from ttt_eval.exact import exploitability, result_lines


@dataclass
class Options:
    """What the command line sets."""

    steps: int = 50_000
    """moves that it learns from"""
    opponent: str = "optimal:epsilon=0.5"
    """whom it learns against, a spec string"""
    seed: int = 0
    """of all that is drawn"""


options = tyro.cli(Options, description=__doc__)
torch.manual_seed(options.seed)
torch.set_num_threads(1)  # for a small net, more threads only wait for each other

game = Game(3, 3, 3)
settings = {"opponent": options.opponent, "seat": "alternate", "illegal_action": "raise"}
env = GymEnv(
    "ttt_envs:ttt/TicTacToe-v0", observation="dict", categorical_action_encoding=True, **settings
)
env = TransformedEnv(
    env,
    Compose(
        DTypeCastTransform(torch.int8, torch.bool, in_keys=["action_mask"]),
        ActionMask(),
        FlattenObservation(-3, -1, in_keys=["observation"]),
    ),
)
env.set_seed(options.seed)


def make_net(outputs):
    """Return the net of the actor or the critic; planes [3, 3, 2] are flattened to 18 numbers."""
    return nn.Sequential(
        nn.Linear(18, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh(), nn.Linear(128, outputs)
    )


actor_net = make_net(9)
actor = ProbabilisticActor(
    TensorDictModule(actor_net, in_keys=["observation"], out_keys=["logits"]),
    in_keys={"logits": "logits", "mask": "action_mask"},
    distribution_class=MaskedCategorical,
    return_log_prob=True,
)
critic = ValueOperator(make_net(1), in_keys=["observation"])
advantage = GAE(gamma=1.0, lmbda=0.95, value_network=critic)
loss = ClipPPOLoss(actor, critic)
optimizer = torch.optim.Adam(loss.parameters(), lr=1e-3)

FRAMES = 1_024
batches = max(1, options.steps // FRAMES)
collector = Collector(
    env,
    actor,
    frames_per_batch=FRAMES,
    total_frames=FRAMES * batches,
    auto_register_policy_transforms=True,
)
net = nn.Sequential(nn.Flatten(), actor_net)  # as_policy passes planes
for number, data in enumerate(collector):
    for _ in range(4):
        advantage(data)
        for part in data.reshape(-1)[torch.randperm(FRAMES)].split(256):
            losses = loss(part)
            optimizer.zero_grad()
            sum(value for name, value in losses.items() if name.startswith("loss_")).backward()
            optimizer.step()
    if (number + 1) % max(1, batches // 5) == 0:
        policy = as_policy(net, game, "planes", "logits")
        exploited = exploitability(game, policy)
        print(
            f"{FRAMES * (number + 1):8,} moves, exploitability of its distribution {exploited:.4f}"
        )
collector.shutdown()

policy = as_policy(net, game, "planes", "values")  # the legal move of the highest logit
print(result_lines(game, policy))
