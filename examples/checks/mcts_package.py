"""The package ``mcts`` of the index in ``check_search``: rollouts, and no evaluator.

pip install mcts
python examples/checks/mcts_package.py
"""

import numpy as np
from mcts import mcts


class TableState:
    """A position as the package asks for it: player 1 or -1, and the reward of player 1."""

    def __init__(self, game, board, player, reward=None):
        self.game = game
        self.board = board
        self.player = player
        self.reward = reward

    def getCurrentPlayer(self):
        return self.player

    def getPossibleActions(self):
        return self.game.legal_actions(self.board)

    def isTerminal(self):
        return self.reward is not None

    def getReward(self):
        return self.reward

    def takeAction(self, action):
        again = self.game.again[self.game.index(self.board), action] == 1
        board, reward, over = self.game.step(self.board, action, again)
        player = self.player if again else -self.player
        return TableState(self.game, board, player, reward * self.player if over else None)


def search(game, board, evaluator, simulations, seed):
    player = 1 if np.count_nonzero(board) % 2 == 0 else -1  # who is to move in plain games
    tree = mcts(iterationLimit=simulations)
    tree.search(TableState(game, board, player))
    visits = np.zeros(game.num_actions)
    for action, child in tree.root.children.items():
        visits[action] = child.numVisits
    return visits, player * tree.root.totalReward / tree.root.numVisits
