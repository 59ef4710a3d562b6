"""Credit of turns: its terms add up to the result, and agree with the solver and with
expectimax.
"""

from __future__ import annotations

import numpy as np
import plain
import pytest
from exactly import assert_near, values_of
from small_games import SKIP_GAME

from baselines.exact import solve
from ttt_envs import Boards, Game, from_text, make_policy
from ttt_envs.game.rules import Outcome
from ttt_envs.text import PRESENTATIONS, TextGame, Turn
from ttt_eval.exact.best_response_values import BestResponseValues
from ttt_eval.language_models.credit import (
    TurnReward,
    opponent_credit,
    optimal_credit,
)

SKIPS = (0.0, 0.25, 0.5)
OPPONENTS = ("random", "win-or-block", "optimal:epsilon=0.3")


def random_answer(text, rng):
    """A legal answer, or sometimes one that is not."""
    if rng.random() < 0.1:
        return "nonsense"
    return f"<move>{rng.choice(text.legal_moves())}</move>"


def play(number, skip, opponent, presentation):
    """Play one game with random answers; the seat, and what follows illegal answers, depend on its
    number.
    """
    options = {
        "seat": number % 2,
        "illegal": ("ask", "random", "lose")[number % 3],
        "max_asks": 1,
        "seed": number,
    }
    text = TextGame(Game(skip_chance=skip), opponent=opponent, presentation=presentation, **options)
    rng = np.random.default_rng(number)
    while not text.over:
        text.step(random_answer(text, rng))
    return text


def sums(text, credit, seat):
    """All terms of a game, and the changes by the decisions of the seat and of the other one."""
    turns = credit(text.turns, seat)
    changes = {True: 0.0, False: 0.0}
    for turn, result in zip(text.turns, turns, strict=True):
        changes[turn.position.mover == seat] += result.change
    return (
        turns[0].value + sum(result.change + result.luck for result in turns),
        changes[True],
        changes[False],
    )


@pytest.mark.parametrize("count", [180, pytest.param(10_000, marks=pytest.mark.slow)])
def test_the_terms_add_up_to_the_result(count):
    cases = [
        (skip, opponent, name) for skip in SKIPS for opponent in OPPONENTS for name in PRESENTATIONS
    ]
    games = {skip: Game(skip_chance=skip) for skip in SKIPS}
    optimal = {skip: optimal_credit(game) for skip, game in games.items()}
    against = {
        (skip, name): opponent_credit(game, name)
        for skip, game in games.items()
        for name in OPPONENTS
    }
    forfeits = 0
    for number in range(count):
        skip, opponent, presentation = cases[number % len(cases)]
        text = play(number // 2, skip, opponent, presentation)
        seat = number // 2 % 2
        forfeits += text.turns[-1].action < 0
        for credit in (optimal[skip], against[skip, opponent]):
            total, own, other = sums(text, credit, seat)
            assert_near(total, text.result(seat))
            assert own < 1e-12
            assert other > -1e-12 or credit is not optimal[skip]
        assert_near(sums(text, optimal[skip], 1 - seat)[0], text.result(1 - seat))
    assert forfeits > count / 10


def test_own_changes_are_minus_the_regret_of_the_solver():
    for number in range(30):
        text = play(number, 0.25, "random", "grid")
        solution = solve(text.game)
        for turn, result in zip(
            text.turns, optimal_credit(text.game)(text.turns, number % 2), strict=True
        ):
            values = solution.action_values(Boards.from_positions([turn.position]))[0]
            sign = 1 if turn.position.mover == number % 2 else -1
            assert_near(result.value, sign * np.nanmax(values))
            if turn.action >= 0:
                assert_near(result.change, sign * (values[turn.action] - np.nanmax(values)))


@pytest.mark.parametrize("seat", [0, 1])
@pytest.mark.parametrize("skip", [0.0, 0.25])
def test_best_response_values_are_those_of_expectimax(seat, skip):
    game = Game(2, 3, 3, skip)
    policy = make_policy("win-or-block", game)
    values = BestResponseValues(game, policy, seat)
    expected = values_of(game, "win-or-block", seat)[0]
    rng = np.random.default_rng(0)
    for seed in range(40):
        text = TextGame(game, opponent=policy, seat=seat, seed=seed)
        while not text.over:
            text.step(str(rng.choice(text.legal_moves())))
        for turn in text.turns:
            cells, mover = turn.position
            result = values.values(Boards.from_positions([turn.position]))[0] * (
                1 if mover == seat else -1
            )
            assert_near(result, expected[cells.tobytes(), mover])


def test_unreached_positions_and_impure_opponents_are_named():
    game = Game()
    values = BestResponseValues(game, "win-or-block", 0)
    assert np.isnan(values.values(plain.from_texts("ooo/.../... x"))[0])
    unreached = Turn(
        from_text("o.o/x../..x o"), 1, from_text("ooo/x../..x o"), Outcome.PLAYER_0_WON, "answer"
    )
    for message, call in (
        (
            "is not reached against win-or-block",
            lambda: opponent_credit(game, "win-or-block")([unreached], 0),
        ),
        ("is not pure", lambda: TurnReward(game, advantage=1.0, opponent="mcts:simulations=10")),
        ("^seat=2 ", lambda: BestResponseValues(game, "random", 2)),
        ("^advantage=1.0 needs opponent=", lambda: TurnReward(game, advantage=1.0)),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_rewards_are_weighted_sums():
    game = SKIP_GAME
    reward = TurnReward(
        game, result=2.0, regret=0.5, advantage=0.25, illegal=0.1, opponent="random"
    )
    optimal = optimal_credit(game)
    against = opponent_credit(game, "random")
    for number in range(12):
        text = play(number, 0.25, "random", "grid")
        seat = number % 2
        regret, advantage = (sums(text, credit, seat)[1] for credit in (optimal, against))
        own = [turn for turn in text.turns if turn.position.mover == seat]
        count = sum(len(turn.problems) for turn in own)
        expected = 2 * text.result(seat) + 0.5 * regret + 0.25 * advantage - 0.1 * count
        assert_near(reward(text.turns, seat), expected)
        assert_near(sum(reward([turn], seat) for turn in text.turns), expected)
    assert TurnReward(game)([], 0) == 0


def test_illegal_answers_cost_who_gave_them():
    text = TextGame(Game(), opponent="self")
    for answer in ("nonsense", "b2", "a1"):
        text.step(answer)
    assert [TurnReward(text.game, illegal=1.0)(text.turns, seat) for seat in (0, 1)] == [-1, 0]
