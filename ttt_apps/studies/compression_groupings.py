"""Beyond the paper: the choice of four of the nine cells for the first group of the SVD."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from baselines.compression import decompose, split_errors
from baselines.tables import Softmax, Table
from ttt_apps.studies.compressed import SOURCE, TERMINALS, WEIGHT, full_table
from ttt_envs.core.jit import Float64Array
from ttt_envs.game.game import Game
from ttt_eval.exact.compression_quality import CompressionQuality, compression_quality
from ttt_eval.reports.plots import SERIES, draw_label_legend
from ttt_eval.result_store import Unit
from ttt_eval.study import Caption, Claim, Report, Row, Study, rates

FIRST_GROUP_SIZE = 4
"""Number of cells in the first group."""
BAND_COLOUR = "#D0D0D0"
"""Colour of the range over all splits."""
RANKS = (3, 8, 12, 18, 26, 49)
PAPERS, PLAYED = "0123/45678", 18
"""The paper's grouping, and the rank at which all groupings are played."""


def units(quick: bool) -> list[Unit]:
    """Return a unit for each convention."""
    return [{"terminal": terminal, "play": not quick} for terminal in TERMINALS]


def measure(unit: Unit) -> dict[str, Any]:
    """Measure errors of all splits at all ranks, from singular values alone, and playing strength at one rank."""
    game = Game()
    table: Table = full_table(game, unit["terminal"])
    values = table.entries.reshape(-1)
    groupings, errors = split_errors(values, game, FIRST_GROUP_SIZE)
    full = Softmax(table, WEIGHT)
    order = np.argsort(errors[:, PLAYED], kind="stable")
    names = [str(grouping) for grouping in groupings]
    play = range(len(groupings)) if unit["play"] else {int(order[0]), int(order[-1]), names.index(PAPERS)}
    strengths = {
        names[index]: compression_quality(full, decompose("svd", values, groupings[index]).at(PLAYED))._asdict()
        for index in play
    }
    return {"names": names, "errors": errors.tolist(), "strengths": strengths}


def analyse(results: Sequence[tuple[Unit, Any]]) -> Report:
    """Report the best, the worst and the paper's."""
    rows, claims = [], []
    for unit, result in results:
        names, errors = result["names"], np.array(result["errors"])
        mine = names.index(PAPERS)
        for rank in RANKS:
            at = errors[:, rank]
            better = int((at < at[mine] - 1e-9).sum())
            ours = f"{PAPERS}: {at[mine]:.4f}, {better} of {len(names)} are better"
            range_ = f"best {_first_best(names, at)} {at.min():.4f}, worst {_first_best(names, -at)} {at.max():.4f}"
            rows.append(Row(f"{unit['terminal']}, rank {rank}", "", ours, range_))
        strengths = {name: CompressionQuality(**one) for name, one in result["strengths"].items()}
        # symmetric groupings are equal up to rounding: the first of each
        kinds: dict[tuple[float, float], str] = {}
        for name, one in sorted(strengths.items()):
            kinds.setdefault((round(one.exploitability, 6), round(one.relative_error, 6)), name)
        for name in dict.fromkeys([*(name for _, name in sorted(kinds.items())[:5]), PAPERS]):
            one, label = strengths[name], f"{unit['terminal']}, rank {PLAYED}, played: {name}"
            played = f"{rates(one.result)} against the whole; exploitability {one.exploitability:.4f}"
            rows.append(Row(label, "", f"error {one.relative_error:.4f}", played))
        best = _first_best(names, errors[:, PLAYED])
        claims.append(
            Claim(
                f"{unit['terminal']}: the grouping with the shortest cut, (1,2,3,4) and (5,6,7,8,9), is the best",
                best == PAPERS,
                f"at rank {PLAYED} its error is {errors[mine, PLAYED]:.4f}; {best} has {errors[:, PLAYED].min():.4f}, "
                f"and exploitability {strengths[best].exploitability:.4f} in place of "
                f"{strengths[PAPERS].exploitability:.4f}",
            )
        )

    def draw(figure: Any) -> None:
        panels = figure.subplots(1, len(results), sharey=True, squeeze=False)[0]
        for axes, (unit, result) in zip(panels, results, strict=True):
            errors = np.array(result["errors"])
            label = f"from the best to the worst of {len(errors)} splits, at each rank"
            axes.fill_between(
                np.arange(errors.shape[1]), errors.min(axis=0), errors.max(axis=0), color=BAND_COLOUR, label=label
            )
            best = int(errors[:, PLAYED].argmin())
            axes.plot(errors[best], color=SERIES[0], label=f"{result['names'][best]}, best at rank {PLAYED}")
            axes.plot(errors[result["names"].index(PAPERS)], "--", color=SERIES[1], label=f"{PAPERS}, the paper's")
            axes.axvline(PLAYED, color="black", lw=0.8, ls=":", label=f"rank {PLAYED}")
            axes.set(title=unit["terminal"], xlabel="rank", ylim=(0, 1.02))
        panels[0].set_ylabel("relative error")
        draw_label_legend(figure, panels[0], 2)

    data = [{**unit, **result} for unit, result in results]
    return Report(rows, claims, {"compression-groupings": draw}, ours="error", data=data)


def _first_best(names: Sequence[str], errors: Float64Array) -> str:
    """Return the first of those with the smallest error, ignoring rounding between symmetric ones."""
    return names[int(np.flatnonzero(errors < errors.min() + 1e-9)[0])]


def _answer(report: Report) -> str:
    found = [re.findall(r"\d+\.\d+|\d+/\d+", claim.evidence) for claim in report.claims]
    (error, best, smaller, plays, papers), (error_2, best_2, smaller_2, plays_2, papers_2) = found
    if all(claim.holds for claim in report.claims):
        return f"Yes: at rank {PLAYED} no split has a smaller error."
    return (
        f"No: at rank {PLAYED} {best} has the smallest error, {smaller} in place of {error} (equation), and {best_2} "
        f"{smaller_2} in place of {error_2} (as published). The exploitability of their play is {plays} in place of "
        f"{papers}, and {plays_2} in place of {papers_2}."
    )


STUDY = Study(
    title="All 126 splits of nine cells into four and five",
    source=f"beyond {SOURCE}, section 2.2",
    about="Errors follow from the singular values. At one rank all groupings play, with exact results (w = 10).",
    units=units,
    measure=measure,
    analyse=analyse,
    left_out="the play of all groupings but three",
    captions={
        "compression-groupings": Caption(
            "Is the published split of the nine cells into 1-4 and 5-9 the best?",
            _answer,
            "The dotted line is rank 18. Left: a won board has the value 1 or -1 (equation); right: 0, as published.",
        ),
    },
)
