"""Shared parts of the studies of compressed tables: the paper's matches, exact and sampled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from baselines.compression import Method, decomposition
from baselines.tables import Evaluation, Softmax, Table, Terminal, source_values
from ttt_envs.game.game import Game
from ttt_eval.exact.dynamic_programming import OutcomeProbabilities, outcome
from ttt_eval.matches.match import play_pairs
from ttt_eval.reports.plots import DRAW, LOSS, WIN
from ttt_eval.statistics import are_samples

SOURCE = (
    "Fujita and Watanabe (2022), Information Compression and Performance Evaluation of Tic-Tac-Toe's Evaluation "
    "Function Using Singular Value Decomposition (https://arxiv.org/abs/2207.02449)"
)
TERMINALS: tuple[Terminal, ...] = ("equation", "as_published")
WEIGHT = 10.0
"""w of Eq. (17)."""
GAMES, BATCHES = 500, 5
"""Number of games in each seat, and number of batches of them."""
PAIRS = ((0, 0), (3, 7), (8, 12), (12, 14), (19, 17), (26, 19), (49, 24), (61, 26))
"""Table 1: ranks of the SVD and of the HOSVD at about the same compression ratio."""
RATIOS = (0.0, 0.049, 0.13, 0.20, 0.31, 0.43, 0.80, 1.0)
"""Compression ratios of Table 1."""
CONVENTIONS = (
    "Two conventions: by the paper's Eq. (1) a won board has the value 1 or -1; the paper's program stores 0 there, "
    "so that a winning move looks like any other move, and the paper's figures use that table. Exact results are "
    "computed by dynamic programming, w = 10; rates are means of both seats, as in the paper"
)


def full_table(game: Game, terminal: Terminal) -> Table:
    """Return the uncompressed table."""
    return Table(game, source_values(game, "random", terminal))


def at_ranks(game: Game, method: Method, terminal: Terminal, ranks: Sequence[int] | None = None) -> list[Any]:
    """Return the table compressed to these ranks, or to all."""
    parts = decomposition(game, method, terminal=terminal)
    return [parts.at(rank) for rank in (range(parts.largest + 1) if ranks is None else ranks)]


def match(game: Game, a: Evaluation, b: Evaluation, batches: int, seed: int = 0) -> dict[str, Any]:
    """Play two tables: ``exact`` float[2, 3], of a moving first and second, and ``sampled`` int[batches, 2, 3]."""
    one, other = Softmax(a, WEIGHT), Softmax(b, WEIGHT)
    exact = [outcome(game, one, other), outcome(game, other, one).reversed()]
    # the games of a pair draw independent moves, and without skips they share nothing
    sampled = [
        play_pairs(game, one, other, GAMES, seed=batches * seed + batch).table.tolist() for batch in range(batches)
    ]
    return {"exact": [list(seat) for seat in exact], "sampled": sampled}


def mean(result: dict[str, Any]) -> OutcomeProbabilities:
    """Return the exact result, the mean of both seats."""
    first, second = (OutcomeProbabilities(*seat) for seat in result["exact"])
    return first.mean(second)


def rates_agree(results: Sequence[dict[str, Any]]) -> bool:
    """Return whether the sampled games are plausible under the exact rates."""
    counts = [seat for result in results for batch in result["sampled"] for seat in batch]
    exact = [seat for result in results for _ in result["sampled"] for seat in result["exact"]]
    return are_samples(counts, np.maximum(0.0, exact).tolist())  # rounding may give -1e-17 for zero


def published_rates(result: dict[str, Any]) -> list[float]:
    """Return wins, draws and losses as in the paper's figures: each from a batch of its own, of both seats."""
    shares = [np.array(batch).sum(axis=0) / np.sum(batch) for batch in result["sampled"]]
    return [float(shares[index % len(shares)][index]) for index in range(3)]


def draw_rates(
    axes: Any, ratios: Sequence[float], results: Sequence[dict[str, Any]], players: tuple[str, str], **dots: Any
) -> None:
    """Draw wins of both players and draws by compression ratio: exact rates as lines, sampled ones as dots."""
    exact, sampled = (np.array([rates(one) for one in results]) for rates in (mean, published_rates))
    for column, label, colour in ((0, f"{players[0]} wins", WIN), (2, f"{players[1]} wins", LOSS), (1, "draws", DRAW)):
        axes.plot(ratios, exact[:, column], color=colour, label=label)
        axes.plot(ratios, sampled[:, column], color=colour, ms=4, ls="", **dots)
