"""Advantage estimators on batches of episodes, each after its source, and their names.

An estimator is any function of a :class:`Batch` that returns float64[E, T]; entries without a
decision are ignored. It treats every episode by itself, unless it has an attribute ``uses_groups``
that is true: then ``group_size`` consecutive episodes form a group. The arrays of CleanRL and
Stable-Baselines3 have the same meaning, transposed: see examples/audit_rollouts.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ttt_envs.agents.specs import FromFile, bind_arguments, load_object, parse_spec, trusted
from ttt_envs.core.checks import Refusal, check_range, find_named
from ttt_envs.core.jit import BoolArray, Float64Array

EPSILON = 1e-6
"""Added to standard deviations before a division."""
MAX_COMPARED = 64
"""Maximum number of episodes with which the independence of episodes is checked."""
TOLERANCE = 1e-4
"""Maximum relative difference of estimates that count as equal: many estimators compute in float32.
"""
GRAMMAR = (
    "write a name such as gae, with settings as in gae:lam=0.9, or module:function of your own"
)


class Batch(NamedTuple):
    """E episodes of up to T decisions of the learner; arrays are 0 where there is no decision."""

    rewards: Float64Array
    """float64[E, T]: after each decision; the result of the game, -1 to 1, at the last one"""
    values: Float64Array
    """float64[E, T + 1]: of the position of each decision, for the learner. The entry after the
    last decision is the value of the position that follows a truncated episode, 0 after a
    terminated one"""
    terminated: BoolArray
    """bool[E, T]: true at the last decision, if the game ended there"""
    truncated: BoolArray
    """bool[E, T]: true at the last decision, if only the episode ended there"""
    mask: BoolArray
    """bool[E, T]: whether there is a decision"""
    ratios: Float64Array
    """float64[E, T]: probability of each action under the audited policy, over that under the
    policy that played
    """
    discount: float = 1.0
    """per decision"""
    group_size: int = 1
    """number of consecutive episodes that form a group"""

    def first(self, count: int) -> Batch:
        """Return the first ``count`` episodes, in arrays of their own."""
        return Batch._make(
            [*(array[:count].copy() for array in self[:6]), self.discount, self.group_size]
        )

    @property
    def continues(self) -> Float64Array:
        """float64[E, T]: 1 where the episode has another decision, else 0."""
        return (self.mask & ~self.terminated & ~self.truncated).astype(np.float64)

    @property
    def returns(self) -> Float64Array:
        """float64[E, T]: discounted sums of rewards from each decision on."""
        return accumulate(self.rewards, np.full(self.mask.shape, self.discount))

    def td_errors(self, ends: BoolArray | None = None) -> Float64Array:
        """Return reward + discount * next value - value, float64[E, T], without a next value at
        ``ends``, by default where the game ended (Schulman et al., 2016, section 3).
        """
        ends = self.terminated if ends is None else ends
        return self.rewards + self.discount * self.values[:, 1:] * ~ends - self.values[:, :-1]

    def grouped(self, array: NDArray[np.generic]) -> NDArray[np.generic]:
        """Return an array [E, ...] as [E / group_size, group_size, ...].

        Raises:
            ValueError: a group of one episode.
        """
        check_range(
            "group_size",
            self.group_size,
            2,
            problem="leaves nothing to compare with",
            hint=" episodes",
        )
        return array.reshape(-1, self.group_size, *array.shape[1:])

    def centred(self, array: Float64Array) -> Float64Array:
        """Return an array [E, ...] minus the mean of the other episodes of each group."""
        groups = self.grouped(array)
        other_means = (groups.sum(axis=1, keepdims=True) - groups) / (self.group_size - 1)
        return np.asarray((groups - other_means).reshape(array.shape))


def accumulate(terms: Float64Array, decay: Float64Array) -> Float64Array:
    """Return x[:, t] = terms[:, t] + decay[:, t] * x[:, t + 1]."""
    out = terms.astype(np.float64)
    for step in range(out.shape[1] - 2, -1, -1):
        out[:, step] += decay[:, step] * out[:, step + 1]
    return out


def _next_column(array: Float64Array) -> Float64Array:
    """Return the array of the next decision, 0 after the last."""
    return np.concatenate([array[:, 1:], np.zeros((len(array), 1))], axis=1)


# --------------------------------------------------------------------------------------------------
# Single episodes


def monte_carlo(batch: Batch, baseline: float = 0.0) -> Float64Array:
    """Return the discounted sum of rewards from each decision on, minus a constant (Williams, 1992,
    section 4).
    """
    return batch.returns - baseline


def return_minus_value(batch: Batch) -> Float64Array:
    """Return the discounted sum of rewards minus the value of the position (Sutton and Barto, 2018,
    equation 13.11).

    Rewards after a truncation are missing and are not replaced: see :func:`gae` with ``lam=1`` for
    that.
    """
    return batch.returns - batch.values[:, :-1]


def n_step(batch: Batch, n: int = 3) -> Float64Array:
    """Return the n-step return minus the value of the position (Mnih et al., 2016, section 4;
    Schulman et al., 2016, equation 15).

    Raises:
        ValueError: n is below 1.
    """
    check_range("n", n, 1, problem="is no number of steps")
    out = errors = batch.td_errors()
    for _ in range(min(n, errors.shape[1]) - 1):
        out = errors + batch.discount * batch.continues * _next_column(out)
    return out


def td_lambda(batch: Batch, lam: float = 0.95) -> Float64Array:
    """Return the lambda-return (Sutton and Barto, 2018, equation 12.2): the target of a critic,
    without a baseline.
    """
    return gae(batch, lam=lam) + batch.values[:, :-1]


def gae(batch: Batch, lam: float = 0.95, bootstrap: bool = True) -> Float64Array:
    """Return generalised advantage estimates (Schulman et al., 2016, equation 16).

    Args:
        batch: the episodes.
        lam: the weight of longer returns: 0 is the one-step temporal-difference error, 1 the return
            minus the value.
        bootstrap: add the value of the position that follows a truncated episode (Pardo et al.,
            2018, equation 6). Without it, a truncation counts as the end of the game.

    Raises:
        ValueError: ``lam`` is outside [0, 1].
    """
    _check_lambda(lam)
    errors = batch.td_errors(None if bootstrap else batch.terminated | batch.truncated)
    return accumulate(errors, batch.discount * lam * batch.continues)


def gae_finite(batch: Batch, lam: float = 0.95) -> Float64Array:
    """Return generalised advantage estimates whose weights are normalised over the existing k-step
    estimates.

    With m decisions left, the k-step estimate has the weight (1 - lam) lam**(k - 1) / (1 - lam**m).
    :func:`gae` gives the longest of them lam**(m - 1), the sum of the weights of all longer ones.
    Doering et al. (2026, arXiv:2602.03386) propose such a correction.

    Raises:
        ValueError: ``lam`` is outside [0, 1].
    """
    _check_lambda(lam)
    errors = batch.td_errors()
    decay = batch.discount * batch.continues
    remaining = accumulate(batch.mask.astype(np.float64), batch.continues)
    if lam == 1.0:  # equal weights, the limit
        return accumulate(remaining * errors, decay) / np.maximum(remaining, 1.0)
    tail = lam ** np.maximum(remaining, 1.0)
    return (accumulate(errors, lam * decay) - tail * accumulate(errors, decay)) / (1.0 - tail)


def _check_lambda(lam: float) -> None:
    check_range("lam", lam, 0, 1, "is no weight of longer returns")


def v_trace(batch: Batch, max_rho: float = 1.0, max_c: float = 1.0) -> Float64Array:
    """Return the advantages of V-trace without the weight of the action (Espeholt et al., 2018,
    equation 1 and section 4.2).

    In an audit this weight is the whole ratio; the paper truncates it, too.

    Args:
        batch: the episodes.
        max_rho: maximum weight of a temporal-difference error.
        max_c: maximum weight of what follows it.
    """
    deltas = np.minimum(batch.ratios, max_rho) * batch.td_errors()
    corrections = accumulate(
        deltas, batch.discount * np.minimum(batch.ratios, max_c) * batch.continues
    )
    next_values = batch.values[:, 1:] * ~batch.terminated + batch.continues * _next_column(
        corrections
    )
    return batch.rewards + batch.discount * next_values - batch.values[:, :-1]


def importance_sampling(batch: Batch) -> Float64Array:
    """Return the return minus the value, each later reward weighted by the ratios of the actions
    that led to it.

    This is per-decision importance sampling (Precup, Sutton and Singh, 2000, section 3). A
    truncated episode ends with the value that follows.
    """
    ends = batch.rewards + batch.discount * batch.values[:, 1:] * batch.truncated
    return (
        accumulate(ends, batch.discount * batch.continues * _next_column(batch.ratios))
        - batch.values[:, :-1]
    )


# --------------------------------------------------------------------------------------------------
# Groups of episodes


def rloo(batch: Batch) -> Float64Array:
    """Return the return of the episode minus the mean return of the other episodes of its group
    (Kool et al., 2019, equation 8; Ahmadian et al., 2024, equation 9).
    """
    return batch.centred(batch.returns[:, :1]) * batch.mask


def grpo(batch: Batch, scale: bool = True) -> Float64Array:
    """Return the return of the episode minus the mean of its group, over the group's standard
    deviation (Shao et al., 2024, section 4.1.2).

    Args:
        batch: the episodes.
        scale: divide by the standard deviation, of a sample. Liu et al. (2025, arXiv:2503.20783) do
            not.
    """
    returns = batch.grouped(batch.returns[:, :1])
    centred = returns - returns.mean(axis=1, keepdims=True)
    if scale:
        centred = centred / (returns.std(axis=1, ddof=1, keepdims=True) + EPSILON)
    return np.asarray(centred.reshape(-1, 1) * batch.mask)


def per_turn(batch: Batch, scale: bool = False, leave_one_out: bool = False) -> Float64Array:
    """Return sums of rewards that are normalised turn by turn: the construction of verl issue 7244.

    Each reward is centred by the mean reward of those episodes of its group that reach the turn,
    and the estimate of a decision is the sum of the centred rewards from it to the episode's own
    end (after Wei et al., 2025). So the number of subtracted means depends on when the episode
    ends.

    Args:
        batch: the episodes.
        scale: also divide by the standard deviation of these rewards.
        leave_one_out: use the means of the other episodes alone.
    """
    rewards = batch.grouped(batch.rewards)
    present = batch.grouped(batch.mask)
    count = present.sum(axis=1, keepdims=True)
    total = rewards.sum(axis=1, keepdims=True)
    mean = total / np.maximum(count, 1)
    other_means = (total - rewards) / np.maximum(count - present, 1)
    centred = np.where(present, rewards - (other_means if leave_one_out else mean), 0.0)
    if scale:
        squares = (np.where(present, rewards - mean, 0.0) ** 2).sum(axis=1, keepdims=True)
        centred = centred / (np.sqrt(squares / np.maximum(count - 1, 1)) + EPSILON)
    return accumulate(centred.reshape(batch.mask.shape), np.ones(batch.mask.shape))


def per_turn_return(batch: Batch) -> Float64Array:
    """Return the return from each turn on minus the mean of the same of all other episodes of the
    group.

    An episode that ended before the turn counts with 0. So the baseline does not depend on the
    episode's own actions, which :func:`per_turn` does not guarantee.
    """
    return batch.centred(batch.returns)


# --------------------------------------------------------------------------------------------------
# Names


class Estimator(NamedTuple):
    """An advantage estimator with its settings."""

    name: str
    function: Callable[[Batch], object]
    estimates: Literal["advantage", "return"] = "advantage"
    uses_groups: bool = False
    """whether it compares the episodes of a group"""

    @classmethod
    def from_function(cls, name: str, function: Callable[[Batch], object]) -> Estimator:
        """Return the estimator of a function of one's own."""
        return cls(name, function, uses_groups=bool(getattr(function, "uses_groups", False)))

    def estimate(self, batch: Batch) -> Float64Array:
        """Return the estimates of advantages, float64[E, T], 0 where there is no decision.

        Raises:
            ValueError: the estimator fails, returns another shape or no finite numbers, or mixes
                episodes without ``uses_groups``.
        """
        estimates = self._call(batch)
        count = min(MAX_COMPARED, len(estimates) // 2)
        partial_estimates = (
            self._call(batch.first(count)) if count and not self.uses_groups else estimates[:count]
        )
        if not np.allclose(partial_estimates, estimates[:count], rtol=TOLERANCE, atol=TOLERANCE):
            raise Refusal(
                f"{self.name} gives an episode other estimates beside other episodes: give the "
                "function an attribute "
                "uses_groups = True, so that the audit knows that it compares the episodes of a "
                "group"
            )
        return estimates

    def _call(self, batch: Batch) -> Float64Array:
        shape = batch.mask.shape
        try:
            answer = np.asarray(self.function(batch.first(len(batch.mask))))
        except Exception as problem:
            kind = "" if isinstance(problem, ValueError) else f", {type(problem).__name__}"
            raise Refusal(f"{self.name} failed{kind}: {problem}") from problem
        if (
            answer.shape != shape
            or answer.dtype.kind not in "fiu"
            or not np.isfinite(answer[batch.mask]).all()
        ):
            raise Refusal(
                f"{self.name} returned {answer.dtype}{list(answer.shape)} for {shape[0]} episodes "
                f"of up to {shape[1]} "
                f"decisions: it must return numbers {list(shape)}, finite ones wherever mask is "
                "true"
            )
        return np.where(batch.mask, answer, 0.0)


SINGLE = (
    monte_carlo,
    return_minus_value,
    n_step,
    td_lambda,
    gae,
    gae_finite,
    v_trace,
    importance_sampling,
)
GROUPS = (rloo, grpo, per_turn, per_turn_return)
RETURNS = (monte_carlo, td_lambda)
"""Estimators of returns."""


def _builtin(function: Callable[..., object]) -> Estimator:
    return Estimator(
        function.__name__.replace("_", "-"),
        function,
        "return" if function in RETURNS else "advantage",
        function in GROUPS,
    )


ESTIMATORS: Mapping[str, Estimator] = {
    estimator.name: estimator for estimator in map(_builtin, (*SINGLE, *GROUPS))
}
"""Built-in estimators by name."""


def make_estimator(spec: str | Callable[[Batch], object] | Estimator) -> Estimator:
    """Return the estimator that a spec string or a function names.

    Args:
        spec: a name of :data:`ESTIMATORS`, with settings or without, or ``"module:function"``; or a
            function.

    Raises:
        TypeError: neither a string nor a function.
        ValueError: an unknown name or setting, or an invalid value.
    """
    if isinstance(spec, Estimator):
        return spec
    if callable(spec):
        return Estimator.from_function(getattr(spec, "__name__", type(spec).__name__), spec)
    try:
        spec_parts = parse_spec(spec)
    except ValueError:
        raise Refusal(f"{spec[:80]!r} is no estimator: {GRAMMAR}") from None
    name = spec_parts.name
    if ":" in name:
        if isinstance(spec, FromFile) and not trusted():
            raise Refusal(
                f"{name[:80]!r} was read from a file, which may name built-in estimators only"
            )
        function = load_object(name)
        if not callable(function) or spec_parts.unkeyed or spec_parts.keyed:
            raise Refusal(f"{spec[:80]!r} is no function: write module:function, without settings")
        return Estimator.from_function(spec, function)
    builtin = find_named("estimator", name, ESTIMATORS)
    settings = bind_arguments(spec_parts, builtin.function, None).arguments
    del settings["batch"]
    return builtin._replace(name=spec, function=functools.partial(builtin.function, **settings))
