"""Strength, worst positions and differences, compared with exact functions and a traversal in plain
Python.
"""

import numpy as np
import plain
import pytest
from exactly import Recorded, assert_near, play_out
from players import Drawn, FirstEmpty
from small_games import SKIP_GAME

from baselines.exact import solve
from ttt_envs.agents.specs import make_policy
from ttt_envs.game.boards import Boards, from_text, to_text
from ttt_envs.game.game import Game, Position
from ttt_envs.game.symmetry import canonical_keys, symmetries
from ttt_eval.exact.dynamic_programming import (
    exploitability,
    match_outcome,
    mean_loss,
    outcome,
    regret,
)
from ttt_eval.exact.measurement import Measurement
from ttt_eval.exact.policy_evaluation import evaluate_policy
from ttt_eval.exact.strength import differences, strength, worst_positions
from ttt_eval.matches.results import DifferentMoves, compare_moves

SMALL = Game(2, 3, 3, 0.25)


class Moody(FirstEmpty):
    pure = False

    def probabilities(self, boards, rng=None):
        return rng.permuted(np.eye(boards.cells.shape[1])[:1].repeat(len(boards.mover), 0), axis=1)


def reach_probabilities(game, players):
    """Return {position as text: probability that a game reaches it}."""
    reached = play_out(game, *players)[1].items()
    return {
        to_text(Position(np.frombuffer(cells, np.int8), mover), game): mass
        for (cells, mover), mass in reached
    }


def loss_in(game, policy, text):
    boards = plain.from_texts(text, game=game)
    values = solve(game).action_values(boards)[0]
    shares = policy.probabilities(boards)[0]
    return np.nanmax(values) - np.nansum(values * shares)


def test_strength_is_that_of_the_exact_functions():
    result = strength(SKIP_GAME, "win-or-block", ["random", "optimal"])
    for measure in (exploitability, regret, mean_loss):
        assert getattr(result, measure.__name__) == measure(SKIP_GAME, "win-or-block")
    assert strength(Game(3, 4, 3), "win-or-block", []).mean_loss is None
    assert result.seats["random"][0] == outcome(SKIP_GAME, "win-or-block", "random")
    assert result.results["optimal"] == match_outcome(SKIP_GAME, "win-or-block", "optimal")
    assert not result.perfect
    assert strength(SKIP_GAME, "optimal", []).perfect
    assert (
        worst_positions(SKIP_GAME, "optimal")
        == worst_positions(SKIP_GAME, "optimal", "random")
        == []
    )


@pytest.mark.parametrize(
    "measure",
    [
        lambda exact: exact.outcome("random", 1),
        lambda exact: exact.best_response(0),
        lambda exact: exact.exploitation(),
        lambda exact: exact.exploitability(),
        lambda exact: exact.regret(),
        lambda exact: exact.mean_loss(),
        lambda exact: exact.illegal_share("random", 0),
        lambda exact: evaluate_policy(SMALL, exact.policy),
        lambda exact: evaluate_policy(SMALL, exact.policy, "random", seat=1),
        lambda exact: strength(SMALL, exact.policy, ["random", "optimal"]),
    ],
)
def test_each_measure_asks_a_policy_once(measure):
    policy = Recorded(Drawn(SMALL, seed=2))
    measure(Measurement(SMALL, policy))
    assert 0 < len(set(policy.queries)) == len(policy.queries)


@pytest.mark.parametrize("against", [None, "random"])
@pytest.mark.parametrize("game", [SMALL, Game(3, 3, 3)])
def test_worst_positions_are_those_of_plain_python(game, against):
    policy = FirstEmpty()
    other = policy if against is None else make_policy(against, game)
    masses = {}
    for seat, players in enumerate(((policy, other), (other, policy))):
        for text, mass in reach_probabilities(game, players).items():
            if against is None or from_text(text, game).mover == seat:
                masses[text] = masses.get(text, 0.0) + mass / 2
    costs = sorted(
        (loss_in(game, policy, text) * mass for text, mass in masses.items()), reverse=True
    )
    result = worst_positions(game, policy, against, 4)
    assert result
    for mistake in result:
        text = to_text(mistake.choice.position, game)
        assert_near(mistake.loss, loss_in(game, policy, text))
        assert_near(mistake.likely, masses[text])
        assert mistake.choice.played == [text.replace("/", "").index(".")]
        assert mistake.choice.exact[mistake.choice.best] == pytest.approx(
            np.nanmax(mistake.choice.exact)
        )
    assert result[0].cost == pytest.approx(costs[0])
    assert [mistake.cost for mistake in result] == sorted(
        (mistake.cost for mistake in result), reverse=True
    )


def test_worst_positions_are_printed_as_boards():
    text = str(worst_positions(Game(), "win-or-block", "random", 2))
    assert text.startswith("o . .   x to move: plays [1, 2, ")
    assert "loses 0.875; best: [4]\n. . .\n. . .\n\n" in text
    assert str(worst_positions(Game(), "optimal", "random")) == "optimal loses nothing"
    assert 'in its self-play: opponent="random"' in str(worst_positions(Game(), "optimal"))


def test_errors():
    with pytest.raises(ValueError, match="is not pure"):
        worst_positions(SKIP_GAME, Moody())
    with pytest.raises(ValueError, match="too large to solve"):
        worst_positions(Game(5, 5, 4), "random")
    assert compare_moves(SKIP_GAME, "random", Moody()) is None
    assert compare_moves(Game(19, 19, 5), "random", "win-or-block") is None


@pytest.mark.parametrize("game", [SMALL, Game(2, 3, 2)])
def test_differences_are_those_of_plain_python(game):
    both = FirstEmpty(), make_policy("random", game)
    result = differences(game, *both, count=1000)
    weights = {}
    for players in (both, both[::-1]):
        for text, mass in reach_probabilities(game, players).items():
            weights[text] = weights.get(text, 0.0) + mass / 2
    positions = [plain.from_texts(text, game=game) for text in weights]
    apart = [
        np.abs(np.subtract(*(agent.probabilities(boards)[0] for agent in both))).sum() / 2
        for boards in positions
    ]
    products = {
        text: part * mass
        for part, (text, mass) in zip(apart, weights.items(), strict=True)
        if part > 0
    }
    assert result[0].weight == pytest.approx(max(products.values()))
    for difference in result:
        text = to_text(difference.a.position, game)
        assert difference.likely == pytest.approx(weights[text])
        assert difference.weight == pytest.approx(products[text])
        data = difference.to_dict(game)
        values = solve(game).action_values(Boards.from_positions([difference.a.position]))[0]
        assert data["loss_a"] == pytest.approx(
            np.nanmax(values) - values[int(next(iter(data["a"])))]
        )
        assert sum(data["b"].values()) == pytest.approx(1)
        assert data["best"] == np.flatnonzero(values >= np.nanmax(values) - 1e-9).tolist()
    shown = [difference.to_dict(game) for difference in result]
    costly = [data for data in shown if abs(data["loss_a"] - data["loss_b"]) > 1e-9]
    compared = compare_moves(game, *both, count=1000)
    assert compared == [DifferentMoves(**data) for data in costly]
    assert 0 < len(costly) < len(shown)
    assert (np.diff([difference.weight for difference in result]) <= 1e-12).all()
    apart = plain.from_texts(*products, game=game)
    codes, _ = canonical_keys(apart.cells, symmetries(game))
    assert len(result) == len(
        {(*code, mover) for code, mover in zip(codes.tolist(), apart.mover, strict=True)}
    )
