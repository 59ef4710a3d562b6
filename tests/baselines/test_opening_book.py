"""Opening books: moves by position up to symmetry, shares of UCB, and damaged files."""

from functools import cache
from types import SimpleNamespace

import numpy as np
import plain
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from small_games import SKIP_GAME

from baselines.opening_book import (
    BookError,
    BookPlayer,
    PlayedMoves,
    choice_shares,
    make_book,
    read_book,
)
from ttt_envs import Boards, Game, make_policy
from ttt_envs.agents.policy import Player
from ttt_envs.game.symmetry import symmetries

GAMES = [
    Game(),
    SKIP_GAME,
    Game(2, 4, 3),
    Game(7, 7, 5, 0.1),
    Game(6, 7, 4, gravity=True),
]
GAMES += [
    Game(3, 4, 3, overlines=False, torus=True),
    Game(3, 4, 3, gravity=True, misere=True, torus=True),
]
"""of 7 x 7 and 6 x 7 keys have several words"""


def random_made(game, count=300, seed=0):
    boards = plain.positions_of_random_play(game, count)
    rng = np.random.default_rng(seed)
    actions = np.array([rng.choice(np.flatnonzero(row)) for row in boards.legal(game)])
    return PlayedMoves(boards, actions, np.eye(3, dtype=np.int64)[rng.integers(0, 3, count)])


def own_first(cells, mover):
    return np.array([0, 1 + mover, 2 - mover])[cells]


images_of = cache(symmetries)


def canonical(own, action, game):
    """The smallest image of a position, as its mover sees it, and of a move there."""
    return min((tuple(own[p]), int(np.flatnonzero(p == action)[0])) for p in images_of(game))


def plain_counts(game, made, plies):
    """The plainest count: by the smallest image of (position, move), as its mover sees it."""
    results = {}
    for cells, mover, action, result in zip(*made.boards, made.actions, made.results, strict=True):
        if np.count_nonzero(cells) < plies:
            name = canonical(own_first(cells, mover), action, game)
            results[name] = results.get(name, 0) + result
    return results


@pytest.mark.parametrize("game", GAMES, ids=str)
def test_results_are_counted_up_to_symmetry(game):
    made = random_made(game)
    book = make_book(game, [made], plies=4)
    expected = plain_counts(game, made, 4)
    assert len(book.cells) == len(expected)
    for row, moves in enumerate(book.moves(made.boards)):
        cells, mover = made.boards.position(row)
        if np.count_nonzero(cells) >= 4:
            assert moves is None
            continue
        own = own_first(cells, mover)
        for actions, results in zip(moves.actions, moves.results, strict=True):
            names = {canonical(own, action, game) for action in actions}
            assert len(names) == 1
            assert_array_equal(results, expected[names.pop()])
        assert made.actions[row] in np.concatenate(moves.actions)
        shares, _ = book.spread(made.boards.take(np.array([row])), book.results[:, 0].astype(float))
        by_cell = np.zeros(game.cells)
        for actions, results in zip(moves.actions, moves.results, strict=True):
            by_cell[actions] = results[0] / len(actions)
        assert_allclose(shares[0], by_cell)


@pytest.mark.parametrize("game", GAMES, ids=str)
def test_book_does_not_depend_on_the_order_of_its_parts(game):
    made = random_made(game)
    parts = [
        PlayedMoves(made.boards.take(rows), made.actions[rows], made.results[rows], 2)
        for rows in np.split(np.arange(300), 6)
    ]
    books = [make_book(game, some, plies=5) for some in ([made], parts[::-1])]
    assert [book.games for book in books] == [0, 12]
    for array, other in zip(*(book.arrays for book in books), strict=True):
        assert_array_equal(array, other)


@pytest.mark.parametrize("c", [0.3, 1.4])
def test_ucb_shares_equal_those_of_a_simulation(c):
    """Played step by step: the move with the highest index, whose score stays the same."""
    results = np.array([[600, 100, 300], [500, 200, 300], [300, 100, 600], [5, 0, 0]])
    good = (results[:, 0] + results[:, 1] / 2) / results.sum(axis=1)
    total = int(results.sum())
    visits = np.ones(4)
    while visits.sum() < total:
        visits[np.argmax(good + c * np.sqrt(np.log(total) / visits))] += 1
    shares = choice_shares("ucb", np.array([0, 4]), results, c=c)
    assert abs(shares - visits / total).max() < 2 / total
    assert 0 < shares[1] < shares[0]


def test_shares_by_best_ucb_and_softmax(tmp_path):
    made = PlayedMoves(
        Boards.start(Game(), 3), np.array([4, 0, 1]), np.array([[6, 2, 2], [5, 0, 5], [0, 0, 10]])
    )
    book = make_book(Game(), [made], plies=1)
    start = Boards.start(Game())
    corners = [0, 2, 6, 8]
    edges = [1, 3, 5, 7]
    book.write(tmp_path / "x")
    spec = f"book:{tmp_path / 'x'},temperature=0.1,then=random,choose="
    policies = [make_policy(spec + choose, Game()) for choose in ("best", "ucb", "softmax")]
    best, ucb, softmax = (policy.probabilities(start)[0] for policy in policies)
    assert_array_equal(best, np.eye(9)[4])
    for shares in (ucb, softmax):
        assert_allclose(shares.sum(), 1)
        assert len(set(shares[corners].round(12))) == len(set(shares[edges].round(12))) == 1
    weights = np.exp(np.array([0.7, 0.5, 0.0]) / 0.1)
    assert_allclose(
        [softmax[4], softmax[corners].sum(), softmax[edges].sum()], weights / weights.sum()
    )
    assert ucb[4] > ucb[corners].sum() > ucb[edges].sum() > 0


@pytest.fixture
def book_file(tmp_path):
    def write(game=Game(), **options):  # noqa: B008  # frozen
        path = tmp_path / "a.book"
        make_book(game, [random_made(game)], **{"plies": 4, **options}).write(path)
        return path

    return write


@pytest.mark.parametrize("game", GAMES, ids=str)
def test_book_is_read_as_written(book_file, game):
    result = read_book(book_file(game), game)
    assert (result.game, result.plies) == (game, 4)
    for array, expected in zip(
        result.arrays, make_book(game, [random_made(game)], plies=4).arrays, strict=True
    ):
        assert_array_equal(array, expected)
        assert not array.flags.writeable


@pytest.mark.parametrize("length", [0, 1, 100, 4096, 5000])
def test_truncated_file_is_refused(book_file, length):
    path = book_file()
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(BookError, match="is no opening book, or a damaged one"):
        read_book(path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("plies", "3"),
        ("cells", np.array([9])),
        ("starts", np.array([0, 2])),
        ("positions", np.zeros((1, 2), np.uint64)),
        ("results", np.array([[0.5, 0, 0]])),
        ("positions", np.array([[3**4]], np.uint64)),  # a stone where the move is
    ],
    ids=str,
)
def test_hand_made_file_with_a_hash_is_refused(tmp_path, name, value):
    book = make_book(
        Game(), [PlayedMoves(Boards.start(Game()), np.array([4]), np.array([[1, 0, 0]]))], plies=3
    )
    setattr(book, name, value)
    book.write(tmp_path / "a.book")
    with pytest.raises(BookError):
        read_book(tmp_path / "a.book")


@pytest.mark.parametrize(
    ("settings", "game", "message"),
    [
        ("", Game(4, 4), "is a book of 3 x 3, 3 to win, not of 4 x 4, 3 to win"),
        (",c=0", Game(), "c=0.0 is out of range"),
        (",temperature=nan", Game(), "out of range"),
        (",choose=worst", Game(), "choose='worst' is not known"),
    ],
    ids=str,
)
def test_invalid_specs_are_refused(book_file, settings, game, message):
    with pytest.raises(ValueError, match=message):
        make_policy(f"book:{book_file()}{settings}", game)


def test_next_policy_plays_where_the_book_ends(book_file):
    game = SKIP_GAME
    path = book_file(game)
    policy = make_policy(f"book:{path},then=optimal", game)
    then = make_policy("optimal", game)
    boards = plain.positions_of_random_play(game, 200)
    _, in_book = policy.book_probabilities(boards)
    assert 0 < in_book.sum() < 200
    result = policy.probabilities(boards)
    assert_array_equal(result[~in_book], then.probabilities(boards)[~in_book])
    assert (result[in_book] != then.probabilities(boards)[in_book]).any()


def test_memory_of_the_next_policy_begins_where_the_book_ends(book_file):
    policy = make_policy(f"book:{book_file()},then=(mcts:simulations=20)", Game())
    player = policy.player()
    boards = plain.positions_of_random_play(Game(), 100)
    slots = np.arange(100)
    player.begin(slots)
    actions = player.act(boards, slots, np.random.default_rng(0))
    shares, in_book = policy.book_probabilities(boards)
    assert (shares[slots, actions][in_book] > 0).all()
    assert sorted(player.then.trees) == np.flatnonzero(~in_book).tolist()


def test_the_clock_of_a_match_reaches_the_next_policy():
    class Clocked(Player):
        clock = closed = None

        def use_clock(self, seconds, increment):
            self.clock = seconds, increment

        def close(self):
            self.closed = True

    clocked = Clocked()
    player = BookPlayer(SimpleNamespace(_then=SimpleNamespace(player=lambda: clocked)))
    player.use_clock(7.0, 0.5)
    player.close()
    assert (clocked.clock, clocked.closed) == ((7.0, 0.5), True)
