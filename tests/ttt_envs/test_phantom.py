"""The rules of phantom games, beside plain Python and OpenSpiel."""

import numpy as np
import phantoms
import pytest
from numpy.testing import assert_array_equal
from phantoms import JointViews, attempt_rows

from ttt_envs import Boards, Game, PhantomGame
from ttt_envs.core.random import uniform
from ttt_envs.game.attempts import FOUND
from ttt_envs.game.phantom import game_from_dict
from ttt_envs.game.rules import ILLEGAL, NOT_OVER, STREAM_SKIP


def play_many(game, count, seed, watch):
    """Play random games side by side; ``watch(rows, joint, cells, before, outcome)`` sees every step."""
    rng = np.random.default_rng(seed)
    boards = Boards.start(game, count)
    joint = JointViews(boards.cells, np.zeros_like(boards.cells), boards.mover)
    stones, episode_keys = np.zeros(count, np.int64), rng.integers(0, 2**63, count).astype(np.uint64)
    rows = np.arange(count)
    while len(rows):
        legal = joint.legal()
        cells = np.argmax(rng.random(legal.shape) * legal, axis=1)
        before, outcome = joint.mover.copy(), np.empty(len(rows), np.int8)
        plies = stones.copy()
        attempt_rows(*joint, stones, episode_keys, cells, game.kind == "abrupt", game.game.parameters, outcome)
        watch(rows, joint, cells, before, outcome, episode_keys, plies)
        on = (outcome == NOT_OVER) | (outcome == FOUND)
        rows, stones, episode_keys, joint = rows[on], stones[on], episode_keys[on], JointViews(*(a[on] for a in joint))


SHAPES = ((3, 3, 3, 0.0), (3, 3, 3, 0.25), (2, 4, 3, 0.5), (5, 4, 3, 0.1))
SLOW_GAMES, BLOCK = 250_000, 10_000
"""The number of games of 3 x 3 with and without skips, in each variant; they are played in blocks."""


@pytest.mark.parametrize(
    ("shape", "games"),
    [
        *((shape, 200) for shape in SHAPES),
        *(pytest.param(shape, SLOW_GAMES, marks=pytest.mark.slow) for shape in SHAPES[:2]),
    ],
    ids=str,
)
def test_games_are_those_of_plain_python(hidden, shape, games):
    game = PhantomGame(Game(*shape), hidden)
    for block in range(0, games, BLOCK):
        check_games(game, min(games, BLOCK), block)


def check_games(game, count, seed):
    """Compare every step of random games with the plain rules."""
    states = {}

    def watch(rows, joint, cells, before, outcome, episode_keys, plies):
        for i, row in enumerate(rows.tolist()):
            state = states.get(row, phantoms.start(game))
            assert state.mover == before[i]
            skipped = game.skip_chance > 0 and uniform(episode_keys[i], STREAM_SKIP, plies[i]) < game.skip_chance
            state, observation = phantoms.plain_attempt(game, state, int(cells[i]), skipped)
            states[row] = state
            assert (outcome[i] == FOUND) == (observation == "failed")
            assert tuple(joint.cells[i]) == state.cells
            if state.winner is None:
                assert joint.mover[i] == state.mover
                assert outcome[i] in (FOUND, NOT_OVER)
            else:
                assert outcome[i] == state.winner
        for player in (0, 1):
            assert_array_equal(joint.player_view(player), [states[row].view(player) for row in rows.tolist()])

    play_many(game, count, seed, watch)
    assert all(state.winner is not None for state in states.values())


@pytest.mark.parametrize("games", [300, pytest.param(500_000, marks=pytest.mark.slow)])
def test_games_are_those_of_openspiel(hidden, games):
    pyspiel = pytest.importorskip("pyspiel")
    theirs = pyspiel.load_game("phantom_ttt", {"gameversion": {"classic": "classical", "abrupt": "abrupt"}[hidden]})
    game = PhantomGame(kind=hidden)
    for block in range(0, games, 10_000):
        states = {}

        def watch(rows, joint, cells, before, outcome, episode_keys, plies, states=states):
            texts = [
                ["\n".join("".join(".xo"[stone] for stone in line) for line in view.reshape(3, 3)) for view in views]
                for views in (joint.player_view(0), joint.player_view(1))
            ]
            for i, row in enumerate(rows.tolist()):
                state = states.get(row) or states.setdefault(row, theirs.new_initial_state())
                assert state.current_player() == before[i]
                state.apply_action(int(cells[i]))
                assert state.observation_string(0) == texts[0][i]
                assert state.observation_string(1) == texts[1][i]
                if state.is_terminal():
                    assert state.returns() == [[1, -1], [-1, 1], [0, 0]][outcome[i]]
                else:
                    assert outcome[i] in (FOUND, NOT_OVER)
                    assert state.current_player() == joint.mover[i]
                    mask = joint.legal()[i] if games < 10_000 else texts[joint.mover[i]][i].replace("\n", "")
                    legal = [cell for cell in range(9) if mask[cell] in (True, ".")]
                    assert state.legal_actions() == legal

        play_many(game, min(games, 10_000), block, watch)


def test_known_cells_are_illegal_and_nothing_changes():
    game = PhantomGame(kind="classic")
    cells, found = np.array([[[1, 2, 2] + 6 * [0]], [[0, 1] + 7 * [0]]], np.int8)
    joint = JointViews(cells, found, np.zeros(1, np.int8))
    for cell in (-1, 0, 1, 9):
        outcome, stones = np.zeros(1, np.int8), np.full(1, 3)
        before = [array.copy() for array in joint]
        attempt_rows(*joint, stones, np.zeros(1, np.uint64), np.array([cell]), False, game.game.parameters, outcome)
        assert outcome[0] == ILLEGAL
        assert all(map(np.array_equal, before, joint))


def test_the_game():
    game = PhantomGame(Game(3, 4, skip_chance=0.25, misere=True), "abrupt")
    assert game_from_dict(game.to_dict()) == game != game_from_dict(game.game.to_dict()) == game.game
    assert game.slug == "3x4-3-misere-skip0.25-phantom-abrupt"
    assert str(game) == "3 x 4, 3 to lose, skip 0.25, phantom (abrupt)"
    assert (game.rows, game.columns, game.cells, game.win_length, game.gravity) == (3, 4, 12, 3, False)
    assert (game.skip_chance, game.variants) == (0.25, {"misere": True})
    for kind in ("dark", []):
        with pytest.raises(ValueError, match=r"phantom=.* is not known: choose 'classic', 'abrupt'"):
            game_from_dict({**game.to_dict(), "phantom": kind})
    with pytest.raises(ValueError, match="gravity shows where hidden stones are"):
        PhantomGame(Game(gravity=True), "classic")
    with pytest.raises(ValueError, match="hidden, and what was called needs to see them"):
        _ = game.parameters
