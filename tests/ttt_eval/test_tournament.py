"""Tournaments: equations of the ratings, coverage of their intervals, and reuse of stored games."""

import json
from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import brentq
from small_games import SKIP_GAME

from ttt_eval.matches.elo import elo, elo_from_score, score_from_elo
from ttt_eval.matches.match import BLOCK, Call, MatchSettings, play_block
from ttt_eval.matches.score import Score
from ttt_eval.matches.tournament import PRIOR, bradley_terry, run_tournament
from ttt_eval.store.result_store import RESULT, UNITS

PROVENANCE = {"code": "this"}
SAMPLES = 200
"""Number of samples for intervals: fewer than the default, to save time."""


def rate(counts, players, **options):
    """Return ratings from the pentanomial of each pairing."""
    weights = {pairing: (np.array(pairs, float), 1.0) for pairing, pairs in counts.items()}
    return bradley_terry(weights, players, **options)


def simulate_pairs(ratings, pairs, rng):
    """Return simulated pentanomials by pairing."""
    counts = {}
    for i, j in combinations(range(len(ratings)), 2):
        score = score_from_elo(ratings[i] - ratings[j])
        reach = min(score, 1 - score)  # of a game's chance to be drawn
        game = np.array([1 - score - reach / 2, reach, score - reach / 2])
        counts[i, j] = rng.multinomial(pairs, np.convolve(game, game))
    return counts


def test_difference_of_two_players_is_that_of_their_score():
    pairs = [50, 100, 400, 300, 150]
    first, second = rate({(0, 1): pairs}, 2)
    counts = np.array(pairs) + PRIOR
    assert first.mean - second.mean == pytest.approx(
        elo_from_score(counts @ np.arange(5) / 4 / counts.sum()), abs=1e-6
    )
    assert first.mean == pytest.approx(-second.mean)
    by_wilson = elo(Score.from_pentanomial([4 * count for count in pairs]))
    by_sampling = bradley_terry(
        {(0, 1): (np.array(pairs), 4.0)}, 2, anchor=1
    )  # each as good as four pairs
    assert by_sampling[1] == (0, 0, 0)
    assert by_sampling[0] == pytest.approx(by_wilson, abs=2)


def test_every_player_makes_the_points_that_the_ratings_expect():
    """These are the maximum likelihood equations of Bradley and Terry."""
    rng = np.random.default_rng(0)
    counts = simulate_pairs([300, 120, 0, -50, -400], 80, rng)
    ratings = [rating.mean for rating in rate(counts, 5, draws=2)]
    assert sum(ratings) == pytest.approx(0, abs=1e-6)
    made = np.zeros(5)
    expected = np.zeros(5)
    for i, j in combinations(range(5), 2):
        weights = counts[i, j] + PRIOR
        points = weights @ np.arange(5) / 2
        chance = score_from_elo(ratings[i] - ratings[j])
        made[[i, j]] += points, 2 * weights.sum() - points
        expected[[i, j]] += 2 * weights.sum() * np.array([chance, 1 - chance])
    np.testing.assert_allclose(made, expected, rtol=1e-5)


def test_ratings_do_not_depend_on_the_order_of_players_in_a_pairing():
    counts = simulate_pairs([200, 0, -100], 50, np.random.default_rng(1))
    turned = {(j, i): pairs[::-1] for (i, j), pairs in reversed(counts.items())}
    assert rate(counts, 3, draws=SAMPLES) == rate(turned, 3, draws=SAMPLES)


def test_perfect_score_has_a_finite_rating():
    best, *others = rate(
        {(0, 1): [0, 0, 0, 0, 100], (0, 2): [0, 0, 0, 0, 100], (1, 2): [20] * 5}, 3
    )
    assert 800 < best.mean - others[0].mean < 1200
    assert best.low - max(other.high for other in others) > 300
    assert best.high < 3000


def test_rating_among_fixed_ratings():
    own = {0: [5, 10, 20, 30, 35], 1: [20, 20, 20, 20, 20], 2: [90, 10, 0, 0, 0]}
    counts = {(3, 0): own[0], (3, 1): own[1], (2, 3): own[2][::-1]}
    counts[0, 1] = [0, 0, 0, 0, 1000]  # which does not move what is known
    ratings = [-100, 0, 500, None]
    *fixed, placed = rate(counts, 4, fixed=ratings)
    assert [rating.mean for rating in fixed] == [rating.low for rating in fixed] == ratings[:3]

    def surplus(rating):
        total = 0.0
        for opponent, pairs in own.items():
            smoothed = np.array(pairs) + PRIOR
            total += smoothed @ np.arange(5) / 4 - smoothed.sum() * score_from_elo(
                rating - ratings[opponent]
            )
        return total

    assert placed.mean == pytest.approx(brentq(surplus, -1000, 1000), abs=0.01)
    assert placed.low < placed.mean < placed.high


@pytest.mark.parametrize("tournaments", [16, pytest.param(400, marks=pytest.mark.slow)])
def test_coverage_of_intervals(tournaments):
    rng = np.random.default_rng(4)
    truth = np.array([150.0, 60.0, 0.0, -210.0])
    inside = np.zeros(4)
    for _ in range(tournaments):
        result = rate(
            simulate_pairs(truth, 100, rng), 4, draws=SAMPLES, seed=int(rng.integers(2**32))
        )
        inside += [
            rating.low <= true <= rating.high for rating, true in zip(result, truth, strict=True)
        ]
    # quantiles of so many samples are a little too narrow, as is a twentieth of them
    error = 4 * (0.95 * 0.05 / tournaments) ** 0.5
    np.testing.assert_allclose(inside / tournaments, 0.95, atol=error + 0.01)


# --------------------------------------------------------------------------------------------------
# Round robin

PLAYERS = ("random", "win-or-block", "mcts:simulations=4")


def run(folder, players=PLAYERS, pairs=70, anchor=None, **options):
    match = MatchSettings(SKIP_GAME, players, 3)
    return run_tournament(match, folder, PROVENANCE, pairs=pairs, anchor=anchor, **options)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tournament")
    return run(folder), (folder / RESULT).read_bytes()


def test_all_pairings_are_played_with_the_same_keys(done):
    result, _ = done
    scores = result.scores
    for i, j in combinations(range(3), 2):
        score = scores[i, j]
        match = MatchSettings(SKIP_GAME, (PLAYERS[i], PLAYERS[j]), 3)
        parts = [
            play_block(Call(match), False, numbers)[0]
            for numbers in (range(BLOCK), range(BLOCK, 70))
        ]
        assert sum(score.pentanomial) == 70
        if "mcts" not in PLAYERS[j]:
            np.testing.assert_array_equal(score.pairs, (parts[0] + parts[1]).pairs)
    assert len(scores) == 6
    assert result.players[0].rating.high < result.players[1].rating.low
    np.testing.assert_array_equal(scores[1, 0].pentanomial, scores[0, 1].pentanomial[::-1])
    np.testing.assert_array_equal(scores[1, 0].table, scores[0, 1].table[::-1, ::-1])
    players = json.loads(done[1])["players"]
    assert [player["games"] for player in players] == [280] * 3
    assert sum(player["score"]["mean"] for player in players) == pytest.approx(1.5)


def test_another_player_adds_only_missing_games(done, tmp_path):
    run(tmp_path, PLAYERS[1:])
    before = (tmp_path / UNITS).read_text()
    run(tmp_path, PLAYERS[:0:-1])
    assert (tmp_path / UNITS).read_text() == before
    run(tmp_path)
    assert (tmp_path / RESULT).read_bytes() == done[1]
    units = (tmp_path / UNITS).read_text()
    assert units.startswith(before)
    assert len(units.splitlines()) == 1 + 6
    run(tmp_path, PLAYERS[1:])  # results that are not requested now stay stored
    assert (tmp_path / UNITS).read_text() == units


def test_a_fault_tells_the_finished_pairings(tmp_path):
    with pytest.raises(ValueError, match="set returns=") as problem:
        run(tmp_path, ("random", "table", "players:drawn:returns=values"))
    assert "finished and kept in" in problem.value.__notes__[1]


@pytest.mark.parametrize("settings", [{"pairs": 0}, {"players": ("random", "random")}])
def test_invalid_tournaments_are_rejected_before_anything_is_written(settings, tmp_path):
    with pytest.raises(ValueError, match=r"choose|name"):
        run(tmp_path / "none", **settings)
    assert not (tmp_path / "none").exists()
