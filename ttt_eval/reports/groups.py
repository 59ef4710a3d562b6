"""Settings compared over their seeds, by exact exploitability: at the end of training, and on
average during it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ttt_envs.core.jit import Float64Array
from ttt_eval.benchmark.comparison import (
    MIN_SEEDS,
    bootstrap_interval,
    mean,
    probability_of_improvement,
)
from ttt_eval.reports import formats, page, parts
from ttt_eval.reports.page import Parts
from ttt_eval.runs.curves import Group, curve_points
from ttt_eval.store.statistics import Interval, interval_from_seeds

POINTS = 1_001
"""Number of evenly spaced points of a curve whose mean is that over the games."""


class GroupMeasure(NamedTuple):
    """Exploitability of the runs of groups."""

    label: str
    values: Mapping[str, Float64Array]
    """float64[runs, 1] by name of the group"""
    statements: int
    """number of differences of all measures, which hold at once in 95% of cases"""

    def mean(self, name: str) -> Interval:
        """Return the mean over the runs of a group; its interval is 95% by itself."""
        return interval_from_seeds(self.values[name][:, 0].tolist(), bounds=(0, 1))

    def improvement(self, name: str, other: str) -> float:
        """Return the probability that a run of a group is better than one of another; ties count
        half.
        """
        return float(probability_of_improvement(-self.values[name], -self.values[other]))

    def difference(self, name: str, other: str) -> Interval:
        """Return the difference of the means over runs, below 0 if the first is better."""
        a = self.values[name]
        b = self.values[other]
        value = float(mean(a) - mean(b))
        if min(len(a), len(b)) < 2:
            return Interval(value, -1.0, 1.0)
        min_error = 0.0
        if np.ptp(a) == 0 == np.ptp(b):
            # others may not agree as these runs do: as if all were of one group
            min_error = abs(value) / 2 * math.sqrt(1 / len(a) + 1 / len(b))
        return bootstrap_interval(
            lambda a, b: mean(a) - mean(b),
            a,
            b,
            statements=self.statements,
            min_error=min_error,
            minimum=-1.0,
        )


def measure_groups(groups: Sequence[Group]) -> list[GroupMeasure]:
    """Return the exploitability at the end, and its mean over the games in the range that all runs
    cover.

    Args:
        groups: those without measured curves are left out.
    """
    curves: dict[str, list[tuple[Float64Array, Float64Array]]] = {}
    for group in groups:
        for curve in group.curves:
            points = curve_points(curve, "games", "exploitability")
            if points is not None:
                curves.setdefault(group.name, []).append(points)
    everything = list(itertools.chain(*curves.values()))
    if not everything:
        return []
    begin = max(x[0] for x, _ in everything)
    end = min(x[-1] for x, _ in everything)
    values = {
        "at the end": {name: np.array([y[-1:] for _, y in group]) for name, group in curves.items()}
    }
    if begin < end:
        games = np.linspace(begin, end, POINTS)
        values["mean over the games"] = {
            name: np.array([[np.interp(games, *points).mean()] for points in group])
            for name, group in curves.items()
        }
    statements = len(values) * math.comb(len(curves), 2)
    return [GroupMeasure(label, by_name, statements) for label, by_name in values.items()]


def describe_groups(at_end: GroupMeasure) -> str:
    """Name the group of least exploitability, as far as intervals and numbers of seeds decide
    it.
    """
    means = {name: at_end.mean(name) for name in at_end.values}
    best, *other_names = names = sorted(means, key=lambda name: means[name].mean)
    values = [f"exploitability at the end {formats.format_interval(means[name])}" for name in names]
    if min(map(len, at_end.values.values())) < MIN_SEEDS:
        return page.words("few seeds", seeds=MIN_SEEDS, name=best, value=values[0])
    num_undecided = sum(at_end.difference(best, other).high >= 0 for other in other_names)
    return formats.describe_best(names, values, num_undecided, f"{len(names)} settings")


def groups_parts(measures: Sequence[GroupMeasure]) -> Parts:
    """Return the tables of groups and of their pairs."""
    values = measures[0].values
    labels = [measure.label for measure in measures]
    means = [
        (name, len(values[name]), *(measure.mean(name) for measure in measures)) for name in values
    ]

    def pair_row(name: str, other: str) -> Sequence[object]:
        differences = [measure.difference(name, other) for measure in measures]
        chances = [measure.improvement(name, other) for measure in measures]
        return f"{name} - {other}", *differences, *map(formats.percent, chances)

    pairs = [pair_row(*pair) for pair in itertools.combinations(values, 2)]
    heads = [f"{column} {label}" for column in ("difference", "improvement") for label in labels]
    return [
        parts.table("groups", means, head=("setting", "runs", *labels)),
        parts.table("pairs of groups", pairs, head=("settings", *heads)) if pairs else None,
    ]
