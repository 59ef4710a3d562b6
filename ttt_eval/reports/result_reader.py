"""Validated reading of results, and the parts of pages that several kinds of results have.

A ``result.json`` is not trusted: any invalid part raises a one-sentence ValueError, which the page shows in place of
that part.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
from markupsafe import Markup

from ttt_envs.agents.specs import MAX_SPEC_LENGTH
from ttt_envs.core.checks import truncate
from ttt_envs.core.jit import Float64Array, Int64Array
from ttt_envs.game.boards import from_text
from ttt_envs.game.phantom import AnyGame, game_from_dict
from ttt_envs.game.rules import legal
from ttt_eval.matches.corrected_pairs import CorrectedPairs
from ttt_eval.matches.score import Forfeits, Score
from ttt_eval.metrics import LOSSES, metric
from ttt_eval.reports.boards import draw_choice
from ttt_eval.reports.formats import format_ends, measure_tile, share
from ttt_eval.reports.html import Content
from ttt_eval.statistics import Interval

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
    return ValueError(f"{name} is {truncate(repr(value), 60)}, and must be {wanted}")


class Record(dict[str, Any]):
    """An object of a result; its methods read and check the value of a key.

    Raises:
        ValueError: a missing or invalid value; so do all methods.
    """

    def number(self, name: str, low: float = -_FAR, high: float = _FAR) -> float:
        """Read a finite number from ``low`` to ``high``."""
        value = self.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            near = f"from {low:g} to {high:g}" if abs(high) < _FAR else "a number" if low < 0 else f"{low:g} or more"
            raise _wrong(name, value, near)
        return float(value)

    def count(self, name: str, most: int = int(_FAR)) -> int:
        """Read a whole number, 0 or more."""
        value = self.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
            raise _wrong(name, value, f"a whole number, 0 to {most:,}" if most < _FAR else "a whole number, 0 or more")
        return value

    def interval(self, name: str, low: float = -_FAR, high: float = _FAR) -> Interval:
        """Read an estimate with its interval; without ends it is a point."""
        value = self.get(name)
        if not isinstance(value, dict):
            raise _wrong(name, value, "an object with mean, low and high")
        found = Record(value)
        mean = found.number("mean", low, high)
        if "low" not in found and "high" not in found:
            return Interval(mean, mean, mean)
        low, high = found.number("low", low, high), found.number("high", low, high)
        slack = 1e-9 * max(1.0, abs(mean))
        if not low - slack <= mean <= high + slack:
            raise _wrong(name, dict(value), "an interval: low, mean and high in this order")
        return Interval(mean, min(mean, low), max(mean, high))

    def text(self, name: str) -> str:
        """Read a text, shortened and made printable."""
        value = self.get(name)
        if not isinstance(value, str):
            raise _wrong(name, value, "a text")
        # non-printable characters are escaped: they may be invalid in SVG, or reverse the text direction
        return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in truncate(value, MAX_TEXT))

    def spec(self, name: str) -> str:
        """Read a spec string without shortening; reject one that is too long or looks like a command option."""
        value = self.get(name)
        if (
            not isinstance(value, str)
            or not 0 < len(value) <= MAX_SPEC_LENGTH
            or value.startswith("-")
            or not value.isprintable()
        ):
            raise _wrong(name, value, "the spec string of a policy")
        return value

    def entries(self, name: str, most: int = MAX_ENTRIES) -> list[Any]:
        """Read a list of at most ``most`` entries."""
        value = self.get(name)
        if not isinstance(value, list) or len(value) > most:
            raise _wrong(name, value, f"a list of at most {most:,}")
        return value

    def records(self, name: str, most: int = MAX_ENTRIES) -> list[Record]:
        """Read a list of objects."""
        value = self.entries(name, most)
        if not all(isinstance(one, dict) for one in value):
            raise _wrong(name, value, "a list of objects")
        return list(map(Record, value))

    def record(self, name: str) -> Record:
        """Read an object."""
        value = self.get(name)
        if not isinstance(value, dict):
            raise _wrong(name, value, "an object")
        return Record(value)

    def optional(self, name: str, read: Callable[[Record, str], Read]) -> Read | None:
        """Read a value with ``read``; None if it is null or missing."""
        return None if self.get(name) is None else read(self, name)

    def measure(self, name: str) -> float | None:
        """Read a measure within its bounds; None if it is null or missing."""
        low, high = metric(name).bounds
        value = self.optional(name, partial(Record.number, low=low - 1e-6, high=high + 1e-6))
        return None if value is None else max(low, value)

    def measure_tiles(self) -> list[tuple[str, str, str]]:
        """Return the headline numbers of exact measures, as far as they are known."""
        values = {name: self.measure(name) for name in LOSSES}
        return [measure_tile(name, value) for name, value in values.items() if value is not None]

    def game(self) -> AnyGame:
        """Read the game.

        Raises:
            ValueError: it is none.
        """
        try:
            return game_from_dict(dict(self.record("game")))
        except TypeError as problem:
            raise ValueError(f"game is none: {problem}") from None

    def counts(self, name: str, *shape: int) -> Int64Array:
        """Read whole numbers int64[shape]."""
        found = np.array(_numbers(self.get(name), name, shape))
        if (found < 0).any() or (found != np.floor(found)).any():
            raise _wrong(name, self.get(name), "whole numbers, 0 or more")
        return found.astype(np.int64)

    def probabilities(self, name: str, game: AnyGame) -> Float64Array:
        """Read move probabilities float64[cells], from the rows of a board."""
        found = np.array(_numbers(self.get(name), name, (game.rows, game.columns))).ravel()
        if (found < 0).any() or (found > 1).any():
            raise _wrong(name, self.get(name), "probabilities")
        return found

    def score(self) -> Score:
        """Read the pairs of games, at least one."""
        score = Score(self.counts("pairs", 3, 3))
        if not 1 <= score.games <= _FAR:
            raise _wrong("pairs", self.get("pairs"), "counts of pairs, one or more in all")
        if self.get("corrected") is None:
            return score
        corrected = CorrectedPairs.from_list(self["corrected"])
        if corrected.num != score.games // 2:
            raise _wrong("corrected", corrected.num, f"scores of all {score.games // 2} pairs")
        return replace(score, corrected=corrected)

    def correction_tiles(self) -> list[tuple[str, str, str]]:
        """Read the raw score beside a corrected one, as tiles; none if luck is not corrected."""
        if self.get("raw_score") is None:
            return []
        raw, games = self.interval("raw_score", 0, 1), self.optional("equivalent_games", Record.count)
        precise = "leaves no variance" if games is None else f"as precise as {games:,} games without"
        return [
            ("score with luck", share(raw.mean), f"95%: {format_ends(raw)}"),
            ("luck correction", self.optional("luck_correction", Record.text) or "on", precise),
        ]

    def correction_options(self) -> list[str]:
        """Read the luck correction as options of a command; none in results without this key."""
        correction = self.optional("luck_correction", Record.spec)
        return [] if correction is None else ["--luck-correction", correction]

    def forfeits(self, a: str, b: str) -> str:
        """Read forfeited games as a sentence; empty if there are none."""
        if self.get("forfeits") is None:
            return ""
        found = self.record("forfeits")
        words = Forfeits(found.count("a"), found.count("b"), found.text("first")).describe(a, b)
        return f"{words[0].upper()}{words[1:]}"


def _numbers(value: object, name: str, shape: tuple[int, ...]) -> Any:
    """Read nested lists of numbers, exactly of this shape."""
    if not shape:
        return Record({name: value}).number(name)
    if not isinstance(value, list) or len(value) != shape[0]:
        raise _wrong(name, value, f"numbers, {' x '.join(map(str, shape))} of them")
    return [_numbers(one, name, shape[1:]) for one in value]


# ---------------------------------------------------------------------------------------------------------------------
# Parts of pages


def reproduction(data: Record, command: Sequence[str], names: Sequence[str]) -> Content:
    """Return the command that reproduces the result, and the settings of these names, which determine it."""
    text = json.dumps({name: data[name] for name in names if name in data}, indent=2)
    more = f"\n... and {len(text) - MAX_SETTINGS:,} characters more" if len(text) > MAX_SETTINGS else ""
    return {"command": shlex.join(["python", *command]), "settings": text[:MAX_SETTINGS] + more}


def differences(game: AnyGame, found: Sequence[Record] | None, a: str, b: str) -> Content:
    """Return boards on which two players play differently.

    Args:
        game: the game.
        found: of :meth:`ttt_eval.exact.strength.Difference.to_dict`; None if not computed.
        a, b: names of the players.
    """
    if found is None:
        return {"missing": "Left out: it is computed where both are pure and it takes seconds."}
    return {"pairs": [_pair(game, one, a, b) for one in found]}


def _pair(game: AnyGame, one: Record, a: str, b: str) -> Content:
    """Return a position with the moves of both players."""
    difference, likely = (min(1.0, one.number(name, 0, 1 + 1e-9)) for name in ("difference", "likely"))
    boards = [
        position_figure(game, one, key, one.optional(loss, partial(Record.number, low=0)), title=name)
        for key, loss, name in (("a", "loss_a", a), ("b", "loss_b", b))
    ]
    return {"difference": difference, "likely": likely, "boards": boards}


def position_figure(
    game: AnyGame, one: Record, moves: str, loss: float | None, likely: float | None = None, title: str = ""
) -> Markup:
    """Return a position with the moves played there.

    Args:
        game: the game.
        one: an object with ``position``, ``best`` (cells, or null), and under ``moves`` probabilities by cell.
        moves: key of the probabilities.
        loss: expected loss of the moves, if known.
        likely: probability that a game reaches the position, if shown.
        title: the first line of the caption; by default the mover.

    Raises:
        ValueError: a part of ``one`` is missing or damaged.
    """
    position = from_text(one.text("position"), game)
    shares = np.zeros(game.cells)
    played = one.record(moves)
    for cell in played:
        if not (
            isinstance(cell, str) and cell.isascii() and cell.isdigit() and len(cell) < 4 and int(cell) < game.cells
        ):
            raise _wrong(moves, cell, "moves by the numbers of their cells")
        shares[int(cell)] = played.number(cell, 0, 1 + 1e-6)
    if shares[~legal(game, position.cells)].any():
        raise _wrong(moves, dict(played), "legal moves")
    best = [] if one.get("best") is None else one.entries("best", game.cells)
    if not all(isinstance(cell, int) and 0 <= cell < game.cells for cell in best):
        raise _wrong("best", best, "cells of the board")
    return draw_choice(game, position, shares, best, loss, likely, title)
