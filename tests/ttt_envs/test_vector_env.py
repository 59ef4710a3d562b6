"""The vector environment against Gymnasium's vector of single environments: modes, limits, seeds,
masks and memory.
"""

import gymnasium
import numpy as np
import plain
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
from ttt_envs.core.jit import compile_at_once
from ttt_envs.envs import kernels
from ttt_envs.envs.single_env import SingleEnv
from ttt_envs.envs.vector_env import MNKVectorEnv

MODES = list(AutoresetMode)


class Leftmost(Policy):
    """A pure opponent without `act`."""

    def probabilities(self, boards, rng=None):
        p = (boards.cells == 0) * 0.5 ** np.arange(boards.cells.shape[1])
        return plain.shares_of(p)


def assert_same(ours, expected, path=""):
    """Both hold the same, arrays also of the same type."""
    if isinstance(expected, dict):
        assert set(ours) == set(expected), path
        for name, value in expected.items():
            assert_same(ours[name], value, f"{path}/{name}")
    elif isinstance(expected, (tuple, list)) or (
        isinstance(expected, np.ndarray) and expected.dtype == object
    ):
        assert isinstance(expected, type(ours)), path
        for index, pair in enumerate(zip(ours, expected, strict=True)):
            assert_same(*pair, f"{path}/{index}")
    elif isinstance(expected, np.ndarray):
        assert ours.dtype == expected.dtype, path
        if not np.array_equal(
            ours, expected
        ):  # which takes a tenth of the time, and then says nothing
            assert_array_equal(ours, expected, err_msg=path, strict=True)
    else:
        assert ours == expected, path


def compare(num_envs, mode, steps, seed=0, limit=None, copy=True, **settings):
    """Play the same actions, legal and not, here and in SyncVectorEnv. Returns how many games ended
    and were cut.

    Where games are reset by the caller, some begin in positions and seats of the options.
    """
    ours = MNKVectorEnv(
        num_envs, autoreset_mode=mode, max_episode_steps=limit, copy=copy, **settings
    )

    def single():
        return SingleEnv(**settings) if limit is None else TimeLimit(SingleEnv(**settings), limit)

    peer = SyncVectorEnv([single] * num_envs, autoreset_mode=mode)
    assert ours.observation_space == peer.observation_space
    assert ours.action_space == peer.action_space
    rng = np.random.default_rng(seed)
    result = ours.reset(seed=seed)
    assert_same(result, peer.reset(seed=seed))
    info = result[1]
    ended = np.zeros(2, int)
    often = {"penalize": 0.8, "raise": 0}.get(settings.get("illegal_action"), 0.07)
    for _ in range(steps):
        illegal = rng.random((num_envs, 1)) < often
        actions = (rng.random(info["action_mask"].shape) * (info["action_mask"] != illegal)).argmax(
            axis=1
        )
        result = ours.step(actions)
        assert_same(result, peer.step(actions))
        assert "render_mode" not in settings or ours.render() == peer.render()
        assert_same(ours.action_masks(), result[4]["action_mask"] == 1)
        is_over = result[2] | result[3]
        ended += is_over.sum(), result[3].sum()
        info = result[4]
        if mode is AutoresetMode.DISABLED and is_over.any():
            seeds = [int(rng.integers(99)) if rng.random() < 0.5 else None for _ in range(num_envs)]
            options = (
                {"position": OPENINGS[ended[0] % 3]}
                if "openings" in settings and rng.random() < 0.5
                else {}
            )
            options |= (
                {"seat": 1}
                if settings.get("opponent", "self") != "self" and rng.random() < 0.5
                else {}
            )
            last = info
            observation, info = ours.reset(
                seed=seeds, options={**options, "reset_mask": is_over.copy()}
            )
            expected, of_reset = peer.reset(
                seed=seeds, options={**options, "reset_mask": is_over.copy()}
            )
            assert_same(observation, expected)
            assert_same(
                {name: array[is_over] for name, array in info.items()},
                {k: v[is_over] for k, v in of_reset.items()},
            )
            assert_same(
                {name: array[~is_over] for name, array in info.items()},
                {k: v[~is_over] for k, v in last.items()},
            )
    return ended


@st.composite
def any_settings(draw):
    """Views, seats, limits and opponents; test_environments.py has the rules."""
    chosen = draw(
        st.sampled_from([{"size": (3, 4), "skip_chance": 0.25}, SEVERAL, {"openings": OPENINGS}])
    )
    names = ["random", "win-or-block", "self", SCHEDULE, Impure(), Leftmost()]
    observation = draw(st.sampled_from(["flat", "planes", "channels", "dict"]))
    return {
        **chosen,
        "opponent": draw(st.sampled_from(names)),
        "seat": draw(st.sampled_from(SEATS)),
        "illegal_action": draw(st.sampled_from(["lose", "penalize", "raise"])),
        "symmetry": draw(st.sampled_from(["none", "random"])),
        "observation": observation,
        "dtype": "float32"
        if "observe_skip_chance" in chosen
        else draw(st.sampled_from(["int8", "float32"])),
        "limit": draw(st.sampled_from([None, None, 1, 4])),
        "copy": draw(st.booleans()),
    }


SHOWN = {"skip_chance": 0.25, "symmetry": "random", "seat": "second", "render_mode": "ansi"}


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_vector_equals_sync_vector_env(mode):
    @settings(max_examples=25)
    @given(any_settings(), st.sampled_from([1, 3, 5]))
    @example({**SHOWN, "illegal_action": "lose"}, 4)
    @example({**SHOWN, "illegal_action": "penalize"}, 4)
    @example({**SHOWN, "openings": OPENINGS}, 4)
    @example(
        {"phantom": "classic", "opponent": "random", "seat": "alternate", "symmetry": "random"}, 4
    )
    @example({"size": (8, 9), "skip_chance": 0.1, "gravity": True}, 3)
    def check(chosen, num_envs):
        compare(num_envs, mode, 50, seed=7, **chosen)

    check()
    assert compare(64, mode, steps=30, opponent="random", seat="second", skip_chance=0.25)[0] > 100
    assert compare(4, mode, steps=60, limit=4, opponent="self", size=4)[1] > 20


@pytest.mark.parametrize(
    "mask", [np.zeros(2, bool), np.ones(3, bool), np.ones(2), [True, False]], ids=repr
)
def test_resets_that_cannot_be_are_refused(mask):
    env = MNKVectorEnv(2, opponent="self", autoreset_mode=AutoresetMode.DISABLED)
    some = {"reset_mask": np.array([True, False])}
    with pytest.raises(ResetNeeded):
        env.reset(options=some)
    env.reset(seed=0)
    with pytest.raises((TypeError, ValueError)):
        env.reset(options={"reset_mask": mask})
    with pytest.raises(ValueError, match="seeds"):
        env.reset(seed=[1, 2, 3])
    with pytest.raises(ValueError, match="games"):
        MNKVectorEnv(3).restore_state(env.clone_state(include_rng=True))
    for actions in ([0, 0], [3, 1], [1, 2], [4, 3], [2, 4]):
        env.step(actions)
    with pytest.raises(ResetNeeded, match="game 0"):
        env.step([5, 5])


def test_make_vec_passes_mode_and_time_limit():
    modes = ("vector_entry_point", "sync")
    made = [
        gymnasium.make_vec("ttt/TicTacToe-v0", 3, mode, max_episode_steps=2, opponent="self")
        for mode in modes
    ]
    assert isinstance(made[0], MNKVectorEnv)
    for env in (*made, gymnasium.make_vec(made[0].spec)):
        env.reset(seed=0)
        assert not env.step(np.zeros(3, int))[3].any()
        assert env.step(np.ones(3, int))[3].all()
    unlimited = gymnasium.make_vec("ttt/TicTacToe-v0", 3, max_episode_steps=-1)
    unlimited.reset(seed=0)
    assert not any(
        unlimited.step(np.argmax(unlimited.action_masks(), axis=1))[3].any() for _ in range(20)
    )
    for mode in MODES:
        assert MNKVectorEnv(2, autoreset_mode=mode.value).metadata["autoreset_mode"] is mode


def test_actions_are_ignored_where_no_move_is_made():
    """Where a step begins a game, and where the opponent won before the first move, as in single
    environments.
    """
    settings = {"opponent": "random", "seat": "second", "skip_chance": 0.8, "symmetry": "random"}
    env = MNKVectorEnv(8, **settings)
    num_ignored = 0
    env.reset(seed=0)
    for _ in range(20):
        state = env.clone_state(include_rng=True)
        actions = env.action_masks().argmax(axis=1)
        is_ignored = (state["is_over"] == 1) | (state["outcome"] != -1)
        with pytest.raises(ValueError, match=f"game {np.argmin(is_ignored)}: action -1"):
            env.step(np.full(8, -1))
        result = env.step(np.where(is_ignored, 100, actions))
        env.restore_state(state)
        assert_same(result, env.step(actions))
        num_ignored += np.count_nonzero(is_ignored)
    assert num_ignored > 8
    single = SingleEnv(**settings)
    while single.reset()[1]["result"] == -1:
        pass
    assert single.step(-1)[1:3] == (-1, True)


# --------------------------------------------------------------------------------------------------
# Memory


def test_arrays_of_actions_may_be_read_only_and_used_again():
    """Machine code is made once, and pictures show the actions that were given."""
    env = MNKVectorEnv(2, opponent="self", illegal_action="penalize", render_mode="ansi")
    actions = np.array([4, 4])
    env.reset(seed=0)
    with compile_at_once():
        env.step(actions)
    env.step(actions)
    actions[:] = 0
    assert all("refused: 4 (b2) is not empty\n" in text for text in env.render())
    actions.flags.writeable = False
    before = getattr(kernels.step, "signatures", None)
    env.step(actions)
    assert getattr(kernels.step, "signatures", None) == before


@pytest.mark.parametrize(
    "settings", [{"dtype": "int8"}, {"dtype": "float32"}, {"observation": "dict"}], ids=str
)
def test_memory_is_used_again_only_without_copies(settings):
    """Of flat int8 observations all of it. Rewards of earlier steps stay; that results are the same
    is tested above.
    """
    for copied in (True, False):
        env = MNKVectorEnv(6, copy=copied, autoreset_mode=AutoresetMode.SAME_STEP, **settings)
        observation, info = env.reset(seed=3)
        arrays = []
        rewards = []
        for action in range(9):
            observation, reward, _, _, info = env.step(np.arange(action, action + 6) % 9)
            arrays.append(
                [
                    info["action_mask"],
                    *(observation.values() if isinstance(observation, dict) else [observation]),
                ]
            )
            rewards.append((reward, reward.copy()))
        shared = [
            any(np.shares_memory(first, other) for later in arrays[1:] for other in later)
            for first in arrays[0]
        ]
        assert any(shared) != copied
        assert all(shared) or copied or settings != {"dtype": "int8"}
        for array, expected in rewards:
            assert_array_equal(array, expected)
