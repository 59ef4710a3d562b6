"""The studies of the report on tree search: published numbers, counting, verdicts, and that the tree beats random."""

import numpy as np
import pytest

from baselines.expectiminimax import Search
from ttt_apps.studies import tree_random, tree_search, trees
from ttt_envs.agents.policy import act
from ttt_envs.agents.specs import make_policy
from ttt_envs.game.boards import Boards
from ttt_eval.matches.match import play_pairs
from ttt_eval.matches.score import Score
from ttt_eval.statistics import difference, wilson


def board_name(value):
    return f"{value.size}x{value.size}" if isinstance(value, trees.ReportBoard) else str(value)


BOARDS = pytest.mark.parametrize("board", trees.BOARDS, ids=board_name)


@BOARDS
def test_published_matches_have_a_hundred_games(board):
    assert sum(board.random) == sum(board.tree) == trees.GAMES


@pytest.mark.parametrize(
    ("board", "games", "seed"),
    [
        *((board, 40, 20) for board in trees.BOARDS if board.win_length == 5),  # whose games are short
        *(pytest.param(board, 1_000, 21, marks=pytest.mark.slow) for board in trees.BOARDS),
    ],
    ids=board_name,
)
def test_the_tree_beats_random_as_published(board, games, seed):
    """The tree, moving second, may win as often as the lower limit of the published games says."""
    score = play_pairs(board.game, "random", board.spec(), games, seed=seed)
    _, _, won = score.table[0]
    limit = wilson(board.tree[0] / trees.GAMES, trees.GAMES).low
    assert wilson(won / games, games).high >= limit


# ---------------------------------------------------------------------------------------------------------------------
# Counting of games


def test_split_games_add_up_and_share_no_seed():
    pieces = trees.split_games(2_500, 1_000)
    assert [games for games, _ in pieces] == [1_000, 1_000, 500]
    assert len({seed for _, seed in pieces}) == 3


@pytest.mark.parametrize("study", [tree_random, tree_search])
def test_units_play_distinct_games(study):
    seeds = [(*unit["board"], unit.get("tree"), unit["seed"]) for unit in study.units(False) if "seed" in unit]
    assert len(seeds) == len(set(seeds))
    # games that are played one by one have seeds of their own, from the first on
    assert max(seed for *_, seed in seeds if seed != trees.GAMES_PER_SEAT) < trees.GAMES_PER_SEAT


def test_units_add_up_to_the_stated_games():
    found = {}
    for unit in tree_search.units(False):
        if unit["what"] == "match":
            assert unit["games"] <= tree_search.UNIT_GAMES
            key = (*unit["board"], unit["tree"])
            found[key] = found.get(key, 0) + unit["games"]
    for board in trees.BOARDS:
        assert found.pop((board.size, board.win_length, board.spec())) == trees.GAMES_PER_SEAT
    assert set(found.values()) == {tree_search.OTHER_GAMES}


def test_matches_add_up():
    game = trees.square(3, 3)
    one, other = (trees.play_match(game, "random", "random", 10, seed) for seed in (0, 1))
    both = trees.total_score([one, other])
    assert both.games == 40
    assert (both.pairs == np.add(one["pairs"], other["pairs"])).all()
    assert (both.lengths == np.add(one["lengths"], other["lengths"])).all()
    assert trees.play_match(game, "random", "random", 10, 0) == one


def test_single_games_are_those_of_their_seat():
    game = trees.square(3, 3)
    for seat in (0, 1):
        games = list(trees.play_games(game, "optimal", "random", seat, 20, seed=3))
        scores = [play_pairs(game, "optimal", "random", 1, seed=3 + number) for number in range(20)]
        assert [result for result, _ in games] == [int(score.table[seat].argmax()) for score in scores]
        assert all(
            score.lengths[seat, result, stones] == 1 for (result, stones), score in zip(games, scores, strict=True)
        )


@pytest.mark.parametrize("heuristic", ["count", "consecutive"])
def test_the_counting_tree_plays_like_its_policy(heuristic):
    board = trees.BOARDS[0]
    game, policy = board.game, make_policy(board.spec(heuristic), board.game)
    counting = tree_search.CountingTree(policy)
    cells = np.zeros((4, game.cells), np.int8)
    cells[1:, 24], cells[2:, 25], cells[3:, [10, 11, 12, 13]] = 1, 2, 1
    boards, slots = Boards(cells, np.array([0, 1, 0, 1], np.int8)), np.array([5, 0, 2, 7])
    counting.begin(slots)
    one, other = np.random.default_rng(4), np.random.default_rng(4)
    moves = counting.act(boards, slots, one)
    assert moves.tolist() == [int(act(policy, boards.take(np.array([row])), other)[0]) for row in range(4)]
    for slot in slots.tolist():
        assert 0 < counting.nodes[slot, "star1"] <= counting.nodes[slot, "none"]
    first = counting.nodes[5, "none"]
    counting.act(boards.take(np.array([0])), slots[:1], one)
    assert counting.nodes[5, "none"] == 2 * first == 2 * tree_search.tree_size(board)


@BOARDS
def test_the_formula_gives_the_nodes_of_the_first_move(board):
    keys = np.zeros(1, np.uint64)
    search = Search(board.game, Boards.start(board.game), pruning="none", width=board.width, random_keys=keys)
    search.run(trees.DEPTH)
    assert search.nodes[0] == tree_search.tree_size(board)


# ---------------------------------------------------------------------------------------------------------------------
# Statistics


def test_first_move_advantage():
    pairs = np.zeros((3, 3), np.int64)
    pairs[0, 2] = 100  # the first player always wins
    score = Score(pairs)
    assert trees.first_mover_score(score).table.sum(axis=0).tolist() == [200, 0, 0]
    assert trees.first_move_advantage(score).mean == pytest.approx(1)
    assert trees.first_move_advantage(Score(pairs.T)).mean == pytest.approx(-1)
    assert trees.first_move_advantage(Score(np.diag([100, 0, 0]))).mean == pytest.approx(0)  # a always wins


def test_counts_agree_with_similar_rates():
    assert trees.counts_agree((56, 44, 0), (5_500, 4_500, 0)) is True
    assert trees.counts_agree((56, 44, 0), (7_000, 3_000, 0)) is False
    assert trees.counts_agree((98, 0, 2), (10_000, 0, 0)) is False
    assert trees.counts_agree((100, 0, 0), (10_000, 0, 0)) is True
    assert trees.counts_agree((99, 0, 1), (1_000, 0, 0)) is True  # rare, not impossible
    assert trees.counts_agree((100, 0, 0), (999, 0, 0)) is None  # too few to tell


def test_interval_of_the_mean_result():
    value = trees.mean_result((600, 100, 300), (1, 0, -1))
    assert value.mean == pytest.approx(0.3)
    deviation = np.sqrt((0.9 - 0.09) / 1_000)
    assert (value.high - value.low) / 2 == pytest.approx(1.96 * deviation, rel=0.01)
    more = difference(value, trees.mean_result((300, 100, 600), (1, 0, -1)))
    assert more.mean == pytest.approx(0.6)
    assert (more.high - more.low) / 2 == pytest.approx(1.96 * np.sqrt(2) * deviation, rel=0.01)


# ---------------------------------------------------------------------------------------------------------------------
# Verdicts


def counts(game, first, second, games, stones=9):
    """A match as JSON, with these shares of wins, draws and losses in the two seats."""
    pairs = np.rint(games * np.outer(first, second)).astype(int)
    lengths = np.zeros((2, 3, game.cells + 1), np.int64)
    lengths[0, :, stones], lengths[1, :, stones] = pairs.sum(axis=1), pairs.sum(axis=0)
    return {"pairs": pairs.tolist(), "lengths": lengths.tolist()}


def random_results(first, drawn_when_close=0.7):
    """Measurements of random play with these wins less losses of the first player."""
    found = []
    for unit in tree_random.units(False):
        game = trees.square(*unit["board"])
        draws = drawn_when_close if game.win_length == 8 else 0.01
        shares = [(1 - draws + first) / 2, draws, (1 - draws - first) / 2]
        exact = unit["what"] == "exact"
        found.append((unit, shares if exact else counts(game, shares, shares[::-1], unit["games"] // 2)))
    return found


def test_claims_about_the_first_move():
    def claims(**settings):
        return [claim.holds for claim in tree_random.analyse(random_results(**settings)).claims]

    assert claims(first=0.05) == [True, True]
    assert claims(first=-0.05) == [False, True]
    assert claims(first=0.0, drawn_when_close=0.001) == [None, False]


def test_rates_of_random_play_are_compared():
    exact, *_, last = tree_random.analyse(random_results(first=0.05)).rows
    assert exact.agrees is True
    assert last.published == ""
    rows = {row.what: row.agrees for row in tree_random.analyse(random_results(first=0.05)).rows if row.published}
    assert rows["13 x 13 (5), 100 games"] is True
    assert rows["8 x 8 (8), 100 games"] is False  # 94 draws where 0.7 are drawn


def search_results(rates, *, stones=None, wide=None, quick=False):
    """Measurements in which the tree has these wins, draws and losses in either seat, by board size."""
    found = []
    for unit in tree_search.units(quick):
        game = trees.square(*unit["board"])
        if unit["what"] == "exact":
            found.append((unit, [[[1, 0, 0]] * 2] * len(tree_search.EXACT_PAIRINGS)))
            continue
        shares = rates[game.rows]
        if wide is not None and "width" not in unit["tree"]:
            shares = wide
        length = (stones or {}).get(game.rows, 9)
        if unit["what"] == "match":
            found.append((unit, counts(game, shares, shares, unit["games"], length)))
            continue
        [board] = [board for board in trees.BOARDS if board.size == game.rows]
        results = [result for result, share in enumerate(shares) for _ in range(round(share * unit["games"]))]
        games = {"results": results, "stones": [length] * len(results), "first_move": tree_search.tree_size(board)}
        nodes = dict.fromkeys(tree_search.SEARCHES, [1_000] * len(results))
        found.append((unit, {**games, "nodes": nodes, "seconds": dict.fromkeys(tree_search.SEARCHES, 1.0)}))
    return found


AS_PUBLISHED = {7: (1, 0, 0), 8: (0.53, 0.47, 0), 9: (1, 0, 0), 10: (0.9, 0.08, 0.02), 13: (1, 0, 0)}


def claims_of(found):
    return {claim.words: claim.holds for claim in found.claims}


def test_claims_hold_for_games_as_published():
    found = tree_search.analyse(search_results(AS_PUBLISHED, stones={7: 16, 8: 40, 9: 16, 13: 16}, wide=(1, 0, 0)))
    who_moves_first, *others = claims_of(found).values()
    assert who_moves_first is None  # both seats are alike
    assert all(others)
    assert all(row.agrees for row in found.rows if "/" in row.published)


def test_claims_do_not_hold_for_other_games():
    rates = {7: (0.9, 0.1, 0), 8: (0.9, 0.1, 0), 9: (0.5, 0.5, 0), 10: (0.5, 0.5, 0), 13: (0.5, 0.5, 0)}
    found = tree_search.analyse(search_results(rates, stones={7: 20, 8: 10}, wide=(0.2, 0, 0.8)))
    claims = claims_of(found)
    formula = [words for words in claims if "number of nodes searched each turn" in words]
    first = [words for words in claims if "random AI play first" in words]
    assert [claims.pop(words) for words in (*formula, *first)] == [True, None]
    assert set(claims.values()) == {False}
    assert not any(row.agrees for row in found.rows if "/" in row.published)


def test_claim_about_the_worse_seat():
    better, worse = (0.7, 0.3, 0), (0.56, 0.44, 0)

    def verdict(first, second, sizes):
        found = search_results(AS_PUBLISHED)
        for unit, result in found:
            if unit["what"] == "match" and unit["board"][0] in sizes:
                result.update(counts(trees.square(*unit["board"]), first, second, unit["games"]))
        return tree_search.analyse(found).claims[0].holds

    assert verdict(better, worse, AS_PUBLISHED) is True
    assert verdict(better, worse, [8]) is None  # the other boards leave it open
    assert verdict(worse, better, [8]) is False


def test_claims_are_undecided_if_intervals_leave_them_open():
    close = {**AS_PUBLISHED, 7: (0.989, 0.011, 0), 9: (0.98, 0.02, 0), 8: (0.556, 0.444, 0)}
    claims = claims_of(tree_search.analyse(search_results(close)))
    assert claims["9 x 9 (5): the result is very close to the previous one"] is None  # 0.009, and 0.01 is the limit
    assert claims["8 x 8 (8): the number of draw games is very close to AI winning games"] is None
    rare = {**AS_PUBLISHED, 10: (0.9, 0.0964, 0.0036)}  # two of a hundred come with a chance of some 0.05
    claims = claims_of(tree_search.analyse(search_results(rare)))
    assert claims["10 x 10 (8): tree-based AI lost 2 games this time"] is None


@pytest.mark.parametrize("rates", [AS_PUBLISHED, dict.fromkeys(AS_PUBLISHED, (0, 0.5, 0.5))])
def test_figures_can_be_drawn(rates):
    from matplotlib.figure import Figure

    for found in (
        tree_search.analyse(search_results(rates, quick=True)),
        tree_random.analyse(random_results(first=0.05)),
    ):
        for draw in found.pictures.values():
            figure = Figure()
            draw(figure)
            assert figure.axes


def test_claims_are_undecided_with_few_games():
    found = tree_search.analyse(search_results(AS_PUBLISHED, quick=True))
    assert {claim.holds for claim in found.claims} == {None}
    assert {row.agrees for row in found.rows} == {None}
