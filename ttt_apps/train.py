"""Train a learner and write a run directory, or go on with one."""

from __future__ import annotations

import dataclasses
import hashlib
import platform
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

import numpy as np
import tyro

from evaluation.cost import Meter
from evaluation.estimate import affordable, boards_by_stones
from evaluation.exact import while_training
from evaluation.report import REPORT, write_report
from evaluation.report_parts import read_cost
from evaluation.strength import Strength, strength_of
from learners import LEARNERS
from learners.base import Learner, self_play_of
from learners.checkpoint import (
    CHECKPOINT,
    CONFIG,
    COST,
    METRICS,
    MODEL,
    TAUGHT,
    build_config,
    load_checkpoint,
    policy_name,
    read_training,
    save_checkpoint,
)
from learners.pool import NAME as POOL
from learners.pool import parse_pool
from learners.training import Marks, Progress, Task, Training, check_counts, dense_first, initial_rng
from ttt_apps.cli import (
    GLOBAL,
    Count,
    GameOptions,
    Stopped,
    as_called,
    check_seed,
    option_names,
    parse,
    progress_bar,
    run_command,
    say,
    slow_status,
    tell,
    trust_files,
    words_of,
)
from ttt_apps.metrics import EVENTS, Metrics
from ttt_envs.files import held, tidy, write_json
from ttt_envs.lockstep import SELF
from ttt_envs.policy import Policy, load_object, make_policy, nearest
from ttt_envs.rules import Game

BATCH = 256
"""games side by side, where a learner says nothing else"""
MEASURED = 20_000
"""arrangements of stones up to which a learner is measured exactly at every line of its log: 3 x 3, skips or not"""
WARM = 4
"""games that are played to have everything compiled"""
COMPARED = ("random", "optimal")
"""whom a learner is measured against at the end, beside its own opponent"""
LONGEST = 100
"""letters of the name of a run, its seed apart"""
TEACHER = "teacher"
"""what stands for the opponent of a learner that is taught by its teacher's games"""


@dataclass(frozen=True)
class Options(GameOptions):
    """Train a learner by playing, and write a run directory that can be played as run:PATH, with a report to look at.

    A run that was stopped, or killed, goes on with train.py --resume PATH, and ends as if nothing had happened.
    """

    learner: str = "q-learning"
    """naive-mc, q-learning, q-net, value-net, sb3-dqn, sb3-ppo or sb3-maskable-ppo; its own settings are options too,
    see --learner NAME --help, and evaluate.py learners"""
    opponent: str = "random"
    """who plays against it: a policy such as random or win-or-block; self, with settings and games that suit self-play
    by default; or pool:every=5000,size=8, its own earlier copies. value-net has none but its teacher, who plays against
    itself"""
    seat: Literal["first", "second", "random", "alternate"] = "alternate"
    """the learner's seat"""
    games: Count = 50_000
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

    def exact_games(self, game: Game) -> int:
        """Games between two exact measurements, 0 for none."""
        if self.exact_every is None:
            return 1 if sum(boards_by_stones(game)) <= MEASURED else 0
        return self.exact_every

    def stored(self) -> dict[str, Any]:
        """What ``config.json`` keeps, the game and the learner's settings apart."""
        left_out = {field.name for field in dataclasses.fields(GameOptions)} | {"out", "overwrite"}
        return {name: value for name, value in dataclasses.asdict(self).items() if name not in left_out}


@dataclass(frozen=True)
class Resume:
    """Go on with a run that was stopped or killed: it ends bit by bit as if it had never been."""

    resume: Path
    """the run directory"""
    games: Count | None = None
    """how many games in all; as many as were asked for at first, or more"""
    trust: tyro.conf.FlagCreatePairsOff[bool] = False
    """run code that the files of the run name: an opponent or a teacher that is a class of yours, or a zip of sb3:PATH.
    Without it they may name built-in policies only"""


def main(arguments: Sequence[str] | None = None) -> None:
    """The command ``ttt-train``."""
    run_command(lambda: _main(words_of(arguments)))


def _main(arguments: list[str]) -> None:
    prog = as_called("train.py")
    if any(argument.partition("=")[0] == "--resume" for argument in arguments):
        old = parse(Resume, arguments, prog)
        if old.trust:
            trust_files()
        resume_run(old.resume, old.games)
        return
    name = _named(arguments, "--learner") or Options.learner
    if name not in LEARNERS:
        raise ValueError(f"there is no learner {name!r}: {nearest(name, LEARNERS)}")
    default = defaults_of(name, _named(arguments, "--opponent"))
    flat: Any = tyro.conf.OmitArgPrefixes
    joined: Any = dataclasses.make_dataclass(
        "Train",
        [("run", flat[Options]), ("settings", flat[load_object(LEARNERS[name])])],
        namespace={"__doc__": f"{Options.__doc__}\n\n    {GLOBAL}"},
        frozen=True,
    )
    asked = parse(joined, arguments, prog, default=joined(*default), elsewhere=lambda: _settings_of_others(name))
    train_run(asked.run, asked.settings)


def _named(arguments: Sequence[str], option: str) -> str | None:
    """What a command line gives for an option on which the defaults of others depend; None where it does not."""
    for index, argument in enumerate(arguments):
        if argument == option and index + 1 < len(arguments):
            return arguments[index + 1]
        if argument.startswith(f"{option}="):
            return argument.partition("=")[2]
    return None


def defaults_of(learner: str, opponent: str | None = None) -> tuple[Options, Any]:
    """What a learner is trained with where nothing is said: in self-play what suits self-play."""
    config = load_object(LEARNERS[learner])
    suited = {key: getattr(config, key) for key in ("games", "opponent") if hasattr(config, key)}
    if opponent != SELF:
        return Options(learner=learner, **suited), config()
    games = {"games": getattr(config, "self_play_games", Options.games)}
    return Options(learner=learner, **{**suited, **games}), config(**self_play_of(config))


def _settings_of_others(learner: str) -> dict[str, list[str]]:
    """Options that are settings of other learners, and of which."""
    found: dict[str, list[str]] = {}
    for other in sorted(LEARNERS):
        if other != learner:
            for option in option_names(load_object(LEARNERS[other])):
                found.setdefault(option, []).append(other)
    return found


def folder_of(options: Options, settings: Any) -> Path:
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
    name = "-".join(parts)
    name = "".join(letter if letter.isascii() and (letter.isalnum() or letter in "-.") else "_" for letter in name)
    if len(name) > LONGEST:
        name = f"{name[:LONGEST]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
    return Path("runs") / f"{name}-seed{options.seed}"


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
    run, game = folder_of(options, settings), options.game()
    if options.batch is None:
        options = dataclasses.replace(options, batch=getattr(settings, "batch", BATCH))
    if (run / CONFIG).exists() and not options.overwrite:
        raise ValueError(
            f"{run} holds a run already: go on with it by train.py --resume {run}, choose another --out, or "
            f"--overwrite to replace it"
        )
    own_loop = hasattr(settings, "fit")
    training = None if own_loop else _training(options, settings, game)
    if own_loop:
        _check_own_loop(options, settings, game)
    run.mkdir(parents=True, exist_ok=True)
    with _held(run):
        return _train_run(options, settings, game, run, training, meter)


def _train_run(options: Options, settings: Any, game: Game, run: Path, training: Training | None, meter: Meter) -> Path:
    """The same in a folder that is held."""
    for old in (CHECKPOINT, METRICS, COST, EVENTS, MODEL, REPORT):
        (run / old).unlink(missing_ok=True)
    shutil.rmtree(run / TAUGHT, ignore_errors=True)
    config = {"format": 1, "game": game.to_dict(), **options.stored(), "settings": dataclasses.asdict(settings)}
    write_json(run / CONFIG, {**config, "versions": versions(), "revision": _revision()})
    meter.end("set-up")
    if training is None:
        done = _fit(settings, options, game, run, meter)
    else:
        warm(settings, options, game, meter)
        done = _learn(training, options, run, 0, meter)
    return _ended(options, game, run, done, meter)


def _check_own_loop(options: Options, settings: Any, game: Game) -> None:
    """Raise ValueError for whom a learner with a loop of its own cannot learn from, before anything is done."""
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


def resume_run(run: Path, games: int | None = None) -> Path:
    """Go on with a run from its last checkpoint, or from the start where there is none yet; no other process may.

    Args:
        run: the run directory.
        games: how many games in all, where it is to be more than at first.

    Returns:
        The run directory.

    Raises:
        ValueError: no run, a damaged one, one that cannot be resumed, or fewer games than were asked for at first.
        Stopped: a signal asked to stop; a checkpoint has been written.
    """
    read_training(run)  # so that a folder that is no run is told first
    with _held(run):
        return _resume_run(run, games)


@contextmanager
def _held(run: Path) -> Iterator[None]:
    """Hold the folder of a run, and remove what writers that were killed have left in it."""
    with held(run):
        tidy(run, (CONFIG, CHECKPOINT, METRICS, COST, MODEL, REPORT))
        if not (run / TAUGHT).is_symlink():
            unfinished = (run / TAUGHT).glob("[0-9]*.npz*.tmp")
            tidy(run / TAUGHT, {f"{path.name.partition('.')[0]}.npz" for path in unfinished})
        yield


def _resume_run(run: Path, games: int | None) -> Path:
    """The same in a folder that is held."""
    config = read_training(run)
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
    meter = Meter(read_cost(run))
    if own_loop:
        if (run / MODEL).exists() and options.games == config["games"]:
            return _finished(options, run)
        _check_own_loop(options, settings, game)
        write_json(run / CONFIG, {**config, "games": options.games})
        return _ended(options, game, run, _fit(settings, options, game, run, meter), meter)
    size = 0
    if not (run / CHECKPOINT).exists():
        training = _training(options, settings, game)
    else:
        parts = load_checkpoint(run)
        if {"learner", "training", "metrics"} - parts.keys() or "live" not in parts["training"]:
            raise ValueError(f"{run / CHECKPOINT} is no checkpoint of a training that can go on: train anew")
        # a run of fewer games than its batch played so many side by side, and goes on so
        side_by_side = max(1, min(options.batch or BATCH, parts["training"]["live"].size))
        training = _training(dataclasses.replace(options, batch=side_by_side), settings, game)
        training.learner.from_arrays(parts["learner"])
        training.from_arrays(parts["training"])
        size = int(parts["metrics"]["size"][0])
        if not training.running:
            return _finished(options, run)
    here = {"games": training.done.games, "versions": versions(), "revision": _revision()}
    write_json(run / CONFIG, {**config, "games": options.games, "resumed": [*config.get("resumed", []), here]})
    meter.end("set-up")
    warm(settings, options, game, meter)
    return _ended(options, game, run, _learn(training, options, run, size, meter), meter)


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
            every=options.marks(),
            callbacks=_callbacks(options, training.learner.game, training.marked, meter),
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
            every=options.marks(),
            callbacks=tuple(_callbacks(options, game, 0, meter)),
            log=metrics.write,
            progress=show,
        )
        try:
            with _terminable():
                done: Progress = settings.fit(task)
        except KeyboardInterrupt:
            if not hasattr(settings, TEACHER):
                raise
            raise Stopped(f"stopped; the games so far are kept: go on with train.py --resume {run}") from None
    meter.end("training")
    write_json(run / COST, {"format": 1, "phases": meter.phases})
    return done


def _callbacks(
    options: Options, game: Game, marked: int, meter: Meter
) -> list[Callable[[int, Policy], dict[str, float]]]:
    """What to measure on the way, which is a phase of its own."""
    every = options.exact_games(game)
    if every == 0:
        return []
    seat = {"first": 0, "second": 1}.get(options.seat)
    measure = while_training(game, met(options), every, options.games, seat=seat, start=marked)

    def measured(games: int, learner: Policy) -> dict[str, float]:
        meter.end("training")
        found = measure(games, learner)
        meter.end("evaluation")
        return found

    return [measured]


def met(options: Options) -> str | None:
    """The opponent that a learner can be measured against; None in self-play."""
    return None if options.opponent.partition(":")[0] in (SELF, POOL, TEACHER) else options.opponent


def warm(settings: Any, options: Options, game: Game, meter: Meter) -> None:
    """Have compiled what a learner will use, so that it does not count as learning: a few games that nobody keeps."""
    with slow_status("compiling, once"):
        few = dataclasses.replace(options, games=WARM, batch=WARM // 2)
        _training(few, settings, game).run()
        if options.exact_games(game):
            strength_of(Game(2, 2, 2), "random", ["random"])
    meter.end("compiling")


@contextmanager
def _terminable() -> Iterator[None]:
    """Within it a signal to terminate interrupts, as the one from the keyboard does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


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


def _finished(options: Options, run: Path) -> Path:
    more = f"train.py --resume {run} --games {max(1, 2 * options.games)}"
    say(f"{run} is finished, all {options.games:,} games are played: nothing was done. It goes on to more with {more}")
    return run


def _ended(options: Options, game: Game, run: Path, done: Progress, meter: Meter) -> Path:
    """Say what became of it, and write the report."""
    tell(
        f"{options.learner} learned from {done.games:,} games of {game}: player_0 won {done.wins:,}, "
        f"{done.draws:,} were drawn, player_1 won {done.losses:,}"
        if options.opponent == TEACHER
        else f"{options.learner} played {done.games:,} games of {game} against {options.opponent}: "
        f"{done.wins:,} won, {done.draws:,} drawn, {done.losses:,} lost, while exploring"
    )
    if not options.no_report:
        policy = make_policy(policy_name(run), game)
        strength = None
        if affordable(game, policy):
            strength = strength_of(game, policy, list(dict.fromkeys([met(options) or "random", *COMPARED])))
            say(told(strength, options))
        else:
            match = f"evaluate.py match {policy_name(run)} random"
            tell(f"how good it is exactly takes long to compute on {game}; {match} samples it")
        meter.end("evaluation")
        write_json(run / COST, {"format": 1, "phases": meter.phases})
        tell(f"a report to look at: {write_report(run, strength)}")
    tell(f"play it as {policy_name(run)}")
    return run


def told(strength: Strength, options: Options) -> str:
    """How good a learner is, in a sentence."""
    opponent = met(options) or "random"
    first, second = strength.seats[opponent]
    seat = {"first": (first, "moving first"), "second": (second, "moving second")}
    result, where = seat.get(options.seat, (first.mean(second), "the mean of both seats"))
    regret = "" if strength.regret is None else f", regret {strength.regret:.6f}"
    perfect = " (perfect play)" if strength.perfect else ""
    return (
        f"exactly: exploitability {strength.exploitability:.6f}{perfect}{regret}; "
        f"against {opponent} it wins {result.win:.2%}, draws {result.draw:.2%}, loses {result.loss:.2%}, {where}"
    )


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
