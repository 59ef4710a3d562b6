"""The tables of docs/how-to/check-gradient.md.

``python tools/gradient_tables.py`` prints all of them, and ``... estimators`` (losses, divergences,
tokens, errors) one.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from writing import print_head, print_row

sys.path.insert(0, str(Path(__file__).parents[1]))

from examples.checks import losses
from examples.checks.estimators import ESTIMATORS
from examples.checks.wrong_gradients import WRONG
from ttt_eval.checks import GradientCheck, check_advantages, check_loss
from ttt_eval.checks.directions import Effect
from ttt_eval.checks.losses import TARGETS

SIZES = (2, 64)
TOKEN_SIZES = (1, 2, 8, 64, 512)
UPDATES = (0.0, 0.3)


def short(effect: Effect | None) -> str:
    """Return an effect as the cell of a table."""
    if effect is None:
        return "not measured"
    if effect.direction == "no effect":
        return effect.direction
    limit = "" if effect.exact else f" ({effect.degrees.low:.1f} to {effect.degrees.high:.1f})"
    return f"x{effect.length.mean:.2f}, {effect.degrees.mean:.1f}{limit}"


def print_effects(
    title: str,
    calls: Mapping[str, Callable[..., GradientCheck]],
    columns: Mapping[str, Mapping[str, Any]],
) -> None:
    """Print the effects of functions.

    Args:
        title: of their names.
        calls: their checks, by name.
        columns: options of the checks, by the head of their column.
    """
    print_head(title, *columns)
    for name, call in calls.items():
        print_row(name, *(short(call(**options).effect) for options in columns.values()))


def by_size(sizes: Sequence[int]) -> dict[str, dict[str, int]]:
    """Return the columns of sizes of batches."""
    return {f"batch of {size}": {"batch": size} for size in sizes}


def print_estimators() -> None:
    """Print the effects of the named estimators by the size of the batch."""
    calls = {name: partial(check_advantages, of, cpu=6) for name, of in ESTIMATORS.items()}
    calls["turn-level"] = partial(calls["turn-level"], seats=(0, 1))
    print_effects("estimator", calls, by_size(SIZES))


def print_losses() -> None:
    """Print the weights and effects of policy losses."""
    print_head("loss", "weights at ratios 0.5, 1, 1.5 and A = 1, then A = -1", *map(str, UPDATES))
    for loss in losses.POLICY_LOSSES:
        checks = [check_loss(loss, updates=(update,)) for update in UPDATES]
        weights = checks[0].row("weights").measured.partition(" at")[0]
        print_row(loss.__name__, weights, *(short(check.effect) for check in checks))


def print_divergences() -> None:
    """Print what divergences and entropies in a loss descend."""
    calls = {of.__name__: partial(check_loss, of) for of in losses.DIVERGENCES + losses.ENTROPIES}
    print_effects("in the loss", calls, {kind: {"meant": kind} for kind in TARGETS})


def print_tokens() -> None:
    """Print the effects of means over tokens."""
    calls = {of.__name__: partial(check_loss, of, tokens=True) for of in losses.TOKEN_LOSSES}
    print_effects("loss", calls, by_size(TOKEN_SIZES))


def print_errors() -> None:
    """Print which planted errors are found, and by which rows, as CSV."""
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(("error", "gradient", "rows"))
    num_found = 0
    for error, call in WRONG.items():
        check = call.run()
        names = {line.name for line in check.rows if line.name == "own sample"} | set(check.failed)
        num_found += bool(names)
        table.writerow((error, short(check.effect), ", ".join(sorted(names)) or "-"))
    print(f"{num_found} of {len(WRONG)} found", file=sys.stderr)


TABLES: dict[str, Callable[[], None]] = {
    "estimators": print_estimators,
    "losses": print_losses,
    "divergences": print_divergences,
    "tokens": print_tokens,
    "errors": print_errors,
}


if __name__ == "__main__":
    for table in sys.argv[1:] or TABLES:
        TABLES[table]()
