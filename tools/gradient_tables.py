"""The tables of docs/how-to/check-gradient.md.

``python tools/gradient_tables.py`` prints all of them, and ``... estimators`` (losses, divergences,
tokens, errors) one.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from examples.checks import losses
from examples.checks.estimators import ESTIMATORS
from examples.checks.wrong_gradients import WRONG
from ttt_eval.checks import check_advantages, check_loss
from ttt_eval.checks.directions import Effect
from ttt_eval.checks.losses import TARGETS

SIZES = (2, 64)
TOKEN_SIZES = (1, 2, 8, 64, 512)
UPDATES = (0.0, 0.3)


def short(effect: Effect | None) -> str:
    """Return an effect as the cell of a table."""
    if effect is None or effect.direction == "no effect":
        return "no effect"
    limit = "" if effect.exact else f" ({effect.degrees.low:.1f} to {effect.degrees.high:.1f})"
    return f"x{effect.length.mean:.2f}, {effect.degrees.mean:.1f}{limit}"


def row(*cells: object) -> None:
    """Print the row of a table."""
    print("|", " | ".join(map(str, cells)), "|", flush=True)


def head(*cells: str) -> None:
    """Print the head of a table."""
    print()
    row(*cells)
    print("|" + "---|" * len(cells))


def print_estimators() -> None:
    """Print the effects of the named estimators by the size of the batch."""
    head("estimator", *(f"batch of {size}" for size in SIZES))
    for name, function in ESTIMATORS.items():
        seats = (0, 1) if name == "turn-level" else (0,)
        checks = [check_advantages(function, seats=seats, batch=size, cpu=6) for size in SIZES]
        row(name, *(short(check.effect) for check in checks))


def print_losses() -> None:
    """Print the weights and effects of policy losses."""
    head("loss", "weights at ratios 0.5, 1, 1.5 and A = 1, then A = -1", *map(str, UPDATES))
    for loss in losses.POLICY_LOSSES:
        check = check_loss(loss, updates=UPDATES)
        after = check.row(f"after an update of {UPDATES[1]:g}").measured
        row(loss.__name__, check.row("weights").measured.partition(" at")[0], check.effect, after)


def print_divergences() -> None:
    """Print what divergences and entropies in a loss descend."""
    kinds = [name for name in TARGETS if name != "policy"]
    head("in the loss", *kinds)
    for loss in (*losses.DIVERGENCES, *losses.ENTROPIES):
        row(loss.__name__, *(short(check_loss(loss, meant=kind).effect) for kind in kinds))


def print_tokens() -> None:
    """Print the effects of means over tokens."""
    first, *others = TOKEN_SIZES
    head("loss", f"{first} sequence", *(f"{size} sequences" for size in others))
    for loss in losses.TOKEN_LOSSES:
        checks = [check_loss(loss, tokens=True, batch=size) for size in TOKEN_SIZES]
        row(loss.__name__, *(short(check.effect) for check in checks))


def print_errors() -> None:
    """Print which planted errors are found, and by which rows."""
    head("error", "gradient", "rows", "CPU s")
    num_found = 0
    for error, call in WRONG.items():
        begin = time.process_time()
        check = call.run()
        names = {line.name for line in check.rows if line.name == "own sample"} | set(check.failed)
        num_found += bool(names)
        row(
            error, short(check.effect), ", ".join(sorted(names)) or "-",
            f"{time.process_time() - begin:.1f}",
        )  # fmt: skip
    print(f"\n{num_found} of {len(WRONG)} found")


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
