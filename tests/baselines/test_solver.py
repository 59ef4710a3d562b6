"""The solver: against facts known without us, a dictionary in plain Python and OpenSpiel; and the files it keeps."""

import gc
import hashlib
import json
import os
import re
import shutil
import sys
import types
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from weakref import WeakValueDictionary

import numpy as np
import plain
import platformdirs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from baselines.retrograde import solver
from baselines.retrograde.solver import Optimal, is_consistent, solve, sweep
from ttt_envs import Boards, Game, chance_outcomes, from_text, make_policy
from ttt_envs.agents.policy import Values
from ttt_envs.game.rules import DRAW
from ttt_envs.game.symmetry import symmetries

SHAPES = [
    Game(),
    Game(2, 3, 2),
    Game(2, 3, 3),
    Game(3, 2, 2),
    Game(1, 5, 3),
    Game(2, 2, 2),
    Game(3, 3, 2),
    Game(3, 3, 1),
    Game(1, 1, 1),
]
GAMES = [replace(shape, skip_chance=skip) for shape in SHAPES for skip in (0.0, 0.1, 0.25, 0.5, 0.9)]
LARGE = Game(3, 4, 3)  # the smallest board whose table is kept in a file
TABLE_BYTES = 2 * 3**12 * 8


@pytest.fixture(autouse=True, scope="module")
def _no_tables_of_the_user(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TTT_ENVS_CACHE", str(tmp_path_factory.mktemp("tables")))
        patch.delenv("TTT_ENVS_CACHE_BYTES", raising=False)
        yield


@cache
def solved(game):
    return solve(game, cache=False)


# ---------------------------------------------------------------------------------------------------------------------
# The same in plain Python


def ends_of(game):
    """{cells of a finished board, as bytes: winner}."""
    return {
        states[0][0]: winner
        for moves in plain.moves_of(game).values()
        for winner, states in moves.values()
        if winner is not None
    }


def boards_of(states):
    """States as a batch."""
    cells, movers = zip(*states, strict=True)
    return Boards(np.array([list(board) for board in cells], np.int8), np.array(movers, np.int8))


@cache
def positions_of(game):
    return boards_of(plain.moves_of(game))


@cache
def expectimax(game):
    """Values to the mover of all positions that can be reached and of their moves: {state}, {state: {action}}."""
    skip, values, of_moves = game.skip_chance, {}, {}
    for state, moves in reversed(plain.moves_of(game).items()):
        of_moves[state] = {}
        for action, (winner, states) in moves.items():
            if winner is not None:
                worth = 0.0 if winner == DRAW else 1.0  # nobody loses by his own stone
            else:
                worth = -(1 - skip) * values[states[0]] + (skip * values[states[1]] if skip else 0)
            of_moves[state][action] = worth
        values[state] = max(of_moves[state].values())
    return dict(reversed(values.items())), of_moves


@cache
def distances(game):
    """Plies to the end of every position: the winner hurries, the loser delays, a draw fills the board."""
    values, of_moves = expectimax(game)
    plies = {}
    for state, moves in reversed(plain.moves_of(game).items()):
        lengths = [
            1 + (0 if winner is not None else plies[states[0]])
            for action, (winner, states) in moves.items()
            if of_moves[state][action] == values[state]
        ]
        plies[state] = {1.0: min, 0.0: max, -1.0: max}[values[state]](lengths)
        assert values[state] != 0 or plies[state] == state[0].count(0)
    return dict(reversed(plies.items()))


# ---------------------------------------------------------------------------------------------------------------------
# Values


@pytest.mark.parametrize("game", GAMES, ids=str)
def test_every_position_has_the_value_of_plain_expectimax(game):
    values, of_moves = expectimax(game)
    solution, boards = solved(game), positions_of(game)
    ours = solution.values(boards)
    assert ours.dtype == np.float64
    assert_allclose(ours, list(values.values()), rtol=0, atol=1e-12)
    assert type(solution.value) is float
    assert solution.value == ours[0]
    assert solution.game == game
    expected = np.full(boards.cells.shape, np.nan)
    for row, state in enumerate(values):
        for action, worth in of_moves[state].items():
            expected[row, action] = worth
    of_actions = solution.action_values(boards)
    assert of_actions.dtype == np.float64
    assert_allclose(of_actions, expected, rtol=0, atol=1e-12)
    best = solution.optimal_actions(boards)
    assert best.dtype == np.bool_
    with np.errstate(invalid="ignore"):
        assert_array_equal(best, expected >= np.nanmax(expected, axis=1, keepdims=True) - 1e-9)


@pytest.mark.parametrize("game", GAMES, ids=str)
def test_finished_boards_are_worth_their_result_and_have_no_moves(game):
    ends = ends_of(game)
    for mover in (0, 1):
        boards = boards_of([(cells, mover) for cells in ends])
        expected = [0.0 if winner == DRAW else 1.0 if winner == mover else -1.0 for winner in ends.values()]
        assert_array_equal(solved(game).values(boards), expected)
        assert np.isnan(solved(game).action_values(boards)).all()
        assert not solved(game).optimal_actions(boards).any()


@pytest.mark.parametrize("skip_chance", [0.0, 0.25, 0.9])
def test_images_of_a_position_have_its_value(skip_chance):
    for shape in SHAPES:
        game = replace(shape, skip_chance=skip_chance)
        solution, boards = solved(game), positions_of(game)
        for image in symmetries(game):
            turned = Boards(np.ascontiguousarray(boards.cells[:, image]), boards.mover)
            assert_allclose(solution.values(turned), solution.values(boards), rtol=0, atol=1e-12)
            assert_allclose(solution.action_values(turned), solution.action_values(boards)[:, image], atol=1e-12)


@pytest.mark.parametrize("skip_chance", [0.0, 0.25, 0.9])
def test_who_is_who_does_not_matter(skip_chance):
    """A position is worth to its mover what it is worth with the colours exchanged, to player_0."""
    for shape in SHAPES:
        game = replace(shape, skip_chance=skip_chance)
        solution, boards = solved(game), positions_of(game)
        seen = Boards(boards.own_first(), np.zeros_like(boards.mover))
        assert_allclose(solution.values(seen), solution.values(boards), rtol=0, atol=1e-12)
        assert_allclose(solution.action_values(seen), solution.action_values(boards), rtol=0, atol=1e-12)
        assert_array_equal(solution.optimal_actions(seen), solution.optimal_actions(boards))


@given(plain.games(3, skip=True), st.data())
def test_a_value_is_the_best_of_what_its_moves_lead_to(game, data):
    """At any position that is not over, reached or not, and of either mover."""
    boards = plain.positions_of_random_play(game, 8, data.draw(st.integers(0, 999)))
    if data.draw(st.booleans()):
        boards = Boards(boards.cells, 1 - boards.mover)
    solution = solved(game)
    values, of_moves = solution.values(boards), solution.action_values(boards)
    for row in range(8):
        position = boards.position(row)
        legal = np.flatnonzero(position.cells == 0)
        assert_array_equal(np.isnan(of_moves[row]), position.cells != 0)
        assert values[row] == pytest.approx(of_moves[row, legal].max(), abs=1e-12)
        for action in legal.tolist():
            worth = 0.0
            for probability, after, winner in chance_outcomes(game, position, action):
                value = float(solution.values(Boards.of([after]))[0])
                worth += probability * (value if after.mover == position.mover or winner is not None else -value)
            assert of_moves[row, action] == pytest.approx(worth, abs=1e-12)


@given(plain.games(3, skip=True))
def test_a_value_is_a_chance_of_winning_minus_one_of_losing(game):
    boards = plain.positions_of_random_play(game, 16)
    values, best = solved(game).values(boards), solved(game).optimal_actions(boards)
    assert (abs(values) <= 1).all()
    assert best.any(axis=1).all()
    assert not best[boards.cells != 0].any()
    if game.skip_chance == 0:
        assert np.isin(values, (-1, 0, 1)).all()


def test_progress_only_grows():
    seen = []
    for game in (Game(), LARGE):
        solve(game, cache=False, progress=seen.append)
        assert seen == sorted(seen)
        assert 0 <= seen[0] <= seen[-1] == 1
        seen.clear()


def test_boards_are_only_read():
    boards = plain.positions_of_random_play(Game(skip_chance=0.25), 16)
    before = [array.copy() for array in boards]
    solution = solved(Game(skip_chance=0.25))
    for method in (solution.values, solution.action_values, solution.optimal_actions):
        method(boards)
        for array, was in zip(boards, before, strict=True):
            assert_array_equal(array, was)
    none = boards.take(np.zeros(0, np.int64))
    assert solution.values(none).shape == (0,)
    assert solution.action_values(none).shape == solution.optimal_actions(none).shape == (0, 9)


# ---------------------------------------------------------------------------------------------------------------------
# Facts known without us


def game_called(name):
    """The game of a name in the known values, as in "3x4x3 skip 1/4"."""
    shape, skip = name.split(" skip ")
    return Game(*map(int, shape.split("x")), float(Fraction(skip)))


@pytest.mark.parametrize(
    "name",
    [
        "3x3x3 skip 0",
        "3x3x3 skip 1/4",
        "2x2x2 skip 1/4",
        "2x3x3 skip 1/4",
        "3x3x2 skip 1/4",
        "3x4x3 skip 0",
        pytest.param("4x4x3 skip 0", marks=pytest.mark.slow),
        pytest.param("4x4x4 skip 0", marks=pytest.mark.slow),
    ],
)
def test_optimal_play_has_its_known_value(known, name):
    facts, game = known["optimal_play"][name], game_called(name)
    solution = solve(game, cache=False)
    start = Boards.start(game)
    assert solution.value == pytest.approx(float(Fraction(facts["value"])), abs=1e-12)
    assert solution.values(start)[0] == solution.value
    if "distance" in facts:
        assert solution.distance(start).tolist() == [facts["distance"]]
    if "after_first_move" in facts:
        cells = {"corner": (0, 2, 6, 8), "edge": (1, 3, 5, 7), "centre": (4,)}
        for kind, value in facts["after_first_move"].items():
            ours = solution.action_values(start)[0, list(cells[kind])]
            assert_allclose(ours, float(Fraction(value)), rtol=0, atol=1e-12)


def test_every_known_value_of_optimal_play_is_tested(known):
    tested = test_optimal_play_has_its_known_value.pytestmark[0].args[1]
    assert {getattr(name, "values", (name,))[0] for name in tested} == set(known["optimal_play"])


@pytest.mark.parametrize(
    ("game", "value", "plies"),
    [
        (Game(1, 1, 1), 1, 1),
        (Game(3, 3, 1), 1, 1),
        (Game(2, 2, 2), 1, 3),
        (Game(3, 3, 2), 1, 3),
        (Game(1, 3, 3), 0, 3),
        (Game(1, 4, 2), 1, 3),
        (Game(4, 3, 3), 1, 7),
        pytest.param(Game(3, 5, 3), 1, 7, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_plain_games_have_the_value_that_one_can_see(game, value, plies):
    solution = solve(game, cache=False)
    assert solution.value == value
    assert solution.distance(Boards.start(game)).tolist() == [plies]


def test_a_value_does_not_depend_on_where_the_board_is_long():
    for skip_chance in (0.0, 0.25):
        wide, tall = (solve(Game(rows, 7 - rows, 3, skip_chance), cache=False) for rows in (3, 4))
        assert wide.value == pytest.approx(tall.value, abs=1e-12)
        boards = plain.positions_of_random_play(wide.game, 500)
        across = boards.cells.reshape(-1, 3, 4).transpose(0, 2, 1).reshape(-1, 12).copy()
        assert_allclose(tall.values(Boards(across, boards.mover)), wide.values(boards), rtol=0, atol=1e-12)


@pytest.mark.parametrize(("name", "shape"), [("tic_tac_toe", (3, 3, 3)), ("mnk(m=3,n=2,k=2)", (2, 3, 2))])
def test_every_position_has_the_value_that_openspiel_finds(name, shape, monkeypatch):
    pyspiel = pytest.importorskip("pyspiel")
    # it is imported beside value iteration, solves linear programs of other games, and wants a package for it
    programs = "open_spiel.python.algorithms.lp_solver"
    monkeypatch.setitem(sys.modules, programs, types.ModuleType(programs))
    from open_spiel.python.algorithms import value_iteration

    theirs = value_iteration.value_iteration(pyspiel.load_game(name), depth_limit=-1, threshold=1e-9)
    texts = [text.replace("o", "2").replace("x", "1").replace(".", "0").replace("\n", "") for text in theirs]
    cells = np.array([list(map(int, text)) for text in texts], np.int8)  # x moves first there
    mover = ((cells != 0).sum(axis=1) % 2).astype(np.int8)
    game = Game(*shape)
    assert len(theirs) == solved(game).counts.boards
    of_player_0 = np.where(mover == 0, 1, -1) * solved(game).values(Boards(cells, mover))
    assert_array_equal(of_player_0, list(theirs.values()))


# ---------------------------------------------------------------------------------------------------------------------
# How long it takes


def test_the_distances_of_tic_tac_toe_are_known(known):
    facts, game = known["distance_to_end_3x3x3_no_skip"], Game()
    boards = positions_of(game)
    values, plies = solved(game).values(boards), solved(game).distance(boards)
    assert plies.dtype == np.int64
    for value, name in ((1, "player_to_move_wins_in"), (-1, "player_to_move_loses_in")):
        counts = Counter(plies[values == value].tolist())
        assert {str(length): count for length, count in counts.items()} == facts[name]
    assert (values == 0).sum() == facts["draws"]


@pytest.mark.parametrize("game", SHAPES, ids=str)
def test_the_winner_hurries_the_loser_delays_and_a_draw_fills_the_board(game):
    plies = solved(game).distance(positions_of(game))
    assert_array_equal(plies, list(distances(game).values()))
    assert_array_equal(solved(game).distance(boards_of([(cells, 0) for cells in ends_of(game)])), 0)
    assert_array_equal(solved(game).distance(boards_of([(cells, 1) for cells in ends_of(game)])), 0)


def test_a_longer_board_has_the_distances_of_plain_python_too():
    game = Game(2, 5, 3)
    assert_array_equal(solved(game).distance(positions_of(game)), list(distances(game).values()))


def test_with_skips_no_distance_is_certain():
    game = Game(skip_chance=0.25)
    with pytest.raises(ValueError, match=r"skip_chance=0\.25"):
        solved(game).distance(Boards.start(game))


# ---------------------------------------------------------------------------------------------------------------------
# Counts


def test_tic_tac_toe_has_the_known_counts(known):
    facts, counts = known["counts_3x3x3_no_skip"], solved(Game()).counts
    assert counts.positions_not_over == counts.boards_not_over == facts["not_over"]
    assert counts.boards_over == facts["over"]
    assert counts.boards == facts["positions"]
    assert counts.won_by_player_0 == facts["won_by_player_0"]
    assert counts.won_by_player_1 == facts["won_by_player_1"]
    assert counts.drawn == facts["drawn"]
    assert counts.by_stones == tuple(facts["by_stones"].values())
    assert counts.classes == facts["classes_up_to_symmetry"]
    assert counts.games == facts["games"]


@pytest.mark.parametrize("skip_chance", [0.1, 0.25, 0.9])
def test_tic_tac_toe_with_skips_has_the_known_counts(known, skip_chance):
    facts, counts = known["counts_3x3x3_skip"], solved(Game(skip_chance=skip_chance)).counts
    assert counts.positions_not_over == facts["cells_and_mover_not_over"]
    assert counts.boards_not_over == facts["boards_not_over"]
    assert counts.boards_over == facts["boards_over"]
    assert counts.games is None


@pytest.mark.parametrize("skip_chance", [0.0, 0.5])
@pytest.mark.parametrize("shape", [*SHAPES, Game(2, 4, 3), Game(5, 2, 2)], ids=str)
def test_counts_are_those_of_a_list_of_all_positions(shape, skip_chance):
    game = replace(shape, skip_chance=skip_chance)
    moves, ends = plain.moves_of(game), ends_of(game)
    not_over = {cells for cells, _ in moves}
    winners = Counter(ends.values())
    counts = solved(game).counts
    assert counts.positions_not_over == len(moves)
    assert counts.boards_not_over == len(not_over)
    assert counts.boards_over == len(ends)
    assert (counts.won_by_player_0, counts.won_by_player_1, counts.drawn) == (winners[0], winners[1], winners[DRAW])
    boards = boards_of([(cells, 0) for cells in not_over | set(ends)]).cells
    stones = Counter(np.count_nonzero(boards, axis=1).tolist())
    assert counts.by_stones == tuple(stones[count] for count in range(game.cells + 1))
    assert sum(counts.by_stones) == counts.boards == len(boards)
    images = np.stack([boards[:, image] @ 3 ** np.arange(game.cells) for image in symmetries(game)])
    assert counts.classes == len(np.unique(images.min(axis=0)))
    if skip_chance:
        assert counts.games is None
    else:
        sequences = {}
        for state, actions in reversed(moves.items()):
            sequences[state] = sum(
                1 if winner is not None else sequences[after[0]] for winner, after in actions.values()
            )
        assert counts.games == sequences[bytes(game.cells), 0]
        assert type(counts.games) is int


# ---------------------------------------------------------------------------------------------------------------------
# The policy


@given(plain.games(3, skip=True), st.integers(0, 999), st.sampled_from([0.0, 0.1, 0.5, 1.0]))
def test_the_optimal_policy_errs_as_often_as_it_says(game, seed, epsilon):
    boards = plain.positions_of_random_play(game, 8, seed)
    best, legal = (
        chosen / chosen.sum(axis=1, keepdims=True)
        for chosen in (solved(game).optimal_actions(boards), boards.cells == 0)
    )
    expected = (1 - epsilon) * best + epsilon * legal
    assert_allclose(make_policy(f"optimal:epsilon={epsilon}", game).probabilities(boards), expected, atol=1e-15)


def test_the_optimal_policy_has_a_name_and_thinks_in_values():
    game = Game(skip_chance=0.25)
    policy = make_policy("optimal", game)
    assert isinstance(policy, Optimal)
    assert isinstance(policy, Values)
    assert policy.pure
    assert str(policy) == "optimal"
    assert str(make_policy("optimal:epsilon=0.1", game)) == "optimal:epsilon=0.1"
    boards = positions_of(game)
    assert_array_equal(policy.values(boards), solved(game).values(boards))
    assert_array_equal(policy.action_values(boards), solved(game).action_values(boards))
    assert_array_equal(policy.probabilities(boards) > 0, solved(game).optimal_actions(boards))


def test_the_optimal_policy_wins_blocks_and_waits():
    policy = make_policy("optimal", Game())
    for text, cells in (
        ("oo./xx./... o", {2}),  # wins
        ("oo./.x./... x", {2}),  # blocks
        ("o../.../... x", {4}),  # the only answer to a corner
        ("o../.x./..o x", {1, 3, 5, 7}),  # an edge, not a corner
        (".../.../... o", set(range(9))),  # nothing loses yet
    ):
        p = policy.probabilities(Boards.of([from_text(text)]))[0]
        assert set(np.flatnonzero(p).tolist()) == cells
        assert_allclose(p[p > 0], 1 / len(cells), rtol=1e-15)


@pytest.mark.parametrize("epsilon", ["-0.1", "1.5", "nan"])
def test_a_probability_that_is_none_is_refused(epsilon):
    with pytest.raises(ValueError, match=f"epsilon={epsilon}"):
        make_policy(f"optimal:epsilon={epsilon}", Game())


@pytest.mark.parametrize(
    ("game", "size"),
    [(Game(2, 11, 3), 2 * 3**22 * 8), (Game(4, 6, 4, 0.25), 2 * 3**24 * 8), (Game(5, 5, 4), 2 * 3**25 * 8)],
    ids=str,
)
def test_a_board_that_cannot_be_solved_is_refused_with_its_bytes(game, size):
    with pytest.raises(ValueError, match=f"{game.rows} x {game.columns}") as refused:
        solve(game)
    assert str(size) in re.sub(r"[,_ ]", "", str(refused.value))
    with pytest.raises(ValueError, match=f"{game.rows} x {game.columns}"):
        make_policy("optimal", game).probabilities(Boards.start(game))


# ---------------------------------------------------------------------------------------------------------------------
# Files


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TTT_ENVS_CACHE", str(tmp_path))
    return tmp_path


def files_in(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


def only_table(folder):
    """The one table in a folder and what is said of it."""
    said, table = files_in(folder)
    assert (table.suffix, said) == (".npy", table.with_suffix(".json"))
    return table, said


def is_mapped(path):
    gc.collect()
    return str(path) in Path("/proc/self/maps").read_text()


maps = pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="this system does not tell what is mapped")


@maps
def test_a_large_table_is_written_once_and_then_mapped_into_memory(folder):
    solve(LARGE)
    table, said = only_table(folder)
    facts = json.loads(said.read_text())
    assert facts["game"] == LARGE.to_dict()
    assert {"format", "game", "sha256"} <= set(facts)
    assert re.fullmatch("[0-9a-f]{64}", facts["sha256"])
    assert np.load(table, mmap_mode="r", allow_pickle=False).nbytes == TABLE_BYTES
    assert not is_mapped(table)
    inode, content = table.stat().st_ino, table.read_bytes()
    again = solve(LARGE)
    assert is_mapped(table)
    assert only_table(folder) == (table, said)
    assert table.stat().st_ino == inode
    assert table.read_bytes() == content
    boards = plain.positions_of_random_play(LARGE, 1000)
    assert_array_equal(again.action_values(boards), solved(LARGE).action_values(boards))
    assert_array_equal(again.distance(boards), solved(LARGE).distance(boards))
    assert again.value == solved(LARGE).value == 1
    assert again.counts == solved(LARGE).counts


@maps
def test_without_the_cache_nothing_is_written_or_read(folder):
    assert solve(LARGE, cache=False).value == 1
    assert files_in(folder) == []
    solve(LARGE)
    table, _ = only_table(folder)
    solution = solve(LARGE, cache=False)
    assert not is_mapped(table)
    table.write_bytes(b"no table")
    assert solve(LARGE, cache=False).value == solution.value
    assert table.read_bytes() == b"no table"


def test_small_tables_are_not_kept(folder):
    for game in (Game(), Game(skip_chance=0.25), Game(2, 5, 3), Game(1, 11, 3)):
        solve(game)
    assert files_in(folder) == []


def flip(table, said):
    content = bytearray(table.read_bytes())
    content[len(content) // 2] ^= 1
    table.write_bytes(content)


def cut(table, said):
    with table.open("r+b") as file:
        file.truncate(table.stat().st_size // 2)


def objects(table, said):
    np.save(table, np.array([{}], object), allow_pickle=True)


def remove_table(table, said):
    table.unlink()


def remove_words(table, said):
    said.unlink()


def no_words(table, said):
    said.write_text("{")


def few_words(table, said):
    said.write_text("{}")


def other_words(table, said):
    said.write_text("[1]")


def other_hash(table, said):
    said.write_text(json.dumps({**json.loads(said.read_text()), "sha256": "0" * 64}))


DAMAGES = [flip, cut, objects, remove_table, remove_words, no_words, few_words, other_words, other_hash]


@pytest.fixture(scope="module")
def whole_files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TTT_ENVS_CACHE", str(folder))
        patch.setattr(solver, "_alive", WeakValueDictionary())  # another test may hold what would be given again
        solve(LARGE)
    return only_table(folder)


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_a_damaged_file_is_noticed_and_made_again(folder, whole_files, damage):
    paths = tuple(Path(shutil.copy(path, folder)) for path in whole_files)
    contents = [path.read_bytes() for path in paths]
    gc.collect()
    damage(*paths)
    start = Boards.start(LARGE)
    assert_array_equal(solve(LARGE).action_values(start), solved(LARGE).action_values(start))
    assert only_table(folder) == paths
    assert paths[0].read_bytes() == contents[0]
    assert json.loads(paths[1].read_text())["sha256"] == json.loads(contents[1])["sha256"]


def write_back(table, said, array):
    """An array in the place of a table, and its hash beside it, as somebody who knows the format would."""
    np.save(table, array)
    digest = hashlib.sha256(table.read_bytes()).hexdigest()
    said.write_text(json.dumps({**json.loads(said.read_text()), "sha256": digest}))


def test_a_table_of_another_game_under_this_one_s_name_is_not_believed(folder, whole_files):
    """Both files of another game are there, whole, under the names of this game's."""
    for path in whole_files:
        shutil.copy(path, folder)
    table, said = only_table(folder)
    gc.collect()
    other = replace(LARGE, win_length=2)
    solve(other)
    theirs = [path for path in files_in(folder) if path not in (table, said)]
    for path, mine in zip(theirs, (said, table), strict=True):
        os.replace(path, mine)
    gc.collect()
    start = Boards.start(LARGE)
    assert_array_equal(solve(LARGE).action_values(start), solved(LARGE).action_values(start))
    assert json.loads(said.read_text())["game"] == LARGE.to_dict()


@pytest.mark.parametrize("change", [{"made_by": "0" * 64}, {"game": {}}, {"byteorder": "middle"}, {"more": 1}])
def test_a_label_that_says_anything_else_is_not_believed(folder, whole_files, change):
    table, said = (Path(shutil.copy(path, folder)) for path in whole_files)
    write_back(table, said, np.zeros((2, 3**LARGE.cells)))
    said.write_text(json.dumps({**json.loads(said.read_text()), **change}))
    assert solve(LARGE).value == 1


@pytest.mark.parametrize("game", [LARGE, Game(2, 2, 2, 0.3), Game(3, 3, 3, 0.9), Game(1, 5, 2)], ids=str)
@pytest.mark.parametrize("discount", [1.0, 0.5])
def test_entries_follow_from_those_after_them(game, discount):
    after = sweep(game, discount=discount)
    assert is_consistent(game, after, discount)
    for wrong in (np.zeros_like(after), -after, after[::-1], sweep(game, discount=discount, average=True)):
        assert np.array_equal(wrong, after) or not is_consistent(game, wrong, discount)
    start = after.copy()
    start[:, 0] += 1e-6
    assert not is_consistent(game, start, discount)


def test_a_forged_table_with_its_hash_is_found_out_by_its_entries(folder, whole_files):
    table, said = (Path(shutil.copy(path, folder)) for path in whole_files)
    gc.collect()
    for forged in (np.zeros((2, 3**LARGE.cells)), -np.load(table), sweep(replace(LARGE, win_length=2))):
        write_back(table, said, forged)
        start = Boards.start(LARGE)
        assert_array_equal(solve(LARGE).action_values(start), solved(LARGE).action_values(start))
        assert np.load(table)[0, 0] == solved(LARGE).after[0, 0]  # the right one is there again
        gc.collect()


def test_pipes_links_and_devices_in_the_place_of_a_table_are_done_without(folder, whole_files):
    for which in (0, 1):
        for make in (os.mkfifo, lambda path: path.symlink_to("/dev/zero")):
            paths = [Path(shutil.copy(path, folder)) for path in whole_files]
            gc.collect()
            paths[which].unlink()
            make(paths[which])
            assert solve(LARGE).value == 1


def test_the_folder_is_the_user_s_own(tmp_path, monkeypatch):
    monkeypatch.setenv("TTT_ENVS_CACHE", str(tmp_path / "chosen"))
    solve(LARGE)
    assert (tmp_path / "chosen").stat().st_mode & 0o777 == 0o700
    gc.collect()
    monkeypatch.delenv("TTT_ENVS_CACHE")
    usual = tmp_path / "usual"
    usual.mkdir(mode=0o755)
    monkeypatch.setattr(platformdirs, "user_cache_path", lambda name: usual)
    solve(LARGE)
    assert usual.stat().st_mode & 0o777 == 0o700


def kept(folder):
    """The skip chances whose tables are there."""
    return {json.loads(path.read_text())["game"]["skip_chance"] for path in files_in(folder) if path.suffix == ".json"}


def test_the_tables_that_were_not_used_for_longest_make_room(folder, monkeypatch):
    limit = int(2.5 * TABLE_BYTES)
    monkeypatch.setenv("TTT_ENVS_CACHE_BYTES", str(limit))
    for skip_chance, expected in (
        (0.0, {0.0}),
        (0.25, {0.0, 0.25}),
        (0.0, {0.0, 0.25}),  # read, so that the other one is now the older
        (0.5, {0.0, 0.5}),
        (0.25, {0.5, 0.25}),
    ):
        solve(replace(LARGE, skip_chance=skip_chance))
        assert kept(folder) == expected
        assert sum(path.stat().st_size for path in files_in(folder)) <= limit
        assert {path.suffix for path in files_in(folder)} == {".json", ".npy"}


def test_a_table_larger_than_the_room_is_not_kept(folder, monkeypatch):
    monkeypatch.setenv("TTT_ENVS_CACHE_BYTES", "1000")
    assert solve(LARGE).value == solve(LARGE).value == 1
    assert sum(path.stat().st_size for path in files_in(folder)) <= 1000


def test_a_bound_that_is_no_number_is_refused(folder, monkeypatch):
    monkeypatch.setenv("TTT_ENVS_CACHE_BYTES", "4GB")
    with pytest.raises(ValueError, match="TTT_ENVS_CACHE_BYTES='4GB' is no number of bytes"):
        solve(LARGE)


def test_files_of_others_are_left_alone_and_abandoned_ones_of_ours_are_not(folder, monkeypatch):
    monkeypatch.setenv("TTT_ENVS_CACHE_BYTES", str(TABLE_BYTES + 10**5))
    np.save(folder / "my-data.npy", np.zeros(10**5))
    (folder / "my-data.json").write_text("{}")
    abandoned = folder / "solution-4x4-4-skip0-0123456789abcdef.npyabc.tmp"
    fresh_one = folder / "solution-4x4-4-skip0-0123456789abcdee.npyabc.tmp"
    for file in (abandoned, fresh_one):
        file.write_bytes(bytes(100))
    os.utime(abandoned, (0, 0))
    solve(LARGE)
    assert (folder / "my-data.npy").exists()
    assert (folder / "my-data.json").exists()
    assert not abandoned.exists()
    assert fresh_one.exists()


def test_a_folder_that_cannot_be_written_is_done_without(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TTT_ENVS_CACHE", str(tmp_path / "file"))
    assert solve(LARGE).value == 1
    assert files_in(tmp_path) == [tmp_path / "file"]


def test_processes_that_solve_at_once_do_no_harm(folder, fresh):
    lines = (
        "from baselines.retrograde.solver import solve; from ttt_envs import Game",
        "print([solve(Game(3, 4, 3)).value for _ in range(5)])",
    )
    with ThreadPoolExecutor(2) as pool:
        assert [text.strip() for text in pool.map(lambda _: fresh(*lines), range(2))] == [str([1.0] * 5)] * 2
    table, _ = only_table(folder)
    inode = table.stat().st_ino
    assert solve(LARGE).value == 1
    assert table.stat().st_ino == inode


def test_tables_are_kept_where_the_system_keeps_such_files(tmp_path, fresh):
    """Without a folder of our own in the environment they go to that of platformdirs."""
    printed = fresh(
        f"import os; os.environ.update(HOME={str(tmp_path)!r}, XDG_CACHE_HOME={str(tmp_path / 'cache')!r})",
        "del os.environ['TTT_ENVS_CACHE']",
        "import platformdirs",
        "from baselines.retrograde.solver import solve; from ttt_envs import Game",
        "solve(Game(3, 4, 3))",
        "print(platformdirs.user_cache_dir('ttt_envs'))",
    ).strip()
    table, _ = only_table(Path(printed))
    assert table.is_relative_to(tmp_path) or os.name == "nt"
