"""The base class of learner settings, the only interface that ``train.py`` uses."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Required, TypedDict, Unpack, get_type_hints

import numpy as np

from learners import LEARNERS
from learners.limits import describe_mismatch
from learners.pool import NAME as POOL
from learners.pool import parse_pool
from learners.training import Progress, Task, Trainer, TrainingLoop, make_initial_rng
from ttt_envs.agents.policy import Policy
from ttt_envs.agents.specs import TRUSTING, FromFile, load_object, make_policy, trusted
from ttt_envs.core.checks import closest_names
from ttt_envs.envs.config import SELF, SeatChoice
from ttt_envs.game.game import VARIANTS
from ttt_envs.game.phantom import HIDING, AnyGame, check_variants

if TYPE_CHECKING:
    from learners.base import Checkpointable

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

    A subclass defines :meth:`build`, and overrides :meth:`training` and :meth:`check_opponent` if the learner has a
    stepwise loop of its own; one whose loop is another library's is a :class:`FitLearnerConfig`. The class variables
    suit most learners; a subclass overrides what does not suit it. Values are checked against the types of the fields,
    such as :data:`~learners.limits.Fraction` or a ``Literal``.

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
    own_loop: ClassVar[bool] = False
    """Whether the learner has a loop of its own, in place of :class:`~learners.training.Trainer`."""
    plays_games: ClassVar[bool] = True
    """Whether games are played; else ``games`` is a number of exact updates."""
    variants: ClassVar[tuple[str, ...]] = ()
    """Rules of ``game.VARIANTS`` that are supported, and ``game.HIDING`` if phantom games are."""
    refusal_reasons: ClassVar[Mapping[str, str]] = {}
    """Why others are not, by rule, after the word "because"."""

    def __post_init__(self) -> None:
        hints = get_type_hints(type(self), include_extras=True)
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            as_stored = tuple(value) if isinstance(value, list) else value  # JSON has no tuples
            if admissible := describe_mismatch(as_stored, hints[field.name]):
                raise ValueError(f"{field.name}={value!r} does not work for {self.name}: choose {admissible}")
            object.__setattr__(self, field.name, as_stored)

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
        if self.own_loop and opponent.partition(":")[0] == POOL:
            raise ValueError(f"{self.name} trains in a loop of its own, without a pool: choose self or a policy")
        if opponent != SELF and opponent.partition(":")[0] != POOL:
            make_policy(opponent, game)

    def training(self, game: AnyGame, games: int, **options: Unpack[TrainingOptions]) -> TrainingLoop:
        """Return the training of a new, untrained learner for a total number of games.

        Raises:
            ValueError: numbers out of range, an unknown opponent, one that the learner cannot learn from.
        """
        self.check_game(game)

        def build() -> Any:
            return self.build(game, make_initial_rng(options["seed"]))

        opponent = options.get("opponent", SELF)
        other: str | Policy = opponent
        if opponent != SELF:
            other = parse_pool(opponent, build) or make_policy(opponent, game)
        seat = options.get("seat", "alternate")
        return Trainer(build(), other, games, batch=options["batch"], seed=options["seed"], seat=seat)


class FitLearnerConfig(LearnerConfig):
    """Settings of a learner with a loop of another library, which cannot be saved between two steps: a checkpoint has
    the policy alone.
    """

    own_loop: ClassVar[bool] = True
    resumes: ClassVar[bool] = False
    """Whether ``fit`` resumes a stopped run, and extends a finished one to more games; else it starts again."""

    def fit(self, task: Task) -> Progress:
        """Train, and hand the policy to ``task.save``, at the end and perhaps before."""
        raise NotImplementedError


_named: set[str] = set()
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
    if isinstance(name, FromFile):
        if name not in _named and not trusted():
            raise ValueError(
                f"the learner {name!r} was read from a file, and is none of this package, so it can run any code: if "
                f"you trust its author, {TRUSTING}"
            )
    else:
        _named.add(name)
    kind = load_object(str(name))
    if not (isinstance(kind, type) and issubclass(kind, LearnerConfig)):
        raise ValueError(f"{name} is no class of a learner's settings: derive it from one in learners.config")
    return kind


def check_rewards(rewards: str, backup: str) -> None:
    """Raise ValueError for rewards that have no opposite, if the next value may be the opponent's."""
    if rewards == "report" and backup == "negamax":
        raise ValueError(
            'rewards="report" (1, 0.5, 0) has no opposite for the other player, which backup="negamax" needs: '
            'choose rewards="unit" or backup="agent"'
        )
