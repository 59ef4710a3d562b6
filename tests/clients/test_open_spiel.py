"""OpenSpiel: its games, its algorithms and its players, asked through the adapter."""

import numpy as np
import pytest

pyspiel = pytest.importorskip("pyspiel")

from ttt_envs import Game, act, make_policy
from ttt_envs.mnk_v0 import raw_env
from ttt_envs.open_spiel import load_game, to_boards, to_states

GAMES = (Game(3, 3, 3), Game(3, 4, 3), Game(6, 7, 4), Game(15, 15, 5))


@pytest.mark.parametrize("game", GAMES, ids=str)
def test_games_side_by_side(game):
    """20 random games of {game} beside `mnk_v0`: movers, masks, results, and every state there and back"""
    rng = np.random.default_rng(0)
    other = load_game(game)
    ours = raw_env((game.rows, game.columns), game.win_length)
    for _ in range(20):
        state = other.new_initial_state()
        ours.reset(seed=0)
        while not state.is_terminal():
            assert ours.agent_selection == ours.possible_agents[state.current_player()]
            mask = ours.observe(ours.agent_selection)["action_mask"]
            assert state.legal_actions_mask() == mask.tolist()
            action = int(rng.choice(np.flatnonzero(mask)))
            state.apply_action(action)
            ours.step(action)
            boards = to_boards([state])
            [again] = to_states(boards, game)
            assert str(again) == str(state)
            assert again.returns() == state.returns()
        assert list(ours.rewards.values()) == state.returns()
        assert all(ours.terminations.values())


def test_all_positions():
    """`get_all_states` of `tic_tac_toe`: all 5,478 positions go to `Boards` and back, text and results the same"""
    from open_spiel.python.algorithms.get_all_states import get_all_states

    game = Game()
    states = get_all_states(load_game(game), depth_limit=-1, include_terminals=True, to_string=str)
    assert len(states) == 5478
    boards = to_boards(states.values())
    for state, again in zip(states.values(), to_states(boards, game), strict=True):
        assert str(again) == str(state)
        assert again.current_player() == state.current_player()
        assert again.returns() == state.returns()


def test_its_best_response():
    """`exploitability` of `random`, computed by theirs from the adapter's boards, is that of `ttt_eval.exact`"""
    from open_spiel.python import policy as policies
    from open_spiel.python.algorithms import exploitability as theirs

    from ttt_eval.exact.dynamic_programming import exploitability

    game = Game()
    table = policies.TabularPolicy(load_game(game))
    policy = make_policy("random", game)
    table.action_probability_array[:] = policy.probabilities(to_boards(table.states))
    assert exploitability(game, policy) == pytest.approx(theirs.exploitability(load_game(game), table), abs=1e-9)


def test_its_mcts():
    """its `MCTSBot` against our `optimal`, 40 games in both seats: it never wins"""
    from open_spiel.python.algorithms import mcts

    game = Game()
    other, optimal, rng = load_game(game), make_policy("optimal", game), np.random.default_rng(0)
    random = np.random.RandomState(0)  # as theirs asks for
    bot = mcts.MCTSBot(other, 2.0, 50, mcts.RandomRolloutEvaluator(1, random), random_state=random)
    moves, results = 0, []
    for number in range(40):
        seat, state = number % 2, other.new_initial_state()
        while not state.is_terminal():
            mine = state.current_player() == seat
            state.apply_action(int(act(optimal, to_boards([state]), rng)[0]) if mine else bot.step(state))
            moves += 1
        results.append(state.returns()[seat])
    assert min(results) >= 0
    assert moves > 200
