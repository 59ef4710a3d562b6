"""The rules: kernels beside ttt_envs/game/reference.py, and numbers known without us.

With ``NUMBA_DISABLE_JIT=1`` the same tests are of the kernels as plain Python.
"""

import json

import numpy as np
import plain
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from ttt_envs import Game, PhantomGame, Position, chance_outcomes, from_text, make_policy
from ttt_envs.core.random import splitmix64, uniform
from ttt_envs.game import bits, reference, rules
from ttt_envs.game import lines as game_lines
from ttt_envs.game.boards import check_opening, winning_line_cells
from ttt_envs.game.phantom import game_from_dict
from ttt_envs.game.symmetry import symmetries

T3 = Game()
SHAPES = [
    Game(1, 19, 1),
    Game(1, 19, 5),
    Game(19, 1, 17, 0.97),
    Game(2, 12, 12),
    Game(1, 1, 1),
    Game(3, 19, 19),
]
any_game = plain.games() | plain.games(5) | plain.variants(6) | st.sampled_from(SHAPES)


# --------------------------------------------------------------------------------------------------
# A game


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("rows", (0, 2.0)),
        ("columns", (20,)),
        ("win_length", (0, 6, True)),
        ("skip_chance", (1, float("nan"), "0.25")),
        ("gravity", (1,)),
    ],
)
def test_invalid_games_are_refused(name, values):
    for value in values:
        with pytest.raises((TypeError, ValueError), match=name):
            Game(**{"rows": 3, "columns": 5, name: value})


def test_a_size_is_an_edge_or_rows_and_columns():
    assert Game.of_size((5, 6), 4, 0.25) == Game.of_size([5, 6], 4, 0.25) == Game(5, 6, 4, 0.25)
    assert Game.of_size(np.int64(4)) == Game(4, 4, 4)
    lengths = {
        1: 1,
        2: 2,
        (1, 2): 2,
        (1, 3): 3,
        3: 3,
        4: 4,
        5: 4,
        6: 4,
        7: 5,
        19: 5,
        (3, 19): 3,
        (7, 6): 4,
    }
    assert {size: Game.of_size(size).win_length for size in lengths} == lengths
    for size in ((3,), (3, 3, 3), "3", 3.0, True, None, (3, 2.5)):
        with pytest.raises((TypeError, ValueError), match="is not a board"):
            Game.of_size(size)


@given(plain.games(skip=True) | plain.variants(6, skip=True))
def test_a_game_is_stored_and_read(game):
    data = json.loads(json.dumps(game.to_dict()))
    assert {"format", "rows", "columns", "win_length", "skip_chance", *game.variants} == set(data)
    assert (
        Game.from_dict(data)
        == game
        == Game.from_dict({key: data[key] for key in data if key != "format"})
    )
    for changed in ({"colums": 4}, {"format": 2}, {"rows": 3.0}):
        with pytest.raises(ValueError, match=next(iter(changed))):
            Game.from_dict({**data, **changed})


def test_a_phantom_game():
    game = PhantomGame(Game(3, 4, skip_chance=0.25, misere=True), "abrupt")
    assert (
        game_from_dict(game.to_dict()) == game != game_from_dict(game.game.to_dict()) == game.game
    )
    assert (game.slug, game.cells, game.variants) == (
        "3x4-3-misere-skip0.25-phantom-abrupt",
        12,
        {"misere": True},
    )
    assert str(Game(3, 3, 3, 0.5, misere=True, torus=True)) == "3 x 3, 3 to lose, torus, skip 0.5"
    assert Game(skip_chance=0.1234567).slug != Game(skip_chance=0.12345671).slug
    for call in (
        lambda: game_from_dict({**game.to_dict(), "phantom": []}),
        lambda: PhantomGame(Game(gravity=True), "classic"),
        lambda: game.parameters,
    ):
        with pytest.raises(ValueError, match=r"phantom|hidden"):
            call()


# --------------------------------------------------------------------------------------------------
# Lines, legal moves and ends, beside the reference


@given(any_game, st.data())
@example(Game(7, 9, 5), None)
@example(Game(3, 3, 3, torus=True), None)
def test_lines_legal_moves_and_completing_cells_of_any_board(game, data):
    """Of cells, of bits where they fit, and of the lists of lines."""
    cells = np.ones(game.cells, np.int8) if data is None else data.draw(plain.cells_of_any(game))
    before = cells.copy()
    out = np.empty(game.cells, np.int8)
    legal = reference.legal_cells(game, set(np.flatnonzero(cells).tolist()))
    assert np.flatnonzero(rules.legal(game, cells)).tolist() == legal
    in_bits = game.cells <= bits.MAX_CELLS_IN_BITS
    planes = [bits.to_bits(cells, np.int8(stone)) for stone in (1, 2)] if in_bits else []
    if in_bits:
        assert rules.legal_bits(*planes, game.parameters) == sum(1 << cell for cell in legal)
    for player in (0, 1):
        own = set(np.flatnonzero(cells == player + 1).tolist())
        has_line = reference.has_line(game, own)
        made = [
            line
            for line in game.lines
            if own.issuperset(line.cells) and own.isdisjoint(line.beyond)
        ]
        assert bool(made) == has_line
        if in_bits:
            assert planes[player] == sum(1 << cell for cell in own)
            assert game_lines.has_line(planes[player], game.parameters) == has_line
        if not has_line:
            rules.completing_cells(cells, player, game.parameters, out)
            assert set(np.flatnonzero(out)) == {
                cell for cell in legal if reference.has_line(game, own | {cell})
            }
    assert_array_equal(cells, before)


@given(st.integers(1, 2**63 - 1))
@example(2**63 - 1)
def test_bits_by_number(number):
    places = [place for place in range(63) if number >> place & 1]
    assert bits.count_bits(np.int64(number)) == len(places)
    assert [
        bits.nth_bit(np.int64(number), n, max(places) + 1) for n in range(len(places))
    ] == places
    assert 0 <= bits.nth_bit(np.int64(number), len(places), 63) <= 63


def play_random_game(game, rng):
    """(cells played, key, [(cells, mover) before each], last cells, outcome) by the kernels."""
    key = np.uint64(rng.integers(2**63))
    cells = np.zeros(game.cells, np.int8)
    mover = 0
    outcome = rules.NOT_OVER
    played = []
    positions = []
    while outcome == rules.NOT_OVER:
        positions.append((cells.copy(), mover))
        cell = rules.nth_legal_cell(cells, rng.random(), game.parameters)
        outcome, mover = rules.play(cells, mover, cell, len(played), key, game.parameters)
        played.append(cell)
    return played, key, positions, cells, outcome


@given(
    plain.variants(7, skip=True)
    | st.sampled_from(
        [*SHAPES, Game(8, 9, 5, 0.1), Game(9, 8, 4, torus=True), Game(9, 9, 3, overlines=False)]
    ),
    st.integers(0, 2**32),
)
@example(Game(9, 8, 4, gravity=True, torus=True, misere=True), 0)
@example(Game(9, 9, 3, overlines=False), 8)  # a stone joins too many, and the game goes on
@example(Game(19, 1, 17, 0.97), 1)  # 16 stones in a row are no line yet
def test_games_agree_with_the_reference_and_commute_with_symmetries(game, seed):
    played, key, positions, cells, outcome = play_random_game(game, np.random.default_rng(seed))
    draws = [uniform(key, rules.STREAM_SKIP, n) for n in range(game.cells)]
    for plies, (board, mover) in enumerate([*positions, (cells, None)]):
        expected, of_mover, winner, legal = plain.play_variant(game, played[:plies], draws)
        assert_array_equal(board, expected)
        assert rules.winner(game, board) == winner == (None if mover is not None else outcome)
        if mover is not None:
            assert mover == of_mover
            assert np.flatnonzero(rules.legal(game, board)).tolist() == legal
    for image in symmetries(game):
        of_image = np.zeros(game.cells, np.int8)
        places = np.argsort(image)
        for stones, cell in enumerate(played):
            assert_array_equal(of_image, positions[stones][0][image])
            result = rules.place(
                of_image, positions[stones][1], int(places[cell]), stones, game.parameters
            )
        assert result == outcome


# --------------------------------------------------------------------------------------------------
# Chance


def test_splitmix64_gives_its_published_numbers():
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    assert [splitmix64(np.uint64(1234567), n) for n in range(3)] == published
    assert [plain.splitmix64(1234567, n) for n in range(3)] == published


@given(st.integers(0, plain.WORD), st.integers(0, 6), st.integers(0, 2**32 - 1))
@example(plain.WORD, 3, 2**32 - 1)
def test_uniform_numbers_are_those_of_the_stream_and_the_ply(key, stream, n):
    assert uniform(np.uint64(key), stream, n) == plain.uniform(key, stream, n) < 1


@pytest.mark.parametrize(
    ("position", "actions"),
    [
        (from_text("ooo/xx./... x"), (5,)),  # it is over
        (from_text("o../.x./... o"), (4, 9, 1.0, True)),
        (from_text("o./.x o"), (1,)),  # another board
        (Position(np.zeros(9, np.int8), 2), (0,)),
        (Position(np.zeros(9, np.int64), 0), (0,)),
        (Position(np.full(9, 3, np.int8), 0), (0,)),
    ],
)
def test_outcomes_of_illegal_moves_and_invalid_positions_are_refused(position, actions):
    for action in actions:
        with pytest.raises((TypeError, ValueError)):
            chance_outcomes(T3, position, action)


def test_a_value_over_a_skip_weights_both_turns():
    assert rules.values_over_skip(8.0, 4.0, 0.25) == 5.0


def test_a_stone_in_the_air_is_no_position():
    game = Game(3, 3, 3, gravity=True)
    text = ".../.o./... x"
    for call in (
        lambda: check_opening(game, from_text(text), "the opening"),
        lambda: chance_outcomes(game, from_text(text), 8),
        lambda: from_text(text, game),
    ):
        with pytest.raises(ValueError, match="above an empty cell"):
            call()
    check_opening(game, from_text(".../.../.o. x", game), "the opening")
    with pytest.raises(ValueError, match=r"action 3 is illegal.*\(4, 6, 8\)"):
        chance_outcomes(game, from_text(".../.../.o. x"), 3)


# --------------------------------------------------------------------------------------------------
# Lines that are shown, and random moves


def test_the_line_that_decided_is_shown():
    overline = from_text("ooooo/xxxx./...../...../..... x").cells
    assert winning_line_cells(Game(5, 5, 4, overlines=False), overline, 1) == [5, 6, 7, 8]
    loser = from_text("oooo./...../...../...../..... x").cells
    assert winning_line_cells(Game(5, 5, 4, misere=True), loser, 1) == [0, 1, 2, 3]
    assert winning_line_cells(Game(3, 3, 3, torus=True), from_text("o../..o/.o. x").cells, 0) == [
        0,
        5,
        7,
    ]


def test_random_moves_fall_on_each_empty_cell_alike():
    cells = from_text("o.x/.o./x.. o").cells
    empty = np.flatnonzero(cells == 0)
    picked = [rules.nth_empty_cell(cells, u) for u in np.arange(500) / 500]
    assert_array_equal(np.bincount(picked, minlength=9)[empty], 100)
    assert rules.nth_empty_cell(cells, np.nextafter(1, 0)) == empty[-1]
    assert rules.nth_empty_cell(np.ones(9, np.int8), 0.5) == -1


# --------------------------------------------------------------------------------------------------
# The two plainest opponents


@given(plain.games(6, skip=True) | plain.variants(6, skip=True), st.integers(0, 999))
@example(Game(8, 9, 4, gravity=True, torus=True), 0)
@example(Game(8, 8, 3, misere=True, overlines=False), 0)
def test_random_and_win_or_block_play_as_they_say(game, seed):
    """In misère a line loses, and is avoided; the other player's are left to that player."""
    assume(game.cells > 1)
    boards = plain.positions_of_random_play(game, 20, seed)
    uniform_p, p = (
        make_policy(name, game).probabilities(boards) for name in ("random", "win-or-block")
    )
    for row, (cells, mover) in enumerate(zip(*boards, strict=True)):
        own, other = (
            set(np.flatnonzero(cells == stone).tolist()) for stone in (mover + 1, 2 - mover)
        )
        legal = reference.legal_cells(game, own | other)
        wins, blocks = (
            [c for c in legal if reference.has_line(game, stones | {c})] for stones in (own, other)
        )
        chosen = [c for c in legal if c not in wins] if game.misere else wins or blocks
        for shares, expected in ((uniform_p[row], legal), (p[row], chosen or legal)):
            assert np.flatnonzero(shares).tolist() == expected
            assert shares[expected] == pytest.approx(1 / len(expected), rel=1e-15)
