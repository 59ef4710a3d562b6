"""Monte Carlo control by mean final rewards: the first and simplest algorithm of the report on three learners."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from learners.base import Arrays, Transition, get_array, num_rows
from learners.config import TransitionLearnerConfig
from learners.limits import Fraction
from learners.tabular import (
    Entries,
    MemoryGiB,
    PositionTable,
    StepSizes,
    TabularLearner,
    final_rewards,
    tabulate_step_sizes,
    update_entries,
)
from ttt_envs.core.jit import BoolArray, Float64Array, Int8Array, Int64Array, kernel
from ttt_envs.game.game import VARIANTS
from ttt_envs.game.phantom import HIDING, AnyGame, PhantomGame
from ttt_envs.game.symmetry import Symmetries


@dataclass(frozen=True)
class NaiveMCConfig(TransitionLearnerConfig):
    """Monte Carlo control with a table: at the end of a game Q(s, a) <- (Q(s, a) t + r) / (t + 1) for every move."""

    name: ClassVar[str] = "naive-mc"
    batch: ClassVar[int] = 2048
    variants: ClassVar[tuple[str, ...]] = (*VARIANTS, HIDING)
    self_play: ClassVar[Mapping[str, Any]] = {"epsilon_decay": 1e-5, "symmetries": "all"}
    self_play_games: ClassVar[int] = 300_000

    epsilon: Fraction = 1.0
    """initial probability of a random move, 0 to 1"""
    epsilon_decay: Fraction = 1e-4
    """epsilon is multiplied by 1 - epsilon_decay after each random move, 0 to 1"""
    rewards: Literal["report", "unit"] = "report"
    """win, draw, loss: report is 1, 0.5, 0; unit is 1, 0, -1. A move never made has the value of a draw"""
    symmetries: Symmetries = "none"
    """repeat every update on the rotations, or all symmetries, of the position"""
    memory: MemoryGiB = 2.0
    """maximum size of the table in GiB"""

    def build(self, game: AnyGame, rng: np.random.Generator) -> NaiveMC:
        """Return an untrained learner; ``rng`` is unused."""
        return NaiveMC(self, game)


class NaiveMC(TabularLearner):
    """The learner of :class:`NaiveMCConfig`.

    Moves of unfinished games are buffered for each player of each parallel game, as entries ``row * cells + action``.
    """

    def __init__(self, config: NaiveMCConfig, game: AnyGame) -> None:
        table = PositionTable(game, int(config.memory * 2**30), initial=0.5 if config.rewards == "report" else 0.0)
        super().__init__(config.name, game, table, config.epsilon, config.epsilon_decay, config.symmetries)
        self.config = config
        self._steps = tabulate_step_sizes(1.0, 1.0)
        self._waiting = np.zeros((2, 0, game.cells), np.int64)
        self._lengths = np.zeros((2, 0), np.int64)

    def observe(self, transition: Transition) -> dict[str, float]:
        """Buffer the moves, and update the moves of players whose game is over, in order."""
        size = self.game.cells
        seen = transition.boards.own_first()
        self._grow(int(transition.slot.max(initial=-1)) + 1)
        over = transition.discount == 0
        finished = np.empty(int(over.sum()) * size, np.int64)
        results = np.empty(len(finished))
        count = _buffer_moves(
            seen,
            transition.boards.mover,
            transition.slot,
            self.table.rows(seen) * size + transition.action,
            over,
            final_rewards(transition.reward, over, self.config.rewards),
            isinstance(self.game, PhantomGame),
            (self._waiting, self._lengths),
            (finished, results),
        )
        logged = {"epsilon": float(self.epsilon[0]), "positions": float(self.table.size)}
        if count == 0:
            return logged
        finished = finished[:count]
        rows = self._symmetric_rows(self.table.cells(finished // size))
        error = _update_means(rows, self._inverses, finished % size, results, self._steps, self.table.entries)
        return {"error": error, **logged}

    def to_arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return the table, epsilon, and the moves of unfinished games."""
        return {**super().to_arrays(), "waiting": self._waiting.copy(), "lengths": self._lengths.copy()}

    def from_arrays(self, arrays: Arrays) -> None:
        """See :meth:`~learners.base.Checkpointable.from_arrays`."""
        size = self.game.cells
        slots = arrays["lengths"].shape[-1] if num_rows(arrays, "lengths") else 0
        lengths = get_array(arrays, "lengths", (2, slots), "i8", self.name)
        waiting = get_array(arrays, "waiting", (2, slots, size), "i8", self.name)
        entries = num_rows(arrays, "keys") * size
        waiting_moves = waiting[np.arange(size) < lengths[..., None]]
        if ((lengths < 0) | (lengths > size)).any() or ((waiting_moves < 0) | (waiting_moves >= entries)).any():
            raise ValueError(
                f"{self.name} needs up to {size} waiting moves for each player of a game, in positions of its table: "
                f"these arrays are damaged"
            )
        super().from_arrays(arrays)
        self._lengths, self._waiting = lengths.copy(), waiting.copy()

    def _grow(self, slots: int) -> None:
        """Grow the buffers to exactly the number of parallel games seen, so that a restored learner has the same
        arrays.
        """
        more = slots - self._lengths.shape[1]
        if more > 0:
            self._lengths = np.pad(self._lengths, ((0, 0), (0, more)))
            self._waiting = np.pad(self._waiting, ((0, 0), (0, more), (0, 0)))


@kernel
def _buffer_moves(
    seen: Int8Array,
    movers: Int8Array,
    slots: Int64Array,
    entries: Int64Array,
    over: BoolArray,
    rewards: Float64Array,
    hidden: bool,
    buffer: tuple[Int64Array, Int64Array],
    out: tuple[Int64Array, Float64Array],
) -> int:
    """Buffer each move after its player's earlier ones; output, in order, the moves of players whose game is over.

    Every move of a player adds a stone to its board: an own one, or where stones are ``hidden`` that of the opponent on
    the cell that it tried. ``buffer`` holds the waiting moves of each player and game, and their numbers; ``out`` takes
    the moves of finished games and their final rewards. Returns their number.
    """
    (waiting, lengths), (finished, results) = buffer, out
    count = 0
    for b in range(len(slots)):
        mover, slot = movers[b], slots[b]
        num_made = 0
        for cell in range(seen.shape[1]):
            num_made += seen[b, cell] == 1 or (hidden and seen[b, cell] == 2)
        length = lengths[mover, slot]
        if num_made < length:  # another game began before this one was over: its moves have no result
            length = 0
        waiting[mover, slot, length] = entries[b]
        length += 1
        if over[b]:
            for move in range(length):
                finished[count] = waiting[mover, slot, move]
                results[count] = rewards[b]
                count += 1
            length = 0
        lengths[mover, slot] = length
    return count


@kernel
def _update_means(
    rows: Int64Array,
    inverses: Int64Array,
    actions: Int64Array,
    results: Float64Array,
    steps: StepSizes,
    entries: Entries,
) -> float:
    """Move each value to the mean of its final rewards, in order. Returns the mean absolute difference before."""
    total = 0.0
    for b in range(len(rows)):
        total += abs(update_entries(results[b], rows[b], inverses, actions[b], steps, entries))
    return total / len(rows)
