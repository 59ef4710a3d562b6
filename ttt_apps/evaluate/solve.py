"""``evaluate.py solve``: the exact value of any game that can be solved: by layers, by a search, or by a proof."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import tyro

from baselines.connect_four import Solver, landing_cells
from baselines.exact import MAX_SOLVER_CELLS, Work, estimate, solve
from baselines.exact.count import MAX_COUNTED_CELLS
from baselines.exact.layers import check_size, is_layered
from baselines.exact.solve import is_searched
from baselines.proof_number import prove
from baselines.proof_number.prover import check_provable
from ttt_apps import cli
from ttt_apps.board import parse_position, values_json, values_text
from ttt_envs.game.boards import COLUMNS, Boards
from ttt_envs.game.game import Game, Position
from ttt_envs.game.rules import DRAW

DEFAULT_TABLE_BYTES = 1 << 30
"""Maximum size of the table of a proof, unless --memory allows another."""
RESULTS = {1: "win", 0: "draw", -1: "loss"}


@dataclass(frozen=True)
class Solve(cli.ThreadOptions, cli.ExactOptions):
    """Solve a game, by the first of these ways that is possible, and say which.

    Up to 21 cells, with --gravity up to 6 x 5: the values of all positions under perfect play, skips included. Connect
    Four without skips on larger boards: from one position, who wins, and when, by a search. Other boards of up to 64
    cells, without skips and by the standard rules: the first player wins, or a draw, by a proof.
    """

    position: Annotated[str | None, tyro.conf.arg(metavar="TEXT")] = None
    """start position in place of the empty board: rows from the top, then the mover, as in x.o/.../..o x"""
    nodes: cli.Count | None = None
    """of a proof: maximum number of positions to visit; default: no limit"""

    def run(self) -> None:
        """Solve and print.

        Raises:
            ValueError: the game cannot be solved, or an option is of another way.
        """
        game, threads = self.game_for(), self.num_threads()
        is_proved = not is_searched(game) and not is_layered(game) and not game.variants and game.skip_chance == 0
        if self.nodes is not None and not is_proved:
            raise cli.UsageError(f"--nodes {self.nodes} limits a proof, and {game} is solved without one: leave it out")
        if is_proved:
            if self.position is not None:
                raise cli.UsageError(f"{game} is solved by a proof, from the empty board: leave out --position")
            self._prove(game)
            return
        if not is_searched(game):
            check_size(game)  # before a bar is drawn
        position = parse_position(self.position, game)
        if is_searched(game):
            self._search(game, position)
        else:
            self._solve_by_layers(game, position, threads)

    def _solve_by_layers(self, game: Game, position: Position, threads: int) -> None:
        if game.cells > MAX_SOLVER_CELLS:
            needed = estimate(game)
            cli.warn(
                f"{game} has about {sum(needed.by_stones):,} values in {len(needed.by_stones)} layers: "
                f"{needed.disk:,} bytes on disk, {needed.memory:,} of memory while they are made "
                f"({needed.memory_alone:,} with --no-cache)"
            )
        with cli.share_bar("solving") as progress:
            solution = solve(game, work=Work(threads, self.memory_bytes(), progress))
        boards = Boards.from_positions([position])
        value, moves = float(solution.values(boards)[0]), solution.action_values(boards)[0]
        distance = int(solution.distance(boards)[0]) if game.skip_chance == 0 else None
        optimal = np.flatnonzero(solution.optimal_actions(boards)[0]).tolist()
        digits = 12 if game.cells <= MAX_SOLVER_CELLS else 7  # the accuracy of layered values
        text = [f"{game}, by layers: value {solution.value:.{digits}g} for the first player, with perfect play by both"]
        if self.position is None:
            text.append("\nvalues of its first moves, for the first player")
        else:
            text.append(f"\n{self.position!r}: value {value:.{digits}g} for the mover; its moves have the values")
        text.append(values_text(game, position, moves, best=optimal))
        if distance is not None:
            text.append(
                f"\nends after {distance} more {'move' if distance == 1 else 'moves'}: the winner minimises this "
                f"number, the loser maximises it"
            )
        counts = None
        if game.cells <= MAX_COUNTED_CELLS:
            with cli.slow_status("counting"):
                counts = solution.counts
            games = "" if counts.games is None else f"; {counts.games:,} games"
            text.append(
                f"\n{counts.boards:,} boards can be reached: {counts.boards_not_over:,} not over, "
                f"{counts.won_by_player_0:,} won by the first player, {counts.won_by_player_1:,} by the second, "
                f"{counts.drawn:,} drawn\n{counts.positions_not_over:,} positions (board and mover) not over; "
                f"{counts.classes:,} boards up to symmetry{games}\n"
                f"boards by number of stones: {', '.join(f'{count:,}' for count in counts.by_stones)}"
            )
        data = {
            "game": game.to_dict(),
            "position": self.position,
            "method": "layers",
            "value": solution.value,
            "value_to_mover": value,
            "moves": values_json(game, moves),
            "optimal": optimal,
            "distance": distance,
            "counts": None if counts is None else counts._asdict(),
        }
        cli.show(data, *text, json=self.json)

    def _search(self, game: Game, position: Position) -> None:
        """Solve a position of Connect Four by a search."""
        memory = self.memory_bytes()
        with cli.progress_bar("nodes") as bar:
            task = bar.add_task("searching", total=None, nodes="")
            options = {} if memory is None else {"memory": memory}
            solver = Solver(game, progress=lambda nodes: bar.update(task, nodes=f"{nodes:,} positions"), **options)
            bounds = solver.scores(position)
        stones, landing = int((position.cells != 0).sum()), landing_cells(game, position).tolist()
        scores = {column: bound.low for column, bound in enumerate(bounds) if bound is not None}
        results = {column: int(np.sign(score)) for column, score in scores.items()}
        best = max(scores.values())
        value, distance = int(np.sign(best)), solver.distance(best, stones)
        values = np.full(game.cells, np.nan)
        for column, result in results.items():
            values[landing[column]] = result
        data = {
            "game": game.to_dict(),
            "position": self.position,
            "method": "search",
            "value": float(value) if self.position is None else None,
            "value_to_mover": float(value),
            "moves": values_json(game, values),
            "optimal": [landing[column] for column, result in results.items() if result == value],
            "distance": distance,
            "counts": None,
            "scores": {COLUMNS[column]: score for column, score in scores.items()},
        }
        rows = [
            (
                COLUMNS[column] + "*" * (score == best),
                RESULTS[results[column]],
                str(solver.distance(score, stones)),
                f"{score:+d}" if score else "0",
            )
            for column, score in scores.items()
        ]
        board = "the empty board" if self.position is None else repr(self.position)
        cli.show(
            data,
            f"{game}, by a search\n{board}: a {RESULTS[value]} for the mover after {distance} more moves, with perfect "
            f"play by both",
            cli.new_table("column", "result", "plies", "score", rows=rows),
            "plies: number of moves to the end; the winner minimises it, the loser maximises it; *: best",
            json=self.json,
        )

    def _prove(self, game: Game) -> None:
        check_provable(game)
        prove(Game(1, 3, 3))  # compile first, so that the seconds below measure the search alone
        memory = self.memory_bytes()
        with cli.progress_bar("nodes") as bar:
            task = bar.add_task("searching", total=self.nodes, nodes="")
            proof = prove(
                game,
                nodes=self.nodes,
                memory=DEFAULT_TABLE_BYTES if memory is None else memory,
                progress=lambda nodes: bar.update(task, completed=nodes, nodes=f"{nodes:,} positions"),
            )
        data = {
            "game": game.to_dict(),
            "position": None,
            "method": "proof",
            "value": {0: 1.0, DRAW: 0.0, None: None}[proof.winner],
            "move": proof.move,
            "nodes": proof.nodes,
            "seconds": proof.seconds,
        }
        result = f"undecided after {proof.nodes:,} positions: allow more with --nodes"
        if proof.winner == 0 and proof.move is not None:
            row, column = divmod(proof.move, game.columns)
            result = f"the first player wins, for example by the cell in row {row + 1}, column {column + 1}"
        elif proof.winner == DRAW:
            result = "a draw with perfect play by both"
        rate = proof.nodes / max(proof.seconds, 1e-9)
        speed = f"{proof.nodes:,} positions in {proof.seconds:.2f} s, {rate:,.0f} a second"
        cli.show(data, f"{game}, by a proof: {result}", speed, json=self.json)
