"""TensorFlow and torch in one process, in every order that our imports and those of a user make."""

import pytest

pytestmark = pytest.mark.needs("tensorflow", "stable_baselines3", "triton")

TENSORFLOW = "from learners.mlp import import_tensorflow; tf = import_tensorflow('q-net')"
SB3 = "from learners.sb3 import load_algorithm; load_algorithm('sb3-dqn', 'stable_baselines3:DQN')"
CALLBACK = "import ttt_eval.sb3"
LEARN = """
import sys, torch
layer = torch.nn.Linear(2, 1)
before = layer.weight.detach().clone()
optimizer = torch.optim.Adam(layer.parameters())
layer(torch.ones(1, 2)).sum().backward()
optimizer.step()
import tensorflow as tf
print((layer.weight != before).all().item(), float(tf.reduce_sum(tf.ones((2, 3)))))
import torch._dynamo
print("triton" if sys.modules["triton"] else "no triton")
"""


@pytest.mark.parametrize(
    ("first", "second", "has"),
    [
        (TENSORFLOW, SB3, "no triton"),
        (SB3, TENSORFLOW, "no triton"),
        ("import tensorflow", SB3, "no triton"),
        ("import stable_baselines3", CALLBACK, "no triton"),
        ("import torch._dynamo", "import stable_baselines3", "triton"),  # what the documents say
    ],
    ids=["tensorflow-sb3", "sb3-tensorflow", "user's tensorflow", "user's sb3", "documents"],
)
def test_torch_and_tensorflow_work_in_any_order(first, second, has, fresh):
    assert fresh(first, second, LEARN).splitlines() == ["True 6.0", has]
