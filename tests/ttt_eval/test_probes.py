"""Probes of learners: exact values beside play, beside exact evaluation, and the power to see
errors.
"""

import gymnasium
import numpy as np
import plain
import pytest
from make_probes import make_probes
from numpy.testing import assert_allclose
from small_games import SKIP_GAME
from writing import to_toml

from ttt_envs import Game, make_policy
from ttt_envs.agents.policy import normalise
from ttt_envs.arrays import game_arrays
from ttt_eval.checks import PROBES, probes
from ttt_eval.checks.wrong_targets import PREDICTED_ERRORS
from ttt_eval.exact import best_response, exploitability, outcome
from ttt_eval.exact.decision_values import DecisionValues, SelfPlayValues

GAMES = [Game(), SKIP_GAME, Game(3, 4, 3, gravity=True)]
NUM_GAMES = 20_000


def draw_policy(model):
    """Return random probabilities of the allowed actions."""
    weights = np.random.default_rng(0).random(model.allowed.shape)
    return normalise(weights * model.allowed)


# -- exact values


@pytest.mark.parametrize("game", GAMES, ids=str)
@pytest.mark.parametrize("seat", [0, 1])
def test_values_from_the_empty_board_are_those_of_exact_evaluation(game, seat):
    arrays = game_arrays(game)
    model = DecisionValues(arrays, make_policy("win-or-block", game), seat)
    players = ["random", "win-or-block"]
    result = outcome(game, *(players if seat == 0 else players[::-1]))
    played = model.value(normalise(model.allowed))
    assert_allclose(played, (1 - 2 * seat) * (result.win - result.loss), atol=1e-12)
    response = best_response(game, "win-or-block", seat)
    assert_allclose(model.total(model.optimum()[0]), response.win - response.loss, atol=1e-9)


@pytest.mark.parametrize("game", GAMES, ids=str)
def test_self_play_is_worth_minus_its_exploitability(game):
    arrays = game_arrays(game)
    model = SelfPlayValues(arrays)
    policy = arrays.policy_table(make_policy("win-or-block", game), 0)
    assert_allclose(model.value(policy), -exploitability(game, "win-or-block"), atol=1e-9)


def assert_visits_all(model, policy):
    """A game begins once, and each position is reached."""
    begins = model.start > 0
    assert_allclose(model.visits(policy)[begins], 1)
    assert (begins | (model.push(np.ones(policy.shape)) > 0)).all()


def test_visits_times_rewards_are_the_value():
    arrays = game_arrays(SKIP_GAME)
    model = DecisionValues(arrays, make_policy("random", Game()), masked=False)
    policy = draw_policy(model)
    rewards = (policy * model.rewards).sum(axis=1)
    assert_allclose(model.visits(policy) @ rewards, model.value(policy), atol=1e-12)
    assert_visits_all(model, policy)


def test_visits_times_rewards_of_the_first_player_are_the_value_in_self_play():
    model = SelfPlayValues(game_arrays(Game()))
    policy = draw_policy(model)
    stones = model.observations.sum(axis=1)
    rewards = (-1) ** stones * (policy * model.rewards).sum(axis=1)
    value = model.start @ model.policy_values(policy)[0]
    assert_allclose(model.visits(policy) @ rewards, value, atol=1e-12)
    assert_visits_all(model, policy)


def test_openings_are_equally_likely():
    texts = ["x.o/.../.ox o", "o.x/.../.xo o"]
    game = SKIP_GAME
    opponent = make_policy("win-or-block", game)

    def value(openings):
        arrays = game_arrays(game, openings=plain.from_texts(*openings, game=game))
        model = DecisionValues(arrays, opponent, starts=len(openings))
        return model.value(normalise(model.allowed))

    assert_allclose(value(texts), np.mean([value(texts[:1]), value(texts[1:])]), atol=1e-12)


# -- probes


@pytest.mark.parametrize(
    "name", [name for name in PROBES if name not in ("truncation", "self-play")]
)
def test_random_play_in_the_environment_has_the_exact_value(name):
    probe = PROBES[name]
    rng = np.random.default_rng(0)
    envs = probe.make_env(256, autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP)
    _, info = envs.reset(seed=1)
    returns = []
    while len(returns) < NUM_GAMES:
        mask = info["action_mask"] == 1
        choices = np.where(mask | (not probe.masks), rng.random(mask.shape), -1)
        _, rewards, is_over, _, info = envs.step(choices.argmax(1))
        returns += rewards[is_over].tolist()
    error = np.std(returns) / np.sqrt(len(returns))
    assert abs(np.mean(returns) - probe.exact.random) < 4 * error


@pytest.mark.parametrize("name", PROBES)
def test_the_best_policy_scores_one_and_makes_no_mistake(name):
    exact = PROBES[name].exact
    best = exact.greedy(exact.action_values)
    assert exact.score(best) == pytest.approx(1, abs=1e-9)
    assert exact.score(normalise(exact.model.allowed)) == pytest.approx(0, abs=1e-9)
    assert exact.mistake(best) is None
    assert exact.value_error(exact.values, exact.weights(best)) == 0
    evidence = exact.mistake(exact.greedy(-exact.action_values))
    assert "which loses" in evidence.note


POWER = {
    ("sign of the next value", "credit"): -0.57,
    ("sign of the next value", "self-play"): -0.10,
    ("maximum over illegal actions", "defence"): 0.18,
    ("no next value", "credit"): 0.22,
    ("reward of the other player", "bandit"): -0.39,
    ("truncation taken for an end", "truncation"): 0.22,
    ("nothing is learned", "bandit"): 0.0,
    ("discount 0.9", "credit"): 1.0,
}
"""Exact scores of wrong fixed points, in the probe that is for the error."""


@pytest.mark.parametrize(("error", "name"), POWER)
def test_power(error, name):
    assert PROBES[name].power(error).score == pytest.approx(POWER[error, name], abs=0.005)


def test_every_error_is_seen_by_its_score_or_by_values():
    for error in PREDICTED_ERRORS:
        powers = [probe.power(error) for probe in PROBES.values()]
        lowest = min(power.score for power in powers)
        largest = max(power.value_error for power in powers)
        assert lowest < 0.3 or largest > 0.004, error


def test_cut_episodes_begin_in_all_positions():
    exact = PROBES["truncation"].exact
    texts = [exact.text(row) for row in range(len(exact.values))]
    assert sorted(texts) == sorted(PROBES["truncation"].options["openings"])


def test_an_unknown_error_is_refused():
    with pytest.raises(ValueError, match="did you mean"):
        PROBES["bandit"].power("discount .9")


def test_the_tool_makes_the_file():
    path = probes.__file__.replace(".py", ".toml")
    with open(path, encoding="utf-8") as file:
        assert to_toml("make_probes.py", make_probes()) == file.read()
