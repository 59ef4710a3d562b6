"""Learners of Stable-Baselines3 and sb3-contrib that ``check_learner`` trains.

    pip install sb3-contrib
    python evaluate.py check learner examples.checks.sb3_learners:train_dqn

They are not for self-play. DQN, PPO and A2C learn without action masks, and are measured with them
where the probe has masks; MaskablePPO is not for the probe without.
"""

import torch
import torch._dynamo  # noqa: F401  # before a library that imports TensorFlow where it is installed: docs/install.md
from gymnasium.vector import AutoresetMode
from sb3_contrib import MaskablePPO
from stable_baselines3 import A2C, DQN, PPO

from examples.checks.nets import to_agent, to_value_agent
from ttt_envs.sb3 import MNKVecEnv

torch.set_num_threads(1)  # for a small net, more threads only wait for each other
PPO_SETTINGS = {
    "n_steps": 16, "batch_size": 256, "n_epochs": 4, "learning_rate": 3e-3, "ent_coef": 0.02,
}  # fmt: skip


def learn(model_class, make_env, steps, seed, num_envs, **settings):
    """Return a trained model."""
    envs = MNKVecEnv(make_env(num_envs, autoreset_mode=AutoresetMode.SAME_STEP))
    model = model_class(
        "MlpPolicy", envs, gamma=1.0, policy_kwargs={"net_arch": [64, 64]}, seed=seed,
        device="cpu", **settings,
    )  # fmt: skip
    return model.learn(steps)


def actor_of(model, critic=None):
    """Return the actor of a model as an agent."""

    def logits(observations):
        return model.policy.get_distribution(observations).distribution.logits

    return to_agent(logits, critic)


def train_dqn(make_env, steps, seed):
    """Train DQN."""
    if make_env.self_play:
        return None
    model = learn(
        DQN, make_env, steps, seed, 16, learning_rate=2e-3, learning_starts=500, train_freq=1,
        gradient_steps=2, batch_size=256, target_update_interval=100, exploration_fraction=0.5,
        exploration_final_eps=0.15,
    )  # fmt: skip
    return to_value_agent(model.q_net)


def train_ppo(make_env, steps, seed):
    """Train PPO."""
    if make_env.self_play:
        return None
    return actor_of(learn(PPO, make_env, steps, seed, 64, **PPO_SETTINGS))


def train_a2c(make_env, steps, seed):
    """Train A2C."""
    if make_env.self_play:
        return None
    model = learn(A2C, make_env, steps, seed, 32, n_steps=4, learning_rate=4e-3, ent_coef=0.05)
    return actor_of(model)


def train_maskable_ppo(make_env, steps, seed):
    """Train MaskablePPO, with its critic."""
    if make_env.self_play or not make_env.masks:
        return None
    model = learn(MaskablePPO, make_env, steps, seed, 64, **PPO_SETTINGS)
    return actor_of(model, model.policy.predict_values)
