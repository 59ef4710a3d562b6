"""Tables of positions, and the softmax policy that plays by one (Fujita and Watanabe;
docs/baselines/table.md).

A table holds an evaluation function: for every board, by its base-3 key, the expected result for
player_0, from -1 to 1, if both players continue in some way: at random, which is the paper's
function, optimally, or as estimated by a policy with values. Unreachable boards and movers hold 0.
With skips the board does not determine the mover, and a table has two sides, one for each player to
move.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal, get_args
from weakref import WeakValueDictionary

import numpy as np

from baselines.exact import MAX_SOLVER_CELLS
from baselines.exact.count import WON, reachable_boards
from ttt_envs.agents.policy import ALL_VARIANTS, Policy
from ttt_envs.agents.softmax_table import softmax
from ttt_envs.agents.specs import Named, make_policy, make_values
from ttt_envs.core.array_cache import MIN_CACHED_BYTES, load_or_compute
from ttt_envs.core.checks import Refusal, check_choice, check_range
from ttt_envs.core.jit import Float64Array, Int8Array, Int64Array, UInt8Array
from ttt_envs.core.records import chunks
from ttt_envs.core.work import QUERY_SIZE
from ttt_envs.game.boards import Boards, from_keys, keys
from ttt_envs.game.game import Game
from ttt_envs.game.rules import values_over_skip
from ttt_envs.game.symmetry import inverse, symmetries
from ttt_envs.graph.numbering import Numbering

Terminal = Literal["equation", "as_published"]
"""value of won boards: the result, 1 or -1, as in Eq. (1) of the paper; or 0, as in its published
program
"""

FORMAT = 2
"""version of the storage format, and of the values"""
MAX_CELLS_OF_MOVES = 12
"""Maximum number of cells for a table with a value for every move of every board."""
MAX_STEADY_WEIGHT = 1e4
"""Maximum weight for which rounding of values changes no probability by more than 1e-9."""


# --------------------------------------------------------------------------------------------------
# Making tables

_tables_in_use: WeakValueDictionary[tuple[Game, str, str], Float64Array] = WeakValueDictionary()
"""tables in use, by game, source and terminal"""
_small_tables: deque[Float64Array] = deque(maxlen=8)
"""the last small tables, which stay in use: policies of a game are made again and again"""


def random_play_values(game: Game, terminal: Terminal = "equation") -> Float64Array:
    """Return the paper's evaluation function: the expected result for player_0 if both players move
    at random.

    It is the mean over all moves, backed up from results of +1, -1 and 0 (Eqs. 1 and 2); chance
    weighs the next mover. This is the value of *random* play, which the paper calls perfect because
    every position is counted.

    Args:
        game: up to 16 cells.
        terminal: ``"equation"``, won boards hold their result; ``"as_published"``, they hold 0, and
            a winning move looks like a draw to a reader of the table. The other values are the
            same.

    Returns:
        float64[3**cells] by the key of the board; with skips float64[2, 3**cells], with the mover
        as first index. Read-only. Finished boards hold the result on both sides, unreachable
        positions 0.

    Raises:
        ValueError: the board is larger, or ``terminal`` is unknown.
    """
    return source_values(game, "random", terminal)


def learned_values(game: Game, policy: str | Policy) -> Float64Array:
    """Return a policy's values of every move: (board x action), for player_0.

    Args:
        game: up to 12 cells.
        policy: a spec string such as ``run:PATH``, or a policy with ``action_values``.

    Returns:
        float64[3**cells, cells], with skips float64[2, 3**cells, cells]. Read-only. Illegal moves
        and unreachable positions hold 0.

    Raises:
        ValueError: the board is larger, or the policy has no values.
    """
    check_size(game, moves=True)
    policy_values = make_values("source", policy, game)
    statuses = reachable_boards(game)
    num_sides = 2 if game.skip_chance > 0 else 1
    out = np.zeros((num_sides, len(statuses), game.cells))
    for mover in (0, 1):
        board_keys = np.flatnonzero(statuses & (1 << mover)).astype(np.uint64)
        for chunk in chunks(board_keys, QUERY_SIZE):
            boards = Boards(from_keys(chunk, game), np.full(len(chunk), mover, np.int8))
            values = np.nan_to_num(policy_values.action_values(boards))
            out[mover % num_sides, chunk] = (1 - 2 * mover) * values
    out.flags.writeable = False
    return out if num_sides == 2 else out[0]


def source_values(game: Game, source: str, terminal: Terminal = "equation") -> Float64Array:
    """Return the table of a source: ``"random"``, ``"optimal"``, or the spec string of a policy
    with values.

    Returns:
        As for :func:`random_play_values`; for a policy as for :func:`learned_values`.
    """
    check_source(game, source, terminal)
    if is_policy(source):
        return learned_values(game, source)
    key = game, source, terminal
    table = _tables_in_use.get(key)
    if table is None:
        content = {"format": FORMAT, "game": game.to_dict(), "source": source, "terminal": terminal}
        name = f"{source}-play-{game.slug}"
        table = load_or_compute(name, content, lambda: _fill(game, source, terminal))
        _tables_in_use[key] = table
        if table.nbytes < MIN_CACHED_BYTES:
            _small_tables.append(table)
    return table


def is_policy(source: str) -> bool:
    """Return whether a source is the spec string of a policy, so that its table is one of moves."""
    return source not in ("random", "optimal")


def check_source(game: Game, source: str, terminal: Terminal) -> None:
    """Raise ValueError if :func:`source_values` rejects this source, by checks that are fast."""
    check_size(game, moves=is_policy(source))
    check_choice("terminal", terminal, get_args(Terminal))
    if is_policy(source) and terminal != "equation":
        raise Refusal(
            f"terminal={terminal} sets won boards, and source={source} has a table of moves: leave "
            "it out"
        )


def check_size(game: Game, *, moves: bool = False) -> None:
    """Raise ValueError for a board too large for a table, of positions or of moves."""
    limit = MAX_CELLS_OF_MOVES if moves else MAX_SOLVER_CELLS
    if game.cells > limit:
        kind = "table of moves" if moves else "table"
        raise Refusal(
            f"{game.rows} x {game.columns} is too large for a {kind}: choose up to {limit} cells"
        )


def _fill(game: Game, source: str, terminal: Terminal) -> Float64Array:
    """Return the table: values of positions, layer by layer from the full board on, for all
    symmetric boards.
    """
    numbering = Numbering(game)
    statuses = reachable_boards(game)
    out = np.zeros((2 if game.skip_chance > 0 else 1, 3**game.cells))
    if terminal == "equation":
        out[:, statuses == WON] = 1.0
        out[:, statuses == WON << 1] = -1.0
    average = source == "random"
    next_values = None
    for stones in range(game.cells, -1, -1):
        values = np.empty(numbering.size(stones))
        if next_values is not None:
            numbering.compute(stones, next_values, values, average=average, of_positions=True)
            _write_positions(game, *numbering.positions(stones), values, statuses, out)
        numbering.compute(stones, next_values, values, average=average)
        values.flags.writeable = False
        next_values = values
    return out if len(out) == 2 else out[0]


def _write_positions(
    game: Game,
    other: Int64Array,
    own: Int64Array,
    values: Float64Array,
    statuses: UInt8Array,
    out: Float64Array,
) -> None:
    """Write the values of positions, for the mover with the stones ``own``, for all symmetric and
    reachable ones.
    """
    cells = np.arange(game.cells)
    powers = 3**cells
    own_stones = own[:, None] >> cells & 1
    other_stones = other[:, None] >> cells & 1
    for symmetry in inverse(symmetries(game)):
        own_keys = own_stones @ powers[symmetry]
        other_keys = other_stones @ powers[symmetry]
        for mover in (0, 1):
            board_keys = (1 + mover) * own_keys + (2 - mover) * other_keys
            is_reached = statuses[board_keys] >> mover & 1 == 1
            out[mover % len(out), board_keys[is_reached]] = (1 - 2 * mover) * values[is_reached]


# --------------------------------------------------------------------------------------------------
# Table lookup


class Evaluation(ABC):
    """An evaluation function over the positions of a game, in any storage.

    Attributes:
        game: the game.
        of_moves: whether it has a value for every move of a board; else one for the board.
        num_sides: 2 with skips, where the board does not determine the mover; else 1.
    """

    game: Game
    of_moves: bool
    num_sides: int

    @abstractmethod
    def read(
        self, cells: Int8Array, actions: Int64Array | None = None, side: int = 0
    ) -> Float64Array:
        """Return single entries of a side, float64[B], for player_0.

        They are those of boards int8[B, cells], with actions int64[B] if ``of_moves``. For keys,
        get the boards from ``boards.from_keys(keys, game)``.
        """

    def action_values(self, boards: Boards) -> Float64Array:
        """Return the values after the mover's moves, float64[B, cells], for the mover, NaN where a
        cell is taken.

        With skips the value is (1 - p) f(the other moves) + p f(the same moves).
        """
        rows, moves = np.nonzero(boards.legal(self.game))
        cells = boards.cells.take(rows, axis=0)
        mover = boards.mover.take(rows)
        if not self.of_moves:
            cells[np.arange(len(rows)), moves] = mover + 1
        entries = [self.read(cells, moves, side) for side in range(self.num_sides)]
        after_moves = np.where(mover == 0, entries[0], entries[-1])
        if not self.of_moves:
            switch_values = np.where(mover == 1, entries[0], entries[-1])
            after_moves = values_over_skip(after_moves, switch_values, self.game.skip_chance)
        out = np.full(boards.cells.shape, np.nan)
        out[rows, moves] = (1.0 - 2.0 * mover) * after_moves
        return out

    def values(self, boards: Boards) -> Float64Array:
        """Return the values of positions, float64[B], for the mover; for a table of moves that of
        the best move.
        """
        if self.of_moves:
            return np.asarray(np.nanmax(self.action_values(boards), axis=1))
        entries = [self.read(boards.cells, side=side) for side in range(self.num_sides)]
        of_mover = np.where(boards.mover == 1, entries[-1], entries[0])
        return np.asarray((1.0 - 2.0 * boards.mover) * of_mover)


class Table(Evaluation):
    """An uncompressed table.

    Args:
        game: the game.
        values: from :func:`source_values`.
    """

    def __init__(self, game: Game, values: Float64Array) -> None:
        self.game = game
        self.of_moves, self.num_sides = table_shape(game, values)
        self.entries = values.reshape(self.num_sides, 3**game.cells, -1)
        """float64[num_sides, 3**cells, 1 or cells], read-only"""
        self.entries.flags.writeable = False

    def read(
        self, cells: Int8Array, actions: Int64Array | None = None, side: int = 0
    ) -> Float64Array:
        """Return single entries of a side, float64[B]."""
        return self.entries[side, keys(cells), actions if self.of_moves else 0]


def table_shape(game: Game, values: Float64Array) -> tuple[bool, int]:
    """Return whether a table is one of moves, and its number of sides.

    Raises:
        ValueError: the array is not a table of this game.
    """
    size = 3**game.cells
    for of_moves, shape in ((False, (size,)), (True, (size, game.cells))):
        if values.shape in (shape, (2, *shape)):
            return of_moves, 1 if values.shape == shape else 2
    raise Refusal(
        f"an array of shape {list(values.shape)} is no table of {game}: it must be [{size}], or "
        f"[{size}, {game.cells}] with a value for every move, and have a first axis of 2, the "
        "movers, where there are skips"
    )


# --------------------------------------------------------------------------------------------------
# Policies that play by tables


class Softmax(Policy):
    """Plays by an evaluation function f: weight exp(w f) for player_0, exp(-w f) for player_1 (the
    paper's Eq. 17).

    f is evaluated after every legal move.

    Args:
        evaluation: the evaluation function.
        w: its weight, at least 0; 0 is random play. The paper uses 10.
    """

    def __init__(self, evaluation: Evaluation, w: float = 10.0) -> None:
        check_weight(w)
        self.evaluation = evaluation
        self.w = w

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Float64Array:
        """Return float64[B, rows * columns]."""
        return softmax(self.w * self.evaluation.action_values(boards))

    def values(self, boards: Boards) -> Float64Array:
        """Return the evaluation of positions, float64[B], for the mover."""
        return self.evaluation.values(boards)

    def action_values(self, boards: Boards) -> Float64Array:
        """Return the evaluation after each move, float64[B, rows * columns], for the mover, NaN
        where illegal.
        """
        return self.evaluation.action_values(boards)

    def __str__(self) -> str:
        return f"softmax of {self.evaluation} at w={self.w:g}"


def check_weight(w: float) -> None:
    """Raise ValueError for an invalid weight of :class:`Softmax`."""
    check_range(
        "w", w, 0, problem="is no weight of an evaluation function", hint=", 0 for random play"
    )


class EvaluationPolicy(Named, Softmax):
    """Base of softmax policies by a spec: dataclasses of (game, ..., w, terminal, source) that make
    their evaluation.

    Copies have no evaluation, so that each process loads its own.
    """

    plays_hidden = True
    variants = ALL_VARIANTS
    max_cells = MAX_SOLVER_CELLS

    game: Game
    terminal: Terminal
    source: str

    def __post_init__(self) -> None:
        check_source(self.game, self.source, self.terminal)
        check_weight(self.w)

    def __getstate__(self) -> dict[str, object]:
        """Return the settings."""
        fields = dataclasses.fields(self)  # type: ignore[arg-type]  # subclasses are dataclasses
        return {field.name: getattr(self, field.name) for field in fields}


@dataclass(frozen=True)
class TablePolicy(EvaluationPolicy):
    """Softmax of a table: of random play (the paper's), of perfect play, or of a run's learned
    values.

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

    @property
    def symmetric(self) -> bool:  # type: ignore[override]  # computed
        """Whether the policy is equivariant: the values are, and the weight is too small to reveal
        rounding.
        """
        return self._is_steady and (self._source is None or self._source.symmetric)

    @property
    def colour_blind(self) -> bool:  # type: ignore[override]  # computed
        """Whether the policy is colour-blind, by the same conditions."""
        return self._is_steady and (self._source is None or self._source.colour_blind)

    @property
    def _is_steady(self) -> bool:
        """Whether rounding of values changes no probability visibly."""
        return self.w <= MAX_STEADY_WEIGHT

    @cached_property
    def _source(self) -> Policy | None:
        """The policy that is the source; None for a table of all boards."""
        return make_policy(self.source, self.game) if is_policy(self.source) else None

    @cached_property
    def evaluation(self) -> Evaluation:  # type: ignore[override]  # made when it is first used
        """The table."""
        return Table(self.game, source_values(self.game, self.source, self.terminal))
