"""The game as arrays in other libraries: the environments of ``examples/arrays`` play the games of
ours, step by step; planners, autograd and a jitted policy agree with our exact values.
"""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

jax = pytest.importorskip("jax")
torch = pytest.importorskip("torch")

import ttt_envs
from ttt_envs import Game, as_policy, make_policy
from ttt_envs.arrays import game_arrays
from ttt_envs.core.random import uniforms
from ttt_envs.envs.config import EnvConfig
from ttt_envs.envs.engine import make_games
from ttt_envs.envs.game_batch import seed_games
from ttt_envs.game.rules import STREAM_SKIP
from ttt_eval.exact import best_response, evaluate_policy, exploitability, policy_gradient

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "arrays"
NUM_GAMES = 256
NUM_STEPS = 60


def load(name):
    """Import a script of the examples."""
    spec = importlib.util.spec_from_file_location(f"arrays_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class JaxEnv:
    """The function of ``jax_env``, jitted and mapped over games, as an object like the others."""

    def __init__(self, arrays, num_games):
        self.arrays = arrays
        self.state = jax.numpy.zeros(num_games, jax.numpy.int32)
        self._step = jax.jit(jax.vmap(load("jax_env").make_step(arrays)))

    def step(self, action, skipped):
        self.state, reward, is_over = self._step(self.state, action, skipped.astype(np.int32))
        return reward, is_over


def make_env(kind, arrays):
    if kind == "numpy":
        return load("numpy_env").NumpyEnv(arrays, NUM_GAMES)
    if kind == "torch":
        return load("torch_env").TorchEnv(arrays, NUM_GAMES)
    return JaxEnv(arrays, NUM_GAMES)


@pytest.mark.parametrize("kind", ["numpy", "torch", "jax"])
@pytest.mark.parametrize(
    "game",
    [
        Game(),
        Game(skip_chance=0.25),
        Game(3, 4, 3, 0.25, gravity=True),
        Game(3, 3, 3, 0.5, misere=True, torus=True),
    ],
    ids=str,
)
def test_trajectories_are_those_of_the_engine(kind, game):
    config = EnvConfig(
        size=(game.rows, game.columns),
        win_length=game.win_length,
        skip_chance=game.skip_chance,
        opponent="self",
        **game.variants,
    )
    engine = make_games(config, NUM_GAMES)
    output = engine.output()
    rows = np.arange(NUM_GAMES)
    seed_games(engine, rows, rows.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15))
    engine.reset(rows, output)
    arrays = game_arrays(game)
    env = make_env(kind, arrays)
    rng = np.random.default_rng(0)
    num_over = 0
    for _ in range(NUM_STEPS):
        state = np.asarray(env.state)
        begins = state == arrays.over
        action = (rng.random((NUM_GAMES, arrays.legal.shape[1])) * arrays.legal[state]).argmax(1)
        illegal = rng.random(NUM_GAMES) < 0.02
        action = np.where(illegal, rng.integers(0, arrays.legal.shape[1], NUM_GAMES), action)
        draws = uniforms(engine.column("episode_key"), STREAM_SKIP, engine.column("stones"))
        skipped = (draws < game.skip_chance) & ~begins
        engine.step(action, output, begin_over=True)
        if kind == "torch":
            reward, is_over = env.step(torch.tensor(action), torch.tensor(skipped))
        else:
            reward, is_over = env.step(action, skipped)
        assert_array_equal(np.asarray(reward), output["rewards"])
        assert_array_equal(np.asarray(is_over), output["terminated"])
        going = ~np.asarray(is_over)
        state = np.asarray(env.state)
        assert_array_equal(arrays.observations[state][going], output["flat"][going])
        assert_array_equal(arrays.legal[state][going], output["mask"][going] == 1)
        num_over += (~going).sum()
    assert num_over > NUM_GAMES


@pytest.mark.parametrize("skip_chance", [0.0, 0.25])
def test_autograd_is_the_exact_gradient(skip_chance):
    game = Game(skip_chance=skip_chance)
    arrays = game_arrays(game)
    example = load("exact_gradient")
    rng = np.random.default_rng(1)
    logits = torch.tensor(rng.normal(size=arrays.legal.shape), requires_grad=True)
    table = example.softmax_table(arrays, logits)
    shares = table.detach().numpy()
    rows = {row.tobytes(): i for i, row in enumerate(arrays.observations[:-1])}

    def find(boards):
        own = boards.own_first()
        views = np.concatenate([own == 1, own == 2], axis=1).astype(np.int8)
        return [rows[view.tobytes()] for view in views]

    class Table(ttt_envs.Policy):
        def probabilities(self, boards, rng=None):
            return shares[find(boards)]

    policy = Table()
    first, second = example.returns(arrays, table)
    assert -(first + second).item() / 2 == pytest.approx(exploitability(game, policy), abs=1e-12)
    opponent = torch.tensor(arrays.legal / arrays.legal.sum(1, keepdims=True))
    first, second = example.returns(arrays, table, opponent)
    exact = evaluate_policy(game, policy, "random")
    assert ((first + second) / 2).item() == pytest.approx(exact.value, abs=1e-12)
    ((first + second) / 2).backward()
    gradient = np.zeros(arrays.legal.shape)
    np.add.at(gradient, find(exact.boards), policy_gradient(exact))
    assert_allclose(logits.grad.numpy(), gradient, rtol=0, atol=1e-10)
    assert np.abs(gradient).max() > 1e-3


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("opponent", ["random", "win-or-block"])
@pytest.mark.parametrize("seat", [0, 1])
@pytest.mark.parametrize("game", [Game(), Game(2, 3, 3, 0.25)], ids=str)
def test_best_responses_of_a_planner(game, seat, opponent):
    pytest.importorskip("mdptoolbox")
    response = best_response(game, opponent, seat)
    value = load("mdp_toolbox").best_value(game, opponent, seat)
    assert value == pytest.approx(response.win - response.loss, abs=1e-9)


def test_a_jitted_policy_is_measured_exactly():
    game = Game(skip_chance=0.25)
    expected = make_policy("random", game)

    @jax.jit
    def uniform_logits(observations, masks):
        return jax.numpy.where(masks == 1, 0.0, -1e9)

    policy = as_policy(
        lambda observations, masks: np.asarray(uniform_logits(observations, masks)),
        game,
        returns="logits",
        batch=True,
    )
    assert exploitability(game, policy) == pytest.approx(exploitability(game, expected), abs=1e-7)


@pytest.mark.parametrize(
    ("name", "arguments", "pattern"),
    [
        ("numpy_env", (), r" 9[01]\.\d% end by a line"),
        ("exact_gradient", ("--steps", "50"), r"50 steps: exploitability 0\.0"),
        ("ppo_jax", ("--updates", "60"), r"exploitability: 0\.[01]"),
        ("mdp_toolbox", (), r"seat 1: pymdptoolbox (0\.\d+), ours \1"),
    ],
)
def test_examples_print_what_they_say(name, arguments, pattern, tmp_path):
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), *arguments]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert re.search(pattern, result.stdout), result.stdout
