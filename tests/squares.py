"""A study of square numbers."""

import math

from studies.frame import Claim, Panel, ResultRow, Series, Study, StudyFigure, StudyReport

CALLS: list[int] = []
SQUARES = [0, 1, 4, 9, 16]


class Squares(Study):
    """Nothing differs."""

    title = "Squares"
    source = "Euclid"
    left_out = "three squares"

    def units(self, quick):
        return [{"n": n} for n in range(2 if quick else 5)]

    def measure(self, unit):
        CALLS.append(unit["n"])
        return {"square": unit["n"] ** 2}

    def analyse(self, results):
        values = [result["square"] for _, result in results]
        rows = [
            ResultRow(str(unit["n"]), None, result["square"], None, True)
            for unit, result in results
        ]
        claim = Claim(
            "squares grow", True, {"from": 0, "to": max(values, default=0), "bounds": (0, math.inf)}
        )
        panel = Panel([Series("squares", range(len(values)), values)])
        figure = StudyFigure("Do squares grow?", "Dots are squares.", [panel])
        return StudyReport(rows, [claim], {"squares": figure})
