"""Learning curves: exact exploitability during training, several seeds each."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from learners.checkpoint import new_config
from ttt_apps.train_subprocess import train_in_subprocess
from ttt_envs.envs.config import SELF
from ttt_envs.game.game import Game
from ttt_eval.reports.formats import join_names
from ttt_eval.reports.plots import SERIES, draw_label_legend
from ttt_eval.result_store import Unit
from ttt_eval.run_files import RunDirectory
from ttt_eval.study import Caption, Report, Row, Study, read_numbers

SEEDS, POINTS = 3, 20
# all relevant settings are given, whatever the defaults of the learners are
_MEAN = {"epsilon": 1.0, "rewards": "report", "symmetries": "none"}
_SLOW, _PROGRAM = {**_MEAN, "epsilon_decay": 1e-6}, {**_MEAN, "epsilon_decay": 1e-4}
_TABLE = {
    "backup": "negamax", "symmetries": "none", "step_size": 1.0, "step_size_power": 0.7, "gamma": 1.0,
    "epsilon": 0.3, "epsilon_decay": 0.0, "target": "max", "values": "action", "rewards": "unit",
}  # fmt: skip
_NET = {
    "backup": "negamax", "symmetries": "all", "hidden": 128, "optimizer": "adam", "learning_rate": 0.003,
    "learning_rate_decay": 0.001, "gamma": 1.0, "rewards": "unit", "epsilon": 0.5, "epsilon_decay": 0.0,
    "buffer_size": 50_000, "batch_size": 128, "gradient_steps": 4, "target_update_interval": 0,
}  # fmt: skip
NUM_GAMES = 1_000_000
CURVES: dict[str, tuple[tuple[str, dict[str, Any], int, int, float, str], ...]] = {
    "naive-mc": (
        ("epsilon-decay 1e-6", _SLOW, NUM_GAMES, 256, 0.0, SELF),
        ("epsilon-decay 1e-4, as the program has it", _PROGRAM, NUM_GAMES, 256, 0.0, SELF),
        ("epsilon-decay 1e-6, skip 0.25", _SLOW, NUM_GAMES, 256, 0.25, SELF),
    ),
    "q-learning": (
        ("backup negamax", _TABLE, NUM_GAMES, 256, 0.0, SELF),
        ("backup negamax, skip 0.25", _TABLE, NUM_GAMES, 256, 0.25, SELF),
        ("backup negamax, all symmetries, skip 0.25", {**_TABLE, "symmetries": "all"}, NUM_GAMES, 256, 0.25, SELF),
    ),
    "q-net": (
        ("ply to ply, replay, all symmetries", _NET, 80_000, 256, 0.0, SELF),
        ("ply to ply, replay, all symmetries, skip 0.25", _NET, 100_000, 256, 0.25, SELF),
    ),
    "sb3-maskable-ppo": (("against random", {}, 200_000, 256, 0.0, "random"),),
}
"""Curves by learner: label, settings, games, batch, skip chance, opponent."""


def units(quick: bool) -> list[Unit]:
    """Return all runs; the quick form omits the long ones."""
    return [
        {
            "learner": learner,
            "curve": label,
            "settings": settings,
            "games": games // 20 if quick else games,
            "batch": batch,
            "skip_chance": skip,
            "opponent": opponent,
            "seed": seed,
        }
        for learner, curves in CURVES.items()
        for label, settings, games, batch, skip, opponent in curves
        for seed in range(1 if quick else SEEDS)
        if not (quick and learner not in ("naive-mc", "q-learning"))
    ]


def measure(unit: Unit) -> dict[str, Any]:
    """Train in a separate process with exact measurements; CPU time without these measurements is unknown."""
    every = max(1, unit["games"] // POINTS)
    config = new_config(
        Game(skip_chance=unit["skip_chance"]),
        unit["settings"],
        **{name: unit[name] for name in ("learner", "games", "batch", "opponent", "seed")},
        seat="alternate",
        log_every=every,
        exact_every=every,
        no_report=True,
    )
    with tempfile.TemporaryDirectory() as folder:
        run = RunDirectory(Path(folder, "run"))
        train_in_subprocess(config, run)
        rows = [json.loads(line) for line in run.metrics.read_text("utf-8").splitlines()]
        phases = run.read_cost()
    spent = [phases[phase] for phase in ("training", "evaluation") if phase in phases]
    rows = [row for row in rows if "exploitability" in row]
    return {
        "games": [row["games"] for row in rows],
        "exploitability": [row["exploitability"] for row in rows],
        "loses": [row.get("exact_loss") for row in rows],
        "cpu_s": sum(phase["cpu_user_s"] + phase["cpu_system_s"] for phase in spent),
        "peak_rss_bytes": max(phase["peak_rss_bytes"] for phase in spent),
    }


def analyse(results: Sequence[tuple[Unit, Any]]) -> Report:
    """Report the ends of all curves, with a figure for each learner."""
    runs: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for unit, result in results:
        runs.setdefault((unit["learner"], unit["curve"]), []).append(result)
    rows = []
    for (learner, label), mine in runs.items():
        ends = ", ".join(f"{run['exploitability'][-1]:.4f}" for run in mine)
        loses = ", ".join(f"{run['loses'][-1]:.2%}" for run in mine if run["loses"][-1] is not None)
        cpu = ", ".join(f"{run['cpu_s']:.0f}" for run in mine)
        peak = max(run["peak_rss_bytes"] for run in mine) / 2**20
        rows.append(
            Row(
                f"{learner}, {label}",
                "",
                f"{mine[0]['games'][-1]:,} games; {cpu} CPU s; {peak:,.0f} MiB",
                f"exploitability {ends}" + (f"; loses {loses} against its opponent" if loses else ""),
            )
        )
    pictures = {
        learner: _picture({label: mine for (other, label), mine in runs.items() if other == learner})
        for learner in dict.fromkeys(learner for learner, _ in runs)
    }
    return Report(rows, [], pictures, ours="cost", data=[{**unit, **result} for unit, result in results])


def _picture(curves: dict[str, list[dict[str, Any]]]) -> Any:
    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for index, (label, runs) in enumerate(curves.items()):
            for run in runs:
                axes.plot(run["games"], run["exploitability"], color=SERIES[index], alpha=0.4, lw=1)
            middle = np.median([run["exploitability"] for run in runs], axis=0)
            axes.plot(runs[0]["games"], middle, color=SERIES[index], marker="os^"[index], ms=4, lw=2, label=label)
        # linear below 0.01, to show 0
        axes.set_yscale("symlog", linthresh=0.01)
        axes.set_yticks([0, 0.01, 0.1, 1], ["0", "0.01", "0.1", "1"])
        axes.set(xlabel="games of training", ylabel="exploitability, exact", ylim=(-0.001, 1.5), xlim=(0, None))
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.set_title(f"thick: median of {len(runs)} runs; thin: each of them", fontsize="medium")
        draw_label_legend(figure, axes, 1)

    return draw


def _final_exploitability(learner: str) -> Callable[[Report], str]:
    """Return a function that says how exploitable a learner is after its training."""

    def answer(report: Report) -> str:
        ends = []
        for row in report.find_rows(f"{learner},"):
            worst = max(read_numbers(row.exact.partition(";")[0]), key=float)
            lost = read_numbers(row.exact, after="%")
            also = f", where it loses up to {max(lost, key=float)}% of games" if lost else ""
            ends.append(f"{worst} ({row.what.removeprefix(f'{learner}, ')}{also})")
        return f"At the end the worst seed has {join_names(ends)}; 0 is perfect play."

    return answer


STUDY = Study(
    title="Learning curves",
    source="our own study",
    about=(
        "Exact exploitability of the greedy policy during training on 3 x 3. Thin lines are seeds, the thick line is "
        "their median. CPU time is that of the training, exact measurements included."
    ),
    units=units,
    measure=measure,
    analyse=analyse,
    left_out=f"the nets, two of {SEEDS} seeds, and all but a twentieth of the games",
    alone=True,
    captions={
        "naive-mc": Caption(
            "How exploitable is naive-mc while it learns?",
            _final_exploitability("naive-mc"),
            "Thin lines are seeds, thick lines their medians.",
        ),
        "q-learning": Caption(
            "How exploitable is q-learning while it learns?",
            _final_exploitability("q-learning"),
            "Thin lines are seeds, thick lines their medians.",
        ),
        "q-net": Caption(
            "How exploitable is q-net while it learns?",
            _final_exploitability("q-net"),
            "Thin lines are seeds, thick lines their medians.",
        ),
        "sb3-maskable-ppo": Caption(
            "How exploitable does learning from random opponents leave sb3-maskable-ppo?",
            _final_exploitability("sb3-maskable-ppo"),
            "Thin lines are seeds, thick lines their medians.",
        ),
    },
)
