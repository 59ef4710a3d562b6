"""What forgetting costs in phantom tic-tac-toe: exploitability of policies without memory, learned by exact updates."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from learners.exact_pg import ExactPGConfig
from ttt_envs.game.phantom import KINDS, Kind, PhantomGame
from ttt_eval.exact.dynamic_programming import exploitability, exploitation, outcome
from ttt_eval.reports.plots import SERIES, STYLES, draw_curves
from ttt_eval.reports.plots import Line as Curve
from ttt_eval.result_store import Unit
from ttt_eval.statistics import Interval, interval_from_seeds, is_above
from ttt_eval.study import Caption, Claim, Report, Row, Study, format_interval, read_intervals, read_numbers

# all relevant settings are given, whatever the defaults of the learner are
_MMD: dict[str, Any] = {"method": "magnetic-mirror-descent", "learning_rate": 1.0, "anneal": False}
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "natural gradient": {"method": "natural-gradient", "learning_rate": 1.0},
    "MMD 0.02": {**_MMD, "temperature": 0.02},
    "MMD 0.1": {**_MMD, "temperature": 0.1},
    "MMD 0.1, annealed": {**_MMD, "temperature": 0.1, "anneal": True},
    "R-NaD 0.1": {"method": "r-nad", "learning_rate": 1.0, "temperature": 0.1, "reference_interval": 50},
}
NONE, ANNEALED = "natural gradient", "MMD 0.1, annealed"
UPDATES, QUICK_UPDATES = 300, 20
MARKS = (0, 5, 10, 20, 40, 70, 100, 150, 200, 250, 300)
"""Numbers of updates after which a policy is measured."""
SEEDS, QUICK_SEEDS = 3, 1
INITIAL_STD = 0.5
"""Standard deviation of the initial logits, which differ between seeds."""
SMALL_SHARE = 0.25
"""Share of the exploitability of uniform play that is small."""
RUDOLPH = "Rudolph et al. (2026)"
PUBLISHED_VALUES = {"classic": 0.6667, "abrupt": 0.5502}
"""Value of the game to the first player, of their table of games."""
SOURCE = (
    "our own study; the games are those of Rudolph et al. (2026), Reevaluating Policy Gradient Methods for "
    "Imperfect-Information Games (https://arxiv.org/abs/2502.08938)"
)


def units(quick: bool) -> list[Unit]:
    """Return a unit for each variant, setting and seed."""
    return [
        {
            "phantom": kind,
            "setting": name,
            "config": dict(config),
            "seed": seed,
            "marks": [mark for mark in MARKS if mark <= (QUICK_UPDATES if quick else UPDATES)],
        }
        for kind in (KINDS[:1] if quick else KINDS)
        for name, config in SETTINGS.items()
        if not quick or name in (NONE, ANNEALED)
        for seed in range(QUICK_SEEDS if quick else SEEDS)
    ]


def measure(unit: Unit) -> list[dict[str, float]]:
    """Train in self-play, and measure the policy at all marks."""
    game, config = PhantomGame(kind=unit["phantom"]), ExactPGConfig(**unit["config"], initial_std=INITIAL_STD)
    training = config.training(game, unit["marks"][-1], batch=1, seed=unit["seed"])
    rows = []
    for mark in unit["marks"]:
        while training.done.games < mark:
            training.step()
        found = exploitation(game, training.learner)
        value = outcome(game, training.learner, training.learner).value
        rows.append(
            {
                "updates": mark,
                "value": value,
                "first": found.first.value,
                "second": found.second.value,
                "exploitability": found.exploitability,
            }
        )
    return rows


def analyse(results: Sequence[tuple[Unit, Any]]) -> Report:
    """Report the exploitability at the last mark and the lowest one, and verdicts."""
    by_setting: dict[tuple[str, str], list[list[dict[str, float]]]] = {}
    for unit, rows in results:
        by_setting.setdefault((unit["phantom"], unit["setting"]), []).append(rows)
    last = {key: _interval([rows[-1]["exploitability"] for rows in found]) for key, found in by_setting.items()}
    lowest = {key: min(row["exploitability"] for rows in found for row in rows) for key, found in by_setting.items()}
    measured = [kind for kind in KINDS if any(kind == one for one, _ in by_setting)]
    uniform = {kind: exploitability(PhantomGame(kind=kind), "random") for kind in measured}
    table = []
    for (kind, name), found in by_setting.items():
        values = ", ".join(f"{rows[-1]['value']:+.3f}" for rows in found)
        best = f"{format_interval(last[kind, name], 4)}; lowest {lowest[kind, name]:.4f}"
        table.append(Row(f"{kind}, {name}", "", f"{best}; value to the first player {values}", ""))
    table += [Row(f"{kind}, uniform play", "", f"{value:.4f}", "") for kind, value in uniform.items()]
    table += [_value(kind, by_setting) for kind in measured]
    pictures = {
        f"what-forgetting-costs-{kind}": draw_curves(
            [
                _curve(name, by_setting[kind, name], index)
                for index, name in enumerate(SETTINGS)
                if (kind, name) in by_setting
            ],
            "exact updates",
            "exploitability",
            distances=True,
            linear=("x",),
        )
        for kind in uniform
    }
    data = [{**unit, "rows": rows} for unit, rows in results]
    heading = f"exploitability after {results[0][0]['marks'][-1]} updates"
    return Report(table, _claims(by_setting, last, uniform), pictures, ours=heading, data=data)


def _value(kind: Kind, by_setting: Mapping[tuple[str, str], Sequence[Sequence[Mapping[str, float]]]]) -> Row:
    """Return the bounds of the value of a game that best responders to all measured policies give."""
    rows = [row for (variant, _), runs in by_setting.items() if variant == kind for run in runs for row in run]
    low, high = max(-row["second"] for row in rows), min(row["first"] for row in rows)
    published = PUBLISHED_VALUES[kind]
    ours = f"{low:+.4f} to {high:+.4f}, the bounds by best responders to these policies"
    return Row(
        f"{kind}, value of the game to the first player", f"{published:+.4f}", ours, "", low <= published <= high
    )


def _interval(values: Sequence[float]) -> Interval:
    return interval_from_seeds(values, bounds=(0.0, 1.0))


def _claims(
    by_setting: Mapping[tuple[str, str], Sequence[Sequence[Mapping[str, float]]]],
    last: Mapping[tuple[str, str], Interval],
    uniform: Mapping[Kind, float],
) -> list[Claim]:
    claims = []
    for kind, value in uniform.items():
        most = SMALL_SHARE * value
        names = [name for variant, name in by_setting if variant == kind]
        best = min(names, key=lambda name: last[kind, name].mean)
        found = last[kind, best]
        claims.append(
            Claim(
                f"{kind}: some policies without memory have less than {SMALL_SHARE:.0%} of the exploitability of "
                f"uniform play",
                is_above([Interval(-found.mean, -found.high, -found.low)], -most),
                f"{best}: {format_interval(found, 4)}; a {SMALL_SHARE:.0%} is {most:.4f}",
            )
        )
        pairs = zip(by_setting[kind, NONE], by_setting[kind, ANNEALED], strict=True)
        differences = [one[-1]["exploitability"] - other[-1]["exploitability"] for one, other in pairs]
        gain = interval_from_seeds(differences, bounds=(-1.0, 1.0))
        claims.append(
            Claim(
                f"{kind}: annealed regularization leads to lower exploitability than none",
                is_above([gain]),
                f"difference {format_interval(gain, 4)}",
            )
        )
    return claims


def _curve(name: str, runs: Sequence[Sequence[Mapping[str, float]]], index: int) -> Curve:
    """Return the mean over seeds with their range."""
    points = [[row["exploitability"] for row in rows] for rows in zip(*runs, strict=True)]
    return Curve(
        name,
        [row["updates"] for row in runs[0]],
        [sum(values) / len(values) for values in points],
        SERIES[index],
        STYLES[index % len(STYLES)],
        [min(values) for values in points],
        [max(values) for values in points],
    )


def _answer(kind: Kind, report: Report) -> str:
    rows = {row.what.removeprefix(f"{kind}, "): row.ours for row in report.find_rows(kind)}
    last = {name: read_intervals(rows[name])[0] for name in SETTINGS if name in rows}
    best = min(last, key=lambda name: last[name].mean)
    uniform = float(rows["uniform play"])
    lowest = read_numbers(rows[NONE], before="lowest ")[0]
    return (
        f"{best} gets lowest, to {last[best].mean:.2f} of uniform play's {uniform:.2f}. Without regularization "
        f"exploitability falls to {float(lowest):.2f} in one run and ends at {last[NONE].mean:.2f} on average."
    )


STUDY = Study(
    title="What forgetting costs",
    source=SOURCE,
    about=(
        "Phantom tic-tac-toe on 3 x 3. Policies see their own stones and the stones that they have found, and forget "
        "in which order they learned of them. They learn in self-play by exact updates of a softmax table with a row "
        "for each view (the learner exact-pg): no game is played, and nothing is sampled. Best responders remember "
        "everything; so the exploitability, NashConv / 2, that policies without memory reach is an upper bound of what "
        "forgetting costs. Numbers after the names are temperatures. Seeds differ in the initial policy. Intervals are "
        f"95% by Student's t over seeds. {RUDOLPH} measure nets on the same two games in OpenSpiel, "
        "after 10 million steps. Their abstract, reviews, a public summary "
        "(https://github.com/zhaoyang97/Paper-Notes-en) and their two repositories "
        "(https://github.com/nathanlct/IIG-RL-Benchmark at 591d35d, https://github.com/gabrfarina/exp-a-spiel at "
        "9412882) give no exploitability of phantom tic-tac-toe as a number; the figures of the paper were not read. "
        "The summary repeats the paper's table of games: values to the first player of 0.6667 and 0.5502, 5.99 and "
        "23.31 million information sets, 19.93 and 27.12 billion states. "
        "The values lie between our bounds."
    ),
    units=units,
    measure=measure,
    analyse=analyse,
    left_out=(
        f"the abrupt variant, three of {len(SETTINGS)} settings, {SEEDS - QUICK_SEEDS} of {SEEDS} seeds, and all "
        f"updates after {QUICK_UPDATES} of {UPDATES}"
    ),
    captions={
        f"what-forgetting-costs-{kind}": Caption(
            f"How low does the exploitability of policies without memory get in the {kind} variant?",
            functools.partial(_answer, kind),
            "Lines are means over seeds, bands their range.",
        )
        for kind in KINDS
    },
)
