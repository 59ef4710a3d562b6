"""PPO and DQN of SBX, in JAX, that ``check_learner`` trains, without action masks."""

import numpy as np
from sbx import DQN, PPO

from examples.checks.sb3_learners import PPO_SETTINGS, learn

DQN_SETTINGS = {
    "learning_rate": 2e-3, "learning_starts": 500, "train_freq": 4, "gradient_steps": 8,
    "batch_size": 256, "target_update_interval": 100, "exploration_fraction": 0.5,
    "exploration_final_eps": 0.15,
}  # fmt: skip


def train_ppo(make_env, steps, seed):
    if make_env.self_play:
        return None
    policy = learn(PPO, make_env, steps, seed, 64, **PPO_SETTINGS).policy
    state = policy.actor_state
    return lambda observations: np.asarray(policy.actor.apply(state.params, observations).logits)


def train_dqn(make_env, steps, seed):
    if make_env.self_play:
        return None
    policy = learn(DQN, make_env, steps, seed, 16, **DQN_SETTINGS).policy
    return lambda observations: np.asarray(policy.qf.apply(policy.qf_state.params, observations))
