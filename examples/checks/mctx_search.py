"""DeepMind's mctx in ``check_search``: three policies, jitted, without a call from compiled code.

Rules and evaluator are arrays over positions, given as parameters: a check compiles each number of
simulations once. A coin that is flipped in ``recurrent_fn`` in place of chance nodes is wrong.

    pip install mctx
    python examples/checks/mctx_search.py
"""

import functools
import os
import time

os.environ.setdefault(
    "XLA_FLAGS", "--xla_backend_optimization_level=0"
)  # compiles in half the time

import jax
import jax.numpy as jnp
import mctx
import numpy as np

from ttt_eval.checks import check_search

RULES = ("next", "reward", "over", "again", "legal")


def logits(params, position):
    return jnp.where(params["legal"][position], jnp.log(params["priors"][position]), -1e9)


def step(params, action, position, again):
    """Return reward, discount, prior logits, value and the next position, as mctx asks for them."""
    over = params["over"][position, action]
    next_position = params["next"][position, action, again.astype(int)]
    return {
        "reward": params["reward"][position, action],
        "discount": jnp.where(over, 0.0, jnp.where(again, 1.0, -1.0)),  # 1: the mover goes on
        "value": params["values"][next_position],
    }, next_position


def recurrent_fn(params, key, action, position):
    again = params["again"][position, action] == 1
    output, next_position = step(params, action, position, again)
    prior_logits = logits(params, next_position)
    return mctx.RecurrentFnOutput(prior_logits=prior_logits, **output), next_position


def flip_coin(params, key, action, position):
    """Draw chance once, when a node is expanded: wrong."""
    again = jax.random.uniform(key, action.shape) < params["again"][position, action]
    output, next_position = step(params, action, position, again)
    prior_logits = logits(params, next_position)
    return mctx.RecurrentFnOutput(prior_logits=prior_logits, **output), next_position


def decision_fn(params, key, action, position):
    """Return the chances of the turn, and the value before it is known."""
    again = params["again"][position, action]
    values = params["values"][params["next"][position, action]]
    expected = again * values[:, 1] - (1 - again) * values[:, 0]
    over = params["over"][position, action]
    afterstate_value = jnp.where(over, params["reward"][position, action], expected)
    chance_logits = jnp.log(jnp.clip(jnp.stack([1 - again, again], axis=1), 1e-9))
    output = mctx.DecisionRecurrentFnOutput(
        chance_logits=chance_logits, afterstate_value=afterstate_value
    )
    return output, (position, action)


def chance_fn(params, key, outcome, afterstate):
    """Give the turn to the other player (outcome 0) or again to the mover (1)."""
    position, action = afterstate
    output, next_position = step(params, action, position, outcome == 1)
    action_logits = logits(params, next_position)
    return mctx.ChanceRecurrentFnOutput(action_logits=action_logits, **output), next_position


@functools.partial(jax.jit, static_argnames=("policy", "functions", "simulations"))
def run(params, position, seed, policy, functions, simulations):
    root = mctx.RootFnOutput(
        prior_logits=logits(params, position), value=params["values"][position], embedding=position
    )
    return policy(
        params, jax.random.PRNGKey(seed), root, *functions,
        num_simulations=simulations, invalid_actions=~params["legal"][position],
    )  # fmt: skip


@functools.cache
def rules(game):
    return {name: jnp.asarray(np.asarray(getattr(game, name))) for name in RULES}


def make_search(policy, *functions, chosen=False):
    """Return a search; ``chosen`` for a policy whose answer is one move, not the visits."""

    def search(game, board, evaluator, simulations, seed):
        params = rules(game)
        params = {
            **params,
            "priors": jnp.asarray(evaluator.priors),
            "values": jnp.asarray(evaluator.values),
        }
        output = run(params, jnp.array([game.index(board)]), seed, policy, functions, simulations)
        summary = output.search_tree.summary()
        action = int(output.action[0])
        if chosen:
            return action, float(summary.qvalues[0, action])
        return np.asarray(summary.visit_counts[0]), float(summary.value[0])

    return search


quiet = {"dirichlet_fraction": 0.0, "temperature": 0.0}
muzero_policy = functools.partial(mctx.muzero_policy, **quiet)
gumbel_policy = functools.partial(mctx.gumbel_muzero_policy, gumbel_scale=0.0)
stochastic_policy = functools.partial(mctx.stochastic_muzero_policy, **quiet)

SEARCHES = {
    "muzero_policy": make_search(muzero_policy, recurrent_fn),
    "gumbel_muzero_policy": make_search(gumbel_policy, recurrent_fn, chosen=True),
    "stochastic_muzero_policy": make_search(stochastic_policy, decision_fn, chance_fn),
    "muzero_policy with a coin": make_search(muzero_policy, flip_coin),
}
GAMES = {
    "muzero_policy": ("plain", "turns"),
    "gumbel_muzero_policy": ("plain", "turns"),
    "stochastic_muzero_policy": ("plain", "turns", "skip"),
    "muzero_policy with a coin": ("skip",),
}

if __name__ == "__main__":
    for name, search in SEARCHES.items():
        for game in GAMES[name]:
            start = time.process_time()
            check = check_search(search, game)
            if not check.ok:
                print(check)
            seconds = time.process_time() - start
            print(f"{name}, {game}: {check.verdict} ({seconds:.1f} CPU s)", flush=True)
