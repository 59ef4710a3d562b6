"""Numbers, intervals, names, verdicts and commands as text."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Sequence

from ttt_envs.agents.policy import VALUE_TOLERANCE
from ttt_envs.core.checks import Refusal
from ttt_envs.game.boards import to_text
from ttt_envs.game.game import Game, Position, default_win_length
from ttt_envs.game.phantom import AnyGame, PhantomGame, visible
from ttt_eval.matches.elo import elo_interval
from ttt_eval.runs.sweep import game_labels, to_command_line
from ttt_eval.store.statistics import Interval

MAX_EXPLORER_EDGE = 15
"""Maximum edge of a board in the explorer."""
MAX_EXPLORER_SKIP = 0.5
"""Maximum skip chance in the explorer."""
LINK_CHARACTERS = "=&./:,"
"""Characters of a link that are not escaped."""
three_digits: Callable[[float], str] = "{:z.3f}".format
"""Formats a score with three decimals, without a negative zero."""


def number(value: float) -> str:
    """Format a distance or a probability with four decimals; integers without, small ones with
    more.
    """
    if _is_whole(value):
        return f"{round(value)}"
    return f"{value:.4f}" if abs(value) >= 1e-3 else f"{value:.2g}"


def format_probability(value: float) -> str:
    """Format a probability for a cell of a board."""
    if _is_whole(value):
        return f"{round(value)}"
    return f"{value:.2f}" if value >= 0.01 else f"{value:.1g}"


def percent(value: float) -> str:
    """Format a probability as a percentage; as 0% and 100% only if equal up to rounding."""
    if _is_whole(value):
        return f"{100 * round(value)}%"
    if value < 0.0005:
        return "below 0.1%"
    return "over 99.9%" if value >= 0.9995 else f"{value:.1%}"


def likelihood(value: float) -> str:
    """Format a likelihood of superiority: from sampled games it is never 0 or 1."""
    return percent(min(1 - 1e-6, max(1e-6, value)))


def signed(value: float) -> str:
    """Format a value, -1 to 1, with its sign."""
    return "0" if abs(value) <= VALUE_TOLERANCE else f"{value:+.2f}"


def mebibytes(size: float) -> str:
    """Format a size in bytes."""
    return f"{size / 2**20:,.0f} MiB"


def duration(seconds: float) -> str:
    """Format the duration of a move in a suitable unit."""
    if seconds >= 1:
        return f"{seconds:.3g} s"
    if seconds >= 1e-3:
        return f"{seconds / 1e-3:.3g} ms"
    return f"{seconds / 1e-6:.3g} us"


def format_interval(value: Interval, write: Callable[[float], str] = number) -> str:
    """Format an estimate with its interval."""
    return (
        write(value.mean)
        if value.low == value.high
        else f"{write(value.mean)} ({format_ends(value, write)})"
    )


def format_ends(value: Interval, write: Callable[[float], str] = number) -> str:
    """Format the ends of an interval."""
    return f"{write(value.low)} to {write(value.high)}"


def format_elo(value: float) -> str:
    """Format a rating or a difference of ratings, with its sign and without insignificant
    digits.
    """
    if math.isinf(value):
        return "infinite" if value > 0 else "minus infinite"
    return "0" if round(value) == 0 else f"{value:+,.0f}"


def describe_best(
    names: Sequence[str], values: Sequence[str], undecided: int, group: str = ""
) -> str:
    """Say whether the first of several is best.

    Args:
        names: best first.
        values: the value of each, or of the first ones.
        undecided: number of others that are not distinguished from the first.
        group: what all of them are; by default their number.
    """
    group = group or str(len(names))
    if len(names) == 1:
        return f"{names[0]}: {values[0]}"
    if not undecided:
        second = f"; next is {names[1]}, {values[1]}" if len(values) > 1 else ""
        return f"{names[0]} is best of {group}: {values[0]}{second}"
    others = f"{undecided} others are"
    if undecided == 1:
        others = f"{names[1] if len(names) == 2 else '1 other'} is"
    first = f"Undecided: {names[0]} came out first of {group}, {values[0]}"
    return f"{first}, and {others} not distinguished from it"


def describe_better(a: str, b: str, score: Interval, superiority: float) -> str:
    """Name the better player, as far as the interval of a's score decides it; a draw counts half.

    Args:
        a, b: the players.
        score: of a.
        superiority: the likelihood that a is better.
    """
    if score.mean < 0.5:
        return describe_better(b, a, score.complement(), 1 - superiority)
    elo = format_interval(elo_interval(score), format_elo)
    value = f"Elo {elo}, likelihood of superiority {likelihood(superiority)}"
    return describe_best([a, b], [value], int(score.low <= 0.5))


def command(*words: str, **options: object) -> str:
    """Return a command with options, which have underscores; those of None are left out."""
    return shlex.join(["python", *words, *to_command_line(options)])


def game_options(game: AnyGame) -> list[str]:
    """Return a game's command options that differ from the default."""
    labels = game_labels(game)
    defaults = {
        "size": "3",
        "win_length": default_win_length(game.rows, game.columns),
        "skip_chance": 0.0,
    }
    options = {name: labels[name] for name, value in defaults.items() if labels[name] != value}
    rules = dict.fromkeys(visible(game).variant_names, True)
    return to_command_line({**options, **rules, "phantom": labels.get("phantom")})


def is_within_limits(game: AnyGame) -> bool:
    """Return whether the explorer may have a game."""
    is_large = (
        max(game.rows, game.columns) > MAX_EXPLORER_EDGE or game.skip_chance > MAX_EXPLORER_SKIP
    )
    return not (is_large or isinstance(game, PhantomGame))


def check_limits(game: Game) -> Game:
    """Return a game of the explorer; raise ValueError for any other."""
    if not is_within_limits(game):
        limits = f"edges up to {MAX_EXPLORER_EDGE} and a skip chance up to {MAX_EXPLORER_SKIP:g}"
        raise Refusal(f"{game} is not offered here: choose {limits}")
    return game


def explorer_link(game: AnyGame) -> str:
    """Return the part of a link to the explorer that names a game: "" for 3 x 3 without skips."""
    numbers = {
        "rows": (game.rows, 3),
        "columns": (game.columns, 3),
        "win": (game.win_length, default_win_length(game.rows, game.columns)),
        "skip": (game.skip_chance, 0.0),
    }
    parts = {name: str(value) for name, (value, default) in numbers.items() if value != default}
    parts |= {name: str(value).lower() for name, value in game.variants.items()}
    return "&".join(f"{name}={value}" for name, value in parts.items())


def explorer_command(game: AnyGame, position: Position) -> str:
    """Return the command that opens the explorer with a position; "" beyond its limits."""
    if not is_within_limits(game):
        return ""
    opening = f"opening={to_text(position, game)}" if position.cells.any() else ""
    link = "&".join(filter(None, [explorer_link(game), opening, "o=you", "x=you"]))
    return command("play.py", "web", "--open", link)


def _is_whole(value: float) -> bool:
    return abs(value - round(value)) <= VALUE_TOLERANCE
