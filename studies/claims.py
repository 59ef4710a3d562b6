"""Claims that others publish about these games and about learning them, settled by exact numbers:
``studies/claims.toml`` has them, with their sources and with the numbers that would make them
true.
"""

from __future__ import annotations

import csv
import itertools
import math
import subprocess
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec
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
from ttt_eval.store.statistics import Interval, wilson

GAME = Game()
DATA: dict[str, dict[str, Any]] = read_data("claims")
UNKNOWN = Interval(math.nan, -math.inf, math.inf)


class Claims(Study):
    """Each claim is quoted from a document at the revision named beside it, and settled by exact
    numbers, or by samples with a 95% interval. It does not hold if a number, or all of its
    interval, lies outside what the claim says. The quick form leaves out what takes minutes.
    """

    def __init__(self) -> None:
        self.checkouts: Sequence[Path] = ()

    def use_checkouts(self, folders: Sequence[Path]) -> None:
        """Take folders of Git repositories of others, of which claims read the revision that is
        checked out.
        """
        self.checkouts = folders

    def units(self, quick: bool) -> list[Unit]:
        """Return a unit for each claim, with the revision of its data if it needs any."""
        names = [name for name in DATA if not (quick and DATA[name].get("is_slow"))]
        return [{"claim": name, "revision": self._read(name, "rev-parse")} for name in names]

    def _read(self, name: str, command: str) -> str | None:
        """Return what Git says of the file of a claim, None if no checkout has one."""
        for folder in self.checkouts:
            words = ["git", "-C", str(folder), command, f"HEAD:{DATA[name].get('file')}"]
            answer = subprocess.run(words, capture_output=True, text=True, check=False)
            if not answer.returncode:
                return answer.stdout.strip()
        return None

    def measure(self, unit: Unit) -> Mapping[str, Value]:
        """Return the numbers about a claim, none if its data is missing."""
        name = unit["claim"]
        measure = load_object(f"studies.claims:{DATA[name]['function']}")
        if "file" not in DATA[name]:
            return dict(measure())
        return dict(measure(self._read(name, "show"))) if unit["revision"] else {}

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
                number = numbers.get(name, UNKNOWN)
                interval = number if isinstance(number, Interval) else Interval(*[number] * 3)
                verdicts.append(is_within(interval, low, high))
            source = f"{data['source']} at {data['revision']}"
            rows.append(ResultRow(data["title"], source, data["measured"]))
            words = f"{data['title']}: “{data['quote']}”"
            evidence = {name: numbers.get(name, UNKNOWN) for name in data["evidence"]}
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


# --------------------------------------------------------------------------------------------------
# Data of others


def compare_table(content: str) -> Mapping[str, Value]:
    """Compare a table of values with exact ones.

    Args:
        content: JSON, the results of both players by board, rows of ``_``, ``X``, who moves first,
            and ``O``.

    Raises:
        ValueError: it has another form.
    """
    table = msgspec.json.decode(content, type=dict[str, tuple[float, float]])
    boards = list_positions(GAME)
    rows = np.array(list("_XO"))[boards.cells].reshape(-1, 3, 3)
    names = ["\n".join(map("".join, row)) for row in rows]
    published = np.array([table.get(name, (math.nan,))[0] for name in names])
    wrong = published != solve(GAME).values(boards) * (1 - 2 * boards.mover)
    has_two = np.count_nonzero(boards.cells, axis=1) == 2
    return {
        "positions": len(names),
        "wrong values": int(wrong.sum()),
        "positions with two stones": int(has_two.sum()),
        "wrong ones of these": int(wrong[has_two].sum()),
    }


def compare_games(content: str) -> Mapping[str, Value]:
    """Return how many games of the same players repeat the same first mover's earlier game.

    Args:
        content: CSV, a row for each game.

    Raises:
        ValueError: it has another form.
    """
    games = defaultdict(list)
    for row in csv.DictReader(content.splitlines()):
        if not row["error"]:
            games[row["player_a"], row["player_b"]].append((row["result"], row["num_moves"]))
    repeats = [len(set(played)) == 1 for played in games.values() if len(played) > 1]
    every = Counter(itertools.chain(*games.values()))
    by_chance = sum((number / every.total()) ** 2 for number in every.values())
    return {
        "pairs of games": len(repeats),
        "equal in winner and length": sum(repeats),
        "share": wilson(fmean(repeats), len(repeats)),
        "share among all games": by_chance,
    }
