"""RLlib's PPO that ``check_learner`` trains, without action masks, in this process alone."""

import torch
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.tune.registry import register_env

BATCH = 1_024
SETTINGS = {
    "train_batch_size_per_learner": BATCH, "minibatch_size": 256, "num_epochs": 4, "lr": 3e-3,
    "gamma": 1.0, "lambda_": 0.95, "entropy_coeff": 0.02, "clip_param": 0.2,
}  # fmt: skip


def train_ppo(make_env, steps, seed):
    if make_env.self_play:
        return None
    register_env("probe", lambda config: make_env())
    config = PPOConfig().environment("probe").training(**SETTINGS).debugging(seed=seed)
    config.env_runners(num_env_runners=0, num_envs_per_env_runner=16)
    config.rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[64, 64]))
    algorithm = config.build_algo()
    for _ in range(steps // BATCH):
        algorithm.train()
    net = algorithm.get_module()

    @torch.no_grad()
    def logits(observations):
        return net.forward_inference({"obs": torch.as_tensor(observations)})["action_dist_inputs"]

    return logits
