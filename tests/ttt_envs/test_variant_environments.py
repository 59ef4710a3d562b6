"""Environments of rule variants: beside PettingZoo's Connect Four, a plain reading, and each other."""

import itertools

import numpy as np
import plain
import pytest
from environment_contract import KINDS
from numpy.testing import assert_array_equal

import ttt_envs
from ttt_envs import Boards, Game, as_policy, from_text, mnk_v0
from ttt_envs.core.random import draw_key, splitmix64, uniform
from ttt_envs.envs.single_env import SingleEnv
from ttt_envs.envs.vector_env import MNKVectorEnv
from ttt_envs.game import actions, rules

pytest.importorskip("pygame")  # which PettingZoo's games import

CONNECT_FOUR = {"size": (6, 7), "win_length": 4, "gravity": True}


# ---------------------------------------------------------------------------------------------------------------------
# Beside PettingZoo's Connect Four


@pytest.mark.filterwarnings("ignore")  # both warn of illegal moves
@pytest.mark.parametrize("legal_share", [1.0, 0.98])
def test_games_are_those_of_pettingzoos_connect_four(legal_share):
    from pettingzoo.classic.connect_four import connect_four as connect_four_v3

    ours, theirs = mnk_v0.env(**CONNECT_FOUR), connect_four_v3.env()
    assert ours.possible_agents == theirs.possible_agents
    for agent in theirs.possible_agents:
        assert ours.observation_space(agent) == theirs.observation_space(agent)
        assert ours.action_space(agent) == theirs.action_space(agent)
    rng, results = np.random.default_rng(0), set()
    for _ in range(100):
        ours.reset()
        theirs.reset()
        while True:
            assert (ours.agent_selection, ours.agents) == (theirs.agent_selection, theirs.agents)
            assert (ours.terminations, ours.truncations) == (theirs.terminations, theirs.truncations)
            assert ours.rewards == theirs.rewards
            own, other = ours.last(), theirs.last()
            assert own[1:4] == other[1:4]
            is_over = own[2] or own[3]
            for name in ("observation",) if is_over else ("observation", "action_mask"):
                assert own[0][name].dtype == other[0][name].dtype
                assert_array_equal(own[0][name], other[0][name])
            if is_over:
                results.add((own[1], own[3]))
                break
            is_legal = rng.random() < legal_share
            action = int(rng.choice(np.flatnonzero(own[0]["action_mask"])) if is_legal else rng.integers(7))
            ours.step(action)
            theirs.step(action)
        for _ in range(2):
            ours.step(None)
            theirs.step(None)
        assert ours.agents == theirs.agents == []
    assert {reward for reward, _ in results} >= {-1}


@pytest.mark.parametrize("action", [-1, 7, 41, 2.0, True, "3"], ids=repr)
def test_actions_that_are_no_columns_are_rejected(action):
    env = mnk_v0.env(**CONNECT_FOUR)
    env.reset()
    with pytest.raises(AssertionError, match="is no column of a board of 6 x 7, choose a whole number from 0 to 6"):
        env.step(action)
    single = SingleEnv(**CONNECT_FOUR)
    single.reset()
    with pytest.raises(
        (TypeError, ValueError), match=r"is no column|not a whole number: an action is the index of a column"
    ):
        single.step(action)


# ---------------------------------------------------------------------------------------------------------------------
# Rules


def cells_of(env):
    """As the caller sees them, whatever the symmetry."""
    return (env.state()[..., :2] @ [1, 2]).ravel()


@pytest.mark.parametrize("variants", plain.COMBINATIONS, ids=plain.label_rules)
@pytest.mark.parametrize("games", [12, pytest.param(2_000, marks=pytest.mark.slow)])
def test_games_are_those_of_a_plain_reading(variants, games):
    rng = np.random.default_rng(0)
    boards = [((3, 3), 3), ((4, 5), 4), ((8, 9), 5)]  # the last has no bits
    for (size, win_length), symmetry in itertools.product(boards, ("none", "random")):
        env = mnk_v0.raw_env(size, win_length, 0.3, symmetry=symmetry, **variants)
        seed = int(rng.integers(1000))
        key = draw_key(np.random.default_rng(seed))
        env.reset(seed=seed)
        for episode in range(games if size != (8, 9) else -(-games // 12)):
            u = [
                uniform(np.uint64(splitmix64(key, episode)), rules.STREAM_SKIP, stones)
                for stones in range(env.game.cells)
            ]
            played, after = [], Game().cells
            while env.agents and not env.terminations[env.agent_selection]:
                action = int(rng.choice(env.legal_actions()))
                mover, before = env.infos["player_0"]["mover"], cells_of(env)
                env.step(action)
                [cell] = np.flatnonzero(cells_of(env) != before)
                played.append(int(cell))
                after = env.infos["player_0"]
                assert cells_of(env)[cell] == mover + 1
            cells, mover, winner, _ = plain.play_variant(env.game, played, u)
            assert_array_equal(cells_of(env), cells)
            assert (after["mover"], after["result"]) == (mover, winner)
            signs = {0: [1, -1], 1: [-1, 1], rules.DRAW: [0, 0]}
            assert list(env.rewards.values()) == signs[winner]
            env.reset()


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_column_is_dropped_in_a_mirrored_view_too(kind):
    columns = set()
    for seed in range(20):
        game = kind(size=(3, 4), win_length=3, gravity=True, symmetry="random")
        game.reset(seed=seed)
        [outcome] = game.chance_outcomes(0)
        columns.add(int(np.flatnonzero(outcome.position.cells)[0]))
        for _ in range(3):
            stones, mask, *_ = game.step(0)
        assert [stones[0][cell] + stones[1][cell] for cell in range(12)] == [1, 0, 0, 0] * 3
        assert mask == [0, 1, 1, 1]
        with pytest.raises(ValueError, match=r"action [03] is illegal, the column is full: choose another one"):
            game.chance_outcomes(0)
    assert columns == {8, 11}


def test_an_illegal_column_loses_is_penalized_or_raises():
    full = {"size": (2, 3), "win_length": 3, "gravity": True, "opponent": "self"}
    for illegal, expected in (("lose", (-1.0, True)), ("penalize", (-1.0, False))):
        env = SingleEnv(illegal_action=illegal, **full)
        env.reset()
        env.step(1)
        env.step(1)
        _, reward, terminated, _, info = env.step(1)
        assert (reward, terminated) == expected
    assert info["action_mask"].tolist() == [1, 0, 1]
    env = MNKVectorEnv(2, illegal_action="raise", **full)
    env.reset()
    env.step([1, 0])
    env.step([1, 0])
    with pytest.raises(ValueError, match=r"^game 0: action 1 is illegal, the column is full: choose another"):
        env.step([1, 1])
    with pytest.raises(ValueError, match=r"game 1: action 3 is no column of a board of 2 x 3: choose 0 to 2"):
        env.step([0, 3])


def test_openings_hold_under_gravity():
    env = SingleEnv(size=(3, 3), gravity=True, opponent="self", openings=["x../o../xo. o"], skip_chance=0.1)
    _, info = env.reset(seed=0)
    assert info["action_mask"].tolist() == [0, 1, 1]
    with pytest.raises(ValueError, match="holds a stone above an empty cell"):
        SingleEnv(size=(3, 3), gravity=True, openings=["o../.../... x"])
    aec = mnk_v0.env(size=(3, 3), gravity=True, openings=["x../o../xo. o"], skip_chance=0.1)
    aec.reset(seed=0)
    assert aec.legal_actions() == [1, 2]


# ---------------------------------------------------------------------------------------------------------------------
# Agents of other packages see columns


def test_external_agents_choose_columns():
    game = Game(3, 4, 3, gravity=True)
    boards = Boards.from_positions([from_text("o.../x.../o... x", game), from_text("..../..../.... o", game)])
    left = as_policy(lambda observation, mask: int(mask.argmax()), game)
    assert_array_equal(left.probabilities(boards).argmax(axis=1), [9, 8])
    weights = np.array([0.5, 0.25, 0.125, 0.125])
    shares = as_policy(lambda observation, mask: weights, game, returns="probabilities").probabilities(boards)
    assert_array_equal(np.flatnonzero(shares[0]), [9, 10, 11])
    np.testing.assert_allclose(shares[0, 9:], [0.5, 0.25, 0.25])
    np.testing.assert_allclose(shares[1, 8:], weights)
    with pytest.raises(ValueError, match=r"returned probabilities of shape \(12,\), not \(4,\)"):
        as_policy(lambda observation, mask: np.ones(12), game, returns="probabilities").probabilities(boards)
    env = ttt_envs.envs.single_env.SingleEnv(size=(3, 4), gravity=True, opponent=lambda observation, mask: 2)
    env.reset()
    observation, *_ = env.step(0)
    assert_array_equal(observation.reshape(2, 3, 4)[1, 2], [0, 0, 1, 0])


def test_cells_and_columns_are_mapped_both_ways():
    game = Game(2, 3, 2, gravity=True)
    cells = np.array([[0, 0, 1, 0, 2, 1], [0] * 6], np.int8)
    assert_array_equal(actions.legal_actions(game, cells), [[1, 1, 0], [1, 1, 1]])
    assert_array_equal(actions.actions_to_cells(game, cells, np.array([1, 1])), [1, 4])
    assert_array_equal(actions.actions_to_cells(game, cells, np.array([2, 2])), [-1, 5])
    assert_array_equal(actions.cells_to_actions(game, np.array([0, 4, 5])), [0, 1, 2])
