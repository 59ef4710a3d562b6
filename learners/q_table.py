"""A table of values by key(board, action): a hash table of flat arrays, read and written by
kernels.

A board as its mover sees it (own stones 1, the opponent's 2) has a number in base 3. A key is that
number and the move, the least over the symmetries that share entries:

    key(board, action) = min over s of  sum over cells of  stone * 64 * 3 ** s(cell)
                                        + move(s(action))

Of an action value the move is s(action) + 1, so that every action of a board has a key of its own;
of an afterstate it is 64 * 3 ** s(action) + 1, the stone that it puts, so that moves to the same
board share a key. Keys are exact: from 37 cells on they have several words of 34 cells each, the
first of which also holds the move, below 512.

The actions of a small board share a slot, which is found once for all of them. On larger boards,
most of which are seen once, a slot with room for every action would take several times the memory:
each action has a slot of its own there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, NamedTuple

import numpy as np
from msgspec import Meta

from learners.base import (
    MAX_COUNT,
    MAX_NUMBER,
    AnyArray,
    Arrays,
    ArraySpec,
    Backup,
    EpsilonGreedyLearner,
    Stored,
)
from learners.config import Fraction, LearnerConfig
from ttt_envs.core.checks import Refusal
from ttt_envs.core.jit import (
    BoolArray,
    Float64Array,
    Int8Array,
    Int64Array,
    UInt64Array,
    inlined,
    int64,
    kernel,
    pasted,
)
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import VARIANTS
from ttt_envs.game.parameters import Parameters
from ttt_envs.game.phantom import HIDING, AnyGame, visible
from ttt_envs.game.rules import is_legal
from ttt_envs.game.symmetry import Symmetries, inverse, symmetries

HASH_FACTOR = np.uint64(0x9E3779B97F4A7C15)
MAX_CELLS_PER_SLOT = 12
"""maximum number of cells of a board whose actions share a slot"""
PROBE_STEP = 13
"""odd, and longer than the actions of a medium board, whose slots lie side by side: two boards soon
part
"""
NUM_RATES = 4096
"""number of learning rates that are tabulated"""


class KeyFormat(NamedTuple):
    """What a word of a key holds."""

    cells: int
    """the number of cells of a word"""
    num_moves: int
    """moves are below this number; the digits of the cells begin there"""


ONE_WORD = KeyFormat(36, 64)
SEVERAL_WORDS = KeyFormat(34, 512)


def key_format(game: AnyGame) -> KeyFormat:
    """Return the format of the keys of a game."""
    return ONE_WORD if game.cells <= ONE_WORD.cells else SEVERAL_WORDS


def key_weights(
    game: AnyGame, kind: Symmetries, afterstates: bool
) -> tuple[UInt64Array, UInt64Array]:
    """Return the weights of stones and of moves, both uint64[symmetries, words, cells].

    Under each symmetry a key is the sum over the cells of stone * weight, and the weight of the
    move: that of a stone on a cell is ``num_moves * 3 ** s(cell)``, in the word of s(cell); that of
    a move is s(action) + 1, or for ``afterstates`` that of the stone that it puts, plus 1.
    """
    format_ = key_format(game)
    images = inverse(symmetries(game, kind))
    powers = np.uint64(3) ** (images % format_.cells).astype(np.uint64)
    num_words = -(-game.cells // format_.cells)
    stones = np.zeros((len(images), num_words, game.cells), np.uint64)
    for word in range(num_words):
        is_in_word = images // format_.cells == word
        stones[:, word] = np.where(is_in_word, np.uint64(format_.num_moves) * powers, np.uint64(0))
    if afterstates:
        moves = stones.copy()
        moves[:, 0] += np.uint64(1)
    else:
        moves = np.zeros_like(stones)
        moves[:, 0] = images + 1
    return stones, moves


class Memory(NamedTuple):
    """The arrays of a table of 2 ** n slots, for kernels; a slot that is free has a key of 0 and
    initial values.
    """

    keys: UInt64Array
    """uint64[slots, words]; ``move_bits`` are set"""
    values: Float64Array
    """float64[slots, columns], where the column is the move of a key if actions share a slot, else
    0
    """
    counts: Int64Array
    """int64[slots, columns], numbers of updates"""
    size: Int64Array
    """int64[2], numbers of slots in use and of entries"""
    move_bits: np.uint64
    """the bits of a key that hold the move, if actions share a slot, else 0"""
    stone_weights: UInt64Array
    """uint64[symmetries, words, cells], see :func:`key_weights`"""
    move_weights: UInt64Array
    """uint64[symmetries, words, cells]"""
    words: tuple[int, ...]
    """one 0 for each word of a key: the number of words is known where kernels are compiled"""
    sums: UInt64Array
    """scratch, uint64[words]: the sums over the stones of a board"""
    action_keys: UInt64Array
    """scratch, uint64[cells, words]: the keys of the actions on a board"""
    scratch_q: Float64Array
    """scratch, float64[cells]: the values of the actions on a board"""


class QTable(Stored):
    """A table that grows.

    Args:
        game: the game.
        which: the symmetries under which boards share their entries.
        afterstates: whether moves to the same board share an entry.
        initial: the value of an entry never updated.
        max_bytes: maximum size; beyond it :meth:`reserve` raises MemoryError.

    Attributes:
        memory: the arrays, for kernels; new ones after :meth:`reserve`.
    """

    def __init__(
        self,
        game: AnyGame,
        kind: Symmetries,
        afterstates: bool,
        initial: float,
        max_bytes: int,
    ) -> None:
        self.game = game
        self.initial = initial
        self.max_bytes = max_bytes
        share_slot = game.cells <= MAX_CELLS_PER_SLOT and not afterstates
        self._columns = 1 + game.cells if share_slot else 1
        stone_weights, move_weights = key_weights(game, kind, afterstates)
        num_words = stone_weights.shape[1]
        no_keys = np.zeros((0, num_words), np.uint64)
        no_values = np.zeros(0)
        no_counts = np.zeros(0, np.int64)
        self.memory = Memory(
            keys=no_keys,
            values=no_values,
            counts=no_counts,
            size=np.zeros(2, np.int64),
            move_bits=np.uint64(key_format(game).num_moves - 1 if share_slot else 0),
            stone_weights=stone_weights,
            move_weights=move_weights,
            words=(0,) * num_words,
            sums=np.zeros(num_words, np.uint64),
            action_keys=np.zeros((game.cells, num_words), np.uint64),
            scratch_q=np.zeros(game.cells),
        )
        self._fill(no_keys, no_values, no_counts, 1)

    @property
    def size(self) -> int:
        """Number of entries."""
        return int(self.memory.size[1])

    def reserve(self, num_new: int) -> None:
        """Make room for this number of new entries, so that at most half of the slots are in use.

        Raises:
            MemoryError: the table would grow beyond its limit.
        """
        min_slots = 2 * (int(self.memory.size[0]) + num_new)
        if min_slots <= len(self.memory.keys):
            return
        slots = 1 << (min_slots - 1).bit_length()
        entries = self._entries()
        slot_bytes = 8 * (len(self.memory.words) + 2 * self._columns)
        if slots * slot_bytes > self.max_bytes:
            size = (
                f"{self.size:,} entries of {self.game} and may take {self.max_bytes / 2**20:,.3g} "
                "MiB"
            )
            raise MemoryError(
                f"the table holds {size}: give more with memory=, or learn with a net"
            )
        if 2 * slots * slot_bytes <= self.max_bytes:
            slots *= 2
        self._fill(*entries, slots)

    def _fill(
        self, keys: UInt64Array, values: Float64Array, counts: Int64Array, slots: int
    ) -> None:
        """Allocate so many slots, and insert entries with different keys."""
        shape = slots, self._columns
        self.memory = self.memory._replace(
            keys=np.zeros((slots, keys.shape[1]), np.uint64),
            values=np.full(shape, self.initial),
            counts=np.zeros(shape, np.int64),
            size=np.array([0, len(keys)]),
        )
        insert_all(keys, values, counts, self.memory)

    def _entries(self) -> tuple[UInt64Array, Float64Array, Int64Array]:
        memory = self.memory
        slots, moves = memory.counts.nonzero()
        keys = memory.keys[slots]
        keys[:, 0] -= memory.move_bits - moves.astype(np.uint64)
        return keys, memory.values[slots, moves], memory.counts[slots, moves]

    def to_arrays(self) -> dict[str, AnyArray]:
        """Return an empty board, and the entries by ascending keys, so that equal tables have equal
        arrays.
        """
        keys, values, counts = self._entries()
        order = np.lexsort(keys.T)
        board = np.zeros((self.game.rows, self.game.columns), np.int8)
        return {
            "board": board,
            "keys": keys[order],
            "values": values[order],
            "counts": counts[order],
        }

    def array_specs(self, arrays: Arrays) -> dict[str, ArraySpec]:
        """See :class:`~learners.base.Stored`."""
        board = np.zeros((self.game.rows, self.game.columns), np.int8)
        memory = self.memory
        return {
            "board": ArraySpec.like(board),
            "keys": ArraySpec.like(memory.keys).within(None, None, "entries"),
            "values": ArraySpec.like(memory.values[:, 0]).within(
                -MAX_NUMBER, MAX_NUMBER, "entries"
            ),
            "counts": ArraySpec.like(memory.counts[:, 0]).within(1, MAX_COUNT, "entries"),
        }

    def from_arrays(self, arrays: Arrays) -> None:
        """Replace all entries, whatever memory they take.

        Raises:
            ValueError: a key without a move, or a move off the board.
        """
        keys = arrays["keys"]
        move_bits = self.memory.move_bits
        self.check_keys(keys)
        in_use = len(np.unique(keys | move_bits)) if move_bits else len(keys)
        self._fill(keys, arrays["values"], arrays["counts"], 1 << (2 * in_use - 1).bit_length())

    def check_keys(self, keys: UInt64Array) -> None:
        """Raise ValueError unless these keys uint64[N, words] have moves on the board: kernels
        index by them.
        """
        moves = keys[:, 0] & self.memory.move_bits
        if not keys[:, 0].all() or moves.max(initial=0) >= self._columns:
            raise Refusal(f"a key is not one of a move in {self.game}")


# --------------------------------------------------------------------------------------------------
# Learners with a table


def learning_rates(step_size: float, power: float) -> Float64Array:
    """Return float64[``NUM_RATES``]: step_size / n ** power for update n of an entry, from 1; a
    power takes long.
    """
    return np.array([0.0, *(step_size * float(n) ** -power for n in range(1, NUM_RATES))])


@dataclass(frozen=True)
class TabularConfig(LearnerConfig):
    """Settings of learners with a table."""

    batch: ClassVar[int] = 2048
    variants: ClassVar[tuple[str, ...]] = (*VARIANTS, HIDING)
    self_play_games: ClassVar[int] = 300_000

    epsilon: Fraction = 0.3
    """probability of a random move during training, 0 to 1; at first, if it decays"""
    epsilon_decay: Fraction = 0.0
    """epsilon is multiplied by 1 - epsilon_decay after each random move, 0 to 1"""
    rewards: Literal["unit", "report"] = "unit"
    """win, draw, loss: unit is 1, 0, -1; report is 1, 0.5, 0. Entries never updated have the value
    of a draw
    """
    symmetries: Symmetries = "none"
    """positions that are equal under the rotations, or all symmetries, of the board share their
    entries
    """
    memory: Annotated[float, Meta(gt=0, le=2**20)] = 2.0
    """maximum size of the table in GiB while it learns"""


class TabularLearner(EpsilonGreedyLearner):
    """Base class of learners with a table; subclasses define the update.

    One table serves both seats, because it sees the mover's stones as its own.

    Args:
        config: the settings.
        game: the game.
        backup: where a transition leads.
        afterstates: whether entries are boards after a move, which several moves may share.
    """

    quick = True
    stored: ClassVar[tuple[str, ...]] = ("table", "epsilon")

    def __init__(
        self,
        config: TabularConfig,
        game: AnyGame,
        backup: Backup = "agent",
        *,
        afterstates: bool = False,
    ) -> None:
        super().__init__(config, game, backup)
        draw = 0.5 if config.rewards == "report" else 0.0
        self.table = QTable(game, config.symmetries, afterstates, draw, int(config.memory * 2**30))
        self._parameters = visible(game).parameters

    def values_to_explore(self, boards: Boards, is_random: BoolArray) -> Float64Array:
        """See the base class; no value is looked up for a random move."""
        q = np.empty(boards.cells.shape)
        write_action_values(boards.own_first(), is_random, self._parameters, self.table.memory, q)
        return q

    def action_values(self, boards: Boards) -> Float64Array:
        """Return action values float64[B, cells] from the mover's view, NaN where illegal; initial
        if never updated.
        """
        return self.values_to_explore(boards, np.zeros(len(boards.mover), np.bool_))


# --------------------------------------------------------------------------------------------------
# Kernels. Boards are int8[cells], own stones first


@inlined
def write_keys(obs: Int8Array, first: int, stop: int, table: Memory) -> None:
    """Write key(board, action) into ``table.action_keys`` for the actions from ``first`` to
    ``stop`` - 1.
    """
    for s in range(len(table.stone_weights)):
        for w in range(len(table.words)):
            total = np.uint64(0)
            for cell in range(len(obs)):
                total += np.uint64(obs[cell]) * table.stone_weights[s, w, cell]
            table.sums[w] = total
        for action in range(np.uint64(first), np.uint64(stop)):
            is_next = (s == 0) | is_smaller(s, action, table)
            for w in range(len(table.words)):
                word = table.sums[w] + table.move_weights[s, w, action]
                table.action_keys[action, w] = word if is_next else table.action_keys[action, w]


@pasted
def is_smaller(s: int, action: int, table: Memory) -> bool:
    """Return whether the key of an action under a symmetry is below ``table.action_keys[action]``.

    The keys are compared as numbers of several words, from the last word, the least significant, to
    the first.
    """
    is_less = False
    for w in range(len(table.words) - 1, -1, -1):
        word = table.sums[w] + table.move_weights[s, w, action]
        smallest_word = table.action_keys[action, w]
        is_less = (word < smallest_word) | (word == smallest_word) & is_less
    return is_less


@pasted
def set_key(obs: Int8Array, action: int, table: Memory) -> None:
    """Write key(board, action) into ``table.action_keys[action]``."""
    write_keys(obs, action, action + 1, table)


@inlined
def find(key: UInt64Array, table: Memory) -> int:
    """Return the slot of a key uint64[words], or the free slot where it belongs."""
    last = len(table.keys) - 1
    digest = (key[0] >> np.uint64(6)) * HASH_FACTOR
    for w in range(1, len(table.words)):
        digest = (digest ^ key[w]) * HASH_FACTOR
    slot = int64((digest >> np.uint64(32)) + (key[0] | table.move_bits) % np.uint64(64)) & last
    while is_stop(key, slot, table) == 0:
        slot = (slot + PROBE_STEP) & last
    return slot


@pasted
def is_stop(key: UInt64Array, slot: int, table: Memory) -> int:
    """Return 0 if a slot has another key than ``key`` uint64[words], else 1.

    Bit 63 of (x - 1) & ~x is 1 only if x is 0. A compiler makes two branches of a comparison with
    "or", and processors cannot predict whether an entry is there.
    """
    used = table.keys[slot, 0]
    difference = (key[0] | table.move_bits) ^ table.keys[slot, 0]
    for w in range(1, len(table.words)):
        difference |= key[w] ^ table.keys[slot, w]
    bit = np.uint64(1)
    return int64(((difference - bit) & ~difference | (used - bit) & ~used) >> np.uint64(63))


@inlined
def insert(key: UInt64Array, table: Memory) -> int:
    """Return the slot of a key uint64[words], which takes a free one if there is none."""
    slot = find(key, table)
    if table.keys[slot, 0] == 0:
        table.size[0] += 1
        for w in range(len(table.words)):
            table.keys[slot, w] = key[w]
        table.keys[slot, 0] |= table.move_bits
    return slot


@kernel(interpreted=False)
def insert_all(keys: UInt64Array, values: Float64Array, counts: Int64Array, table: Memory) -> None:
    """Insert entries with different keys uint64[N, words]."""
    for i in range(len(keys)):
        slot = insert(keys[i], table)
        move = keys[i, 0] & table.move_bits
        table.values[slot, move] = values[i]
        table.counts[slot, move] = counts[i]


@pasted
def value_of(obs: Int8Array, action: int, table: Memory) -> float:
    """Return the value of an action on a board."""
    set_key(obs, action, table)
    slot = find(table.action_keys[action], table)
    move = table.action_keys[action, 0] & table.move_bits
    value: float = table.values[slot, move]
    return value


@pasted
def count_update(key: UInt64Array, table: Memory) -> tuple[int, np.uint64]:
    """Count an update of a key uint64[words]; return the slot and the move of its entry, which is
    new if there is none.
    """
    slot = insert(key, table)
    move = key[0] & table.move_bits
    is_new_entry = table.counts[slot, move] == 0
    table.size[1] += is_new_entry
    table.counts[slot, move] += 1
    return slot, move


@pasted
def learn(
    key: UInt64Array, target: float, rates: Float64Array, power: float, table: Memory
) -> float:
    """Move the value of a key uint64[words] towards a target, at the rate of its n-th update as in
    :func:`learning_rates`; return the absolute difference before.
    """
    slot, move = count_update(key, table)
    n = table.counts[slot, move]
    rate = rates[n] if n < len(rates) else rates[1] * float(n) ** -power
    error: float = target - table.values[slot, move]
    table.values[slot, move] += rate * error
    return abs(error)


@inlined
def max_value(obs: Int8Array, parameters: Parameters, table: Memory, q: Float64Array) -> float:
    """Write the action values q float64[cells] of a board, NaN where illegal, and return the
    highest.

    Values of illegal actions are read, too: a branch would take longer.
    """
    write_keys(obs, 0, len(obs), table)
    best = -np.inf
    slot = find(table.action_keys[0], table)
    for action in range(len(obs)):
        if table.move_bits == 0:  # each action has a slot of its own
            slot = find(table.action_keys[action], table)
        value = table.values[slot, table.action_keys[action, 0] & table.move_bits]
        q[action] = value if is_legal(obs, action, parameters) else np.nan
        best = q[action] if q[action] > best else best
    return best


@kernel
def write_action_values(
    obs: Int8Array, is_random: BoolArray, parameters: Parameters, table: Memory, q: Float64Array
) -> None:
    """Write the action values float64[B, cells] of boards int8[B, cells], own stones first, NaN
    where illegal.

    They are 0 where ``is_random`` bool[B].
    """
    for b in range(len(obs)):
        if is_random[b]:
            for action in range(obs.shape[1]):
                q[b, action] = 0.0 if is_legal(obs[b], action, parameters) else np.nan
        else:
            max_value(obs[b], parameters, table, q[b])
