"""What games say of a policy, beside its exact score: rank correlations, wrong comparisons, and the noise of games."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from evaluation.benchmark import find_task, score_policies
from evaluation.benchmark.policy_table import PolicyTable, tabulate
from evaluation.exact.dynamic_programming import outcome
from evaluation.matches.luck import EXACT
from evaluation.matches.match import play_pairs
from evaluation.matches.tournament import bradley_terry
from evaluation.reports.plots import SERIES, legend, plot_intervals
from evaluation.result_store import Unit
from evaluation.statistics import Interval, interval_from_seeds, is_above
from evaluation.study import Caption, Claim, Report, Row, Study, interval
from learners.checkpoint import build_config
from learners.config import TransitionLearnerConfig
from learners.training import Training, make_initial_rng
from ttt_envs.agents.policy import Policy
from ttt_envs.core.jit import Float64Array
from ttt_envs.envs.lockstep import SELF
from ttt_envs.game.rules import Game

# all relevant settings are given, whatever the defaults of the learners are
_TABLE: dict[str, Any] = {
    "symmetries": "none", "step_size": 1.0, "step_size_power": 0.7, "gamma": 1.0, "epsilon": 0.3,
    "epsilon_decay": 0.0, "target": "max", "values": "action", "rewards": "unit",
}  # fmt: skip
_MEAN: dict[str, Any] = {"epsilon": 1.0, "rewards": "report", "symmetries": "none"}
AGENTS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "q-learning": ("q-learning", _TABLE),
    "q-learning, all symmetries": ("q-learning", {**_TABLE, "symmetries": "all"}),
    "q-learning, step size 0.1": ("q-learning", {**_TABLE, "step_size": 0.1, "step_size_power": 0.0}),
    "naive-mc, epsilon-decay 1e-4": ("naive-mc", {**_MEAN, "epsilon_decay": 1e-4}),
    "naive-mc, epsilon-decay 1e-5": ("naive-mc", {**_MEAN, "epsilon_decay": 1e-5}),
}
BENCHMARK_TASKS = ("half-random", "chance-10", "chance-25", "chance-50", "self-play", "self-play-skip")
QUICK_TASKS = ("chance-25", "self-play-skip")
SEEDS, QUICK_SEEDS = 5, 2
MARKS, QUICK_MARKS = (500, 2_000, 8_000, 20_000), (300, 1_500)
"""Numbers of training games after which policies are measured."""
BATCH = 16
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
    """Return a unit for each task and seed."""
    return [
        {
            "task": task,
            "seed": seed,
            "marks": list(QUICK_MARKS if quick else MARKS),
            "pairs": QUICK_PAIRS if quick else PAIRS,
        }
        for task in (QUICK_TASKS if quick else BENCHMARK_TASKS)
        for seed in range(QUICK_SEEDS if quick else SEEDS)
    ]


def measure(unit: Unit) -> list[dict[str, Any]]:
    """Train all agents on a task, and measure their policies at all marks."""
    task, rows, policies = find_task(unit["task"]), list[dict[str, Any]](), list[Policy]()
    [game] = task.games
    for name, (learner, settings) in AGENTS.items():
        training = _make_training(learner, settings, game, task.opponent_at(0), max(unit["marks"]), unit["seed"])
        games, points = 0, 0
        for mark in unit["marks"]:
            while training.running and training.done.games < mark:
                training.step()
            done = training.done
            table = tabulate(game, training.learner, dtype=np.float64)
            policy = PolicyTable(game, table["codes"], table["probabilities"])
            row = {"agent": name, "games": done.games, "score": score_policies(task, [policy]).score}
            row["return"] = (done.wins - done.losses - points) / (done.games - games)
            for opponent in OPPONENTS:
                first, second = outcome(game, policy, opponent), outcome(game, opponent, policy).reversed()
                row[opponent] = [first.win, second.win]
            games, points = done.games, done.wins - done.losses
            policies.append(policy)
            rows.append(row)
    for row, raw, corrected in zip(rows, *_ratings(game, policies, unit["pairs"], unit["seed"]), strict=True):
        row |= {"elo": raw, "corrected_elo": corrected}
    return rows


def _make_training(
    learner: str, settings: Mapping[str, Any], game: Game, opponent: str, games: int, seed: int
) -> Training:
    ply = {"bootstrap": "ply" if opponent == SELF else "own-turn"} if learner == "q-learning" else {}
    config = build_config(learner, {**settings, **ply})
    assert isinstance(config, TransitionLearnerConfig), f"{learner} has a loop of its own"
    return Training(config.build(game, make_initial_rng(seed)), opponent, games, batch=BATCH, seed=seed)


def _ratings(game: Game, policies: Sequence[Policy], pairs: int, seed: int) -> tuple[list[float], list[float]]:
    """Return the Elo of all policies in a round robin, with luck and without."""
    raw, corrected = np.zeros((2, len(policies), len(policies), 5))
    for one, other in itertools.combinations(range(len(policies)), 2):
        score = play_pairs(game, policies[one], policies[other], pairs, seed=seed, luck_correction=EXACT)
        raw[one, other] = score.raw.effective_pentanomial
        corrected[one, other] = score.effective_pentanomial
    with_luck, without = ([one.mean for one in bradley_terry(table, draws=1)] for table in (raw, corrected))
    return with_luck, without


# ---------------------------------------------------------------------------------------------------------------------
# Analysis


def measured_values(rows: Sequence[Mapping[str, Any]], rng: np.random.Generator) -> dict[str, Float64Array]:
    """Return what each measure says of the policies of a unit, float64[replicates, policies].

    Numbers of won games are drawn from their exact distribution: half of the games in each seat.
    """
    found = {RETURN: np.array([[row["return"] for row in rows]])}
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
        values: float64[replicates, policies].
        scores: float64[policies].
    """
    from scipy.stats import rankdata

    ranks, truth = rankdata(values, axis=1), rankdata(scores)
    ranks, truth = ranks - ranks.mean(axis=1, keepdims=True), truth - truth.mean()
    norms = np.sqrt((ranks**2).sum(axis=1) * (truth**2).sum())
    return float(np.mean(np.divide(ranks @ truth, norms, out=np.zeros(len(ranks)), where=norms > 0)))


def share_of_wrong(values: Float64Array, rows: Sequence[Mapping[str, Any]]) -> float | None:
    """Return how often values pick the worse of two agents after the same number of games; ties count half.

    Args:
        values: float64[replicates, policies].
        rows: of the policies.

    Returns:
        The share of comparisons; None if all agents have equal scores.
    """
    wrong = []
    for one, other in itertools.combinations(range(len(rows)), 2):
        a, b = rows[one], rows[other]
        lead = a["score"] - b["score"]
        if abs(a["games"] - b["games"]) <= BATCH and abs(lead) > TIE:  # games in parallel end together
            said = np.sign(lead) * (values[:, one] - values[:, other])
            wrong.append(float(np.mean((said < 0) + 0.5 * (said == 0))))
    return float(np.mean(wrong)) if wrong else None


def cost_in_seeds(results: Sequence[tuple[Unit, Any]], games: int) -> Interval:
    """Return how many times more seeds are needed if the win rate against random play is measured by games.

    It is 1 + (variance of the games) / (variance between seeds), both sums over tasks and agents after the last mark.
    The 95% interval is that of the sum of variances between seeds by Satterthwaite (1946); of one seed it is unbounded.
    """
    from scipy.stats import chi2

    rates: dict[tuple[str, str], list[list[float]]] = {}
    for unit, rows in results:
        for row in rows[len(unit["marks"]) - 1 :: len(unit["marks"])]:
            rates.setdefault((unit["task"], row["agent"]), []).append(row["random"])
    exact = np.array(list(rates.values()))  # float64[groups, seeds, 2]
    noise = float((exact * (1 - exact)).mean(axis=(1, 2)).sum() / games)
    seeds = exact.shape[1]
    between = exact.mean(axis=2).var(axis=1, ddof=1) if seeds > 1 else np.zeros(len(exact))
    total = float(between.sum())
    if total <= 0:
        return Interval(float("inf"), 1.0, float("inf"))
    freedom = total**2 / float((between**2).sum() / (seeds - 1))
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
        Row(name, "", f"rank correlation {interval(correlation[name])}; wrong {interval(wrong_share[name])}", "")
        for name in correlation
    ]
    rows += [
        Row(f"seeds that the noise of {games:,} games costs", "", f"{interval(one, 2)} times as many", "")
        for games, one in seeds.items()
    ]
    claims = _claims(correlations, wrongs, correlation, wrong_share)
    data = {
        "units": [{**unit, "policies": found} for unit, found in results],
        "rank_correlation": {name: one._asdict() for name, one in correlation.items()},
        "wrong": {name: one._asdict() for name, one in wrong_share.items()},
        "seeds": {str(games): _finite(one) for games, one in seeds.items()},
    }
    pictures = {"what-games-say": _draw_measures(wrong_share), "what-games-say-scores": _draw_scores(results)}
    return Report(rows, claims, pictures, data=data)


def _finite(one: Interval) -> dict[str, float | None]:
    return {name: value if np.isfinite(value) else None for name, value in one._asdict().items()}


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
            interval(correlation[sampled]),
        ),
        Claim(
            f"A comparison by it picks the wrong one of two algorithms in less than {MAX_WRONG:.0%} of cases",
            _is_below(wrong[sampled], MAX_WRONG),
            interval(wrong[sampled]),
        ),
        Claim(
            "With enough games it does: the same for exact win rates against random play",
            _is_below(wrong[exact], MAX_WRONG),
            interval(wrong[exact]),
        ),
        Claim(
            f"The Elo of a tournament has a higher rank correlation than the win rate over {GAMES[2]:,} games against "
            "random play",
            is_above([better]),
            f"difference {interval(better)}",
        ),
        Claim(
            "Luck correction makes wrong comparisons by Elo rarer", is_above([fewer]), f"difference {interval(fewer)}"
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
        legend(figure, axes, 3)

    return draw


STUDY = Study(
    title="What games say, beside exact scores",
    source="our own study",
    about=(
        "Two learners with five settings learn on tasks of the benchmark ttt-exact. Their policies at several numbers "
        "of training games have exact scores, and are also measured as is usual: by the mean return since the last "
        "measurement (exploration included, in self-play that of the first player), by win rates over some games, and "
        f"by Elo in a round robin of all policies of a task and seed, {PAIRS} pairs of games each. Win rates are drawn "
        f"{REPLICATES} times from their exact distribution, with half of the games in each seat. A comparison is that "
        "of two agents after the same number of training games with the same seed; equal values count half. "
        "Intervals are 95%, by Student's t over tasks and seeds; those of numbers of seeds by Satterthwaite (1946)."
    ),
    units=units,
    measure=measure,
    analyse=analyse,
    left_out=(
        f"{len(BENCHMARK_TASKS) - len(QUICK_TASKS)} of {len(BENCHMARK_TASKS)} tasks, {SEEDS - QUICK_SEEDS} of {SEEDS} "
        f"seeds, two of four marks, and {PAIRS - QUICK_PAIRS} of {PAIRS} pairs of games; "
        f"policies learn from {QUICK_MARKS[-1]:,} games in place of {MARKS[-1]:,}"
    ),
    captions={
        "what-games-say": Caption(
            "How often does a measure pick the worse of two algorithms?",
            "The win rate over 100 games against random play does in 30% of comparisons, the exact one in 18%. "
            "It is 19% for the Elo of a tournament, and 17% where its luck is corrected.",
            "Bars are 95% intervals over tasks and seeds. 0.5 is a guess.",
        ),
        "what-games-say-scores": Caption(
            "Does a policy that wins more often against random play have a better score?",
            "Against a fixed opponent roughly, in self-play without skips not: a policy that wins 92% of its "
            "games against random play scores below 0.",
            "Each mark is a policy; both numbers are exact.",
        ),
    },
)
