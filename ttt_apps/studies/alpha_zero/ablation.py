"""Ablation of alpha-zero: each part removed, or set otherwise, with all else at its default."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from learners.alpha_zero import AlphaZeroConfig
from ttt_apps.studies.alpha_zero.training_runs import (
    MEASURED_SHARES,
    NAME,
    NEAR,
    SEEDS,
    TrainingCurve,
    cpu_to_threshold,
    describe_runs,
    final_values,
    format_cpu_seconds,
    game_name,
    median_and_range,
    train_and_measure,
    training_unit,
)  # fmt: skip
from ttt_envs.game.game import Game
from ttt_eval.reports.plots import DRAW, SERIES, draw_symbol_legend
from ttt_eval.result_store import Unit
from ttt_eval.statistics import holds_for_all, is_smaller
from ttt_eval.study import Claim, Report, Row, verdict

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
GAMES: dict[Game, int] = {Game(): 8_192, Game(skip_chance=0.25): 8_192, Game(4, 4, 4): 8_192}
QUICK = (DEFAULT, "PUCT", "no chance nodes")


def units(quick: bool) -> list[Unit]:
    """Return all trainings, seeds in the outer loop."""
    return [
        {
            "part": PART,
            "variant": variant,
            **training_unit(NAME, game, 768 if quick else games, seed, **changed),
            "marks": MEASURED_SHARES[7::8] if quick else MEASURED_SHARES if game.cells == 9 else MEASURED_SHARES[3::4],
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
Curves = Mapping[Game, Mapping[str, Sequence[TrainingCurve]]]


def analyse(results: Sequence[tuple[Unit, Any]]) -> Report:
    """Report the final exploitability and time to near-perfect play of each variant, compared with the default's."""
    curves: dict[Game, dict[str, list[TrainingCurve]]] = {}
    for unit, result in results:
        by_variant = curves.setdefault(Game.from_dict(unit["game"]), {})
        by_variant.setdefault(unit["variant"], []).append(TrainingCurve.from_result(result))
    decided = len(results) == len(units(False))
    rows = []
    for game, by_variant in curves.items():
        for variant, mine in by_variant.items():
            columns = _describe_variant(mine, None if variant == DEFAULT else by_variant[DEFAULT])
            rows.append(Row(f"{game_name(game)}: {variant}", "", *columns))
    claims = []
    for part, variant in PARTS.items():
        pairs = {game: (mine[DEFAULT], mine[variant]) for game, mine in curves.items() if variant in mine}
        claims.append(_claim(part, pairs, decided))
    data = [{**unit, **result} for unit, result in results]
    return Report(rows, claims, {"alpha-zero-ablation": lambda figure: _draw_figure(figure, curves)}, data=data)


def _describe_variant(mine: Sequence[TrainingCurve], usual: Sequence[TrainingCurve] | None) -> tuple[str, str]:
    """Describe cost and strength, each compared with the default."""
    cost, strength = describe_runs(mine)
    if usual is None:
        return cost, strength
    sooner = is_smaller(cpu_to_threshold(mine), cpu_to_threshold(usual))
    better = is_smaller(final_values(mine), final_values(usual))
    words = {True: ("sooner", "better"), False: ("later", "worse"), None: ("undecided", "undecided")}
    return f"{cost}: {words[sooner][0]}", f"{strength}: {words[better][1]}"


Pair = tuple[Sequence[TrainingCurve], Sequence[TrainingCurve]]
"""Trainings with a part and without it."""


def _claim(part: str, pairs: Mapping[Game, Pair], decided: bool) -> Claim:
    """Claim that a part is useful: with it play is near perfect sooner, on every board where both were tried."""
    evidence, sooner = [], []
    for game, pair in pairs.items():
        times, times_without = map(cpu_to_threshold, pair)
        ends, ends_without = map(final_values, pair)
        sooner.append(is_smaller(times, times_without))
        verdicts = (verdict(holds) or "undecided" for holds in (sooner[-1], is_smaller(ends, ends_without)))
        evidence.append(
            f"{game_name(game)}: {format_cpu_seconds(times)}, without {format_cpu_seconds(times_without)} "
            f"({next(verdicts)}); at the end {median_and_range(ends, 4)}, without {median_and_range(ends_without, 4)} "
            f"({next(verdicts)})"
        )
    words = f"with {part} play is below {NEAR} for good after less CPU"
    return Claim(words, holds_for_all(sooner) if decided and sooner else None, "; ".join(evidence) or "left out")


def _draw_figure(figure: Any, curves: Curves) -> None:
    """Draw a panel for each game: final exploitability over CPU seconds to near-perfect play, by variant."""
    names = [name for name in VARIANTS if any(name in by_variant for by_variant in curves.values())]
    figure.set_size_inches(4 * max(2, len(curves)), 1.2 + 0.3 * len(names))
    panels = figure.subplots(1, len(curves), sharey=True, squeeze=False)[0]
    for axes, (game, by_variant) in zip(panels, curves.items(), strict=True):
        finite = [at for mine in by_variant.values() for at in cpu_to_threshold(mine) if np.isfinite(at)]
        never = 2 * max(finite, default=1.0)
        axes.axvline(never, color=DRAW, lw=0.8, ls="--")
        for place, name in enumerate(names):
            at = np.minimum(never, cpu_to_threshold(by_variant.get(name, ())))
            marker, colour = ("o", SERIES[0]) if name == DEFAULT else ("s", SERIES[1])
            axes.plot(at, [place] * len(at), marker, ms=5, alpha=0.6, color=colour)
            if len(at):
                axes.plot(np.median(at), place, "|", ms=14, mew=2, color=colour)
        axes.set_xscale("log")
        axes.tick_params(axis="x", which="minor", labelbottom=False)
        axes.xaxis.set_major_formatter("{x:,g}")
        axes.set_xlabel(f"CPU s until below {NEAR} for good")
        axes.set_title(game_name(game), fontsize="medium")
    panels[0].set_yticks(range(len(names)), names)
    panels[0].invert_yaxis()
    draw_symbol_legend(
        figure,
        {
            "a run by default": {"marker": "o", "ls": "", "color": SERIES[0]},
            "a run of a variant": {"marker": "s", "ls": "", "color": SERIES[1]},
            "median": {"marker": "|", "ls": "", "ms": 12, "mew": 2, "color": DRAW},
            "never": {"ls": "--", "color": DRAW},
        },
    )
