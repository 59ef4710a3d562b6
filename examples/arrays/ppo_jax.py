"""PPO in JAX on the arrays of a game, in self-play: an update, with its games, is one function.

Values are the mover's. The value of the next position counts with the sign of who moves there: -1
the other player, +1 the same player after a skipped turn, 0 if the game is over.

    pip install flax optax
    python examples/arrays/ppo_jax.py --updates 150
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

GAMES = 1024
STEPS = 16
EPOCHS = 4
BATCHES = 8
CLIP = 0.2
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


def look(params, arrays, state):
    """Return the log-probabilities of actions, and the values, of positions."""
    return Net().apply(params, arrays.observations[state], arrays.legal[state])


def loss(params, arrays, batch):
    """Return PPO's loss of a batch."""
    state, action, old_log_prob, advantage, target = batch
    log_probs, value = look(params, arrays, state)
    ratio = jnp.exp(log_probs[jnp.arange(len(action)), action] - old_log_prob)
    gain = jnp.minimum(ratio * advantage, jnp.clip(ratio, 1 - CLIP, 1 + CLIP) * advantage)
    entropy = -(jnp.exp(log_probs) * log_probs).sum(axis=1)
    return -(gain + 0.05 * entropy - 0.25 * (value - target) ** 2).mean()


def play(params, arrays, state, key):
    """Make one move in each game; return the next states and what was seen."""
    action_key, skip_key = jax.random.split(key)
    log_probs, value = look(params, arrays, state)
    action = jax.random.categorical(action_key, log_probs)
    skipped = jax.random.bernoulli(skip_key, arrays.skip_chance, state.shape).astype(jnp.int32)
    next_state = arrays.next[state, action, skipped]
    is_over = next_state == arrays.over
    sign = jnp.where(is_over, 0.0, 2.0 * skipped - 1.0)
    log_prob = log_probs[jnp.arange(GAMES), action]
    data = (state, action, log_prob, value, 1.0 * arrays.rewards[state, action], sign)
    return jnp.where(is_over, 0, next_state), data


def estimate_advantage(following, step):
    """Make a step back of generalized advantage estimation."""
    value, reward, sign = step
    advantage = reward + sign * (following[0] + LAMBDA * following[1]) - value
    return (value, advantage), advantage


@jax.jit
def update(arrays, learner, state, key):
    """Play ``STEPS`` moves in each game, and make ``EPOCHS`` passes over them."""
    play_key, epoch_key = jax.random.split(key)
    play_step = partial(play, learner.params, arrays)
    state, data = jax.lax.scan(play_step, state, jax.random.split(play_key, STEPS))
    states, actions, log_probs, values, rewards, signs = data
    start = look(learner.params, arrays, state)[1], jnp.zeros(GAMES)
    _, advantages = jax.lax.scan(estimate_advantage, start, (values, rewards, signs), reverse=True)
    normalized = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    columns = states, actions, log_probs, normalized, advantages + values
    batch = [column.ravel() for column in columns]
    order = [jax.random.permutation(k, GAMES * STEPS) for k in jax.random.split(epoch_key, EPOCHS)]

    def learn(learner, rows):
        gradient = jax.grad(loss)(learner.params, arrays, [column[rows] for column in batch])
        return learner.apply_gradients(grads=gradient), None

    rows = jnp.concatenate(order).reshape(EPOCHS * BATCHES, -1)
    return jax.lax.scan(learn, learner, rows)[0], state


def train(updates, game, seed=0):
    """Train, and return the policy."""
    arrays = jax.tree.map(jnp.asarray, game_arrays(game))
    state = jnp.zeros(GAMES, jnp.int32)
    net_key, key = jax.random.split(jax.random.key(seed))
    params = Net().init(net_key, arrays.observations[state], arrays.legal[state])
    learner = TrainState.create(apply_fn=None, params=params, tx=optax.adam(3e-3))
    for update_key in jax.random.split(key, updates):
        learner, state = update(arrays, learner, state, update_key)
    net = jax.jit(partial(Net().apply, learner.params))
    return as_policy(lambda o, m: np.asarray(net(o, m == 1)[0]), game, returns="logits", batch=True)


def main(updates: int = 150):
    """Train in self-play with skips, and measure.

    Args:
        updates: of 16,384 moves each.
    """
    game = Game(skip_chance=0.25)
    print(f"exploitability: {exploitability(game, train(updates, game)):.4f}")


if __name__ == "__main__":
    tyro.cli(main, description=__doc__)
