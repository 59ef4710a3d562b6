"""A policy as a table: what a submission to the benchmark consists of."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ttt_envs.agents.policy import Policy
from ttt_envs.core.hash_index import find_sorted
from ttt_envs.core.jit import Float64Array, Int64Array, UInt64Array
from ttt_envs.game.boards import MAX_CELLS_BASE_3, Boards, from_keys, keys, to_text
from ttt_envs.game.game import Game
from ttt_envs.graph.layers import QUERY_SIZE, all_positions, query_policy
from ttt_eval.exact.dynamic_programming import make_pure

STORED = np.float16
"""type of stored probabilities and values"""
MAX_VALUE = 1.0
SUM_TOLERANCE = 0.02
"""Maximum deviation of a sum of stored probabilities from 1: float16 rounds each of up to 40 to 11 bits."""
ROWS_PER_CHECK = 1 << 18
MAX_SHARE = 255
"""Share of the most probable move in a packed table."""


class PolicyTable(Policy):
    """A pure policy from a table of positions as their mover sees them, own stones first.

    Probabilities are normalised in float64.

    Args:
        game: the game, up to 40 cells.
        codes: uint64[N], ascending: ``keys(boards.own_first())`` of the positions.
        probabilities: float[N, cells]; or unsigned[N, cells], numbers in proportion to them.
        values: float[N] for the mover, if any.
        masked: whether all probability is on legal moves.

    Raises:
        ValueError: an array has another shape, codes are not ascending or no boards, or a row is no distribution.
    """

    colour_blind = True

    def __init__(
        self,
        game: Game,
        codes: UInt64Array,
        probabilities: NDArray[Any],
        values: NDArray[Any] | None = None,
        *,
        masked: bool = True,
    ) -> None:
        self.game = game
        self.masked = masked
        self.codes = np.asarray(codes)
        _check_codes(game, self.codes)
        count = len(self.codes)
        if probabilities.shape != (count, game.cells) or probabilities.dtype.kind not in "fu":
            raise ValueError(f"a table of {count:,} positions needs probabilities float[{count}, {game.cells}]")
        self._weights = probabilities
        for start in range(0, count, ROWS_PER_CHECK):
            self._check_rows(slice(start, start + ROWS_PER_CHECK))
        self._values = None
        if values is not None:
            if values.shape != (count,) or values.dtype.kind != "f":
                raise ValueError(f"a table of {count:,} positions needs values float[{count}]")
            self._values = values.astype(np.float64)
            if not (np.abs(self._values) <= MAX_VALUE).all():
                raise ValueError("a table has values outside [-1, 1]")
            self.values = self._read_values  # an attribute of tables with values alone

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

    def _read_values(self, boards: Boards) -> Float64Array:
        """Return values for the mover, float64[B]."""
        assert self._values is not None
        found: Float64Array = self._values[self._rows(boards)]
        return found

    def _rows(self, boards: Boards) -> Int64Array:
        codes = keys(boards.own_first())
        rows = find_sorted(self.codes, codes)
        missing = np.flatnonzero(rows < 0)
        if len(missing):
            text = to_text(boards.position(int(missing[0])), self.game)
            raise ValueError(f"the table lacks the position {text!r}, which its policy can meet")
        return rows


def _check_codes(game: Game, codes: UInt64Array) -> None:
    if game.cells > MAX_CELLS_BASE_3:
        raise ValueError(f"{game} has {game.cells} cells: tables hold boards of at most {MAX_CELLS_BASE_3}")
    if codes.ndim != 1 or codes.dtype != np.uint64 or not len(codes):
        raise ValueError("the codes of a table must be uint64[N], one for each position")
    if (codes[1:] <= codes[:-1]).any():
        raise ValueError("the codes of a table must ascend, without duplicates")
    if int(codes[-1]) >= 3**game.cells:
        raise ValueError(f"a table has a code that is no board of {game}")


def list_positions(game: Game, seats: tuple[int, ...] = (0, 1)) -> Boards:
    """Return all unfinished positions in which a player in one of these seats may have to move, by their codes.

    Positions that their mover sees alike are one: of the two colourings, the one that games reach.
    """
    boards = all_positions(game)
    boards = boards.take(np.isin(boards.mover, seats))
    _, first = np.unique(keys(boards.own_first()), return_index=True)
    return boards.take(first)


def tabulate(
    game: Game, policy: str | Policy, seats: tuple[int, ...] = (0, 1), *, dtype: type = STORED
) -> dict[str, np.ndarray[Any, Any]]:
    """Return the arrays of a policy's table: ``codes``, ``probabilities``, and ``values`` if the policy has them.

    Args:
        game: the game.
        policy: a spec string or a pure policy that sees own stones first.
        seats: those in which it plays.
        dtype: of probabilities and values.

    Raises:
        ValueError: a policy that is not pure, or whose probabilities have another shape.
    """
    pure = make_pure(policy, game)
    boards = list_positions(game, seats)
    arrays: dict[str, np.ndarray[Any, Any]] = {
        "codes": keys(boards.own_first()),
        "probabilities": np.concatenate(
            [query_policy(pure, chunk).astype(dtype) for chunk in boards.chunks(QUERY_SIZE)]
        ),
    }
    if pure.values is not None:
        parts: list[NDArray[Any]] = [
            np.asarray(pure.values(chunk)).astype(dtype) for chunk in boards.chunks(QUERY_SIZE)
        ]
        arrays["values"] = np.concatenate(parts)
    return arrays


def pack(game: Game, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return the arrays of a table of legal moves in less space, without values.

    Args:
        game: the game.
        arrays: ``codes`` and ``probabilities`` of :func:`tabulate`.

    Returns:
        ``gaps`` uint32[N]: the first code, and the differences of consecutive ones; ``shares`` uint8[M]: for each
        position and each of its empty cells in order, the probability of the move in 255ths of the highest one,
        rounded.
    """
    codes, probabilities = arrays["codes"], arrays["probabilities"]
    shares = []
    for start in range(0, len(codes), ROWS_PER_CHECK):
        p = probabilities[start : start + ROWS_PER_CHECK].astype(np.float64)
        rounded = np.rint(p * (MAX_SHARE / p.max(axis=1, keepdims=True))).astype(np.uint8)
        shares.append(rounded[from_keys(codes[start : start + ROWS_PER_CHECK], game) == 0])
    return {"gaps": np.diff(codes, prepend=np.uint64(0)).astype(np.uint32), "shares": np.concatenate(shares)}


def unpack(
    game: Game, shares: NDArray[Any], gaps: NDArray[Any] | None = None, seats: tuple[int, ...] = (0, 1)
) -> dict[str, NDArray[Any]]:
    """Return ``codes`` uint64[N] and ``probabilities`` uint8[N, cells] of a table from :func:`pack`.

    Args:
        game: the game.
        shares: those of the table.
        gaps: those of the table; None if it has all positions of :func:`list_positions`.
        seats: those in which the policy plays.

    Raises:
        ValueError: an array has another shape or type, or codes are no boards.
    """
    if gaps is not None and (gaps.ndim != 1 or gaps.dtype != np.uint32):
        raise ValueError("a packed table needs gaps uint32[N]")
    if shares.ndim != 1 or shares.dtype != np.uint8:
        raise ValueError("a packed table needs shares uint8[M]")
    codes = _all_codes(game, seats) if gaps is None else np.cumsum(gaps, dtype=np.uint64)
    _check_codes(game, codes)
    probabilities, used = np.zeros((len(codes), game.cells), np.uint8), 0
    for start in range(0, len(codes), ROWS_PER_CHECK):
        empty = from_keys(codes[start : start + ROWS_PER_CHECK], game) == 0
        count = int(np.count_nonzero(empty))
        if used + count <= len(shares):
            probabilities[start : start + ROWS_PER_CHECK][empty] = shares[used : used + count]
        used += count
    if used != len(shares):
        raise ValueError(f"a packed table of {len(codes):,} positions needs {used:,} shares, one for each empty cell")
    return {"codes": codes, "probabilities": probabilities}


@cache
def _all_codes(game: Game, seats: tuple[int, ...]) -> UInt64Array:
    codes = keys(list_positions(game, seats).own_first())
    codes.flags.writeable = False
    return codes
