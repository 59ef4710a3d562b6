"""What the pictures of studies have in common: intervals as error bars, legends off the data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from evaluation.statistics import Interval
from ttt_envs.compiling import Reals


def arms(intervals: Sequence[Interval]) -> Reals:
    """float64[2, N]: how far intervals reach below and above their means, as matplotlib takes errors."""
    # rounding may leave -1e-17 of nothing
    return np.maximum(0.0, [[one.mean - one.low for one in intervals], [one.high - one.mean for one in intervals]])


def means(intervals: Sequence[Interval]) -> list[float]:
    """What the intervals are around."""
    return [one.mean for one in intervals]


def legend(figure: Any, axes: Any, columns: int, where: str = "outside upper center") -> None:
    """What is what, once for all panels: the labels of ``axes``, off the data."""
    figure.legend(*axes.get_legend_handles_labels(), loc=where, ncols=columns, frameon=False, fontsize="small")
