"""Exact exploitability of alpha-zero by games and by CPU seconds, beside q-learning and q-net."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ttt_apps.studies.alpha_zero.training_runs import (
    MEASURED_SHARES,
    NAME,
    NEAR,
    ROUNDING,
    SEEDS,
    TrainingCurve,
    describe_runs,
    final_values,
    format_cpu_seconds,
    game_name,
    median_and_range,
    train_and_measure,
    training_unit,
)  # fmt: skip
from ttt_envs.game.game import Game
from ttt_eval.reports.plots import DRAW, NEAR_ZERO, SERIES, draw_label_legend
from ttt_eval.result_store import Unit
from ttt_eval.statistics import interval_from_seeds, is_above, wilson
from ttt_eval.study import Claim, Report, Row, format_difference, format_interval

PART = "curves"
SIMULATIONS = 32
LEARNERS = (NAME, "q-learning", "q-net")
SEARCHED = f"{NAME}, {SIMULATIONS} simulations"
GAMES: dict[Game, dict[str, int]] = {
    **{Game(skip_chance=skip): {NAME: 8_192, "q-learning": 300_000, "q-net": 30_000} for skip in (0.0, 0.1, 0.25, 0.5)},
    Game(4, 4, 4): {NAME: 16_384, "q-learning": 300_000, "q-net": 60_000},
    Game(4, 4, 4, 0.25): {NAME: 32_768, "q-learning": 300_000, "q-net": 60_000},
}
"""Numbers of training games, so that all three learners take seconds on 3 x 3 and a minute or two on 4 x 4."""
MARKS: dict[Game, tuple[float, ...]] = {
    **{game: MEASURED_SHARES for game in GAMES if game.cells == 9},
    Game(4, 4, 4): MEASURED_SHARES[1::2],
    Game(4, 4, 4, 0.25): (1 / 16, 1 / 8, 1 / 4, 1 / 2, 3 / 4, 1.0),  # each takes ten seconds of CPU
}
"""Shares of the games after which the learners are measured."""
LARGE: dict[str, dict[str, Any]] = {"q-learning": {"memory": 8.0}, NAME: {"buffer_size": 150_000}}
"""Changed settings on 4 x 4 with skips: room for ten million positions, and a replay buffer for longer trainings."""
QUICK_GAMES = {NAME: 1_024, "q-learning": 20_000, "q-net": 1_024}


def units(quick: bool) -> list[Unit]:
    """Return all trainings, seeds in the outer loop."""
    return [
        {
            "part": PART,
            **training_unit(
                learner,
                game,
                QUICK_GAMES[learner] if quick else games,
                seed,
                **(LARGE.get(learner, {}) if game == Game(4, 4, 4, 0.25) else {}),
            ),
            "marks": MARKS[game][3::4] if quick else MARKS[game],
            "simulations": SIMULATIONS,
            "searched": _search_marks(game) if learner == NAME else (),
        }
        for seed in range(1 if quick else SEEDS)
        for game, of_learner in GAMES.items()
        for learner, games in of_learner.items()
        if not quick or (game.cells == 9 and game.skip_chance in (0.0, 0.25))
    ]


def _search_marks(game: Game) -> tuple[float, ...]:
    """Return the shares of the games after which the search is measured, too: on 4 x 4 with skips it takes too long."""
    if game.cells == 9:
        return MEASURED_SHARES[3::4]
    return () if game.skip_chance else (1.0,)


measure = train_and_measure
Curves = Mapping[tuple[Game, str], Sequence[TrainingCurve]]
"""Trainings of all seeds, by game and player."""


def collect_curves(results: Sequence[tuple[Unit, Any]]) -> dict[tuple[Game, str], list[TrainingCurve]]:
    """Return the learning curves of the net alone and of its search."""
    curves: dict[tuple[Game, str], list[TrainingCurve]] = {}
    for unit, result in results:
        game = Game.from_dict(unit["game"])
        curves.setdefault((game, unit["learner"]), []).append(TrainingCurve.from_result(result))
        if unit["learner"] == NAME and any(value is not None for value in result["searched"]):
            curves.setdefault((game, SEARCHED), []).append(TrainingCurve.from_result(result, "searched"))
    return curves


def analyse(results: Sequence[tuple[Unit, Any]]) -> Report:
    """Report the final exploitability, the time to near-perfect play, and whether the goals are reached."""
    curves = collect_curves(results)
    decided = len(results) == len(units(False))
    rows = []
    for (game, player), mine in curves.items():
        cost, strength = describe_runs(mine)
        games = f"{int(mine[0].games[-1]):,} games"
        rows.append(Row(f"{game_name(game)}: {player}", "", f"{games}, {cost}", strength))
    pictures = {
        "alpha-zero-cpu": lambda figure: _draw_figure(figure, curves, "cpu_s", "CPU seconds of training"),
        "alpha-zero-games": lambda figure: _draw_figure(figure, curves, "games", "games of training"),
    }
    data = [{**unit, **result} for unit, result in results]
    return Report(rows, [*_goals(curves, decided), *_comparison_claims(curves, decided)], pictures, data=data)


def _goals(curves: Curves, decided: bool) -> list[Claim]:
    """Return claims about its goals, which are statements on these runs; the evidence covers all seeds."""
    claims = []
    for words, game, player, bound, cpu_s in (
        ("plays perfectly from 5 CPU seconds on, alone", Game(), NAME, ROUNDING, 5.0),
        (f"is below {NEAR} at the end, alone", Game(skip_chance=0.25), NAME, NEAR, np.inf),
        ("plays perfectly at the end, with its search", Game(skip_chance=0.25), SEARCHED, ROUNDING, np.inf),
        ("plays perfectly from 60 CPU seconds on, alone", Game(4, 4, 4), NAME, ROUNDING, 60.0),
        ("is below 0.02 from 600 CPU seconds on, alone", Game(4, 4, 4, 0.25), NAME, 0.02, 600.0),
    ):
        mine = curves.get((game, player), ())
        since = [curve.reach(bound)[1] for curve in mine]
        reached = sum(bool(np.isfinite(at) and at <= cpu_s) for at in since)
        claims.append(
            Claim(
                f"{game_name(game)}: the net {words}, in {SEEDS} of {SEEDS} seeds",
                reached == SEEDS if decided else None,
                f"{reached} of {len(mine)} seeds, a share of {format_interval(wilson(reached / len(mine), len(mine)))} "
                f"of all seeds; for good {format_cpu_seconds(since)}; at the end "
                f"{median_and_range(final_values(mine), 4)}"
                if mine
                else "left out",
            )
        )
    return claims


def _comparison_claims(curves: Curves, decided: bool) -> list[Claim]:
    """Return claims that compare it with other learners at equal CPU time."""
    claims = []
    for game in dict.fromkeys(game for game, _ in curves):
        for other in LEARNERS[1:]:
            ours, theirs = curves[game, NAME], curves[game, other]
            limit = min(curve.cpu_s[-1] for curve in (*ours, *theirs))
            one, two = ([curve.at(limit) for curve in mine] for mine in (ours, theirs))
            less = interval_from_seeds([b - a for a, b in zip(one, two, strict=True)], bounds=(-1.0, 1.0))
            claims.append(
                Claim(
                    f"{game_name(game)}: alpha-zero's net is less exploitable than {other} after as much CPU",
                    is_above([less]) if decided else None,
                    f"after {limit:.1f} CPU s {median_and_range(one, 4)} and {median_and_range(two, 4)}; "
                    f"{other}'s less alpha-zero's {format_difference(less)}",
                )
            )
    return claims


def _draw_figure(figure: Any, curves: Curves, by: str, label: str) -> None:
    """Draw a panel for each game: every training a thin line, the medians at the marks a thick one."""
    games = list(dict.fromkeys(game for game, _ in curves))
    columns = min(3, len(games))
    lines = -(-len(games) // columns)
    figure.set_size_inches(4 * columns, 3.2 * lines + 0.4)
    panels = figure.subplots(lines, columns, sharey=True, squeeze=False).ravel()
    for axes, game in zip(panels, games, strict=False):
        for index, player in enumerate((*LEARNERS, SEARCHED)):
            mine = curves.get((game, player), ())
            for curve in mine:
                axes.plot(getattr(curve, by), curve.exploitability, color=SERIES[index], alpha=0.35, lw=0.9)
            if mine:
                x, y = (np.median([getattr(c, name) for c in mine], axis=0) for name in (by, "exploitability"))
                axes.plot(x, y, color=SERIES[index], marker="os^D"[index], ms=3.5, lw=1.8, label=player)
        axes.set_xscale("log")
        axes.tick_params(axis="x", which="minor", labelbottom=False)
        axes.xaxis.set_major_formatter("{x:,g}")
        axes.set_yscale("symlog", linthresh=NEAR_ZERO, linscale=0.5)
        axes.set_yticks([0, 0.001, 0.01, 0.1, 1], ["0", "0.001", "0.01", "0.1", "1"], minor=False)
        axes.set(xlabel=label, ylim=(-NEAR_ZERO / 20, 1.2))
        axes.set_title(game_name(game), fontsize="medium")
    for axes in panels[::columns]:
        axes.set_ylabel("exploitability, exact")
    for axes in panels[len(games) :]:
        axes.remove()
    panels[0].plot([], [], color=DRAW, alpha=0.35, lw=0.9, label="single runs")
    draw_label_legend(figure, panels[0], 5)
