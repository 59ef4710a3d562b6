"""The PettingZoo environment: its wrappers' guards, OpenSpiel, and a plain reading of the board."""

import warnings

import numpy as np
import plain
import pytest
from gymnasium.utils import seeding
from gymnasium.utils.env_checker import data_equivalence
from numpy.testing import assert_array_equal
from pettingzoo.utils import wrappers
from pettingzoo.utils.env_logger import EnvLogger

from ttt_envs import Game, mnk_v0

AGENTS = ["player_0", "player_1"]


def make(rows=3, columns=3, win_length=3, skip_chance=0, **settings):
    return mnk_v0.env(size=(rows, columns), win_length=win_length, skip_chance=skip_chance, **settings)


def wrapped(**settings):
    """The same game with PettingZoo's guards around it, which ours has built in."""
    env = mnk_v0.raw_env(**settings)
    env = wrappers.TerminateIllegalWrapper(env, illegal_reward=-1)
    env = wrappers.AssertOutOfBoundsWrapper(env)
    return wrappers.OrderEnforcingWrapper(env)


def play(env, *actions):
    for action in actions:
        env.step(action)
    return env


def started(seed=0, **settings):
    env = mnk_v0.env(**settings)
    env.reset(seed=seed)
    return env


@pytest.fixture(autouse=True)
def _quiet():
    EnvLogger.suppress_output()
    EnvLogger.flush()
    yield
    EnvLogger.unsuppress_output()
    EnvLogger.flush()


def test_metadata_and_spaces():
    env = make()
    assert mnk_v0.__all__ == ["env", "raw_env"]
    assert env.metadata["name"] == "mnk_v0"
    assert set(env.metadata["render_modes"]) == {"human", "ansi", "rgb_array"}
    assert env.metadata["is_parallelizable"] is False
    assert env.possible_agents == AGENTS
    assert env.max_num_agents == 2
    for agent in AGENTS:
        assert env.observation_space(agent) is env.observation_space(agent)
        assert env.action_space(agent) is env.action_space(agent)
        assert env.observation_space(agent)["observation"].shape == (3, 3, 2)
        assert env.action_space(agent).n == 9
    assert str(env)


# ---------------------------------------------------------------------------------------------------------------------
# The guards, beside PettingZoo's wrappers


@pytest.fixture(params=[mnk_v0.env, wrapped], ids=["built in", "wrapped"])
def guarded(request):
    return request.param


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("step", (0,)), ("observe", ("player_0",)), ("state", ()), ("render", ()), ("agent_iter", ())],
)
def test_methods_raise_before_reset(guarded, name, arguments):
    env = guarded(render_mode="ansi")
    with pytest.raises(AssertionError, match=rf"reset\(\) needs to be called before {name}"):
        getattr(env, name)(*arguments)
    env.reset()
    getattr(env, name)(*arguments)


@pytest.mark.parametrize(
    "name", ["rewards", "terminations", "truncations", "infos", "agent_selection", "num_agents", "agents"]
)
def test_attributes_raise_before_reset(guarded, name):
    env = guarded()
    with pytest.raises(AttributeError, match=f"{name} cannot be accessed before reset"):
        getattr(env, name)
    assert not hasattr(env, name)
    env.reset()
    getattr(env, name)
    with pytest.raises(AttributeError):
        env.nothing_of_this_name  # noqa: B018


@pytest.mark.parametrize(
    "action", [9, -1, 10**30, -(10**30), 1.5, "a", None, np.int64(9), np.float64(1.0), np.array([1]), [1]], ids=repr
)
def test_actions_out_of_bounds_are_rejected(guarded, action):
    env = guarded()
    env.reset(seed=0)
    # early spaces of Gymnasium cannot even compare such numbers
    too_large = isinstance(action, int) and abs(action) > 1 << 63
    rejected = (AssertionError, OverflowError) if too_large else AssertionError
    with pytest.raises(rejected, match="^action is not in action space" + "|too large to convert" * too_large):
        env.step(action)
    if guarded is mnk_v0.env:
        with pytest.raises(rejected, match="is no cell of a board of 3 x 3" + "|too large to convert" * too_large):
            env.step(action)
    assert env.agents == AGENTS
    assert_array_equal(env.observe("player_0")["action_mask"], 1)
    env.step(3)
    assert env.agent_selection == "player_1"


@pytest.mark.parametrize("action", [np.int8(1), np.uint16(1), np.array(1)], ids=repr)
def test_every_number_of_the_action_space_is_an_action(guarded, action):
    env = guarded()
    env.reset(seed=0)
    env.step(action)
    assert_array_equal(np.flatnonzero(env.observe("player_1")["action_mask"] == 0), 1)


def test_agent_iter_needs_a_step_or_reset_in_between(guarded):
    env = guarded()
    env.reset()
    agents = iter(env.agent_iter())
    assert next(agents) == "player_0"
    with pytest.raises(AssertionError, match=r"need to call step\(\) or reset\(\) in a loop over `agent_iter`"):
        next(agents)
    env.step(0)
    env.reset()
    assert list(zip(range(3), env.agent_iter(max_iter=1), strict=False)) == [(0, "player_0")]


def leave(env):
    """Step both agents of a finished game out, and what was seen on the way."""
    seen = []
    while env.agents:
        agent = env.agent_selection
        seen.append((agent, env.last(observe=False)[1:4], list(env.agents), dict(env.rewards)))
        env.step(None)
    return seen


@pytest.mark.parametrize("moves", [(0, 0), (0, 1, 0), (4, 0, 1, 0)])
def test_illegal_moves_lose_as_in_the_wrapper(moves):
    seen = []
    for env in (mnk_v0.env(), wrapped()):
        env.reset(seed=0)
        play(env, *moves)
        loser = AGENTS[(len(moves) - 1) % 2]
        other = AGENTS[len(moves) % 2]
        assert any("Illegal move made" in str(message) for message in EnvLogger.mqueue)
        EnvLogger.flush()
        assert env.rewards == {loser: -1, other: 0}
        assert env.terminations == env.truncations == dict.fromkeys(AGENTS, True)
        cells = env.unwrapped.state()[:, :, :2].copy()
        ends = leave(env)
        assert {agent: reward for agent, (reward, _, _), *_ in ends} == {loser: -1, other: 0}
        seen.append((cells.tolist(), [(agent, flags, agents) for agent, flags, agents, _ in ends]))
    assert seen[0] == seen[1]


@pytest.mark.parametrize("moves", [(0, 3, 1, 4, 2), (0, 3, 1, 4, 8, 5), (0, 1, 2, 4, 3, 5, 7, 6, 8)])
def test_a_game_ends_as_in_the_wrappers(moves):
    seen = []
    for env in (mnk_v0.env(), wrapped()):
        env.reset(seed=0)
        steps = []
        for move in moves:
            steps.append((env.agent_selection, env.last(observe=False), dict(env.rewards)))
            env.step(move)
        steps.append(leave(env))
        assert env.agents == []
        assert env.rewards == env.terminations == env.truncations == env.infos == {}
        env.step(None)
        assert "step() called after all agents are terminated" in str(EnvLogger.mqueue[-1])
        EnvLogger.flush()
        env.reset()
        assert env.agents == AGENTS
        seen.append(steps)
    assert data_equivalence(*seen)


def test_after_the_end_only_none_is_an_action(guarded):
    env = guarded()
    env.reset()
    play(env, 0, 3, 1, 4, 2)
    with pytest.raises(ValueError, match="when an agent is dead, the only valid action is None"):
        env.step(5)
    assert len(leave(env)) == 2


# ---------------------------------------------------------------------------------------------------------------------
# Observations and ends of games


def ending_of(env, actions, other):
    """Return the observations, step by step, until both agents have left; agents are named after ``other``'s."""
    names = dict(zip(AGENTS, other.possible_agents, strict=True))
    seen = []
    for one, name in ((env, names), (other, {agent: agent for agent in other.possible_agents})):
        one.reset(seed=0)
        left, steps = list(actions), []
        while one.agents:
            agent = one.agent_selection
            observation, reward, terminated, truncated, _ = one.last()
            mask = observation["action_mask"] * (not terminated)  # theirs lists the empty cells of finished games
            steps.append((name[agent], list(observation), observation["observation"].tolist(), mask.tolist()))
            steps.append((reward, terminated, truncated, {name[key]: value for key, value in one.rewards.items()}))
            one.step(None if terminated or truncated else left.pop(0))
        steps.append(name[one.agent_selection])
        seen.append(steps)
    return seen


@pytest.mark.parametrize("games", [200, pytest.param(10_000, marks=pytest.mark.slow)])
def test_games_end_as_in_pettingzoos_tictactoe(games):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        tictactoe = pytest.importorskip("pettingzoo.classic.tictactoe_v3")
    env, other = mnk_v0.env(), tictactoe.raw_env()
    rng = np.random.default_rng(0)
    ours, theirs = ending_of(env, (0, 3, 1, 4, 2), other)
    assert ours == theirs
    assert theirs[10][0] == "player_2"  # the opponent of the last mover
    spaces = env.observation_space("player_0"), other.observation_space("player_1")
    assert list(spaces[0]) == list(spaces[1])
    assert spaces[0] == spaces[1]
    for _ in range(games):
        ours, theirs = ending_of(env, rng.permutation(9).tolist(), other)
        assert ours == theirs


def test_own_stones_come_first_and_only_the_mover_has_a_mask():
    env = play(started(size=(2, 3), win_length=3), 5, 0)
    first, second = env.observe("player_0"), env.observe("player_1")
    assert first["observation"][:, :, 0].tolist() == [[0, 0, 0], [0, 0, 1]]
    assert first["observation"][:, :, 1].tolist() == [[1, 0, 0], [0, 0, 0]]
    assert_array_equal(second["observation"], first["observation"][:, :, ::-1])
    assert first["action_mask"].tolist() == [0, 1, 1, 1, 1, 0]
    assert not second["action_mask"].any()
    for observation in (first, second):
        assert {name: array.dtype for name, array in observation.items()} == dict.fromkeys(observation, np.int8)
        assert env.observation_space("player_0").contains(observation)
    state = env.state()
    assert env.state_space.contains(state)
    assert_array_equal(state[:, :, :2], first["observation"])
    assert_array_equal(state[:, :, 2], 0)


def test_legal_actions_are_those_of_the_mask():
    env = started()
    for action in (0, 3, 1, 4):
        assert env.legal_actions() == np.flatnonzero(env.last()[0]["action_mask"]).tolist()
        env.step(action)
    assert env.legal_actions() == [2, 5, 6, 7, 8]
    env.step(2)
    assert env.legal_actions() == []


# ---------------------------------------------------------------------------------------------------------------------
# Copies of a game, and what may follow


def test_a_finished_game_is_restored_with_its_agents_and_rewards():
    env = play(started(), 0, 3, 1, 4)
    state = env.clone_state(include_rng=True)
    play(env, 2)
    env.restore_state(state)
    assert env.terminations == dict.fromkeys(AGENTS, False)
    assert env.infos["player_0"]["result"] == -1
    play(env, 2)
    finished = env.clone_state(include_rng=True)
    leave(env)
    env.restore_state(finished)
    assert env.infos["player_0"]["result"] == 0
    assert [reward for _, (reward, *_), *_ in leave(env)] == [-1, 1]
    env = mnk_v0.env()  # not reset yet
    env.restore_state(finished, seed=0)
    assert [reward for _, (reward, *_), *_ in leave(env)] == [-1, 1]


# ---------------------------------------------------------------------------------------------------------------------
# Stone by stone

BOARDS = [(3, 3, 3), (4, 4, 4), (4, 5, 4), (3, 7, 3), (7, 5, 4)]


def compare(env, referee, games, seed):
    """Play random games, and hold every position to the referee: legal actions, player, end and returns."""
    rng = np.random.default_rng(seed)
    env.reset(seed=seed)
    moves = 0
    for episode in range(games):
        state = referee(episode)
        order = rng.random(env.game.cells).tolist()
        while True:
            mask = env.observe(env.agent_selection)["action_mask"]
            legal = state.legal_actions()
            assert np.flatnonzero(mask).tolist() == legal
            if not legal:
                break
            assert state.current_player() == int(env.agent_selection[-1])
            assert not any(env.terminations.values())
            action = max(legal, key=order.__getitem__)
            state.apply_action(action)
            env.step(action)
            moves += 1
        assert state.is_terminal()
        assert all(env.terminations.values())
        assert [env.rewards[agent] for agent in AGENTS] == state.returns()
        env.reset()
    return moves


quick_and_slow = pytest.mark.parametrize("games", [1_000, pytest.param(100_000, marks=pytest.mark.slow)])


@quick_and_slow
@pytest.mark.parametrize("board", BOARDS, ids=str)
def test_games_agree_with_openspiel(board, games):
    pyspiel = pytest.importorskip("pyspiel")
    rows, columns, win_length = board
    name = "tic_tac_toe" if board == (3, 3, 3) else f"mnk(m={columns},n={rows},k={win_length})"
    other = pyspiel.load_game(name)
    assert compare(make(*board), lambda _: other.new_initial_state(), games, seed=1) > games * win_length


@quick_and_slow
@pytest.mark.parametrize("board", BOARDS, ids=str)
def test_games_with_skips_agree_with_reading_the_board(board, games):
    game = Game(*board, skip_chance=0.25)
    lines = plain.all_lines(game)
    key = int(seeding.np_random(2)[0].integers(0, 1 << 64, dtype=np.uint64))  # an environment draws its key so
    readings = []

    def referee(episode):
        readings.append(plain.Reading(game, lines, plain.splitmix64(key, episode)))
        return readings[-1]

    moves = compare(make(*board, 0.25), referee, games, seed=2)
    turns, skips = moves - games, sum(reading.skips for reading in readings)
    assert abs(skips / turns - 0.25) < 4 * (0.25 * 0.75 / turns) ** 0.5
