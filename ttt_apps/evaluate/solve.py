"""``evaluate.py solve``: the exact value of any game that can be solved: by layers, by a search, or by a proof."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import tyro

from baselines.exact import MAX_SOLVER_CELLS, Work, estimate, solve
from baselines.exact.count import MAX_COUNTED_CELLS
from baselines.exact.layers import check_size, is_layered
from baselines.exact.solve import is_searched
from baselines.proof_number import prove
from baselines.proof_number.prover import check_provable
from ttt_apps.board import parse_position, values_json, values_text
from ttt_apps.cli import Count, ExactOptions, ThreadOptions, print_output, progress_bar, share_bar, slow_status, warn
from ttt_apps.evaluate.search_solve import print_results, solve_by_search
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game, Position
from ttt_envs.game.rules import DRAW

DEFAULT_TABLE_BYTES = 1 << 30
"""Maximum size of the table of a proof, unless --memory allows another."""


@dataclass(frozen=True)
class Solve(ThreadOptions, ExactOptions):
    """Solve a game, by the first of these ways that is possible, and say which.

    Up to 21 cells, with --gravity up to 6 x 5: the values of all positions under perfect play, skips included. Connect
    Four without skips on larger boards: from one position, who wins, and when, by a search. Other boards of up to 64
    cells, without skips and by the standard rules: the first player wins, or a draw, by a proof.
    """

    position: Annotated[str | None, tyro.conf.arg(metavar="TEXT")] = None
    """start position in place of the empty board: rows from the top, then the mover, as in x.o/.../..o x"""
    nodes: Count | None = None
    """of a proof: maximum number of positions to visit; default: no limit"""

    def run(self) -> None:
        """Solve and print.

        Raises:
            ValueError: the game cannot be solved, or an option is of another way.
        """
        game = self.game_for()
        threads = self.num_threads()
        is_proved = not is_searched(game) and not is_layered(game) and not game.variants and game.skip_chance == 0
        if self.nodes is not None and not is_proved:
            raise ValueError(f"--nodes {self.nodes} limits a proof, and {game} is solved without one: leave it out")
        if is_proved:
            if self.position is not None:
                raise ValueError(f"{game} is solved by a proof, which begins at the empty board: leave out --position")
            self._prove(game)
            return
        if not is_searched(game):
            check_size(game)  # before a bar is drawn
        at = parse_position(self.position, game)
        if is_searched(game):
            print_results(game, self.position, at, solve_by_search(game, at, self.memory_bytes()), self.json)
        else:
            self._solve_by_layers(game, at, threads)

    def _solve_by_layers(self, game: Game, at: Position, threads: int) -> None:
        if game.cells > MAX_SOLVER_CELLS:
            needed = estimate(game)
            warn(
                f"{game} has about {sum(needed.by_stones):,} values in {len(needed.by_stones)} layers: "
                f"{needed.disk:,} bytes on disk, {needed.memory:,} of memory while they are made "
                f"({needed.memory_alone:,} with --no-cache)"
            )
        with share_bar("solving") as progress:
            solution = solve(game, work=Work(threads, self.memory_bytes(), progress))
        boards = Boards.from_positions([at])
        value = float(solution.values(boards)[0])
        moves = solution.action_values(boards)[0]
        distance = int(solution.distance(boards)[0]) if game.skip_chance == 0 else None
        optimal = np.flatnonzero(solution.optimal_actions(boards)[0]).tolist()
        if self.json:
            data = {
                "game": game.to_dict(),
                "position": self.position,
                "method": "layers",
                "value": solution.value,
                "value_to_mover": value,
                "moves": values_json(game, moves),
                "optimal": optimal,
                "distance": distance,
                "counts": solution.counts._asdict() if game.cells <= MAX_COUNTED_CELLS else None,
            }
            print(json.dumps(data))
            return
        digits = 12 if game.cells <= MAX_SOLVER_CELLS else 7  # the accuracy of layered values
        value_text = f"value {solution.value:.{digits}g} for the first player"
        print_output(f"{game}, by layers: {value_text}, with perfect play by both")
        if self.position is None:
            print_output("\nvalues of its first moves, for the first player")
        else:
            print_output(f"\n{self.position!r}: value {value:.{digits}g} for the mover; its moves have the values")
        print(values_text(game, at, moves, best=optimal))
        if distance is not None:
            print_output(
                f"\nends after {distance} more moves: the winner minimises this number, the loser maximises it"
            )
        if game.cells > MAX_COUNTED_CELLS:
            return
        with slow_status("counting"):
            counts = solution.counts
        print_output(
            f"\n{counts.boards:,} boards can be reached: {counts.boards_not_over:,} not over, "
            f"{counts.won_by_player_0:,} won by the first player, {counts.won_by_player_1:,} by the second, "
            f"{counts.drawn:,} drawn\n{counts.positions_not_over:,} positions (board and mover) not over; "
            f"{counts.classes:,} boards up to symmetry" + ("" if counts.games is None else f"; {counts.games:,} games")
        )
        by_stones = ", ".join(f"{count:,}" for count in counts.by_stones)
        print_output(f"boards by number of stones: {by_stones}")

    def _prove(self, game: Game) -> None:
        check_provable(game)
        prove(Game(1, 3, 3))  # compile first, so that the seconds below measure the search alone
        memory = self.memory_bytes()
        with progress_bar("nodes") as bar:
            task = bar.add_task("searching", total=self.nodes, nodes="")
            proof = prove(
                game,
                nodes=self.nodes,
                memory=DEFAULT_TABLE_BYTES if memory is None else memory,
                progress=lambda nodes: bar.update(task, completed=nodes, nodes=f"{nodes:,} positions"),
            )
            bar.update(task, completed=proof.nodes, total=proof.nodes, nodes=f"{proof.nodes:,} positions")
        if self.json:
            data = {
                "game": game.to_dict(),
                "position": None,
                "method": "proof",
                "value": {0: 1.0, DRAW: 0.0, None: None}[proof.winner],
                "move": proof.move,
                "nodes": proof.nodes,
                "seconds": proof.seconds,
            }
            print(json.dumps(data))
            return
        if proof.winner == 0:
            assert proof.move is not None
            row, column = divmod(proof.move, game.columns)
            result = f"the first player wins, for example by the cell in row {row + 1}, column {column + 1}"
        elif proof.winner == DRAW:
            result = "a draw with perfect play by both"
        else:
            result = f"undecided after {proof.nodes:,} positions: allow more with --nodes"
        rate = proof.nodes / max(proof.seconds, 1e-9)
        print_output(f"{game}, by a proof: {result}")
        print_output(f"{proof.nodes:,} positions in {proof.seconds:.2f} s, {rate:,.0f} a second")
