"""Runs: a training with its files, new or resumed."""

from __future__ import annotations

import dataclasses
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from baselines.retrograde.solver import solve
from evaluation.cost import Meter, read_cost
from evaluation.exact.dynamic_programming import while_training
from evaluation.exact.estimate import affordable
from evaluation.exact.strength import Strength, strength_of
from evaluation.reports.run import REPORT, write_report
from evaluation.run_files import (
    DERIVED_FILES,
    RUN_FILES,
    RunState,
    check_trained,
    progress_arrays,
    read_state,
    size_in_checkpoint,
)
from learners.checkpoint import (
    CHECKPOINT,
    CONFIG,
    COST,
    METRICS,
    TAUGHT,
    build_config,
    new_config,
    policy_name,
    read_training,
    save_checkpoint,
)
from learners.config import (
    TEACHER,
    AnyConfig,
    FitLearnerConfig,
    LearnerConfig,
    LoopLearnerConfig,
    TransitionLearnerConfig,
)
from learners.training import Progress, ResumableTraining, Task
from ttt_apps.cli import (
    Stopped,
    print_output,
    print_status,
    progress_bar,
)
from ttt_apps.metrics import Metrics, SnapshotWriter
from ttt_apps.signals import Interrupt
from ttt_apps.train_options import Options, folder_of
from ttt_apps.versions import revision, versions
from ttt_envs.agents.policy import Policy
from ttt_envs.agents.specs import make_policy
from ttt_envs.core.files import delete_temporary_files, locked, write_json
from ttt_envs.core.jit_settings import compile_at_once
from ttt_envs.game.rules import Game

WARM = 4
"""Number of games played to compile everything."""
MIN_COMPILED_GAMES = 500
"""Minimum number of games of a training for which kernels are compiled before it begins."""
Sizes = tuple[int, int]
"""Valid sizes of metrics.jsonl and of choices.jsonl in bytes, according to a checkpoint."""
COMPARED = ("random", "optimal")
"""Opponents of the final evaluation, besides the learner's own."""


class Written(NamedTuple):
    """A written report."""

    strength: Strength | None
    """strength of the learner; None if computing it takes long"""
    page: Path


def train_run(options: Options, settings: AnyConfig) -> Path:
    """Train, and write the run directory.

    Args:
        options: the options of the training.
        settings: the learner's config.

    Returns:
        The run directory.

    Raises:
        ValueError: invalid options, or a run that exists.
        Stopped: a signal asked to stop; a checkpoint has been written.
    """
    meter = Meter()
    run, game = folder_of(options, settings), options.game()
    options = completed(options, settings)
    if (run / CONFIG).exists() and not options.overwrite:
        raise ValueError(
            f"{run} holds a run already: go on with it by train.py --resume {run}, choose another --out, or "
            f"--overwrite to replace it"
        )
    training: ResumableTraining | None = None
    if not isinstance(settings, TransitionLearnerConfig):
        settings.check_opponent(options.opponent, game)  # before any work
    if not isinstance(settings, FitLearnerConfig):
        training = _training(options, settings, game)
    run.mkdir(parents=True, exist_ok=True)
    with _lock_run(run):
        return _train_run(options, settings, game, run, training, meter)


def completed(options: Options, settings: AnyConfig) -> Options:
    """Return the options, completed with the learner's defaults."""
    return dataclasses.replace(options, batch=settings.batch) if options.batch is None else options


def config_of(options: Options, settings: AnyConfig) -> dict[str, Any]:
    """Return the ``config.json`` of a new run."""
    config = new_config(options.game(), dataclasses.asdict(settings), **options.stored())
    return {**config, "versions": versions(), "revision": revision()}


def _train_run(
    options: Options, settings: AnyConfig, game: Game, run: Path, training: ResumableTraining | None, meter: Meter
) -> Path:
    """Train in a locked folder."""
    for old in RUN_FILES:  # the settings first: the rest without them is no run
        (run / old).unlink(missing_ok=True)
    shutil.rmtree(run / TAUGHT, ignore_errors=True)
    write_json(run / CONFIG, config_of(options, settings))
    meter.end("set-up")
    if isinstance(settings, FitLearnerConfig):
        done = _fit(settings, options, game, run, meter)
    else:
        assert training is not None
        warm(settings, options, game, meter)
        done = _learn(training, options, run, (0, 0), meter)
    return _ended(options, game, run, done, meter)


def resume_run(run: Path, games: int | None = None, cluster: str = "") -> Path:
    """Resume a run from its last checkpoint, or from the start if there is none yet; other processes are locked out.

    If the training is over, complete the missing files of a finished run.

    Args:
        run: the run directory.
        games: new total number of games, to extend the run.
        cluster: cluster of a teacher, as ``Options.cluster``.

    Returns:
        The run directory.

    Raises:
        ValueError: no run, a damaged one, one that cannot be resumed, or fewer games than requested at first.
        Stopped: a signal asked to stop; a checkpoint has been written.
    """
    read_training(run)  # reports first that a folder is no run
    with _lock_run(run):
        return _resume_run(run, games, cluster)


def complete_run(run: Path) -> tuple[str, ...]:
    """Regenerate the missing derived files of a trained run; other processes are locked out.

    Returns:
        The names of the files that were made.

    Raises:
        ValueError: no run, a damaged one, one with unfinished training, or one that lacks files of its training.
    """
    read_training(run)
    with _lock_run(run):
        state = check_trained(run)
        if state.missing:
            _complete(run, state, _options(run, state.config))
        return state.missing


def report_run(run: Path) -> Path:
    """Regenerate the ``report.html`` of a trained run, from its files alone; other processes are locked out.

    Returns:
        The page's path.

    Raises:
        ValueError: no run, a damaged one, or one with unfinished training.
    """
    read_training(run)
    with _lock_run(run):
        config = check_trained(run).config
        return write_report(run, _strength(_options(run, config), Game.from_dict(config["game"]), run))


@contextmanager
def _lock_run(run: Path) -> Iterator[None]:
    """Lock the folder of a run, and remove leftovers of killed writers."""
    with locked(run):
        delete_temporary_files(run, RUN_FILES)
        if not (run / TAUGHT).is_symlink():
            unfinished = (run / TAUGHT).glob("[0-9]*.npz*.tmp")
            delete_temporary_files(run / TAUGHT, {f"{path.name.partition('.')[0]}.npz" for path in unfinished})
        yield


def _resume_run(run: Path, games: int | None, cluster: str) -> Path:
    """Resume a run in a locked folder."""
    state = read_state(run)
    config, parts = state.config, state.checkpoint
    game = Game.from_dict(config["game"])
    settings = build_config(config["learner"], config["settings"])
    options = _options(run, config, cluster)
    if games is not None:
        if games < options.games:
            raise ValueError(f"--games {games} is fewer than the {options.games} of the run: choose that or more")
        if games > options.games and isinstance(settings, FitLearnerConfig) and not settings.resumes:
            raise ValueError(
                f"{run} cannot go on to {games} games, because {config['learner']} trains in a loop of its own and "
                f"keeps no state of it: train anew, with --games {games} --out {run} --overwrite"
            )
        options = dataclasses.replace(options, games=games)
    if state.progress is not None and state.is_trained(options.games):
        written = _complete(run, state, options) if state.missing else None
        if written is not None:
            _tell_end(options, game, run, state.progress, written)
        elif state.missing:
            print_status(f"{run} is finished; it lacked {', '.join(state.missing)}, which is written now")
        else:
            _tell_finished(options, run, settings)
        return run
    meter = Meter(read_cost(run))
    training: ResumableTraining | None = None
    sizes: Sizes = (0, 0)
    if isinstance(settings, FitLearnerConfig):
        settings.check_opponent(options.opponent, game)
        if not settings.resumes and (run / METRICS).exists():
            print_status(f"{config['learner']} keeps no state of its training: it starts again with the first game")
    elif parts is None:
        training = _training(options, settings, game)
    else:
        ours = isinstance(settings, TransitionLearnerConfig)
        if {"learner", "training", "metrics"} - parts.keys() or (ours and "live" not in parts["training"]):
            raise ValueError(f"{run / CHECKPOINT} is no checkpoint of a training that can go on: train anew")
        # a run of fewer games than its batch has used a smaller batch, and keeps it
        side_by_side = _batch(options)
        if ours:
            side_by_side = max(1, min(side_by_side, parts["training"]["live"].size))
        training = _training(dataclasses.replace(options, batch=side_by_side), settings, game)
        training.learner.from_arrays(parts["learner"])
        training.from_arrays(parts["training"])
        sizes = _vouched(run, state)
    begun = 0 if training is None else training.done.games
    here = {"games": begun, "versions": versions(), "revision": revision()}
    (run / REPORT).unlink(missing_ok=True)  # of fewer games: remove it, so that it does not pass for the final one
    write_json(run / CONFIG, {**config, "games": options.games, "resumed": [*config.get("resumed", []), here]})
    meter.end("set-up")
    if isinstance(settings, FitLearnerConfig):
        done = _fit(settings, options, game, run, meter)
    else:
        assert training is not None
        warm(settings, options, game, meter)
        done = _learn(training, options, run, sizes, meter)
    return _ended(options, game, run, done, meter)


def _complete(run: Path, state: RunState, options: Options) -> Written | None:
    """Make the missing files of a trained run, in a locked folder.

    Returns:
        The report; None if it is not made.

    Raises:
        ValueError: it lacks files that only training writes.
    """
    lost = [name for name in state.missing if name not in DERIVED_FILES]
    if lost:
        raise ValueError(
            f"{run} lacks {', '.join(lost)}, or a part of it, which only its training writes: train anew, with "
            f"--out {run} --overwrite"
        )
    meter, game, sizes = Meter(read_cost(run)), Game.from_dict(state.config["game"]), _vouched(run, state)
    with Metrics(run, sizes[0]), _choices(options, game, run, sizes[1]):
        meter.end("set-up")  # TensorBoard's file is written with the lines of metrics.jsonl
    return _write_report(options, game, run, meter) if REPORT in state.missing else None


def _options(run: Path, config: Mapping[str, Any], cluster: str = "") -> Options:
    """Return the options of an existing run.

    Raises:
        ValueError: invalid options.
    """
    names = {field.name for field in dataclasses.fields(Options)} - {"out", "cluster"}
    try:
        return Options(**{name: value for name, value in config.items() if name in names}, out=run, cluster=cluster)
    except TypeError as problem:  # for example, a word in place of a number
        raise ValueError(f"{run / CONFIG} cannot be read as the settings of a run: {problem}") from None


def _vouched(run: Path, state: RunState) -> Sizes:
    return size_in_checkpoint(run, state.checkpoint, "size"), size_in_checkpoint(run, state.checkpoint, "choices")


def _batch(options: Options) -> int:
    """Return the number of parallel games; old runs may not store it."""
    return options.batch or LearnerConfig.batch


def _training(options: Options, settings: TransitionLearnerConfig | LoopLearnerConfig, game: Game) -> ResumableTraining:
    """Return the training at its start."""
    return settings.training(
        game,
        options.games,
        batch=_batch(options),
        seed=options.seed,
        opponent=options.opponent,
        seat=options.seat,
        cluster=options.cluster,
    )


def _learn(training: ResumableTraining, options: Options, run: Path, sizes: Sizes, meter: Meter) -> Progress:
    """Train to the end, with periodic checkpoints and a final one; ``sizes`` are those of the last checkpoint."""
    learner = training.learner
    saved_games, saved_at = training.done.games, time.monotonic()
    game = learner.game
    with (
        Metrics(run, sizes[0], training.done.games) as metrics,
        _choices(options, game, run, sizes[1]) as choices,
        _bar(options) as show,
        Interrupt() as interrupt,
    ):

        def save() -> None:
            nonlocal saved_games, saved_at
            meter.end("training")
            _keep_cost(run, meter)  # first: a checkpoint always has the cost of its content
            save_checkpoint(
                run,
                learner=learner.to_arrays(),
                training=training.to_arrays(),
                progress=progress_arrays(training.done),
                metrics=_sizes_on_disk(metrics, choices),
            )
            saved_games, saved_at = training.done.games, time.monotonic()

        def after_step(training: ResumableTraining) -> bool:
            many = 0 < options.checkpoint_games <= training.done.games - saved_games
            if interrupt.asked or many or time.monotonic() - saved_at > options.checkpoint_seconds:
                save()
            return not interrupt.asked

        done = training.run(
            every=options.marks(),
            callbacks=_callbacks(options, game, training.marked, meter, choices),
            log=metrics.write,
            progress=show,
            after_step=after_step,
        )
        if training.running:
            raise Stopped(f"stopped after {done.games:,} games: go on with train.py --resume {run}")
        save()
    return done


def _fit(settings: FitLearnerConfig, options: Options, game: Game, run: Path, meter: Meter) -> Progress:
    """Train a learner in its own loop."""
    with Metrics(run) as metrics, _choices(options, game, run) as choices, _bar(options) as show:
        task = Task(
            game=game,
            opponent=options.opponent,
            seat=options.seat,
            games=options.games,
            batch=_batch(options),
            seed=options.seed,
            run=run,
            every=options.marks(),
            callbacks=tuple(_callbacks(options, game, 0, meter, choices)),
            log=metrics.write,
            progress=show,
            cluster=options.cluster,
        )
        try:
            done = settings.fit(task)
        except KeyboardInterrupt:
            meter.end("training")
            _keep_cost(run, meter)
            kept = "the games so far are kept: go on" if settings.resumes else "it starts again, with the first game,"
            raise Stopped(f"stopped; {kept} with train.py --resume {run}") from None
        meter.end("training")
        _keep_cost(run, meter)
        # the training is over: all that it has written is on the disk
        save_checkpoint(run, progress=progress_arrays(done), metrics=_sizes_on_disk(metrics, choices))
    return done


def _sizes_on_disk(metrics: Metrics, choices: SnapshotWriter | None) -> dict[str, np.ndarray[Any, Any]]:
    """Return the part ``metrics`` of a checkpoint: file sizes in bytes, after flushing to disk."""
    sizes = {"size": np.array([metrics.size()])}
    if choices is not None:
        sizes["choices"] = np.array([choices.size()])
    return sizes


def _keep_cost(run: Path, meter: Meter) -> None:
    write_json(run / COST, {"format": 1, "phases": meter.phases})


@contextmanager
def _choices(options: Options, game: Game, run: Path, size: int = 0) -> Iterator[SnapshotWriter | None]:
    """Yield the writer of snapshots; None if nothing is measured exactly, as snapshots are taken at exact marks."""
    with ExitStack() as stack:
        exact = options.exact_games(game) > 0
        yield stack.enter_context(closing(SnapshotWriter(run, game, options.games, size))) if exact else None


def _callbacks(
    options: Options, game: Game, marked: int, meter: Meter, choices: SnapshotWriter | None
) -> list[Callable[[int, Policy], dict[str, float]]]:
    """Return the measurements during training, which are a phase of their own."""
    every = options.exact_games(game)
    if every == 0:
        return []
    seat = {"first": 0, "second": 1}.get(options.seat)
    measure = while_training(game, options.met, every, options.games, seat=seat, start=marked)

    def measured(games: int, learner: Policy) -> dict[str, float]:
        meter.end("training")
        found = measure(games, learner)
        if found and choices is not None:
            choices.write(games, learner)
        meter.end("evaluation")
        return found

    return [measured]


def warm(settings: TransitionLearnerConfig | LoopLearnerConfig, options: Options, game: Game, meter: Meter) -> None:
    """Compile a learner's code before its training is timed, with a few games that are discarded."""
    if options.games >= MIN_COMPILED_GAMES:
        with compile_at_once():
            few = dataclasses.replace(options, games=WARM, batch=WARM // 2)
            _training(few, settings, game).run()
        if options.exact_games(game):
            tiny = Game(2, 2, 2)
            solve(tiny)  # by the interpreter, and reused below: a game is solved once, so compiling does not pay off
            with compile_at_once():
                strength_of(tiny, "random", ["random"])
    meter.end("compiling")


@contextmanager
def _bar(options: Options) -> Iterator[Callable[[Progress], None]]:
    """Show a progress bar."""
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


def _tell_finished(options: Options, run: Path, settings: AnyConfig) -> None:
    more = f". It goes on to more with train.py --resume {run} --games {max(1, 2 * options.games)}"
    stays = isinstance(settings, FitLearnerConfig) and not settings.resumes
    print_output(f"{run} is finished, all {options.games:,} games are played: nothing was done{'' if stays else more}")


def _ended(options: Options, game: Game, run: Path, done: Progress, meter: Meter) -> Path:
    """Write the report, and print the result."""
    written = None if options.no_report else _write_report(options, game, run, meter)
    _tell_end(options, game, run, done, written)
    return run


def _write_report(options: Options, game: Game, run: Path, meter: Meter) -> Written:
    """Write the report, the last file of a run; its page includes the cost of the evaluation."""
    strength = _strength(options, game, run)
    meter.end("evaluation")
    _keep_cost(run, meter)
    return Written(strength, write_report(run, strength))


def _tell_end(options: Options, game: Game, run: Path, done: Progress, written: Written | None) -> None:
    print_status(
        f"{options.learner} learned from {done.games:,} games of {game}: player_0 won {done.wins:,}, "
        f"{done.draws:,} were drawn, player_1 won {done.losses:,}"
        if options.opponent == TEACHER
        else f"{options.learner} played {done.games:,} games of {game} against {options.opponent}: "
        f"{done.wins:,} won, {done.draws:,} drawn, {done.losses:,} lost, while exploring"
    )
    if written is not None:
        if written.strength is not None:
            print_output(describe_strength(written.strength, options))
        else:
            match = f"evaluate.py match {policy_name(run)} random"
            print_status(f"how good it is exactly takes long to compute on {game}; {match} samples it")
        print_status(f"a report to look at: {written.page}")
    print_status(f"play it as {policy_name(run)}")


def _strength(options: Options, game: Game, run: Path) -> Strength | None:
    """Return the strength of a trained run; None if computing it takes long."""
    policy = make_policy(policy_name(run), game)
    if not affordable(game, policy):
        return None
    return strength_of(game, policy, list(dict.fromkeys([options.met or "random", *COMPARED])))


def describe_strength(strength: Strength, options: Options) -> str:
    """Describe the strength of a learner in a sentence."""
    opponent = options.met or "random"
    first, second = strength.seats[opponent]
    seat = {"first": (first, "moving first"), "second": (second, "moving second")}
    result, where = seat.get(options.seat, (first.mean(second), "the mean of both seats"))
    regret = "" if strength.regret is None else f", regret {strength.regret:.6f}"
    perfect = " (perfect play)" if strength.perfect else ""
    return (
        f"exactly: exploitability {strength.exploitability:.6f}{perfect}{regret}; "
        f"against {opponent} it wins {result.win:.2%}, draws {result.draw:.2%}, loses {result.loss:.2%}, {where}"
    )
