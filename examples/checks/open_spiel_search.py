"""OpenSpiel's searches in ``check_search``: Python with an evaluator and with rollouts, and C++.

    pip install open_spiel
    python evaluate.py check search examples.checks.open_spiel_search:search

The Python search calls methods of a state only, so a state of the check's game serves, also with
second turns and chance. The C++ search takes OpenSpiel's own games, and evaluators that are written
in C++: its rollouts can be checked on its own tic-tac-toe (``compiled_search``, ``--game plain
--evaluator none``).
"""

import copy

import numpy as np
import pyspiel
from open_spiel.python.algorithms import mcts

from ttt_envs.open_spiel import to_states

GAME = pyspiel.load_game("tic_tac_toe")  # from which the search reads facts that hold here too


class SpielState:
    """A position as OpenSpiel's Python search asks for it. Chance decides after ``action``."""

    def __init__(self, game, board):
        self.game = game
        self.board = board
        self.player = 0
        self.action = self.result = None

    def clone(self):
        return copy.copy(self)

    def is_terminal(self):
        return self.result is not None

    def is_chance_node(self):
        return self.action is not None

    def current_player(self):
        return self.player

    def legal_actions(self, player=None):
        return self.game.legal_actions(self.board)

    def chance_outcomes(self):
        chance = self.game.again[self.game.index(self.board), self.action]
        return [(0, 1 - chance), (1, chance)]

    def returns(self):
        return [self.result, -self.result]

    def apply_action(self, action):
        index = self.game.index(self.board)
        again = self.game.again[index, action]
        if self.action is not None:
            again, action = action, self.action
        elif 0 < again < 1 and not self.game.over[index, action]:
            self.action = action
            return
        self.action = None
        self.board, reward, over = self.game.step(self.board, action, again == 1)
        self.result = reward * (1 - 2 * self.player) if over else None
        self.player = self.player if again == 1 else 1 - self.player


class PlantedLeaves(mcts.Evaluator):
    """The check's evaluator as OpenSpiel's, which gives the values of both players."""

    def __init__(self, evaluator):
        self.evaluator = evaluator

    def evaluate(self, state):
        value = self.evaluator(state.board)[1] * (1 - 2 * state.player)
        return np.array([value, -value])

    def prior(self, state):
        if state.is_chance_node():
            return state.chance_outcomes()
        priors = self.evaluator(state.board)[0]
        return [(action, priors[action]) for action in state.legal_actions()]


def read(root, num_actions):
    """Return visits, and the value of the root for its mover."""
    visits = np.zeros(num_actions)
    for child in root.children:
        visits[child.action] = child.explore_count
    return visits, sum(child.total_reward for child in root.children) / max(1, visits.sum())


def search(game, board, evaluator, simulations, seed):
    """PUCT with the evaluator, or UCT with rollouts."""
    random_state = np.random.RandomState(seed)
    leaves = PlantedLeaves(evaluator)
    formula = mcts.SearchNode.puct_value
    if evaluator is None:
        leaves = mcts.RandomRolloutEvaluator(1, random_state)
        formula = mcts.SearchNode.uct_value
    bot = mcts.MCTSBot(
        GAME, 1.5, simulations, leaves, False, random_state, child_selection_fn=formula
    )
    return read(bot.mcts_search(SpielState(game, board)), game.num_actions)


def compiled_search(game, board, evaluator, simulations, seed):
    """C++, with rollouts."""
    [state] = to_states(game.to_boards([game.index(board)]), game.game)
    leaves = pyspiel.RandomRolloutEvaluator(1, seed)
    bot = pyspiel.MCTSBot(state.get_game(), leaves, 1.5, simulations, 100, False, seed, False)
    return read(bot.mcts_search(state), game.num_actions)
