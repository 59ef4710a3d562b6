"""gumbel-mcts: PUCT and two Gumbel searches of its own tic-tac-toe."""

from types import SimpleNamespace

import gumbel_mcts
import numpy as np
import torch
from game_logic.tictactoe import TicTacToeLogic


def make_search(kind, shape=(1, 3, 3)):
    def search(game, board, evaluator, simulations, seed):
        def forward_for_mcts(batch):
            stones = np.array([0, 1, -1])[batch["boards"].numpy().astype(int)]
            signs = 3 - 2 * batch["current_player"].numpy()[:, None]
            pairs = [evaluator(tuple(row)) for row in (stones * signs).tolist()]
            policy, value = (torch.tensor(np.array(part)) for part in zip(*pairs, strict=True))
            return {"policy": policy, "value": value}

        tree = kind(1, simulations + 2, TicTacToeLogic, device="cpu")
        tree.initialize_roots([0], np.int8([board]).reshape(shape) % 3, np.int8([1]))
        model = SimpleNamespace(logic=TicTacToeLogic, forward_for_mcts=forward_for_mcts)
        move = tree.run_simulation_batch(model, [0], simulations)
        visits, values = tree.get_all_root_data(1)
        return (visits[0] if move is None else int(move[0])), float(values[0])

    return search


puct = make_search(gumbel_mcts.PUCT)
dense = make_search(gumbel_mcts.GumbelDense)
sparse = make_search(gumbel_mcts.GumbelSparse, shape=(1, 9))
