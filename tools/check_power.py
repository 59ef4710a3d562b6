"""Power and false alarms of the checks, as in the tables of docs/how-to/check-search.md.

``python tools/check_power.py errors`` checks searches and an AlphaZero loop with planted errors.
``python tools/check_power.py alarms --count 20 --log FILE`` checks what is right with the seeds 0
to 19, and goes on where the log ends.
"""

from __future__ import annotations

import json
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


class Log:
    """Results of calls in a file of JSON lines, none of which is made again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        lines = path.read_text("utf-8").splitlines() if path.exists() else []
        self.rows = {row["call"]: row for row in map(json.loads, lines)}

    def get(self, call: str, measure: Callable[[], Mapping[str, object]]) -> dict[str, Any]:
        """Return the result of a call, which is measured and stored if the file has none."""
        if call not in self.rows:
            self.rows[call] = {"call": call, **measure()}
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(f"{json.dumps(self.rows[call])}\n")
        return dict(self.rows[call])


def measure_alarm(kind: str, name: str, call: Callable[[], Check]) -> dict[str, Any]:
    """Return the result of a right call, and print it if it fails."""
    check = call()
    if not check.ok:
        print(f"{name}:\n{check}", flush=True)
    return {"kind": kind, **check.to_dict()}


def log_alarms(path: Path, kinds: Sequence[str], seeds: range) -> None:
    """Append the calls that the log does not have yet, print those that fail, and the sums."""
    log = Log(path)
    for seed, kind in product(seeds, kinds):
        for name, call in KINDS[kind](seed):
            key = f"{kind}: {name}, seed {seed}"
            log.get(key, partial(measure_alarm, kind, key, call))
    print_head("right", "calls", "false alarms", "at most, 95%")
    for group in [*([kind] for kind in kinds), kinds]:
        checks = [call["ok"] for call in log.rows.values() if call["kind"] in group]
        alarms = checks.count(False)
        bound = one_sided_bound(alarms, len(checks))
        print_row(", ".join(group), len(checks), alarms, f"{bound:.2%}")


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
    log: Path = Path("alarms.jsonl"),
) -> None:
    """Print a table of planted errors, or of right calls.

    Args:
        command: planted errors, and the rows that find them; or right calls that fail.
        families: of planted errors.
        kinds: of right calls.
        seed: the first seed of right calls.
        count: the number of seeds.
        log: a file of JSON lines, with which right calls go on.
    """
    if command == "alarms":
        log_alarms(log, kinds, range(seed, seed + count))
        return
    for family in families:
        print_errors(FAMILIES[family], CHECKS[family])


if __name__ == "__main__":
    tyro.cli(main)
