"""What tabular learners share: their settings, epsilon-greedy moves, and the step towards a target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np

from learners.base import Arrays, Learner, get_array
from learners.config import LearnerConfig
from learners.limits import Fraction, number_range
from learners.q_table import Memory, Table, find, sum_stones, value_of
from ttt_envs.agents.policy import best_shares
from ttt_envs.core.jit import Float64Array, Int8Array, Int64Array, UInt64Array, inlined, int64, kernel
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import VARIANTS
from ttt_envs.game.parameters import Parameters
from ttt_envs.game.phantom import HIDING, AnyGame, visible
from ttt_envs.game.rules import is_legal
from ttt_envs.game.symmetry import Symmetries


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
    """win, draw, loss: unit is 1, 0, -1; report is 1, 0.5, 0. Entries never updated have the value of a draw"""
    symmetries: Symmetries = "none"
    """positions that are equal under the rotations, or all symmetries, of the board share their entries"""
    memory: Annotated[float, number_range(0, 2**20, above=True)] = 2.0
    """maximum size of the table in GiB"""


class TabularLearner(Learner):
    """Base class of learners with a table, which play epsilon-greedily; subclasses define the update.

    One table serves both seats, because it sees the mover's stones as its own.

    Args:
        config: the settings.
        game: the game.
        afterstates: whether entries are boards after a move, which several moves may share.
    """

    colour_blind = quick = True

    def __init__(self, config: TabularConfig, game: AnyGame, *, afterstates: bool = False) -> None:
        self.name, self.game = config.name, game
        self.rewards, self.epsilon_decay = config.rewards, float(config.epsilon_decay)
        self.symmetric = config.symmetries == "all"
        draw = 0.5 if config.rewards == "report" else 0.0
        self.table = Table(game, config.symmetries, afterstates, draw, int(config.memory * 2**30))
        self.epsilon = np.array([float(config.epsilon)])
        self._parameters = visible(game).parameters

    def explore(self, boards: Boards, rng: np.random.Generator) -> Int64Array:
        """Return epsilon-greedy moves int64[B]."""
        seen = boards.own_first()
        actions, draws = np.empty(len(seen), np.int64), rng.random((len(seen), 2))
        epsilon_greedy(seen, draws, self.epsilon, self.epsilon_decay, self._parameters, self.table.memory, actions)
        return actions

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Float64Array:
        """Return float64[B, cells]: equal shares for the moves of highest value; all moves where the position is
        new.
        """
        return best_shares(self.action_values(boards))

    def action_values(self, boards: Boards) -> Float64Array:
        """Return action values float64[B, cells] from the mover's view, NaN where illegal; initial if never updated."""
        q = np.empty(boards.cells.shape)
        write_action_values(boards.own_first(), self._parameters, self.table.memory, q)
        q[q == -np.inf] = np.nan
        return q

    def values(self, boards: Boards) -> Float64Array:
        """Return values float64[B] from the mover's view."""
        return np.asarray(np.nanmax(self.action_values(boards), axis=1))

    @property
    def state(self) -> dict[str, np.ndarray[Any, Any]]:
        """The table and epsilon."""
        return {**self.table.state, "epsilon": self.epsilon.copy()}

    @state.setter
    def state(self, arrays: Arrays) -> None:
        self._restore(arrays)

    def _restore(self, arrays: Arrays) -> None:
        epsilon = get_array(arrays, "epsilon", (1,), "f8", self.name)
        self.table.state = arrays
        self.epsilon = epsilon.copy()

    def __str__(self) -> str:
        return self.name


class StepSizes(NamedTuple):
    """Learning rates: that of the n-th update of an entry is initial / n ** power."""

    first: Float64Array
    """float64[1024]: the first of them, by n, because powers take long"""
    initial: float
    power: float

    @classmethod
    def of(cls, initial: float, power: float) -> StepSizes:
        """Tabulate the first ones."""
        first = np.array([0.0, *(initial * float(n) ** -power for n in range(1, 1024))])
        return cls(first, float(initial), float(power))


# ---------------------------------------------------------------------------------------------------------------------
# Kernels. Boards are int8[cells], own stones first


@inlined
def learn(key: UInt64Array, target: float, steps: StepSizes, table: Memory) -> float:
    """Move the value of a key uint64[words] towards a target: Q += alpha * (target - Q). Return the error before."""
    slot = find(key, table)
    if table.counts[slot] == 0:
        table.size[0] += 1
        for w in range(len(table.words)):
            table.keys[slot, w] = key[w]
    table.counts[slot] += 1
    n = table.counts[slot]
    alpha = steps.first[n] if n < len(steps.first) else steps.initial * float(n) ** -steps.power
    error: float = target - table.values[slot]
    table.values[slot] += alpha * error
    return error


@inlined
def highest_value(cells: Int8Array, parameters: Parameters, table: Memory, q: Float64Array) -> float:
    """Write the action values q float64[cells] of a board, -infinity where illegal, and return the highest."""
    sum_stones(cells, table)
    best = -np.inf
    for action in range(len(cells)):
        value = value_of(action, table)  # also if it is illegal: a branch here takes longer
        q[action] = value if is_legal(cells, action, parameters) else -np.inf
        best = q[action] if q[action] > best else best
    return best


@kernel
def write_action_values(seen: Int8Array, parameters: Parameters, table: Memory, q: Float64Array) -> None:
    """Write the action values float64[B, cells] of boards int8[B, cells], -infinity where illegal."""
    for b in range(len(seen)):
        highest_value(seen[b], parameters, table, q[b])


@kernel
def epsilon_greedy(
    seen: Int8Array,
    draws: Float64Array,
    epsilon: Float64Array,
    epsilon_decay: float,
    parameters: Parameters,
    table: Memory,
    actions: Int64Array,
) -> None:
    """Choose a random move where draws[b, 0] < epsilon, else one of highest value; draws[b, 1] chooses among equals."""
    q = table.q
    for b in range(len(actions)):
        if draws[b, 0] < epsilon[0]:
            epsilon[0] *= 1.0 - epsilon_decay
            best = 0.0
            for action in range(seen.shape[1]):
                q[action] = 0.0 if is_legal(seen[b], action, parameters) else -np.inf
        else:
            best = highest_value(seen[b], parameters, table, q)
        num_best = 0
        for action in range(seen.shape[1]):
            num_best += q[action] == best
        rest = int64(draws[b, 1] * num_best)
        for action in range(seen.shape[1]):
            is_best = int64(q[action] == best)
            actions[b] = action if (is_best != 0) & (rest == 0) else actions[b]
            rest -= is_best
