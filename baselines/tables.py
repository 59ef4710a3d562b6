"""Tables of positions, and the softmax policy that plays by one (Fujita and Watanabe; docs/baselines/table.md).

A table holds an evaluation function: for every board, by its base-3 key, the expected result for player_0, from -1 to
1, if both players continue in some way: at random, which is the paper's function, optimally, or as estimated by a
policy with values. Unreachable boards and movers hold 0. With skips the board does not determine the mover, and a table
has two halves, one for each player to move.
"""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, get_args
from weakref import WeakValueDictionary

import numpy as np

from baselines.exact import MAX_SOLVER_CELLS
from baselines.exact.count import WON, reachable_boards
from ttt_envs.agents.policy import Policy, Values, is_colour_blind, is_symmetric
from ttt_envs.agents.specs import Named, make_policy
from ttt_envs.core.array_cache import CachedArray, load_or_compute
from ttt_envs.core.checks import check_choice
from ttt_envs.core.jit import (
    BoolArray,
    Float64Array,
    Int8Array,
    Int64Array,
    UInt8Array,
    compiled,
    compiled_at_once,
    inlined,
    int64,
)
from ttt_envs.game.boards import Boards, from_keys
from ttt_envs.game.game import Game
from ttt_envs.game.symmetry import inverse, symmetries
from ttt_envs.graph.numbering import Numbering

Terminal = Literal["equation", "as_published"]
"""value of won boards: the result, 1 or -1, as in Eq. (1) of the paper; or 0, as in its published program"""

FORMAT = 2
"""version of the storage format, and of the values"""
MAX_CELLS_OF_MOVES = 12
"""Maximum number of cells for a table with a value for every move of every board."""
MAX_STEADY_WEIGHT = 1e4
"""Maximum weight for which rounding of values changes no probability by more than 1e-9."""
CHUNK = 1 << 14
"""Number of positions per call of a policy."""


# ---------------------------------------------------------------------------------------------------------------------
# Making tables


def random_play_values(game: Game, terminal: Terminal = "equation") -> Float64Array:
    """Return the paper's evaluation function: the expected result for player_0 if both players move at random.

    It is the mean over all moves, backed up from results of +1, -1 and 0 (Eqs. 1 and 2); chance weighs the next mover.
    This is the value of *random* play, which the paper calls perfect because every position is counted.

    Args:
        game: up to 16 cells.
        terminal: ``"equation"``, won boards hold their result; ``"as_published"``, they hold 0, and a winning move
            looks like a draw to a reader of the table. The other values are the same.

    Returns:
        float64[3**cells] by the key of the board; with skips float64[2, 3**cells], with the mover as first index.
        Read-only. Finished boards hold the result in both halves, unreachable positions 0.

    Raises:
        ValueError: the board is larger, or ``terminal`` is unknown.
    """
    return _table(game, "random", terminal)


def learned_values(game: Game, policy: str | Policy) -> Float64Array:
    """Return a policy's values of every move: (board x action), for player_0.

    Args:
        game: up to 12 cells.
        policy: a spec string such as ``run:PATH``, or a policy with ``action_values``.

    Returns:
        float64[3**cells, cells], with skips float64[2, 3**cells, cells]. Read-only. Illegal moves and unreachable
        positions hold 0.

    Raises:
        ValueError: the board is larger, or the policy has no values.
    """
    check_size(game, moves=True)
    source = make_policy(policy, game)
    if not isinstance(source, Values):
        raise ValueError(f"{source} has no values: choose a learner with a table or a net, as in run:PATH")
    kinds = reachable_boards(game)
    halves = 2 if game.skip_chance > 0 else 1
    out = np.zeros((halves, len(kinds), game.cells))
    for mover in (0, 1):
        found = np.flatnonzero(kinds & (1 << mover)).astype(np.uint64)
        for start in range(0, len(found), CHUNK):
            some = found[start : start + CHUNK]
            boards = Boards(from_keys(some, game), np.full(len(some), mover, np.int8))
            out[mover % halves, some] = (1 - 2 * mover) * np.nan_to_num(source.action_values(boards))
    out.flags.writeable = False
    return out if halves == 2 else out[0]


def source_values(game: Game, source: str, terminal: Terminal = "equation") -> Float64Array:
    """Return the table of a source: ``"random"``, ``"optimal"``, or the spec string of a policy with values.

    Returns:
        As for :func:`random_play_values`; for a policy as for :func:`learned_values`.
    """
    if not is_policy(source):
        return _table(game, source, terminal)
    return learned_values(game, source)


def is_policy(source: str) -> bool:
    """Return whether a source is the spec string of a policy, so that its table is one of moves."""
    return source not in ("random", "optimal")


def check_source(game: Game, source: str, terminal: Terminal) -> None:
    """Raise ValueError if :func:`source_values` rejects this source, by checks that are fast."""
    check_size(game, moves=is_policy(source))
    check_choice("terminal", terminal, get_args(Terminal))
    if is_policy(source) and terminal != "equation":
        raise ValueError(
            f"terminal={terminal} sets the entries of won boards, and the table of source={source} holds moves: "
            f"leave it out"
        )


def check_size(game: Game, *, moves: bool = False) -> None:
    """Raise ValueError for a board too large for a table, of positions or of moves."""
    largest = MAX_CELLS_OF_MOVES if moves else MAX_SOLVER_CELLS
    if game.cells > largest:
        needed = 8 * 3**game.cells * (game.cells if moves else 1) * (2 if game.skip_chance > 0 else 1)
        size = f"{needed:,}" if needed < 10**15 else f"{needed:.1e}"
        what = "of moves " if moves else ""
        raise ValueError(
            f"a board of {game.rows} x {game.columns} is too large for a table {what}of {size} bytes: "
            f"boards up to {largest} cells have one"
        )


_alive: WeakValueDictionary[tuple[Game, str, str], Float64Array] = WeakValueDictionary()


def _table(game: Game, source: str, terminal: Terminal) -> Float64Array:
    """Return a table from memory, from the disk cache, or computed."""
    check_source(game, source, terminal)
    found = _alive.get((game, source, terminal))
    if found is not None:
        return found
    shape = (2, 3**game.cells) if game.skip_chance > 0 else (3**game.cells,)
    content = {"format": FORMAT, "game": game.to_dict(), "source": source, "terminal": terminal}
    name = f"{source}-play-{game.rows}x{game.columns}-{game.win_length}-skip{game.skip_chance:g}"
    table = load_or_compute(CachedArray(name, content), shape, lambda: _fill(game, source, terminal))
    _alive[game, source, terminal] = table
    return table


def _fill(game: Game, source: str, terminal: Terminal) -> Float64Array:
    """Return the table: values of positions, layer by layer from the full board on, for all symmetric boards."""
    numbering, kinds = Numbering(game), reachable_boards(game)
    out = np.zeros((2 if game.skip_chance > 0 else 1, 3**game.cells))
    if terminal == "equation":
        out[:, kinds == WON], out[:, kinds == WON << 1] = 1.0, -1.0
    average, above = source == "random", None
    for stones in range(game.cells, -1, -1):
        values = np.empty(numbering.size(stones))
        if above is not None:
            numbering.compute(stones, above, values, average=average, of_positions=True)
            _write_positions(game, *numbering.positions(stones), values, kinds, out)
        numbering.compute(stones, above, values, average=average)
        values.flags.writeable = False
        above = values
    return out if len(out) == 2 else out[0]


def _write_positions(
    game: Game, other: Int64Array, own: Int64Array, values: Float64Array, kinds: UInt8Array, out: Float64Array
) -> None:
    """Write the values of positions, for the mover with the stones ``own``, for all symmetric and reachable ones."""
    cells, powers = np.arange(game.cells), 3 ** np.arange(game.cells)
    for symmetry in inverse(symmetries(game)):
        own_keys, other_keys = ((stones[:, None] >> cells & 1) @ powers[symmetry] for stones in (own, other))
        for mover in (0, 1):
            keys = (1 + mover) * own_keys + (2 - mover) * other_keys
            reached = kinds[keys] >> mover & 1 == 1
            out[mover % len(out), keys[reached]] = (1 - 2 * mover) * values[reached]


# ---------------------------------------------------------------------------------------------------------------------
# Table lookup


class Evaluation(ABC):
    """An evaluation function over the positions of a game, for player_0, in any storage.

    Attributes:
        game: the game.
        of_moves: whether it has a value for every move of a board; else one for the board.
        halves: 2 with skips, where the board does not determine the mover; else 1.
    """

    game: Game
    of_moves: bool
    halves: int

    @abstractmethod
    def read(self, cells: Int8Array, actions: Int64Array | None = None, half: int = 0) -> Float64Array:
        """Return single entries of a half, float64[B]: of boards int8[B, cells], with actions int64[B] if ``of_moves``.

        For keys, get the boards from ``boards.from_keys(keys, game)``.
        """

    @abstractmethod
    def _children(self, half: int, cells: Int8Array, mover: Int8Array, legal: BoolArray) -> Float64Array:
        """Return the values in half ``half`` after every move, float64[B, cells], NaN where a cell is taken."""

    def after_moves(self, boards: Boards) -> Float64Array:
        """Return the values after the mover's moves, float64[B, cells], for player_0, NaN where a cell is taken.

        With skips the value is (1 - p) f(the other moves) + p f(the same moves).
        """
        cells, legal = np.ascontiguousarray(boards.cells), boards.legal(self.game)
        if self.halves == 1:
            return self._children(0, cells, boards.mover, legal)
        of_first, of_second = (self._children(half, cells, boards.mover, legal) for half in (0, 1))
        _mix(boards.mover, 1.0 if self.of_moves else self.game.skip_chance, of_first, of_second)
        return of_first

    def values(self, boards: Boards) -> Float64Array:
        """Return the values of positions, float64[B], for player_0; for a table of moves that of the best move."""
        sign = 1.0 - 2.0 * boards.mover
        if self.of_moves:
            return np.asarray(sign * np.nanmax(sign[:, None] * self.after_moves(boards), axis=1))
        of_halves = [self.read(boards.cells, half=half) for half in range(self.halves)]
        return np.where(boards.mover == 1, of_halves[-1], of_halves[0])


@compiled
def _mix(mover: Int8Array, share: float, of_first: Float64Array, of_second: Float64Array) -> None:
    """Mix halves float64[B, cells] into ``of_first``: the mover's with weight ``share``, the other with the rest."""
    for b in range(len(mover)):
        first = share if mover[b] == 0 else 1.0 - share
        for cell in range(of_first.shape[1]):
            of_first[b, cell] = first * of_first[b, cell] + (1.0 - first) * of_second[b, cell]


class Table(Evaluation):
    """An uncompressed table.

    Args:
        game: the game.
        values: from :func:`source_values`.
    """

    def __init__(self, game: Game, values: Float64Array) -> None:
        self.game = game
        self.of_moves, self.halves = table_shape(game, values)
        self.entries = values.reshape(self.halves, 3**game.cells, -1)
        """float64[halves, 3**cells, 1 or cells]"""

    def read(self, cells: Int8Array, actions: Int64Array | None = None, half: int = 0) -> Float64Array:
        """Return single entries of a half, float64[B]."""
        out = np.empty(len(cells))
        _read(np.ascontiguousarray(cells), actions_or_zeros(cells, actions), self.entries[half], out)
        return out

    def _children(self, half: int, cells: Int8Array, mover: Int8Array, legal: BoolArray) -> Float64Array:
        out = np.empty(cells.shape)
        _table_children(cells, mover, legal, self.of_moves, self.entries[half], out)
        return out


def table_shape(game: Game, values: Float64Array) -> tuple[bool, int]:
    """Return whether a table is one of moves, and its number of halves.

    Raises:
        ValueError: the array is not a table of this game.
    """
    size = 3**game.cells
    for of_moves, shape in ((False, (size,)), (True, (size, game.cells))):
        if values.shape in (shape, (2, *shape)):
            return of_moves, 1 if values.shape == shape else 2
    raise ValueError(
        f"an array of shape {list(values.shape)} is no table of {game}: it must be [{size}], or [{size}, {game.cells}] "
        f"with a value for every move, and have a first axis of 2, the movers, where there are skips"
    )


def actions_or_zeros(cells: Int8Array, actions: Int64Array | None) -> Int64Array:
    """Return the actions, or zeros if there are none."""
    return np.zeros(len(cells), np.int64) if actions is None else np.ascontiguousarray(actions, np.int64)


@inlined
def table_key(cells: Int8Array) -> int:
    """Return the base-3 key of a board of up to 16 cells."""
    key = int64(0)
    for cell in range(len(cells) - 1, -1, -1):
        key = key * 3 + int64(cells[cell])
    return key


@compiled
def _read(cells: Int8Array, actions: Int64Array, entries: Float64Array, out: Float64Array) -> None:
    for b in range(len(cells)):
        out[b] = entries[table_key(cells[b]), actions[b]]


@compiled
def _table_children(
    cells: Int8Array, mover: Int8Array, legal: BoolArray, of_moves: bool, entries: Float64Array, out: Float64Array
) -> None:
    for b in range(len(cells)):
        key = table_key(cells[b])
        step = int64(mover[b]) + 1
        for cell in range(cells.shape[1]):
            if not legal[b, cell]:
                out[b, cell] = np.nan
            else:
                out[b, cell] = entries[key, cell] if of_moves else entries[key + step, 0]
            step *= 3


# ---------------------------------------------------------------------------------------------------------------------
# Policies that play by tables


class Softmax:
    """Plays by an evaluation function f: weight exp(w f) for player_0, exp(-w f) for player_1 (the paper's Eq. 17).

    f is evaluated after every legal move.

    Args:
        evaluation: the evaluation function.
        w: its weight, at least 0; 0 is random play. The paper uses 10.
    """

    pure: ClassVar[bool] = True

    def __init__(self, evaluation: Evaluation, w: float = 10.0) -> None:
        check_weight(w)
        self.evaluation = evaluation
        self.w = w

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Float64Array:
        """Return float64[B, rows * columns]."""
        after = self.evaluation.after_moves(boards)
        _softmax(boards.mover, self.w, after)
        return after

    def values(self, boards: Boards) -> Float64Array:
        """Return the evaluation of positions, float64[B], for the mover."""
        return np.asarray((1.0 - 2.0 * boards.mover) * self.evaluation.values(boards))

    def action_values(self, boards: Boards) -> Float64Array:
        """Return the evaluation after each move, float64[B, rows * columns], for the mover, NaN where illegal."""
        return np.asarray((1.0 - 2.0 * boards.mover)[:, None] * self.evaluation.after_moves(boards))

    def __str__(self) -> str:
        return f"softmax of {self.evaluation} at w={self.w:g}"


def check_weight(w: float) -> None:
    """Raise ValueError for an invalid weight of :class:`Softmax`."""
    if not (math.isfinite(w) and w >= 0):
        raise ValueError(
            f"w={w} is no weight of an evaluation function: choose 0 (random play) or more; the paper's is 10"
        )


@compiled_at_once
def _softmax(mover: Int8Array, w: float, values: Float64Array) -> None:
    """Convert values for player_0, float64[B, cells] with NaN for taken cells, to probabilities, in place."""
    for b in range(len(values)):
        weight = w if mover[b] == 0 else -w
        best = -np.inf
        for cell in range(values.shape[1]):
            if not np.isnan(values[b, cell]):
                best = max(best, weight * values[b, cell])
        total = 0.0
        for cell in range(values.shape[1]):
            share = 0.0 if np.isnan(values[b, cell]) else math.exp(weight * values[b, cell] - best)
            values[b, cell] = share
            total += share
        for cell in range(values.shape[1]):
            values[b, cell] /= total


class NamedSoftmax(Softmax, Named):
    """Base of named softmax policies: dataclasses of (game, ..., w, terminal, source) that build their evaluation."""

    game: Game
    w: float

    @cached_property
    def evaluation(self) -> Evaluation:  # type: ignore[override]  # created on first access
        """The evaluation function."""
        return self._make_evaluation()

    def _make_evaluation(self) -> Evaluation:
        raise NotImplementedError

    __str__ = Named.__str__

    def __reduce__(self) -> tuple[Any, ...]:  # without the evaluation, which each process loads itself
        return type(self), tuple(getattr(self, field.name) for field in dataclasses.fields(self))  # type: ignore[arg-type]


@dataclass(frozen=True)
class TablePolicy(NamedSoftmax):
    """Softmax of a table: of random play (the paper's), of perfect play, or of a run's learned values.

    Raises:
        ValueError: the board is too large for a table, or the weight or terminal is invalid.
    """

    name: ClassVar[str] = "table"

    game: Game
    w: float = 10.0
    """weight of the table: exp(w f) after each move"""
    terminal: Terminal = "equation"
    """value of won boards: their result, or 0 as in the paper's program"""
    source: str = "random"
    """random, optimal, or the spec string of a policy with values, as in (run:PATH)"""

    def __post_init__(self) -> None:
        check_source(self.game, self.source, self.terminal)
        check_weight(self.w)

    @property
    def symmetric(self) -> bool:
        """Whether the policy is equivariant: the values are, and the weight is too small to reveal rounding."""
        return self.w <= MAX_STEADY_WEIGHT and (not is_policy(self.source) or is_symmetric(self._source_policy))

    @property
    def colour_blind(self) -> bool:
        """Whether the policy is colour-blind, by the same conditions."""
        return self.w <= MAX_STEADY_WEIGHT and (not is_policy(self.source) or is_colour_blind(self._source_policy))

    @cached_property
    def _source_policy(self) -> Policy:
        return make_policy(self.source, self.game)

    def _make_evaluation(self) -> Evaluation:
        return Table(self.game, source_values(self.game, self.source, self.terminal))
