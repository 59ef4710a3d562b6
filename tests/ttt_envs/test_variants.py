"""Rule variants, alone and together: kernels beside a plain reading, and facts known without us."""

import json
import re
from dataclasses import replace
from functools import cache

import numpy as np
import plain
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from ttt_envs import Boards, Game, chance_outcomes, from_text, make_policy
from ttt_envs.core.random import uniform, uniforms
from ttt_envs.game import bits, lines, reference, rules
from ttt_envs.game.boards import check_opening, winning_line_cells
from ttt_envs.game.game import VARIANTS
from ttt_envs.game.symmetry import symmetries

LARGE = [
    Game(7, 10, 4, overlines=False),
    Game(8, 9, 5, torus=True),
    Game(9, 8, 4, gravity=True, torus=True, misere=True),
]
"""games too large for bits"""


def stones_of(cells, player):
    return set(np.flatnonzero(cells == player + 1).tolist())


@pytest.mark.parametrize("name", VARIANTS)
def test_a_variant_is_stored_by_its_name(name):
    rule = {name: VARIANTS[name]}
    game = Game(3, 4, 3, 0.25, **rule)
    assert game.variants == rule
    assert json.loads(json.dumps(game.to_dict()))[name] is VARIANTS[name]
    assert Game.from_dict(game.to_dict()) == game == Game.of_size((3, 4), 3, 0.25, **rule)
    assert game.slug == f"3x4-3-{name if VARIANTS[name] else 'no-' + name}-skip0.25"
    assert set(replace(game, **{name: not VARIANTS[name]}).to_dict()) == {
        "format",
        "rows",
        "columns",
        "win_length",
        "skip_chance",
    }
    with pytest.raises(TypeError, match=f"{name}=1 is not a truth value: write {name}=True"):
        Game(**{name: 1})


def test_a_variant_says_what_it_is():
    assert str(Game(6, 7, 4, gravity=True)) == "6 x 7, 4 to win, gravity"
    assert str(Game(15, 15, 5, overlines=False)) == "15 x 15, exactly 5 to win"
    assert str(Game(3, 3, 3, 0.5, misere=True, torus=True)) == "3 x 3, 3 to lose, torus, skip 0.5"


# ---------------------------------------------------------------------------------------------------------------------
# Lines, legal moves and ends, beside a plain reading


@given(plain.variants(), st.data())
def test_lines_of_any_board(game, data):
    assume(game.variants)
    cells = data.draw(plain.cells_of_any(game))
    before, out = cells.copy(), np.empty(game.cells, np.int8)
    legal = set(reference.legal_cells(game, set(np.flatnonzero(cells).tolist())))
    assert set(np.flatnonzero(rules.legal(game, cells)).tolist()) == legal
    of_both = [bits.to_bits(cells, np.int8(player + 1)) for player in (0, 1)]
    assert rules.legal_bits(*of_both, game.parameters) == sum(1 << cell for cell in legal)
    for player in (0, 1):
        own = stones_of(cells, player)
        assert lines.has_line(of_both[player], game.parameters) == reference.has_line(game, own)
        if not reference.has_line(game, own):
            rules.completing_cells(cells, player, game.parameters, out)
            assert set(np.flatnonzero(out)) == {cell for cell in legal if reference.has_line(game, own | {cell})}
        by_cells = {tuple(line.cells) for line in game.lines if own.issuperset(line.cells)}
        made = {
            cells_of
            for cells_of in by_cells
            for line in game.lines
            if line.cells == cells_of and own.isdisjoint(line.beyond)
        }
        assert bool(made) == reference.has_line(game, own)
    assert_array_equal(cells, before)


def random_game(game, rng, chosen=None):
    """Actions, skip draws, key and positions of a random game, or of one with the ``chosen`` quantiles."""
    key = np.uint64(rng.integers(2**63))
    cells, mover, outcome, actions, positions = np.zeros(game.cells, np.int8), 0, rules.NOT_OVER, [], []
    while outcome == rules.NOT_OVER:
        positions.append((cells.copy(), mover))
        cell = rules.nth_legal_cell(cells, rng.random(), game.parameters)
        outcome, mover = rules.play(cells, mover, cell, len(actions), key, game.parameters)
        actions.append(cell)
    draws = [uniform(key, rules.STREAM_SKIP, n) for n in range(game.cells)]
    return actions, draws, positions, cells, outcome


def check_games(game, rng, games):
    """Random games stone by stone beside the plain reading."""
    for _ in range(games):
        actions, draws, positions, cells, outcome = random_game(game, rng)
        for plies, (board, mover) in enumerate(positions):
            expected = plain.play_variant(game, actions[:plies], draws)
            assert_array_equal(board, expected[0])
            assert (mover, None) == expected[1:3]
            assert np.flatnonzero(rules.legal(game, board)).tolist() == expected[3]
            assert rules.winner(game, board) is None
        assert plain.play_variant(game, actions, draws)[2] == outcome == rules.winner(game, cells)
        assert_array_equal(plain.play_variant(game, actions, draws)[0], cells)


@pytest.mark.parametrize("changed", plain.COMBINATIONS, ids=plain.label_rules)
def test_games_agree_with_a_plain_reading(changed):
    rng = np.random.default_rng(1)
    for game in (Game(3, 3, 3), Game(4, 5, 4), Game(5, 4, 3, 0.25), Game(2, 6, 2, 0.5), Game(6, 7, 4, 0.1)):
        check_games(replace(game, **changed), rng, 3)


def check_games_in_step(game, rng, count):
    """Random games, a stone in each at a time, beside sets of cells as bits, of which all is found by plain reading."""

    def cells_of(bits):
        return {cell for cell in range(game.cells) if bits >> cell & 1}

    has_line = cache(lambda own: reference.has_line(game, cells_of(own)))
    legal_cells = cache(lambda taken: sum(1 << cell for cell in reference.legal_cells(game, cells_of(taken))))
    cells, mover, stones = np.zeros((count, game.cells), np.int8), np.zeros(count, np.int8), np.zeros(count, np.int64)
    keys, outcomes = rng.integers(0, 2**64, count, np.uint64), np.full(count, rules.NOT_OVER, np.int8)
    own, turn, u = [[0, 0] for _ in range(count)], [0] * count, np.empty(count)
    rows = np.arange(count)
    for placed in range(game.cells):
        legal = Boards(cells[rows], mover[rows]).legal(game)
        actions = (rng.random(legal.shape) * legal).argmax(axis=1)
        rules.play_rows(cells, mover, stones, keys, rows, actions, game.parameters, outcomes)
        uniforms(keys, rules.STREAM_SKIP, np.full(count, placed), u)
        masks = legal @ (1 << np.arange(game.cells))
        columns = (rows, actions, masks, u[rows], mover[rows], outcomes[rows])
        for row, cell, mask, draw, after, outcome in zip(*map(np.ndarray.tolist, columns), strict=True):
            player, both = turn[row], own[row]
            assert mask == legal_cells(both[0] | both[1])
            both[player] |= 1 << cell
            if has_line(both[player]):
                assert outcome == (1 - player if game.misere else player)
            elif placed + 1 == game.cells:
                assert outcome == rules.DRAW
            else:
                turn[row] = player if draw < game.skip_chance else 1 - player
                assert (outcome, after) == (rules.NOT_OVER, turn[row])
        rows = rows[outcomes[rows] == rules.NOT_OVER]
    assert len(rows) == 0


@pytest.mark.parametrize("games", [500, pytest.param(500_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("changed", plain.COMBINATIONS, ids=plain.label_rules)
def test_many_games_agree_with_a_plain_reading(changed, games):
    rng = np.random.default_rng(4)
    for game in (Game(3, 4, 3), Game(3, 4, 3, 0.25)):
        for start in range(0, games, 10_000):
            check_games_in_step(replace(game, **changed), rng, min(10_000, games - start))


@pytest.mark.parametrize("game", LARGE, ids=str)
def test_large_boards_agree_with_a_plain_reading(game):
    rng = np.random.default_rng(2)
    check_games(game, rng, 2)
    out = np.empty(game.cells, np.int8)
    for _ in range(5):
        _, _, positions, _, _ = random_game(game, rng)
        for cells, _ in positions[:: max(1, len(positions) // 5)]:
            taken = set(np.flatnonzero(cells).tolist())
            for player in (0, 1):
                rules.completing_cells(cells, player, game.parameters, out)
                expected = [
                    cell
                    for cell in reference.legal_cells(game, taken)
                    if reference.has_line(game, stones_of(cells, player) | {cell})
                ]
                assert np.flatnonzero(out).tolist() == expected


@given(plain.games(7, skip=True) | plain.variants(6, skip=True), st.integers(0, 2**32))
def test_moves_commute_with_symmetries(game, seed):
    actions, _, positions, cells, outcome = random_game(game, np.random.default_rng(seed))
    for p in symmetries(game):
        image, mover = np.zeros(game.cells, np.int8), 0
        places = np.argsort(p)
        for stones, action in enumerate(actions):
            assert_array_equal(image, positions[stones][0][p])
            mover = positions[stones][1]
            result = rules.place(image, mover, int(places[action]), stones, game.parameters)
        assert result == outcome
        assert_array_equal(image, cells[p])


# ---------------------------------------------------------------------------------------------------------------------
# Positions from outside


def test_a_stone_in_the_air_is_no_position():
    game = Game(3, 3, 3, gravity=True)
    for text in ("o../.../... x", ".../.o./... x"):
        with pytest.raises(ValueError, match="a stone above an empty cell: with gravity, stones fall"):
            check_opening(game, from_text(text), "the opening")
        with pytest.raises(ValueError, match="a stone above an empty cell"):
            chance_outcomes(game, from_text(text), 8)
        with pytest.raises(ValueError, match=re.escape(repr(text)) + ".* a stone above an empty cell"):
            from_text(text, game)
    check_opening(game, from_text(".../.../.o. x", game), "the opening")
    with pytest.raises(ValueError, match=r"action 3 is illegal, stones fall to the lowest empty cell: .*\(4, 6, 8\)"):
        chance_outcomes(game, from_text(".../.../.o. x"), 3)


def test_the_line_that_decided_is_shown():
    overline = from_text("ooooo/xxxx./...../...../..... x")
    assert winning_line_cells(Game(5, 5, 4, overlines=False), overline.cells, 1) == [5, 6, 7, 8]
    assert winning_line_cells(Game(5, 5, 4, misere=True), from_text("oooo./...../...../...../..... x").cells, 1) == [
        0,
        1,
        2,
        3,
    ]
    assert winning_line_cells(Game(3, 3, 3, torus=True), from_text("o../..o/.o. x").cells, 0) == [0, 5, 7]


# ---------------------------------------------------------------------------------------------------------------------
# What does not support a variant


@pytest.mark.parametrize("name", VARIANTS)
def test_tools_refuse_variants_by_name(name):
    from baselines.proof_number import prove

    expected = rf"^a proof of the winner does not support {name}.* of .*, because pairings, .* evaluate\.py solve"
    with pytest.raises(ValueError, match=expected):
        prove(Game(**{name: VARIANTS[name]}))
    if name != "overlines":
        with pytest.raises(ValueError, match=f"gomocup does not support {name}"):
            make_policy("gomocup:python", Game(15, 15, 5, **{name: True}))
