"""Rollouts of fixed length through ends of games, as trainers keep them, and their mean gradients.

Arrays are those of CleanRL: ``rewards`` and ``values`` float64[T, E] of T steps in E environments,
``dones`` float64[T, E] with 1 at the first step of an episode, ``next_value`` and ``next_done``
float64[E] of the step after the last, and in self-play ``movers`` float64[T + 1, E] with 1 where
the first player moves and -1 where the second does.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from ttt_envs.core.jit import BoolArray, Float64Array
from ttt_eval.checks.decisions import DecisionModel
from ttt_eval.checks.estimators import gae
from ttt_eval.checks.tokens import Sample

BURN_IN = 3
"""Steps before a rollout, so that its first steps are inside episodes."""
EXACT_STEPS = {1: 6, 2: 4}
"""Number of steps of exact rollouts, by the number of facts about a step: ends, and movers."""
MAX_ENTRIES = 8_000_000
"""Maximum number of entries of an array of the exact mean."""
LINEAR = 1e-4
"""Largest error of the answers of a linear function, which may compute in single precision."""

Arrays = Mapping[str, np.ndarray]
Estimator = Callable[[Arrays], Float64Array]
"""Returns advantages, of the shape of the rewards, from arrays by name."""


class RolloutSource:
    """Sampled rollouts of T steps in E environments.

    Args:
        process: the decisions.
        shape: T and E.
        critic: float64[S], values for the mover.
    """

    def __init__(
        self, process: DecisionModel, shape: tuple[int, int], critic: Float64Array
    ) -> None:
        self.process = process
        self.shape = shape
        self.critic = critic
        self.num_places = process.legal.size
        self.gradients = process.sum_scores
        self.weight = shape[0] * shape[1]

    def draw(self, rng: np.random.Generator) -> Sample:
        """Return a random rollout."""
        process = self.process
        steps, environments = self.shape
        number = len(process.start)
        states = np.zeros((steps + 1, environments), np.int64)
        actions = np.zeros(self.shape, np.int64)
        rewards = np.zeros(self.shape)
        dones = np.zeros((steps + 1, environments))
        now = process.draw_start(environments, rng)
        for step in range(-BURN_IN, steps):
            moves = process.draw_actions(now, rng)
            following = process.draw_next(now, moves, rng)
            over = following >= number
            if step >= 0:
                states[step] = now
                actions[step] = moves
                rewards[step, over] = process.results[following[over] - number]
            dones[max(step + 1, 0)] = over
            now = np.where(over, process.draw_start(environments, rng), following)
        states[steps] = now
        arrays = {
            "rewards": rewards,
            "values": self.critic[states[:-1]],
            "dones": dones[:-1],
            "next_value": self.critic[now],
            "next_done": dones[-1],
            "movers": process.signs[states],
        }
        exact = process.advantages[states[:-1], actions]
        right = {**arrays, "values": process.values[states[:-1]], "next_value": process.values[now]}
        estimates = gae(**right, discount=process.discount)
        pairs = states[:-1] * process.game.cells + actions
        return Sample(arrays, pairs, np.stack([exact, estimates]))


class LinearAnswers(NamedTuple):
    """The answers of a function that is linear in rewards and values, for N patterns of ends and
    movers.
    """

    constant: Float64Array
    """float64[T, N]"""
    of_rewards: Float64Array
    """float64[T, T, N]: of each estimate, then of each reward"""
    of_values: Float64Array
    """float64[T, T + 1, N]"""


def find_linear_answers(
    estimator: Estimator, dones: Float64Array, movers: Float64Array
) -> LinearAnswers | None:
    """Return the answers of an estimator; None if it is not linear, or reads the past.

    Args:
        estimator: the function.
        dones, movers: float64[T + 1, N], the patterns.
    """
    steps, count = len(dones) - 1, dones.shape[1]

    def answer(inputs: Float64Array) -> Float64Array:
        arrays = {
            "rewards": inputs[:steps],
            "values": inputs[steps:-1],
            "dones": dones[:-1],
            "next_value": inputs[-1],
            "next_done": dones[-1],
            "movers": movers,
        }
        return estimator(arrays)

    size = 2 * steps + 1
    constant = answer(np.zeros((size, count)))
    units = np.eye(size)
    answers = [answer(np.repeat(unit[:, None], count, axis=1)) - constant for unit in units]
    table = np.stack(answers, axis=1)
    inputs = np.random.default_rng(0).normal(size=(size, count))
    expected = constant + (table * inputs).sum(axis=1)
    early = np.tri(steps, k=-1, dtype=bool)
    of_rewards = table[:, :steps]
    of_values = table[:, steps:]
    past = np.abs(of_rewards[early]).max() + np.abs(of_values[:, :-1][early]).max()
    if past > LINEAR or np.abs(answer(inputs) - expected).max() > LINEAR:
        return None
    return LinearAnswers(constant, of_rewards, of_values)


class RolloutGradient(NamedTuple):
    """The exact gradient of rollouts."""

    gradient: Float64Array
    """float64[S, A], the mean over steps"""
    steps: int


def exact_rollout_gradient(
    estimator: Estimator, process: DecisionModel, critic: Float64Array
) -> RolloutGradient | None:
    """Return the exact gradient of rollouts; None if the estimator is not linear in rewards and
    values, or the game too large.

    Args:
        estimator: the function.
        process: the decisions.
        critic: float64[S], values for the mover.
    """
    chains = _Chains(process)
    if process.legal.size * chains.dones.shape[1] > MAX_ENTRIES:
        return None
    answers = find_linear_answers(estimator, chains.dones, chains.movers)
    if answers is None:
        return None
    return RolloutGradient(chains.gradient(answers, critic) / chains.steps, chains.steps)


class _Chains:
    """The chains of decisions with each of the N patterns of ends and movers that can occur."""

    def __init__(self, process: DecisionModel) -> None:
        self.process = process
        bits = 2 if process.self_play else 1
        self.steps = EXACT_STEPS[bits]
        patterns = np.array([*itertools.product((0.0, 1.0), repeat=bits * (self.steps + 1))]).T
        self.dones = patterns[: self.steps + 1]
        self.movers = np.repeat(process.signs[:1], self.steps + 1)[:, None] + 0 * self.dones
        if process.self_play:
            self.movers = 2 * patterns[self.steps + 1 :] - 1
        self.policy = process.policy[:, :, None]
        self.ending = process.ending[:, :, None]
        begin = process.start
        for _ in range(BURN_IN - 1):
            begin = process.forward(begin)
            begin = begin + (1 - begin.sum()) * process.start
        starts = self._forward(0, np.repeat(begin[:, None], self.dones.shape[1], axis=1))
        possible = (starts * self._backward()[0]).sum(axis=0) > 0
        self.dones = self.dones[:, possible]
        self.movers = self.movers[:, possible]
        self.starts = starts[:, possible]

    def _match(self, step: int) -> BoolArray:
        """Return whether the mover of a step is that of the pattern, bool[S, N]."""
        return np.asarray(self.process.signs[:, None] == self.movers[step])

    def _forward(self, step: int, before: Float64Array) -> Float64Array:
        """Return the probabilities of decisions at a step, from those before it, float64[S, N]."""
        done = self.dones[step]
        joint = before[:, None] * self.policy
        ends = done * (joint * self.ending).sum(axis=(0, 1))
        following = self.process.next.T @ joint.reshape(-1, len(done)) * (1 - done)
        return np.asarray(self._match(step) * (following + self.process.start[:, None] * ends))

    def _ahead(self, step: int, following: Float64Array) -> Float64Array:
        """Return the mean of what follows each move of the step before, float64[S, A, N]."""
        done = self.dones[step]
        further = self.process.next @ (following * (1 - done))
        again = done * (self.process.start @ following)
        return np.asarray(further.reshape(*self.process.legal.shape, -1) + self.ending * again)

    def _backward(self) -> list[Float64Array]:
        """Return the probabilities of the rest of the pattern from each step on, float64[S, N]
        each.
        """
        futures = [self._match(self.steps).astype(np.float64)]
        for step in range(self.steps, 0, -1):
            mean = (self.policy * self._ahead(step, futures[0])).sum(axis=1)
            futures.insert(0, self._match(step - 1) * mean)
        return futures

    def gradient(self, answers: LinearAnswers, critic: Float64Array) -> Float64Array:
        """Return the sum of the gradients of all steps, float64[S, A]."""
        futures = self._backward()
        ahead = [self._ahead(step + 1, futures[step + 1]) for step in range(self.steps)]
        values = critic[:, None, None]
        total = np.zeros(self.process.legal.shape)
        now = self.starts
        for step in range(self.steps):
            rest = self._match(self.steps) * answers.of_values[step, -1] * critic[:, None]
            for later in range(self.steps - 1, step - 1, -1):
                reward = answers.of_rewards[step, later] * self.dones[later + 1]
                restart = reward * (self.process.start @ futures[later + 1])
                terms = (
                    self._ahead(later + 1, rest)
                    + answers.of_values[step, later] * values * ahead[later]
                    + self.process.gains[:, :, None] * restart
                )
                rest = self._match(later) * (self.policy * terms).sum(axis=1)
            terms = terms + answers.constant[step] * ahead[step]
            centred = terms - (self.policy * terms).sum(axis=1, keepdims=True)
            total += (now[:, None] * self.policy * centred).sum(axis=2)
            now = self._forward(step + 1, now)
        return total
