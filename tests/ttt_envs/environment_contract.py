"""All environments behind one interface, and one game of theirs in plain Python, for tests of what
all of them promise.

The referee plays by the engine of plain_games.py, which reads the rules from
``ttt_envs.game.reference`` and knows how random numbers are addressed; views, masks and infos are
its own.
"""

import numpy as np
from gymnasium.utils import seeding
from plain_games import PlainGames

from ttt_envs import mnk_v0
from ttt_envs.envs.config import EnvConfig
from ttt_envs.envs.game_batch import ONLY_ROW as ROW
from ttt_envs.envs.game_batch import seed_games
from ttt_envs.envs.single_env import SingleEnv
from ttt_envs.envs.vector_env import MNKVectorEnv
from ttt_envs.game.actions import num_actions
from ttt_envs.game.game import VARIANTS
from ttt_envs.game.phantom import visible
from ttt_envs.text.text_env import TextEnv

SEATS = ("first", "second", "random", "alternate")
OPENINGS = ("o../.../... x", ".../.o./..x o", "ox./.../..o x")
SEVERAL = {"skip_chance": (0, 0.5), "observe_skip_chance": True}
SCHEDULE = [("random", 0), ("win-or-block", 20), ("optimal", 40)]
LEGAL_MOVE = -1
"""the result of a game in progress"""


class Referee:
    """The games of one environment, played by the plain engine. ``reset`` and ``step`` return what
    the environment must show.

    That is (own stones, other stones, mask, reward, whether the game is over, {mover, result,
    winner}) of the caller, in self-play of the player to move. Boards are lists of 0 and 1 in the
    caller's view.
    """

    def __init__(self, **settings):
        self.config = EnvConfig(**{"opponent": "self", **settings})
        self.games = PlainGames(self.config, 1)
        self.kind = self.games.kind
        self.out = self.games.output()

    def column(self, name):
        return self.games.columns[name][0]

    @property
    def result(self):
        return int(self.column("outcome"))

    def reset(self, seed=None):
        if seed is not None:
            key = seeding.np_random(seed)[0].integers(0, 1 << 64, dtype=np.uint64)
            seed_games(self.games, ROW, key)
        self.games.reset(ROW, self.out)
        return self.report()

    def step(self, action):
        self.games.step(np.array([action]), self.out)
        return self.report(float(self.out["rewards"][0]))

    def view(self, player):
        cells = self.column("cells")
        is_known = (self.column("found") == 1) | (self.kind is None)
        image = self.config.permutations[self.column("symmetry")]
        planes = (cells == player + 1, (cells == 2 - player) & is_known)
        return [plane[image].astype(int).tolist() for plane in planes]

    def mask(self):
        is_over = self.result != LEGAL_MOVE
        return [
            int(is_over or self.games.cell_of(0, action) is not None)
            for action in range(num_actions(self.config.game))
        ]

    def report(self, reward=0.0):
        mover = int(self.column("mover"))
        winner = {0: 0, 1: 1, 3: 1, 4: 0}.get(self.result, -1)
        info = {"mover": mover, "result": self.result, "winner": winner}
        viewer = int(self.column("seat")) if self.games.opponents else mover
        return *self.view(viewer), self.mask(), reward, bool(self.column("is_over")), info

    def outcomes(self, action):
        """[(probability, cells of the board, mover, winner)] of a legal action."""
        cell = self.games.cell_of(0, action)
        chance = float(self.column("skip_chance"))
        states = [self.games.outcome(0, cell, u) for u in (1.0, 0.0)]
        branches = [(1.0, states[0])]
        if states[0].winner is None and chance > 0:
            branches = [(1 - chance, states[0]), (chance, states[1])]
        return [(p, self.cells_of(state), state.mover, state.winner) for p, state in branches]

    def cells_of(self, state):
        return [
            (cell in state.stones[0]) + 2 * (cell in state.stones[1])
            for cell in range(self.config.game.cells)
        ]


# --------------------------------------------------------------------------------------------------
# Environments


def split_planes(planes):
    """Return own and other stones [2][cells] from planes [rows, columns, 2]."""
    return np.moveaxis(planes, -1, 0).reshape(2, -1).astype(int).tolist()


def numbers(info):
    return {name: int(info[name]) for name in ("mover", "result", "winner")}


def python_numbers(info):
    """Numbers of Python, which JSON holds; no texts, which other libraries cannot convert to
    arrays.
    """
    kinds = {
        name: type(value)
        for name, value in info.items()
        if name not in ("action_mask", "skip_chance")
    }
    assert kinds == dict.fromkeys(("seat", "mover", "result", "winner"), int)
    assert type(info.get("skip_chance", 0.0)) is float
    return numbers(info)


class AEC:
    """The PettingZoo environment; the caller moves for both players."""

    def __init__(self, **settings):
        self.env = mnk_v0.env(**settings)

    def report(self, reward=0.0):
        env = self.env
        info = self.env.infos["player_0"]
        is_over = all(env.terminations.values())
        observation = env.observe(f"player_{info['mover']}")
        mask = np.ones_like(observation["action_mask"]) if is_over else observation["action_mask"]
        assert env.legal_actions() == ([] if is_over else np.flatnonzero(mask).tolist())
        return (
            *split_planes(observation["observation"]),
            mask.tolist(),
            float(reward),
            is_over,
            python_numbers(info),
        )

    def view(self, player):
        return split_planes(self.env.observe(f"player_{player}")["observation"])

    def reset(self, seed=None):
        self.env.reset(seed=seed)
        return self.report()

    def step(self, action):
        agent = self.env.agent_selection
        self.env.step(action)
        return self.report(self.env.rewards[agent])

    def restore(self, state, **seed):
        self.env.restore_state(state, **seed)
        return self.report()

    def chance_outcomes(self, action):
        return self.env.chance_outcomes(action)


class Single:
    """The Gymnasium environment, by default in self-play."""

    numbers = staticmethod(python_numbers)

    def __init__(self, **settings):
        self.env = SingleEnv(**{"opponent": "self", "observation": "dict", **settings})

    def report(self, observation, info, reward=0.0, is_over=False):
        mask = info["action_mask"].tolist()
        self.info = info
        assert observation["action_mask"].tolist() == mask
        return (
            *split_planes(observation["observation"]),
            mask,
            float(reward),
            bool(is_over),
            self.numbers(info),
        )

    def reset(self, seed=None):
        return self.report(*self.env.reset(seed=seed))

    def step(self, action):
        observation, reward, terminated, truncated, info = self.env.step(action)
        assert self.env.action_masks().tolist() == info["action_mask"].tolist()
        return self.report(observation, info, reward, terminated or truncated)

    def restore(self, state, **seed):
        return self.report(*self.env.restore_state(state, **seed))

    def chance_outcomes(self, action):
        return self.env.chance_outcomes(action)


class Row(Single):
    """The second of three games of the vector environment; the others make moves of their own."""

    numbers = staticmethod(numbers)

    def __init__(self, **settings):
        settings = {
            "opponent": "self",
            "observation": "dict",
            "autoreset_mode": "Disabled",
            **settings,
        }
        self.env = MNKVectorEnv(3, **settings)
        self.over = np.ones(3, bool)

    def row(self, observation, info, *step):
        of_row = ({name: array[1] for name, array in part.items()} for part in (observation, info))
        return self.report(*of_row, *step)

    def reset(self, seed=None):
        chosen = np.ones(3, bool) if seed is not None or self.over.all() else np.arange(3) == 1
        seeds = None if seed is None else [seed + 100, seed, seed + 200]
        observation, info = self.env.reset(seed=seeds, options={"reset_mask": chosen})
        self.over &= ~chosen
        return self.row(observation, info)

    def step(self, action):
        if self.over.any():  # others, or they would have to wait
            self.env.reset(options={"reset_mask": self.over})
        actions = self.env.action_masks().argmax(axis=1)
        actions[1] = action
        observation, rewards, terminated, truncated, info = self.env.step(actions)
        self.over = terminated | truncated
        return self.row(observation, info, rewards[1], self.over[1])

    def restore(self, state, **seed):
        observation, info = self.env.restore_state(state, **seed)
        self.over = info["result"] != -1
        return self.row(observation, info)

    def chance_outcomes(self, action):
        return self.env.chance_outcomes(1, action)


class Text:
    """The environment of text games; boards are read from the game behind the prompts."""

    def __init__(self, **settings):
        self.env = TextEnv(**{"opponent": "self", **settings})

    def report(self, info, reward=0.0, is_over=False):
        text = self.env.text
        game = visible(self.env.game)
        viewer = info["mover"] if self.env.config.opponent == "self" else text.seats[0]
        stones = [
            [int(stone == of) for stone in text.position.cells] for of in (viewer + 1, 2 - viewer)
        ]
        names = self.names = self.action_names(game)
        mask = [int(text.over or name in text.legal_moves()) for name in names]
        return *stones, mask, float(reward), bool(is_over), numbers(info)

    def action_names(self, game):
        return (
            "abcdefghi"[: game.columns] if game.gravity else self.env.text.presentation.cell_names
        )

    def reset(self, seed=None):
        return self.report(self.env.reset(seed=seed)[1])

    def step(self, action):
        _, reward, terminated, truncated, info = self.env.step(f"<move>{self.names[action]}</move>")
        return self.report(info, reward, terminated or truncated)


KINDS = {"aec": AEC, "single": Single, "vector": Row, "text": Text}
assert set(VARIANTS) == {"gravity", "overlines", "misere", "torus"}, (
    "draw the new rule in test_environments.py"
)
