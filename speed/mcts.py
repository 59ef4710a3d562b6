"""Simulations per second of Monte Carlo tree search, each row beside a peer.

Both sides alternate in one process on one core, for several rounds. The ratio is taken within each
round, so that a slow moment of the machine affects both. A rate is simulations per second of the
process's CPU time; kernels and graphs are compiled before. Searches start at the empty board.
Beside OpenSpiel both evaluate a leaf by one random rollout, and select by UCB1 there and PUCT with
equal priors here; in the row "decisive" each side propagates solved values. Beside mctx ours does
more: mctx evaluates a leaf by a random number, ours plays a game to the end.

    python speed/mcts.py [--quick] [--rounds N] [--only NAME,...] [--json FILE]
"""

from __future__ import annotations

import os
from functools import partial
from typing import Any

from measuring import Benchmark, Row, Stretch, rate, run, time_work

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import numpy as np

from baselines.mcts import MCTS, MCTSSearch
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game

PACKAGES = ("numpy", "numba", "open_spiel", "pgx", "mctx", "jax")
C = 1.4
BATCH = 256


# --------------------------------------------------------------------------------------------------
# Both sides


def ours(game: Game, simulations: int, decisive: bool = False, count: int = 1) -> Stretch:
    """Return searches of ``count`` empty boards."""
    boards = Boards.start(game, count)
    rng = np.random.default_rng(0)

    def think() -> int:
        search = MCTSSearch(
            game, boards, rng.integers(0, 1 << 64, count, np.uint64), c=C, decisive=decisive
        )
        search.run(simulations)
        return count * simulations

    return time_work(think)


def our_moves(game: Game, simulations: int) -> Stretch:
    """Return whole moves of the default policy, one position at a time."""
    policy = MCTS(game, simulations)
    boards = Boards.start(game)
    rng = np.random.default_rng(0)

    def think() -> int:
        policy.probabilities(boards, rng)
        return simulations

    return time_work(think)


def open_spiel(name: str, simulations: int, solve: bool = False) -> Stretch:
    """Return OpenSpiel's search in C++."""
    import pyspiel

    game = pyspiel.load_game(name)
    evaluator = pyspiel.RandomRolloutEvaluator(1, 0)
    bot = pyspiel.MCTSBot(game, evaluator, C, simulations, 1000, solve, 0, False)
    state = game.new_initial_state()

    def think() -> int:
        bot.mcts_search(state)
        return simulations

    return time_work(think)


def mctx_pgx(name: str, simulations: int) -> Stretch:
    """Return ``mctx.muzero_policy`` or ``mctx.gumbel_muzero_policy`` over pgx's tic-tac-toe: equal
    priors, random values.
    """
    import jax
    import jax.numpy as jnp
    import mctx
    import pgx

    env = pgx.make("tic_tac_toe")
    step = jax.vmap(env.step)

    def logits(state: Any) -> Any:
        return jnp.where(state.legal_action_mask, 0.0, -1e9)

    def follow(_: Any, key: Any, action: Any, state: Any) -> Any:
        mover = state.current_player
        state = step(state, action)
        value = jax.random.uniform(key, (BATCH,), minval=-1, maxval=1)
        output = mctx.RecurrentFnOutput(
            reward=state.rewards[jnp.arange(BATCH), mover],
            discount=jnp.where(state.terminated, 0.0, -1.0),
            prior_logits=logits(state),
            value=jnp.where(state.terminated, 0.0, value),
        )
        return output, state

    def search(key: Any, state: Any) -> Any:
        root = mctx.RootFnOutput(
            prior_logits=logits(state), value=jnp.zeros(BATCH), embedding=state
        )
        output = getattr(mctx, name)(
            params=(),
            rng_key=key,
            root=root,
            recurrent_fn=follow,
            num_simulations=simulations,
            invalid_actions=~state.legal_action_mask,
        )
        return output.action_weights

    compiled = jax.jit(search)
    state = jax.jit(jax.vmap(env.init))(jax.random.split(jax.random.key(0), BATCH))
    keys = iter(np.arange(1 << 30))

    def think() -> int:
        np.asarray(compiled(jax.random.key(next(keys)), state))
        return BATCH * simulations

    return time_work(think)


# --------------------------------------------------------------------------------------------------
# Rows


MNK = Game(5, 5, 4)
ROWS = (
    Row(
        "mcts-3x3",
        "3 x 3, 10,000 simulations",
        "OpenSpiel MCTSBot, tic_tac_toe",
        1,
        partial(ours, Game(), 10_000),
        partial(open_spiel, "tic_tac_toe", 10_000),
    ),
    Row(
        "mcts-3x3-move",
        "3 x 3, moves of 200 simulations, decisive",
        "OpenSpiel MCTSBot, tic_tac_toe, solve",
        1,
        partial(our_moves, Game(), 200),
        partial(open_spiel, "tic_tac_toe", 200, True),
    ),
    Row(
        "mcts-5x5",
        "5 x 5, 4 to win, 1,000 simulations",
        "OpenSpiel MCTSBot, mnk(m=5,n=5,k=4)",
        20,
        partial(ours, MNK, 1000),
        partial(open_spiel, "mnk(m=5,n=5,k=4)", 1000),
    ),
    Row(
        "mcts-5x5-decisive",
        "the same, decisive",
        "OpenSpiel MCTSBot, mnk(m=5,n=5,k=4), solve",
        20,
        partial(ours, MNK, 1000, True),
        partial(open_spiel, "mnk(m=5,n=5,k=4)", 1000, True),
    ),
    *(
        Row(
            f"mcts-256-{policy.split('_')[0]}",
            "3 x 3, 256 positions, 128 simulations",
            f"mctx {policy} on pgx",
            3,
            partial(ours, Game(), 128, count=BATCH),
            partial(mctx_pgx, policy, 128),
        )
        for policy in ("muzero_policy", "gumbel_muzero_policy")
    ),
)


BENCHMARK = Benchmark(about=str(__doc__), packages=PACKAGES, unit=rate("sims/s"), rows=ROWS)


if __name__ == "__main__":
    run(BENCHMARK)
