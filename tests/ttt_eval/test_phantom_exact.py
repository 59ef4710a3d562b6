"""Exact results in phantom games: known numbers, and all histories in plain Python.

test_gradients.py has their gradients.
"""

import dataclasses

import numpy as np
import phantoms
import pytest
from exactly import assert_near
from numpy.testing import assert_allclose

from ttt_envs import Game, PhantomGame, Policy
from ttt_envs.graph.game_graph import GameGraph
from ttt_eval.exact import best_response, evaluate_policy, exploitability, exploitation, outcome

UNIFORM = {"classic": (0.953125, 0.624339, 0.788732), "abrupt": (0.847140, 0.391529, 0.619334)}
"""best responses to uniform play, moving first and second, and its exploitability"""
JOINT_VIEWS = {"classic": 284_627, "abrupt": 312_781}
CASES = [
    PhantomGame(Game(*size, skip), hidden)
    for hidden in phantoms.VARIANTS
    for skip in (0.0, 0.3)
    for size in ((2, 2, 2), (1, 4, 3))
]


@pytest.mark.parametrize("misere", [False, True])
@pytest.mark.parametrize("game", CASES, ids=str)
def test_results_are_those_of_all_histories(game, misere):
    """Wins of a best response are those of some best response: two of the same value may win more
    and less often.
    """
    game = PhantomGame(dataclasses.replace(game.game, misere=misere), game.kind)
    state = phantoms.start(game)
    policies = (phantoms.ViewPolicy(game, 0), phantoms.ViewPolicy(game, 1))
    expected = phantoms.play_out(game, state, policies)
    assert_near(outcome(game, *policies), expected)
    value = evaluate_policy(game, *policies, seat=0).seats[0].value
    assert value == pytest.approx(expected[0] - expected[2], abs=1e-12)
    for responder in (0, 1):
        result = best_response(game, policies[1], responder)
        value, least, greatest = phantoms.best_response(game, state, responder, policies[1])
        assert abs(result.value - value) < 1e-12
        assert least - 1e-12 <= result.win <= greatest + 1e-12
        assert min(result) >= 0


def test_known_values_of_uniform_play(hidden):
    game = PhantomGame(kind=hidden)
    assert len(GameGraph(game).info_set) == JOINT_VIEWS[hidden]
    result = exploitation(game, "random")
    numbers = (result.first.value, result.second.value, result.exploitability)
    assert_allclose(numbers, UNIFORM[hidden], rtol=0, atol=1e-6)
    if hidden == "classic":
        assert abs(outcome(game, "random", "random").value - 0.2968253968) < 1e-10


def test_policies_that_break_the_rules_are_refused():
    game = PhantomGame(kind="classic")
    with pytest.raises(
        ValueError, match=r"optimal does not support hidden stones.*reads the whole board"
    ):
        exploitability(game, "optimal")

    @dataclasses.dataclass
    class Wrong(Policy):
        answer: float

        def probabilities(self, boards, rng=None):
            return np.full(boards.cells.shape, self.answer)

    for answer in (1 / 9, np.nan, -1.0):
        with pytest.raises(ValueError, match="gave no distribution"):
            exploitability(game, Wrong(answer))
    with pytest.raises(MemoryError, match="too many for exact results"):
        exploitability(PhantomGame(Game(4, 4, 4), "abrupt"), "random")
