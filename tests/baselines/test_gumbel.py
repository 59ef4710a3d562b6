"""Searches by the Gumbel rule: against a plain implementation and exact values."""

import math

import numpy as np
import plain
import pytest
from evaluators import Noise, Nothing
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from plain_search import PlainTree, compare, softmax
from small_games import SKIP_GAME

from baselines.exact import solve
from baselines.mcts import MCTSSearch, gumbel_search
from baselines.mcts.gumbel import considered_visits
from ttt_envs import Boards, Game, make_policy

SKIPS = [0.0, 0.1, 0.25, 0.5]


def noise_for(boards, seed=0):
    return np.random.default_rng(seed).gumbel(size=boards.cells.shape)


def counted_visits(moves, simulations):
    """Return the earlier visits of each simulation's move, counted as by the authors."""
    if moves < 2:
        return list(range(simulations))
    visits = [0] * moves
    candidates = moves
    out = []
    while len(out) < simulations:
        for _ in range(max(1, int(simulations / (math.ceil(math.log2(moves)) * candidates)))):
            out += visits[:candidates]
            visits[:candidates] = [count + 1 for count in visits[:candidates]]
        candidates = max(2, candidates // 2)
    return out[:simulations]


@settings(max_examples=25)
@given(
    st.sampled_from([(3, 3, 3), (2, 3, 2), (4, 4, 3)]),
    st.sampled_from(SKIPS),
    st.integers(0, 10**6),
    st.sampled_from([2, 3, 4, 10**20]),
    st.sampled_from([1, 5, 16, 50]),
    st.sampled_from([(50.0, 0.1), (50.0, 0.5), (0.0, 1.0)]),
)
def test_it_agrees_with_a_plain_implementation(shape, skip, seed, considered, simulations, scales):
    game = Game(*shape, skip)
    boards = plain.positions_of_random_play(game, 2, seed)
    evaluator = Noise()
    noise = noise_for(boards, seed)
    named = {
        "maxvisit_init": scales[0],
        "value_scale": scales[1],
        "max_num_considered_actions": considered,
    }
    result = gumbel_search(game, boards, evaluator, simulations=simulations, noise=noise, **named)
    assert_allclose(result.probabilities(1), result.improved, rtol=1e-12)
    for row in range(2):
        other = PlainTree(game, boards.position(row), evaluator, noise=noise[row], **named)
        for considered_visit in counted_visits(min(considered, len(other.prior[()])), simulations):
            other.simulate(considered_visit)
        compare(result.search, row, other)
        improved = softmax(other.improved(()))
        cells = sorted(improved)
        assert_allclose(result.improved[row, cells], [improved[cell] for cell in cells], atol=1e-5)
        assert_allclose(result.improved[row].sum(), 1, atol=1e-12)
        values = other.completed(())
        value = other.exact_values.get((), sum(improved[cell] * values[cell] for cell in cells))
        assert_allclose(result.improved_values[row], value, atol=1e-5)
        times = {cell: other.times((), cell) for cell in cells}
        certain = other.solved(())
        last = {c for c in other.noisy() if times[c] == max(times.values())} | set(certain)
        last -= {cell for cell in certain if values[cell] < max(values[c] for c in certain)}
        scores = {cell: score for cell, score in other.noisy().items() if cell in last}
        assert_array_equal(np.flatnonzero(np.isfinite(result.scores[row])), sorted(scores))
        assert np.argmax(result.scores[row]) == max(sorted(scores), key=scores.get)
        assert result.probabilities()[row, np.argmax(result.scores[row])] == 1


def test_priors_and_values_are_all_that_an_evaluator_needs():
    """A class with `evaluate` alone gives the same searches; one that has no priors is refused."""
    boards = plain.positions_of_random_play(Game(), 4)
    noise = Noise()

    class Bare:
        def evaluate(self, boards):
            return noise.evaluate(boards)

    results = [
        gumbel_search(Game(), boards, evaluator, simulations=8) for evaluator in (noise, Bare())
    ]
    assert_array_equal(*[result.improved for result in results])
    searches = [
        MCTSSearch(Game(), boards, np.zeros(4, np.uint64), leaf=leaf) for leaf in (noise, Bare())
    ]
    for search in searches:
        search.run(20)
    assert_array_equal(*[search.visits for search in searches])
    for blind in (make_policy("optimal", Game()), object()):
        with pytest.raises(TypeError, match="no priors"):
            gumbel_search(Game(), boards, blind)
    for blind in (make_policy("random", Game()), object()):
        with pytest.raises(TypeError, match="evaluates nothing"):
            MCTSSearch(Game(), boards, np.zeros(4, np.uint64), leaf=blind)


@given(st.integers(0, 40), st.integers(1, 200))
def test_sequential_halving_schedules_existing_visits(moves, simulations):
    assert list(considered_visits(moves, simulations)) == counted_visits(moves, simulations)


def test_a_move_solved_as_worse_is_not_chosen():
    """Whatever its prior, and even if values have no weight."""
    game = SKIP_GAME
    boards = plain.positions_of_random_play(game, 300, seed=6)
    exact = solve(game).action_values(boards)
    result = gumbel_search(
        game, boards, Noise(9.0), simulations=200, value_scale=0.0, noise=noise_for(boards)
    )
    solved = result.search.solved
    priors = result.search.tree.priors[:, 0]
    best = np.where(solved, exact, -np.inf).max(axis=1, keepdims=True)
    assert ((result.scores > -np.inf) & solved & (exact < best - 1e-9)).sum() == 0
    certain = solved.sum(axis=1) == (priors > 0).sum(axis=1)
    assert certain.sum() > 50
    assert_allclose(result.improved_values[certain], np.nanmax(exact[certain], axis=1), atol=1e-12)
    assert_allclose(result.values[certain], np.nanmax(exact[certain], axis=1), atol=1e-12)


@pytest.mark.parametrize(
    "settings",
    [
        {"simulations": 0},
        {"max_num_considered_actions": 1},
        {"maxvisit_init": -1.0},
        {"value_scale": math.nan},
    ],
)
def test_invalid_settings_are_rejected(settings):
    with pytest.raises(ValueError, match="choose"):
        gumbel_search(Game(), Boards.start(Game()), Nothing(), **settings)
