"""What the commands share: reading arguments, saying what is wrong, progress and tables."""

from __future__ import annotations

import dataclasses
import difflib
import io
import os
import re
import shutil
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import tyro
from rich import box
from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from tyro.constructors import PrimitiveConstructorSpec

from learners import OtherGame
from ttt_apps.signals import ended_by_signals
from ttt_envs.compiling import NOTICE
from ttt_envs.kept import CACHE_BYTES
from ttt_envs.specs import TRUST
from ttt_envs.version import __version__

if TYPE_CHECKING:  # compiled code is imported where a game is played, not where help is written
    from ttt_envs.parallel import Jobs
    from ttt_envs.rules import Game

MOST = 10**15
"""the largest count that is taken"""
MIN_COLUMNS, MAX_COLUMNS = 40, 10_000
"""widths of a terminal: wrapping help to fewer columns does not end, and a table fills all that there are"""
GLOBAL = "--quiet shows no progress and says only results and what is wrong; --version prints the version."

_quiet = False
Parsed = TypeVar("Parsed")


# ---------------------------------------------------------------------------------------------------------------------
# Reading arguments


def parse_size(text: str) -> tuple[int, int]:
    """``"3"`` or ``"5x6"`` as (rows, columns).

    Raises:
        ValueError: anything else.
    """
    match = re.fullmatch(r"(\d{1,9})(?:x(\d{1,9}))?", text.strip().lower())
    if match is None:
        raise ValueError(f"--size {text} is not a board: write an edge such as 3, or rows x columns such as 5x6")
    rows = int(match[1])
    return rows, int(match[2] or rows)


def parse_count(text: str) -> int:
    """A whole number: ``"10000"``, ``"10_000"``, ``"10,000"`` or ``"1e4"``.

    Raises:
        ValueError: anything else, or one that is too large.
    """
    match = re.fullmatch(r"-?\d{1,3}(,\d{3})+|-?\d[\d_]*|(-?\d+(?:\.\d+)?)e\+?(\d{1,2})", text.strip().lower())
    if match is None or len(text) > 40:
        raise ValueError(f"{text[:40]} is not a whole number: write for example 10000, 10_000 or 1e4")
    if match[2] is None:
        number = int(text.strip().replace(",", "").replace("_", ""))
    else:
        whole, _, part = match[2].partition(".")
        places = int(match[3])
        if len(part.rstrip("0")) > places:
            raise ValueError(f"{text} is not a whole number: write for example 10000, 10_000 or 1e4")
        number = int(whole + part.ljust(places, "0")[:places])
    if abs(number) > MOST:
        raise ValueError(f"{text} is more than anybody can wait for: choose up to {MOST:.0e}")
    return number


def _parse_counts(words: list[str]) -> tuple[int, ...]:
    return tuple(parse_count(part) for word in words for part in word.split(",") if part)


Count = Annotated[
    int,
    PrimitiveConstructorSpec(
        nargs=1,
        metavar="N",
        instance_from_str=lambda words: parse_count(words[0]),
        is_instance=lambda value: isinstance(value, int),
        str_from_instance=lambda value: [str(value)],
    ),
]
"""a whole number of something, which may be written 1e5"""
Counts = Annotated[
    tuple[int, ...],
    PrimitiveConstructorSpec(
        nargs="*",
        metavar="N,N,...",
        instance_from_str=_parse_counts,
        is_instance=lambda value: isinstance(value, tuple),
        str_from_instance=lambda value: [str(number) for number in value],
    ),
]
"""several, with commas or spaces between them"""


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
        from ttt_envs.rules import Game

        if self.trust:
            trust_files()
        return Game.of_size(parse_size(self.size), self.win_length, self.skip_chance)


@dataclass(frozen=True)
class ExactOptions(GameOptions):
    """Which game is played, and how exact numbers are had."""

    json: tyro.conf.FlagCreatePairsOff[bool] = False
    """print JSON instead of tables"""
    no_cache: tyro.conf.FlagCreatePairsOff[bool] = False
    """solve anew, and keep no table of a solved game on disk"""
    memory: Annotated[float | None, tyro.conf.arg(metavar="GIB")] = None
    """GiB that may be used; by default what is free. What is estimated to need more is not begun"""

    def game(self) -> Game:
        """The game, checked; from here on solved games are kept or not, as the options say."""
        if self.no_cache:
            os.environ[CACHE_BYTES] = "0"  # for workers, too
        return super().game()

    def memory_bytes(self) -> int | None:
        """The bytes that may be used, None for what is free.

        Raises:
            ValueError: no amount of memory.
        """
        if self.memory is None:
            return None
        if not 0 < self.memory <= 2**20:
            raise ValueError(f"--memory {self.memory:g} is no amount of GiB: choose more than 0, up to {2**20:,}")
        return int(self.memory * 2**30)


@dataclass(frozen=True)
class WorkOptions:
    """Who does the work."""

    jobs: Count = 1
    """processes that work, -1 one for each core"""
    cluster: Annotated[str, tyro.conf.arg(metavar="auto|HOST:PORT")] = ""
    """work on a cluster of Ray instead: auto for the one that was started here, or the address of its head"""

    def workers(self) -> Jobs:
        """Who works, checked.

        Raises:
            ValueError: nobody.
        """
        from ttt_envs.parallel import MOST_JOBS, Cluster

        if self.cluster:
            return Cluster(self.cluster)
        if self.jobs < 1 and self.jobs != -1:
            raise ValueError(f"--jobs {self.jobs} leaves nobody to work: choose 1 or more processes, -1 for all cores")
        if self.jobs > MOST_JOBS:
            raise ValueError(f"--jobs {self.jobs} is more than a machine can have: choose {MOST_JOBS} or fewer")
        return self.jobs


@dataclass(frozen=True)
class PairOptions(WorkOptions, GameOptions):
    """How pairs of games are played."""

    seed: Count = 0
    """of all chance"""
    openings: Annotated[str, tyro.conf.arg(metavar="random:N|all:N|FILE")] = ""
    """where both games of a pair begin: after N random plies, in every position after N plies by turns, or in the
    positions of a file"""


def trust_files() -> None:
    """From here on files may run code: zips that hold pickles, and classes that files name."""
    os.environ[TRUST] = "1"  # for workers, too


def pairs_of(games: int, most: int = MOST) -> int:
    """Half of an even number of games.

    Raises:
        ValueError: a number of games that makes no pairs, or is more than ``most``.
    """
    if games < 2 or games % 2:
        raise ValueError(
            f"--games {games} makes no pairs: every pair is two games with the seats swapped, "
            f"choose an even number such as {max(2, games + 1)}"
        )
    if games > most:
        raise ValueError(f"--games {games} is more than is kept: choose up to {most:,}")
    return games // 2


def check_seed(seed: int) -> None:
    """Raise ValueError for what no generator can be seeded with."""
    if not 0 <= seed < 2**63:
        raise ValueError(f"--seed {seed} is no seed: choose 0 or more, below 2**63")


def parse(
    kind: type[Parsed],
    arguments: Sequence[str],
    prog: str,
    *,
    default: Parsed | None = None,
    elsewhere: Callable[[], Mapping[str, Sequence[str]]] = dict,
) -> Parsed:
    """Read a command line by tyro; what is wrong with it is one sentence.

    Args:
        kind: a dataclass of options.
        arguments: the words.
        prog: what the command is called.
        default: values of options that are not given.
        elsewhere: for messages: options of others -> whose they are.

    Raises:
        ValueError: arguments that make no sense.
        SystemExit: help was asked for.
    """
    said = io.StringIO()
    given: dict[str, Any] = {} if default is None else {"default": default}
    try:
        with redirect_stderr(said):
            found: tuple[Parsed, list[str]] = tyro.cli(
                kind,
                args=list(arguments),
                prog=prog,
                return_unknown_args=True,
                config=(tyro.conf.OmitArgPrefixes,),
                **given,
            )
    except SystemExit as end:
        if end.code in (0, None):
            raise
        raise ValueError(f"{_sentence(said.getvalue())}. See {prog} --help") from None
    parsed, unknown = found
    if unknown:
        raise ValueError(_unknown(unknown, kind, prog, elsewhere()))
    return parsed


def _sentence(box: str) -> str:
    """What a box of tyro's says: the part below its title, up to the next line across."""
    parts: list[list[str]] = [[]]
    framed = box.lstrip().startswith(("╭", "+"))
    for line in box.splitlines():
        text = line.strip("│| ")
        if text.startswith(("╭", "╰", "+")) or (text and set(text) <= set("─-")):
            parts.append([])
        else:
            parts[-1].append(text)
    said = [" ".join(" ".join(part).split()) for part in parts]
    said = [part for part in said if part]
    message = said[0 if framed or len(said) == 1 else 1]  # without a frame the title is a part of its own
    return message.rstrip(".").removesuffix("(required)").rstrip()


def _unknown(unknown: Sequence[str], kind: Any, prog: str, elsewhere: Mapping[str, Sequence[str]]) -> str:
    """What to say of words that no option takes."""
    word = unknown[0].partition("=")[0]
    if not word.startswith("-"):
        return f"{word!r} is one word too many. See {prog} --help"
    name = word.replace("_", "-")
    if name in elsewhere:
        return f"{word} is an option of {', '.join(elsewhere[name])}, and this is not. See {prog} --help"
    near = difflib.get_close_matches(name, option_names(kind), 1, 0.6)
    return f"there is no option {word}{f': did you mean {near[0]}?' if near else '.'} See {prog} --help"


def option_names(kind: Any) -> list[str]:
    """The options that a dataclass of options, or of such dataclasses, makes."""
    names = []
    for field in dataclasses.fields(kind):
        if "Positional" in str(field.type):  # a word without a name; annotations may be text
            continue
        inner = field.type.__origin__ if hasattr(field.type, "__origin__") else field.type
        names += option_names(inner) if dataclasses.is_dataclass(inner) else [f"--{field.name.replace('_', '-')}"]
    return names


# ---------------------------------------------------------------------------------------------------------------------
# Running


class Stopped(KeyboardInterrupt):
    """A signal asked to stop, and all that was done is on disk; the message says how to go on."""


@contextmanager
def kept_in(folder: Path | None, done: str = "played") -> Iterator[None]:
    """Say where what was done is kept when an interrupt comes; nothing is said where there is no folder."""
    try:
        yield
    except KeyboardInterrupt:
        if folder is None:
            raise
        raise Stopped(f"stopped; what was {done} is kept in {folder}: the same command goes on") from None


def words_of(arguments: Sequence[str] | None) -> list[str]:
    """The words of a command line, sys.argv's by default, without --quiet, which is obeyed from here on.

    Raises:
        SystemExit: --version was asked for, and is printed.
    """
    global _quiet
    words = list(sys.argv[1:] if arguments is None else arguments)
    if "--version" in words:
        print(f"ttt_envs {__version__}")
        raise SystemExit(0)
    _quiet = "--quiet" in words
    if _quiet:
        os.environ[NOTICE] = "0"  # for workers, too
    return [word for word in words if word != "--quiet"]


def quiet_words() -> list[str]:
    """What a command that this one starts is to be told."""
    return ["--quiet"] if _quiet else []


def prepare_output() -> None:
    """Make standard output take any result: letters that it cannot encode are replaced, and its width is usable."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")
    try:
        asked = int(os.environ.get("COLUMNS", "0"))
    except ValueError:
        asked = 0
    if asked <= 0:  # it says nothing
        os.environ.pop("COLUMNS", None)
    columns = shutil.get_terminal_size().columns
    if not MIN_COLUMNS <= columns <= MAX_COLUMNS:
        os.environ["COLUMNS"] = str(min(max(columns, MIN_COLUMNS), MAX_COLUMNS))  # tyro and rich read it


def run_command(command: Callable[[], Any]) -> None:
    """Run a command; a mistake in what was asked for is one sentence and exit code 2, a signal to stop 130.

    Classes of modules in the current folder can be named, as with ``python -m``.
    """
    prepare_output()
    if not {"", os.getcwd()} & set(sys.path):
        sys.path.append(os.getcwd())
    try:
        with ended_by_signals(), warnings.catch_warnings():
            warnings.simplefilter("always", OtherGame)
            shown = warnings.showwarning
            warnings.showwarning = lambda message, category, *rest, **more: (
                note(str(message)) if issubclass(category, OtherGame) else shown(message, category, *rest, **more)
            )
            command()
    except BrokenPipeError:  # whoever reads our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (ValueError, TypeError, MemoryError, OSError) as problem:
        sys.exit(refuse(problem))
    except KeyboardInterrupt as stop:
        print(as_called(str(stop)) if isinstance(stop, Stopped) else "stopped", file=sys.stderr)
        sys.exit(130)


def refuse(problem: BaseException) -> int:
    """Print why, and return the exit code for it."""
    print(f"error: {as_called(str(problem))}", file=sys.stderr)
    return 2


def as_called(text: str) -> str:
    """Commands in ``text`` under the names that they have here: an installed package has no train.py."""
    if Path(sys.argv[0]).name.startswith("ttt-"):
        return re.sub(r"\b(?:python )?(train|evaluate|play)\.py\b", r"ttt-\1", text)
    return text


# ---------------------------------------------------------------------------------------------------------------------
# Showing


def say(text: str) -> None:
    """Print prose: broken between words on a terminal, unbroken where a program reads it."""
    console = Console(highlight=False)
    if console.is_terminal:
        console.print(as_called(text), markup=False)
    else:
        print(as_called(text))


def tell(text: str) -> None:
    """:func:`say` what is no result: nothing with --quiet."""
    if not _quiet:
        say(text)


def note(text: str) -> None:
    """Say something on standard error that should be known, and stops nothing."""
    if not _quiet:
        print(f"note: {as_called(text)}", file=sys.stderr)


def write_page_of(folder: Path, no_report: bool) -> str:
    """Write the page of the result in a folder, unless it is to be left out; return what is said of it."""
    if no_report:
        return ""
    from evaluation.evidence import write_evidence

    return f"\na page to look at: {write_evidence(folder)}"


def new_table(*columns: str, title: str = "") -> Table:
    """A table that is narrow enough for many columns; the first one is words, the others are numbers."""
    table = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for index, column in enumerate(columns):
        if index == 0:
            table.add_column(column, overflow="fold")
        else:
            table.add_column(column, justify="right", no_wrap=True)
    return table


def show(what: RenderableType) -> None:
    """Print a table; where a program reads it, as wide as it likes."""
    console = Console(highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console = Console(highlight=False, width=200)
    console.print(what)


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
        console=Console(stderr=True, quiet=_quiet),  # older rich ends a disabled bar with a line
        disable=_quiet,
    )


@contextmanager
def share_bar(description: str) -> Iterator[Callable[[float], None]]:
    """A bar for work that tells which share of it is done, 0 to 1."""
    with progress_bar() as bar:
        task = bar.add_task(description, total=1.0)
        yield lambda share: bar.update(task, completed=share)


@contextmanager
def slow_status(words: str, after_s: float = 1.0) -> Iterator[None]:
    """Show what is being done where it takes more than a moment."""
    console = Console(stderr=True)
    status = console.status(words)
    timer = threading.Timer(after_s, status.start)
    if console.is_terminal and not _quiet:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()
        status.stop()
