"""The update rule by hand, the table, and that it learns."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from plain import assert_same_arrays

from learners.base import Transition
from learners.naive_mc import NaiveMCConfig
from learners.q_learning import QLearningConfig
from learners.q_table import StepSizes, Table, learn, sum_stones, value_of, write_key
from learners.training import Trainer
from ttt_envs import Boards, Game, from_text
from ttt_envs.game.symmetry import inverse, symmetries
from ttt_eval.exact.dynamic_programming import exploitability


def build(game=None, **settings):
    return QLearningConfig(**settings).build(game or Game(), np.random.default_rng(0))


def transition(before, action, after, *, reward=0.0, discount=1.0, next_action=-1):
    return Transition(
        np.zeros(1, np.int64),
        Boards.from_positions([from_text(before)]),
        np.array([action]),
        np.array([float(reward)]),
        np.array([float(discount)]),
        Boards.from_positions([from_text(after)]),
        np.array([next_action]),
    )


def value(learner, text, action):
    return learner.action_values(Boards.from_positions([from_text(text)]))[0, action]


A, B, C = "oo./xx./... o", "o../xx./..o o", "o../.x./... x"


def test_a_final_reward_is_learned_at_the_step_size():
    learner = build(step_size=0.5, step_size_power=0.0)
    for expected in (0.5, 0.75, 0.875):
        learner.update(transition(A, 2, A, reward=1, discount=0))
        assert value(learner, A, 2) == expected
    assert value(learner, A, 5) == 0
    assert np.isnan(value(learner, A, 0))


def test_the_step_size_decays_with_the_visits_of_an_entry():
    learner = build(step_size=1.0, step_size_power=1.0)  # then the value is the mean of what was met
    for reward in (1, -1, 0, 1):
        learner.update(transition(A, 2, A, reward=reward, discount=0))
    assert value(learner, A, 2) == pytest.approx(0.25)


@pytest.mark.parametrize(("discount", "expected"), [(1.0, 0.9 * 0.5), (-1.0, -0.9 * 0.5)])
def test_the_target_is_the_signed_value_of_the_best_next_move(discount, expected):
    learner = build(step_size=1.0, step_size_power=0.0, gamma=0.9)
    for action, reward in ((2, 0.5), (5, -0.5)):
        learner.update(transition(A, action, A, reward=reward, discount=0))
    learner.update(transition(B, 1, A, discount=discount))
    assert value(learner, B, 1) == pytest.approx(expected)


def test_the_best_next_value_may_be_negative():
    learner = build(step_size=1.0, step_size_power=0.0)
    full = "oxo/xxo/o.x o"
    learner.update(transition(full, 7, full, reward=-1, discount=0))
    learner.update(transition("oxo/xxo/..x o", 6, full))
    assert value(learner, "oxo/xxo/..x o", 6) == -1


@pytest.mark.parametrize("values", ["action", "afterstate"])
def test_the_chosen_target_is_the_value_of_the_move_played(values):
    learner = build(step_size=1.0, step_size_power=0.0, target="sarsa", values=values)
    learner.update(transition(A, 2, A, reward=1, discount=0))
    learner.update(transition(A, 5, A, reward=-1, discount=0))
    learner.update(transition(B, 1, A, next_action=5))
    assert value(learner, B, 1) == -1


def test_the_chosen_move_may_be_the_first_cell():
    learner = build(step_size=1.0, step_size_power=0.0, target="sarsa")
    after = ".xx/.oo/... o"
    for action, reward in ((3, 1), (0, -1)):
        learner.update(transition(after, action, after, reward=reward, discount=0))
    learner.update(transition(".xx/..o/... o", 4, after, next_action=0))
    assert value(learner, ".xx/..o/... o", 4) == -1


LINE = Game(1, 3, 2)
"""Three cells in a row, of which two neighbours win."""


def teach(learner, *moves):
    """Learn from moves (before, action, after or None, reward or discount), in order."""
    for before, action, after, number in moves:
        if after is None:
            learner.update(transition(before, action, before, reward=number, discount=0))
        else:
            learner.update(transition(before, action, after, discount=number))


@pytest.mark.parametrize("values", ["action", "afterstate"])
def test_a_game_of_three_moves_by_hand_ply_by_ply(values):
    """The player in the middle wins: the last move has value 1, the one before -1 to the opponent."""
    learner = build(LINE, backup="negamax", values=values, step_size=0.5, step_size_power=0.0)
    game = [("... o", 1, ".o. x", -1), (".o. x", 0, "xo. o", -1), ("xo. o", 2, None, 1)]
    for first, second, third in ((0, 0, 0.5), (0, -0.25, 0.75), (0, -0.5, 0.875)):
        teach(learner, *game)
        assert value(learner, "xo. o", 2) == third
        assert value(learner, ".o. x", 0) == second  # half the way to minus the last one's value then
        assert value(learner, "... o", 1) == first  # the opponent has still a move of value 0
    # at the other end the opponent loses as well
    other = [("... o", 1, ".o. x", -1), (".o. x", 2, ".ox o", -1), (".ox o", 0, None, 1)]
    for first, second, third in ((0, 0, 0.5), (0, -0.25, 0.75), (0.125, -0.5, 0.875)):
        teach(learner, *other)
        assert value(learner, ".ox o", 0) == third
        assert value(learner, ".o. x", 2) == second
        assert value(learner, "... o", 1) == first  # third time: (0 + 0.25) / 2
    assert learner.values(Boards.from_positions([from_text(".o. x")]))[0] == -0.5


@pytest.mark.parametrize("values", ["action", "afterstate"])
def test_a_skip_by_hand_ply_by_ply(values):
    """After the skip the mover wins: its next value counts for it, and the opponent's against it."""
    learner = build(LINE, backup="negamax", values=values, step_size=0.5, step_size_power=0.0)
    skipped = [("... o", 0, "o.. o", 1), ("o.. o", 1, None, 1)]
    teach(learner, *skipped, *skipped)
    assert value(learner, "o.. o", 1) == 0.75
    assert value(learner, "... o", 0) == 0.25  # (0 + 0.5) / 2
    # without a skip the opponent takes the middle, is skipped to, and wins
    lost = [("... o", 0, "o.. x", -1), ("o.. x", 1, "ox. x", 1), ("ox. x", 2, None, 1)]
    teach(learner, *lost)
    assert value(learner, "... o", 0) == 0.125  # (0.25 - 0) / 2
    teach(learner, *lost)
    assert value(learner, "ox. x", 2) == 0.75
    assert value(learner, "o.. x", 1) == 0.25
    assert value(learner, "... o", 0) == 0.0625
    teach(learner, *lost)
    assert value(learner, "... o", 0) == (0.0625 - 0.25) / 2


@pytest.mark.parametrize("values", ["action", "afterstate"])
@pytest.mark.parametrize(
    ("rewards", "won", "lost", "drawn"), [("unit", 0.5, -0.5, 0.0), ("report", 0.75, 0.25, 0.5)], ids=["unit", "report"]
)
def test_a_game_by_hand_from_own_turn_to_own_turn(values, rewards, won, lost, drawn):
    """The loss by the opponent's winning move is the final reward of the last own move."""
    learner = build(LINE, values=values, rewards=rewards, step_size=0.5, step_size_power=0.0)
    teach(learner, (".o. x", 0, None, -1), ("... o", 1, "xo. o", 1), ("xo. o", 2, None, 1))
    assert value(learner, "xo. o", 2) == won
    assert value(learner, ".o. x", 0) == lost
    assert value(learner, ".o. x", 2) == drawn  # never made
    assert value(learner, "... o", 1) == drawn  # half the way to the value of a draw
    teach(learner, ("... o", 1, "xo. o", 1))
    assert value(learner, "... o", 1) == (drawn + won) / 2
    assert build(LINE, rewards=rewards).values(Boards.start(LINE))[0] == drawn


def test_moves_to_the_same_afterstate_share_a_value():
    learner = build(values="afterstate", step_size=0.5, step_size_power=0.0)
    teach(learner, ("o../.../... o", 1, None, 1))
    assert value(learner, ".o./.../... o", 0) == 0.5
    assert value(learner, "o../.../... o", 1) == 0.5
    assert value(learner, "xx./.../... x", 2) == 0
    assert value(learner, ".x./.../... x", 0) == 0.5  # as the other player sees it
    assert learner.table.size == 1


@pytest.mark.parametrize("game", [Game(), Game(6, 7, 4)], ids=str)
@pytest.mark.parametrize("values", ["action", "afterstate"])
@pytest.mark.parametrize("which", ["none", "rotations", "all"])
def test_symmetric_positions_share_an_entry(game, which, values):
    learner = build(game, symmetries=which, values=values, step_size=0.5, step_size_power=0.0)
    board = np.zeros((1, game.cells), np.int8)
    board[0, [0, game.cells - 2]] = 1, 2
    boards, action = Boards(board, np.zeros(1, np.int8)), game.cells - 1
    numbers = np.array([action]), np.ones(1), np.zeros(1)
    learner.update(Transition(np.zeros(1, np.int64), boards, *numbers, boards, np.array([-1])))
    assert learner.table.size == 1
    images = symmetries(game, which)
    turned = learner.action_values(Boards(board[0, images], np.zeros(len(images), np.int8)))
    assert_array_equal(turned[np.arange(len(images)), inverse(images)[:, action]], 0.5)
    assert np.nansum(turned) == 0.5 * len(images)


@pytest.mark.parametrize("game", [Game(), Game(2, 18, 3), Game(6, 7, 4), Game(7, 10, 5)], ids=str)
@given(data=st.data())
def test_keys_are_exact(game, data):
    """A table is a dictionary of (board, action), or of the board after it, on boards of 1 to 3 words."""
    cells = st.integers(0, game.cells - 1)
    moves = data.draw(st.lists(st.tuples(st.lists(cells, max_size=6, unique=True), cells), min_size=1, max_size=8))
    for afterstates in (False, True):
        table, reference = Table(game, "none", afterstates, 0.0, 1 << 26).memory, {}
        for learns in (True, False):
            for number, (stones, action) in enumerate(moves):
                board = np.zeros(game.cells, np.int8)
                board[stones], board[action] = np.arange(len(stones)) % 2 + 1, 0
                sum_stones(board, table)
                board[action] = afterstates
                key = board.tobytes(), None if afterstates else action
                if learns:
                    reference[key] = number
                    write_key(action, table)
                    learn(table.key, float(number), StepSizes.of(1.0, 0.0), table)
                assert value_of(action, table) == reference[key]
        assert table.size[0] == len(reference)


def test_values_stay_when_the_table_grows():
    learner = build(Game(4, 4, 4))
    Trainer(learner, "random", 100, batch=10).run()
    before = learner.state
    learner.table.reserve(100_000)
    assert_same_arrays(before, learner.state)
    assert len(learner.table.memory.keys) >= 200_000


@pytest.mark.parametrize(
    "config",
    [QLearningConfig(memory=0.001), QLearningConfig(memory=0.001, values="afterstate"), NaiveMCConfig(memory=0.001)],
    ids=str,
)
def test_a_full_table_is_reported(config):
    learner = config.build(Game(5, 5, 4), np.random.default_rng(0))
    with pytest.raises(MemoryError, match=r"may take 1 MiB: give more with memory="):
        Trainer(learner, "random", 4000, batch=64).run()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("values", ["action", "afterstate"])
@pytest.mark.parametrize(("skip_chance", "bound"), [(0.0, 0.0), (0.25, 0.01)])
def test_learning_ply_by_ply_reaches_perfect_play(skip_chance, bound, values, seed):
    game = Game(skip_chance=skip_chance)
    learner = build(game, backup="negamax", symmetries="all", values=values)
    Trainer(learner, "self", 1_000_000, batch=256, seed=seed).run()
    assert exploitability(game, learner) <= bound
