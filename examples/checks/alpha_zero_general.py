"""The ``game`` and ``nnet`` of alpha-zero-general and its many copies: its search, and a net.

    git clone https://github.com/suragnair/alpha-zero-general
    PYTHONPATH=alpha-zero-general python examples/checks/alpha_zero_general.py

``search_of(MCTS)`` is the search of a class ``MCTS(game, nnet, args)`` for ``check_search``;
``heads_of(nnet)`` are the policy head and the value head of a net, for ``check_agent`` and
``check_values``.
"""

import importlib
import random
import time
import types

import numpy as np

from ttt_eval.checks import check_search


class CanonicalGame:
    """A game of the check as their ``Game``: boards are canonical, so the player is always 1."""

    def __init__(self, table, seed):
        self.table, self.random = table, random.Random(seed)

    def getActionSize(self):
        return self.table.num_actions

    def getValidMoves(self, board, player):
        return self.table.legal[self.table.index(board)]

    def stringRepresentation(self, board):
        return str(board)

    def getCanonicalForm(self, board, player):
        return tuple(cell * player for cell in board)

    def getNextState(self, board, player, action):
        again = self.random.random() < self.table.again[self.table.index(board), action]
        board, _, _ = self.table.step(board, action, again)
        next_player = player if again else -player
        return self.getCanonicalForm(board, next_player), next_player

    def getGameEnded(self, board, player):
        """Return -1 if a line of the other player has ended the game, 1 if an own one, 1e-4 for a
        draw, 0 if it goes on.
        """
        cells = np.array(board)[[line.cells for line in self.table.game.lines]]
        for winner in (1, -1):
            if (cells == winner).all(axis=1).any():
                return winner
        return 0 if 0 in board else 1e-4


def search_of(kind, cpuct=1.5):
    """Return a class ``MCTS(game, nnet, args)`` as a search."""

    def search(game, board, evaluator, simulations, seed):
        nnet = types.SimpleNamespace(predict=evaluator)
        args = types.SimpleNamespace(numMCTSSims=simulations, cpuct=cpuct)
        tree = kind(CanonicalGame(game, seed), nnet, args)
        tree.getActionProb(board)
        key = tree.game.stringRepresentation(board)
        actions = range(game.num_actions)
        visits = np.array([tree.Nsa.get((key, action), 0) for action in actions])
        values = np.array([tree.Qsa.get((key, action), 0.0) for action in actions])
        return visits, visits @ values / max(1, visits.sum())

    return search


def heads_of(nnet, edge=3):
    """Return the heads of a net: functions of a board, to probabilities of cells and to a value."""

    def policy_head(board):
        return nnet.predict(np.reshape(board, (edge, edge)))[0][: edge * edge]  # without passing

    def value_head(board):
        return float(np.squeeze(nnet.predict(np.reshape(board, (edge, edge)))[1]))

    return policy_head, value_head


if __name__ == "__main__":
    search = search_of(importlib.import_module("MCTS").MCTS)
    for game in ("plain", "turns"):
        start = time.process_time()
        check = check_search(search, game)
        print(check)
        print(f"{game}: {check.verdict} ({time.process_time() - start:.1f} CPU s)")
