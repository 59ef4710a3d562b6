"""Draws of an environment for each episode, besides the seat: the skip chance, and the opening or first mover.

Both draws are counter-based, see :mod:`ttt_envs.core.random`: a function of the seed's key and the number of the
episode. So the single, the vector and the PettingZoo environment draw the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np

from ttt_envs.core.checks import check_choice
from ttt_envs.core.random import uniform
from ttt_envs.game.boards import Boards, check_opening, from_text
from ttt_envs.game.game import Game
from ttt_envs.game.phantom import AnyGame, PhantomGame
from ttt_envs.game.rules import STREAM_OPENING

SkipChance = float | Sequence[float]
"""a skip chance, or two or more, of which each episode draws one"""

First = Literal["player_0", "random"]
"""the player who makes the first move, or a draw of each episode"""


def make_games(
    size: int | tuple[int, int], win_length: int, skip_chance: SkipChance, variants: Mapping[str, Any] | None = None
) -> tuple[AnyGame, ...]:
    """Return the game of each skip chance, in the given order.

    ``variants`` are further fields, as of ``Game.of_size``, and ``phantom``, the kind of a phantom game or None.

    Raises:
        TypeError, ValueError: an argument of a game is invalid, or several skip chances are fewer than two or repeat.
    """
    rules = dict(variants or {})
    kind = rules.pop("phantom", None)
    chances = skip_chance if isinstance(skip_chance, (tuple, list)) else (skip_chance,)
    if chances is skip_chance and len(chances) < 2:
        single = f"write skip_chance={chances[0]!r}" if chances else "write for example skip_chance=0.25"
        raise ValueError(
            f"skip_chance={skip_chance!r} leaves nothing to draw: {single}, or two or more values, as in "
            f"skip_chance=(0, 0.5)"
        )
    games = tuple(Game.of_size(size, win_length, value, **rules) for value in chances)
    if len(set(games)) < len(games):
        raise ValueError(f"skip_chance={skip_chance!r} names a value twice: all values are drawn equally often")
    return games if kind is None else tuple(PhantomGame(game, kind) for game in games)


def make_openings(games: Sequence[AnyGame], openings: Sequence[str] | None, first: First = "player_0") -> Boards | None:
    """Return the openings of an environment as positions, None for the empty board with player_0 to move.

    Args:
        games: the game of each skip chance; an opening must be one of all of them.
        openings: positions as text.
        first: ``"random"`` are two openings, the empty board with either player to move.

    Raises:
        TypeError, ValueError: not a sequence of texts, or one is no position of an unfinished game; another ``first``,
            or a random one besides openings.
    """
    check_choice("first", first, get_args(First))
    if first == "random":
        if openings is not None:
            raise ValueError("first='random' is for the empty board, and openings name their mover: omit one of them")
        return Boards(np.zeros((2, games[0].cells), np.int8), np.array([0, 1], np.int8))
    if openings is None:
        return None
    if isinstance(openings, str) or not isinstance(openings, Sequence):
        raise TypeError(f"openings={openings!r} is no list of positions: write openings=['o../.../... x']")
    if not openings:
        raise ValueError("openings=[] leaves nothing to begin with: name one or more positions, or None for none")
    positions = []
    for text in openings:
        if not isinstance(text, str):
            raise TypeError(f"the opening {text!r} is no text: write rows and mover, as in 'o../.../... x'")
        positions.append(from_text(text, games[0]))
        for game in games:
            check_opening(game, positions[-1], f"the opening {text!r}")
    return Boards.from_positions(positions)


def draw_opening(episode_key: np.uint64, count: int) -> int:
    """Return the index of an episode's opening, uniform among ``count``."""
    return int(uniform(episode_key, STREAM_OPENING, 0) * count)
