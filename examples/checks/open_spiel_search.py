"""OpenSpiel's searches in ``check_search``: Python with an evaluator and with rollouts, and C++.

The Python search calls methods of a state only, so a state of the check's game serves, also with
second turns and chance. The C++ search takes OpenSpiel's own games, and evaluators that are written
in C++: its rollouts are checked on its own tic-tac-toe.

    pip install open_spiel
    python examples/checks/open_spiel_search.py
"""

import copy
import time
import types

import numpy as np
import pyspiel
from open_spiel.python.algorithms import mcts

from ttt_envs.open_spiel import to_states
from ttt_eval.checks import check_search

C = 1.5
TYPE = pyspiel.load_game("tic_tac_toe").get_type()


class SpielState:
    """A position as OpenSpiel's Python search asks for it; a chance node follows a move with
    chance.
    """

    def __init__(self, game, board):
        self.game, self.board, self.player = game, board, 0
        self.action, self.result, self.over = None, 0.0, False

    def clone(self):
        return copy.copy(self)

    def is_terminal(self):
        return self.over

    def is_chance_node(self):
        return self.action is not None

    def current_player(self):
        special = pyspiel.PlayerId.TERMINAL if self.over else pyspiel.PlayerId.CHANCE
        return special if self.over or self.is_chance_node() else self.player

    def legal_actions(self, player=None):
        return self.game.legal_actions(self.board)

    def chance_outcomes(self):
        chance = self.game.again[self.game.index(self.board), self.action]
        return [(0, 1 - chance), (1, chance)]

    def returns(self):
        return [self.result, -self.result]

    def apply_action(self, action):
        index = self.game.index(self.board)
        if self.is_chance_node():
            action, again, self.action = self.action, bool(action), None
        else:
            again = self.game.again[index, action]
            if 0 < again < 1 and not self.game.over[index, action]:
                self.action = action
                return
        self.board, reward, self.over = self.game.step(self.board, action, again == 1)
        self.result = reward * (1 - 2 * self.player)
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
    """OpenSpiel's Python search: PUCT with the evaluator, or UCT with rollouts."""
    random_state = np.random.RandomState(seed)
    leaves, formula = mcts.RandomRolloutEvaluator(1, random_state), mcts.SearchNode.uct_value
    if evaluator is not None:
        leaves, formula = PlantedLeaves(evaluator), mcts.SearchNode.puct_value
    spiel_game = types.SimpleNamespace(
        max_utility=lambda: 1.0, num_players=lambda: 2, get_type=lambda: TYPE
    )
    bot = mcts.MCTSBot(
        spiel_game, C, simulations, leaves,
        solve=False, random_state=random_state, child_selection_fn=formula,
    )  # fmt: skip
    return read(bot.mcts_search(SpielState(game, board)), game.num_actions)


def compiled_search(game, board, evaluator, simulations, seed):
    """OpenSpiel's C++ search with rollouts, on its own states."""
    [state] = to_states(game.to_boards([game.index(board)]), game.game)
    leaves = pyspiel.RandomRolloutEvaluator(1, seed)
    bot = pyspiel.MCTSBot(state.get_game(), leaves, C, simulations, 100, False, seed, False)
    return read(bot.mcts_search(state), game.num_actions)


CHECKS = {
    "Python, evaluator": (search, "owned", ("plain", "turns", "skip")),
    "Python, rollouts": (search, None, ("plain", "turns", "skip")),
    "C++, rollouts": (compiled_search, None, ("plain",)),
}

if __name__ == "__main__":
    for name, (function, evaluator, games) in CHECKS.items():
        for game in games:
            start = time.process_time()
            check = check_search(function, game, evaluator)
            if not check.ok:
                print(check)
            print(f"{name}, {game}: {check.verdict} ({time.process_time() - start:.1f} CPU s)")
