"""Positions as states of OpenSpiel and back."""

import numpy as np
import plain
import pytest
from small_games import SKIP_GAME

from ttt_envs import Game, PhantomGame, to_text
from ttt_envs.game.actions import legal_actions
from ttt_envs.game.rules import winner
from ttt_envs.open_spiel import load_game, to_boards, to_game, to_states

pytestmark = pytest.mark.needs("pyspiel")

SWAPPED = str.maketrans("xo", "ox")
GAMES = [
    Game(3, 3, 3),
    Game(2, 4, 3),
    Game(1, 5, 2),
    Game(5, 6, 4),
    Game(6, 7, 4, gravity=True),
    Game(3, 4, 3, gravity=True),
]


def states_of_random_play(game, games, seed=0):
    """All states of some games, the first and the last included."""
    rng = np.random.default_rng(seed)
    states = []
    for _ in range(games):
        state = load_game(game).new_initial_state()
        states.append(state.clone())
        while not state.is_terminal():
            state.apply_action(int(rng.choice(state.legal_actions())))
            states.append(state.clone())
    return states


def test_what_openspiel_does_not_have_is_refused():
    import pyspiel

    falling = Game(2, 2, 2, gravity=True)
    states = [load_game(game).new_initial_state() for game in GAMES[:2]]
    for call in (
        *(
            lambda game=game: load_game(game)
            for game in (Game(overlines=False), Game(misere=True), PhantomGame())
        ),
        lambda: load_game(SKIP_GAME),
        lambda: to_game(pyspiel.load_game("chess")),
        lambda: to_states(
            plain.from_texts("o./x. o", game=falling), falling
        ),  # it has not fallen by turns
        lambda: to_boards(states),  # of two games
    ):
        with pytest.raises(ValueError, match=r"OpenSpiel|fallen|games"):
            call()


def test_player_0_is_x_in_openspiel():
    state = load_game(Game()).new_initial_state()
    for action in (0, 4, 8):
        state.apply_action(action)
    assert str(state) == "x..\n.o.\n..x"
    assert to_text(to_boards([state]).position(0)) == "o../.x./..o x"


@pytest.mark.parametrize("game", GAMES, ids=str)
def test_positions_are_converted_both_ways(game):
    assert to_game(load_game(game)) == game
    states = states_of_random_play(game, 20)
    boards = to_boards(states)
    for index, (state, back) in enumerate(zip(states, to_states(boards, game), strict=True)):
        assert str(back) == str(state)
        assert to_text(boards.position(index), game).split()[0] == str(state).strip().replace(
            "\n", "/"
        ).translate(SWAPPED)
        assert (back.is_terminal(), back.returns()) == (state.is_terminal(), state.returns())
        won = winner(game, boards.cells[index])
        assert state.returns() == {None: [0, 0], 0: [1, -1], 1: [-1, 1], 2: [0, 0]}[won]
        assert state.is_terminal() == (won is not None)
        if won is None:
            assert (
                np.flatnonzero(legal_actions(game, boards.cells[index])).tolist()
                == state.legal_actions()
            )


@pytest.mark.parametrize(
    "text", ["oo./.../... x", "x../.../... o", "o../.../... o", "ooo/xxx/... o", "ooo/xx./x.. o"]
)
def test_positions_that_no_turns_reach_are_refused(text):
    """By the numbers of stones, the mover, or an earlier end."""
    with pytest.raises(ValueError, match=text):
        to_states(plain.from_texts(text), Game())


def test_two_lines_with_one_stone_are_one_end():
    """Only the stone that both lines share can have been the last."""
    [state] = to_states(plain.from_texts("ooo/oxx/oxx o"), Game())
    assert state.is_terminal()
    assert state.history()[-1] == 0
