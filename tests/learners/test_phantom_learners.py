"""Learners on phantom games: the same in both training loops, refusals by name, exact updates over views, and runs."""

import json
from dataclasses import replace

import numpy as np
import pytest
import tiny
from numpy.testing import assert_allclose, assert_array_equal

from learners import LEARNERS
from learners.exact_pg import ExactPGConfig
from learners.pettingzoo_loop import train_in
from learners.q_learning import QLearningConfig
from learners.training import Trainer
from ttt_apps import evaluate
from ttt_envs import Game, PhantomGame, make_policy, mnk_v0
from ttt_envs.agents.specs import load_object
from ttt_envs.game.phantom import game_from_dict
from ttt_eval.exact import evaluate_policy, exploitability, outcome, policy_gradient

SMALL = PhantomGame(Game(2, 3, 2), "classic")


@pytest.mark.parametrize("name", tiny.cases_of_rules("hidden", names=tiny.OURS, slow="q-net"))
@pytest.mark.parametrize("opponent", ["random", "self"])
def test_both_training_loops_teach_the_same(name, hidden, opponent):
    """One game at a time in lockstep is a PettingZoo environment: views, failed attempts, skips and replies."""
    game = PhantomGame(Game(3, 3, 3, 0.2), hidden)
    learners = [load_object(LEARNERS[name])().build(game, np.random.default_rng(0)) for _ in range(2)]
    progress = Trainer(learners[0], opponent, 40, seed=3).run()
    assert progress == train_in(mnk_v0.env(skip_chance=0.2, phantom=hidden), learners[1], opponent, 40, seed=3)
    arrays = [learner.state for learner in learners]
    for key, array in arrays[0].items():
        assert_array_equal(array, arrays[1][key])


def test_what_does_not_fit_hidden_stones_is_refused():
    with pytest.raises(ValueError, match=r'choose backup="agent"'):
        QLearningConfig(backup="negamax").training(SMALL, 10, batch=2, seed=0)
    with pytest.raises(ValueError, match="values='afterstate' needs to know what a move does"):
        QLearningConfig(values="afterstate").training(SMALL, 10, batch=2, seed=0)
    config = load_object(LEARNERS["sb3-dqn"])()
    config.check_opponent("random", SMALL)
    with pytest.raises(ValueError, match="or a policy as opponent"):
        config.check_opponent("self", SMALL)
    with pytest.raises(ValueError, match="fictitious-play needs best responses over views"):
        ExactPGConfig(method="fictitious-play").training(SMALL, 10, batch=1, seed=0)


@pytest.mark.parametrize("opponent", ["self", "random"])
def test_exact_updates_are_those_of_the_policy_gradient(opponent):
    game = PhantomGame(replace(SMALL.game, skip_chance=0.3))
    config = ExactPGConfig(method="gradient", learning_rate=1.0, initial_std=1.0)
    training = config.training(game, 1, batch=1, seed=0, opponent=opponent)
    learner = training.learner
    before = learner.table.logits.copy()
    exact = evaluate_policy(game, learner, None if opponent == "self" else opponent)
    gradient = np.zeros(learner.table.logits.shape)
    gradient[learner.table.index.find(exact.boards)] = policy_gradient(exact)
    expected = exact.seats[0].outcome.value if opponent == "self" else exact.outcome.value
    training.run()
    moved = np.where(learner.graph.legal, learner.table.logits - before, np.nan)
    shifted = moved - np.nanmean(moved, axis=1, keepdims=True)
    wanted = np.where(learner.graph.legal, gradient, np.nan)
    assert_allclose(shifted, wanted - np.nanmean(wanted, axis=1, keepdims=True), atol=1e-12)
    assert training.logged["value"] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("settings", [{"method": "magnetic-mirror-descent"}, {"method": "r-nad"}], ids=str)
def test_regularized_updates_lower_exploitability(hidden, settings):
    game = PhantomGame(SMALL.game, hidden)
    training = ExactPGConfig(**settings).training(game, 150, batch=1, seed=0)
    training.run()
    assert exploitability(game, training.learner) < 0.3 * exploitability(game, "random")


@pytest.mark.parametrize("name", tiny.cases_of_rules("hidden"))
def test_runs_have_curves_of_exploitability(name, tmp_path, capsys):
    run = tiny.train_run(name, tmp_path / "run", "--phantom=classic", "--exact-every=20")
    game = game_from_dict(json.loads((run / "config.json").read_text())["game"])
    assert game == PhantomGame(tiny.GAME, "classic")
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    measured = [row["exploitability"] for row in rows if "exploitability" in row]
    assert len(measured) >= 2
    capsys.readouterr()
    evaluate.main(["exploitability", f"run:{run}", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["game"]["phantom"] == "classic"
    assert found["exploitability"] == pytest.approx(measured[-1], abs=1e-12)
    with pytest.raises(ValueError, match="by its rules"):
        make_policy(f"run:{run}", tiny.GAME)


@pytest.mark.filterwarnings("ignore:.*which it has never seen")
def test_a_run_of_visible_stones_plays_by_views(tmp_path):
    run = tiny.train_run("q-learning", tmp_path / "run")
    game = PhantomGame(tiny.GAME, "abrupt")
    assert -1 <= outcome(game, f"run:{run}", "win-or-block").value <= 1
