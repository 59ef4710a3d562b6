"""game-ai-client: UCT with rollouts, with and without RAVE."""

from game_sdk import mcts

from examples.outside.position import Position


class State(Position):
    current_player = Position.get_mover
    get_legal_actions = Position.actions
    is_game_over = Position.over
    move = Position.after

    def game_result(self):
        return self.result * self.mover


def search(game, board, evaluator, simulations, seed):
    return mcts.MCTS().search(State(game, board), simulations)


def rave(game, board, evaluator, simulations, seed):
    tree = mcts.MCTS(
        selection_strategy=mcts.RAVESelectionStrategy(),
        simulation_strategy=mcts.RandomSimulationStrategy(track_moves=True),
        backpropagation_strategy=mcts.RAVEBackpropagationStrategy(),
    )
    return tree.search(State(game, board), simulations)
