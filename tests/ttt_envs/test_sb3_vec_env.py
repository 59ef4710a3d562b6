"""The VecEnv of Stable-Baselines3 against its DummyVecEnv of single environments, and what its own tests ask of one."""

import csv
import json
import warnings

import gymnasium
import numpy as np
import pytest
from environment_contract import OPENINGS, SCHEDULE, SEVERAL
from numpy.testing import assert_array_equal
from processes import run_python

from ttt_envs import Game
from ttt_envs.envs.single_env import SingleEnv
from ttt_envs.envs.vector_env import MNKVectorEnv

pytestmark = pytest.mark.needs("torch", "stable_baselines3", "sb3_contrib")

ID = "ttt/MNK-v0"
FULL = {"size": (3, 4), "skip_chance": 0.25, "opponent": "win-or-block", "seat": "alternate", "symmetry": "random"}


def make(n_envs=4, seed=0, env_id=ID, **settings):
    from ttt_envs.sb3 import make_vec_env  # which imports Stable-Baselines3

    return make_vec_env(env_id, n_envs, seed, **settings)


def make_theirs(n_envs=4, seed=0, **settings):
    """The function of Stable-Baselines3, which by default makes pictures."""
    from stable_baselines3.common.env_util import make_vec_env

    return make_vec_env(ID, n_envs, seed, env_kwargs={"render_mode": None, **settings})


def without_time(infos):
    """Infos without the time of the clock, which must only be plausible."""
    for info in infos:
        if "episode" in info:
            assert list(info["episode"]) == ["r", "l", "t"]
            assert 0 <= info["episode"]["t"] < 3600
    return [{**info, "episode": info["episode"] | {"t": None}} if "episode" in info else dict(info) for info in infos]


def assert_same(ours, theirs):
    """Both hold the same, of the same types; an OrderedDict is a dict."""
    assert isinstance(theirs, type(ours))
    if isinstance(theirs, dict):
        assert set(ours) == set(theirs)
        for name in theirs:
            assert_same(ours[name], theirs[name])
    elif isinstance(theirs, list):
        for one, other in zip(ours, theirs, strict=True):
            assert_same(one, other)
    elif isinstance(theirs, np.ndarray):
        assert ours.dtype == theirs.dtype
        assert_array_equal(ours, theirs, strict=True)
    else:
        assert ours == theirs


def assert_same_step(ours, theirs, actions):
    """Make one step in both and return the infos."""
    mine, their = ours.step(actions), theirs.step(actions)
    for one, other in zip(mine[:3], their[:3], strict=True):
        assert_same(one, other)
    assert_same(without_time(mine[3]), without_time(their[3]))
    assert_same(ours.reset_infos, theirs.reset_infos)
    return mine[3]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        FULL,
        {"observation": "dict", "illegal_action": "penalize", "dtype": "int8"},
        {"opponent": "self", "observation": "channels", "skip_chance": 0.5},
        {"max_episode_steps": 2, "seat": "random", "observation": "planes"},
        {"size": (9, 8), "win_length": 3, "skip_chance": 0.1},
        {**SEVERAL, "opponent": SCHEDULE},
        {"openings": OPENINGS},
    ],
    ids=lambda settings: "-".join(map(str, settings)),
)
def test_games_are_those_of_dummy_vec_env(settings):
    """Observations, rewards, dones and infos, with actions legal and not, at first and after another seeding."""
    ours, theirs = make(5, 7, **settings), make_theirs(5, 7, **settings)
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    assert [ours.action_space.sample() for _ in range(9)] == [theirs.action_space.sample() for _ in range(9)]
    rng, ended, cut = np.random.default_rng(0), 0, 0
    for seed in (None, 3, None):
        if seed is not None:
            assert ours.seed(seed) == theirs.seed(seed)
        assert_same(ours.reset(), theirs.reset())
        assert_same(ours.reset_infos, theirs.reset_infos)
        for _ in range(25):
            masks = np.stack(ours.env_method("action_masks"))
            assert_array_equal(masks, np.stack(theirs.env_method("action_masks")))
            weights = rng.random(masks.shape) * (masks + 0.05)
            infos = assert_same_step(ours, theirs, weights.argmax(axis=1))
            ended += sum("episode" in info for info in infos)
            cut += sum(info["TimeLimit.truncated"] for info in infos)
    assert ended > 20
    assert (cut > 0) == ("max_episode_steps" in settings)


def test_options_begin_games_in_positions():
    ours, theirs = make(4), make_theirs(4)
    for options in (
        {"seat": 1},
        [{"seat": 1}, {}, {"position": "x.o/.../..o x", "seat": 1}, {"seat": 1}],
        [{"position": "x.o/.../... o"}] * 4,
    ):
        for envs in (ours, theirs):
            envs.set_options(options)
        assert_same(ours.reset(), theirs.reset())
        assert_same(ours.reset_infos, theirs.reset_infos)
        assert_same_step(ours, theirs, np.array([3, 4, 5, 4]))
        assert_same(ours.reset(), theirs.reset())  # they are used once
    fresh, theirs = make(2), make_theirs(2)
    for envs in (fresh, theirs):
        envs.set_options([{}, {"seat": 1}])
    assert_same(fresh.reset(), theirs.reset())
    assert_same(fresh.reset_infos, theirs.reset_infos)


def test_an_invalid_option_changes_no_game():
    ours, theirs = make(2), make_theirs(2)
    assert_same(ours.reset(), theirs.reset())
    ours.set_options([{"seat": 1}, {"reset_mask": True}])
    with pytest.raises(ValueError, match=r"'reset_mask'\] is not known"):
        ours.reset()
    assert_same_step(ours, theirs, np.array([0, 4]))


@pytest.mark.parametrize("name", ["PPO", "DQN", "MaskablePPO"])
def test_models_learn_the_same(name):
    import torch
    from sb3_contrib import MaskablePPO
    from stable_baselines3 import DQN, PPO

    torch.set_num_threads(1)
    kind, settings = {
        "PPO": (PPO, {"n_steps": 16, "n_epochs": 2, "batch_size": 32}),
        "MaskablePPO": (MaskablePPO, {"n_steps": 16, "n_epochs": 2, "batch_size": 32}),
        "DQN": (DQN, {"learning_starts": 32, "batch_size": 16, "learning_rate": 1e-2}),
    }[name]
    trained = []
    for envs in (make(4, **FULL), make_theirs(4, **FULL)):
        model = kind("MlpPolicy", envs, seed=1, device="cpu", policy_kwargs={"net_arch": [16]}, **settings)
        before = {key: value.clone() for key, value in model.policy.state_dict().items()}
        model.learn(256)
        trained.append((model.policy.state_dict(), [(one["r"], one["l"]) for one in model.ep_info_buffer]))
    (ours, episodes), (theirs, their_episodes) = trained
    assert episodes == their_episodes
    assert len(episodes) > 20
    for key, value in theirs.items():
        assert torch.equal(ours[key], value), key
    assert any(not torch.equal(ours[key], value) for key, value in before.items())


# ---------------------------------------------------------------------------------------------------------------------
# What the tests of Stable-Baselines3 ask of a VecEnv


def wrappers():
    from stable_baselines3.common.vec_env import VecCheckNan, VecFrameStack, VecNormalize

    return [lambda envs: envs, VecNormalize, lambda envs: VecFrameStack(envs, n_stack=2), VecCheckNan]


@pytest.mark.parametrize("wrapper", range(4))
def test_attributes_and_methods(wrapper):
    envs = wrappers()[wrapper](make(3, render_mode="rgb_array"))
    envs.seed(0)
    envs.reset()
    picture = envs.render()
    assert picture.dtype == np.uint8
    assert_array_equal(envs.render(mode="rgb_array"), picture)
    with pytest.warns(UserWarning, match="has to be the same"):
        envs.render(mode="something else")
    assert envs.render_mode == "rgb_array"
    assert len(envs.get_images()) == 3
    assert not envs.has_attr("dummy")
    assert envs.has_attr("action_masks")
    assert envs.get_attr("game", indices=[0, -1]) == [Game()] * 2
    envs.step(np.array([0, 4, 8]))
    masks = np.stack(envs.env_method("action_masks"))
    assert masks.shape == (3, 9)
    assert not masks[[0, 1, 2], [0, 4, 8]].any()
    assert_array_equal(np.stack(envs.env_method("action_masks", indices=[2, 0])), masks[[2, 0]])
    envs.close()


def test_the_same_seed_gives_the_same_games_and_games_differ():
    def play(envs):
        rows = [envs.reset()]
        rng = np.random.default_rng(1)
        for _ in range(12):
            observation, rewards, dones, _ = envs.step(rng.integers(9, size=3).tolist())
            assert all(envs.observation_space.contains(one) for one in observation)
            rows += [observation, rewards, dones]
        return rows

    envs = make(3, None, illegal_action="penalize", seat="second")
    assert len({one.tobytes() for one in np.concatenate([envs.reset() for _ in range(4)])}) > 1
    runs = []
    for _ in range(2):
        envs.seed(3)
        runs.append(play(envs))
    for one, other in zip(*runs, strict=True):
        assert_array_equal(one, other)
    assert any(np.any(array[0] != array[1]) for array in runs[0])
    others = [make(2, seat="second", opponent="random").reset().tobytes() for _ in range(2)]
    assert others[0] == others[1]
    assert len({make(64, None, seat="second").reset().tobytes() for _ in range(3)}) == 3  # no seed, no repetition


def test_monitors():
    """Statistics count as Monitor's: evaluation takes them and has nothing to warn of."""
    from stable_baselines3 import PPO
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.monitor import Monitor
    from stable_baselines3.common.vec_env import VecMonitor

    envs = make(3)
    assert envs.env_is_wrapped(Monitor) == [True] * 3
    assert envs.env_is_wrapped(Monitor, indices=[1]) == [True]
    assert envs.env_is_wrapped(gymnasium.wrappers.TimeLimit, indices=[0, 2]) == [False] * 2
    model = PPO("MlpPolicy", envs, n_steps=8, batch_size=8, device="cpu", seed=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rewards, lengths = evaluate_policy(model, envs, 7, return_episode_rewards=True)
    assert len(rewards) == len(lengths) == 7
    assert set(rewards) <= {-1.0, 0.0, 1.0}
    with pytest.warns(UserWarning, match="already wrapped"):
        VecMonitor(envs)


def test_the_monitor_file_is_that_of_vec_monitor(tmp_path):
    from stable_baselines3.common.monitor import get_monitor_files
    from stable_baselines3.common.vec_env import VecMonitor

    ours = make(3, monitor_file=tmp_path / "ours", opponent="self", illegal_action="penalize")
    with pytest.warns(UserWarning, match="already wrapped"):
        theirs = VecMonitor(make_theirs(3, opponent="self", illegal_action="penalize"), str(tmp_path / "theirs"))
    rng = np.random.default_rng(0)
    episodes = []
    for envs in (ours, theirs):
        envs.reset()
    for _ in range(60):
        actions = rng.integers(9, size=3)
        *_, infos = ours.step(actions)
        theirs.step(actions)
        episodes += [info["episode"] for info in infos if "episode" in info]
    for envs in (ours, theirs):
        envs.close()
    assert sorted(get_monitor_files(str(tmp_path))) == sorted(str(path) for path in tmp_path.iterdir())
    tables = {}
    for name in ("ours", "theirs"):
        with open(tmp_path / f"{name}.monitor.csv") as file:
            header = json.loads(file.readline()[1:])
            assert set(header) == {"t_start", "env_id"}
            tables[name] = list(csv.DictReader(file))
    assert len(episodes) > 5
    assert [{key: float(text) for key, text in row.items()} for row in tables["ours"]] == episodes
    assert [(row["r"], row["l"]) for row in tables["ours"]] == [(row["r"], row["l"]) for row in tables["theirs"]]
    assert min(float(row["r"]) for row in tables["ours"]) < -1  # longer returns than a result


def test_without_pictures_there_are_none():
    envs = make(2)
    with pytest.warns(UserWarning, match="makes no pictures"):
        assert envs.get_images() == [None, None]
    with pytest.warns(UserWarning, match="no `render_mode` was passed"):
        assert envs.render() is None


# ---------------------------------------------------------------------------------------------------------------------
# Errors


def test_other_environments_are_refused():
    from ttt_envs.sb3 import make_vec_env

    with pytest.raises(ValueError, match="CartPole-v1 is no environment of ttt_envs: choose"):
        make(2, env_id="CartPole-v1")
    with pytest.raises(TypeError, match="env_id=2 is no id: write for example make_vec_env"):
        make_vec_env(2)
    with pytest.raises(ValueError, match="num_envs=0 leaves nothing to play"):
        make(0)
    with pytest.raises(TypeError, match="opponnent"):
        make(2, opponnent="random")


def test_another_mode_of_reset_is_refused():
    from ttt_envs.sb3 import MNKVecEnv

    with pytest.raises(ValueError, match="autoreset_mode=NEXT_STEP does not fit Stable-Baselines3"):
        MNKVecEnv(MNKVectorEnv(2))


def test_games_are_no_environments_of_their_own():
    envs = make(2)
    envs.reset()
    with pytest.raises(ValueError, match="method_name='step' is not known: choose 'action_masks'"):
        envs.env_method("step")
    with pytest.raises(ValueError, match="game cannot be set"):
        envs.set_attr("game", None)
    with pytest.raises(AttributeError, match="nonsense"):
        envs.get_attr("nonsense")
    assert not envs.has_attr("nonsense")


def test_an_illegal_action_that_is_an_error_changes_nothing():
    envs, theirs = make(2, illegal_action="raise"), make_theirs(2, illegal_action="raise")
    assert_same(envs.reset(), theirs.reset())
    assert_same_step(envs, theirs, np.array([0, 4]))
    legal = [int(np.flatnonzero(mask)[-1]) for mask in envs.env_method("action_masks")]
    with pytest.raises(ValueError, match="game 1: action 4 is illegal"):
        envs.step(np.array([legal[0], 4]))
    assert_same_step(envs, theirs, np.array(legal))


def test_a_missing_package_is_named():
    code = "import sys; sys.modules['stable_baselines3'] = None; import ttt_envs.sb3"
    done = run_python("-c", code, code=None)
    assert "ttt_envs.sb3 needs stable_baselines3, which is not installed: pip install" in done.stderr
    assert "[sb3]" in done.stderr


# ---------------------------------------------------------------------------------------------------------------------
# Tensors


@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize("observation", ["flat", "planes", "channels"])
def test_tensors_share_the_memory_of_observations_which_no_step_writes_again(observation, dtype):
    import torch
    from stable_baselines3.common.utils import obs_as_tensor

    envs = make(7, observation=observation, dtype=dtype)
    shown = envs.reset()
    tensors = [torch.from_numpy(shown), torch.from_dlpack(shown), obs_as_tensor(shown, torch.device("cpu"))]
    for tensor in tensors:
        assert tensor.data_ptr() == shown.ctypes.data
        assert tensor.is_contiguous()
    kept = shown.copy()
    following, *_ = envs.step(np.arange(7))
    assert not np.shares_memory(following, shown)
    assert_array_equal(shown, kept)
    shown[:] = 1  # in-place operations of a program do not reach the games either
    assert (tensors[0] == 1).all()
    single = SingleEnv(observation=observation, dtype=dtype)
    single.reset(seed=0)
    assert_array_equal(following[0], single.step(0)[0])
