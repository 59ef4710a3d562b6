"""The phantom game: players do not see the opponent's stones, and learn of a stone only by trying
its cell.

It is a game of its own, over a :class:`Game` with visible stones. What plays or measures hidden
stones accepts it by type; all else refuses it at one door, :func:`refuse_hidden`, to which
``parameters`` leads.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, get_args

from ttt_envs.core.checks import Refusal, check_choice
from ttt_envs.game.game import VARIANTS, Game
from ttt_envs.game.parameters import Parameters

Kind = Literal["classic", "abrupt"]
"""what follows an attempt on a hidden stone: another attempt, or the other player's turn"""
KINDS: tuple[Kind, ...] = get_args(Kind)
HIDING = "hidden"
"""name of the rule in lists of supported rules, for what plays without seeing the opponent's stones
"""


def _as_of_game() -> Any:
    """Return a field that is not an argument: its value is that of the visible game."""
    return field(init=False, repr=False, compare=False)


@dataclass(frozen=True)
class PhantomGame:
    """A game in which the opponent's stones are hidden, see :mod:`ttt_envs.game.attempts`.

    It offers what players know: board, goal and rules.

    Raises:
        ValueError: the kind is not known, or the game has gravity.
    """

    game: Game = Game()  # noqa: RUF009  # frozen
    """the same game with visible stones"""
    kind: Kind = "classic"

    gravity: ClassVar[bool] = False

    rows: int = _as_of_game()
    columns: int = _as_of_game()
    cells: int = _as_of_game()
    win_length: int = _as_of_game()
    skip_chance: float = _as_of_game()
    variants: dict[str, bool] = _as_of_game()  # noqa: RUF009  # a field
    """as of the game; hidden stones are not among them"""

    def __post_init__(self) -> None:
        check_choice("phantom", self.kind, KINDS)
        if self.game.gravity:
            raise Refusal(
                "gravity shows where hidden stones are: choose gravity=False, or no phantom game"
            )
        for name in ("rows", "columns", "cells", "win_length", "skip_chance", "variants"):
            object.__setattr__(self, name, getattr(self.game, name))

    @property
    def parameters(self) -> Parameters:
        """The door at which all is refused that needs to see the whole board.

        Raises:
            ValueError: always; the rules of lines and skips are those of ``game``.
        """
        return refuse_hidden(self).parameters

    def to_dict(self) -> dict[str, object]:
        """Return the game as JSON-ready data, for :func:`game_from_dict`."""
        return {**self.game.to_dict(), "phantom": self.kind}

    def __str__(self) -> str:
        return f"{self.game}, phantom ({self.kind})"

    @property
    def slug(self) -> str:
        """Short form for file names, as in ``3x3-3-phantom-classic``."""
        return f"{self.game.slug}-phantom-{self.kind}"


AnyGame = Game | PhantomGame
"""for what plays or measures both"""


def visible(game: AnyGame) -> Game:
    """Return the same game with visible stones."""
    return game.game if isinstance(game, PhantomGame) else game


def refuse_hidden(game: AnyGame) -> Game:
    """Return a game with visible stones.

    Raises:
        ValueError: a phantom game.
    """
    if isinstance(game, PhantomGame):
        raise Refusal(
            f"{game}: the opponent's stones are hidden, and what was called needs to see them: "
            "choose its visible "
            "game, PhantomGame.game, or what docs/rules.md lists, such as evaluate.py exact and "
            "exploitability"
        )
    return game


def game_from_dict(data: Mapping[str, Any]) -> AnyGame:
    """Return the game that ``to_dict`` of either stored.

    Raises:
        ValueError: as :meth:`Game.from_dict` and :class:`PhantomGame`.
    """
    if not isinstance(data, Mapping) or "phantom" not in data:
        return Game.from_dict(data)
    fields = dict(data)
    kind = fields.pop("phantom")
    return PhantomGame(Game.from_dict(fields), kind)


NOT_ADAPTED = "it is not adapted to it"
"""The reason for which a rule is not supported, if no other is given."""


def _label(rule: str) -> str:
    """Return the words for a rule that is not supported."""
    if rule == HIDING:
        return "hidden stones"
    return rule if VARIANTS[rule] else f"{rule}={VARIANTS[rule]}"


def check_variants(
    name: str,
    game: AnyGame,
    supported: Collection[str] = (),
    *,
    reasons: str | Mapping[str, str] = NOT_ADAPTED,
    instead: str = "random or optimal",
) -> None:
    """Raise ValueError if a game has a rule that a policy, learner or tool ``name`` does not
    support.

    Args:
        name: of the policy, learner or tool.
        game: the game.
        supported: those of :data:`VARIANTS` that it supports, and :data:`HIDING` if it plays
            without seeing the opponent's stones.
        reasons: why it does not support the others, after the word "because": for all, or by rule.
        instead: what supports them.
    """
    rules = [*game.variants]
    if isinstance(game, PhantomGame):
        rules.append(HIDING)
    problems = [rule for rule in rules if rule not in supported]
    if not problems:
        return
    labels = [_label(rule) for rule in problems]
    causes = [
        reasons if isinstance(reasons, str) else reasons.get(rule, NOT_ADAPTED) for rule in problems
    ]
    available = [rule for rule in supported if rule in VARIANTS]
    if HIDING in problems:
        advice = (
            "choose what plays by views, such as random, win-or-block or run:PATH, see "
            "docs/rules.md"
        )
        advice = f"{advice}, or the visible game, PhantomGame.game"
    else:
        advice = (
            f"it supports {', '.join(available)}"
            if available
            else "it supports the standard rules only"
        )
        advice = (
            f"{advice}; choose another, such as {instead}, or a game without {' and '.join(labels)}"
        )
    reason = "; ".join(dict.fromkeys(causes))
    raise Refusal(
        f"{name} does not support {' or '.join(labels)} of the game {game}, because {reason}: "
        f"{advice}"
    )
