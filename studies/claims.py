"""Claims that others publish about these games and about learning them, settled by exact numbers:
``studies/claims.toml`` has them, with their sources and with the numbers that would make them
true.
"""

from __future__ import annotations

import csv
import math
import subprocess
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

import msgspec
import numpy as np

from baselines.connect_four import Solver
from baselines.exact import solve
from examples.checks.estimators import rae
from studies.frame import (
    Claim,
    ResultRow,
    Results,
    Study,
    StudyReport,
    Value,
    judge_claims,
    read_data,
)
from studies.verdicts import is_sample
from ttt_envs import Game, make_policy
from ttt_envs.agents.specs import load_object
from ttt_envs.agents.wrappers import SampledPolicy
from ttt_envs.core.checks import Refusal
from ttt_envs.game.boards import Boards, one_ply_ahead
from ttt_eval.benchmark.submission import PolicyTable, list_positions
from ttt_eval.checks import check_advantages
from ttt_eval.exact import (
    best_response,
    evaluate_policy,
    exploitability,
    mean_loss,
    outcome,
    perfect_value,
)
from ttt_eval.exact.best_response_values import BestResponseValues
from ttt_eval.store.result_store import Data, Unit

GAME = Game()
DATA: dict[str, Data] = read_data("claims")
GROUP = 8
"""Number of answers in a group."""
MIDDLE = range(38, 0, -7)
"""Cells of the middle column of Connect Four, from the floor."""


class Claims(Study):
    """Each claim is quoted from a document at the revision named beside it, and settled by numbers:
    it holds if they lie in the ranges that it implies. A claim about data of others is undecided
    without a checkout of them. The quick form leaves out these claims and those that take more than
    a moment.
    """

    def __init__(self) -> None:
        self.checkouts: Sequence[Path] = ()

    def use_checkouts(self, folders: Sequence[Path]) -> None:
        """Take folders of Git repositories of others, of which claims read the revision that is
        checked out.
        """
        self.checkouts = folders

    def units(self, quick: bool) -> list[Unit]:
        """Return a unit for each claim, with the hash of its data if there is any."""
        return [
            {"claim": name, "blob": self._read(name, "rev-parse")}
            for name, data in DATA.items()
            if not (quick and data.keys() & {"is_slow", "file"})
        ]

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
        if unit["blob"] is None:
            return {}
        try:
            return dict(measure(self._read(name, "show")))
        except (KeyError, ValueError) as error:
            raise Refusal(
                f"{DATA[name]['file']} has another form than at {DATA[name]['revision']}: check "
                f"out that revision ({error})"
            ) from None

    def analyse(self, results: Results) -> StudyReport:
        """Report the sources, and the verdicts with their evidence."""
        rows = []
        claims: list[Claim] = []
        for unit, numbers in results:
            data = DATA[unit["claim"]]
            source = f"{data['source']} at {data['revision']}"
            rows.append(ResultRow(data["title"], source, data["measured"]))
            claim = {**data, "words": f"{data['title']}: “{data['quote']}”"}
            claims += judge_claims(
                [claim], numbers or dict.fromkeys([*data["true_if"], *data["evidence"]])
            )
        return StudyReport(rows, claims, ours="measured")


# --------------------------------------------------------------------------------------------------
# Counts, and play against known players


def count() -> Mapping[str, Value]:
    """Return the numbers of boards that games reach, the empty one included, and of games."""
    counts = solve(GAME).counts
    boards = counts.boards_not_over + counts.boards_over
    return {"boards": boards, "up to symmetry": counts.classes, "games": counts.games}


def value_variants() -> Mapping[str, Value]:
    """Return how many openings do not lose by other rules, and values of boards with gravity."""
    numbers: dict[str, Value] = {}
    for game in (Game(misere=True), Game(torus=True)):
        [values] = solve(game).action_values(Boards.start(game))
        numbers[f"openings that draw, {game}"] = int((values == 0).sum())
        numbers[f"openings that win, {game}"] = int((values > 0).sum())
    for columns in (4, 5, 6):
        value = perfect_value(Game(4, columns, 4, gravity=True))
        numbers[f"value, 4 rows and {columns} columns"] = value
    return numbers


def compare_openings() -> Mapping[str, Value]:
    """Return the values of corner and centre where both players move at random, and where the
    second alone does and the first plays the best response.
    """
    start = Boards.start(GAME)
    random_play = evaluate_policy(GAME, "random", "random")
    [values] = random_play.action_values[random_play.find(start)]
    [reply] = one_ply_ahead(GAME, start, BestResponseValues(GAME, "random", 0).values)
    return {
        "centre less corner, both err": values[4] - values[0],
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
    is_known = evaluate_policy(GAME, perfect, perfect).find(boards) >= 0
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
    has_two = boards.num_stones == 2
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
    pairs = [played for played in games.values() if len(played) == 2]
    return {
        "pairs of games": len(pairs),
        "share equal in winner and length": fmean(first == second for first, second in pairs),
    }


# --------------------------------------------------------------------------------------------------
# Searches and gradients


def label_moves() -> Mapping[str, Value]:
    """Return how often OpenSpiel's search with ten random games a leaf names a move that loses
    value, how exploitable it is, and how far its errors turn a gradient.

    The gradient is that of uniform play with a reward of 1 for the move named; without errors, a
    best one at random is named in place of each that loses value.
    """
    boards = list_positions(GAME)
    best = solve(GAME).optimal_actions(boards)
    legal = boards.legal(GAME)
    random_play = evaluate_policy(GAME, "random", "random")
    uniform = legal / legal.sum(axis=1, keepdims=True)
    weights = random_play.occupancy[random_play.find(boards), None] * uniform
    numbers: dict[str, Value] = {}
    for count in (100, 1_000):
        spec = f"openspiel:simulations={count},rollouts=10,c=2,solve=false"
        search = SampledPolicy(make_policy(spec, GAME), samples=5, seed=0)
        named = search.probabilities(boards)
        wrong = (named * ~best).sum(axis=1, keepdims=True)
        right = named * best + wrong * best / best.sum(axis=1, keepdims=True)
        gradient = weights * (named - uniform)
        target = weights * (right - uniform)
        cosine = (gradient * target).sum() / np.linalg.norm(gradient) / np.linalg.norm(target)
        numbers |= {
            f"positions ever wrong, {count:,} simulations": int((wrong > 0).sum()),
            f"always wrong, {count:,}": int((wrong == 1).sum()),
            f"gradient turned by degrees, {count:,}": math.degrees(math.acos(cosine)),
            f"exploitability, {count:,}": exploitability(GAME, search),
        }
    return numbers


def weigh_groups() -> Mapping[str, Value]:
    """Return what groups of eight answers with results 0 and 1, kept if these differ, make of the
    advantage of a right answer and of the gradient, by the chance of a right one.
    """
    numbers = {}
    for chance in (0.1, 0.5, 0.9):
        share_kept = 1 - chance**GROUP - (1 - chance) ** GROUP
        mean = (chance - chance**GROUP) / share_kept
        numbers[f"estimated less exact advantage at {chance}"] = chance - mean
        numbers[f"estimated / exact gradient at {chance}"] = (1 - 1 / GROUP) / share_kept
    return numbers


def compare_baselines() -> Mapping[str, Value]:
    """Return the mean reward of both players in self-play, and the number of failed checks of the
    expected gradient with a moving average of each player's earlier rewards.
    """
    numbers: dict[str, Value] = {
        f"mean of both players, {policy}": evaluate_policy(GAME, policy, policy).value
        for policy in ("random", "win-or-block")
    }
    return numbers | {"failed checks": len(check_advantages(rae, seats=(0, 1), batch=2).failed)}


def know_one_line() -> Mapping[str, Value]:
    """Let a player who knows one game of Connect Four win it against the solver, which loses as
    late as possible; elsewhere the player plays the leftmost move.

    The first six stones are in the middle column. Best play by both has 41 stones.
    """
    game = Game(6, 7, 4, gravity=True)
    solver = Solver(game)
    cells = np.zeros((1, game.cells), np.int8)
    cells[0, MIDDLE] = [1, 2] * 3
    slips = []
    for stones in range(6, 41):
        mover = stones % 2
        scores = solver.scores(Boards(cells, np.array([mover], np.int8)).position(0))
        values = {cell: bounds.low for cell, bounds in scores.items()}
        cell = max(values, key=values.__getitem__)
        if mover == 0:
            slips.append(next(iter(values.values())) <= 0)
        cells[0, cell] = mover + 1
    return {
        "positions known": len(slips) + 3,
        "stones of the game": stones + 1,
        "known positions where the leftmost move does not win": sum(slips),
    }
