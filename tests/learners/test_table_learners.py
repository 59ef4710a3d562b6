"""Learners with a table against dictionaries in plain Python; the table itself; and that they learn
to play.
"""

import itertools
from collections import defaultdict

import numpy as np
import plain
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_games import SKIP_GAME

from learners.base import Transition
from learners.naive_mc import NaiveMCConfig
from learners.q_learning import QLearningConfig
from learners.q_table import NUM_RATES, QTable, count_update, find, write_keys
from learners.training import Trainer
from ttt_envs import Boards, Game, PhantomGame
from ttt_envs.game import reference
from ttt_envs.game.phantom import visible
from ttt_envs.game.symmetry import symmetries
from ttt_eval.exact.dynamic_programming import exploitability


def decision(text, action, reward, discount):
    """A decision in the position drawn, after which the board is the same."""
    boards = plain.from_texts(text)
    numbers = np.array([action]), np.array([float(reward)]), np.array([float(discount)])
    return Transition(np.zeros(1, np.int64), boards, *numbers, boards, np.array([-1]))


def test_a_final_reward_is_learned_at_the_step_size():
    """Player o completes the first row:

    oo.
    xx.
    ...
    """
    winning_move = decision("oo./xx./... o", action=2, reward=1, discount=0)
    config = QLearningConfig(step_size=0.5, step_size_power=0.0)
    learner = config.build(Game(), np.random.default_rng(0))
    values = []
    for _ in range(3):
        learner.update(winning_move)
        values.append(learner.action_values(winning_move.boards)[0, 2])
    assert values == [0.5, 0.75, 0.875]


def test_the_value_of_a_move_is_the_mean_result_of_its_games():
    """Player o begins in the centre, then completes the diagonal in one game and loses the others,
    more than there are tabulated rates:

    ...   o.x
    ...   xo.
    ...   ...
    """
    first_move = decision(".../.../... o", action=4, reward=0, discount=1)
    learner = NaiveMCConfig().build(Game(), np.random.default_rng(0))
    won, lost = (decision("o.x/xo./... o", 8, reward, discount=0) for reward in (1, -1))
    values = []
    for last_move in (won, *itertools.repeat(lost, NUM_RATES)):
        learner.update(first_move)
        learner.update(last_move)
        values.append(learner.action_values(first_move.boards)[0, 4])
    means = 1 / np.arange(1, NUM_RATES + 2)  # a win counts 1, a loss 0
    assert values == pytest.approx(means)


class Dictionary:
    """Q-learning, Sarsa and Monte Carlo control as their sources have them, for one transition at a
    time.
    """

    def __init__(self, config, game):
        self.config = config
        self.game = visible(game)
        self.afterstates = getattr(config, "values", "action") == "afterstate"
        self.permutations = symmetries(game, config.symmetries)
        self.values = defaultdict(lambda: 0.5 if config.rewards == "report" else 0.0)
        self.counts = defaultdict(int)
        self.moves = defaultdict(list)

    def key(self, obs, action):
        images = []
        for permutation in self.permutations:
            board = obs[permutation]
            place = int(np.flatnonzero(permutation == action)[0])
            board[place] = self.afterstates
            images.append((board.tobytes(), None if self.afterstates else place))
        return min(images)

    def update(self, transition):
        boards = transition.boards
        next_boards = transition.next_boards
        for b, action in enumerate(transition.action):
            reward = transition.reward[b]
            discount = transition.discount[b]
            if self.config.rewards == "report" and discount == 0:
                reward = {1: 1.0, 0: 0.5, -1: 0.0}[reward]
            key = self.key(boards.own_first()[b], action)
            if self.config.name == "q-learning":
                next_value = 0.0
                if discount != 0:
                    obs = next_boards.own_first()[b]
                    legal = reference.legal_cells(self.game, set(np.flatnonzero(obs).tolist()))
                    chosen = (
                        transition.next_action[b : b + 1]
                        if self.config.target == "sarsa"
                        else legal
                    )
                    next_value = max(self.values[self.key(obs, cell)] for cell in chosen)
                self.learn(key, reward + discount * self.config.gamma * next_value)
                continue
            played = self.moves[transition.game[b], boards.mover[b]]
            played.append(key)
            if discount == 0:
                for key in played:
                    self.learn(key, reward)
                played.clear()

    def learn(self, key, target):
        self.counts[key] += 1
        step_size = getattr(self.config, "step_size", 1.0)
        power = getattr(self.config, "step_size_power", 1.0)
        self.values[key] += step_size / self.counts[key] ** power * (target - self.values[key])


class Both:
    """A learner beside its dictionary."""

    pure = True

    def __init__(self, learner, dictionary):
        self.learner = learner
        self.dictionary = dictionary
        self.boards = []
        self.game = learner.game
        self.backup = learner.backup
        self.on_policy = learner.on_policy

    def explore(self, boards, rng):
        self.boards += [*boards.own_first()]
        return self.learner.explore(boards, rng)

    def update(self, transition):
        self.dictionary.update(transition)
        return self.learner.update(transition)


GAMES = [
    SKIP_GAME,
    Game(3, 4, 3, 0.1, misere=True, gravity=True),
    Game(3, 3, 3, torus=True),
    Game(6, 7, 4),
    PhantomGame(Game(skip_chance=0.2), "classic"),
]
CONFIGS = [
    QLearningConfig(gamma=0.9),
    QLearningConfig(backup="negamax", symmetries="all", step_size=0.5, step_size_power=0.0),
    QLearningConfig(
        values="afterstate", target="sarsa", rewards="report", symmetries="all", epsilon=0.9
    ),
    QLearningConfig(values="afterstate", backup="negamax", symmetries="rotations"),
    NaiveMCConfig(),
    NaiveMCConfig(symmetries="all", rewards="unit", epsilon=0.3),
]


CASES = [
    # the environment has a kernel of its own for a torus
    pytest.param(config, game, marks=[pytest.mark.more] if visible(game).torus else [])
    for config in CONFIGS
    for game in GAMES
    if not (isinstance(game, PhantomGame) and {"afterstate", "negamax"} & {*vars(config).values()})
]


@pytest.mark.parametrize(("config", "game"), CASES, ids=str)
def test_tables_are_those_of_a_dictionary(config, game):
    learner = config.build(game, np.random.default_rng(0))
    both = Both(learner, Dictionary(config, game))
    training = Trainer(
        both, "self" if learner.backup == "negamax" else "win-or-block", 40, batch=3, seed=1
    )
    training.run()
    dictionary = both.dictionary
    obs = np.array(both.boards)
    values = learner.action_values(Boards(obs, np.zeros(len(obs), np.int8)))
    for b, cell in np.argwhere(~np.isnan(values)).tolist():
        assert values[b, cell] == pytest.approx(
            dictionary.values[dictionary.key(obs[b], cell)], rel=1e-12
        )
    counts = learner.state["table.counts"]
    assert sorted(counts) == sorted(count for count in dictionary.counts.values() if count)
    with pytest.raises(ValueError, match=r"needs table.counts as int64"):
        learner.state = {**learner.state, "table.counts": counts[1:]}
    if config.name == "naive-mc":
        assert counts.sum() == training.steps  # every move, in phantom games too
        with pytest.raises(ValueError, match=r"needs lengths as int64"):
            learner.state = {**learner.state, "lengths": learner.lengths[1:]}


@pytest.mark.parametrize("game", [Game(), Game(2, 18, 3), Game(6, 7, 4), Game(7, 10, 5)], ids=str)
@given(data=st.data())
def test_keys_are_exact(game, data):
    """A table is a dictionary of (board, action), or of the board after it, on boards of 1 to 3
    words.
    """
    cells = st.integers(0, game.cells - 1)
    moves = data.draw(
        st.lists(st.tuples(st.lists(cells, max_size=6, unique=True), cells), min_size=1, max_size=8)
    )
    for afterstates in (False, True):
        table = QTable(game, "none", afterstates, 0.0, 1 << 26)
        entries = {}
        table.reserve(len(moves))
        table = table.memory
        for learns in (True, False):
            for number, (stones, action) in enumerate(moves):
                board = np.zeros(game.cells, np.int8)
                board[stones] = np.arange(len(stones)) % 2 + 1
                board[action] = 0
                write_keys(board, action, action + 1, table)
                board[action] = afterstates
                key = table.action_keys[action]
                entry = (board.tobytes(), None if afterstates else action)
                if learns:
                    entries.setdefault(entry, []).append(number)
                    slot, move = count_update(key, table)
                    error = number - table.values[slot, move]
                    table.values[slot, move] += error / table.counts[slot, move]
                value = table.values[find(key, table), key[0] & table.move_bits]
                assert value == pytest.approx(sum(entries[entry]) / len(entries[entry]))
        assert table.size[1] == len(entries)


def test_a_full_table_is_reported():
    learner = NaiveMCConfig(memory=0.001).build(Game(5, 5, 4), np.random.default_rng(0))
    with pytest.raises(MemoryError, match=r"may take 1.02 MiB: give more with memory="):
        Trainer(learner, "random", 4000, batch=64).run()


@pytest.mark.slow
@pytest.mark.parametrize(
    "config",
    [QLearningConfig(backup="negamax", symmetries="all"), NaiveMCConfig(epsilon_decay=1e-6)],
    ids=str,
)
def test_self_play_reaches_perfect_play(config):
    learner = config.build(Game(), np.random.default_rng(0))
    Trainer(learner, "self", 1_000_000, batch=256).run()
    assert exploitability(Game(), learner) == 0
