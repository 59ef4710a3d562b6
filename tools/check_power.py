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

from planted_loop import LOOP_ERRORS, PlantedLoop, check_loop
from planted_searches import ERRORS, ROLLOUT_ERRORS, PlantedTreeSearch
from right_calls import GAMES, KINDS
from scipy.stats import beta

from ttt_eval.checks import Check, check_search

HARMLESS = {"sum for mean", "policy of the best mean value"}
"""Errors that do no measurable harm on nine cells: both are greedy, and right near the end."""
CAUSES = {
    "sign never flipped": ("never flipped", "wrong sign"),
    "sign alternates with depth": ("alternate", "wrong sign"),
    "leaf taken for the other player": ("for the other player", "wrong sign"),
    "fixed player's view": ("fixed player's view", "wrong sign"),
    "root value of the other player": ("root's value has the other", "wrong sign"),
    "negated at second turns only": ("where the same player moves again", "wrong sign"),
    "edge value of the next mover": ("one ply off", "wrong sign"),
    "second turn never searched": ("second turns are", "other turns"),
    "chance 1/2 for 1/4": ("chance", "another size"),
    "one outcome kept": ("outcomes of chance", "another size"),
    "outcomes share a node": ("outcomes of chance", "another size"),
    "finished positions evaluated": ("finished positions are evaluated", "finished"),
    "wins as draws": ("wins and losses count as draws", "results"),
    "draws as losses": ("draws count as losses", "draws"),
    "draws as wins": ("draws count as wins", "draws"),
    "illegal moves searched": ("not masked", "error"),
    "selection by the child's side": ("good for the other player", "selection"),
    "selection ignores values": ("selection: moves are wrong", "selection"),
    "no exploration": ("exploration", "selection"),
    "priors ignored": ("priors are not used", "priors"),
    "priors of the parent": ("those of another position", "priors"),
    "ends not backed up": ("results of finished games are not backed up", "results"),
    "only the parent updated": ("do not reach the root", "not backed up"),
    "discount 0.9 per ply": ("a discount", "another size"),
    "tree of another position kept": ("tree of another position", "visits"),
    "plays the least visited": ("visits least", "selection"),
    "value off by one ply": ("one ply off", "for the other player"),
    "one diagonal missing": ("a win that it does not see", "results"),
    "sum for mean": ("selection", "selection"),
    "bonus without decay": ("exploration", "selection"),
    "results of the first player": ("fixed player's view", "do not depend on the result"),
    "results inverted": ("the other player's view", "wrong sign"),
    "draws recorded as losses": ("draws count as losses", "draws"),
    "boards of the first player": ("fixed player's view", "of other positions"),
    "images of boards, not of policies": ("symmetric", "of other positions"),
    "no exploration in self-play": ("too little training", "not trained, or of other positions"),
    "value head untrained": ("not trained", "do not depend on the result"),
    "boards of the other player": ("of other positions", "do not depend on the result"),
    "policy of the best mean value": ("too little search", "training"),
}
"""Parts of the right cause and of a broadly right one, by error."""


def rate_cause(error: str, check: Check) -> str:
    """Return whether the first cause is right, broadly right, or wrong."""
    for rating, part in zip(("right", "broad"), CAUSES[error], strict=True):
        if part in check.cause:
            return rating
    return "wrong"


def check_games(rule: str, evaluator: str | None, error: str) -> dict[str, Check]:
    """Return the checks of a search in all games."""
    search = PlantedTreeSearch(rule, error=error)
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
        ratings += [rating] if error not in HARMLESS else []
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


FAMILIES: Mapping[str, tuple[Sequence[str], Callable[[str], Mapping[str, Check]]]] = {
    "puct": (ERRORS, partial(check_games, "puct", "owned")),
    "uct": (ROLLOUT_ERRORS, partial(check_games, "uct", None)),
    "loop": (LOOP_ERRORS, lambda error: check_loop(PlantedLoop(error).train())),
}
"""Planted errors, and the checks that look for one."""


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
        print_errors(*FAMILIES[family])


if __name__ == "__main__":
    main()
