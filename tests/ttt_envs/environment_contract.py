"""The three environments behind one interface, for tests of what all of them promise: see test_environments.py."""

import numpy as np

from ttt_envs import mnk_v0
from ttt_envs.envs.single_env import SingleEnv
from ttt_envs.envs.vector_env import MNKVectorEnv
from ttt_envs.game.game import Game


def own_and_other(observation):
    """Return own and other stones [2, cells] from planes [rows, columns, 2]."""
    return np.moveaxis(observation, -1, 0).reshape(2, -1).astype(int).tolist()


def numbers(info):
    """Return the mover, the result and the winner of an info."""
    return {name: int(info[name]) for name in ("mover", "result", "winner")}


class AEC:
    """The PettingZoo environment; the caller moves for both players."""

    def __init__(self, **settings):
        self.env = mnk_v0.env(**settings)

    def arrays(self):
        """Return all arrays that the environment shows."""
        return [*self.env.observe(self.env.agent_selection).values()]

    def shown(self, reward=0):
        """Return what the mover sees: both players' stones, the mask and numbers of the game."""
        info = self.env.infos["player_0"]
        seen = self.env.observe(f"player_{info['mover']}")
        mask = seen["action_mask"] if info["result"] == -1 else np.ones(self.env.action_space("player_0").n)
        return own_and_other(seen["observation"]), mask.astype(int).tolist(), float(reward), numbers(info)

    def reset(self, seed=None):
        self.env.reset(seed=seed)
        return self.shown()

    def step(self, action):
        agent = self.env.agent_selection
        self.env.step(action)
        return self.shown(self.env.rewards[agent])

    def restore(self, state, **seed):
        self.env.restore_state(state, **seed)
        return self.shown()

    def chance_outcomes(self, action):
        return self.env.chance_outcomes(action)


class Single:
    """The Gymnasium environment, by default in self-play."""

    def __init__(self, **settings):
        self.env = SingleEnv(**{"opponent": "self", "observation": "dict", **settings})

    def arrays(self):
        return [*self.observation.values(), self.info["action_mask"], self.env.action_masks()]

    def shown(self, observation, info, reward=0):
        self.observation, self.info = observation, info
        mask = info["action_mask"].tolist()
        return own_and_other(observation["observation"]), mask, float(reward), numbers(info)

    def reset(self, seed=None):
        return self.shown(*self.env.reset(seed=seed))

    def step(self, action):
        observation, reward, _, _, info = self.env.step(action)
        return self.shown(observation, info, reward)

    def restore(self, state, **seed):
        return self.shown(*self.env.restore_state(state, **seed))

    def chance_outcomes(self, action):
        return self.env.chance_outcomes(action)


class Row(Single):
    """The second of three games of the vector environment; the others make moves of their own."""

    def __init__(self, **settings):
        settings = {"opponent": "self", "observation": "dict", "autoreset_mode": "Disabled", **settings}
        self.env = MNKVectorEnv(3, **settings)
        self.over = np.ones(3, bool)

    def shown(self, observation, info, reward=(0, 0, 0)):
        self.all = [*observation.values(), *info.values()]
        row = {name: array[1] for name, array in observation.items()}
        return super().shown(row, {name: array[1] for name, array in info.items()}, reward[1])

    def arrays(self):
        return [array for array in self.all if array.dtype != np.bool_]  # the marks of infos are one array

    def reset(self, seed=None):
        some = np.ones(3, bool) if seed is not None or self.over.all() else np.arange(3) == 1
        seeds = None if seed is None else [seed + 100, seed, seed + 200]
        observation, info = self.env.reset(seed=seeds, options={"reset_mask": some})
        self.over = np.where(some, info["result"] != -1, self.over)
        return self.shown(observation, info)

    def step(self, action):
        if self.over.any():  # others, or they would have to wait
            self.env.reset(options={"reset_mask": self.over})
        actions = self.env.action_masks().argmax(axis=1)
        actions[1] = action
        observation, reward, _, _, info = self.env.step(actions)
        self.over = info["result"] != -1
        return self.shown(observation, info, reward)

    def restore(self, state, **seed):
        observation, info = self.env.restore_state(state, **seed)
        self.over = info["result"] != -1
        return self.shown(observation, info)

    def chance_outcomes(self, action):
        return self.env.chance_outcomes(1, action)


KINDS = {"aec": AEC, "single": Single, "vector": Row}

BOARDS = [
    {"size": 3},
    {"size": 3, "skip_chance": 0.25},
    {"size": (4, 6), "win_length": 4, "skip_chance": 0.1},
    {"size": 15, "win_length": 5},
]
SKIPS = (0, 0.25, 0.6)
OPENINGS = ("o../.../... x", ".../.o./..x o", "ox./.../..o x")
SEVERAL = {"skip_chance": (0, 0.5), "observe_skip_chance": True}
SCHEDULE = [("random", 0), ("win-or-block", 20), ("optimal", 40)]
# what a game may draw for each episode, apart and together
DRAWN = [
    {"skip_chance": SKIPS},
    SEVERAL,
    {"openings": OPENINGS},
    {**SEVERAL, "openings": OPENINGS, "symmetry": "random"},
    {"skip_chance": SKIPS, "size": (8, 9)},
    {"first_player": "random", "skip_chance": 0.5},
]
DRAWN_AGAINST = [
    {**SEVERAL, "opponent": "random", "seat": "second"},
    {**SEVERAL, "opponent": "optimal", "seat": "alternate"},
    {**SEVERAL, "opponent": SCHEDULE, "seat": "random"},
    {"opponent": SCHEDULE, "seat": "alternate", "openings": OPENINGS},
    {"opponent": "optimal", "first_player": "random"},
]


def play(game, shown, rng, episodes=3):
    """Return what random legal play shows from here on, with resets."""
    trace = []
    for _ in range(episodes):
        trace.append(shown)
        while shown[-1]["result"] == -1:
            assert len(trace) < 10_000, "games do not end"
            taken = np.any(shown[0], axis=0)
            shown = game.step(int(rng.choice(np.flatnonzero(shown[1]))))
            if isinstance(game.env.game, Game):  # else each player sees other stones
                assert np.any(shown[0], axis=0)[taken].all(), "stones have moved"
            trace.append(shown)
        shown = game.reset()
    return trace


def same_copy(copy, original):
    """Return a game around a copy of an environment, in the same state as the original."""
    other = object.__new__(type(original))
    other.__dict__ = {**original.__dict__, "env": copy(original.env)}
    return other
