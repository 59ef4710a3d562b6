"""Runs: a training and the files that it leaves, from its start, or from where it was stopped."""

from __future__ import annotations

import dataclasses
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from baselines.solver import solve
from evaluation.cost import Meter
from evaluation.estimate import affordable
from evaluation.exact import while_training
from evaluation.report import REPORT, write_report
from evaluation.report_parts import read_cost
from evaluation.run_files import (
    DERIVED_FILES,
    RUN_FILES,
    RunState,
    check_trained,
    progress_arrays,
    read_state,
    vouched_size,
)
from evaluation.strength import Strength, strength_of
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
from learners.config import TEACHER, AnyConfig, Builder, Fitter, LearnerConfig, Looper
from learners.training import Progress, Stepwise, Task
from ttt_apps.cli import (
    Stopped,
    progress_bar,
    say,
    tell,
)
from ttt_apps.metrics import KeptChoices, Metrics
from ttt_apps.options import Options, folder_of
from ttt_apps.signals import Interrupt
from ttt_apps.versions import revision, versions
from ttt_envs.compiling import compile_at_once
from ttt_envs.files import held, tidy, write_json
from ttt_envs.policy import Policy
from ttt_envs.rules import Game
from ttt_envs.specs import make_policy

WARM = 4
"""games that are played to have everything compiled"""
MIN_COMPILED_GAMES = 500
"""Minimum number of games of a training for which kernels are compiled before it begins."""
Sizes = tuple[int, int]
"""bytes of metrics.jsonl and of choices.jsonl that a checkpoint vouches for"""
COMPARED = ("random", "optimal")
"""whom a learner is measured against at the end, beside its own opponent"""


class Written(NamedTuple):
    """A report that was written."""

    strength: Strength | None
    """what it says of the learner; None where that takes long to compute"""
    page: Path


def train_run(options: Options, settings: AnyConfig) -> Path:
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
    options = completed(options, settings)
    if (run / CONFIG).exists() and not options.overwrite:
        raise ValueError(
            f"{run} holds a run already: go on with it by train.py --resume {run}, choose another --out, or "
            f"--overwrite to replace it"
        )
    training: Stepwise | None = None
    if not isinstance(settings, Builder):
        settings.check_opponent(options.opponent, game)  # before anything is done
    if not isinstance(settings, Fitter):
        training = _training(options, settings, game)
    run.mkdir(parents=True, exist_ok=True)
    with _held(run):
        return _train_run(options, settings, game, run, training, meter)


def completed(options: Options, settings: AnyConfig) -> Options:
    """The options with what follows from the learner's settings."""
    return dataclasses.replace(options, batch=settings.batch) if options.batch is None else options


def config_of(options: Options, settings: AnyConfig) -> dict[str, Any]:
    """The ``config.json`` of a run that starts now."""
    config = new_config(options.game(), dataclasses.asdict(settings), **options.stored())
    return {**config, "versions": versions(), "revision": revision()}


def _train_run(
    options: Options, settings: AnyConfig, game: Game, run: Path, training: Stepwise | None, meter: Meter
) -> Path:
    """The same in a folder that is held."""
    for old in RUN_FILES:  # the settings first: what is left of a run without them is no run
        (run / old).unlink(missing_ok=True)
    shutil.rmtree(run / TAUGHT, ignore_errors=True)
    write_json(run / CONFIG, config_of(options, settings))
    meter.end("set-up")
    if isinstance(settings, Fitter):
        done = _fit(settings, options, game, run, meter)
    else:
        assert training is not None
        warm(settings, options, game, meter)
        done = _learn(training, options, run, (0, 0), meter)
    return _ended(options, game, run, done, meter)


def resume_run(run: Path, games: int | None = None, cluster: str = "") -> Path:
    """Go on with a run from its last checkpoint, or from the start where there is none yet; no other process may.

    Where the training is over, the files that a finished run has beside it are completed.

    Args:
        run: the run directory.
        games: how many games in all, where it is to be more than at first.
        cluster: where a teacher plays, as ``Options.cluster``.

    Returns:
        The run directory.

    Raises:
        ValueError: no run, a damaged one, one that cannot be resumed, or fewer games than were asked for at first.
        Stopped: a signal asked to stop; a checkpoint has been written.
    """
    read_training(run)  # so that a folder that is no run is told first
    with _held(run):
        return _resume_run(run, games, cluster)


def complete_run(run: Path) -> tuple[str, ...]:
    """Make the files of a trained run that are missing and can be made from the others; no other process may write.

    Returns:
        The names of the files that were made.

    Raises:
        ValueError: no run, a damaged one, one that still has to be trained, or that lacks what only training writes.
    """
    read_training(run)
    with _held(run):
        state = check_trained(run)
        if state.missing:
            _complete(run, state, _options(run, state.config))
        return state.missing


def report_run(run: Path) -> Path:
    """Write the ``report.html`` of a trained run anew, from its files alone; no other process may write.

    Returns:
        The page's path.

    Raises:
        ValueError: no run, a damaged one, or one that still has to be trained.
    """
    read_training(run)
    with _held(run):
        config = check_trained(run).config
        return write_report(run, _strength(_options(run, config), Game.from_dict(config["game"]), run))


@contextmanager
def _held(run: Path) -> Iterator[None]:
    """Hold the folder of a run, and remove what writers that were killed have left in it."""
    with held(run):
        tidy(run, RUN_FILES)
        if not (run / TAUGHT).is_symlink():
            unfinished = (run / TAUGHT).glob("[0-9]*.npz*.tmp")
            tidy(run / TAUGHT, {f"{path.name.partition('.')[0]}.npz" for path in unfinished})
        yield


def _resume_run(run: Path, games: int | None, cluster: str) -> Path:
    """The same in a folder that is held."""
    state = read_state(run)
    config, parts = state.config, state.checkpoint
    game = Game.from_dict(config["game"])
    settings = build_config(config["learner"], config["settings"])
    options = _options(run, config, cluster)
    if games is not None:
        if games < options.games:
            raise ValueError(f"--games {games} is fewer than the {options.games} of the run: choose that or more")
        if games > options.games and isinstance(settings, Fitter) and not settings.resumes:
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
            tell(f"{run} is finished; it lacked {', '.join(state.missing)}, which is written now")
        else:
            _tell_finished(options, run, settings)
        return run
    meter = Meter(read_cost(run))
    training: Stepwise | None = None
    sizes: Sizes = (0, 0)
    if isinstance(settings, Fitter):
        settings.check_opponent(options.opponent, game)
        if not settings.resumes and (run / METRICS).exists():
            tell(f"{config['learner']} keeps no state of its training: it starts again with the first game")
    elif parts is None:
        training = _training(options, settings, game)
    else:
        ours = isinstance(settings, Builder)
        if {"learner", "training", "metrics"} - parts.keys() or (ours and "live" not in parts["training"]):
            raise ValueError(f"{run / CHECKPOINT} is no checkpoint of a training that can go on: train anew")
        # a run of fewer games than its batch played so many side by side, and goes on so
        side_by_side = _batch(options)
        if ours:
            side_by_side = max(1, min(side_by_side, parts["training"]["live"].size))
        training = _training(dataclasses.replace(options, batch=side_by_side), settings, game)
        training.learner.from_arrays(parts["learner"])
        training.from_arrays(parts["training"])
        sizes = _vouched(run, state)
    begun = 0 if training is None else training.done.games
    here = {"games": begun, "versions": versions(), "revision": revision()}
    (run / REPORT).unlink(missing_ok=True)  # of fewer games: it must not pass for that of all
    write_json(run / CONFIG, {**config, "games": options.games, "resumed": [*config.get("resumed", []), here]})
    meter.end("set-up")
    if isinstance(settings, Fitter):
        done = _fit(settings, options, game, run, meter)
    else:
        assert training is not None
        warm(settings, options, game, meter)
        done = _learn(training, options, run, sizes, meter)
    return _ended(options, game, run, done, meter)


def _complete(run: Path, state: RunState, options: Options) -> Written | None:
    """Make what a trained run lacks, in a folder that is held.

    Returns:
        The report; None where it is not made.

    Raises:
        ValueError: it lacks what only training writes.
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
    """The options of a run that is there.

    Raises:
        ValueError: options that make no sense.
    """
    names = {field.name for field in dataclasses.fields(Options)} - {"out", "cluster"}
    try:
        return Options(**{name: value for name, value in config.items() if name in names}, out=run, cluster=cluster)
    except TypeError as problem:  # a word where a number should be
        raise ValueError(f"{run / CONFIG} cannot be read as the settings of a run: {problem}") from None


def _vouched(run: Path, state: RunState) -> Sizes:
    return vouched_size(run, state.checkpoint, "size"), vouched_size(run, state.checkpoint, "choices")


def _batch(options: Options) -> int:
    """Games side by side; old runs may not say how many."""
    return options.batch or LearnerConfig.batch


def _training(options: Options, settings: Builder | Looper, game: Game) -> Stepwise:
    """The training at its start."""
    return settings.training(
        game,
        options.games,
        batch=_batch(options),
        seed=options.seed,
        opponent=options.opponent,
        seat=options.seat,
        cluster=options.cluster,
    )


def _learn(training: Stepwise, options: Options, run: Path, sizes: Sizes, meter: Meter) -> Progress:
    """Train to the end, with checkpoints on the way and one at the end; ``sizes`` is what the last one has kept."""
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
            _keep_cost(run, meter)  # first: where the checkpoint is, the cost of what it holds is known
            save_checkpoint(
                run,
                learner=learner.to_arrays(),
                training=training.to_arrays(),
                progress=progress_arrays(training.done),
                metrics=_sizes_on_disk(metrics, choices),
            )
            saved_games, saved_at = training.done.games, time.monotonic()

        def after_step(training: Stepwise) -> bool:
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


def _fit(settings: Fitter, options: Options, game: Game, run: Path, meter: Meter) -> Progress:
    """Let a learner train in its own loop."""
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
        # its training is over: all that it has written is on the disk
        save_checkpoint(run, progress=progress_arrays(done), metrics=_sizes_on_disk(metrics, choices))
    return done


def _sizes_on_disk(metrics: Metrics, choices: KeptChoices | None) -> dict[str, np.ndarray[Any, Any]]:
    """The part ``metrics`` of a checkpoint: bytes of the files of lines, all of which are on the disk."""
    sizes = {"size": np.array([metrics.size()])}
    if choices is not None:
        sizes["choices"] = np.array([choices.size()])
    return sizes


def _keep_cost(run: Path, meter: Meter) -> None:
    write_json(run / COST, {"format": 1, "phases": meter.phases})


@contextmanager
def _choices(options: Options, game: Game, run: Path, size: int = 0) -> Iterator[KeptChoices | None]:
    """What keeps the learner's choices; None where nothing is measured exactly, which is when they are kept."""
    with ExitStack() as stack:
        exact = options.exact_games(game) > 0
        yield stack.enter_context(closing(KeptChoices(run, game, options.games, size))) if exact else None


def _callbacks(
    options: Options, game: Game, marked: int, meter: Meter, choices: KeptChoices | None
) -> list[Callable[[int, Policy], dict[str, float]]]:
    """What to measure on the way, which is a phase of its own."""
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


def warm(settings: Builder | Looper, options: Options, game: Game, meter: Meter) -> None:
    """Have compiled what a learner will use, so that it does not count as learning: a few games that nobody keeps."""
    if options.games >= MIN_COMPILED_GAMES:
        with compile_at_once():
            few = dataclasses.replace(options, games=WARM, batch=WARM // 2)
            _training(few, settings, game).run()
        if options.exact_games(game):
            tiny = Game(2, 2, 2)
            _kept = solve(tiny)  # a game is solved once, which compiling its kernels would not pay for on a small board
            with compile_at_once():
                strength_of(tiny, "random", ["random"])
    meter.end("compiling")


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


def _tell_finished(options: Options, run: Path, settings: AnyConfig) -> None:
    more = f". It goes on to more with train.py --resume {run} --games {max(1, 2 * options.games)}"
    stays = isinstance(settings, Fitter) and not settings.resumes
    say(f"{run} is finished, all {options.games:,} games are played: nothing was done{'' if stays else more}")


def _ended(options: Options, game: Game, run: Path, done: Progress, meter: Meter) -> Path:
    """Write the report, and say what became of it."""
    written = None if options.no_report else _write_report(options, game, run, meter)
    _tell_end(options, game, run, done, written)
    return run


def _write_report(options: Options, game: Game, run: Path, meter: Meter) -> Written:
    """The last file of a run; its page shows the cost of the numbers on it."""
    strength = _strength(options, game, run)
    meter.end("evaluation")
    _keep_cost(run, meter)
    return Written(strength, write_report(run, strength))


def _tell_end(options: Options, game: Game, run: Path, done: Progress, written: Written | None) -> None:
    tell(
        f"{options.learner} learned from {done.games:,} games of {game}: player_0 won {done.wins:,}, "
        f"{done.draws:,} were drawn, player_1 won {done.losses:,}"
        if options.opponent == TEACHER
        else f"{options.learner} played {done.games:,} games of {game} against {options.opponent}: "
        f"{done.wins:,} won, {done.draws:,} drawn, {done.losses:,} lost, while exploring"
    )
    if written is not None:
        if written.strength is not None:
            say(told(written.strength, options))
        else:
            match = f"evaluate.py match {policy_name(run)} random"
            tell(f"how good it is exactly takes long to compute on {game}; {match} samples it")
        tell(f"a report to look at: {written.page}")
    tell(f"play it as {policy_name(run)}")


def _strength(options: Options, game: Game, run: Path) -> Strength | None:
    """How good a trained run is; None where that takes long to compute."""
    policy = make_policy(policy_name(run), game)
    if not affordable(game, policy):
        return None
    return strength_of(game, policy, list(dict.fromkeys([options.met or "random", *COMPARED])))


def told(strength: Strength, options: Options) -> str:
    """How good a learner is, in a sentence."""
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
