"""What games say of a policy, beside its exact score: rank correlations, wrong comparisons, and the noise of games."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import chi2, rankdata

from studies.frame import Claim, Figure, Panel, Report, Results, Row, Series, Study, group
from ttt_envs.agents.policy import Policy
from ttt_envs.core.jit import Float64Array
from ttt_envs.game.game import Game
from ttt_eval.benchmark import find_task, score_policies
from ttt_eval.benchmark.policy_table import list_positions
from ttt_eval.benchmark.submission import open_submission
from ttt_eval.exact.dynamic_programming import outcome
from ttt_eval.matches.luck import EXACT
from ttt_eval.matches.match import play_pairs
from ttt_eval.matches.tournament import bradley_terry
from ttt_eval.result_store import Unit
from ttt_eval.statistics import Interval, interval_from_seeds, is_above

SUBMISSIONS = Path(__file__).parents[1] / "benchmarks" / "submissions"
"""Submissions to the benchmark of all agents in this repository; `make bench-submissions` makes them."""
OPPONENTS = ("random", "win-or-block")
GAMES = (20, 100, 1_000)
REPLICATES = 200
"""Number of samples of each win rate, from its exact distribution."""
TIE = 1e-6
"""Maximum difference of scores of equal policies."""
MIN_CORRELATION, MAX_WRONG = 0.9, 0.05
RETURN, ELO, CORRECTED = "mean training return", "Elo", "luck-corrected Elo"
SAMPLED, LONG = (f"win rate against random, {games:,} games" for games in GAMES[1:])
EXACT_RATE = "win rate against random, exact"


class NoiseOfGames(Study):
    """The submissions to the benchmark ttt-exact in this repository: all agents, tasks with masks and one game,
    seeds and stored checkpoints; one agent has half of the tasks. Their policies have exact scores, and
    are also measured as is usual: by the mean return in training since the last stored checkpoint
    (exploration included, in self-play that of the first player; where it was stored), by win rates over
    some games, and by Elo in a tournament of 50 pairs of games between any two policies of the same
    task, seed and number of steps. Win rates are drawn 200 times from their exact distribution,
    with half of the games in each seat. A comparison is that of two agents after the same number of
    environment steps with the same seed; equal values count half. Intervals are 95%, by Student's t over
    tasks and seeds; those of numbers of seeds by Satterthwaite (1946), over agents that learn.
    """

    title = "What games say, beside exact scores"
    left_out = (
        "all but 2 pairs of task and seed, two of three agents, all but two checkpoints, and 42 of 50 pairs of games"
    )

    def units(self, quick: bool) -> list[Unit]:
        """Return a unit for each task and seed that two submissions or more have, with a hash of their files.

        Tasks without masks and those with several games are left out: their policies have no win rate in one game.
        """
        agents = {path.stem: _runs(path) for path in sorted(SUBMISSIONS.glob("*.npz"))[:: 3 if quick else 1]}
        units: list[Unit] = []
        for task, seed in sorted({key for runs in agents.values() for key in runs}):
            own = [name for name, runs in agents.items() if (task, seed) in runs]
            if len(own) > 1 and not find_task(task).hides_masks and len(find_task(task).games) == 1:
                hashes = [hashlib.sha256((SUBMISSIONS / f"{name}.npz").read_bytes()).hexdigest() for name in own]
                unit = {"task": task, "seed": seed, "agents": own, "sha256": hashes}
                units.append({**unit, "checkpoints": 2 if quick else 0, "pairs": 8 if quick else 50})
        return units[:2] if quick else units

    def measure(self, unit: Unit) -> list[dict[str, Any]]:
        """Measure the policies of all agents at the last ``checkpoints`` checkpoints of their runs, at all if it is 0.

        Returns:
            For each policy ``agent``, ``learns``, ``steps``, ``plays`` (the same for equal policies), ``return`` (in
            training, None if unknown), ``score``, the win rates in both seats by opponent, ``elo``, ``corrected_elo``.
        """
        task, rows, policies = find_task(unit["task"]), list[dict[str, Any]](), dict[str, Policy]()
        [game] = task.games
        positions = list_positions(game, task.seats)
        for agent in unit["agents"]:
            with open_submission(SUBMISSIONS / f"{agent}.npz") as stored:
                [run] = [run for run in stored.runs if (run.task, run.seed) == (task, unit["seed"])]
                record, before = stored.read_run(run), 0
                name, learns = stored.submission.name, record.cost is not None and bool(record.cost.steps)
                for steps in run.checkpoints[-unit["checkpoints"] :]:  # [-0:] are all
                    [policy] = stored.read_tables(run, steps)
                    plays = policy.probabilities(positions).round(9) + 0.0
                    key = hashlib.sha256(plays.tobytes()).hexdigest()  # equal policies may be stored differently
                    mean = None if record.returns is None else record.returns.mean(before, steps)
                    row: dict[str, Any] = {"agent": name, "learns": learns, "steps": steps, "plays": key}
                    row |= {"return": mean, "score": score_policies(task, [policy], steps).score}
                    for opponent in OPPONENTS:
                        first, second = outcome(game, policy, opponent), outcome(game, opponent, policy).reversed()
                        row[opponent] = [first.win, second.win]
                    rows.append(row)
                    policies[key] = policy
                    before = steps
        ratings = _ratings(game, policies, rows, unit["pairs"], unit["seed"])
        for row in rows:
            row["elo"], row["corrected_elo"] = ratings[row["plays"]]
        return rows

    def analyse(self, results: Results) -> Report:
        """Report correlations and wrong comparisons by measure, and verdicts."""
        rng = np.random.default_rng(0)
        correlations: dict[str, list[float]] = {}
        wrongs: dict[str, list[float]] = {}
        for _, policies in results:
            scores = np.array([row["score"] for row in policies]).round(9)
            for name, values in measured_values(policies, rng).items():
                correlations.setdefault(name, []).append(rank_correlation(values, scores))
                wrong = share_of_wrong(values, policies)
                wrongs.setdefault(name, []).extend([] if wrong is None else [wrong])
        correlation = {name: interval_from_seeds(values, bounds=(-1, 1)) for name, values in correlations.items()}
        wrong_share = {name: interval_from_seeds(values, bounds=(0, 1)) for name, values in wrongs.items()}
        rows = [
            Row(name, None, {"rank correlation": correlation[name], "wrong": wrong_share[name]}) for name in correlation
        ]
        for games in GAMES:
            seeds = {"times as many": cost_in_seeds(results, games)}
            rows.append(Row(f"seeds that the noise of {games:,} games costs", None, seeds))
        better = _mean_difference(correlations[ELO], correlations[LONG], 2)
        rarer = _mean_difference(wrongs[ELO], wrongs[CORRECTED], 1)
        measured = [
            (
                f"The win rate over {GAMES[1]} games against random play orders policies as exact scores do: the rank "
                f"correlation is above {MIN_CORRELATION}",
                is_above([correlation[SAMPLED]], MIN_CORRELATION),
                {"rank correlation": correlation[SAMPLED]},
            ),
            (
                f"A comparison by it picks the wrong one of two algorithms in less than {MAX_WRONG:.0%} of cases",
                _is_below(wrong_share[SAMPLED], MAX_WRONG),
                {"wrong": wrong_share[SAMPLED]},
            ),
            (
                "With enough games it does: the same for exact win rates against random play",
                _is_below(wrong_share[EXACT_RATE], MAX_WRONG),
                {"wrong": wrong_share[EXACT_RATE]},
            ),
            (
                f"The Elo of a tournament has a higher rank correlation than the win rate over {GAMES[2]:,} games "
                "against random play",
                is_above([better]),
                {"difference": better},
            ),
            ("Luck correction makes wrong comparisons by Elo rarer", is_above([rarer]), {"difference": rarer}),
        ]
        wrong_label = "share of comparisons that pick the worse algorithm"
        wrong_series = Series("", range(len(wrong_share)), wrong_share.values(), "o")
        scores_series = [
            Series(
                task,
                [np.mean(row["random"]) for run in runs for row in run],
                [row["score"] for run in runs for row in run],
                "os^Dv*"[index % 6],
                index % 6,
            )
            for index, (task, runs) in enumerate(group(results, "task").items())
        ]
        figures = {
            "what-games-say": Figure(
                "How often does a measure pick the worse of two algorithms?",
                "Bars are 95% intervals over tasks and seeds. 0.5 is a guess.",
                [Panel([wrong_series], wrong_label, places=list(wrong_share), limits=(0, None))],
                {name: wrong_share[name] for name in (SAMPLED, EXACT_RATE, ELO, CORRECTED, RETURN)},
            ),
            "what-games-say-scores": Figure(
                "Does a policy that wins more often against random play have a better score?",
                "Each mark is a policy; both numbers are exact.",
                [Panel(scores_series, "exact win rate against random play", "exact score on the task")],
                {"mean rank correlation over tasks and seeds": correlation[EXACT_RATE]},
            ),
        }
        return Report(rows, [Claim(*claim) for claim in measured], figures)


def _runs(path: Path) -> set[tuple[str, int]]:
    """Return the task and seed of each run of a submission."""
    with open_submission(path) as stored:
        return {(run.task.name, run.seed) for run in stored.runs}


def _ratings(
    game: Game, policies: Mapping[str, Policy], rows: Sequence[Mapping[str, Any]], pairs: int, seed: int
) -> dict[str, tuple[float, float]]:
    """Return the Elo of each policy, without and with luck correction, from games between those of equal steps.

    Policies that do not learn are the same at all checkpoints, so they connect these.
    """
    number = {key: index for index, key in enumerate(policies)}
    pairings = {
        tuple(sorted((number[row["plays"]], number[other["plays"]])))
        for row, other in itertools.combinations(rows, 2)
        if row["steps"] == other["steps"] and row["plays"] != other["plays"]
    }
    players = list(policies.values())
    raw, corrected = np.zeros((2, len(players), len(players), 5))
    for a, b in sorted(pairings):
        score = play_pairs(game, players[a], players[b], pairs, seed=seed, luck_correction=EXACT)
        raw[a, b] = score.raw.effective_pentanomial
        corrected[a, b] = score.effective_pentanomial
    ratings = ([rating.mean for rating in bradley_terry(table, draws=1)] for table in (raw, corrected))
    return dict(zip(policies, zip(*ratings, strict=True), strict=True))


def measured_values(rows: Sequence[Mapping[str, Any]], rng: np.random.Generator) -> dict[str, Float64Array]:
    """Return what each measure says of the policies of a unit, float64[replicates, policies]; NaN where nothing.

    Numbers of won games are drawn from their exact distribution: half of the games in each seat.
    """
    values = {RETURN: np.array([[row["return"] for row in rows]], dtype=np.float64)}
    for opponent in OPPONENTS:
        exact = np.array([row[opponent] for row in rows])
        for games in GAMES:
            wins = rng.binomial(games // 2, np.clip(exact, 0, 1), size=(REPLICATES, *exact.shape)).sum(axis=2)
            values[f"win rate against {opponent}, {games:,} games"] = wins / games
        values[f"win rate against {opponent}, exact"] = exact.mean(axis=1)[None].round(9)
    values[ELO] = np.array([[row["elo"] for row in rows]])
    values[CORRECTED] = np.array([[row["corrected_elo"] for row in rows]])
    return values


def rank_correlation(values: Float64Array, scores: Float64Array) -> float:
    """Return Spearman's (1904) rank correlation, the mean over replicates; 0 where all values are equal.

    Args:
        values: float64[replicates, policies]; policies with NaN are left out.
        scores: float64[policies].
    """
    known = ~np.isnan(values).any(axis=0)
    ranks, truth = rankdata(values[:, known], axis=1), rankdata(scores[known])
    ranks, truth = ranks - ranks.mean(axis=1, keepdims=True), truth - truth.mean()
    norms = np.sqrt((ranks**2).sum(axis=1) * (truth**2).sum())
    return float(np.mean(np.divide(ranks @ truth, norms, out=np.zeros(len(ranks)), where=norms > 0)))


def share_of_wrong(values: Float64Array, rows: Sequence[Mapping[str, Any]]) -> float | None:
    """Return how often values pick the worse of two agents after the same number of steps; ties count half.

    Args:
        values: float64[replicates, policies]; policies with NaN are left out.
        rows: of the policies.

    Returns:
        The share of comparisons; None if all agents have equal scores.
    """
    wrong = []
    for a, b in itertools.combinations(range(len(rows)), 2):
        lead = rows[a]["score"] - rows[b]["score"]
        unknown = np.isnan(values[:, [a, b]]).any()
        if rows[a]["steps"] == rows[b]["steps"] and abs(lead) > TIE and not unknown:
            measured_lead = np.sign(lead) * (values[:, a] - values[:, b])  # negative: for the worse one
            wrong.append(float(np.mean((measured_lead < 0) + 0.5 * (measured_lead == 0))))
    return float(np.mean(wrong)) if wrong else None


def cost_in_seeds(results: Results, games: int) -> Interval:
    """Return how many times more seeds are needed if the win rate against random play is measured by games.

    It is 1 + (variance of the games) / (variance between seeds), both sums over tasks and agents that learn, at the
    last checkpoint.

    The 95% interval is that of the sum of variances between seeds by Satterthwaite (1946); of one seed it is unbounded.
    """
    rates: dict[tuple[str, str], list[list[float]]] = {}
    for unit, rows in results:
        last = max(row["steps"] for row in rows)
        for row in rows:
            if row["steps"] == last and row["learns"]:
                rates.setdefault((unit["task"], row["agent"]), []).append(row["random"])
    groups = [np.array(rows) for rows in rates.values() if len(rows) > 1]  # float64[seeds, 2]
    noise = sum(float((rows * (1 - rows)).mean()) for rows in groups) / games
    between = np.array([rows.mean(axis=1).var(ddof=1) for rows in groups])
    total = float(between.sum())
    if total <= 0:
        return Interval(float("inf"), 1.0, float("inf"))
    freedom = total**2 / sum(variance**2 / (len(rows) - 1) for variance, rows in zip(between, groups, strict=True))
    low, high = (freedom * total / float(chi2.ppf(share, freedom)) for share in (0.975, 0.025))
    return Interval(1 + noise / total, 1 + noise / high, 1 + noise / low)


def _mean_difference(a: Sequence[float], b: Sequence[float], bound: float) -> Interval:
    """Return the mean difference over units."""
    return interval_from_seeds([x - y for x, y in zip(a, b, strict=True)], bounds=(-bound, bound))


def _is_below(value: Interval, bound: float) -> bool | None:
    return is_above([Interval(-value.mean, -value.high, -value.low)], -bound)
