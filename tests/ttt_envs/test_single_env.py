"""The Gymnasium environment: learners of others, observations, rewards, seats and illegal actions."""

import pickle

import gymnasium
import numpy as np
import pytest
from environment_contract import BOARDS
from gymnasium.error import ResetNeeded
from numpy.testing import assert_array_equal
from players import Scripted

from ttt_envs import Game, make_policy
from ttt_envs.envs.registration import PRESETS
from ttt_envs.envs.single_env import SingleEnv
from ttt_envs.envs.vector_env import MNKVectorEnv
from ttt_envs.game.rules import Outcome


def started(seed=0, **settings):
    env = SingleEnv(**settings)
    env.reset(seed=seed)
    return env


# ---------------------------------------------------------------------------------------------------------------------
# Learners of others


@pytest.mark.needs("stable_baselines3", "sb3_contrib")
def test_sb3_contrib_finds_the_masks_behind_wrappers():
    from sb3_contrib.common.maskable import utils
    from stable_baselines3.common import vec_env as vectors

    def make():
        return gymnasium.make("ttt_envs:ttt/TicTacToe-v0", opponent="win-or-block", max_episode_steps=20)

    env, both = make(), (vectors.DummyVecEnv([make] * 2), vectors.SubprocVecEnv([make] * 2, "fork"))
    assert not hasattr(env, "action_masks")  # wrappers hide it
    _, info = env.reset(seed=3)
    for vector in both:
        vector.seed(3)
        vector.reset()
    for stones in (0, 2):
        assert all(map(utils.is_masking_supported, (env, *both)))
        legal = utils.get_action_masks(env)
        assert (legal.dtype, legal.sum()) == (np.bool_, 9 - stones)
        assert_array_equal(legal, info["action_mask"])
        for vector in both:
            masks = utils.get_action_masks(vector)
            assert masks.shape == (2, 9)
            assert_array_equal(masks[0], legal)  # the same seed, and the same game
            vector.step(np.array([4, 4]))
        info = env.step(4)[-1]
    both[1].close()


@pytest.mark.parametrize(
    "settings", [*BOARDS[1:3], *(pytest.param(board, marks=pytest.mark.slow) for board in BOARDS[::3])], ids=str
)
@pytest.mark.parametrize("learner", ["MaskablePPO", "DQN"])
@pytest.mark.needs("stable_baselines3", "sb3_contrib")
def test_learners_of_stable_baselines_train_on_it(settings, learner):
    import sb3_contrib
    import stable_baselines3
    import torch

    if learner == "MaskablePPO":
        module, numbers = sb3_contrib, {"n_steps": 200, "batch_size": 100, "n_epochs": 1}
    else:
        module, numbers = stable_baselines3, {"learning_starts": 200, "train_freq": 8}
    torch.set_num_threads(1)  # the nets are small, and threads that share cores wait
    env = SingleEnv(**settings)
    model = getattr(module, learner)("MlpPolicy", env, seed=0, **numbers).learn(400)
    observation, _ = env.reset(seed=0)
    legal = {"action_masks": env.action_masks()} if learner == "MaskablePPO" else {}
    action, _ = model.predict(observation, **legal)
    assert env.action_space.contains(action)
    env.step(action)


# ---------------------------------------------------------------------------------------------------------------------
# Observations


def test_own_stones_come_first_then_the_opponents():
    moves = {"opponent": "self", "size": (2, 3), "win_length": 3}
    planes = [[0, 1, 0, 0, 0, 0], [0, 0, 0, 0, 0, 1]]
    for observation in ("flat", "planes", "dict"):
        env = started(observation=observation, **moves)
        env.step(5)
        shown, reward, terminated, truncated, info = env.step(1)  # player_0 is to move: its stone is on 5
        seen = shown["observation"] if observation == "dict" else shown
        if observation == "flat":
            assert seen.tolist() == [*planes[1], *planes[0]]
        else:
            assert seen.transpose(2, 0, 1).reshape(2, 6).tolist() == planes[::-1]
        if observation == "dict":
            assert_array_equal(shown["action_mask"], info["action_mask"])
            assert not np.shares_memory(shown["action_mask"], info["action_mask"])
        assert env.observation_space.contains(shown)
        assert info["action_mask"].tolist() == [1, 0, 1, 1, 1, 0]
        assert info["action_mask"].dtype == np.int8
        assert env.action_masks().dtype == np.bool_
        assert_array_equal(env.action_masks(), info["action_mask"])
        assert (type(reward), type(terminated), type(truncated)) == (float, bool, bool)


@pytest.mark.parametrize("name", sorted(PRESETS))
@pytest.mark.needs("torch")
def test_linear_layers_accept_observations(name):
    """As in scripts of which only the id is changed."""
    import torch

    env = gymnasium.make(name)
    layer = torch.nn.Linear(int(np.prod(env.observation_space.shape)), env.action_space.n)
    assert layer(torch.as_tensor(env.reset(seed=0)[0])).shape == (env.action_space.n,)
    envs = gymnasium.make_vec(name, num_envs=4)
    assert layer(torch.as_tensor(envs.reset(seed=0)[0])).shape == (4, env.action_space.n)


@pytest.mark.needs("torch")
def test_convolutions_accept_channels():
    import torch

    layer = torch.nn.Conv2d(2, 5, 2)
    env = SingleEnv((3, 4), observation="channels", opponent="self")
    env.reset(seed=0)
    shown, *_ = env.step(5)
    planes = SingleEnv((3, 4), observation="planes", opponent="self")
    planes.reset(seed=0)
    assert_array_equal(shown, planes.step(5)[0].transpose(2, 0, 1))
    assert env.observation_space == gymnasium.spaces.Box(0, 1, (2, 3, 4), np.float32)
    assert layer(torch.as_tensor(shown)).shape == (5, 2, 3)
    envs = MNKVectorEnv(6, (3, 4), observation="channels")
    assert layer(torch.as_tensor(envs.reset(seed=0)[0])).shape == (6, 5, 2, 3)


# ---------------------------------------------------------------------------------------------------------------------
# Rewards and seats


@pytest.mark.parametrize(
    ("seat", "opponent", "moves", "reward", "result"),
    [
        ("first", (3, 4, 8), (0, 1, 2), 1, 0),
        ("first", (3, 4, 5), (0, 1, 8), -1, 1),
        ("second", (3, 4, 8), (0, 1, 2), 1, 1),
        ("second", (3, 4, 5), (0, 1), -1, 0),
        ("first", (1, 4, 5, 6), (0, 2, 3, 7, 8), 0, 2),
        ("second", (0, 2, 3, 7, 8), (1, 4, 5, 6), 0, 2),
    ],
)
def test_the_reward_is_the_callers_own(seat, opponent, moves, reward, result):
    env = started(seat=seat, opponent=Scripted(*opponent))
    for action in moves[:-1]:
        _, got, terminated, truncated, info = env.step(action)
        assert (got, terminated, truncated, info["result"]) == (0, False, False, -1)
        assert info["winner"] == -1
        assert info["mover"] == info["seat"] == ("first", "second").index(seat)
    _, got, terminated, truncated, info = env.step(moves[-1])
    assert (got, terminated, truncated, info["result"]) == (reward, True, False, result)
    assert info["winner"] == (result if result < 2 else -1)


def test_self_play_rewards_the_player_who_just_moved():
    env = started(opponent="self")
    movers = []
    for action in (0, 3, 1, 4, 8):
        _, reward, terminated, _, info = env.step(action)
        movers.append(int(info["mover"]))
        assert (reward, terminated) == (0, False)
        assert info["seat"] == 1 - info["mover"]
    assert movers == [1, 0, 1, 0, 1]
    _, reward, terminated, _, info = env.step(5)
    assert (reward, terminated, info["seat"], info["result"]) == (1, True, 1, 1)


def test_seats():
    def seats(seat, episodes):
        env = SingleEnv(seat=seat)
        return [int(env.reset(seed=3 if episode == 0 else None)[1]["seat"]) for episode in range(episodes)]

    assert seats("first", 5) == [0] * 5
    assert seats("second", 5) == [1] * 5
    assert seats("alternate", 5) == [0, 1, 0, 1, 0]
    drawn = seats("random", 400)
    assert abs(sum(drawn) - 200) < 40
    assert seats("random", 400) == drawn


def test_the_opponent_is_a_spec_or_a_policy():
    for seed in range(5):
        named = started(seed, opponent="win-or-block")
        given = started(seed, opponent=make_policy("win-or-block", Game()))
        for action in (8, 0):
            assert_array_equal(named.step(action)[0], given.step(action)[0])


# ---------------------------------------------------------------------------------------------------------------------
# Positions at the start


@pytest.mark.parametrize("opponent", [Scripted(), "random"], ids=["scripted", "random"])
def test_a_game_begins_in_a_position(opponent):
    env = SingleEnv(opponent=opponent, observation="planes")
    shown, info = env.reset(seed=0, options={"position": "x.o/.../..o x", "seat": 1})
    assert shown[:, :, 0].tolist() == [[1, 0, 0], [0, 0, 0], [0, 0, 0]]
    assert shown[:, :, 1].tolist() == [[0, 0, 1], [0, 0, 0], [0, 0, 1]]
    assert (info["seat"], info["mover"], info["result"]) == (1, 1, -1)
    assert env.legal_actions() == [1, 3, 4, 5, 6, 7] == np.flatnonzero(info["action_mask"]).tolist()
    shown, info = env.reset(options={"position": "x.o/.../..o x"})  # the seat is the environment's: first
    assert shown.sum() == 4  # the opponent has replied
    assert (info["seat"], info["mover"]) == (0, 0)
    shown, _ = env.reset()
    assert not shown.any()
    assert env.reset(options={"seat": 1})[0].sum() == 1
    env.reset(options={"position": "oo./xx./... o", "seat": 0})
    _, reward, terminated, _, info = env.step(2)
    assert (reward, terminated, info["winner"]) == (1, True, 0)
    assert env.legal_actions() == []


def test_both_sides_begin_in_a_position():
    for size, text in ((3, "oo./xx./... o"), (6, "oo..../xx..../....../....../....../...... o")):
        env = SingleEnv(size, opponent="self")  # of stones as bits, and without
        env.reset(seed=0, options={"position": text})
        _, reward, terminated, _, info = env.step(2)
        assert (reward, terminated, info["winner"]) == (1, True, 0)


@pytest.mark.parametrize(
    ("settings", "options", "error", "message"),
    [
        ({}, {"unknown": 1}, ValueError, r"options\['unknown'\] is not known: choose 'position' or 'seat'"),
        ({}, {"seat": 2}, ValueError, r"options\['seat'\]=2 is no seat: choose 0 \(first, o\) or 1"),
        ({}, {"seat": True}, ValueError, "is no seat"),
        ({}, {"seat": "first"}, ValueError, "is no seat"),
        ({"opponent": "self"}, {"seat": 0}, ValueError, "makes no sense with opponent='self'"),
        ({}, {"position": 4}, TypeError, r"options\['position'\]=4 is no text: write rows and mover"),
        ({}, {"position": "..../.... o"}, ValueError, "is a board of 2 x 4: this game needs 3 x 3"),
        ({}, {"position": "ooo/xx./... x"}, ValueError, "is over: choose a position of an unfinished game"),
        ({}, {"position": "oxo/oxx/xoo x"}, ValueError, "is over"),
        ({}, {"position": "x.o/.../..o o"}, ValueError, "with 2 o and 1 x x is to move: choose another, or a skip"),
        ({}, {"position": "oo./.../... x"}, ValueError, "with 2 o and 0 x no player could be to move"),
        ({"skip_chance": 0.1}, {"position": "x../.../... o"}, ValueError, "comes from no game: o moves first"),
        ({"skip_chance": 0.1}, {"position": ".../.../... x"}, ValueError, "comes from no game: o moves first"),
    ],
)
def test_invalid_reset_options_are_rejected(settings, options, error, message):
    env = started(**settings)
    env.step(4)
    before = pickle.dumps(env.clone_state(include_rng=True))
    with pytest.raises(error, match=message):
        env.reset(seed=1, options=options)
    assert pickle.dumps(env.clone_state(include_rng=True)) == before


def test_with_skips_more_positions_are_possible():
    env = SingleEnv(skip_chance=0.25, opponent="self")
    env.reset(seed=0, options={"position": "oo./.../... x"})
    assert env.step(8)[4]["seat"] == 1


# ---------------------------------------------------------------------------------------------------------------------
# Illegal actions


def test_an_illegal_action_loses():
    env = started(opponent=Scripted())
    before = env.step(8)[0]
    observation, reward, terminated, truncated, info = env.step(0)
    assert (reward, terminated, truncated) == (-1, True, False)
    assert Outcome(info["result"]) == Outcome.PLAYER_0_FORFEITED
    assert_array_equal(observation, before)
    env = started(opponent="self")
    env.step(4)
    assert env.step(4)[1] == -1  # to player_1, who just moved
    env = started(size=8, win_length=5, opponent="random")  # too large for bits
    cell = int(np.flatnonzero(env.step(0)[0])[0] % 64)
    assert env.step(cell)[1:4] == (-1, True, False)


def test_an_illegal_action_costs_and_changes_nothing():
    env = started(opponent=Scripted(), illegal_action="penalize")
    before, _, _, _, info_before = env.step(8)
    for count in range(1, 10):
        observation, reward, terminated, truncated, info = env.step(0 if count % 2 else 8)
        assert (reward, terminated, truncated) == (-1, False, count == 9)
        assert_array_equal(observation, before)
        if count < 9:
            assert_array_equal(info["action_mask"], info_before["action_mask"])
            assert info["result"] == -1
    assert Outcome(info["result"]) == Outcome.TRUNCATED
    assert info["action_mask"].all()
    env.reset()
    env.step(8)
    assert env.step(0)[3] is False


def test_an_illegal_action_raises_and_changes_nothing():
    env = started(opponent=Scripted(), illegal_action="raise")
    env.step(8)
    before = pickle.dumps(env.clone_state(include_rng=True))
    with pytest.raises(
        ValueError, match=r"action 0 is illegal, the cell holds a stone: choose an empty one \(1, 2, 3,"
    ):
        env.step(0)
    assert pickle.dumps(env.clone_state(include_rng=True)) == before
    assert env.step(7)[1] == 0


def test_errors_name_cells_of_the_view():
    for seed in range(10):
        env = started(seed, opponent=Scripted(), illegal_action="raise", symmetry="random")
        empty = np.flatnonzero(env.step(1)[4]["action_mask"])
        with pytest.raises(ValueError, match=rf"action 1 is illegal.*\({', '.join(map(str, empty))}\)"):
            env.step(1)


@pytest.mark.parametrize("illegal_action", ["lose", "penalize", "raise"])
@pytest.mark.parametrize(
    ("action", "error", "message"),
    [
        (9, ValueError, "action 9 is no cell of a board of 3 x 3: choose 0 to 8"),
        (-1, ValueError, "action -1 is no cell of a board of 3 x 3: choose 0 to 8"),
        (10**30, ValueError, "is no cell of a board of 3 x 3"),
        (1.5, TypeError, "action 1.5 is not a whole number: an action is the index of a cell, 0 to 8"),
        ("a", TypeError, "action 'a' is not a whole number"),
        (None, TypeError, "action None is not a whole number"),
        (True, TypeError, "action True is not a whole number"),
        (np.float64(1), TypeError, r"action (np.float64\()?1.0\)? is not a whole number"),
        (np.array([1]), TypeError, r"action array\(\[1\]\) is not a whole number"),
    ],
)
def test_invalid_actions_are_rejected(action, error, message, illegal_action):
    env = started(illegal_action=illegal_action)
    before = pickle.dumps(env.clone_state(include_rng=True))
    with pytest.raises(error, match=message):
        env.step(action)
    assert pickle.dumps(env.clone_state(include_rng=True)) == before


def test_whole_numbers_of_numpy_are_actions():
    for number in (4, np.int8(4), np.uint64(4), np.array(4)):
        assert started().step(number)[0][4] == 1


def test_a_game_begins_with_reset():
    env = SingleEnv(opponent="self")
    with pytest.raises(ResetNeeded, match=r"no game has begun: call reset\(\) before step\(\)"):
        env.step(0)
    env.reset()
    for action in (0, 3, 1, 4, 2):
        env.step(action)
    with pytest.raises(ResetNeeded, match=r"the game is over: call reset\(\) to begin the next one"):
        env.step(5)
    env.reset()
    env.step(5)


# ---------------------------------------------------------------------------------------------------------------------
# Chance


def unlucky_seed(**settings):
    """A seed with which the opponent wins before the caller's first move."""
    env = SingleEnv(seat="second", skip_chance=0.25, **settings)
    return next(seed for seed in range(2000) if env.reset(seed=seed)[1]["result"] == 0)


@pytest.mark.parametrize("illegal_action", ["lose", "penalize", "raise"])
@pytest.mark.parametrize("opponent", ["random", "win-or-block"])
@pytest.mark.parametrize("symmetry", ["none", "random"])
def test_a_game_lost_before_the_first_move_is_shown_and_then_lost(illegal_action, opponent, symmetry):
    seed = unlucky_seed(opponent=opponent)
    env = SingleEnv(
        seat="second", skip_chance=0.25, opponent=opponent, illegal_action=illegal_action, symmetry=symmetry
    )
    for action in range(9):
        observation, info = env.reset(seed=seed)
        assert not observation[:9].any()
        assert observation[9:].sum() >= 3
        assert info["action_mask"].all()
        assert env.action_masks().all()
        after, reward, terminated, truncated, info = env.step(action)
        assert (reward, terminated, truncated) == (-1, True, False)
        assert info["result"] == 0
        assert_array_equal(after, observation)
        with pytest.raises(ResetNeeded):
            env.step(action)


def test_a_state_counts_illegal_actions():
    env = started(3, opponent="self", illegal_action="penalize")
    env.step(4)
    env.step(4)
    state = env.clone_state(include_rng=True)
    for _ in range(2):
        assert [env.step(4)[3] for _ in range(8)] == [False] * 7 + [True]
        env.restore_state(state)
