"""The callback of Stable-Baselines3: what it logs is exact, and the model learns as it would
without.
"""

import numpy as np
import pytest
from json_files import rows_of
from numpy.testing import assert_allclose, assert_array_equal

from ttt_envs import Game, as_policy
from ttt_envs.envs.single_env import SingleEnv
from ttt_eval.exact.critics import critic_error
from ttt_eval.exact.dynamic_programming import (
    exploitability,
    match_outcome,
    mean_loss,
    outcome,
    regret,
)

pytestmark = pytest.mark.needs("torch", "stable_baselines3", "sb3_contrib")

GAME = Game(2, 3, 2, 0.1)


def env(**settings):
    return SingleEnv((2, 3), 2, 0.1, **settings)


def model_of(name, games=None):
    import torch
    from sb3_contrib import MaskablePPO
    from stable_baselines3 import DQN, PPO

    torch.set_num_threads(1)
    kind = {"dqn": DQN, "ppo": PPO, "maskable-ppo": MaskablePPO}[name]
    settings = {
        "seed": 0,
        "device": "cpu",
        "policy_kwargs": {"net_arch": [16]},
        "learning_rate": 1e-2,
    }
    own = (
        {"learning_starts": 16}
        if name == "dqn"
        else {"n_steps": 32, "batch_size": 16, "n_epochs": 2}
    )
    return kind("MlpPolicy", env() if games is None else games, **settings, **own)


def callback(game, *arguments, **settings):
    from ttt_eval.runs.sb3_callback import ExactEvalCallback  # which imports Stable-Baselines3

    return ExactEvalCallback(game, *arguments, **{"verbose": 0, **settings})


def weights(model):
    return np.concatenate(
        [parameter.detach().numpy().ravel() for parameter in model.policy.parameters()]
    )


def lines(folder):
    return rows_of(folder / "exact.jsonl")


def log_to(folder, model):
    from stable_baselines3.common.logger import configure

    model.set_logger(configure(str(folder), ["json"]))


def logged_in(model, folder):
    """Close the log, and return logged values by steps."""
    model.logger.close()
    rows = rows_of(folder / "progress.json")
    return {row["time/total_timesteps"]: row for row in rows if "exact/exploitability" in row}


@pytest.mark.parametrize("name", ["dqn", "ppo", "maskable-ppo"])
def test_logged_values_are_exact_and_training_is_unchanged(name, tmp_path):
    from stable_baselines3.common.callbacks import CallbackList, CheckpointCallback

    alone = model_of(name).learn(96)
    model = model_of(name)
    log_to(tmp_path, model)
    measuring = callback(GAME, "win-or-block", eval_freq=32, log_path=tmp_path)
    model.learn(96, CallbackList([CheckpointCallback(32, str(tmp_path)), measuring]))
    assert_array_equal(weights(model), weights(alone))
    written = lines(tmp_path)
    logged = logged_in(model, tmp_path)
    assert [line["timesteps"] for line in written] == [32, 64, 96] == list(logged)
    assert measuring.evaluations == written
    for line in written:
        steps = line["timesteps"]
        then = type(model).load(tmp_path / f"rl_model_{steps}_steps.zip")
        policy = as_policy(then, GAME)
        expected = match_outcome(GAME, policy, "win-or-block")._asdict()
        for measure in (exploitability, regret, mean_loss):
            expected[measure.__name__] = measure(GAME, policy)
        assert {"timesteps", *expected} == line.keys()
        for key, value in expected.items():
            assert_allclose(line[key], value, atol=1e-12)
            assert logged[steps][f"exact/{key}"] == line[key]
    assert (
        len({line["exploitability"] for line in written}) > 1
        or len({line["regret"] for line in written}) > 1
    )


def test_evaluations_count_the_steps_of_parallel_games(tmp_path, capsys):
    from stable_baselines3.common.env_util import make_vec_env

    model = model_of("ppo", make_vec_env(env, 4, seed=0))
    model.learn(128, callback(GAME, "random", eval_freq=16, log_path=tmp_path, seat=1, verbose=1))
    first, last = lines(tmp_path)
    assert (first["timesteps"], last["timesteps"]) == (64, 128)  # neither after the first update
    expected = outcome(GAME, "random", as_policy(model_of("ppo"), GAME)).reversed()._asdict()
    assert_allclose([last[name] for name in expected], list(expected.values()), atol=1e-12)
    assert (
        f"Exact num_timesteps=128, exploitability={last['exploitability']:.4f}"
        in capsys.readouterr().out
    )


def test_the_best_model_is_saved_and_a_loaded_training_continues(tmp_path):
    from sb3_contrib import MaskablePPO
    from stable_baselines3.common.callbacks import StopTrainingOnRewardThreshold

    def measuring(**settings):
        folders = {"log_path": tmp_path, "best_model_save_path": tmp_path / "best"}
        return callback(GAME, eval_freq=16, **folders, **settings)

    first = measuring()
    second = measuring()
    model_of("maskable-ppo").learn(64, first).save(tmp_path / "half")
    before = lines(tmp_path)
    lowest = np.minimum.accumulate([line["exploitability"] for line in before])
    assert first.best_exploitability == lowest[-1] == -first.best_mean_reward

    MaskablePPO.load(tmp_path / "half", env=env()).learn(64, second, reset_num_timesteps=False)
    assert [line["timesteps"] for line in lines(tmp_path)] == list(range(16, 129, 16))
    assert lines(tmp_path)[:4] == before
    assert second.best_exploitability <= first.best_exploitability
    best = MaskablePPO.load(tmp_path / "best" / "best_model.zip")
    assert_allclose(
        exploitability(GAME, as_policy(best, GAME)), second.best_exploitability, atol=1e-12
    )

    stopped = measuring(callback_after_eval=StopTrainingOnRewardThreshold(-2))
    assert model_of("maskable-ppo").learn(64, stopped).num_timesteps == 16
    assert [line["timesteps"] for line in lines(tmp_path)] == [
        16
    ]  # a new training starts a new file anew


def test_observations_are_normalised_as_in_training():
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import VecNormalize

    games = VecNormalize(make_vec_env(env, 2, seed=0))
    model = model_of("ppo", games)
    measuring = callback(GAME, eval_freq=32, deterministic=False)
    model.learn(64, measuring)
    assert [line["timesteps"] for line in measuring.evaluations] == [64]

    def normalised_policy(observation, mask):
        import torch

        with torch.no_grad():
            tensor = torch.as_tensor(games.normalize_obs(observation))
            return model.policy.get_distribution(tensor).distribution.probs

    policy = as_policy(model, GAME, returns="probabilities")
    expected = exploitability(
        GAME, as_policy(normalised_policy, GAME, returns="probabilities", batch=True)
    )
    assert_allclose(exploitability(GAME, policy), expected, atol=1e-6)
    games.norm_obs = False
    assert exploitability(GAME, policy) != pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("game", "settings", "content"),
    [
        (GAME, {"eval_freq": -1}, None),
        (GAME, {"seat": 2}, None),
        (GAME, {"opponent": "mcts"}, None),
        (Game(), {}, None),  # a model of another board
        (GAME, {"deterministic": False}, None),  # DQN has no distribution
        *((GAME, {}, content) for content in (b"no lines", b'{"timesteps": 1}\n')),
    ],
)
def test_invalid_settings_and_files_are_refused(tmp_path, game, settings, content):
    if content is not None:
        (tmp_path / "exact.jsonl").write_bytes(content)
    with pytest.raises(ValueError, match=r": choose|cannot be read|is not pure|DQN"):
        model_of("dqn").learn(
            8, callback(game, **{"eval_freq": 1, "log_path": tmp_path, **settings})
        )


@pytest.mark.parametrize("name", ["dqn", "ppo"])
@pytest.mark.parametrize("opponent", ["random", None])
def test_the_error_of_the_critic_is_logged(name, opponent, tmp_path):
    model = model_of(name)
    log_to(tmp_path, model)
    model.learn(32, callback(GAME, opponent, eval_freq=16, seat=0, critic=True))
    row = logged_in(model, tmp_path)[16]
    untrained = model_of(name)  # neither learns before step 17
    policy = as_policy(untrained, GAME, returns="actions" if name == "dqn" else "probabilities")
    expected = critic_error(
        GAME, policy, opponent, untrained, seat=0, discount=model.gamma
    ).to_dict()
    assert {key: row[f"exact/{key}"] for key in expected} == pytest.approx(expected)
