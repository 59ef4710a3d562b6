"""Cache of a pure policy's answers, shared between symmetric positions and between seats where the
policy allows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar, cast

import numpy as np

from ttt_envs.agents.policy import Policy
from ttt_envs.agents.specs import make_policy, trusted
from ttt_envs.core.hash_index import KeyIndex, distinct_rows, extend_rows
from ttt_envs.core.jit import Float64Array, UInt64Array
from ttt_envs.game.boards import Boards, num_words
from ttt_envs.game.phantom import AnyGame
from ttt_envs.game.symmetry import canonical_keys, inverse, symmetries
from ttt_envs.graph.layers import query_policy
from ttt_eval.store.policy_identity import policy_identity

Product = TypeVar("Product")

MAX_CACHE_BYTES = 1 << 28
"""Maximum size of the cached answers of a policy in bytes; beyond it the policy is queried again.
"""


class CachedPolicy(Policy):
    """A pure policy with a cache of its answers.

    One entry serves all positions that the policy declares to answer alike: symmetric positions, if
    it is symmetric, and positions with colours and mover exchanged, if it is colour-blind.

    Args:
        policy: a pure policy; it must not change in the meantime.
        game: the game.

    Attributes:
        num_queries: number of positions on which the policy was queried.
    """

    def __init__(self, policy: Policy, game: AnyGame) -> None:
        self.policy = policy
        self.game = game
        self.symmetric = policy.symmetric
        self.colour_blind = policy.colour_blind
        self.num_queries = 0
        self._permutations = symmetries(game, "all" if self.symmetric else "none")
        self._inverses = inverse(self._permutations)
        self._index = KeyIndex(num_words(game.cells) + 1)
        self._answers = np.zeros((0, game.cells))
        """answers on canonical boards, in the order of the index"""

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Float64Array:
        """Return move probabilities float64[B, cells]."""
        cells = boards.own_first() if self.colour_blind else boards.cells
        class_keys, is_canonical = canonical_keys(cells, self._permutations)
        symmetry = is_canonical.argmax(axis=1)
        mover = np.where(self.colour_blind, 0, boards.mover)
        keys = np.concatenate([class_keys, mover[:, None].astype(np.uint64)], axis=1)
        rows = self._index.find(keys)
        out = self._answers[rows] if len(self._answers) else np.empty(cells.shape)
        missing = np.flatnonzero(rows < 0)
        if len(missing):
            first, answer_of_missing = distinct_rows(keys[missing])
            queries = missing[first]
            permutations = self._permutations[symmetry[queries]]
            canonical_cells = np.take_along_axis(boards.cells[queries], permutations, axis=1)
            answers = query_policy(self.policy, Boards(canonical_cells, boards.mover[queries]))
            self.num_queries += len(queries)
            out[missing] = answers[answer_of_missing]
            self._store(keys[queries], answers)
        return np.take_along_axis(out, self._inverses[symmetry], axis=1)

    def _store(self, keys: UInt64Array, answers: Float64Array) -> None:
        """Add answers to the cache as long as there is room."""
        capacity = MAX_CACHE_BYTES // (self.game.cells * 8)
        count = max(0, capacity - self._index.size)
        rows = self._index.rows(keys[:count])
        if len(self._answers) < len(self._index.keys):
            self._answers = extend_rows(self._answers, len(self._index.keys))
        self._answers[rows] = answers[:count]

    def __str__(self) -> str:
        return str(self.policy)


def cached(policy: Policy, game: AnyGame) -> Policy:
    """Return a pure policy with a cache, see :class:`CachedPolicy`; return any other, and a quick
    one, unchanged.
    """
    useless = isinstance(policy, CachedPolicy) or not policy.pure or policy.quick
    return policy if useless else CachedPolicy(policy, game)


def make_policy_once(game: AnyGame, policy: str | Policy) -> Policy:
    """Return a policy; that of a spec string is made once per process and identity
    (:func:`policy_identity`), because making it may take longer than its use.

    Raises:
        ValueError: an unknown policy.
    """
    if not isinstance(policy, str):
        return make_policy(policy, game)
    return make_once(make_policy, policy, game)


def make_once(make: Callable[[str, Any], Product], spec: str, game: AnyGame) -> Product:
    """Return ``make(spec, game)``, made once per process as long as the files on which the policy
    depends stay.

    Args:
        make: a module-level function.
        spec: of a policy.
        game: the game.

    Raises:
        Exception: as ``make``.
    """
    if "__main__:" in spec:  # a notebook may define its class again
        return make(spec, game)
    return cast("Product", _make_once(make, spec, game, trusted(), policy_identity(spec)))


@lru_cache(maxsize=32, typed=True)  # a FromFile is another spec than an equal string
def _make_once(
    make: Callable[[str, Any], Any], spec: str, game: AnyGame, _trusts_files: bool, _identity: str
) -> Any:
    return make(spec, game)
