"""Runs: a training with its files, new or resumed."""

from __future__ import annotations

import dataclasses
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from learners.checkpoint import build_config, new_config
from learners.config import TEACHER, LearnerConfig
from learners.training import Progress, TrainingLoop, dense_first
from ttt_apps.cli.options import Stopped, bar, print_output, print_status, warn
from ttt_apps.cli.signals import stop_requests
from ttt_apps.training.metrics import RunLog, open_log
from ttt_apps.training.options import STORED, Options, default_folder
from ttt_envs.agents.policy import Policy
from ttt_envs.agents.specs import make_policy
from ttt_envs.core.checks import Refusal, name_place
from ttt_envs.core.jit import compile_at_once
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game
from ttt_envs.game.phantom import AnyGame, game_from_dict
from ttt_envs.graph.estimate import affordable, check_measurable
from ttt_eval.exact.strength import Strength, strength, training_callback
from ttt_eval.reports.runs import missing_strength, read_run, write_run_page
from ttt_eval.runs.curves import SEATS
from ttt_eval.runs.run_files import DERIVED_FILES, REPORT, RunDirectory, RunState, first_move_names
from ttt_eval.store.cost import Meter, cpu_seconds
from ttt_eval.store.metrics import describe_losses
from ttt_eval.store.result_store import Data
from ttt_eval.store.versions import revision, versions

WARM_UP_GAMES = 4
"""Number of games played to compile everything."""
MIN_COMPILED_GAMES = 500
"""Minimum number of games of a training for which kernels are compiled before it begins."""
FEW_ROLLOUTS = 16
"""A training of fewer rollouts than these is noted."""
SHOW_S = 0.1
"""Seconds between two updates of the progress bar."""
PLACES = 6
"""Decimal places of the probabilities of first moves."""
COMPARED = ("random", "optimal")
"""Opponents of the final evaluation, besides the learner's own."""
COMPARED_BY_VIEWS = ("random", "win-or-block")
"""The same in phantom games."""


def compared_policies(game: AnyGame, opponent: str | None) -> list[str]:
    """Return the opponents of the final evaluation, first the learner's own if it is a policy."""
    names = COMPARED if isinstance(game, Game) else COMPARED_BY_VIEWS
    return list(dict.fromkeys([opponent or "random", *names]))


def train_run(options: Options, settings: LearnerConfig) -> None:
    """Train, and write the run directory.

    Args:
        options: the options of the training.
        settings: the learner's config.

    Raises:
        ValueError: invalid options, or a run that exists.
        Stopped: a signal asked to stop; a checkpoint has been written.
    """
    meter = Meter()
    directory = RunDirectory(options.out or default_folder(options, settings))
    game = options.game()
    # what has failed or was killed before it has stored anything may begin again
    files = filter(Path.is_file, (directory.checkpoint, directory.metrics))
    is_begun = directory.exists() and any(file.stat().st_size for file in files)
    if is_begun and not options.overwrite:
        raise Refusal(
            f"{directory} holds a run already: continue it with {directory.resume_command}, choose "
            "another --out, or --overwrite to replace it"
        )
    if not directory.exists():
        options.check_new_file(directory.report)
    run = Run(directory, options, settings, game, meter)
    training = run.new_training(options)  # before a folder is made
    if options.exact_games(game):
        with name_place(
            "--exact-every cannot be met, and without it the run is not measured exactly",
            (MemoryError,),
        ):
            check_measurable(game)
    directory.path.mkdir(parents=True, exist_ok=True)
    with directory.lock():
        directory.clear()
        directory.write_config(new_run_config(options, settings))
        run.train(training)


def new_run_config(options: Options, settings: LearnerConfig, place: str = "") -> dict[str, object]:
    """Return the ``config.json`` of a new run; print a note if its games are one batch, as nobody
    has chosen, or few rollouts.

    The note begins with ``place``, which tells the runs of a file apart.
    """
    if not settings.loop and options.games <= options.batch == settings.batch:
        warn(
            f"{place}all {options.games:,} games are played at the same time, because the batch of "
            f"{options.learner} is {options.batch:,}: no game uses what was learned from another. "
            "Choose more --games, or --batch 16"
        )
    rollout = getattr(settings, "rollout", 0)
    if options.games * options.game().cells < FEW_ROLLOUTS * rollout:
        warn(
            f"{place}{options.games:,} games are less than {FEW_ROLLOUTS} rollouts of {rollout:,} "
            "positions, after each of which the net is updated. Choose more --games, or a smaller "
            "--rollout and --batch, such as 4096 and 256"
        )
    fields = {name: getattr(options, name) for name in STORED}
    config = new_config(options.game(), dataclasses.asdict(settings), **fields)
    return {**config, "versions": versions(), "revision": revision()}


@contextmanager
def _locked_run(path: Path) -> Iterator[RunDirectory]:
    """Open the directory of a run; other processes are locked out.

    Raises:
        ValueError: no run, or a damaged one.
    """
    directory = RunDirectory(path)
    directory.read_training()  # reports first that a folder is no run
    with directory.lock():
        yield directory


def resume_run(path: Path, games: int | None = None, cluster: str = "") -> None:
    """Resume a run from its last checkpoint, or from the start if there is none yet.

    If the training is over, complete the missing files of a finished run.

    Args:
        path: the run directory.
        games: new total number of games, to extend the run.
        cluster: cluster of a teacher, as ``Options.cluster``.

    Raises:
        ValueError: no run, a damaged one, one that cannot be resumed, or fewer games than requested
            at first.
        Stopped: a signal asked to stop; a checkpoint has been written.
    """
    with _locked_run(path) as directory:
        state = directory.read_state()
        run = Run.open(directory, state.config, Meter(directory.read_cost()), games, cluster)
        total = run.options.games
        if not state.is_trained(total):
            run.resume(state)
        elif state.missing:
            run.complete(state)
        else:
            hint = " --games N plays more" if run.settings.resumes else ""
            print_output(
                f"{directory} is finished, all {total:,} games are played: nothing was done.{hint}"
            )


def report_run(path: Path) -> Path:
    """Regenerate the ``report.html`` of a trained run, from its files alone, and return its path.

    Raises:
        ValueError: no run, a damaged one, or one with unfinished training.
    """
    with _locked_run(path) as directory:
        run = Run.open(directory, directory.check_trained().config, Meter())
        return write_run_page(path, run.strength())


@dataclass(frozen=True)
class Run:
    """A training and its locked directory.

    Attributes:
        directory: the run directory.
        options: the options of the training.
        settings: the learner's config.
        game: the game, which the options of an existing run do not have.
        meter: cost so far.
    """

    directory: RunDirectory
    options: Options
    settings: LearnerConfig
    game: AnyGame
    meter: Meter

    @classmethod
    def open(
        cls,
        run: RunDirectory,
        config: Data,
        meter: Meter,
        games: int | None = None,
        cluster: str = "",
    ) -> Run:
        """Return an existing run, with its own number of games or more.

        Raises:
            ValueError: invalid options; fewer games, or more for a learner that cannot continue.
        """
        settings = build_config(config["learner"], config["settings"])
        total = config["games"] if games is None else games
        values = {name: config[name] for name in STORED if name in config} | {"games": total}
        if total < config["games"]:
            raise Refusal(
                f"--games {total} is fewer than the {config['games']} of the run: choose that or "
                "more"
            )
        if total > config["games"] and not settings.resumes:
            raise Refusal(
                f"{run} cannot continue to {total} games, because {config['learner']} has a "
                "training loop of its own and stores no state of it: train again, with --games "
                f"{total} --out {run} --overwrite"
            )
        with name_place(f"{run.config} cannot be read as the settings of a run"):
            options = Options(**{"batch": settings.batch, **values}, out=run.path, cluster=cluster)
        return cls(run, options, settings, game_from_dict(config["game"]), meter)

    def new_training(self, options: Options) -> TrainingLoop:
        """Return the training at its start, with the given options.

        Raises:
            ValueError: as :meth:`~learners.config.LearnerConfig.training`, or a cluster for a
                learner without workers.
        """
        if options.cluster and not hasattr(self.settings, "jobs"):
            raise Refusal(
                f"--cluster has no effect for {options.learner}, which one process trains: leave "
                "it out"
            )
        return self.settings.training(
            self.game,
            options.games,
            batch=options.batch,
            seed=options.seed,
            opponent=options.opponent,
            seat=options.seat,
            openings=options.openings,
            cluster=options.cluster,
        )

    def restore_training(self, state: RunState) -> TrainingLoop:
        """Return the training at its checkpoint; at its start without one, or if its learner cannot
        continue.

        Raises:
            ValueError: a checkpoint that is not of this training.
        """
        options = self.options
        settings = self.settings
        parts = state.checkpoint
        if parts is None or not settings.resumes:
            if self.directory.metrics.exists() and not settings.resumes:
                print_status(
                    f"{options.learner} keeps no state of its training: it starts again with the "
                    "first game"
                )
            return self.new_training(options)
        if {"learner", "training", "metrics"} - parts.keys() or not (
            settings.loop or "live" in parts["training"]
        ):
            raise Refusal(
                f"{self.directory.checkpoint} holds no training that can continue: train again"
            )
        if "live" in parts["training"]:
            # a run of fewer games than its batch has used a smaller batch, and keeps it
            batch = max(1, min(options.batch, parts["training"]["live"].size))
            options = dataclasses.replace(options, batch=batch)
        training = self.new_training(options)
        with name_place(str(self.directory.checkpoint)):
            training.learner.state = parts["learner"]
            training.state = parts["training"]
        return training

    def resume(self, state: RunState) -> None:
        """Train on from the checkpoint, and add the versions of now to ``config.json``."""
        training = self.restore_training(state)
        resumption = {
            "games": training.done.games,
            "versions": versions(),
            "revision": revision(),
        }
        # a report of fewer games must not pass for the final one
        self.directory.report.unlink(missing_ok=True)
        self.directory.write_config(
            {
                **state.config,
                "games": self.options.games,
                "resumed": [*state.config.get("resumed", []), resumption],
            }
        )
        self.train(training, state.size if training.continues_log else 0)

    def complete(self, state: RunState) -> None:
        """Write the files that a trained run lacks.

        Raises:
            ValueError: only the training writes one of them.
        """
        lost_files = [name for name in state.missing if name not in DERIVED_FILES]
        if lost_files:
            raise Refusal(
                f"{self.directory} lacks {', '.join(lost_files)}, or a part of it, which only its "
                f"training writes: train again, with --out {self.directory} --overwrite"
            )
        print_status(
            f"{self.directory} is finished; it lacked {', '.join(state.missing)}, which is written "
            "now"
        )
        # TensorBoard's file is written with the lines of metrics.jsonl
        with open_log(self.directory, state.size):
            self.meter.end("set-up")
        if REPORT in state.missing:
            self.report()

    def train(self, training: TrainingLoop, size: int = 0) -> None:
        """Train to the end, write the report, and print the result.

        Args:
            training: the training.
            size: of the run's valid lines, see :class:`~ttt_eval.runs.run_files.RunState`.
        """
        self.meter.end("set-up")
        print_status(
            f"follow it with evaluate.py plot {shlex.quote(str(self.directory))}, or in TensorBoard"
        )
        self._warm_up()
        print_status(self._describe_training(self._learn(training, size)))
        if not self.options.no_report:
            self.report()
        trust = " with --trust" if ":" in self.options.learner else ""
        print_status(f"play it as {self.directory.policy}{trust}")

    def _learn(self, training: TrainingLoop, size: int) -> Progress:
        """Train to the end, with periodic checkpoints and a final one; ``size`` is that of the last
        checkpoint.
        """
        games = training.done.games
        with (
            open_log(self.directory, size, games=games) as log,
            bar("training") as update,
            stop_requests() as stops,
        ):
            watcher = TrainingWatcher(self, training, log, update, stops, games, games)
            progress = training.run(
                every=self.options.log_every or dense_first(self.options.games),
                callbacks=self._callbacks(training.marked),
                log=watcher.write_line,
                after_step=watcher.after_step,
            )
            if training.running:
                way = "continue" if self.settings.resumes else "start again, with the first game,"
                raise Stopped(
                    f"stopped after {progress.games:,} games: {way} with "
                    f"{self.directory.resume_command}"
                )
            watcher.save()
        return progress

    def strength(self) -> Strength | None:
        """Return the strength of the trained policy; None if it is not computed unasked."""
        policy = make_policy(self.directory.policy, self.game)
        if not affordable(self.game, policy):
            return None
        return strength(
            self.game, policy, compared_policies(self.game, self.options.fixed_opponent)
        )

    def report(self) -> None:
        """Write the report, the last file of a run, and print the strength of the learner and where
        the page is.

        The page includes the cost of the evaluation.
        """
        exact = self.strength()
        self.write_cost("evaluation")
        print_output(
            self._describe_unmeasured() if exact is None else describe_strength(exact, self.options)
        )
        print_status(f"a report to look at: {write_run_page(self.directory.path, exact)}")

    def _describe_training(self, progress: Progress) -> str:
        """Describe the results of the training's games, or of the updated policies, and whose they
        are.
        """
        options = self.options
        unit = "games" if self.settings.plays_games else "exact updates"
        subject = "player_0" if options.opponent == TEACHER else "while learning it"
        games = max(1, progress.games)
        return (
            f"{options.learner} learned from {progress.games:,} {unit} in {self.game} against "
            f"{options.opponent}: {subject} won {progress.wins / games:.1%}, drew "
            f"{progress.draws / games:.1%}, lost {progress.losses / games:.1%}"
        )

    def _describe_unmeasured(self) -> str:
        """Say what was measured during training, and how to compute or to estimate the rest."""
        missing = missing_strength(read_run(self.directory.path))
        lines = [" ".join([part.text, *part.code]) for part in missing]
        for row in self.directory.read_metrics():
            if "exploitability" in row:
                lines[0] = f"exactly: {describe_losses(row)} after {row['games']:,} games"
        return "\n".join(lines)

    def write_cost(self, phase: str) -> None:
        """End a phase of the cost, and write all phases."""
        self.meter.end(phase)
        self.directory.write_cost(self.meter.phases)

    def _callbacks(self, first_mark: int) -> list[Callable[[int, Policy], dict[str, float]]]:
        """Return the measurements during training, which are a phase of their own."""
        options = self.options
        interval = options.exact_games(self.game)
        if interval == 0:
            return []
        measure = training_callback(
            self.game,
            options.fixed_opponent,
            interval,
            options.games,
            seat=SEATS.get(options.seat),
            start=first_mark,
        )

        def measure_exactly(games: int, learner: Policy) -> dict[str, float]:
            self.meter.end("training")
            numbers = measure(games, learner)
            if numbers:
                moves = learner.probabilities(Boards.start(self.game))[0].round(PLACES)
                numbers |= dict(zip(first_move_names(self.game), moves.tolist(), strict=True))
            self.meter.end("evaluation")
            return numbers

        return [measure_exactly]

    def _warm_up(self) -> None:
        """Compile a learner's code before its training is timed, with a few games that are
        discarded.
        """
        if self.options.games >= MIN_COMPILED_GAMES and self.settings.resumes:
            options = dataclasses.replace(
                self.options, games=WARM_UP_GAMES, batch=WARM_UP_GAMES // 2
            )
            with compile_at_once():
                self.new_training(options).run()
        self.meter.end("compiling")


@dataclass
class TrainingWatcher:
    """Writes the lines, the checkpoints and the progress bar of a training.

    Attributes:
        run: the run.
        training: its training, which begins now.
        log: of its measurements.
        update: receives the number of games, the whole number, and a text for the bar.
        stops: signals to stop that have come.
        first_games: number of games at the beginning.
        saved_games: number of games in the last checkpoint.
        first_time_s, saved_time_s, shown_time_s: times of the beginning, of the last checkpoint and
            of the last update of the bar.
    """

    run: Run
    training: TrainingLoop
    log: RunLog
    update: Callable[[float, float, str], None]
    stops: Sequence[int]
    first_games: int
    saved_games: int
    first_time_s: float = field(default_factory=time.monotonic)
    saved_time_s: float = field(default_factory=time.monotonic)
    shown_time_s: float = 0.0

    def write_line(self, games: int, numbers: Mapping[str, float]) -> None:
        """Write a line of measurements after a number of games."""
        meter = self.run.meter
        meter.end("training")
        self.log.write(games, {**numbers, "cpu_s": cpu_seconds(meter.phases["training"])})

    def after_step(self, training: TrainingLoop) -> bool:
        """Show the progress, and save a checkpoint if it is time; return whether to go on."""
        options = self.run.options
        time_s = time.monotonic()
        done = training.done
        if time_s - self.shown_time_s > SHOW_S:
            self.shown_time_s = time_s
            rate = (done.games - self.first_games) / max(1e-3, time_s - self.first_time_s)
            share = done.wins / max(1, done.games)
            self.update(done.games, options.games, f"{rate:,.0f} games/s, won {share:.1%}")
        is_due = 0 < options.checkpoint_games <= done.games - self.saved_games
        if self.stops or is_due or time_s - self.saved_time_s > options.checkpoint_seconds:
            self.save()
        return not self.stops

    def save(self) -> None:
        """Write a checkpoint, and before it the cost of its content."""
        self.run.write_cost("training")
        training = self.training
        self.run.directory.save_checkpoint(
            training.done,
            training.running,
            self.log.size(),
            learner=training.learner.state,
            training=training.state,
        )
        self.saved_games = training.done.games
        self.saved_time_s = time.monotonic()


def describe_strength(exact: Strength, options: Options) -> str:
    """Describe the strength of a learner in a sentence."""
    opponent = options.fixed_opponent or "random"
    result = exact.result(opponent, SEATS.get(options.seat))
    seats = f"moving {options.seat}" if options.seat in SEATS else "the mean of both seats"
    losses = describe_losses(exact.measures, " (perfect play)" if exact.perfect else "")
    return (
        f"exactly: {losses}; against {opponent} it wins {result.win:.2%}, draws {result.draw:.2%}, "
        f"loses {result.loss:.2%}, {seats}"
    )
