"""AlphaZero with chance nodes: learning curves, an ablation, and boards with proved positions only."""

from __future__ import annotations

import dataclasses
import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from learners.alpha_zero import AlphaZeroConfig
from learners.base import Checkpointable
from learners.checkpoint import CONFIG, build_config, new_config, save_checkpoint
from learners.training import TrainingLoop
from studies.frame import Claim, Figure, Panel, Report, Results, Row, Series, Study
from studies.trees import board_name, mean_result
from ttt_apps.runs import WARM_UP_GAMES
from ttt_apps.train_options import default_options
from ttt_envs.core.files import write_json
from ttt_envs.envs.config import SELF
from ttt_envs.game.boards import from_text
from ttt_envs.game.game import Game
from ttt_eval.exact.dynamic_programming import exploitability
from ttt_eval.exact.proved_positions import Positions, ProvedPosition, keep_probabilities, read_proved, summarize
from ttt_eval.matches.games import PlayedGame
from ttt_eval.matches.match import play_pairs
from ttt_eval.matches.move_cost import measure_move_costs
from ttt_eval.result_store import Unit
from ttt_eval.statistics import (
    Interval,
    holds_for_all,
    interval_from_pairs,
    interval_from_seeds,
    is_above,
    is_certain,
    is_smaller,
    wilson,
)

NAME = "alpha-zero"
SEEDS = 5
SHARES = tuple((mark + 1) / 32 for mark in range(32))
"""Shares of the games after which a learner is measured."""
NEAR = 0.01
"""Exploitability below which play is called near perfect."""
ROUNDING = 1e-9
"""Maximum exploitability of play called perfect."""

# ---------------------------------------------------------------------------------------------------------------------
# Self-play trainings in this process, step by step, with their cost and strength over time


def training_unit(learner: str, game: Game, games: int, seed: int, **changes: Any) -> dict[str, Any]:
    """Return a unit of work: a learner, its self-play settings with changes, and a game.

    It contains all settings, so that stored results are never taken for those of other settings.
    """
    settings = dataclasses.asdict(dataclasses.replace(default_options(learner, SELF)[1], **changes))
    return {"learner": learner, "settings": settings, "game": game.to_dict(), "games": games, "seed": seed}


def make_training(unit: Unit) -> TrainingLoop:
    """Return the training at its start, with compiled code.

    Raises:
        ValueError: a learner with a loop that cannot be stopped between steps.
    """
    _warm(json.dumps([unit["learner"], unit["settings"], unit["game"]]))
    return _start_training(unit["learner"], unit["settings"], Game.from_dict(unit["game"]), unit["games"], unit["seed"])


@cache
def _warm(description: str) -> None:
    """Compile a learner's code, so that it does not count as training time."""
    learner, settings, game = json.loads(description)
    _start_training(learner, settings, Game.from_dict(game), WARM_UP_GAMES, 0).run()


def _start_training(name: str, settings: Mapping[str, Any], game: Game, games: int, seed: int) -> TrainingLoop:
    config = build_config(name, settings)
    return config.training(game, games, batch=config.batch, seed=seed)


@contextmanager
def temporary_run(unit: Unit, learner: Checkpointable) -> Iterator[Path]:
    """Yield a temporary folder with a run of a learner, for spec strings."""
    with TemporaryDirectory() as folder:
        run = Path(folder)
        rest = {name: unit[name] for name in ("learner", "games", "seed")}
        config = new_config(Game.from_dict(unit["game"]), unit["settings"], **rest, opponent=SELF)
        write_json(run / CONFIG, config)
        save_checkpoint(run, learner=learner.state)
        yield run


class TrainingCurve(NamedTuple):
    """Learning curve of one training, by mark."""

    games: np.ndarray[Any, Any]
    cpu_s: np.ndarray[Any, Any]
    exploitability: np.ndarray[Any, Any]

    @classmethod
    def from_result(cls, result: Mapping[str, Any], measure: str = "exploitability") -> TrainingCurve:
        """Build the curve from the result of a :class:`TrainingStudy`, at the marks with a measurement."""
        rows = [row for row, value in enumerate(result[measure]) if value is not None]
        return cls(*(np.array(result[name], np.float64)[rows] for name in ("games", "cpu_s", measure)))

    @property
    def end(self) -> float:
        """Exploitability at the last mark."""
        return float(self.exploitability[-1])

    def reach(self, bound: float) -> tuple[float, float]:
        """Return games and CPU seconds after which it never exceeds ``bound`` again; inf if there are none."""
        beyond = np.flatnonzero(self.exploitability > bound)
        first = int(beyond[-1]) + 1 if len(beyond) else 0
        if first == len(self.games):
            return np.inf, np.inf
        return float(self.games[first]), float(self.cpu_s[first])

    def at(self, cpu_s: float) -> float:
        """Return the exploitability at the last mark within a CPU time; 1, the worst possible, if there is none."""
        within = self.exploitability[self.cpu_s <= cpu_s]
        return float(within[-1]) if len(within) else 1.0


def game_name(game: Game) -> str:
    """Describe a game briefly."""
    goal = "" if game.rows == game.columns == game.win_length else f" ({game.win_length})"
    return f"{game.rows} x {game.columns}{goal}, skip {game.skip_chance:g}"


def median_and_range(values: Sequence[float]) -> Interval:
    """Return the median and the range over runs."""
    return Interval(float(np.median(values)), min(values), max(values))


def final_values(curves: Sequence[TrainingCurve]) -> list[float]:
    """Return the exploitabilities at the end."""
    return [curve.end for curve in curves]


def cpu_to_threshold(curves: Sequence[TrainingCurve], bound: float = NEAR) -> list[float]:
    """Return the CPU seconds after which exploitability stays below a bound; inf for never."""
    return [curve.reach(bound)[1] for curve in curves]


def cpu_numbers(seconds: Sequence[float]) -> dict[str, Any]:
    """Return the CPU time until a goal was reached for good, in runs that may not reach it."""
    finite = [second for second in seconds if np.isfinite(second)]
    runs = {"runs": f"{len(finite)} of {len(seconds)}"}
    return {**runs, "after CPU s": median_and_range(finite)} if finite else runs


def run_numbers(curves: Sequence[TrainingCurve]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return cost and strength of the runs of one learner."""
    cpu_s, perfect = [float(curve.cpu_s[-1]) for curve in curves], sum(curve.end <= ROUNDING for curve in curves)
    cost = {
        "games": int(curves[0].games[-1]),
        "CPU s": median_and_range(cpu_s),
        f"below {NEAR} for good": cpu_numbers(cpu_to_threshold(curves)),
    }
    return cost, {"exploitability": median_and_range(final_values(curves)), "0 in": f"{perfect} of {len(curves)}"}


class TrainingStudy(Study):
    """All learners train by self-play with their default settings, five seeds. On 4 x 4 with skips q-learning has
    room for a larger table, and the replay buffer of alpha-zero holds 150,000 positions. CPU seconds are those
    of the training steps, user and system, in one process, without imports, compilation and measurements.
    Exploitability is exact. For good means at a mark and at every later one; if its time is that of the whole
    training, it is the last mark alone. Numbers of several runs are the median (and the range). Goals are
    statements on the seeds trained. Runs are called sooner, later, better or worse than others if the exact
    rank test says so at 5%, else undecided.
    """

    def measure(self, unit: Unit) -> dict[str, Any]:
        """Train, with exact measurements at the marks of a unit.

        Args:
            unit: of :func:`training_unit`, with ``marks``, shares of all games after which the learner is measured;
                and ``searched``, shares after which it is also measured with a search of ``simulations``.

        Returns:
            By mark ``games``, ``cpu_s``, ``exploitability`` and ``searched``, which is None if not requested. CPU
            seconds are those of the steps, user and system: without imports, compilation, and measurements.
        """
        game, training = Game.from_dict(unit["game"]), make_training(unit)
        curve: dict[str, Any] = {"games": [], "cpu_s": [], "exploitability": [], "searched": []}
        cpu_s = 0.0
        waiting, searched = ([round(mark * unit["games"]) for mark in unit[name]] for name in ("marks", "searched"))
        while training.running:
            start = time.process_time()
            training.step()
            cpu_s += time.process_time() - start
            games = training.done.games
            due = {mark for mark in waiting if mark <= games}
            if not due:
                continue
            waiting = [mark for mark in waiting if mark > games]
            with_search = None
            if due & set(searched):
                with temporary_run(unit, training.learner) as run:
                    with_search = exploitability(game, f"{NAME}:path=({run}),simulations={unit['simulations']}")
            measured = (games, cpu_s, exploitability(game, training.learner), with_search)
            for values, value in zip(curve.values(), measured, strict=True):
                values.append(value)
        return curve


# ---------------------------------------------------------------------------------------------------------------------
# Exploitability by games and CPU seconds, beside q-learning and q-net

LEARNERS = (NAME, "q-learning", "q-net")
SIMULATIONS = 32
SEARCHED = f"{NAME}, {SIMULATIONS} simulations"
HARD = Game(4, 4, 4, 0.25)
GAMES: dict[Game, dict[str, int]] = {
    **{Game(skip_chance=skip): {NAME: 8_192, "q-learning": 300_000, "q-net": 30_000} for skip in (0.0, 0.1, 0.25, 0.5)},
    Game(4, 4, 4): {NAME: 16_384, "q-learning": 300_000, "q-net": 60_000},
    HARD: {NAME: 32_768, "q-learning": 300_000, "q-net": 60_000},
}
"""Numbers of training games, so that all three learners take seconds on 3 x 3 and a minute or two on 4 x 4."""
MARKS: dict[Game, tuple[float, ...]] = {
    Game(4, 4, 4): SHARES[1::2],
    HARD: (1 / 16, 1 / 8, 1 / 4, 1 / 2, 3 / 4, 1.0),  # each takes ten seconds of CPU
}
"""Shares of the games after which the learners are measured, where not after all."""
SEARCH_MARKS: dict[Game, tuple[float, ...]] = {Game(4, 4, 4): (1.0,), HARD: ()}
"""Shares after which the search is measured, too, where not after a quarter of all: with skips it takes too long."""
LARGE: dict[str, dict[str, Any]] = {"q-learning": {"memory": 8.0}, NAME: {"buffer_size": 150_000}}
"""Changed settings on 4 x 4 with skips: room for ten million positions, and a replay buffer for longer trainings."""
QUICK_GAMES = {NAME: 1_024, "q-learning": 20_000, "q-net": 1_024}
GOALS = (
    ("plays perfectly from 5 CPU seconds on, alone", Game(), NAME, ROUNDING, 5.0),
    (f"is below {NEAR} at the end, alone", Game(skip_chance=0.25), NAME, NEAR, np.inf),
    ("plays perfectly at the end, with its search", Game(skip_chance=0.25), SEARCHED, ROUNDING, np.inf),
    ("plays perfectly from 60 CPU seconds on, alone", Game(4, 4, 4), NAME, ROUNDING, 60.0),
    ("is below 0.02 from 600 CPU seconds on, alone", HARD, NAME, 0.02, 600.0),
)
"""Goals: words, game, player, exploitability, CPU seconds after which it holds."""
Curves = Mapping[tuple[Game, str], Sequence[TrainingCurve]]
"""Trainings of all seeds, by game and player."""


class Learning(TrainingStudy):
    """The net plays alone, and with its search of 32 simulations."""

    title = "AlphaZero with chance nodes: learning curves"
    left_out = "most seeds and games, and 4 x 4"

    def units(self, quick: bool) -> list[Unit]:
        """Return all trainings, seeds in the outer loop."""
        return [
            {
                **training_unit(
                    learner,
                    game,
                    QUICK_GAMES[learner] if quick else games,
                    seed,
                    **(LARGE.get(learner, {}) if game == HARD else {}),
                ),
                "marks": SHARES[3::4] if quick else MARKS.get(game, SHARES),
                "simulations": SIMULATIONS,
                "searched": SEARCH_MARKS.get(game, SHARES[3::4]) if learner == NAME else (),
            }
            for seed in range(1 if quick else SEEDS)
            for game, of_learner in GAMES.items()
            for learner, games in of_learner.items()
            if not quick or (game.cells == 9 and game.skip_chance in (0.0, 0.25))
        ]

    def analyse(self, results: Results) -> Report:
        """Report the final exploitability, the time to near-perfect play, and whether the goals are reached."""
        curves: dict[tuple[Game, str], list[TrainingCurve]] = {}
        for unit, result in results:
            game = Game.from_dict(unit["game"])
            curves.setdefault((game, unit["learner"]), []).append(TrainingCurve.from_result(result))
            if any(value is not None for value in result["searched"]):
                curves.setdefault((game, SEARCHED), []).append(TrainingCurve.from_result(result, "searched"))
        decided = len(results) == len(self.units(False))
        rows = [Row(f"{game_name(game)}: {player}", None, *run_numbers(own)) for (game, player), own in curves.items()]
        claims = [*_goals(curves, decided), *_comparisons(curves, decided)]
        own = {f"{player}, {game_name(game)}": runs for (game, player), runs in curves.items() if player in LEARNERS}
        times = {name: cpu_numbers(cpu_to_threshold(runs)) for name, runs in own.items()}
        perfect = {name: f"{sum(run.end <= ROUNDING for run in runs)} of {len(runs)}" for name, runs in own.items()}
        symbols = "Thin lines are seeds, thick lines with marks their medians."
        question = "until AlphaZero plays perfectly, and the others?"
        figures = {
            "alpha-zero-cpu": Figure(
                f"How much CPU time {question}", symbols, _curve_panels(curves, "cpu_s", "CPU s of training"), times, 3
            ),
            "alpha-zero-games": Figure(
                f"How many games {question}", symbols, _curve_panels(curves, "games", "games of training"), perfect, 3
            ),
        }
        return Report(rows, claims, figures, "measured")


def _goals(curves: Curves, decided: bool) -> list[Claim]:
    """Return claims about its goals, which are statements on these runs; the evidence covers all seeds."""
    claims = []
    for words, game, player, bound, cpu_s in GOALS:
        own = curves.get((game, player), ())
        since = cpu_to_threshold(own, bound)
        reached = sum(bool(np.isfinite(second) and second <= cpu_s) for second in since)
        numbers = {
            "reached in a share of": wilson(reached / len(own), len(own)),
            "for good": cpu_numbers(since),
            "at the end": median_and_range(final_values(own)),
        } if own else {"left out": ""}  # fmt: skip
        holds = reached == SEEDS if decided else None
        claims.append(Claim(f"{game_name(game)}: the net {words}, in {SEEDS} of {SEEDS} seeds", holds, numbers))
    return claims


def _comparisons(curves: Curves, decided: bool) -> list[Claim]:
    """Return claims that compare it with other learners at equal CPU time."""
    claims = []
    for game in dict.fromkeys(game for game, _ in curves):
        for other in LEARNERS[1:]:
            pair = {name: curves[game, name] for name in (NAME, other)}
            limit = min(float(curve.cpu_s[-1]) for own in pair.values() for curve in own)
            values = {name: [curve.at(limit) for curve in own] for name, own in pair.items()}
            less = [b - a for a, b in zip(values[NAME], values[other], strict=True)]
            lead = interval_from_seeds(less, bounds=(-1.0, 1.0))
            medians = {name: median_and_range(own) for name, own in values.items()}
            words = f"{game_name(game)}: alpha-zero's net is less exploitable than {other} after as much CPU"
            numbers = {"after CPU s": limit, **medians, f"{other}'s less {NAME}'s": lead}
            claims.append(Claim(words, is_above([lead]) if decided else None, numbers))
    return claims


def _curve_panels(curves: Curves, by: str, label: str) -> list[Panel]:
    """Return a panel for each game: every training a thin line, the medians at the marks a thick one."""
    panels = []
    for game in dict.fromkeys(game for game, _ in curves):
        series = []
        for index, player in enumerate((*LEARNERS, SEARCHED)):
            own = curves.get((game, player), ())
            series += [Series("", getattr(curve, by), curve.exploitability, "-", index, 0.9) for curve in own]
            if own:
                x, y = (np.median([getattr(curve, name) for curve in own], axis=0) for name in (by, "exploitability"))
                series.append(Series(player, x, y, f"{'os^D'[index]}-", index, 1.8))
        panels.append(Panel(series, label, "exploitability, exact", game_name(game), scales=("log", "symlog")))
    return panels


# ---------------------------------------------------------------------------------------------------------------------
# Ablation: each part removed, or set otherwise, with all else at its default

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
ABLATION_GAMES = {Game(): 8_192, Game(skip_chance=0.25): 8_192, Game(4, 4, 4): 8_192}
QUICK_VARIANTS = (DEFAULT, "PUCT", "no chance nodes")


class Ablation(TrainingStudy):
    """Each part of alpha-zero is removed, or set otherwise."""

    title = "AlphaZero with chance nodes: ablation"
    left_out = "most seeds, games and variants, and 4 x 4"

    def units(self, quick: bool) -> list[Unit]:
        """Return all trainings, seeds in the outer loop."""
        return [
            {
                "variant": variant,
                **training_unit(NAME, game, 768 if quick else games, seed, **changes),
                "marks": SHARES[7::8] if quick else SHARES if game.cells == 9 else SHARES[3::4],
                "searched": (),
            }
            for seed in range(2 if quick else SEEDS)
            for game, games in ABLATION_GAMES.items()
            for variant, changes in VARIANTS.items()
            if variant == DEFAULT or any(getattr(AlphaZeroConfig(), name) != value for name, value in changes.items())
            if game.skip_chance > 0 or variant != "no chance nodes"
            if game.cells == 9 or variant in (DEFAULT, *PARTS.values())  # 4 x 4 takes longest: variants of the claims
            if not quick or (variant in QUICK_VARIANTS and game == Game(skip_chance=0.25))
        ]

    def analyse(self, results: Results) -> Report:
        """Report the final exploitability and time to near-perfect play of each variant, beside the default."""
        curves: dict[Game, dict[str, list[TrainingCurve]]] = {}
        for unit, result in results:
            by_variant = curves.setdefault(Game.from_dict(unit["game"]), {})
            by_variant.setdefault(unit["variant"], []).append(TrainingCurve.from_result(result))
        decided = len(results) == len(self.units(False))
        rows, claims, sooner = [], [], {}
        for game, by_variant in curves.items():
            for variant, own in by_variant.items():
                cost, strength = run_numbers(own)
                if variant != DEFAULT:
                    cost["sooner"], strength["better"] = _is_ahead(own, by_variant[DEFAULT])
                rows.append(Row(f"{game_name(game)}: {variant}", None, cost, strength))
        for part, variant in PARTS.items():
            numbers, verdicts = dict[str, Any](), dict[str, bool | None]()
            for game, by_variant in curves.items():
                if variant in by_variant:
                    own, without = by_variant[DEFAULT], by_variant[variant]
                    verdicts[game_name(game)], better = _is_ahead(own, without)
                    numbers[game_name(game)] = {
                        "with": cpu_numbers(cpu_to_threshold(own)).get("after CPU s", "never"),
                        "without": cpu_numbers(cpu_to_threshold(without)).get("after CPU s", "never"),
                        "sooner": verdicts[game_name(game)],
                        "at the end": median_and_range(final_values(own)),
                        "without it": median_and_range(final_values(without)),
                        "better": better,
                    }
            words = f"with {part} play is below {NEAR} for good after less CPU"
            holds = holds_for_all(verdicts.values()) if decided and verdicts else None
            claims.append(Claim(words, holds, numbers or {"left out": ""}))
            sooner[part] = [name for name, verdict in verdicts.items() if verdict] or "not shown"
        figure = Figure(
            "Which parts of AlphaZero make it learn fast?",
            "Bars are medians, with the range of the runs that get there; other runs never do.",
            [_ablation_panel(game, by_variant) for game, by_variant in curves.items()],
            {f"runs are sooner below {NEAR} for good with": sooner},
        )
        return Report(rows, claims, {"alpha-zero-ablation": figure}, "measured")


def _is_ahead(own: Sequence[TrainingCurve], others: Sequence[TrainingCurve]) -> tuple[bool | None, bool | None]:
    """Return whether runs are sooner near perfect than others, and whether they are better at the end."""
    sooner, better = (is_smaller(value(own), value(others)) for value in (cpu_to_threshold, final_values))
    return sooner, better


def _ablation_panel(game: Game, by_variant: Mapping[str, Sequence[TrainingCurve]]) -> Panel:
    """Return the CPU seconds to near-perfect play by variant."""
    names = [name for name in VARIANTS if name in by_variant]
    reached = {
        place: [second for second in cpu_to_threshold(by_variant[name]) if np.isfinite(second)]
        for place, name in enumerate(names)
    }
    times = {place: median_and_range(seconds) for place, seconds in reached.items() if seconds}
    label = f"CPU s, below {NEAR} for good"
    return Panel([Series("", times, times.values(), "o")], label, "", game_name(game), places=names, limits=(0, None))


# ---------------------------------------------------------------------------------------------------------------------
# Boards with proved positions only: the rate of kept results, beside searches with equal time

BOARDS = (Game(5, 5, 4), Game(6, 6, 5), Game(7, 7, 5))
"""Boards that are draws with perfect play: docs/baselines/proof.md."""
SECONDS, POSITIONS, PAIRS = 300.0, 100, 25
"""CPU seconds of training; number of proved positions, with a pair of games each; and of pairs from the empty board."""
MAX_GAMES = 10_000_000
"""Number of games that no training reaches."""
DEPTHS = range(3, 11)
"""Depths of expectiminimax in plies."""
PROBE_SIMULATIONS = (200, 1_000)
"""Simulations of mcts whose costs give the first estimate of the number for a time."""
MAX_RAISES = 4
"""Maximum number of times that this number is raised if its time is too short."""


class LargeBoards(Study):
    """On each board a network trains by self-play for five CPU minutes. mcts has the number of simulations, and
    expectiminimax the smallest depth, that take no less CPU per move than alpha-zero, for one position at a time. A
    player keeps the result of a proved position if its move, or the end of its game, is no worse than the proved
    result. Intervals are 95%.
    """

    title = "AlphaZero on boards with proved positions"
    left_out = "most of the training and of the positions, 6 x 6 and 7 x 7"

    def units(self, quick: bool) -> list[Unit]:
        """Return a training and its matches on each board."""
        seconds, positions, pairs = (3.0, 8, 2) if quick else (SECONDS, POSITIONS, PAIRS)
        return [
            {
                **training_unit(NAME, game, MAX_GAMES, 0),
                "seconds": seconds,
                "simulations": (32,) if quick else (32, 128),
                "positions": positions,
                "asked": 50 if quick else 1_000,
                "pairs": pairs,
            }
            for game in BOARDS[: 1 if quick else None]
        ]

    def measure(self, unit: Unit) -> dict[str, Any]:
        """Train for a CPU time, play searches with equal time per move, and evaluate proved positions."""
        game, training = Game.from_dict(unit["game"]), make_training(unit)
        start = time.process_time()
        while time.process_time() - start < unit["seconds"]:
            training.step()
        measured: dict[str, Any] = {"games": training.done.games, "cpu_s": time.process_time() - start, "players": []}
        positions = read_proved(game.slug)
        chosen = _select(positions, unit["asked"])
        with temporary_run(unit, training.learner) as run:
            measured["alone"] = _keep_rate(game, f"run:({run})", chosen)
            for simulations in unit["simulations"]:
                player = f"{NAME}:path=({run}),simulations={simulations},symmetrize=false"  # the fastest setting
                [cost] = measure_move_costs(game, player)
                others = [
                    {
                        "name": other,
                        "cpu_s": cpu_s,
                        "keep_rate": _keep_rate(game, other, chosen),
                        "empty": play_pairs(game, player, other, unit["pairs"], seed=unit["seed"]).table.tolist(),
                        **_play_from_proved(game, player, other, _select(positions, unit["positions"]), unit["seed"]),
                    }
                    for match in (_matching_mcts, _matching_expectiminimax)
                    for other, cpu_s in [match(game, cost.cpu_s_per_move)]
                ]
                rate = _keep_rate(game, player, chosen)
                own = {"simulations": simulations, "cpu_s": cost.cpu_s_per_move, "keep_rate": rate}
                measured["players"].append({**own, "others": others})
        return measured

    def analyse(self, results: Results) -> Report:
        """Report every player on every board, and claims that it keeps more results than equally slow searches."""
        decided = len(results) == len(BOARDS) and all(unit["seconds"] >= SECONDS for unit, _ in results)
        rows, claims, kept, shares = list[Row](), list[Claim](), dict[str, Interval](), dict[str, Interval]()

        def add(name: str, numbers: dict[str, Any], rate: Sequence[float], players: dict[str, Interval]) -> None:
            players[name] = Interval(*rate)
            rows.append(Row(name, None, numbers, {"keeps the result in a share of": players[name]}))

        for unit, result in results:
            board = board_name(Game.from_dict(unit["game"]))
            training = {"games of training": result["games"], "CPU s": result["cpu_s"]}
            add(f"{board}: the net alone", training, result["alone"], kept)
            for player in result["players"]:
                name = f"{board}: {NAME}, {player['simulations']} simulations"
                add(name, {"ms CPU a move": 1000 * player["cpu_s"]}, player["keep_rate"], kept)
                for other in player["others"]:
                    lost, games = [seat[2] for seat in other["empty"]], sum(map(sum, other["empty"]))
                    numbers = {
                        "ms CPU a move": 1000 * other["cpu_s"],
                        f"{NAME} loses from the empty board": f"{sum(lost)} of {games}",
                        f"results kept in games from proved positions, by {NAME}": _share_of_games(other["held"]),
                        "by the other": _share_of_games(other["theirs"]),
                    }
                    label = f"{board}: {other['name']}, for {NAME}, {player['simulations']} simulations"
                    add(label, numbers, other["keep_rate"], shares)
                    lead = mean_result(other["ahead"], (-1, -0.5, 0, 0.5, 1))
                    claims += [
                        Claim(
                            f"{name}, never loses the drawn game to {other['name']}",
                            is_certain(games - sum(lost), games) if decided else None,
                            {"lost first and second": lost, "rate": wilson(sum(lost) / games, games), "games": games},
                        ),
                        Claim(
                            f"{name}, keeps the proved result in more games than {other['name']} does against it",
                            is_above([lead]) if decided else None,
                            {"share of games, its own less the other's": lead, "pairs": sum(other["ahead"])},
                        ),
                    ]
        names = [row.what for row in rows]
        series = [
            Series(label, [names.index(name) for name in players], players.values(), form, index)
            for index, (label, players, form) in enumerate(
                ((NAME, kept, "D"), ("searches that take as long", shares, "o"))
            )
        ]
        panel = Panel(series, "share of proved positions in which the result is kept", places=names)
        question = "How often does AlphaZero keep a proved result on larger boards?"
        figure = Figure(question, "Bars are 95% intervals.", [panel], {name: rate.mean for name, rate in kept.items()})
        return Report(rows, claims, {"alpha-zero-proved": figure}, "measured")


def _select(positions: Positions, count: int) -> Positions:
    """Select ``count`` positions, evenly spaced."""
    every = max(1, len(positions.proven) // count)
    return Positions(positions.game, positions.proven[::every][:count], positions.data)


def _keep_rate(game: Game, player: str, positions: Positions) -> list[float]:
    """Return the share of proved positions in which a player keeps the result, and its interval."""
    return list(summarize(positions, keep_probabilities(game, player, positions))["all"]["all"].share)


def _matching_mcts(game: Game, cpu_s: float) -> tuple[str, float]:
    """Return the search with random rollouts that takes this time per move, and its time."""
    few, many = (
        cost.cpu_s_per_move for cost in measure_move_costs(game, *(f"mcts:simulations={n}" for n in PROBE_SIMULATIONS))
    )
    more = (cpu_s - many) / max(1e-9, many - few) * (PROBE_SIMULATIONS[1] - PROBE_SIMULATIONS[0])
    simulations = max(10, round(PROBE_SIMULATIONS[1] + more))
    for _ in range(MAX_RAISES):
        name = f"mcts:simulations={simulations}"
        [cost] = measure_move_costs(game, name)
        if cost.cpu_s_per_move >= cpu_s:
            break
        simulations = math.ceil(1.05 * simulations * cpu_s / cost.cpu_s_per_move)
    return name, cost.cpu_s_per_move


def _matching_expectiminimax(game: Game, cpu_s: float) -> tuple[str, float]:
    """Return the shallowest search that takes at least this time per move, and its time."""
    for depth in DEPTHS:
        name = f"expectiminimax:depth={depth}"
        [cost] = measure_move_costs(game, name)
        if cost.cpu_s_per_move >= cpu_s:
            break
    return name, cost.cpu_s_per_move


def _play_from_proved(game: Game, player: str, other: str, positions: Positions, seed: int) -> dict[str, list[int]]:
    """Play pairs of games from proved positions, each player once on either side.

    Returns:
        ``held``: pairs by the number of their games, 0, 1 or 2, that end no worse for the player than is proved,
            ``theirs`` the same of the other; ``ahead``: pairs by the difference of these numbers, -2 to 2.
    """
    played: list[PlayedGame] = []
    with TemporaryDirectory() as folder:
        file = Path(folder, "positions.txt")
        file.write_text("".join(f"{position.text}\n" for position in positions.proven), "utf-8")
        play_pairs(game, player, other, len(positions.proven), seed=seed, openings=str(file), log=played.extend)
    by_text = {position.text: position for position in positions.proven}
    kept = [_is_result_kept(record, by_text[str(record.opening)], player) for record in played]
    ours, theirs = np.array(kept).reshape(-1, 2, 2).sum(1).T
    return {
        "held": np.bincount(ours, minlength=3).tolist(),
        "theirs": np.bincount(theirs, minlength=3).tolist(),
        "ahead": np.bincount(ours - theirs + 2, minlength=5).tolist(),
    }


def _is_result_kept(played: PlayedGame, proven: ProvedPosition, player: str) -> tuple[int, int]:
    """Return whether a game from a proved position ended no worse than proved, for the player and for the other."""
    mover = from_text(proven.text, played.game).mover
    value = (1 - 2 * mover) * (proven.result == "w")  # for player_0, as all values here
    result = 0 if played.result is None else played.result.returns[0]  # for player_0, too
    first, second = int(result >= value), int(result <= value)
    return (first, second) if played.players[0] == player else (second, first)


def _share_of_games(pairs: Sequence[int]) -> Interval:
    """Return the share of games, from pairs by their number of counted games."""
    counts, points = np.array(pairs), np.array([0.0, 0.5, 1.0])
    total = int(counts.sum())
    mean = float(counts @ points / total)
    return interval_from_pairs(mean, float(counts @ (points - mean) ** 2 / max(1, total - 1)), total)
