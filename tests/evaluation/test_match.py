"""Pairs of games: exact results known without us, and what must not matter."""

import json
from fractions import Fraction

import numpy as np
import plain
import pytest
from numpy.testing import assert_array_equal

from evaluation.matches import match
from evaluation.matches.match import Score, play_blocks, play_pairs
from ttt_envs import Game, make_policy
from ttt_envs.agents.policy import Forfeit

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


class Quits:
    """Plays at random, and gives up before its third stone where there is one of the other player in the first cell."""

    pure = False

    def __init__(self, game):
        self.random = make_policy("random", game)

    def probabilities(self, boards, rng=None):
        [cells] = boards.cells
        if cells[0] == 2 - boards.mover[0] and np.count_nonzero(cells == boards.mover[0] + 1) == 2:
            raise Forfeit("it has\nseen enough\x00")
        return self.random.probabilities(boards, rng)


def test_a_policy_without_memory_gives_up_games_and_plays_the_others():
    logged = []
    score = play_pairs(GAME, Quits(GAME), "random", 200, seed=3, log=logged.extend)
    given_up = [played for played in logged if played.forfeit is not None]
    assert {played.forfeit for played in given_up} == {r"it has seen enough\x00"}
    assert score.forfeits == (len(given_up), 0, r"it has seen enough\x00")
    assert 40 < len(given_up) < 200
    quitter = str(logged[0].players[0])
    for played in given_up:
        cells, mover = played.end()
        assert played.players[mover] == quitter
        assert (played.result, cells[0]) == (1 - mover, 2 - mover)
    for played in logged:  # and never where it should have
        for (cells, mover), _, _ in played.positions():
            seen = played.players[mover] == quitter and cells[0] == 2 - mover
            assert not (seen and np.count_nonzero(cells == mover + 1) == 2)
    assert score.lengths.sum() == 400
    parts = play_blocks(GAME, Quits(GAME), "random", 200, seed=3, block=7)
    assert_array_equal(sum(parts, Score.nothing(GAME)).pairs, score.pairs)


def test_a_match_ends_with_a_policy_that_gives_up_all_games():
    class Never(Quits):
        def probabilities(self, boards, rng=None):
            raise Forfeit("")

    with pytest.raises(ValueError, match="has given up 8 games in a row, and the match with them: no reason was given"):
        play_pairs(GAME, "random", Never(GAME), 10)
    Never.pure = True
    with pytest.raises(ValueError, match="is pure and gave up a game, no reason was given: say pure = False"):
        play_pairs(GAME, "random", Never(GAME), 10)


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
    play_pairs(Game(), "random", "random", 2 * match.PAIRS_PER_SEED_BLOCK + 5, progress=seen.append)
    assert sum(seen) == 2 * match.PAIRS_PER_SEED_BLOCK + 5
    assert len(seen) >= match.BLOCKS


def test_games_do_not_depend_on_the_size_of_blocks():
    pairs = match.PAIRS_PER_SEED_BLOCK + 300
    whole = play_pairs(GAME, "win-or-block", "random", pairs, seed=3)
    for block in (match.PAIRS_PER_SEED_BLOCK, 77):
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
    for seed in range(100):
        interval = play_pairs(Game(), "random", "random", 100, seed=seed).rate("wins")
        inside += interval.low <= exact <= interval.high
    assert 86 <= inside <= 99  # 95 expected; 4 standard errors are 9


# ---------------------------------------------------------------------------------------------------------------------
# Openings


@pytest.mark.parametrize("openings", ["random:3", "all:2"])
def test_both_games_of_a_pair_begin_with_the_same_opening_and_each_player_has_both_seats(openings):
    games = []
    play_pairs(GAME, "win-or-block", "random", 300, openings=openings, log=games.extend)
    assert [played.episode for played in games] == list(range(600))
    for first, second in zip(games[::2], games[1::2], strict=True):
        assert first.opening == second.opening is not None
        assert (first.players, second.players) == (("win-or-block", "random"), ("random", "win-or-block"))
        assert first.settings == {"openings": openings}
    assert len({played.opening for played in games}) > 50


def test_a_pair_begins_alike_whoever_plays_it_and_however_many_beside_it():
    pairs = match.PAIRS_PER_SEED_BLOCK + 40
    begun = []
    for block, jobs, a in (
        (match.PAIRS_PER_SEED_BLOCK, 1, "random"),
        (700, 1, "random"),
        (700, 2, "random"),
        (300, 1, "table"),
    ):
        games = []
        blocks = play_blocks(
            GAME, a, "random", pairs, seed=5, block=block, jobs=jobs, openings="random:2", log=games.extend
        )
        total = sum(blocks, Score.nothing(GAME))
        begun.append(([played.opening for played in games], total.pairs.tolist() if a == "random" else None))
    assert begun[0] == begun[1] == begun[2]
    assert begun[3][0] == begun[0][0]
    games = []
    play_pairs(GAME, "random", "random", 40, seed=6, openings="random:2", log=games.extend)
    assert [played.opening for played in games] != begun[0][0][:80]


def test_openings_that_are_listed_are_taken_in_turn_through_all_of_a_match(tmp_path):
    texts = ["x.o/.../... o", "oo./x../... x", "o../.../..x o"]
    (tmp_path / "three").write_text("\n".join(texts))
    for block in (match.PAIRS_PER_SEED_BLOCK, 500):
        games = []
        list(play_blocks(
            GAME, "random", "random", match.PAIRS_PER_SEED_BLOCK + 5, block=block, openings=str(tmp_path / "three"),
            log=games.extend
        ))  # fmt: skip
        assert [played.opening for played in games[::2]] == [
            texts[n % 3] for n in range(match.PAIRS_PER_SEED_BLOCK + 5)
        ]


@pytest.mark.parametrize("openings", [None, "random:3"])
def test_a_turn_is_skipped_when_the_luck_of_the_pair_says_so_for_that_ply(openings):
    """The luck by an implementation of its own; with an opening, the first move is not ply 0."""
    games = []
    play_pairs(GAME, "random", "random", 50, seed=9, openings=openings, log=games.extend)
    rng = np.random.default_rng(np.random.SeedSequence(9, spawn_key=(0,)))
    key = int(rng.integers(0, 1 << 64, dtype=np.uint64))
    skips = 0
    for number, played in enumerate(games):
        luck = plain.splitmix64(key, number // 2)
        for position, _, skipped in list(played.positions())[:-1]:
            ply = int(np.count_nonzero(position.cells))
            assert skipped == ((plain.splitmix64(luck, ply) >> 11) * 2.0**-53 < 0.25)
            skips += skipped
    assert skips > 50


def test_a_match_from_one_position_has_its_exact_rates(tmp_path):
    """By counting all continuations of random play, with and without skips."""
    for game, text in ((GAME, "x.o/.o./..x o"), (Game(), "x.o/.o./..x o"), (Game(), "x.o/.../... o")):
        (tmp_path / "one").write_text(text)
        score = play_pairs(game, "random", "random", 20_000, openings=str(tmp_path / "one"))
        exact = random_play(game, text)
        for count, share in zip(score.table[0], exact, strict=True):
            assert abs(count - share * 20_000) <= 4 * (share * (1 - share) * 20_000) ** 0.5
        for count, share in zip(score.table[1], exact[::-1], strict=True):
            assert abs(count - share * 20_000) <= 4 * (share * (1 - share) * 20_000) ** 0.5


def random_play(game, text):
    """What random play from a position comes to: player_0's wins, draws and losses."""
    lines = plain.all_lines(game)

    def ends(cells, mover):
        total, empty = np.zeros(3), [cell for cell, stone in enumerate(cells) if stone == "."]
        for cell in empty:
            after = cells[:cell] + "ox"[mover] + cells[cell + 1 :]
            if any(all(after[one] == "ox"[mover] for one in line) for line in lines):
                total[2 * mover] += 1
            elif len(empty) == 1:
                total[1] += 1
            else:
                skip = game.skip_chance
                total += (1 - skip) * ends(after, 1 - mover) + (skip * ends(after, mover) if skip else 0)
        return total / len(empty)

    board, mover = text.split()
    return ends(board.replace("/", ""), "ox".index(mover))


def test_lengths_count_the_stones_of_the_opening_too():
    score = play_pairs(GAME, "random", "random", 500, openings="all:5")
    assert not score.lengths[:, :, :6].any()
    assert score.lengths.sum() == 1000


# ---------------------------------------------------------------------------------------------------------------------
# Games that are kept


def test_the_games_of_a_match_are_the_ones_that_were_counted():
    games = []
    score = play_pairs(GAME, "win-or-block", "random", 400, seed=2, log=games.extend)
    counted = np.zeros((2, 3), np.int64)
    for played in games:
        swapped = played.episode % 2
        counted[swapped, 1 if played.result == 2 else 0 if played.result == swapped else 2] += 1
        assert played.seed == 2
        assert played.settings == {}
        assert played.opening is None
    assert_array_equal(counted, score.table)
    assert_array_equal(play_pairs(GAME, "win-or-block", "random", 400, seed=2).pairs, score.pairs)


def test_a_log_is_the_same_for_any_number_of_jobs():
    """Of a policy that is not pure, of one with a memory, and of a search."""
    for a, b in (("mcts:simulations=20", "random"), ("mcts:simulations=20", "expectiminimax:depth=2,width=3")):
        logs = []
        for jobs in (1, 2):
            games, seen = [], []
            play_pairs(GAME, a, b, 30, jobs=jobs, openings="random:2", log=games.extend, progress=seen.append)
            logs.append((games, seen))
        assert logs[0] == logs[1]
        assert max(logs[0][1]) == match.MIN_BLOCK  # progress is seen in small steps


@pytest.mark.slow  # by default the test of ttt_envs/core/parallel.py works on the cluster
@pytest.mark.needs("ray")
def test_a_cluster_plays_the_same_match(cluster):
    options = {"seed": 4, "openings": "random:2"}
    logs = []
    for jobs in (1, cluster):
        games = []
        score = play_pairs(GAME, "mcts:simulations=20", "win-or-block", 20, jobs=jobs, log=games.extend, **options)
        logs.append((games, score.pairs.tolist()))
    assert logs[0] == logs[1]


class Counting(FirstEmpty):
    made = 0

    def __init__(self, game):
        type(self).made += 1


def test_a_policy_is_made_once_in_a_process_and_again_in_the_next_match():
    """To read a large table may take longer than to play; and what a name stands for may be another one later."""
    Counting.made = 0
    play_pairs(GAME, "test_match:Counting", "random", 100)
    assert Counting.made == 1
    play_pairs(GAME, "test_match:Counting", "random", 100)
    assert Counting.made == 2


def test_no_blocks_are_none():
    with pytest.raises(ValueError, match="block=0 leaves nothing to play: choose 1 or more pairs"):
        next(play_blocks(GAME, "random", "random", 3, block=0))


# ---------------------------------------------------------------------------------------------------------------------
# What the same luck is worth


def test_the_same_skips_in_both_games_lower_the_variance():
    """The estimate by pairs, repeated, varies as much less as one match says that it does."""
    apart, together = [], []
    points = np.array([1, 0.5, 0])
    blocks = play_blocks(GAME, "win-or-block", "win-or-block", 600 * 64, block=64)
    for score, other in zip(blocks, blocks, strict=True):
        together.append(points @ score.table.sum(axis=0) / 128)
        apart.append(points @ (score.table[0] + other.table[1]) / 128)  # no game of one has its pair in the other
    left = play_pairs(GAME, "win-or-block", "win-or-block", 50_000).variance_left
    assert 0.32 < left < 0.38
    assert 0.7 * left < np.var(together) / np.var(apart) < 1.4 * left


def test_without_skips_pairs_are_two_games():
    assert 0.95 < play_pairs(Game(), "random", "random", 50_000).variance_left < 1.05
    assert play_pairs(GAME, FirstEmpty(), FirstEmpty(), 500).variance_left == pytest.approx(0)
    assert np.isnan(play_pairs(Game(), FirstEmpty(), FirstEmpty(), 5).variance_left)


@pytest.mark.parametrize("game", [GAME, Game(5, 8, 4), Game(7, 7, 5, 0.25)], ids=str)
def test_a_pure_policy_is_asked_about_each_position_once(game):
    class Counted:
        pure = True
        asked = 0

        def probabilities(self, boards, rng=None):
            type(self).asked += len(boards.mover)
            shares = boards.legal(game) * (1.0 + np.arange(game.cells))
            return shares / shares.sum(axis=1, keepdims=True)

    boards = plain.positions_of_random_play(game, 300)
    policy = Counted()
    found = match.DeduplicatedPolicy(policy).probabilities(boards)
    distinct = len({(bytes(cells), mover) for cells, mover in zip(boards.cells, boards.mover, strict=True)})
    assert policy.asked == (distinct if game.cells < 40 else 300)
    assert_array_equal(found, policy.probabilities(boards))
