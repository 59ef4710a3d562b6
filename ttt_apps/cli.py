"""What the commands share: reading sizes, saying what is wrong, progress."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from learners.sb3 import TRUST
from ttt_envs.kept import CACHE_BYTES
from ttt_envs.rules import Game


def parse_size(text: str) -> tuple[int, int]:
    """``"3"`` or ``"5x6"`` as (rows, columns).

    Raises:
        ValueError: anything else.
    """
    match = re.fullmatch(r"(\d+)(?:x(\d+))?", text.strip().lower())
    if match is None:
        raise ValueError(f"--size {text} is not a board: write an edge such as 3, or rows x columns such as 5x6")
    rows = int(match[1])
    return rows, int(match[2] or rows)


@dataclass(frozen=True)
class GameOptions:
    """Which game is played."""

    size: Annotated[str, tyro.conf.arg(metavar="N|RxC")] = "3"
    """edge of the board, or rows x columns, as in 5x6"""
    win_length: int = 3
    """stones in a line that win"""
    skip_chance: float = 0.0
    """probability that a turn is skipped"""
    trust: tyro.conf.FlagCreatePairsOff[bool] = False
    """load files that can run code when they are loaded, such as those of sb3:PATH"""

    def game(self) -> Game:
        """The game, checked; from here on files are trusted or not, as the options say."""
        if self.trust:
            os.environ[TRUST] = "1"  # for workers, too
        return Game.of_size(parse_size(self.size), self.win_length, self.skip_chance)


@dataclass(frozen=True)
class ExactOptions(GameOptions):
    """Which game is played, and how exact numbers are had."""

    json: tyro.conf.FlagCreatePairsOff[bool] = False
    """print JSON instead of tables"""
    no_cache: tyro.conf.FlagCreatePairsOff[bool] = False
    """solve anew, and keep no table of a solved game on disk"""

    def game(self) -> Game:
        """The game, checked; from here on solved games are kept or not, as the options say."""
        if self.no_cache:
            os.environ[CACHE_BYTES] = "0"  # for workers, too
        return super().game()


class Stopped(KeyboardInterrupt):
    """A signal asked to stop, and all that was done is on disk; the message says how to go on."""


def run_command(command: Callable[[], Any]) -> None:
    """Run a command; a mistake in what was asked for is one sentence and exit code 2, an interrupt 130."""
    try:
        command()
    except (ValueError, TypeError, MemoryError, OSError) as problem:
        sys.exit(refuse(problem))
    except KeyboardInterrupt as stop:
        print(stop if isinstance(stop, Stopped) else "stopped", file=sys.stderr)
        sys.exit(130)


def refuse(problem: BaseException) -> int:
    """Print why, and return the exit code for it."""
    print(f"error: {problem}", file=sys.stderr)
    return 2


def progress_bar(*fields: str) -> Progress:
    """A bar on standard error, which leaves standard output to results; ``fields`` are shown behind it."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        *(TextColumn("{task.fields[" + field + "]}") for field in fields),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )


@contextmanager
def share_bar(description: str) -> Iterator[Callable[[float], None]]:
    """A bar for work that tells which share of it is done, 0 to 1."""
    with progress_bar() as bar:
        task = bar.add_task(description, total=1.0)
        yield lambda share: bar.update(task, completed=share)
