"""Validated reading of results, and the parts of pages that several kinds of results have.

A ``result.json`` is not trusted: any invalid part raises a one-sentence ValueError, which the page shows in place of
that part.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np
from markupsafe import Markup

from evaluation.matches.score import Forfeits, Score
from evaluation.reports.boards import draw_choice
from evaluation.reports.html import Content
from evaluation.statistics import Interval
from ttt_envs.core.jit import Float64Array, Int64Array
from ttt_envs.game.boards import from_text
from ttt_envs.game.rules import Game

Data = Mapping[str, Any]
Read = TypeVar("Read")
MAX_TEXT = 300
"""Maximum length of a text that is shown, in characters."""
MAX_ENTRIES = 1_000
"""Default maximum length of a list."""
MAX_SETTINGS = 20_000
"""Maximum length of the settings that are shown, in characters."""
MAX_SEED = 2**63
_FAR = 1e15  # upper bound of any rating, number of games or time


def _wrong(name: str, value: object, wanted: str) -> ValueError:
    shown = repr(value)
    return ValueError(f"{name} is {shown if len(shown) <= 60 else f'{shown[:57]}...'}, and must be {wanted}")


def number_in(data: Data, name: str, low: float = -_FAR, high: float = _FAR) -> float:
    """Read a finite number from ``low`` to ``high``.

    Raises:
        ValueError: anything else; so do all functions here.
    """
    value = data.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        near = f"from {low:g} to {high:g}" if abs(high) < _FAR else "a number" if low < 0 else f"{low:g} or more"
        raise _wrong(name, value, near)
    return float(value)


def count_in(data: Data, name: str, most: int = int(_FAR)) -> int:
    """Read a whole number, 0 or more."""
    value = data.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise _wrong(name, value, f"a whole number, 0 to {most:,}" if most < _FAR else "a whole number, 0 or more")
    return value


def optional(data: Data, name: str, read: Callable[[Data, str], Read]) -> Read | None:
    """Read a value with ``read``; None if it is null or missing."""
    return None if data.get(name) is None else read(data, name)


def interval_in(data: Data, name: str, low: float = -_FAR, high: float = _FAR) -> Interval:
    """Read an estimate with its interval; without ends it is a point."""
    value = data.get(name)
    if not isinstance(value, Mapping):
        raise _wrong(name, value, "an object with mean, low and high")
    mean = number_in(value, "mean", low, high)
    if "low" not in value and "high" not in value:
        return Interval(mean, mean, mean)
    found = Interval(mean, number_in(value, "low", low, high), number_in(value, "high", low, high))
    slack = 1e-9 * max(1.0, abs(mean))
    if not found.low - slack <= mean <= found.high + slack:
        raise _wrong(name, dict(value), "an interval: low, mean and high in this order")
    return Interval(mean, min(mean, found.low), max(mean, found.high))


def text_in(data: Data, name: str) -> str:
    """Read a text, shortened and made printable."""
    value = data.get(name)
    if not isinstance(value, str):
        raise _wrong(name, value, "a text")
    shown = value if len(value) <= MAX_TEXT else f"{value[: MAX_TEXT - 3]}..."
    # non-printable characters are escaped: they may be invalid in SVG, or reverse the text direction
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in shown)


def list_in(data: Data, name: str, most: int = MAX_ENTRIES) -> list[Any]:
    """Read a list of at most ``most`` entries."""
    value = data.get(name)
    if not isinstance(value, list) or len(value) > most:
        raise _wrong(name, value, f"a list of at most {most:,}")
    return value


def objects_in(data: Data, name: str, most: int = MAX_ENTRIES) -> list[Data]:
    """Read a list of objects."""
    value = list_in(data, name, most)
    if not all(isinstance(one, Mapping) for one in value):
        raise _wrong(name, value, "a list of objects")
    return value


def object_in(data: Data, name: str) -> Data:
    """Read an object."""
    value = data.get(name)
    if not isinstance(value, Mapping):
        raise _wrong(name, value, "an object")
    return value


def game_in(data: Data) -> Game:
    """Read the game."""
    try:
        return Game.from_dict(dict(object_in(data, "game")))
    except TypeError as problem:
        raise ValueError(f"game is none: {problem}") from None


def counts_in(data: Data, name: str, *shape: int) -> Int64Array:
    """Read whole numbers int64[shape]."""
    found = np.array(_numbers(data.get(name), name, shape))
    if (found < 0).any() or (found != np.floor(found)).any():
        raise _wrong(name, data.get(name), "whole numbers, 0 or more")
    return found.astype(np.int64)


def chances_in(data: Data, name: str, game: Game) -> Float64Array:
    """Read move probabilities float64[cells], from the rows of a board."""
    found = np.array(_numbers(data.get(name), name, (game.rows, game.columns))).ravel()
    if (found < 0).any() or (found > 1).any():
        raise _wrong(name, data.get(name), "probabilities")
    return found


def _numbers(value: object, name: str, shape: tuple[int, ...]) -> Any:
    """Read nested lists of numbers, exactly of this shape."""
    if not shape:
        return number_in({name: value}, name)
    if not isinstance(value, list) or len(value) != shape[0]:
        raise _wrong(name, value, f"numbers, {' x '.join(map(str, shape))} of them")
    return [_numbers(one, name, shape[1:]) for one in value]


def score_in(data: Data) -> Score:
    """Read the pairs of games, at least one."""
    score = Score(counts_in(data, "pairs", 3, 3))
    if not 1 <= score.games <= _FAR:
        raise _wrong("pairs", data.get("pairs"), "counts of pairs, one or more in all")
    return score


def spec_in(data: Data, name: str) -> str:
    """Read a spec string without shortening; reject one that is too long or looks like a command option."""
    text = text_in(data, name)
    if not text or text.startswith("-") or text != data[name]:
        raise _wrong(name, data[name], "the spec string of a policy")
    return text


def forfeits_in(data: Data, a: str, b: str) -> str:
    """Read forfeited games as a sentence; empty if there are none."""
    if data.get("forfeits") is None:
        return ""
    found = object_in(data, "forfeits")
    words = Forfeits(count_in(found, "a"), count_in(found, "b"), text_in(found, "first")).describe(a, b)
    return f"{words[0].upper()}{words[1:]}"


# ---------------------------------------------------------------------------------------------------------------------
# Parts of pages


def reproduction(data: Data, command: Sequence[str], names: Sequence[str]) -> Content:
    """Return the command that reproduces the result, and the settings of these names, which determine it."""
    text = json.dumps({name: data[name] for name in names if name in data}, indent=2)
    more = f"\n... and {len(text) - MAX_SETTINGS:,} letters more" if len(text) > MAX_SETTINGS else ""
    return {"command": shlex.join(["python", *command]), "settings": text[:MAX_SETTINGS] + more}


def differences(game: Game, found: Sequence[Data] | None, a: str, b: str) -> Content:
    """Return boards on which two players play differently.

    Args:
        game: the game.
        found: of :meth:`evaluation.exact.strength.Difference.to_dict`; None if not computed.
        a, b: names of the players.
    """
    if found is None:
        return {"missing": "Left out: it is computed where both are pure and it takes seconds."}
    return {"pairs": [_pair(game, one, a, b) for one in found]}


def _pair(game: Game, one: Data, a: str, b: str) -> Content:
    """Return a position with the moves of both players."""
    difference, likely = (min(1.0, number_in(one, name, 0, 1 + 1e-9)) for name in ("difference", "likely"))
    boards = [
        position_figure(game, one, key, optional(one, loss, partial(number_in, low=0)), title=name)
        for key, loss, name in (("a", "loss_a", a), ("b", "loss_b", b))
    ]
    return {"difference": difference, "likely": likely, "boards": boards}


def position_figure(
    game: Game, one: Data, moves: str, loss: float | None, likely: float | None = None, title: str = ""
) -> Markup:
    """Return a position with the moves played there.

    Args:
        game: the game.
        one: an object with ``position``, ``best`` (cells, or null), and under ``moves`` probabilities by cell.
        moves: key of the probabilities.
        loss: expected loss of the moves, if known.
        likely: probability that a game reaches the position, if shown.
        title: the first line of the caption; by default the mover.
    """
    position = from_text(text_in(one, "position"), game)
    shares = np.zeros(game.cells)
    played = object_in(one, moves)
    for cell in played:
        if not (
            isinstance(cell, str) and cell.isascii() and cell.isdigit() and len(cell) < 4 and int(cell) < game.cells
        ):
            raise _wrong(moves, cell, "moves by the numbers of their cells")
        shares[int(cell)] = number_in(played, cell, 0, 1 + 1e-6)
    if shares[position.cells != 0].any():
        raise _wrong(moves, dict(played), "moves to empty cells")
    best = [] if one.get("best") is None else list_in(one, "best", game.cells)
    if not all(isinstance(cell, int) and 0 <= cell < game.cells for cell in best):
        raise _wrong("best", best, "cells of the board")
    return draw_choice(game, position, shares, best, loss, likely, title)
