"""DeepMind's mctx in ``check_search``: three policies, jitted, and no call from compiled code.

    pip install mctx
    python evaluate.py check search examples.checks.mctx_search:muzero
    python evaluate.py check search examples.checks.mctx_search:stochastic --simulations 100 1000

Rules and evaluator are arrays over positions, given as parameters, so that a check compiles each
number of simulations once. ``muzero`` and ``gumbel`` are wrong in the game "skip", where
``recurrent_fn`` flips a coin in place of chance nodes. ``stochastic`` has chance nodes, which take
half of the simulations.
"""

import functools
import os

# compiles in half of the time
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

import jax
import jax.numpy as jnp
import mctx

RULES = ("next", "reward", "over", "again", "legal")
WITHOUT_NOISE = {"dirichlet_fraction": 0.0, "temperature": 0.0}


def logits(params, position):
    return jnp.where(params["legal"][position], jnp.log(params["priors"][position]), -1e9)


def step(params, action, position, again):
    """Return what mctx asks for about a move, and the next position."""
    over = params["over"][position, action]
    next_position = params["next"][position, action, again.astype(int)]
    return {
        "reward": params["reward"][position, action],
        "discount": jnp.where(over, 0.0, jnp.where(again, 1.0, -1.0)),  # 1: the mover goes on
        "value": params["values"][next_position],
    }, next_position


def recurrent_fn(params, key, action, position):
    """Draw chance once, when a node is expanded: right only where nothing is left to chance."""
    again = jax.random.uniform(key, action.shape) < params["again"][position, action]
    output, next_position = step(params, action, position, again)
    output["prior_logits"] = logits(params, next_position)
    return mctx.RecurrentFnOutput(**output), next_position


def decision_fn(params, key, action, position):
    """Return the chances of the turn, and the value before it is known."""
    again = params["again"][position, action]
    values = params["values"][params["next"][position, action]]
    expected = again * values[:, 1] - (1 - again) * values[:, 0]
    over = params["over"][position, action]
    return mctx.DecisionRecurrentFnOutput(
        chance_logits=jnp.log(jnp.clip(jnp.stack([1 - again, again], axis=1), 1e-9)),
        afterstate_value=jnp.where(over, params["reward"][position, action], expected),
    ), (position, action)


def chance_fn(params, key, outcome, afterstate):
    """Give the turn to the other player (outcome 0) or again to the mover (1)."""
    position, action = afterstate
    output, next_position = step(params, action, position, outcome == 1)
    output["action_logits"] = logits(params, next_position)
    return mctx.ChanceRecurrentFnOutput(**output), next_position


@functools.partial(jax.jit, static_argnames=("policy", "functions", "simulations"))
def run(params, position, seed, policy, functions, simulations):
    root = mctx.RootFnOutput(
        prior_logits=logits(params, position), value=params["values"][position], embedding=position
    )
    return policy(
        params,
        jax.random.PRNGKey(seed),
        root,
        *functions,
        num_simulations=simulations,
        invalid_actions=~params["legal"][position],
    )


def make_search(policy, *functions, chosen=False):
    """Return a search; ``chosen`` for a policy whose answer is one move, not the visits."""

    def search(game, board, evaluator, simulations, seed):
        params = {name: getattr(game, name) for name in RULES}
        params |= {"priors": evaluator.priors, "values": evaluator.values}
        params = jax.tree.map(jnp.asarray, params)
        output = run(params, jnp.array([game.index(board)]), seed, policy, functions, simulations)
        summary = output.search_tree.summary()
        action = int(output.action[0])
        if chosen:
            return action, float(summary.qvalues[0, action])
        return summary.visit_counts[0], float(summary.value[0])

    return search


muzero_policy = functools.partial(mctx.muzero_policy, **WITHOUT_NOISE)
gumbel_policy = functools.partial(mctx.gumbel_muzero_policy, gumbel_scale=0.0)
stochastic_policy = functools.partial(mctx.stochastic_muzero_policy, **WITHOUT_NOISE)

muzero = make_search(muzero_policy, recurrent_fn)
gumbel = make_search(gumbel_policy, recurrent_fn, chosen=True)
stochastic = make_search(stochastic_policy, decision_fn, chance_fn)
