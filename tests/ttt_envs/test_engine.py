"""The engine of simultaneous games, with stones in bits and in cells, against games read from the whole board."""

import copy
import pickle

import numpy as np
import plain
import pytest
from numpy.testing import assert_array_equal

from ttt_envs import Game
from ttt_envs.envs.config import SELF, EnvConfig, game_keywords
from ttt_envs.envs.engine import GameBatch
from ttt_envs.game.bits import MAX_CELLS_IN_BITS
from ttt_envs.game.rules import DRAW, NOT_OVER

GAMES = [Game(3, 3, 3, 0.25), Game(4, 5, 3, 0.1), Game(8, 8, 5, 0.5)]


def new_games(game, count, **settings):
    config = EnvConfig(**game_keywords(game), **{"opponent": SELF, "illegal_action": "raise", **settings})
    games = GameBatch(config, count)
    out = games.output()
    games.reset(np.arange(count), out, keys=np.random.default_rng(0).integers(0, 1 << 63, count, dtype=np.uint64))
    return games, out


def test_boards_of_both_kinds_are_tested():
    assert {game.cells <= MAX_CELLS_IN_BITS for game in GAMES} == {True, False}


@pytest.mark.parametrize("game", GAMES, ids=str)
def test_boards_are_written_and_read(game):
    boards = plain.positions_of_random_play(game, 70)  # more than a block
    games, out = new_games(game, 70)
    for row in range(70):
        games.reset(np.array([row]), out, position=boards.position(row))
    rows = np.random.default_rng(0).permutation(70)[:20]
    for array, expected in zip(games.boards(rows), boards.take(rows), strict=True):
        assert_array_equal(array, expected)
    assert_array_equal(games.column("stones"), (boards.cells != 0).sum(axis=1))


@pytest.mark.parametrize("game", GAMES, ids=str)
def test_games_agree_with_a_plain_reading(game):
    (games, out), lines, rng = new_games(game, 70), plain.all_lines(game), np.random.default_rng(2)
    others = [plain.Reading(game, lines, int(number)) for number in games.column("episode_key")]
    while not all(other.is_terminal() for other in others):
        actions = (rng.random(out.mask.shape) * out.mask).argmax(axis=1)
        for other, action in zip(others, actions, strict=True):
            if not other.is_terminal():
                other.apply_action(int(action))
        games.step(actions, out)
        mover, _, outcome, _ = out.info
        for row, other in enumerate(others):
            over = other.is_terminal()
            expected = NOT_OVER if not over else DRAW if other.winner is None else other.winner
            assert outcome[row] == expected
            assert over or mover[row] == other.current_player()
            assert over or np.flatnonzero(out.mask[row]).tolist() == other.legal_actions()
    assert sum(other.skips for other in others) > 10
    assert set(outcome.tolist()) >= {0, 1}


@pytest.mark.parametrize("size", [3, 8])
@pytest.mark.parametrize("opponent", [SELF, "random", "win-or-block"])
def test_steps_without_observations_are_the_same(opponent, size):
    config = EnvConfig(size, skip_chance=0.25, opponent=opponent, seat="random")
    both = [GameBatch(config, 100, observes=observes) for observes in (True, False)]
    outs = [games.output() for games in both]
    assert [len(out.planes) for out in outs] == [len(out.mask) for out in outs] == [100, 0]
    for games, out in zip(both, outs, strict=True):
        games.reset(np.arange(100), out, keys=np.arange(100, dtype=np.uint64))
    rng = np.random.default_rng(3)
    for _ in range(12):
        actions = rng.integers(0, size * size, 100)
        assert len({games.step(actions, out, begin_over=True) for games, out in zip(both, outs, strict=True)}) == 1
        for name in ("info", "rewards", "flags"):
            assert_array_equal(*(getattr(out, name) for out in outs))
        assert_array_equal(both[1].boards().cells, both[0].boards().cells)


def test_episode_keys_are_splitmix64_of_key_and_episode():
    games, out = new_games(Game(), 20)
    for episode in range(3):
        keys = games.column("key").tolist()
        assert games.column("episode_key").tolist() == [plain.splitmix64(key, episode) for key in keys]
        assert (games.column("episode") == episode).all()
        games.reset(np.arange(20), out)


@pytest.mark.parametrize("copies", [copy.deepcopy, lambda out: pickle.loads(pickle.dumps(out))], ids=["deep", "pickle"])
def test_copies_of_an_output_share_their_memory(copies):
    _, out = new_games(Game(), 3)
    other = copies(out)
    for array in other[1:]:
        other.memory[...] = 0
        array[-1] = 1
        assert other.memory.any()
