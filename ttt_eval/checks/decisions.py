"""All decisions of a learner in a small game, with exact values and the exact policy gradient."""

from __future__ import annotations

import re

import numpy as np

from ttt_envs.agents.policy import normalise
from ttt_envs.arrays import RESULTS, game_arrays
from ttt_envs.core.checks import Refusal, check_choice
from ttt_envs.core.jit import Float64Array
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
        game: the game, or its name, see :func:`parse_game`.
        seats: of the learner: (0,) moves first, (1,) second, (0, 1) both.
        policy: the seed of random logits, equal for both players.
        discount: for each decision.
        shift: added to all results against an opponent, which leaves the gradient without discount
            as it is.

    Attributes:
        actions: what actions lead to.
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
        game: str | Game,
        seats: tuple[int, ...] = (0,),
        policy: int = 0,
        *,
        discount: float = 1.0,
        shift: float = 0.0,
    ) -> None:
        check_choice("seats", tuple(seats), ((0,), (1,), BOTH))
        self.game = parse_game(game)
        self.self_play = tuple(seats) == BOTH
        self.discount = discount
        arrays = game_arrays(self.game)
        legal = arrays.legal[:-1]
        logits = np.random.default_rng(policy).normal(0, SPREAD, legal.shape)
        table = normalise(legal * np.exp(logits))
        if self.self_play:
            self.actions: ActionModel = model_both(arrays)
        else:
            self.actions = DecisionValues(arrays, table, seats[0])
        self.signs = 1.0 - 2.0 * np.repeat(seats, len(self.actions.rows) // len(seats))
        self.legal = self.actions.allowed
        self.policy: Float64Array = table[self.actions.rows]
        self.results = RESULTS + shift * (not self.self_play)
        total = self.actions.start.sum()
        self.start = self.actions.start / total
        self.visits = self.actions.visits(self.policy) / total
        self.values, action_values = self.actions.policy_values(
            self.policy, self.actions.expect_results(self.results), discount
        )
        self.advantages = np.where(self.legal, action_values - self.values[:, None], 0.0)
        if not np.abs(self.advantages * self.policy).max() > ROUNDING:
            raise Refusal(f"there is no gradient in {self.game}: choose 2x3/3")
