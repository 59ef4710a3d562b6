"""All decisions of a learner in a small game, with exact values and the exact policy gradient."""

from __future__ import annotations

import re

import numpy as np

from ttt_envs.agents.policy import Policy, normalise
from ttt_envs.agents.specs import make_pure
from ttt_envs.arrays import RESULTS, GameArrays, game_arrays
from ttt_envs.core.checks import Refusal, check_choice
from ttt_envs.core.jit import Float64Array
from ttt_envs.core.records import concatenate
from ttt_envs.game.game import Game
from ttt_eval.exact.decision_values import ActionModel, DecisionValues, model_both

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
        rows, columns, win_length = map(int, numbers.groups())
        game = Game(rows, columns, win_length, SKIP_CHANCE)
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
        actions: what actions lead to.
        boards: the positions of the decisions, [S].
        signs: float64[S], 1 where the first player moves, -1 where the second does.
        legal: bool[S, A].
        policy: float64[S, A].
        results: float64[3], the shifted results of a win, a draw and a loss.
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
        check_choice("seats", tuple(seats), ((0,), (1,), BOTH))
        self.game = game
        self.self_play = tuple(seats) == BOTH
        self.discount = discount
        arrays = game_arrays(game)
        policies = list_policies(policy, game, arrays)
        if self.self_play:
            self.actions: ActionModel = model_both(arrays)
        else:
            self.actions = DecisionValues(arrays, policies[1 - seats[0]], seats[0])
        movers = np.repeat(seats, len(self.actions.rows) // len(seats))
        boards = concatenate([arrays.boards(seat) for seat in BOTH])
        self.boards = boards.take(self.actions.rows + arrays.over * movers)
        self.signs = 1.0 - 2.0 * movers
        self.legal = self.actions.allowed
        self.policy: Float64Array = np.stack(policies)[movers, self.actions.rows]
        self.results = RESULTS + shift
        total = self.actions.start.sum()
        self.start = self.actions.start / total
        self.visits = self.actions.visits(self.policy) / total
        rewards = self.actions.expect_results(self.results)
        self.values, action_values = self.actions.policy_values(self.policy, rewards, discount)
        self.advantages = np.where(self.legal, action_values - self.values[:, None], 0.0)
        if not np.abs(self.advantages * self.policy).max() > ROUNDING:
            raise Refusal(f"{policy} has no gradient in {game}: choose 2x3/3, and a softmax policy")


def list_policies(policy: int | str | Policy, game: Game, arrays: GameArrays) -> list[Float64Array]:
    """Return the probabilities of actions, float64[S, A], of the first and of the second player.

    Args:
        policy: a pure policy; or the seed of random logits, equal for both players.
        game: the game.
        arrays: of the game.
    """
    if isinstance(policy, int):
        legal = arrays.legal[:-1]
        logits = np.random.default_rng(policy).normal(0, SPREAD, legal.shape)
        table = normalise(legal * np.exp(logits))
        return [table, table]
    pure = make_pure(policy, game)
    return [arrays.policy_table(pure, seat) for seat in BOTH]
