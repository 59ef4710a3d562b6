"""Values, advantages and occupancy of policies, beside the same in plain Python dictionaries."""

from functools import cache

import numpy as np
import plain
import pytest
from exactly import (
    SMALL_VARIANTS,
    answers,
    assert_near,
    chances,
    play_out,
    policy_of,
    start_of,
    states_of,
)
from numpy.testing import assert_allclose, assert_array_equal
from players import FirstEmpty
from small_games import SKIP_GAME

from ttt_envs import Game
from ttt_envs.agents.softmax_table import PositionIndex, SoftmaxTable
from ttt_envs.core.work import Work
from ttt_eval.exact import evaluate_policy

SKIPS = (0.0, 0.25, 0.5)
SMALL, GAMES = ([Game(*size, skip) for skip in SKIPS] for size in ((2, 3, 2), (3, 3, 3)))
VARIANTS = [*SMALL_VARIANTS, Game(2, 4, 3, 0.5, overlines=False)]
"""in the last, one player may fill the board without a line of three"""
PAIRS = {
    "full": ("random", "drawn1"),
    "holes": ("drawn1", "drawn2"),
    "perfect": ("optimal", "first-empty"),
    "self-play": ("drawn1", None),
}


class Dictionaries:
    """Both policies' play seen by the player in ``seat``, whose decisions are the time steps of the
    discount.
    """

    def __init__(self, game, first, second, seat, discount):
        self.game = game
        self.seat = seat
        self.discount = discount
        self.p = answers(game, first), answers(game, second)
        self.moves = plain.moves_of(game)
        self.q = cache(self._q)

    def _q(self, state, action):
        """Value of a move of either player, with the discount of all decisions that follow."""
        winner, states = self.moves[state][action]
        if winner is not None:
            return plain.result_for(self.seat, winner)
        return sum(
            chance * (self.discount if next_state[1] == self.seat else 1.0) * self.v(next_state)
            for next_state, chance in chances(self.game, states)
        )

    def v(self, state):
        return sum(
            self.p[state[1]][state][action] * self.q(state, action) for action in self.moves[state]
        )

    def visits(self):
        """{state: {number of earlier decisions: probability}}, and the expected return."""
        reached = {start_of(self.game): {0: 1.0}}
        total = 0.0
        for state, moves in self.moves.items():
            own = state[1] == self.seat
            for n, mass in reached.get(state, {}).items():
                for action, (winner, states) in moves.items():
                    part = mass * self.p[state[1]][state][action]
                    if winner is not None:
                        total += (
                            part
                            * plain.result_for(self.seat, winner)
                            * self.discount ** max(0, n + own - 1)
                        )
                    elif part > 0:
                        for next_state, chance in chances(self.game, states):
                            of_state = reached.setdefault(next_state, {})
                            of_state[n + own] = of_state.get(n + own, 0.0) + part * chance
        return reached, total


def check_seat(evaluation, seat, expected, rows):
    """Compare the rows of one seat of an evaluation with dictionaries."""
    reached, total = expected.visits()
    of_seat = {state: at for state, at in reached.items() if state[1] == seat}
    states = states_of(evaluation.boards.take(rows))
    assert len(set(states)) == len(states)
    assert set(states) == set(of_seat)
    weights = [of_seat[state] for state in states]
    assert_near(evaluation.occupancy[rows], [sum(at.values()) for at in weights])
    discounted = [sum(mass * expected.discount**n for n, mass in at.items()) for at in weights]
    assert_near(evaluation.discounted_occupancy[rows], discounted)
    assert_near(evaluation.values[rows], [expected.v(state) for state in states])
    q = np.full((len(states), evaluation.game.cells), np.nan)
    for row, state in enumerate(states):
        for action in expected.moves[state]:
            q[row, action] = expected.q(state, action)
    assert_near(evaluation.action_values[rows], q)
    p = np.reshape([expected.p[seat][state] for state in states], q.shape)
    assert_near(evaluation.probabilities[rows], p)
    result = next(summary for summary in evaluation.seats if summary.seat == seat)
    assert_near(result.value, total)
    lengths = [
        {s: sum(at.values()) for s, at in reached.items() if s[1] == mover} for mover in (0, 1)
    ]
    assert_near(result.expected_decisions, sum(lengths[seat].values()))
    assert_near(result.expected_length, sum(sum(length.values()) for length in lengths))


@pytest.mark.parametrize(
    ("game", "pair", "discount"),
    [(game, pair, discount) for game in SMALL for pair in PAIRS for discount in (1.0, 0.9, 0.0)]
    + [(game, "holes", 0.9) for game in (GAMES[1], Game(1, 1, 1), *VARIANTS)]
    + [(game, "self-play", 0.9) for game in VARIANTS],
    ids=str,
)
def test_results_are_those_of_dictionaries(game, pair, discount):
    a, b = PAIRS[pair]
    shares = []
    other = None if b is None else policy_of(b, game)
    work = Work(chunk=100, progress=shares.append)
    result = evaluate_policy(game, policy_of(a, game), other, discount=discount, work=work)
    assert [0.0, *shares, 1.0] == sorted([*shares, 0.0, 1.0])
    assert np.abs(np.nansum(result.probabilities * result.advantages, axis=1)).max() < 1e-12
    assert_array_equal(result.stones, (result.boards.cells > 0).sum(axis=1))
    assert_array_equal(result.find(result.boards), np.arange(len(result.values)))
    for seat, players in ((0, (a, b or a)), (1, (b or a, a))):
        assert_near(result.seats[seat].outcome, play_out(game, *players)[0][:: 1 - 2 * seat])
        expected = Dictionaries(game, *players, seat, discount)
        check_seat(result, seat, expected, np.flatnonzero(result.boards.mover == seat))


def test_published_facts():
    """Facts of a program in plain Python: uniform play against uniform play on 3 x 3 with skips."""
    result = evaluate_policy(SKIP_GAME, "random", "random", seat=0)
    assert len(result.values) == 10_864
    assert result.values[0] == pytest.approx(0.236744035993304, abs=1e-14)
    weights = result.occupancy[:, None] * result.probabilities
    gradient = weights * np.nan_to_num(result.advantages)
    assert (gradient**2).sum() == pytest.approx(8.7616669e-4, rel=1e-6)
    # second moment per game of the score-function gradient, if exact advantages weigh the scores;
    # with the squared norm of a score of the uniform policy
    score = 1 - 1 / result.boards.legal(SKIP_GAME).sum(axis=1, keepdims=True)
    moment = (weights * np.nan_to_num(result.advantages) ** 2 * score).sum()
    assert moment == pytest.approx(0.139, abs=5e-4)


def test_merged_symmetries():
    whole, merged = (
        evaluate_policy(SKIP_GAME, "optimal", "random", merge_symmetries=merge)
        for merge in (False, True)
    )
    assert len(merged.values) < len(whole.values) / 5
    assert_near([row[2:] for row in merged.seats], [row[2:] for row in whole.seats])
    for seat in (0, 1):
        a, b = (
            (result.values, result.occupancy, result.boards.mover == seat)
            for result in (whole, merged)
        )
        assert a[0][a[2]] @ a[1][a[2]] == pytest.approx(b[0][b[2]] @ b[1][b[2]], abs=1e-12)
    assert_near(merged.action_values, whole.action_values[whole.find(merged.boards)])
    with pytest.raises(ValueError, match="cannot be looked up"):
        merged.find(merged.boards)


@pytest.mark.parametrize(
    ("game", "policy", "settings", "error"),
    [
        (SKIP_GAME, FirstEmpty(), {"discount": 1.5}, ValueError),
        (SKIP_GAME, FirstEmpty(), {"merge_symmetries": True}, ValueError),  # it declares none
        (SKIP_GAME, "mcts:simulations=4", {}, ValueError),
        (Game(5, 5, 5, 0.25), "random", {}, MemoryError),
    ],
)
def test_what_cannot_be_evaluated_is_refused(game, policy, settings, error):
    with pytest.raises(error):
        evaluate_policy(game, policy, **settings)


def test_softmax_table():
    result = evaluate_policy(SKIP_GAME, "random", "random", seat=0)
    logits = np.random.default_rng(0).normal(size=result.boards.cells.shape)
    table = SoftmaxTable(PositionIndex(SKIP_GAME, result.boards), logits)
    p = table.probabilities(result.boards)
    weights = np.where(result.boards.legal(SKIP_GAME), np.exp(logits), 0)
    assert_allclose(p, plain.shares_of(weights), rtol=0, atol=1e-15)
    others = evaluate_policy(SKIP_GAME, "random", "random", seat=1).boards
    uniform = plain.shares_of(others.legal(SKIP_GAME))
    assert_array_equal(table.probabilities(others), uniform)
