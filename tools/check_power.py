"""Power and false alarms of the check of searches, as the tables of docs/how-to/check-search.md.

``python tools/check_power.py errors`` checks searches with planted errors. ``python
tools/check_power.py alarms 0 20`` checks right searches with the seeds 0 to 19, and prints those
that fail.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from planted_searches import ERRORS, ROLLOUT_ERRORS, PlantedTreeSearch

from ttt_eval.checks import Check, check_search
from ttt_eval.checks.tables import Turns

GAMES: Sequence[Turns] = ("turns", "skip", "plain")
HARMLESS = {"sum for mean"}
"""Errors that do no measurable harm on nine cells: greedy, and right near the end."""
CAUSES = {
    "sign never flipped": ("never flipped", "wrong sign"),
    "sign alternates with depth": ("alternates with depth", "wrong sign"),
    "leaf taken for the other player": ("for the other player", "wrong sign"),
    "fixed player's view": ("fixed player's view", "wrong sign"),
    "root value of the other player": ("root's value has the other", "wrong sign"),
    "second turn never searched": ("second turns are", "other turns"),
    "chance 1/2 for 1/4": ("chance", "another size"),
    "finished positions evaluated": ("finished positions are evaluated", "finished"),
    "wins as draws": ("wins and losses count as draws", "results"),
    "draws as losses": ("draws count as losses", "draws"),
    "draws as wins": ("draws count as wins", "draws"),
    "illegal moves searched": ("not masked", "error"),
    "selection by the child's side": ("good for the other player", "selection"),
    "selection ignores values": ("selection: values are right", "selection"),
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
}
"""Parts of the right cause and of a broadly right one, by error."""


def rate_cause(error: str, check: Check) -> str:
    """Return whether the first cause is right, broadly right, or wrong."""
    for rating, part in zip(("right", "broad"), CAUSES[error], strict=True):
        if part in check.cause:
            return rating
    return "wrong"


def print_errors(rule: str, evaluator: str | None, errors: Sequence[str]) -> None:
    """Print a table of planted errors: the failed rows by game, and the rating of the cause."""
    print(f"\n| {rule}: planted error | {' | '.join(GAMES)} | cause |\n|{'---|' * 5}")
    num_found = 0
    num_named = 0
    for error in errors:
        cells = []
        rating = "-"
        for turns in GAMES:
            check = check_search(PlantedTreeSearch(rule, error=error), turns, evaluator)
            cells.append(", ".join(check.failed) or "-")
            # a user has the first verdict; alternating turns hide errors of second turns
            if check.failed and rating == "-" and turns != "plain":
                rating = rate_cause(error, check)
        print(f"| {error} | {' | '.join(cells)} | {rating} |", flush=True)
        num_found += rating != "-" and error not in HARMLESS
        num_named += rating in ("right", "broad") and error not in HARMLESS
    harmful = len(set(errors) - HARMLESS)
    print(
        f"\n{num_found} of {harmful} harmful errors found, the cause right or broad in {num_named}"
    )


def right_searches(seed: int) -> Iterator[tuple[PlantedTreeSearch, str | None]]:
    """Yield right searches and their evaluators; some constants only with every third seed."""
    for rule, evaluator in (("puct", "owned"), ("uct", None), ("gumbel", "owned")):
        constants = (0.5, 1.0, 1.5, 2.5, 5.0) if rule != "gumbel" and seed % 3 == 0 else (1.5,)
        for solver in (False, True):
            for c in constants:
                yield PlantedTreeSearch(rule, c, solver), evaluator


def print_alarms(seeds: range) -> None:
    """Print every right search that fails, and the number of calls after each seed."""
    calls = 0
    alarms = 0
    for seed in seeds:
        for search, evaluator in right_searches(seed):
            for turns in GAMES:
                check = check_search(search, turns, evaluator, seed=seed)
                calls += 1
                if not check.ok:
                    alarms += 1
                    print(f"{search}, {turns}, seed {seed}:\n{check}")
        print(f"seed {seed}: {alarms} alarms in {calls} calls", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["alarms"]:
        print_alarms(range(*map(int, sys.argv[2:])))
    else:
        print_errors("puct", "owned", ERRORS)
        print_errors("uct", None, ROLLOUT_ERRORS)
