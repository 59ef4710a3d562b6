"""Computes docs/ground-truth.md and docs/ground-truth.csv: ``python tools/ground_truth.py >
docs/ground-truth.md``.

The page's text is in ``ground_truth.md.jinja``; the CSV file has every number, a line for each
game.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from writing import render_page

from baselines.exact import MAX_SOLVER_CELLS, Optimal, Solution, build, solve
from baselines.proof_number import prove
from ttt_apps.cli.board import values_text
from ttt_envs.core.files import read_table
from ttt_envs.core.work import Work
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game
from ttt_eval.exact.dynamic_programming import (
    OutcomeProbabilities,
    exploitability,
    outcome,
    perfect_value,
)
from ttt_eval.store.result_store import Unit, collect_results, write_csv
from ttt_eval.store.versions import make_provenance

DATA = read_table(__file__)
SKIPS = (0.0, 0.1, 0.25, 0.5)
MAX_CELLS = 25
"""Maximum number of cells."""
MAX_EVALUATED_CELLS = 12
"""Maximum number of cells for evaluating policies."""
MEMORY = 1 << 32
"""Maximum memory for positions of perfect play in bytes."""
COUNTS = ("won_by_player_0", "won_by_player_1", "drawn", "classes", "games")
COLUMNS = (
    *("board", "win_length", "skip", "value", "win_draw_loss", "ends_after", "positions", "boards"),
    *("won_by_first", "won_by_second", "drawn", "classes", "games", "first_moves"),
    *("optimal_random", "random_optimal", "random_random", "exploitability_of_random"),
)
"""Columns of the CSV file."""


def main(
    *,
    largest: int = MAX_CELLS,
    no_proofs: tyro.conf.FlagCreatePairsOff[bool] = False,
    out: Path = Path("runs", "ground-truth"),
    data: Path = Path("docs", "ground-truth.csv"),
    jobs: int = 1,
) -> None:
    """Compute the page and print it, and write the CSV file.

    Args:
        largest: maximum number of cells of a board to solve.
        no_proofs: leave out results of larger boards without skips.
        out: folder of stored results, which are not computed again, and of temporary values.
        data: CSV file of all numbers.
        jobs: number of processes.

    Raises:
        ValueError: too little memory or disk.
    """
    boards = [board for board in DATA["boards"] if board[0] * board[1] <= largest]
    variants = [Game(**rules, skip_chance=skip) for rules in DATA["variants"] for skip in SKIPS]
    games = {
        "solve": [Game(*board, skip) for board in boards for skip in SKIPS],
        "prove": [] if no_proofs else [Game(*board) for board in DATA["proved"]],
        "value": [game for game in variants if game.cells <= largest],
    }
    units = [{kind: game.to_dict()} for kind, of_kind in games.items() for game in of_kind]
    facts = iter(
        collect_results(
            partial(measure_unit, out), units, out, make_provenance(), jobs=jobs, progress=_tell
        )
    )
    results = {kind: [(game, next(facts)) for game in of_kind] for kind, of_kind in games.items()}
    filters = {"digits": _digits, "count": _count, "value": lambda solution: _value(*solution)}
    print(render_page(__file__, filters, **results, skips=len(SKIPS)), end="")
    write_csv(data, [COLUMNS, *(_row(game, solution) for game, solution in results["solve"])])


def _tell(count: int, total: int) -> None:
    print(f"{count} of {total} games", file=sys.stderr)


# --------------------------------------------------------------------------------------------------
# Computation


def measure_unit(folder: Path, unit: Unit) -> Any:
    """Compute the facts of one game, as JSON-ready data."""
    if "prove" in unit:
        return (
            "the first player wins"
            if prove(Game.from_dict(unit["prove"])).winner == 0
            else "a draw"
        )
    if "value" in unit:
        return perfect_value(Game.from_dict(unit["value"]))
    game = Game.from_dict(unit["solve"])
    if game.cells <= MAX_SOLVER_CELLS:
        return _facts(solve(game), Optimal(game))
    place = folder / f"layers-{game.slug}"
    facts = _facts(build(game, place), Optimal(game, database=str(place)))
    shutil.rmtree(place)
    return facts


def _facts(solution: Solution, optimal: Optimal) -> dict[str, Any]:
    game = solution.game
    start = Boards.start(solution.game)
    return {
        "value": solution.value,
        "distance": None if game.skip_chance else int(solution.distance(start)[0]),
        "counts": solution.counts._asdict(),
        "moves": solution.action_values(start)[0].tolist(),
        "optimal": np.flatnonzero(solution.optimal_actions(start)[0]).tolist(),
        "outcome": _outcome(game, solution.value, optimal),
        "policies": _policies(game) if game.cells <= MAX_EVALUATED_CELLS else None,
    }


def _outcome(game: Game, value: float, optimal: Optimal) -> OutcomeProbabilities | None:
    """Return the outcome of perfect play by both; without chance it follows from the value."""
    if game.skip_chance == 0:
        return OutcomeProbabilities(float(value == 1), float(value == 0), float(value == -1))
    try:
        return outcome(game, optimal, optimal, work=Work(memory=MEMORY))
    except MemoryError:
        return None


def _policies(game: Game) -> list[str]:
    """Return the results of perfect play and random play."""
    pairs = (("optimal", "random"), ("random", "optimal"), ("random", "random"))
    results = [_format_shares(outcome(game, first, second)) for first, second in pairs]
    return [*results, f"{exploitability(game, 'random'):.9f}"]


# --------------------------------------------------------------------------------------------------
# Formatting


def _format_shares(result: Any) -> str:
    return " / ".join(f"{share:.6f}" for share in result)


def _row(game: Game, facts: Mapping[str, Any]) -> list[str]:
    """Return a game's line of the CSV file; an empty cell is a number that is not computed."""
    counts = facts["counts"]
    boards = counts["boards_not_over"] + counts["boards_over"]
    moves = values_text(game, Boards.start(game).position(0), facts["moves"], best=facts["optimal"])
    return [
        f"{game.rows} x {game.columns}",
        str(game.win_length),
        f"{game.skip_chance:g}",
        _value(game, facts),
        "" if facts["outcome"] is None else _format_shares(facts["outcome"]),
        "" if facts["distance"] is None else f"{facts['distance']} plies",
        *map(_count, (counts["positions_not_over"], boards, *(counts[name] for name in COUNTS))),
        " / ".join(" ".join(line.split()) for line in moves.splitlines()),
        *(facts["policies"] or [""] * 4),
    ]


def _count(count: int | None) -> str:
    return "" if count is None else f"{count:,}"


def _value(game: Game, facts: Mapping[str, Any]) -> str:
    """Format the value of a game, with the fraction where binary arithmetic is exact.

    No denominator exceeds (1 / skip) ** cells.
    """
    value = facts["value"]
    if game.cells > MAX_SOLVER_CELLS and game.skip_chance:
        return f"{value:.6f}"
    exact = Fraction(value)
    fraction = (
        f"{exact} = " if game.skip_chance in (0.0, 0.25, 0.5) and exact.denominator > 1 else ""
    )
    return fraction + _digits(value)


def _digits(value: float) -> str:
    return f"{value:.12f}".rstrip("0").rstrip(".")


if __name__ == "__main__":
    tyro.cli(main)
