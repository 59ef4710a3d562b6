"""Reference for exact results: policies of several kinds, and the same results in plain Python."""

from dataclasses import replace
from functools import cache, partial

import numpy as np
import plain
import pytest
from numpy.testing import assert_allclose
from players import Drawn, FirstEmpty

from baselines.exact import solve
from ttt_envs import Boards, Game, make_policy
from ttt_envs.game.rules import DRAW
from ttt_envs.game.symmetry import symmetries
from ttt_eval.exact.dynamic_programming import (
    best_response,
    exploitability,
    exploitation,
    mean_loss,
    outcome,
    regret,
    regret_table,
)

assert_near = partial(assert_allclose, rtol=0, atol=1e-12)
"""Compares numbers that differ by rounding only."""
T3 = Game()
SMALL_VARIANTS = [
    replace(Game(2, 3, 3 - n % 2, n // 2 % 2 / 4), **rules)
    for n, rules in enumerate(plain.COMBINATIONS)
]


# --------------------------------------------------------------------------------------------------
# Policies


class LowestOptimal(FirstEmpty):
    """The optimal move with the lowest index."""

    def __init__(self, game):
        self.solution = solve(game)

    def probabilities(self, boards, rng=None):
        return np.eye(boards.cells.shape[1])[
            np.argmax(self.solution.optimal_actions(boards), axis=1)
        ]


class Recorded(FirstEmpty):
    """A policy that records its queries."""

    def __init__(self, policy):
        self.policy = policy
        self.batches = []

    def probabilities(self, boards, rng=None):
        assert isinstance(boards, Boards)
        assert boards.cells.dtype == boards.mover.dtype == np.int8
        self.batches.append(states_of(boards))
        return self.policy.probabilities(boards)

    @property
    def queries(self):
        return [state for batch in self.batches for state in batch]


@cache
def policy_of(spec, game):
    """Return a policy by its spec string, or by a name of this module."""
    if not isinstance(spec, str):
        return spec
    if spec.startswith("drawn"):
        return Drawn(game, seed=int(spec.removeprefix("drawn")))
    return FirstEmpty() if spec == "first-empty" else make_policy(spec, game)


# --------------------------------------------------------------------------------------------------
# Plain Python


def chances(game, states):
    """Pair next states with their probabilities."""
    return zip(states, (1 - game.skip_chance, game.skip_chance), strict=False)


@cache
def answers(game, policy):
    """Return a policy's probabilities: {state: [probability of each cell]}."""
    states = list(plain.moves_of(game))
    cells = np.array([list(board) for board, _ in states], np.int8)
    movers = np.array([mover for _, mover in states], np.int8)
    return dict(
        zip(
            states,
            policy_of(policy, game).probabilities(Boards(cells, movers)).tolist(),
            strict=True,
        )
    )


@cache
def play_out(game, first, second, start=None):
    """Return (wins, draws, losses) of ``first``, and {state: probability} of states that are
    reached from the start.
    """
    p = answers(game, first), answers(game, second)
    results = [0.0, 0.0, 0.0]
    reached = {start or start_of(game): 1.0}
    for state, moves in plain.moves_of(game).items():
        if state in reached:
            for action, (winner, states) in moves.items():
                mass = reached[state] * p[state[1]][state][action]
                if winner is not None:
                    results[{0: 0, DRAW: 1, 1: 2}[winner]] += mass
                elif mass > 0:
                    for child, chance in chances(game, states):
                        reached[child] = reached.get(child, 0.0) + mass * chance
    return results, reached


@cache
def values_of(game, policy, seat):
    """Return {state: value} and {state: {action: value}} of the best response in ``seat``, for its
    player.
    """
    p = answers(game, policy)
    values = {}
    of_moves = {}
    for state, moves in reversed(plain.moves_of(game).items()):
        of_moves[state] = of_state = {}
        for action, (winner, states) in moves.items():
            if winner is not None:
                of_state[action] = plain.result_for(seat, winner)
            else:
                of_state[action] = sum(
                    chance * values[child] for child, chance in chances(game, states)
                )
        if state[1] == seat:
            values[state] = max(of_state.values())
        else:
            values[state] = sum(p[state][action] * value for action, value in of_state.items())
    return values, of_moves


def states_of(boards):
    return [(cells.tobytes(), int(mover)) for cells, mover in zip(*boards, strict=True)]


def start_of(game):
    return bytes(game.cells), 0


def best_value(game, policy, seat):
    return values_of(game, policy, seat)[0][start_of(game)]


def losses(game, policy):
    """Return {stones: [expected moves, expected loss of value]} of a policy in self-play."""
    p = answers(game, policy)
    values, of_moves = plain.values_of(game)
    table = {}
    for state, mass in play_out(game, policy, policy)[1].items():
        lost = sum(
            p[state][action] * (values[state] - value) for action, value in of_moves[state].items()
        )
        row = table.setdefault(game.cells - state[0].count(0), [0.0, 0.0])
        row[0] += mass
        row[1] += mass * lost
    return table


def assert_as_plain(game, a, b):
    """Compare all results of a, and its outcome against b, with plain Python."""
    policy = policy_of(a, game)
    assert_near(outcome(game, policy, policy_of(b, game)), play_out(game, a, b)[0])
    responses = [best_response(game, policy, seat) for seat in (0, 1)]
    expected = [best_value(game, a, seat) for seat in (0, 1)]
    assert_near([result.value for result in responses], expected)
    for result in responses:
        assert_near(sum(result), 1)
        assert min(result) >= 0
    result = exploitation(game, policy)
    assert (result.first, result.second) == tuple(responses)
    value = plain.values_of(game)[0][start_of(game)]
    assert_near(result.game_value, value)
    assert_near(result.gains, (expected[0] - value, expected[1] + value))
    assert_near(result.exploitability, sum(expected) / 2)
    assert exploitability(game, policy) == result.exploitability
    rows = {row.stones: row[1:] for row in regret_table(game, policy) if row.moves > 0}
    expected = losses(game, a)
    assert list(rows) == sorted(rows) == list(expected)
    assert_near(list(rows.values()), list(expected.values()))
    moves, lost = np.sum(list(expected.values()), axis=0)
    assert_near(regret(game, policy), lost / moves)
    best, worst = bounds_of_mean_loss(game, a)
    assert best - 1e-12 <= mean_loss(game, policy) <= worst + 1e-12
    assert best == pytest.approx(worst, abs=1e-12) or not policy.symmetric


def bounds_of_mean_loss(game, policy):
    """Return the mean loss over classes of symmetric states in which moves differ, with the best
    and with the worst state of each class.
    """
    p = answers(game, policy)
    values, of_moves = plain.values_of(game)
    permutations = [permutation.tolist() for permutation in symmetries(game)]
    classes = {}
    for (cells, mover), moves in of_moves.items():
        state = cells, mover
        by_move = {action: values[state] - value for action, value in moves.items()}
        if max(by_move.values()) > 1e-9:
            lost = sum(p[state][action] * loss for action, loss in by_move.items())
            images = [bytes(cells[cell] for cell in order) for order in permutations]
            classes.setdefault((min(images), mover), []).append(lost)
    return [
        sum(choose(lost) for lost in classes.values()) / max(1, len(classes))
        for choose in (min, max)
    ]
