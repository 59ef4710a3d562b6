"""The contract of ``ttt_envs.envs.game_batch``: both engines keep it. test_environments.py has
environments over either.
"""

import numpy as np
import pytest
from environment_contract import SCHEDULE
from plain_games import ENGINES, PlainGames

from ttt_envs.envs.config import BoardConfig, EnvConfig
from ttt_envs.envs.engine import make_games
from ttt_envs.envs.game_batch import (
    RANDOM,
    STATE,
    clone_games,
    pack_result,
    restore_games,
    seed_games,
    unpack_result,
)
from ttt_envs.game.boards import from_text

NUM_GAMES = 3
ROWS = np.arange(NUM_GAMES)


def all_arrays(games, out):
    """What two engines must agree on: outputs, columns and copies."""
    names = ("planes", "mask", "info", "rewards", "flags", "views")
    columns = {name: games.column(name) for name in (*STATE, *RANDOM, "begins", "illegal")}
    return [out[name] for name in names], columns, clone_games(games, include_rng=True)


def equal_arrays(first, second):
    np.testing.assert_equal(first, second)


CONFIGS = [
    BoardConfig(size=(4, 3), skip_chance=0.25),
    BoardConfig(size=(8, 9), win_length=4, gravity=True, symmetry="random"),
    BoardConfig(phantom="abrupt", first_player="random"),
    EnvConfig(illegal_action="penalize", opponent="self", symmetry="random"),
    EnvConfig(illegal_action="raise", misere=True, seat="alternate", skip_chance=(0, 0.5)),
    EnvConfig(size=8, win_length=3, illegal_action="lose", seat="random", torus=True),
    EnvConfig(phantom="classic", illegal_action="penalize", opponent=SCHEDULE[:2]),
    EnvConfig(phantom="classic", size=4, illegal_action="raise", opponent="self"),
]


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: str(config.game))
@pytest.mark.parametrize("begin_over", [False, True])
def test_engines_agree_on_every_step(config, begin_over):
    """Random actions, some out of range; resets of some games; states of the other engine."""
    pair = [make_games(config, NUM_GAMES), PlainGames(config, NUM_GAMES)]
    outs = [games.output() for games in pair]
    for out in outs:  # that a reset does not write
        out["rewards"][:] = 0
        out["flags"][:] = False
    for games, out in zip(pair, outs, strict=True):
        seed_games(games, ROWS, ROWS.astype(np.uint64))
        games.reset(ROWS, out)
    rng = np.random.default_rng(0)
    num_refused = 0
    for step in range(150):
        equal_arrays(*map(all_arrays, pair, outs))
        equal_arrays(*(games.views(ROWS) for games in pair))
        if step % 25 == 24:
            rows = rng.permutation(ROWS)[:2]
            for games, out in zip(pair, outs, strict=True):
                games.reset(rows, out)
            continue
        if step % 25 == 12:
            states = [clone_games(games, include_rng=True) for games in pair]
            for games, state, out in zip(pair, reversed(states), outs, strict=True):
                restore_games(games, state)
                games.observe(out)
        legal = [rng.choice(np.flatnonzero(mask)) for mask in outs[0]["mask"]]
        any_actions = rng.integers(-1, len(outs[0]["mask"][0]) + 1, NUM_GAMES)
        actions = np.where(rng.random(NUM_GAMES) < 0.1, any_actions, legal)
        results = []
        for games, out in zip(pair, outs, strict=True):
            try:
                results.append(games.step(actions, out, begin_over=begin_over))
            except ValueError as problem:
                results.append(str(problem))
        num_refused += isinstance(results[0], str)
        assert results[0] == results[1]
    assert num_refused > 0 or not begin_over  # else all games are soon over


@pytest.mark.parametrize("make", ENGINES)
def test_a_reset_to_a_position_and_a_seat_lets_the_opponent_reply(make):
    games = make(EnvConfig(), NUM_GAMES)
    position = from_text("ox./.../..o x")
    out = games.output()
    games.reset(ROWS, out, position=position, seat=0)
    assert (games.column("stones") == 4).all()
    assert (out["seat"] == 0).all()
    assert (out["planes"][:, 0] == (position.cells == 1)).all()


@pytest.mark.parametrize("make", ENGINES)
@pytest.mark.parametrize("size", [3, 8])
def test_a_result_in_one_number_has_the_mover_and_the_outcome(make, size):
    games = make(BoardConfig(size=size, win_length=3), 1)
    out = games.output()
    games.reset(np.zeros(1, np.int64), out)
    results = [unpack_result(games.step_one(action, out)) for action in (0, size, 1, size + 1, 2)]
    assert results == [(1, -1), (0, -1), (1, -1), (0, -1), (0, 0)]
    assert unpack_result(games.step_one(2, games.output())) == (0, 0)  # the game is over
    assert all(
        unpack_result(pack_result(mover, outcome)) == (mover, outcome)
        for mover in (0, 1)
        for outcome in range(-1, 6)
    )
