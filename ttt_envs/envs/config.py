"""The arguments of all environments: each is defined, documented and checked once.

Environments take keywords, from which :func:`takes` makes their configuration; its ``Args`` are a
part of their docstrings. Each class below adds its arguments to those of the class above.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar, get_args

import numpy as np

from ttt_envs.agents.adapters import Opponent, as_policy
from ttt_envs.agents.observations import DType, Observation, ObservationBuilder
from ttt_envs.agents.policy import Policy
from ttt_envs.agents.specs import make_policy
from ttt_envs.core.checks import (
    Refusal,
    TypeRefusal,
    check_choice,
    check_properties,
    closest_names,
)
from ttt_envs.core.jit import Int64Array
from ttt_envs.game.boards import Boards, check_opening, from_text
from ttt_envs.game.game import VARIANTS, Game, Position
from ttt_envs.game.openings import random_openings
from ttt_envs.game.phantom import AnyGame, Kind, PhantomGame, visible
from ttt_envs.game.symmetry import symmetries

SeatChoice = Literal["first", "second", "random", "alternate"]
IllegalAction = Literal["lose", "penalize", "raise"]
Symmetry = Literal["none", "random"]
FirstPlayer = Literal["player_0", "random"]
Info = dict[str, Any]
"""infos of Gymnasium and PettingZoo: arrays and numbers by name"""
GameState = dict[str, Any]
"""a copied state: arrays by name, and what it must be restored with"""
Keywords = dict[str, Any]
"""keyword arguments by name"""
SkipChance = float | Sequence[float]
"""a skip chance, or two or more, of which each episode draws one"""
SELF = "self"
"""opponent name for self-play: the caller moves for both players"""


@dataclass(frozen=True)
class GameConfig:
    """The game: arguments of every environment, the text environments too.

    Args:
        size: edge of the board, or (rows, columns), 1 to 19.
        win_length: stones in a line needed to win; by default 3 up to a shorter edge of 3, 4 up to
            6, and 5 from 7 on; up to 2 x 2 the longer edge.
        skip_chance: probability of a skipped turn, in [0, 1); or several, as in (0, 0.5), of which
            each episode draws one, all equally often.
        gravity: stones fall to the lowest empty cell of their column, as in Connect Four, and
            actions are columns.
        overlines: longer lines count too; without them only lines of exactly win_length, as in
            standard gomoku.
        misere: a player who completes a line loses.
        torus: lines continue across the edges of the board, a torus.
    """

    size: int | tuple[int, int] = 3
    win_length: int | None = None
    skip_chance: SkipChance = 0.0
    _: KW_ONLY
    gravity: bool = False
    overlines: bool = True
    misere: bool = False
    torus: bool = False

    def __post_init__(self) -> None:
        check_properties(self, "games")

    @functools.cached_property
    def games(self) -> tuple[AnyGame, ...]:
        """The game of each skip chance, one or several."""
        chances = (
            self.skip_chance if isinstance(self.skip_chance, (tuple, list)) else (self.skip_chance,)
        )
        rules = {name: getattr(self, name) for name in VARIANTS}
        games = tuple(
            Game.of_size(self.size, self.win_length, chance, **rules) for chance in chances
        )
        if chances is self.skip_chance and (len(games) < 2 or len(set(games)) < len(games)):
            raise Refusal(
                f"skip_chance={self.skip_chance!r} must have two or more different values, all of "
                "them drawn equally "
                f"often: write skip_chance=(0, 0.5), or a number"
            )
        return games

    @property
    def game(self) -> AnyGame:
        """The first of them."""
        return self.games[0]


@dataclass(frozen=True, kw_only=True)
class BoardConfig(GameConfig):
    """Arguments of the environments that show boards.

    Args:
        phantom: 'classic' or 'abrupt' hides the opponent's stones until the caller tries their
            cells, see ttt_envs.game.attempts. Observations show the own stones and the found ones,
            and the mask has 0 for these. Pictures and clone_state are not for the players: they
            have all stones.
        symmetry: 'random' shows each episode under a random symmetry of the board; actions are
            mapped back.
        observe_skip_chance: adds the skip chance of the episode to observations: a last entry of
            'flat', a third plane, or skip_chance float32[1] in dicts.
        openings: positions as text, of which each episode begins with one, drawn uniformly; or
            'random:1-3:0.5' for 1 to 3 random plies in half of the episodes, of 4,096 positions
            that are always the same, 'random:1-3' in all, 'random:2' for two plies; None for the
            empty board.
        first_player: the player who moves first, 'player_0', or 'random': each episode draws one,
            both equally often.
        render_mode: None, 'ansi', 'rgb_array' or, where games are not in lockstep, 'human'.
    """

    phantom: Kind | None = None
    symmetry: Symmetry = "none"
    observe_skip_chance: bool = False
    openings: str | Sequence[str] | None = None
    first_player: FirstPlayer = "player_0"
    render_mode: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("symmetry", self.symmetry, get_args(Symmetry))
        check_choice("observe_skip_chance", self.observe_skip_chance, (False, True))
        check_choice("first_player", self.first_player, get_args(FirstPlayer))
        check_properties(self, "opening_positions")

    @functools.cached_property
    def games(self) -> tuple[AnyGame, ...]:
        """The game of each skip chance, with the stones that it hides."""
        games = super().games
        if self.phantom is None:
            return games
        return tuple(PhantomGame(visible(game), self.phantom) for game in games)

    @functools.cached_property
    def opening_positions(self) -> Boards | None:
        """The positions that episodes begin with; None for the empty board with player_0 to
        move.
        """
        if self.first_player == "random":
            if self.openings is not None:
                raise Refusal(
                    "first_player='random' is for the empty board, and openings name their mover: "
                    "omit one of them"
                )
            return Boards(np.zeros((2, self.game.cells), np.int8), np.array([0, 1], np.int8))
        if self.openings is None:
            return None
        if isinstance(self.openings, str):
            # of the game with the fewest skips, whose positions are those of all
            game = min(self.games, key=lambda game: game.skip_chance)
            return random_openings(self.openings, visible(game))
        if not isinstance(self.openings, Sequence):
            raise TypeRefusal(
                f"openings={self.openings!r} is no list of positions: write openings=['o../.../... "
                "x']"
            )
        if not self.openings:
            raise Refusal(
                "openings=[] leaves nothing to begin with: name one or more positions, or None for "
                "none"
            )
        return Boards.from_positions(
            [self.to_position(text, f"the opening {text!r}") for text in self.openings]
        )

    def to_position(self, text: object, name: str) -> Position:
        """Return the opening with this text, an opening of all games; ``name`` is for messages.

        Raises:
            TypeError, ValueError: it is no text, or no position of an unfinished game.
        """
        if not isinstance(text, str):
            raise TypeRefusal(f"{name} is no text: write rows and mover, as in 'x.o/.../..o x'")
        position = from_text(text, self.game)
        for game in self.games:
            check_opening(game, position, name)
        return position

    @functools.cached_property
    def permutations(self) -> Int64Array:
        """int64[S, cells]: the symmetries under which episodes are seen."""
        return symmetries(self.game, "all" if self.symmetry == "random" else "none")


@dataclass(frozen=True, kw_only=True)
class EnvConfig(BoardConfig):
    """Arguments of the environments in which the caller plays against an opponent.

    Args:
        opponent: a spec string such as 'random', a Policy, 'self' (the caller moves for both
            players), or an argument of ttt_envs.as_policy, which gets the caller's kind of
            observation, from the opponent's seat. Or a list of pairs (opponent, start), as in
            [('random', 0), ('optimal', 20000)]: each plays in episodes that begin after so many
            steps of the game since seeding. With several skip chances, an opponent named by a spec
            string knows the one of the episode.
        seat: the caller's seat: 'first', 'second', 'random' or 'alternate' (starting with first).
        observation: 'flat' [2 * cells] own stones, then the opponent's; 'planes' [rows, columns,
            2]; 'channels' [2, rows, columns]; or 'dict' with observation (planes) and action_mask.
        dtype: of the observation, 'float32' as networks need it, or 'int8'.
        illegal_action: 'lose' (-1, terminated), 'penalize' (-1, no move; truncated after as many as
            cells) or 'raise'.
    """

    opponent: Opponent = "random"
    seat: SeatChoice = "first"
    observation: Observation = "flat"
    dtype: DType = "float32"
    illegal_action: IllegalAction = "lose"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("seat", self.seat, get_args(SeatChoice))
        check_choice("illegal_action", self.illegal_action, get_args(IllegalAction))
        check_properties(self, "observations", "opponents")

    @functools.cached_property
    def observations(self) -> ObservationBuilder:
        """Builds spaces and observations."""
        return ObservationBuilder(self.game, self.observation, self.dtype, self.observe_skip_chance)

    @property
    def is_flat(self) -> bool:
        """Whether observations are the numbers of ``flat`` alone, and infos have no skip chance:
        the common case.
        """
        return self.observation == "flat" and not self.observe_skip_chance and len(self.games) == 1

    @property
    def schedule(self) -> list[tuple[Opponent, int]]:
        """The pairs of ``opponent`` and the number of steps after which it plays; none in
        self-play.

        Raises:
            TypeError, ValueError: an entry is no pair, or the starts do not increase from 0.
        """
        if isinstance(self.opponent, str) and self.opponent == SELF:
            return []
        if isinstance(self.opponent, Policy) or not isinstance(self.opponent, (list, tuple)):
            return [(self.opponent, 0)]
        example = "write for example opponent=[('random', 0), ('win-or-block', 20000)]"
        for pair in self.opponent:
            if not isinstance(pair, (tuple, list)) or len(pair) != 2 or type(pair[1]) is not int:
                raise TypeRefusal(
                    f"the entry {pair!r} of a schedule is no pair of an opponent and its start: "
                    f"{example}"
                )
            if isinstance(pair[0], str) and pair[0] == SELF:
                raise Refusal(
                    "a schedule of opponents cannot hold 'self': self-play is opponent='self' alone"
                )
        starts = [start for _, start in self.opponent]
        if starts != sorted({0, *starts}):
            raise Refusal(
                f"the starts {starts} of a schedule of opponents must increase from 0: {example}"
            )
        return [(opponent, start) for opponent, start in self.opponent]

    @functools.cached_property
    def opponents(self) -> tuple[tuple[Policy, ...], ...]:
        """The opponents by stage of the schedule, then by skip chance; none in self-play."""

        def policy(opponent: Opponent, game: AnyGame) -> Policy:
            if isinstance(opponent, str):
                return make_policy(opponent, game)
            return as_policy(
                opponent,
                game,
                self.observation,
                dtype=self.dtype,
                observe_skip_chance=self.observe_skip_chance,
            )

        return tuple(
            tuple(policy(opponent, game) for game in self.games) for opponent, _ in self.schedule
        )


# --------------------------------------------------------------------------------------------------
# Keywords of environments


def game_keywords(game: AnyGame) -> Keywords:
    """Return the keywords of environments that play this game."""
    board = visible(game)
    keywords: Keywords = {
        "size": (board.rows, board.columns),
        "win_length": board.win_length,
        "skip_chance": board.skip_chance,
        **board.variants,
    }
    if isinstance(game, PhantomGame):
        keywords["phantom"] = game.kind
    return keywords


Config = TypeVar("Config")
Parameters = ParamSpec("Parameters")
Instance = TypeVar("Instance")
Class = TypeVar("Class", bound=type)


def takes(
    config: Callable[Parameters, Config],
) -> Callable[
    [Callable[[Instance, Config], None]], Callable[Concatenate[Instance, Parameters], None]
]:
    """Decorate an ``__init__`` that takes a configuration: it then takes the keywords from which
    that is made.

    An unknown keyword has the error of Python, in whose words other libraries look for one that
    they may leave out, and the closest keyword.
    """
    signature = inspect.signature(config)

    def decorate(
        init: Callable[[Instance, Config], None],
    ) -> Callable[Concatenate[Instance, Parameters], None]:
        def initialize(
            self: Instance, /, *args: Parameters.args, **kwargs: Parameters.kwargs
        ) -> None:
            for name in kwargs.keys() - signature.parameters.keys():
                hint = closest_names(
                    {"rows": "size", "columns": "size"}.get(name, name), signature.parameters
                )
                raise TypeRefusal(
                    f"{type(self).__name__}.__init__() got an unexpected keyword argument "
                    f"{name!r}: {hint}"
                )
            init(self, config(*args, **kwargs))

        functools.update_wrapper(initialize, init)
        instance = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        # mypy does not know that functions may have a signature of their own
        initialize.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=[instance, *signature.parameters.values()]
        )
        return initialize

    return decorate


def environment(config: type) -> Callable[[Class], Class]:
    """Decorate an environment whose ``__init__`` :func:`takes` a configuration: add its ``Args`` to
    the docstring.
    """

    def decorate(kind: Class) -> Class:
        sections = [
            (base.__doc__ or "").partition("\n    Args:\n")[2].rstrip()
            for base in reversed(config.__mro__)
        ]
        arguments = "\n".join(filter(None, sections))
        kind.__doc__ = f"{(kind.__doc__ or '').rstrip()}\n\n    Args:\n{arguments}\n    "
        return kind

    return decorate
