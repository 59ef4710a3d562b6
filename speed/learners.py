"""Training speed of the learners, each beside a peer that does the same.

Both sides alternate in one process on one core, for several rounds, and the ratio is taken within
each round. A rate is finished games per second of CPU time, exploration and learning included;
imports, compilation and the first games are not timed. Every learner starts untrained, several
times per round, so that tables grow from nothing.

    python speed/learners.py [--quick] [--rounds N] [--only NAME,...] [--json FILE]
"""

from __future__ import annotations

import functools
import os
import random
from collections.abc import Callable
from typing import Any

from measuring import Benchmark, Row, Stretch, rate, run, time_answers

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

from learners import LEARNERS
from learners.training import Trainer, make_initial_rng
from ttt_envs.agents.specs import load_object
from ttt_envs.game.game import Game

PACKAGES = ("numpy", "numba", "tensorflow", "torch", "open_spiel")

GAMES = 1_024
STEPS = 16
MINIBATCH = 2_048
"""of PPO: games in parallel, steps of a rollout, and samples of a minibatch"""
SAMPLED = {"rollout": GAMES * STEPS, "batch_size": MINIBATCH, "n_epochs": 4, "grouped": False}
SELF_PLAY = load_object(LEARNERS["sb3-maskable-ppo"]).self_play
"""settings of the learner of sb3-contrib in self-play"""

Play = Callable[[int], None]
"""Plays and learns this number of games, from the start."""


def our_learner(name: str, opponent: str) -> Play:
    """Return a training with the default batch of ``train.py``."""
    config = load_object(LEARNERS[name])()

    def play(games: int) -> None:
        learner = config.build(Game(), make_initial_rng(0))
        Trainer(learner, opponent, games, batch=config.batch, seed=0).run()

    return play


LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))


def dictionary_learner() -> Play:
    """Return tabular Q-learning against random moves as in tutorials: a dictionary, a string for a
    board, no API.
    """

    def play(games: int) -> None:
        values: dict[str, list[float]] = {}
        alpha = 0.5
        gamma = 1.0
        epsilon = 0.3
        for game in range(games):
            board = ["."] * 9
            empty = list(range(9))
            own, other = ("o", "x") if game % 2 == 0 else ("x", "o")
            mover = "o"
            before: tuple[list[float], int] | None = None
            while True:
                if mover == own:
                    state = "".join(board)
                    state_values = values.get(state)
                    if state_values is None:
                        state_values = values[state] = [0.0] * 9
                    best = max(state_values[cell] for cell in empty)
                    if before is not None:
                        row, action = before
                        row[action] += alpha * (gamma * best - row[action])
                    if random.random() < epsilon:
                        cell = random.choice(empty)
                    else:
                        cell = random.choice([cell for cell in empty if state_values[cell] == best])
                    before = state_values, cell
                else:
                    cell = random.choice(empty)
                board[cell] = mover
                empty.remove(cell)
                won = any(board[a] == board[b] == board[c] == mover for a, b, c in LINES)
                if won or not empty:
                    sign = 1.0 if mover == own else -1.0
                    reward = sign if won else 0.0
                    if before is not None:
                        row, action = before
                        row[action] += alpha * (reward - row[action])
                    break
                mover = other if mover == own else own

    return play


def open_spiel_learner() -> Play:
    """Return OpenSpiel's tabular Q-learner in self-play, one learner in each seat."""
    from open_spiel.python import rl_environment
    from open_spiel.python.algorithms import tabular_qlearner

    def play(games: int) -> None:
        env = rl_environment.Environment("tic_tac_toe")
        actions = env.action_spec()["num_actions"]
        agents = [
            tabular_qlearner.QLearner(player_id=player, num_actions=actions) for player in range(2)
        ]
        for _ in range(games):
            time_step = env.reset()
            while not time_step.last():
                mover = time_step.observations["current_player"]
                time_step = env.step([agents[mover].step(time_step).action])
            for agent in agents:
                agent.step(time_step)

    return play


def keras_learner(hidden: int) -> Play:
    """Return the same net in Keras, updated move by move with ``train_on_batch``, against random
    moves.
    """
    import keras

    from ttt_envs.envs.single_env import SingleEnv

    def play(games: int) -> None:
        model = keras.Sequential(
            [
                keras.layers.Input((18,)),
                keras.layers.Dense(hidden, activation="relu"),
                keras.layers.Dense(9),
            ]
        )
        model.compile(optimizer=keras.optimizers.Adam(0.001), loss="mse")
        env = SingleEnv(opponent="random", seat="alternate", observation="flat")
        rng = np.random.default_rng(0)

        def values(observation: Any) -> Any:
            return np.array(model(observation[None].astype(np.float32)))[0]

        for game in range(games):
            observation, info = env.reset(seed=0) if game == 0 else env.reset()
            over = False
            while not over:
                q = values(observation)
                legal = np.flatnonzero(info["action_mask"])
                action = (
                    int(rng.choice(legal))
                    if rng.random() < 0.3
                    else int(legal[np.argmax(q[legal])])
                )
                next_observation, reward, terminated, truncated, info = env.step(action)
                over = terminated or truncated
                target = reward
                if not over:
                    legal = np.flatnonzero(info["action_mask"])
                    target = 0.999 * values(next_observation)[legal].max()
                q[action] = target
                model.train_on_batch(observation[None].astype(np.float32), q[None])
                observation = next_observation

    return play


def ppo_learner(name: str, **settings: Any) -> Play:
    """Return a training by PPO in self-play."""
    config = load_object(LEARNERS[name])(**settings)

    def play(games: int) -> None:
        config.training(Game(), games, batch=GAMES, seed=0, opponent="self").run()

    return play


def cleanrl_learner() -> Play:
    """Return CleanRL's loop with the same games, net and sizes as ours."""
    import torch

    from speed.cleanrl_ppo import CleanRLTraining

    def play(games: int) -> None:
        torch.manual_seed(0)
        CleanRLTraining(GAMES, STEPS, MINIBATCH).run(games)

    return play


def q_net_hidden() -> int:
    """Return the default size of the net's hidden layer."""
    return int(load_object(LEARNERS["q-net"])().hidden)


def learning(play: Play, games: int) -> Stretch:
    """Return a stretch of so many games, after which the learner begins again."""
    return time_answers(functools.partial(play, games), games)


ROWS = (
    Row(
        "q-learning",
        "q-learning against random",
        "plain Python, dictionary",
        11,
        lambda: learning(our_learner("q-learning", "random"), 50_000),
        lambda: learning(dictionary_learner(), 50_000),
    ),
    Row(
        "q-learning-self",
        "q-learning in self-play",
        "OpenSpiel tabular_qlearner",
        120,
        lambda: learning(our_learner("q-learning", "self"), 50_000),
        lambda: learning(open_spiel_learner(), 500),
    ),
    Row(
        "q-net",
        "q-net against random",
        "Keras, train_on_batch",
        500,
        lambda: learning(our_learner("q-net", "random"), 20_000),
        lambda: learning(keras_learner(q_net_hidden()), 20),
    ),
    Row(
        "ppo-samples",
        "ppo in self-play, by samples",
        "CleanRL's loop in torch",
        1.7,
        lambda: learning(ppo_learner("ppo", **SAMPLED), 20_000),
        lambda: learning(cleanrl_learner(), 10_000),
    ),
    Row(
        "ppo",
        "ppo in self-play, grouped",
        "sb3-maskable-ppo, its defaults for self-play",
        25,
        lambda: learning(ppo_learner("ppo", rollout=64 * GAMES), 100_000),
        lambda: learning(ppo_learner("sb3-maskable-ppo", **SELF_PLAY), 2_000),
    ),
)

BENCHMARK = Benchmark(
    about=str(__doc__),
    packages=PACKAGES,
    unit=rate("games/s"),
    rows=ROWS,
    seconds=(0.2, 1.0),
)


if __name__ == "__main__":
    run(BENCHMARK)
