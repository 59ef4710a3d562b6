"""Exact policy gradients, beside finite differences of exact outcomes."""

import numpy as np
import phantoms
import pytest
from numpy.testing import assert_allclose
from small_games import SKIP_GAME, TINY_GAME

from ttt_envs import PhantomGame
from ttt_envs.agents.softmax_table import PositionIndex, SoftmaxTable
from ttt_eval.exact import evaluate_policy, outcome, policy_gradient

STENCIL = ((-2, 1 / 12), (-1, -2 / 3), (1, 2 / 3), (2, -1 / 12))
"""Central difference of fourth order."""


def random_table(game, opponent, seat):
    boards = evaluate_policy(game, "random", opponent, seat=seat).boards
    return SoftmaxTable(
        PositionIndex(game, boards), np.random.default_rng(0).normal(size=boards.cells.shape)
    )


def gradient_of(game, table, opponent=None, **options):
    """The gradient in the logits of a table, by its own rows."""
    result = evaluate_policy(game, table, opponent, **options)
    gradient = np.zeros(table.logits.shape)
    gradient[table.index.find(result.boards)] = policy_gradient(result)
    return gradient


def difference(value, table, place, step=0.02):
    """Derivative of a value in one logit, by finite differences."""
    total = 0.0
    for offset, weight in STENCIL:
        logits = table.logits.copy()
        logits[place] += offset * step
        total += weight * value(SoftmaxTable(table.index, logits)) / step
    return total


@pytest.mark.parametrize(
    ("game", "opponent", "count"),
    [
        (TINY_GAME, "win-or-block", 200),
        (SKIP_GAME, "win-or-block", 10),
        *((PhantomGame(TINY_GAME, kind), "random", 50) for kind in phantoms.VARIANTS),
    ],
    ids=str,
)
@pytest.mark.parametrize("seat", [0, 1])
def test_finite_differences(game, opponent, count, seat):
    """Of the outcome by the other exact program, which has no values."""

    def value(table):
        return (
            outcome(game, table, opponent).value
            if seat == 0
            else -outcome(game, opponent, table).value
        )

    table = random_table(game, opponent, seat)
    gradient = gradient_of(game, table, opponent, seat=seat)
    legal = np.argwhere(
        table.index.boards.legal(game) & (table.index.boards.legal(game).sum(axis=1) > 1)[:, None]
    )
    places = legal[
        np.random.default_rng(1).choice(len(legal), min(count, len(legal)), replace=False)
    ]
    exact = gradient[tuple(places.T)]
    differences = np.array([difference(value, table, tuple(place)) for place in places])
    assert_allclose(differences, exact, rtol=1e-6, atol=1e-6 * np.abs(gradient).max() * 1e-3)


@pytest.mark.parametrize("seat", [None, 0, 1])
def test_discount_and_seats(seat):
    """With a discount, and with both seats, by differences of the value."""
    table = random_table(TINY_GAME, "random", seat)
    result = gradient_of(TINY_GAME, table, "random", seat=seat, discount=0.8)
    for place in ((0, 0), (1, 2), (len(table.logits) - 3, 4)):
        if table.index.boards.legal(TINY_GAME)[place]:
            expected = difference(
                lambda policy: (
                    evaluate_policy(TINY_GAME, policy, "random", seat=seat, discount=0.8).value
                ),
                table,
                place,
            )
            assert result[place] == pytest.approx(expected, rel=1e-6, abs=1e-12)


def test_self_play_is_the_simultaneous_gradient():
    table = random_table(TINY_GAME, None, None)
    result = gradient_of(TINY_GAME, table)
    for seat in (0, 1):
        alone = gradient_of(TINY_GAME, table, table, seat=seat)
        rows = table.index.boards.mover == seat
        assert_allclose(result[rows], alone[rows] / 2, rtol=0, atol=1e-15)
