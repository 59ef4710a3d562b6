"""Proved winners without skips, against plain solving, against the literature, and every shortcut
on its own.
"""

import numpy as np
import plain
import pytest
from numba import njit
from small_games import SKIP_GAME

from baselines.proof_number import prove
from baselines.proof_number import search as proving
from baselines.proof_number.search import ProofSearch
from baselines.proof_number.threats import NO, UNKNOWN, YES, find_threats, holds, make_board
from ttt_envs import Game
from ttt_envs.core.jit import int64
from ttt_envs.game.rules import DRAW


def solver(game):
    """A function that plays a position out: the value to the mover of (own stones, other stones),
    as sets of cells.
    """
    lines = np.array(
        [
            sum(1 << cell for cell in line)
            for line in {frozenset(line) for line in plain.all_lines(game)}
        ]
    )
    table = np.full(4**game.cells if game.cells <= 12 else 0, 2, np.int8)
    return lambda own, other: int(played_out(own, other, lines, game.cells, table))


@njit(cache=True)
def played_out(own, other, lines, cells, table):
    """Every move tried; ``table`` remembers values on small boards, 2 where there is none yet."""
    place = own << cells | other
    if len(table) > 0 and table[place] != 2:
        return int64(table[place])
    best = -2
    for cell in range(cells):
        if not (own | other) >> cell & 1:
            stones = own | 1 << cell
            for line in lines:
                if stones & line == line:
                    best = 1
            if best < 1:
                best = max(best, -played_out(other, stones, lines, cells, table))
            if best == 1:
                break
    best = 0 if best == -2 else best  # a full board
    if len(table) > 0:
        table[place] = best
    return best


def random_positions(game, count, empty, seed=0):
    """(own stones, other stones) without a line, as sets of cells, with at most ``empty`` empty
    cells of any kind.
    """
    rng = np.random.default_rng(seed)
    lines = [sum(1 << cell for cell in set(line)) for line in plain.all_lines(game)]
    positions = []
    while len(positions) < count:
        order = [
            int(cell)
            for cell in rng.permutation(game.cells)[
                min(empty, game.cells - 1) - int(rng.integers(4)) :
            ]
        ]
        half = len(order) // 2 + int(rng.integers(-1, 2))
        own = sum(1 << cell for cell in order[:half])
        other = sum(1 << cell for cell in order[half:])
        if not any(stones & line == line for line in lines for stones in (own, other)):
            positions.append((own, other))
    return positions


def cells_of(stones):
    return [cell for cell in range(stones.bit_length()) if stones >> cell & 1]


MIDDLE = [
    Game(4, 4, 4),
    Game(4, 4, 3),
    Game(3, 5, 3),
    Game(5, 3, 4),
    Game(5, 5, 4),
    Game(4, 6, 4),
    Game(5, 5, 5),
]
"""boards of which random positions with few empty cells are played out"""

# --------------------------------------------------------------------------------------------------
# The whole


def test_small_boards_end_as_playing_them_out_says():
    sizes = [
        (rows, columns) for rows in range(1, 13) for columns in range(1, 13) if rows * columns <= 10
    ]
    for game in [
        Game(*size, win_length) for size in sizes for win_length in range(1, max(size) + 1)
    ]:
        value = solver(game)
        result = prove(game)
        assert result.winner == (0 if value(0, 0) == 1 else DRAW), game
        assert (result.move is None) == (result.winner == DRAW)
        if result.move is not None:
            stones = 1 << result.move
            lines = [set(line) for line in plain.all_lines(game)]
            assert {result.move} in lines or value(0, stones) == -1, game


def test_positions_have_the_winner_of_exhaustive_search():
    for game in MIDDLE:
        value = solver(game)
        results = set()
        for first, second in random_positions(game, 150, empty=7, seed=3):
            result = ProofSearch(game, 1 << 24).decide(
                (cells_of(first), cells_of(second)), 0, None
            )[0]
            assert result == (YES if value(first, second) == 1 else NO), (game, first, second)
            results.add(result)
        assert len(results) == 2 or game == Game(5, 5, 5)


def games_of(text):
    """The games of a line of the literature: ``"5,6,4"``, or a family of boards."""
    if text == "m,n,3 for m>=3, n>=4":
        return [Game(rows, columns, 3) for rows in range(3, 9) for columns in range(4, 9)]
    return [Game(*map(int, text.split(",")))]


def test_solved_games_have_their_known_winner(known_values):
    literature = known_values["mnk_no_skip_literature"]
    for texts, winner in ((literature["draw"], DRAW), (literature["player_0_wins"], 0)):
        for text in texts:
            for game in games_of(text):
                assert prove(game).winner == winner, game


@pytest.mark.slow
def test_a_board_of_49_cells_is_a_draw():
    """Hsu et al., "On solving the 7,7,5-game and the 8,8,5-game", Theoretical Computer Science 815
    (2020).
    """
    assert prove(Game(7, 7, 5)).winner == DRAW


@pytest.mark.parametrize(
    "size",
    [(1, 1, 1), (1, 19, 1), (1, 19, 3), (19, 1, 19), (2, 2, 2), (8, 8, 1), (8, 8, 8)],
    ids=str,
)
def test_extreme_boards_have_the_obvious_winner(size):
    assert prove(Game(*size)).winner == (0 if size[2] == 1 or size == (2, 2, 2) else DRAW)


@pytest.mark.parametrize("memory", [0, 96, 5000, 1 << 20])
def test_the_size_of_the_table_does_not_change_the_winner(memory):
    for game, winner in (
        (Game(4, 5, 4), DRAW),
        (Game(5, 6, 4), 0),
        (Game(6, 6, 5), DRAW),
        (Game(6, 6, 4), 0),
    ):
        assert prove(game, memory=memory).winner == winner


# --------------------------------------------------------------------------------------------------
# Every shortcut on its own


def test_threats_and_candidate_moves_keep_the_value():
    counts = {YES: 0, NO: 0, UNKNOWN: 0}
    narrowed = 0
    for game in MIDDLE:
        value = solver(game)
        board = make_board(game)
        lines = [sum(1 << cell for cell in line) for line in plain.all_lines(game)]
        for own, other in random_positions(game, 300, empty=7):
            verdict, cells = find_threats(own, other, board)
            counts[verdict] += 1
            moves = cells_of(int(cells))
            assert not int(cells) & (own | other)
            live = any(not line & own or not line & other for line in lines)
            assert bool(moves) == (live if verdict == UNKNOWN else verdict == YES)
            if verdict == NO:
                assert value(own, other) == -1, (game, own, other)
                continue
            outcomes = [outcome_of(game, value, own, other, cell) for cell in moves]
            if verdict == YES:
                assert set(outcomes) == {1}, (game, own, other)
            else:
                assert max(outcomes, default=0) == value(own, other), (game, own, other)
                narrowed += len(moves) < game.cells - (own | other).bit_count()
    assert min(counts.values()) > 50
    assert narrowed > 500


def outcome_of(game, value, own, other, cell):
    """The value of a stone on ``cell``, for the mover."""
    stones = own | 1 << cell
    return (
        1
        if any(all(stones >> i & 1 for i in line) for line in plain.all_lines(game))
        else -value(other, stones)
    )


def test_player_0_does_not_win_where_player_1_holds():
    held = 0
    for game in MIDDLE:
        value = solver(game)
        board = make_board(game)
        for first, second in random_positions(game, 300, empty=7, seed=1):
            for mover in (0, 1):
                if holds(first, second, mover, board):
                    held += 1
                    outcome = value(first, second) if mover == 0 else -value(second, first)
                    assert outcome < 1, (game, first, second, mover)
    assert held > 500


# --------------------------------------------------------------------------------------------------
# The interface


def test_a_search_stops_after_the_given_number_of_positions():
    calls = []
    result = prove(Game(4, 7, 4), nodes=3000, progress=calls.append)
    assert (result.winner, result.nodes, result.move) == (None, 3000, None)
    assert calls[-1] == 3000


@pytest.mark.parametrize("memory", [0, 1 << 24])
def test_interruptions_do_not_change_the_winner(memory, monkeypatch):
    monkeypatch.setattr(proving, "SLICE", 300)
    calls = []
    result = prove(Game(5, 6, 4), memory=memory, progress=calls.append)
    assert result.winner == 0
    assert len(calls) > 2
    assert calls[-1] == result.nodes


@pytest.mark.parametrize(
    ("game", "options", "message"),
    [
        (SKIP_GAME, {}, "skip_chance=0.25 allows no proof"),
        (Game(5, 13, 5), {}, "a board of 5 x 13 has 65 cells"),
        (Game(), {"nodes": 0}, "nodes=0 visits no position"),
        (Game(), {"memory": -1}, "memory=-1 is no size of a table"),
    ],
)
def test_invalid_arguments_are_rejected(game, options, message):
    with pytest.raises(ValueError, match=message):
        prove(game, **options)
