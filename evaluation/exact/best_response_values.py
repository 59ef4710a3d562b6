"""Values of positions of which one seat plays the best response to a policy in the other."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cached_property

import numpy as np

from evaluation.exact.dynamic_programming import CHUNK, make_pure
from evaluation.exact.estimate import check_fits
from evaluation.exact.forward_backward import Layer, Players, TraversalSpec, backward, forward_layers
from evaluation.exact.results import check_responder
from evaluation.exact.symmetry_classes import MAX_CLASS_CELLS, SECOND
from learners.one_ply import one_ply_ahead
from ttt_envs.agents.policy import VALUE_TOLERANCE, Policy, best_shares
from ttt_envs.core.hash_index import find_sorted
from ttt_envs.core.jit import Float64Array, Int64Array
from ttt_envs.game.boards import Boards, to_text
from ttt_envs.game.rules import Game


class BestResponseValues:
    """Expected results of the best response to a pure policy, in all positions that they can reach.

    A position of the responder has the value of its best move, and one of the policy the mean over its moves.

    Args:
        game: the game.
        policy: a spec string or a pure policy, which plays the other seat.
        seat: the responder's: 0 moves first, 1 second.
        chunk: maximum number of positions per query of the policy; the values do not depend on it.

    Raises:
        ValueError: another seat, a board too large, or a policy that is unknown or not pure.
        MemoryError: too many reachable positions.
    """

    def __init__(self, game: Game, policy: str | Policy, seat: int, *, chunk: int = CHUNK) -> None:
        check_responder(seat)
        if game.cells > MAX_CLASS_CELLS:
            raise ValueError(f"{game} has {game.cells} cells: values of a best response need at most {MAX_CLASS_CELLS}")
        self.game, self.seat = game, seat
        self.policy = make_pure(policy, game)
        self._chunk = chunk

    @cached_property
    def _tables(self) -> list[tuple[Int64Array, Float64Array]]:
        """For each number of stones: the sorted codes, and float64[B, 2] values for the responder by mover."""
        codes_and_values = []
        for layer in self._layers():
            codes = layer.index.keys[: layer.index.size, 0].astype(np.int64)
            order = np.argsort(codes)
            values = np.where(layer.reached[: len(codes)] == 1, layer.values[: len(codes), :, 0], np.nan)
            codes_and_values.append((codes[order], values[order]))
        return codes_and_values[::-1]

    def _layers(self) -> Iterator[Layer]:
        """Yield the layers with their values, the last first; the responder's moves beside a win are followed, too."""
        players: Players = (None, self.policy) if self.seat == 0 else (self.policy, None)
        traversal = TraversalSpec.plain(self.game, players)._replace(all_moves=True)
        check_fits(self.game, players, self._chunk, backward=True, traversal=traversal)
        layers = []
        for layer in forward_layers(traversal, self._chunk, edge_budget=[sys.maxsize], masses=False):
            layer.index.pack()
            layers.append(layer)
        after = Layer(traversal, self.game.cells)
        while layers:
            layer = layers.pop()
            backward(traversal, self._chunk, layer, after)
            yield layer
            after = layer

    def values(self, boards: Boards) -> Float64Array:
        """Return values for the mover, float64[B]; NaN in a position that the two players cannot reach."""
        bits = np.int64(1) << np.arange(self.game.cells)
        codes = (boards.cells == 1) @ bits | ((boards.cells == 2) @ bits) << SECOND
        stones = np.count_nonzero(boards.cells, axis=1)
        out = np.full(len(codes), np.nan)
        for number in np.unique(stones[stones < len(self._tables)]).tolist():
            known, values = self._tables[number]
            rows = np.flatnonzero(stones == number)
            places = find_sorted(known, codes[rows])
            rows, places = rows[places >= 0], places[places >= 0]
            out[rows] = values[places, boards.mover[rows]]
        return np.where(boards.mover == self.seat, out, -out)

    def check_reached(self, boards: Boards) -> None:
        """Raise ValueError, naming a position, if the two players cannot reach all positions."""
        lost = np.flatnonzero(np.isnan(self.values(boards)))
        if len(lost):
            raise ValueError(
                f"{to_text(boards.position(int(lost[0])), self.game)!r} is not reached against {self.policy}: the game "
                f"was played against another opponent, or from another start"
            )


class BestResponsePolicy:
    """The best response to a pure policy, in both seats, as a policy: equal shares for the best moves.

    In a position that the two players cannot reach, it plays uniformly.

    Args:
        game: the game.
        policy: a spec string or a pure policy, which plays the other seat.

    Raises:
        ValueError, MemoryError: as :class:`BestResponseValues`.
    """

    pure = True

    def __init__(self, game: Game, policy: str | Policy) -> None:
        self.game = game
        self._seats = tuple(BestResponseValues(game, policy, seat) for seat in (0, 1))

    def __str__(self) -> str:
        return f"best response to {self._seats[0].policy}"

    def action_values(self, boards: Boards) -> Float64Array:
        """Return float64[B, cells]: values of moves for the mover, 0 where they are not known, NaN where illegal."""
        values = np.full(boards.cells.shape, np.nan)
        for seat, responder in enumerate(self._seats):
            rows = np.flatnonzero(boards.mover == seat)
            if len(rows):
                values[rows] = one_ply_ahead(self.game, boards.take(rows), responder.values)
        unknown = np.isnan(values).any(axis=1, where=boards.legal(self.game))
        return np.where(unknown[:, None], np.where(boards.legal(self.game), 0.0, np.nan), values)

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Float64Array:
        """Return float64[B, cells]."""
        return best_shares(self.action_values(boards), VALUE_TOLERANCE)
