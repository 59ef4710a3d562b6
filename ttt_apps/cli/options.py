"""Shared parts of the commands: options, errors, progress bars and output."""

from __future__ import annotations

import dataclasses
import difflib
import errno
import json as json_format
import os
import re
import shlex
import shutil
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, cast

import msgspec
import tyro
from rich import box, progress
from rich.console import Console
from rich.status import Status
from rich.table import Table
from rich.text import Text
from tyro.constructors import PrimitiveConstructorSpec

from learners import OtherGameWarning
from ttt_apps.cli.help import NO_DEFAULT, REGISTRY, describe, installed_names
from ttt_apps.cli.signals import INTERRUPTED, interrupt_on_signals
from ttt_envs.agents.specs import TRUST
from ttt_envs.core.checks import Refusal, check_range, escape_unprintable, quote, truncate
from ttt_envs.core.jit import NOTICE
from ttt_envs.game.phantom import PhantomGame
from ttt_envs.version import __version__

if TYPE_CHECKING:  # compiled code is imported where a game is played, not where help is written
    from _typeshed import DataclassInstance

    from ttt_envs.core.parallel import Jobs
    from ttt_envs.core.work import Threads, Work
    from ttt_envs.game.game import Game
    from ttt_envs.game.phantom import AnyGame
    from ttt_eval.reports.page import Report
    from ttt_eval.store.result_store import Data

MAX_NUMBER = 10**15
"""Maximum value of a count."""
MIN_COLUMNS = 40
"""Minimum width of the terminal: wrapping help to fewer columns does not terminate."""
DATABASES = Path("databases")
"""Default folder of endgame databases."""
PRESETS: dict[str, Data] = {
    "tic-tac-toe": {"size": (3, 3), "win_length": 3},
    "connect-four": {"size": (6, 7), "win_length": 4, "gravity": True},
    "gomoku": {"size": (15, 15), "win_length": 5},
}
"""Games by name, as arguments of ``Game.of_size``."""
TRACEBACK = "TTT_ENVS_TRACEBACK"
"""Environment variable: 1 if a refusal shows where it was raised."""
QUIET = "TTT_ENVS_QUIET"
"""Environment variable: 1 if the command was given --quiet."""
GLOBAL = "--quiet prints results and errors only; --version prints the version."

Parsed = TypeVar("Parsed")


# --------------------------------------------------------------------------------------------------
# Reading arguments


def parse_size(text: str) -> tuple[int, int]:
    """Parse ``"3"`` or ``"5x6"`` as (rows, columns).

    Raises:
        Refusal: anything else.
    """
    from ttt_envs.game.game import MAX_EDGE

    match = re.fullmatch(r"(\d{1,2})(?:x(\d{1,2}))?", text.strip().lower())
    rows, columns = (0, 0) if match is None else (int(match[1]), int(match[2] or match[1]))
    if not 0 < min(rows, columns) <= max(rows, columns) <= MAX_EDGE:
        raise Refusal(
            f"--size {quote(text)} is not a board: write an edge of 1 to {MAX_EDGE} such as 3, or "
            "rows x columns such as 5x6"
        )
    return rows, columns


def parse_count(text: str, low: int = -MAX_NUMBER, step: int = 1) -> int:
    """Parse a whole number: ``"10000"``, ``"10_000"``, ``"10,000"`` or ``"1e4"``.

    Args:
        text: the number.
        low: lowest number.
        step: the number is a multiple of it.

    Raises:
        Refusal: anything else.
    """
    with suppress(ArithmeticError):
        number = Decimal(re.sub(r"(?<=\d)[,_](?=\d{3})", "", text))
        if low <= number <= MAX_NUMBER and number % step == 0:
            return int(number)
    kind = "whole" if step == 1 else "even"
    rule = f", {low} or more" if low > -MAX_NUMBER else ""
    raise Refusal(f"{text[:40]} is no {kind} number{rule}: write for example 10000, 10_000 or 1e4")


def parse_probability(text: str) -> float:
    """Parse ``"0.25"`` or ``"25%"``.

    Raises:
        Refusal: anything else.
    """
    with suppress(ValueError):
        return float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    raise Refusal(f"{text[:40]} is no probability: write for example 0.25 or 25%")


def _number(metavar: str, parser: Callable[[str], float]) -> PrimitiveConstructorSpec[float]:
    """Return how an option is read whose value is a number, or None if it is not given."""
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar=metavar,
        instance_from_str=lambda words: parser(words[0]),
        is_instance=lambda value: isinstance(value, int | float | None),
        str_from_instance=lambda value: [str(value)],
    )


def _whole_number(**limits: int) -> PrimitiveConstructorSpec[float]:
    return _number("N", lambda text: parse_count(text, **limits))


Count = Annotated[int, _whole_number()]
"""A whole number, which may be written 1e5."""
Natural = Annotated[int, _whole_number(low=0)]
Positive = Annotated[int, _whole_number(low=1)]
Even = Annotated[int, _whole_number(low=2, step=2)]
"""Number of games in pairs with the seats swapped."""
Flag = tyro.conf.FlagCreatePairsOff[bool]
"""A flag without an opposite."""
TextOption = Annotated[str, tyro.conf.arg(metavar="TEXT")]
"""A text; empty if it is not given."""
OptionalText = Annotated[str | None, tyro.conf.arg(metavar="TEXT")]
Names = Annotated[
    tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(help_behavior_hint="(required)")
]
Paths = Annotated[
    tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(help_behavior_hint="(required)")
]
"""One positional argument or more: :func:`parse` refuses none."""


@dataclass(frozen=True)
class TrustOptions:
    """Option of commands on files of others; :func:`parse` applies it."""

    trust: Flag = False
    """run code that files name or hold: policies of your own class, or zips of sb3:PATH"""


@dataclass(frozen=True)
class GameOptions:
    """Parameters of the game; those that are not given are those of another game, such as that of a
    policy's run.
    """

    preset: Annotated[
        Literal["tic-tac-toe", "connect-four", "gomoku"] | None, tyro.conf.arg(name="game")
    ] = None
    """a game by name, in place of the options below; those that are given change it"""
    size: Annotated[OptionalText, tyro.conf.arg(metavar="N|RxC")] = None
    """edge of the board, or rows x columns, as in 5x6; default: 3. evaluate.py and play.py take
    options of the game that are not given from the run that they name"""
    win_length: Positive | None = None
    """number of stones in a line that win; default: by the shorter edge, 3 up to an edge of 3, 4 up
    to 6, else 5
    """
    skip_chance: Annotated[
        float | None,
        _number("FLOAT", parse_probability),
        tyro.conf.arg(help_behavior_hint="(default: 0)"),
    ] = None
    """probability that a turn is skipped"""
    gravity: Flag = False
    """stones fall to the lowest empty cell of their column, as in Connect Four"""
    overlines: Annotated[Flag, NO_DEFAULT] = True
    """only lines of exactly the win length count, as in standard gomoku"""
    misere: Flag = False
    """a player who completes a line loses"""
    torus: Flag = False
    """lines continue across the edges: the board is a torus"""

    def game(self, default: AnyGame | None = None) -> AnyGame:
        """Return the validated game.

        Args:
            default: the game of the parameters that are not given, by default 3 x 3 without skips.
        """
        from ttt_envs.game.game import VARIANTS, Game

        base = Game.of_size(**PRESETS[self.preset]) if self.preset else default or Game()
        size = (base.rows, base.columns) if self.size is None else parse_size(self.size)
        own = base.win_length if self.size is None else None  # another board has its own default
        win_length = own if self.win_length is None else self.win_length
        skip_chance = base.skip_chance if self.skip_chance is None else self.skip_chance
        changes = {name: value for name, value in VARIANTS.items() if getattr(self, name) == value}
        try:
            return Game.of_size(size, win_length, skip_chance, **(base.variants | changes))
        except ValueError as problem:  # names arguments, as in win_length=5
            raise Refusal(re.sub(r"\b(win|skip)_(\w+)=", r"--\1-\2 ", str(problem))) from None

    def game_for(self, *policies: str) -> Game:
        """Return :meth:`any_game_for`, with visible stones.

        Raises:
            ValueError: as there, or a phantom game.
        """
        from ttt_envs.game.phantom import refuse_hidden

        return refuse_hidden(self.any_game_for(*policies))

    def any_game_for(self, *policies: str) -> AnyGame:
        """Return the validated game: by default that of the runs among the policies, else 3 x 3
        without skips.

        Args:
            policies: spec strings; empty ones are left out.

        Raises:
            ValueError: an invalid game, no such run, or runs of different games.
        """
        of_runs = [policy for policy in policies if "run:" in policy]
        if not of_runs:  # their files take 0.1 s to import
            return self.game()
        from ttt_eval.runs.run_files import RunDirectory, list_run_folders

        folders = [folder for policy in of_runs for folder in list_run_folders(policy)]
        games = {self.game(RunDirectory(folder).read_game()): folder for folder in folders} or {
            self.game(): Path()
        }
        if len(games) > 1:
            (game, folder), (other_game, other_folder), *_ = games.items()
            raise Refusal(
                f"{folder} learned {game}, and {other_folder} learned {other_game}: name the game "
                "that they are to play with --size, --win-length and --skip-chance"
            )
        return next(iter(games))


GAME_FIELDS = tuple(field.name for field in dataclasses.fields(GameOptions))


@dataclass(frozen=True)
class PhantomOptions(GameOptions):
    """Parameters of the game, which may be a phantom game."""

    phantom: Annotated[
        Literal["no", "classic", "abrupt"] | None,
        tyro.conf.arg(help_behavior_hint="(default: no)"),
    ] = None
    """hide the opponent's stones; after an attempt on a hidden stone one tries again (classic), or
    the turn is over (abrupt)"""

    def game(self, default: AnyGame | None = None) -> AnyGame:
        """Return the validated game, as :meth:`GameOptions.game` does."""
        game = super().game(default)
        kind = self.phantom or (default.kind if isinstance(default, PhantomGame) else "no")
        return game if kind == "no" else PhantomGame(cast("Game", game), kind)


@dataclass(frozen=True)
class JsonOptions:
    """Format of the output."""

    json: Flag = False
    """print JSON instead of text"""

    def show(self, result: object, *parts: Table | str) -> None:
        """Print a result: with ``json`` as JSON, else its tables and sentences."""
        if self.json:
            print(json_format.dumps(result))
            return
        for part in parts:
            print_output(part)


@dataclass(frozen=True)
class OutputOptions:
    """Option of commands that write files, which replace none unasked: docs/commands.md has the
    rule.
    """

    overwrite: Flag = False
    """replace files that are there already"""

    def check_new_file(self, *paths: Path | None) -> None:
        """Raise ValueError if one of the files to be written exists, but with ``overwrite``."""
        for path in paths:
            if path is not None and path.exists() and not self.overwrite:
                raise Refusal(
                    f"{path} is there already: name another file, or --overwrite replaces it"
                )

    def check_folder(
        self, folder: Path, settings: Mapping[str, object], growing: Mapping[str, object]
    ) -> None:
        """Raise ValueError if a folder holds what this command would not continue but replace, but
        with ``overwrite``.

        Args:
            folder: the folder of the result.
            settings: values by key of ``result.json``, JSON-ready: those of the stored result are
                the same.
            growing: numbers and lists by key: those of the stored result are none, the same, or a
                part of these.
        """
        from ttt_envs.core.files import read_json
        from ttt_eval.runs.run_files import REPORT
        from ttt_eval.store.result_store import RESULT, TABLE, UNITS

        if self.overwrite:
            return
        path = folder / RESULT
        if path.exists():
            result = read_json(path)
            if not isinstance(result, dict):
                raise Refusal(
                    f"{path} is no result of ours: choose another --out, or --overwrite replaces it"
                )
            for grows, values in ((False, settings), (True, growing)):
                for key, value in json_format.loads(json_format.dumps(values)).items():
                    if not _continues(result.get(key), value, grows=grows):
                        raise Refusal(
                            f"{path} is a result with {key} {truncate(result.get(key))}, not "
                            f"{truncate(value)}: choose another --out, or --overwrite replaces it"
                        )
        elif not (folder / UNITS).exists():
            self.check_new_file(folder / REPORT, folder / TABLE)


def _continues(result: object, value: object, *, grows: bool) -> bool:
    """Return whether a part of a result continues a stored one: all of a mapping's keys, and all
    rows of a list.
    """
    if isinstance(value, dict) and isinstance(result, dict):
        return all(_continues(result.get(key), value, grows=grows) for key, value in value.items())
    if not grows:
        return bool(result == value)
    if isinstance(value, list) and isinstance(result, list):
        return all(any(_continues(row, other, grows=False) for other in value) for row in result)
    return result is None or (
        isinstance(result, int) and isinstance(value, int) and result <= value
    )


@dataclass(frozen=True)
class ReportOptions(JsonOptions, OutputOptions):
    """Output of commands that write a folder."""

    no_report: Flag = False
    """write no report.html"""

    def show_folder(
        self, folder: Path, *parts: Table | str, other_files: Sequence[Path] = ()
    ) -> None:
        """Write the report page of a folder, and print its result: with ``json`` the file, else
        tables and sentences.

        Args:
            folder: with a ``result.json``.
            parts: what to print without ``json``.
            other_files: files that were written too.
        """
        from ttt_eval.reports.pages import write_page
        from ttt_eval.store.result_store import RESULT

        result = folder / RESULT
        page = "" if self.no_report else f"\na page to look at: {write_page(folder)}"
        if self.json:
            print(result.read_text("utf-8"), end="")
            return
        self.show(None, *parts)
        print_status(f"written: {', '.join(map(str, [result, *other_files]))}{page}")


@dataclass(frozen=True)
class ExactOptions(JsonOptions, GameOptions):
    """Parameters of the game, and options of exact computations."""

    memory: Annotated[float | None, tyro.conf.arg(metavar="GIB")] = None
    """maximum memory in GiB; default: the available memory. Work with a higher estimate is not
    started
    """

    def memory_bytes(self) -> int | None:
        """Return the maximum memory in bytes, None for the available memory.

        Raises:
            ValueError: an invalid amount of memory.
        """
        check_range("--memory", self.memory, 0, 2**20, "is no amount of GiB", above=True)
        return None if self.memory is None else int(self.memory * 2**30)

    def work(self, progress: Callable[[float], None]) -> Work:
        """Return the limits of exact work."""
        from ttt_envs.core.work import Work

        return Work(memory=self.memory_bytes(), progress=progress)


@dataclass(frozen=True)
class WorkOptions:
    """Options of parallel work."""

    jobs: Count = 1
    """number of worker processes, -1 for one per core"""
    cluster: Annotated[TextOption, tyro.conf.arg(metavar="auto|HOST:PORT")] = ""
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
    """number of threads, auto for one per core. Results do not depend on it"""

    def num_threads(self) -> int:
        """Return the validated number of threads."""
        from ttt_envs.core.work import count_threads

        return count_threads(
            cast("Threads", int(self.threads) if self.threads.isdecimal() else self.threads), 1
        )


def trust_files() -> None:
    """Trust files from here on, even if they run code: zips with pickles, and classes named in
    files.
    """
    os.environ[TRUST] = "1"  # inherited by workers


def check_no_effect(options: DataclassInstance, circumstance: str, *names: str) -> None:
    """Raise ValueError if an option is given that has no effect.

    Args:
        options: a dataclass of options.
        circumstance: in which circumstances, such as "with --json".
        names: fields without effect there; all of them by default.
    """
    for field in dataclasses.fields(options):
        if field.name in (names or (field.name,)) and getattr(options, field.name) != field.default:
            name = f"--{field.name.replace('_', '-')}"
            if "Positional" in str(field.type):
                name = field.name.upper()
            raise Refusal(f"{name} has no effect {circumstance}: leave it out")


def check_page(out: Path | None) -> None:
    """Raise ValueError if ``--out`` names a file that is no page."""
    if out is not None and out.suffix != ".html":
        raise Refusal(f"--out {out} is no page: end its name in .html")


def parse(
    kind: type[Parsed], arguments: Sequence[str], prog: str, default: Parsed | None = None
) -> Parsed:
    """Parse a command line with tyro, and apply the options that hold for the process.

    Args:
        kind: a dataclass of options.
        arguments: the words.
        prog: name of the command.
        default: values of options that are not given.

    Raises:
        Refusal: a list of positional arguments is empty.
        SystemExit: after help, or after tyro has described an invalid argument.
    """
    settings: Data = {
        "args": list(arguments),
        "prog": prog,
        "description": describe(kind.__doc__ or ""),
        "config": (tyro.conf.OmitArgPrefixes,),
        "registry": REGISTRY,
    }
    settings |= {} if default is None else {"default": default}
    options, unknown = cast(
        "tuple[Parsed, list[str]]", tyro.cli(kind, return_unknown_args=True, **settings)
    )
    if any(word.startswith("-") for word in unknown):
        tyro.cli(kind, **settings)  # which names similar options
    if unknown:
        raise Refusal(
            f"{prog} has no place for {shlex.join(unknown)}: leave it out. See {prog} --help"
        )
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]  # a dataclass
        if field.default is tyro.MISSING and getattr(options, field.name) == ():
            raise Refusal(f"{prog} needs {field.name}: name one or more. See {prog} --help")
    if getattr(options, "trust", False):
        trust_files()
    return options


# --------------------------------------------------------------------------------------------------
# Running


class Stopped(KeyboardInterrupt):
    """A signal requested a stop, and all completed work is on disk; the message says how to
    resume.
    """


def command_words(arguments: Sequence[str] | None) -> list[str]:
    """Return the words of a command line, sys.argv by default; remove --quiet and apply it.

    Raises:
        SystemExit: after printing the version for --version.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    if "--version" in words:
        print(f"ttt_envs {__version__}")
        raise SystemExit(0)
    os.environ[QUIET] = str(int("--quiet" in words))
    if is_quiet():
        os.environ[NOTICE] = "0"  # inherited by workers
    return [word for word in words if word != "--quiet"]


def is_quiet() -> bool:
    """Return whether the command was given --quiet."""
    return os.environ.get(QUIET) == "1"


def prepare_output() -> None:
    """Make standard output safe for any text: replace characters it cannot encode, and limit its
    width.

    A standard stream that was closed is an empty one from here on.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  # for the process
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")
    columns = shutil.get_terminal_size().columns
    if "COLUMNS" in os.environ or columns < MIN_COLUMNS:
        os.environ["COLUMNS"] = str(max(columns, MIN_COLUMNS))  # read by tyro and rich


def run_command(command: Callable[[], object]) -> None:
    """Run a command; invalid input gives one sentence and exit code 2, a signal to stop 130.

    Classes in modules of the current folder can be used, as with ``python -m``.
    """
    prepare_output()
    if not {"", os.getcwd()} & set(sys.path):
        sys.path.append(os.getcwd())
    try:
        with interrupt_on_signals(), warnings.catch_warnings():
            warnings.simplefilter("module", OtherGameWarning)  # each text once
            warnings.showwarning = lambda message, kind, file, line, *_: warn(
                str(message)
                if kind is OtherGameWarning
                else f"{kind.__name__}: {message} ({file}, line {line})"
            )
            command()
            sys.stdout.flush()
    except BrokenPipeError:  # the reader of our output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (Refusal, MemoryError, OSError, msgspec.DecodeError) as problem:
        if os.environ.get(TRACEBACK, "0") != "0":
            raise
        text = _with_notes(
            describe_os_error(problem) if isinstance(problem, OSError) else str(problem), problem
        )
        # it may quote long files or arguments
        print(
            f"error: {truncate(escape_unprintable(installed_names(text)), 4_000)}", file=sys.stderr
        )
        sys.exit(2)
    except KeyboardInterrupt as stop:
        text = _with_notes(installed_names(str(stop)) or "stopped", stop)
        print(escape_unprintable(text), file=sys.stderr)
        sys.exit(INTERRUPTED)


def _with_notes(text: str, problem: BaseException) -> str:
    return "; ".join((text, *getattr(problem, "__notes__", ())))


def describe_os_error(problem: OSError) -> str:
    """Return what the system refused, and on which file."""
    # errors of our files name them
    if problem.filename is None and problem.errno in (errno.EFBIG, errno.ENOSPC):
        return (
            f"the output cannot be written ({problem.strerror}): make room on its disk, or choose "
            "another place"
        )
    if problem.filename is None or problem.strerror is None:
        return str(problem)
    path = Path(str(problem.filename))
    if isinstance(problem, FileNotFoundError):
        missing = next((folder for folder in reversed(path.parents) if not folder.exists()), path)
        names = difflib.get_close_matches(
            missing.name, [other.name for other in missing.parent.glob("*")], 1
        )
        hint = f"did you mean {missing.parent / names[0]}?" if names else "name another"
        return f"there is no file or folder {missing}: {hint}"
    remedy = "choose another place"
    if problem.errno == errno.EISDIR:
        remedy = "name a file"
    elif problem.errno == errno.ENOSPC:
        remedy = "make room on its disk, or choose another place"
    return f"{path} cannot be used ({problem.strerror}): {remedy}"


# --------------------------------------------------------------------------------------------------
# Showing


class PlainConsole(Console):
    """A console that shows any text as it is: without markup, and with escapes of unprintable
    characters.

    Names of players and paths may hold brackets, and characters that a terminal obeys.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(markup=False, highlight=False, emoji=False, **settings)

    def render_str(self, text: str, **settings: Any) -> Text:
        """Render a string; all strings that are printed, those in tables included, pass through
        here.
        """
        return super().render_str(escape_unprintable(text, keep="\n"), **settings)


def print_output(content: Table | str) -> None:
    """Print prose, or a table; a pipe gets lines of any length, and tables of up to 200 columns."""
    console = PlainConsole()
    if isinstance(content, Table):
        if content.title is not None:  # which rich wraps to the table
            console.print(content.title, soft_wrap=not console.is_terminal)
        content.title = None
        if not console.is_terminal and "COLUMNS" not in os.environ:
            console = PlainConsole(width=200)
        console.print(content)
    else:
        console.print(installed_names(content), soft_wrap=not console.is_terminal)


def print_status(text: str) -> None:
    """Print status text, which is no result: nothing with --quiet."""
    if not is_quiet():
        print_output(text)


def warn(text: str) -> None:
    """Print a note on standard error, nothing with --quiet."""
    if not is_quiet():
        print(f"note: {escape_unprintable(installed_names(text))}", file=sys.stderr)


def format_value(value: object) -> str:
    """Format a JSON-ready value of a result, such as a number, an interval or a list, for
    people.
    """
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:.6g}"
        case {"mean": mean, "low": low, "high": high}:
            mean, low, high = (
                format_value(number and float(f"{number:.4g}")) for number in (mean, low, high)
            )
            return mean if low == high else f"{mean} ({low or '-inf'} to {high or 'inf'})".lstrip()
        case Mapping():
            return ", ".join(
                f"{name.replace('_', ' ')} {format_value(part)}" for name, part in value.items()
            )
        case list() | tuple():
            return " ".join(map(format_value, value))
    return str(value)


def rows_table(rows: Iterable[Mapping[str, object]], title: str = "") -> Table:
    """Return a table of JSON-ready rows: their keys are its columns, but those without a value in
    any row.

    Without rows it prints nothing but an empty line.
    """
    rows = list(rows)
    columns = {name: [row.get(name) for row in rows] for row in rows for name in row}
    columns = {
        name: cells for name, cells in columns.items() if any(cell is not None for cell in cells)
    }
    table = Table(
        title=(rows and title) or None,
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    for name, cells in columns.items():
        is_text = all(isinstance(cell, str | list) for cell in cells)
        table.add_column(
            name.replace("_", " "), justify="left" if is_text else "right", overflow="fold"
        )
    for row in zip(*columns.values(), strict=True):
        table.add_row(*map(format_value, row))
    return table


def texts_table(rows: Iterable[Sequence[str]], title: str = "") -> Table:
    """Return a table of texts, the head first; an empty text is no value."""
    head, *lines = rows
    return rows_table(
        (dict(zip(head, (text or None for text in line), strict=True)) for line in lines), title
    )


def report_tables(report: Report, *headings: str) -> list[Table]:
    """Return the tables in sections of a page, each with the first sentence of its caption."""
    from ttt_eval.reports.page import DataTable, table_texts

    return [
        texts_table(table_texts(part), part.caption.partition(". ")[0])
        for heading in headings
        for part in report.sections.get(heading, ())
        if isinstance(part, DataTable)
    ]


def facts_table(facts: Mapping[str, object], title: str = "") -> Table:
    """Return a table of the names and the values of JSON-ready data, without missing values."""
    rows = [
        {"name": key.replace("_", " "), "": format_value(fact)}
        for key, fact in facts.items()
        if fact is not None
    ]
    table = rows_table(rows, title)
    table.show_header = False
    return table


@contextmanager
def bar(description: str, folder: Path | None = None) -> Iterator[Callable[..., None]]:
    """Show a bar on standard error, which keeps standard output for results.

    Yield a function that takes the completed work, the whole work (1 by default), and a text.

    Args:
        description: the work.
        folder: where completed work is stored, if it is.

    Raises:
        Stopped: on an interrupt, with a folder: the message says how to go on.
    """
    # in a file a bar is an empty line, and older rich ends a disabled bar with one
    console = Console(stderr=True, quiet=is_quiet() or not Console(stderr=True).is_terminal)
    with progress.Progress(
        progress.TextColumn("{task.description}", markup=False),
        *progress.Progress.get_default_columns()[1:],
        progress.TimeElapsedColumn(),
        progress.TextColumn("{task.fields[text]}", markup=False),
        console=console,
        disable=is_quiet(),
        transient=True,
    ) as display:
        task = display.add_task(escape_unprintable(description), total=None, text="")

        def update(amount: float, total: float | None = 1.0, text: str = "") -> None:
            display.update(task, completed=amount, total=total, text=text)

        try:
            yield update
        except KeyboardInterrupt as stop:
            if folder is None:
                raise
            stop.add_note(f"finished work is stored in {folder}: the same command continues")
            raise Stopped(_with_notes("stopped", stop)) from None


def status(words: str) -> Status:
    """Return a status line on standard error for work without a bar, to be used as a context."""
    # a string would be markup
    return Console(stderr=True, quiet=is_quiet()).status(Text(escape_unprintable(words)))
