"""Learning curves: exact measurements during training, of runs and of other agents, and their
summaries over seeds.

:func:`record` writes the measurements of a training loop that is not of this package, as of a run.
:func:`read_curves` reads run directories. :func:`summarize_groups` gives medians and bands over
seeds, which ``ttt_eval.reports.parts`` draws.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import numpy as np
from msgspec import Meta, convert

from learners.checkpoint import RunConfig, new_config
from ttt_envs.agents.adapters import as_policy
from ttt_envs.agents.specs import make_policy
from ttt_envs.core.checks import Refusal, find_named
from ttt_envs.core.jit import Float64Array, Int64Array
from ttt_envs.game.phantom import AnyGame
from ttt_eval.exact.strength import measure
from ttt_eval.runs.run_files import RunDirectory
from ttt_eval.runs.sweep import Label, game_labels, setting_name, varied_names
from ttt_eval.store.metrics import YAxis, write_rows
from ttt_eval.store.result_store import write_csv
from ttt_eval.store.versions import revision, versions

XAxis = Literal["games", "steps", "cpu"]
Row = Mapping[str, float]
Count = Annotated[int, Meta(ge=0, lt=1 << 53)]

SEED = "seed"
LEARNER = "learner"
SEATS = {"first": 0, "second": 1}
"""Numbers of the seats of a training by their names."""
NO_LABELS = (
    "checkpoint_games",
    "checkpoint_seconds",
    "code",
    "exact_every",
    "format",
    "game",
    "log_every",
    "no_report",
    "resumed",
    "revision",
    "settings",
    "versions",
)
"""Fields of a ``config.json`` that do not distinguish groups of runs."""

COLUMNS: Mapping[XAxis, str] = {"games": "games", "steps": "steps", "cpu": "cpu_s"}
"""Columns of the x axes."""
X_LABELS: Mapping[XAxis, str] = {
    "games": "games",
    "steps": "moves of the learner",
    "cpu": "CPU seconds of training",
}
MAX_POINTS = 200
"""Maximum number of points of a summary, evenly spaced on a logarithmic axis."""
NOT_VARIED = (SEED, LEARNER, "game", "games")
"""Labels that never distinguish groups by default."""

_cpu_starts: dict[str, float] = {}
"""By path of a recorded curve: the CPU time of this process that counts as its start; NaN if
unknown.
"""


class Curve(NamedTuple):
    """The exact measurements of one training."""

    name: str
    """its path, as given"""
    labels: Mapping[str, Label]
    """its settings by name, ``learner`` and ``seed`` among them"""
    rows: Sequence[Row]
    """lines with measurements, in order"""
    notes: Sequence[str] = ()
    """sentences about it for readers"""


# --------------------------------------------------------------------------------------------------
# Recording


def record(
    path: str | Path,
    game: AnyGame,
    policy: object,
    games: int,
    *,
    steps: int | None = None,
    opponent: str | None = None,
    seat: int | None = None,
    learner: str = "agent",
    seed: int = 0,
    **labels: Label,
) -> dict[str, float]:
    """Measure an agent exactly, and append a line to the learning curve of its training; call it in
    a training loop.

    Nothing is drawn, and no game is played: the agent learns the same with and without it. The line
    is on disk when the function returns. Lines of as many or more games are replaced, so that a
    loop that starts again or resumes from its own checkpoint may write to the same folder.

    CPU seconds are those of this process without the measurements, counted from the call with
    ``games=0``. Without such a call in this process they are left out, unless the line of as many
    games is there already, as after a resumption. They include the compilation of kernels after
    that call, some seconds in the first training on a machine.

    Args:
        path: the run directory, one for each training, such as ``curves/mine-seed0``, for
            ``config.json`` and ``metrics.jsonl``; it is created.
        game: the game.
        policy: the agent in its current state: a policy, a spec string, or an argument of
            :func:`ttt_envs.as_policy`; what returns no actions is wrapped by that function.
        games: number of games of the training so far.
        steps: number of the agent's moves so far, if counted.
        opponent: spec string of an opponent for exact results, None for none.
        seat: the agent's against the opponent, 0 or 1; None for the mean of both.
        learner: name of the learner.
        seed: of the training.
        **labels: settings that distinguish curves, such as ``step_size=0.1``.

    Returns:
        The line: ``games``, ``steps``, ``cpu_s``, ``exploitability``, ``regret`` on boards that can
        be solved, and against an opponent ``exact_win``, ``exact_draw``, ``exact_loss``.

    Raises:
        OSError: a file cannot be written; no part of the line remains.
        ValueError: an invalid number or label, ``returns`` among the labels, a policy that is not
            pure, or a folder of anything else.
        MemoryError: a board that is too large to be measured exactly.
    """
    began = time.process_time()
    if "returns" in labels:
        raise Refusal(
            "returns is no label: give record as_policy(agent, game, returns=...) as its policy"
        )
    run = RunDirectory(path)
    convert([games, steps or 0, seat], tuple[Count, Count, Literal[0, 1] | None])
    own_seat = "" if seat is None else list(SEATS)[seat]
    config = new_config(game, labels, learner=learner, seed=seed, opponent=opponent, seat=own_seat)
    convert(config, RunConfig)
    if run.exists() and not config.items() <= run.read_config().items():
        raise Refusal(
            f"{run} holds another training, or other labels: choose another folder, or remove it"
        )
    rows = run.read_metrics()
    key = os.path.abspath(path)
    if games == 0 or key not in _cpu_starts:
        seconds = {row["games"]: row.get("cpu_s", math.nan) for row in rows} | {0: 0.0}
        _cpu_starts[key] = began - seconds.get(games, math.nan)
    cpu_s = began - _cpu_starts[key]
    agent = make_policy(policy, game) if isinstance(policy, str) else as_policy(policy, game)
    line = {"games": games, "steps": steps, "cpu_s": cpu_s, **measure(game, agent, opponent, seat)}
    row = {
        name: value for name, value in line.items() if value is not None and not math.isnan(value)
    }
    if not run.exists():
        run.write_config({**config, "versions": versions(), "revision": revision()})
    write_rows(run.metrics, [*(earlier for earlier in rows if earlier["games"] < games), row])
    _cpu_starts[key] += time.process_time() - began  # without this measurement
    return row


# --------------------------------------------------------------------------------------------------
# Reading


def read_curves(paths: Iterable[Path]) -> list[Curve]:
    """Read the learning curves of run directories, those of :func:`record` among them, and of
    folders of them.

    Args:
        paths: a folder stands for the runs in it, and in ``runs/`` in it, as in the folder of a
            sweep.

    Raises:
        ValueError: nothing to read, or damaged files.
    """
    return [_read_run(run) for run in list_runs(paths)]


def list_runs(paths: Iterable[Path]) -> list[Path]:
    """Return run directories, once each; arguments and errors as in :func:`read_curves`."""
    runs = list(dict.fromkeys(run for path in paths for run in _expand_path(path)))
    if not runs:
        raise Refusal("there is nothing to read: name run directories, or a sweep's folder")
    return runs


def _expand_path(path: Path) -> list[Path]:
    """Return the runs at a path."""
    if RunDirectory(path).exists():
        return [path]
    folders = [folder for folder in (path, path / "runs") if folder.is_dir()]
    paths = [run for folder in folders for run in sorted(folder.iterdir())]
    runs = [run for run in paths if RunDirectory(run).exists()]
    if not runs:
        RunDirectory(path).read_config()  # raises, with a hint
    return runs


def _read_run(path: Path) -> Curve:
    run = RunDirectory(path)
    config = run.read_config()
    labels = {
        name: value if isinstance(value, Label) else json.dumps(value)
        for name, value in {**config["settings"], **config}.items()
        if name not in NO_LABELS
    }
    rows = run.read_metrics()
    notes = []
    games = config.get("games", 0)
    if not rows or rows[-1]["games"] < games:
        count = f"{rows[-1]['games']:,.0f}" if rows else "none"
        notes.append(f"{path} is unfinished: {count} of its {games:,} games are measured so far")
    measurements = [row for row in rows if "exploitability" in row]
    return Curve(str(path), {**game_labels(run.read_game()), **labels}, measurements, notes)


# --------------------------------------------------------------------------------------------------
# Summaries over seeds


class Group(NamedTuple):
    """Curves that differ in their seed, as far as the reader's choice of settings distinguishes
    them.
    """

    name: str
    labels: Mapping[str, Label]
    curves: Sequence[Curve]


class Summary(NamedTuple):
    """The median of a group's curves over its seeds, and its band at each point, see
    :func:`median_band`.
    """

    name: str
    labels: Mapping[str, Label]
    runs: int
    """number of curves"""
    x: Float64Array
    """float64[X], increasing"""
    median: Float64Array
    """float64[X]"""
    low: Float64Array | None
    """float64[X]; None for one run"""
    high: Float64Array | None
    notes: Sequence[str]


def varied_labels(curves: Sequence[Curve]) -> list[str]:
    """Return the labels, without :data:`NOT_VARIED`, in which curves differ."""
    return varied_names([curve.labels for curve in curves], NOT_VARIED)


def group_curves(curves: Sequence[Curve], by: Sequence[str] = ()) -> list[Group]:
    """Group curves by labels, in order of appearance.

    Args:
        curves: at least one.
        by: names of labels; by default the learner, and all in which curves of the same learner
            differ, see :func:`varied_labels`.

    Raises:
        ValueError: a label that no curve has.
    """
    names = [name.replace("-", "_") for name in by]
    labels = dict.fromkeys(name for curve in curves for name in curve.labels)
    for name in names:
        find_named("setting of these runs", name, labels)
    learners: dict[Label, list[Curve]] = {}
    for curve in curves:
        learners.setdefault(curve.labels.get(LEARNER), []).append(curve)
    names_of_learners = {
        learner: names or [LEARNER, *varied_labels(alike)] for learner, alike in learners.items()
    }
    groups: dict[tuple[tuple[str, Label], ...], list[Curve]] = {}
    for curve in curves:
        group_names = names_of_learners[curve.labels.get(LEARNER)]
        key = tuple((name, curve.labels.get(name)) for name in group_names)
        groups.setdefault(key, []).append(curve)
    return [
        Group(setting_name(dict(key), list(dict(key))), dict(key), alike)
        for key, alike in groups.items()
    ]


def _mixture_notes(group: Group) -> list[str]:
    """Return notes if the curves of a group differ in more than their seed, or are copies."""
    notes = []
    learners = {curve.labels.get(LEARNER) for curve in group.curves}
    names = [LEARNER] if len(learners) > 1 else varied_labels(group.curves)
    if names:
        notes.append(
            f"{group.name}: its runs differ in {', '.join(names)} and not only in the seed"
        )
    seeds = [tuple(curve.labels.get(name) for name in (*names, SEED)) for curve in group.curves]
    if len(set(seeds)) < len(seeds):
        notes.append(
            f"{group.name}: runs have the same seed and settings, so they may not be independent"
        )
    return notes


def summarize(group: Group, x: XAxis, y: YAxis) -> Summary:
    """Return the median of a group's curves and its band.

    Curves with different marks are interpolated linearly between their own marks. The summary
    covers the range that all of them have measured; nothing is extrapolated.

    Args:
        group: the curves.
        x, y: what to show; the score is the exact share of wins and half the draws against the
            opponent.

    Raises:
        ValueError: no curve of the group has measurements of these, or they have no common range.
    """
    notes = [*_mixture_notes(group), *(note for curve in group.curves for note in curve.notes)]
    series = []
    for curve in group.curves:
        points = curve_points(curve, x, y)
        if points is None:
            notes.append(f"{curve.name} is left out: it has no measurements of {y} by {x}")
        else:
            series.append(points)
    if not series:
        remedy = "train.py --exact-every N makes them, of the score with --opponent"
        raise Refusal(f"{group.curves[0].name} has no measurements of {y} by {x}: {remedy}")
    grid = _common_grid(group, [xs for xs, _ in series])
    if any(not np.array_equal(xs, series[0][0]) for xs, _ in series):
        span = f"from {grid[0]:g} to {grid[-1]:g} {COLUMNS[x]}"
        notes.append(
            f"{group.name}: marks differ, so curves are interpolated between them, {span}, which "
            "all cover"
        )
    values = np.array([np.interp(grid, xs, ys) for xs, ys in series])
    low = high = None
    if len(series) > 1:
        low, high = median_band(values)
    return Summary(
        group.name,
        group.labels,
        len(series),
        grid,
        np.median(values, axis=0),
        low,
        high,
        notes,
    )


def summarize_groups(
    groups: Sequence[Group], x: XAxis, y: YAxis
) -> tuple[list[Summary], list[str]]:
    """Return the summaries of groups, and all notes for readers; groups without such measurements
    are left out.

    Raises:
        ValueError: no group has such measurements.
    """
    summaries: list[Summary] = []
    curves: list[Curve] = []
    problems: list[str] = []
    for group in groups:
        try:
            summaries.append(summarize(group, x, y))
            curves += group.curves
        except ValueError as problem:
            problems.append(str(problem))
    if not summaries:
        raise Refusal(problems[0])
    notes = []
    # groups that differ in these cannot be compared
    for name in ("game", "opponent") if y == "score" else ("game",):
        values = list(dict.fromkeys(str(curve.labels.get(name)) for curve in curves))
        if len(values) > 1:
            notes.append(f"the runs are of different {name}s: {'; '.join(values)}")
    notes += [note for summary in summaries for note in summary.notes]
    return summaries, list(
        dict.fromkeys([*notes, *(f"{problem}: the group is left out" for problem in problems)])
    )


def curve_points(curve: Curve, x: XAxis, y: YAxis) -> tuple[Float64Array, Float64Array] | None:
    """Return x, increasing, and y of a curve, float64[N] each; None if it has none."""
    weights = {"exact_win": 1.0, "exact_draw": 0.5} if y == "score" else {y: 1.0}
    points: dict[float, float] = {}
    for row in curve.rows:
        is_later = row.get(COLUMNS[x], -1) >= next(reversed(points), 0)
        if is_later and weights.keys() <= row.keys():
            points[row[COLUMNS[x]]] = sum(weight * row[name] for name, weight in weights.items())
    if not points:
        return None
    return np.array(list(points), np.float64), np.array(list(points.values()))


def _common_grid(group: Group, marks: Sequence[Float64Array]) -> Float64Array:
    """Return the marks of all curves in the range that all cover."""
    low = max(series[0] for series in marks)
    high = min(series[-1] for series in marks)
    if low > high:
        raise Refusal(
            f"{group.name}: runs have no range in common, because one begins at {low:g} and "
            f"another ends at {high:g}: choose another x axis, or name fewer runs"
        )
    everything: Float64Array = np.unique(np.concatenate(marks))
    everything = everything[(everything >= low) & (everything <= high)]
    return everything[log_spaced(everything, MAX_POINTS)]


def log_spaced(values: Float64Array, max_count: int) -> Int64Array:
    """Return indices of at most ``max_count`` of the values float64[N], increasing and at the end
    positive.

    These are the first, the last, and others evenly on a logarithmic axis.
    """
    if len(values) <= max_count:
        return np.arange(len(values))
    targets = np.geomspace(values[values > 0][0], values[-1], max_count - 1)
    return np.unique([0, *np.searchsorted(values, targets).clip(0, len(values) - 1)])


def median_band(values: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Return the ends of the band of the rows of float64[N, X], float64[X] each.

    With up to five rows it is their range. Their true median is inside with probability 1 - 2 **
    (1 - N): .5 with two rows, .75 with three, .94 with five. From six on it is the 95% interval of
    the median by order statistics, whose probability is at least .95 at each point (David and
    Nagaraja, Order Statistics, 2003, section 7.1).
    """
    from scipy.stats import binom

    left_out = max(0, int(binom.ppf(0.025, len(values), 0.5)) - 1)
    sorted_values = np.sort(values, axis=0)
    return sorted_values[left_out], sorted_values[-1 - left_out]


def write_summaries(path: Path, summaries: Sequence[Summary], x: XAxis, y: YAxis) -> None:
    """Write summaries as CSV, a line for each group and point.

    Columns: the labels of the groups; ``games``, ``steps`` or ``cpu_s``; ``runs``, their number;
    the median under the name of y; and ``low`` and ``high``, empty for one run.
    """
    names = list(dict.fromkeys(name for summary in summaries for name in summary.labels))
    rows: list[list[object]] = [[*names, COLUMNS[x], "runs", y, "low", "high"]]
    for summary in summaries:
        labels = [summary.labels.get(name) for name in names]
        ends = [
            [""] * len(summary.x) if end is None else end for end in (summary.low, summary.high)
        ]
        for x_value, median, low, high in zip(summary.x, summary.median, *ends, strict=True):
            rows.append([*labels, f"{x_value:.12g}", summary.runs, median, low, high])
    write_csv(path, rows)
