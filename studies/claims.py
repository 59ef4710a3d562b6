"""Claims that others publish about these games and about learning them, settled by exact numbers:
``studies/claims.toml`` has them, with their sources and with the numbers that would make them
true.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from baselines.exact import solve
from studies.frame import (
    Claim,
    ResultRow,
    Results,
    Study,
    StudyReport,
    Value,
    read_data,
)
from studies.verdicts import holds_for_all, is_sample, is_within
from ttt_envs import Game
from ttt_envs.agents.specs import load_object
from ttt_envs.game.boards import Boards, one_ply_ahead
from ttt_eval.benchmark.submission import PolicyTable, list_positions
from ttt_eval.exact import best_response, evaluate_policy, exploitability, mean_loss, outcome
from ttt_eval.exact.best_response_values import BestResponseValues
from ttt_eval.store.result_store import Unit
from ttt_eval.store.statistics import Interval

GAME = Game()
DATA: dict[str, dict[str, Any]] = read_data("claims")


class Claims(Study):
    """Each claim is quoted from a document at the revision named beside it, and settled by exact
    numbers, or by samples with a 95% interval. It does not hold if a number, or all of its
    interval, lies outside what the claim says. The quick form leaves out what takes minutes.
    """

    def units(self, quick: bool) -> list[Unit]:
        """Return a unit for each claim."""
        return [{"claim": name} for name in DATA if not (quick and DATA[name].get("is_slow"))]

    def measure(self, unit: Unit) -> Mapping[str, Value]:
        """Return the numbers about a claim."""
        measure = load_object(f"studies.claims:{DATA[unit['claim']]['function']}")
        return dict(measure())

    def analyse(self, results: Results) -> StudyReport:
        """Report the sources, and the verdicts with their evidence."""
        rows = []
        claims = []
        for unit, result in results:
            data = DATA[unit["claim"]]
            numbers = {
                name: Interval(*number) if isinstance(number, list) else number
                for name, number in result.items()
            }
            verdicts = []
            for name, (low, high) in data["true_if"].items():
                number = numbers[name]
                interval = number if isinstance(number, Interval) else Interval(*[number] * 3)
                verdicts.append(is_within(interval, low, high))
            source = f"{data['source']} at {data['revision']}"
            rows.append(ResultRow(data["title"], source, data["measured"]))
            words = f"{data['title']}: “{data['quote']}”"
            evidence = {name: numbers[name] for name in data["evidence"]}
            claims.append(Claim(words, holds_for_all(verdicts), evidence))
        return StudyReport(rows, claims, ours="measured")


# --------------------------------------------------------------------------------------------------
# Counts, and play against known players


def count() -> Mapping[str, Value]:
    """Return the numbers of boards that games reach, the empty one included, and of games."""
    counts = solve(GAME).counts
    boards = counts.boards_not_over + counts.boards_over
    return {"boards": boards, "up to symmetry": counts.classes, "games": counts.games}


def compare_openings() -> Mapping[str, Value]:
    """Return the values of corner and centre where both players move at random, and where the
    second alone does and the first plays the best response.
    """
    start = Boards.start(GAME)
    chance = evaluate_policy(GAME, "random", "random")
    both = chance.action_values[chance.find(start)][0]
    [reply] = one_ply_ahead(GAME, start, BestResponseValues(GAME, "random", 0).values)
    return {
        "centre, both err": both[4],
        "corner, both err": both[0],
        "centre, the second errs": reply[4],
        "corner, the second errs": reply[0],
        "centre less corner, the second errs": reply[4] - reply[0],
    }


def play_random() -> Mapping[str, Value]:
    """Return win rates against random moves, and whether published counts are plausible."""
    first = outcome(GAME, "optimal", "random")
    second = outcome(GAME, "random", "optimal")
    return {
        "perfect play wins as first": first.win,
        "perfect play wins as second": second.loss,
        "best response wins as first": best_response(GAME, "random", 0).win,
        "best response wins as second": best_response(GAME, "random", 1).win,
        "968 of 1,000 plausible": is_sample((968, 32, 0), first, level=0.025),
        "781 of 1,000 plausible": is_sample((0, 219, 781), second, level=0.025),
    }


def know_one_game() -> Mapping[str, Value]:
    """Measure a policy that knows the positions of one game between players of the first of the
    best moves, and elsewhere plays the worst move.
    """
    boards = list_positions(GAME)
    values = solve(GAME).action_values(boards)
    best = np.nan_to_num(values, nan=-9).argmax(axis=1)
    worst = np.nan_to_num(values, nan=9).argmin(axis=1)
    perfect = PolicyTable(GAME, np.eye(9)[best])
    game = evaluate_policy(GAME, perfect, perfect)
    rows = game.find(boards)
    is_known = (rows >= 0) & (game.occupancy[rows] > 0)
    policy = PolicyTable(GAME, np.eye(9)[np.where(is_known, best, worst)])
    return {
        "positions known": int(is_known.sum()),
        "draws with the perfect player as first": outcome(GAME, policy, perfect).draw,
        "draws with it as second": outcome(GAME, perfect, policy).draw,
        "draws in self-play": outcome(GAME, policy, policy).draw,
        "exploitability": exploitability(GAME, policy),
        "mean loss": mean_loss(GAME, policy),
    }
