"""Matches: results known from elsewhere, and independence of results from blocks and workers."""

from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import plain
import pytest
from exactly import play_out
from numpy.testing import assert_array_equal
from players import Cheat
from small_games import SKIP_GAME

from baselines.exact import Optimal
from ttt_envs import Game, from_text, make_policy
from ttt_envs.agents.policy import Forfeit, Policy
from ttt_envs.agents.specs import is_built_in
from ttt_envs.game.rules import STREAM_SKIP
from ttt_eval.exact import outcome
from ttt_eval.matches import match
from ttt_eval.matches.match import PAIRS_PER_SEED_BLOCK, MatchSettings, play_blocks, play_pairs
from ttt_eval.matches.openings import Openings
from ttt_eval.matches.score import Score

# player_0's wins, draws and losses in tic-tac-toe with random moves, exactly
# (tests/data/known-values.json)
RANDOM = (Fraction(737, 1260), Fraction(8, 63), Fraction(121, 420))


def settings(a="win-or-block", b="random", openings=None, **others):
    return MatchSettings(
        SKIP_GAME, (a, b), openings=openings and Openings.from_text(openings, SKIP_GAME), **others
    )


def total(blocks):
    return sum(blocks, Score.empty(SKIP_GAME))


class Quits(Policy):
    """Random moves; forfeits before its third stone if the other player has the first cell."""

    pure = False

    def __init__(self, game):
        self.random = make_policy("random", game)

    def probabilities(self, boards, rng=None):
        [cells] = boards.cells
        if cells[0] == 2 - boards.mover[0] and np.count_nonzero(cells == boards.mover[0] + 1) == 2:
            raise Forfeit("it has\nseen enough\x00")
        return self.random.probabilities(boards, rng)


def test_stateless_policy_forfeits_some_games_and_plays_the_others():
    logged = []
    score = play_pairs(SKIP_GAME, Quits(SKIP_GAME), "random", 200, seed=3, log=logged.extend)
    forfeited = [played_game for played_game in logged if played_game.forfeit is not None]
    assert {played_game.forfeit for played_game in forfeited} == {r"it has seen enough\x00"}
    assert score.forfeits == (len(forfeited), 0, r"it has seen enough\x00")
    assert 40 < len(forfeited) < 200
    quitter = str(logged[0].players[0])
    for played_game in logged:
        seats = [seat for seat, name in enumerate(played_game.players) if name == quitter]
        quits = [
            mover in seats and cells[0] == 2 - mover and np.count_nonzero(cells == mover + 1) == 2
            for cells, mover in [
                *(position for position, _, _ in played_game.positions()),
                played_game.end(),
            ]
        ]
        assert not any(quits[:-1])
        if played_game.forfeit is not None:
            assert quits[-1]
            assert played_game.result == 1 - played_game.end().mover
    assert_array_equal(score.lengths.sum(axis=2), score.table)
    assert_array_equal(
        total(play_blocks(settings(Quits(SKIP_GAME), seed=3), 200, block=7)).pairs, score.pairs
    )


def test_match_aborts_if_a_policy_forfeits_all_games():
    class Never(Quits):
        def probabilities(self, boards, rng=None):
            raise Forfeit("")

    for _ in range(2):
        with pytest.raises(ValueError, match=r"forfeited 8 games in a row|say pure = False"):
            play_pairs(SKIP_GAME, "random", Never(SKIP_GAME), 10)
        Never.pure = True  # then it must not


def same_games_for(blocks_and_jobs, pairs, match):
    """Return the score and the games, after a check that they depend neither on blocks nor on
    workers.
    """
    results = []
    for block, jobs in blocks_and_jobs:
        games = []
        score = total(play_blocks(match, pairs, block=block, jobs=jobs, log=games.extend))
        results.append((score.pairs.tolist(), score.lengths.tolist(), games))
    assert all(result == results[0] for result in results)
    return score, games


def test_games_depend_on_the_seed_and_not_on_blocks_or_workers():
    match = settings(openings="random:2", seed=3)
    pairs = PAIRS_PER_SEED_BLOCK + 60
    once, games = same_games_for([(PAIRS_PER_SEED_BLOCK, 1), (700, 2), (77, 1)], pairs, match)
    counted = np.zeros((2, 3), np.int64)
    for number, played_game in enumerate(games):
        swapped = number % 2
        counted[swapped, 1 - int(plain.result_for(swapped, played_game.result))] += 1
        assert (played_game.seed, played_game.episode) == (3, number)
        assert (
            played_game.players == (("win-or-block", "random"), ("random", "win-or-block"))[swapped]
        )
        assert (played_game.opening, played_game.settings) == (
            games[number - swapped].opening,
            {"openings": "random:2"},
        )
    assert_array_equal(counted, once.table)
    score = play_pairs(SKIP_GAME, "win-or-block", "random", pairs, seed=3, openings="random:2")
    assert_array_equal(score.pairs, once.pairs)
    openings = []
    for options in (
        {"a": "table", "seed": 3},
        {"seed": 4},
    ):  # random moves do not move those of the openings
        games_of = []
        total(play_blocks(settings(openings="random:2", **options), 40, log=games_of.extend))
        openings.append(
            [played_game.opening for played_game in games_of]
            == [played_game.opening for played_game in games[:80]]
        )
    assert openings == [True, False]


@pytest.mark.parametrize("b", ["random", "expectiminimax:depth=2,width=3"])
def test_games_of_a_stateful_player_do_not_depend_on_workers(b, more_workers):
    same_games_for(
        [(None, 1), (None, more_workers)], 30, settings("mcts:simulations=20", b, "random:2")
    )


@pytest.mark.more
def test_blocks_are_small_enough_to_share_and_to_stop_early():
    blocks = play_blocks(settings(seed=3), 10**12, block=50, jobs=2)
    assert next(blocks).games == 100
    blocks.close()
    assert next(play_blocks(settings("mcts:simulations=2"), 30)).games == 2 * match.MIN_BLOCK


@pytest.mark.parametrize(
    ("a", "pairs", "block"), [("random", 0, None), ("random", 3, 0), (Cheat(), 3, None)]
)
def test_errors(a, pairs, block):
    with pytest.raises(ValueError, match="choose"):
        total(play_blocks(settings(a), pairs, block=block))


def test_distributions_of_callers_are_checked_as_by_exact():
    weights = SimpleNamespace(pure=True, probabilities=lambda boards, *_: 2 * (boards.cells == 0))
    rule = r"moves in '[./]{11} o': \[2. .* must be 0 on occupied cells, nowhere negative, and sum"
    with pytest.raises(ValueError, match=rule):
        outcome(SKIP_GAME, weights, "random")
    for weights.pure in (True, False):
        with pytest.raises(ValueError, match=rule):
            play_pairs(SKIP_GAME, weights, "random", 9)


def test_only_built_in_classes_are_trusted():
    """Neither another class in a module of the same name nor a derived one."""

    class Twin(Policy):
        __module__ = Optimal.__module__

        def probabilities(self, boards, rng=None):
            return 2.0 * (boards.cells == 0)

    class Derived(Optimal):
        probabilities = Twin.probabilities

    assert is_built_in(make_policy("optimal", SKIP_GAME))
    for policy in (Twin(), Derived(SKIP_GAME)):
        with pytest.raises(ValueError, match="gave no distribution over legal moves"):
            play_pairs(SKIP_GAME, policy, "random", 9)


def test_score_sums_by_result_and_by_seat():
    score = Score(np.array([[10, 2, 3], [1, 20, 4], [5, 6, 7]]))
    assert (score.games, score.table.tolist()) == (116, [[15, 25, 18], [16, 28, 14]])
    assert score.pentanomial.tolist() == [7, 10, 28, 3, 10]
    assert score.rate("wins").mean == pytest.approx(31 / 116)
    assert score.rate("draws").mean == pytest.approx(53 / 116)
    assert score.rate("score").mean == pytest.approx((31 + 53 / 2) / 116)
    reversed_ = score.reversed()
    assert (
        reversed_.pairs[1, 2] == score.pairs[0, 1]
    )  # won first, drawn second: for b drawn first, lost second
    assert reversed_.table.tolist() == score.table[::-1, ::-1].tolist()
    assert_array_equal(reversed_.reversed().pairs, score.pairs)


def test_games_are_called_alike_only_if_they_end_before_the_board_is_full():
    pairs = np.zeros((3, 3), np.int64)
    lengths = np.zeros((2, 3, 10), np.int64)
    pairs[0, 2] = 3
    lengths[0, 0, 5] = lengths[1, 2, 6] = 3
    assert Score(pairs, lengths).is_degenerate
    assert not Score(pairs // 3, lengths // 3).is_degenerate  # one pair
    lengths[0, 0, 5] = 2
    lengths[0, 0, 7] = 1
    assert not Score(pairs, lengths).is_degenerate
    full = np.zeros_like(lengths)
    full[:, 1, 9] = 3
    assert not Score(np.diag([0, 3, 0]), full).is_degenerate


# --------------------------------------------------------------------------------------------------
# Openings


def test_listed_openings_are_taken_in_turn_in_both_games_of_a_pair(tmp_path):
    texts = ["x.o/.../... o", "oo./x../... x", "o../.../..x o"]
    (tmp_path / "three").write_text("\n".join(texts))
    for block in (PAIRS_PER_SEED_BLOCK, 500):
        games = []
        match = settings("random", openings=str(tmp_path / "three"))
        total(play_blocks(match, PAIRS_PER_SEED_BLOCK + 5, block=block, log=games.extend))
        assert [played_game.opening for played_game in games] == [
            texts[n // 2 % 3] for n in range(2 * PAIRS_PER_SEED_BLOCK + 10)
        ]


@pytest.mark.parametrize("openings", [None, "random:3"])
def test_skips_are_those_of_the_key_of_the_pair_and_the_ply(openings):
    """By an independent implementation; with an opening, the first move is not ply 0."""
    games = []
    play_pairs(SKIP_GAME, "random", "random", 50, seed=9, openings=openings, log=games.extend)
    rng = np.random.default_rng(np.random.SeedSequence(9, spawn_key=(0,)))
    key = int(rng.integers(0, 1 << 64, dtype=np.uint64))
    skips = 0
    for number, played_game in enumerate(games):
        pair_key = plain.splitmix64(key, number // 2)
        for position, _, skipped in list(played_game.positions())[:-1]:
            ply = int(np.count_nonzero(position.cells))
            assert skipped == (plain.uniform(pair_key, STREAM_SKIP, ply) < 0.25)
            skips += skipped
    assert skips > 50


def test_match_has_its_exact_rates(tmp_path):
    """By enumerating all continuations of random play; of the empty board as known elsewhere."""
    for game, text in ((SKIP_GAME, "x.o/.o./..x o"), (Game(), "x.o/.../... o"), (Game(), None)):
        exact = np.array(RANDOM, np.float64)
        if text is not None:
            (tmp_path / "one").write_text(text)
            cells, mover = from_text(text)
            exact = np.array(play_out(game, "random", "random", (cells.tobytes(), mover))[0])
        score = play_pairs(
            game, "random", "random", 20_000, openings=text and str(tmp_path / "one")
        )
        for counts, shares in zip(score.table, (exact, exact[::-1]), strict=True):
            assert (
                abs(counts - shares * 20_000) <= 4 * (shares * (1 - shares) * 20_000) ** 0.5
            ).all()
