"""``evaluate.py ground-truth``: the page docs/ground-truth.md, computed anew."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from baselines.proof import prove
from baselines.solver import LARGEST, Solution, solve
from evaluation.exact import exploitation, outcome
from ttt_apps.cli import progress_bar
from ttt_apps.evaluate.solve import board_of
from ttt_envs.boards import Boards
from ttt_envs.rules import Game

BOARDS = (
    (2, 2, 2), (2, 3, 2), (2, 3, 3), (3, 3, 2), (3, 3, 3), (3, 4, 3), (3, 4, 4), (3, 5, 3), (3, 5, 4), (4, 4, 3),
    (4, 4, 4),
)  # fmt: skip
"""rows, columns, win length"""
SKIPS = (0.0, 0.1, 0.25, 0.5)
PROVED = (
    (4, 5, 4), (4, 6, 4), (4, 7, 4), (5, 5, 4), (5, 5, 5), (5, 6, 4), (6, 6, 4), (6, 6, 5), (6, 6, 6), (6, 7, 5),
    (7, 7, 4), (7, 7, 5),
)  # fmt: skip
"""boards too large to tabulate, without skips"""
MATCHED = 12
"""cells up to which policies are evaluated, too"""

HEAD = """\
# Ground truth

Everything here is computed, nothing is sampled or quoted, and nothing was typed: this page is what
`python evaluate.py ground-truth` prints. A value is the expected result of perfect play by both sides, to the player
who moves first: 1 a win, 0 a draw, -1 a loss. Where the skip chance is 0, 1/4 or 1/2 the arithmetic is exact, and
values are given as fractions too; at 1/10 rounding stays below 1e-12. A star marks the best first moves. *Boards* are
arrangements of stones that can be reached; *positions* also say who is to move, and are not over. *Ends after* counts
plies where the winner hurries and the loser delays. Every row can be had again by the command above its table, with
`--skip-chance` as in the row.
"""


@dataclass(frozen=True)
class GroundTruth:
    """Compute the page of exact facts, docs/ground-truth.md, and print it as Markdown."""

    largest: int = LARGEST
    """cells of the largest board to solve; larger ones are left out"""
    proofs: bool = True
    """also who wins larger boards without skips"""

    def run(self) -> None:
        """Compute and print."""
        boards = [board for board in BOARDS if board[0] * board[1] <= self.largest]
        print(HEAD)
        with progress_bar("board") as bar:
            proved = PROVED if self.proofs else ()
            task = bar.add_task("computing", total=len(boards) * len(SKIPS) + len(proved), board="")
            for board in boards:
                parts = []
                for skip in SKIPS:
                    game = Game(*board, skip)
                    bar.update(task, board=str(game))
                    parts.append(_Part.of(game))
                    bar.advance(task)
                print(_section(parts))
            if proved:
                print(_PROOFS)
            for board in proved:
                game = Game(*board)
                bar.update(task, board=str(game))
                print(_proof(game))
                bar.advance(task)


@dataclass(frozen=True)
class _Part:
    """What is said of one game."""

    game: Game
    row: str
    first_moves: str
    policies: str | None

    @classmethod
    def of(cls, game: Game) -> _Part:
        solution = solve(game, cache=False)
        start = Boards.start(game)
        moves = board_of(game, start.position(0), solution.action_values(start)[0])
        return cls(game, _row(solution), moves, _policies(game) if game.cells <= MATCHED else None)


def _row(solution: Solution) -> str:
    game, counts = solution.game, solution.counts
    ends = "" if game.skip_chance else f"{solution.distance(Boards.start(game))[0]} plies"
    cells = (
        f"{game.skip_chance:g}",
        _number(game, solution.value),
        ends,
        f"{counts.positions_not_over:,}",
        f"{counts.boards:,}",
        f"{counts.won_by_player_0:,}",
        f"{counts.won_by_player_1:,}",
        f"{counts.drawn:,}",
        f"{counts.classes:,}",
        "" if counts.games is None else f"{counts.games:,}",
    )
    return f"| {' | '.join(cells)} |"


def _number(game: Game, value: float) -> str:
    """With its fraction where binary arithmetic is exact: no denominator is larger than (1 / skip) ** cells."""
    digits = f"{value:.12f}".rstrip("0").rstrip(".")
    exact = Fraction(value)
    if game.skip_chance in (0.0, 0.25, 0.5) and exact.denominator > 1:
        return f"{exact} = {digits}"
    return digits


def _policies(game: Game) -> str:
    """Rows of what perfect play and random play come to."""
    cells = [f"{game.skip_chance:g}"]
    for first, second in (("optimal", "optimal"), ("optimal", "random"), ("random", "optimal"), ("random", "random")):
        cells.append(" / ".join(f"{share:.6f}" for share in outcome(game, first, second)))
    cells.append(f"{exploitation(game, 'random').exploitability:.9f}")
    return f"| {' | '.join(cells)} |"


def _section(parts: list[_Part]) -> str:
    game = parts[0].game
    lines = [
        f"## {game}",
        "",
        f"`python evaluate.py solve --size {game.rows}x{game.columns} --win-length {game.win_length}`",
        "",
        *_header(
            "skip, value, ends after, positions, boards, won by first, won by second, drawn, up to symmetry, games"
        ),
        *(part.row for part in parts),
        "",
        "First moves:",
        "",
        "```text",
        "\n\n".join(f"skip {part.game.skip_chance:g}\n{part.first_moves}" for part in parts),
        "```",
        "",
    ]
    if parts[0].policies is not None:
        size = f"--size {game.rows}x{game.columns} --win-length {game.win_length}"
        lines += [
            f"Win / draw / loss of the first player, `python evaluate.py exact FIRST SECOND {size}`, and what a best "
            f"responder makes of random play, `python evaluate.py exploitability random {size}`:",
            "",
            *_header("skip, optimal - optimal, optimal - random, random - optimal, random - random, best responder"),
            *(part.policies for part in parts if part.policies is not None),
            "",
        ]
    return "\n".join(lines)


def _header(names: str) -> list[str]:
    columns = names.split(", ")
    return [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]


_PROOFS = """\
## Larger boards, without skips

`python evaluate.py prove --size ROWSxCOLUMNS --win-length N` ([how](baselines/proof.md)). The second player never wins
with perfect play by both: a stone more never harms, so the first could take the second's plan over.

| board | to win | with perfect play |
|---|---|---|"""


def _proof(game: Game) -> str:
    proof = prove(game)
    result = "the first player wins" if proof.winner == 0 else "a draw"
    return f"| {game.rows} x {game.columns} | {game.win_length} | {result} |"
