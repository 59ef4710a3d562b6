"""Pairs of games: exact results known without us, and what must not matter."""

import json
from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from evaluation import match
from evaluation.match import Score, play_blocks, play_pairs
from ttt_envs import Game

# player_0's wins, draws and losses in tic-tac-toe with random moves, exactly (tests/data/known-values.json)
RANDOM = (Fraction(737, 1260), Fraction(8, 63), Fraction(121, 420))


GAME = Game(skip_chance=0.25)


def test_random_against_random_has_its_known_rates():
    score = play_pairs(Game(), "random", "random", 50_000, seed=2)
    assert score.games == 100_000
    for seat, expected in zip(score.table, (RANDOM, RANDOM[::-1]), strict=True):
        for count, share in zip(seat, expected, strict=True):
            error = 4 * (float(share * (1 - share)) * 50_000) ** 0.5
            assert abs(count - float(share) * 50_000) < error


def test_the_other_way_round_is_the_same_match_seen_from_the_other_side():
    for skip_chance in (0.0, 0.25):
        game = Game(skip_chance=skip_chance)
        ours = play_pairs(game, "win-or-block", "random", 20_000, seed=1)
        theirs = play_pairs(game, "random", "win-or-block", 20_000, seed=1)
        for name, other in (("wins", "losses"), ("draws", "draws")):
            a, b = ours.rate(name), theirs.rate(other)
            assert max(a.low, b.low) < min(a.high, b.high)


def test_results_depend_on_the_seed_and_not_on_the_workers():
    game = Game(skip_chance=0.25)
    once = play_pairs(game, "win-or-block", "random", 5000, seed=3)
    assert_array_equal(once.pairs, play_pairs(game, "win-or-block", "random", 5000, seed=3, jobs=2).pairs)
    assert (once.pairs != play_pairs(game, "win-or-block", "random", 5000, seed=4).pairs).any()


def test_progress_tells_every_pair_once():
    seen = []
    play_pairs(Game(), "random", "random", 2 * match.CHAPTER + 5, progress=seen.append)
    assert sum(seen) == 2 * match.CHAPTER + 5
    assert len(seen) >= match.BLOCKS


def test_games_do_not_depend_on_the_size_of_blocks():
    pairs = match.CHAPTER + 300
    whole = play_pairs(GAME, "win-or-block", "random", pairs, seed=3)
    for block in (match.CHAPTER, 77):
        parts = list(play_blocks(GAME, "win-or-block", "random", pairs, seed=3, block=block))
        assert max(part.games for part in parts) == 2 * block
        assert_array_equal(sum(parts, Score.nothing(GAME)).pairs, whole.pairs)
        assert_array_equal(sum(parts, Score.nothing(GAME)).lengths, whole.lengths)


def test_whoever_has_seen_enough_of_a_match_stops_it():
    blocks = play_blocks(GAME, "win-or-block", "random", 10**12, seed=3, block=50, jobs=2)
    first = next(blocks)
    blocks.close()
    again = next(play_blocks(GAME, "win-or-block", "random", 10**12, seed=3, block=50))
    assert_array_equal(first.pairs, again.pairs)


def test_both_games_of_a_pair_have_the_same_skips():
    """Two who always take the first empty cell differ in nothing, so each pair is one game seen from both sides."""
    game = Game(skip_chance=0.5)
    score = play_pairs(game, FirstEmpty(), FirstEmpty(), 2000)
    assert_array_equal(score.pentanomial, [0, 0, 2000, 0, 0])
    assert 0 < score.pairs[0, 2] < 2000  # and skips did decide games


class FirstEmpty:
    pure = True

    def probabilities(self, boards, rng=None):
        return np.eye(boards.cells.shape[1])[np.argmax(boards.cells == 0, axis=1)]


class Cheat(FirstEmpty):
    def act(self, boards, rng):
        rng.random(len(boards.mover))
        return np.zeros(len(boards.mover), np.int64)


def test_a_policy_that_plays_on_stones_is_named():
    with pytest.raises(ValueError, match="moved to a cell that is not empty: it is at fault"):
        play_pairs(Game(), Cheat(), "random", 3)


@pytest.mark.parametrize(
    ("pairs", "opponent", "message"),
    [(0, "random", "pairs=0 leaves nothing to play"), (1, "randm", "no policy 'randm': did you mean 'random'")],
)
def test_what_cannot_be_played_is_told(pairs, opponent, message):
    with pytest.raises(ValueError, match=message):
        play_pairs(Game(), "random", opponent, pairs)


def test_lengths_of_games_are_counted_by_seat_and_result():
    game = Game(3, 4, 3, 0.25)
    score = play_pairs(game, "win-or-block", "random", 3000, jobs=2)
    assert score.lengths.shape == (2, 3, game.cells + 1)
    assert_array_equal(score.lengths.sum(axis=2), score.table)
    assert not score.lengths[:, 1, : game.cells].any()  # draws fill the board
    shortest = [[np.flatnonzero(lengths)[0] for lengths in of_seat[::2]] for of_seat in score.lengths]
    assert shortest == [[3, 4], [4, 3]]  # after two skips; the other one's first stone came before
    assert_array_equal(play_pairs(game, "random", "random", 1, seed=1).lengths.sum(), 2)


def test_a_score_adds_up():
    score = Score(np.array([[10, 2, 3], [1, 20, 4], [5, 6, 7]]))
    assert score.games == 116
    assert score.table.tolist() == [[15, 25, 18], [16, 28, 14]]
    assert score.pentanomial.tolist() == [7, 10, 28, 3, 10]
    assert score.rate("wins").mean == pytest.approx(31 / 116)
    assert score.rate("draws").mean == pytest.approx(53 / 116)
    assert score.rate("score").mean == pytest.approx((31 + 53 / 2) / 116)
    assert json.loads(json.dumps(score.to_dict()))["pentanomial"] == [7, 10, 28, 3, 10]


def test_the_interval_holds_the_truth_as_often_as_it_says():
    exact = float(RANDOM[0] + RANDOM[2]) / 2  # wins of either side, seats swapped
    inside = 0
    for seed in range(200):
        interval = play_pairs(Game(), "random", "random", 200, seed=seed).rate("wins")
        inside += interval.low <= exact <= interval.high
    assert 180 <= inside <= 199  # 190 expected; 4 standard errors are 12
