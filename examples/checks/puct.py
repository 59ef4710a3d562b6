"""A tree search with an evaluator, for ``check_search``; and one with a wrong sign.

python evaluate.py check search examples.checks.puct:search
"""

import math
import random

import numpy as np


class Node:
    """A position, with the visits and the sums of values of its moves."""

    def __init__(self, game, board, evaluator):
        self.board = board
        priors, self.value = evaluator(board)
        self.actions = game.legal_actions(board)
        self.priors = np.asarray(priors)[self.actions] / sum(priors[a] for a in self.actions)
        self.visits = np.zeros(len(self.actions))
        self.sums = np.zeros(len(self.actions))
        self.children = {}

    def select(self):
        """Return the index of the move with the largest upper bound."""
        means = self.sums / np.maximum(1, self.visits)
        bonus = 1.5 * self.priors * math.sqrt(1 + self.visits.sum()) / (1 + self.visits)
        return int(np.argmax(means + bonus))


def simulate(game, node, evaluator, rng, always_negate):
    """Run one simulation, and return its value for the player to move at the node."""
    index = node.select()
    action = node.actions[index]
    again = rng.random() < game.again[game.index(node.board), action]
    board, value, over = game.step(node.board, action, again)
    if not over:
        child = node.children.get((action, again))
        if child is None:
            child = node.children[action, again] = Node(game, board, evaluator)
            value = child.value
        else:
            value = simulate(game, child, evaluator, rng, always_negate)
        if always_negate or not again:  # the value is the other player's
            value = -value
    node.visits[index] += 1
    node.sums[index] += value
    return value


def search(game, board, evaluator, simulations, seed, always_negate=False):
    """Return the visits of all moves, and the value of the root."""
    rng = random.Random(seed)
    root = Node(game, board, evaluator)
    for _ in range(simulations):
        simulate(game, root, evaluator, rng, always_negate)
    visits = np.zeros(game.num_actions)
    visits[root.actions] = root.visits
    return visits, root.sums.sum() / simulations


def wrong_search(game, board, evaluator, simulations, seed):
    """Negate values at every ply, as if the turns alternated."""
    return search(game, board, evaluator, simulations, seed, always_negate=True)
