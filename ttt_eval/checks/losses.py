"""Is a loss right? Its expected gradient by enumeration of all episodes, and its weights.

A loss that reads only log-probabilities of what was played is an advantage estimator: its advantage
is minus the derivative in the log-probability, times the number of episodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from ttt_envs.agents.policy import Policy
from ttt_envs.core.checks import Refusal, check_choice, check_range
from ttt_envs.core.jit import Float64Array
from ttt_envs.game.game import Game
from ttt_eval.checks.advantages import (
    EXACT_DEGREES,
    AnswerError,
    GradientCheck,
    asked_names,
    call_guarded,
    gradient_row,
    make_check,
    sampled_effect,
)
from ttt_eval.checks.batches import BatchSize, EpisodeSource
from ttt_eval.checks.calls import GuardedCaller
from ttt_eval.checks.check import CheckRow, Status
from ttt_eval.checks.decisions import DecisionModel, parse_game
from ttt_eval.checks.directions import compare_exactly
from ttt_eval.checks.divergences import POLICY, TARGETS, PolicyPair, log
from ttt_eval.checks.input_probes import EQUAL, RECOGNISED
from ttt_eval.checks.rollouts import Arrays
from ttt_eval.checks.tokens import Sample, spell

Backend = Literal["torch", "jax", "numpy"]
LOSS_NAMES = {"logp", "old_logp", "ref_logp", "advantages", "mask", "entropy"}
INPUTS = ("logp", "entropy")
"""Arrays in which a loss is differentiated."""
STEP = 1e-5
"""Of numerical differences."""
SPREAD = 0.5
"""Standard deviation of the logits of an update of size 1, and of the reference."""
NUM_COMPARED = 8
"""Number of episodes whose gradients are compared with those in one batch of all."""
RATIOS = (0.5, 1.0, 1.5)
POLICY_LOSSES = {
    "A log pi": (1, 1, 1, -1, -1, -1),
    "ratio x A": (0.5, 1, 1.5, -0.5, -1, -1.5),
    "PPO clip": (0.5, 1, 0, 0, -1, -1.5),
}
"""Weights of the policy term at the ratios, for the advantages 1 and -1, by name."""

Derivative = Callable[[Arrays], dict[str, Float64Array]]
"""Returns the derivatives of a loss in its inputs, times the number of episodes."""


def differentiate(
    loss: Callable[..., Any], names: Sequence[str], backend: Backend, caller: GuardedCaller
) -> Derivative:
    """Return the derivative of a loss of others, which raises AnswerError."""
    inputs = [name for name in INPUTS if name in names]
    backends = {"torch": _by_torch, "jax": _by_jax, "numpy": _by_differences}
    of_backend = backends[backend](loss, inputs)

    def derivative(arrays: Arrays) -> dict[str, Float64Array]:
        chosen = {name: np.array(arrays[name], np.float64) for name in names}
        shape = chosen["logp"].shape
        parts = call_guarded(caller, lambda: of_backend(chosen))
        numbers = [np.asarray(part, np.float64) * shape[0] for part in parts]
        if any(part.shape != shape or not np.isfinite(part).all() for part in numbers):
            raise AnswerError("the loss has no finite derivative in logp")
        return dict(zip(inputs, numbers, strict=True))

    return derivative


def _by_torch(loss: Callable[..., Any], inputs: Sequence[str]) -> Callable[..., Any]:
    import torch

    def derivative(arrays: dict[str, Float64Array]) -> list[Any]:
        tensors = {name: torch.as_tensor(array) for name, array in arrays.items()}
        variables = [tensors[name].requires_grad_() for name in inputs]
        value = loss(**tensors)
        if not value.requires_grad:
            return [np.zeros(variable.shape) for variable in variables]
        parts = torch.autograd.grad(value, variables, allow_unused=True)
        return [
            np.zeros(variable.shape) if part is None else part.numpy()
            for part, variable in zip(parts, variables, strict=True)
        ]

    return derivative


def _by_jax(loss: Callable[..., Any], inputs: Sequence[str]) -> Callable[..., Any]:
    import jax

    gradient = jax.jit(jax.grad(lambda own, others: loss(**own, **others)))

    def derivative(arrays: dict[str, Float64Array]) -> list[Any]:
        own = {name: arrays.pop(name) for name in inputs}
        found = gradient(own, arrays)
        return [found[name] for name in inputs]

    return derivative


def _by_differences(loss: Callable[..., Any], inputs: Sequence[str]) -> Callable[..., Any]:
    def derivative(arrays: dict[str, Float64Array]) -> list[Any]:
        parts = []
        for name in inputs:
            part = np.zeros(arrays[name].size)
            for place in range(part.size):
                step = (np.arange(part.size) == place).reshape(arrays[name].shape) * STEP
                high = loss(**{**arrays, name: arrays[name] + step})
                low = loss(**{**arrays, name: arrays[name] - step})
                part[place] = (high - low) / (2 * STEP)
            parts.append(part.reshape(arrays[name].shape))
        return parts

    return derivative


def policy_weights(derivative: Derivative) -> list[float]:
    """Return the weights of the policy term at the ratios, for the advantages 1 and -1."""
    old = np.full((6, 1), -2.0)
    logp = old + np.log([RATIOS + RATIOS]).T
    arrays = {"logp": logp, "old_logp": old, "ref_logp": logp, "entropy": old}
    arrays |= {"advantages": np.repeat([[1.0], [-1.0]], 3, axis=0), "mask": np.ones((6, 1))}
    return [*map(float, -derivative(arrays)["logp"][:, 0])]


def weight_rows(derivative: Derivative) -> list[CheckRow]:
    """Return rows about the weights of the policy term."""
    weights = policy_weights(derivative)
    text = ", ".join(f"{weight:.3g}" for weight in weights)
    is_even = weights[1] > EQUAL and abs(weights[1] + weights[4]) < 2 * EQUAL
    rows = [
        CheckRow(
            "weights", f"{text} at ratios 0.5, 1, 1.5 and A = 1, then A = -1",
            "holds" if is_even else "fails", "at ratio 1: c for A = 1, -c for A = -1, and c > 0",
        )
    ]  # fmt: skip
    is_clipped = min(abs(weights[0]), abs(weights[5])) < EQUAL
    rows.append(
        CheckRow(
            "clip", "stops where it should not" if is_clipped else "right",
            "fails" if is_clipped else "holds",
            "not 0 at ratio 0.5 with A = 1, and at 1.5 with A = -1",
        )
    )  # fmt: skip
    names = [
        name for name, known in POLICY_LOSSES.items() if np.allclose(weights, known, atol=EQUAL)
    ]
    return rows + [CheckRow(RECOGNISED, name, "remark") for name in names]


def mask_row(derivative: Derivative, rng: np.random.Generator) -> CheckRow:
    """Return the row about what is behind the mask, and about columns without decisions."""
    shape = 3, 4
    mask = np.arange(4) < np.array([[4], [2], [3]])
    arrays = {name: rng.normal(-1, 0.3, shape) * mask for name in LOSS_NAMES} | {"mask": mask * 1.0}
    noise = np.where(mask, 0.0, rng.normal(-1, 0.3, shape))
    noisy = {name: array + noise * (name != "mask") for name, array in arrays.items()}
    wide = {name: np.pad(array, ((0, 0), (0, 2))) for name, array in arrays.items()}
    plain = derivative(arrays)["logp"] * mask
    changes = derivative(noisy)["logp"] - plain, derivative(wide)["logp"][:, :4] * mask - plain
    moved = max(float(np.abs(change).max()) for change in changes)
    return CheckRow(
        "mask",
        f"derivatives move by {moved:.2g} with entries behind the mask",
        "holds" if moved < EQUAL else "fails",
        "0",
    )


class EpisodeLosses:
    """All episodes of a process, for losses."""

    def __init__(self, process: DecisionModel, tokens: bool) -> None:
        self.process = process
        self.tokens = tokens
        self.places, self.chances = process.episodes()

    def _sample(self, tables: Mapping[str, Float64Array]) -> Sample:
        """Return all episodes as one batch."""
        mask = self.places >= 0
        arrays = {name: table.ravel()[self.places] * mask for name, table in tables.items()}
        sample = Sample({**arrays, "mask": mask}, self.places, np.zeros((1, *mask.shape)))
        return spell(sample, self.process.game.cells) if self.tokens else sample

    def expected(
        self, derivative: Derivative, pair: PolicyPair, tables: Mapping[str, Float64Array]
    ) -> Float64Array:
        """Return the expected direction of descent of a loss of one episode, float64[S, A]."""
        sample = self._sample(tables)
        count = len(self.chances)
        parts = derivative(sample.arrays)

        def ask(row: int) -> dict[str, Float64Array]:
            return derivative(sample.rows(slice(row, row + 1)).arrays)

        compared = np.linspace(0, count - 1, NUM_COMPARED).astype(int).tolist()
        if any(
            not np.allclose(ask(row)["logp"][0], parts["logp"][row], rtol=EQUAL, atol=1e-9)
            for row in compared
        ):
            singles = [ask(row) for row in range(count)]
            parts = {name: np.concatenate([one[name] for one in singles]) for name in parts}
        valid = sample.places >= 0

        def add(name: str) -> Float64Array:
            weights = (-parts[name] * self.chances[:, None])[valid]
            sums = np.bincount(sample.places[valid], weights, pair.present.size)
            return np.asarray(sums.reshape(pair.present.shape))

        sums = add("logp")
        total = sums - pair.present * sums.sum(axis=1, keepdims=True)
        if "entropy" in parts:
            logs = log(pair.present)
            centre = (pair.present * logs).sum(axis=1, keepdims=True)
            total -= add("entropy").sum(axis=1, keepdims=True) * pair.present * (logs - centre)
        return np.asarray(total)


def check_loss(
    loss: Callable[..., Any],
    game: str | Game = "2x3/3",
    *,
    seat: int = 0,
    meant: str = POLICY,
    updates: Sequence[float] = (0.0, 0.3),
    backend: Backend = "torch",
    batch: int = 1,
    tokens: bool = False,
    policy: int | str | Policy = 0,
    cpu: float = 60.0,
    seed: int = 0,
    limit_s: float | None = 60.0,
) -> GradientCheck:
    """Check the gradient of a loss of others against exact ones.

    The loss is given the arrays that its arguments name, float64[B, T] of B episodes of up to T
    decisions, and returns a number: ``logp`` of what was played under the present policy,
    ``old_logp`` under that which played, ``ref_logp``, ``advantages`` (exact), ``mask`` (1 where
    there is a decision), and ``entropy`` of the present policy.

    Args:
        loss: the function.
        game: as of :func:`ttt_eval.checks.advantages.check_advantages`.
        seat: of the learner.
        meant: what it is to descend: ``"policy"``, with the present policy as the reference; or,
            with advantages 0, another name of :data:`ttt_eval.checks.divergences.TARGETS`.
        updates: sizes of updates between the old and the present policy; the first decides, and
            later ones fail if they turn the gradient around.
        backend: that differentiates: torch, jax, or numpy by differences.
        batch: number of episodes in a batch; of more than one samples are judged, before an update.
        tokens: whether decisions are several tokens, see :mod:`ttt_eval.checks.tokens`.
        policy: of both players: the seed of a random softmax policy, or a pure policy.
        cpu: CPU s of samples.
        seed: of all random numbers.
        limit_s: maximum s of a call; None for no limit.

    Raises:
        TypeError: ``loss`` is no function.
        ValueError: an option is unknown or out of range, or the loss asks for an unknown array.
    """
    check_choice("meant", meant, tuple(TARGETS))
    check_choice("backend", backend, ("torch", "jax", "numpy"))
    check_range("batch", batch, 1)
    if batch > 1 and (meant != POLICY or updates[0] != 0):
        raise Refusal("batches are judged before an update and as a policy loss: choose batch=1")
    names = asked_names(loss, LOSS_NAMES)
    process = DecisionModel(parse_game(game), (seat,), policy)
    rng = np.random.default_rng([seed, 9])
    step, difference = rng.normal(0, SPREAD, (2, *process.legal.shape))
    step, difference = rng.normal(0, SPREAD, (2, *process.legal.shape))
    enumeration = EpisodeLosses(process, tokens)
    effect = None
    rows: list[CheckRow] = []
    with GuardedCaller(limit_s) as caller:
        derivative = differentiate(loss, names, backend, caller)
        try:
            if meant == POLICY:
                rows += weight_rows(derivative)
            rows.append(mask_row(derivative, rng))
            for size in updates:
                present = _move(process.policy, size * step)
                reference = present if meant == POLICY else _move(process.policy, difference)
                pair = PolicyPair(process, present, reference)
                tables = loss_tables(pair, process.advantages * (meant == POLICY))
                if batch > 1:
                    source = EpisodeSource(process, BatchSize(batch, batch), tables, tokens)
                    effect = sampled_effect(
                        lambda arrays: -derivative(arrays)["logp"],
                        source, TARGETS[meant](pair), rng, cpu,
                    )  # fmt: skip
                    rows.append(gradient_row(effect))
                    break
                gradient = enumeration.expected(derivative, pair, tables)
                found = compare_exactly(gradient, TARGETS[meant](pair), EXACT_DEGREES)
                if effect is None:
                    effect = found
                    rows.append(gradient_row(found))
                    if meant != POLICY:
                        rows += _recognise(gradient, pair)
                else:
                    status: Status = "fails" if found.direction == "opposite" else "remark"
                    rows.append(CheckRow(f"after an update of {size:g}", str(found), status))
        except AnswerError as error:
            rows.append(CheckRow("answers", str(error), "fails", "a number"))
    return make_check(f"a loss, {process.game}, seat {seat}, meant as {meant}", rows, effect)


def _move(policy: Float64Array, logits: Float64Array) -> Float64Array:
    """Return a policy after a change of its logits."""
    weights = policy * np.exp(logits)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def loss_tables(pair: PolicyPair, advantages: Float64Array) -> dict[str, Float64Array]:
    """Return the numbers of decisions that a loss is given, float64[S, A] each."""
    entropy = -(pair.present * log(pair.present)).sum(axis=1, keepdims=True)
    return {
        "logp": log(pair.present),
        "old_logp": log(pair.process.policy),
        "ref_logp": log(pair.reference),
        "advantages": advantages,
        "entropy": np.broadcast_to(entropy, advantages.shape),
    }


def _recognise(gradient: Float64Array, pair: PolicyPair) -> list[CheckRow]:
    """Return the rows about what a gradient descends."""
    directions = {
        name: compare_exactly(gradient, target(pair), EXACT_DEGREES).direction
        for name, target in TARGETS.items()
    }
    return [
        CheckRow(RECOGNISED, name, "remark")
        for name, direction in directions.items()
        if direction in ("unbiased", "length only")
    ]
