"""Environments of phantom games: beside plain Python, OpenSpiel, and each other."""

import numpy as np
import phantoms
import pytest
from environment_contract import KINDS
from gymnasium.utils import seeding
from numpy.testing import assert_array_equal
from players import Uniform

from ttt_envs import Game, PhantomGame, make_policy, mnk_v0
from ttt_envs.core.random import draw_key, splitmix64, uniform
from ttt_envs.envs.single_env import SingleEnv
from ttt_envs.envs.vector_env import MNKVectorEnv
from ttt_envs.game.rules import STREAM_SKIP

SETTINGS = [{}, {"skip_chance": 0.25}, {"size": (2, 4), "skip_chance": 0.1}, {"size": (7, 5), "win_length": 4}]
SETTINGS += [{"misere": True}]


def planes(view, player):
    """Own stones and found ones of a view [cells]."""
    return [[int(stone == player + 1) for stone in view], [int(stone == 2 - player) for stone in view]]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_agents_see_the_views_of_plain_python(kind, hidden, settings):
    env = KINDS[kind](phantom=hidden, **settings)
    game = PhantomGame(Game.of_size(**{"win_length": 3, **settings}), hidden)
    rng = np.random.default_rng(0)
    key = draw_key(seeding.np_random(5)[0])
    shown = env.reset(seed=5)
    for episode in range(8):
        state, stones = phantoms.start(game), 0
        episode_key = np.uint64(splitmix64(np.uint64(key), episode))
        while state.winner is None:
            seen, mask, _, info = shown
            assert seen == planes(state.view(state.mover), state.mover)
            assert [cell for cell, legal in enumerate(mask) if legal] == state.legal()
            assert info == {"mover": state.mover, "result": -1, "winner": -1}
            cell, mover = int(rng.choice(state.legal())), state.mover
            skipped = game.skip_chance > 0 and uniform(episode_key, STREAM_SKIP, stones) < game.skip_chance
            state, observation = phantoms.plain_attempt(game, state, cell, skipped)
            stones += observation != "failed"
            shown = env.step(cell)
        assert shown[3]["result"] == state.winner
        assert shown[2] == phantoms.result(state, mover)
        assert all(shown[1])
        shown = env.reset()


def test_the_agent_environment_is_openspiels(hidden):
    """Observations, masks, turns and rewards, step by step; an agent's view does not change in the other's turn."""
    pyspiel = pytest.importorskip("pyspiel")
    theirs = pyspiel.load_game("phantom_ttt", {"gameversion": {"classic": "classical", "abrupt": "abrupt"}[hidden]})
    env, rng = mnk_v0.env(phantom=hidden), np.random.default_rng(0)
    env.reset(seed=0)
    for _ in range(300):
        state = theirs.new_initial_state()
        for agent in env.agent_iter():
            observation, _, over, _, _ = env.last()
            assert over == state.is_terminal()
            if over:
                assert list(env.rewards.values()) == state.returns()
                break
            assert agent == f"player_{state.current_player()}"
            for player in (0, 1):
                text = state.observation_string(player).replace("\n", "")
                seen = env.observe(f"player_{player}")["observation"].reshape(9, 2)
                assert_array_equal(seen[:, 0], [letter == "xo"[player] for letter in text])
                assert_array_equal(seen[:, 1], [letter == "ox"[player] for letter in text])
            legal = np.flatnonzero(observation["action_mask"])
            assert legal.tolist() == state.legal_actions()
            action = int(rng.choice(legal))
            env.step(action)
            state.apply_action(action)
        env.reset()


@pytest.mark.parametrize("settings", [{}, {"skip_chance": 0.3, "symmetry": "random"}, {"size": (6, 7)}], ids=str)
def test_replies_and_vectors_are_those_of_single_games(hidden, settings):
    """Replies of the kernel are the policy's own, and games of a vector those of single environments."""
    common = {"phantom": hidden, "seat": "alternate", "observation": "dict", **settings}
    vector = MNKVectorEnv(4, **common, opponent="random", autoreset_mode="Disabled")
    asked = MNKVectorEnv(4, **common, opponent=Uniform(), autoreset_mode="Disabled")
    singles = [SingleEnv(**common) for _ in range(4)]
    rng, over = np.random.default_rng(0), np.ones(4, bool)
    outputs = [env.reset(seed=3) for env in (vector, asked)]
    alone = [env.reset(seed=3 + i) for i, env in enumerate(singles)]
    for _ in range(150):
        for name, array in outputs[0][0].items():
            assert_array_equal(array, outputs[1][0][name])
            assert_array_equal(array, [one[0][name] for one in alone])
        for name in ("mover", "seat", "result"):
            assert_array_equal(outputs[0][-1][name], outputs[1][-1][name])
        mask = vector.action_masks()
        actions = np.argmax(mask * rng.random(mask.shape), axis=1)
        outputs = [env.step(actions) for env in (vector, asked)]
        alone = [env.step(action) for env, action in zip(singles, actions, strict=True)]
        assert_array_equal(outputs[0][1], outputs[1][1])
        assert_array_equal(outputs[0][1], [one[1] for one in alone])
        over = outputs[0][2]
        assert_array_equal(over, [one[2] for one in alone])
        if over.any():
            outputs = [env.reset(options={"reset_mask": over}) for env in (vector, asked)]
            alone = [(env.reset() if ended else one) for env, one, ended in zip(singles, alone, over, strict=True)]
            for output in outputs:  # infos of the others are zeros
                output[-1]["result"][~over] = -1
            outputs = [(output[0], {**output[-1], "mover": 0, "seat": 0}) for output in outputs]


@pytest.mark.parametrize("kind", ["single", "vector"])
@pytest.mark.parametrize("own", [True, False], ids=["own-stone", "found-stone"])
def test_illegal_actions(kind, own):
    """Cells of own and of found stones are illegal, and any other cell is legal."""

    def middle(**settings):
        env = KINDS[kind](phantom="classic", **settings)
        env.reset(seed=0)
        for action in (0, 4, 4):
            shown = env.step(action)  # o on 0, x on 4, and o finds it
        assert shown[0] == [[1] + 8 * [0], [0, 0, 0, 0, 1, 0, 0, 0, 0]]
        assert shown[3]["mover"] == 0
        return env

    cell = 0 if own else 4
    assert middle(illegal_action="lose").step(cell)[2:] == (-1.0, {"mover": 0, "result": 3, "winner": 1})
    env = middle(illegal_action="penalize")
    assert env.step(cell)[2:] == (-1.0, {"mover": 0, "result": -1, "winner": -1})
    assert env.step(1)[3]["mover"] == 1
    with pytest.raises(ValueError, match=rf"action {cell} is illegal, the cell holds a stone"):
        middle(illegal_action="raise").step(cell)


@pytest.mark.filterwarnings("ignore")  # of the illegal move
def test_an_illegal_action_of_an_agent_ends_the_game():
    env = mnk_v0.env(phantom="classic")
    env.reset()
    for action in (0, 4, 4, 4):
        env.step(action)
    assert env.rewards == {"player_0": -1.0, "player_1": 0.0}
    assert all(env.terminations.values())


@pytest.mark.parametrize("symmetry", ["none", "random"])
def test_the_state_has_all_stones(symmetry):
    env = mnk_v0.env(phantom="abrupt", symmetry=symmetry)
    env.reset(seed=2)
    for action in (0, 4, 4, 8):  # o's second attempt fails
        env.step(action)
    state = env.state()
    assert env.state_space.contains(state)
    own, other = np.zeros((2, 9), int)
    own[0], other[[4, 8]] = 1, 1
    found = np.zeros(9, int)
    found[4] = 1
    assert_array_equal(state.reshape(9, 4).T, [own, other, found, np.zeros(9, int)])
    assert_array_equal(env.observe("player_0")["observation"].reshape(9, 2).T, [own, found])
    assert_array_equal(env.observe("player_1")["observation"].reshape(9, 2).T, [other, np.zeros(9)])


def test_a_peeking_opponent_never_fails_and_others_see_no_hidden_stone():
    """Perfect play that sees all stones does not lose, and an opponent by views is asked about views only."""
    env = MNKVectorEnv(50, phantom="classic", opponent="optimal:peeking=true", seat="alternate", observation="dict")
    asked = []

    class Recorder(Uniform):
        def probabilities(self, boards, rng=None):
            asked.append(boards)
            return super().probabilities(boards)

    views = MNKVectorEnv(50, phantom="classic", opponent=Recorder(), observation="dict")
    rng = np.random.default_rng(0)
    for one in (env, views):
        one.reset(seed=0)
        for _ in range(40):
            mask = one.action_masks()
            _, rewards, *_ = one.step(np.argmax(mask * rng.random(mask.shape), axis=1))
            assert one is views or rewards.max() <= 0
    state = env.clone_state()
    assert not state["found"][state["cells"] == 1 + state["seat"][:, None]].any()
    first = asked[0].cells
    assert not (first == 1).any()  # x has not yet found o's first stone
    assert str(make_policy("optimal:peeking=true", PhantomGame(kind="classic"))) == "optimal:peeking=true"


def test_what_reads_the_whole_board_is_refused_by_name():
    game = PhantomGame(kind="abrupt")
    with pytest.raises(ValueError, match="peeking='maybe' is not true or false"):
        make_policy("optimal:peeking=maybe", game)
    with pytest.raises(ValueError, match=r"optimal does not take .*'peekingly'"):
        make_policy("optimal:peeking=true,peekingly=3", game)
    with pytest.raises(ValueError, match="reads the whole board"):
        make_policy("optimal:peeking=false", game)
    with pytest.raises(ValueError, match="opponent's stones are hidden"):
        KINDS["aec"](phantom="classic").env.chance_outcomes(0)
    assert {str(make_policy("win-or-block:peeking=false", of)) for of in (game, game.game)} == {"win-or-block"}
    peeking = make_policy("optimal:epsilon=0.1,peeking=true", game)
    assert str(peeking) == "optimal:epsilon=0.1,peeking=true"
