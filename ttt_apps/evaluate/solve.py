"""``evaluate.py solve``: the exact value of a game and of its first moves, and its number of positions."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import tyro

from baselines import retrograde
from baselines.retrograde.count import can_count
from baselines.retrograde.solver import MAX_SOLVER_CELLS, check_size, is_searched, solve
from ttt_apps.board import parse_position, values_json, values_text
from ttt_apps.cli import ExactOptions, ThreadOptions, print_output, share_bar, slow_status, warn
from ttt_apps.evaluate.search_solve import print_results, solve_by_search
from ttt_envs.game.boards import Boards


@dataclass(frozen=True)
class Solve(ThreadOptions, ExactOptions):
    """Solve a game on up to 21 cells: the values of all positions under perfect play, skips included.

    With --gravity boards may have up to 6 x 5 cells. Connect Four without skips is solved on larger boards too, from
    one position: who wins, and when.
    """

    position: Annotated[str | None, tyro.conf.arg(metavar="TEXT")] = None
    """start position in place of the empty board: rows from the top, then the mover, as in x.o/.../..o x"""

    def run(self) -> None:
        """Solve and print."""
        game = self.game()
        threads = self.num_threads()
        if is_searched(game):
            at = parse_position(self.position, game)
            print_results(game, self.position, at, solve_by_search(game, at, self.memory_bytes()), self.json)
            return
        check_size(game)  # before a bar is drawn
        at = parse_position(self.position, game)
        if game.cells > MAX_SOLVER_CELLS:
            needed = retrograde.estimate(game)
            warn(
                f"{game} has {sum(needed.by_stones):,} values in {len(needed.by_stones)} layers: {needed.disk:,} bytes "
                f"on disk, {needed.memory:,} of memory while they are made ({needed.memory_alone:,} with --no-cache)"
            )
        with share_bar("solving") as progress:
            solution = solve(game, memory=self.memory_bytes(), progress=progress, threads=threads)
        boards = Boards.from_positions([at])
        value = float(solution.values(boards)[0])
        moves = solution.action_values(boards)[0]
        distance = int(solution.distance(boards)[0]) if game.skip_chance == 0 else None
        optimal = np.flatnonzero(solution.optimal_actions(boards)[0]).tolist()
        if self.json:
            data = {
                "game": game.to_dict(),
                "position": self.position,
                "value": solution.value,
                "value_to_mover": value,
                "moves": values_json(game, moves),
                "optimal": optimal,
                "distance": distance,
                "counts": solution.counts._asdict() if can_count(game) else None,
            }
            print(json.dumps(data))
            return
        digits = 12 if game.cells <= MAX_SOLVER_CELLS else 7  # the accuracy of layered values
        print_output(f"{game}: value {solution.value:.{digits}g} for the first player, with perfect play by both")
        if self.position is None:
            print_output("\nvalues of its first moves, for the first player")
        else:
            print_output(f"\n{self.position!r}: value {value:.{digits}g} for the mover; its moves have the values")
        print(values_text(game, at, moves, best=optimal))
        if distance is not None:
            print_output(
                f"\nends after {distance} more moves: the winner minimises this number, the loser maximises it"
            )
        if not can_count(game):
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
