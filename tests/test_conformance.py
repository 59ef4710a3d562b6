"""One list of promises for every policy that has a name; a new one is tested the moment it is registered."""

import importlib
import inspect

import numpy as np
import plain
import pytest
import tiny
from numpy.testing import assert_allclose, assert_array_equal

from baselines.opening_book import Made, make_book
from learners import LEARNERS
from ttt_envs import Boards, Game, Policy, act, make_policy
from ttt_envs.policy import sample
from ttt_envs.single_env import SingleEnv
from ttt_envs.specs import POLICIES, load_object

GAMES = [Game(), Game(skip_chance=0.25), Game(4, 6, 4, 0.1), Game(1, 5, 3), Game(15, 15, 5)]
BY_TABLE = ("hooi", "hosvd", "hosvd2", "optimal", "svd", "table", "tt")
"""play boards that a table holds, and no larger ones"""
LARGE = 16  # cells, above which there is no table
DRAWING = ("mcts", "timed")
"""draw numbers when they think: not pure"""
CHEAP = {"timed": "timed:move=60,max-depth=2"}
"""as they are held to the promises, where the defaults take long"""
CLOCKED = ("timed:move=0.001", "timed:mcts,move=0.001")
"""what they think depends on the machine"""
MODELS = {"DQN": "stable_baselines3", "PPO": "stable_baselines3", "MaskablePPO": "sb3_contrib"}


def needs_arguments(name):
    parameters = list(inspect.signature(load_object(POLICIES[name])).parameters.values())[1:]
    return any(parameter.default is parameter.empty for parameter in parameters)


NAMES = [name for name in sorted(POLICIES) if not needs_arguments(name)]
CASES = [
    *[
        pytest.param((name, game), id=f"{name}-{game}")
        for name in NAMES
        for game in GAMES
        if name not in BY_TABLE or game.cells <= LARGE
    ],
    *[
        pytest.param((f"run:{learner}", tiny.GAME), id=f"run:{learner}", marks=tiny.case(learner).marks)
        for learner in sorted(LEARNERS)
    ],
    *[pytest.param(("book:optimal", game), id=f"book-{game}") for game in GAMES[:2]],
    *[pytest.param((name, game), id=f"{name}-{game}") for name in CLOCKED for game in GAMES[1:3]],
    pytest.param(("timed:mcts,move=60,max-depth=20", GAMES[1]), id="timed:mcts"),
    *[
        pytest.param((f"sb3:{name}", Game()), id=f"sb3:{name}", marks=pytest.mark.needs("torch", package))
        for name, package in MODELS.items()
    ],
]
PURE = [case for case in CASES if case.values[0][0].partition(":")[0] not in DRAWING]
REPEATABLE = [case for case in CASES if case.values[0][0] not in CLOCKED]


@pytest.fixture(scope="module", params=CASES)
def case(request):
    return request.param


@pytest.fixture
def game(case):
    return case[1]


@pytest.fixture(scope="module")
def policy(case, tiny_run, tmp_path_factory):
    """By its name; of what is learned, by the path of a tiny run, or of a model of Stable-Baselines3."""
    name, game = case
    kind, _, what = name.partition(":")
    if kind == "run":
        name = f"run:{tiny_run(what)}"
    elif kind == "book":
        path = tmp_path_factory.mktemp("book") / "a.book"
        seen = plain.positions_of_random_play(game, 256)
        values = make_policy(what, game).probabilities(seen)
        results = np.tile(np.array([[3, 2, 1]]), (256, 1))
        make_book(game, [Made(seen, values.argmax(axis=1), results)], plies=5).write(path)
        name = f"book:path={path},choose=ucb,then={what}"
    elif kind == "sb3":
        model = getattr(importlib.import_module(MODELS[what]), what)
        path = tmp_path_factory.mktemp("model") / "model.zip"
        model("MlpPolicy", SingleEnv(), seed=0, device="cpu", policy_kwargs={"net_arch": [4]}).save(path)
        algorithm = {"DQN": "dqn", "PPO": "ppo", "MaskablePPO": "maskable-ppo"}[what]
        name = f"sb3:{path},algorithm={algorithm},trust=true"
    return make_policy(CHEAP.get(name, name), game)


@pytest.fixture
def boards(game):
    return plain.positions_of_random_play(game, 64)


def probabilities(policy, boards, seed=0):
    return policy.probabilities(boards, None if policy.pure else np.random.default_rng(seed))


def test_whatever_has_a_name_is_here():
    with_arguments = {name for name in POLICIES if needs_arguments(name)}
    assert with_arguments == {"book", "run", "sb3"}
    assert {*BY_TABLE, *DRAWING} <= set(NAMES)


@pytest.mark.parametrize("name", BY_TABLE)
@pytest.mark.parametrize("game", [game for game in GAMES if game.cells > LARGE], ids=str)
def test_a_board_without_a_table_is_refused(name, game):
    with pytest.raises(ValueError, match=f"a board of {game.rows} x {game.columns} is too large"):
        make_policy(name, game)


def test_only_legal_moves_and_all_of_the_probability(policy, case, game, boards):
    assert isinstance(policy, Policy)
    assert policy.pure == (case[0].partition(":")[0] not in DRAWING)
    p = probabilities(policy, boards)
    assert p.dtype == np.float64
    assert p.shape == (64, game.cells)
    assert (p >= 0).all()
    assert (p[boards.cells != 0] == 0).all()
    assert_allclose(p.sum(axis=1), 1, rtol=1e-12)


def test_the_boards_are_not_changed(policy, boards):
    before = [array.copy() for array in boards]
    frozen = Boards(*(array.copy() for array in boards))
    probabilities(policy, frozen)
    act(policy, frozen, np.random.default_rng(0))
    for array, was in zip(frozen, before, strict=True):
        assert_array_equal(array, was)


@pytest.mark.parametrize("case", PURE, indirect=True)
def test_a_pure_policy_looks_at_each_board_alone(policy, boards):
    p = probabilities(policy, boards)
    order = np.random.default_rng(1).permutation(64)
    assert_allclose(probabilities(policy, boards.take(order)), p[order], atol=1e-12)
    assert_allclose(probabilities(policy, boards), p, atol=1e-12)
    for row in range(0, 64, 9):
        assert_allclose(probabilities(policy, boards.take(np.array([row])))[0], p[row], atol=1e-12)


@pytest.mark.parametrize("case", PURE, indirect=True)
def test_a_draw_takes_exactly_one_uniform_number_per_position(policy, boards):
    rng, other = np.random.default_rng(2), np.random.default_rng(2)
    actions = act(policy, boards, rng)
    other.random(64)
    assert actions.dtype == np.int64
    assert actions.shape == (64,)
    assert rng.bit_generator.state == other.bit_generator.state


@pytest.mark.parametrize("case", REPEATABLE, indirect=True)
def test_moves_are_drawn_from_the_probabilities(policy, boards):
    """The frequencies of `act` are those of drawing from `probabilities`, within 5 standard errors."""
    count = 2000 if policy.pure else 200
    for row in range(4):
        many = boards.take(np.full(count, row))
        many_p = probabilities(policy, many, seed=3)  # of what is not pure, from the numbers that `act` gets
        p = many_p.mean(axis=0)
        for draws in (
            act(policy, many, np.random.default_rng(3)),
            sample(many_p, np.random.default_rng(3).random(count)),
        ):
            shares = np.bincount(draws, minlength=len(p)) / count
            assert (shares[p == 0] == 0).all()
            few = 0 if policy.pure else 3 / count  # of few draws, those of a rare move are not normal
            assert (abs(shares - p) <= 5 * np.sqrt(p * (1 - p) / count) + few + 1e-12).all()


@pytest.mark.parametrize("case", REPEATABLE, indirect=True)
def test_the_text_of_a_policy_makes_it_again(policy, game, boards):
    again = make_policy(str(policy), game)
    assert type(again) is type(policy)
    assert str(again) == str(policy)
    assert_array_equal(probabilities(again, boards), probabilities(policy, boards))
