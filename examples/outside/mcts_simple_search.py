"""mcts-simple: UCT with rollouts."""

import mcts_simple

from examples.outside.position import Position, by_action


class State(Position):
    possible_actions = Position.actions
    has_outcome = Position.over
    take_action = Position.move
    get_state = Position.key

    def current_player(self):
        return (1 - self.mover) // 2

    def winner(self):
        return [0, 1] if self.result == 0 else [(1 - self.result) // 2]


def search(game, board, evaluator, simulations, seed):
    tree = mcts_simple.UCT(State(game, board), seed=seed)
    for _ in range(simulations):
        tree.step()
    return by_action(game, {a: child.n for a, child in tree.root.children.items()})
