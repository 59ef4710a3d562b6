"""The base class of learner settings, the only interface that ``train.py`` uses, and types of
settings.

A type says which values are admissible, by ``Literal`` or by the limits of msgspec, as ``Fraction``
does.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, cast

import numpy as np
from msgspec import Meta, ValidationError, convert

from learners import LEARNERS
from learners.base import Checkpointable
from learners.training import POOL, GamesTraining, Pool, Trainer, TrainingLoop, make_initial_rng
from ttt_envs.agents.specs import TRUSTING, FromFile, load_object, make_policy, trusted
from ttt_envs.core.checks import Refusal, check_choice, find_named
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
"""-1 for one for each core; 0 is refused when a training is made."""
NumThreads = Annotated[int, Meta(ge=1, le=MAX_THREADS)] | Literal["auto"]
"""``"auto"`` for cores / processes."""
Layers = Annotated[
    tuple[Annotated[int, Meta(ge=1, le=8192)], ...], Meta(min_length=1, max_length=8)
]
"""Number of units of each hidden layer."""
TEACHER = "teacher"
"""Opponent name of a learner that is trained on its teacher's games."""


@dataclass(frozen=True)
class LearnerConfig:
    """Base class of settings: frozen dataclasses that define the command-line options.

    A subclass defines :meth:`build`, and ``loop`` if the learner has a loop of its own. The class
    variables suit most learners; a subclass overrides what does not suit it. Values are checked
    against the types of the fields, as :data:`Fraction` or a ``Literal``.

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
    self_play: ClassVar[Mapping[str, object]] = {}
    """Default settings in self-play, if they differ."""
    self_play_games: ClassVar[int] = 50_000
    """Default number of games in self-play."""
    self_play_openings: ClassVar[str] = ""
    """Default openings in self-play, of a learner that plays games from any."""
    report: ClassVar[Mapping[str, object] | None] = None
    """Settings of the learner's source, ``batch`` among them, for ``--settings report``; None if
    there is no such.
    """
    only_opponent: ClassVar[bool] = False
    """Whether it learns from games of ``opponent`` only."""
    loop: ClassVar[str] = ""
    """"module:Class" of its own :class:`~learners.training.TrainingLoop`, called with the learner,
    the number of games and those keywords of :meth:`training` that it names; "" for
    :class:`~learners.training.Trainer`."""
    resumes: ClassVar[bool] = True
    """Whether a stopped training continues, and a finished one to more games; else it starts again.
    """
    plays_games: ClassVar[bool] = True
    """Whether games are played; else ``games`` is a number of exact updates."""
    variants: ClassVar[tuple[str, ...]] = ()
    """Rules of ``game.VARIANTS`` that are supported, and ``game.HIDING`` if phantom games are."""
    needs: ClassVar[tuple[str, ...]] = ()
    """Names of the optional packages that a training imports."""
    test_settings: ClassVar[Mapping[str, object]] = {}
    """Settings of a training that takes a fraction of a second on 2 x 3, for the conformance suite;
    ``games`` among them.
    """

    def __post_init__(self) -> None:
        hints = typing.get_type_hints(type(self), include_extras=True)
        for field in dataclasses.fields(self):
            object.__setattr__(self, field.name, self._check(field.name, hints[field.name]))

    def _check(self, name: str, kind: object) -> object:
        """Return the value of a field, in its type: lists as tuples, because JSON has none, and
        integers as floats.
        """
        value = getattr(self, name)
        if typing.get_origin(kind) is Literal:
            check_choice(name, value, typing.get_args(kind))
            return value
        number = value.item() if isinstance(value, np.generic) else value
        try:
            field = convert(number, kind)
        except ValidationError as problem:
            rule = str(problem).replace("Expected", "choose", 1).replace("`", "")
            raise Refusal(f"{name}={value!r} does not work for {self.name}: {rule}") from None
        return value if isinstance(value, str) else field  # FromFile is a str

    def check_game(self, game: AnyGame) -> None:
        """Raise ValueError if a rule of the game is not supported."""
        reasons = dict.fromkeys(VARIANTS, "its configuration does not list it in `variants`")
        reasons[HIDING] = (
            "it reads the whole board, to value or search the positions after its moves"
        )
        check_variants(self.name, game, self.variants, reasons=reasons)

    def build(self, game: AnyGame, rng: np.random.Generator) -> Checkpointable:
        """Return an untrained learner."""
        raise NotImplementedError

    def training(
        self,
        game: AnyGame,
        games: int,
        *,
        batch: int,
        seed: int,
        opponent: str = "",
        seat: SeatChoice = "alternate",
        openings: str = "",
        cluster: str = "",
    ) -> TrainingLoop:
        """Return the training of a new, untrained learner.

        Args:
            game: the game.
            games: total number of games.
            batch: number of games in parallel.
            seed: seed of all random numbers.
            opponent: a spec string, a pool, or ``"self"``, the default of learners that have no
                other.
            seat: the learner's, as in :class:`~learners.training.GamesTraining`.
            openings: random positions with which games begin, as in
                :class:`~ttt_envs.envs.config.BoardConfig`, "" for the empty board.
            cluster: address of a cluster that plays the games, "" for none.

        Raises:
            ValueError: numbers out of range, an unknown opponent, one that the learner cannot learn
                from.
        """
        self.check_game(game)
        opponent = opponent or (self.opponent if self.only_opponent else SELF)
        if self.only_opponent and opponent != self.opponent:
            raise Refusal(
                f"{self.name} learns from games of {self.opponent} only: leave opponent={opponent} "
                "out"
            )
        loop = load_object(self.loop) if self.loop else Trainer
        plays_games = issubclass(loop, GamesTraining)
        options: dict[str, Any] = {
            "batch": batch,
            "seed": seed,
            "opponent": opponent,
            "seat": seat,
            "openings": openings or None,
            "cluster": cluster,
        }
        parameters = inspect.signature(loop).parameters
        if openings and "openings" not in parameters:
            raise Refusal(f"{self.name} plays no games from openings: leave {openings} out")

        def build() -> Any:  # a Learner, or a learner with a loop of its own
            return self.build(game, make_initial_rng(seed))

        if opponent.partition(":")[0] == POOL:
            if not plays_games:
                raise Refusal(
                    f"{self.name} trains in a loop of its own, without a pool: choose self or a "
                    "policy"
                )
            pool = make_policy(f"{Pool.__module__}:Pool{opponent[len(POOL) :]}", game)
            assert isinstance(pool, Pool)
            pool.build = build
            options["opponent"] = pool
        options = {name: value for name, value in options.items() if name in parameters}
        return cast("TrainingLoop", loop(build(), games=games, **options))


callers_classes: set[str] = set()
"""Classes that the caller of this process has named: files may name the same ones."""


def load_learner(name: str) -> type[LearnerConfig]:
    """Return the class of a learner's settings.

    Args:
        name: of :data:`learners.LEARNERS`, or ``"module:Class"``, a class of settings outside this
            package.

    Raises:
        ValueError: an unknown name, a class of anything else, or one that only an untrusted file
            names.
    """
    if ":" not in name:
        return cast("type[LearnerConfig]", load_object(find_named("learner", name, LEARNERS)))
    if isinstance(name, FromFile) and name not in callers_classes and not trusted():
        reason = (
            f"the learner {name!r} was read from a file, and is not of this package, so it can run "
            "any code"
        )
        raise Refusal(f"{reason}: if you trust its author, {TRUSTING}")
    callers_classes.add(name)
    kind = load_object(str(name))
    if not (isinstance(kind, type) and issubclass(kind, LearnerConfig)):
        raise Refusal(
            f"{name} is no class of a learner's settings: name one derived from LearnerConfig"
        )
    return kind
