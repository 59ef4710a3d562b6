"""Tabular Q-learning in self-play, from scratch: a dictionary, and a PettingZoo environment.

    python examples/q_learning_from_scratch.py [--episodes N] [--skip-chance P] [--seed S]

Both players share one table, because an agent sees its own stones first. The next state may be the
opponent's, whose gain is our loss: so its value counts with a minus, and with a plus after a
skipped turn, when the same agent moves. ``train.py --opponent self --backup negamax`` learns the
same values (``learners/q_learning.py``), much faster.
"""

from collections import defaultdict

import numpy as np
import tyro

from ttt_envs import Game, as_policy, mnk_v0
from ttt_eval.exact import exploitability

EPSILON = 0.3
GAMMA = 1.0

Q = defaultdict(float)  # Q[state, action]
N = defaultdict(int)  # number of updates of Q[state, action]


def update(state, action, reward, discount, next_value):
    """Move Q(s, a) towards the target, by a step that becomes smaller: alpha = 1 / n ** 0.7."""
    N[state, action] += 1
    alpha = N[state, action] ** -0.7
    td_target = reward + GAMMA * discount * next_value
    Q[state, action] += alpha * (td_target - Q[state, action])


def epsilon_greedy(state, legal_actions, rng):
    """Return a random action with probability epsilon, else one of highest value."""
    explores = rng.random() < EPSILON
    u = rng.random()
    best = max(Q[state, a] for a in legal_actions)
    candidates = [a for a in legal_actions if explores or Q[state, a] == best]
    return candidates[int(u * len(candidates))]


def train(episodes, skip_chance=0.0, seed=0):
    """Play against itself, and learn from every move."""
    env = mnk_v0.env(size=3, win_length=3, skip_chance=skip_chance)
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0,)))
    for episode in range(episodes):
        env.reset(seed=seed if episode == 0 else None)
        mover = None  # of the last move, action in state
        state = None
        action = None
        for agent in env.agent_iter():
            observation, reward, terminated, _, _ = env.last()
            if terminated:
                if agent == mover:
                    update(state, action, reward, 0, 0)
                env.step(None)
                continue
            next_state = observation["observation"].tobytes()
            legal_actions = np.flatnonzero(observation["action_mask"]).tolist()
            if mover:
                next_value = max(Q[next_state, a] for a in legal_actions)
                update(state, action, 0, 1 if agent == mover else -1, next_value)
            state = next_state
            mover = agent
            action = epsilon_greedy(state, legal_actions, rng)
            env.step(action)


def main(episodes: int = 100_000, skip_chance: float = 0.0, seed: int = 0):
    """Learn, and print the exact result."""
    train(episodes, skip_chance, seed)
    game = Game(skip_chance=skip_chance)
    policy = as_policy(
        lambda observation, mask: [Q[observation.tobytes(), action] for action in range(len(mask))],
        game, observation="planes", returns="values", dtype="int8",
    )  # fmt: skip
    print(f"exploitability after {episodes:,} games: {exploitability(game, policy):.4f}")


if __name__ == "__main__":
    tyro.cli(main)
