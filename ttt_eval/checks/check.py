"""The result of a check: rows that hold or fail, the positions that show it, and likely causes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from math import isnan
from typing import Literal, NamedTuple

from ttt_envs.game.boards import draw_text

Status = Literal["holds", "fails", "remark", "no evidence"]
MOVE_NOTE = "plays {}, which loses {:.2f}; best: {}"
"""A format of notes about a move, its loss and the best moves."""
VALUE_NOTE = "the value is {:+.2f}, the truth {:+.2f}"
MAX_CAUSES = 3
"""Maximum number of causes of a check."""
NO_PATTERN = "none of the known patterns fits"
"""The cause of a failed check without a known pattern."""


class Evidence(NamedTuple):
    """A position that shows what a row says."""

    position: str
    """as text, see ``ttt_envs.from_text``; of a search, the player to move is always o"""
    note: str
    """what was answered there, and what is right"""

    def draw(self) -> str:
        """Return the board, one line for each row, and the note beside the first."""
        return draw_text(*self)


class CheckRow(NamedTuple):
    """One row of a check."""

    name: str
    measured: str
    """what was measured, in words and numbers"""
    status: Status = "holds"
    limit: str = ""
    """the rule by which the row holds; empty for a remark"""
    evidence: tuple[Evidence, ...] = ()
    """positions, the worst first; empty if the row holds or shows none"""


def list_fitting(conditions: Mapping[str, object]) -> list[str]:
    """Return the texts whose conditions are true, such as causes whose patterns fit."""
    return [text for text, is_true in conditions.items() if is_true]


def no_error(unjudged: Sequence[str]) -> str:
    """Return the verdict on what is right, with what was not judged."""
    if unjudged:
        return f"no error found; not judged: {'; '.join(unjudged)}"
    return "no error found"


def judge(
    name: str,
    measured: str,
    number: float,
    limit: float,
    evidence: Sequence[Evidence] = (),
    *,
    minimum: bool = False,
    rule: str = "",
) -> CheckRow:
    """Return a row about a number with a limit; NaN is no evidence.

    Args:
        name: of the row.
        measured: the number in words.
        number: the number.
        limit: the largest that holds.
        evidence: positions, which only a failed row keeps.
        minimum: whether the limit is the smallest number that holds.
        rule: the limit in words, if a number does not say it.
    """
    holds = number >= limit if minimum else number <= limit
    status: Status = "holds" if holds else "fails"
    if isnan(number):
        status = "no evidence"
    rule = rule or f"{'at least' if minimum else 'at most'} {limit:.3g}"
    return CheckRow(name, measured, status, rule, tuple(evidence) if status == "fails" else ())


@dataclass(frozen=True)
class Check:
    """The result of a check of a search, an agent or values.

    >>> check = Check("a search", (CheckRow("results", "error 0.30", "fails", "at most 0.05"),))
    >>> check.ok, check.failed, check.cause
    (False, ('results',), 'none of the known patterns fits')
    """

    subject: str
    """what was checked"""
    rows: Sequence[CheckRow]
    """in the order of measurement"""
    causes: Sequence[str] = ()
    """patterns of errors that explain the failed rows, the likeliest first"""
    right: str = field(default=no_error(()), kw_only=True)
    """the verdict if it is ``ok``"""
    undecided: Sequence[str] = field(default=(), kw_only=True)
    """rows without evidence that it needs to be ``ok``"""

    @property
    def ok(self) -> bool:
        """Whether no row fails, none is undecided, and at least one holds."""
        statuses = {row.status for row in self.rows}
        return "fails" not in statuses and "holds" in statuses and not self.undecided

    @property
    def failed(self) -> tuple[str, ...]:
        """Names of the rows that fail."""
        return tuple(row.name for row in self.rows if row.status == "fails")

    @property
    def cause(self) -> str:
        """The likeliest cause; :data:`NO_PATTERN` if none is known, and empty if no row fails."""
        causes = [*self.causes, NO_PATTERN] if self.failed else [""]
        return causes[0]

    @property
    def verdict(self) -> str:
        """The verdict in one line."""
        if self.failed:
            return f"wrong: {self.cause}"
        if self.undecided:
            return f"undecided: no evidence in {'; '.join(self.undecided)}"
        return self.right if self.ok else "nothing could be measured"

    def row(self, name: str) -> CheckRow:
        """Return the row of a name.

        Raises:
            KeyError: there is none.
        """
        return {row.name: row for row in self.rows}[name]

    def assert_ok(self) -> None:
        """Raise AssertionError with the whole table unless the check is ``ok``."""
        if not self.ok:
            raise AssertionError(f"{self.verdict}\n{self}")

    def to_dict(self) -> dict[str, object]:
        """Return JSON-ready data."""
        rows = [
            {**row._asdict(), "evidence": [evidence._asdict() for evidence in row.evidence]}
            for row in self.rows
        ]
        return {
            "subject": self.subject,
            "ok": self.ok,
            "verdict": self.verdict,
            "failed": list(self.failed),
            "causes": list(self.causes),
            "rows": rows,
        }

    def __str__(self) -> str:
        width = max((len(row.name) for row in self.rows), default=0)
        lines = [self.subject]
        for row in self.rows:
            limit = f" (limit: {row.limit})" if row.limit else ""
            lines.append(f"{row.status:11}  {row.name:{width}}  {row.measured}{limit}")
        for row in self.rows:
            if row.evidence:
                lines += ["", f"{row.name}:", row.evidence[0].draw()]
        other_causes = [f"  or: {cause}" for cause in self.causes[1:]]
        return "\n".join([*lines, "", f"verdict: {self.verdict}", *other_causes])

    def _repr_html_(self) -> str:
        """Return the text for a notebook."""
        return f"<pre>{escape(str(self))}</pre>"
