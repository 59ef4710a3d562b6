"""Monte Carlo control by mean final rewards: the first and simplest algorithm of the report on three learners."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from learners.base import Arrays, Transition
from learners.config import TransitionLearnerConfig, check_kinds, check_limits
from learners.tabular import (
    MAX_MEMORY_GIB,
    PositionTable,
    TabularLearner,
    checked,
    final_rewards,
    move_towards,
    rows_of,
    step_sizes,
)
from ttt_envs.core.jit import Float64Array, Int8Array, Int64Array, compiled
from ttt_envs.game.rules import Game
from ttt_envs.game.symmetry import Symmetries


@dataclass(frozen=True)
class NaiveMCConfig(TransitionLearnerConfig):
    """Monte Carlo control with a table: at the end of a game Q(s, a) <- (Q(s, a) t + r) / (t + 1) for every move."""

    name: ClassVar[str] = "naive-mc"
    batch: ClassVar[int] = 2048
    self_play: ClassVar[Mapping[str, Any]] = {"epsilon_decay": 1e-5, "symmetries": "all"}
    self_play_games: ClassVar[int] = 300_000

    epsilon: float = 1.0
    """initial probability of a random move, 0 to 1"""
    epsilon_decay: float = 1e-4
    """epsilon is multiplied by 1 - epsilon_decay after each random move, 0 to 1"""
    rewards: Literal["report", "unit"] = "report"
    """win, draw, loss: report is 1, 0.5, 0; unit is 1, 0, -1. A move never made has the value of a draw"""
    symmetries: Symmetries = "none"
    """repeat every update on the rotations, or all symmetries, of the position"""
    memory: float = 2.0
    """maximum size of the table in GiB"""

    def __post_init__(self) -> None:
        check_kinds(self)
        check_limits(
            self,
            {
                "epsilon": (0 <= self.epsilon <= 1, "0 to 1"),
                "epsilon_decay": (0 <= self.epsilon_decay <= 1, "0 to 1"),
                "memory": (0 < self.memory <= MAX_MEMORY_GIB, f"above 0, up to {MAX_MEMORY_GIB:,}"),
            },
        )

    def build(self, game: Game, rng: np.random.Generator) -> NaiveMC:
        """Return an untrained learner; ``rng`` is unused."""
        return NaiveMC(self, game)


class NaiveMC(TabularLearner):
    """The learner of :class:`NaiveMCConfig`.

    Moves of unfinished games are buffered for each player of each parallel game, as entries ``row * cells + action``.
    """

    def __init__(self, config: NaiveMCConfig, game: Game) -> None:
        table = PositionTable(game, int(config.memory * 2**30), initial=0.5 if config.rewards == "report" else 0.0)
        super().__init__(config.name, game, table, config.epsilon, config.epsilon_decay, config.symmetries)
        self.config = config
        self._steps = step_sizes(1.0, 1.0)
        self._waiting = np.zeros((2, 0, game.cells), np.int64)
        self._lengths = np.zeros((2, 0), np.int64)

    def observe(self, transition: Transition) -> dict[str, float]:
        """Buffer the moves, and update the moves of players whose game is over, in order."""
        size = self.game.cells
        seen = transition.boards.own_first()
        self._make_room(int(transition.slot.max(initial=-1)) + 1)
        over = transition.discount == 0
        finished = np.empty(int(over.sum()) * size, np.int64)
        results = np.empty(len(finished))
        count = _keep(
            seen,
            transition.boards.mover,
            transition.slot,
            self.table.rows(seen) * size + transition.action,
            over,
            final_rewards(transition.reward, over, self.config.rewards),
            self._waiting,
            self._lengths,
            finished,
            results,
        )
        logged = {"epsilon": float(self.epsilon[0]), "positions": float(self.table.size)}
        if count == 0:
            return logged
        finished = finished[:count]
        rows = self._image_rows(self.table.cells(finished // size))
        error = _average(
            rows, self._inverses, finished % size, results, self._steps, self.table.values, self.table.counts
        )
        return {"error": error, **logged}

    def to_arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return the table, epsilon, and the moves of unfinished games."""
        return {**super().to_arrays(), "waiting": self._waiting.copy(), "lengths": self._lengths.copy()}

    def from_arrays(self, arrays: Arrays) -> None:
        """Restore the state from the arrays of :meth:`to_arrays`.

        Raises:
            ValueError: arrays of another learner or game, or damaged ones.
        """
        size = self.game.cells
        slots = arrays["lengths"].shape[-1] if rows_of(arrays, "lengths") else 0
        lengths = checked(arrays, "lengths", (2, slots), "i8", self.name)
        waiting = checked(arrays, "waiting", (2, slots, size), "i8", self.name)
        entries = rows_of(arrays, "keys") * size
        kept = waiting[np.arange(size) < lengths[..., None]]
        if ((lengths < 0) | (lengths > size)).any() or ((kept < 0) | (kept >= entries)).any():
            raise ValueError(
                f"{self.name} needs up to {size} waiting moves for each player of a game, in positions of its table: "
                f"these arrays are damaged"
            )
        super().from_arrays(arrays)
        self._lengths, self._waiting = lengths.copy(), waiting.copy()

    def _make_room(self, slots: int) -> None:
        """Grow the buffers to exactly the number of parallel games seen, so that a restored learner has the same
        arrays.
        """
        more = slots - self._lengths.shape[1]
        if more > 0:
            self._lengths = np.pad(self._lengths, ((0, 0), (0, more)))
            self._waiting = np.pad(self._waiting, ((0, 0), (0, more), (0, 0)))


@compiled
def _keep(
    seen: Int8Array,
    movers: Int8Array,
    slots: Int64Array,
    entries: Int64Array,
    over: Any,
    rewards: Float64Array,
    waiting: Int64Array,
    lengths: Int64Array,
    finished: Int64Array,
    results: Float64Array,
) -> int:
    """Buffer each move after its player's earlier ones; output, in order, the moves of players whose game is over.

    Returns the number of moves output, in ``finished`` with their final rewards in ``results``.
    """
    count = 0
    for b in range(len(slots)):
        mover, slot = movers[b], slots[b]
        own = 0
        for cell in range(seen.shape[1]):
            own += seen[b, cell] == 1
        length = lengths[mover, slot]
        if own < length:  # another game began before this one was over: its moves have no result
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


@compiled
def _average(
    rows: Int64Array,
    inverses: Int64Array,
    actions: Int64Array,
    results: Float64Array,
    steps: Float64Array,
    values: Float64Array,
    counts: Int64Array,
) -> float:
    """Move each value to the mean of its final rewards, in order. Returns the mean absolute difference before."""
    total = 0.0
    for b in range(len(rows)):
        total += abs(move_towards(results[b], rows[b], inverses, actions[b], 1.0, 1.0, steps, values, counts))
    return total / len(rows)
