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

Made = TypeVar("Made")

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
        self.policy, self.game = policy, game
        self.symmetric, self.colour_blind = policy.symmetric, policy.colour_blind
        self.num_queries = 0
        self._permutations = symmetries(game, "all" if self.symmetric else "none")
        self._inverses = inverse(self._permutations)
        self._index = KeyIndex(num_words(game.cells) + 1)
        self._answers = np.zeros((0, game.cells))
        """answers on canonical boards, in the order of the index"""

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Float64Array:
        """Return move probabilities float64[B, cells]."""
        cells = boards.own_first() if self.colour_blind else boards.cells
        least, same = canonical_keys(cells, self._permutations)
        by, mover = same.argmax(axis=1), np.where(self.colour_blind, 0, boards.mover)
        keys = np.concatenate([least, mover[:, None].astype(np.uint64)], axis=1)
        rows = self._index.find(keys)
        out = self._answers[rows] if len(self._answers) else np.empty(cells.shape)
        new = np.flatnonzero(rows < 0)
        if len(new):
            first, place = distinct_rows(keys[new])
            chosen = new[first]
            turned = np.take_along_axis(
                boards.cells[chosen], self._permutations[by[chosen]], axis=1
            )
            answers = query_policy(self.policy, Boards(turned, boards.mover[chosen]))
            self.num_queries += len(chosen)
            out[new] = answers[place]
            self._store(keys[chosen], answers)
        return np.take_along_axis(out, self._inverses[by], axis=1)

    def _store(self, keys: UInt64Array, answers: Float64Array) -> None:
        """Add answers to the cache as long as there is room."""
        room = MAX_CACHE_BYTES // (self.game.cells * 8) - self._index.size
        keys, answers = keys[: max(0, room)], answers[: max(0, room)]
        rows = self._index.rows(keys)
        if len(self._answers) < len(self._index.keys):
            self._answers = extend_rows(self._answers, len(self._index.keys))
        self._answers[rows] = answers

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
    return (
        make_policy(policy, game)
        if not isinstance(policy, str)
        else make_once(make_policy, policy, game)
    )


def make_once(make: Callable[[str, Any], Made], spec: str, game: AnyGame) -> Made:
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
    return cast("Made", _make_once(make, spec, game, trusted(), policy_identity(spec)))


@lru_cache(maxsize=32, typed=True)  # a FromFile is another spec than an equal string
def _make_once(
    make: Callable[[str, Any], Any], spec: str, game: AnyGame, _trusts_files: bool, _identity: str
) -> Any:
    return make(spec, game)
