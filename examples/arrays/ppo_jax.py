"""PPO in JAX on the arrays of a game, in self-play: an update, with its games, is one function.

Values are the mover's. The value of the next position counts with the sign of who moves there: -1
the other player, +1 the same player after a skipped turn, 0 if the game is over.

    pip install jax optax
    python examples/arrays/ppo_jax.py --updates 150
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import tyro

from ttt_envs import Game, as_policy
from ttt_envs.arrays import game_arrays
from ttt_eval.exact import exploitability

GAMES = 1024
STEPS = 16
EPOCHS = 4
BATCHES = 8
CLIP = 0.2
LAMBDA = 0.95
OPTIMIZER = optax.adam(3e-3)


def make_net(key, sizes):
    """Return the weights and biases of a net."""
    shapes = zip(jax.random.split(key, len(sizes) - 1), sizes[:-1], sizes[1:], strict=True)
    return [(jax.random.normal(k, (n, m)) * jnp.sqrt(2 / n), jnp.zeros(m)) for k, n, m in shapes]


def apply(net, x, legal):
    """Return the log-probabilities of actions, and values, given observations."""
    for weights, bias in net[:-1]:
        x = jax.nn.relu(x @ weights + bias)
    out = x @ net[-1][0] + net[-1][1]
    return jax.nn.log_softmax(jnp.where(legal, out[..., :-1], -1e8)), out[..., -1]


def loss(net, arrays, batch):
    """Return PPO's loss of a batch."""
    state, action, old_log_prob, advantage, target = batch
    legal = arrays.legal[state]
    log_probs, value = apply(net, arrays.observations[state], legal)
    log_prob = jnp.take_along_axis(log_probs, action[:, None], 1)[:, 0]
    ratio = jnp.exp(log_prob - old_log_prob)
    gain = jnp.minimum(ratio * advantage, jnp.clip(ratio, 1 - CLIP, 1 + CLIP) * advantage)
    entropy = -(jnp.exp(log_probs) * jnp.where(legal, log_probs, 0)).sum(1)
    return -(gain + 0.05 * entropy - 0.25 * (value - target) ** 2).mean()


def play(net, arrays, state, key):
    """Make one move in each game; return the next states and what was seen."""
    action_key, skip_key = jax.random.split(key)
    log_probs, value = apply(net, arrays.observations[state], arrays.legal[state])
    action = jax.random.categorical(action_key, log_probs)
    skipped = jax.random.bernoulli(skip_key, arrays.skip_chance, state.shape).astype(jnp.int32)
    next_state = arrays.next[state, action, skipped]
    is_over = next_state == arrays.over
    sign = jnp.where(is_over, 0.0, 2.0 * skipped - 1.0)
    log_prob = jnp.take_along_axis(log_probs, action[:, None], 1)[:, 0]
    data = (state, action, log_prob, value, 1.0 * arrays.rewards[state, action], sign)
    return jnp.where(is_over, 0, next_state), data


def estimate_advantage(following, step):
    """Make a step back of generalized advantage estimation."""
    value, reward, sign = step
    advantage = reward + sign * (following[0] + LAMBDA * following[1]) - value
    return (value, advantage), advantage


@jax.jit
def update(arrays, net, optimizer_state, state, key):
    """Play ``STEPS`` moves in each game, and make ``EPOCHS`` passes over them."""
    key, play_key, epoch_key = jax.random.split(key, 3)
    play_step = partial(play, net, arrays)
    state, data = jax.lax.scan(play_step, state, jax.random.split(play_key, STEPS))
    states, actions, log_probs, values, rewards, signs = data
    start = apply(net, arrays.observations[state], arrays.legal[state])[1], jnp.zeros(GAMES)
    _, advantages = jax.lax.scan(estimate_advantage, start, (values, rewards, signs), reverse=True)
    normalized = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    parts = states, actions, log_probs, normalized, advantages + values
    order = [jax.random.permutation(k, GAMES * STEPS) for k in jax.random.split(epoch_key, EPOCHS)]
    rows = jnp.concatenate(order).reshape(EPOCHS * BATCHES, -1)

    def learn(carry, rows):
        net, optimizer_state = carry
        gradient = jax.grad(loss)(net, arrays, [part.reshape(-1)[rows] for part in parts])
        changes, optimizer_state = OPTIMIZER.update(gradient, optimizer_state)
        return (optax.apply_updates(net, changes), optimizer_state), None

    (net, optimizer_state), _ = jax.lax.scan(learn, (net, optimizer_state), rows)
    return net, optimizer_state, state, key


def train(updates, game, seed=0):
    """Train, and return the policy."""
    arrays = jax.tree.map(jnp.asarray, game_arrays(game))
    net_key, key = jax.random.split(jax.random.key(seed))
    net = make_net(net_key, (2 * game.cells, 64, 64, arrays.legal.shape[1] + 1))
    training = net, OPTIMIZER.init(net), jnp.zeros(GAMES, jnp.int32), key
    for _ in range(updates):
        training = update(arrays, *training)
    forward = jax.jit(lambda observations, masks: apply(training[0], observations, masks == 1)[0])
    return as_policy(lambda o, m: np.asarray(forward(o, m)), game, returns="logits", batch=True)


def main(updates: int = 150):
    """Train in self-play with skips, and measure.

    Args:
        updates: of 16,384 moves each.
    """
    game = Game(skip_chance=0.25)
    print(f"exploitability: {exploitability(game, train(updates, game)):.4f}")


if __name__ == "__main__":
    tyro.cli(main, description=__doc__)
