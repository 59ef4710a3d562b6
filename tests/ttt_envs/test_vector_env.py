"""The vector environment against Gymnasium's vector of single environments: modes, limits, seeds, masks and memory."""

import gymnasium
import numpy as np
import pytest
from environment_contract import OPENINGS, SCHEDULE, SEATS, SEVERAL
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import TimeLimit
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from players import Impure

from ttt_envs import Policy
from ttt_envs.envs.single_env import SingleEnv
from ttt_envs.envs.vector_env import MNKVectorEnv

MODES = list(AutoresetMode)


class Leftmost(Policy):
    """A pure opponent without `act`."""

    def probabilities(self, boards, rng=None):
        p = (boards.cells == 0) * 0.5 ** np.arange(boards.cells.shape[1])
        return p / p.sum(axis=1, keepdims=True)


def assert_same(ours, theirs, path=""):
    """Both hold the same, arrays also of the same type."""
    if isinstance(theirs, dict):
        assert set(ours) == set(theirs), path
        for name, value in theirs.items():
            assert_same(ours[name], value, f"{path}/{name}")
    elif isinstance(theirs, (tuple, list)) or (isinstance(theirs, np.ndarray) and theirs.dtype == object):
        assert isinstance(theirs, type(ours)), path
        for index, pair in enumerate(zip(ours, theirs, strict=True)):
            assert_same(*pair, f"{path}/{index}")
    elif isinstance(theirs, np.ndarray):
        assert ours.dtype == theirs.dtype, path
        if not np.array_equal(ours, theirs):  # which takes a tenth of the time, and then says nothing
            assert_array_equal(ours, theirs, err_msg=path, strict=True)
    else:
        assert ours == theirs, path


def compare(num_envs, mode, steps, seed=0, limit=None, **settings):
    """Play the same actions, legal and not, here and in SyncVectorEnv. Returns how many games ended and were cut."""
    ours = MNKVectorEnv(num_envs, autoreset_mode=mode, max_episode_steps=limit, **settings)

    def single():
        return SingleEnv(**settings) if limit is None else TimeLimit(SingleEnv(**settings), limit)

    theirs = SyncVectorEnv([single] * num_envs, autoreset_mode=mode)
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    rng = np.random.default_rng(seed)
    shown = ours.reset(seed=seed)
    assert_same(shown, theirs.reset(seed=seed))
    info, ended = shown[1], np.zeros(2, int)
    often = 0.8 if settings.get("illegal_action") == "penalize" else 0.07
    for _ in range(steps):
        illegal = rng.random((num_envs, 1)) < often
        actions = (rng.random(info["action_mask"].shape) * (info["action_mask"] != illegal)).argmax(axis=1)
        shown = ours.step(actions)
        assert_same(shown, theirs.step(actions))
        assert_same(ours.action_masks(), shown[4]["action_mask"] == 1)
        over = shown[2] | shown[3]
        ended += over.sum(), shown[3].sum()
        info = shown[4]
        if mode is AutoresetMode.DISABLED and over.any():
            seeds = [int(rng.integers(99)) if rng.random() < 0.5 else None for _ in range(num_envs)]
            shown = ours.reset(seed=seeds, options={"reset_mask": over.copy()})
            assert_same(shown, theirs.reset(seed=seeds, options={"reset_mask": over.copy()}))
            info = {"action_mask": np.where(over[:, None], shown[1]["action_mask"], info["action_mask"])}
    return ended


@st.composite
def any_settings(draw):
    """Views, seats, limits and opponents; test_environments.py has the rules."""
    chosen = draw(st.sampled_from([{"size": (3, 4), "skip_chance": 0.25}, SEVERAL, {"openings": OPENINGS}]))
    names = ["random", "win-or-block", "self", SCHEDULE, Impure(), Leftmost()]
    observation = draw(st.sampled_from(["flat", "planes", "channels", "dict"]))
    return {
        **chosen,
        "opponent": draw(st.sampled_from(names)),
        "seat": draw(st.sampled_from(SEATS)),
        "illegal_action": draw(st.sampled_from(["lose", "penalize"])),
        "symmetry": draw(st.sampled_from(["none", "random"])),
        "observation": observation,
        "dtype": "float32" if "observe_skip_chance" in chosen else draw(st.sampled_from(["int8", "float32"])),
        "limit": draw(st.sampled_from([None, None, 1, 4])),
    }


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_vector_equals_sync_vector_env(mode):
    @settings(max_examples=25)
    @given(any_settings(), st.sampled_from([1, 3, 5]))
    @example({"phantom": "classic", "opponent": "random", "seat": "alternate", "symmetry": "random"}, 4)
    @example({"size": (8, 9), "skip_chance": 0.1, "gravity": True}, 3)
    def check(chosen, num_envs):
        compare(num_envs, mode, 50, **chosen)

    check()
    assert compare(64, mode, steps=30, opponent="random", seat="second", skip_chance=0.25)[0] > 100
    assert compare(4, mode, steps=60, limit=4, opponent="self", size=4)[1] > 20


def test_an_illegal_action_is_ignored_where_a_game_begins():
    env = MNKVectorEnv(1, illegal_action="raise", opponent="self", max_episode_steps=2)
    env.reset()
    env.step([8])
    assert env.step([7])[3].all()  # truncated
    assert not env.step([8])[0].any()


def test_games_begin_with_reset():
    env = MNKVectorEnv(2, opponent="self", autoreset_mode=AutoresetMode.DISABLED)
    some = {"reset_mask": np.array([True, False])}
    with pytest.raises(ResetNeeded):
        env.reset(options=some)
    env.reset(seed=0)
    for actions in ([0, 0], [3, 1], [1, 2], [4, 3], [2, 4]):
        env.step(actions)
    with pytest.raises(ResetNeeded, match="game 0"):
        env.step([5, 5])
    env.reset(options=some)
    observation, *_ = env.step([8, 8])
    assert observation.sum(axis=1).tolist() == [1, 6]


@pytest.mark.parametrize("mask", [np.zeros(2, bool), np.ones(3, bool), np.ones(2), [True, False]], ids=repr)
def test_invalid_reset_masks_and_seeds_are_refused(mask):
    env = MNKVectorEnv(2, autoreset_mode=AutoresetMode.DISABLED)
    env.reset(seed=0)
    with pytest.raises((TypeError, ValueError)):
        env.reset(options={"reset_mask": mask})
    with pytest.raises(ValueError, match="seeds"):
        env.reset(seed=[1, 2, 3])
    with pytest.raises(ValueError, match="games"):
        MNKVectorEnv(3).restore_state(env.clone_state(include_rng=True))


def test_seeds_are_one_number_or_one_for_each_game():
    env = MNKVectorEnv(3, seat="second")

    def boards(seed):
        return env.reset(seed=seed)[0].tolist()

    assert boards(7) == boards(np.int64(7)) == boards([7, 8, 9]) == boards([9, 8, 7])[::-1]


@pytest.mark.parametrize("opponent", ["random", "win-or-block", "self"])
def test_reset_options_apply_to_all_games(opponent):
    """As in Gymnasium's vector, which hands the options on."""
    seat = {} if opponent == "self" else {"seat": 1}
    chosen = {"opponent": opponent, "skip_chance": 0.25}
    ours = MNKVectorEnv(5, autoreset_mode=AutoresetMode.DISABLED, **chosen)
    theirs = SyncVectorEnv([lambda: SingleEnv(**chosen)] * 5, autoreset_mode=AutoresetMode.DISABLED)
    rng, over = np.random.default_rng(0), np.ones(5, bool)
    for episode in range(15):
        options = {"position": ("o../.x./..o x", "o../.x./... o", ".../.../... o")[episode % 3], **seat}
        shown = [
            envs.reset(seed=3 if episode == 0 else None, options={**options, "reset_mask": over.copy()})
            for envs in (ours, theirs)
        ]
        assert_same(*shown)
        over = np.zeros(5, bool)
        while not over.any():
            actions = (rng.random((5, 9)) * ours.action_masks()).argmax(axis=1)
            shown = ours.step(actions), theirs.step(actions)
            assert_same(*shown)
            over = shown[0][2] | shown[0][3]


def test_make_vec_passes_mode_and_time_limit():
    modes = ("vector_entry_point", "sync")
    made = [gymnasium.make_vec("ttt/TicTacToe-v0", 3, mode, max_episode_steps=2, opponent="self") for mode in modes]
    assert isinstance(made[0], MNKVectorEnv)
    for env in (*made, gymnasium.make_vec(made[0].spec)):
        env.reset(seed=0)
        assert not env.step(np.zeros(3, int))[3].any()
        assert env.step(np.ones(3, int))[3].all()
    unlimited = gymnasium.make_vec("ttt/TicTacToe-v0", 3, max_episode_steps=-1)
    unlimited.reset(seed=0)
    assert not any(unlimited.step(np.argmax(unlimited.action_masks(), axis=1))[3].any() for _ in range(20))
    for mode in MODES:
        assert MNKVectorEnv(2, autoreset_mode=mode.value).metadata["autoreset_mode"] is mode


# ---------------------------------------------------------------------------------------------------------------------
# Memory


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
@pytest.mark.parametrize("settings", [{"dtype": "int8"}, {"dtype": "float32"}, {"observation": "dict"}])
def test_without_copies_results_are_the_same_in_the_same_memory(settings, mode):
    settings = {"skip_chance": 0.25, "opponent": "win-or-block", "autoreset_mode": mode, **settings}
    copying, reusing = MNKVectorEnv(6, **settings), MNKVectorEnv(6, copy=False, **settings)
    assert_same(reusing.reset(seed=3), copying.reset(seed=3))
    rng, rewards, masks = np.random.default_rng(0), [], []
    for _ in range(30):
        actions = rng.integers(0, 9, 6)
        expected, reused = copying.step(actions), reusing.step(actions)
        assert_same(reused, expected)
        rewards.append((reused[1], expected[1]))
        masks.append(reused[4]["action_mask"])
    for kept, expected in rewards:  # rewards of earlier steps stay
        assert_array_equal(kept, expected)
    shared = [np.shares_memory(mask, masks[0]) for mask in masks]
    assert all(shared) if mode is AutoresetMode.NEXT_STEP else any(shared[1:])


def test_without_copies_int8_observations_are_the_memory_of_the_last_step():
    env = gymnasium.make_vec("ttt/TicTacToe-v0", num_envs=4, dtype="int8", copy=False)
    env.reset(seed=0)
    first, second = env.step(np.arange(4))[0], env.step(np.arange(4, 8))[0]
    assert first.ctypes.data == second.ctypes.data
