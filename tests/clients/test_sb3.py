"""Stable-Baselines3 and sb3-contrib: processes, monitors, masks, and PettingZoo's tutorial of
both.
"""

import shutil

import pytest

pytest.importorskip("stable_baselines3")
pytest.importorskip("sb3_contrib")

import gymnasium
from sb3_contrib import MaskablePPO
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import SubprocVecEnv

ID = "ttt_envs:ttt/TicTacToe-v0"
SETTINGS = {"seed": 0, "device": "cpu"}


@pytest.mark.parametrize("algorithm", [PPO, DQN], ids=["PPO", "DQN"])
def test_processes_and_monitors(algorithm, tmp_path):
    """`PPO` and `DQN` in `SubprocVecEnv` with `Monitor` files, then saved, loaded and evaluated"""
    envs = make_vec_env(ID, n_envs=4, seed=0, vec_env_cls=SubprocVecEnv, monitor_dir=str(tmp_path))
    model = algorithm("MlpPolicy", envs, **SETTINGS).learn(8192)
    envs.close()
    lines = [
        line.split(",")
        for file in tmp_path.glob("*monitor.csv")
        for line in file.read_text().splitlines()[2:]
    ]
    lengths = [int(length) for _, length, _ in lines]  # load_results would want pandas
    assert 8192 - 4 * 5 <= sum(lengths) <= 8192
    assert max(lengths) <= 5  # a game has at most five own moves
    model.save(tmp_path / "model")
    again = algorithm.load(tmp_path / "model", device="cpu")
    mean, _ = evaluate_policy(again, Monitor(gymnasium.make(ID)), n_eval_episodes=20, warn=False)
    assert -1 <= mean <= 1


@pytest.mark.parametrize("algorithm", [PPO, DQN], ids=["PPO", "DQN"])
def test_vectors(algorithm, tmp_path):
    """`PPO` and `DQN` on `ttt_envs.sb3.make_vec_env` with 64 games and a file of episodes, then
    evaluated
    """
    from ttt_envs.sb3 import make_vec_env as make_games

    envs = make_games(ID, 64, 0, monitor_file=tmp_path / "all")
    settings = {"n_steps": 32, "batch_size": 512} if algorithm is PPO else {"gradient_steps": 16}
    model = algorithm("MlpPolicy", envs, **settings, **SETTINGS).learn(8192)
    lines = [
        line.split(",") for line in (tmp_path / "all.monitor.csv").read_text().splitlines()[2:]
    ]
    lengths = [int(length) for _, length, _ in lines]
    assert 8192 - 64 * 5 <= sum(lengths) <= 8192
    mean, _ = evaluate_policy(model, envs, n_eval_episodes=20)
    envs.close()
    assert -1 <= mean <= 1


def test_masks(tmp_path):
    """`MaskablePPO` with `MaskableEvalCallback`, masks by `action_masks()` across
    `SubprocVecEnv`
    """
    from sb3_contrib.common.maskable.callbacks import MaskableEvalCallback

    envs = make_vec_env(
        ID, n_envs=4, seed=0, vec_env_cls=SubprocVecEnv, env_kwargs={"illegal_action": "raise"}
    )
    others = make_vec_env(
        ID, n_envs=2, seed=9, vec_env_cls=SubprocVecEnv, env_kwargs={"illegal_action": "raise"}
    )
    callback = MaskableEvalCallback(
        others, eval_freq=512, n_eval_episodes=20, best_model_save_path=str(tmp_path), verbose=0
    )
    MaskablePPO("MlpPolicy", envs, n_steps=256, **SETTINGS).learn(8192, callback=callback)
    envs.close()
    others.close()
    assert (tmp_path / "best_model.zip").exists()
    assert callback.best_mean_reward > 0.3  # random play comes to 0.3


def test_the_tutorial_of_pettingzoo(checkout, their_tests, tmp_path):
    """PettingZoo's tutorial of `MaskablePPO`, 32,768 steps of self-play, and its test, unchanged:
    better than random
    """
    shutil.copytree(checkout("PettingZoo") / "tutorials" / "SB3", tmp_path / "tutorials" / "SB3")
    their_tests(
        tmp_path, "tutorials/SB3/test/test_sb3_action_mask.py", "-k", "tictactoe", path=[tmp_path]
    )
