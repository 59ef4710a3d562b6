"""An actor-critic in JAX on the arrays of a game, in self-play: an update, with its games, is one
function.

Values are the mover's. The value of the next position counts with the sign of who moves there: -1
the other player, +1 the same player after a skipped turn, 0 if the game is over.

    pip install flax optax
    python examples/arrays/actor_critic_jax.py --updates 4000
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import tyro
from flax import linen
from flax.training.train_state import TrainState

from ttt_envs import Game, as_policy
from ttt_envs.arrays import game_arrays
from ttt_eval.exact import exploitability

GAMES = 256
STEPS = 8
LAMBDA = 0.95


class Net(linen.Module):
    """The actor and the critic."""

    @linen.compact
    def __call__(self, observations, legal):
        """Return the log-probabilities of actions, and values."""
        hidden = linen.relu(linen.Dense(64)(observations))
        hidden = linen.relu(linen.Dense(64)(hidden))
        logits = jnp.where(legal, linen.Dense(legal.shape[-1])(hidden), -1e8)
        return jax.nn.log_softmax(logits), linen.Dense(1)(hidden)[..., 0]


def play(params, arrays, state, key):
    """Make one move in each game; return the next states and what was seen."""
    action_key, skip_key = jax.random.split(key)
    log_probs, value = Net().apply(params, arrays.observations[state], arrays.legal[state])
    action = jax.random.categorical(action_key, log_probs)
    skipped = jax.random.bernoulli(skip_key, arrays.skip_chance, state.shape).astype(jnp.int32)
    next_state = arrays.next[state, action, skipped]
    is_over = next_state == arrays.over
    sign = jnp.where(is_over, 0.0, 2.0 * skipped - 1.0)
    log_prob = log_probs[jnp.arange(len(action)), action]
    entropy = -(jnp.exp(log_probs) * log_probs).sum(axis=1)
    reward = 1.0 * arrays.rewards[state, action]
    return jnp.where(is_over, 0, next_state), (value, reward, sign, log_prob, entropy)


def estimate_advantage(following, step):
    """Make a step back of generalized advantage estimation."""
    value, reward, sign = step
    advantage = reward + sign * (following[0] + LAMBDA * following[1]) - value
    return (value, advantage), advantage


def loss(params, arrays, state, key):
    """Return the loss of ``STEPS`` moves in each game, and the next states."""
    keys = jax.random.split(key, STEPS)
    state, (values, *others, log_probs, entropies) = jax.lax.scan(
        partial(play, params, arrays), state, keys
    )
    _, next_value = Net().apply(params, arrays.observations[state], arrays.legal[state])
    steps = jax.lax.stop_gradient((values, *others))
    start = jax.lax.stop_gradient(next_value), jnp.zeros(GAMES)
    _, advantages = jax.lax.scan(estimate_advantage, start, steps, reverse=True)
    errors = values - steps[0] - advantages
    return (0.5 * errors**2 - advantages * log_probs - 0.05 * entropies).mean(), state


@jax.jit
def update(arrays, learner, state, key):
    """Play, and learn from it."""
    gradient, state = jax.grad(loss, has_aux=True)(learner.params, arrays, state, key)
    return learner.apply_gradients(grads=gradient), state


def train(updates, game, seed=0):
    """Train, and return the policy."""
    arrays = jax.tree.map(jnp.asarray, game_arrays(game))
    state = jnp.zeros(GAMES, jnp.int32)
    net_key, key = jax.random.split(jax.random.key(seed))
    params = Net().init(net_key, arrays.observations[state], arrays.legal[state])
    learner = TrainState.create(apply_fn=None, params=params, tx=optax.adam(2e-3))
    for update_key in jax.random.split(key, updates):
        learner, state = update(arrays, learner, state, update_key)
    net = jax.jit(partial(Net().apply, learner.params))
    return as_policy(lambda o, m: np.asarray(net(o, m == 1)[0]), game, returns="logits", batch=True)


def main(updates: int = 4000):
    """Train in self-play with skips, and measure.

    Args:
        updates: of 2,048 moves each.
    """
    game = Game(skip_chance=0.25)
    print(f"exploitability: {exploitability(game, train(updates, game)):.4f}")


if __name__ == "__main__":
    tyro.cli(main, description=__doc__)
