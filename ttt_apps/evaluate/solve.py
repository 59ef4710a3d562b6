"""``evaluate.py solve``: the exact value of any game that can be solved: by layers, by a search, or
by a proof.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import tyro
from scipy import sparse

from baselines.connect_four import Solver
from baselines.exact import MAX_SOLVER_CELLS, Work, solve
from baselines.exact.count import MAX_COUNTED_CELLS
from baselines.exact.layers import check_size, estimate, is_layered
from baselines.exact.optimal import is_searched, is_stored
from baselines.proof_number import check_provable, prove
from ttt_apps.cli import options as cli
from ttt_apps.cli.board import parse_position, values_json, values_text
from ttt_envs.agents.policy import best_moves
from ttt_envs.agents.specs import make_pure
from ttt_envs.arrays import DecisionProcess, against, game_arrays
from ttt_envs.core.checks import Refusal
from ttt_envs.core.files import write_atomically
from ttt_envs.core.jit import Float64Array
from ttt_envs.game.boards import COLUMNS, Boards, coordinate, to_text
from ttt_envs.game.game import Game, Position
from ttt_envs.game.rules import DRAW
from ttt_envs.graph.estimate import gib

Result = tuple[Mapping[str, object], Float64Array, Mapping[str, Mapping[str, object] | None]]
"""Values of the empty board and of a position, values of its moves (NaN if illegal), and further
facts.
"""


@dataclass(frozen=True)
class Solve(cli.TrustOptions, cli.OutputOptions, cli.ThreadOptions, cli.ExactOptions):
    """Solve a game, by the first of these ways that is possible, and say which.

    Up to 21 cells, with --gravity up to 6 x 5: the values of all positions under perfect play,
    skips included. Connect Four without skips on larger boards: from one position, who wins, and
    when, by a search. Other boards of up to 64 cells, without skips and by the standard rules: the
    first player wins, or a draw, by a proof.
    """

    position: cli.OptionalText = None
    """start position in place of the empty board: rows from the top, then the mover, as in
    x.o/.../..o x
    """
    nodes: cli.Positive | None = None
    """of a proof: maximum number of positions to visit; default: no limit"""
    arrays: Annotated[Path | None, tyro.conf.arg(metavar="FILE.npz")] = None
    """also write the game as arrays: every position, with what its actions lead to"""
    opponent: cli.OptionalText = None
    """of the arrays: a policy, such as random, against which the game is a Markov decision process
    """
    seat: Literal["first", "second"] = "first"
    """of the arrays: who plays against the opponent"""

    def run(self) -> None:
        """Solve and print.

        Raises:
            ValueError: the game cannot be solved, or an option is of another way.
        """
        game = self.game_for()
        if self.arrays is None:
            cli.check_no_effect(self, "without --arrays", "opponent", "seat", "overwrite", "trust")
        else:
            self._write_arrays(self.arrays, game)
        if (
            not is_searched(game)
            and not is_layered(game)
            and not game.variants
            and game.skip_chance == 0
        ):
            cli.check_no_effect(
                self, f"on {game}, which is solved by a proof", "position", "threads"
            )
            self._prove(game)
            return
        cli.check_no_effect(self, f"on {game}, which is solved without a proof", "nodes")
        method = "layers"
        solve_position = self._solve_by_layers
        if is_searched(game):
            cli.check_no_effect(self, f"on {game}, which is solved by a search", "threads")
            method = "search"
            solve_position = self._search
        else:
            check_size(game)  # before a bar is drawn
        position = parse_position(self.position, game)
        values, moves, facts = solve_position(game, position)
        best = best_moves(moves).tolist()
        settings = {"game": game.to_dict(), "position": self.position, "method": method}
        self.show(
            {**settings, **values, "moves": values_json(game, moves), "optimal": best, **facts},
            cli.facts_table(values, f"{game}, by {method}"),
            f"values of the moves in {to_text(position, game)!r} for the mover; * best",
            values_text(game, position, moves, best=best),
            *(cli.facts_table(part, f"\n{name}") for name, part in facts.items() if part),
        )

    def _write_arrays(self, path: Path, game: Game) -> None:
        """Write the game as arrays, or its decision process against the opponent."""
        if path.suffix != ".npz":
            raise Refusal(f"--arrays {path} is no file of arrays: end its name in .npz")
        self.check_new_file(path)
        opponent = None
        if self.opponent is None:
            cli.check_no_effect(self, "without --opponent", "seat")
        else:
            opponent = make_pure(self.opponent, game)
        with cli.bar("listing positions") as progress:
            arrays = game_arrays(game, self.work(progress))
        contents: dict[str, Any] = arrays._asdict()
        if opponent is not None:
            process = against(arrays, opponent, int(self.seat == "second"))
            contents = process_arrays(process)
        write_atomically(path, lambda file: np.savez_compressed(file, **contents))

    def _table_limit(self) -> dict[str, int]:
        """Return the maximum memory of a table in bytes as an argument, if it is given."""
        memory = self.memory_bytes()
        return {} if memory is None else {"memory": memory}

    def _solve_by_layers(self, game: Game, position: Position) -> Result:
        if game.cells > MAX_SOLVER_CELLS and not is_stored(game):
            size = estimate(game)
            cli.warn(
                f"solving {game} takes about {size.seconds:,.0f} s, {gib(size.disk)} on disk and "
                f"{gib(size.memory)} of memory, or {gib(size.memory_alone)} of memory if the cache "
                "is too small to keep the values"
            )
        with cli.bar("solving") as progress:
            solution = solve(game, work=Work(self.num_threads(), self.memory_bytes(), progress))
        boards = Boards.from_positions([position])
        values = {
            "value": solution.value,
            "value_to_mover": float(solution.values(boards)[0]),
            "distance": int(solution.distance(boards)[0]) if game.skip_chance == 0 else None,
        }
        counts = None
        if game.cells <= MAX_COUNTED_CELLS:
            with cli.status("counting"):
                counts = solution.counts._asdict()
        return values, solution.action_values(boards)[0], {"counts": counts}

    def _search(self, game: Game, position: Position) -> Result:
        """Solve a position of Connect Four by a search."""
        with cli.bar("searching") as bar:
            solver = Solver(
                game,
                progress=lambda nodes: bar(nodes, None, f"{nodes:,} positions"),
                **self._table_limit(),
            )
            scores = {cell: bound.low for cell, bound in solver.scores(position).items()}
        best_score = max(scores.values())
        value = float(np.sign(best_score))
        moves = np.full(game.cells, np.nan)
        moves[list(scores)] = np.sign(list(scores.values()))
        values = {
            "value": value if self.position is None else None,
            "value_to_mover": value,
            "distance": solver.distance(best_score, int((position.cells != 0).sum())),
        }
        by_column = {COLUMNS[cell % game.columns]: score for cell, score in scores.items()}
        return values, moves, {"counts": None, "scores": by_column}

    def _prove(self, game: Game) -> None:
        check_provable(game)
        prove(Game(1, 3, 3))  # compile first, so that the seconds below measure the search alone
        with cli.bar("searching") as bar:
            proof = prove(
                game,
                nodes=self.nodes,
                progress=lambda nodes: bar(nodes, self.nodes, f"{nodes:,} positions"),
                **self._table_limit(),
            )
        value = None
        result = "undecided: allow more with --nodes"
        if proof.winner == 0 and proof.move is not None:
            value = 1.0
            result = f"the first player wins, for example by {coordinate(proof.move, game)}"
        elif proof.winner == DRAW:
            value = 0.0
            result = "a draw with perfect play by both"
        data = {
            "game": game.to_dict(),
            "position": None,
            "method": "proof",
            "value": value,
            "move": proof.move,
            "nodes": proof.nodes,
            "seconds": proof.seconds,
        }
        speed = f"{proof.nodes:,} positions in {proof.seconds:.2f} s"
        self.show(data, f"{game}, by a proof: {result}", speed)


def process_arrays(process: DecisionProcess) -> dict[str, Any]:
    """Return a decision process of N states and A actions as arrays by name.

    Entry i of ``states``, ``actions``, ``next_states`` and ``probabilities``, [E] each, is one
    transition; ``rewards`` float64[N, A], ``start`` float64[N] and ``rows`` int64[N - 6] are those
    of :class:`ttt_envs.arrays.DecisionProcess`.
    """
    matrices = sparse.vstack(process.transitions).tocoo()
    actions, states = np.divmod(matrices.row, len(process.start))
    return {
        "states": states,
        "actions": actions,
        "next_states": matrices.col,
        "probabilities": matrices.data,
        "rewards": process.rewards,
        "start": process.start,
        "rows": process.rows,
    }
