"""What the settings of a learner say, whichever it is: ``train.py`` knows no learner but through this."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, get_type_hints

import numpy as np

from learners.pool import NAME as POOL
from learners.pool import parse_pool
from learners.training import Progress, Stepwise, Task, Training, initial_rng
from ttt_envs.lockstep import SELF, SeatChoice
from ttt_envs.policy import Policy
from ttt_envs.rules import Game
from ttt_envs.specs import make_policy

if TYPE_CHECKING:
    from pathlib import Path

    from learners.base import Learner, Stored

TEACHER = "teacher"
"""what stands for the opponent of a learner that is taught by its teacher's games"""


@dataclass(frozen=True)
class LearnerConfig:
    """The base of settings: frozen dataclasses from which the command line is made, of one of the kinds below.

    What stands here suits most learners; a class says what else suits its own.
    """

    name: ClassVar[str]
    """as in :data:`learners.LEARNERS`"""
    games: ClassVar[int] = 50_000
    """how many suit it"""
    batch: ClassVar[int] = 256
    """games side by side"""
    opponent: ClassVar[str] = "random"
    """who plays against it"""
    self_play: ClassVar[Mapping[str, Any]] = {}
    """settings that suit self-play, where they are not the defaults"""
    self_play_games: ClassVar[int] = 50_000
    """how many games suit self-play"""


class Builder(LearnerConfig, ABC):
    """Settings of a learner that our loops teach; a run of it that was stopped at any instant goes on."""

    @abstractmethod
    def build(self, game: Game, rng: np.random.Generator) -> Learner:
        """The learner, with nothing learned yet."""

    def training(
        self,
        game: Game,
        games: int,
        *,
        batch: int,
        seed: int,
        opponent: str = SELF,
        seat: SeatChoice = "alternate",
        cluster: str = "",
    ) -> Stepwise:
        """See :meth:`Looper.training`; whatever the cluster, the games are played here.

        Raises:
            ValueError: numbers out of range, an unknown opponent, one that the learner cannot learn from.
        """

        def build() -> Learner:
            return self.build(game, initial_rng(seed))

        other: str | Policy = opponent
        if opponent != SELF:
            other = parse_pool(opponent, build) or make_policy(opponent, game)
        return Training(build(), other, games, batch=batch, seed=seed, seat=seat)


class Looper(LearnerConfig, ABC):
    """Settings of a learner that goes on step by step in a loop of its own, as if our loops taught it.

    A run of it that was stopped at any instant goes on.
    """

    @abstractmethod
    def build(self, game: Game, rng: np.random.Generator) -> Stored:
        """The learner, with nothing learned yet."""

    @abstractmethod
    def training(
        self,
        game: Game,
        games: int,
        *,
        batch: int,
        seed: int,
        opponent: str = SELF,
        seat: SeatChoice = "alternate",
        cluster: str = "",
    ) -> Stepwise:
        """A learner with nothing learned yet, and its training at the start.

        Args:
            game: what is played.
            games: how many to play.
            batch: how many are played side by side.
            seed: of everything random.
            opponent: a spec string, a pool, or ``"self"``.
            seat: the learner's, as in :class:`~learners.training.Training`.
            cluster: the address of a cluster on which they are played, "" for none.
        """

    @abstractmethod
    def check_opponent(self, opponent: str, game: Game) -> None:
        """Look, before anything is done, whether it can learn from games against an opponent.

        Args:
            opponent: a spec string, or ``"self"``.
            game: what is played.

        Raises:
            ValueError: it cannot.
        """


class Fitter(LearnerConfig, ABC):
    """Settings of a learner with a loop of its own."""

    resumes: ClassVar[bool] = False
    """whether ``fit`` goes on from what a stopped one has left in the run, and from a finished one to more games;
    else it starts again"""

    @abstractmethod
    def fit(self, task: Task) -> Progress:
        """Train, and leave in ``task.run`` what :meth:`load` needs."""

    @abstractmethod
    def load(self, game: Game, run: Path) -> Policy:
        """What :meth:`fit` has learned, as a policy."""

    def check_opponent(self, opponent: str, game: Game) -> None:
        """Look, before anything is done, whether it can learn from games against an opponent.

        Raises:
            ValueError: it cannot.
        """
        if opponent.partition(":")[0] == POOL:
            raise ValueError(f"{self.name} trains in a loop of its own, without a pool: choose self or a policy")
        if opponent != SELF:
            make_policy(opponent, game)


AnyConfig = Builder | Looper | Fitter
"""the settings of any learner"""


_KINDS: Mapping[type, tuple[tuple[type, ...], str]] = {
    int: ((int, np.integer), "a whole number"),
    float: ((int, float, np.integer, np.floating), "a number"),
    bool: ((bool, np.bool_), "true or false"),
}


def check_kinds(config: LearnerConfig) -> None:
    """Raise ValueError for the first setting that is no whole number, number, or truth, where it should be one.

    16.0, as a file may have it, is no whole number, and true is no number.
    """
    for name, hint in get_type_hints(type(config)).items():
        for kind, (admissible, words) in _KINDS.items():
            if hint in (kind, kind | None):
                value = getattr(config, name)
                truth = isinstance(value, bool) and kind is not bool
                if truth or not (isinstance(value, admissible) or (value is None and hint != kind)):
                    raise ValueError(f"{name}={value!r} does not work for {config.name}: choose {words}")


def check_limits(config: LearnerConfig, limits: Mapping[str, tuple[bool, str]]) -> None:
    """Raise ValueError for the first setting whose value does not work; what does is said by name."""
    for name, (holds, admissible) in limits.items():
        if not holds:
            raise ValueError(f"{name}={getattr(config, name)} does not work for {config.name}: choose {admissible}")
