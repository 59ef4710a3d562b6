"""Exact updates of a table: their formulas against the exact evaluation of policies, and where they
lead.
"""

from typing import get_args

import numpy as np
import plain
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from small_games import TINY_GAME

from learners.exact_pg import ExactPGConfig, Method, log_softmax
from ttt_envs import Game, PhantomGame
from ttt_envs.agents.softmax_table import PositionIndex, SoftmaxTable
from ttt_envs.graph.game_graph import GameGraph
from ttt_eval.exact import evaluate_policy, policy_gradient
from ttt_eval.exact.dynamic_programming import best_response, exploitability

METHODS = sorted(get_args(Method))
GAMES = [
    TINY_GAME,
    Game(3, 3, 3),
    Game(2, 3, 2, 0.25, misere=True),
    PhantomGame(TINY_GAME, "abrupt"),
    PhantomGame(Game()),
]


def trained(game, games, opponent="self", seat="alternate", batch=1, **settings):
    training = ExactPGConfig(**settings).training(
        game, games, batch=batch, seed=0, opponent=opponent, seat=seat
    )
    training.run()
    return training


def random_table(game):
    graph = GameGraph(game)
    logits = np.random.default_rng(0).normal(size=graph.legal.shape)
    return graph, SoftmaxTable(PositionIndex(game, graph.boards), logits)


def test_a_natural_gradient_adds_the_advantages_to_the_logits():
    """Two in a row win, in a row of three. Against random play the middle wins always, an end half
    of the time, else it draws: the mean is 2/3.

    ...   .o.   o.x   ox.
    """
    game = Game(1, 3, 2)
    training = trained(game, 1, method="natural-gradient", learning_rate=1.0)
    p = training.learner.probabilities(plain.from_texts("... o", game=game))[0]
    weights = np.exp([1 / 2 - 2 / 3, 1 - 2 / 3, 1 / 2 - 2 / 3])
    assert_allclose(p, weights / weights.sum())


# --------------------------------------------------------------------------------------------------
# The graph


@pytest.mark.parametrize("game", GAMES, ids=str)
def test_graph_evaluates_as_the_traversal_does(game):
    graph, table = random_table(game)
    policy = table.probabilities(graph.boards)
    exact = evaluate_policy(game, table)
    rows = table.index.find(exact.boards)
    result = graph.evaluate(policy)
    assert sorted(rows) == list(range(len(table.index)))  # a softmax reaches everything
    assert_allclose(result.values[rows], exact.values, atol=1e-13)
    assert_allclose(result.action_values[rows], np.nan_to_num(exact.action_values), atol=1e-13)
    assert_allclose(result.occupancy[rows], exact.occupancy, atol=1e-13)
    assert_allclose(result.results, exact.seats[0].outcome, atol=1e-13)
    if not isinstance(game, PhantomGame):
        for seat in (0, 1):
            response = graph.evaluate(policy, responder=seat).values[0] * (1 - 2 * seat)
            assert response == pytest.approx(best_response(game, table, seat).value, abs=1e-12)


# --------------------------------------------------------------------------------------------------
# One update


@pytest.mark.parametrize("game", [TINY_GAME, PhantomGame(TINY_GAME, "classic")], ids=str)
@pytest.mark.parametrize("opponent", ["self", "random"])
@pytest.mark.parametrize("seat", ["first", "second", "alternate"])
def test_gradient_is_the_policy_gradient(game, opponent, seat):
    config = ExactPGConfig(method="gradient", learning_rate=3.0, initial_std=1.0)
    training = config.training(game, 1, batch=1, seed=5, opponent=opponent, seat=seat)
    learner = training.learner
    before = SoftmaxTable(learner.index, learner.logits)
    seats = {"first": 0, "second": 1}.get(seat) if opponent != "self" else None
    exact = evaluate_policy(game, before, None if opponent == "self" else opponent, seat=seats)
    gradient = np.zeros(learner.logits.shape)
    gradient[learner.index.find(exact.boards)] = policy_gradient(exact)
    training.step()
    expected = log_softmax(before.logits + 3.0 * gradient, learner.graph.legal)
    assert_allclose(learner.logits, expected, atol=1e-12)
    if opponent != "self":
        assert training.logged["value"] == pytest.approx(exact.value)


def test_mirror_descent_forgets_nothing_and_magnets_pull_back():
    """With the opponent's policy, the action values at the last move are constant: closed forms."""
    game = Game(2, 3, 3, 0.25)
    steps = 7
    rate = 0.5
    temperature = 0.2
    learners = {
        method: trained(
            game,
            steps,
            "random",
            method=method,
            learning_rate=rate,
            temperature=temperature,
            anneal=False,
        ).learner
        for method in (
            "natural-gradient",
            "optimistic-mirror-descent",
            "magnetic-mirror-descent",
            "r-nad",
        )
    }
    graph = learners["r-nad"].graph
    rows = np.flatnonzero(
        graph.legal.sum(axis=1) == 2
    )  # two moves, of which one may win, as with three to win
    wins = graph.evaluate(plain.shares_of(graph.legal)).action_values[rows]
    for method, factor in {
        "natural-gradient": steps * rate,
        "optimistic-mirror-descent": steps * rate,
        "magnetic-mirror-descent": (1 - (1 + rate * temperature) ** -steps) / temperature,
        "r-nad": (1 - (1 - rate * temperature) ** steps) / temperature,
    }.items():
        expected = log_softmax(factor * wins, graph.legal[rows])
        assert_allclose(learners[method].logits[rows], expected, atol=1e-12, err_msg=method)


# --------------------------------------------------------------------------------------------------
# Where updates lead


@pytest.mark.parametrize(
    ("game", "method", "bound"),
    [
        *((TINY_GAME, method, 0.01) for method in METHODS if method != "gradient"),
        *((PhantomGame(Game(2, 3, 2), kind), "r-nad", 0.3) for kind in ("classic", "abrupt")),
    ],
)
def test_self_play_approaches_perfect_play(game, method, bound):
    games = 300 if bound == 0.3 or method == "fictitious-play" else 1000
    assert exploitability(game, trained(game, games, method=method).learner) <= bound
    assert exploitability(game, trained(game, 0, method=method).learner) > bound


@pytest.mark.parametrize(("method", "before"), [("optimistic-mirror-descent", 1), ("r-nad", 2)])
def test_later_updates_are_those_of_the_sources(method, before):
    """The optimistic step 2 q_t - q_(t-1), and the step of R-NaD after which nothing regularizes
    its new policy.
    """
    graph = GameGraph(TINY_GAME)
    logits = []
    for games in range(before + 2):
        logits.append(trained(TINY_GAME, games, method=method, reference_interval=2).learner.logits)
    q = [graph.evaluate(np.where(graph.legal, np.exp(x), 0)).action_values for x in logits]
    change = 2 * q[before] - q[before - 1] if method != "r-nad" else q[before]
    assert_allclose(logits[-1], log_softmax(logits[before] + change, graph.legal), atol=1e-12)
    # fictitious play has averaged once: half of a move of 6, and half of a best response that is
    # not it
    assert np.exp(
        trained(TINY_GAME, 1, method="fictitious-play").learner.logits[0].min()
    ) == pytest.approx(1 / 12)


@pytest.mark.parametrize("method", METHODS)
def test_batches_and_checkpoints_change_nothing(method):
    whole = trained(TINY_GAME, 9, method=method, reference_interval=2)
    config = ExactPGConfig(method=method, reference_interval=2)
    part, remainder = (config.training(TINY_GAME, 9, batch=4, seed=3) for _ in range(2))
    part.step()
    remainder.learner.state = part.learner.state
    remainder.state = part.state
    remainder.run()
    assert_array_equal(whole.learner.logits, remainder.learner.logits)
    assert (whole.logged, whole.done) == (remainder.logged, remainder.done)
