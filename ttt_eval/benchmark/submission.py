"""Submissions to the benchmark: a file of policies as tables, which anybody can score again.

A submission is a file ``NAME.npz`` of ``numpy.savez_compressed``, or a folder with one named
``submission.npz``::

    submission                                 uint8: JSON text, who learned, and how: see Head
    TASK/seed-S/run                            uint8: JSON text, the cost of a run: see RunRecord
    TASK/seed-S/steps-NNNNNN/probabilities     [N, cells]: the policy after so many steps
    TASK/seed-S/steps-NNNNNN/values            float[N]: its values for the mover, if it has them

A table has a row for each position of :func:`list_positions`, and probabilities are float[N,
cells], or unsigned numbers in proportion to them. Where a task shows the skip chance, there is a
table for each skip chance that is scored: ``TASK/seed-S/steps-NNNNNN/skip-0.1/probabilities``. What
is read here is not trusted: nothing is executed, links are refused, and sizes are bounded. msgspec
checks records: a damaged one is one sentence with the place in it, as in ``Expected float >= 0.0 -
at $.cost.cpu_s``.
"""

from __future__ import annotations

import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import IO, Annotated, Any, Literal, NamedTuple, TypeVar

import numpy as np
from msgspec import Meta, Struct, json
from numpy.typing import NDArray

from ttt_envs.agents.policy import Policy, normalise
from ttt_envs.agents.specs import make_pure
from ttt_envs.core.checks import Refusal, name_place, quote
from ttt_envs.core.files import open_to_read, write_atomically
from ttt_envs.core.hash_index import find_sorted
from ttt_envs.core.jit import BoolArray, Float64Array, Int64Array
from ttt_envs.core.records import chunks
from ttt_envs.core.work import QUERY_SIZE
from ttt_envs.envs.config import SELF
from ttt_envs.game.boards import Boards, keys, position_keys, to_text
from ttt_envs.game.openings import random_openings
from ttt_envs.game.phantom import AnyGame, PhantomGame, visible
from ttt_envs.game.rules import legal
from ttt_envs.graph.layers import all_positions, query_policy
from ttt_eval.benchmark.tasks import (
    MAX_CELLS_OF_CHECKPOINTS,
    NUM_CHECKPOINTS,
    TASKS,
    Task,
    Version,
    version_of,
)
from ttt_eval.exact.policy_cache import cached
from ttt_eval.exact.proved_positions import SETS, read_proved

STORED = np.float16
"""type of stored values, and of probabilities on small boards"""
MAX_SHARE = 255
"""Share of the most probable move, of type uint8, on large boards."""
SUM_TOLERANCE = 0.02
"""Maximum deviation of a sum of stored probabilities from 1: float16 rounds each of up to 40 to 11
bits.
"""
ROWS_PER_CHECK = 1 << 18
FILE = "submission.npz"
"""The submission in a folder."""
HEAD = "submission"
PARTS = ("probabilities", "values")
"""arrays of a table"""
MAX_FILE_BYTES = 1 << 33
MAX_TEXT_BYTES = 1 << 16
MAX_ARRAYS = 20_000
BYTES_PER_NUMBER = 8
_ARRAY = re.compile(
    r"([\w-]+)/seed-(0|[1-9]\d?)/steps-(\d{6})(?:/skip-[\d.]+)?/(?:probabilities|values)"
)
_LINE = r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*\Z"
Record = TypeVar("Record")
Text = Annotated[str, Meta(max_length=200, pattern=_LINE)]
"""one line"""
Count = Annotated[int, Meta(ge=0, le=10**15)]
Amount = Annotated[float, Meta(ge=0, le=1e15)]


class Submission(Struct, frozen=True, forbid_unknown_fields=True):
    """What a submission says of itself."""

    name: Annotated[str, Meta(min_length=1, max_length=60, pattern=_LINE)]
    """of the agent, as the leaderboard shows it"""
    library: Text = ""
    agent: Text = ""
    """of this package, or ``module:make``"""
    code_sha256: Text = ""
    """see :func:`ttt_eval.benchmark.runs.hash_code`"""
    code: Text = ""
    """address of the code"""
    machine: Text = ""
    setting: Literal["one", "tuned"] = "one"
    """``one`` setting for all tasks, or ``tuned`` for each"""
    tuning_steps: Count = 0
    """environment steps that were spent on the choice of settings"""
    steps: Count = 0
    """maximum environment steps of its runs, 0 for those of the benchmark"""
    versions: Annotated[dict[Text, Text], Meta(max_length=200)] = {}
    """of packages, by name"""
    hyperparameters: Annotated[dict[Text, object], Meta(max_length=200)] = {}


class Cost(Struct, frozen=True):
    """Cost of a run, as the submission reports it."""

    cpu_s: Amount
    peak_rss_bytes: Amount | None = None
    """highest so far of the process that did the run, also in earlier ones"""
    steps: Count | None = None
    """environment steps that the agent took; None if they are unknown"""


class RunRecord(Struct, frozen=True):
    """What a submission says of a run."""

    cost: Cost | None = None
    cpu_s: Annotated[dict[Count, Amount], Meta(max_length=NUM_CHECKPOINTS)] = {}
    """CPU seconds of learning until each checkpoint, by its steps"""


class Head(Struct, frozen=True):
    """The version of the benchmark, and what a submission says of itself."""

    submission: Submission
    benchmark: Literal["ttt-exact"] = "ttt-exact"
    version: Version = "v1"


# --------------------------------------------------------------------------------------------------
# Tables


class PolicyTable(Policy):
    """A pure policy from a table of the positions of :func:`list_positions`.

    Probabilities are normalised in float64.

    Args:
        game: the game.
        probabilities: float[N, cells]; or unsigned[N, cells], numbers in proportion to them.
        values: float[N] for the mover, if any.
        seats: those in which the policy plays.
        positions: the only ones that the table has, see ``Task.positions``.
        masked: whether all probability is on legal moves.

    Raises:
        ValueError: an array has another shape, or a row is no distribution.
    """

    colour_blind = True

    def __init__(
        self,
        game: AnyGame,
        probabilities: NDArray[np.generic],
        values: NDArray[np.generic] | None = None,
        *,
        seats: tuple[int, ...] = (0, 1),
        positions: str = "",
        masked: bool = True,
    ) -> None:
        self.game = game
        self._weights = probabilities
        boards = list_positions(game, seats, positions)
        self.codes = position_codes(game, boards)
        count = len(boards.mover)
        if probabilities.shape != (count, game.cells) or probabilities.dtype.kind not in "fu":
            raise Refusal(f"a table of the task needs probabilities float[{count}, {game.cells}]")
        for weights, cells in zip(
            chunks(probabilities, ROWS_PER_CHECK), chunks(boards.cells, ROWS_PER_CHECK), strict=True
        ):
            _check_rows(weights, legal(game, cells) if masked else True)
        if values is not None:
            is_valid = values.shape == (count,) and values.dtype.kind == "f"
            if not (is_valid and (np.abs(values) <= 1).all()):
                raise Refusal(f"a table of the task needs values float[{count}] from -1 to 1")
            stored = values.astype(np.float64)
            # an attribute of tables with values alone
            self.values = lambda boards: stored[self._rows(boards)]

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Float64Array:
        """Return float64[B, cells].

        Raises:
            ValueError: the table lacks a position.
        """
        return normalise(self._weights[self._rows(boards)].astype(np.float64))

    def _rows(self, boards: Boards) -> Int64Array:
        rows = find_sorted(self.codes, position_codes(self.game, boards))
        missing = np.flatnonzero(rows < 0)
        if len(missing):
            raise Refusal(
                "the table lacks the position "
                f"{to_text(boards.position(missing[0]), self.game)!r}, which its policy can meet"
            )
        return rows


def _check_rows(weights: NDArray[Any], is_allowed: BoolArray | bool) -> None:
    """Raise ValueError if a row is no distribution over ``is_allowed`` cells."""
    total = weights.astype(np.float64).sum(axis=1)
    sums = np.abs(total - 1) <= SUM_TOLERANCE if weights.dtype.kind == "f" else total > 0
    if not ((weights >= 0).all() and sums.all()):  # also rejects NaN and infinity
        raise Refusal(
            "a table has a row that is no distribution: probabilities must be 0 or more, and sum "
            "to 1"
        )
    if ((weights > 0) & np.logical_not(is_allowed)).any():
        raise Refusal(
            "a table has probabilities of illegal moves: they must be 0 on occupied cells, with "
            "gravity also above empty ones"
        )


def position_codes(game: AnyGame, boards: Boards) -> NDArray[Any]:
    """Return codes [B] that can be sorted: of the position as its mover sees it, in a phantom game
    of the view and its seat.
    """
    if isinstance(game, PhantomGame):
        return position_keys(boards)
    words = keys(boards.own_first())
    return words if words.ndim == 1 else np.rec.fromarrays(words.T)


@cache
def list_positions(game: AnyGame, seats: tuple[int, ...] = (0, 1), positions: str = "") -> Boards:
    """Return all unfinished positions in which a player in one of these seats may have to move, or
    those of ``Task.positions``, by their codes.

    A code is ``keys(boards.own_first())``. Positions that their mover sees alike are one: of the
    two colourings, the one that games reach. In a phantom game they are views, by seat, with the
    code ``position_keys(boards)``.
    """
    if positions in SETS:
        boards = read_proved(positions).boards
    elif positions:
        boards = random_openings(positions, visible(game))
    else:
        boards = all_positions(game)
    boards = boards.take(np.isin(boards.mover, seats))
    _, first = np.unique(position_codes(game, boards), return_index=True)
    return boards.take(first)


def tabulate(
    game: AnyGame,
    policy: str | Policy,
    seats: tuple[int, ...] = (0, 1),
    positions: str = "",
    *,
    dtype: type = STORED,
) -> dict[str, NDArray[np.generic]]:
    """Return the arrays of a policy's table.

    Args:
        game: the game.
        policy: a spec string or a pure policy that sees own stones first.
        seats: those in which it plays.
        positions: as of :func:`list_positions`.
        dtype: of probabilities and values.

    Returns:
        ``probabilities`` [N, cells] of :func:`list_positions`, and ``values`` [N], clipped to [-1,
        1], if the policy has them. On large boards there are no values, and probabilities are
        uint8: 255ths of the highest one, rounded.

    Raises:
        ValueError: a policy that is not pure, or whose probabilities have another shape.
    """
    pure = make_pure(policy, game)
    cached_policy = cached(pure, game)  # symmetric positions have one answer
    parts: dict[str, list[NDArray[np.generic]]] = {"probabilities": []}
    for chunk in list_positions(game, seats, positions).chunks(QUERY_SIZE):
        p: NDArray[np.generic] = query_policy(cached_policy, chunk).astype(dtype)
        if game.cells > MAX_CELLS_OF_CHECKPOINTS:
            weights = p.astype(np.float64)
            p = np.rint(weights * (MAX_SHARE / weights.max(axis=1, keepdims=True))).astype(np.uint8)
        elif pure.values is not None:
            parts.setdefault("values", []).append(np.clip(pure.values(chunk), -1, 1).astype(dtype))
        parts["probabilities"].append(p)
    return {name: np.concatenate(arrays) for name, arrays in parts.items()}


# --------------------------------------------------------------------------------------------------
# Reading


class StoredRun(NamedTuple):
    """A run in a submission."""

    task: Task
    seed: int
    checkpoints: tuple[int, ...]
    """the numbers of steps after which its policy is stored, ascending"""

    @property
    def record(self) -> str:
        """The name of its record."""
        return f"{self.task.name}/seed-{self.seed}/run"

    def tables(self, steps: int) -> dict[str, AnyGame]:
        """Return the tables after so many steps: for each game that is scored if it is shown, else
        for the first.
        """
        name = f"{self.task.name}/seed-{self.seed}/steps-{steps:06d}"
        if not self.task.observe_skip_chance:
            return {name: self.task.games[0]}
        return {f"{name}/skip-{game.skip_chance:g}": game for game in self.task.games}


class SubmissionFile:
    """An open submission; its tables are read when they are asked for.

    Args:
        archive: its file.

    Attributes:
        submission: what it says of itself.
        version: of the benchmark.
        runs: by task and seed.
        copies: numbers of runs by :meth:`fingerprint`.

    Raises:
        ValueError: it has something that no submission has, or lacks what all have.
    """

    def __init__(self, archive: zipfile.ZipFile) -> None:
        entries = archive.infolist()
        if len(entries) > MAX_ARRAYS:
            raise Refusal(f"it has more than {MAX_ARRAYS:,} arrays: a submission has fewer")
        self._archive = archive
        self._entries = {entry.filename.removesuffix(".npy"): entry for entry in entries}
        if len(self._entries) < len(entries):
            raise Refusal("it has two arrays of the same name: remove one")
        head = self._read_record(HEAD, Head)
        self.submission = head.submission
        self.version = head.version
        steps: dict[tuple[str, int], set[int]] = {}
        for match in filter(None, map(_ARRAY.fullmatch, self._entries)):
            steps.setdefault((match[1], int(match[2])), set()).add(int(match[3]))
        self.runs = [
            StoredRun(task, seed, tuple(sorted(marks)))
            for task in TASKS
            for (name, seed), marks in sorted(steps.items())
            if name == task.name
        ]
        if not self.runs:
            raise Refusal("it has no run: evaluate.py bench run makes some")
        names = set().union(*map(self._check_run, self.runs), {HEAD})
        self.copies = Counter(map(self.fingerprint, self.runs))
        other_names = self._entries.keys() - names
        if other_names:
            raise Refusal(
                f"it has {quote(min(other_names))}, which is no array of a submission: remove it"
            )

    def _check_run(self, run: StoredRun) -> set[str]:
        """Return the names of arrays that a run may have.

        Raises:
            ValueError: it has too many checkpoints, later ones than its task, or lacks a table of
                one.
        """
        task = run.task
        marks = run.checkpoints
        if task.uses_runs_of is not None or self.version not in task.versions:
            raise Refusal(
                f"it has runs of {task.name}, which is scored from those of "
                f"{task.uses_runs_of or 'another version'}: remove them"
            )
        if len(marks) > len(task.checkpoints) or marks[0] < 1 or marks[-1] > task.steps:
            raise Refusal(
                f"it has {len(marks)} checkpoints of {run.record}, and the task has "
                f"{len(task.checkpoints)} within "
                f"{task.steps:,} steps: store policies at those"
            )
        tables = [name for steps in marks for name in run.tables(steps)]
        for name in tables:
            if f"{name}/probabilities" not in self._entries:
                raise Refusal(f"it lacks {name}/probabilities: add it")
        return {run.record, *(f"{name}/{part}" for name in tables for part in PARTS)}

    def read_run(self, run: StoredRun) -> RunRecord:
        """Return what the submission says of a run.

        Raises:
            ValueError: it is damaged, or names more steps than the run has.
        """
        has_record = run.record in self._entries
        record = self._read_record(run.record, RunRecord) if has_record else RunRecord()
        if record.cost is not None and (record.cost.steps or 0) > run.checkpoints[-1]:
            raise Refusal(
                f"{run.record} says that more steps were taken than its last table has in its "
                "name: store the policy at the end"
            )
        return record

    def read_tables(self, run: StoredRun, steps: int) -> list[PolicyTable]:
        """Read the tables of a checkpoint.

        Raises:
            ValueError: they are no tables of policies for the games of the task.
        """
        task = run.task
        tables = []
        for name, game in run.tables(steps).items():
            boards = list_positions(game, task.seats, task.positions)
            arrays = {
                part: self._read_array(f"{name}/{part}", boards.cells.size * BYTES_PER_NUMBER)
                for part in PARTS
                if f"{name}/{part}" in self._entries
            }
            tables.append(
                PolicyTable(
                    game,
                    **arrays,
                    seats=task.seats,
                    positions=task.positions,
                    masked=not task.hides_masks,
                )
            )
        return tables

    def fingerprint(self, run: StoredRun) -> tuple[object, ...]:
        """Return the task, and the CRC-32 of what its agent has learned: of the last probabilities,
        in self-play, where learners may end in the same solution, of all.
        """
        marks = run.checkpoints if run.task.opponent == SELF else run.checkpoints[-1:]
        names = [f"{name}/probabilities" for steps in marks for name in run.tables(steps)]
        return run.task, *(self._entries[name].CRC for name in names)

    def _read_record(self, name: str, kind: type[Record]) -> Record:
        if name not in self._entries:
            raise Refusal(f"it has no array {name}: add it")
        return json.decode(self._read_array(name, MAX_TEXT_BYTES).tobytes(), type=kind)

    def _read_array(self, name: str, max_bytes: int) -> NDArray[np.generic]:
        """Return an array of at most so many bytes.

        Raises:
            ValueError: a larger or malformed one.
        """
        entry = self._entries[name]
        if entry.file_size > max_bytes + MAX_TEXT_BYTES:
            raise Refusal(
                f"{name} unpacks to {entry.file_size:,} bytes, and at most {max_bytes:,} are read"
            )
        with name_place(f"{name} cannot be read", (Exception,)), self._archive.open(entry) as part:
            array: NDArray[np.generic] = np.lib.format.read_array(part, allow_pickle=False)
        return array


@contextmanager
def open_submission(path: Path) -> Iterator[SubmissionFile]:
    """Open a submission, a file or a folder that has one. Refusals name its path, also those of
    what is read of it.

    Raises:
        OSError: it cannot be opened.
        ValueError: there is none, it is a link or too large, or something in it is invalid.
    """
    if path.is_dir() and not (path / FILE).exists():
        raise Refusal(
            f"{path} is no submission: it has no {FILE}, which evaluate.py bench run writes"
        )
    with _open_archive(path / FILE if path.is_dir() else path) as archive:
        yield SubmissionFile(archive)


@contextmanager
def _open_archive(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open a file of arrays, a submission or a run of one; refusals name it, also those of what is
    read of it.
    """
    with (
        open_to_read(path, MAX_FILE_BYTES) as file,
        name_place(
            f"{path} is no valid submission",
            (
                ValueError,
                RecursionError,
                zipfile.BadZipFile,
                zlib.error,
                NotImplementedError,
                EOFError,
            ),
        ),
    ):
        yield zipfile.ZipFile(file)


# --------------------------------------------------------------------------------------------------
# Writing


def encode_record(record: Head | RunRecord) -> NDArray[np.uint8]:
    """Return the array of what a submission says of itself, or of a run. What is no JSON is written
    as text.

    Raises:
        ValueError: it cannot be read again: a value is out of range, is no line of text, or is too
            long.
    """
    with name_place("the submission cannot be written"):  # such as for a key that is no text
        text = json.encode(record, enc_hook=str)
        json.decode(text, type=type(record))
    if len(text) > MAX_TEXT_BYTES:
        raise Refusal(
            f"a submission says at most {MAX_TEXT_BYTES:,} bytes: give it fewer hyperparameters"
        )
    return np.frombuffer(text, np.uint8)


def join_runs(path: Path, submission: Submission, runs: Sequence[Path]) -> None:
    """Write a submission of the arrays in the files of runs, in folders with the names of tasks.

    Raises:
        ValueError: no version of the benchmark has all of them.
    """
    version = version_of({run.parent.name for run in runs})
    head = encode_record(Head(submission, version=version))

    def write(file: IO[bytes]) -> None:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            with archive.open(f"{HEAD}.npy", "w") as entry:
                np.lib.format.write_array(entry, head, allow_pickle=False)
            for run in runs:
                with _open_archive(run) as part:
                    # damage gives an entry no name: none can be written
                    for name in filter(None, part.namelist()):
                        archive.writestr(name, part.read(name))

    write_atomically(path, write)
