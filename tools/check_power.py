"""Power and false alarms of the checks, as in the tables of docs/how-to/check-search.md.

``python tools/check_power.py errors`` checks searches and an AlphaZero loop with planted errors.
``python tools/check_power.py alarms --count 20 --log FOLDER`` checks what is right with the seeds 0
to 19, and goes on where it was stopped.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Literal

import tyro
from planted_errors import ERRORS, FAMILIES, plant_loop, plant_search
from right_calls import GAMES, KINDS
from right_loop import check_loop
from scipy.stats import beta
from writing import print_head, print_row

sys.path.insert(0, str(Path(__file__).parents[1]))

from studies.frame import group
from ttt_eval.checks import Check, check_search
from ttt_eval.store.result_store import Unit, collect_results
from ttt_eval.store.versions import make_provenance


def rate_cause(error: str, check: Check) -> str:
    """Return whether the first cause is right, broadly right, or wrong."""
    for rating, part in zip(("right", "broad"), ERRORS[error]["causes"], strict=True):
        if part in check.cause:
            return rating
    return "wrong"


def check_games(rule: str, evaluator: str | None, error: str) -> dict[str, Check]:
    """Return the checks of a search in all games."""
    search = plant_search(error, rule)
    return {turns: check_search(search, turns, evaluator) for turns in GAMES}


def print_errors(errors: Sequence[str], make_checks: Callable[[str], Mapping[str, Check]]) -> None:
    """Print a table of planted errors: the failed rows by call, and the rating of the cause."""
    ratings = []
    for error in errors:
        checks = make_checks(error)
        if error == errors[0]:
            print_head("planted error", *checks, "cause")
        # a user reads the first verdict; alternating turns hide errors of second turns
        failures = [check for call, check in checks.items() if check.failed and call != "plain"]
        rating = rate_cause(error, failures[0]) if failures else "-"
        if not ERRORS[error]["harmless"]:
            ratings.append(rating)
        cells = [", ".join(check.failed) or "-" for check in checks.values()]
        print_row(error, *cells, rating)
    counts = ", ".join(f"{ratings.count(name)} {name}" for name in ("right", "broad", "wrong", "-"))
    print(f"\nthe first cause of the {len(ratings)} errors that do harm: {counts}")


def one_sided_bound(count: int, total: int) -> float:
    """Return the upper bound of a probability, one-sided with a confidence of 95%, of which
    ``count`` cases were seen in ``total``.
    """
    return float(beta.ppf(0.95, count + 1, total - count)) if count < total else 1.0


def measure_alarm(unit: Unit) -> dict[str, Any]:
    """Return the result of a right call, and print it if it fails."""
    check = dict(KINDS[unit["kind"]](unit["seed"]))[unit["call"]]()
    if not check.ok:
        print(f"{unit}:\n{check}", flush=True)
    return dict(check.to_dict())


def print_alarms(folder: Path, kinds: Sequence[str], seeds: range) -> None:
    """Make the calls that the folder does not have yet, print those that fail, and the sums."""
    units = [
        {"kind": kind, "call": name, "seed": seed}
        for seed, kind in product(seeds, kinds)
        for name, _ in KINDS[kind](seed)
    ]
    results = collect_results(measure_alarm, units, folder, make_provenance())
    oks_of_kinds = group([*zip(units, results, strict=True)], "kind")
    print_head("right", "calls", "false alarms", "at most, 95%")
    for names in [*([kind] for kind in kinds), kinds]:
        oks = [check["ok"] for kind in names for check in oks_of_kinds[kind]]
        alarms = oks.count(False)
        print_row(", ".join(names), len(oks), alarms, f"{one_sided_bound(alarms, len(oks)):.2%}")


CHECKS: Mapping[str, Callable[[str], Mapping[str, Check]]] = {
    "puct": partial(check_games, "puct", "owned"),
    "uct": partial(check_games, "uct", None),
    "loop": lambda error: check_loop(plant_loop(error).train()),
}
"""The checks that look for an error, by family."""


def main(
    command: tyro.conf.Positional[Literal["errors", "alarms"]],
    families: tuple[Literal["puct", "uct", "loop"], ...] = ("puct", "uct", "loop"),
    kinds: tuple[str, ...] = tuple(KINDS),
    seed: int = 0,
    count: int = 1,
    log: Path = Path("runs", "alarms"),
) -> None:
    """Print a table of planted errors, or of right calls.

    Args:
        command: planted errors, and the rows that find them; or right calls that fail.
        families: of planted errors.
        kinds: of right calls.
        seed: the first seed of right calls.
        count: the number of seeds.
        log: the folder of the results of right calls, which are not made again.
    """
    if command == "alarms":
        print_alarms(log, kinds, range(seed, seed + count))
        return
    for family in families:
        print_errors(FAMILIES[family], CHECKS[family])


if __name__ == "__main__":
    tyro.cli(main)
