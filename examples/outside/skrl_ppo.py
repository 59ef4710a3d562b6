"""skrl's PPO that ``check_learner`` trains, without action masks."""

import tempfile

from gymnasium.vector import AutoresetMode
from skrl.agents.torch.ppo import PPO
from skrl.envs.wrappers.torch import wrap_env
from skrl.memories.torch import RandomMemory
from skrl.models.torch import CategoricalMixin, DeterministicMixin, Model
from skrl.trainers.torch import SequentialTrainer

from examples.checks.nets import make_net, to_agent

SETTINGS = {
    "rollouts": 16, "learning_epochs": 4, "mini_batches": 4, "discount_factor": 1.0,
    "learning_rate": 3e-3, "entropy_loss_scale": 0.02,
}  # fmt: skip
FILES = {"write_interval": 0, "checkpoint_interval": 0}
TRAINER = {"disable_progressbar": True, "close_environment_at_exit": False}


class Net(Model):
    def __init__(self, spaces, num_outputs):
        Model.__init__(self, **spaces)
        self.net = make_net(self.num_observations, num_outputs)

    def compute(self, inputs, role=""):
        return self.net(inputs["observations"]), {}


class Actor(CategoricalMixin, Net):
    def __init__(self, spaces):
        Net.__init__(self, spaces, spaces["action_space"].n)
        CategoricalMixin.__init__(self)


class Critic(DeterministicMixin, Net):
    def __init__(self, spaces):
        Net.__init__(self, spaces, 1)
        DeterministicMixin.__init__(self)


def start(make_env, seed):
    envs = make_env(64, autoreset_mode=AutoresetMode.SAME_STEP)
    envs.reset(seed=seed)
    return wrap_env(envs)


def is_played(make_env):
    """Leave out truncation, which the advantages take for no end: the block of skrl-gae."""
    return not make_env.self_play and "max_episode_steps" not in make_env.options


def train_ppo(make_env, steps, seed):
    if not is_played(make_env):
        return None
    envs = start(make_env, seed)
    spaces = {"observation_space": envs.observation_space, "action_space": envs.action_space}
    spaces["device"] = "cpu"
    models = {"policy": Actor(spaces), "value": Critic(spaces)}
    memory = RandomMemory(memory_size=SETTINGS["rollouts"], num_envs=64)
    with tempfile.TemporaryDirectory() as folder:
        cfg = {**SETTINGS, "experiment": {**FILES, "directory": folder}}
        agent = PPO(models=models, memory=memory, cfg=cfg, **spaces)
        trainer = {**TRAINER, "timesteps": steps // 64}
        SequentialTrainer(env=envs, agents=agent, cfg=trainer).train()
    return to_agent(models["policy"].net)
