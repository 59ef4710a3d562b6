"""Information sets of phantom games: their views, and their strings in OpenSpiel."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from ttt_envs import Game
from ttt_envs.game.information_sets import FAILED, SUCCEEDED, InformationSets
from ttt_envs.open_spiel import InformationStringPolicy, from_information_strings, to_information_strings

VERSIONS = {"classic": "classical", "abrupt": "abrupt"}
SETS = InformationSets(
    np.array([[4, 0, *[-1] * 7], [3, 1, 2, *[-1] * 6]], np.int8),
    np.array([[SUCCEEDED, FAILED, *[-1] * 7], [FAILED, FAILED, SUCCEEDED, *[-1] * 6]], np.int8),
    np.array([0, 1], np.int8),
)
STRINGS = ["o..\n.x.\n...\n0,4 0,0 ", ".xo\nx..\n...\n1,3 1,1 1,2 "]


def test_views():
    views = SETS.views()
    assert views.cells.tolist() == [[2, 0, 0, 0, 1, 0, 0, 0, 0], [0, 1, 2, 1, 0, 0, 0, 0, 0]]
    assert views.mover.tolist() == [0, 1]
    assert SETS.take(np.array([1])).views().cells.tolist() == views.cells[1:].tolist()


@pytest.mark.parametrize("hidden", VERSIONS)
def test_strings(hidden):
    game = Game(hidden=hidden)
    assert to_information_strings(SETS, game) == STRINGS
    for row, string in enumerate(STRINGS):
        again = from_information_strings([string], game, row)
        for ours, array in zip(SETS.take(np.array([row])), again, strict=True):
            assert_array_equal(ours, array)


@pytest.mark.parametrize(
    "string",
    [
        "",
        "...",
        STRINGS[1],
        STRINGS[0][:-1],
        STRINGS[0] + "0,0 ",
        STRINGS[0].replace("0,0", "0,9"),
        "xx" + STRINGS[0][2:],
    ],
)
def test_other_strings_are_refused(string):
    with pytest.raises(ValueError, match="is no information state of player 0"):
        from_information_strings([string], Game(hidden="classic"), 0)


@pytest.mark.parametrize(
    ("game", "problem"),
    [
        (Game(), "is no phantom game"),
        (Game(3, 3, 3, 0.1, hidden="classic"), "unknown to OpenSpiel"),
        (Game(3, 3, 3, misere=True, hidden="classic"), "unknown to OpenSpiel"),
        (Game(3, 4, 3, hidden="abrupt"), "unknown to OpenSpiel"),
    ],
    ids=str,
)
def test_other_games_are_refused(game, problem):
    with pytest.raises(ValueError, match=problem):
        to_information_strings(SETS, game)


@pytest.mark.parametrize("hidden", VERSIONS)
def test_strings_are_those_of_openspiel(hidden):
    """In 300 random games, for the player to move."""
    pyspiel = pytest.importorskip("pyspiel")
    theirs, game = pyspiel.load_game("phantom_ttt", {"gameversion": VERSIONS[hidden]}), Game(hidden=hidden)
    rng = np.random.default_rng(0)
    for _ in range(300):
        state, memory = theirs.new_initial_state(), ([], [])
        while not state.is_terminal():
            player = state.current_player()
            sets = InformationSets(*(np.full((1, 9), -1, np.int8) for _ in range(2)), np.array([player], np.int8))
            for at, event in enumerate(memory[player]):
                sets.attempts[0, at], sets.observations[0, at] = event
            string = state.information_state_string()
            assert to_information_strings(sets, game) == [string]
            for ours, again in zip(sets, from_information_strings([string], game, player), strict=True):
                assert_array_equal(ours, again)
            legal = state.legal_actions()
            assert legal == np.flatnonzero(sets.views().cells[0] == 0).tolist()
            action = int(rng.choice(legal))
            before = str(state).replace("\n", "").replace("-", ".")
            state.apply_action(action)
            memory[player].append((action, SUCCEEDED if before[action] == "." else FAILED))


def test_a_policy_of_strings():
    asked = []

    def uniform(string):
        asked.append(string)
        legal = [letter == "." for letter in string.rpartition("\n")[0].replace("\n", "")]
        return [one / sum(legal) for one in legal]

    found = InformationStringPolicy(Game(hidden="abrupt"), uniform).recall_probabilities(SETS)
    assert asked == STRINGS
    assert found[0].tolist() == [0, *[1 / 7] * 3, 0, *[1 / 7] * 4]
