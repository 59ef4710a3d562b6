"""OpenSpiel: its algorithms and its players, asked through the adapter; tests/ttt_envs compares games."""

import numpy as np
import pytest

pytest.importorskip("pyspiel")

from ttt_envs import Game, act, make_policy
from ttt_envs.open_spiel import load_game, to_boards


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
