"""GEM: its registry, its vector environments and wrappers, and games of a fake agent."""

import sys
from pathlib import Path

import numpy as np
import pytest

gem = pytest.importorskip("gem")

from gem.wrappers.observation_wrapper import ObservationWrapper

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "files"))
from gem_env import ID


def play(env, games, seed):
    """Play games with random legal moves; return their rewards."""
    rewards = []
    for number in range(games):
        env.reset(seed=seed if number == 0 else None)
        is_over = False
        while not is_over:
            _, reward, terminated, truncated, _ = env.step(env.sample_random_action())
            is_over = terminated or truncated
        rewards.append(reward)
    return rewards


def test_games():
    """`gem.make`, 500 games of a fake agent in both seats; a seed and a spawned environment give
    the same games
    """
    env = gem.make(ID, skip_chance=0.25, seat="alternate")
    rewards = play(env, 500, seed=1)
    assert set(rewards) == {-1.0, 0.0, 1.0}
    again = play(env.spawn(), 500, seed=1)
    assert again == rewards
    with pytest.raises(ValueError, match=r"^same_state=True is not supported"):
        env.spawn(same_state=True)


@pytest.mark.parametrize("async_mode", [False, True])
def test_vector(async_mode):
    """`gem.make_vec` of 4 games, in one process and in several, each of its own seed"""
    envs = gem.make_vec([ID] * 4, async_mode=async_mode, skip_chance=0.25, opponent="win-or-block")
    observations, _ = envs.reset()
    assert all("Two players" in text for text in observations)
    observations, rewards, *_ = envs.step(["nonsense"] * 4)
    assert all("You may answer up to 3 times more" in text for text in observations)
    assert list(rewards) == [0.0] * 4
    rng = np.random.default_rng(0)
    ends = 0
    for _ in range(40):
        _, rewards, terminated, _, _ = envs.step([f"[{rng.choice(['a1', 'b2', 'c3', 'b1'])}]"] * 4)
        ends += int(np.sum(terminated))
        assert set(np.asarray(rewards).tolist()) <= {-1.0, 0.0, 1.0}
    assert ends > 4


@pytest.mark.parametrize("include_action", [False, True])
def test_wrappers(include_action):
    """its `ObservationWrapper` keeps the conversation, with and without answers"""
    env = ObservationWrapper(
        gem.make(ID), include_action=include_action, include_chat_template=False
    )
    env.reset(seed=0)
    observation, *_ = env.step("<move>b2</move>")
    assert "Two players" in observation
    assert "The other player chose" in observation
    assert ("<move>b2</move>\n" in observation) == include_action
