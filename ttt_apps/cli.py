"""Shared parts of the commands: option parsing, error messages, progress bars and tables."""

from __future__ import annotations

import dataclasses
import io
import os
import re
import shutil
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, cast

import tyro
from rich import box, progress
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text
from tyro.constructors import PrimitiveConstructorSpec

from learners import OtherGameWarning
from ttt_apps.messages import (
    escape_unprintable,
    installed_names,
    note_options,
    parser_sentence,
    print_error,
    unknown_word,
)
from ttt_apps.signals import INTERRUPTED, interrupt_on_signals
from ttt_envs.agents.specs import TRUST
from ttt_envs.core.array_cache import CACHE_BYTES_VARIABLE
from ttt_envs.core.jit import NOTICE
from ttt_envs.game.phantom import PhantomGame
from ttt_envs.version import __version__

if TYPE_CHECKING:  # compiled code is imported where a game is played, not where help is written
    from ttt_envs.core.parallel import Jobs
    from ttt_envs.game.game import Game
    from ttt_envs.game.phantom import AnyGame
    from ttt_eval.matches.openings import Openings

MAX_NUMBER = 10**15
"""Maximum value of a count."""
MIN_COLUMNS, MAX_COLUMNS = 40, 10_000
"""Limits of the terminal width: wrapping help to fewer columns does not terminate, and a table fills all columns."""
MIN_NAME = 16
"""Minimum width of the column that names the rows of a wide table, in characters."""
DATABASES = Path("databases")
"""Default folder of endgame databases."""
COLUMN_GAP = 2
"""Space for a column besides its text, in the tables of :func:`new_table`."""
GLOBAL = "--quiet prints results and errors only; --version prints the version."

_quiet = False
Parsed = TypeVar("Parsed")


# ---------------------------------------------------------------------------------------------------------------------
# Reading arguments


def parse_size(text: str) -> tuple[int, int]:
    """Parse ``"3"`` or ``"5x6"`` as (rows, columns).

    Raises:
        ValueError: anything else, or an edge that no board has.
    """
    match = re.fullmatch(r"(\d{1,9})(?:x(\d{1,9}))?", text.strip().lower())
    if match is None:
        raise ValueError(f"--size {text} is not a board: write an edge such as 3, or rows x columns such as 5x6")
    rows = int(match[1])
    columns = int(match[2] or rows)
    from ttt_envs.game.game import MAX_EDGE

    if not (1 <= rows <= MAX_EDGE and 1 <= columns <= MAX_EDGE):
        raise ValueError(f"--size {text} is not a board: choose edges from 1 to {MAX_EDGE}")
    return rows, columns


def parse_count(text: str) -> int:
    """Parse a whole number: ``"10000"``, ``"10_000"``, ``"10,000"`` or ``"1e4"``.

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
    if abs(number) > MAX_NUMBER:
        raise ValueError(f"{text} is too large: choose up to {MAX_NUMBER:.0e}")
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
"""A whole number, which may be written 1e5."""
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
"""Several whole numbers, separated by commas or spaces."""


@dataclass(frozen=True)
class TrustOptions:
    """Option of commands on files of others; :func:`parse` applies it."""

    trust: tyro.conf.FlagCreatePairsOff[bool] = False
    """run code that files name or hold: policies of your own class, or zips of sb3:PATH"""


@dataclass(frozen=True)
class GameOptions(TrustOptions):
    """Parameters of the game; those that are not given are those of another game, such as that of a policy's run."""

    size: Annotated[str | None, tyro.conf.arg(metavar="N|RxC", help_behavior_hint="(default: 3)")] = None
    """edge of the board, or rows x columns, as in 5x6. evaluate.py and play.py take all options of the game that are
    not given from the run that they name"""
    win_length: Annotated[int | None, tyro.conf.arg(metavar="N", help_behavior_hint="")] = None
    """number of stones in a line that win; default: by the shorter edge, 3 up to an edge of 3, 4 up to 6, else 5"""
    skip_chance: Annotated[float | None, tyro.conf.arg(metavar="FLOAT", help_behavior_hint="(default: 0)")] = None
    """probability that a turn is skipped"""
    gravity: tyro.conf.FlagCreatePairsOff[bool] = False
    """stones fall to the lowest empty cell of their column, as in Connect Four"""
    overlines: tyro.conf.FlagCreatePairsOff[bool] = True
    """longer lines count too; without them only lines of exactly the win length, as in standard gomoku"""
    misere: tyro.conf.FlagCreatePairsOff[bool] = False
    """a player who completes a line loses"""
    torus: tyro.conf.FlagCreatePairsOff[bool] = False
    """lines continue across the edges: the board is a torus"""
    phantom: Annotated[
        Literal["no", "classic", "abrupt"] | None,
        tyro.conf.arg(metavar="{no,classic,abrupt}", help_behavior_hint="(default: no)"),
    ] = None
    """hide the opponent's stones; after an attempt on a hidden stone one tries again (classic), or the turn is over
    (abrupt)"""

    def game(self, default: AnyGame | None = None) -> AnyGame:
        """Return the validated game, and trust files from here on if ``trust`` is set.

        Args:
            default: the game of the parameters that are not given, by default 3 x 3 without skips.
        """
        from ttt_envs.game.game import VARIANTS, Game

        if self.trust:
            trust_files()
        default = default or Game()
        size = (default.rows, default.columns) if self.size is None else parse_size(self.size)
        own = default.win_length if self.size is None else None  # another board has its own default
        game = Game.of_size(
            size,
            own if self.win_length is None else self.win_length,
            default.skip_chance if self.skip_chance is None else self.skip_chance,
            **{
                name: value if getattr(self, name) == value else default.variants.get(name, not value)
                for name, value in VARIANTS.items()
            },
        )
        kind = self.phantom or (default.kind if isinstance(default, PhantomGame) else "no")
        return game if kind == "no" else PhantomGame(game, kind)

    def game_words(self) -> list[str]:
        """Return the given options as words of a command line."""
        from ttt_envs.game.game import VARIANTS

        names = ("size", "win_length", "skip_chance", "phantom")
        given = {f"--{name.replace('_', '-')}": getattr(self, name) for name in names}
        words = [word for name, value in given.items() if value is not None for word in (name, str(value))]
        rules = (
            f"--{name}" if value else f"--no-{name}" for name, value in VARIANTS.items() if getattr(self, name) == value
        )
        return [*words, *rules]

    def game_for(self, *policies: str) -> Game:
        """Return :meth:`any_game_for`, with visible stones.

        Raises:
            ValueError: as there, or a phantom game.
        """
        from ttt_envs.game.phantom import refuse_hidden

        return refuse_hidden(self.any_game_for(*policies))

    def any_game_for(self, *policies: str) -> AnyGame:
        """Return the validated game: by default that of the runs among the policies, else 3 x 3 without skips.

        Args:
            policies: spec strings; empty ones are left out.

        Raises:
            ValueError: an invalid game, no such run, or runs of different games.
        """
        runs = self._read_games(policies) if "run:" in " ".join(policies) else {}
        games = {self.game(default): run for run, default in runs.items()} or {self.game(): Path()}
        if len(games) > 1:
            (one, first), (other, second) = list(games.items())[:2]
            raise ValueError(
                f"{first} learned {one}, and {second} learned {other}: name the game that they are to play with "
                f"--size, --win-length and --skip-chance"
            )
        return next(iter(games))

    def _read_games(self, policies: Sequence[str]) -> dict[Path, AnyGame]:
        from ttt_eval.run_files import RunDirectory, list_run_folders

        folders = [folder for policy in policies if policy for folder in list_run_folders(policy)]
        return {folder: RunDirectory(folder).read_game() for folder in folders}


@dataclass(frozen=True)
class PageOptions:
    """Options of commands that serve a page on this machine."""

    port: Count = 0
    """port of the page; default: a free one"""
    no_browser: tyro.conf.FlagCreatePairsOff[bool] = False
    """print the address of the page, and open nothing"""


@dataclass(frozen=True)
class JsonOptions:
    """Format of the output."""

    json: tyro.conf.FlagCreatePairsOff[bool] = False
    """print JSON instead of text"""


@dataclass(frozen=True)
class ReportOptions(JsonOptions):
    """Output of commands that write a folder."""

    no_report: tyro.conf.FlagCreatePairsOff[bool] = False
    """write no report.html"""


@dataclass(frozen=True)
class MemoryOptions(JsonOptions):
    """Options of exact computations; :func:`parse` applies ``no_cache``."""

    no_cache: tyro.conf.FlagCreatePairsOff[bool] = False
    """solve again, and store no table of a solved game on disk"""
    memory: Annotated[float | None, tyro.conf.arg(metavar="GIB")] = None
    """maximum memory in GiB; default: the available memory. Work with a higher estimate is not started"""

    def memory_bytes(self) -> int | None:
        """Return the maximum memory in bytes, None for the available memory.

        Raises:
            ValueError: an invalid amount of memory.
        """
        return None if self.memory is None else gib_to_bytes(self.memory)


@dataclass(frozen=True)
class ExactOptions(MemoryOptions, GameOptions):
    """Parameters of the game, and options of exact computations."""


@dataclass(frozen=True)
class WorkOptions:
    """Options of parallel work."""

    jobs: Count = 1
    """number of worker processes, -1 for one per core"""
    cluster: Annotated[str, tyro.conf.arg(metavar="auto|HOST:PORT")] = ""
    """use a Ray cluster instead: auto for the local one, or the address of its head"""

    def workers(self) -> Jobs:
        """Return the validated workers.

        Raises:
            ValueError: an invalid number.
        """
        from ttt_envs.core.parallel import check_jobs

        workers = self.cluster or self.jobs
        check_jobs(workers)
        return workers


@dataclass(frozen=True)
class ThreadOptions:
    """Option of work on several threads of one process."""

    threads: Annotated[str, tyro.conf.arg(metavar="N|auto")] = "1"
    """number of threads of each process; auto: one per core, divided by the number of processes. Results do not depend
    on it"""

    def num_threads(self, jobs: Jobs = 1) -> int:
        """Return the validated number of threads beside so many processes.

        Raises:
            ValueError: an invalid number.
        """
        from ttt_envs.core.work import Threads, count_threads

        threads = int(self.threads) if self.threads.isdecimal() else self.threads
        return count_threads(cast(Threads, threads), jobs if isinstance(jobs, int) else -1)


@dataclass(frozen=True)
class PairOptions(WorkOptions, GameOptions):
    """Options of matches in pairs of games."""

    seed: Count = 0
    """seed of all random numbers"""
    openings: Annotated[str, tyro.conf.arg(metavar="random:N|all:N|FILE")] = ""
    """start positions of both games of a pair: after N random plies, each position after N plies in turn, or those of a
    file"""

    luck_correction: Annotated[str, tyro.conf.arg(metavar="exact|run:PATH|off")] = ""
    """values that correct scores for the luck of skips and draws: exact, those of a policy such as run:PATH, or off; by
    default exact with skips on boards of up to 12 cells, else off"""

    def correction(self, game: Game) -> str:
        """Return the value function that corrects luck; see :func:`check_correction`."""
        return check_correction(self.luck_correction, game)

    def read_openings(self, game: Game) -> Openings | None:
        """Return the start positions of pairs, None for the empty board.

        Raises:
            OSError, ValueError: invalid openings.
        """
        from ttt_eval.matches.openings import Openings

        return Openings.from_text(self.openings, game, tell=warn) if self.openings else None


def gib_to_bytes(memory: float) -> int:
    """Return the value of ``--memory``, in GiB, in bytes.

    Raises:
        ValueError: an invalid amount of memory.
    """
    if not 0 < memory <= 2**20:
        raise ValueError(f"--memory {memory:g} is no amount of GiB: choose more than 0, up to {2**20:,}")
    return int(memory * 2**30)


def check_no_effect(options: Any, where: str, *names: str) -> None:
    """Raise ValueError if an option is given that has no effect.

    Args:
        options: a dataclass of options.
        where: in which circumstances, such as "with --json".
        names: fields without effect there.
    """
    for field in dataclasses.fields(options):
        if field.name in names and getattr(options, field.name) != field.default:
            raise ValueError(f"{_option_name(field)} has no effect {where}: leave it out")


def trust_files() -> None:
    """Trust files from here on, even if they run code: zips with pickles, and classes named in files."""
    os.environ[TRUST] = "1"  # inherited by workers


def check_correction(spec: str, game: Game) -> str:
    """Return the value function that corrects luck, by default that of the game, checked.

    Raises:
        ValueError: an unknown one, or one of another game.
    """
    from ttt_eval.matches.luck import default_correction, make_correction

    spec = spec or default_correction(game)
    make_correction(spec, game)
    return spec


def num_pairs(games: int, most: int = MAX_NUMBER) -> int:
    """Return half of an even number of games.

    Raises:
        ValueError: an odd number of games, or one not from 2 to ``most``.
    """
    if games < 2 or games % 2:
        raise ValueError(
            f"--games {games} makes no pairs: every pair is two games with the seats swapped, "
            f"choose an even number such as {max(2, games + 1)}"
        )
    if games > most:
        raise ValueError(f"--games {games} is too many: choose up to {most:,}")
    return games // 2


def check_seed(seed: int) -> None:
    """Raise ValueError for an invalid seed."""
    if not 0 <= seed < 2**63:
        raise ValueError(f"--seed {seed} is no seed: choose 0 or more, below 2**63")


def parse(
    kind: type[Parsed],
    arguments: Sequence[str],
    prog: str,
    *,
    default: Parsed | None = None,
    elsewhere: Callable[[], Mapping[str, str]] = dict,
) -> Parsed:
    """Parse a command line with tyro; report errors in one sentence.

    Args:
        kind: a dataclass of options.
        arguments: the words.
        prog: name of the command.
        default: values of options that are not given.
        elsewhere: for messages: options that have no effect here -> the reason.

    Raises:
        ValueError: invalid arguments.
        SystemExit: after help.
    """
    said, options = io.StringIO(), option_names(kind)
    note_options(options, arguments)
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
        raise ValueError(parser_sentence(said.getvalue(), prog)) from None
    parsed, unknown = found
    if unknown:
        raise ValueError(unknown_word(unknown[0], options, prog, elsewhere()))
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]  # a dataclass
        if field.default is tyro.MISSING and getattr(parsed, field.name) == ():
            raise ValueError(f"{prog} needs {field.name}: name one or more. See {prog} --help")
    if getattr(parsed, "trust", False):
        trust_files()
    if getattr(parsed, "no_cache", False):
        os.environ[CACHE_BYTES_VARIABLE] = "0"  # inherited by workers
    return parsed


def option_names(kind: Any) -> list[str]:
    """Return the option names of a dataclass of options, nested ones included."""
    names = []
    for field in dataclasses.fields(kind):
        if "Positional" in str(field.type):  # a positional argument; annotations may be text
            continue
        inner = field.type.__origin__ if hasattr(field.type, "__origin__") else field.type
        names += option_names(inner) if dataclasses.is_dataclass(inner) else [_option_name(field)]
    return names


def _option_name(field: dataclasses.Field[Any]) -> str:
    """Return the name of a field on the command line; that of a positional argument is in capitals."""
    return field.name.upper() if "Positional" in str(field.type) else f"--{field.name.replace('_', '-')}"


# ---------------------------------------------------------------------------------------------------------------------
# Running


class Stopped(KeyboardInterrupt):
    """A signal requested a stop, and all completed work is on disk; the message says how to resume."""


@contextmanager
def report_interrupt(folder: Path | None) -> Iterator[None]:
    """Report on an interrupt where completed work is stored; without a folder report nothing.

    Raises:
        Stopped: on an interrupt, with a folder.
    """
    try:
        yield
    except KeyboardInterrupt:
        if folder is None:
            raise
        raise Stopped(f"stopped; finished work is stored in {folder}: the same command continues") from None


def command_words(arguments: Sequence[str] | None) -> list[str]:
    """Return the words of a command line, sys.argv by default; remove --quiet and apply it.

    Raises:
        SystemExit: after printing the version for --version.
    """
    global _quiet
    words = list(sys.argv[1:] if arguments is None else arguments)
    if "--version" in words:
        print(f"ttt_envs {__version__}")
        raise SystemExit(0)
    _quiet = "--quiet" in words
    if _quiet:
        os.environ[NOTICE] = "0"  # inherited by workers
    return [word for word in words if word != "--quiet"]


def inherited_options() -> list[str]:
    """Return the options that a started command inherits."""
    return ["--quiet"] if _quiet else []


def prepare_output() -> None:
    """Make standard output safe for any text: replace characters it cannot encode, and limit its width."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")
    try:
        asked = int(os.environ.get("COLUMNS", "0"))
    except ValueError:
        asked = 0
    if asked <= 0:  # no valid width
        os.environ.pop("COLUMNS", None)
    columns = shutil.get_terminal_size().columns
    if not MIN_COLUMNS <= columns <= MAX_COLUMNS:
        os.environ["COLUMNS"] = str(min(max(columns, MIN_COLUMNS), MAX_COLUMNS))  # read by tyro and rich


def run_command(command: Callable[[], Any]) -> None:
    """Run a command; invalid input gives one sentence and exit code 2, a signal to stop 130.

    Classes in modules of the current folder can be used, as with ``python -m``.
    """
    prepare_output()
    if not {"", os.getcwd()} & set(sys.path):
        sys.path.append(os.getcwd())
    try:
        with interrupt_on_signals(), warnings.catch_warnings():
            warnings.simplefilter("always", OtherGameWarning)
            warnings.showwarning = _notes_once(warnings.showwarning)
            command()
            sys.stdout.flush()
    except BrokenPipeError:  # the reader of our output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (ValueError, TypeError, MemoryError, OSError) as problem:
        sys.exit(print_error(problem))
    except KeyboardInterrupt as stop:
        text = installed_names(str(stop)) if isinstance(stop, Stopped) else "stopped"
        print(escape_unprintable(text), file=sys.stderr)
        sys.exit(INTERRUPTED)


def _notes_once(show: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function like ``warnings.showwarning`` that prints each :class:`OtherGameWarning` once, as a note."""
    noted = set()

    def show_or_note(message: Warning | str, category: type[Warning], *rest: Any, **more: Any) -> None:
        if not issubclass(category, OtherGameWarning):
            show(message, category, *rest, **more)
        elif str(message) not in noted:
            noted.add(str(message))
            warn(str(message))

    return show_or_note


# ---------------------------------------------------------------------------------------------------------------------
# Showing


class PlainConsole(Console):
    """A console that shows any text as it is: without markup, and with escapes of unprintable characters.

    Names of players and paths may hold brackets, and characters that a terminal obeys.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(markup=False, highlight=False, emoji=False, **settings)

    def render_str(self, text: str, **settings: Any) -> Text:
        """Render a string; all strings that are printed, those in tables included, pass through here."""
        return super().render_str(escape_unprintable(text, keep="\n"), **settings)


class _PlainColumn(progress.TextColumn):
    """A column of a progress bar that shows text as :class:`PlainConsole` does."""

    def render(self, task: progress.Task) -> Text:
        return Text(escape_unprintable(self.text_format.format(task=task)))


def print_output(text: str) -> None:
    """Print prose: wrapped on a terminal, unwrapped in a pipe."""
    console = PlainConsole()
    console.print(installed_names(text), soft_wrap=not console.is_terminal)


def print_status(text: str) -> None:
    """Print status text, which is no result: nothing with --quiet."""
    if not _quiet:
        print_output(text)


def warn(text: str) -> None:
    """Print a note on standard error, nothing with --quiet."""
    if not _quiet:
        print(f"note: {escape_unprintable(installed_names(text))}", file=sys.stderr)


def write_folder_report(folder: Path, no_report: bool) -> str:
    """Write the report page of a folder's result, unless ``no_report``; return the text to print about it."""
    if no_report:
        return ""
    from ttt_eval.reports.pages import write_page

    return f"\na page to look at: {write_page(folder)}"


def new_table(*columns: str, title: str = "") -> Table:
    """Return a compact table; the first column is text, the others are numbers."""
    table = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for index, column in enumerate(columns):
        if index == 0:
            table.add_column(column, overflow="fold")
        else:
            table.add_column(column, justify="right", no_wrap=True)
    return table


def print_table(what: RenderableType) -> None:
    """Print a table; in a pipe without limit of its width, and in parts if its numbers do not fit into the width."""
    console = PlainConsole()
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console = PlainConsole(width=200)
    for part in _parts(what, console.width) if isinstance(what, Table) else [what]:
        console.print(part)


def _parts(table: Table, width: int) -> list[Table]:
    """Return a table as several, each with the first column and as many of the others as fit into the width."""
    texts = [[column.header, *column.cells] for column in table.columns]
    sizes = [max(cell_len(line) for text in column for line in str(text).split("\n")) + COLUMN_GAP for column in texts]
    if sum(sizes) < width or len(sizes) < 3:
        return [table]
    name_width = max(MIN_NAME, width // 3)
    sizes[0] = min(sizes[0], name_width + COLUMN_GAP)
    chosen: list[list[int]] = [[0]]
    for index in range(1, len(sizes)):
        if len(chosen[-1]) > 1 and sum(sizes[other] for other in chosen[-1]) + sizes[index] >= width:
            chosen.append([0])
        chosen[-1].append(index)
    parts: list[Table] = []
    for each in chosen:
        columns = [replace(table.columns[index], _cells=[], _index=place) for place, index in enumerate(each)]
        columns[0].max_width = name_width
        part = Table(*columns, title=None if parts else table.title, title_justify="left", box=table.box)
        part.padding = table.padding
        for row in zip(*(texts[index][1:] for index in each), strict=True):
            part.add_row(*row)
        parts.append(part)
    return parts


def progress_bar(*fields: str) -> progress.Progress:
    """Return a bar on standard error, which keeps standard output for results; ``fields`` are shown behind it."""
    return progress.Progress(
        _PlainColumn("{task.description}"),
        progress.BarColumn(),
        progress.TaskProgressColumn(),
        *(_PlainColumn("{task.fields[" + field + "]}") for field in fields),
        progress.TimeElapsedColumn(),
        _PlainColumn("left"),
        progress.TimeRemainingColumn(),
        console=Console(stderr=True, quiet=_quiet),  # older rich ends a disabled bar with a newline
        disable=_quiet,
    )


@contextmanager
def count_bar(description: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar for work that reports the number of completed units and of all units."""
    with progress_bar("count") as bar:
        task = bar.add_task(description, total=None, count="")
        yield lambda done, total: bar.update(task, completed=done, total=total, count=f"{done:,} of {total:,}")


@contextmanager
def share_bar(description: str) -> Iterator[Callable[[float], None]]:
    """Show a bar for work that reports its completed share, 0 to 1."""
    with progress_bar() as bar:
        task = bar.add_task(description, total=1.0)
        yield lambda share: bar.update(task, completed=share)


@contextmanager
def slow_status(words: str) -> Iterator[None]:
    """Show a status line if the work takes longer than a second."""
    console = Console(stderr=True)
    status = console.status(Text(escape_unprintable(words)))  # a string would be markup
    timer = threading.Timer(1.0, status.start)
    if console.is_terminal and not _quiet:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()
        status.stop()
