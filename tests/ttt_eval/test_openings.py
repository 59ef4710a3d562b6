"""Openings: probabilities of random ones, listed ones by counting, and invalid files."""

from collections import Counter

import numpy as np
import plain
import pytest

from ttt_envs import Game, to_text
from ttt_eval.matches.games import Move, PlayedGame, write_games
from ttt_eval.matches.openings import Openings, draw_openings

GAME = Game(skip_chance=0.25)


def has_line(board, stone, lines):
    return any(all(board[cell] == stone for cell in line) for line in lines)


def probabilities(game, plies):
    """Return {position: probability} after random plies that end no game, with skips."""
    lines = plain.all_lines(game)
    now = {("." * game.cells, 0): 1.0}
    for _ in range(plies):
        following = Counter()
        for (board, mover), chance in now.items():
            after = [board[:cell] + "ox"[mover] + board[cell + 1 :] for cell in range(game.cells) if board[cell] == "."]
            after = [one for one in after if not has_line(one, "ox"[mover], lines)]
            for one in after:
                following[one, 1 - mover] += chance * (1 - game.skip_chance) / len(after)
                following[one, mover] += chance * game.skip_chance / len(after)
        now = +following
    columns = game.columns
    return {
        "/".join(board[n : n + columns] for n in range(0, len(board), columns)) + " " + "ox"[mover]: chance
        for (board, mover), chance in now.items()
    }


@pytest.mark.parametrize(("game", "plies"), [(GAME, 2), (GAME, 4), (Game(), 3), (Game(2, 3, 3, 0.5), 3)])
def test_random_openings_have_their_exact_probabilities(game, plies):
    drawn = draw_openings(game, plies, np.random.default_rng(3).integers(0, 1 << 64, 40_000, np.uint64))
    exact = probabilities(game, plies)
    seen = Counter(to_text(drawn.position(row), game) for row in range(40_000))
    assert set(seen) <= set(exact)
    square = sum((seen[text] - 40_000 * chance) ** 2 / (40_000 * chance) for text, chance in exact.items())
    free = len(exact) - 1
    assert abs(square - free) < 4 * (2 * free) ** 0.5


def test_openings_without_a_continuation_are_redrawn():
    """Random play on 3 x 3 often ends before 8 stones."""
    game, lines = Game(skip_chance=0.5), plain.all_lines(GAME)
    drawn = draw_openings(game, 8, np.arange(500, dtype=np.uint64))
    for row in range(500):
        board = to_text(drawn.position(row), game).replace("/", "")
        assert (board.count("."), has_line(board, "o", lines), has_line(board, "x", lines)) == (1, False, False)
    with pytest.raises(ValueError, match="choose openings of fewer"):
        draw_openings(Game(win_length=1), 1, np.zeros(1, np.uint64))


@pytest.mark.parametrize(("game", "plies"), [(GAME, 1), (GAME, 4), (GAME, 8), (Game(2, 4, 3), 4)])
def test_all_openings_are_all_unfinished_positions(game, plies):
    expected = set(probabilities(Game(game.rows, game.columns, game.win_length), plies))
    boards = Openings.from_text(f"all:{plies}", game).boards
    found = [to_text(boards.position(row), game) for row in range(len(boards.mover))]
    assert len(found) == len(set(found))
    assert set(found) == expected


def test_file_of_positions(tmp_path):
    path = tmp_path / "positions"
    path.write_text("# two\n\n x.o/.../..o x \r\n.../.o./... x\nx.o/.../..o x\n")
    boards = Openings.from_text(str(path), GAME).boards
    assert [to_text(boards.position(row)) for row in (0, 1)] == ["x.o/.../..o x", ".../.o./... x"]
    assert len(boards.mover) == 2  # duplicates are dropped


def test_file_of_games_gives_last_positions_or_first_ones_of_finished_games(tmp_path):
    path = tmp_path / "games.jsonl"
    a_row = tuple(map(Move, (0, 3, 1, 4, 2)))
    games = [
        PlayedGame(Game(), ("a", "b"), a_row[:2]),
        PlayedGame(Game(), ("a", "b"), a_row, 0),
        PlayedGame(Game(), ("a", "b"), (Move(1),), 1, opening="x../.../..o o", forfeit="time"),
    ]
    write_games(path, games)
    boards = Openings.from_text(str(path), GAME).boards
    texts = [to_text(boards.position(row)) for row in range(len(boards.mover))]
    assert texts == ["o../x../... o", ".../.../... o", "x../.../..o o"]
    with pytest.raises(ValueError, match="line 2: a game of 3 x 3, 3 to win is no opening of 3 x 4"):
        Openings.from_text(str(path), Game(3, 4))


INVALID = [
    ("x.o/.../..o x\nx.o/.../..", 2), ("\n.../.../... x", 2), ("ooo/xx./... x", 1), ("..../..../.... o", 1),
    ("." * 1000, 1), ('{"format": 1}', 1),
]  # fmt: skip


@pytest.mark.parametrize(("content", "line"), INVALID, ids=range(len(INVALID)))
def test_invalid_files_are_rejected_by_file_and_line(content, line, tmp_path):
    (tmp_path / "some").write_text(content)
    with pytest.raises(ValueError, match=f"some, line {line}: "):
        Openings.from_text(str(tmp_path / "some"), Game())


ONE, WON, LARGE = Game(1, 1, 1), Game(win_length=1), Game(19, 19, 5)
WRONG = [(text, GAME) for text in ("random:x", "random:0", "all:9", "/dev/zero", "/dev/null")]


@pytest.mark.parametrize(("text", "game"), [*WRONG, ("all:1", ONE), ("all:1", WON), ("all:4", LARGE)])
def test_invalid_openings_are_rejected(text, game):
    with pytest.raises(ValueError, match=text):
        Openings.from_text(text, game)
