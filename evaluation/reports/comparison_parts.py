"""Shared parts of result pages: validated reading of results, and wording and figures for intervals.

A ``result.json`` is not trusted: any invalid part raises a one-sentence ValueError, which the page shows in place of
that part.
"""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from evaluation.matches.elo import elo_of
from evaluation.matches.match import Forfeits, Score
from evaluation.reports.html import Html, details, element, percent, section, share
from evaluation.reports.run_parts import boards_of, choice_figure, left_out, loses, or_why
from evaluation.statistics import Interval
from ttt_envs.agents.policy import VALUE_TOLERANCE
from ttt_envs.core.jit import Float64Array
from ttt_envs.game.boards import from_text
from ttt_envs.game.rules import Game

Data = Mapping[str, Any]
LONGEST = 300
"""Maximum length of a text that is shown, in characters."""
MOST = 1_000
"""Default maximum length of a list."""
SETTINGS = 20_000
"""Maximum length of the settings that are shown, in characters."""
_FAR = 1e15  # upper bound of any rating, number of games or time


# ---------------------------------------------------------------------------------------------------------------------
# Reading


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


def optional(data: Data, name: str, read: Callable[[Data, str], Any]) -> Any:
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
    shown = value if len(value) <= LONGEST else f"{value[: LONGEST - 3]}..."
    # non-printable characters are escaped: they may be invalid in SVG, or reverse the text direction
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in shown)


def list_in(data: Data, name: str, most: int = MOST) -> list[Any]:
    """Read a list of at most ``most`` entries."""
    value = data.get(name)
    if not isinstance(value, list) or len(value) > most:
        raise _wrong(name, value, f"a list of at most {most:,}")
    return value


def objects_in(data: Data, name: str, most: int = MOST) -> list[Data]:
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


def counts_in(data: Data, name: str, *shape: int) -> Any:
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


def given_up(data: Data, a: str, b: str) -> Html | None:
    """Return a sentence on forfeited games, if there are any."""
    if data.get("forfeits") is None:
        return None
    found = object_in(data, "forfeits")
    told = Forfeits(count_in(found, "a"), count_in(found, "b"), text_in(found, "first")).describe(a, b)
    return element("p", f"{told[0].upper()}{told[1:]}", class_="quiet")


# ---------------------------------------------------------------------------------------------------------------------
# Words


def rating_of(score: Interval) -> Interval:
    """Convert an interval of scores to Elo differences; ends may be infinite."""
    return Interval(*map(elo_of, score))


def format_rating(value: Interval, sign: str = "+") -> str:
    """Format a rating with its interval."""
    mean, low, high = (format_elo(end, sign) for end in value)
    return mean if value.low == value.high else f"{mean} ({low} to {high})"


def format_elo(value: float, sign: str = "+") -> str:
    """Format Elo without insignificant digits."""
    if math.isinf(value):
        return "infinite" if value > 0 else "minus infinite"
    return "0" if round(value) == 0 else f"{value:{sign},.0f}"


def in_brackets(value: Interval, written: Callable[[float], str] = share) -> str:
    """Format an estimate with its interval."""
    mean, low, high = map(written, value)
    return mean if value.low == value.high else f"{mean} ({low} to {high})"


def better(a: str, b: str, score: Interval, superiority: float) -> str:
    """Name the better player, as far as the interval of a's score decides it.

    Args:
        a, b: the players.
        score: of a, a draw counting half.
        superiority: the likelihood that a is better.
    """
    if score.low > 0.5:
        words = f"Elo {format_rating(rating_of(score))}, likelihood of superiority {likelihood(superiority)}"
        return f"{a} is better than {b}: {words}"
    if score.high < 0.5:
        turned = Interval(1 - score.mean, 1 - score.high, 1 - score.low)
        words = f"Elo {format_rating(rating_of(turned))}, likelihood of superiority {likelihood(1 - superiority)}"
        return f"{b} is better than {a}: {words}"
    words = f"Elo of {a} {format_rating(rating_of(score))}, likelihood of superiority {likelihood(superiority)}"
    return f"Undecided whether {a} or {b} is better: {words}"


def likelihood(value: float) -> str:
    """Format a likelihood of superiority: from sampled games it is never 0 or 1."""
    return percent(min(1 - 1e-6, max(1e-6, value)))


def verdict(sentence: str) -> Html:
    """Return the headline of a page."""
    return element("p", sentence, class_="verdict")


def microseconds(seconds: float) -> str:
    """Format the duration of a move in a suitable unit."""
    for size, unit in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} us"


def join_names(names: Sequence[str]) -> str:
    """Join names in a sentence."""
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


# ---------------------------------------------------------------------------------------------------------------------
# Sections


def optional_section(title: str, build: Callable[[], Html]) -> Html:
    """Return a section, or a sentence with the reason for its absence."""
    shown, why = or_why(build)
    return section(title, left_out(f"Left out: {why}.")) if shown is None else shown


def settings(data: Data, command: Sequence[str] | None, names: Sequence[str]) -> Html:
    """Show the command that reproduces the result, and all settings that determine it."""
    kept = {name: data[name] for name in names if name in data}
    text = json.dumps(kept, indent=2)
    more = f"\n... and {len(text) - SETTINGS:,} letters more" if len(text) > SETTINGS else ""
    again = None if command is None else element("pre", element("code", shlex.join(["python", *command])))
    return section(
        "The same again",
        element("p", "The command that comes to the same result, with the same versions and the same seed:")
        if again
        else left_out("Left out: the command cannot be told from what is there."),
        again,
        details("All settings and versions", element("pre", element("code", text[:SETTINGS] + more))),
    )


def spec_in(data: Data, name: str) -> str:
    """Read a spec string without shortening; reject one that is too long or looks like a command option."""
    text = text_in(data, name)
    if not text or text.startswith("-") or text != data[name]:
        raise _wrong(name, data[name], "the spec string of a policy")
    return text


def where_they_differ(
    game: Game, found: Sequence[Data] | None, a: str, b: str, title: str = "Where the two differ most"
) -> Html:
    """Show boards on which two players play differently.

    Args:
        game: the game.
        found: of :meth:`evaluation.exact.strength.Difference.to_dict`; None if not computed.
        a, b: names of the players.
        title: of the section.
    """
    if found is None:
        return section(title, left_out("Left out: it is computed where both are pure and it takes seconds."))
    if not found:
        return section(title, element("p", "Wherever they come they play alike."))
    words = (
        "Blue cells are moves with their probabilities, framed ones are the best moves, where they are known. "
        "Positions are ordered by how far the two lie apart times how often a game between them comes there."
    )
    return section(title, element("p", words), *(_pair(game, one, a, b) for one in found))


def _pair(game: Game, one: Data, a: str, b: str) -> Html:
    """Show a position with the moves of both players."""
    apart, likely = number_in(one, "difference", 0, 1 + 1e-9), number_in(one, "likely", 0, 1 + 1e-9)
    told = f"{percent(min(1.0, apart))} of their moves differ; {percent(min(1.0, likely))} of games come here"
    figures = [
        position_figure(game, one, key, optional(one, loss, partial(number_in, low=0)), None, name)
        for key, loss, name in (("a", "loss_a", a), ("b", "loss_b", b))
    ]
    return element("div", element("p", told, class_="quiet"), boards_of(figures), class_="pair")


def position_figure(
    game: Game, one: Data, moves: str, loss: float | None, likely: float | None, name: str = ""
) -> Html:
    """Show a position with the moves played there.

    Args:
        game: the game.
        one: an object with ``position``, ``best`` (cells, or null), and under ``moves`` probabilities by cell.
        moves: key of the probabilities.
        loss: expected loss of value, if known.
        likely: probability that a game reaches the position, if shown.
        name: name of the player.
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
    about: tuple[object, ...] = ()
    if loss is not None:
        about = (
            ("loses nothing",)
            if loss <= VALUE_TOLERANCE
            else loses(loss, 1.0)[:2]
            if likely is None
            else loses(loss, likely)
        )
    return choice_figure(game, position, shares, best, about, name)
