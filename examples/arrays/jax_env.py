"""An environment in JAX, from the arrays of a game: a pure function, to be jitted, mapped and
scanned, on any device.

A game that is over begins again in its next step, whatever the action.

    pip install jax
    python examples/arrays/jax_env.py
"""

from functools import partial

import jax
import jax.numpy as jnp

from ttt_envs import Game
from ttt_envs.arrays import game_arrays


def make_step(arrays):
    """Return ``step(state, action, skipped) -> state, reward, over``, for one game or a batch.

    The state is a row of the arrays, so ``observations[state]`` and ``legal[state]`` are what the
    next mover sees.
    """
    num_actions = arrays.legal.shape[1]
    next_states = jnp.asarray(arrays.next.reshape(-1))
    rewards = jnp.asarray(arrays.rewards.reshape(-1))

    def step(state, action, skipped):
        index = state * num_actions + action
        state = next_states[2 * index + skipped]
        return state, rewards[index], state == arrays.over

    return step


@partial(jax.jit, static_argnums=(0, 1, 2))
def play_at_random(game, num_games, num_steps, key):
    """Return the number of games that end, and of those that end by a line."""
    arrays = game_arrays(game)
    step = make_step(arrays)
    legal = jnp.asarray(arrays.legal)

    def play(state, key):
        action_key, skip_key = jax.random.split(key)
        action = jax.random.categorical(action_key, jnp.where(legal[state], 0.0, -jnp.inf))
        skipped = jax.random.bernoulli(skip_key, game.skip_chance, state.shape)
        state, reward, over = step(state, action, skipped.astype(jnp.int32))
        return state, (over.sum(), (reward == 1).sum())

    state = jnp.zeros(num_games, jnp.int32)
    _, (games, wins) = jax.lax.scan(play, state, jax.random.split(key, num_steps))
    return games.sum(), wins.sum()


if __name__ == "__main__":
    games, wins = play_at_random(Game(skip_chance=0.25), 10_000, 100, jax.random.key(1))
    print(f"random play: {games} games, {wins / games:.1%} end by a line")
