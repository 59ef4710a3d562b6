"""Games side by side beneath both environments and the loops; what environments make of it is tested with them."""

import copy
import pickle

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from ttt_envs import Game, Position
from ttt_envs.envs.lockstep import SELF, Lockstep, StepOutput
from ttt_envs.game.rules import NOT_OVER, Outcome


def games_of(game=None, count=5, opponent="random", seat="alternate", illegal="raise", symmetry="none", seed=0):
    games = Lockstep(game or Game(skip_chance=0.25), count, opponent, seat, illegal, symmetry)
    games.seed(np.arange(count), np.arange(seed, seed + count, dtype=np.uint64))
    games.begin(np.arange(count))
    return games


def play(games, steps, seed=0):
    """All that is shown and told, by a caller who moves at random."""
    rng, seen = np.random.default_rng(seed), []
    for _ in range(steps):
        shown = games.shown()
        games.step((rng.random(shown.mask.shape) * shown.mask).argmax(axis=1), True, shown)
        seen.append([*(array.copy() for array in shown[:5]), games.infos()])
    return seen


def assert_same(seen, others):
    for one, other in zip(seen, others, strict=True):
        for array, expected in zip(one, other, strict=True):
            assert_array_equal(array, expected)


@pytest.mark.parametrize("game", [Game(skip_chance=0.25), Game(8, 9, 4, 0.25)], ids=str)
@pytest.mark.parametrize("opponent", ["random", "win-or-block", SELF])
@pytest.mark.parametrize("symmetry", ["none", "random"])
def test_a_game_does_not_depend_on_those_beside_it(game, opponent, symmetry):
    """Game i of five is the game alone with its key."""
    together = games_of(game, 5, opponent, symmetry=symmetry)
    alone = [games_of(game, 1, opponent, symmetry=symmetry, seed=row) for row in range(5)]
    rng, ended = np.random.default_rng(0), 0
    for _ in range(80):
        shown = together.shown()
        actions = (rng.random(shown.mask.shape) * shown.mask).argmax(axis=1)
        ended += together.step(actions, True, shown)
        for row, one in enumerate(alone):
            out = one.shown()
            one.step(actions[row : row + 1], True, out)
            for array, expected in zip(out[:5], shown[:5], strict=True):
                assert_array_equal(array[0], expected[row])
            assert_array_equal(one.infos()[:, 0], together.infos()[:, row])
    assert ended > 5


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda games: pickle.loads(pickle.dumps(games))])
def test_a_copy_goes_on_alike_and_shares_nothing(copied):
    games = games_of()
    play(games, 7)
    other = copied(games)
    before = other.clone(include_rng=True)
    seen = play(games, 30)
    for name, value in other.clone(include_rng=True).items():
        assert_array_equal(value, before[name])
    assert_same(play(other, 30), seen)


def test_a_state_that_is_restored_goes_on_alike_and_with_other_keys_otherwise():
    games = games_of()
    play(games, 7)
    state = games.clone(include_rng=True)
    seen = play(games, 30)
    again = games_of(seed=100)
    again.restore(state, None)
    assert_same(play(again, 30), seen)
    games.restore(state, np.arange(50, 55, dtype=np.uint64))
    assert any((one[-1] != other[-1]).any() for one, other in zip(play(games, 30), seen, strict=True))
    without = games.clone(include_rng=False)
    assert not {"luck", "keys", "episode"} & without.keys()
    with pytest.raises(ValueError, match="this state was cloned without its generator"):
        games.restore(without, None)
    with pytest.raises(ValueError, match="a state of 5 games does not fit 3"):
        games_of(count=3).restore(state, None)


def test_an_episode_may_begin_in_any_position_and_seat():
    games = games_of(count=3, opponent=SELF)
    cells = np.array([1, 0, 0, 0, 2, 0, 0, 0, 0], np.int8)
    games.begin(np.array([0, 2]), Position(cells, 1), 1)
    for row in (0, 2):
        found = games.position(row)
        assert (found.cells.tolist(), found.mover) == (cells.tolist(), 1)
        assert games.stones[row] == 2
    assert games.position(1).cells.tolist() == [0] * 9
    assert games.description(0) is None


def test_an_illegal_action_changes_no_game_where_it_is_refused():
    games = games_of(count=3, seat="second")
    before, shown = games.clone(include_rng=True), games.shown()
    taken = (games.boards().cells != 0).argmax(axis=1)
    actions = shown.mask.argmax(axis=1)
    row = int(np.flatnonzero(games.stones)[-1])  # where the opponent has begun
    for bad in (int(taken[row]), 9, -1):
        actions[row] = bad
        with pytest.raises(ValueError, match=f"{bad}"):
            games.step(actions, True, shown)
        for name, value in games.clone(include_rng=True).items():
            assert_array_equal(value, before[name])


def test_a_game_that_is_ended_begins_anew_in_place_of_a_move():
    games = games_of(count=4, seat="first")
    out = games.shown()
    assert not games.over.any()
    games.end(np.array([True, False, False, True]))
    assert games.over.tolist() == [True, False, False, True]
    games.step(np.full(4, 4), True, out)
    assert games.episode.tolist() == [1, 0, 0, 1]
    assert (games.stones > 0).tolist() == [False, True, True, False]
    assert (out.rewards == 0).all()
    assert not games.over.any()


def test_how_games_end_is_said():
    games = games_of(count=40, opponent=SELF)
    said = set()
    out = games.shown()
    rng = np.random.default_rng(0)
    for _ in range(12):
        games.step((rng.random(out.mask.shape) * games.shown().mask).argmax(axis=1), False, out)
        said |= {games.description(row) for row in range(40) if games.outcome[row] != NOT_OVER}
    assert said <= {outcome.description for outcome in Outcome}
    assert len(said) == 3


def test_outputs_share_the_memory_of_kernels_in_copies_too():
    for shown in (StepOutput.empty(3, 9), pickle.loads(pickle.dumps(StepOutput.empty(3, 9)))):
        for array, memory in zip(shown[:5], (*shown.memory[:1] * 2, *shown.memory[1:], shown.memory[2]), strict=True):
            memory[...] = 0
            array[-1] = 1
            assert memory.any()
