"""OpenSpiel's Q-learning and DQN that ``check_learner`` trains, in a single environment.

Its games are not cut, and its agents play one player each, so they are not for these two probes.
"""

from functools import partial

import numpy as np
from open_spiel.python.algorithms.tabular_qlearner import QLearner
from open_spiel.python.pytorch.dqn import DQN
from open_spiel.python.rl_environment import StepType, TimeStep
from open_spiel.python.rl_tools import ConstantSchedule

from examples.checks.nets import to_value_agent

DQN_SETTINGS = {
    "hidden_layers_sizes": [64, 64], "batch_size": 256, "replay_buffer_capacity": 20_000,
    "learning_rate": 2e-3, "optimizer_str": "adam", "learn_every": 16,
    "update_target_network_every": 1_600, "min_buffer_size_to_learn": 500, "epsilon_end": 0.15,
    "epsilon_decay_schedule_str": "linear",
}  # fmt: skip


def to_time_step(obs, info, kind=StepType.FIRST, reward=0.0, all_legal=False):
    legal_actions = np.flatnonzero(info["action_mask"] | all_legal).tolist()
    observations = {"info_state": [obs.tolist()], "legal_actions": [legal_actions]}
    return TimeStep({**observations, "current_player": 0}, [reward], [1.0], kind)


def play(make_agent, make_env, steps, seed):
    env = make_env()
    np.random.seed(seed)  # noqa: NPY002  # the agents draw from it
    agent = make_agent(env.observation_space.shape[0], int(env.action_space.n))
    view = partial(to_time_step, all_legal=not make_env.masks)
    step = view(*env.reset(seed=seed))
    for _ in range(steps):
        obs, reward, over, _, info = env.step(agent.step(step).action)
        step = view(obs, info, StepType.LAST if over else StepType.MID, reward)
        if over:
            agent.step(step)
            step = view(*env.reset())
    return agent


def is_played(make_env):
    return not make_env.self_play and "max_episode_steps" not in make_env.options


def train_q(make_env, steps, seed):
    if not is_played(make_env):
        return None

    def make_agent(num_inputs, num_actions):
        return QLearner(0, num_actions, 0.1, ConstantSchedule(0.3))

    agent = play(make_agent, make_env, steps, seed)

    def action_values(observations):
        rows = [agent._q_values[str(row)] for row in observations.tolist()]
        return np.array([[row[action] for action in range(agent._num_actions)] for row in rows])

    action_values.values = action_values
    return action_values


def train_dqn(make_env, steps, seed):
    if not is_played(make_env):
        return None

    def make_agent(num_inputs, num_actions):
        settings = {**DQN_SETTINGS, "epsilon_decay_duration": steps // 2, "seed": seed}
        return DQN(0, num_inputs, num_actions, **settings)

    return to_value_agent(play(make_agent, make_env, steps, seed)._q_network)
