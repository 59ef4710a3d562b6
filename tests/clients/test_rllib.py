"""RLlib: PPO of its new stack by id, in masked self-play by an example, and as an agent of the
benchmark.
"""

import re

import pytest

pytest.importorskip("ray.rllib")
pytest.importorskip("torch")

SCRIPT = """
import ray
from ray.rllib.algorithms.ppo import PPOConfig

ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False)
config = (
    PPOConfig()
    .environment("ttt_envs:ttt/TicTacToe-v0", env_config={"opponent": "random"})
    .env_runners(num_env_runners=RUNNERS)
    .debugging(seed=0)
    .training(train_batch_size_per_learner=2000, minibatch_size=256, num_epochs=4)
)
algorithm = config.build_algo()
for _ in range(4):
    results = algorithm.train()["env_runners"]
    keys = ("episode_return_mean", "num_episodes", "episode_len_max")
    print("RETURNS", *(results[key] for key in keys))
algorithm.stop()
ray.shutdown()
"""


def train(python, runners):
    """The mean return of each of four iterations."""
    output = python("-W", "ignore", "-c", SCRIPT.replace("RUNNERS", str(runners)))
    lines = re.findall(r"^RETURNS (\S+) (\S+) (\S+)$", output, re.M)
    results = [tuple(map(float, words)) for words in lines]
    assert len(results) == 4
    for mean, games, longest in results:
        assert -1 <= mean <= 1
        assert games > 300
        assert longest <= 5  # own moves
    return [mean for mean, *_ in results]


def test_one_agent(python):
    """PPO of the new stack on `ttt_envs:ttt/TicTacToe-v0`, 8,000 steps: it gets better"""
    means = train(python, 0)
    assert means[-1] > means[0]


def test_remote_runner(python):
    """the same with a remote runner, whose process finds the id by its prefix"""
    train(python, 1)  # not timed: what Ray starts is not ours to wait for


def test_example(example):
    """`examples/rllib_self_play.py --steps 4000`: masked self-play with skips, to its exact
    number
    """
    assert set(example("rllib_self_play.py", "--steps", 4000).results) == {"random", "optimal"}
