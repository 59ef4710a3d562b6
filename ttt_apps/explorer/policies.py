"""The policies of the explorer: those that can only play, in bounded time, and the settings that
they have here.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import cache
from typing import get_args

from baselines.exact import MAX_SOLVER_CELLS
from ttt_apps.explorer.root import Root
from ttt_envs.agents.specs import POLICIES, FromFile, convert_value, load_object, parse_spec
from ttt_envs.core.checks import Refusal, check_range, closest_names
from ttt_envs.game.game import Game

MAX_TABLE_CELLS = 12
"""Maximum number of cells of boards with tables of random play, computed and compressed in a
moment.
"""
MAX_SIMULATIONS = 5000
TABLE_POLICIES = ("optimal", "table", "svd", "hosvd", "hosvd2", "hooi", "tt")
"""Policies that need a table, of random play or of exact values: see :func:`max_cells`."""
OFFERED_POLICIES = ("random", "win-or-block", "expectiminimax", "mcts", "run", *TABLE_POLICIES)
NUMBERS = {
    "epsilon": (0, 1, "probability of a random move"),
    "depth": (1, 9, "plies to look ahead"),
    "width": (1, 4, "moves drawn at every node below the root; left out, all are tried"),
    "simulations": (1, MAX_SIMULATIONS, "for every move"),
    "c": (0, 100, "weight of exploration"),
    "temperature": (0, 10, "0 plays the most visited move"),
    "w": (0, 1000, "how much the table weighs"),
    "rank": (0, 1 << 10, "of the approximation"),
}
"""Arguments that can be set, with their bounds."""


@dataclass(frozen=True)
class Setting:
    """A setting of a policy: a number within bounds."""

    default: float | None
    low: float
    high: float
    whole: bool
    """whether it is a whole number"""
    about: str


@cache
def settings_of(name: str) -> dict[str, Setting]:
    """Return the settings of a policy: its arguments of :data:`NUMBERS`, in their order."""
    parameters = inspect.signature(load_object(POLICIES[name]), eval_str=True).parameters
    settings = {}
    for key in [key for key in parameters if key in NUMBERS]:
        low, high, summary = NUMBERS[key]
        kind = parameters[key].annotation
        is_whole = int in (kind, *get_args(kind))
        settings[key] = Setting(parameters[key].default, low, high, is_whole, summary)
    return settings


def check_spec(spec: str, game: Game, root: Root) -> FromFile:
    """Return the spec string if it is safe: it can only play, in bounded time.

    Raises:
        ValueError: any other.
    """
    name, first_value, arguments = parse_spec(spec)
    if name not in OFFERED_POLICIES:
        raise Refusal(
            f"there is no policy {name[:40]!a} here: {closest_names(name[:40], OFFERED_POLICIES)}"
        )
    if name in TABLE_POLICIES:
        check_table(game, name, max_cells(name))
    settings = settings_of(name)
    if first_value is not None:
        first_name = "path" if name == "run" else next(iter(settings), "")
        arguments = {first_name: first_value, **arguments}
    usage = name
    if name == "run":
        run = arguments.pop("path", "")
        spec = root.run(run).policy
        usage = f"run:{run}"
    for key, text in arguments.items():
        if key not in settings:
            hint = closest_names(key[:40], settings) if settings else f"write {usage}"
            raise Refusal(f"{name} has no setting {key[:40]!a} here: {hint}")
        setting = settings[key]
        high = max_depth(game) if key == "depth" else setting.high
        value = convert_value(name, key, text, int if setting.whole else float)
        check_range(f"{name}: {key}", value, setting.low, high, f"is not offered on {game}")
    return FromFile(spec)


def max_depth(game: Game) -> int:
    """Return the maximum depth of a search in plies."""
    for cells, depth in ((9, 9), (25, 6), (49, 5), (100, 4)):
        if game.cells <= cells:
            return min(depth, game.cells)
    return 3


def max_cells(name: str) -> int:
    """Return the maximum number of cells of boards that a policy of :data:`TABLE_POLICIES`
    plays.
    """
    return MAX_SOLVER_CELLS if name == "optimal" else MAX_TABLE_CELLS


def check_table(game: Game, purpose: str, cells: int = MAX_TABLE_CELLS) -> None:
    """Raise ValueError for a board of more than ``cells`` cells, on which a table is not computed
    in a moment.
    """
    if game.cells > cells:
        raise Refusal(
            f"{purpose} is not offered on {game}: choose up to {cells} cells, or a search"
        )
