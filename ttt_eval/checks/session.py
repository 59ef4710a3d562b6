"""Questions to a function of others about positions of a game, and rows about its answers."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import nan
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ttt_envs.core.checks import check_range
from ttt_envs.core.jit import BoolArray, Float64Array, Int64Array
from ttt_envs.core.records import concatenate
from ttt_envs.game.game import Game
from ttt_envs.game.symmetry import canonical_keys
from ttt_eval.checks.calls import (
    CallError,
    CallTimeoutError,
    GuardedCaller,
    check_function,
    open_caller,
    read_numbers,
)
from ttt_eval.checks.causes import Facts
from ttt_eval.checks.check import (
    MAX_CAUSES,
    MOVE_NOTE,
    Check,
    CheckRow,
    Evidence,
    judge,
    list_fitting,
)
from ttt_eval.checks.tables import TIE, GameTable, PlantedEvaluator, Turns, make_table

MAX_ERRORS = 20
"""Number of errors after which a check stops."""
MAX_CLASSES = 1_000
"""Maximum number of symmetry classes that are asked about."""
MAX_EVIDENCE = 3
"""Maximum number of positions of a row."""
SEED_STEP = 100_000
"""Distance of the seeds of calls between checks whose seeds differ by 1."""
FIRST_SEEDS = {
    "moves": 0,
    "values": 0,
    "images": 0,
    "results": 0,
    "near the end": 1,
    "without knowledge": 200,
    "told the truth": 300,
    "repeatable": 400,
    "noise": 410,
    "own value": 500,
    "signs": 510,
    "ends": 600,
    "priors": 700,
    "inner priors": 800,
    "rollouts": 900,
    "leaves": 950,
    "chance 0": 1000,
    "chance 1": 1020,
    "chance 2": 1040,
    "chance 3": 1060,
    "traps": 2000,
    "elsewhere": 2100,
}
"""Seed of the first call of an :meth:`Checker.ask` for a row, in a check of seed 0; its next calls
have the next seeds. Rows may share seeds: "rollouts" asks in up to 120 positions, and has those of
"leaves" and "chance 0" too. A new row takes the next hundred above all others, now 2200.
"""

AnyChecker = TypeVar("AnyChecker", bound="Checker")


class StopError(Exception):
    """The check ends early."""


class SearchAnswers(NamedTuple):
    """Answers of a search in B positions."""

    visits: Float64Array
    """float64[B, A]: 0 without a valid answer"""
    values: Float64Array
    """float64[B]: NaN without one"""


class Notes(NamedTuple):
    """What a failed row says about positions."""

    positions: Sequence[int]
    """B rows of the table"""
    text: str
    """a format string"""
    columns: Sequence[Any] = ()
    """what it formats, sequences or arrays, [B] each"""


@contextmanager
def open_check(
    kind: Callable[..., AnyChecker],
    function: Callable[..., Any],
    turns: Turns,
    board: str | Game,
    *,
    owned: bool = False,
    seed: int = 0,
    batch: bool = False,
    limit_s: float | None = None,
) -> Iterator[AnyChecker]:
    """Yield a checker of a function, for the arguments of a check.

    Args:
        kind: the class of the checker.
        function: of others.
        turns, board: the game.
        owned, seed, batch: see :class:`Checker`.
        limit_s: maximum s of a call; None for no limit.

    Raises:
        TypeError: it is no function.
        ValueError: an argument is unknown or out of range.
    """
    check_function(function)
    check_range("seed", seed, 0)
    check_range("limit_s", limit_s, 0, problem="is no limit", above=True)
    table = copy.copy(make_table(turns, board))
    table.illegal_steps = []
    with open_caller(limit_s) as caller:
        yield kind(function, table, owned, caller, seed, batch)


@dataclass
class Checker:
    """Asks a function, keeps what its answers break, and makes the rows of a check."""

    function: Callable[..., Any]
    """of others"""
    table: GameTable
    """the game, with its own list of illegal steps"""
    owned: bool
    """whether the function is given the evaluator of the check"""
    caller: GuardedCaller
    seed: int
    batch: bool
    """whether the function takes many positions at once"""

    causes: ClassVar[Mapping[str, str]] = {
        "time": "it does not answer in time: it does not see finished games, or waits",
        "rules": "answers are illegal moves, errors, or of another form",
    }
    """of broken contracts, by the row, which hide all others"""

    def __post_init__(self) -> None:
        self.facts = Facts()
        self.broken: dict[str, list[Evidence]] = {
            "rules": [],
            "steps": self.table.illegal_steps,
            "time": [],
        }
        """positions with broken answers, by the row"""
        self.is_evaluator_read = not self.owned
        self.missing_visits: list[float] = []
        self.asked: list[int] = []
        """the position of each number of missing visits"""
        self.zeros = np.zeros(len(self.table.boards))
        self.uniform = np.full(self.table.legal.shape, 1 / self.table.num_actions)
        self.rows: list[CheckRow] = []
        self.notes = Notes((), "")
        """about the positions of rows without their own"""
        self.made_moves: list[tuple[int, int]] = []
        """positions and moves of rows about moves"""
        self.rng = np.random.default_rng(self.seed)

    def ask(
        self,
        name: str,
        positions: Sequence[int],
        values: Float64Array | None = None,
        simulations: int = 1,
        priors: Float64Array | None = None,
    ) -> SearchAnswers:
        """Return the answers in some positions.

        Args:
            name: of the row, a key of :data:`FIRST_SEEDS`.
            positions: rows of the table.
            values: planted, float64[N + 1]; None for 0.
            simulations: their number.
            priors: planted, float64[N + 1, A]; None for equal ones.

        Raises:
            StopError: the search timed out, or raised too many errors.
            KeyError: the row has no seed.
        """
        values = self.zeros if values is None else values
        priors = self.uniform if priors is None else priors
        evaluator = PlantedEvaluator(self.table, values, priors)
        parts = (
            [[*positions]] if self.batch and positions else [[position] for position in positions]
        )
        first_seed = SEED_STEP * self.seed + FIRST_SEEDS[name]
        answers = [
            self._ask_part(part, evaluator, simulations, seed)
            for seed, part in enumerate(parts, first_seed)
        ]
        self.is_evaluator_read |= evaluator.is_read
        return concatenate([SearchAnswers(self.uniform[:0], self.zeros[:0]), *answers])

    def _ask_part(
        self, positions: Sequence[int], evaluator: PlantedEvaluator, simulations: int, seed: int
    ) -> SearchAnswers:
        """Ask in one call."""
        board: Any = self.table.boards[positions] if self.batch else self.table.board(positions[0])
        arguments = board, evaluator if self.owned else None, simulations, seed

        def search() -> SearchAnswers:
            answer = self.answer(positions, *arguments)
            return _parse(answer, len(positions), self.table.num_actions, self.batch)

        try:
            answers: SearchAnswers = self.caller.call(search, seed=seed)
        except CallError as error:
            is_late = isinstance(error, CallTimeoutError)
            self.facts.num_errors += not is_late
            self._break(positions[0], str(error), "time" if is_late else "rules")
            if is_late or self.facts.num_errors >= MAX_ERRORS:
                raise StopError from None
            return SearchAnswers(0 * self.uniform[positions], np.full(len(positions), nan))
        for position, visits in zip(positions, answers.visits, strict=True):
            self._read(position, visits, simulations)
        return answers

    def answer(self, positions: Sequence[int], board: Any, *arguments: Any) -> Any:
        """Return what the function answers in some positions: visits, and maybe values."""
        return self.function(self.table, board, *arguments)

    def _break(self, position: int, problem: str, name: str = "rules") -> None:
        self.broken[name].append(self.table.evidence(position, problem))

    def _read(self, position: int, visits: Float64Array, simulations: int) -> None:
        """Keep what visits break, and how many are missing."""
        total = float(visits.sum())
        illegal = np.flatnonzero(visits * ~self.table.legal[position]).tolist()
        if illegal:
            self.facts.num_illegal_visits += 1
            self._break(position, f"illegal moves: {illegal}")
        elif not total > 0:
            self._break(position, "visits without a move")
        if total > 1 + TIE:  # else shares, or the move itself
            self.missing_visits.append(simulations - total)
            self.asked.append(position)

    def moves(
        self, positions: Sequence[int], answers: SearchAnswers
    ) -> tuple[Int64Array, Float64Array]:
        """Return the most visited legal moves, int64[B], and their losses, float64[B]; NaN for
        invalid answers.
        """
        moves = np.where(self.table.legal[positions], answers.visits, -1).argmax(axis=1)
        losses = self.table.losses[positions, moves]
        return moves, np.where(answers.visits.sum(axis=1) > 0, losses, nan)

    def report(self, what: str, sections: Sequence[Callable[[], None]]) -> Check:
        """Measure sections until an error stops them, and return the check with its causes."""
        with suppress(StopError):
            for section in sections:
                section()
        rows = [*self.contract_rows(), *self.rows]
        failed = {row.name for row in rows if row.status == "fails"}
        causes = [cause for name, cause in self.causes.items() if name in failed]
        if failed and not causes:
            causes = list_fitting(self.patterns(failed))
        what = f"{what}, game {self.table.turns} on {self.table.game}"
        return Check(what, rows, causes[:MAX_CAUSES])

    def patterns(self, failed: set[str]) -> dict[str, bool]:
        """Return whether causes explain the failed rows, the likeliest first."""
        raise NotImplementedError

    def judge(
        self,
        name: str,
        measured: str,
        number: float,
        limit: float,
        *,
        badness: Float64Array,
        notes: Notes | None = None,
        **options: Any,
    ) -> None:
        """Add a row with a limit, and the worst positions as evidence.

        Args:
            name, measured, number, limit, options: of :func:`ttt_eval.checks.check.judge`.
            badness: float64[B], of the positions.
            notes: about the positions; by default those of the check.
        """
        notes = notes or self.notes
        evidence = [
            self.table.evidence(
                notes.positions[b], notes.text.format(*(column[b] for column in notes.columns))
            )
            for b in np.argsort(-np.nan_to_num(badness))[:MAX_EVIDENCE].tolist()
        ]
        self.rows.append(judge(name, measured, number, limit, evidence, **options))

    def remark(self, name: str, text: str) -> None:
        """Add a row without a limit."""
        self.rows.append(CheckRow(name, text, "remark"))

    def choose(
        self, mask: BoolArray, count: int | None = None, rank: NDArray[Any] | None = None
    ) -> list[int]:
        """Return some positions in random order, or those of the smallest ranks first.

        Args:
            mask: bool[N + 1], of the positions.
            count: maximum number of positions; None for all of them.
            rank: float64[N + 1]; equal ones stay in random order.
        """
        positions = self.rng.permutation(np.flatnonzero(mask))
        order = np.argsort((self.zeros if rank is None else rank)[positions], kind="stable")
        chosen: list[int] = positions[order][:count].tolist()
        return chosen

    def choose_classes(self, mask: BoolArray) -> list[int]:
        """Return one position of each symmetry class, in a random image, at most
        :data:`MAX_CLASSES`.
        """
        positions = np.array(self.choose(mask), np.int64)
        keys, _ = canonical_keys(self.table.boards[positions] % 3, self.table.symmetries)
        _, first = np.unique(keys, axis=0, return_index=True)
        chosen: list[int] = positions[np.sort(first)[:MAX_CLASSES]].tolist()
        return chosen

    def by_parity(self, positions: Sequence[int], numbers: Float64Array) -> tuple[float, float]:
        """Return the means of numbers by position, for even and odd numbers of stones."""
        odd = self.table.odd[positions]
        return mean_of(numbers[~odd]), mean_of(numbers[odd])

    def judge_moves(
        self, name: str, positions: list[int], values: Float64Array, simulations: int, limit: float
    ) -> tuple[SearchAnswers, Float64Array]:
        """Add a row about moves, and return the answers, and the losses of the moves, [B] each."""
        answers = self.ask(name, positions, values, simulations)
        moves, losses = self.moves(positions, answers)
        self.made_moves += zip(positions, moves, strict=True)
        loss = mean_of(losses)
        random_loss = mean_of(self.table.random_losses[positions])
        self.judge(
            name,
            f"mean loss {loss:.3f} after {simulations} simulations; random {random_loss:.3f}",
            loss,
            limit,
            notes=Notes(positions, MOVE_NOTE, (moves, losses, self.table.best_moves(positions))),
            badness=losses,
        )
        return answers, losses

    def contract_rows(self) -> list[CheckRow]:
        """Return the rows about errors, steps and time, after all calls; output is a remark."""
        output = self.caller.printed.getvalue().strip()
        steps = self.table.illegal_steps
        self.facts.impossible_turns = any("again=" in step.note for step in steps)
        rows = []
        for name, evidence in self.broken.items():
            first = f": {evidence[0].note}" if evidence else ""
            text = f"{len(evidence)} broken{first}"
            rows.append(judge(name, text, len(evidence), 0, evidence[:MAX_EVIDENCE], rule="none"))
        if output:
            self.remark("output", f"it prints: {output[:100]}")
        return rows


def _parse(answer: Any, count: int, num_actions: int, batch: bool) -> SearchAnswers:
    """Return an answer as arrays.

    Raises:
        ValueError, TypeError: it has another form.
    """
    visits, value = answer if isinstance(answer, tuple) and len(answer) == 2 else (answer, None)
    array = np.array(visits, np.float64)
    if array.ndim == int(batch):  # moves
        array = array.reshape(-1, 1) == np.arange(num_actions)
        if not array.any(axis=1).all():
            raise ValueError(f"{visits} is no move from 0 to {num_actions - 1}")
    numbers = read_numbers(array.reshape(count, -1), (count, num_actions), "visits")
    values = np.array(nan if value is None else value, np.float64)
    return SearchAnswers(numbers, np.broadcast_to(values.reshape(-1), (count,)))


def finite(numbers: ArrayLike) -> Float64Array:
    """Return the finite numbers, or NaN if there are none."""
    array = np.asarray(numbers, np.float64)
    array = array[np.isfinite(array)]
    return array if array.size else np.array([nan])


def mean_of(numbers: ArrayLike) -> float:
    """Return the mean of the finite numbers, NaN without any."""
    return float(finite(numbers).mean())


def median_of(numbers: ArrayLike) -> float:
    """Return the median of the finite numbers, NaN without any."""
    return float(np.median(finite(numbers)))
