"""An environment in JAX, from the arrays of a game: a pure function, to be jitted, mapped and
scanned, on any device; ``ppo_jax.py`` scans one.

A game that is over begins again in its next step, whatever the action.
"""

import jax.numpy as jnp


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
