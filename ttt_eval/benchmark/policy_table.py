"""A policy as a table: what a submission to the benchmark consists of."""

from __future__ import annotations

import hashlib
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ttt_envs.agents.policy import Policy
from ttt_envs.core.hash_index import find_sorted
from ttt_envs.core.jit import Float64Array, Int64Array, UInt64Array
from ttt_envs.game.boards import Boards, from_keys, keys, to_text
from ttt_envs.game.game import Game
from ttt_envs.graph.layers import QUERY_SIZE, all_positions, query_policy
from ttt_eval.benchmark.tasks import MAX_CELLS_OF_CHECKPOINTS
from ttt_eval.exact.dynamic_programming import make_pure

STORED = np.float16
"""type of stored values, and of probabilities on small boards"""
MAX_SHARE = 255
"""Share of the most probable move, of type uint8, on large boards."""
MAX_VALUE = 1.0
PARTS = ("probabilities", "values")
"""arrays of a table"""
SUM_TOLERANCE = 0.02
"""Maximum deviation of a sum of stored probabilities from 1: float16 rounds each of up to 40 to 11 bits."""
ROWS_PER_CHECK = 1 << 18


class PolicyTable(Policy):
    """A pure policy from a table of all positions of :func:`list_positions`.

    Probabilities are normalised in float64.

    Args:
        game: the game.
        probabilities: float[N, cells]; or unsigned[N, cells], numbers in proportion to them.
        values: float[N] for the mover, if any.
        seats: those in which the policy plays.
        masked: whether all probability is on legal moves.

    Raises:
        ValueError: an array has another shape, or a row is no distribution.
    """

    colour_blind = True

    def __init__(
        self,
        game: Game,
        probabilities: NDArray[Any],
        values: NDArray[Any] | None = None,
        *,
        seats: tuple[int, ...] = (0, 1),
        masked: bool = True,
    ) -> None:
        self.game, self.masked = game, masked
        self.codes = position_codes(game, seats)
        count = len(self.codes)
        self._arrays = [probabilities] if values is None else [probabilities, values]
        rules = (PARTS[0], (count, game.cells), "fu"), (PARTS[1], (count,), "f")
        for array, (name, shape, kinds) in zip(self._arrays, rules, strict=False):
            if array.shape != shape or array.dtype.kind not in kinds:
                raise ValueError(f"a table of {count:,} positions needs {name} float{list(shape)}")
        self._weights = probabilities
        for start in range(0, count, ROWS_PER_CHECK):
            self._check_rows(slice(start, start + ROWS_PER_CHECK))
        if values is not None:
            if not (np.abs(values) <= MAX_VALUE).all():
                raise ValueError("a table has values outside [-1, 1]")
            stored = values.astype(np.float64)
            self.values = lambda boards: stored[self._rows(boards)]  # an attribute of tables with values alone

    @cached_property
    def sha256(self) -> str:
        """Hash of the arrays."""
        digest = hashlib.sha256()
        for array in self._arrays:
            digest.update(repr((array.dtype.str, array.shape)).encode() + np.ascontiguousarray(array).data)
        return digest.hexdigest()

    def _check_rows(self, rows: slice) -> None:
        """Raise ValueError if a row is no distribution over legal moves."""
        weights = self._weights[rows].astype(np.float64)
        total = weights.sum(axis=1)
        sums = np.abs(total - 1) <= SUM_TOLERANCE if self._weights.dtype.kind == "f" else total > 0
        if not ((weights >= 0).all() and sums.all()):  # also rejects NaN and infinity
            raise ValueError("a table has a row that is no distribution: probabilities must be 0 or more, and sum to 1")
        if self.masked and (weights[from_keys(self.codes[rows], self.game) != 0] > 0).any():
            raise ValueError("a table has probabilities of illegal moves: they must be 0 on occupied cells")

    def __str__(self) -> str:
        return f"table of {len(self.codes):,} positions"

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Float64Array:
        """Return float64[B, cells].

        Raises:
            ValueError: the table lacks a position.
        """
        weights: Float64Array = self._weights[self._rows(boards)].astype(np.float64)
        weights /= weights.sum(axis=1, keepdims=True)
        return weights

    def _rows(self, boards: Boards) -> Int64Array:
        rows = find_sorted(self.codes, keys(boards.own_first()))
        missing = np.flatnonzero(rows < 0)
        if len(missing):
            text = to_text(boards.position(int(missing[0])), self.game)
            raise ValueError(f"the table lacks the position {text!r}, which its policy can meet")
        return rows


def list_positions(game: Game, seats: tuple[int, ...] = (0, 1)) -> Boards:
    """Return all unfinished positions in which a player in one of these seats may have to move, by their codes.

    A code is ``keys(boards.own_first())``. Positions that their mover sees alike are one: of the two colourings, the
    one that games reach.
    """
    boards = all_positions(game)
    boards = boards.take(np.isin(boards.mover, seats))
    _, first = np.unique(keys(boards.own_first()), return_index=True)
    return boards.take(first)


@cache
def position_codes(game: Game, seats: tuple[int, ...]) -> UInt64Array:
    """Return the codes uint64[N] of :func:`list_positions`, ascending."""
    codes = keys(list_positions(game, seats).own_first())
    codes.flags.writeable = False
    return codes


def tabulate(
    game: Game, policy: str | Policy, seats: tuple[int, ...] = (0, 1), *, dtype: type = STORED
) -> dict[str, NDArray[Any]]:
    """Return the arrays of a policy's table.

    Args:
        game: the game.
        policy: a spec string or a pure policy that sees own stones first.
        seats: those in which it plays.
        dtype: of probabilities and values.

    Returns:
        ``probabilities`` [N, cells] of :func:`list_positions`, and ``values`` [N] if the policy has them. On
        large boards there are no values, and probabilities are uint8: 255ths of the highest one, rounded.

    Raises:
        ValueError: a policy that is not pure, or whose probabilities have another shape.
    """
    pure, is_large = make_pure(policy, game), game.cells > MAX_CELLS_OF_CHECKPOINTS
    parts: dict[str, list[NDArray[Any]]] = {"probabilities": []}
    for chunk in list_positions(game, seats).chunks(QUERY_SIZE):
        p: NDArray[Any] = query_policy(pure, chunk).astype(dtype)
        if is_large:
            weights = p.astype(np.float64)
            p = np.rint(weights * (MAX_SHARE / weights.max(axis=1, keepdims=True))).astype(np.uint8)
        elif pure.values is not None:
            parts.setdefault("values", []).append(np.asarray(pure.values(chunk)).astype(dtype))
        parts["probabilities"].append(p)
    return {name: np.concatenate(arrays) for name, arrays in parts.items()}
