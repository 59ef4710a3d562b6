"""Estimates of exact computations: accuracy of positions, and limits of memory."""

import pytest
from small_games import SKIP_GAME

from ttt_envs import Game, make_policy
from ttt_envs.core.work import Work
from ttt_envs.graph.estimate import affordable, check_measurable
from ttt_eval.exact import best_response, evaluate_policy, outcome


@pytest.mark.parametrize("game", [Game(5, 5, 3), Game(19, 19, 5), Game(6, 6, 4, 0.25)], ids=str)
def test_too_large_computation_is_rejected_before_it_starts(game):
    for work in (
        lambda: best_response(game, "random", 0),
        lambda: outcome(game, "random", "random"),
    ):
        with pytest.raises(MemoryError, match=r"sample (them|results) with"):
            work()
    with pytest.raises(MemoryError):
        check_measurable(game)


def test_memory_limit():
    game = Game(4, 4, 4)
    limits = Work(memory=1 << 20)
    check_measurable(game)
    with pytest.raises(MemoryError, match="GiB may be used"):
        outcome(game, "random", "optimal:epsilon=0.5", work=limits)
    with pytest.raises(MemoryError, match="GiB may be used"):
        evaluate_policy(game, "random", work=Work(memory=1 << 30))  # of which its rows take most
    assert outcome(Game(), "random", "random", work=limits) == outcome(
        Game(), "random", "random"
    )  # next to nothing


@pytest.mark.parametrize(
    ("game", "policy", "expected"),
    [
        (SKIP_GAME, "random", True),
        (Game(3, 4, 3), "random", True),
        (Game(3, 4, 3, 0.1), "random", False),
        (Game(5, 5, 4), "random", False),
        (Game(), "mcts", False),  # not pure
    ],
    ids=str,
)
def test_small_games_of_pure_policies_are_affordable(game, policy, expected, monkeypatch):
    monkeypatch.setattr(
        "time.perf_counter", lambda: pytest.fail("a clock decides, so that a busy machine differs")
    )
    assert affordable(game, make_policy(policy, game)) is expected
