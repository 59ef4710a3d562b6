"""The study of what games say: its measures are those of the definitions, and its verdicts follow the numbers."""

import shutil

import numpy as np
import pytest
from scipy.stats import spearmanr

from ttt_apps.studies import what_games_say as study
from ttt_eval.benchmark.scores import score_submission

MARKS = [10, 20]


def make_rows(rng, *, misleading):
    """Return policies whose win rates follow the score, or are its opposite."""
    rows = []
    for agent in "abcd":
        for steps in MARKS:
            score = float(rng.uniform(0.1, 0.9))
            said = 1 - score if misleading else score
            values = {"return": said, "elo": 100 * said, "corrected_elo": 100 * score}
            rows.append({"agent": agent, "learns": True, "steps": steps, "score": score, **values})
            rows[-1] |= {opponent: [said, said] for opponent in study.OPPONENTS}
    return rows


def make_results(*, misleading):
    rng = np.random.default_rng(5)
    return [({"task": "chance-25", "seed": seed}, make_rows(rng, misleading=misleading)) for seed in range(5)]


def test_rank_correlation_is_that_of_scipy():
    rng = np.random.default_rng(0)
    scores, values = rng.integers(4, size=12).astype(float), rng.integers(4, size=(3, 12)).astype(float)
    expected = np.mean([spearmanr(row, scores).statistic for row in values])
    assert study.rank_correlation(values, scores) == pytest.approx(expected)
    assert study.rank_correlation(np.ones((1, 12)), scores) == 0
    values[0, 3] = np.nan  # a policy that a measure says nothing of is left out
    kept = np.arange(12) != 3
    assert study.rank_correlation(values, scores) == pytest.approx(
        np.mean([spearmanr(row[kept], scores[kept]).statistic for row in values])
    )


def test_wrong_comparisons_are_counted():
    rows = [{"steps": 10, "score": score} for score in (0.1, 0.5, 0.9)] + [{"steps": 500, "score": 0.0}]
    assert study.share_of_wrong(np.array([[1.0, 2, 3, 9]]), rows) == 0
    assert study.share_of_wrong(np.array([[3.0, 2, 1, 9]]), rows) == 1
    assert study.share_of_wrong(np.array([[1.0, 1, 1, 9]]), rows) == 0.5
    assert study.share_of_wrong(np.array([[2.0, 1, 3, 9], [1, 2, 3, 9]]), rows) == pytest.approx(1 / 6)
    assert study.share_of_wrong(np.array([[np.nan, 3, 2, 9]]), rows) == 1
    assert study.share_of_wrong(np.ones((1, 2)), [{"steps": 1, "score": 0.5}] * 2) is None


def test_won_games_are_drawn_from_their_distribution():
    row = {"return": 0.0, "elo": 0.0, "corrected_elo": 0.0, **{name: [0.9, 0.3] for name in study.OPPONENTS}}
    found = study.measured_values([row], np.random.default_rng(0))
    rates = found["win rate against random, 20 games"]
    assert rates.shape == (study.REPLICATES, 1)
    spread = (0.9 * 0.1 + 0.3 * 0.7) / 2 / 20
    assert rates.mean() == pytest.approx(0.6, abs=5 * np.sqrt(spread / study.REPLICATES))
    assert rates.var() == pytest.approx(spread, rel=0.5)
    assert found["win rate against random, exact"] == pytest.approx(0.6)


def test_noise_of_games_costs_seeds():
    """Two seeds per group, with a variance of 0.02, and games with a variance of 0.25 / n."""
    unit = {"task": "chance-25"}
    learns, fixed = {"agent": "a", "steps": 10, "learns": True}, {"agent": "b", "steps": 10, "learns": False}
    early = {**learns, "steps": 5, "random": [0.0, 1.0]}
    results = [
        (unit, [early, {**learns, "random": [0.5 + sign * 0.1] * 2}, {**fixed, "random": [0.3, 0.3]}])
        for sign in (-1, 1)
    ]
    for games in study.GAMES:
        found = study.cost_in_seeds(results, games)
        assert found.mean == pytest.approx(1 + 0.24 / games / 0.02)
        assert 1 <= found.low < found.mean < found.high
    assert study.cost_in_seeds(results[:1], 20).high == float("inf")


def verdicts(*, misleading):
    return [claim.holds for claim in study.analyse(make_results(misleading=misleading)).claims]


def test_verdicts_follow_the_numbers():
    assert verdicts(misleading=True) == [False, False, False, False, True]
    assert verdicts(misleading=False)[2:] == [None, True, None]  # five times none is wrong


def test_a_unit_measures_all_policies():
    """Those of submissions in the repository, at their last two checkpoints: an own recursion scores them elsewhere."""
    unit = next(one for one in study.units(False) if (one["task"], one["seed"]) == ("random", 1))
    unit = {**unit, "agents": ["random", "q-learning", "naive-mc"], "checkpoints": 2, "pairs": 2}
    rows = study.measure(unit)
    assert study.measure(unit) == rows
    assert [(row["agent"], row["steps"]) for row in rows] == [
        (agent, steps) for agent in unit["agents"] for steps in (3753, 20_000)
    ]
    assert [row["return"] is None for row in rows] == [True] * 2 + [False] * 4
    assert all(abs(row["return"]) <= 1 for row in rows[2:])
    assert rows[0]["score"] == pytest.approx(0, abs=1e-9)
    assert rows[0]["random"] == pytest.approx([737 / 1260, 121 / 420])  # known without us
    assert rows[0]["elo"] == rows[1]["elo"] < min(rows[3]["elo"], rows[5]["elo"])
    scored = score_submission(study.SUBMISSIONS / "q-learning.npz", last=True).runs
    [run] = [one for one in scored if (one.task, one.seed) == ("random", 1)]
    assert rows[3]["score"] == run.score
    assert np.mean(rows[3]["random"]) == pytest.approx(run.win_random)


def test_units_are_what_all_submissions_have(tmp_path, monkeypatch):
    assert len(study.units(True)) == study.QUICK_UNITS
    for name in ("random.npz", "win-or-block.npz"):
        shutil.copy(study.SUBMISSIONS / name, tmp_path / name)
    monkeypatch.setattr(study, "SUBMISSIONS", tmp_path)
    before = study.units(False)
    assert {one["task"] for one in before} >= {"random", "chance-25", "self-play"}
    assert not any(one["task"] == "masks" for one in before)
    with np.load(tmp_path / "random.npz") as stored:
        rest = {name: array for name, array in stored.items() if not name.startswith("random/seed-1")}
    np.savez_compressed(tmp_path / "random.npz", **rest)
    after = study.units(False)
    assert [(one["task"], one["seed"]) for one in after] == [
        (one["task"], one["seed"]) for one in before if (one["task"], one["seed"]) != ("random", 1)
    ]
    assert after[0]["sha256"][0] != before[0]["sha256"][0]
    (tmp_path / "random.npz").unlink()
    with pytest.raises(ValueError, match="has no submissions to compare: run this study from a checkout"):
        study.units(False)
