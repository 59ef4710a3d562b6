"""A solution of the task mcts, see docs/how-to/grade.md."""

import math
import random

LINES = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)]


def result(board):
    """Return -1 if the player to move has lost, 0 for a draw, None while the game goes on."""
    if any(all(board[cell] == -1 for cell in line) for line in LINES):
        return -1
    return None if 0 in board else 0


def play(board, move):
    after = [-stone for stone in board]
    after[move] = -1
    return after


class Node:
    def __init__(self, board):
        self.board = board
        self.result = result(board)
        self.visits = 0
        self.total = 0.0  # for the player to move
        self.untried = [move for move in range(9) if board[move] == 0]
        self.children = {}

    def select(self):
        def bound(move):
            child = self.children[move]
            return -child.total / child.visits + math.sqrt(2 * math.log(self.visits) / child.visits)

        return max(self.children, key=bound)


def rollout(board, generator):
    sign = 1
    while result(board) is None:
        board = play(board, generator.choice([move for move in range(9) if board[move] == 0]))
        sign = -sign
    return sign * result(board)


def simulate(root, generator):
    path = [root]
    while path[-1].result is None and not path[-1].untried:
        path.append(path[-1].children[path[-1].select()])
    leaf = path[-1]
    if leaf.result is None:
        move = leaf.untried.pop(generator.randrange(len(leaf.untried)))
        leaf.children[move] = Node(play(leaf.board, move))
        path.append(leaf.children[move])
    value = rollout(path[-1].board, generator)
    for node in reversed(path):
        node.visits += 1
        node.total += value
        value = -value


def search(board, simulations, seed):
    generator = random.Random(seed)
    root = Node(board)
    for _ in range(simulations):
        simulate(root, generator)
    visits = [root.children[move].visits if move in root.children else 0 for move in range(9)]
    return visits, root.total / root.visits
