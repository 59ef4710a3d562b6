"""Checks what another library computes, and asks its searches again where they err: a part of
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
from ttt_eval.checks import (
    PROBES,
    Check,
    GradientCheck,
    check_advantages,
    check_learner,
    check_search,
)
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
    answers = checker.ask("results", rows, simulations=SIMULATIONS)
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


def check_in(function: Any, game: Any, spec: dict[str, Any]) -> Check:
    """Return the check of a search or of advantages in a game, or of a learner in probes."""
    if spec["kind"] == "learner":
        return check_learner(function, game)
    if spec["kind"] == "advantages":
        return check_advantages(function, game, **spec["options"])
    evaluator = "owned" if spec["owned"] else None
    return check_search(function, game, evaluator, spec["simulations"], limit_s=spec["limit_s"])


def describe(check: Check) -> str:
    """Return what the verdict leaves out: what advantages are, and in which probes a learner is not
    judged.
    """
    if isinstance(check, GradientCheck):
        return "; ".join(text for text in (check.recognised, str(check.effect)) if text)
    counts = Counter(row.status for row in check.rows if row.name in PROBES)
    judged = counts["holds"] + counts["fails"]
    unjudged = [
        f"{row.name}: {row.measured.removeprefix('train returned None: ')}"
        for row in check.rows
        if row.status == "no evidence"
    ]
    return "; ".join([f"{counts['holds']} of {judged} probes hold", *unjudged])


def ask_worst(search: Any, game: Any, check: Check, spec: dict[str, Any]) -> Any:
    """Return the answer of a search in the position where it errs longest; None without one."""
    positions = {evidence.position for row in check.rows for evidence in row.evidence[:1]}
    positions.update(spec["positions"])
    if game == "plain" and positions:
        options = {"owned": spec["owned"], "limit_s": spec["limit_s"]}
        with (
            contextlib.suppress(StopError),  # then the check itself says that it does not end
            open_check(Checker, search, game, "3x3", **options) as checker,
        ):
            answer = max(ask_again(checker, position) for position in sorted(positions))
            return answer if answer[0] > TIE else None
    return None


def run_check(function: Any, game: Any, spec: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a check; of a search, with the worst of its positions."""
    is_search = spec["kind"] == "search"
    if is_search:
        check_search(play_first, game, None)  # loads what is compiled
    start = time.process_time()
    check = check_in(function, game, spec)
    result = {
        "cpu_s": time.process_time() - start,
        "verdict": check.verdict,
        "failed": check.failed,
    }
    if is_search:
        return {**result, "answer": ask_worst(function, game, check, spec)}
    return {**result, "note": describe(check)}


def has_line(file: str, line: int, quote: str) -> bool:
    """Return whether a line of an installed file, or of a checkout, has a text."""
    places = [Path(folder) / file for folder in sys.path if (Path(folder) / file).is_file()]
    return quote in places[0].read_text("utf-8").splitlines()[line - 1]


def main(spec: dict[str, Any]) -> None:
    """Print the result of a block."""
    module = importlib.import_module(spec["adapter"])
    checks = {
        f"{name} {game}": run_check(getattr(module, name), game, spec)
        for name in spec["functions"]
        for game in spec["games"]
    }
    lines = [has_line(*line) for line in spec["lines"]]
    print(json.dumps({"checks": checks, "lines": lines}))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
