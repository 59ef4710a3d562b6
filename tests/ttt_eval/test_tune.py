"""Choice of settings of the benchmark's agents: draws, resumption, and the best by the log."""

import json

import pytest
import tune
from json_files import read_json
from kills import KilledError
from msgspec.structs import replace

from ttt_eval.benchmark.agents import load_agent
from ttt_eval.benchmark.tasks import find_task

PLAN = tune.TuningPlan(8, 200, {"epsilon": [0.1, 0.5], "step_size": tune.Range(0.01, 1.0)})
DRAWS = tune.draw_settings(PLAN)
SCORES = {(3, 100): 0.9, (5, 100): 0.8, (5, 101): 0.4}
"""Scores by setting and seed, 0.1 for others: 3 is the best with the first seed, 5 by the mean."""


def test_draws_are_of_their_number_alone():
    assert tune.draw_settings(replace(PLAN, settings=5)) == DRAWS[:5]
    assert DRAWS[0] == {}


def test_the_choice_is_the_best_by_the_log_and_no_run_is_repeated(tmp_path, monkeypatch):
    units = []

    def measure(unit):
        units.append(json.dumps(unit))
        if len(units) == 7:
            raise KilledError
        score = SCORES.get((DRAWS.index(unit["settings"]), unit["seed"]), 0.1)
        return {"score": score, "steps": 200}

    monkeypatch.setattr(tune, "measure", measure)
    monkeypatch.setattr(tune, "PLANS", {"q-learning": PLAN})
    options = {"agents": ("q-learning",), "out": tmp_path}
    with pytest.raises(KilledError):
        tune.main(**options)
    tune.main(**options, cpu_minutes=0)
    assert len(units) == 7
    tune.main(**options)
    assert len(units) - 1 == len(set(units)) == 42
    choice = read_json(tmp_path / tune.CHOSEN)["q-learning"]
    assert choice["settings"] == DRAWS[5]
    assert choice["mean_score"] == pytest.approx(1.3 / 3)
    assert choice["mean_score_of_default"] == pytest.approx(0.1)
    assert choice["tuning_steps"] == 42 * 200


@pytest.mark.needs("torch", "tensorflow")
@pytest.mark.parametrize("agent", tune.PLANS)
def test_every_draw_of_a_plan_is_valid(agent):
    for settings in tune.draw_settings(replace(tune.PLANS[agent], settings=40)):
        load_agent(agent)(find_task("self-play-skip"), 0, **settings)
