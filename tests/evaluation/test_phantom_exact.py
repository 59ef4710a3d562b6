"""Exact results in phantom games: known numbers, all histories in plain Python, and gradients by differences."""

import dataclasses

import numpy as np
import phantoms
import pytest
from numpy.testing import assert_allclose

from baselines.joint_view_graph import JointViewGraph, joint_view_graph
from evaluation.exact import phantom
from evaluation.exact.phantom_best_response import best_response
from ttt_envs import Game, make_policy
from ttt_envs.game.boards import Boards, from_text
from ttt_envs.game.phantom import JointViews

UNIFORM = {"classic": (0.953125, 0.624339, 0.788732), "abrupt": (0.847140, 0.391529, 0.619334)}
"""best responses to uniform play, moving first and second, and its exploitability"""
JOINT_VIEWS = {"classic": 284_627, "abrupt": 312_781}
INFORMATION_SETS = {"classic": (3_683_314, 2_307_355), "abrupt": (14_482_810, 8_827_459)}


def late_start(game):
    """A joint view of 3 x 3 after six stones, of which two have been found."""
    boards = Boards.from_positions([from_text("ox./xoo/..x o")])
    found = np.zeros((1, 9), np.int8)
    found[0, [0, 8]] = 1
    return JointViews.from_boards(boards, found)


CASES = [(Game(2, 2, 2, skip, hidden=hidden), None) for hidden in phantoms.VARIANTS for skip in (0.0, 0.3)]
CASES += [(Game(3, 3, 3, skip, hidden=hidden), late_start) for hidden in phantoms.VARIANTS for skip in (0.0, 0.3)]
LONG_CASES = [(Game(2, 3, 2, 0.0, hidden=hidden), None) for hidden in phantoms.VARIANTS]


def label(value):
    """The same name in every process: workers compare the names of the tests that they collect."""
    return getattr(value, "__name__", None) or str(value)


def graph_of(game, make_start):
    return JointViewGraph(game, None if make_start is None else make_start(game))


@pytest.mark.parametrize(
    ("game", "make_start"), [*CASES, *(pytest.param(*case, marks=pytest.mark.slow) for case in LONG_CASES)], ids=label
)
def test_results_are_those_of_all_histories(game, make_start):
    graph = graph_of(game, make_start)
    state = phantoms.start(game) if make_start is None else phantoms.state_of(graph.joint_views)
    policies = phantoms.ViewPolicy(game, 0), phantoms.ViewPolicy(game, 1)
    tables = [policy.probabilities(graph.views.boards) for policy in policies]
    joint = np.where(graph.views.boards.mover[:, None] == 0, *tables)
    results = graph.results(joint, graph.occupancy(joint))
    expected = phantoms.play_out(game, state, policies)
    assert_allclose(results, expected, rtol=0, atol=1e-12)
    value = expected[0] - expected[2]
    assert abs(graph.evaluate(joint).values[0] - (value if state.mover == 0 else -value)) < 1e-12
    for responder in (0, 1):
        found = best_response(graph, tables[1], responder)
        value, count = phantoms.best_response(game, state, responder, policies[1])
        assert abs(found.value - value) < 1e-12
        full = best_response(graph, tables[1], responder, prune=False)
        assert abs(full.value - value) < 1e-12
        assert full.information_sets == count >= found.information_sets
        assert max(0.0, found.value) - 1e-12 <= found.wins <= 1 + 1e-12


@pytest.mark.parametrize("skip", [0.0, 0.3])
@pytest.mark.parametrize("misere", [False, True])
def test_wins_of_a_best_response(hidden, skip, misere):
    """They are those of some best response over all histories: two of the same value may win more and less often."""
    game = Game(3, 3, 3, skip, misere=misere, hidden=hidden)
    graph = graph_of(game, late_start)
    state, policy = phantoms.state_of(graph.joint_views), phantoms.ViewPolicy(game, 1)
    table = policy.probabilities(graph.views.boards)
    for responder in (0, 1):
        found = best_response(graph, table, responder)
        value, _ = phantoms.best_response(game, state, responder, policy)
        least, most = phantoms.win_chances_of_best_responses(game, state, responder, policy)
        assert abs(found.value - value) < 1e-12
        assert least - 1e-12 <= found.wins <= most + 1e-12


def test_known_values_of_uniform_play(hidden):
    game = Game(hidden=hidden)
    assert len(joint_view_graph(game)) == JOINT_VIEWS[hidden]
    found = phantom.exploitation(game, "random")
    numbers = (found.first.value, found.second.value, found.exploitability)
    assert_allclose(numbers, UNIFORM[hidden], rtol=0, atol=1e-6)
    assert phantom.exploitability(game, "random") == found.exploitability
    if hidden == "classic":
        assert abs(phantom.outcome(game, "random", "random").value - 0.2968253968) < 1e-10


@pytest.mark.slow
def test_number_of_information_sets(hidden):
    """The counts are those of perfect recall in 3 x 3; without pruning the values are the same."""
    game = Game(hidden=hidden)
    assert tuple(phantom.count_information_sets(game, player) for player in (0, 1)) == INFORMATION_SETS[hidden]


def test_gradient_is_that_of_finite_differences(hidden):
    game = Game(2, 2, 2, 0.3, hidden=hidden)
    graph = joint_view_graph(game)
    boards = graph.views.boards
    logits = np.where(graph.legal, np.random.default_rng(0).normal(size=graph.legal.shape), -np.inf)

    def table(logits):
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        return weights / weights.sum(axis=1, keepdims=True)

    class Table:
        pure = True

        def probabilities(self, boards, rng=None):
            return table(logits)[graph.views.find(boards)]

    found = phantom.evaluate_policies(game, Table(), Table()).policy_gradient
    for row, cell in zip(*np.nonzero(graph.legal), strict=True):
        values = []
        for step in (1e-5, -1e-5):
            moved = logits.copy()
            moved[row, cell] += step
            values.append(graph.evaluate(table(moved)).values[0])
        slope = (values[0] - values[1]) / 2e-5
        assert abs(found[row, cell] - (slope if boards.mover[row] == 0 else -slope)) < 1e-9


def test_evaluation_by_views_adds_up(hidden):
    game = Game(hidden=hidden)
    found = phantom.evaluate_policies(game, "random", "random")
    first = int(np.flatnonzero((found.views.cells == 0).all(axis=1) & (found.views.mover == 0))[0])
    assert found.occupancy[first] == 1.0
    assert abs(found.values[first] - found.outcome.value) < 1e-12
    visited = found.occupancy > 0
    assert visited.all()  # random play visits all views
    expected = np.nansum(found.probabilities * found.action_values, axis=1)
    assert_allclose(expected, found.values, rtol=0, atol=1e-12)
    assert abs(sum(found.outcome) - 1) < 1e-12


def test_visible_games_and_policies_that_break_the_rules_are_refused():
    with pytest.raises(ValueError, match="no phantom game: choose hidden='classic'"):
        phantom.exploitability(Game(), "random")
    game = Game(hidden="classic")
    with pytest.raises(ValueError, match=r"optimal does not support hidden stones.*reads the whole board"):
        phantom.exploitability(game, "optimal")

    @dataclasses.dataclass
    class Wrong:
        pure = True
        answer: float

        def probabilities(self, boards, rng=None):
            return np.full(boards.cells.shape, self.answer)

    for answer in (1 / 9, np.nan, -1.0):
        with pytest.raises(ValueError, match="gave no probabilities of the legal attempts"):
            phantom.exploitability(game, Wrong(answer))
    with pytest.raises(MemoryError, match="joint views"):
        phantom.exploitability(Game(4, 4, 4, hidden="abrupt"), "random")


class Sees:
    """Perfect play by all stones, in plain states."""

    def __init__(self, game):
        self.policy = make_policy("optimal", game.visible)

    def of(self, state, memory=()):
        boards = Boards(np.array([state.cells], np.int8), np.array([state.mover], np.int8))
        return self.policy.probabilities(boards)[0].tolist()


def test_a_peeking_policy_sees_all_stones(hidden):
    """Its results, and those of its best responder, are those of all histories; it has no policy over views."""
    game, name = Game(2, 2, 2, 0.3, hidden=hidden), "optimal:peeking=true"
    state, views = phantoms.start(game), phantoms.ViewPolicy(game, 0)
    expected = phantoms.play_out(game, state, (Sees(game), views))
    assert_allclose(phantom.outcome(game, name, views), expected, rtol=0, atol=1e-12)
    expected = phantoms.play_out(game, state, (views, Sees(game)))
    assert_allclose(phantom.outcome(game, views, name), expected, rtol=0, atol=1e-12)
    for responder in (0, 1):
        value, _ = phantoms.best_response(game, state, responder, Sees(game))
        assert abs(phantom.best_response(game, name, responder).value - value) < 1e-12
    with pytest.raises(ValueError, match="no policy over views"):
        phantom.evaluate_policies(game, name, "random")
