"""All decisions of a learner in a small game, with exact values and the exact policy gradient."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ttt_envs.agents.policy import Policy
from ttt_envs.agents.specs import make_pure
from ttt_envs.core.checks import Refusal
from ttt_envs.core.hash_index import find_sorted
from ttt_envs.core.jit import BoolArray, Float64Array, Int64Array
from ttt_envs.game.boards import Boards, play_moves, position_keys
from ttt_envs.game.game import Game
from ttt_envs.game.rules import DRAW, NOT_OVER
from ttt_envs.graph.layers import all_positions

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
NUM_RESULTS = 3
"""Results of a game for the mover: loss, draw, win."""


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


def _list_moves(game: Game, boards: Boards) -> csr_array:
    """Return the probability of what follows each move in P positions, float64[P * cells, P + 3]:
    the next position, or the first player's loss, a draw, or win.
    """
    from scipy.sparse import csr_array

    rows, actions = np.nonzero(boards.cells == 0)
    cells, outcomes = play_moves(game, boards, rows, actions)
    movers = boards.mover[rows]
    places = rows * game.cells + actions
    is_over = outcomes != NOT_OVER
    count = len(boards.mover)
    results = np.where(outcomes == DRAW, 1, 2 - 2 * outcomes.astype(np.int64))[is_over]
    parts = [(places[is_over], count + results, 1.0)]
    keys = position_keys(boards)
    order = np.argsort(keys)
    for next_movers, chance in ((1 - movers, 1 - game.skip_chance), (movers, game.skip_chance)):
        next_boards = Boards(cells[~is_over], next_movers[~is_over])
        if chance:
            found = find_sorted(keys[order], position_keys(next_boards))
            parts.append((places[~is_over], order[found], chance))
    chances = np.concatenate([np.full(len(place), chance) for place, _, chance in parts])
    targets = np.concatenate([target for _, target, _ in parts])
    entries = chances, (np.concatenate([place for place, _, _ in parts]), targets)
    return csr_array(entries, shape=(count * game.cells, count + NUM_RESULTS))


class DecisionModel:
    """The S decisions of a learner against a fixed opponent, or of both players in self-play.

    A step leads from a decision to the learner's next one, or to the end of the game. Values are
    those of the mover.

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
        next: sparse float64[S * A, S], probability of the learner's next decision.
        ends: float64[S * A, 3], probability that the game ends before it, with a loss, a draw or a
            win of the mover.
        results: float64[3], the rewards of these ends.
        start: float64[S], distribution of the first decision.
        values: float64[S].
        advantages: float64[S, A], 0 where illegal.
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
        from scipy.sparse import csr_array, diags_array, vstack

        if tuple(seats) not in ((0,), (1,), BOTH):
            raise Refusal(f"seats {seats} are unknown: choose (0,), (1,) or (0, 1)")
        self.game = game
        self.self_play = tuple(seats) == BOTH
        self.discount = discount
        boards = all_positions(game)
        moves = _list_moves(game, boards)
        legal = boards.cells == 0
        probabilities = _probabilities(policy, boards, game)
        own = np.isin(boards.mover, seats)
        count, num_actions = legal.shape
        each = np.repeat(np.arange(count), num_actions)
        choice = csr_array((probabilities.ravel(), (each, np.arange(len(each)))))
        absorbing = np.concatenate([own, np.ones(NUM_RESULTS)])
        following = vstack([choice @ moves, csr_array((NUM_RESULTS, moves.shape[1]))])
        step = diags_array(1 - absorbing) @ following + diags_array(absorbing)
        reach = moves
        first = csr_array((np.ones(1), ([0], [0])), shape=(1, moves.shape[1]))
        for _ in range(num_actions):
            reach = reach @ step
            first = first @ step
        rows = np.flatnonzero(own)
        pairs = (rows[:, None] * num_actions + np.arange(num_actions)).ravel()
        self.boards = boards.take(own)
        self.signs = 1.0 - 2.0 * self.boards.mover
        self.legal: BoolArray = legal[own]
        self.policy: Float64Array = probabilities[own]
        self.next = csr_array(reach[pairs][:, rows])
        ends = reach[pairs][:, count:].toarray()
        self.ends: Float64Array = np.where(
            np.repeat(self.signs, num_actions)[:, None] > 0, ends, ends[:, ::-1]
        )
        self.results = np.array([-1.0, 0.0, 1.0]) + shift
        start = first[:, rows].toarray()[0]
        self.start: Float64Array = start / start.sum()
        self.gains = (self.ends @ self.results).reshape(self.legal.shape)
        self.ending = self.ends.sum(axis=1).reshape(self.legal.shape)
        self.values, action_values = self.evaluate(self.gains, discount)
        self.advantages = np.where(self.legal, action_values - self.values[:, None], 0.0)
        if np.abs(self.gradient(self.visits())).max() < ROUNDING:
            raise Refusal(f"{policy} has no gradient in {game}: choose 2x3/3, and a softmax policy")

    def evaluate(
        self, terms: Float64Array, discount: float = 1.0, policy: Float64Array | None = None
    ) -> tuple[Float64Array, Float64Array]:
        """Return the expected sum of terms from each decision on, float64[S], and from each move
        on, float64[S, A], for the mover.

        Args:
            terms: float64[S, A], for the mover.
            discount: for each decision.
            policy: of the learner, float64[S, A], by default its own.
        """
        policy = self.policy if policy is None else policy
        values = np.zeros(len(self.signs))
        for _ in range(self.game.cells):
            action_values = terms + discount * self.ahead(values)
            values = (policy * action_values).sum(axis=1)
        return values, action_values

    def ahead(self, values: Float64Array) -> Float64Array:
        """Return the expected value of the next decision for the mover, 0 after the end,
        float64[S, A].
        """
        own = self.signs[:, None] * (self.next @ (self.signs * values)).reshape(self.legal.shape)
        return np.asarray(own)

    def forward(self, distribution: Float64Array) -> Float64Array:
        """Return the distribution over the next decisions, whose rest is the chance of an end."""
        return np.asarray((distribution[:, None] * self.policy).ravel() @ self.next)

    def visits(self, steps: int | None = None, burn_in: int = 0) -> Float64Array:
        """Return the expected number of visits, float64[S].

        Args:
            steps: of a rollout through ends of games, of which the mean is returned; None for one
                episode.
            burn_in: steps before the rollout.
        """
        total = np.zeros(len(self.start))
        now = self.start
        for step in range((steps or self.game.cells) + burn_in):
            if step >= burn_in:
                total += now / (steps or 1)
            now = self.forward(now)
            if steps:
                now = now + (1 - now.sum()) * self.start
        return total

    def gradient(self, visits: Float64Array) -> Float64Array:
        """Return the exact policy gradient in the logits, float64[S, A], with visits float64[S]."""
        return np.asarray(visits[:, None] * self.policy * self.advantages)

    def sum_scores(self, sums: Float64Array) -> Float64Array:
        """Return gradients, float64[K, S * A], from sums of advantages, float64[K, S * A]."""
        by_state = sums.reshape(len(sums), *self.legal.shape)
        centre = self.policy * by_state.sum(axis=2, keepdims=True)
        return np.asarray((by_state - centre).reshape(len(sums), -1))

    @cached_property
    def _outcomes(self) -> csr_array:
        """float64[S * A, S + 3]: next decisions, then ends."""
        from scipy.sparse import csr_array, hstack

        return csr_array(hstack([self.next, csr_array(self.ends)]))

    def draw_actions(self, states: Int64Array, rng: np.random.Generator) -> Int64Array:
        """Return random moves of the policy."""
        sums = np.cumsum(self.policy[states], axis=1)
        draws = rng.random((len(states), 1)) * sums[:, -1:]
        return np.asarray((sums <= draws).sum(axis=1))

    def draw_next(
        self, states: Int64Array, actions: Int64Array, rng: np.random.Generator
    ) -> Int64Array:
        """Return what follows moves: the next decision, or S + 0, 1, 2 for a loss, draw or win."""
        table = self._outcomes
        sums = np.concatenate([[0.0], np.cumsum(table.data)])
        pairs = states * self.game.cells + actions
        low = table.indptr[pairs]
        high = table.indptr[pairs + 1]
        draws = sums[low] + rng.random(len(pairs)) * (sums[high] - sums[low])
        places = np.clip(np.searchsorted(sums, draws, side="right") - 1, low, high - 1)
        return np.asarray(table.indices[places])

    def episodes(self) -> tuple[Int64Array, Float64Array]:
        """Return all that the learner can do in an episode: pairs state * A + action, int64[N, T],
        -1 after the last, and the probabilities, float64[N].
        """
        states = np.flatnonzero(self.start)
        chances = self.start[states]
        paths = np.zeros((len(states), 0), np.int64)
        parts: list[tuple[Int64Array, Float64Array]] = []
        while len(states):
            rows, actions = np.nonzero(self.legal[states])
            states = states[rows]
            paths = np.column_stack([paths[rows], states * self.game.cells + actions])
            chances = chances[rows] * self.policy[states, actions]
            ending = chances * self.ending[states, actions]
            parts.append((paths[ending > 0], ending[ending > 0]))
            following = self.next[paths[:, -1]].tocoo()
            paths = paths[following.row]
            states = following.col
            chances = chances[following.row] * following.data
        width = paths.shape[1]
        padded = [
            np.pad(path, ((0, 0), (0, width - path.shape[1])), constant_values=-1)
            for path, _ in parts
        ]
        return np.concatenate(padded), np.concatenate([chance for _, chance in parts])

    def draw_start(self, count: int, rng: np.random.Generator) -> Int64Array:
        """Return random first decisions."""
        return rng.choice(len(self.start), count, p=self.start)


def _probabilities(policy: int | str | Policy, boards: Boards, game: Game) -> Float64Array:
    """Return those of a policy, or of random logits, float64[P, cells]."""
    if not isinstance(policy, int):
        return np.asarray(make_pure(policy, game).probabilities(boards), np.float64)
    logits = np.random.default_rng(policy).normal(0, SPREAD, boards.cells.shape)
    weights = np.where(boards.cells == 0, np.exp(logits), 0.0)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))
