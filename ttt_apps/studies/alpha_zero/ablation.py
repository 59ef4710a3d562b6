"""Ablation of alpha-zero: each part removed, or set otherwise, with all else at its default."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from evaluation.reports.plots import DRAW, SERIES
from evaluation.result_store import Unit
from evaluation.statistics import holds_for_all, is_smaller
from evaluation.study import Claim, Report, Row, verdict
from learners.alpha_zero import AlphaZeroConfig
from ttt_apps.studies.alpha_zero.training_runs import (
    NAME,
    NEAR,
    ROUNDING,
    SEEDS,
    TrainingCurve,
    format_cpu_seconds,
    game_name,
    median_and_range,
    train_and_measure,
    training_unit,
)
from ttt_envs.game.rules import Game

PART = "ablation"
DEFAULT = "as by default"
VARIANTS: dict[str, dict[str, Any]] = {
    DEFAULT: {},
    "PUCT": {"search": "puct"},
    "cells alone": {"lines": False},
    "no symmetries": {"symmetries": "none"},
    "no random moves": {"opening": 0, "epsilon": 0.0},
    "no chance nodes": {"chance_nodes": False},
    **{f"trace {td_lambda:g}": {"td_lambda": td_lambda} for td_lambda in (0.0, 0.5, 1.0)},
    **{f"{simulations} simulations": {"simulations": simulations} for simulations in (8, 16, 32, 64)},
}
"""Changed settings of each variant."""
PARTS = {
    "the Gumbel search": "PUCT",
    "line inputs of the network": "cells alone",
    "symmetries": "no symmetries",
    "random moves": "no random moves",
    "chance nodes": "no chance nodes",
    "TD(lambda) value targets": "trace 0",
}
"""Maps a part claimed to be useful to the variant without it."""
MARKS = tuple((mark + 1) / 32 for mark in range(32))
GAMES: dict[Game, int] = {Game(): 8_192, Game(skip_chance=0.25): 8_192, Game(4, 4, 4): 8_192}
QUICK = (DEFAULT, "PUCT", "no chance nodes")


def units(quick: bool) -> list[Unit]:
    """Return all trainings, seeds in the outer loop."""
    return [
        {
            "part": PART,
            "variant": variant,
            **training_unit(NAME, game, 768 if quick else games, seed, **changed),
            "marks": MARKS[7::8] if quick else MARKS if game.cells == 9 else MARKS[3::4],
            "searched": (),
        }
        for seed in range(2 if quick else SEEDS)
        for game, games in GAMES.items()
        for variant, changed in VARIANTS.items()
        if variant == DEFAULT or any(getattr(AlphaZeroConfig(), name) != value for name, value in changed.items())
        if game.skip_chance > 0 or variant != "no chance nodes"
        if game.cells == 9 or variant in (DEFAULT, *PARTS.values())  # 4 x 4 takes longest: only variants of the claims
        if not quick or (variant in QUICK and game == Game(skip_chance=0.25))
    ]


measure = train_and_measure
Courses = Mapping[Game, Mapping[str, Sequence[TrainingCurve]]]


def analyse(results: Sequence[tuple[Unit, Any]]) -> Report:
    """Report the final exploitability and time to near-perfect play of each variant, compared with the default's."""
    courses: dict[Game, dict[str, list[TrainingCurve]]] = {}
    for unit, result in results:
        of_game = courses.setdefault(Game.from_dict(unit["game"]), {})
        of_game.setdefault(unit["variant"], []).append(TrainingCurve.of(result))
    decided = len(results) == len(units(False))
    rows = [
        Row(
            f"{game_name(game)}: {variant}",
            "",
            *_describe_variant(mine, None if variant == DEFAULT else of_game[DEFAULT]),
        )
        for game, of_game in courses.items()
        for variant, mine in of_game.items()
    ]
    claims = [
        _claim(
            part,
            {game: (mine[DEFAULT], mine[without]) for game, mine in courses.items() if without in mine},
            decided,
        )
        for part, without in PARTS.items()
    ]
    data = [{**unit, **result} for unit, result in results]
    return Report(rows, claims, {"alpha-zero-ablation": lambda figure: _draw_figure(figure, courses)}, data=data)


def final_values(courses: Sequence[TrainingCurve]) -> list[float]:
    """Return the exploitabilities at the end."""
    return [course.end for course in courses]


def cpu_to_threshold(courses: Sequence[TrainingCurve]) -> list[float]:
    """Return the CPU seconds after which exploitability stays below ``NEAR``; inf for never."""
    return [course.to(NEAR)[1] for course in courses]


def _describe_variant(mine: Sequence[TrainingCurve], usual: Sequence[TrainingCurve] | None) -> tuple[str, str]:
    """Describe cost and strength, each compared with the default."""
    perfect = sum(course.end <= ROUNDING for course in mine)
    time = (
        f"{median_and_range([course.cpu_s[-1] for course in mine], 1)} CPU s; below {NEAR} for good "
        f"{format_cpu_seconds(cpu_to_threshold(mine))}"
    )
    end = f"exploitability {median_and_range(final_values(mine), 4)}; 0 in {perfect} of {len(mine)}"
    if usual is None:
        return time, end
    sooner = {True: "sooner", False: "later", None: "undecided"}[
        is_smaller(cpu_to_threshold(mine), cpu_to_threshold(usual))
    ]
    better = {True: "better", False: "worse", None: "undecided"}[is_smaller(final_values(mine), final_values(usual))]
    return f"{time}: {sooner}", f"{end}: {better}"


def _claim(
    part: str, found: Mapping[Game, tuple[Sequence[TrainingCurve], Sequence[TrainingCurve]]], decided: bool
) -> Claim:
    """Claim that a part is useful: with it play is near perfect sooner, on every board where both were tried."""
    told, sooner = [], []
    for game, (usual, without) in found.items():
        sooner.append(is_smaller(cpu_to_threshold(usual), cpu_to_threshold(without)))
        better = is_smaller(final_values(usual), final_values(without))
        told.append(
            f"{game_name(game)}: {format_cpu_seconds(cpu_to_threshold(usual))}, without "
            f"{format_cpu_seconds(cpu_to_threshold(without))} "
            f"({_word(sooner[-1])}); at the end {median_and_range(final_values(usual), 4)}, without "
            f"{median_and_range(final_values(without), 4)} "
            f"({_word(better)})"
        )
    words = f"with {part} play is below {NEAR} for good after less CPU"
    return Claim(words, holds_for_all(sooner) if decided and sooner else None, "; ".join(told) or "left out")


def _word(holds: bool | None) -> str:
    return "undecided" if holds is None else verdict(holds)


def _draw_figure(figure: Any, courses: Courses) -> None:
    """Draw a panel for each game: final exploitability over CPU seconds to near-perfect play, by variant."""
    names = [name for name in VARIANTS if any(name in of_game for of_game in courses.values())]
    figure.set_size_inches(4 * max(2, len(courses)), 1.2 + 0.3 * len(names))
    panels = figure.subplots(1, len(courses), sharey=True, squeeze=False)[0]
    for axes, (game, of_game) in zip(panels, courses.items(), strict=True):
        finite = [at for mine in of_game.values() for at in cpu_to_threshold(mine) if np.isfinite(at)]
        never = 2 * max(finite, default=1.0)
        axes.axvline(never, color=DRAW, lw=0.8, ls="--")
        for place, name in enumerate(names):
            at = np.minimum(never, cpu_to_threshold(of_game.get(name, ())))
            axes.plot(
                at, [place] * len(at), "o" if name == DEFAULT else "s", ms=5, alpha=0.6, color=SERIES[name != DEFAULT]
            )
            if len(at):
                axes.plot(np.median(at), place, "|", ms=14, mew=2, color=SERIES[name != DEFAULT])
        axes.set_xscale("log")
        axes.tick_params(axis="x", which="minor", labelbottom=False)
        axes.xaxis.set_major_formatter("{x:,g}")
        axes.set_xlabel(f"CPU s until below {NEAR} for good\n(dashed: never)")
        axes.set_title(game_name(game), fontsize="medium")
    panels[0].set_yticks(range(len(names)), names)
    panels[0].invert_yaxis()
