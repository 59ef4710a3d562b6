"""The study of what games say: its measures are those of the definitions, and its verdicts follow the numbers."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from ttt_apps.studies import what_games_say as study

MARKS = [10, 20]


def make_rows(rng, *, misleading):
    """Return policies whose win rates follow the score, or are its opposite."""
    rows = []
    for agent in "abcd":
        for games in MARKS:
            score = float(rng.uniform(0.1, 0.9))
            said = 1 - score if misleading else score
            values = {"return": said, "elo": 100 * said, "corrected_elo": 100 * score}
            rows.append({"agent": agent, "games": games, "score": score, **values})
            rows[-1] |= {opponent: [said, said] for opponent in study.OPPONENTS}
    return rows


def make_results(*, misleading):
    rng = np.random.default_rng(5)
    return [
        ({"task": "chance-25", "seed": seed, "marks": MARKS, "pairs": 1}, make_rows(rng, misleading=misleading))
        for seed in range(5)
    ]


def test_rank_correlation_is_that_of_scipy():
    rng = np.random.default_rng(0)
    scores, values = rng.integers(4, size=12).astype(float), rng.integers(4, size=(3, 12)).astype(float)
    expected = np.mean([spearmanr(row, scores).statistic for row in values])
    assert study.rank_correlation(values, scores) == pytest.approx(expected)
    assert study.rank_correlation(np.ones((1, 12)), scores) == 0


def test_wrong_comparisons_are_counted():
    rows = [{"games": 10, "score": score} for score in (0.1, 0.5, 0.9)] + [{"games": 500, "score": 0.0}]
    assert study.share_of_wrong(np.array([[1.0, 2, 3, 9]]), rows) == 0
    assert study.share_of_wrong(np.array([[3.0, 2, 1, 9]]), rows) == 1
    assert study.share_of_wrong(np.array([[1.0, 1, 1, 9]]), rows) == 0.5
    assert study.share_of_wrong(np.array([[2.0, 1, 3, 9], [1, 2, 3, 9]]), rows) == pytest.approx(1 / 6)
    assert study.share_of_wrong(np.ones((1, 2)), [{"games": 1, "score": 0.5}] * 2) is None


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
    unit = {"task": "chance-25", "marks": [10]}
    results = [(unit, [{"agent": "a", "random": [0.5 + sign * 0.1] * 2}]) for sign in (-1, 1)]
    for games in study.GAMES:
        found = study.cost_in_seeds(results, games)
        assert found.mean == pytest.approx(1 + 0.24 / games / 0.02)
        assert 1 <= found.low < found.mean < found.high
    assert study.cost_in_seeds(results[:1], 20).high == float("inf")


def verdicts(*, misleading):
    return [claim.holds for claim in study.analyse(make_results(misleading=misleading)).claims]


def test_verdicts_follow_the_numbers():
    assert verdicts(misleading=True) == [False, False, False, False, True]
    assert verdicts(misleading=False)[2:] == [True, True, None]


def test_a_unit_measures_all_policies():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study, "AGENTS", dict(list(study.AGENTS.items())[::3]))
        unit = {"task": "half-random", "seed": 1, "marks": [20, 60], "pairs": 2}
        rows = study.measure(unit)
        assert study.measure(unit) == rows
    assert [row["games"] >= games for row, games in zip(rows, [20, 60] * 2, strict=True)] == [True] * 4
    assert all(row["score"] <= 1 and abs(row["return"]) <= 1 for row in rows)
    assert sum(row["elo"] for row in rows) == pytest.approx(0, abs=1e-6)
