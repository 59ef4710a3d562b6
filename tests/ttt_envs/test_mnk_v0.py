"""The PettingZoo environment beside PettingZoo's own wrappers and games, and OpenSpiel."""

import warnings

import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence
from numpy.testing import assert_array_equal
from pettingzoo.utils import wrappers
from pettingzoo.utils.env_logger import EnvLogger

from ttt_envs import mnk_v0

AGENTS = ["player_0", "player_1"]
CONNECT_FOUR = {"size": (6, 7), "win_length": 4, "gravity": True}


def wrapped(**settings):
    """The same game with PettingZoo's guards around it, which ours has built in."""
    env = mnk_v0.raw_env(**settings)
    env = wrappers.TerminateIllegalWrapper(env, illegal_reward=-1)
    env = wrappers.AssertOutOfBoundsWrapper(env)
    return wrappers.OrderEnforcingWrapper(env)


@pytest.fixture(autouse=True)
def _quiet():
    EnvLogger.suppress_output()
    EnvLogger.flush()
    yield
    EnvLogger.unsuppress_output()
    EnvLogger.flush()


@pytest.fixture(params=[mnk_v0.env, wrapped], ids=["built in", "wrapped"])
def guarded(request):
    return request.param


# --------------------------------------------------------------------------------------------------
# The guards, beside PettingZoo's wrappers


def test_methods_and_attributes_raise_before_reset(guarded):
    env = guarded(render_mode="ansi")
    calls = {"step": (0,), "observe": ("player_0",), "state": (), "render": (), "agent_iter": ()}
    names = (
        "rewards",
        "terminations",
        "truncations",
        "infos",
        "agent_selection",
        "num_agents",
        "agents",
    )
    for name, arguments in calls.items():
        with pytest.raises(AssertionError, match=rf"reset\(\) needs to be called before {name}"):
            getattr(env, name)(*arguments)
    for name in names:
        with pytest.raises(AttributeError, match=f"{name} cannot be accessed before reset"):
            getattr(env, name)
    env.reset()
    for name, arguments in calls.items():
        getattr(env, name)(*arguments)
    for name in names:
        getattr(env, name)
    assert not hasattr(env, "nothing_of_this_name")


@pytest.mark.parametrize(
    "action", [9, -1, 10**30, 1.5, "a", None, np.int64(9), np.float64(1.0), np.array([1])], ids=repr
)
def test_what_is_no_action_is_refused(guarded, action):
    env = guarded()
    env.reset(seed=0)
    # early spaces of Gymnasium cannot even compare such numbers
    with pytest.raises((AssertionError, OverflowError) if action == 10**30 else AssertionError):
        env.step(action)
    assert_array_equal(env.observe("player_0")["action_mask"], 1)
    env.step(np.uint16(3))
    assert env.agent_selection == "player_1"


def test_agent_iter_needs_a_step_or_reset_in_between(guarded):
    env = guarded()
    env.reset()
    agents = iter(env.agent_iter())
    assert next(agents) == "player_0"
    with pytest.raises(AssertionError, match=r"need to call step\(\) or reset\(\)"):
        next(agents)
    env.step(0)
    env.reset()
    assert list(zip(range(3), env.agent_iter(max_iter=1), strict=False)) == [(0, "player_0")]


MOVES = [(0, 0), (4, 0, 1, 0), (0, 3, 1, 4, 2), (0, 3, 1, 4, 8, 5), (0, 1, 2, 4, 3, 5, 7, 6, 8)]


@pytest.mark.parametrize("moves", MOVES)
def test_a_game_ends_as_in_the_wrappers(moves):
    """By an illegal move, which the logger says, a line or a draw; then only None is an action, and
    reset begins.
    """
    traces = []
    for env in (mnk_v0.env(), wrapped()):
        env.reset(seed=0)
        steps = []
        for move in moves:
            steps.append((env.agent_selection, env.last(observe=False)[1:4], dict(env.rewards)))
            env.step(move)
        assert any("Illegal move" in str(message) for message in EnvLogger.mqueue) == (
            len(set(moves)) < len(moves)
        )
        steps.append(env.unwrapped.state()[:, :, :2].tolist())
        with pytest.raises(ValueError, match="the only valid action is None"):
            env.step(5)
        while env.agents:
            steps.append(
                (
                    env.agent_selection,
                    env.last(observe=False)[1:4],
                    list(env.agents),
                    dict(env.terminations),
                )
            )
            env.step(None)
        assert env.rewards == env.terminations == env.truncations == env.infos == {}
        env.step(None)
        assert "after all agents are terminated" in str(EnvLogger.mqueue[-1])
        EnvLogger.flush()
        env.reset()
        assert env.agents == AGENTS
        traces.append(steps)
    assert data_equivalence(*traces)


def test_a_finished_game_is_restored_with_its_agents_and_rewards_and_last_move():
    env = mnk_v0.env(render_mode="ansi")
    env.reset(seed=0)
    for action in (0, 3, 1, 4, 2):
        env.step(action)
    state = env.clone_state(include_rng=True)
    text = env.render()
    assert "last move" in text
    for again in (env, mnk_v0.env(render_mode="ansi")):  # the other one is not reset yet
        again.restore_state(state, seed=0)
        assert again.render() == text
        rewards = []
        while again.agents:
            rewards.append(again.last()[1])
            again.step(None)
        assert rewards == [-1, 1]


# --------------------------------------------------------------------------------------------------
# The same games elsewhere


def trace_of(env, actions, agents):
    """What both agents see and get until they have left, the masks of finished games apart; agents
    by number.
    """
    env.reset(seed=0)
    remaining = list(actions)
    steps = []
    while env.agents:
        observation, reward, terminated, truncated, _ = env.last()
        is_over = terminated or truncated
        mask = observation["action_mask"] * (not is_over)  # theirs lists the empty cells
        steps.append(
            (agents.index(env.agent_selection), observation["observation"].tolist(), mask.tolist())
        )
        steps.append(
            (
                reward,
                terminated,
                truncated,
                {agents.index(key): value for key, value in env.rewards.items()},
            )
        )
        env.step(None if is_over else remaining.pop(0))
    return steps


def test_games_are_those_of_pettingzoos_tictactoe():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        tictactoe = pytest.importorskip("pettingzoo.classic.tictactoe_v3")
    env = mnk_v0.env()
    other = tictactoe.raw_env()
    rng = np.random.default_rng(0)
    assert env.observation_space("player_0") == other.observation_space("player_1")
    for _ in range(100):
        actions = rng.permutation(9).tolist()
        assert trace_of(env, actions, AGENTS) == trace_of(other, actions, other.possible_agents)


@pytest.mark.filterwarnings("ignore")  # both warn of illegal moves
@pytest.mark.parametrize("legal_share", [1.0, 0.98])
def test_games_are_those_of_pettingzoos_connect_four(legal_share):
    pytest.importorskip("pygame")  # which PettingZoo's games import
    from pettingzoo.classic.connect_four import connect_four as connect_four_v3

    our_values = mnk_v0.env(**CONNECT_FOUR)
    peer = connect_four_v3.env()
    rng = np.random.default_rng(0)
    for agent in peer.possible_agents:
        assert our_values.observation_space(agent) == peer.observation_space(agent)
        assert our_values.action_space(agent) == peer.action_space(agent)
    for _ in range(60):
        columns = rng.permutation(np.repeat(np.arange(7), 6))
        columns = np.where(rng.random(42) < legal_share, columns, rng.integers(7, size=42)).tolist()
        assert trace_of(our_values, columns, AGENTS) == trace_of(
            peer, columns, peer.possible_agents
        )
        first, second, _ = np.moveaxis(our_values.state(), 2, 0)
        assert_array_equal((first + 2 * second).ravel(), np.ravel(peer.unwrapped.board))


def test_phantom_games_are_those_of_openspiel(hidden):
    """Legal actions, player, ends and returns; an agent's view does not change in the other's turn,
    either.
    """
    pyspiel = pytest.importorskip("pyspiel")
    game = pyspiel.load_game(
        "phantom_ttt", {"gameversion": {"classic": "classical", "abrupt": "abrupt"}[hidden]}
    )
    env = mnk_v0.env(phantom=hidden)
    rng = np.random.default_rng(0)
    for _ in range(200):
        state = game.new_initial_state()
        env.reset()
        while not state.is_terminal():
            assert env.agent_selection == AGENTS[state.current_player()]
            assert not any(env.terminations.values())
            for player in (0, 1):
                text = state.observation_string(player).replace("\n", "")
                planes = env.observe(AGENTS[player])["observation"].reshape(9, 2)
                assert_array_equal(planes[:, 0], [letter == "xo"[player] for letter in text])
                assert_array_equal(planes[:, 1], [letter == "ox"[player] for letter in text])
            legal = np.flatnonzero(env.observe(env.agent_selection)["action_mask"]).tolist()
            assert legal == state.legal_actions()
            action = int(rng.choice(legal))
            state.apply_action(action)
            env.step(action)
        assert all(env.terminations.values())
        assert list(env.rewards.values()) == state.returns()


@pytest.mark.parametrize("symmetry", ["none", "random"])
def test_the_state_has_all_stones_and_the_found_ones(symmetry):
    env = mnk_v0.env(phantom="abrupt", symmetry=symmetry)
    env.reset(seed=2)
    for action in (0, 4, 4, 8):  # o's second attempt fails
        env.step(action)
    assert env.state_space.contains(env.state())
    assert [np.flatnonzero(plane).tolist() for plane in env.state().reshape(9, 4).T] == [
        [0],
        [4, 8],
        [4],
        [],
    ]
