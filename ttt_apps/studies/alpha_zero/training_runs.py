"""A self-play training in this process, step by step, with its cost and strength over time."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from learners.base import Checkpointable
from learners.checkpoint import CONFIG, build_config, new_config, save_checkpoint
from learners.training import TrainingLoop
from ttt_apps.runs import WARM_UP_GAMES
from ttt_apps.train_options import default_options
from ttt_envs.core.files import write_json
from ttt_envs.envs.config import SELF
from ttt_envs.game.game import Game
from ttt_eval.exact.dynamic_programming import exploitability
from ttt_eval.result_store import Unit

NAME = "alpha-zero"
SEEDS = 5
MEASURED_SHARES = tuple((mark + 1) / 32 for mark in range(32))
"""Shares of the games after which a learner is measured."""
NEAR = 0.01
"""Exploitability below which play is called near perfect."""
ROUNDING = 1e-9
"""Maximum exploitability of play called perfect."""


def training_unit(learner: str, game: Game, games: int, seed: int, **changed: Any) -> dict[str, Any]:
    """Return a unit of work: a learner, its self-play settings with changes, and a game.

    It contains all settings, so that stored results are never taken for those of other settings.
    """
    settings = dataclasses.asdict(dataclasses.replace(default_options(learner, SELF)[1], **changed))
    return {"learner": learner, "settings": settings, "game": game.to_dict(), "games": games, "seed": seed}


def make_training(unit: Unit) -> TrainingLoop:
    """Return the training at its start, with compiled code.

    Raises:
        ValueError: a learner with a loop that cannot be stopped between steps.
    """
    _warm(json.dumps([unit["learner"], unit["settings"], unit["game"]]))
    return _start_training(unit["learner"], unit["settings"], Game.from_dict(unit["game"]), unit["games"], unit["seed"])


@cache
def _warm(described: str) -> None:
    """Compile a learner's code, so that it does not count as training time."""
    learner, settings, game = json.loads(described)
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


def train_and_measure(unit: Unit) -> dict[str, Any]:
    """Train, with exact measurements at the marks of a unit.

    Args:
        unit: of :func:`training_unit`, with ``marks``, shares of all games after which the learner is measured; and
            ``searched``, shares after which it is also measured with a search of ``simulations``.

    Returns:
        By mark ``games``, ``cpu_s``, ``exploitability`` and ``searched``, which is None if not requested. CPU seconds
        are those of the steps, user and system: without imports, compilation, and measurements.
    """
    game, training = Game.from_dict(unit["game"]), make_training(unit)
    curve: dict[str, Any] = {"games": [], "cpu_s": [], "exploitability": [], "searched": []}
    cpu_s = 0.0
    waiting = [round(mark * unit["games"]) for mark in unit["marks"]]
    searched = {round(mark * unit["games"]) for mark in unit["searched"]}
    while training.running:
        start = time.process_time()
        training.step()
        cpu_s += time.process_time() - start
        done = training.done.games
        due = {mark for mark in waiting if mark <= done}
        if not due:
            continue
        waiting = [mark for mark in waiting if mark > done]
        with_search = None
        if due & searched:
            with temporary_run(unit, training.learner) as run:
                with_search = exploitability(game, f"{NAME}:path=({run}),simulations={unit['simulations']}")
        measured = (done, cpu_s, exploitability(game, training.learner), with_search)
        for values, value in zip(curve.values(), measured, strict=True):
            values.append(value)
    return curve


class TrainingCurve(NamedTuple):
    """Learning curve of one training, by mark."""

    games: np.ndarray[Any, Any]
    cpu_s: np.ndarray[Any, Any]
    exploitability: np.ndarray[Any, Any]

    @classmethod
    def from_result(cls, result: Mapping[str, Any], measure: str = "exploitability") -> TrainingCurve:
        """Build the curve from the result of :func:`train_and_measure`, at the marks with a measurement."""
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


def median_and_range(values: Sequence[float], digits: int) -> str:
    """Format the median and the range over runs."""
    middle, least, most = (f"{value:,.{digits}f}" for value in (np.median(values), min(values), max(values)))
    return middle if least == most else f"{middle} ({least} to {most})"


def format_cpu_seconds(seconds: Sequence[float]) -> str:
    """Describe the CPU time until a goal was reached for good, in runs that may not reach it."""
    finite = [second for second in seconds if np.isfinite(second)]
    if not finite:
        return "never"
    some = "" if len(finite) == len(seconds) else f"in {len(finite)} of {len(seconds)} runs "
    return f"{some}after {median_and_range(finite, 1)} CPU s"


def final_values(curves: Sequence[TrainingCurve]) -> list[float]:
    """Return the exploitabilities at the end."""
    return [curve.end for curve in curves]


def cpu_to_threshold(curves: Sequence[TrainingCurve]) -> list[float]:
    """Return the CPU seconds after which exploitability stays below ``NEAR``; inf for never."""
    return [curve.reach(NEAR)[1] for curve in curves]


def describe_runs(curves: Sequence[TrainingCurve]) -> tuple[str, str]:
    """Describe cost and strength of the runs of one learner."""
    cpu_s, perfect = [curve.cpu_s[-1] for curve in curves], sum(curve.end <= ROUNDING for curve in curves)
    near = f"for good {format_cpu_seconds(cpu_to_threshold(curves))}"
    if max(len(curve.games) for curve in curves) == 1:
        near = f"at the only mark in {sum(curve.end <= NEAR for curve in curves)} of {len(curves)}"
    return (
        f"{median_and_range(cpu_s, 1)} CPU s; below {NEAR} {near}",
        f"exploitability {median_and_range(final_values(curves), 4)}; 0 in {perfect} of {len(curves)}",
    )
