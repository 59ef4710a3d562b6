"""What a training is asked, what suits which learner, and where its run goes."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from learners import LEARNERS
from learners.config import TEACHER, AnyConfig, LearnerConfig
from learners.pool import NAME as POOL
from learners.training import Marks, check_counts, dense_first
from ttt_apps.cli import (
    Count,
    GameOptions,
    check_seed,
)
from ttt_envs.lockstep import SELF
from ttt_envs.rules import Game
from ttt_envs.specs import load_object

MEASURED = 20_000
"""arrangements of stones up to which a learner is measured exactly at every line of its log: 3 x 3, skips or not"""
LONGEST = 100
"""letters of the name of a run, its seed apart"""


@dataclass(frozen=True)
class Options(GameOptions):
    """Train a learner by playing, and write a run directory that can be played as run:PATH, with a report to look at.

    A run that was stopped, or killed, goes on with train.py --resume PATH, and ends as if nothing had happened. Many
    runs that a file describes are trained by train.py --sweep FILE, see train.py --sweep FILE --help.
    """

    learner: str = "q-learning"
    """naive-mc, q-learning, q-net, alpha-zero, value-net, sb3-dqn, sb3-ppo or sb3-maskable-ppo; its own settings are
    options too, see --learner NAME --help, and evaluate.py learners"""
    opponent: str = LearnerConfig.opponent
    """who plays against it: a policy such as random or win-or-block; self, with settings and games that suit self-play
    by default; or pool:every=5000,size=8, its own earlier copies. value-net has none but its teacher, who plays against
    itself"""
    seat: Literal["first", "second", "random", "alternate"] = "alternate"
    """the learner's seat"""
    games: Count = LearnerConfig.games
    """how many games to play"""
    batch: Count | None = None
    """how many games are played side by side; by default what suits the learner"""
    seed: Count = 0
    """of everything random: the same seed and settings give the same learner"""
    out: Path | None = None
    """the run directory; by default runs/ and a name made of learner, game, opponent, what is not as by default, and
    seed"""
    overwrite: tyro.conf.FlagCreatePairsOff[bool] = False
    """replace a run that is already there"""
    log_every: Count | None = None
    """games between two lines of metrics.jsonl; by default few at first, up to a fiftieth of all"""
    exact_every: Count | None = None
    """games between two exact measurements (exploitability, regret, result against the opponent), at lines of
    metrics.jsonl and at the end; 0 measures nothing. By default at every line on boards up to 3 x 3, else never"""
    checkpoint_games: Count = 0
    """games between two checkpoints; 0 for as many as --checkpoint-seconds brings"""
    checkpoint_seconds: float = 30.0
    """seconds between two checkpoints; what was learned does not depend on when they are made"""
    cluster: Annotated[str, tyro.conf.arg(metavar="auto|HOST:PORT")] = ""
    """where a learner has a teacher: play the teacher's games on a cluster of Ray, auto for the one that was started
    here, or the address of its head"""
    no_report: tyro.conf.FlagCreatePairsOff[bool] = False
    """do not say at the end how good it is, and write no report.html"""

    def __post_init__(self) -> None:
        check_counts(self.games, 1 if self.batch is None else self.batch)
        check_seed(self.seed)
        wanted = {
            "log_every": (self.log_every is None or self.log_every >= 1, "1 or more games"),
            "exact_every": (self.exact_every is None or self.exact_every >= 0, "0 (never), 1 or more games"),
            "checkpoint_games": (self.checkpoint_games >= 0, "0 (by time), 1 or more games"),
            "checkpoint_seconds": (self.checkpoint_seconds > 0, "more than 0 seconds"),
        }
        for name, (holds, admissible) in wanted.items():
            if not holds:
                raise ValueError(f"{name}={getattr(self, name)} does not work: choose {admissible}")

    def marks(self) -> int | Marks:
        """When a line is written."""
        return dense_first(self.games) if self.log_every is None else self.log_every

    @property
    def met(self) -> str | None:
        """The opponent that a learner can be measured against; None in self-play, and of one with a teacher."""
        return None if self.opponent.partition(":")[0] in (SELF, POOL, TEACHER) else self.opponent

    def exact_games(self, game: Game) -> int:
        """Games between two exact measurements, 0 for none."""
        from evaluation.estimate import boards_by_stones

        if self.exact_every is None:
            return 1 if sum(boards_by_stones(game)) <= MEASURED else 0
        return self.exact_every

    def stored(self) -> dict[str, Any]:
        """What ``config.json`` keeps, the game and the learner's settings apart."""
        left_out = {field.name for field in dataclasses.fields(GameOptions)} | {"out", "overwrite", "cluster"}
        return {name: value for name, value in dataclasses.asdict(self).items() if name not in left_out}


def defaults_of(learner: str, opponent: str | None = None) -> tuple[Options, AnyConfig]:
    """What a learner is trained with where nothing is said: in self-play what suits self-play."""
    config = load_object(LEARNERS[learner])
    if opponent != SELF:
        return Options(learner=learner, games=config.games, opponent=config.opponent), config()
    usual = Options(learner=learner, games=config.self_play_games, opponent=config.opponent)
    return usual, config(**config.self_play)


def folder_of(options: Options, settings: AnyConfig) -> Path:
    """Where a run goes: a name that tells it from runs of another game, opponent, seed or of other settings."""
    if options.out is not None:
        return options.out
    game = options.game()
    parts = [options.learner, game.slug, options.opponent]
    usual, usual_settings = defaults_of(options.learner, options.opponent)
    for mine, theirs, names in (
        (settings, usual_settings, [field.name for field in dataclasses.fields(settings)]),
        (options, usual, ("seat", "games", "batch")),
    ):
        for name in names:
            value = getattr(mine, name)
            if value != getattr(theirs, name):
                parts.append(f"{name}{'x'.join(map(str, value)) if isinstance(value, tuple) else value}")
    return Path("runs") / f"{folder_name(parts)}-seed{options.seed}"


def folder_name(parts: Sequence[str]) -> str:
    """A name for a folder, of letters that all systems take; a hash stands for what is too long."""
    name = "-".join(parts)
    name = "".join(letter if letter.isascii() and (letter.isalnum() or letter in "-.") else "_" for letter in name)
    if len(name) > LONGEST:
        name = f"{name[:LONGEST]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
    return name
