"""Solver, tables and searches by the rules of variants: beside a plain recursion, and facts known without us."""

from dataclasses import replace
from functools import cache

import numpy as np
import plain
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from baselines.exact import solve
from baselines.exact.count import count_positions, reachable_boards
from baselines.expectiminimax import Search
from baselines.mcts.search import MCTSSearch
from baselines.tables import source_values
from ttt_envs import Boards, Game, make_policy
from ttt_envs.game import reference
from ttt_envs.game.boards import check_opening, keys
from ttt_envs.game.game import VARIANTS
from ttt_envs.graph.kept import KeptGraph
from ttt_eval.matches.openings import draw_openings

GAMES = [
    replace(shape, **rules)
    for shape in (Game(2, 3, 2), Game(2, 3, 3, 0.25), Game(3, 3, 3), Game(3, 3, 2, 0.25))
    for rules in plain.COMBINATIONS
]


def named(game):
    return game.slug


@cache
def plain_values(game, average=False):
    """The value for its mover of each move in every position that can be reached, {(own stones, mover): {cell: value}}.

    Both players make the best moves, or with ``average`` random ones.
    """
    known = {}
    has_line = cache(lambda own: reference.has_line(game, own))

    def action_values(stones, mover):
        state = stones, mover
        if state not in known:
            values = {}
            for cell in reference.legal_cells(game, stones[0] | stones[1]):
                own = stones[mover] | {cell}
                after = (own, stones[1]) if mover == 0 else (stones[0], own)
                if has_line(own):
                    values[cell] = -1.0 if game.misere else 1.0
                elif len(after[0]) + len(after[1]) == game.cells:
                    values[cell] = 0.0
                else:
                    values[cell] = -(1 - game.skip_chance) * value(after, 1 - mover)
                    if game.skip_chance > 0:
                        values[cell] += game.skip_chance * value(after, mover)
            known[state] = values
        return known[state]

    def value(stones, mover):
        values = action_values(stones, mover).values()
        return sum(values) / len(values) if average else max(values)

    value((frozenset(), frozenset()), 0)
    return known


def positions_and_values(game, average=False):
    """All positions that can be reached and are not over, and the plain values of their moves, NaN where illegal."""
    known = plain_values(game, average)
    cells, mover = np.zeros((len(known), game.cells), np.int8), np.zeros(len(known), np.int8)
    values = np.full((len(known), game.cells), np.nan)
    for row, ((stones, player), moves) in enumerate(known.items()):
        for stone in (0, 1):
            cells[row, list(stones[stone])] = stone + 1
        mover[row] = player
        values[row, list(moves)] = list(moves.values())
    return Boards(cells, mover), values


@pytest.mark.parametrize("game", GAMES, ids=named)
def test_the_solver_agrees_with_a_plain_recursion(game):
    boards, values = positions_and_values(game)
    solution = solve(game)
    assert_allclose(solution.action_values(boards), values, atol=1e-12)
    assert_allclose(solution.values(boards), np.nanmax(values, axis=1), atol=1e-12)
    best = values >= np.nanmax(values, axis=1, keepdims=True) - 1e-9
    assert_allclose(make_policy("optimal", game).probabilities(boards), best / best.sum(axis=1, keepdims=True))


@pytest.mark.parametrize("game", GAMES[::2], ids=named)
def test_boards_are_reached(game):
    boards, _ = positions_and_values(game)
    kinds = reachable_boards(game)
    expected = np.zeros(len(kinds), np.uint8)
    np.bitwise_or.at(expected, keys(boards.cells).astype(np.int64), np.left_shift(1, boards.mover).astype(np.uint8))
    assert_array_equal(np.where(kinds < 4, kinds, 0), expected)


@pytest.mark.slow
def test_positions_known_without_us():
    """Connect Four on 4 x 4 has 161,029 positions (John's Connect Four Playground), and is drawn."""
    game = Game(4, 4, 4, gravity=True)
    assert count_positions(game).boards == 161_029
    assert solve(game).value == 0


@pytest.mark.parametrize(
    ("game", "value"),
    [
        (Game(3, 3, 3, misere=True), 0),  # Golomb and Hales: by the centre and mirroring
        (Game(3, 3, 3, torus=True), 1),
        (Game(4, 3, 4, gravity=True), 0),
        (Game(3, 4, 3, gravity=True), 1),
    ],
    ids=str,
)
def test_values_known_without_us(game, value):
    assert solve(game).value == value


@pytest.mark.parametrize("game", GAMES[:30:2], ids=named)
def test_tables_of_random_play(game):
    boards, values = positions_and_values(game, average=True)
    table = source_values(game, "random")
    mean = np.nanmean(values, axis=1) * (1 - 2 * boards.mover)
    table = table.reshape(-1, 3**game.cells)
    assert_allclose(table[boards.mover % len(table), keys(boards.cells)], mean, atol=1e-12)


@pytest.mark.parametrize("game", GAMES[::4], ids=named)
def test_a_search_to_the_end_is_exact(game):
    boards, values = positions_and_values(game)
    rows = np.random.default_rng(0).permutation(len(boards.mover))[:200]
    boards, values = boards.take(rows), values[rows]
    for pruning in ("star1", "none"):
        late = np.count_nonzero(boards.cells, axis=1) >= (3 if pruning == "none" else 0)
        search = Search(game, boards.take(late), pruning=pruning, by_result=True)
        search.run(game.cells)
        assert_allclose(search.move_values, values[late], atol=1e-12)


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("game", GAMES[1::4], ids=named)
def test_pruning_changes_no_value_of_a_search(game, depth):
    boards = plain.positions_of_random_play(game, 64)
    found = []
    for pruning in ("none", "alpha-beta", "star1"):
        search = Search(game, boards, pruning=pruning)
        search.run(depth)
        found.append(search.move_values)
    for values in found[1:]:
        assert_allclose(values, found[0], atol=1e-12)


@pytest.mark.parametrize("game", GAMES[::3], ids=named)
def test_solved_values_of_mcts_are_exact(game):
    boards, values = positions_and_values(game)
    stones = np.count_nonzero(boards.cells, axis=1)
    rows = np.random.default_rng(0).permutation(np.flatnonzero(stones >= stones.max() - 3))[:50]
    search = MCTSSearch(game, boards.take(rows), np.arange(len(rows), dtype=np.uint64))
    search.run(500)
    solved = search.solved
    assert solved.any(axis=1).mean() > 0.5
    assert_allclose(search.action_values[solved], values[rows][solved], atol=1e-9)
    assert_array_equal(search.visits[np.isnan(values[rows])], 0)


def test_rollouts_are_random_play():
    """The mean of many rollouts is the value of random play."""
    for game in (Game(2, 3, 3, gravity=True), Game(2, 3, 2, 0.25, misere=True, gravity=True)):
        _, values = positions_and_values(game, average=True)
        search = MCTSSearch(game, Boards.start(game, 5000), np.arange(5000, dtype=np.uint64), decisive=False)
        search.run(1)
        assert abs(search.root_values.mean() - np.nanmean(values[-1])) < 5 / np.sqrt(5000)  # the start is known last


@pytest.mark.parametrize("rule", VARIANTS)
def test_optimal_supports_all_rules_above_16_cells(rule):
    """It is made without being solved; 6 x 7 with gravity and skips is too large."""
    assert make_policy("optimal", Game(4, 5, 4, 0.25, **{rule: VARIANTS[rule]})).game.variants == {rule: VARIANTS[rule]}
    with pytest.raises(ValueError, match=r"a board of 6 x 7 .*is too large to solve"):
        make_policy("optimal", Game(6, 7, 4, 0.25, **{rule: VARIANTS[rule]}))


@pytest.mark.parametrize("game", GAMES[::7], ids=named)
def test_the_kept_graph_has_the_values_of_play(game):
    graph = KeptGraph(game)
    boards, values = positions_and_values(game, average=True)
    uniform = graph.legal / graph.legal.sum(axis=1, keepdims=True)
    evaluation = graph.evaluate(uniform)
    assert evaluation.values[0] == pytest.approx(np.nanmean(values[-1]))  # of the start, which is known last
    assert len(graph.boards.mover) == len(boards.mover)
    won, drawn, lost = evaluation.results
    assert won + drawn + lost == pytest.approx(1)
    assert won - lost == pytest.approx(evaluation.values[0])


@pytest.mark.parametrize("changed", plain.COMBINATIONS[::3], ids=lambda changed: Game(**changed).slug)
def test_drawn_openings_are_legal(changed):
    game = Game(4, 5, 3, 0.25, **changed)
    boards = draw_openings(game, 3, np.arange(50, dtype=np.uint64))
    assert (np.count_nonzero(boards.cells, axis=1) == 3).all()
    for row in range(50):
        check_opening(game, boards.position(row), "an opening")
    assert len(np.unique(keys(boards.cells))) > 20
