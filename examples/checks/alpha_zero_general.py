"""The ``game`` and ``nnet`` of alpha-zero-general and its many copies: its search, and a net.

``search_of(MCTS)`` is the search of a class ``MCTS(game, nnet, args)`` for ``check_search``;
``heads_of(nnet)`` are the policy head and the value head of a net, for ``check_agent`` and
``check_values``.
"""

import types

import numpy as np


class CanonicalGame:
    """A game of the check as their ``Game``: boards are canonical, so the player is always 1."""

    def __init__(self, table):
        self.table = table
        self.results = {}  # of finished boards, for the player who sees them

    def getActionSize(self):
        return self.table.num_actions

    def getValidMoves(self, board, player):
        return self.table.legal[self.table.index(board)]

    def stringRepresentation(self, board):
        return str(board)

    def getCanonicalForm(self, board, player):
        return tuple(cell * player for cell in board)

    def getNextState(self, board, player, action):
        again = self.table.again[self.table.index(board), action] == 1
        board, reward, over = self.table.step(board, action, again)
        next_player = player if again else -player
        if over:
            self.results[board] = reward * player * next_player or 1e-4  # of a draw
        return self.getCanonicalForm(board, next_player), next_player

    def getGameEnded(self, board, player):
        return self.results.get(board, 0)


def search_of(kind, cpuct=1.5):
    """Return a class ``MCTS(game, nnet, args)`` as a search."""

    def search(game, board, evaluator, simulations, seed):
        nnet = types.SimpleNamespace(predict=evaluator)
        args = types.SimpleNamespace(numMCTSSims=simulations, cpuct=cpuct)
        tree = kind(CanonicalGame(game), nnet, args)
        tree.getActionProb(board)
        keys = [(str(board), action) for action in range(game.num_actions)]
        visits = np.array([tree.Nsa.get(key, 0) for key in keys])
        values = np.array([tree.Qsa.get(key, 0.0) for key in keys])
        return visits, visits @ values / max(1, visits.sum())

    return search


def heads_of(nnet, edge=3):
    """Return the heads of a net: functions of a board, to probabilities of cells and to a value."""

    def policy_head(board):
        return nnet.predict(np.reshape(board, (edge, edge)))[0][: edge * edge]  # without passing

    def value_head(board):
        return float(np.squeeze(nnet.predict(np.reshape(board, (edge, edge)))[1]))

    return policy_head, value_head
