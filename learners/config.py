"""The base class of learner settings, the only interface that ``train.py`` uses, and types of settings.

A type says which values are admissible, by ``Literal`` or by the limits of msgspec, as ``Fraction`` does.
"""

from __future__ import annotations

import dataclasses
import sys
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Required, TypedDict, Unpack

import numpy as np
from msgspec import Meta, ValidationError, convert

from learners import LEARNERS
from learners.base import Checkpointable
from learners.pool import NAME as POOL
from learners.pool import parse_pool
from learners.training import Trainer, TrainingLoop, make_initial_rng
from ttt_envs.agents.specs import TRUSTING, FromFile, load_object, make_policy, trusted
from ttt_envs.core.checks import check_choice, closest_names
from ttt_envs.core.work import MAX_THREADS
from ttt_envs.envs.config import SELF, SeatChoice
from ttt_envs.game.game import VARIANTS
from ttt_envs.game.phantom import HIDING, AnyGame, check_variants

Fraction = Annotated[float, Meta(ge=0, le=1)]
Positive = Annotated[float, Meta(gt=0, le=sys.float_info.max)]
NonNegative = Annotated[float, Meta(ge=0, le=sys.float_info.max)]
Rate = Annotated[float, Meta(gt=0, le=1)]
PositiveInt = Annotated[int, Meta(ge=1)]
NonNegativeInt = Annotated[int, Meta(ge=0)]
NumProcesses = Annotated[int, Meta(ge=-1)]
"""-1 for one for each core; 0 is refused where work begins."""
NumThreads = Annotated[int, Meta(ge=1, le=MAX_THREADS)] | Literal["auto"]
"""``"auto"`` for cores / processes."""
Layers = Annotated[tuple[Annotated[int, Meta(ge=1, le=8192)], ...], Meta(min_length=1, max_length=8)]
"""Number of units of each hidden layer."""
TEACHER = "teacher"
"""Opponent name of a learner that is trained on its teacher's games."""


class TrainingOptions(TypedDict, total=False):
    """Options of a training."""

    batch: Required[int]
    """number of games in parallel"""
    seed: Required[int]
    """seed of all random numbers"""
    opponent: str
    """a spec string, a pool, or ``"self"``, the default"""
    seat: SeatChoice
    """the learner's, as in :class:`~learners.training.Trainer`"""
    cluster: str
    """address of a cluster that plays the games, "" for none"""


@dataclass(frozen=True)
class LearnerConfig:
    """Base class of settings: frozen dataclasses that define the command-line options.

    A subclass defines :meth:`build`, and ``loop`` if the learner has a loop of its own. The class variables suit most
    learners; a subclass overrides what does not suit it. Values are checked against the types of the fields, as
    :data:`Fraction` or a ``Literal``.

    Raises:
        ValueError: a value does not fit its type, or two settings do not fit together.
    """

    name: ClassVar[str]
    """Key in :data:`learners.LEARNERS`."""
    games: ClassVar[int] = 50_000
    """Default number of games."""
    batch: ClassVar[int] = 256
    """Default number of games in parallel."""
    opponent: ClassVar[str] = "random"
    """Default opponent."""
    self_play: ClassVar[Mapping[str, Any]] = {}
    """Default settings in self-play, if they differ."""
    self_play_games: ClassVar[int] = 50_000
    """Default number of games in self-play."""
    report: ClassVar[Mapping[str, Any] | None] = None
    """Settings of the learner's source, ``batch`` among them, for ``--settings report``; None if there is no such."""
    only_opponent: ClassVar[bool] = False
    """Whether it learns from games of ``opponent`` only."""
    loop: ClassVar[str] = ""
    """"module:Class" of its own :class:`~learners.training.TrainingLoop`, called with the learner, the number of games
    and :class:`TrainingOptions`; "" for :class:`~learners.training.Trainer`."""
    resumes: ClassVar[bool] = True
    """Whether a stopped training continues, and a finished one to more games; else it starts again."""
    plays_games: ClassVar[bool] = True
    """Whether games are played; else ``games`` is a number of exact updates."""
    variants: ClassVar[tuple[str, ...]] = ()
    """Rules of ``game.VARIANTS`` that are supported, and ``game.HIDING`` if phantom games are."""
    refusal_reasons: ClassVar[Mapping[str, str]] = {}
    """Why others are not, by rule, after the word "because"."""

    def __post_init__(self) -> None:
        hints = typing.get_type_hints(type(self), include_extras=True)
        for field in dataclasses.fields(self):
            object.__setattr__(self, field.name, self._check(field.name, hints[field.name]))

    def _check(self, name: str, kind: Any) -> Any:
        """Return the value of a field, in its type: lists as tuples, because JSON has none, and integers as floats."""
        value = getattr(self, name)
        if typing.get_origin(kind) is Literal:
            check_choice(name, value, typing.get_args(kind))
            return value
        try:
            converted = convert(value.item() if isinstance(value, np.generic) else value, kind)
        except ValidationError as problem:
            rule = str(problem).replace("Expected", "choose", 1)
            raise ValueError(f"{name}={value!r} does not work for {self.name}: {rule}") from None
        return value if isinstance(value, str) else converted  # FromFile is a str

    def check_game(self, game: AnyGame) -> None:
        """Raise ValueError if a rule of the game is not supported."""
        default = dict.fromkeys((*VARIANTS, HIDING), "its configuration does not list it in `variants`")
        check_variants(self.name, game, self.variants, reasons={**default, **self.refusal_reasons})

    def build(self, game: AnyGame, rng: np.random.Generator) -> Checkpointable:
        """Return an untrained learner."""
        raise NotImplementedError

    def check_opponent(self, opponent: str, game: AnyGame) -> None:
        """Check beforehand that the learner can train against an opponent.

        Args:
            opponent: a spec string, a pool, or ``"self"``.
            game: the game.

        Raises:
            ValueError: it cannot.
        """
        if self.only_opponent and opponent != self.opponent:
            raise ValueError(f"{self.name} learns from games of {self.opponent} only, not against {opponent}")
        is_pool = opponent.partition(":")[0] == POOL
        if self.loop and is_pool:
            raise ValueError(f"{self.name} trains in a loop of its own, without a pool: choose self or a policy")
        if opponent not in (SELF, TEACHER) and not is_pool:
            make_policy(opponent, game)

    def training(self, game: AnyGame, games: int, **options: Unpack[TrainingOptions]) -> TrainingLoop:
        """Return the training of a new, untrained learner for a total number of games.

        Raises:
            ValueError: numbers out of range, an unknown opponent, one that the learner cannot learn from.
        """
        self.check_game(game)
        spec = options.setdefault("opponent", self.opponent if self.only_opponent else SELF)
        seed, seat = options["seed"], options.get("seat", "alternate")

        def build() -> Any:
            return self.build(game, make_initial_rng(seed))

        if self.loop:
            self.check_opponent(spec, game)
            loop: TrainingLoop = load_object(self.loop)(build(), games, **options)
            return loop
        return Trainer(build(), parse_pool(spec, build) or spec, games, batch=options["batch"], seed=seed, seat=seat)


named: set[str] = set()
"""Classes that the caller of this process has named: files may name the same ones."""


def load_learner(name: str) -> type[LearnerConfig]:
    """Return the class of a learner's settings.

    Args:
        name: of :data:`learners.LEARNERS`, or ``"module:Class"``, a class of settings outside this package.

    Raises:
        ValueError: an unknown name, a class of anything else, or one that only an untrusted file names.
    """
    if name in LEARNERS:
        kind: type[LearnerConfig] = load_object(LEARNERS[name])
        return kind
    if ":" not in name:
        raise ValueError(f"there is no learner {name!r}: {closest_names(name, LEARNERS)}")
    if isinstance(name, FromFile) and name not in named and not trusted():
        why = f"the learner {name!r} was read from a file, and is not of this package, so it can run any code"
        raise ValueError(f"{why}: if you trust its author, {TRUSTING}")
    named.add(name)
    kind = load_object(str(name))
    if not (isinstance(kind, type) and issubclass(kind, LearnerConfig)):
        raise ValueError(f"{name} is no class of a learner's settings: derive it from one in learners.config")
    return kind


def check_rewards(rewards: str, backup: str) -> None:
    """Raise ValueError for rewards that have no opposite, if the next value may be the opponent's."""
    if rewards == "report" and backup == "negamax":
        rule = 'rewards="report" (1, 0.5, 0) has no opposite for the other player, which backup="negamax" needs'
        raise ValueError(f'{rule}: choose rewards="unit" or backup="agent"')
