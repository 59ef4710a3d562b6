"""Policies made of other policies: peeking and symmetrised; and checks of declared symmetry and colour-blindness."""

from __future__ import annotations

import numpy as np

from ttt_envs.agents.policy import SHARE_TOLERANCE, VALUE_TOLERANCE, Policy, best_shares
from ttt_envs.core.jit import Float64Array, Int64Array
from ttt_envs.game.boards import Boards, to_text
from ttt_envs.game.game import Game
from ttt_envs.game.symmetry import inverse, symmetries


class Peeking(Policy):
    """A policy of the game with visible stones in a phantom game: it is asked about positions and not about views.

    It sees all stones, and so it never attempts an occupied cell. Environments and exact evaluation hand it the
    position; what it plays is no strategy of the phantom game.

    Args:
        policy: of the game with visible stones.
    """

    peeks = True

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        for name in ("pure", "probabilities", "act"):
            setattr(self, name, getattr(policy, name))

    def __str__(self) -> str:
        spec = str(self.policy)
        return f"{spec}{',' if ':' in spec else ':'}peeking=true"


class SymmetrizedPolicy(Policy):
    """Plays by the action values of a policy averaged over all symmetries of the board: equal shares for the best.

    Moves whose means differ by at most 1e-9 count as equally good, because rounding depends on the symmetry.

    Args:
        policy: pure, with values.
        game: the game.

    Raises:
        ValueError: the policy is not pure, or has no action values.
    """

    symmetric = True
    colour_blind: bool

    def __init__(self, policy: Policy, game: Game) -> None:
        if not policy.pure or policy.action_values is None:
            raise ValueError(f"{policy} has no values of moves to average: choose a pure policy that has them")
        self.policy, self.colour_blind = policy, policy.colour_blind
        self._action_values = policy.action_values
        self._permutations = symmetries(game)
        self._inverses = inverse(self._permutations)

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Float64Array:
        """Return float64[B, cells]: equal shares for the moves of highest mean value."""
        return best_shares(self.action_values(boards), VALUE_TOLERANCE)

    def action_values(self, boards: Boards) -> Float64Array:
        """Return float64[B, cells], for the mover, NaN where illegal."""
        total = np.zeros(boards.cells.shape)
        for permutation, back in zip(self._permutations, self._inverses, strict=True):
            symmetric = Boards(np.ascontiguousarray(boards.cells[:, permutation]), boards.mover)
            total += self._action_values(symmetric)[:, back]
        return np.asarray(total / len(self._permutations))

    def values(self, boards: Boards) -> Float64Array:
        """Return float64[B], for the mover."""
        return np.asarray(np.nanmax(self.action_values(boards), axis=1))

    def __str__(self) -> str:
        return f"the mean over symmetries of {self.policy}"


def check_symmetric(policy: Policy, game: Game, boards: Boards) -> None:
    """Check that a policy is equivariant under the symmetries of the board, see :class:`Policy`.

    Args:
        policy: pure.
        game: the game.
        boards: positions that are not over.

    Raises:
        ValueError: it is not equivariant; the message names a position.
    """
    for permutation in symmetries(game):
        symmetric = Boards(np.ascontiguousarray(boards.cells[:, permutation]), boards.mover)
        _check_same(policy, game, boards, symmetric, permutation, "symmetric")


def check_colour_blind(policy: Policy, game: Game, boards: Boards) -> None:
    """Check that a policy has the same probabilities after exchange of stones and mover, see :class:`Policy`.

    Args:
        policy: pure.
        game: the game.
        boards: positions that are not over and stay reachable after the exchange; this needs turns that are skipped,
            and stones of both players.

    Raises:
        ValueError: it is not colour-blind; the message names a position.
    """
    exchanged = Boards(np.where(boards.cells == 0, 0, 3 - boards.cells).astype(np.int8), 1 - boards.mover)
    _check_same(policy, game, boards, exchanged, np.arange(game.cells), "colour-blind")


def _check_same(
    policy: Policy, game: Game, boards: Boards, others: Boards, permutation: Int64Array, declaration: str
) -> None:
    """Check that permuted probabilities in ``boards`` are those in ``others``."""
    differences = np.abs(policy.probabilities(others) - policy.probabilities(boards)[:, permutation])
    wrong = np.flatnonzero(~(differences <= SHARE_TOLERANCE).all(axis=1))
    if len(wrong):
        row = int(wrong[0])
        raise ValueError(
            f"{policy} is not {declaration}: it answers {to_text(boards.position(row), game)!r} and "
            f"{to_text(others.position(row), game)!r} differently, by {differences[row].max():.2g}"
        )
