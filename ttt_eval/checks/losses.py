"""Is a loss right? Its expected gradient, and its weights.

A loss that reads only log-probabilities of what was played is an advantage estimator: its advantage
is minus the derivative in the log-probability, times the number of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from ttt_envs.agents.policy import normalise
from ttt_envs.core.checks import Refusal, check_choice, check_range, find_named
from ttt_envs.core.files import read_table
from ttt_envs.core.jit import Float64Array
from ttt_envs.game.game import Game
from ttt_eval.checks.advantages import (
    DEFAULT_BATCH,
    GradientCheck,
    asked_names,
    guard,
    refuse_tuple,
    run_check,
)
from ttt_eval.checks.calls import GuardedCaller
from ttt_eval.checks.check import CheckRow, Status, list_fitting
from ttt_eval.checks.decisions import DecisionModel
from ttt_eval.checks.directions import Effect, measure_effect
from ttt_eval.checks.input_probes import RECOGNISED, differ, number_row, probe_batch, rule_row
from ttt_eval.checks.samples import (
    EQUAL,
    Arrays,
    BatchSize,
    Estimator,
    Source,
    list_batch_rows,
)

Backend = Literal["torch", "jax", "numpy"]
LOSS_NAMES = {"logp", "old_logp", "ref_logp", "advantages", "mask", "entropy"}
STEP = 1e-7
"""Of numerical differences."""
SPREAD = 0.5
"""Standard deviation of the logits of an update of size 1, and of the reference."""
POLICY = "policy"
TARGETS = ("kl", "kl of episodes", "reverse kl", "entropy")
"""What a loss may descend in place of the surrogate E[ratio x advantage]: KL(policy, reference) at
each position, or as a sum over the rest of the episode; KL(reference, policy); the entropy."""
RATIOS = (0.5, 1.0, 1.5) * 2
SIGNS = np.repeat([1.0, -1.0], 3)
"""Ratios and advantages of weights."""
NUMBERS = np.arange(6) - 1.0
"""Other advantages: all different, and of mean 1.5."""
SHIFT = 0.02
"""Of log-probabilities of the reference, by which the pull of a divergence is measured: small, but
not for single precision."""
SHIFTS = (0.0, SHIFT, -SHIFT, 0.5, -0.5)
"""The same, and those by which forms of a divergence differ by more than a tenth."""
FORMS = {
    "KL(policy, reference)": np.array(SHIFTS[-2:]),
    "KL(reference, policy)": np.expm1(SHIFTS[-2:]),
}
"""Pulls of divergences with coefficient 1 at the last two shifts."""
STEPS = np.arange(3)
"""Of the longest rows by which terms are compared."""
SAME_SHARE = 0.05
"""Largest relative difference of equal coefficients, from differences in single precision."""
MIN_COEFFICIENT = 1e-5
"""Smaller coefficients count as 0."""
CLIP = "PPO clip"
MAX_CLIP = 0.499
"""Largest range of a clip; :data:`RATIOS` must lie outside."""
CLIP_PRECISION = 1e-8
"""Of the range of a clip: those of ratios of sequences are below 1e-3."""
SAME_CLIP = 0.005
"""Largest relative difference of equal ranges, in single precision."""
POLICY_LOSSES: Mapping[str, Sequence[float]] = read_table(__file__)
"""Weights of the policy term, times the advantages, by what it is meant as; NaN for any."""

NORMALISED_BATCH = 256
"""Default number of games in a batch of a loss that normalises advantages."""
NORMALISED_ROW = CheckRow(
    "normalisation",
    "advantages are normalised in the batch, which turns the gradient of small ones: it is that of "
    f"{NORMALISED_BATCH} games; for yours give batch= (--batch)",
    "no evidence",
)
VALUE_NOTE = "; a value loss is not judged: use check_learner, or give the loss of the policy alone"

Clip = float | tuple[float, float] | None
LossOf = Callable[[Any, Mapping[str, Any]], Any]
"""A loss of float64[2, N, T], ``logp`` and ``entropy``, and the arrays by name."""


def differentiate(
    loss: Callable[..., Any], names: Sequence[str], backend: Backend
) -> Callable[..., Float64Array]:
    """Return a function of the arrays of a loss, float64[N, 2 * T]: minus its derivatives in
    ``logp``, then those in ``entropy``, times N.

    Args:
        loss: the function.
        names: of its arguments.
        backend: that differentiates.
    """

    def loss_of(variables: Any, arrays: Mapping[str, Any]) -> Any:
        values = {**arrays, "logp": variables[0], "entropy": variables[1]}
        return refuse_tuple(loss(**{name: values[name] for name in names}), "loss")

    backends = {"torch": _by_torch, "jax": _by_jax, "numpy": _by_differences}
    differentiated = find_named("backend", backend, backends)
    if find_spec(backend) is None:
        raise Refusal(f"{backend} is not installed: install it, or choose another backend")
    gradient = differentiated(loss_of)

    def derivatives(**arrays: np.ndarray) -> Float64Array:
        numbers = {name: array.astype(np.float64) for name, array in arrays.items()}
        logp = numbers["logp"]
        variables = np.stack([logp, numbers.get("entropy", 0 * logp)])
        return -len(logp) * np.concatenate(np.asarray(gradient(variables, numbers)), axis=1)

    return derivatives


def _by_torch(loss: LossOf) -> LossOf:
    import torch

    def gradient(variables: Any, arrays: Mapping[str, Any]) -> Any:
        tensors = {name: torch.as_tensor(array) for name, array in arrays.items()}
        variable = torch.tensor(variables, requires_grad=True)
        value = loss(variable, tensors) + 0 * variable.sum()  # a loss may be constant
        return torch.autograd.grad(value, variable)[0]

    return gradient


def _by_jax(loss: LossOf) -> LossOf:
    import jax

    gradient: LossOf = jax.jit(jax.grad(loss))
    return gradient


def _by_differences(loss: LossOf) -> LossOf:
    from scipy.optimize import approx_fprime

    def gradient(variables: Any, arrays: Mapping[str, Any]) -> Any:
        def loss_of(numbers: Float64Array) -> Any:
            return loss(numbers.reshape(variables.shape), arrays)

        return approx_fprime(variables.ravel(), loss_of, STEP).reshape(variables.shape)

    return gradient


def list_decisions(ratios: ArrayLike, advantages: ArrayLike) -> dict[str, np.ndarray]:
    """Return the arrays of rows of T decisions each, [N, T].

    Args:
        ratios, advantages: float64[N, T]; float64[N] for rows of one decision.
    """
    ratio, advantage = np.atleast_3d(np.array([ratios, advantages]))
    old = np.full(ratio.shape, -2.0)
    logp = old + np.log(ratio)
    arrays = {"logp": logp, "old_logp": old, "ref_logp": logp, "entropy": old}
    return arrays | {"advantages": advantage, "mask": np.ones(old.shape, bool)}


def clip_row(estimator: Estimator, clip: Clip) -> CheckRow:
    """Return a row about the distances from ratio 1 up to which there is a gradient: below it with
    A = -1, and above it with A = 1.

    Args:
        estimator: the derivatives of the loss.
        clip: the required distances; None for any.
    """
    sides = np.array([-1.0, 1.0])
    reach = np.zeros(2)
    step = MAX_CLIP / 2
    least = EQUAL * np.abs(estimator(list_decisions(sides**0, sides))[:, 0])
    while step > CLIP_PRECISION:
        ratios = 1 + sides * (reach + step)
        reach += step * (np.abs(estimator(list_decisions(ratios, sides))[:, 0]) >= least)
        step /= 2
    return rule_row(
        "range of clip",
        clip is None or np.allclose(reach, clip, SAME_CLIP),
        f"{clip or 'any'}",
        ", ".join(dict.fromkeys(f"{distance:.3g}" for distance in reach)),
    )


def moves_with(estimator: Estimator, advantages: ArrayLike) -> bool:
    """Return whether the derivatives of a loss change if :data:`NUMBERS` are replaced by other
    advantages, float64[6].
    """
    one, other = (estimator(list_decisions(RATIOS, numbers)) for numbers in (NUMBERS, advantages))
    return differ(one, other)


def weigh_terms(estimator: Estimator, copies: int) -> tuple[Float64Array, Float64Array]:
    """Return what a loss weighs in decisions with ratio 1 of rows of up to three: the policy term
    times the advantage, float64[D]; and over that, float64[D, 6], the log-probability with the
    reference of the decision shifted by :data:`SHIFTS`, and the entropy. D lists the decisions of
    rows of one, two and three, with the advantage 1 and then with -1.

    Args:
        estimator: the derivatives of the loss.
        copies: number of copies of all rows in the batch.
    """
    signs, lengths, columns, shifts = np.transpose(
        [
            (sign, length, column, shift)
            for sign in (1, -1)
            for length in (1, 2, 3)
            for column in range(length)
            for shift in SHIFTS
        ]
        * copies
    )[..., None]
    is_own = columns == STEPS
    arrays = list_decisions(STEPS**0 + 0 * signs, STEPS**0 * signs)
    arrays["mask"] = lengths > STEPS
    arrays["ref_logp"] = arrays["logp"] + shifts * is_own
    weights, of_entropy = (
        part[is_own].reshape(-1, len(SHIFTS)) for part in np.split(estimator(arrays), 2, axis=1)
    )
    own = weights[:, 0] * signs[:: len(SHIFTS), 0]
    return own, np.column_stack([weights, of_entropy[:, 0]]) / np.maximum(own, EQUAL)[:, None]


def coefficient_row(name: str, shares: Float64Array, meant: float | None, limit: float) -> CheckRow:
    """Return a row about the coefficient of a term, or about several.

    Args:
        name: of the term.
        shares: float64[2, D], its weights over those of the policy term, in a batch and in one of
            twice the size.
        meant: the required coefficient; None for any from 0 to ``limit``.
        limit: the largest coefficient if none is required.
    """
    shares = np.where(np.abs(shares) < MIN_COEFFICIENT, 0.0, shares)
    if not np.allclose(shares, shares[0, 0], SAME_SHARE, MIN_COEFFICIENT):
        return rule_row(
            f"share of {name}",
            False,
            "one, with any advantage, length of the row and size of the batch",
            f"from {shares.min():.4g} to {shares.max():.4g}",
        )
    # advantages divided by a deviation of n - 1 change it linearly in 1 / n: it is extrapolated
    coefficient = [-1, 2] @ shares.mean(axis=1)
    return number_row(f"sign of {name}" if coefficient < 0 else name, coefficient, meant, limit)


def weight_rows(
    estimator: Estimator, meant: str, entropy: float | None, kl: float | None, clip: Clip
) -> Iterator[CheckRow]:
    """Yield rows about the weights of the policy term, of a divergence from the reference and of
    the entropy, the first about whose advantages they follow.

    Args:
        estimator: the derivatives of the loss.
        meant: a name in :data:`POLICY_LOSSES`, whose weights are required.
        entropy: the required coefficient of the entropy; None for any from 0 to 1.
        kl: that of the divergence; None for any of at least 0.
        clip: the required range; None for any.
    """
    has_gradient = differ(estimator(list_decisions(RATIOS, NUMBERS)), 0.0)
    yield rule_row(
        "own advantage",
        moves_with(estimator, NUMBERS[::-1]),
        "weights of rows change if their advantages are exchanged",
        "" if has_gradient else "no row has a gradient",
    )
    own, shares = weigh_terms(estimator, 1)
    of_three = own.reshape(2, -1)[:, -len(STEPS) :]
    yield rule_row(
        "decisions of a row",
        not differ(of_three, of_three[:, :1]),
        "equal decisions of a row have equal weights",
        f"{(np.round(of_three[0], 3) + 0.0).tolist()} in a row of three",
    )
    arrays = list_decisions(RATIOS, SIGNS)
    weights = estimator(arrays)[:, 0]
    factors = weights * SIGNS / max(weights[1], EQUAL)
    required = POLICY_LOSSES[meant]
    yield rule_row(
        "weights",
        not (np.abs(np.subtract(factors, required)) > EQUAL).any(),
        f"c A times {required}, c > 0, nan for any",
        f"{(np.round(weights, 3) + 0.0).tolist()} at ratios 0.5, 1, 1.5 and A = 1, then A = -1",
    )
    if weights[1] < -EQUAL:
        is_inverted = np.abs(weights[[0, 3]]).max() > -weights[1] + EQUAL
        yield rule_row(
            "ratio",
            False,
            "above 0 times the advantage at ratio 1",
            "inverted: old / new" if is_inverted else "times minus 1",
        )
    least, least_beyond = np.abs(weights[[[0, 5], [2, 3]]]).min(axis=1)
    yield rule_row(
        "clip",
        least >= EQUAL,
        "not 0 at ratio 0.5 with A = 1, and at 1.5 with A = -1",
        "wrong side" if least < EQUAL <= least_beyond else "",
    )
    for name, others in POLICY_LOSSES.items():
        if np.allclose(factors, others, atol=EQUAL):
            yield CheckRow(RECOGNISED, name, "remark")
    if meant == CLIP or clip is not None:
        yield clip_row(estimator, clip)
    if own.min() < EQUAL:
        return
    batches = np.stack([shares, weigh_terms(estimator, 2)[1][: len(own)]])
    base, above, below, far_above, far_below, of_entropy = np.moveaxis(batches, 2, 0)
    of_divergence = (above - below) / (2 * SHIFT)
    yield coefficient_row("divergence", of_divergence, kl, np.inf)
    pulls = np.stack([far_above, far_below] - base)[:, 0, 0]
    if np.abs(pulls).max() > MIN_COEFFICIENT:
        forms = {
            name: np.allclose(pulls, of_divergence[0, 0] * form, SAME_SHARE)
            for name, form in FORMS.items()
        }
        fitting = list_fitting(forms)
        yield rule_row("form of divergence", bool(fitting), " or ".join(FORMS), ", ".join(fitting))
    yield coefficient_row("entropy", of_entropy, entropy, 1.0)


def list_tables(
    model: DecisionModel,
    present: Float64Array,
    reference: Float64Array,
    meant: str,
) -> dict[str, Float64Array]:
    """Return the numbers of decisions by the name of their array, float64[S, A]; those of "right"
    are estimates with the expected gradient of a target.

    Args:
        model: the decisions, with the policy that played.
        present: float64[S, A], the policy after an update.
        reference: float64[S, A].
        meant: the target, a name in :data:`TARGETS`; others stand for the surrogate.
    """
    from scipy.special import entr

    policies = present, model.policy, reference
    logp, old_logp, ref_logp = (np.log(np.where(model.legal, p, 1.0)) for p in policies)
    ratio = np.exp(logp - old_logp)
    terms = logp - ref_logp
    costs = np.zeros(terms.shape)
    for sign in (1, -1):  # the other player's terms do not count
        is_own = model.signs[:, None] == sign
        costs += is_own * model.actions.policy_values(present, is_own * terms)[1]
    estimates = {
        "kl": -terms,
        "kl of episodes": -costs,
        "reverse kl": np.exp(-terms),
        "entropy": -logp,
    }
    return {
        "logp": logp,
        "old_logp": old_logp,
        "ref_logp": ref_logp,
        "entropy": entr(present).sum(axis=1, keepdims=True) + 0 * logp,
        "right": ratio * estimates.get(meant, model.advantages),
    }


def check_loss(
    loss: Callable[..., Any],
    game: str | Game = "2x3/3",
    seats: tuple[int, ...] = (0,),
    *,
    meant: str = POLICY,
    entropy: float | None = None,
    kl: float | None = None,
    clip: Clip = None,
    updates: Sequence[float] = (0.0, 0.3),
    backend: Backend = "torch",
    batch: int | None = None,
    tokens: bool = False,
    policy: int = 0,
    cpu: float = 60.0,
    seed: int = 0,
    limit_s: float | None = 60.0,
) -> GradientCheck:
    """Check the gradient of a loss of others against exact ones.

    The loss is given the arrays that its arguments name, float64[N, T] of N rows of up to T
    decisions, see :mod:`ttt_eval.checks.samples`, and returns a number: ``logp`` of what was played
    under the present policy, ``old_logp`` under that which played, ``ref_logp``, ``advantages``
    (exact), ``mask`` (1 where there is a decision), and ``entropy`` of the present policy. A value
    loss is not judged.

    Args:
        loss: the function.
        game, seats: as of :func:`ttt_eval.checks.advantages.check_advantages`.
        meant: what it is to descend: ``"policy"``, with the present policy as the reference, or a
            name of :data:`POLICY_LOSSES`, which also asks for its weights; or, with advantages 0,
            another name of :data:`TARGETS`.
        entropy: coefficient of the entropy bonus beside the policy term, whose gradient alone is
            compared; None for that which the loss has, from 0 to 1.
        kl: coefficient of the divergence from the reference beside the policy term; None for that
            which the loss has, of at least 0.
        clip: range of the clip, one number or those below and above ratio 1, up to 0.499; None for
            any.
        updates: sizes of updates between the old and the present policy; the first decides, and
            later ones fail if they turn the gradient around.
        backend: that differentiates: torch, jax, or numpy by differences.
        batch: number of games in a batch, on which means over it depend; None for 8, or for 256 if
            the loss normalises advantages, which then is not judged.
        tokens: whether decisions are several tokens.
        policy: of both players: the seed of a random softmax policy.
        cpu: CPU s of samples.
        seed: of all random numbers.
        limit_s: maximum s of a call; None for no limit.

    Raises:
        TypeError: ``loss`` is no function.
        ValueError: an option is unknown or out of range, or the loss asks for an unknown array, or
            not for ``logp``.
    """
    check_choice("meant", meant, (*POLICY_LOSSES, *TARGETS))
    check_range("batch", batch, 1)
    check_range("clip", max(np.ravel(clip or 0.0)), 0, MAX_CLIP)
    of_policy = meant in POLICY_LOSSES
    names = asked_names(loss, LOSS_NAMES, VALUE_NOTE)
    if "logp" not in names:
        raise Refusal("the loss does not ask for logp: nothing can be differentiated")
    model = DecisionModel(game, seats, policy)
    rng = np.random.default_rng([seed, 9])
    step, difference = rng.normal(0, SPREAD, (2, *model.legal.shape))

    def examine(caller: GuardedCaller) -> Iterator[CheckRow | Effect]:
        estimator = guard(differentiate(loss, names, backend), names, "logp", caller, columns=2)
        size = batch or DEFAULT_BATCH
        if of_policy:
            rows = list(weight_rows(estimator, meant, entropy, kl, clip))
            yield from rows
            if rows[0].status == "fails":
                return  # samples would tell no more
            if batch is None and not moves_with(estimator, 2 * NUMBERS + 1):
                size = NORMALISED_BATCH
                yield NORMALISED_ROW

        def policy_term(arrays: Arrays) -> Float64Array:
            of_logp, of_entropy = np.split(estimator(arrays), 2, axis=1)
            return np.concatenate([of_logp, of_entropy * (not of_policy)], axis=1)

        def make_source(update: float, target: str) -> Source:
            present = normalise(model.policy * np.exp(update * step))
            reference = present if of_policy else normalise(model.policy * np.exp(difference))
            tables = list_tables(model, present, reference, target)
            tables["advantages"] = model.advantages * of_policy
            games = list_batch_rows(model, tables, names, tokens)
            return Source(games, BatchSize(size, size), present, of_loss=True)

        def measure(update: float, target: str) -> Effect:
            return measure_effect(policy_term, make_source(update, target), rng, cpu)

        first, *later = updates
        if "mask" in names:
            yield from probe_batch(estimator, make_source(first, meant), rng)
        else:
            yield CheckRow("mask", "the loss does not ask for it", "no evidence")
        yield measure(first, meant)
        for target in TARGETS:
            if not of_policy and measure(first, target).status == "holds":
                yield CheckRow(RECOGNISED, target, "remark")
        for update in later:
            effect = measure(update, meant)
            status: Status = "fails" if effect.direction == "opposite" else "remark"
            yield CheckRow(f"after an update of {update:g}", str(effect), status)

    unjudged = {
        "the clip, without meant=": meant == POLICY,
        "the range of the clip, without clip=": meant == CLIP and clip is None,
        "the coefficient of the entropy, without entropy=": (
            of_policy and "entropy" in names and entropy is None
        ),
        "the coefficient of the divergence, without kl=": (
            of_policy and "ref_logp" in names and kl is None
        ),
    }
    return run_check(
        f"a loss, {model.game}, seats {seats}, meant as {meant}, "
        f"batches of {batch or 'the default size'}",
        examine,
        limit_s,
        list_fitting(unjudged),
        batch=batch,
    )
