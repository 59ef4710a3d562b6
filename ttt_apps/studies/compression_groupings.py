"""Beyond the paper: which four of the nine cells should form the first group of the SVD."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from baselines.compression import decompose, split_errors
from baselines.tables import Softmax, Table
from evaluation.study import Claim, Findings, Row, Study, Unit
from ttt_apps.evaluate.dial import Strength, strength
from ttt_apps.studies.compressed import SOURCE, TERMINALS, WEIGHT, whole
from ttt_envs.rules import Game

FIRST = 4
"""cells in the first group"""
RANKS = (3, 8, 12, 18, 26, 49)
OURS, PLAYED = "0123/45678", 18
"""the paper's grouping, and the rank at which all groupings are played"""


def units(quick: bool) -> list[Unit]:
    """One for each convention."""
    return [{"terminal": terminal, "play": not quick} for terminal in TERMINALS]


def measure(unit: Unit) -> dict[str, Any]:
    """Errors of all splits at all ranks, from singular values alone, and what they are worth at one rank."""
    game = Game()
    table: Table = whole(game, unit["terminal"])
    values = table.entries.reshape(-1)
    groupings, errors = split_errors(values, game, FIRST)
    full = Softmax(table, WEIGHT)
    order = np.argsort(errors[:, PLAYED], kind="stable")
    names = [str(grouping) for grouping in groupings]
    play = range(len(groupings)) if unit["play"] else {int(order[0]), int(order[-1]), names.index(OURS)}
    strengths = {
        names[index]: strength(full, decompose("svd", values, groupings[index]).at(PLAYED))._asdict() for index in play
    }
    return {"names": names, "errors": errors.tolist(), "strengths": strengths}


def conclude(results: Sequence[tuple[Unit, Any]]) -> Findings:
    """Best, worst and the paper's."""
    rows, claims = [], []
    for unit, result in results:
        names, errors = result["names"], np.array(result["errors"])
        mine = names.index(OURS)
        for rank in RANKS:
            at = errors[:, rank]
            better = int((at < at[mine] - 1e-9).sum())
            rows.append(
                Row(
                    f"{unit['terminal']}, rank {rank}",
                    "",
                    f"{OURS}: {at[mine]:.4f}, {better} of {len(names)} are better",
                    f"best {names[int(at.argmin())]} {at.min():.4f}, worst {names[int(at.argmax())]} {at.max():.4f}",
                )
            )
        strengths = {name: Strength(**one) for name, one in result["strengths"].items()}
        # images of a grouping under the board's symmetries are worth the same: the first of each
        least = {
            (round(one.exploitability, 9), round(one.relative_error, 9)): name
            for name, one in sorted(strengths.items(), key=lambda item: -item[1].exploitability)
        }
        for name in dict.fromkeys([*list(least.values())[-5:][::-1], OURS]):
            one = strengths[name]
            rows.append(
                Row(
                    f"{unit['terminal']}, rank {PLAYED}, played: {name}",
                    "",
                    f"error {one.relative_error:.4f}",
                    f"{one.win:.3f} / {one.draw:.3f} / {one.loss:.3f} against the whole; exploitability "
                    f"{one.exploitability:.4f}",
                )
            )
        best = names[int(errors[:, PLAYED].argmin())]
        claims.append(
            Claim(
                f"{unit['terminal']}: the grouping with the shortest cut, (1,2,3,4) and (5,6,7,8,9), is the best",
                best == OURS,
                f"at rank {PLAYED} its error is {errors[mine, PLAYED]:.4f}; {best} has {errors[:, PLAYED].min():.4f}, "
                f"and exploitability {strengths[best].exploitability:.4f} in place of "
                f"{strengths[OURS].exploitability:.4f}",
            )
        )

    def draw(figure: Any) -> None:
        for axes, (unit, result) in zip(figure.subplots(1, len(results), sharey=True), results, strict=True):
            errors = np.array(result["errors"])
            for row in errors:
                axes.plot(row, color="tab:gray", alpha=0.15, lw=0.7)
            axes.plot(errors[result["names"].index(OURS)], color="tab:red", label=f"{OURS}, the paper's")
            best = int(errors[:, PLAYED].argmin())
            axes.plot(errors[best], color="tab:green", label=f"{result['names'][best]}, best at rank {PLAYED}")
            axes.set(title=f"{unit['terminal']}: all {len(errors)} splits", xlabel="rank", ylabel="relative error")
            axes.legend()

    return Findings(
        rows,
        claims,
        {"compression-groupings": draw},
        ours="error",
        data=[{**unit, **result} for unit, result in results],
    )


STUDY = Study(
    title="All 126 splits of nine cells into four and five",
    source=f"beyond {SOURCE}, section 2.2",
    about="Errors come from singular values alone; at one rank all groupings are played, exactly (w = 10).",
    units=units,
    measure=measure,
    conclude=conclude,
    left_out="the play of all groupings but three",
)
