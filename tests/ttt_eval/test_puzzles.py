"""Puzzles: their values are exact, their obvious moves lose, and no two of the built-in set are
symmetric.
"""

import dataclasses

import numpy as np
import plain
import pytest
import tiny
from json_files import read_json
from make_puzzles import MIN_LOSS, PUZZLES_PER_GAME, obvious_puzzles
from small_games import SKIP_GAME

from baselines.exact import solve
from ttt_envs import Game
from ttt_envs.game.boards import Boards
from ttt_envs.game.symmetry import symmetries
from ttt_eval.matches.games import Move, PlayedGame
from ttt_eval.puzzles import (
    class_keys,
    from_games,
    from_policy,
    obvious_moves,
    read_puzzles,
    write_puzzles,
)

BUILT_IN = read_puzzles()


@pytest.mark.parametrize(
    ("text", "cells", "why"),
    [
        ("oo./xx./... o", [2], "wins"),
        ("o../xx./..o o", [5], "blocks"),
        ("o../.../... x", [4], "extends"),  # most lines, of the four that are through the centre
        ("o.o/.../xx. o", [1], "wins"),
        ("o../..x/... o", [4, 6], "extends"),
    ],
)
def test_obvious_moves_win_then_block_then_extend(text, cells, why):
    moves, reasons = obvious_moves(Game(), plain.from_texts(text, game=Game()))
    assert (np.flatnonzero(moves[0]).tolist(), reasons) == (cells, [why])


@pytest.mark.parametrize("game", [game for game in PUZZLES_PER_GAME if game.cells <= 12], ids=str)
def test_built_in_puzzles_have_exact_values_and_obvious_moves_that_lose(game):
    puzzles = [puzzle for puzzle in BUILT_IN if puzzle.game == game]
    boards = Boards.from_positions([puzzle.position for puzzle in puzzles])
    values = solve(game).action_values(boards)
    obvious, reasons = obvious_moves(game, boards)
    for row, puzzle in enumerate(puzzles):
        np.testing.assert_array_equal(puzzle.values, values[row])
        assert (puzzle.tempting, puzzle.why) == (tuple(np.flatnonzero(obvious[row])), reasons[row])
        assert (
            puzzle.loss
            == np.nanmax(values[row]) - values[row][list(puzzle.tempting)].max()
            >= MIN_LOSS
        )


def test_replies_are_best_for_the_other_player():
    for puzzle in (puzzle for puzzle in BUILT_IN if puzzle.game == SKIP_GAME):
        for cell, replies in enumerate(puzzle.replies):
            if puzzle.position.cells[cell] == 0 and replies:
                cells = puzzle.position.cells.copy()
                cells[cell] = puzzle.position.mover + 1
                boards = Boards(cells[None], np.array([1 - puzzle.position.mover], np.int8))
                assert tuple(np.flatnonzero(solve(SKIP_GAME).optimal_actions(boards)[0])) == replies


def test_the_built_in_set_has_100_puzzles_and_no_two_are_symmetric():
    keys = set()
    for puzzle in BUILT_IN:
        own = Boards.from_positions([puzzle.position]).own_first()[0]
        keys.add(
            (
                *dataclasses.astuple(puzzle.game)[:3],
                min(bytes(own[image]) for image in symmetries(puzzle.game)),
            )
        )
    assert len(keys) == len(BUILT_IN) == sum(PUZZLES_PER_GAME.values()) == 100
    assert {puzzle.level for puzzle in BUILT_IN} == {1, 2, 3}


def test_the_set_is_made_again_and_a_file_gives_it_back(tmp_path):
    made = [
        puzzle.to_dict()
        for puzzle in obvious_puzzles(SKIP_GAME, [0, list(PUZZLES_PER_GAME).index(SKIP_GAME)])
    ]
    assert all(puzzle.to_dict() in made for puzzle in BUILT_IN if puzzle.game == SKIP_GAME)
    boards = plain.from_texts(*(puzzle["position"] for puzzle in made), game=SKIP_GAME)
    assert len(set(class_keys(SKIP_GAME, boards))) == len(made)
    write_puzzles(tmp_path / "a.json", BUILT_IN, {"seed": 3})
    write_puzzles(tmp_path / "b.json", read_puzzles(tmp_path / "a.json"), {"seed": 3})
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    (tmp_path / "c.json").write_text((tmp_path / "a.json").read_text().replace(": 3,", ": 4,", 1))
    write_puzzles(tmp_path / "d.json", [dataclasses.replace(BUILT_IN[0], replies=())], {})
    for name in ("c.json", "d.json"):
        with pytest.raises(ValueError, match=f"{name} holds no puzzles"):
            read_puzzles(tmp_path / name)


def test_puzzles_of_a_policy_are_its_costliest_mistakes():
    [first, *_] = from_policy(SKIP_GAME, "random", 3)
    assert (first.best, first.tempting) == ((4,), (0, 1, 2, 3, 5, 6, 7, 8))
    assert from_policy(SKIP_GAME, "optimal", 3) == []


def test_puzzles_of_games_are_the_moves_that_lose():
    moves = tuple(
        Move(cell) for cell in (0, 1, 4, 2, 8)
    )  # x answers the corner by an edge, and then does not block
    played_game = PlayedGame(Game(), ("human", "optimal"), moves, 0)
    mirrored = dataclasses.replace(
        played_game, moves=tuple(Move((2, 1, 0, 5, 4, 3, 8, 7, 6)[cell]) for cell, _ in moves)
    )
    results = list(from_games([played_game, played_game, mirrored]))
    assert [(puzzle.tempting, puzzle.why, puzzle.loss) for puzzle in results] == [
        ((1,), "optimal", 1.0)
    ]
    assert list(from_games([played_game], "human")) == []


def test_a_run_plays_its_own_game_unless_options_say_otherwise(tmp_path, evaluate_py):
    options = ("--size=3x4", "--win-length=3", "--games=4", "--exact-every=0")
    run = f"run:{tiny.train_run('q-learning', tmp_path / 'run', *options)}"
    for line, game in (("", Game(3, 4, 3, 0.25)), ("--skip-chance 0.5", Game(3, 4, 3, 0.5))):
        puzzles = evaluate_py.json("puzzles", run, line)["puzzles"]
        assert {Game.from_dict(puzzle["game"]) for puzzle in puzzles} == {game}
    assert "play it on its own board" in evaluate_py.error("puzzles", run, "--size 3")


def test_the_command_lists_and_writes(tmp_path, evaluate_py):
    file = tmp_path / "p.json"
    line = "puzzles win-or-block --skip-chance=0.25 --opponent=random --count=2 --out"
    assert "win-or-block" in evaluate_py.text(line, file)
    written = read_json(file)
    assert [puzzle["why"] for puzzle in written["puzzles"]] == ["win-or-block"] * 2
    line = written["command"].removeprefix("evaluate.py ")
    assert evaluate_py.json(line)["puzzles"] == written["puzzles"]
    assert "there are no puzzles of optimal" in evaluate_py.text("puzzles optimal")
    assert len(evaluate_py.json("puzzles")["puzzles"]) == 100
