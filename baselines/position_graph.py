"""All positions of a small game with their successors, for repeated exact evaluation of tables of probabilities.

The graph is built once. An evaluation then is one pass over its arrays, without queries of policies or hashing, so that
thousands of policies of one game can be evaluated exactly. Results are those of ``evaluation.exact.evaluate_policy``,
which needs no stored graph and serves larger games and any policy.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from baselines.softmax_table import PositionIndex
from ttt_envs.agents.policy import VALUE_TOLERANCE, best_shares
from ttt_envs.core.jit import BoolArray, Float64Array, Int64Array
from ttt_envs.game.boards import Boards, from_position_keys, play_moves, position_keys
from ttt_envs.game.rules import DRAW, NOT_OVER, Game, line_result, values_over_skip

MAX_POSITIONS = 1 << 20
"""Maximum number of positions of a graph."""
MAX_MOVES = 1 << 22
"""Maximum number of moves of a graph."""
MAX_GRAPH_CELLS = 32
"""Maximum number of cells: a board's key and its mover share 64 bits."""


class GraphLayer(NamedTuple):
    """The positions with a given number of stones, which have consecutive numbers, and their K non-final moves."""

    rows: slice
    """numbers of the positions"""
    following: slice
    """numbers of the next layer's positions"""
    row: Int64Array
    """int64[K]: position of each move"""
    cell: Int64Array
    """int64[K]: its cell"""
    same: Int64Array
    """int64[K]: number of the next position if the other player's turn is skipped; without skips, as ``other``"""
    other: Int64Array
    """int64[K]: number of the next position if the other player moves"""


class GraphEvaluation(NamedTuple):
    """Exact evaluation of one policy for each player; values are those of the mover."""

    policy: Float64Array
    """float64[N, cells]: the mover's probabilities"""
    action_values: Float64Array
    """float64[N, cells]: expected result after each move, 0 where illegal"""
    values: Float64Array
    """float64[N]: expected result"""

    @property
    def advantages(self) -> Float64Array:
        """float64[N, cells]: action values minus values; a new array at every access."""
        return self.action_values - self.values[:, None]


class PositionGraph:
    """All N positions that can be reached in a game, ordered by number of stones, and the moves between them.

    Args:
        game: the game.

    Attributes:
        index: the positions; ``index.boards`` lists them, the start has number 0.
        legal: bool[N, cells]: legal moves.
        layers: the layers by number of stones.

    Raises:
        MemoryError: more than ``MAX_POSITIONS`` positions, ``MAX_MOVES`` moves or ``MAX_GRAPH_CELLS`` cells.
    """

    def __init__(self, game: Game) -> None:
        if game.cells > MAX_GRAPH_CELLS:
            raise _too_large(game)
        self.game = game
        self.layers: list[GraphLayer] = []
        boards, wins, draws = [Boards.start(game)], [], []
        start = num_moves = 0
        while len(boards[-1].mover):
            num_moves += int(boards[-1].legal(game).sum())
            if num_moves > MAX_MOVES:
                raise _too_large(game)
            found = _moves(game, boards[-1], start)
            start = found.layer.following.start
            if found.layer.following.stop > MAX_POSITIONS:
                raise _too_large(game)
            self.layers.append(found.layer)
            wins.append(found.won)
            draws.append(found.drawn)
            boards.append(found.following)
        self.index = PositionIndex(game, Boards(*(np.concatenate(arrays) for arrays in zip(*boards, strict=True))))
        self.legal: BoolArray = self.index.boards.legal(game)
        self._won: Float64Array = np.concatenate(wins)
        self._drawn: Float64Array = np.concatenate(draws)

    def evaluate(
        self, policy: Float64Array, costs: Float64Array | None = None, responder: int | None = None
    ) -> GraphEvaluation:
        """Return exact values by backward induction.

        Args:
            policy: float64[N, cells]: the mover's probability of each move, 0 where illegal.
            costs: float64[N, cells]: what each move costs the mover and pays to the other player; None for nothing.
            responder: a player whose moves are replaced by the best ones, equal shares of equal ones; None for neither.
        """
        action_values = self._won.copy()
        values = np.zeros(len(policy))
        played = policy if responder is None else policy.copy()
        skip, mover = self.game.skip_chance, self.index.boards.mover
        for layer in reversed(self.layers):
            after = values_over_skip(values[layer.same], -values[layer.other], skip)
            action_values[layer.row, layer.cell] = after
            if costs is not None:
                action_values[layer.rows] -= costs[layer.rows]
            if responder is not None:
                rows = np.arange(layer.rows.start, layer.rows.stop)[mover[layer.rows] == responder]
                masked = np.where(self.legal[rows], action_values[rows], np.nan)
                played[rows] = best_shares(masked, VALUE_TOLERANCE)
            values[layer.rows] = (played[layer.rows] * action_values[layer.rows]).sum(axis=1)
        return GraphEvaluation(played, action_values, values)

    def occupancy(self, policy: Float64Array) -> Float64Array:
        """Return float64[N]: the probability that a game visits each position."""
        visits = np.zeros(len(policy))
        visits[0] = 1.0
        skip = self.game.skip_chance
        for layer in self.layers:
            mass = visits[layer.row] * policy[layer.row, layer.cell]
            first, size = layer.following.start, layer.following.stop - layer.following.start
            if size:
                visits[layer.following] += np.bincount(layer.other - first, (1.0 - skip) * mass, size)
                if skip > 0:
                    visits[layer.following] += np.bincount(layer.same - first, skip * mass, size)
        return visits

    def results(self, policy: Float64Array, occupancy: Float64Array) -> tuple[float, float, float]:
        """Return the probabilities that player_0 wins, of a draw, and that player_1 wins."""
        won = occupancy * np.abs(policy * self._won).sum(axis=1)  # decided moves
        first = (self.index.boards.mover == 0) != self.game.misere
        draws = occupancy @ (policy * self._drawn).sum(axis=1)
        return float(won[first].sum()), float(draws), float(won[~first].sum())


class _Moves(NamedTuple):
    """All moves of a layer."""

    layer: GraphLayer
    following: Boards
    won: Float64Array
    """float64[B, cells]: 1 for winning moves, in misère -1 for losing ones"""
    drawn: Float64Array
    """float64[B, cells]: 1 for moves that end the game in a draw"""


def _moves(game: Game, boards: Boards, start: int) -> _Moves:
    """Return the moves of a layer whose first position has the number ``start``."""
    rows, cell = np.nonzero(boards.legal(game))
    mover = boards.mover[rows]
    after, outcome = play_moves(game, boards, rows, cell)
    won, drawn = (np.zeros(boards.cells.shape) for _ in range(2))
    ended = outcome != NOT_OVER
    won[rows, cell] = np.where(ended & (outcome != DRAW), line_result(game.parameters), 0)
    drawn[rows, cell] = outcome == DRAW
    cells, mine = after[~ended], mover[~ended]
    turns = [position_keys(Boards(cells, turn)) for turn in (1 - mine, mine)[: 2 if game.skip_chance > 0 else 1]]
    found, number = np.unique(np.concatenate(turns), return_inverse=True)
    stop = start + len(boards.mover)
    numbers = stop + number.reshape(len(turns), len(mine)).astype(np.int64)
    layer = GraphLayer(
        slice(start, stop),
        slice(stop, stop + len(found)),
        start + rows[~ended],
        cell[~ended],
        numbers[-1],
        numbers[0],
    )
    return _Moves(layer, from_position_keys(found, game), won, drawn)


def _too_large(game: Game) -> MemoryError:
    return MemoryError(
        f"{game} has more than {MAX_POSITIONS:,} positions or {MAX_MOVES:,} moves, too many for exact updates of a "
        f"table: choose a smaller board, such as 3x3 or 3x4"
    )
