"""Opening books from games and from searches."""

import numpy as np
import plain
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from small_games import SKIP_GAME

from baselines.exact import solve
from baselines.opening_book import Canonical
from ttt_envs import Boards, Game
from ttt_envs.game.rules import DRAW
from ttt_eval.matches.books import book_from_games, book_from_search, early_positions
from ttt_eval.matches.games import Move, PlayedGame, append_games, read_games, write_games
from ttt_eval.matches.match import play_pairs


def quiet(words):
    raise AssertionError(words)


@pytest.fixture(scope="module", params=[0.0, 0.25])
def log(request, tmp_path_factory):
    game = Game(skip_chance=request.param)
    path = tmp_path_factory.mktemp("log") / "games.jsonl"
    play_pairs(
        game, "win-or-block", "random", 100, seed=1, log=lambda games: append_games(path, games)
    )
    return game, path


def test_first_moves_are_those_of_the_games(log):
    game, path = log
    book = book_from_games([path], plies=3, tell=quiet)
    assert (book.game, book.games) == (game, 200)
    (moves,) = book.moves(Boards.start(game))
    expected = np.zeros((9, 3), int)
    for played_game in read_games(path):
        expected[played_game.moves[0].action, {0: 0, DRAW: 1, 1: 2}[played_game.result]] += 1
    for actions, results in zip(moves.actions, moves.results, strict=True):
        assert_array_equal(results, expected[actions].sum(axis=0))
    assert sum(map(len, moves.actions)) == 9


def test_logs_are_merged_and_players_selected(log, tmp_path):
    _, path = log
    games = list(read_games(path))
    write_games(tmp_path / "a", games[:77])
    write_games(tmp_path / "b", games[77:])
    book = book_from_games([path], plies=9, tell=quiet)
    both = book_from_games([tmp_path / "b", tmp_path / "a"], plies=9, tell=quiet)
    for name in ("positions", "starts", "cells", "results"):
        assert_array_equal(getattr(book, name), getattr(both, name))
    first, second = (
        book_from_games([path], plies=9, player=player, tell=quiet).results.sum()
        for player in ("win-or-block", "random")
    )
    assert 0 < first < book.results.sum() == first + second


def test_unfinished_and_forfeited_games_are_ignored(tmp_path):
    moves = tuple(Move(cell) for cell in (0, 3, 1, 4, 2))
    games = [
        PlayedGame(
            Game(), ("a", "b"), moves[2:], 0, opening="o../x../... o"
        ),  # its moves are no early ones
        PlayedGame(Game(), ("a", "b"), moves, 0),
        PlayedGame(Game(), ("a", "b"), moves[:3], None),
        PlayedGame(Game(), ("a", "b"), moves[:2], 1, forfeit="time"),
    ]
    write_games(tmp_path / "log", games)
    book = book_from_games([tmp_path / "log"], plies=2, tell=quiet)
    assert (book.games, book.results.sum()) == (1, 2)
    write_games(tmp_path / "late", games[:1])
    write_games(tmp_path / "open", games[2:])
    write_games(tmp_path / "4", [PlayedGame(Game(4, 4, 4), ("a", "b"), (Move(0),), None)])
    for names, player, problem in (
        ("open", None, "no finished game in these"),
        ("log 4", None, "make a book for each"),
        ("log", "nobody", "which nobody moves"),
        ("late", None, "which anyone moves"),
    ):
        with pytest.raises(ValueError, match=problem):
            book_from_games(
                [tmp_path / name for name in names.split()], plies=2, player=player, tell=quiet
            )


@pytest.mark.parametrize(
    "game", [Game(), Game(skip_chance=0.1), Game(3, 4, 3, 0.25), Game(2, 2, 2)], ids=str
)
def test_early_positions_are_all_up_to_symmetry(game):
    results = [
        Canonical.from_boards(boards, game).keys[:, 0] for boards in early_positions(game, 5)
    ]
    positions = plain.positions_of_random_play(game, 3000)
    stones = np.count_nonzero(positions.cells, axis=1)
    for n, layer in enumerate(results):
        assert len(np.unique(layer)) == len(layer)
        assert np.isin(Canonical.from_boards(positions.take(stones == n), game).keys, layer).all()
    if game == Game():  # the numbers of positions of tic-tac-toe up to symmetry
        assert [len(layer) for layer in results] == [1, 3, 12, 38, 108]


def test_book_from_a_perfect_search_is_perfect(tmp_path):
    game = SKIP_GAME
    book = book_from_search(game, "optimal", tmp_path / "work", {}, plies=4)
    solution = solve(game)
    for boards in early_positions(game, 4):
        values = solution.action_values(boards)
        for row, moves in enumerate(book.moves(boards)):
            for actions, good in zip(moves.actions, moves.scores, strict=True):
                assert_allclose(2 * good - 1, values[row, actions], atol=1.001e-3)
