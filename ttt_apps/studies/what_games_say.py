"""What games say of a policy, beside its exact score: rank correlations, wrong comparisons, and the noise of games."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ttt_envs.agents.policy import Policy
from ttt_envs.core.jit import Float64Array
from ttt_envs.game.game import Game
from ttt_eval.benchmark import find_task, score_policies
from ttt_eval.benchmark.policy_table import list_positions
from ttt_eval.benchmark.submission import open_submission
from ttt_eval.benchmark.tasks import Task
from ttt_eval.exact.dynamic_programming import outcome
from ttt_eval.matches.luck import EXACT
from ttt_eval.matches.match import play_pairs
from ttt_eval.matches.tournament import bradley_terry
from ttt_eval.reports.plots import SERIES, draw_label_legend, plot_intervals
from ttt_eval.result_store import Unit
from ttt_eval.statistics import Interval, interval_from_seeds, is_above
from ttt_eval.study import Caption, Claim, Report, Row, Study, format_interval, read_intervals

SUBMISSIONS = Path(__file__).parents[2] / "benchmarks" / "submissions"
"""Submissions to the benchmark of all agents in this repository; `make bench-submissions` makes them."""
QUICK_EVERY, QUICK_UNITS = 3, 2
"""Every so many agents, and number of pairs of task and seed."""
PAIRS, QUICK_PAIRS = 50, 8
"""Number of pairs of games of each pairing of a tournament."""
OPPONENTS = ("random", "win-or-block")
GAMES = (20, 100, 1_000)
REPLICATES = 200
"""Number of samples of each win rate, from its exact distribution."""
TIE = 1e-6
"""Maximum difference of scores of equal policies."""
MIN_CORRELATION, MAX_WRONG = 0.9, 0.05
RETURN, ELO, CORRECTED = "mean training return", "Elo", "luck-corrected Elo"


def units(quick: bool) -> list[Unit]:
    """Return a unit for each task and seed that two submissions or more have, with a hash of their files.

    Tasks without masks and those with more than one game are left out: their policies have no win rate in one game.

    Raises:
        ValueError: there are no submissions, as where this package is installed without its repository.
    """
    agents = {path.stem: _runs(path) for path in sorted(SUBMISSIONS.glob("*.npz"))[:: QUICK_EVERY if quick else 1]}
    found: list[Unit] = []
    for task, seed in sorted({key for runs in agents.values() for key in runs}):
        has = [name for name, runs in agents.items() if (task, seed) in runs]
        if len(has) > 1 and not find_task(task).hides_masks and len(find_task(task).games) == 1:
            hashes = [hashlib.sha256((SUBMISSIONS / f"{name}.npz").read_bytes()).hexdigest() for name in has]
            unit = {"task": task, "seed": seed, "agents": has, "sha256": hashes}
            found.append({**unit, "checkpoints": 2 if quick else 0, "pairs": QUICK_PAIRS if quick else PAIRS})
    if not found:
        raise ValueError(f"{SUBMISSIONS} has no submissions to compare: run this study from a checkout")
    return found[:QUICK_UNITS] if quick else found


def _runs(path: Path) -> set[tuple[str, int]]:
    """Return the task and seed of each run of a submission."""
    with open_submission(path) as stored:
        return {(run.task.name, run.seed) for run in stored.runs}


def measure(unit: Unit) -> list[dict[str, Any]]:
    """Measure the policies of all agents at the last ``checkpoints`` checkpoints of their runs, at all if it is 0.

    Returns:
        For each policy ``agent``, ``learns``, ``steps``, ``plays`` (the same for equal policies), ``return`` (in
        training, None if unknown), ``score``, the win rates in both seats by opponent, ``elo`` and ``corrected_elo``.
    """
    task, rows, policies = find_task(unit["task"]), list[dict[str, Any]](), dict[str, Policy]()
    [game] = task.games
    positions = list_positions(game, task.seats)
    for agent in unit["agents"]:
        with open_submission(SUBMISSIONS / f"{agent}.npz") as stored:
            [run] = [one for one in stored.runs if (one.task, one.seed) == (task, unit["seed"])]
            record, before = stored.read_run(run), 0
            name, learns = stored.submission.name, record.cost is not None and bool(record.cost.steps)
            for steps in run.checkpoints[-unit["checkpoints"] :]:  # [-0:] are all
                policy = stored.read_tables(run, steps)[0].policy
                plays = policy.probabilities(positions).round(9) + 0.0
                key = hashlib.sha256(plays.tobytes()).hexdigest()  # equal policies may be stored differently
                mean = None if record.returns is None else record.returns.mean(before, steps)
                row: dict[str, Any] = {"agent": name, "learns": learns, "steps": steps, "plays": key, "return": mean}
                rows.append(row | _exact_measures(task, policy, steps))
                policies[key] = policy
                before = steps
    ratings = _ratings(game, policies, rows, unit["pairs"], unit["seed"])
    for row in rows:
        row["elo"], row["corrected_elo"] = ratings[row["plays"]]
    return rows


def _exact_measures(task: Task, policy: Policy, steps: int) -> dict[str, Any]:
    """Return the score, and for each opponent the exact win rates in the first and the second seat."""
    [game] = task.games
    found: dict[str, Any] = {"score": score_policies(task, [policy], steps).score}
    for opponent in OPPONENTS:
        first, second = outcome(game, policy, opponent), outcome(game, opponent, policy).reversed()
        found[opponent] = [first.win, second.win]
    return found


def _ratings(
    game: Game, policies: Mapping[str, Policy], rows: Sequence[Mapping[str, Any]], pairs: int, seed: int
) -> dict[str, tuple[float, float]]:
    """Return the Elo of each policy, without and with luck correction, from games between those of equal steps.

    Policies that do not learn are the same at all checkpoints, so they connect these.
    """
    number = {key: index for index, key in enumerate(policies)}
    met = {
        tuple(sorted((number[one["plays"]], number[other["plays"]])))
        for one, other in itertools.combinations(rows, 2)
        if one["steps"] == other["steps"] and one["plays"] != other["plays"]
    }
    players = list(policies.values())
    raw, corrected = np.zeros((2, len(players), len(players), 5))
    for one, other in sorted(met):
        score = play_pairs(game, players[one], players[other], pairs, seed=seed, luck_correction=EXACT)
        raw[one, other] = score.raw.effective_pentanomial
        corrected[one, other] = score.effective_pentanomial
    ratings = ([one.mean for one in bradley_terry(table, draws=1)] for table in (raw, corrected))
    return dict(zip(policies, zip(*ratings, strict=True), strict=True))


# ---------------------------------------------------------------------------------------------------------------------
# Analysis


def measured_values(rows: Sequence[Mapping[str, Any]], rng: np.random.Generator) -> dict[str, Float64Array]:
    """Return what each measure says of the policies of a unit, float64[replicates, policies]; NaN where nothing.

    Numbers of won games are drawn from their exact distribution: half of the games in each seat.
    """
    found = {RETURN: np.array([[row["return"] for row in rows]], dtype=np.float64)}
    for opponent in OPPONENTS:
        exact = np.array([row[opponent] for row in rows])
        for games in GAMES:
            wins = rng.binomial(games // 2, np.clip(exact, 0, 1), size=(REPLICATES, *exact.shape)).sum(axis=2)
            found[f"win rate against {opponent}, {games:,} games"] = wins / games
        found[_exact_name(opponent)] = exact.mean(axis=1)[None].round(9)
    found[ELO] = np.array([[row["elo"] for row in rows]])
    found[CORRECTED] = np.array([[row["corrected_elo"] for row in rows]])
    return found


def _exact_name(opponent: str) -> str:
    return f"win rate against {opponent}, exact"


def rank_correlation(values: Float64Array, scores: Float64Array) -> float:
    """Return Spearman's (1904) rank correlation, the mean over replicates; 0 where all values are equal.

    Args:
        values: float64[replicates, policies]; policies with NaN are left out.
        scores: float64[policies].
    """
    from scipy.stats import rankdata

    known = ~np.isnan(values).any(axis=0)
    values, scores = values[:, known], scores[known]
    ranks, truth = rankdata(values, axis=1), rankdata(scores)
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
    for one, other in itertools.combinations(range(len(rows)), 2):
        a, b = rows[one], rows[other]
        lead = a["score"] - b["score"]
        unknown = np.isnan(values[:, [one, other]]).any()
        if a["steps"] == b["steps"] and abs(lead) > TIE and not unknown:
            measured_lead = np.sign(lead) * (values[:, one] - values[:, other])  # negative: for the worse one
            wrong.append(float(np.mean((measured_lead < 0) + 0.5 * (measured_lead == 0))))
    return float(np.mean(wrong)) if wrong else None


def cost_in_seeds(results: Sequence[tuple[Unit, Any]], games: int) -> Interval:
    """Return how many times more seeds are needed if the win rate against random play is measured by games.

    It is 1 + (variance of the games) / (variance between seeds), both sums over tasks and agents that learn, at the
    last checkpoint.

    The 95% interval is that of the sum of variances between seeds by Satterthwaite (1946); of one seed it is unbounded.
    """
    from scipy.stats import chi2

    rates: dict[tuple[str, str], list[list[float]]] = {}
    for unit, rows in results:
        for row in rows:
            if row["steps"] == max(one["steps"] for one in rows) and row["learns"]:
                rates.setdefault((unit["task"], row["agent"]), []).append(row["random"])
    groups = [np.array(group) for group in rates.values() if len(group) > 1]  # float64[seeds, 2]
    noise = sum(float((group * (1 - group)).mean()) for group in groups) / games
    between = np.array([group.mean(axis=1).var(ddof=1) for group in groups])
    total = float(between.sum())
    if total <= 0:
        return Interval(float("inf"), 1.0, float("inf"))
    freedom = total**2 / sum(found**2 / (len(group) - 1) for found, group in zip(between, groups, strict=True))
    low, high = (freedom * total / float(chi2.ppf(share, freedom)) for share in (0.975, 0.025))
    return Interval(1 + noise / total, 1 + noise / high, 1 + noise / low)


def analyse(results: Sequence[tuple[Unit, Any]]) -> Report:
    """Report correlations and wrong comparisons by measure, and verdicts."""
    rng = np.random.default_rng(0)
    correlations: dict[str, list[float]] = {}
    wrongs: dict[str, list[float]] = {}
    for _, rows in results:
        scores = np.array([row["score"] for row in rows]).round(9)
        for name, values in measured_values(rows, rng).items():
            correlations.setdefault(name, []).append(rank_correlation(values, scores))
            wrong = share_of_wrong(values, rows)
            wrongs.setdefault(name, [])
            wrongs[name] += [] if wrong is None else [wrong]
    correlation = {name: interval_from_seeds(found, bounds=(-1, 1)) for name, found in correlations.items()}
    wrong_share = {name: interval_from_seeds(found, bounds=(0, 1)) for name, found in wrongs.items()}
    seeds = {games: cost_in_seeds(results, games) for games in GAMES}
    rows = [
        Row(
            name,
            "",
            f"rank correlation {format_interval(correlation[name])}; wrong {format_interval(wrong_share[name])}",
            "",
        )
        for name in correlation
    ]
    rows += [
        Row(f"seeds that the noise of {games:,} games costs", "", f"{format_interval(one, 2)} times as many", "")
        for games, one in seeds.items()
    ]
    claims = _claims(correlations, wrongs, correlation, wrong_share)
    data = {
        "units": [{**unit, "policies": found} for unit, found in results],
        "rank_correlation": {name: one._asdict() for name, one in correlation.items()},
        "wrong": {name: one._asdict() for name, one in wrong_share.items()},
        "seeds": {str(games): one.to_dict() for games, one in seeds.items()},
    }
    pictures = {"what-games-say": _draw_measures(wrong_share), "what-games-say-scores": _draw_scores(results)}
    return Report(rows, claims, pictures, data=data)


def _claims(
    correlations: Mapping[str, Sequence[float]],
    wrongs: Mapping[str, Sequence[float]],
    correlation: Mapping[str, Interval],
    wrong: Mapping[str, Interval],
) -> list[Claim]:
    sampled, exact = f"win rate against random, {GAMES[1]:,} games", _exact_name("random")
    long = f"win rate against random, {GAMES[2]:,} games"
    better = _difference(correlations[ELO], correlations[long], 2)
    fewer = _difference(wrongs[ELO], wrongs[CORRECTED], 1)
    return [
        Claim(
            f"The win rate over {GAMES[1]} games against random play orders policies as exact scores do: the rank "
            f"correlation is above {MIN_CORRELATION}",
            is_above([correlation[sampled]], MIN_CORRELATION),
            format_interval(correlation[sampled]),
        ),
        Claim(
            f"A comparison by it picks the wrong one of two algorithms in less than {MAX_WRONG:.0%} of cases",
            _is_below(wrong[sampled], MAX_WRONG),
            format_interval(wrong[sampled]),
        ),
        Claim(
            "With enough games it does: the same for exact win rates against random play",
            _is_below(wrong[exact], MAX_WRONG),
            format_interval(wrong[exact]),
        ),
        Claim(
            f"The Elo of a tournament has a higher rank correlation than the win rate over {GAMES[2]:,} games against "
            "random play",
            is_above([better]),
            f"difference {format_interval(better)}",
        ),
        Claim(
            "Luck correction makes wrong comparisons by Elo rarer",
            is_above([fewer]),
            f"difference {format_interval(fewer)}",
        ),
    ]


def _difference(one: Sequence[float], other: Sequence[float], most: float) -> Interval:
    """Return the mean difference over units."""
    return interval_from_seeds([a - b for a, b in zip(one, other, strict=True)], bounds=(-most, most))


def _is_below(value: Interval, bound: float) -> bool | None:
    return is_above([Interval(-value.mean, -value.high, -value.low)], -bound)


# ---------------------------------------------------------------------------------------------------------------------
# Pictures


def _draw_measures(wrong: Mapping[str, Interval]) -> Any:
    def draw(figure: Any) -> None:
        axes = figure.subplots()
        names = list(wrong)
        plot_intervals(
            axes, range(len(names)), list(wrong.values()), across=True, fmt="o", ms=4, color=SERIES[0], capsize=2
        )
        axes.set_yticks(range(len(names)), names)
        axes.invert_yaxis()
        axes.set(xlabel="share of comparisons that pick the worse algorithm", xlim=(0, None))

    return draw


def _draw_scores(results: Sequence[tuple[Unit, Any]]) -> Any:
    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for index, task in enumerate(dict.fromkeys(unit["task"] for unit, _ in results)):
            rows = [row for unit, found in results if unit["task"] == task for row in found]
            wins = [np.mean(row["random"]) for row in rows]
            scores = [row["score"] for row in rows]
            axes.plot(wins, scores, "os^Dv*"[index % 6], ms=4, color=SERIES[index % len(SERIES)], label=task, alpha=0.7)
        axes.set(xlabel="exact win rate against random play", ylabel="exact score on the task")
        draw_label_legend(figure, axes, 3)

    return draw


def _answer_measures(report: Report) -> str:
    def wrong(measure: str) -> str:
        (row,) = report.find_rows(measure)
        return f"{read_intervals(row.ours)[1].mean:.0%}"

    hundred, exact = wrong("win rate against random, 100 games"), wrong("win rate against random, exact")
    return (
        f"The win rate over 100 games against random play does in {hundred} of comparisons, the exact one in {exact}. "
        f"It is {wrong('Elo')} for the Elo of a tournament, {wrong('luck-corrected Elo')} with luck correction, and "
        f"{wrong('mean training return')} for the mean training return."
    )


def _answer_scores(report: Report) -> str:
    (row,) = report.find_rows("win rate against random, exact")
    correlation = format_interval(read_intervals(row.ours)[0])
    return f"Its mean rank correlation with the score is {correlation}, over tasks and seeds."


STUDY = Study(
    title="What games say, beside exact scores",
    source="our own study",
    about=(
        "The submissions to the benchmark ttt-exact in this repository: all agents, tasks with masks and one game, "
        "seeds and stored checkpoints; one agent has half of the tasks. Their policies have exact scores, and "
        "are also measured as is usual: by the mean return in training since the last stored checkpoint "
        "(exploration included, in self-play that of the first player; where it was stored), by win rates over "
        f"some games, and by Elo in a tournament of {PAIRS} pairs of games between any two policies of the same "
        f"task, seed and number of steps. Win rates are drawn {REPLICATES} times from their exact distribution, "
        "with half of the games in each seat. A comparison is that of two agents after the same number of "
        "environment steps with the same seed; equal values count half. Intervals are 95%, by Student's t over "
        "tasks and seeds; those of numbers of seeds by Satterthwaite (1946), over agents that learn."
    ),
    units=units,
    measure=measure,
    analyse=analyse,
    left_out=(
        f"all but {QUICK_UNITS} pairs of task and seed, two of three agents, all but two checkpoints, and "
        f"{PAIRS - QUICK_PAIRS} of {PAIRS} pairs of games"
    ),
    captions={
        "what-games-say": Caption(
            "How often does a measure pick the worse of two algorithms?",
            _answer_measures,
            "Bars are 95% intervals over tasks and seeds. 0.5 is a guess.",
        ),
        "what-games-say-scores": Caption(
            "Does a policy that wins more often against random play have a better score?",
            _answer_scores,
            "Each mark is a policy; both numbers are exact.",
        ),
    },
)
