"""The means by hand, games side by side, and how far it comes."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from learners.base import Transition
from learners.naive_mc import NaiveMCConfig
from learners.training import Trainer
from ttt_envs import Boards, Game, PhantomGame, from_text
from ttt_eval.exact.dynamic_programming import exploitability

LINE = Game(1, 3, 2)
"""Three cells in a row, of which two neighbours win."""


def build(game=LINE, **settings):
    return NaiveMCConfig(**settings).build(game, np.random.default_rng(0))


def teach(learner, *moves, slots=(0,)):
    """Learn from moves (before, action, after or None, final reward), the same in each of the games ``slots``."""
    count = len(slots)
    for before, action, after, reward in moves:
        logged = learner.update(
            Transition(
                np.array(slots),
                Boards.from_positions([from_text(before)] * count),
                np.full(count, action),
                np.full(count, float(reward)),
                np.full(count, 0.0 if after is None else 1.0),
                Boards.from_positions([from_text(after or before)] * count),
                np.full(count, -1),
            )
        )
    return logged


def value(learner, text, action):
    return learner.action_values(Boards.from_positions([from_text(text)]))[0, action]


WON = [("... o", 1, "xo. o", 0), ("xo. o", 2, None, 1), (".o. x", 0, None, -1)]
"""o takes the middle, x the left end, o wins at the right end"""
SKIPPED = [("... o", 1, None, 0), (".o. x", 0, "xo. x", 0), ("xo. x", 2, None, 0)]
"""o takes the middle, x the left end, o is skipped, x takes the right end: a draw"""
LOST = [("... o", 0, None, -1), ("o.. x", 1, "ox. x", 0), ("ox. x", 2, None, 1)]
"""o takes an end, x the middle, o is skipped, x wins"""


@pytest.mark.parametrize(("rewards", "of"), [("report", lambda r: (r + 1) / 2), ("unit", lambda r: r)])
def test_three_games_by_hand(rewards, of):
    learner = build(rewards=rewards)
    assert value(learner, "... o", 1) == of(0)
    teach(learner, *WON)
    assert value(learner, "... o", 1) == of(1)
    assert value(learner, "xo. o", 2) == of(1)
    assert value(learner, ".o. x", 0) == of(-1)
    assert value(learner, ".o. x", 2) == of(0)  # never made
    teach(learner, *SKIPPED)
    assert value(learner, "... o", 1) == of(1 / 2)  # 1 and 0
    assert value(learner, "xo. o", 2) == of(1)  # not of this game
    assert value(learner, ".o. x", 0) == of(-1 / 2)  # -1 and 0
    assert value(learner, "xo. x", 2) == of(0)
    teach(learner, *LOST)
    assert value(learner, "... o", 0) == of(-1)
    assert value(learner, "o.. x", 1) == of(1)
    assert value(learner, "ox. x", 2) == of(1)
    teach(learner, *WON, *WON)
    assert value(learner, "... o", 1) == of(3 / 4)  # 1, 0, 1, 1
    assert value(learner, ".o. x", 0) == of(-3 / 4)
    assert_array_equal(learner.probabilities(Boards.start(LINE))[0], [0, 1, 0])


def test_nothing_is_learned_before_the_end_of_the_game():
    learner = build()
    logged = teach(learner, ("... o", 1, "xo. o", 0))
    assert logged == {"epsilon": 1.0, "entries": 0.0}
    logged = teach(learner, ("xo. o", 2, None, 1))
    assert logged == {"error": 0.5, "epsilon": 1.0, "entries": 2.0}
    assert learner.state["counts"].sum() == 2


def test_parallel_games_and_players_have_separate_buffers():
    one, side_by_side = build(), build()
    for _ in range(3):
        teach(one, *WON)
    teach(side_by_side, WON[0], slots=(0, 2, 7))  # the same game in three slots, its moves mixed
    teach(side_by_side, WON[2], slots=(0, 2, 7))
    teach(side_by_side, WON[1], slots=(2,))
    teach(side_by_side, WON[1], slots=(0, 7))
    assert side_by_side.state["lengths"].shape == (8, 2)
    assert side_by_side.state["waiting"].shape == (8, 2, 3, 1)
    for text, action in (("... o", 1), ("xo. o", 2), (".o. x", 0)):
        assert value(side_by_side, text, action) == value(one, text, action)
    assert side_by_side.state["counts"].sum() == one.state["counts"].sum() == 9
    assert not side_by_side.state["lengths"].any()


def test_games_that_are_never_finished_fill_no_other_memory():
    learner = build()
    for _ in range(10):  # more often than a game has moves
        teach(learner, WON[0])
    assert learner.state["lengths"].max() <= LINE.cells


@pytest.mark.parametrize("skip_chance", [0.0, 0.25])
@pytest.mark.parametrize("hidden", ["classic", "abrupt"])
def test_every_move_of_phantom_games_gets_the_final_reward(hidden, skip_chance):
    learner = build(PhantomGame(Game(skip_chance=skip_chance), hidden))
    training = Trainer(learner, "self", 200, batch=16)
    while training.running:
        training.step()
    assert learner.state["counts"].sum() == training.steps


def test_symmetries_learn_as_from_all_mirrored_games():
    games, images = build(symmetries="all"), build()
    mirrored = [("... o", 1, ".ox o", 0), (".ox o", 0, None, 1), (".o. x", 2, None, -1)]
    for moves in (WON, LOST):
        teach(games, *moves)
    teach(images, *WON, *mirrored, *LOST)
    teach(images, ("... o", 2, None, -1), ("..o x", 1, ".xo x", 0), (".xo x", 0, None, 1))
    for text in ("... o", ".o. x", "xo. o", ".ox o", "o.. x", ".xo x"):
        boards = Boards.from_positions([from_text(text)])
        assert_array_equal(games.action_values(boards), images.action_values(boards))


def test_the_loser_of_self_play_learns_that_it_lost():
    learner = build()
    Trainer(learner, "self", 300).run()
    assert value(learner, "... o", 1) == 1
    assert value(learner, ".o. x", 0) == value(learner, ".o. x", 2) == 0  # the reward of a loss


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("settings", [{"epsilon_decay": 1e-6}, {"epsilon_decay": 1e-5, "symmetries": "all"}], ids=str)
def test_slowly_decaying_exploration_reaches_perfect_play(settings, seed):
    game = Game()
    learner = build(game, **settings)
    Trainer(learner, "self", 1_000_000, batch=256, seed=seed).run()
    assert exploitability(game, learner) == 0


@pytest.mark.slow
def test_the_reports_schedule_stops_exploring_too_soon():
    game = Game()
    learner = build(game)
    Trainer(learner, "self", 1_000_000, batch=256).run()
    assert learner.epsilon[0] < 0.002
    assert exploitability(game, learner) > 0.3
