"""Ablation of alpha-zero: each part removed, or set otherwise, with all else at its default."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from evaluation.drawing import DRAW, SERIES
from evaluation.result_store import Unit
from evaluation.statistics import all_of, smaller
from evaluation.study import Claim, Findings, Row, verdict
from learners.alpha_zero import AlphaZeroConfig
from ttt_apps.studies.alpha_zero.training_runs import (
    NAME,
    NEAR,
    ROUNDING,
    SEEDS,
    Course,
    after,
    board,
    measured,
    spread,
    taught,
)
from ttt_envs.rules import Game

PART = "worth"
DEFAULT = "as by default"
VARIANTS: dict[str, dict[str, Any]] = {
    DEFAULT: {},
    "PUCT": {"search": "puct"},
    "cells alone": {"lines": False},
    "no symmetries": {"symmetries": "none"},
    "no random moves": {"opening": 0, "epsilon": 0.0},
    "no chance nodes": {"chance_nodes": False},
    **{f"trace {trace:g}": {"trace": trace} for trace in (0.0, 0.5, 1.0)},
    **{f"{simulations} simulations": {"simulations": simulations} for simulations in (8, 16, 32, 64)},
}
"""Changed settings of each variant."""
PARTS = {
    "the Gumbel search": "PUCT",
    "lines that the net sees": "cells alone",
    "symmetries": "no symmetries",
    "random moves": "no random moves",
    "chance nodes": "no chance nodes",
    "values traced back through a game": "trace 0",
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
            **taught(NAME, game, 768 if quick else games, seed, **changed),
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


measure = measured
Courses = Mapping[Game, Mapping[str, Sequence[Course]]]


def conclude(results: Sequence[tuple[Unit, Any]]) -> Findings:
    """Report the final exploitability and time to near-perfect play of each variant, compared with the default's."""
    courses: dict[Game, dict[str, list[Course]]] = {}
    for unit, result in results:
        of_game = courses.setdefault(Game.from_dict(unit["game"]), {})
        of_game.setdefault(unit["variant"], []).append(Course.of(result))
    decided = len(results) == len(units(False))
    rows = [
        Row(f"{board(game)}: {variant}", "", *_told(mine, None if variant == DEFAULT else of_game[DEFAULT]))
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
    return Findings(rows, claims, {"alpha-zero-worth": lambda figure: _drawn(figure, courses)}, data=data)


def ends(courses: Sequence[Course]) -> list[float]:
    """Return the exploitabilities at the end."""
    return [course.end for course in courses]


def soon(courses: Sequence[Course]) -> list[float]:
    """Return the CPU seconds after which exploitability stays below ``NEAR``; inf for never."""
    return [course.to(NEAR)[1] for course in courses]


def _told(mine: Sequence[Course], usual: Sequence[Course] | None) -> tuple[str, str]:
    """Describe cost and strength, each compared with the default."""
    perfect = sum(course.end <= ROUNDING for course in mine)
    time = f"{spread([course.cpu_s[-1] for course in mine], 1)} CPU s; below {NEAR} for good {after(soon(mine))}"
    end = f"exploitability {spread(ends(mine), 4)}; 0 in {perfect} of {len(mine)}"
    if usual is None:
        return time, end
    sooner = {True: "sooner", False: "later", None: "undecided"}[smaller(soon(mine), soon(usual))]
    better = {True: "better", False: "worse", None: "undecided"}[smaller(ends(mine), ends(usual))]
    return f"{time}: {sooner}", f"{end}: {better}"


def _claim(part: str, found: Mapping[Game, tuple[Sequence[Course], Sequence[Course]]], decided: bool) -> Claim:
    """Claim that a part is useful: with it play is near perfect sooner, on every board where both were tried."""
    told, sooner = [], []
    for game, (usual, without) in found.items():
        sooner.append(smaller(soon(usual), soon(without)))
        better = smaller(ends(usual), ends(without))
        told.append(
            f"{board(game)}: {after(soon(usual))}, without {after(soon(without))} "
            f"({_word(sooner[-1])}); at the end {spread(ends(usual), 4)}, without {spread(ends(without), 4)} "
            f"({_word(better)})"
        )
    words = f"with {part} play is below {NEAR} for good after less CPU"
    return Claim(words, all_of(sooner) if decided and sooner else None, "; ".join(told) or "left out")


def _word(holds: bool | None) -> str:
    return "undecided" if holds is None else verdict(holds)


def _drawn(figure: Any, courses: Courses) -> None:
    """Draw a panel for each game: final exploitability over CPU seconds to near-perfect play, by variant."""
    names = [name for name in VARIANTS if any(name in of_game for of_game in courses.values())]
    figure.set_size_inches(4 * max(2, len(courses)), 1.2 + 0.3 * len(names))
    panels = figure.subplots(1, len(courses), sharey=True, squeeze=False)[0]
    for axes, (game, of_game) in zip(panels, courses.items(), strict=True):
        finite = [at for mine in of_game.values() for at in soon(mine) if np.isfinite(at)]
        never = 2 * max(finite, default=1.0)
        axes.axvline(never, color=DRAW, lw=0.8, ls="--")
        for place, name in enumerate(names):
            at = np.minimum(never, soon(of_game.get(name, ())))
            axes.plot(
                at, [place] * len(at), "o" if name == DEFAULT else "s", ms=5, alpha=0.6, color=SERIES[name != DEFAULT]
            )
            if len(at):
                axes.plot(np.median(at), place, "|", ms=14, mew=2, color=SERIES[name != DEFAULT])
        axes.set_xscale("log")
        axes.tick_params(axis="x", which="minor", labelbottom=False)
        axes.xaxis.set_major_formatter("{x:,g}")
        axes.set_xlabel(f"CPU s until below {NEAR} for good\n(dashed: never)")
        axes.set_title(board(game), fontsize="medium")
    panels[0].set_yticks(range(len(names)), names)
    panels[0].invert_yaxis()
