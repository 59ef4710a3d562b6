"""Power and false alarms of the checks, as in the tables of docs/how-to/check-search.md.

``python tools/check_power.py errors`` checks searches and an AlphaZero loop with planted errors.
``python tools/check_power.py alarms --count 20 --log FILE`` checks what is right with the seeds 0
to 19, and goes on where the log ends.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from planted_errors import ERRORS, FAMILIES, plant_loop, plant_search
from right_calls import GAMES, KINDS
from right_loop import check_loop
from scipy.stats import beta

from ttt_eval.checks import Check, check_search


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
            print(
                f"\n| planted error | {' | '.join(checks)} | cause |\n|{'---|' * (len(checks) + 2)}"
            )
        # a user reads the first verdict; alternating turns hide errors of second turns
        failures = [check for call, check in checks.items() if check.failed and call != "plain"]
        rating = rate_cause(error, failures[0]) if failures else "-"
        if not ERRORS[error]["harmless"]:
            ratings.append(rating)
        cells = [", ".join(check.failed) or "-" for check in checks.values()]
        print(f"| {error} | {' | '.join(cells)} | {rating} |", flush=True)
    counts = ", ".join(f"{ratings.count(name)} {name}" for name in ("right", "broad", "wrong", "-"))
    print(f"\nthe first cause of the {len(ratings)} errors that do harm: {counts}")


def one_sided_bound(count: int, total: int) -> float:
    """Return the upper bound of a probability, one-sided with a confidence of 95%, of which
    ``count`` cases were seen in ``total``.
    """
    return float(beta.ppf(0.95, count + 1, total - count)) if count < total else 1.0


def read_log(path: Path) -> dict[str, dict[str, Any]]:
    """Return the logged calls by name and seed; none without the file."""
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    calls = [json.loads(line) for line in lines]
    return {call["call"]: call for call in calls}


def log_alarms(path: Path, kinds: Sequence[str], seeds: range) -> None:
    """Append the calls that the log does not have yet, print those that fail, and the sums."""
    rows = read_log(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    for seed, kind in product(seeds, kinds):
        for name, call in KINDS[kind](seed):
            key = f"{kind}: {name}, seed {seed}"
            if key not in rows:
                check = call()
                rows[key] = {"call": key, "kind": kind, **check.to_dict()}
                with path.open("a", encoding="utf-8") as file:
                    file.write(f"{json.dumps(rows[key])}\n")
                if not check.ok:
                    print(f"{key}:\n{check}", flush=True)
    print("| right | calls | false alarms | at most, 95% |\n|---|---|---|---|")
    for group in [*([kind] for kind in kinds), kinds]:
        checks = [call["ok"] for call in rows.values() if call["kind"] in group]
        alarms = checks.count(False)
        bound = one_sided_bound(alarms, len(checks))
        print(f"| {', '.join(group)} | {len(checks)} | {alarms} | {bound:.2%} |")


CHECKS: Mapping[str, Callable[[str], Mapping[str, Check]]] = {
    "puct": partial(check_games, "puct", "owned"),
    "uct": partial(check_games, "uct", None),
    "loop": lambda error: check_loop(plant_loop(error).train()),
}
"""The checks that look for an error, by family."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command."""
    parser = argparse.ArgumentParser(description="Power and false alarms of the checks.")
    commands = parser.add_subparsers(dest="command", required=True)
    errors = commands.add_parser("errors", help="planted errors, and the rows that find them")
    errors.add_argument("--families", nargs="+", choices=FAMILIES, default=FAMILIES)
    alarms = commands.add_parser("alarms", help="right calls that fail; goes on with its log")
    alarms.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    alarms.add_argument("--seed", type=int, default=0, help="the first seed")
    alarms.add_argument("--count", type=int, default=1, help="the number of seeds")
    alarms.add_argument("--log", type=Path, required=True, help="a file of JSON lines")
    options = parser.parse_args(arguments)
    if options.command == "alarms":
        seeds = range(options.seed, options.seed + options.count)
        log_alarms(options.log, options.kinds, seeds)
        return
    for family in options.families:
        print_errors(FAMILIES[family], CHECKS[family])


if __name__ == "__main__":
    main()
