"""Checks the searches of another library, and asks them again where they err: a part of
``tools/outside.py``, which runs this file with the Python of the library's environment.

The argument is a block of ``outside.toml`` as JSON; the last line that is printed is the result.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from ttt_envs import from_text
from ttt_eval.checks import check_search
from ttt_eval.checks.session import Checker, StopError, mean_of, open_check
from ttt_eval.checks.tables import TIE, GameTable

SIMULATIONS = 1_000
"""Number of simulations of a search that is asked again."""
NUM_SEARCHES = 10
"""Number of searches that are asked again in a position, each with a seed of its own."""


def ask_again(checker: Checker, position: str) -> tuple[float, str, str]:
    """Return by how much longer searches err in a position, the position, and what they answer."""
    table = checker.table
    row = table.index(np.array([0, 1, -1])[from_text(position, table.game).cells])
    rows = [row] * NUM_SEARCHES
    answers = checker.ask(rows, checker.zeros, SIMULATIONS, 0)
    moves, losses = checker.moves(rows, answers)
    [(move, count)] = Counter(moves.tolist()).most_common(1)
    best_moves = np.flatnonzero(table.losses[row] < TIE).tolist()
    value = mean_of(answers.values)
    truth = table.values[row]
    note = f"plays {move} in {count} of {NUM_SEARCHES} searches; best: {best_moves}"
    badness = mean_of(losses)
    if np.isfinite(value):
        note += f"; the value is {value:+.2f}, the truth {truth:+.0f}"
        badness += abs(value - truth) / 100
    return badness, position, note


def play_first(game: GameTable, board: Any, *_: Any) -> int:
    """Return the first legal move."""
    return game.legal_actions(board)[0]


def run_check(search: Any, game: Any, spec: dict[str, Any]) -> dict[str, Any]:
    """Return the result of the check of a search, and the worst of its positions."""
    owned = spec["owned"]
    check_search(play_first, game, None)  # loads what is compiled
    start = time.process_time()
    check = check_search(
        search, game, "owned" if owned else None, spec["simulations"], limit_s=spec["limit_s"]
    )
    result = {
        "cpu_s": time.process_time() - start,
        "verdict": check.verdict,
        "failed": check.failed,
        "answer": None,
    }
    positions = {evidence.position for row in check.rows for evidence in row.evidence[:1]}
    positions.update(spec["positions"])
    if game == "plain" and positions:
        with (
            contextlib.suppress(StopError),  # then the check itself says that it does not end
            open_check(
                Checker, search, game, "3x3", owned=owned, limit_s=spec["limit_s"]
            ) as checker,
        ):
            answer = max(ask_again(checker, position) for position in sorted(positions))
            result["answer"] = answer if answer[0] > TIE else None
    return result


def has_line(file: str, line: int, quote: str) -> bool:
    """Return whether a line of an installed file, or of a checkout, has a text."""
    places = [Path(folder) / file for folder in sys.path if (Path(folder) / file).is_file()]
    return quote in places[0].read_text("utf-8").splitlines()[line - 1]


def main(spec: dict[str, Any]) -> None:
    """Print the result of a block."""
    module = importlib.import_module(spec["adapter"])
    checks = {
        f"{name} {game}": run_check(getattr(module, name), game, spec)
        for name in spec["searches"]
        for game in spec["games"]
    }
    lines = [has_line(*line) for line in spec["lines"]]
    print(json.dumps({"checks": checks, "lines": lines}))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
