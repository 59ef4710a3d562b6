"""Train a learner and write a run directory."""

from __future__ import annotations

import dataclasses
import json
import platform
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

import tyro
from rich.console import Console

from evaluation.cost import Meter
from evaluation.exact import while_training
from learners import LEARNERS
from learners.base import Learner, check_bootstrap
from learners.checkpoint import CHECKPOINT, CONFIG, COST, METRICS, save_arrays
from learners.training import Callback, Progress, check_counts, exploration_rng, train
from ttt_apps.cli import GameOptions, progress_bar, run_command
from ttt_envs.files import write_json
from ttt_envs.lockstep import SELF
from ttt_envs.policy import load_object, make_policy, nearest


@dataclass(frozen=True)
class Options(GameOptions):
    """Train a learner by playing, and write a run directory that can be played as run:PATH."""

    learner: str = "q-learning"
    """which learner; its own settings are options too, see --learner NAME --help"""
    opponent: str = "random"
    """who plays against it: a policy such as random or win-or-block, or self"""
    seat: Literal["first", "second", "random", "alternate"] = "alternate"
    """the learner's seat"""
    games: int = 50_000
    """how many games to play"""
    batch: int = 256
    """how many games are played side by side"""
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

    def folder(self) -> Path:
        """Where the run goes."""
        if self.out is not None:
            return self.out
        game = self.game()
        skip = f"-skip{game.skip_chance:g}" if game.skip_chance else ""
        opponent = "".join(letter if letter.isalnum() or letter in "-." else "_" for letter in self.opponent)
        board = f"{game.rows}x{game.columns}-{game.win_length}{skip}"
        return Path("runs") / f"{self.learner}-{board}-{opponent}-seed{self.seed}"


def main(arguments: list[str] | None = None) -> None:
    """The command ``ttt-train``."""
    run_command(lambda: _main(sys.argv[1:] if arguments is None else arguments))


def _main(arguments: list[str]) -> None:
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
    parsed: Any = tyro.cli(joined, args=arguments, prog="train.py")
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
    """
    meter = Meter()
    game = options.game()
    check_counts(options.games, options.batch)
    if options.log_every < 1:
        raise ValueError(f"log_every={options.log_every} is no number of games: choose 1 or more")
    if options.exact_every < 0:
        raise ValueError(f"exact_every={options.exact_every} is no number of games: choose 0 (never), 1 or more")
    if options.opponent != SELF:
        make_policy(options.opponent, game)
    run = options.folder()
    if (run / CONFIG).exists() and not options.overwrite:
        raise ValueError(f"{run} holds a run already: choose another --out, or --overwrite to replace it")
    learner = settings.build(game, exploration_rng(options.seed))
    check_bootstrap(learner, both=options.opponent == SELF)
    run.mkdir(parents=True, exist_ok=True)
    for old in (CHECKPOINT, METRICS, COST):
        (run / old).unlink(missing_ok=True)
    write_json(
        run / CONFIG,
        {
            "format": 1,
            "game": game.to_dict(),
            "learner": options.learner,
            "settings": dataclasses.asdict(settings),
            "opponent": options.opponent,
            "seat": options.seat,
            "games": options.games,
            "batch": options.batch,
            "seed": options.seed,
            "versions": _versions(),
            "revision": _revision(),
        },
    )
    meter.end("set-up")
    done = _train(options, learner, run)
    save_arrays(run / CHECKPOINT, learner.to_arrays())
    meter.end("training")
    write_json(run / COST, {"format": 1, "phases": meter.phases})
    console = Console()
    console.print(
        f"{options.learner} played {done.games:,} games of {game} against {options.opponent}: "
        f"{done.wins:,} won, {done.draws:,} drawn, {done.losses:,} lost, while exploring",
        soft_wrap=True,
    )
    console.print(f"play it as [bold]run:{run}[/bold]", soft_wrap=True)
    return run


def _train(options: Options, learner: Learner, run: Path) -> Progress:
    began = time.perf_counter()
    shown = began
    with progress_bar("rate", "wins") as bar, (run / METRICS).open("w") as metrics:
        task = bar.add_task("training", total=options.games, rate="", wins="")

        def show(done: Progress) -> None:
            nonlocal shown
            now = time.perf_counter()
            if now - shown > 0.1 or done.games == options.games:
                shown = now
                rate = f"{done.games / (now - began):,.0f} games/s"
                wins = f"won {done.wins / max(1, done.games):.1%}"
                bar.update(task, completed=done.games, rate=rate, wins=wins)

        def log(games: int, measured: dict[str, float]) -> None:
            rate = games / (time.perf_counter() - began)
            metrics.write(json.dumps({"games": games, "games_per_s": rate, **measured}) + "\n")
            metrics.flush()

        return train(
            learner,
            options.opponent,
            options.games,
            callbacks=_callbacks(options, learner),
            batch=options.batch,
            seed=options.seed,
            seat=options.seat,
            every=options.log_every,
            log=log,
            progress=show,
        )


def _callbacks(options: Options, learner: Learner) -> list[Callback]:
    """What to measure on the way."""
    if options.exact_every == 0:
        return []
    opponent = None if options.opponent == SELF else options.opponent
    seat = {"first": 0, "second": 1}.get(options.seat)
    return [while_training(learner.game, opponent, options.exact_every, options.games, seat=seat)]


def _versions() -> dict[str, str]:
    packages = ("ttt_envs", "numpy", "numba", "gymnasium", "pettingzoo")
    found = {"python": platform.python_version()}
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:  # run from a checkout that is not installed
            found[package] = "not installed"
    return found


def _revision() -> str | None:
    """The git revision of this code, where it is a checkout."""
    git = shutil.which("git")
    if git is None:
        return None
    here = Path(__file__).parent
    answer = subprocess.run([git, "rev-parse", "HEAD"], cwd=here, capture_output=True, text=True, check=False)
    return answer.stdout.strip() or None
