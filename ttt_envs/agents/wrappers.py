"""Policies made symmetric, or pure by samples, and checks of declared symmetry and
colour-blindness.
"""

from __future__ import annotations

import numpy as np

from ttt_envs.agents.policy import SHARE_TOLERANCE, VALUE_TOLERANCE, GreedyPolicy, Policy
from ttt_envs.core.checks import Refusal, check_range
from ttt_envs.core.jit import Float64Array, Int64Array
from ttt_envs.core.random import kept_generators, seed_generators
from ttt_envs.game.boards import Boards, to_text
from ttt_envs.game.game import Game
from ttt_envs.game.symmetry import inverse, symmetries


class SymmetrizedPolicy(GreedyPolicy):
    """Plays by the action values of a policy averaged over all symmetries of the board: equal
    shares for the best.

    Moves whose means differ by at most 1e-9 count as equally good, because rounding depends on the
    symmetry.

    Args:
        policy: pure, with values.
        game: the game.

    Raises:
        ValueError: the policy is not pure, or has no action values.
    """

    symmetric = True
    tie = VALUE_TOLERANCE

    def __init__(self, policy: Policy, game: Game) -> None:
        if not policy.pure or policy.action_values is None:
            raise Refusal(
                f"{policy} has no values of moves to average: choose a pure policy that has them"
            )
        self.policy = policy
        self.colour_blind = policy.colour_blind
        self._action_values = policy.action_values
        self._permutations = symmetries(game)
        self._inverses = inverse(self._permutations)

    def action_values(self, boards: Boards) -> Float64Array:
        """Return float64[B, cells], for the mover, NaN where illegal."""
        total = np.zeros(boards.cells.shape)
        for permutation, back in zip(self._permutations, self._inverses, strict=True):
            symmetric = Boards(np.ascontiguousarray(boards.cells[:, permutation]), boards.mover)
            total += self._action_values(symmetric)[:, back]
        return total / len(self._permutations)

    def __str__(self) -> str:
        return f"the mean over symmetries of {self.policy}"


class SampledPolicy(Policy):
    """A pure policy made of a random one: the mean of its answers to the same question.

    Each position is asked about once, with generators seeded by it, and the answer is kept.

    Args:
        policy: the random policy.
        samples: number of its answers in each position.
        seed: of all random numbers.

    Raises:
        ValueError: a number is out of range.
    """

    def __init__(self, policy: Policy, samples: int, seed: int) -> None:
        check_range("samples", samples, 1, problem="leaves nothing to ask")
        check_range("seed", seed, 0)
        self.policy = policy
        self.samples = samples
        self.seed = seed
        self._answers: dict[tuple[int, ...], Float64Array] = {}

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Float64Array:
        """Return float64[B, cells]: the share of each move in the samples."""
        shares = np.empty(boards.cells.shape)
        for row, (cells, mover) in enumerate(zip(*boards, strict=True)):
            key = int(mover), *cells.tolist()
            if key not in self._answers:
                own_rng = np.random.default_rng([self.seed, *key])
                questions = boards.take(np.full(self.samples, row))
                with kept_generators():
                    seed_generators(int(own_rng.integers(1 << 32)))
                    answers = self.policy.probabilities(questions, own_rng)
                self._answers[key] = answers.mean(axis=0)
            shares[row] = self._answers[key]
        return shares

    def __str__(self) -> str:
        return f"{self.policy}, the mean of {self.samples} samples"


def check_symmetric(policy: Policy, game: Game, boards: Boards) -> None:
    """Check that a policy is equivariant under the symmetries of the board, see :class:`Policy`.

    Args:
        policy: pure.
        game: the game.
        boards: positions that are not over.

    Raises:
        ValueError: it is not equivariant; the message names a position and the symmetry.
    """
    change = "a symmetry of the torus" if game.torus else "a rotation or reflection"
    for permutation in symmetries(game):
        symmetric = Boards(np.ascontiguousarray(boards.cells[:, permutation]), boards.mover)
        _check_same(policy, game, boards, symmetric, permutation, change)


def check_colour_blind(policy: Policy, game: Game, boards: Boards) -> None:
    """Check that a policy has the same probabilities after exchange of stones and mover, see
    :class:`Policy`.

    Args:
        policy: pure.
        game: the game.
        boards: positions that are not over and stay reachable after the exchange; this needs turns
            that are skipped, and stones of both players.

    Raises:
        ValueError: it is not colour-blind; the message names a position.
    """
    cells = np.where(boards.cells == 0, 0, 3 - boards.cells).astype(np.int8)
    opposite = Boards(cells, 1 - boards.mover)
    _check_same(policy, game, boards, opposite, np.arange(game.cells), "exchanged colours")


def _check_same(
    policy: Policy,
    game: Game,
    boards: Boards,
    twins: Boards,
    permutation: Int64Array,
    change: str,
) -> None:
    """Check that permuted probabilities in ``boards`` are those in ``twins``, which differ by a
    change.
    """
    difference = np.abs(
        policy.probabilities(twins) - policy.probabilities(boards)[:, permutation]
    ).max(axis=1)
    for row in np.flatnonzero(~(difference <= SHARE_TOLERANCE))[:1]:
        texts = [repr(to_text(positions.position(int(row)), game)) for positions in (boards, twins)]
        raise Refusal(
            f"{policy} answers {' and '.join(texts)} differently, by {difference[row]:.2g}: they "
            f"are the same position up to {change}"
        )
