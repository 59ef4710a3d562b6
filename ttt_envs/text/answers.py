r"""Parsing of a model's answer: a move that it names, or the reason why there is none.

The move stands between marks: ``<move>b2</move>``, ``\boxed{b2}`` or ``[b2]``; the first kind that
occurs counts, and all marks of that kind must name the same move. Without marks, the whole answer
must be the name of a cell. Nothing is guessed from prose: "anything but b2" names no move.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from ttt_envs.game.actions import action_to_cell, legal_actions
from ttt_envs.game.game import Position
from ttt_envs.text.presentations import Presentation

MAX_ANSWER_LENGTH = 100_000
"""Maximum number of characters of an answer that are read: the last ones, because the move is at
the end.
"""
MAX_NAME_LENGTH = 40
"""Maximum number of characters between marks."""

ProblemKind = Literal[
    "no-move", "several-moves", "unknown-cell", "occupied-cell", "truncated", "refused"
]
"""The last two are of answers that were cut off, and of prompts that an endpoint refused."""

_MARKS = tuple(
    re.compile(pattern, re.IGNORECASE | re.ASCII)
    for pattern in (
        # a stop sequence may have cut the end off
        rf"<move>([^<>]{{0,{MAX_NAME_LENGTH}}})(?:</move>|\Z)",
        rf"\\boxed\{{(?:\\(?:text|mathrm|textbf|mathbf|texttt)\{{)?([^{{}}]{{0,{MAX_NAME_LENGTH}}})\}}",
        rf"\[([^\[\]]{{0,{MAX_NAME_LENGTH}}})\]",
    )
)
_DECORATION = " \t\r\n\"'`*_.,:;!()$"
_ANNOUNCEMENT = re.compile(
    r"\A(?:(?:my |final |the )?(?:move|answer)(?: is)?\s*:?\s+)", re.IGNORECASE | re.ASCII
)


class Problem(NamedTuple):
    """The reason why an answer is no legal move."""

    kind: ProblemKind
    message: str
    """one sentence for the player"""


def parse_answer(
    answer: object, presentation: Presentation, position: Position | None = None
) -> int | Problem:
    """Return the cell that an answer names, or the problem. Never raises, whatever the answer is.

    With gravity an answer names a column; the cell is the one where the stone comes to rest,
    without a position the top cell of the column.

    Args:
        answer: the answer, a string; of a longer one the last :data:`MAX_ANSWER_LENGTH` characters
            are read. Text up to ``</think>`` is ignored, and so is what follows a ``<think>``
            without an end, which was cut off. Or the problem of an answer that is not read.
        presentation: the presentation that was shown.
        position: if given, the position that was shown: then a move must be legal in it.
    """
    if isinstance(answer, Problem):
        return answer
    if not isinstance(answer, str):
        return Problem("no-move", f"The answer is not text. {_advice(presentation)}")
    text = answer.rpartition("</think>")[2].partition("<think>")[0][-MAX_ANSWER_LENGTH:]
    names: list[str] = []
    for mark in _MARKS:
        names = names or [_lower(name.strip(_DECORATION)) for name in mark.findall(text)]
    if not names:
        name = _lower(_ANNOUNCEMENT.sub("", text.strip(_DECORATION)).strip(_DECORATION))
        if name not in presentation.moves:
            return Problem("no-move", f"The answer names no move. {_advice(presentation)}")
        names = [name]
    unknown = [name for name in names if name not in presentation.moves]
    if unknown:
        name = ascii(unknown[0][:20])
        return Problem(
            "unknown-cell",
            f"{name} is no {presentation.noun} of this game. {_advice(presentation)}",
        )
    if len(set(names)) > 1:
        moves = sorted({presentation.move_names[presentation.moves[name]] for name in names})
        examples = " and ".join(moves[:2])
        return Problem(
            "several-moves", f"The answer names several moves, {examples}. {_advice(presentation)}"
        )
    action = presentation.moves[names[0]]
    if position is None:
        return action
    if legal_actions(presentation.game, position.cells)[action]:
        return action_to_cell(presentation.game, position.cells, action)
    name = presentation.move_names[action]
    if presentation.game.gravity:
        return Problem("occupied-cell", f"Column {name} is full.")
    state = "not empty" if presentation.layout == "board" else "already taken"
    return Problem("occupied-cell", f"{name} is {state}.")


def _lower(name: str) -> str:
    """Return a name in lower case. Names are ASCII, and Unicode has other letters with an ASCII
    lower case.
    """
    return name.lower() if name.isascii() else name


def _advice(presentation: Presentation) -> str:
    return f"Write the name of one {presentation.noun} between <move> and </move>."
