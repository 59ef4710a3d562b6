"""The solver: known facts, and a recursion in plain Python."""

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import plain
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from small_games import SKIP_GAME

from baselines.exact import solve
from baselines.exact.count import DRAWN, WON, reachable_boards
from baselines.exact.layers import start_value
from baselines.exact.optimal import MAX_SOLUTIONS
from ttt_envs import Boards, Game, make_policy
from ttt_envs.game.boards import keys
from ttt_envs.game.rules import DRAW
from ttt_envs.game.symmetry import symmetries

pytestmark = pytest.mark.usefixtures("private_cache")
SIZES = [
    (3, 3, 3),
    (2, 3, 2),
    (2, 3, 3),
    (3, 2, 2),
    (1, 5, 3),
    (2, 2, 2),
    (3, 3, 2),
    (3, 3, 1),
    (1, 1, 1),
]
SHAPES = [Game(*size) for size in SIZES]
VARIANTS = [
    replace(shape, **rules)
    for shape in (Game(2, 3, 2), Game(2, 3, 3), Game())
    for rules in plain.COMBINATIONS
]
GAMES = [replace(shape, skip_chance=skip) for shape in SHAPES for skip in (0.0, 0.25, 0.9)]
GAMES += [
    replace(game, skip_chance=0.25 * (number % 2) * (game.cells < 9))
    for number, game in enumerate(VARIANTS)
]
COUNTED = [
    replace(game, skip_chance=skip)
    for skip in (0.0, 0.5)
    for game in (*SHAPES, Game(2, 4, 3), Game(5, 2, 2))
]
COUNTED += VARIANTS[::4] + [replace(game, skip_chance=0.5) for game in VARIANTS[:30:4]]


@cache
def solved(game):
    return solve(game, cache=False)


def test_solutions_used_last_are_kept():
    games = [Game(1, 1, 1, skip / 100) for skip in range(MAX_SOLUTIONS + 1)]
    first = solve(games[0])
    for game in games:
        solve(game)
        assert solve(games[0]) is first


# --------------------------------------------------------------------------------------------------
# The same in plain Python


@cache
def positions_of(game):
    return plain.boards_of(plain.moves_of(game))


@cache
def plain_distances(game):
    """Plies to the end of every position: winners minimise, losers maximise, a draw fills the
    board.
    """
    values, of_moves = plain.values_of(game)
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


# --------------------------------------------------------------------------------------------------
# Values


@pytest.mark.parametrize("game", GAMES, ids=str)
def test_values_equal_plain_expectimax(game):
    values, of_moves = plain.values_of(game)
    solution = solved(game)
    boards = positions_of(game)
    our_values = solution.values(boards)
    assert_allclose(our_values, list(values.values()), rtol=0, atol=1e-12)
    assert solution.value == our_values[0]
    expected = np.full(boards.cells.shape, np.nan)
    for row, state in enumerate(values):
        for action, value in of_moves[state].items():
            expected[row, action] = value
    assert_allclose(solution.action_values(boards), expected, rtol=0, atol=1e-12)
    best = solution.optimal_actions(boards)
    with np.errstate(invalid="ignore"):
        assert_array_equal(best, expected >= np.nanmax(expected, axis=1, keepdims=True) - 1e-9)


@pytest.mark.parametrize("game", GAMES, ids=str)
def test_finished_boards_have_their_result_and_no_moves(game):
    ends = plain.ends_of(game)
    for mover in (0, 1):
        boards = plain.boards_of([(cells, mover) for cells in ends])
        expected = [plain.result_for(mover, winner) for winner in ends.values()]
        assert_array_equal(solved(game).values(boards), expected)
        assert np.isnan(solved(game).action_values(boards)).all()
        assert not solved(game).optimal_actions(boards).any()


@given(plain.games(3, skip=True), st.integers(0, 999), st.booleans())
def test_values_satisfy_the_bellman_equation(game, seed, other_mover):
    """At any position that is not over, reachable or not, of either mover."""
    cells, mover = plain.positions_of_random_play(game, 8, seed)
    plain.assert_bellman_equation(
        solved(game), Boards(cells, 1 - mover if other_mover else mover), 1e-12
    )


# --------------------------------------------------------------------------------------------------
# Known facts


@pytest.mark.parametrize(
    "name",
    [
        "3x3x3 skip 0",
        "3x3x3 skip 1/4",
        "2x2x2 skip 1/4",
        "2x3x3 skip 1/4",
        "3x3x2 skip 1/4",
        "3x4x3 skip 0",
    ],
)
def test_optimal_play_has_its_known_value(known_values, name):
    facts = known_values["optimal_play"][name]
    shape, skip = name.split(" skip ")
    game = Game(*map(int, shape.split("x")), float(Fraction(skip)))
    solution = solve(game, cache=False)
    start = Boards.start(game)
    assert solution.value == pytest.approx(float(Fraction(facts["value"])), abs=1e-12)
    assert solution.values(start)[0] == solution.value
    if "distance" in facts:
        assert solution.distance(start).tolist() == [facts["distance"]]
    if "after_first_move" in facts:
        cells = {"corner": (0, 2, 6, 8), "edge": (1, 3, 5, 7), "centre": (4,)}
        for kind, value in facts["after_first_move"].items():
            our_values = solution.action_values(start)[0, list(cells[kind])]
            assert_allclose(our_values, float(Fraction(value)), rtol=0, atol=1e-12)


# --------------------------------------------------------------------------------------------------
# Distances


def test_distances_of_tic_tac_toe_are_known(known_values):
    facts = known_values["distance_to_end_3x3x3_no_skip"]
    game = Game()
    boards = positions_of(game)
    values = solved(game).values(boards)
    plies = solved(game).distance(boards)
    for value, name in ((1, "player_to_move_wins_in"), (-1, "player_to_move_loses_in")):
        counts = Counter(plies[values == value].tolist())
        assert {str(length): count for length, count in counts.items()} == facts[name]
    assert (values == 0).sum() == facts["draws"]


@pytest.mark.parametrize("game", [*SHAPES, Game(2, 4, 3)], ids=str)
def test_distances_equal_plain_python(game):
    assert_array_equal(
        solved(game).distance(positions_of(game)), list(plain_distances(game).values())
    )


@pytest.mark.parametrize("rules", [{}, *plain.COMBINATIONS], ids=plain.label_rules)
def test_the_start_has_the_same_value_from_two_layers(rules):
    for game in (Game(2, 3, 3, 0.25, **rules), Game(3, 3, 3, **rules)):
        assert start_value(game) == pytest.approx(solved(game).value, abs=1e-15)


def test_distance_with_skips_is_refused():
    game = SKIP_GAME
    with pytest.raises(ValueError, match="only without skips"):
        solved(game).distance(Boards.start(game))


# --------------------------------------------------------------------------------------------------
# Counts


def test_counts_of_tic_tac_toe_are_known(known_values):
    facts = known_values["counts_3x3x3_no_skip"]
    counts = solved(Game()).counts
    assert counts.positions_not_over == counts.boards_not_over == facts["not_over"]
    assert (counts.boards_over, counts.boards) == (facts["over"], facts["positions"])
    results = counts.won_by_player_0, counts.won_by_player_1, counts.drawn
    assert results == (facts["won_by_player_0"], facts["won_by_player_1"], facts["drawn"])
    assert counts.by_stones == tuple(facts["by_stones"].values())
    assert (counts.classes, counts.games) == (facts["classes_up_to_symmetry"], facts["games"])


@pytest.mark.parametrize("skip_chance", [0.1, 0.25, 0.9])
def test_counts_with_skips_are_known(known_values, skip_chance):
    facts = known_values["counts_3x3x3_skip"]
    counts = solved(Game(skip_chance=skip_chance)).counts
    assert counts.positions_not_over == facts["cells_and_mover_not_over"]
    assert counts.boards_not_over == facts["boards_not_over"]
    assert counts.boards_over == facts["boards_over"]
    assert counts.games is None


@pytest.mark.parametrize("game", COUNTED, ids=str)
def test_counts_equal_plain_enumeration(game):
    moves = plain.moves_of(game)
    ends = plain.ends_of(game)
    codes = {cells: DRAWN if winner == DRAW else WON << winner for cells, winner in ends.items()}
    for cells, mover in moves:
        codes[cells] = codes.get(cells, 0) | 1 << mover
    boards = plain.boards_of([(cells, 0) for cells in codes]).cells
    statuses = np.zeros(3**game.cells, np.uint8)
    statuses[keys(boards)] = list(codes.values())
    assert_array_equal(reachable_boards(game), statuses)
    counts = solved(game).counts
    winners = Counter(ends.values())
    assert counts.positions_not_over == len(moves)
    assert (counts.boards_not_over, counts.boards_over) == (len(codes) - len(ends), len(ends))
    assert (counts.won_by_player_0, counts.won_by_player_1, counts.drawn) == (
        winners[0],
        winners[1],
        winners[DRAW],
    )
    assert counts.by_stones == tuple(
        np.bincount(np.count_nonzero(boards, axis=1), minlength=game.cells + 1)
    )
    images = np.stack([keys(np.ascontiguousarray(boards[:, image])) for image in symmetries(game)])
    assert counts.classes == len(np.unique(images.min(axis=0)))
    sequences = {}
    for state, actions in reversed(moves.items()):
        sequences[state] = sum(
            1 if winner is not None else sequences[states[0]] for winner, states in actions.values()
        )
    assert counts.games == (None if game.skip_chance else sequences[bytes(game.cells), 0])


# --------------------------------------------------------------------------------------------------
# The policy


@given(plain.games(3, skip=True), st.integers(0, 999), st.sampled_from([0.0, 0.1, 0.5, 1.0]))
def test_epsilon_mixes_optimal_and_random_moves(game, seed, epsilon):
    boards = plain.positions_of_random_play(game, 8, seed)
    best, legal = (
        plain.shares_of(chosen)
        for chosen in (solved(game).optimal_actions(boards), boards.cells == 0)
    )
    expected = (1 - epsilon) * best + epsilon * legal
    assert_allclose(
        make_policy(f"optimal:epsilon={epsilon}", game).probabilities(boards), expected, atol=1e-15
    )
