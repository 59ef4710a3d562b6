"""Cache of a pure policy's answers, shared between symmetric positions and between seats where the policy allows."""

from __future__ import annotations

from functools import lru_cache
from typing import ClassVar

import numpy as np

from evaluation.exact.forward_backward import query_policy
from evaluation.exact.symmetry_classes import MAX_CLASS_CELLS, canonical_rows, symmetry_tables, to_code
from ttt_envs.agents.policy import Policy, is_colour_blind, is_quick, is_symmetric
from ttt_envs.agents.specs import FromFile, make_policy
from ttt_envs.core.hash_index import KeyIndex, extend_rows
from ttt_envs.core.jit import Float64Array, Int8Array, Int64Array, UInt64Array, compiled, int8, int64
from ttt_envs.game.bits import to_bits
from ttt_envs.game.boards import Boards
from ttt_envs.game.rules import Game
from ttt_envs.game.symmetry import Symmetries, inverse, symmetries

MAX_CACHE_BYTES = 1 << 28
"""Maximum size of the cached answers of a policy in bytes; beyond it the policy is queried again."""
BYTES_PER_ANSWER = 64
"""Size in bytes of a cached answer with equal shares, including its key and its place in the index."""


class CachedPolicy:
    """A pure policy with a cache of its answers.

    One entry serves all positions that the policy declares to answer alike: symmetric positions, if it is symmetric,
    and positions with colours and mover exchanged, if it is colour-blind. Boards of more than 31 cells are not cached.

    Args:
        policy: a pure policy; it must not change in the meantime.
        game: the game.
        most: maximum size of the cache in bytes.

    Attributes:
        num_queries: number of positions on which the policy was queried.
    """

    pure: ClassVar[bool] = True

    def __init__(self, policy: Policy, game: Game, most: int = MAX_CACHE_BYTES) -> None:
        self.policy = policy
        self.game = game
        self.symmetric = is_symmetric(policy)
        self.colour_blind = is_colour_blind(policy)
        self.num_queries = 0
        self._left = most
        which: Symmetries = "all" if self.symmetric else "none"
        self._tables = symmetry_tables(game, which)
        self._permutations = symmetries(game, which)
        self._inverses = inverse(self._permutations)
        self._index = KeyIndex(1)
        self._cells = np.zeros(0, np.int64)
        """For each answer, the bit set of the cells with a nonzero probability."""
        self._share = np.zeros(0)
        """For each answer, the probability of each of these; if they differ, -1 - the answer's row in the next
        array."""
        self._uneven = np.zeros((0, game.cells))
        self._uneven_size = 0

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Float64Array:
        """Return move probabilities float64[B, cells]."""
        if self.game.cells > MAX_CLASS_CELLS:
            self.num_queries += len(boards.mover)
            return self.policy.probabilities(boards)
        codes, leaders = np.empty((2, len(boards.mover)), np.uint64)
        by = np.empty(len(codes), np.int64)
        _write_codes(np.ascontiguousarray(boards.cells), boards.mover, self.colour_blind, codes)
        canonical_rows(codes, self._tables, leaders, by)
        if not self.colour_blind:
            leaders |= boards.mover.astype(np.uint64) << np.uint64(63)
        rows = self._index.find(leaders[:, None])
        out = np.empty(boards.cells.shape)
        _read_answers(rows, by, self._inverses, self._cells, self._share, self._uneven, out)
        new = np.flatnonzero(rows < 0)
        if len(new):
            distinct, first, place = np.unique(leaders[new], return_index=True, return_inverse=True)
            chosen = new[first]
            cells = np.take_along_axis(boards.cells[chosen], self._permutations[by[chosen]], axis=1)
            answers = query_policy(self.policy, Boards(cells, boards.mover[chosen]))
            self.num_queries += len(chosen)
            self._store(distinct, answers)
            _rotate_answers(answers, place.ravel(), by[new], self._inverses, new, out)
        return out

    def _store(self, leaders: UInt64Array, answers: Float64Array) -> None:
        """Cache these answers as far as there is room."""
        cells, share = np.empty(len(answers), np.int64), np.empty(len(answers))
        uneven = _pack_answers(answers, cells, share)
        sizes = np.cumsum(BYTES_PER_ANSWER + 8 * self.game.cells * (share < 0))
        count = int(np.searchsorted(sizes, self._left, side="right"))
        if count == 0:
            return
        self._left -= int(sizes[count - 1])
        size = self._index.size
        if size + count > len(self._cells):
            capacity = max(1024, size + count, 2 * len(self._cells))
            self._index.reserve(capacity)
            self._cells, self._share = extend_rows(self._cells, capacity), extend_rows(self._share, capacity)
        self._index.rows(np.ascontiguousarray(leaders[:count, None]))
        rows = np.flatnonzero(share[:count] < 0)
        share[rows] = -1.0 - self._uneven_size - np.arange(len(rows))
        self._cells[size : size + count], self._share[size : size + count] = cells[:count], share[:count]
        if uneven:
            needed = self._uneven_size + len(rows)
            if needed > len(self._uneven):
                self._uneven = extend_rows(self._uneven, max(1024, needed, 2 * len(self._uneven)))
            self._uneven[self._uneven_size : needed] = answers[rows]
            self._uneven_size = needed

    def __str__(self) -> str:
        return str(self.policy)


def cached(policy: Policy, game: Game) -> Policy:
    """Return a pure policy with a cache, see :class:`CachedPolicy`; return any other, and a quick one, unchanged."""
    useless = isinstance(policy, CachedPolicy) or not policy.pure or is_quick(policy)
    return policy if useless else CachedPolicy(policy, game)


def make_policy_once(game: Game, policy: str | Policy) -> Policy:
    """Return a policy; that of a spec string is made once per process, because making it may take longer than its use.

    Raises:
        ValueError: an unknown policy.
    """
    if not isinstance(policy, str):
        return policy
    return _make_trusted_or_not(game, str(policy), not isinstance(policy, FromFile))


@lru_cache(maxsize=32)
def _make_trusted_or_not(game: Game, spec: str, trusted: bool) -> Policy:
    return make_policy(spec if trusted else FromFile(spec), game)


@compiled
def _write_codes(cells: Int8Array, mover: Int8Array, by_own: bool, codes: UInt64Array) -> None:
    """Write the codes of boards int8[B, cells], with the mover's stones first if ``by_own``."""
    for b in range(len(codes)):
        swapped = by_own and mover[b] == 1
        first, second = to_bits(cells[b], int8(1)), to_bits(cells[b], int8(2))
        codes[b] = to_code(second, first) if swapped else to_code(first, second)


@compiled
def _pack_answers(answers: Float64Array, cells: Int64Array, share: Float64Array) -> bool:
    """Write the cells with a nonzero probability and that probability, -1 if they differ; return whether any differ."""
    uneven = False
    for b in range(len(answers)):
        cells[b], share[b] = 0, 0.0
        for cell in range(answers.shape[1]):
            p = answers[b, cell]
            if p != 0:
                cells[b] |= int64(1) << cell
                if share[b] == 0:
                    share[b] = p if p > 0 else -1.0
                elif share[b] != p:
                    share[b] = -1.0
        uneven = uneven or share[b] < 0
    return uneven


@compiled
def _read_answers(
    rows: Int64Array,
    by: Int64Array,
    inverses: Int64Array,
    cells: Int64Array,
    share: Float64Array,
    uneven: Float64Array,
    out: Float64Array,
) -> None:
    """Write the cached answers of rows, -1 for none, in the boards' own orientation, into float64[B, cells]."""
    for b in range(len(rows)):
        row = rows[b]
        if row < 0:
            continue
        for cell in range(out.shape[1]):
            at = inverses[by[b], cell]
            if share[row] >= 0:
                out[b, cell] = share[row] if cells[row] >> at & 1 else 0.0
            else:
                out[b, cell] = uneven[int64(-1.0 - share[row]), at]


@compiled
def _rotate_answers(
    answers: Float64Array, place: Int64Array, by: Int64Array, inverses: Int64Array, rows: Int64Array, out: Float64Array
) -> None:
    """Write answers for canonical boards, in the boards' own orientation, into rows of float64[B, cells]."""
    for b in range(len(rows)):
        for cell in range(out.shape[1]):
            out[rows[b], cell] = answers[place[b], inverses[by[b], cell]]
