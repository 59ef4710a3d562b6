"""Opening books from games and from searches, and statistics of games that leave them."""

import numpy as np
import plain
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from baselines.exact import solve
from baselines.opening_book import Canonical, read_book
from ttt_envs import Boards, Game
from ttt_envs.game.rules import DRAW
from ttt_eval.matches.books import POSITIONS_PER_UNIT, book_exits, book_from_games, book_from_search, early_positions
from ttt_eval.matches.games import Move, PlayedGame, append_games, read_games, write_games
from ttt_eval.matches.match import play_pairs


def quiet(words):
    raise AssertionError(words)


@pytest.fixture(scope="module", params=[0.0, 0.25])
def log(request, tmp_path_factory):
    game = Game(skip_chance=request.param)
    path = tmp_path_factory.mktemp("log") / "games.jsonl"
    play_pairs(game, "win-or-block", "random", 100, seed=1, log=lambda games: append_games(path, games))
    return game, path


def played_games(path):
    return list(read_games(path))


def test_first_moves_are_those_of_the_games(log):
    game, path = log
    book = book_from_games([path], plies=3, tell=quiet)
    assert book.game == game
    assert book.games == 200
    (moves,) = book.moves(Boards.start(game))
    expected = np.zeros((9, 3), int)
    for played in played_games(path):
        expected[played.moves[0].action, {0: 0, DRAW: 1, 1: 2}[played.result]] += 1
    for actions, results in zip(moves.actions, moves.results, strict=True):
        assert_array_equal(results, expected[actions].sum(axis=0))
    assert sum(map(len, moves.actions)) == 9


def test_several_logs_are_merged(log, tmp_path):
    _, path = log
    games = played_games(path)
    write_games(tmp_path / "a", games[:77])
    write_games(tmp_path / "b", games[77:])
    one = book_from_games([path], plies=5, tell=quiet)
    two = book_from_games([tmp_path / "b", tmp_path / "a"], plies=5, tell=quiet)
    for name in ("positions", "starts", "cells", "results"):
        assert_array_equal(getattr(one, name), getattr(two, name))


def test_moves_of_one_player(log):
    _, path = log
    mine, theirs, both = (
        book_from_games([path], plies=9, player=player, tell=quiet).results.sum()
        for player in ("win-or-block", "random", None)
    )
    assert mine + theirs == both
    assert 0 < mine < both


def test_unfinished_and_forfeited_games_are_ignored(tmp_path):
    game = Game()
    moves = [Move(cell) for cell in (0, 3, 1, 4, 2)]
    games = [
        PlayedGame(game, ("a", "b"), tuple(moves), 0),
        PlayedGame(game, ("a", "b"), tuple(moves[:3]), None),
        PlayedGame(game, ("a", "b"), tuple(moves[:2]), 1, forfeit="time"),
    ]
    write_games(tmp_path / "log", games)
    book = book_from_games([tmp_path / "log"], plies=9, tell=quiet)
    assert book.games == 1
    assert book.results.sum() == 5


def test_errors(tmp_path):
    write_games(tmp_path / "none", [])
    write_games(tmp_path / "3", [PlayedGame(Game(), ("a", "b"), (Move(0),), None)])
    write_games(tmp_path / "4", [PlayedGame(Game(4, 4, 4), ("a", "b"), (Move(0),), None)])
    for logs, said in (
        (["none"], "there is no finished game in these logs"),
        (["3"], "there is no finished game in these logs"),
        (["3", "4"], "has a game of 4 x 4, 4 to win, and others are of 3 x 3, 3 to win"),
    ):
        with pytest.raises(ValueError, match=said):
            book_from_games([tmp_path / name for name in logs], plies=3, tell=quiet)
    with pytest.raises(ValueError, match="plies=0 makes no book"):
        book_from_games([tmp_path / "3"], plies=0, tell=quiet)


@pytest.mark.parametrize(
    "game", [Game(), Game(skip_chance=0.1), Game(2, 4, 3), Game(3, 4, 3, 0.25), Game(2, 2, 2)], ids=str
)
def test_early_positions_are_all_up_to_symmetry(game):
    found = [Canonical.from_boards(boards, game).keys[:, 0] for boards in early_positions(game, 5)]
    seen = plain.positions_of_random_play(game, 3000)
    stones = np.count_nonzero(seen.cells, axis=1)
    for n, layer in enumerate(found):
        met = Canonical.from_boards(seen.take(stones == n), game).keys
        assert len(np.unique(layer)) == len(layer)
        assert np.isin(met, layer).all()
    if game == Game():  # the numbers of positions of tic-tac-toe up to symmetry
        assert [len(layer) for layer in found] == [1, 3, 12, 38, 108]


def test_book_from_a_perfect_search_is_perfect(tmp_path):
    game = Game(skip_chance=0.25)
    calls = []
    book = book_from_search(
        game, "optimal", tmp_path / "work", {}, plies=4, progress=lambda done, total: calls.append((done, total))
    )
    assert calls[-1][0] == calls[-1][1] >= len(book.positions) / POSITIONS_PER_UNIT
    solution = solve(game)
    for boards in early_positions(game, 4):
        values = solution.action_values(boards)
        for row, moves in enumerate(book.moves(boards)):
            for actions, good in zip(moves.actions, moves.scores, strict=True):
                assert_allclose(2 * good - 1, values[row, actions], atol=1.001e-3)
    again = book_from_search(game, "optimal", tmp_path / "work", {}, plies=4)
    assert_array_equal(again.results, book.results)
    book.write(tmp_path / "book")
    assert_array_equal(read_book(tmp_path / "book").results, book.results)


def test_book_exits(log):
    _, path = log
    games = played_games(path)
    book = book_from_games([path], plies=3, tell=quiet)
    rows = book_exits(book, games, "win-or-block")
    assert sum(row.results.sum() for row in rows) == 200
    assert {row.stones for row in rows} <= {None, 3, 4, 5}  # it was made of all of them
    deeper = book_exits(book_from_games([path], plies=9, tell=quiet), games, "win-or-block")
    assert [row.stones for row in deeper] == [None]
    assert_array_equal(deeper[0].results, sum(row.results for row in rows))
    assert book_exits(book, games, "nobody") == []
    with pytest.raises(ValueError, match="and the book is of"):
        book_exits(book, [PlayedGame(Game(4, 4), ("a", "b"))], "a")
