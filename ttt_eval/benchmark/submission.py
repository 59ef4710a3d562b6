"""Submissions to the benchmark: a folder of tables of policies, which anybody can score again.

::

    submission.toml                     who learned, and how: see Submission
    TASK/seed-S/steps-NNNNNN.npz        the policy after so many environment steps, as a table
    TASK/seed-S/cost.json               of the run: CPU and wall seconds, peak memory, environment steps
    TASK/seed-S/returns.json            of the run: returns in training, see TrainingReturns
    units.jsonl                         finished runs, from which a stopped command continues

A table holds ``codes`` uint64[N], ascending keys of positions as their mover sees them; ``probabilities`` float[N,
cells] of the moves; and, if the policy has values, ``values`` float[N] for the mover. Tables of 4 x 4 are packed, see
:func:`~ttt_eval.benchmark.policy_table.pack`; smaller ones may be, and then need no gaps if they have all positions
that the agent can meet. Where a task shows the skip chance, there is a table for each skip chance that is scored:
``steps-NNNNNN-skip-0.1.npz``. A run has one folder and no other files. What is read here is not trusted: nothing is
executed, links are refused, and sizes are bounded.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from numpy.typing import NDArray

from learners.checkpoint import MAX_OVERHEAD, read_arrays, write_arrays
from ttt_envs.core.checks import check_choice, closest_names, quote, truncate
from ttt_envs.core.files import read_bounded, read_json
from ttt_envs.game.game import Game
from ttt_eval.benchmark.policy_table import PolicyTable, pack, unpack
from ttt_eval.benchmark.tasks import MAX_CELLS_OF_CHECKPOINTS, STEPS, TASKS, VERSION, Task, find_task
from ttt_eval.cost import is_number
from ttt_eval.exact.estimate import boards_by_stones
from ttt_eval.result_store import UNITS

BENCHMARK = "ttt-exact"
SUBMISSION, COST, RETURNS = "submission.toml", "cost.json", "returns.json"
MAX_SUBMISSION_BYTES, MAX_RUN_COST_BYTES, MAX_RETURNS_BYTES = 1 << 16, 1 << 12, 1 << 14
MAX_TEXT = 200
"""Maximum length of a text in a submission.toml."""
MAX_DEPTH = 8
"""Maximum depth of lists and tables in a hyperparameter."""
MAX_SEED = 99
MAX_ENTRIES = 200
"""Maximum number of files in a folder."""
IGNORED = ("README.md", UNITS, "scores.json")
"""Files of the folder of a submission that are not read."""
COST_KEYS = ("cpu_s", "wall_s", "peak_rss_bytes", "steps")
Setting = Literal["one", "tuned"]

_RUN = re.compile(r"seed-(0|[1-9]\d?)")
_TABLE = re.compile(r"steps-(\d{6})(?:-skip-(0|0\.\d{1,6}))?\.npz")
_BYTES_PER_NUMBER = 8


@dataclass(frozen=True)
class Submission:
    """Content of a ``submission.toml``.

    Raises:
        ValueError: a value has the wrong type, is out of range, or is no short line of text.
    """

    name: str
    """of the agent, as the leaderboard shows it"""
    library: str = ""
    code: str = ""
    """address of the code"""
    machine: str = ""
    setting: Setting = "one"
    """``one`` setting for all tasks, or ``tuned`` for each"""
    tuning_steps: int = 0
    """environment steps that were spent on the choice of settings"""
    steps: int = 0
    """environment steps of runs that are shorter than those of the benchmark, 0 if they are not"""
    versions: Mapping[str, str] = field(default_factory=dict)
    """of packages, by name"""
    hyperparameters: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("name", "library", "code", "machine"):
            _check_text(name, getattr(self, name))
        if not self.name:
            raise ValueError("a submission needs a name")
        check_choice("setting", self.setting, get_args(Setting))
        for name in ("tuning_steps", "steps"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**63:
                raise ValueError(f"{name} = {str(value)[:40]} is no number of steps: write 0 or more")
        for name in ("versions", "hyperparameters"):
            table = getattr(self, name)
            if not isinstance(table, Mapping) or len(table) > MAX_ENTRIES:
                raise ValueError(f"{name} must be a table of at most {MAX_ENTRIES} entries")
            for key, value in table.items():
                _check_text(name, key)
                (_check_text if name == "versions" else _check_value)(f"{name}.{key}", value)

    def to_toml(self) -> str:
        """Return the text of the file.

        Raises:
            ValueError: it is too long to be read.
        """
        lines = [f"format = 1\nbenchmark = {_toml(BENCHMARK)}\nversion = {_toml(VERSION)}"]
        tables = []
        for one in fields(self):
            value = getattr(self, one.name)
            if isinstance(value, Mapping):
                tables += ["", f"[{one.name}]", *(f"{_toml(key)} = {_toml(each)}" for key, each in value.items())]
            else:
                lines.append(f"{one.name} = {_toml(value)}")
        text = "\n".join([*lines, *tables]) + "\n"
        if len(text.encode()) > MAX_SUBMISSION_BYTES:
            raise ValueError(f"a submission has at most {MAX_SUBMISSION_BYTES:,} bytes: give it fewer hyperparameters")
        return text


def read_submission(folder: Path) -> Submission:
    """Read the ``submission.toml`` of a folder.

    Raises:
        ValueError: there is none, or an invalid one.
    """
    path = folder / SUBMISSION
    try:
        data = tomllib.loads(read_bounded(path, MAX_SUBMISSION_BYTES).decode())
    except FileNotFoundError:
        missing = f"it has no {SUBMISSION}" if folder.exists() else "there is no such folder"
        raise ValueError(f"{folder} is no submission: {missing}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError, ValueError) as problem:
        raise ValueError(f"{path} cannot be read: {str(problem)[:MAX_TEXT]}") from None
    if (data.pop("format", None), data.pop("benchmark", None), data.pop("version", None)) != (1, BENCHMARK, VERSION):
        raise ValueError(f"{path} is not of {BENCHMARK} {VERSION}, format 1")
    known = [one.name for one in fields(Submission)]
    for name in data:
        if name not in known:
            raise ValueError(f"{path} has {name[:80]!r}: {closest_names(name[:80], known)}")
    try:
        return Submission(**data)
    except (TypeError, ValueError) as problem:
        raise ValueError(f"{path} cannot be read: {problem}") from None


def _check_text(name: str, text: Any) -> None:
    if not isinstance(text, str) or len(text) > MAX_TEXT or not (text.isprintable()):
        raise ValueError(f"{name[:80]} must be a text of one line and at most {MAX_TEXT} characters")


def _check_value(name: str, value: Any, depth: int = 0) -> None:
    """Raise ValueError for what is no value of JSON, for long texts, numbers beyond 64 bits, and deep nesting."""
    if isinstance(value, str):
        _check_text(name, value)
    elif isinstance(value, (Mapping, list, tuple)):
        if depth == MAX_DEPTH:
            raise ValueError(f"{truncate(name)} is more than {MAX_DEPTH} deep: write flat lists and tables")
        for key in value if isinstance(value, Mapping) else ():
            _check_text(name, key)
        for part in value.values() if isinstance(value, Mapping) else value:
            _check_value(name, part, depth + 1)
    elif not (value is None or (isinstance(value, (bool, int, float)) and -(2**63) <= value < 2**63)):
        raise ValueError(f"{truncate(name)} = {quote(value)} is no text, or finite number of 64 bits: write one")


def _toml(value: Any) -> str:
    """Format a value of JSON as TOML, which has no null."""
    if value is None:
        return '"none"'
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_toml(key)} = {_toml(each)}" for key, each in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


# ---------------------------------------------------------------------------------------------------------------------
# Tables and costs of runs


class RunFolder(NamedTuple):
    """A run in a submission."""

    task: Task
    seed: int
    folder: Path
    tables: dict[int, tuple[Path, ...]]
    """the tables after so many steps, ascending: one for each of :func:`stored_games`"""


def stored_games(task: Task) -> tuple[Game, ...]:
    """Return the games for which a run stores tables: each one that is scored if it is shown, else the first."""
    return task.games if task.observe_skip_chance else task.games[:1]


def table_names(task: Task, steps: int) -> tuple[str, ...]:
    """Return the names of the tables after so many steps, for each of :func:`stored_games`."""
    if not task.observe_skip_chance:
        return (f"steps-{steps:06d}.npz",)
    return tuple(f"steps-{steps:06d}-skip-{game.skip_chance:g}.npz" for game in task.games)


def run_folder_name(task: Task, seed: int) -> str:
    """Return the path of a run in a submission."""
    return f"{task.name}/seed-{seed}"


def find_runs(folder: Path) -> Iterator[RunFolder]:
    """Yield the runs in a submission, by task and seed; their files are not opened.

    Raises:
        ValueError: the folder has something that no submission has, a link, or too many files.
    """
    names = [task.name for task in TASKS if task.uses_runs_of is None]
    found = _list_folder(folder)
    for name, is_folder in found.items():
        if is_folder and name not in names:
            raise ValueError(f"{folder / name} is of no task: {closest_names(name[:80], names)}")
        if not is_folder and name not in (SUBMISSION, *IGNORED):
            raise ValueError(f"{folder / name} is no file of a submission: remove it")
    for name in names:
        if name not in found:
            continue
        runs = _list_folder(folder / name)
        for run, is_folder in runs.items():
            if not is_folder or not _RUN.fullmatch(run):
                raise ValueError(f"{folder / name / run} is no run: it must be a folder such as seed-0")
        for run in sorted(runs, key=lambda one: int(one.removeprefix("seed-"))):
            yield _find_tables(find_task(name), int(run.removeprefix("seed-")), folder / name / run)


def check_submission(folder: Path) -> list[RunFolder]:
    """Return the runs in a submission, all files of which have been read.

    Raises:
        ValueError: something in the folder is invalid.
    """
    read_submission(folder)
    runs = list(find_runs(folder))
    if not runs:
        raise ValueError(f"{folder} has no run: evaluate.py bench run makes some")
    for run in runs:
        read_cost(run.folder), read_returns(run.folder)
        for paths in run.tables.values():
            for game, path in zip(stored_games(run.task), paths, strict=True):
                read_table(run.task, game, path)
    return runs


def _find_tables(task: Task, seed: int, folder: Path) -> RunFolder:
    found = _list_folder(folder)
    marks = set()
    for name, is_folder in found.items():
        match = _TABLE.fullmatch(name)
        if is_folder or (match is None and name not in (COST, RETURNS)):
            raise ValueError(f"{folder / name} is no file of a run: those are {COST}, {RETURNS} and steps-NNNNNN.npz")
        if match is not None:
            marks.add(int(match[1]))
    if len(marks) > len(task.checkpoints):
        count = len(task.checkpoints)
        raise ValueError(f"{folder} has tables of {len(marks)} checkpoints: the task {task.name} has {count}")
    tables = {}
    for steps in sorted(marks):
        names = table_names(task, steps)
        for name in names:
            if name not in found:
                raise ValueError(f"{folder / name} is missing: the task {task.name} has {' and '.join(names)}")
        if not 0 < steps <= task.steps:
            raise ValueError(f"{folder / names[0]} is of {steps:,} steps: the task {task.name} has {task.steps:,}")
        tables[steps] = tuple(folder / name for name in names)
    if sum(map(len, tables.values())) + len({COST, RETURNS} & found.keys()) != len(found):
        raise ValueError(f"{folder} has tables of other skip chances than the task {task.name} scores")
    if not tables:
        raise ValueError(f"{folder} has no table: a run has files such as steps-{STEPS:06d}.npz")
    return RunFolder(task, seed, folder, tables)


def _list_folder(folder: Path) -> dict[str, bool]:
    """Return the names in a folder, and whether each is a folder; there are no links and devices.

    Raises:
        ValueError: something else, too many entries, or no folder.
    """
    found: dict[str, bool] = {}
    try:
        if folder.is_symlink():
            raise ValueError(f"{folder} is a link: put the folder itself there")
        with os.scandir(folder) as entries:
            for entry in entries:
                is_folder = entry.is_dir(follow_symlinks=False)
                if not is_folder and not entry.is_file(follow_symlinks=False):
                    raise ValueError(f"{folder / entry.name} is neither a file nor a folder: remove it")
                found[entry.name] = is_folder
                if len(found) > MAX_ENTRIES:
                    raise ValueError(f"{folder} has more than {MAX_ENTRIES} files: a submission has fewer")
    except (NotADirectoryError, FileNotFoundError):
        raise ValueError(f"{folder} is no folder of a submission") from None
    return found


class StoredTable(NamedTuple):
    """A table that was read."""

    policy: PolicyTable
    sha256: str
    """of the file"""


def read_table(task: Task, game: Game, path: Path) -> StoredTable:
    """Read a table of a policy for a game of a task.

    Raises:
        OSError: the file is missing or cannot be opened.
        ValueError: it is no table of the game, or too large.
    """
    limit = max_table_bytes(game)
    content = read_bounded(path, limit + MAX_OVERHEAD)
    try:
        arrays = read_arrays(io.BytesIO(content), limit + MAX_OVERHEAD, hashed=False)
        for name in arrays:
            if name not in ("codes", "probabilities", "values", "gaps", "shares"):
                raise ValueError(f"it has an array {name[:80]!r}, which no table has")
        if not task.hides_masks and arrays.keys() == {"gaps", "shares"}:
            arrays = unpack(game, arrays["shares"], arrays["gaps"])
        elif not task.hides_masks and arrays.keys() == {"shares"} and game.cells <= MAX_CELLS_OF_CHECKPOINTS:
            arrays = unpack(game, arrays["shares"], seats=task.seats)
        for name in ("codes", "probabilities"):
            if name not in arrays:
                raise ValueError(f"it has no array {name}")
        policy = PolicyTable(game, **arrays, masked=not task.hides_masks)
    except Exception as problem:  # a malformed zip or array header can raise many exceptions
        why = str(problem).partition("\n")[0][:MAX_TEXT] or type(problem).__name__
        raise ValueError(f"{path} is no table of a policy: {why}") from None
    return StoredTable(policy, hashlib.sha256(content).hexdigest())


@cache
def max_table_bytes(game: Game) -> int:
    """Return the maximum size of the arrays of a table: as float64, for all arrangements of stones."""
    return sum(boards_by_stones(game)) * (game.cells + 2) * _BYTES_PER_NUMBER


def table_content(task: Task, arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return the content of the file of a table; on boards that have only a last checkpoint it is packed."""
    game = task.games[0]
    file = io.BytesIO()
    write_arrays(file, pack(game, arrays) if game.cells > MAX_CELLS_OF_CHECKPOINTS else arrays, compress=True)
    return file.getvalue()


def read_cost(folder: Path) -> dict[str, float] | None:
    """Return the cost of a run: ``cpu_s``, ``wall_s``, ``peak_rss_bytes`` and ``steps``; None if there is none.

    Raises:
        ValueError: an invalid file.
    """
    path = folder / COST
    try:
        data = read_json(path, MAX_RUN_COST_BYTES)
    except FileNotFoundError:
        return None
    if not isinstance(data, dict) or not data.keys() <= set(COST_KEYS) or not all(map(_is_cost, data.values())):
        raise ValueError(f"{path} is no cost of a run: it has numbers of 0 or more named {', '.join(COST_KEYS)}")
    return data


def _is_cost(value: object) -> bool:
    return is_number(value) and value >= 0  # type: ignore[operator]


class TrainingReturns(NamedTuple):
    """Returns of a run in training, exploration included, from its beginning to each checkpoint."""

    steps: tuple[int, ...]
    """environment steps of the checkpoints, ascending"""
    episodes: tuple[int, ...]
    """number of episodes that were finished"""
    returns: tuple[float, ...]
    """sum of their returns; in self-play those of player 0"""

    def extend(self, steps: int, episodes: int, returns: float) -> TrainingReturns:
        """Return this with one more checkpoint."""
        return TrainingReturns((*self.steps, steps), (*self.episodes, episodes), (*self.returns, returns))

    def mean(self, after: int, until: int) -> float | None:
        """Return the mean return of the episodes that end between two checkpoints, of which 0 is the beginning.

        Returns:
            The mean; None if no episode ends there, as of an agent that takes no step, or a checkpoint is unknown.
        """
        totals = {0: (0, 0.0)} | {one[0]: one[1:] for one in zip(*self, strict=True)}
        if after not in totals or until not in totals:
            return None
        episodes, returns = (end - begin for begin, end in zip(totals[after], totals[until], strict=True))
        return returns / episodes if episodes else None

    def to_json(self) -> bytes:
        """Return the content of the file."""
        return json.dumps(self._asdict()).encode() + b"\n"


def read_returns(folder: Path) -> TrainingReturns | None:
    """Return the returns of a run in training; None if it does not report them.

    Raises:
        ValueError: an invalid file.
    """
    path = folder / RETURNS
    try:
        data = read_json(path, MAX_RETURNS_BYTES)
    except FileNotFoundError:
        return None
    columns: list[Any] = (
        list(data.values()) if isinstance(data, dict) and tuple(data) == TrainingReturns._fields else [0]
    )
    valid = all(isinstance(column, list) and all(map(is_number, column)) for column in columns)
    if not valid or len({len(column) for column in columns}) != 1:
        raise ValueError(f"{path} has no returns of a run: it has lists of numbers named steps, episodes and returns")
    steps, episodes, returns = map(tuple, columns)
    return TrainingReturns(steps, episodes, returns)
