"""Hash tables of values over visited positions, which grow on demand, and the base class of tabular learners."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from learners.base import Arrays, Bootstrap, Learner, get_array, num_rows
from learners.limits import Range
from ttt_envs.core.hash_index import KeyIndex
from ttt_envs.core.jit import Float64Array, Int8Array, Int64Array, UInt64Array, inlined, int64, kernel
from ttt_envs.game.boards import Boards, from_keys, keys, num_words
from ttt_envs.game.parameters import Parameters
from ttt_envs.game.phantom import AnyGame, visible
from ttt_envs.game.rules import is_legal
from ttt_envs.game.symmetry import Symmetries, inverse, symmetries


class PositionTable:
    """Values and visit counts of every position met: one per action, or in an afterstate table one per position.

    Args:
        game: the game.
        memory: maximum size of the table in bytes; beyond it :meth:`rows` raises MemoryError.
        afterstates: rows are positions after a move, from the view of the player who made it, with one value each.
        initial: the value of entries never updated.

    Attributes:
        values: float64[capacity + 1, width], where width is 1 for afterstates and otherwise the number of cells. The
            last row keeps the initial value, so that row -1, of a position not met, has it.
        counts: int64[capacity + 1, width].
        size: number of rows in use.
    """

    def __init__(self, game: AnyGame, memory: int, *, afterstates: bool = False, initial: float = 0.0) -> None:
        self.game = game
        self.memory = memory
        self.afterstates = afterstates
        self.initial = initial
        self._index = KeyIndex(num_words(game))
        width = 1 if afterstates else game.cells
        self.values = np.full((1, width), initial)
        self.counts = np.zeros((1, width), np.int64)

    @property
    def size(self) -> int:
        """Number of rows in use."""
        return self._index.size

    def find(self, cells: Int8Array) -> Int64Array:
        """Return the rows int64[B] of boards int8[B, cells], -1 where a board is not in the table."""
        return self._index.find(self._keys(cells))

    def rows(self, cells: Int8Array) -> Int64Array:
        """Return the rows int64[B] of boards int8[B, cells], adding those not in the table.

        Raises:
            MemoryError: the table would grow beyond its limit.
        """
        wanted = self._keys(cells)
        self._grow(len(wanted))
        return self._index.rows(wanted)

    def cells(self, rows: Int64Array) -> Int8Array:
        """Return the boards int8[B, cells] of rows int64[B]."""
        return from_keys(self._index.keys[rows], self.game)

    def move_rows(self, seen: Int8Array) -> Int64Array:
        """Return the rows that hold the values of the moves on boards int8[B, cells], the mover's stones first.

        Returns:
            int64[B, 1], the row of the board; for afterstates int64[B, cells], the row after each move, meaningless
            where it is illegal. -1 is a row not met.
        """
        if not self.afterstates:
            return self.find(seen).reshape(-1, 1)
        count, size = seen.shape
        after = np.repeat(seen, size, axis=0).reshape(count, size, size)
        after[:, np.arange(size), np.arange(size)] = 1
        return self.find(after.reshape(-1, size)).reshape(count, size)

    @property
    def entries(self) -> Entries:
        """The arrays, for kernels."""
        return self.values, self.counts

    def _keys(self, cells: Int8Array) -> UInt64Array:
        return keys(cells).reshape(len(cells), -1)

    def _grow(self, more: int) -> None:
        needed = self.size + more
        capacity = len(self.values) - 1
        if needed <= capacity:
            return
        capacity = max(1024, 2 * capacity)
        while capacity < needed:
            capacity *= 2
        row_bytes = 8 * (num_words(self.game) + 2 * self.values.shape[1] + 2)
        if capacity * row_bytes > self.memory:
            capacity = self.memory // row_bytes
        if capacity < needed:
            raise MemoryError(
                f"the table holds {self.size:,} positions of {self.game} and may take {self.memory / 2**20:,.0f} MiB: "
                f"give more with memory=, or learn with a net"
            )
        self._index.reserve(capacity)
        self._reserve(capacity, self.values, self.counts)

    def _reserve(self, capacity: int, values: Float64Array, counts: Int64Array) -> None:
        """Allocate ``capacity`` rows and copy the given ones to the front."""
        width = self.values.shape[1]
        size = self.size
        self.values = np.full((capacity + 1, width), self.initial)
        self.counts = np.zeros((capacity + 1, width), np.int64)
        self.values[:size] = values[:size]
        self.counts[:size] = counts[:size]

    def to_arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return the rows in use, in order of first visit, and the board's shape."""
        return {
            "board": np.array([self.game.rows, self.game.columns]),
            "keys": self._index.keys[: self.size].copy(),
            "values": self.values[: self.size].copy(),
            "counts": self.counts[: self.size].copy(),
        }

    def from_arrays(self, arrays: Arrays) -> None:
        """Restore the state from the arrays of :meth:`to_arrays`.

        Raises:
            ValueError: arrays of another game or type, or with numbers that no table has.
        """
        owner = f"the table of a learner of {self.game}"
        size = num_rows(arrays, "keys")
        width = self.values.shape[1]
        board = get_array(arrays, "board", (2,), "i8", owner)
        if board.tolist() != [self.game.rows, self.game.columns]:
            raise ValueError(f"{owner} is none of a board of {board[0]} x {board[1]}: these arrays are another game's")
        met = get_array(arrays, "keys", (size, num_words(self.game)), "u8", owner)
        values = get_array(arrays, "values", (size, width), "f8", owner)
        counts = get_array(arrays, "counts", (size, width), "i8", owner)
        index = KeyIndex(num_words(self.game))
        index.reserve(size)
        index.rows(np.ascontiguousarray(met))
        if index.size != size or not np.isfinite(values).all() or (counts < 0).any():
            raise ValueError(
                f"{owner} has each position once, finite values and no negative counts: these arrays are damaged"
            )
        self._index = index
        self._reserve(size, values, counts)


class TabularLearner(Learner):
    """Base class of learners with a table and epsilon-greedy exploration; subclasses define the update.

    One table serves both seats: it sees the mover's stones as its own.

    Args:
        name: of the learner.
        game: the game.
        table: an empty table.
        epsilon: probability of a random move during training.
        epsilon_decay: epsilon is multiplied by 1 - epsilon_decay after each random move.
        which: the symmetries under which every update is repeated.
    """

    colour_blind = quick = True
    bootstrap: Bootstrap = "own-turn"
    wants_next_action = False

    def __init__(
        self, name: str, game: AnyGame, table: PositionTable, epsilon: float, epsilon_decay: float, which: Symmetries
    ) -> None:
        self.name = name
        self.game = game
        self.table = table
        self.epsilon = np.array([epsilon])
        self._epsilon_decay = float(epsilon_decay)
        self._permutations = symmetries(game, which)
        self._inverses = inverse(self._permutations)
        self.symmetric = which == "all"
        """Whether every update is repeated under all symmetries."""

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Float64Array:
        """Return float64[B, cells]: equal shares for the moves of highest value; all moves where the position is
        new.
        """
        seen = boards.own_first()
        out = np.empty(seen.shape)
        _greedy(seen, self.table.values, self.table.move_rows(seen), visible(self.game).parameters, out)
        return out

    def action_values(self, boards: Boards) -> Float64Array:
        """Return action values float64[B, cells] from the mover's view, NaN where illegal; initial if never updated."""
        seen = boards.own_first()
        out = np.empty(seen.shape)
        _action_values(seen, self.table.values, self.table.move_rows(seen), visible(self.game).parameters, out)
        return out

    def values(self, boards: Boards) -> Float64Array:
        """Return values float64[B] from the mover's view."""
        return np.asarray(np.nanmax(self.action_values(boards), axis=1))

    def explore(self, boards: Boards, rng: np.random.Generator) -> Int64Array:
        """Return epsilon-greedy moves int64[B]."""
        seen = boards.own_first()
        out = np.empty(len(seen), np.int64)
        rows, scratch = self.table.move_rows(seen), np.empty(self.game.cells)
        u, parameters = rng.random((len(seen), 2)), visible(self.game).parameters
        _explore(seen, rows, self.table.values, u, self.epsilon, self._epsilon_decay, parameters, scratch, out)
        return out

    def to_arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return the table and epsilon."""
        return {**self.table.to_arrays(), "epsilon": self.epsilon.copy()}

    def from_arrays(self, arrays: Arrays) -> None:
        """See :meth:`~learners.base.Checkpointable.from_arrays`."""
        epsilon = get_array(arrays, "epsilon", (1,), "f8", self.name)
        if not 0 <= epsilon[0] <= 1:
            raise ValueError(f"{self.name} needs epsilon in 0 to 1, but there is {epsilon[0]}: it is damaged")
        self.table.from_arrays(arrays)
        self.epsilon = epsilon.copy()

    def _symmetric_rows(self, cells: Int8Array) -> Int64Array:
        """Return the rows int64[B, images] of all symmetries of boards int8[B, cells], the first for the board
        itself.
        """
        count, size = cells.shape
        images = len(self._permutations)
        return self.table.rows(cells[:, self._permutations].reshape(count * images, size)).reshape(count, images)

    def __str__(self) -> str:
        return self.name


MemoryGiB = Annotated[float, Range(0, 2**20, above=True)]
"""Maximum size of a table in GiB."""


def final_rewards(
    rewards: Float64Array, over: Int64Array | np.ndarray[Any, np.dtype[np.bool_]], kind: str
) -> Float64Array:
    """Map final rewards -1, 0 and 1 to 0, 0.5 and 1 where the game is over, if ``kind`` is "report"."""
    return np.where(over, (rewards + 1) / 2, rewards) if kind == "report" else rewards


# ---------------------------------------------------------------------------------------------------------------------
# Kernels. `rows` are those of PositionTable.move_rows, int64[B, 1] beside values[row, cell] or int64[B, cells] beside
# values[row, 0]: the smaller of a cell and the last index is right for both.


@inlined
def at_most(cell: int, last: int) -> int:
    """Return the smaller number: numba's ``min`` takes longer to compile."""
    return last if last < cell else cell


@inlined
def value_at(values: Float64Array, rows: Int64Array, cell: int) -> float:
    """Return the value of an action, from the rows int64[1 or cells] of its board."""
    value: float = values[rows[at_most(cell, len(rows) - 1)], at_most(cell, values.shape[1] - 1)]
    return value


@inlined
def legal_value(seen: Int8Array, values: Float64Array, rows: Int64Array, cell: int, parameters: Parameters) -> float:
    """Return :func:`value_at` for a legal action on a board int8[cells], else -infinity."""
    value = value_at(values, rows, cell)  # load unconditionally: a conditional load becomes a mispredicted branch
    return value if is_legal(seen, cell, parameters) else -np.inf


@inlined
def best_value(seen: Int8Array, values: Float64Array, rows: Int64Array, parameters: Parameters) -> tuple[float, int]:
    """Return the highest value of the legal actions on a board int8[cells], and the number of actions that have it."""
    best = -np.inf
    for cell in range(len(seen)):
        value = legal_value(seen, values, rows, cell, parameters)
        best = value if value > best else best
    ties = 0
    for cell in range(len(seen)):
        ties += legal_value(seen, values, rows, cell, parameters) == best
    return best, ties


StepSizes = tuple[float, float, Float64Array]
"""Initial step size, power, and the first step sizes: the n-th update of an entry moves it by initial / n ** power of
its error. Tuples are plain, which kernels take faster than named ones."""
Entries = tuple[Float64Array, Int64Array]
"""Values and counts of a :class:`PositionTable`."""


def tabulate_step_sizes(initial: float, power: float) -> StepSizes:
    """Tabulate the first step sizes: float64[1024] by n, index 0 is unused."""
    first = np.array([0.0, *(initial * float(n) ** -power for n in range(1, 1024))])
    return float(initial), float(power), first


@inlined
def update_entries(
    target: float, rows: Int64Array, inverses: Int64Array, action: int, steps: StepSizes, entries: Entries
) -> float:
    """Update the entry of an action under each symmetry of a board, at rows int64[images]; return the first error."""
    values, counts = entries
    initial, power, first_steps = steps
    first: float = target - values[rows[0], at_most(inverses[0, action], values.shape[1] - 1)]
    for image in range(len(rows)):
        row = rows[image]
        column = at_most(inverses[image, action], values.shape[1] - 1)
        again = False  # a position that is symmetric to itself must not be updated twice
        for earlier in range(image):
            same = rows[earlier] == row and at_most(inverses[earlier, action], values.shape[1] - 1) == column
            again = again or same
        if not again:
            counts[row, column] += 1
            n = counts[row, column]
            step = first_steps[n] if n < len(first_steps) else initial * float(n) ** -power
            values[row, column] += step * (target - values[row, column])
    return first


@kernel
def _greedy(seen: Int8Array, values: Float64Array, rows: Int64Array, parameters: Parameters, out: Float64Array) -> None:
    """Write equal shares, float64[B, cells], for the legal actions with the highest value."""
    for b in range(len(seen)):
        best, ties = best_value(seen[b], values, rows[b], parameters)
        for cell in range(seen.shape[1]):
            chosen = legal_value(seen[b], values, rows[b], cell, parameters) == best
            out[b, cell] = 1.0 / ties if chosen else 0.0


@kernel
def _action_values(
    seen: Int8Array, values: Float64Array, rows: Int64Array, parameters: Parameters, out: Float64Array
) -> None:
    """Write the values, float64[B, cells], of the legal actions, and NaN elsewhere."""
    for b in range(len(seen)):
        for cell in range(seen.shape[1]):
            out[b, cell] = value_at(values, rows[b], cell) if is_legal(seen[b], cell, parameters) else np.nan


@kernel
def _explore(
    seen: Int8Array,
    rows: Int64Array,
    values: Float64Array,
    u: Float64Array,
    epsilon: Float64Array,
    epsilon_decay: float,
    parameters: Parameters,
    action_values: Float64Array,
    out: Int64Array,
) -> None:
    """Choose epsilon-greedy moves; ``u`` float64[B, 2] decides whether to explore, and the move.

    ``action_values`` float64[cells] is scratch.
    """
    size = seen.shape[1]
    for b in range(len(out)):
        explores = u[b, 0] < epsilon[0]
        epsilon[0] *= 1.0 - epsilon_decay if explores else 1.0
        best = -np.inf
        for cell in range(size):
            value = 0.0 if explores else value_at(values, rows[b], cell)
            value = value if is_legal(seen[b], cell, parameters) else -np.inf
            action_values[cell] = value
            best = value if value > best else best
        ties = 0
        for cell in range(size):
            ties += action_values[cell] == best
        left = int64(u[b, 1] * ties)
        chosen = 0
        for cell in range(size):
            counts = int64(action_values[cell] == best)
            chosen = cell if (counts != 0) & (left == 0) else chosen
            left -= counts
        out[b] = chosen
