"""OpenSpiel: an algorithm of its own, asked through the adapter; tests/ttt_envs compares games."""

import pytest

pytest.importorskip("pyspiel")

from ttt_envs import Game, make_policy
from ttt_envs.open_spiel import load_game, to_boards
from ttt_eval.checks import check_search


def test_its_best_response():
    """`exploitability` of `random`, computed by OpenSpiel's from the adapter's boards, is that of
    `ttt_eval.exact`
    """
    from open_spiel.python import policy as policies
    from open_spiel.python.algorithms import exploitability as open_spiel

    from ttt_eval.exact.dynamic_programming import exploitability

    game = Game()
    table = policies.TabularPolicy(load_game(game))
    policy = make_policy("random", game)
    table.action_probability_array[:] = policy.probabilities(to_boards(table.states))
    assert exploitability(game, policy) == pytest.approx(
        open_spiel.exploitability(load_game(game), table), abs=1e-9
    )


@pytest.mark.parametrize(
    ("name", "evaluator", "games"),
    [
        ("search", "owned", ("plain", "turns", "skip")),
        ("search", None, ("plain", "turns", "skip")),
        ("compiled_search", None, ("plain",)),
    ],
)
def test_its_searches_are_right(name, evaluator, games, adapter):
    """`MCTSBot` in Python with an evaluator and with rollouts, and in C++, is right"""
    for game in games:
        check_search(getattr(adapter("open_spiel_search"), name), game, evaluator).assert_ok()
