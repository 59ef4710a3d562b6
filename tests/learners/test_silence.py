"""TensorFlow and torch in one process, in every order that our imports and those of a user make;
and their logs.
"""

import os
import sys

import pytest
import tiny
from processes import ROOT, run_program

from learners import LEARNERS
from ttt_envs.core.packages import hide_native_log

pytestmark = pytest.mark.more

TENSORFLOW = "from learners.q_net import import_tensorflow; tf = import_tensorflow('q-net')"
SB3 = "from learners.sb3 import load_algorithm; load_algorithm('sb3-dqn', 'stable_baselines3:DQN')"
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


@pytest.mark.needs("tensorflow", "stable_baselines3", "triton")
@pytest.mark.parametrize(
    ("first", "second", "has"),
    [
        (TENSORFLOW, SB3, "no triton"),
        (SB3, TENSORFLOW, "no triton"),
        ("import torch._dynamo", "import stable_baselines3", "triton"),  # what the documents say
    ],
    ids=["tensorflow-sb3", "sb3-tensorflow", "documents"],
)
def test_torch_and_tensorflow_work_in_any_order(first, second, has, fresh):
    assert fresh(first, second, LEARN).splitlines() == ["True 6.0", has]


@pytest.mark.parametrize("name", [tiny.case(name) for name in sorted(LEARNERS)])
def test_commands_write_nothing_but_their_own_lines(name, tmp_path):
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "LANG": "C.UTF-8"}
    run = tmp_path / "run"
    words = ("--size=2x3", "--win-length=2", "--batch=4", "--exact-every=0", "--no-report")
    commands = [["train.py", "--learner", name, *tiny.OPTIONS[name], *words, "--out", run]]
    commands += [["evaluate.py", "exploitability", f"run:{run}", "--size=2x3", "--win-length=2"]]
    for command in commands:
        result = run_program(sys.executable, *command, env=env, cwd=ROOT)
        assert all("compiling for this processor" in line for line in result.stderr.splitlines()), (
            result.stderr
        )
        assert result.stdout


def test_what_native_code_writes_before_an_error_is_shown(capfd):
    def load(text, problem=None):
        with hide_native_log():
            os.write(2, text)
            if problem:
                raise problem

    load(b"a log line\n")
    with pytest.raises(ImportError):
        load(b"no library\n", ImportError())
    assert capfd.readouterr().err == "no library\n"
