"""Numbers, intervals and players as text."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ttt_envs.agents.policy import VALUE_TOLERANCE
from ttt_envs.game.game import default_win_length
from ttt_envs.game.phantom import AnyGame, PhantomGame
from ttt_eval.cost import is_number
from ttt_eval.matches.elo import elo_from_score
from ttt_eval.statistics import Interval


def number(value: float) -> str:
    """Format a distance: integers (up to rounding) without decimals, small ones with more."""
    if _is_whole(value):
        return f"{round(value)}"
    if abs(value) >= 1e-3:
        return f"{value:.4f}"
    return f"{value:.6f}" if abs(value) >= 1e-5 else f"{value:.1e}"


def share(value: float) -> str:
    """Format a probability with four decimals; as 0 and 1 only if equal up to rounding."""
    return f"{round(value)}" if _is_whole(value) else f"{value:.4f}"


def three_digits(value: float) -> str:
    """Format a score with three decimals, without a negative zero."""
    return f"{round(value, 3) + 0.0:.3f}"


def format_probability(value: float) -> str:
    """Format a probability for a cell of a board."""
    if _is_whole(value):
        return f"{round(value)}"
    return f"{value:.2f}" if value >= 0.01 else f"{value:.1g}"


def percent(value: float) -> str:
    """Format a probability as a percentage; as 0% and 100% only if equal up to rounding."""
    if _is_whole(value):
        return f"{100 * round(value)}%"
    return "below 0.1%" if value < 0.0005 else ("over 99.9%" if value > 0.9995 else f"{value:.1%}")


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
    for size, unit in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} us"


def format_interval(value: Interval, write: Callable[[float], str] = share) -> str:
    """Format an estimate with its interval."""
    return write(value.mean) if value.low == value.high else f"{write(value.mean)} ({format_ends(value, write)})"


def format_ends(value: Interval, write: Callable[[float], str] = share) -> str:
    """Format the ends of an interval."""
    return f"{write(value.low)} to {write(value.high)}"


def format_elo(value: float) -> str:
    """Format a rating without insignificant digits."""
    return format_elo_difference(value).removeprefix("+")


def format_elo_difference(value: float) -> str:
    """Format a difference of ratings, with its sign and without insignificant digits."""
    if math.isinf(value):
        return "infinite" if value > 0 else "minus infinite"
    return "0" if round(value) == 0 else f"{value:+,.0f}"


def elo_interval(score: Interval) -> Interval:
    """Convert an interval of scores to Elo differences; ends may be infinite."""
    return Interval(*map(elo_from_score, score))


def describe_better(a: str, b: str, score: Interval, superiority: float) -> str:
    """Name the better player, as far as the interval of a's score decides it.

    Args:
        a, b: the players.
        score: of a, a draw counting half.
        superiority: the likelihood that a is better.
    """
    if score.high < 0.5:
        return describe_better(b, a, Interval(1 - score.mean, 1 - score.high, 1 - score.low), 1 - superiority)
    elo = format_interval(elo_interval(score), format_elo_difference)
    if score.low > 0.5:
        return f"{a} is better than {b}: Elo {elo}, likelihood of superiority {likelihood(superiority)}"
    words = f"Elo of {a} {elo}, likelihood of superiority {likelihood(superiority)}"
    return f"Undecided whether {a} or {b} is better: {words}"


def join_names(names: Sequence[str]) -> str:
    """Join names in a sentence."""
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def whole_number(value: object) -> str:
    """Format a number of games from a file."""
    return f"{value:,.0f}" if is_number(value) else "?"


def game_options(game: AnyGame) -> list[str]:
    """Return a game's command options that differ from the default."""
    size = str(game.rows) if game.rows == game.columns else f"{game.rows}x{game.columns}"
    usual_length = default_win_length(game.rows, game.columns)
    options = ["--size", size] if size != "3" else []
    options += ["--win-length", str(game.win_length)] if game.win_length != usual_length else []
    options += ["--skip-chance", str(game.skip_chance)] if game.skip_chance else []
    options += [f"--{name}" if value else f"--no-{name}" for name, value in game.variants.items()]
    return [*options, "--phantom", game.kind] if isinstance(game, PhantomGame) else options


def _is_whole(value: float) -> bool:
    return abs(value - round(value)) <= VALUE_TOLERANCE
