"""Openings: probabilities of random ones, listed ones by counting, and invalid files."""

from collections import Counter

import numpy as np
import plain
import pytest
from exactly import chances, start_of, states_of
from small_games import SKIP_GAME

from ttt_envs import Game, to_text
from ttt_envs.game.openings import RandomPlies, draw_openings, random_openings
from ttt_eval.matches.openings import Openings


def probabilities(game, plies):
    """Return {state: probability} after random plies that end no game, with skips."""
    now = {start_of(game): 1.0}
    for _ in range(plies):
        following = Counter()
        for state, mass in now.items():
            moves = [
                states for winner, states in plain.moves_of(game)[state].values() if winner is None
            ]
            for states in moves:
                for next_state, chance in chances(game, states):
                    following[next_state] += mass * chance / len(moves)
        now = following
    return now


@pytest.mark.parametrize(
    ("game", "plies"), [(SKIP_GAME, 2), (SKIP_GAME, 4), (Game(), 3), (Game(2, 3, 3, 0.5), 3)]
)
def test_random_openings_have_their_exact_probabilities(game, plies):
    drawn = draw_openings(
        game, plies, np.random.default_rng(3).integers(0, 1 << 64, 40_000, np.uint64)
    )
    exact = probabilities(game, plies)
    counts = Counter(states_of(drawn))
    assert set(counts) <= set(exact)
    square = sum(
        (counts[state] - 40_000 * chance) ** 2 / (40_000 * chance)
        for state, chance in exact.items()
    )
    free = len(exact) - 1
    assert abs(square - free) < 4 * (2 * free) ** 0.5


def test_openings_without_a_continuation_are_redrawn():
    """Random play on 3 x 3 often ends before 8 stones."""
    drawn = draw_openings(SKIP_GAME, 8, np.arange(500, dtype=np.uint64))
    assert set(states_of(drawn)) <= plain.moves_of(SKIP_GAME).keys()
    assert (np.count_nonzero(drawn.cells, axis=1) == 8).all()
    with pytest.raises(ValueError, match="choose openings of fewer"):
        draw_openings(Game(win_length=1), 1, np.zeros(1, np.uint64))


@pytest.mark.parametrize("game", [SKIP_GAME, Game(), Game(3, 4, 3, gravity=True)], ids=str)
def test_openings_of_trainings_have_their_plies_and_their_share(game):
    some, half = (random_openings(text, game) for text in ("random:1-3", "random:2-2:0.5"))
    counts = np.bincount(np.count_nonzero(some.cells, axis=1)) / len(some.mover)
    np.testing.assert_allclose(counts, [0, 1 / 3, 1 / 3, 1 / 3], atol=1e-3)
    counts = np.bincount(np.count_nonzero(half.cells, axis=1)) / len(half.mover)
    np.testing.assert_allclose(counts, [0.5, 0, 0.5], atol=1e-3)
    states = {start_of(game), *probabilities(game, 2)}
    assert set(states_of(half)) <= states
    assert len(set(states_of(half))) > 0.9 * len(states)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "random",
        "random:0",
        "random:9",
        "random:0-3",
        "random:3-1",
        "random:1-9",
        "random:1-3:0",
        "random:1-3:1.5",
        "all:1-3",
    ],
)
def test_unknown_random_openings_are_refused(text):
    with pytest.raises(ValueError, match=r"random:1-3:0\.5"):
        random_openings(text, Game())


def test_one_number_of_plies_is_a_range_of_one():
    assert RandomPlies.from_text("random:2", SKIP_GAME) == RandomPlies.from_text(
        "random:2-2:1", SKIP_GAME
    )


def test_openings_of_matches_depend_on_their_keys_alone():
    """The plies of 40,000 pairs have their probabilities, and blocks of pairs do not matter."""
    keys = np.random.default_rng(4).integers(0, 1 << 64, 40_000, np.uint64)
    openings = Openings.from_text("random:1-3:0.25", SKIP_GAME)
    boards = openings.for_pairs(range(40_000), SKIP_GAME, keys)
    counts = np.bincount(np.count_nonzero(boards.cells, axis=1)) / 40_000
    np.testing.assert_allclose(counts, [0.75, 1 / 12, 1 / 12, 1 / 12], atol=0.01)
    block = openings.for_pairs(range(100, 140), SKIP_GAME, keys[100:140])
    np.testing.assert_array_equal(block.cells, boards.cells[100:140])
    np.testing.assert_array_equal(block.mover, boards.mover[100:140])


@pytest.mark.parametrize(
    ("game", "plies"), [(SKIP_GAME, 1), (SKIP_GAME, 4), (SKIP_GAME, 8), (Game(2, 4, 3), 4)]
)
def test_all_openings_are_all_unfinished_positions(game, plies):
    result = states_of(Openings.from_text(f"all:{plies}", game).boards)
    assert len(result) == len(set(result))
    assert set(result) == set(probabilities(Game(game.rows, game.columns, game.win_length), plies))


def test_files_give_their_distinct_positions(tmp_path):
    path = tmp_path / "positions"
    path.write_text("# two\n\n x.o/.../..o x \r\n.../.o./... x\nx.o/.../..o x\n")
    boards = Openings.from_text(str(path), SKIP_GAME).boards
    texts = [to_text(boards.position(row), SKIP_GAME) for row in range(len(boards.mover))]
    assert texts == ["x.o/.../..o x", ".../.o./... x"]


@pytest.mark.parametrize(
    "text", ["x.o/.../..o x\nx.o/.../..", "\nooo/xx./... x", "\n" + "." * 1000]
)
def test_invalid_files_are_rejected_by_file_and_line(text, tmp_path):
    (tmp_path / "some").write_text(text)
    with pytest.raises(ValueError, match="some, line 2: "):
        Openings.from_text(str(tmp_path / "some"), Game())


@pytest.mark.parametrize(
    ("text", "game"),
    [
        ("random:x", SKIP_GAME),
        ("all:9", SKIP_GAME),
        ("/dev/zero", SKIP_GAME),
        ("all:4", Game(19, 19, 5)),
    ],
)
def test_invalid_openings_are_rejected(text, game):
    with pytest.raises(ValueError, match=text):
        Openings.from_text(text, game)
