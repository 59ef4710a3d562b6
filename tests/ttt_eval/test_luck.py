"""Luck correction of matches: unbiased for any value function, and exact for each game."""

import math
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
import pytest
from evaluators import Perfect
from scipy.optimize import brentq
from small_games import SKIP_GAME

from baselines.mcts import MCTS
from ttt_envs import Game, Policy, make_policy
from ttt_envs.agents.policy import Player
from ttt_envs.game.rules import Outcome
from ttt_eval import exact
from ttt_eval.matches.account import GameAccount, describe_account, make_account
from ttt_eval.matches.elo import score_from_elo
from ttt_eval.matches.luck import EXACT, make_correction
from ttt_eval.matches.match import play_pairs
from ttt_eval.matches.score import CorrectedPairs, Score
from ttt_eval.matches.sprt import SPRT, RandomWalk, stopped_score

pytestmark = pytest.mark.more

OTHERS = ("random", "win-or-block", "optimal")
PAIRINGS = [
    (a, b) for a, b in product((*OTHERS, "optimal:epsilon=0.3", "svd:rank=2"), OTHERS) if a != b
]


class MeaninglessValues:
    """A bad value function: a number for every position, without meaning."""

    def values(self, boards):
        return np.sin(boards.cells @ np.arange(1, boards.cells.shape[1] + 1) * 2.3 + boards.mover)


@pytest.mark.parametrize(
    ("pairings", "pairs"),
    [(PAIRINGS[::5], 4000), pytest.param(PAIRINGS, 500_000, marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("skip", [0.1, 0.25, 0.5])
def test_corrected_scores_are_unbiased_for_any_values(skip, pairings, pairs):
    game = Game(skip_chance=skip)
    for number, (a, b) in enumerate(pairings):
        truth = exact.match_outcome(game, a, b)
        for values in (EXACT, MeaninglessValues()):
            mean, variance = play_pairs(
                game, a, b, pairs, seed=number, luck_correction=values
            ).corrected.moments()
            assert (
                abs(mean - truth.win - truth.draw / 2) <= 4 * math.sqrt(variance / pairs) + 1e-12
            ), (a, b, values)


class WinsOrBlocks(Player):
    def __init__(self, game):
        self.policy = make_policy("win-or-block", game)

    def act(self, boards, slots, rng, time_left=None):
        return self.policy.act(boards, rng)


class Remembers(Policy):
    """Pure random moves, if it is asked for them; its player in matches is another one."""

    pure = True

    def __init__(self, game):
        self.probabilities = make_policy("random", game).probabilities
        self.player = partial(WinsOrBlocks, game)


def test_draws_of_a_pure_policy_that_remembers_are_not_taken_for_known():
    """Its moves in matches are not drawn from its probabilities, so a correction by these would be
    biased.
    """
    game = SKIP_GAME
    search = MCTS(game, simulations=4, rollout=Perfect(game), decisive=False)
    assert (search.pure, make_correction(EXACT, game).expected_values(search)) == (True, None)
    truth = exact.match_outcome(game, "win-or-block", "random").score
    mean, variance = play_pairs(
        game, Remembers(game), "random", 1000, seed=1, luck_correction=EXACT
    ).corrected.moments()
    assert abs(mean - truth) <= 4 * math.sqrt(variance / 1000)


@pytest.mark.parametrize("game", [SKIP_GAME, Game(3, 4, 3, 0.1), Game(2, 7, 3, 0.2), Game()])
def test_variance_is_smaller_by_exact_values(game):
    score = play_pairs(
        game, "optimal:epsilon=0.05", "optimal:epsilon=0.1", 300, luck_correction=EXACT
    )
    assert score.variance_reduction > 20
    assert abs(score.rate("score").mean - score.raw.rate("score").mean) < 0.05


def test_the_corrected_score_is_that_of_accounts_of_the_games():
    game = SKIP_GAME
    log = []
    players = ("win-or-block", "mcts:simulations=4")
    score = play_pairs(game, *players, 50, seed=3, luck_correction=ByNet(game), log=log.extend)
    logged = [make_account(played_game, make_correction(EXACT, game)) for played_game in log]
    points = [(1 + each.corrected * (1, -1)[i % 2]) / 2 for i, each in enumerate(logged)]
    assert score.moments()[0] == pytest.approx(np.mean(points), abs=1e-12)


class ByNet:
    """Exact values as of any evaluator: without tables, and without known draws."""

    def __init__(self, game):
        self.values = make_policy("optimal", game).values


@pytest.mark.parametrize("spec", [EXACT, "optimal:epsilon=0.4", "noise"])
@pytest.mark.parametrize("game", [SKIP_GAME, Game(3, 4, 3, 0.1)])
def test_account_of_a_game_sums_to_its_result(game, spec):
    log = []
    play_pairs(game, "random", "win-or-block", 20, seed=1, log=log.extend)
    correction = make_correction(MeaninglessValues() if spec == "noise" else spec, game)
    for played_game in log:
        account = make_account(played_game, correction)
        early = make_account(
            replace(played_game, moves=played_game.moves[:2], result=None), correction
        )
        assert early.start + early.luck + sum(early.changes) == pytest.approx(
            early.result, abs=1e-12
        )
        assert [move[1:] for move in early.moves] == [move[1:] for move in account.moves[:2]]
        total = account.start + account.luck + sum(account.changes) + account.forfeit
        assert total == pytest.approx(account.result, abs=1e-12)
        assert (len(account.moves), account.moves[-1].luck) == (len(played_game.moves), 0)
        lost = make_account(
            replace(played_game, moves=played_game.moves[:2], result=Outcome(1), forfeit="time"),
            correction,
        )
        assert lost.forfeit == pytest.approx(-1 - early.result, abs=1e-12)
        assert lost.start + lost.luck + sum(lost.changes) + lost.forfeit == pytest.approx(
            -1, abs=1e-12
        )
        if spec != "noise":
            assert account.changes[0] < 1e-9 < account.changes[1] + 2e-9
    quiet = GameAccount(0.0, (), 0.0, -0.25)  # nothing happened, so that all zeros are rounded ones
    assert describe_account(quiet, 1, ("you", "your moves", "its moves")) == (
        "the start is worth +0.00 to you, your moves lose 0.00, its moves lose 0.00, the skips are "
        "worth +0.00: +0.25 in all"
    )


def test_a_score_and_that_of_no_games_keep_the_correction():
    score = play_pairs(SKIP_GAME, "random", "win-or-block", 20, luck_correction=EXACT)
    assert (score + Score.empty()).moments() == (Score.empty() + score).moments() == score.moments()
    assert score.moments() != score.raw.moments()


def test_corrected_pairs_add_up_and_reverse():
    scores = np.random.default_rng(0).normal(0.6, 0.4, 500)
    both = CorrectedPairs.from_scores(scores[:200]) + CorrectedPairs.from_scores(scores[200:])
    mean, variance = both.moments()
    assert (both.num, mean, variance) == pytest.approx((500, scores.mean(), scores.var(ddof=1)))
    assert both.reversed().moments() == pytest.approx((1 - mean, variance))
    assert CorrectedPairs.from_stored(both.to_list()).to_list() == both.to_list()
    counts, points = both.support()
    assert (counts.sum(), counts @ points / 500) == pytest.approx((500, mean))
    assert counts @ (points - mean) ** 2 / 499 == pytest.approx(variance)


# --------------------------------------------------------------------------------------------------
# Sequential tests


@pytest.mark.parametrize("drift", [-0.5, 0.0, 0.3])
@pytest.mark.parametrize("looks", [1, 7, 400])
def test_probabilities_of_a_stopped_walk_are_those_of_a_simulation(drift, looks):
    rng = np.random.default_rng(looks)
    walk = RandomWalk(-3.0, 4.0, looks, 8 / looks)
    end = 1.0
    at = np.zeros(20_000)
    lower = 0
    games = 20_000
    for _ in range(looks - 1):
        at += rng.normal(drift * walk.step, math.sqrt(walk.step), len(at))
        lower += np.count_nonzero(at <= walk.low)
        at = at[(at > walk.low) & (at < walk.high)]
    lower += np.count_nonzero(
        at + rng.normal(drift * walk.step, math.sqrt(walk.step), len(at)) <= end
    )
    assert walk.coarser().probability_of_lower(drift, end) == pytest.approx(
        lower / games, abs=0.012
    )


def test_a_coarser_walk_has_nearly_the_same_probabilities():
    walk = RandomWalk(-3.0, 4.0, 400, 8 / 400)
    coarser = walk.coarser()
    assert walk.low < coarser.low < coarser.high < walk.high
    assert coarser.looks * coarser.step == pytest.approx(walk.looks * walk.step)
    fine = walk.probability_of_lower(0.3, 4.1)
    assert coarser.probability_of_lower(0.3, 4.1) == pytest.approx(fine, abs=0.004)


def test_a_test_of_one_look_has_the_interval_of_a_sample():
    score = corrected(CorrectedPairs.from_scores(np.random.default_rng(3).normal(0.55, 0.2, 64)))
    error = score.guarded_mean().standard_error
    result = stopped_score(SPRT(0, 40), score, 1)
    mean = score.moments()[0]
    assert result == pytest.approx(
        (mean, mean - 1.959964 * error, mean + 1.959964 * error), abs=1e-6
    )
    early = stopped_score(SPRT(0, 40), score, 4)  # nearer to the middle: an early stop exaggerates
    assert result.mean > early.mean


def discrete(points, chances):
    """Return a sampler of pair scores with a given mean: the chances are tilted exponentially."""
    points = np.array(points)
    chances = np.array(chances)

    def sample(mean, rng, size):
        def tilt(by):
            weights = chances * np.exp(by * (points - points.mean()))
            return weights / weights.sum()

        return rng.choice(
            points, size, p=tilt(brentq(lambda by: tilt(by) @ points - mean, -60, 60))
        )

    return sample


SHAPES = {
    "many draws": discrete([0, 0.25, 0.5, 0.75, 1], [0.01, 0.04, 0.9, 0.04, 0.01]),
    "equal pairs": lambda mean, rng, size: np.full(size, mean),
    "correlated pairs": discrete([0, 0.5, 1], [0.3, 0.4, 0.3]),
    "small variance": lambda mean, rng, size: rng.normal(mean, 0.05, size),
    "heavy tails": lambda mean, rng, size: (
        mean + 0.05 * np.clip(rng.standard_t(2.5, size), -40, 40)
    ),
}


def play(test, shape, elo, rng):
    """Return the accepted hypothesis, the true score, and the estimate of a simulated test."""
    mean = score_from_elo(elo)
    looks = 1
    pairs = CorrectedPairs.from_scores(SHAPES[shape](mean, rng, 32))
    score = corrected(pairs)
    while test.decide(score).accepted is None:
        pairs = pairs + CorrectedPairs.from_scores(SHAPES[shape](mean, rng, 32))
        score = corrected(pairs)
        looks = looks + 1
    return test.decide(score).accepted, mean, stopped_score(test, score, looks)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("matches", [30, pytest.param(1000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("elo", [0, 20, 40])
def test_errors_of_sequential_tests_and_estimates_after_them(elo, shape, matches):
    """A false hypothesis is rarely accepted, intervals have their coverage, and half of the
    estimates are too high.
    """
    rng = np.random.default_rng(5 + elo)
    accepted, means, estimates = zip(
        *(play(SPRT(0, 40), shape, elo, rng) for _ in range(matches)), strict=True
    )
    allowed = 3 * math.sqrt(0.05 * 0.95 / matches)
    middle, low, high = np.transpose(estimates)
    if elo != 20:
        true = "elo1" if elo else "elo0"
        assert np.mean(np.array(accepted) != true) <= 0.05 + allowed
    assert np.mean((low - 1e-9 <= means) & (means <= high + 1e-9)) >= 0.95 - allowed
    if shape != "equal pairs" and elo == 20:
        assert np.mean(middle > means) == pytest.approx(
            0.5, abs=0.1 + 3 * math.sqrt(0.25 / matches)
        )


def corrected(pairs):
    return Score.from_pentanomial([0, 0, pairs.num, 0, 0], pairs)
