"""Questions to a function of others about positions of a game, and rows about its answers."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import nan
from typing import Any, NamedTuple

import numpy as np

from ttt_envs.core.checks import TypeRefusal, check_range
from ttt_envs.core.jit import BoolArray, Float64Array, Int64Array
from ttt_envs.core.records import concatenate
from ttt_envs.game.game import Game
from ttt_envs.game.symmetry import canonical_keys
from ttt_eval.checks.calls import CallError, CallTimeoutError, GuardedCaller, read_numbers
from ttt_eval.checks.causes import Facts
from ttt_eval.checks.check import Check, CheckRow, Evidence, judge
from ttt_eval.checks.tables import TIE, GameTable, PlantedEvaluator, Turns, make_table

MAX_ERRORS = 20
"""Number of errors after which a check stops."""
BROKEN = {
    "time": "it does not answer in time: it does not see finished games, or waits",
    "rules": "answers are illegal moves, errors, or of another form",
}
"""Causes of broken contracts, by the row."""
MAX_CLASSES = 1_000
"""Maximum number of symmetry classes that are asked about."""
MAX_EVIDENCE = 3
"""Maximum number of positions of a row."""


class StopError(Exception):
    """The check ends early."""


class SearchAnswers(NamedTuple):
    """SearchAnswers of a search in B positions."""

    visits: Float64Array
    """float64[B, A]: 0 without a valid answer"""
    values: Float64Array
    """float64[B]: NaN without one"""


@contextmanager
def open_session(
    function: Callable[..., Any],
    turns: Turns,
    board: str | Game,
    *,
    owned: bool = False,
    seed: int = 0,
    batch: bool = False,
    limit_s: float | None = None,
) -> Iterator[Session]:
    """Yield a session with a function, for the arguments of a check.

    Raises:
        TypeError: it is no function.
        ValueError: an argument is unknown or out of range.
    """
    if not callable(function):
        raise TypeRefusal(f"{function!r} is no function: give a function, see the check's page")
    check_range("seed", seed, 0)
    check_range("limit_s", limit_s, 0, problem="is no limit", above=True)
    table = copy.copy(make_table(turns, board))
    table.illegal_steps = []
    with GuardedCaller(limit_s) as caller:
        yield Session(function, table, owned, caller, seed, batch)


class Session:
    """Asks a search, and keeps what its answers break."""

    def __init__(
        self,
        search: Callable[..., Any],
        table: GameTable,
        owned: bool,
        caller: GuardedCaller,
        seed: int,
        batch: bool,
    ) -> None:
        self.search = search
        self.table = table
        self.owned = owned
        self.caller = caller
        self.seed = seed
        self.batch = batch
        self.facts = Facts()
        self.broken: list[Evidence] = []
        self.late: list[Evidence] = []
        self.missing_visits: list[float] = []
        self.asked: list[int] = []
        """the position of each number of missing visits"""
        self.zeros = np.zeros(len(table.boards))
        self.uniform = np.full(table.legal.shape, 1 / table.num_actions)

    def ask(
        self,
        rows: Sequence[int],
        values: Float64Array,
        simulations: int,
        salt: int,
        priors: Float64Array | None = None,
        *,
        batch: bool | None = None,
    ) -> SearchAnswers:
        """Return the answers in some positions, with planted values and priors.

        Raises:
            StopError: the search timed out, or raised too many errors.
        """
        priors = self.uniform if priors is None else priors
        evaluator = PlantedEvaluator(self.table, values, priors)
        whole = self.batch if batch is None else batch
        size = len(rows) if whole else 1
        parts = [
            self._ask_part(rows[start : start + size], evaluator, simulations, salt + start)
            for start in range(0, len(rows), max(1, size))
        ]
        return concatenate([SearchAnswers(self.uniform[:0], self.zeros[:0]), *parts])

    def _ask_part(
        self, rows: Sequence[int], evaluator: PlantedEvaluator, simulations: int, salt: int
    ) -> SearchAnswers:
        """Ask in one call."""
        seed = self.seed * 100_000 + salt
        board: Any = self.table.boards[rows] if self.batch else self.table.board(rows[0])
        arguments = self.table, board, evaluator if self.owned else None, simulations, seed

        def search() -> SearchAnswers:
            return _parse(self.search(*arguments), len(rows), self.table.num_actions, self.batch)

        answers = SearchAnswers(
            np.zeros((len(rows), self.table.num_actions)), np.full(len(rows), nan)
        )
        try:
            answers = SearchAnswers(*self.caller.call(search, seed=seed))
        except CallTimeoutError as error:
            self.facts.timed_out = True
            self.late.append(self.table.evidence(rows[0], str(error)))
            raise StopError from None
        except CallError as error:
            self.facts.num_errors += 1
            self._break(rows[0], str(error))
            if self.facts.num_errors >= MAX_ERRORS:
                raise StopError from None
            return answers
        for row, visits in zip(rows, answers.visits, strict=True):
            self._read(row, visits, simulations)
        return answers

    def _break(self, row: int, problem: str) -> None:
        self.broken.append(self.table.evidence(row, problem))

    def _read(self, row: int, visits: Float64Array, simulations: int) -> None:
        """Keep what visits break, and how many are missing."""
        total = float(visits.sum())
        if visits[~self.table.legal[row]].any():
            self.facts.num_illegal_visits += 1
            self._break(row, f"visits of illegal moves: {visits.tolist()}")
        elif not total > 0:
            self._break(row, f"visits without a move: {visits.tolist()}")
        if total > 1 + TIE:  # else shares, or the move itself
            self.missing_visits.append(simulations - total)
            self.asked.append(row)

    def moves(self, rows: Sequence[int], answers: SearchAnswers) -> tuple[Int64Array, Float64Array]:
        """Return the most visited legal moves, int64[B], and their losses, float64[B]; NaN for
        invalid answers.
        """
        moves = np.where(self.table.legal[rows], answers.visits, -1).argmax(axis=1)
        losses = self.table.losses[rows, moves]
        return moves, np.where(answers.visits.sum(axis=1) > 0, losses, nan)


def _parse(answer: Any, count: int, num_actions: int, batch: bool) -> SearchAnswers:
    """Return an answer as arrays.

    Raises:
        ValueError, TypeError: it has another form.
    """
    visits, value = answer if isinstance(answer, tuple) and len(answer) == 2 else (answer, None)
    array = np.array(visits, np.float64)
    if array.ndim == int(batch):  # moves
        moves = array.reshape(-1)
        if not np.isin(moves, np.arange(num_actions)).all():
            raise ValueError(f"{visits} is no move from 0 to {num_actions - 1}")
        array = np.eye(num_actions)[moves.astype(np.int64)]
    numbers = read_numbers(array.reshape(count, -1), (count, num_actions), "visits")
    values = np.array(nan if value is None else value, np.float64)
    return SearchAnswers(numbers, np.broadcast_to(values.reshape(-1), (count,)))


def finite(numbers: Any) -> Float64Array:
    """Return the finite numbers, or NaN if there are none."""
    array = np.ravel(np.asarray(numbers, np.float64))
    array = array[np.isfinite(array)]
    return array if array.size else np.array([nan])


def mean_of(numbers: Any) -> float:
    """Return the mean of the finite numbers, NaN without any."""
    return float(finite(numbers).mean())


def median_of(numbers: Any) -> float:
    """Return the median of the finite numbers, NaN without any."""
    return float(np.median(finite(numbers)))


class Checker:
    """The rows of a check, in the making."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.table = session.table
        self.facts = session.facts
        self.rows: list[CheckRow] = []
        self.chosen: list[int] = []
        self.rng = np.random.default_rng(session.seed)

    def measure(self, sections: Sequence[Callable[[], None]]) -> list[CheckRow]:
        """Measure sections until an error stops them, and return all rows."""
        try:
            for section in sections:
                section()
        except StopError:
            pass
        return [*self.contract_rows(), *self.rows]

    def report(self, what: str, sections: Sequence[Callable[[], None]]) -> Check:
        """Measure sections, and return the check with its causes."""
        rows = self.measure(sections)
        failed = {row.name for row in rows if row.status == "fails"}
        causes = [cause for name, cause in BROKEN.items() if name in failed]
        if failed and not causes:
            causes = [cause for cause, fits in self.patterns(failed).items() if fits]
        return Check(f"{what}, game {self.table.turns} on {self.table.game}", rows, causes)

    def patterns(self, failed: set[str]) -> dict[str, bool]:
        """Return whether causes explain the failed rows, the likeliest first."""
        raise NotImplementedError

    def judge(self, *arguments: Any, **options: Any) -> None:
        """Add a row with a limit, see :func:`ttt_eval.checks.check.judge`."""
        self.rows.append(judge(*arguments, **options))

    def remark(self, name: str, text: str) -> None:
        """Add a row without a limit."""
        self.rows.append(CheckRow(name, text, "remark"))

    def choose(self, mask: BoolArray, count: int) -> list[int]:
        """Return rows of some positions."""
        rows: list[int] = self.rng.permutation(np.flatnonzero(mask))[:count].tolist()
        return rows

    def choose_classes(self, mask: BoolArray) -> list[int]:
        """Return rows of one position of each symmetry class, in a random image, at most
        :data:`MAX_CLASSES`.
        """
        rows = np.array(self.choose(mask, len(mask)), np.int64)
        keys, _ = canonical_keys(self.table.boards[rows] % 3, self.table.symmetries)
        first = np.unique(keys, axis=0, return_index=True)[1]
        chosen: list[int] = rows[np.sort(first)[:MAX_CLASSES]].tolist()
        return chosen

    def is_odd(self, rows: Sequence[int]) -> BoolArray:
        """Return whether positions have an odd number of stones, bool[B]."""
        return np.asarray(np.count_nonzero(self.table.boards[rows], axis=1) % 2 == 1)

    def by_parity(self, rows: Sequence[int], numbers: Float64Array) -> tuple[float, float]:
        """Return the means of numbers by position, for even and odd numbers of stones."""
        odd = self.is_odd(rows)
        return mean_of(numbers[~odd]), mean_of(numbers[odd])

    def note(self, b: int) -> str:
        """Describe the answer in one of the ``chosen`` positions."""
        raise NotImplementedError

    def worst(self, badness: Float64Array) -> list[Evidence]:
        """Return the worst of the ``chosen`` positions."""
        return self.show(self.chosen, badness, self.note)

    def show(
        self, rows: Sequence[int], badness: Float64Array, note: Callable[[int], str]
    ) -> list[Evidence]:
        """Return the worst positions, with a note about each."""
        order = np.argsort(-np.nan_to_num(badness))[:MAX_EVIDENCE].tolist()
        return [self.table.evidence(rows[b], note(b)) for b in order]

    def judge_moves(
        self,
        name: str,
        rows: list[int],
        values: Float64Array,
        simulations: int,
        limit: float,
        salt: int,
    ) -> tuple[SearchAnswers, Int64Array, Float64Array]:
        """Add a row about moves, and return the answers, the moves, and their losses, [B] each."""
        answers = self.session.ask(rows, values, simulations, salt)
        moves, losses = self.session.moves(rows, answers)
        loss = mean_of(losses)
        random_loss = mean_of(self.table.random_losses[rows])

        def note(b: int) -> str:
            best_moves = np.flatnonzero(self.table.losses[rows[b]] < TIE).tolist()
            return f"plays {moves[b]}, which loses {losses[b]:.2f}; best: {best_moves}"

        text = f"mean loss {loss:.3f} after {simulations} simulations; random {random_loss:.3f}"
        self.judge(name, text, loss, limit, self.show(rows, losses, note))
        return answers, moves, losses

    def contract_rows(self) -> list[CheckRow]:
        """Return the rows about errors, steps and time, after all calls; output is a remark."""
        session = self.session
        steps = self.table.illegal_steps
        self.facts.num_illegal_steps = len(steps)
        self.facts.impossible_turns = any("again=" in step.note for step in steps)
        rows = []
        broken = {"rules": session.broken, "steps": steps, "time": session.late}
        for name, evidence in broken.items():
            first = f": {evidence[0].note}" if evidence else ""
            text = f"{len(evidence)} broken{first}"
            shown = evidence[:MAX_EVIDENCE]
            rows.append(judge(name, text, len(evidence), 0, shown, rule="none"))
        if session.caller.output:
            self.remark("output", f"it prints: {session.caller.output[:100]}")
        return rows
