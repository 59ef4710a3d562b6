"""Runs: a training with its files, new or resumed."""

from __future__ import annotations

import dataclasses
import shlex
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from baselines.exact import solve
from learners.checkpoint import build_config, new_config
from learners.config import TEACHER, LearnerConfig
from learners.training import Progress, TrainingLoop
from ttt_apps.cli import Stopped, print_output, print_status, progress_bar, warn
from ttt_apps.metrics import Metrics, SnapshotWriter
from ttt_apps.signals import Interrupt
from ttt_apps.train_options import Options, batch_note, complete_options, default_folder
from ttt_apps.versions import revision, versions
from ttt_envs.agents.policy import Policy
from ttt_envs.agents.specs import make_policy
from ttt_envs.core.jit import compile_at_once
from ttt_envs.game.game import Game
from ttt_envs.game.phantom import AnyGame, PhantomGame, game_from_dict
from ttt_envs.graph.layers import MAX_PHANTOM_CELLS
from ttt_eval.cost import Meter
from ttt_eval.exact.estimate import affordable, check_measurable
from ttt_eval.exact.policy_cache import CachedPolicy
from ttt_eval.exact.strength import Strength, strength, training_callback
from ttt_eval.metrics import describe_losses
from ttt_eval.reports.formats import game_options
from ttt_eval.reports.runs import write_run_page
from ttt_eval.run_files import DERIVED_FILES, REPORT, RunDirectory, RunState

WARM_UP_GAMES = 4
"""Number of games played to compile everything."""
MIN_COMPILED_GAMES = 500
"""Minimum number of games of a training for which kernels are compiled before it begins."""
COMPARED = ("random", "optimal")
"""Opponents of the final evaluation, besides the learner's own."""
COMPARED_BY_VIEWS = ("random", "win-or-block")
"""The same in phantom games."""


def compared_policies(game: AnyGame, opponent: str | None) -> list[str]:
    """Return the opponents of the final evaluation, first the learner's own if it is a policy."""
    compared = COMPARED if isinstance(game, Game) else COMPARED_BY_VIEWS
    return list(dict.fromkeys([opponent or "random", *compared]))


class WrittenReport(NamedTuple):
    """A written report."""

    strength: Strength | None
    """strength of the learner; None if it is not computed unasked, see :func:`~ttt_eval.exact.estimate.affordable`"""
    page: Path


def train_run(options: Options, settings: LearnerConfig) -> Path:
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
    directory, game = RunDirectory(options.out or default_folder(options, settings)), options.game()
    note = batch_note(options, settings)
    options = complete_options(options, settings)
    if directory.exists() and not options.overwrite:
        raise ValueError(
            f"{directory} holds a run already: continue it with {directory.resume_command}, choose another --out, "
            f"or --overwrite to replace it"
        )
    run = Run(directory, options, settings, game, meter)
    settings.check_game(game)  # before any work
    if settings.loop:
        settings.check_opponent(options.opponent, game)
    training = run.new_training(options)
    if options.exact_games(game):
        _check_measurable(game)  # before an older run is replaced
    new = not directory.path.exists()
    if note:
        warn(note)
    directory.path.mkdir(parents=True, exist_ok=True)
    with directory.lock():
        directory.clear()
        directory.write_config(new_run_config(options, settings))
        try:
            run.train(training)
        except (ValueError, TypeError, MemoryError):
            if not directory.has_results():  # the run is refused
                directory.clear()
                if new:
                    shutil.rmtree(directory.path, ignore_errors=True)
            raise
    return directory.path


def _check_measurable(game: AnyGame) -> None:
    """Check that learners can be measured exactly.

    Raises:
        MemoryError: the positions do not fit into memory.
    """
    try:
        check_measurable(game)
    except MemoryError as problem:
        raise MemoryError(f"{problem}. Without --exact-every the run is not measured exactly") from None


def new_run_config(options: Options, settings: LearnerConfig) -> dict[str, Any]:
    """Return the ``config.json`` of a new run."""
    config = new_config(options.game(), dataclasses.asdict(settings), **options.stored())
    return {**config, "versions": versions(), "revision": revision()}


def resume_run(path: Path, games: int | None = None, cluster: str = "") -> Path:
    """Resume a run from its last checkpoint, or from the start if there is none yet; other processes are locked out.

    If the training is over, complete the missing files of a finished run.

    Args:
        path: the run directory.
        games: new total number of games, to extend the run.
        cluster: cluster of a teacher, as ``Options.cluster``.

    Returns:
        The run directory.

    Raises:
        ValueError: no run, a damaged one, one that cannot be resumed, or fewer games than requested at first.
        Stopped: a signal asked to stop; a checkpoint has been written.
    """
    directory = RunDirectory(path)
    directory.read_training()  # reports first that a folder is no run
    with directory.lock():
        _resume(directory, games, cluster)
    return path


def complete_run(path: Path) -> tuple[str, ...]:
    """Regenerate the missing derived files of a trained run; other processes are locked out.

    Returns:
        The names of the files that were made.

    Raises:
        ValueError: no run, a damaged one, one with unfinished training, or one that lacks files of its training.
    """
    directory = RunDirectory(path)
    directory.read_training()
    with directory.lock():
        state = directory.check_trained()
        if state.missing:
            Run.open(directory, state.config).complete(state)
        return state.missing


def report_run(path: Path) -> Path:
    """Regenerate the ``report.html`` of a trained run, from its files alone; other processes are locked out.

    Returns:
        The page's path.

    Raises:
        ValueError: no run, a damaged one, or one with unfinished training.
    """
    directory = RunDirectory(path)
    directory.read_training()
    with directory.lock():
        run = Run.open(directory, directory.check_trained().config, meter=Meter())
        return write_run_page(path, run.strength())


def _resume(directory: RunDirectory, games: int | None, cluster: str) -> None:
    """Resume a run in a locked directory."""
    state = directory.read_state()
    config = state.config
    settings = build_config(config["learner"], config["settings"])
    options = _read_options(directory, config, cluster)
    if games is not None:
        if games < options.games:
            raise ValueError(f"--games {games} is fewer than the {options.games} of the run: choose that or more")
        if games > options.games and not settings.resumes:
            raise ValueError(
                f"{directory} cannot continue to {games} games, because {config['learner']} has a training loop "
                f"of its own and stores no state of it: train again, with --games {games} --out {directory} --overwrite"
            )
        options = dataclasses.replace(options, games=games)
    if state.is_trained(options.games) and not state.missing:
        more = f". Continue to more games with {directory.resume_command} --games {max(1, 2 * options.games)}"
        print_output(
            f"{directory} is finished, all {options.games:,} games are played: nothing was done"
            f"{more if settings.resumes else ''}"
        )
        return
    run = Run(directory, options, settings, game_from_dict(config["game"]), Meter(directory.read_cost()))
    if state.is_trained(options.games) and state.progress is not None:
        if (written := run.complete(state)) is not None:
            run.print_end(state.progress, written)
        else:
            print_status(f"{directory} is finished; it lacked {', '.join(state.missing)}, which is written now")
        return
    training = run.restore_training(state)
    here = {"games": training.done.games, "versions": versions(), "revision": revision()}
    directory.report.unlink(missing_ok=True)  # of fewer games: it must not pass for the final one
    directory.write_config({**config, "games": options.games, "resumed": [*config.get("resumed", []), here]})
    run.train(training, state.sizes if training.continues else {})


def _read_options(directory: RunDirectory, config: Mapping[str, Any], cluster: str = "") -> Options:
    """Return the options of an existing run.

    Raises:
        ValueError: invalid options.
    """
    names = {field.name for field in dataclasses.fields(Options)} - {"out", "cluster", "settings"}
    try:
        stored = {name: value for name, value in config.items() if name in names}
        return Options(**stored, out=directory.path, cluster=cluster)
    except TypeError as problem:  # for example, a word in place of a number
        raise ValueError(f"{directory.config} cannot be read as the settings of a run: {problem}") from None


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
    def open(cls, directory: RunDirectory, config: Mapping[str, Any], meter: Meter | None = None) -> Run:
        """Return an existing run; its meter continues from its ``cost.json`` by default."""
        options, game = _read_options(directory, config), game_from_dict(config["game"])
        settings = build_config(config["learner"], config["settings"])
        return cls(directory, options, settings, game, meter or Meter(directory.read_cost()))

    @property
    def batch(self) -> int:
        """Number of parallel games; old runs may not store it."""
        return self.options.batch or LearnerConfig.batch

    def new_training(self, options: Options) -> TrainingLoop:
        """Return the training at its start, with the given options."""
        return self.settings.training(
            self.game,
            options.games,
            batch=options.batch or self.batch,
            seed=options.seed,
            opponent=options.opponent,
            seat=options.seat,
            cluster=options.cluster,
        )

    def restore_training(self, state: RunState) -> TrainingLoop:
        """Return the training at its checkpoint; at its start without one, or if its learner cannot continue.

        Raises:
            ValueError: a checkpoint that is not of this training.
        """
        options, settings, parts = self.options, self.settings, state.checkpoint
        if parts is None or not settings.resumes:
            if self.directory.metrics.exists() and not settings.resumes:
                print_status(f"{options.learner} keeps no state of its training: it starts again with the first game")
            return self.new_training(options)
        if {"learner", "training", "metrics"} - parts.keys() or not (settings.loop or "live" in parts["training"]):
            raise ValueError(f"{self.directory.checkpoint} holds no training that can continue: train again")
        # a run of fewer games than its batch has used a smaller batch, and keeps it
        batch = self.batch if settings.loop else max(1, min(self.batch, parts["training"]["live"].size))
        training = self.new_training(dataclasses.replace(options, batch=batch))
        training.learner.state = parts["learner"]
        training.state = parts["training"]
        return training

    def train(self, training: TrainingLoop, sizes: Mapping[str, int] | None = None) -> None:
        """Train to the end, write the report, and print the result.

        Args:
            training: the training.
            sizes: valid sizes of the run's lines, see :class:`~ttt_eval.run_files.RunState`.
        """
        self.meter.end("set-up")
        print_status(f"follow it with evaluate.py plot {shlex.quote(str(self.directory))}, or in TensorBoard")
        self._warm_up()
        done = self._learn(training, sizes or {})
        self.print_end(done, None if self.options.no_report else self._write_report())

    def _learn(self, training: TrainingLoop, sizes: Mapping[str, int]) -> Progress:
        """Train to the end, with periodic checkpoints and a final one; ``sizes`` are those of the last checkpoint."""
        options, directory = self.options, self.directory
        saved_games, saved_at = training.done.games, time.monotonic()
        with (
            Metrics(directory, sizes.get("size", 0), training.done.games) as metrics,
            self._snapshots(sizes) as snapshots,
            self._bar() as show,
            Interrupt() as interrupt,
        ):

            def save() -> None:
                nonlocal saved_games, saved_at
                self._write_cost("training")  # first: a checkpoint always has the cost of its content
                arrays = {"learner": training.learner.state, "training": training.state}
                sizes = _sizes_on_disk(metrics, snapshots)
                directory.save_checkpoint(training.done, training.running, sizes, **arrays)
                saved_games, saved_at = training.done.games, time.monotonic()

            def after_step(training: TrainingLoop) -> bool:
                show(training.done)
                many = 0 < options.checkpoint_games <= training.done.games - saved_games
                if interrupt.asked or many or time.monotonic() - saved_at > options.checkpoint_seconds:
                    save()
                return not interrupt.asked

            done = training.run(
                every=options.marks(),
                callbacks=self._callbacks(training.marked, snapshots),
                log=self._logger(metrics),
                after_step=after_step,
            )
            if training.running:
                raise Stopped(f"stopped after {done.games:,} games: continue with {directory.resume_command}")
            save()
        return done

    def complete(self, state: RunState) -> WrittenReport | None:
        """Make the missing files of a trained run.

        Returns:
            The report; None if it is not made.

        Raises:
            ValueError: it lacks files that only training writes.
        """
        lost = [name for name in state.missing if name not in DERIVED_FILES]
        if lost:
            raise ValueError(
                f"{self.directory} lacks {', '.join(lost)}, or a part of it, which only its training writes: train "
                f"again, with --out {self.directory} --overwrite"
            )
        with Metrics(self.directory, state.sizes.get("size", 0)), self._snapshots(state.sizes):
            self.meter.end("set-up")  # TensorBoard's file is written with the lines of metrics.jsonl
        return self._write_report() if REPORT in state.missing else None

    def strength(self) -> Strength | None:
        """Return the strength of the trained policy; None if it is not computed unasked."""
        policy = make_policy(self.directory.policy, self.game)
        if not affordable(self.game, policy):
            return None
        return strength(self.game, policy, compared_policies(self.game, self.options.met))

    def print_end(self, done: Progress, written: WrittenReport | None) -> None:
        """Print the result of the training."""
        options, policy = self.options, self.directory.policy
        print_status(self._describe_training(done))
        if written is not None:
            if written.strength is not None:
                print_output(describe_strength(written.strength, options))
            else:
                print_output(self._describe_unmeasured())
            print_status(f"a report to look at: {written.page}")
        print_status(f"play it as {policy}")

    def _describe_training(self, done: Progress) -> str:
        options, game = self.options, self.game
        if options.opponent == TEACHER:
            return (
                f"{options.learner} learned from {done.games:,} games of {game}: player_0 won {done.wins:,}, "
                f"{done.draws:,} were drawn, player_1 won {done.losses:,}"
            )
        if not self.settings.plays_games:
            won, drawn, lost = (f"{count / max(1, done.games):.1%}" for count in (done.wins, done.draws, done.losses))
            return (
                f"{options.learner} made {done.games:,} exact updates in {game} against {options.opponent}: "
                f"{won} won, {drawn} drawn, {lost} lost, the mean of the updated policies"
            )
        return (
            f"{options.learner} played {done.games:,} games of {game} against {options.opponent}: "
            f"{done.wins:,} won, {done.draws:,} drawn, {done.losses:,} lost, while exploring"
        )

    def _describe_unmeasured(self) -> str:
        """Describe the strength of a learner without exact results against its opponents."""
        if isinstance(self.game, PhantomGame):
            return f"its strength is unknown: phantom games are evaluated up to {MAX_PHANTOM_CELLS} cells"
        words = shlex.join(["match", self.directory.policy, "random", *game_options(self.game)])
        rows = [row for row in self.directory.read_metrics() if "exploitability" in row]
        measured = ""
        if rows:
            measured = f"exactly: exploitability {rows[-1]['exploitability']:.6f} after {rows[-1]['games']:,} games; "
        return (
            f"{measured}exact results against {' and '.join(COMPARED)} are left out on {self.game}: they take long, or "
            f"the policy is not a function of the position. evaluate.py {words} samples them"
        )

    def _write_report(self) -> WrittenReport:
        """Write the report, the last file of a run; its page includes the cost of the evaluation."""
        exact = self.strength()
        self._write_cost("evaluation")
        return WrittenReport(exact, write_run_page(self.directory.path, exact))

    def _write_cost(self, phase: str) -> None:
        """End a phase of the cost, and write all phases."""
        self.meter.end(phase)
        self.directory.write_cost(self.meter.phases)

    def _snapshots(self, sizes: Mapping[str, int]) -> SnapshotWriter | nullcontext[None]:
        """Return the writer of snapshots; None if nothing is measured exactly: snapshots are taken at exact marks."""
        if not self.options.exact_games(self.game):
            return nullcontext()
        return SnapshotWriter(self.directory, self.game, self.options.games, sizes.get("choices", 0))

    def _logger(self, metrics: Metrics) -> Callable[[int, Mapping[str, float]], None]:
        """Return a function that writes a line of metrics, with the CPU seconds of the training so far."""

        def write(games: int, measured: Mapping[str, float]) -> None:
            self.meter.end("training")
            phase = self.meter.phases["training"]
            metrics.write(games, {**measured, "cpu_s": phase["cpu_user_s"] + phase["cpu_system_s"]})

        return write

    def _callbacks(
        self, marked: int, snapshots: SnapshotWriter | None
    ) -> list[Callable[[int, Policy], dict[str, float]]]:
        """Return the measurements during training, which are a phase of their own."""
        options = self.options
        every = options.exact_games(self.game)
        if every == 0:
            return []
        seat = {"first": 0, "second": 1}.get(options.seat)
        measure = training_callback(self.game, options.met, every, options.games, seat=seat, start=marked)

        def measure_exactly(games: int, learner: Policy) -> dict[str, float]:
            self.meter.end("training")
            found = measure(games, learner)
            if found and snapshots is not None:
                snapshots.write(games, learner)
            self.meter.end("evaluation")
            return found

        return [measure_exactly]

    def _warm_up(self) -> None:
        """Compile a learner's code before its training is timed, with a few games that are discarded."""
        if self.options.games >= MIN_COMPILED_GAMES and self.settings.resumes:
            with compile_at_once():
                few = dataclasses.replace(self.options, games=WARM_UP_GAMES, batch=WARM_UP_GAMES // 2)
                training = self.new_training(few)
                training.run()
            if self.options.exact_games(self.game):
                tiny = Game(2, 2, 2)
                solve(tiny)  # by the interpreter: a game is solved once, so compiling the solver does not pay off
                policy = make_policy("random", tiny)
                with compile_at_once():
                    strength(tiny, policy if training.learner.quick else CachedPolicy(policy, tiny), ["random"])
        self.meter.end("compiling")

    @contextmanager
    def _bar(self) -> Iterator[Callable[[Progress], None]]:
        """Show a progress bar."""
        with progress_bar("rate", "wins") as bar:
            task = bar.add_task("training", total=self.options.games, rate="", wins="")
            began = shown = time.perf_counter()
            first: int | None = None

            def show(done: Progress) -> None:
                nonlocal shown, first
                first = done.games if first is None else first
                now = time.perf_counter()
                if now - shown > 0.1 or done.games >= self.options.games:
                    shown = now
                    rate = f"{(done.games - first) / (now - began):,.0f} games/s"
                    wins = f"won {done.wins / max(1, done.games):.1%}"
                    bar.update(task, completed=done.games, rate=rate, wins=wins)

            yield show


def _sizes_on_disk(metrics: Metrics, snapshots: SnapshotWriter | None) -> dict[str, int]:
    """Return the sizes of the run's lines in bytes, after flushing to disk."""
    sizes = {"size": metrics.size()}
    if snapshots is not None:
        sizes["choices"] = snapshots.size()
    return sizes


def describe_strength(exact: Strength, options: Options) -> str:
    """Describe the strength of a learner in a sentence."""
    opponent = options.met or "random"
    first, second = exact.seats[opponent]
    seat = {"first": (first, "moving first"), "second": (second, "moving second")}
    result, where = seat.get(options.seat, (first.mean(second), "the mean of both seats"))
    losses = describe_losses(exact.measures, " (perfect play)" if exact.perfect else "")
    return (
        f"exactly: {losses}; "
        f"against {opponent} it wins {result.win:.2%}, draws {result.draw:.2%}, loses {result.loss:.2%}, {where}"
    )
