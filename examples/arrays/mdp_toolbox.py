"""Value iteration of pymdptoolbox on the decision process against a policy: a list of sparse
matrices, an action each.

    pip install pymdptoolbox
    python examples/arrays/mdp_toolbox.py
"""

from mdptoolbox.mdp import ValueIteration
from scipy.sparse import csr_matrix

from ttt_envs import Game, make_policy
from ttt_envs.arrays import against, game_arrays
from ttt_eval.exact import best_response


def best_value(game, opponent, seat):
    """Return the value of the best response, by pymdptoolbox."""
    process = against(game_arrays(game), make_policy(opponent, game), seat)
    matrices = [csr_matrix(matrix) for matrix in process.transitions]
    # no discount; all games are over after as many sweeps as there are cells
    solver = ValueIteration(matrices, process.rewards, 1.0, 1e-12, game.cells + 3)
    solver.run()
    return process.start @ solver.V


if __name__ == "__main__":
    game = Game()
    for seat in (0, 1):
        response = best_response(game, "win-or-block", seat)
        print(
            f"seat {seat}: pymdptoolbox {best_value(game, 'win-or-block', seat):.9f}, "
            f"ours {response.win - response.loss:.9f}"
        )
