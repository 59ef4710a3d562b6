"""Train a learner and write a run directory, or go on with one."""

from __future__ import annotations

import dataclasses
import json
import platform
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

import numpy as np
import tyro
from rich.console import Console

from evaluation.cost import Meter
from evaluation.exact import while_training
from learners import LEARNERS
from learners.base import Learner
from learners.checkpoint import (
    CHECKPOINT,
    CONFIG,
    COST,
    METRICS,
    MODEL,
    TAUGHT,
    build_config,
    load_checkpoint,
    read_config,
    save_checkpoint,
)
from learners.pool import NAME as POOL
from learners.pool import parse_pool
from learners.training import Progress, Task, Training, check_counts, initial_rng
from ttt_apps.cli import GameOptions, Stopped, progress_bar, run_command
from ttt_apps.metrics import EVENTS, Metrics
from ttt_envs.files import write_json
from ttt_envs.lockstep import SELF
from ttt_envs.policy import Policy, load_object, make_policy, nearest
from ttt_envs.rules import Game

BATCH = 256
"""games side by side, where a learner says nothing else"""
TEACHER = "teacher"
"""what stands for the opponent of a learner that is taught by its teacher's games"""


@dataclass(frozen=True)
class Options(GameOptions):
    """Train a learner by playing, and write a run directory that can be played as run:PATH.

    A run that was stopped, or killed, goes on with train.py --resume PATH, and ends as if nothing had happened.
    """

    learner: str = "q-learning"
    """naive-mc, q-learning, q-net, value-net, sb3-dqn, sb3-ppo or sb3-maskable-ppo; its own settings are options too,
    see --learner NAME --help"""
    opponent: str = "random"
    """who plays against it: a policy such as random or win-or-block; self; or pool:every=5000,size=8, its own earlier
    copies. value-net has none but its teacher, who plays against itself"""
    seat: Literal["first", "second", "random", "alternate"] = "alternate"
    """the learner's seat"""
    games: int = 50_000
    """how many games to play"""
    batch: int | None = None
    """how many games are played side by side; by default what suits the learner"""
    seed: int = 0
    """of everything random: the same seed and settings give the same learner"""
    out: Path | None = None
    """the run directory; by default runs/ and a name made of learner, game, opponent and seed"""
    overwrite: tyro.conf.FlagCreatePairsOff[bool] = False
    """replace a run that is already there"""
    log_every: int = 1_000
    """games between two lines of metrics.jsonl"""
    exact_every: int = 0
    """games between two exact measurements (exploitability, regret, result against the opponent), at lines of
    metrics.jsonl and at the end; 0 measures nothing"""
    checkpoint_games: int = 0
    """games between two checkpoints; 0 for as many as --checkpoint-seconds brings"""
    checkpoint_seconds: float = 30.0
    """seconds between two checkpoints; what was learned does not depend on when they are made"""

    def __post_init__(self) -> None:
        check_counts(self.games, 1 if self.batch is None else self.batch)
        wanted = {
            "log_every": (self.log_every >= 1, "1 or more games"),
            "exact_every": (self.exact_every >= 0, "0 (never), 1 or more games"),
            "checkpoint_games": (self.checkpoint_games >= 0, "0 (by time), 1 or more games"),
            "checkpoint_seconds": (self.checkpoint_seconds > 0, "more than 0 seconds"),
        }
        for name, (holds, admissible) in wanted.items():
            if not holds:
                raise ValueError(f"{name}={getattr(self, name)} does not work: choose {admissible}")

    def folder(self) -> Path:
        """Where the run goes."""
        if self.out is not None:
            return self.out
        game = self.game()
        skip = f"-skip{game.skip_chance:g}" if game.skip_chance else ""
        opponent = "".join(letter if letter.isalnum() or letter in "-." else "_" for letter in self.opponent)
        board = f"{game.rows}x{game.columns}-{game.win_length}{skip}"
        return Path("runs") / f"{self.learner}-{board}-{opponent}-seed{self.seed}"

    def stored(self) -> dict[str, Any]:
        """What ``config.json`` keeps, the game and the learner's settings apart."""
        left_out = {field.name for field in dataclasses.fields(GameOptions)} | {"out", "overwrite"}
        return {name: value for name, value in dataclasses.asdict(self).items() if name not in left_out}


@dataclass(frozen=True)
class Resume:
    """Go on with a run that was stopped or killed: it ends bit by bit as if it had never been."""

    resume: Path
    """the run directory"""
    games: int | None = None
    """how many games in all; as many as were asked for at first, or more"""


def main(arguments: list[str] | None = None) -> None:
    """The command ``ttt-train``."""
    run_command(lambda: _main(sys.argv[1:] if arguments is None else arguments))


def _main(arguments: list[str]) -> None:
    if any(argument.partition("=")[0] == "--resume" for argument in arguments):
        asked = tyro.cli(Resume, args=arguments, prog="train.py")
        resume_run(asked.resume, asked.games)
        return
    name = _learner_named(arguments)
    if name not in LEARNERS:
        raise ValueError(f"there is no learner {name!r}: {nearest(name, LEARNERS)}")
    config = load_object(LEARNERS[name])
    flat: Any = tyro.conf.OmitArgPrefixes
    joined = dataclasses.make_dataclass(
        "Train",
        [("run", flat[Options]), ("settings", flat[config])],
        namespace={"__doc__": Options.__doc__},
        frozen=True,
    )
    suited = {key: getattr(config, key) for key in ("games", "opponent") if hasattr(config, key)}
    default = joined(run=Options(learner=name, **suited), settings=config())
    parsed: Any = tyro.cli(joined, args=arguments, prog="train.py", default=default)
    train_run(parsed.run, parsed.settings)


def _learner_named(arguments: list[str]) -> str:
    """The learner that a command line names, before its other options can be read."""
    for index, argument in enumerate(arguments):
        if argument == "--learner" and index + 1 < len(arguments):
            return arguments[index + 1]
        if argument.startswith("--learner="):
            return argument.partition("=")[2]
    return Options.learner


def train_run(options: Options, settings: Any) -> Path:
    """Train, and write the run directory.

    Args:
        options: what to play.
        settings: the learner's config.

    Returns:
        The run directory.

    Raises:
        ValueError: options that make no sense, or a run that is already there.
        Stopped: a signal asked to stop; a checkpoint has been written.
    """
    meter = Meter()
    if options.batch is None:
        options = dataclasses.replace(options, batch=getattr(settings, "batch", BATCH))
    run, game = options.folder(), options.game()
    if (run / CONFIG).exists() and not options.overwrite:
        raise ValueError(
            f"{run} holds a run already: go on with it by train.py --resume {run}, choose another --out, or "
            f"--overwrite to replace it"
        )
    own_loop = hasattr(settings, "fit")
    training = None if own_loop else _training(options, settings, game)
    if own_loop:
        if options.opponent.partition(":")[0] == POOL:
            raise ValueError(f"{options.learner} trains in a loop of its own, without a pool: choose self or a policy")
        if hasattr(settings, TEACHER):
            if options.opponent != TEACHER:
                raise ValueError(
                    f"{options.learner} has no opponent {options.opponent}, it learns from games of its teacher: "
                    f"leave --opponent out, and choose a --teacher"
                )
            make_policy(settings.teacher, game)
        elif options.opponent != SELF:
            make_policy(options.opponent, game)
    run.mkdir(parents=True, exist_ok=True)
    for old in (CHECKPOINT, METRICS, COST, EVENTS, MODEL):
        (run / old).unlink(missing_ok=True)
    shutil.rmtree(run / TAUGHT, ignore_errors=True)
    config = {"format": 1, "game": game.to_dict(), **options.stored(), "settings": dataclasses.asdict(settings)}
    write_json(run / CONFIG, {**config, "versions": versions(), "revision": _revision()})
    meter.end("set-up")
    if training is None:
        return _told(options, game, run, _fit(settings, options, game, run, meter))
    return _told(options, game, run, _learn(training, options, run, 0, meter))


def resume_run(run: Path, games: int | None = None) -> Path:
    """Go on with a run from its last checkpoint, or from the start where there is none yet.

    Args:
        run: the run directory.
        games: how many games in all, where it is to be more than at first.

    Returns:
        The run directory.

    Raises:
        ValueError: no run, a damaged one, one that cannot be resumed, or fewer games than were asked for at first.
        Stopped: a signal asked to stop; a checkpoint has been written.
    """
    config = read_config(run)
    game = Game.from_dict(config["game"])
    settings = build_config(config["learner"], config["settings"])
    own_loop = hasattr(settings, "fit")
    if own_loop and (run / METRICS).exists() and not hasattr(settings, TEACHER):
        raise ValueError(
            f"{run} cannot be resumed, because {config['learner']} trains in a loop of its own: train anew, with "
            f"--out {run} --overwrite"
        )
    names = {field.name for field in dataclasses.fields(Options)}
    try:
        options = Options(**{name: value for name, value in config.items() if name in names}, out=run)
    except TypeError as problem:  # a word where a number should be
        raise ValueError(f"{run / CONFIG} cannot be read as the settings of a run: {problem}") from None
    if games is not None:
        if games < options.games:
            raise ValueError(f"--games {games} is fewer than the {options.games} of the run: choose that or more")
        options = dataclasses.replace(options, games=games)
    meter = Meter(json.loads((run / COST).read_text())["phases"] if (run / COST).is_file() else None)
    if own_loop:
        write_json(run / CONFIG, {**config, "games": options.games})
        return _told(options, game, run, _fit(settings, options, game, run, meter))
    training = _training(options, settings, game)
    size = 0
    if (run / CHECKPOINT).exists():
        parts = load_checkpoint(run)
        if {"learner", "training", "metrics"} - parts.keys():
            raise ValueError(f"{run / CHECKPOINT} is no checkpoint of a training that can go on: train anew")
        training.learner.from_arrays(parts["learner"])
        training.from_arrays(parts["training"])
        size = int(parts["metrics"]["size"][0])
    here = {"games": training.done.games, "versions": versions(), "revision": _revision()}
    write_json(run / CONFIG, {**config, "games": options.games, "resumed": [*config.get("resumed", []), here]})
    meter.end("set-up")
    return _told(options, game, run, _learn(training, options, run, size, meter))


def _training(options: Options, settings: Any, game: Game) -> Training:
    """The training at its start."""

    def build() -> Learner:
        learner: Learner = settings.build(game, initial_rng(options.seed))
        return learner

    opponent: str | Policy = options.opponent
    if opponent != SELF:
        opponent = parse_pool(options.opponent, build) or make_policy(options.opponent, game)
    return Training(
        build(), opponent, options.games, batch=options.batch or BATCH, seed=options.seed, seat=options.seat
    )


def _learn(training: Training, options: Options, run: Path, metrics_size: int, meter: Meter) -> Progress:
    """Train to the end, with checkpoints on the way and one at the end."""
    learner = training.learner
    saved_games, saved_at = training.done.games, time.monotonic()
    with Metrics(run, metrics_size, training.done.games) as metrics, _bar(options) as show, Interrupt() as interrupt:

        def save() -> None:
            nonlocal saved_games, saved_at
            size = np.array([metrics.size()])
            save_checkpoint(run, learner=learner.to_arrays(), training=training.to_arrays(), metrics={"size": size})
            meter.end("training")
            write_json(run / COST, {"format": 1, "phases": meter.phases})
            saved_games, saved_at = training.done.games, time.monotonic()

        def after_step(training: Training) -> bool:
            many = 0 < options.checkpoint_games <= training.done.games - saved_games
            if interrupt.asked or many or time.monotonic() - saved_at > options.checkpoint_seconds:
                save()
            return not interrupt.asked

        done = training.run(
            every=options.log_every,
            callbacks=_callbacks(options, training.learner.game, training.marked),
            log=metrics.write,
            progress=show,
            after_step=after_step,
        )
        if training.running:
            raise Stopped(f"stopped after {done.games:,} games: go on with train.py --resume {run}")
        save()
    return done


def _fit(settings: Any, options: Options, game: Game, run: Path, meter: Meter) -> Progress:
    """Let a learner train in its own loop."""
    with Metrics(run) as metrics, _bar(options) as show:
        task = Task(
            game=game,
            opponent=options.opponent,
            seat=options.seat,
            games=options.games,
            batch=options.batch or BATCH,
            seed=options.seed,
            run=run,
            every=options.log_every,
            callbacks=tuple(_callbacks(options, game, 0)),
            log=metrics.write,
            progress=show,
        )
        try:
            done: Progress = settings.fit(task)
        except KeyboardInterrupt:
            if not hasattr(settings, TEACHER):
                raise
            raise Stopped(f"stopped; the games so far are kept: go on with train.py --resume {run}") from None
    meter.end("training")
    write_json(run / COST, {"format": 1, "phases": meter.phases})
    return done


def _callbacks(options: Options, game: Game, marked: int) -> list[Callable[[int, Policy], dict[str, float]]]:
    """What to measure on the way."""
    if options.exact_every == 0:
        return []
    met = None if options.opponent.partition(":")[0] in (SELF, POOL, TEACHER) else options.opponent
    seat = {"first": 0, "second": 1}.get(options.seat)
    return [while_training(game, met, options.exact_every, options.games, seat=seat, start=marked)]


class Interrupt:
    """Within it a signal to stop is noted, so that the step can be finished; the second one stops at once.

    Attributes:
        asked: whether a signal came.
    """

    def __init__(self) -> None:
        self.asked = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._ask) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _ask(self, *_: object) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True


@contextmanager
def _bar(options: Options) -> Iterator[Callable[[Progress], None]]:
    """A progress bar."""
    with progress_bar("rate", "wins") as bar:
        task = bar.add_task("training", total=options.games, rate="", wins="")
        began = shown = time.perf_counter()
        first: int | None = None

        def show(done: Progress) -> None:
            nonlocal shown, first
            first = done.games if first is None else first
            now = time.perf_counter()
            if now - shown > 0.1 or done.games >= options.games:
                shown = now
                rate = f"{(done.games - first) / (now - began):,.0f} games/s"
                wins = f"won {done.wins / max(1, done.games):.1%}"
                bar.update(task, completed=done.games, rate=rate, wins=wins)

        yield show


def _told(options: Options, game: Game, run: Path, done: Progress) -> Path:
    console = Console(soft_wrap=True)
    console.print(
        f"{options.learner} learned from {done.games:,} games of {game}: player_0 won {done.wins:,}, "
        f"{done.draws:,} were drawn, player_1 won {done.losses:,}"
        if options.opponent == TEACHER
        else f"{options.learner} played {done.games:,} games of {game} against {options.opponent}: "
        f"{done.wins:,} won, {done.draws:,} drawn, {done.losses:,} lost, while exploring"
    )
    console.print(f"play it as [bold]run:{run}[/bold]")
    return run


def versions() -> dict[str, str]:
    """Of what results depend on, as far as it is installed."""
    found = {"python": platform.python_version()}
    for package in (
        "ttt_envs",
        "numpy",
        "numba",
        "gymnasium",
        "pettingzoo",
        "tensorflow",
        "stable_baselines3",
        "torch",
    ):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:  # an extra; or we ourselves, run from a checkout
            continue
    return found


def _revision() -> str | None:
    """The git revision of this code, where it is a checkout."""
    git = shutil.which("git")
    if git is None:
        return None
    here = Path(__file__).parent
    answer = subprocess.run([git, "rev-parse", "HEAD"], cwd=here, capture_output=True, text=True, check=False)
    return answer.stdout.strip() or None


if __name__ == "__main__":
    main()
