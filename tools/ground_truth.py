"""Computes the page docs/ground-truth.md: ``python tools/ground_truth.py > docs/ground-truth.md``."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from baselines.exact import MAX_SOLVER_CELLS, Optimal, Solution, build, solve
from baselines.proof_number import prove
from ttt_apps.board import values_text
from ttt_apps.versions import make_provenance
from ttt_envs.core.files import subfolder
from ttt_envs.core.work import Work
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game
from ttt_eval.exact.dynamic_programming import OutcomeProbabilities, exploitation, outcome, perfect_value
from ttt_eval.result_store import Unit, collect_results

BOARDS = (
    (2, 2, 2), (2, 3, 2), (2, 3, 3), (2, 4, 3), (3, 3, 2), (3, 3, 3), (2, 5, 3), (2, 6, 3), (3, 4, 3), (3, 4, 4),
    (2, 7, 3), (3, 5, 3), (3, 5, 4), (2, 8, 3), (4, 4, 3), (4, 4, 4), (2, 9, 3), (3, 6, 3), (3, 6, 4), (2, 10, 3),
    (4, 5, 3), (4, 5, 4), (4, 5, 5), (3, 7, 3), (3, 7, 4),
)  # fmt: skip
"""Rows, columns, win length."""
SKIPS = (0.0, 0.1, 0.25, 0.5)
PROVED = (
    (4, 5, 4), (4, 6, 4), (4, 7, 4), (5, 5, 4), (5, 5, 5), (5, 6, 4), (6, 6, 4), (6, 6, 5), (6, 6, 6), (6, 7, 5),
    (7, 7, 4), (7, 7, 5),
)  # fmt: skip
"""Larger boards, without skips."""
VARIANTS = (
    Game(3, 3, 3, misere=True), Game(3, 3, 3, torus=True), Game(4, 4, 4, gravity=True), Game(4, 5, 4, gravity=True),
    Game(5, 4, 4, gravity=True), Game(5, 5, 4, gravity=True),
)  # fmt: skip
"""Games of other rules."""
LARGEST = 25
"""Maximum number of cells."""
MATCHED = 12
"""Maximum number of cells for evaluating policies."""
MEMORY = 1 << 32
"""Maximum memory for positions of perfect play in bytes."""

HEAD = """\
# Ground truth

All numbers on this page are computed, not sampled or quoted. The page is the output of `python tools/ground_truth.py`,
which stores finished results and resumes where it stopped. (Up to 16 cells, `--largest 16`, it takes minutes. The whole
page takes about 45 minutes on one core, and temporarily 10 GB of disk.)

A value is the expected result of perfect play by both players, for the first player: 1 is a win, 0 a draw, -1 a loss.
Up to 16 cells, with skip chances 0, 1/4 and 1/2, the arithmetic is exact, and values are given as fractions too; at
1/10 rounding stays below 1e-12. On larger boards values are exact at 0, and elsewhere less than 1e-6 from the exact
ones ([how](strong-solving.md)). A star marks the best first moves. *Win / draw / loss* are those of the first player if
both play perfectly and choose at random among equally good moves. They are omitted if the reachable positions need more
than 4 GiB of memory. *Boards* are reachable arrangements of stones; *positions* include the mover, and are not over.
*Ends after* counts plies; winners minimise and losers maximise the distance to the end. The command above a table
reproduces each of its rows, with `--skip-chance` as in the row.
"""


def compute(largest: int, folder: Path, jobs: int, *, proofs: bool = True) -> str:
    """Return the page as Markdown; finished games are stored in the folder, and not computed again.

    Args:
        largest: maximum number of cells of a board to solve.
        folder: folder of the results, and of temporary values.
        jobs: number of processes.
        proofs: whether results of larger boards without skips are proved, too.

    Raises:
        ValueError: too little memory or disk.
    """
    boards = [board for board in BOARDS if board[0] * board[1] <= largest]
    games = [Game(*board, skip) for board in boards for skip in SKIPS]
    proved = [Game(*board) for board in PROVED] if proofs else []
    others = [replace(game, skip_chance=skip) for game in VARIANTS for skip in SKIPS if game.cells <= largest]
    units = [
        {kind: game.to_dict()}
        for kind, of_kind in (("solve", games), ("prove", proved), ("value", others))
        for game in of_kind
    ]
    measure = partial(_measure, folder)
    facts = iter(collect_results(measure, units, folder, make_provenance(), jobs=jobs, progress=_tell))
    solved, winners, values = (list(islice(facts, len(of_kind))) for of_kind in (games, proved, others))
    parts = [HEAD]
    for start in range(0, len(games), len(SKIPS)):
        parts.append(_section(games[start : start + len(SKIPS)], solved[start : start + len(SKIPS)]))
    if others:
        parts.append(_variants_section(others, values))
    if proved:
        rows = (f"| {game.rows} x {game.columns} | {game.win_length} | " for game in proved)
        parts.append("\n".join([_PROOFS, *(f"{row}{winner} |" for row, winner in zip(rows, winners, strict=True))]))
    return "\n".join(parts)


def _tell(done: int, total: int) -> None:
    print(f"{done} of {total} games", file=sys.stderr)


def main(arguments: Sequence[str] | None = None) -> None:
    """Compute and print the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--largest", type=int, default=LARGEST, help="maximum number of cells of a board to solve")
    parser.add_argument("--no-proofs", action="store_true", help="leave out results of larger boards without skips")
    parser.add_argument("--out", type=Path, default=Path("runs", "ground-truth"), help="folder of stored results")
    parser.add_argument("--jobs", type=int, default=1, help="number of processes")
    options = parser.parse_args(arguments)
    print(compute(options.largest, options.out, options.jobs, proofs=not options.no_proofs))


# ---------------------------------------------------------------------------------------------------------------------
# Computation


def _measure(folder: Path, unit: Unit) -> Any:
    """Compute the facts of one game, as JSON-ready data."""
    if "prove" in unit:
        return "the first player wins" if prove(Game.from_dict(unit["prove"])).winner == 0 else "a draw"
    if "value" in unit:
        return perfect_value(Game.from_dict(unit["value"]))
    game = Game.from_dict(unit["solve"])
    if game.cells <= MAX_SOLVER_CELLS:
        return _facts(solve(game), Optimal(game))
    place = subfolder(folder, f"layers-{game.slug}")
    facts = _facts(build(game, place), Optimal(game, database=str(place)))
    shutil.rmtree(place)
    return facts


def _facts(solution: Solution, optimal: Optimal) -> dict[str, Any]:
    game, start = solution.game, Boards.start(solution.game)
    return {
        "value": solution.value,
        "distance": None if game.skip_chance else int(solution.distance(start)[0]),
        "counts": solution.counts._asdict(),
        "moves": solution.action_values(start)[0].tolist(),
        "optimal": np.flatnonzero(solution.optimal_actions(start)[0]).tolist(),
        "outcome": _outcome(game, solution.value, optimal),
        "policies": _policies(game) if game.cells <= MATCHED else None,
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
    found = [_format_shares(outcome(game, first, second)) for first, second in pairs]
    return [*found, f"{exploitation(game, 'random').exploitability:.9f}"]


# ---------------------------------------------------------------------------------------------------------------------
# Formatting


def _format_shares(result: Any) -> str:
    return " / ".join(f"{share:.6f}" for share in result)


def _row(game: Game, facts: Mapping[str, Any]) -> str:
    counts = facts["counts"]
    names = ("positions_not_over", "won_by_player_0", "won_by_player_1", "drawn", "classes", "games")
    numbers = {name: "" if counts[name] is None else f"{counts[name]:,}" for name in names}
    boards = counts["boards_not_over"] + counts["boards_over"]
    cells = (
        f"{game.skip_chance:g}",
        _number(game, facts["value"]),
        "" if facts["outcome"] is None else _format_shares(facts["outcome"]),
        "" if facts["distance"] is None else f"{facts['distance']} plies",
        numbers["positions_not_over"],
        f"{boards:,}",
        *(numbers[name] for name in names[1:]),
    )
    return f"| {' | '.join(cells)} |"


def _number(game: Game, value: float) -> str:
    """Format with the fraction where binary arithmetic is exact: no denominator exceeds (1 / skip) ** cells."""
    if game.cells > MAX_SOLVER_CELLS and game.skip_chance:
        return f"{value:.6f}"
    digits = f"{value:.12f}".rstrip("0").rstrip(".")
    exact = Fraction(value)
    if game.skip_chance in (0.0, 0.25, 0.5) and exact.denominator > 1:
        return f"{exact} = {digits}"
    return digits


def _section(games: list[Game], facts: list[Mapping[str, Any]]) -> str:
    game = games[0]
    columns = (
        "skip, value, win / draw / loss, ends after, positions, boards, won by first, won by second, drawn, "
        "up to symmetry, games"
    )
    start = Boards.start(game).position(0)
    lines = [
        f"## {game}",
        "",
        f"`python evaluate.py solve --size {game.rows}x{game.columns} --win-length {game.win_length}`",
        "",
        *_header(columns),
        *(_row(each, found) for each, found in zip(games, facts, strict=True)),
        "",
        "First moves:",
        "",
        "```text",
        "\n\n".join(
            f"skip {each.skip_chance:g}\n{values_text(each, start, found['moves'], best=found['optimal'])}"
            for each, found in zip(games, facts, strict=True)
        ),
        "```",
        "",
    ]
    if facts[0]["policies"] is not None:
        size = f"--size {game.rows}x{game.columns} --win-length {game.win_length}"
        lines += [
            f"Win / draw / loss of the first player, `python evaluate.py exact FIRST SECOND {size}`, and "
            f"exploitability of random play, `python evaluate.py exploitability random {size}`:",
            "",
            *_header("skip, optimal - random, random - optimal, random - random, exploitability"),
            *(
                f"| {' | '.join([f'{each.skip_chance:g}', *found['policies']])} |"
                for each, found in zip(games, facts, strict=True)
            ),
            "",
        ]
    return "\n".join(lines)


def _variants_section(games: list[Game], values: list[float]) -> str:
    lines = [_VARIANTS, *_header(", ".join(["game", *(f"skip {skip:g}" for skip in SKIPS)]))]
    numbers = {game: f"{value:.12f}".rstrip("0").rstrip(".") for game, value in zip(games, values, strict=True)}
    for game in dict.fromkeys(replace(game, skip_chance=0.0) for game in games):
        row = [numbers.get(replace(game, skip_chance=skip), "") for skip in SKIPS]
        lines.append(f"| {' | '.join([str(game), *row])} |")
    return "\n".join([*lines, ""])


def _header(names: str) -> list[str]:
    columns = names.split(", ")
    return [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]


_VARIANTS = """\
## Rule variants

Values of perfect play by both, for the first player ([rules](rules.md)). They are computed over the positions in which
no player has missed a win, and under gravity over all positions without a line, layer by layer
(`ttt_eval.exact.dynamic_programming.perfect_value`). At skip chances 0, 1/4 and 1/2 the arithmetic is exact, and at
1/10 rounding stays below 1e-12; 12 digits are shown. 6 x 5 and 5 x 6 without skips are drawn too (`evaluate.py solve
--size 6x5 --win-length 4 --gravity`); [6 x 5 with skips](baselines/connect-four.md#tables-with-skips).
"""
_PROOFS = """\
## Larger boards, without skips

`python evaluate.py solve --size ROWSxCOLUMNS --win-length N` ([how](baselines/proof.md)). The second player never wins
with perfect play by both: a stone more never harms, so the first could take the second's plan over.

| board | to win | with perfect play |
|---|---|---|"""


if __name__ == "__main__":
    main()
