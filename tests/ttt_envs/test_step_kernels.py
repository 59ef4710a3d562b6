"""The kernels of games side by side, for boards in bits and larger ones, against games read from the whole board."""

import pickle

import numpy as np
import plain
import pytest
from numpy.testing import assert_array_equal

from ttt_envs import Game
from ttt_envs.envs import lockstep, step_kernels
from ttt_envs.envs.lockstep import MAX_CELLS_IN_BITS, SELF, Lockstep, StepOutput
from ttt_envs.game.rules import DRAW, NOT_OVER

GAMES = [Game(3, 3, 3, 0.25), Game(4, 5, 3, 0.1), Game(8, 8, 5, 0.5)]


def new_games(game, count, seed=0):
    games = Lockstep(game, count, SELF, "first", "raise", "none")
    games.seed(np.arange(count), np.random.default_rng(seed).integers(0, 1 << 63, count, dtype=np.uint64))
    games.begin(np.arange(count))
    return games


def test_boards_of_both_kinds_are_tested():
    assert {game.cells <= MAX_CELLS_IN_BITS for game in GAMES} == {True, False}


@pytest.mark.parametrize("count", [1, 7, 8, 9, 63, 64, 128, 1000])
def test_a_row_is_an_odd_number_of_cache_lines_with_room_for_all(count):
    assert step_kernels.stride(count) >= count
    assert step_kernels.stride(count) % 16 == 8


@pytest.mark.parametrize("game", GAMES, ids=str)
def test_boards_are_written_and_read(game):
    boards = plain.positions_of_random_play(game, 50)
    games = new_games(game, 50)
    for row in range(50):
        games.begin(np.array([row]), boards.position(row))
    which = np.random.default_rng(0).permutation(50)[:20]
    for array, expected in zip(games.boards(which), boards.take(which), strict=True):
        assert_array_equal(array, expected)
    assert_array_equal(games.stones, (boards.cells != 0).sum(axis=1))


@pytest.mark.parametrize("game", GAMES, ids=str)
def test_games_agree_with_a_plain_reading(game):
    games, lines, rng = new_games(game, 60), plain.all_lines(game), np.random.default_rng(2)
    others = [plain.Reading(game, lines, int(number)) for number in games.episode_keys]
    out = games.observe_all()
    while not all(other.is_terminal() for other in others):
        actions = (rng.random(out.mask.shape) * out.mask).argmax(axis=1)
        for other, action in zip(others, actions, strict=True):
            if not other.is_terminal():
                other.apply_action(int(action))
        games.step(actions, False, out)
        for row, other in enumerate(others):
            over = other.is_terminal()
            expected = NOT_OVER if not over else DRAW if other.winner is None else other.winner
            assert games.outcome[row] == expected
            assert over or games.mover[row] == other.current_player()
            assert over or np.flatnonzero(out.mask[row]).tolist() == other.legal_actions()
    assert sum(other.skips for other in others) > 10
    assert set(games.outcome.tolist()) >= {0, 1}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("opponent", [SELF, "random", "win-or-block"])
def test_steps_without_observations_are_the_same(opponent, threads, monkeypatch):
    monkeypatch.setattr(lockstep, "MIN_BLOCK_GAMES", 64)
    count = 200
    game = Game(skip_chance=0.25)
    both = [
        Lockstep(game, count, opponent, "random", "lose", "none", threads=threads, observes=observes)
        for observes in (True, False)
    ]
    outs = [one.output() for one in both]
    assert [len(out.planes) for out in outs] == [count, 0]
    rng = np.random.default_rng(3)
    for one, out in zip(both, outs, strict=True):
        one.seed(np.arange(count), np.arange(count, dtype=np.uint64))
        one.begin(np.arange(count), out=out)
    for _ in range(12):
        actions = rng.integers(0, game.cells, count)
        assert len({one.step(actions, True, out) for one, out in zip(both, outs, strict=True)}) == 1
        for array, expected in zip(outs[1][2:5], outs[0][2:5], strict=True):
            assert_array_equal(array, expected)
        assert_array_equal(both[1].infos()[:3], both[0].infos()[:3])  # winners are a part of observations
        assert_array_equal(both[1].boards().cells, both[0].boards().cells)
    copied = pickle.loads(pickle.dumps(outs[1]))
    assert copied.memory[0] is None
    assert_array_equal(copied.rewards, outs[1].rewards)


def test_episode_keys_are_splitmix64_of_key_and_episode():
    games = new_games(Game(), 20)
    for episode in range(3):
        assert games.episode_keys.tolist() == [plain.splitmix64(key, episode) for key in games.keys.tolist()]
        assert (games.episode == episode).all()
        games.begin(np.arange(20))


def test_outputs_share_the_memory_of_kernels_in_copies_too():
    for shown in (StepOutput.empty(3, 9), pickle.loads(pickle.dumps(StepOutput.empty(3, 9)))):
        for array, memory in zip(shown[:5], (*shown.memory[:1] * 2, *shown.memory[1:], shown.memory[2]), strict=True):
            memory[...] = 0
            array[-1] = 1
            assert memory.any()
