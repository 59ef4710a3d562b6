"""Exact results of policies with perfect recall: all histories in plain Python, the walk over views, known numbers."""

import numpy as np
import phantoms
import pytest
from numpy.testing import assert_allclose
from players import FirstEmpty
from test_phantom_exact import CASES, INFORMATION_SETS, LONG_CASES, UNIFORM, label

from baselines.joint_view_graph import FINAL, PLACED, TRIED, JointViewGraph, joint_view_graph
from evaluation.exact import perfect_recall, phantom
from evaluation.exact.phantom_best_response import best_response, list_information_sets
from evaluation.exact.stone_histories import InformationTree, Walk, count_stone_histories
from ttt_envs import Game, make_policy
from ttt_envs.agents.perfect_recall import ByViews, PerfectRecallPolicy
from ttt_envs.game.information_sets import FAILED

SMALL = [Game(2, 3, 2, skip, hidden=hidden) for hidden in phantoms.VARIANTS for skip in (0.0, 0.3)]
SMALL += [Game(2, 3, 2, 0.3, misere=True, hidden=hidden) for hidden in phantoms.VARIANTS]


@pytest.mark.parametrize(
    ("game", "make_start"), [*CASES, *(pytest.param(*case, marks=pytest.mark.slow) for case in LONG_CASES)], ids=label
)
def test_results_are_those_of_all_histories(game, make_start):
    start = None if make_start is None else make_start(game)
    state = phantoms.start(game) if start is None else phantoms.state_of(start)
    policies = phantoms.RecallPolicy(0, start), phantoms.RecallPolicy(1, start)
    expected = phantoms.play_out(game, state, policies)
    assert_allclose(perfect_recall.outcome(game, *policies, start=start), expected, rtol=0, atol=1e-12)
    for responder in (0, 1):
        found = perfect_recall.best_response(game, policies[1], responder, start=start)
        value, _ = phantoms.best_response(game, state, responder, policies[1])
        assert abs(found.value - value) < 1e-12
        assert min(found) > -1e-12
        assert sum(found) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("game", SMALL, ids=str)
def test_policies_over_views_have_the_results_of_the_walk_over_joint_views(game):
    policies = phantoms.ViewPolicy(game, 0), phantoms.ViewPolicy(game, 1)
    same = [ByViews(policy) for policy in policies]
    expected = phantom.outcome(game, *policies)
    assert_allclose(perfect_recall.outcome(game, *same), expected, rtol=0, atol=1e-12)
    assert_allclose(perfect_recall.outcome(game, policies[0], same[1]), expected, rtol=0, atol=1e-12)
    for responder in (0, 1):
        found = perfect_recall.best_response(game, same[1], responder)
        assert_allclose(found.value, phantom.best_response(game, policies[1], responder).value, rtol=0, atol=1e-12)
    assert perfect_recall.exploitability(game, same[1]) == pytest.approx(phantom.exploitability(game, policies[1]))


@pytest.mark.parametrize("game", SMALL, ids=str)
def test_sizes_are_those_of_the_walk(game):
    graph = JointViewGraph(game)
    sizes = perfect_recall.estimate(game)
    trees = [
        InformationTree(graph, player, list_information_sets(graph, player, count))
        for player, count in enumerate(sizes.information_sets)
    ]
    uniform = ByViews(make_policy("random", game))
    walk = Walk(graph, [(tree, perfect_recall._probabilities(tree, uniform)) for tree in trees])
    while walk.advance(100):
        pass
    assert walk.histories == count_stone_histories(graph).histories
    for player, count in enumerate(sizes.information_sets):
        assert count == best_response(graph, graph.uniform(), player, prune=False).information_sets
        views = trees[player].information_sets(0, count).views()
        known = (views.cells != 0) @ (1 << np.arange(game.cells))
        np.testing.assert_array_equal(known, trees[player].known)


@pytest.mark.parametrize("game", [Game(2, 2, 2, 0.3, hidden="abrupt"), SMALL[0], SMALL[2]], ids=str)
def test_pairs_are_those_of_all_histories(game):
    """A pair is what the mover remembers, and all stones and lost turns in their order without failed cells."""
    pairs, histories = [set(), set()], set()

    def follow(state, memories, events):
        if state.winner is not None:
            return
        mover = state.mover
        histories.add(events)
        pairs[mover].add((memories[mover], events))
        for cell in state.legal():
            for _, after, observation in phantoms.branches(game, state, cell):
                later = list(memories)
                later[mover] = (*memories[mover], (cell, observation))
                lost = () if game.hidden == "classic" else ((mover, "lost"),)
                event = lost if observation == "failed" else ((mover, cell, observation),)
                follow(after, later, events + event)

    follow(phantoms.start(game), ((), ()), ())
    found = count_stone_histories(JointViewGraph(game))
    assert found.histories == len(histories)
    assert found.pairs == tuple(map(len, pairs))


def test_published_numbers_of_states_and_information_sets(hidden):
    """Rudolph et al. (2026): 19.93e9 states and 5.99e6 information sets in the classic variant, 27.12e9 and 23.31e6."""
    graph = joint_view_graph(Game(hidden=hidden))
    counts = [0] * len(graph)
    counts[0] = 1
    ends = 0
    kind, following = graph.edges.kind.tolist(), graph.edges.following.tolist()
    for state, count in enumerate(counts):  # each comes after those that lead to it
        for one, after in zip(kind[state], following[state], strict=True):
            if one in (PLACED, TRIED):
                counts[after] += count
            ends += count * (one == FINAL)
    assert round((sum(counts) + ends) / 1e9, 2) == {"classic": 19.93, "abrupt": 27.12}[hidden]
    assert round(sum(INFORMATION_SETS[hidden]) / 1e6, 2) == {"classic": 5.99, "abrupt": 23.31}[hidden]


@pytest.mark.slow
def test_known_values_of_uniform_play(hidden):
    """In 3 x 3: 20 CPU seconds in the classic variant, minutes in the abrupt one."""
    game = Game(hidden=hidden)
    assert perfect_recall.estimate(game).information_sets == INFORMATION_SETS[hidden]
    found = perfect_recall.exploitation(game, "random")
    numbers = (found.first.value, found.second.value, found.exploitability)
    assert_allclose(numbers, UNIFORM[hidden], rtol=0, atol=1e-6)


class OnlyTheOrder:
    """Plays the last cell if its first attempt, on cell 0, failed before the second, and otherwise the lowest ones."""

    def recall_probabilities(self, sets):
        legal = sets.views().cells == 0
        early = (sets.attempts[:, 0] == 0) & (sets.observations[:, 0] == FAILED)
        chosen = np.where(early, legal.shape[1] - 1 - legal[:, ::-1].argmax(axis=1), legal.argmax(axis=1))
        return np.eye(legal.shape[1])[chosen]


def test_the_order_of_attempts_matters():
    """player_1 finds the stone on cell 0 with its first attempt, and then plays from the other end."""
    game = Game(2, 2, 2, hidden="classic")
    assert isinstance(OnlyTheOrder(), PerfectRecallPolicy)

    # o 0, x fails on 0 and takes 3, o 1: two in a row; the same if x took 1, where o would fail and take 2
    assert perfect_recall.outcome(game, FirstEmpty(), OnlyTheOrder()) == (1.0, 0.0, 0.0)
    assert perfect_recall.outcome(game, OnlyTheOrder(), FirstEmpty()) == (1.0, 0.0, 0.0)
    assert perfect_recall.best_response(game, OnlyTheOrder(), 1).value == -1.0


@pytest.mark.parametrize(
    ("problem", "options"),
    [
        ("the limit is 100: .* raise limit=", {"limit": 100}),
        ("at least .* information sets, .* may be used: .* memory=", {"memory": 1000}),
    ],
)
def test_too_large_computations_are_refused_with_their_size(problem, options):
    game = Game(2, 3, 2, hidden="classic")
    assert perfect_recall.estimate(game).pairs == 409
    for compute in (perfect_recall.exploitation, perfect_recall.exploitability):
        with pytest.raises(MemoryError, match=problem):
            compute(game, "random", **options)
    with pytest.raises(MemoryError, match=problem):
        perfect_recall.outcome(game, "random", "random", **options)
    with pytest.raises(MemoryError, match=problem):
        perfect_recall.best_response(game, "random", 0, **options)


def test_games_that_take_too_long_are_refused_by_default():
    with pytest.raises(MemoryError, match=r"skip 0\.25.* hours of CPU time, and the limit is 10,000,000,000"):
        perfect_recall.outcome(Game(3, 3, 3, 0.25, hidden="abrupt"), "random", "random")
    with pytest.raises(MemoryError, match="too many joint views"):
        perfect_recall.outcome(Game(3, 4, 3, hidden="classic"), "random", "random")


class Wrong:
    def __init__(self, change):
        self.change = change

    def recall_probabilities(self, sets):
        legal = sets.views().cells == 0
        return self.change(legal / legal.sum(axis=1, keepdims=True))


@pytest.mark.parametrize(
    "change",
    [
        lambda shares: shares[:, :2],
        lambda shares: 0.9 * shares,
        lambda shares: shares * np.nan,
        lambda shares: np.full_like(shares, 1 / shares.shape[1]),
        lambda shares: np.where(np.arange(shares.shape[1]) == 0, -shares, shares),
    ],
    ids=["shape", "sum", "nan", "known", "negative"],
)
def test_wrong_probabilities_are_refused(change):
    game = Game(2, 2, 2, hidden="abrupt")
    with pytest.raises(ValueError, match="gave no probabilities of the legal attempts in some information set"):
        perfect_recall.outcome(game, "random", Wrong(change))


def test_policies_and_games_without_information_sets_are_refused():
    game = Game(2, 2, 2, hidden="classic")
    with pytest.raises(ValueError, match="sees hidden stones"):
        perfect_recall.outcome(game, "optimal:peeking=true", "random")
    with pytest.raises(ValueError, match="is no phantom game"):
        perfect_recall.outcome(Game(2, 2, 2), "random", "random")
    with pytest.raises(ValueError, match="has perfect recall, and no views"):
        phantom.outcome(game, phantoms.RecallPolicy(0), "random")


@pytest.mark.parametrize("module", [phantom, perfect_recall], ids=["phantom", "perfect_recall"])
@pytest.mark.parametrize("seat", [-1, 2, "first"])
def test_other_seats_of_a_responder_are_refused(module, seat):
    with pytest.raises(ValueError, match="is no seat: choose 0 "):
        module.best_response(Game(2, 2, 2, hidden="classic"), "random", seat)


def test_progress_and_interrupts(monkeypatch):
    monkeypatch.setattr(Walk.advance, "__defaults__", (10,))
    game, shares = Game(2, 3, 2, hidden="abrupt"), []
    perfect_recall.exploitation(game, "random", progress=shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert len(shares) > 10

    def interrupt(share):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        perfect_recall.outcome(game, "random", "random", progress=interrupt)
