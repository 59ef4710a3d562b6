"""Proximal policy optimization (Schulman et al., 2017) of a masked policy in numpy, in one file, to
be read from top to bottom.

An iteration plays a rollout, estimates advantages (GAE, Schulman et al., 2016), and makes steps of
Adam on the clipped objective, as CleanRL's ``ppo.py`` does; docs/learners/ppo.md lists the details
of that file and what differs here.

- Illegal moves have no probability (Huang and Ontañón, 2022).
- In self-play one net plays both seats. The value of the next position counts with the sign of its
  mover: minus at the opponent's turn, plus after a skip. Where players see different boards, the
  next value is that of the mover's own next turn.
- Samples of a position are learned from together where all positions can be listed
  (``grouped``): the net is evaluated on the list, play looks moves up, and an epoch is a pass over
  the visited positions. Samples of one position and move have the same ratio, and clipping depends
  on the sign of the advantage alone, so that sums of positive and of negative advantages give the
  gradient of the full batch of samples. On other boards every sample has a row of its own.
- ``kl_coef`` is the weight of the divergence from the last policy. With it, and a ``clip_range``
  that clips nothing, the update is that of magnetic mirror descent (Sokota et al., 2023) with a
  uniform magnet.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, NamedTuple

import numpy as np

from learners.base import MAX_COUNT, MAX_NUMBER, Arrays, Checkpointable, Limits, Stored
from learners.config import Fraction, Layers, LearnerConfig, NonNegative, Positive, PositiveInt
from learners.mlp import Dense, Floats, forward, glorot, layer_shapes, planes
from learners.training import GamesTraining
from ttt_envs.agents.policy import best_shares, sample
from ttt_envs.agents.softmax_table import softmax
from ttt_envs.core.hash_index import KeyIndex
from ttt_envs.core.jit import BoolArray, Float64Array, Int8Array, Int64Array, kernel
from ttt_envs.core.records import concatenate
from ttt_envs.game.boards import Boards, keys
from ttt_envs.game.game import VARIANTS, Game
from ttt_envs.game.phantom import HIDING, AnyGame
from ttt_envs.game.rules import legal
from ttt_envs.graph.estimate import is_measured_at_once
from ttt_envs.graph.game_graph import GameGraph

BETA1 = 0.9
BETA2 = 0.999
EPSILON = 1e-6
"""constants of Adam, whose source has an epsilon of 1e-8, and CleanRL of 1e-5"""
MASKED = -1e9
"""logit of an illegal move, whose probability is then exactly 0"""


@dataclass(frozen=True)
class MaskedPPOConfig(LearnerConfig):
    """Proximal policy optimization with masked moves, in numpy."""

    name: ClassVar[str] = "ppo"
    variants: ClassVar[tuple[str, ...]] = (*VARIANTS, HIDING)
    loop: ClassVar[str] = "learners.ppo:PPOTraining"
    games: ClassVar[int] = 450_000
    batch: ClassVar[int] = 4_096
    self_play: ClassVar[Mapping[str, object]] = {
        # magnetic mirror descent, which goes on visiting what an opponent could choose
        "clip_range": 1e9,
        "kl_coef": 2.0,
        "ent_coef": 0.2,
        "final_ent_coef": 0.05,
    }
    self_play_games: ClassVar[int] = 450_000
    self_play_openings: ClassVar[str] = "random:1-3:0.25"
    test_settings: ClassVar[dict[str, object]] = {"games": 60, "hidden": 4, "rollout": 16}

    learning_rate: Positive = 5e-3
    """initial learning rate of Adam, above 0"""
    anneal_lr: bool = True
    """decay the learning rate linearly to 0 over the training"""
    hidden: Layers = (64, 64)
    """number of units of each hidden layer, 1 to 8192 in each of 1 to 8 layers"""
    rollout: PositiveInt = 65_536
    """number of positions per rollout, over all parallel games"""
    grouped: bool = True
    """learn from the sums over all samples of a position and move where positions can be listed, in
    one batch; else from minibatches of samples"""
    batch_size: PositiveInt = 2_048
    """number of samples in a minibatch"""
    n_epochs: PositiveInt = 8
    """number of epochs per rollout"""
    gae_lambda: Fraction = 0.95
    """lambda of generalized advantage estimation: 0 relies on the value of the next position, 1 on
    the result of the game"""
    clip_range: Positive = 0.2
    """PPO clip range: maximum relative change of a move's probability per rollout, above 0"""
    ent_coef: NonNegative = 0.1
    """initial entropy coefficient, 0 or more: encourages exploration"""
    final_ent_coef: NonNegative = 0.1
    """final entropy coefficient, to which it changes linearly"""
    kl_coef: NonNegative = 0.0
    """weight of the divergence from the policy before the rollout, KL(new, old)"""
    vf_coef: NonNegative = 0.5
    """value loss coefficient, 0 or more"""
    max_grad_norm: Positive = 0.5
    """maximum norm of the gradient, to which larger ones are scaled"""
    stochastic: bool = False
    """sample moves from the net's distribution over legal moves at play, in place of its most
    likely move
    """

    def build(self, game: AnyGame, rng: np.random.Generator) -> PPO:
        """Return a learner with random weights."""
        return PPO(self, game, rng)


# --------------------------------------------------------------------------------------------------
# The net: layers with ReLU between them, in one vector. Its outputs are a logit for each cell and a
# value.


def split_layers(vector: Floats, widths: Sequence[int]) -> list[Dense]:
    """Return the layers between these widths as views of one vector."""
    layers = []
    start = 0
    for inputs, width in pairwise(widths):
        end = start + inputs * width
        weights = vector[start:end].reshape(inputs, width)
        start = end + width
        layers.append(Dense(weights, vector[end:start], "relu"))
    layers[-1] = layers[-1]._replace(activation="linear")
    return layers


def run_net(obs: Floats, layers: Sequence[Dense]) -> list[Floats]:
    """Return ``obs`` [N, inputs] and the outputs [N, width] of each layer."""
    outputs = [obs]
    for weights, bias, activation in layers:
        output = outputs[-1] @ weights
        if activation == "relu":
            add_and_rectify(output, bias)
        else:
            output += bias
        outputs.append(output)
    return outputs


@kernel
def add_and_rectify(output: Floats, bias: Floats) -> None:
    """Add the bias to each row and set negative numbers to 0, in place, in a fifth of the time of
    two passes in numpy.
    """
    for row in range(len(output)):
        for unit in range(len(bias)):
            output[row, unit] = max(output[row, unit] + bias[unit], 0)


def backpropagate(outputs: Sequence[Floats], layers: Sequence[Dense], d: Floats) -> Floats:
    """Return the gradient of a loss in all weights, one vector.

    Args:
        outputs: of :func:`run_net`.
        layers: of the net.
        d: the gradient of the loss in the last outputs, [N, outputs].
    """
    parts = []
    for number in reversed(range(len(layers))):
        inputs = outputs[number]
        parts += [sum_columns(d), (inputs.T @ d).ravel()]
        if number:
            d = d @ layers[number].weights.T
            d *= inputs > 0
    return np.concatenate(parts[::-1])


def sum_columns(array: Floats) -> Floats:
    """Return ``array.sum(axis=0)`` of an array [N, K] in a fifth of the time."""
    return np.ones(len(array), array.dtype) @ array


class Adam(Stored):
    """Adam (Kingma and Ba, 2015) on one vector."""

    stored = ("mean", "square", "updates")

    def __init__(self, size: int, epsilon: float = EPSILON) -> None:
        self.epsilon = epsilon
        self.mean = np.zeros(size, np.float32)
        self.square = np.zeros(size, np.float32)
        self.updates = np.zeros(1, np.int64)

    def limits(self) -> Limits:
        """See :class:`~learners.base.Stored`."""
        return {
            "mean": (-MAX_NUMBER, MAX_NUMBER),
            "square": (0, MAX_NUMBER),
            "updates": (0, MAX_COUNT),
        }

    def step(self, weights: Floats, gradient: Floats, learning_rate: float) -> None:
        """Make a step down the gradient, in place."""
        self.mean += (1 - BETA1) * (gradient - self.mean)
        self.square += (1 - BETA2) * (gradient * gradient - self.square)
        rate = self.next_rate(learning_rate)
        weights -= rate * self.mean / (np.sqrt(self.square) + self.epsilon)

    def next_rate(self, learning_rate: float) -> float:
        """Count a step, and return its rate: corrected for moments that start at 0."""
        self.updates += 1
        count = int(self.updates[0])
        return float(learning_rate * (1 - BETA2**count) ** 0.5 / (1 - BETA1**count))


class PPO(Checkpointable):
    """The learner of :class:`MaskedPPOConfig`. One net serves both seats: it sees the mover's
    stones as its own.

    At play it is computed in float64, so that a position's probabilities do not depend on the rest
    of its batch. ``values`` are those of the policy that is trained, its ``actor``.

    Attributes:
        weights: float32[W]: the layers in one vector.
        widths: numbers of inputs, of units of the hidden layers and of outputs.
        stochastic: whether moves are sampled from the net's distribution.
    """

    name = "ppo"
    stored = ("weights",)
    colour_blind = True

    def __init__(self, config: MaskedPPOConfig, game: AnyGame, rng: np.random.Generator) -> None:
        self.config = config
        self.game = game
        self.stochastic = config.stochastic
        self.widths = (2 * game.cells, *config.hidden, game.cells + 1)
        arrays = glorot(layer_shapes(self.widths), rng)
        self.weights = np.concatenate([array.ravel() for array in arrays.values()])
        self.layers[-1].weights[:] *= 0.01  # the first policy is nearly uniform
        self.actor = copy.copy(self)
        self.actor.stochastic = True

    def limits(self) -> Limits:
        """See :class:`~learners.base.Stored`."""
        return {"weights": (-MAX_NUMBER, MAX_NUMBER)}

    def from_arrays(self, arrays: Arrays) -> None:
        """See :class:`~learners.base.Stored`."""
        self.weights[:] = arrays["weights"]  # which the actor shares

    @property
    def layers(self) -> list[Dense]:
        """The layers, views of ``weights``."""
        return split_layers(self.weights, self.widths)

    def outputs(self, boards: Boards) -> Float64Array:
        """Return float64[B, cells + 1]: a logit for each cell, then the value."""
        return forward(planes(boards.own_first(), 2), self.layers)

    def values(self, boards: Boards) -> Float64Array:
        """Return the critic's values float64[B] from the mover's view."""
        return self.outputs(boards)[:, -1]

    def probabilities(self, boards: Boards, rng: np.random.Generator | None = None) -> Float64Array:
        """Return float64[B, cells]: equal shares for the legal moves of highest logit, or the
        masked distribution.
        """
        logits = np.where(boards.legal(self.game), self.outputs(boards)[:, :-1], np.nan)
        return softmax(logits) if self.stochastic else best_shares(logits)


# --------------------------------------------------------------------------------------------------
# Advantages and the loss


def estimate_returns(
    rewards: Floats,
    values: Floats,
    movers: Int64Array,
    over: BoolArray,
    gae_lambda: float,
    opposite: bool,
) -> Floats:
    """Estimate what the player who moves will get, for generalized advantage estimation: the
    advantages are the returns minus the values.

    Args:
        rewards: [T, B], of the mover.
        values: [T + 1, B]: of positions for their movers, the last after the rollout.
        movers: int64[T + 1, B]: who moves, 0 or 1.
        over: bool[T, B]: whether the step ended its game.
        gae_lambda: lambda.
        opposite: whether the value for one player is the opposite of the other's, so that the next
            value is that of the next position, whoever moves there; else it is that of the mover's
            own next turn.

    Returns:
        [T, B], NaN where the next value is beyond the rollout.
    """
    steps, count = rewards.shape
    games = np.arange(count)
    # what each player will get from the next position on
    future = np.full((2, count), np.nan, values.dtype)
    future[movers[steps], games] = values[steps]
    if opposite:
        future[1 - movers[steps], games] = -values[steps]
    returns = np.empty_like(rewards)
    for t in reversed(range(steps)):
        own = movers[t], games
        other = 1 - movers[t], games
        future = np.where(over[t], 0, future)
        returns[t] = rewards[t] + future[own]
        future[other] -= rewards[t]
        future[own] = values[t] + gae_lambda * np.nan_to_num(returns[t] - values[t])
        if opposite:
            future[other] = -future[own]
    return returns


class Lookup(NamedTuple):
    """S positions as their movers see them, and what the policy of a rollout does there."""

    obs: Floats
    """[S, 2 * cells]: own stones, then the opponent's"""
    mask: Floats
    """[S, cells]: added to logits, 0 at legal moves and ``MASKED`` at others"""
    log_p: Floats
    """[S, cells]: logarithms of the probabilities of moves, of illegal ones ``MASKED``"""
    value: Floats
    """[S]"""

    @classmethod
    def of(cls, game: AnyGame, own: Int8Array, layers: Sequence[Dense]) -> Lookup:
        """Evaluate a net at positions int8[S, cells], own stones first."""
        obs = planes(own, 2)
        mask = np.float32(MASKED) * ~legal(game, own)
        outputs = run_net(obs, layers)[-1]
        return cls(obs, mask, log_softmax(outputs[:, :-1], mask), outputs[:, -1])


class Samples(NamedTuple):
    """Sums over the samples of each of N positions, 0 where there are none."""

    obs: Floats
    """as of :class:`Lookup`, as the next two"""
    mask: Floats
    log_p: Floats
    gain: Floats
    """[N, cells]: sums of the positive advantages of each move"""
    loss: Floats
    """[N, cells]: sums of the negative ones"""
    visits: Floats
    """[N]: numbers of samples"""
    returns: Floats
    """[N]: sums of returns"""

    @classmethod
    def sum_up(
        cls, table: Lookup, rows: Int64Array, moves: Int64Array, advantages: Floats, returns: Floats
    ) -> Samples:
        """Sum over n samples, in the ``rows`` int64[n] of a table, with ``moves`` int64[n]."""
        size, cells = table.mask.shape

        def total(places: Int64Array, weights: Floats | None, *shape: int) -> Floats:
            sums = np.bincount(places, weights, math.prod(shape))
            return sums.reshape(shape).astype(table.value.dtype)

        places = rows * cells + moves
        return cls(
            table.obs,
            table.mask,
            table.log_p,
            gain=total(places, np.maximum(advantages, 0), size, cells),
            loss=total(places, np.minimum(advantages, 0), size, cells),
            visits=total(rows, None, size),
            returns=total(rows, returns, size),
        )

    def take(self, rows: Int64Array) -> Samples:
        """Return some of the positions."""
        return Samples(*(array.take(rows, axis=0) for array in self))


def log_softmax(logits: Floats, mask: Floats) -> Floats:
    """Return the logarithms of the probabilities of moves, [N, cells]; ``mask`` as of
    :class:`Lookup`.
    """
    log_p = logits + mask
    largest = log_p.T.copy().max(axis=0)  # a tenth of the time along rows
    log_p -= largest[:, None]
    log_p -= np.log(sum_columns(np.exp(log_p).T))[:, None]
    return np.maximum(log_p, MASKED)


def loss_gradient(
    outputs: Floats, samples: Samples, config: MaskedPPOConfig, ent_coef: float
) -> Floats:
    """Return the gradient [N, cells + 1] of the loss in the net's outputs.

    The loss is the mean over all samples of

        -min(ratio A, clip(ratio, 1 - clip_range, 1 + clip_range) A) - ent_coef H(new)
        + kl_coef KL(new, old) + vf_coef / 2 (V - return)^2
    """
    total = samples.visits.sum()
    log_p = log_softmax(outputs[:, :-1], samples.mask)
    p = np.exp(log_p)
    log_ratio = log_p - samples.log_p
    ratio = np.exp(log_ratio)
    # the minimum has no gradient where a ratio is beyond the clip on the side of its advantage
    unclipped = samples.gain * (ratio <= 1 + config.clip_range)
    unclipped += samples.loss * (ratio >= 1 - config.clip_range)
    # in the logarithms of the probabilities, then through the softmax
    d_log_p = p * (ent_coef * log_p + config.kl_coef * log_ratio)
    d_log_p *= samples.visits[:, None]
    d_log_p -= ratio * unclipped
    d = np.empty_like(outputs)
    d[:, :-1] = d_log_p - p * sum_columns(d_log_p.T)[:, None]
    d[:, -1] = config.vf_coef * (samples.visits * outputs[:, -1] - samples.returns)
    d /= total
    return d


def describe_update(outputs: Floats, samples: Samples) -> dict[str, float]:
    """Return metrics of the policy with these outputs [N, cells + 1], means over samples."""
    log_p = log_softmax(outputs[:, :-1], samples.mask)
    weights = samples.visits[:, None] / samples.visits.sum()
    return {
        "entropy": -float((weights * np.exp(log_p) * log_p).sum()),
        "kl": float((weights * np.exp(samples.log_p) * (samples.log_p - log_p)).sum()),
    }


class PPOTraining(GamesTraining):
    """A training, see :class:`~learners.training.GamesTraining`; a step is a rollout and the
    updates from it.

    ``logged`` has the mean ``entropy`` of the last policy over the samples, its mean divergence
    ``kl`` from that of the rollout, and ``explained_variance``, the share of the variance of the
    returns that the values explain.

    Attributes:
        adam: the optimizer.
    """

    learner: PPO
    stored = (*GamesTraining.stored, "adam", "rng")

    def prepare(self) -> None:
        """See :class:`~learners.training.GamesTraining`."""
        config = self.learner.config
        game = self.learner.game
        self.adam = Adam(len(self.learner.weights))
        self._steps = max(1, config.rollout // self._count)
        self._own: Int8Array | None = None
        if config.grouped and isinstance(game, Game) and is_measured_at_once(game):
            self._own = np.unique(GameGraph(game).boards.own_first(), axis=0)
            self._index = KeyIndex(1)
            self._index.rows(keys(self._own)[:, None])

    def step(self) -> None:
        """Play a rollout, and learn from it."""
        config = self.learner.config
        done = self.done.games / self.games
        learning_rate = config.learning_rate * (1 - done * config.anneal_lr)
        ent_coef = config.ent_coef + done * (config.final_ent_coef - config.ent_coef)
        samples = self._play()
        if samples is None:
            return
        layers = self.learner.layers
        visited = self.rng.permutation(np.flatnonzero(samples.visits))
        number = max(1, len(visited) // config.batch_size) if self._own is None else 1
        minibatches = [samples.take(rows) for rows in np.array_split(visited, number)]
        for _ in range(config.n_epochs):
            for minibatch in minibatches:
                outputs = run_net(minibatch.obs, layers)
                d = loss_gradient(outputs[-1], minibatch, config, ent_coef)
                gradient = backpropagate(outputs, layers, d)
                norm = float(np.linalg.norm(gradient))
                gradient /= max(1.0, norm / config.max_grad_norm)
                self.adam.step(self.learner.weights, gradient, learning_rate)
        self.logged = {
            **self.logged,
            **describe_update(outputs[-1], minibatch),
            "updates": int(self.adam.updates[0]),
        }

    def _play(self) -> Samples | None:
        """Play a rollout; None if the learner had no turn in it."""
        learner = self.learner
        game = learner.game
        shape = self._steps, self._count
        index = np.arange((self._steps + 1) * self._count).reshape(-1, self._count)
        movers = np.zeros_like(index)
        actions = np.zeros(shape, np.int64)
        playing = np.zeros(shape, np.bool_)
        over = np.zeros_like(playing)
        rewards = np.zeros(shape, np.float32)
        layers = learner.layers
        tables = [] if self._own is None else [Lookup.of(game, self._own, layers)]
        for t in range(self._steps + 1):
            boards = self._games.views(np.arange(self._count))
            own = boards.own_first()
            movers[t] = boards.mover
            if self._own is None:
                tables.append(Lookup.of(game, own, layers))
                log_p = tables[-1].log_p
            else:
                index[t] = self._index.find(keys(own)[:, None])
                log_p = tables[0].log_p[index[t]]
            if t == self._steps:
                break
            playing[t] = self.playing()
            actions[t] = sample(np.exp(log_p), self.rng.random(self._count))
            rows = np.flatnonzero(playing[t])
            ended = self.move(rows, actions[t, rows])
            over[t, ended] = True
            rewards[t, ended] = self._output["rewards"][ended]
            self.end(ended)
        table = concatenate(tables)
        values = table.value[index]
        opposite = self._self_play and isinstance(game, Game)
        gae_lambda = learner.config.gae_lambda
        returns = estimate_returns(rewards, values, movers, over, gae_lambda, opposite)
        learned = playing & ~np.isnan(returns)
        if not learned.any():
            return None
        targets = returns[learned]
        advantages = targets - values[:-1][learned]
        unexplained = advantages.var() / max(targets.var(), 1e-8)
        self.logged = {"explained_variance": 1 - float(unexplained)}
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        return Samples.sum_up(table, index[:-1][learned], actions[learned], advantages, targets)
