"""The contract of ``ttt_envs.envs.game_batch``: both engines keep it. test_environments.py has
environments over either.
"""

import numpy as np
import pytest
from environment_contract import SCHEDULE
from plain_games import PlainGames

from ttt_envs.envs.config import BoardConfig, EnvConfig
from ttt_envs.envs.engine import make_games
from ttt_envs.envs.game_batch import (
    RANDOM,
    STATE,
    clone_games,
    restore_games,
    seed_games,
)

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
