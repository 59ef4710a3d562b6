"""All decisions of a learner in a small game, with exact values and the exact policy gradient."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ttt_envs.agents.policy import Policy
from ttt_envs.agents.softmax_table import PositionIndex, SoftmaxTable
from ttt_envs.agents.specs import make_pure
from ttt_envs.arrays import RESULTS, GameArrays, against, game_arrays, to_matrix
from ttt_envs.core.checks import Refusal
from ttt_envs.core.jit import BoolArray, Float64Array
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game

if TYPE_CHECKING:
    from scipy.sparse import csr_array

SKIP_CHANCE = 0.25
"""Probability of another turn in games given by name."""
SPREAD = 0.7
"""Standard deviation of the logits of a random policy."""
ROUNDING = 1e-12
MAX_CELLS = 9
BOTH = (0, 1)
"""Seats of self-play."""


def parse_game(game: str | Game) -> Game:
    """Return a game, or that of a name such as "2x3/3": rows, columns, and stones in a line to win.

    Raises:
        ValueError: another form, or more than nine cells.
    """
    if isinstance(game, str):
        numbers = re.fullmatch(r"(\d)x(\d)/(\d)", game)
        if not numbers:
            raise Refusal(f"game {game!r} is unknown: write rows x columns / win length, as 2x3/3")
        game = Game.of_size((int(numbers[1]), int(numbers[2])), int(numbers[3]), SKIP_CHANCE)
    if game.cells > MAX_CELLS or game.gravity:
        raise Refusal(f"{game} is too large for exact gradients: choose 2x3/3 or 3x3/3")
    return game


class DecisionModel:
    """The S decisions of a learner against a fixed opponent, or of both players in self-play.

    A step leads from a decision to the learner's next one, or to the end of the game. Values are
    those of the mover. Games that end before the learner's first decision do not count.

    Args:
        game: the game.
        seats: of the learner: (0,) moves first, (1,) second, (0, 1) both.
        policy: of both players: the seed of random logits, or a pure policy.
        discount: for each decision.
        shift: added to all results, which leaves the gradient without discount as it is.

    Attributes:
        boards: the positions of the decisions, [S].
        signs: float64[S], 1 where the first player moves, -1 where the second does.
        legal: bool[S, A].
        policy: float64[S, A].
        outcomes: sparse float64[S * A, S + 3], probability of the learner's next decision, or that
            the game ends before it, with a win, a draw or a loss of the mover.
        gains: float64[S, A], expected reward of a decision, without the shift.
        start: float64[S], distribution of the first decision.
        values: float64[S].
        advantages: float64[S, A], 0 where illegal.
        visits: float64[S], expected number in a game.
    """

    def __init__(
        self,
        game: Game,
        seats: tuple[int, ...] = (0,),
        policy: int | str | Policy = 0,
        *,
        discount: float = 1.0,
        shift: float = 0.0,
    ) -> None:
        from scipy.sparse import vstack

        if tuple(seats) not in ((0,), (1,), BOTH):
            raise Refusal(f"seats {seats} are unknown: choose (0,), (1,) or (0, 1)")
        self.game = game
        self.self_play = tuple(seats) == BOTH
        self.discount = discount
        self.shift = shift
        arrays = game_arrays(game)
        both = [arrays.boards(seat) for seat in BOTH]
        boards = Boards(*map(np.concatenate, zip(*both, strict=True)))
        player = make_player(policy, game, arrays, boards)
        if self.self_play:
            rows = np.arange(2 * arrays.over)
            start = np.eye(1, len(rows))[0]
            transitions: Sequence[csr_array] = list_turns(arrays)
        else:
            process = against(arrays, player, seats[0])
            rows = process.rows + arrays.over * seats[0]
            start = process.start[: len(rows)]
            transitions = process.transitions
        shares = np.concatenate([arrays.policy_table(player, seat) for seat in BOTH])
        self.boards = boards.take(rows)
        self.signs = 1.0 - 2.0 * self.boards.mover
        self.legal: BoolArray = np.asarray(self.boards.cells == 0)
        self.policy: Float64Array = shares[rows]
        self.start: Float64Array = start / start.sum()
        order = np.arange(self.legal.size).reshape(self.legal.shape[::-1]).T.ravel()
        columns = [*range(len(rows)), *range(-len(RESULTS), 0)]
        moves = vstack([matrix[: len(rows)] for matrix in transitions]).tocsr()
        self.outcomes: csr_array = moves[order][:, columns]
        self.next = self.outcomes[:, : len(rows)]
        ends = self.outcomes[:, len(rows) :]
        self.gains: Float64Array = (ends @ RESULTS).reshape(self.legal.shape)
        shifts = shift * (ends @ np.ones(len(RESULTS))).reshape(self.legal.shape)
        self.values, action_values = self.evaluate(self.gains + shifts, discount=discount)
        self.advantages = np.where(self.legal, action_values - self.values[:, None], 0.0)
        self.visits = self.start
        for _ in range(game.cells):
            moves = (self.visits[:, None] * self.policy).ravel()
            self.visits = self.start + moves @ self.next
        if not np.abs(self.advantages * self.policy).max() > ROUNDING:
            raise Refusal(f"{policy} has no gradient in {game}: choose 2x3/3, and a softmax policy")

    def evaluate(
        self,
        terms: Float64Array,
        policy: Float64Array | None = None,
        *,
        discount: float = 1.0,
        signs: Float64Array | None = None,
    ) -> tuple[Float64Array, Float64Array]:
        """Return the expected sum of terms from each decision on, float64[S], and from each move
        on, float64[S, A], for the mover.

        Args:
            terms: float64[S, A], for the mover.
            policy: of the learner, float64[S, A], by default its own.
            discount: for each decision.
            signs: float64[S]; by default the other player's terms count negative.
        """
        policy = self.policy if policy is None else policy
        own_signs = np.asarray(self.signs if signs is None else signs, np.float64)
        values = np.zeros(len(self.signs))
        for _ in range(self.game.cells + 1):
            following = (self.next @ (own_signs * values)).reshape(self.legal.shape)
            action_values = terms + discount * own_signs[:, None] * following
            values = (policy * action_values).sum(axis=1)
        return values, action_values


def list_turns(arrays: GameArrays) -> list[csr_array]:
    """Return what each action leads to when both players decide, A matrices float64[2 S, 2 S + 3]:
    the positions of the first and of the second player, and the mover's win, draw and loss.
    """
    from scipy.sparse import block_array

    count, num_actions = arrays.legal[:-1].shape
    turns = []
    for action in range(num_actions):
        moves = np.tile(np.eye(num_actions)[action], (count, 1))
        other, same = (to_matrix(arrays, moves, 1, turn)[:count] for turn in (0, 1))
        ends = other[:, -len(RESULTS) :]
        other = other[:, :count]
        same = same[:, :count]
        turns.append(block_array([[same, other, ends], [other, same, ends]]).tocsr())
    return turns


def make_player(
    policy: int | str | Policy, game: Game, arrays: GameArrays, boards: Boards
) -> Policy:
    """Return a pure policy; of a seed that with random logits, equal for both players.

    Args:
        policy: a seed, or a policy.
        game: the game.
        arrays: of the game.
        boards: its positions, of the first and of the second player.
    """
    if not isinstance(policy, int):
        return make_pure(policy, game)
    logits = np.random.default_rng(policy).normal(0, SPREAD, (arrays.over, game.cells))
    return SoftmaxTable(PositionIndex(game, boards), np.tile(logits, (2, 1)))
