"""A softmax table trained by exact updates: it plays no games, and samples nothing.

An update evaluates the current policy exactly (:mod:`ttt_envs.graph.game_graph`) and changes all
positions at once; in phantom games these are views, and a policy over views has no memory. So
learning curves are free of noise, and a reference for learners that estimate the same updates from
games.

Let p(s, .) be the policy in position s, q(s, .) the exact action values for the mover against the
other player's current policy, A = q - sum(p q) the advantages, d(s) the probability of a visit, and
h the learning rate. Logits x are log p up to a constant for each position. In self-play all updates
are simultaneous for both players; against a fixed opponent the same updates are made in the
learner's positions only.

- ``gradient``: x += h d p A / seats, the policy gradient theorem (Sutton et al., 2000, Theorem 1)
  for a softmax; in self-play simultaneous gradient ascent (Singh, Kearns and Mansour, 2000).
- ``natural-gradient``: x += h A (Kakade, 2001): the Fisher information cancels d p.
- ``optimistic-mirror-descent``: x += h (2 q_t - q_(t-1)), with negative entropy (Rakhlin and
  Sridharan, 2013; Syrgkanis et al., 2015, optimistic Hedge), in each position.
- ``magnetic-mirror-descent``: p <- (p m^(ha) e^(hq))^(1/(1 + ha)), normalized, with negative
  entropy, temperature a and a uniform magnet m (Sokota et al., 2023, with action values in each
  position). With ``anneal`` both h and a are divided by sqrt(t) in update t; else the limit is a
  quantal response, not an equilibrium.
- ``fictitious-play``: p += w (b - p) with best responses b to the current averages p, in update t
  with c = 1/(t + 1) and w = c d_b / ((1 - c) d_p + c d_b) (Heinrich, Lanctot and Silver, 2015,
  extensive-form fictitious play). The paper weighs by the player's own realization probabilities.
  Positions here merge move orders, so d_b and d_p are the probabilities of a visit with b and with
  p, against the other player's p; on a tree both weights are equal.
- ``r-nad``: x += h q~ (Perolat et al., 2021; 2022), where q~ belongs to the rewards transformed by
  -a log(p(s, m) / r(s, m)) for the player who makes a move m, and by its negative for the other.
  The regularization policy r becomes the current policy every ``reference_interval`` updates. The
  update discretizes replicator dynamics.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from learners.base import Checkpointable, Limits
from learners.config import LearnerConfig, NonNegative, Positive, PositiveInt
from learners.training import Progress, TrainingLoop
from ttt_envs.agents.softmax_table import PositionIndex, SoftmaxTable
from ttt_envs.agents.specs import make_policy
from ttt_envs.core.checks import Refusal
from ttt_envs.core.jit import BoolArray, Float64Array
from ttt_envs.core.work import QUERY_SIZE
from ttt_envs.envs.config import SELF
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import VARIANTS
from ttt_envs.game.phantom import HIDING, AnyGame, PhantomGame
from ttt_envs.graph.game_graph import GameGraph, GraphEvaluation
from ttt_envs.graph.layers import query_policy

Method = Literal[
    "gradient",
    "natural-gradient",
    "optimistic-mirror-descent",
    "magnetic-mirror-descent",
    "fictitious-play",
    "r-nad",
]
MIN_PROBABILITY = 1e-300
"""Minimum probability of an average policy of which a logarithm is stored."""
MAX_LOGIT = 1e12
"""Maximum absolute value of a logit."""


@dataclass(frozen=True)
class ExactPGConfig(LearnerConfig):
    """A softmax table with exact policy gradients, or exact self-play; an update counts as one
    game.
    """

    name: ClassVar[str] = "exact-pg"
    variants: ClassVar[tuple[str, ...]] = (*VARIANTS, HIDING)
    games: ClassVar[int] = 500
    batch: ClassVar[int] = 1
    self_play: ClassVar[Mapping[str, object]] = {"method": "magnetic-mirror-descent"}
    self_play_games: ClassVar[int] = 2_000
    plays_games: ClassVar[bool] = False
    loop: ClassVar[str] = "learners.exact_pg:ExactTraining"
    test_settings: ClassVar[dict[str, object]] = {"games": 40, "initial_std": 0.1}

    method: Method = "natural-gradient"
    """update of the policy, the same against an opponent and in self-play: gradient,
    natural-gradient, optimistic-mirror-descent, magnetic-mirror-descent, fictitious-play, or r-nad
    (regularized Nash dynamics)"""
    learning_rate: Positive | None = None
    """step size, above 0; by default 10 for gradient and 1 for the others; fictitious-play has none
    """
    temperature: NonNegative = 0.1
    """weight of the regularization of magnetic-mirror-descent and r-nad"""
    anneal: bool = True
    """divide learning rate and temperature of magnetic-mirror-descent by the square root of the
    number of the update
    """
    reference_interval: PositiveInt = 100
    """number of updates of r-nad between two changes of its regularization policy"""
    initial_std: NonNegative = 0.0
    """standard deviation of the initial logits, drawn from the seed; 0: the policy starts uniform,
    and no number depends on the seed"""

    def build(self, game: AnyGame, rng: np.random.Generator) -> ExactPG:
        """Return an untrained learner.

        Raises:
            MemoryError: a game with too many positions for a table.
        """
        return ExactPG(self, game, rng)


class ExactPG(Checkpointable):
    """The learner of :class:`ExactPGConfig`: its policy is the softmax of its logits, uniform where
    it never plays.

    Attributes:
        index: the N positions.
        logits: float64[N, cells]: logarithms of the probabilities, 0 where illegal.
    """

    name = ExactPGConfig.name
    stored = ("logits",)

    def __init__(self, config: ExactPGConfig, game: AnyGame, rng: np.random.Generator) -> None:
        self.config = config
        self.game = game
        self.graph = GameGraph(game)
        shape = self.graph.legal.shape
        initial = np.zeros(shape)
        if config.initial_std:
            initial = rng.normal(0.0, config.initial_std, shape)
        self.index = PositionIndex(game, self.graph.boards)
        self.logits = log_softmax(initial, self.graph.legal)

    def limits(self) -> Limits:
        """See :class:`~learners.base.Stored`."""
        return {"logits": (-MAX_LOGIT, 0)}

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Float64Array:
        """Return float64[B, cells]: the softmax policy; uniform in positions that cannot be
        reached.
        """
        return SoftmaxTable(self.index, self.logits).probabilities(boards)


class ExactTraining(TrainingLoop):
    """Exact updates of a table, see :class:`~learners.training.TrainingLoop`.

    An update counts as one game. Wins, draws and losses are the sums of their exact probabilities
    before each update, rounded so that they add up to the number of updates; those of the learner,
    over its seats, and in self-play those of player_0. No moves are made, so ``steps`` is 0.
    ``logged`` has the exact expected result before the last update.

    Args:
        learner: the learner, trained in place.
        games: total number of updates.
        batch: number of updates per step, on which no result depends.
        opponent: a pure policy or ``"self"``.
        seat: the learner's: ``"random"`` and ``"alternate"`` weigh both seats equally.

    Attributes:
        updated: bool[N]: the positions in which the learner is to move.
        totals: float64[3]: sums of the probabilities of a win, a draw and a loss.
        q_tm1: float64[N, cells]: action values of the last update.
        reference: float64[N, cells]: logits of the regularization policy.

    Raises:
        ValueError: numbers out of range, an unknown opponent, one that is not pure or sees hidden
            stones, a method that the game does not allow.
    """

    learner: ExactPG
    stored = ("counts", "totals", "q_tm1", "reference")

    def __init__(
        self, learner: ExactPG, games: int, *, batch: int, opponent: str, seat: str
    ) -> None:
        super().__init__(learner, games, batch)
        game = learner.game
        boards = learner.graph.boards
        method = learner.config.method
        if isinstance(game, PhantomGame) and method == "fictitious-play":
            raise Refusal(
                f"{method} needs best responses over views, unknown in {game}: choose another "
                "method"
            )
        self._opponent: Float64Array | None = None
        self._seats: tuple[int, ...] = (0, 1)
        if opponent != SELF:
            policy = make_policy(opponent, game)
            if not policy.pure:
                reason = (
                    f"{opponent} is no function of the position, or of the view of the player who "
                    "moves, alone"
                )
                raise Refusal(
                    f"{learner} evaluates its opponent exactly, but {reason}: choose another "
                    "opponent"
                )
            self._opponent = np.concatenate(
                [query_policy(policy, part) for part in boards.chunks(QUERY_SIZE)]
            )
            self._seats = {"first": (0,), "second": (1,)}.get(seat, (0, 1))
        self.updated = np.isin(boards.mover, self._seats)
        self.totals = np.zeros(3)
        self.q_tm1 = np.zeros(learner.logits.shape)
        self.reference = learner.logits

    def limits(self) -> Limits:
        """See :class:`~learners.base.Stored`."""
        return {
            **super().limits(),
            "totals": (0, self.games),
            "q_tm1": (-2, 2),
            "reference": (-MAX_LOGIT, 0),
        }

    def step(self) -> None:
        """Make a batch of updates."""
        for _ in range(min(self.batch, self.games - self.done.games)):
            self._update()

    def _update(self) -> None:
        """Make one update.

        Raises:
            ValueError: the learning diverges.
        """
        learner = self.learner
        config = self.learner.config
        x = learner.logits
        legal = learner.graph.legal
        number = self.done.games
        p = np.where(legal, np.exp(x), 0.0)
        exact = self._evaluate(p)
        self.totals = self.totals + np.array(exact.results)
        self.logged = {"value": exact.results[0] - exact.results[2]}
        h = config.learning_rate or (10.0 if config.method == "gradient" else 1.0)
        change = getattr(self, f"_{config.method.replace('-', '_')}")(p, exact, h)
        logits = log_softmax(np.where(self.updated[:, None], x + change, x), legal)
        if not (np.abs(logits) <= MAX_LOGIT).all():  # also if any is no number
            remedy = f"learning_rate below {min(h, 10):g}"
            if config.method in ("magnetic-mirror-descent", "r-nad") and config.temperature > 1:
                remedy = "temperature of at most 1"
            raise Refusal(f"{config.name} has diverged after {number} updates: choose a {remedy}")
        learner.logits = logits
        wins = min(round(float(self.totals[0])), number + 1)
        losses = min(round(float(self.totals[2])), number + 1 - wins)
        self.done = Progress(number + 1, wins, number + 1 - wins - losses, losses)

    def _evaluate(
        self,
        policy: Float64Array,
        costs: Float64Array | None = None,
        *,
        best_response: bool = False,
    ) -> GraphEvaluation:
        """Evaluate the learner's policy, or its best responses to the other player's policy.

        Returns:
            The evaluation of each position with the learner in its mover's seat; the results are
            the learner's, the mean over its seats, and in self-play those of player_0.
        """
        graph = self.learner.graph
        evaluations = []
        if self._opponent is None and not best_response:
            return graph.evaluate(policy, costs)
        for seat in self._seats:
            own = (graph.boards.mover == seat)[:, None]
            joint = policy if self._opponent is None else np.where(own, policy, self._opponent)
            own_costs = None if costs is None else np.where(own, costs, 0.0)
            evaluations.append(graph.evaluate(joint, own_costs, seat if best_response else None))
        first = evaluations[0]
        second = evaluations[-1]
        is_second = graph.boards.mover == 1
        for name in ("policy", "action_values", "values", "occupancy"):
            getattr(first, name)[is_second] = getattr(second, name)[is_second]
        own_results = [
            evaluation.results[::-1] if seat else evaluation.results
            for evaluation, seat in zip(evaluations, self._seats, strict=True)
        ]
        results = np.mean(own_results, axis=0)
        return first._replace(results=tuple(results.tolist()))

    # The changes of the logits x, see the module: p, q, A and d are the policy, its exact action
    # values, advantages and visits, and h is the learning rate.

    def _gradient(self, p: Float64Array, exact: GraphEvaluation, h: float) -> Float64Array:
        """Return h d p A / seats."""
        return h / len(self._seats) * exact.occupancy[:, None] * p * exact.advantages

    def _natural_gradient(self, p: Float64Array, exact: GraphEvaluation, h: float) -> Float64Array:
        """Return h A."""
        return h * exact.advantages

    def _optimistic_mirror_descent(
        self, p: Float64Array, exact: GraphEvaluation, h: float
    ) -> Float64Array:
        """Return h (2 q_t - q_(t-1)), and h q_t in the first update."""
        q_t = exact.action_values
        q_tm1 = self.q_tm1 if self.done.games else q_t
        self.q_tm1 = q_t
        return h * (2.0 * q_t - q_tm1)

    def _magnetic_mirror_descent(
        self, p: Float64Array, exact: GraphEvaluation, h: float
    ) -> Float64Array:
        """Return (x + h q) / (1 + h a) - x."""
        config = self.learner.config
        x = self.learner.logits
        scale = 1.0 / math.sqrt(self.done.games + 1.0) if config.anneal else 1.0
        h = h * scale
        a = config.temperature * scale
        return np.asarray((x + h * exact.action_values) / (1.0 + h * a) - x)

    def _fictitious_play(self, p: Float64Array, exact: GraphEvaluation, h: float) -> Float64Array:
        """Return log(p + w (b - p)) - x with w = c d_b / ((1 - c) d_p + c d_b)."""
        best = self._evaluate(p, best_response=True)
        c = 1.0 / (self.done.games + 2.0)
        d_b = c * best.occupancy
        total = (1.0 - c) * exact.occupancy + d_b
        w = np.divide(d_b, total, out=np.zeros_like(total), where=total > 0)[:, None]
        average = p + w * (best.policy - p)
        return np.asarray(np.log(np.maximum(average, MIN_PROBABILITY)) - self.learner.logits)

    def _r_nad(self, p: Float64Array, exact: GraphEvaluation, h: float) -> Float64Array:
        """Return h q~, of rewards minus a (x - x_r), with x_r the logits of the regularization
        policy.
        """
        config = self.learner.config
        x = self.learner.logits
        if self.done.games % config.reference_interval == 0:
            self.reference = x
        return h * self._evaluate(p, config.temperature * (x - self.reference)).action_values


def log_softmax(logits: Float64Array, legal: BoolArray) -> Float64Array:
    """Return the logarithms of softmax probabilities, float64[N, cells]; 0 where illegal."""
    legal_logits = np.where(legal, logits, -np.inf)
    differences = legal_logits - legal_logits.max(axis=1, keepdims=True)
    total = np.exp(differences).sum(axis=1, keepdims=True)
    return np.where(legal, differences - np.log(total), 0.0)
