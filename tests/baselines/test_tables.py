"""Tables of positions and the softmax policy: known facts and a recursion in plain Python."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import plain
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from small_games import SKIP_GAME

from baselines.exact import solve
from baselines.tables import learned_values, random_play_values, source_values
from ttt_envs import Game, make_policy
from ttt_envs.game.boards import keys
from ttt_envs.game.rules import DRAW
from ttt_eval.exact.dynamic_programming import match_outcome, outcome

SHAPES = [
    Game(),
    Game(2, 3, 2),
    Game(3, 2, 3),
    Game(1, 5, 3),
    Game(2, 2, 2),
    Game(3, 3, 1),
    Game(1, 1, 1),
]
GAMES = [replace(shape, skip_chance=skip) for shape in SHAPES for skip in (0.0, 0.25, 0.5)]
GAMES += [
    Game(2, 3, 2 + n % 2, 0.25 * (n % 3 > 0), **rules) for n, rules in enumerate(plain.COMBINATIONS)
]
EXACTLY = {"rtol": 0, "atol": 1e-12}


def plain_table(game, terminal, best=False):
    """Values to player_0."""
    table = np.zeros((2 if game.skip_chance else 1, 3**game.cells))
    number = lambda cells: sum(cell * 3**place for place, cell in enumerate(cells))  # noqa: E731
    for (cells, mover), value in plain.values_of(game, average=not best)[0].items():
        table[mover if game.skip_chance else 0, number(cells)] = value if mover == 0 else -value
    if terminal == "equation":
        for cells, winner in plain.ends_of(game).items():
            table[:, number(cells)] = {0: 1.0, 1: -1.0, DRAW: 0.0}[winner]
    return table if game.skip_chance else table[0]


@pytest.mark.parametrize(
    "game",
    [
        pytest.param(game, marks=[pytest.mark.more] if game.skip_chance and game.cells == 9 else [])
        for game in GAMES
    ],
    ids=str,
)
@pytest.mark.parametrize("terminal", ["equation", "as_published"])
def test_tables_equal_a_recursion_in_plain_python(game, terminal):
    for best, source in ((False, "random"), (True, "optimal")):
        our_values = source_values(game, source, terminal)
        assert our_values.dtype == np.float64
        assert not our_values.flags.writeable
        assert_allclose(our_values, plain_table(game, terminal, best), **EXACTLY)


def test_random_play_has_known_values(known_values):
    facts = known_values["random_play_values_3x3x3"]
    table = random_play_values(Game())
    win, _, loss = (Fraction(share) for share in facts["win_draw_loss_of_player_0"])
    assert table[0] == pytest.approx(float(win - loss), abs=1e-12)
    assert table[0] == pytest.approx(float(Fraction(facts["value_at_start"])), abs=1e-12)
    cells = {"corner": (0, 2, 6, 8), "edge": (1, 3, 5, 7), "centre": (4,)}
    for kind, value in facts["value_after_first_move"].items():
        assert_allclose(table[3 ** np.array(cells[kind])], float(Fraction(value)), **EXACTLY)
    assert np.count_nonzero(abs(table) > 1e-12) == facts["equation"]["nonzero"]
    assert np.square(table).sum() == pytest.approx(212580442 / 99225, rel=1e-14)
    assert facts["equation"]["frobenius_norm"] == "sqrt(212580442/99225)"


# --------------------------------------------------------------------------------------------------
# Tables of moves


@pytest.mark.parametrize("game", [Game(), SKIP_GAME, Game(2, 3, 2)], ids=str)
def test_table_of_moves_holds_the_action_values_of_a_policy(game):
    table = learned_values(game, "optimal")
    halves = table.reshape(-1, 3**game.cells, game.cells)
    assert len(halves) == (2 if game.skip_chance else 1)
    boards = plain.boards_of(plain.moves_of(game))
    sign = (1 - 2 * boards.mover)[:, None]
    expected = sign * np.nan_to_num(solve(game).action_values(boards))
    assert_array_equal(
        halves[boards.mover if game.skip_chance else 0, keys(boards.cells)], expected
    )
    assert np.count_nonzero(table.any(axis=-1)) == np.count_nonzero(expected.any(axis=1))
    policy = make_policy("table:source=(optimal:epsilon=0)", game)
    assert_allclose(policy.values(boards), solve(game).values(boards), **EXACTLY)
    assert_array_equal(
        policy.action_values(boards), np.where(boards.cells == 0, sign * expected, np.nan)
    )


# --------------------------------------------------------------------------------------------------
# The policy


@given(plain.games(3, skip=True), st.integers(0, 999), st.sampled_from([0.0, 1.0, 10.0, 1000.0]))
def test_probabilities_equal_equation_17(game, seed, w):
    """The paper's Eq. (17), and its sign for player_1; with skips both movers are weighted by their
    chance.
    """
    boards = plain.positions_of_random_play(game, 8, seed)
    table = random_play_values(game).reshape(-1, 3**game.cells)
    expected = np.zeros(boards.cells.shape)
    action_values = np.full(boards.cells.shape, np.nan)
    for row, (cells, mover) in enumerate(zip(*boards, strict=True)):
        key = int(keys(boards.cells[row : row + 1])[0])
        for cell in np.flatnonzero(cells == 0):
            next_values = table[:, key + (mover + 1) * 3**cell]
            if game.skip_chance:
                value = (1 - game.skip_chance) * next_values[
                    1 - mover
                ] + game.skip_chance * next_values[mover]
            else:
                value = next_values[0]
            action_values[row, cell] = value if mover == 0 else -value
        weights = np.exp(w * (action_values[row] - np.nanmax(action_values[row])))
        expected[row] = np.nan_to_num(weights / np.nansum(weights))
    policy = make_policy(f"table:w={w}", game)
    assert_allclose(policy.action_values(boards), action_values, **EXACTLY)
    assert_allclose(policy.probabilities(boards), expected, rtol=1e-9, atol=1e-300)
    half = boards.mover if game.skip_chance else 0
    assert_allclose(
        policy.values(boards), (1 - 2 * boards.mover) * table[half, keys(boards.cells)], **EXACTLY
    )
    if w == 0:
        assert_allclose(
            policy.probabilities(boards),
            make_policy("random", game).probabilities(boards),
            rtol=1e-14,
        )


MATCHES = [
    "table vs table",
    "table vs random",
    "table vs optimal",
    "table vs svd rank 18",
    "table vs svd rank 3",
]


@pytest.mark.parametrize(
    "match", [*MATCHES, "svd rank 3 vs hosvd rank 7", "svd rank 12 vs hosvd rank 14"]
)
def test_matches_have_known_results(known_values, match):
    a, b = match.replace(" rank ", ":rank=").split(" vs ")
    facts = known_values["matches_3x3x3_softmax_w10_equation"][match]
    assert_allclose(outcome(Game(), a, b), facts["a_as_player_0"], rtol=0, atol=1e-9)
    assert_allclose(outcome(Game(), b, a).reversed(), facts["a_as_player_1"], rtol=0, atol=1e-9)


def test_published_matches_have_known_results(known_values):
    facts = known_values["matches_3x3x3_softmax_w10_as_published_mean_of_seats"]
    published = "terminal=as_published"
    for name, other in (
        ("table", f"table:{published}"),
        ("random", "random"),
        ("svd rank 18", f"svd:18,{published}"),
    ):
        result = match_outcome(Game(), f"table:{published}", other)
        assert_allclose(result, facts[f"table vs {name}"], rtol=0, atol=6e-5)
    pairs = facts["hosvd vs svd at table 1 pairs (3,7),(12,14)"]
    for (of_svd, of_hosvd), (wins, _, losses) in zip(((3, 7), (12, 14)), pairs, strict=True):
        result = match_outcome(Game(), f"hosvd:{of_hosvd},{published}", f"svd:{of_svd},{published}")
        assert_allclose([result.win, result.loss], [wins, losses], rtol=0, atol=6e-4)
