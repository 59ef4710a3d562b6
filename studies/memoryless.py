"""What forgetting costs in phantom tic-tac-toe: exploitability of policies without memory, learned by exact updates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from learners.exact_pg import ExactPGConfig
from studies.frame import Claim, Figure, Panel, Report, Results, Row, Series, Study, group
from ttt_envs.game.phantom import KINDS, PhantomGame
from ttt_eval.exact.dynamic_programming import exploitability, exploitation, outcome
from ttt_eval.result_store import Unit
from ttt_eval.statistics import Interval, interval_from_seeds, is_above

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
MARKS = (0, 5, 10, 20, 40, 70, 100, 150, 200, 250, 300)
"""Numbers of updates after which a policy is measured."""
INITIAL_STD = 0.5
"""Standard deviation of the initial logits, which differ between seeds."""
SMALL_SHARE = 0.25
"""Share of the exploitability of uniform play that is small."""
PUBLISHED_VALUES = {"classic": 0.6667, "abrupt": 0.5502}
"""Value of the game to the first player, of the table of games of Rudolph et al. (2026)."""


class Memoryless(Study):
    """Phantom tic-tac-toe on 3 x 3. Policies see their own stones and the stones that they have found, and forget
    in which order they learned of them. They learn in self-play by exact updates of a softmax table with a row
    for each view (the learner exact-pg): no game is played, and nothing is sampled. Best responders remember
    everything; so the exploitability, NashConv / 2, that policies without memory reach is an upper bound of what
    forgetting costs. Numbers after the names are temperatures. Seeds differ in the initial policy. Intervals are
    95% by Student's t over seeds. Rudolph et al. (2026) measure nets on the same two games in OpenSpiel,
    after 10 million steps. Their abstract, reviews, a public summary
    (https://github.com/zhaoyang97/Paper-Notes-en) and their two repositories
    (https://github.com/nathanlct/IIG-RL-Benchmark at 591d35d, https://github.com/gabrfarina/exp-a-spiel at
    9412882) give no exploitability of phantom tic-tac-toe as a number; the figures of the paper were not read.
    The summary repeats the paper's table of games: values to the first player of 0.6667 and 0.5502, 5.99 and
    23.31 million information sets, 19.93 and 27.12 billion states. The values lie between our bounds.
    """

    title = "What forgetting costs"
    source = (
        "our own study; the games are those of Rudolph et al. (2026), Reevaluating Policy Gradient Methods for "
        "Imperfect-Information Games (https://arxiv.org/abs/2502.08938)"
    )
    left_out = "the abrupt variant, three of five settings, two of three seeds, and all updates after 20 of 300"

    def units(self, quick: bool) -> list[Unit]:
        """Return a unit for each variant, setting and seed."""
        marks = [mark for mark in MARKS if mark <= (20 if quick else MARKS[-1])]
        return [
            {"phantom": kind, "setting": name, "config": dict(config), "seed": seed, "marks": marks}
            for kind in (KINDS[:1] if quick else KINDS)
            for name, config in SETTINGS.items()
            if not quick or name in (NONE, ANNEALED)
            for seed in range(1 if quick else 3)
        ]

    def measure(self, unit: Unit) -> list[dict[str, float]]:
        """Train in self-play, and measure the policy at all marks."""
        game, config = PhantomGame(kind=unit["phantom"]), ExactPGConfig(**unit["config"], initial_std=INITIAL_STD)
        training = config.training(game, unit["marks"][-1], batch=1, seed=unit["seed"])
        rows = []
        for mark in unit["marks"]:
            while training.done.games < mark:
                training.step()
            responses = exploitation(game, training.learner)
            value = outcome(game, training.learner, training.learner).value
            first, second = responses.first.value, responses.second.value
            measured = {"first": first, "second": second, "exploitability": responses.exploitability}
            rows.append({"updates": mark, "value": value, **measured})
        return rows

    def analyse(self, results: Results) -> Report:
        """Report the exploitability at the last mark and the lowest one, the bounds of the value, and verdicts."""
        rows, claims, figures = list[Row](), list[Claim](), {}
        for kind in group(results, "phantom"):
            by_setting = group([(unit, runs) for unit, runs in results if unit["phantom"] == kind], "setting")
            uniform = exploitability(PhantomGame(kind=kind), "random")
            points = [row for runs in by_setting.values() for run in runs for row in run]
            ends, numbers, series = {}, {}, []
            for index, (name, runs) in enumerate(by_setting.items()):
                curves = np.array([[row["exploitability"] for row in run] for run in runs])
                ends[name] = interval_from_seeds(curves[:, -1].tolist(), bounds=(0.0, 1.0))
                values = {"value to the first player": [run[-1]["value"] for run in runs]}
                numbers[name] = {"": ends[name], "lowest": curves.min()}
                rows.append(Row(f"{kind}, {name}", None, {**numbers[name], **values}))
                updates = [row["updates"] for row in runs[0]]
                ranges = [
                    Interval(*row) for row in zip(*(f(curves, 0) for f in (np.mean, np.min, np.max)), strict=True)
                ]
                series.append(Series(name, updates, ranges, f"{'osD^v'[index]}-", index))
            rows.append(Row(f"{kind}, uniform play", None, uniform))
            low, high = max(-point["second"] for point in points), min(point["first"] for point in points)
            published, label = PUBLISHED_VALUES[kind], f"{kind}, value of the game to the first player"
            bounds = {"bounds by best responders": [low, high]}
            rows.append(Row(label, published, bounds, None, low <= published <= high))
            best = min(ends, key=lambda name: float(ends[name].mean))
            small = SMALL_SHARE * uniform
            words = (
                f"{kind}: some policies without memory have less than {SMALL_SHARE:.0%} of the exploitability of "
                f"uniform play"
            )
            less = Interval(-ends[best].mean, -ends[best].high, -ends[best].low)
            claims.append(Claim(words, is_above([less], -small), {best: ends[best], f"{SMALL_SHARE:.0%} is": small}))
            pairs = zip(by_setting[NONE], by_setting[ANNEALED], strict=True)
            differences = [run[-1]["exploitability"] - other[-1]["exploitability"] for run, other in pairs]
            gain = interval_from_seeds(differences, bounds=(-1.0, 1.0))
            words = f"{kind}: annealed regularization leads to lower exploitability than none"
            claims.append(Claim(words, is_above([gain]), {"difference": gain}))
            panel = Panel(series, "exact updates", "exploitability", scales=("linear", "symlog"), limits=(0, 1.2))
            question = f"How low does the exploitability of policies without memory get in the {kind} variant?"
            answer = {"uniform play": uniform, f"{best}, lowest of all at the end": numbers[best], NONE: numbers[NONE]}
            symbols = "Marks are means over seeds, bars their range."
            figures[f"what-forgetting-costs-{kind}"] = Figure(question, symbols, [panel], answer)
        return Report(rows, claims, figures, f"exploitability after {results[0][0]['marks'][-1]} updates")
