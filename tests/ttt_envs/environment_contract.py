"""All environments behind one interface, and one game of theirs in plain Python, for tests of what
all of them promise.

The referee reads the rules from ``ttt_envs.game.reference`` and knows how random numbers are
addressed; boards, views, masks, rewards and infos are its own.
"""

import numpy as np
import plain
from gymnasium.utils import seeding

from ttt_envs import Game, PhantomGame, make_policy, mnk_v0
from ttt_envs.agents.policy import Policy
from ttt_envs.envs.single_env import SingleEnv
from ttt_envs.envs.vector_env import MNKVectorEnv
from ttt_envs.game import reference, rules
from ttt_envs.game.game import VARIANTS
from ttt_envs.game.phantom import visible
from ttt_envs.game.symmetry import symmetries
from ttt_envs.text.text_env import TextEnv

SEATS = ("first", "second", "random", "alternate")
OPENINGS = ("o../.../... x", ".../.o./..x o", "ox./.../..o x")
SEVERAL = {"skip_chance": (0, 0.5), "observe_skip_chance": True}
SCHEDULE = [("random", 0), ("win-or-block", 20), ("optimal", 40)]
LEGAL_MOVE = -1
"""the result of a game in progress"""


class Referee:
    """The games of one environment. ``reset`` and ``step`` return what the environment must show.

    That is (own stones, other stones, mask, reward, whether the game is over, {mover, result,
    winner}) of the caller, in self-play of the player to move. Boards are lists of 0 and 1 in the
    caller's view.
    """

    def __init__(
        self, size=3, win_length=None, skip_chance=0.0, phantom=None, symmetry="none",
        openings=None,
        first_player="player_0", opponent="self", seat="first", illegal_action="lose", **variants,
    ):  # fmt: skip
        self.chances = skip_chance if isinstance(skip_chance, tuple) else (skip_chance,)
        self.games = [Game.of_size(size, win_length, chance, **variants) for chance in self.chances]
        self.kind = phantom
        self.openings = openings
        self.first_player = first_player
        self.images = symmetries(self.games[0], "all" if symmetry == "random" else "none")
        self.schedule = opponent if isinstance(opponent, list) else [(opponent, 0)]
        self.opponent = self.schedule[0][0]
        self.seat_choice = seat
        self.illegal_action = illegal_action

    def reset(self, seed=None):
        if seed is not None:
            self.key = int(seeding.np_random(seed)[0].integers(0, 1 << 64, dtype=np.uint64))
            self.episode = -1
            self.steps = 0
        self.episode += 1
        self.opponent = [player for player, start in self.schedule if start <= self.steps][-1]
        self.episode_key = plain.splitmix64(self.key, self.episode)
        self.image = self.images[self._draw(rules.STREAM_SYMMETRY, len(self.images))].tolist()
        self.places = np.argsort(self.image).tolist()
        self.game = self.games[self._draw(rules.STREAM_CONTEXT, len(self.games))]
        self.state = reference.State(
            mover=self._draw(rules.STREAM_OPENING, 2) * (self.first_player == "random")
        )
        if self.openings is not None:
            text = self.openings[self._draw(rules.STREAM_OPENING, len(self.openings))]
            rows, mover = text.split()
            own = (
                frozenset(cell for cell, stone in enumerate(rows.replace("/", "")) if stone == of)
                for of in "ox"
            )
            self.state = reference.State(tuple(own), "ox".index(mover))
        drawn_seat = (
            self._draw(rules.STREAM_SEAT, 2) if self.seat_choice == "random" else self.episode % 2
        )
        self.seat = {"first": 0, "second": 1}.get(self.seat_choice, drawn_seat)
        self.found_stones = [set(), set()]
        self.result = LEGAL_MOVE
        self.illegal = 0
        self._reply()
        return self.report(0.0, False)

    def _draw(self, stream, count):
        return int(plain.uniform(self.episode_key, stream) * count)

    @property
    def viewer(self):
        return self.state.mover if self.opponent == "self" else self.seat

    def known_stones(self, player):
        """The cells of own stones, and of the other's as far as the player knows them."""
        own = self.state.stones[player]
        other = self.state.stones[1 - player]
        return own, other if self.kind is None else other & self.found_stones[player]

    def view(self, player):
        return [[int(cell in cells) for cell in self.image] for cells in self.known_stones(player)]

    def legal_cells(self):
        return reference.legal_cells(
            self.game, frozenset.union(*map(frozenset, self.known_stones(self.state.mover)))
        )

    def cell_of(self, action):
        """The cell of the board on which an action of the caller's view puts a stone, or None."""
        cells = [cell for cell in self.legal_cells() if self.action_of(cell) == action]
        return cells[0] if cells else None

    def action_of(self, cell):
        place = self.places[cell]
        return place % self.game.columns if self.game.gravity else place

    def mask(self):
        count = self.game.columns if self.game.gravity else self.game.cells
        legal = (
            set(map(self.action_of, self.legal_cells()))
            if self.result == LEGAL_MOVE
            else range(count)
        )
        return [int(action in legal) for action in range(count)]

    def report(self, reward, is_over):
        winner = {0: 0, 1: 1, 3: 1, 4: 0}.get(self.result, -1)
        info = {"mover": self.state.mover, "result": self.result, "winner": winner}
        return *self.view(self.viewer), self.mask(), float(reward), is_over, info

    def outcomes(self, action):
        """[(probability, cells of the board, mover, winner)] of a legal action."""
        cell = self.cell_of(action)
        chance = self.game.skip_chance
        states = [reference.play(self.game, self.state, cell, u) for u in (1.0, 0.0)]
        branches = [(1.0, states[0])]
        if states[0].winner is None and chance > 0:
            branches = [(1 - chance, states[0]), (chance, states[1])]
        return [(p, self.cells_of(state), state.mover, state.winner) for p, state in branches]

    def cells_of(self, state):
        return [
            (cell in state.stones[0]) + 2 * (cell in state.stones[1])
            for cell in range(self.game.cells)
        ]

    def step(self, action):
        player = self.viewer
        cell = self.cell_of(action)
        self.steps += 1
        if self.result != LEGAL_MOVE:  # lost before the caller's first move
            return self.report(self.reward(player), True)
        if cell is None and self.illegal_action == "lose":
            self.result = 3 + player
            return self.report(-1, True)
        if cell is None:
            self.illegal += 1
            self.result = 5 if self.illegal == self.game.cells else LEGAL_MOVE
            return self.report(-1, self.result == 5)
        self._move(cell)
        self._reply()
        return self.report(self.reward(player), self.result != LEGAL_MOVE)

    def reward(self, player):
        return {player: 1, 1 - player: -1}.get(self.result, 0)

    def _move(self, cell):
        mover = self.state.mover
        if cell in self.state.stones[1 - mover]:  # the attempt fails
            self.found_stones[mover].add(cell)
            self.state = self.state._replace(mover=mover if self.kind == "classic" else 1 - mover)
            return
        stones = sum(map(len, self.state.stones))
        self.state = reference.play(
            self.game, self.state, cell, plain.uniform(self.episode_key, rules.STREAM_SKIP, stones)
        )
        self.result = LEGAL_MOVE if self.state.winner is None else self.state.winner

    def _reply(self):
        """Let the opponent move until the caller is to move."""
        while (
            self.opponent != "self" and self.result == LEGAL_MOVE and self.state.mover != self.seat
        ):
            own, other = self.known_stones(1 - self.seat)
            stone = 2 - self.seat
            cells = [
                stone * (cell in own) + (3 - stone) * (cell in other)
                for cell in range(self.game.cells)
            ]
            boards = plain.boards_of([(cells, 1 - self.seat)])
            of = self.game if self.kind is None else PhantomGame(self.game, self.kind)
            policy = (
                self.opponent
                if isinstance(self.opponent, Policy)
                else make_policy(self.opponent, of)
            )
            taken = np.array([len(own) + len(other)])
            episode = np.array([self.episode])
            key = np.array([self.episode_key], np.uint64)
            self._move(int(policy.act_in_games(boards, episode, key, taken)[0]))


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
