"""``evaluate.py solve`` for Connect Four on boards without a table: a search from one position."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np

from baselines.connect_four import Bounds, Solver, landing_cells
from ttt_apps.board import values_json
from ttt_apps.cli import new_table, print_output, print_table, progress_bar
from ttt_envs.game.boards import COLUMNS
from ttt_envs.game.game import Game, Position

RESULTS = {1: "win", 0: "draw", -1: "loss"}


class ColumnResult(NamedTuple):
    """The result of a stone in one column, for its player."""

    column: int
    score: int
    """see :meth:`~baselines.connect_four.Solver.score`"""
    distance: int
    """number of plies to the end of the game, with this one"""

    @property
    def value(self) -> int:
        """1 for a win, 0 for a draw, -1 for a loss."""
        return (self.score > 0) - (self.score < 0)


def solve_by_search(game: Game, position: Position, memory: int | None) -> list[ColumnResult]:
    """Return the results of the open columns of a position, with a progress bar.

    Args:
        game: Connect Four of any size.
        position: a position that is not over.
        memory: maximum size of the table in bytes; None for the default.

    Raises:
        ValueError: the position is unreachable.
    """
    stones = int((position.cells != 0).sum())
    with progress_bar("nodes") as bar:
        task = bar.add_task("searching", total=None, nodes="")
        options = {} if memory is None else {"memory": memory}
        solver = Solver(game, progress=lambda nodes: bar.update(task, nodes=f"{nodes:,} positions"), **options)
        found: list[Bounds | None] = solver.scores(position)
    scores = {column: bounds.low for column, bounds in enumerate(found) if bounds is not None}
    return [ColumnResult(column, score, solver.distance(score, stones)) for column, score in scores.items()]


def print_results(game: Game, text: str | None, position: Position, results: list[ColumnResult], as_json: bool) -> None:
    """Print the results as a table, or as JSON with the keys of ``solve`` and ``scores``."""
    best = max(results, key=lambda result: result.score)
    if as_json:
        print(json.dumps(_to_json(game, text, position, results, best)))
        return
    where = "the empty board" if text is None else repr(text)
    end = f"a {RESULTS[best.value]} for the mover after {best.distance} more moves"
    print_output(f"{game}, by a search\n{where}: {end}, with perfect play by both")
    table = new_table("column", "result", "plies", "score")
    for result in results:
        star = "*" if result.score == best.score else ""
        table.add_row(
            COLUMNS[result.column] + star,
            RESULTS[result.value],
            str(result.distance),
            f"{result.score:+d}" if result.score else "0",
        )
    print_table(table)
    print_output("plies: number of moves to the end; the winner minimises it, the loser maximises it; *: best")


def _to_json(
    game: Game, text: str | None, position: Position, results: list[ColumnResult], best: ColumnResult
) -> dict[str, Any]:
    values, landing = np.full(game.cells, np.nan), landing_cells(game, position).tolist()
    for result in results:
        values[landing[result.column]] = result.value
    return {
        "game": game.to_dict(),
        "position": text,
        "method": "search",
        "value": (float(best.value) if text is None else None),
        "value_to_mover": float(best.value),
        "moves": values_json(game, values),
        "optimal": [landing[one.column] for one in results if one.value == best.value],
        "distance": best.distance,
        "counts": None,
        "scores": {COLUMNS[result.column]: result.score for result in results},
    }
