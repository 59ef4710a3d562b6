"""Names of advantage estimators, and checked calls of them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np

from ttt_envs.agents.specs import FromFile, Spec, convert_value, load_object, parse_spec, trusted
from ttt_envs.core.checks import closest_names
from ttt_envs.core.jit import BoolArray, Float64Array

Quantity = Literal["advantage", "return"]
Function = Callable[..., Any]


class _BuiltIn(NamedTuple):
    function: str
    estimates: Quantity
    about: str


_HOME = "ttt_eval.audit.estimators"
ESTIMATORS: Mapping[str, _BuiltIn] = {
    "monte-carlo": _BuiltIn("monte_carlo", "return", "return of the rest of the episode"),
    "return-minus-value": _BuiltIn("return_minus_value", "advantage", "return minus the value of the position"),
    "n-step": _BuiltIn("n_step", "advantage", "n-step return minus the value"),
    "td-lambda": _BuiltIn("td_lambda", "return", "lambda-return"),
    "gae": _BuiltIn("gae", "advantage", "generalised advantage estimation"),
    "gae-finite": _BuiltIn("gae_finite", "advantage", "GAE with weights normalised over the decisions left"),
    "v-trace": _BuiltIn("v_trace", "advantage", "V-trace, off policy"),
    "importance-sampling": _BuiltIn("importance_sampling", "advantage", "per-decision importance sampling"),
    "rloo": _BuiltIn("rloo", "advantage", "return minus the mean of the other episodes of a group"),
    "grpo": _BuiltIn("grpo", "advantage", "return minus the mean of a group, over its standard deviation"),
    "per-turn": _BuiltIn("per_turn", "advantage", "rewards centred turn by turn, then summed"),
    "per-turn-return": _BuiltIn("per_turn_return", "advantage", "returns from each turn on minus those of the group"),
}
"""Built-in estimators: functions of :mod:`ttt_eval.audit.estimators`, the quantity that each estimates, and a
description."""
ARRAYS = ("rewards", "values", "terminated", "truncated", "mask")
SUPPLIED = ("discount", "ratios", "group_size")
"""Keyword arguments that the audit supplies."""
GRAMMAR = "write a name such as gae, with settings as in gae:lam=0.9, or module:function of your own"
MAX_COMPARED = 64
"""Maximum number of episodes with which the independence of episodes is checked."""
TOLERANCE = 1e-4
"""Maximum relative difference of estimates that count as equal: many estimators compute in float32."""


class Estimator(NamedTuple):
    """An advantage estimator with its settings."""

    name: str
    function: Function
    estimates: Quantity = "advantage"

    @property
    def uses_groups(self) -> bool:
        """Whether it compares the episodes of a group."""
        return "group_size" in _keywords(self.function)


def make_estimator(spec: str | Function | Estimator) -> Estimator:
    """Return the estimator that a spec string or a function names.

    Args:
        spec: a name of :data:`ESTIMATORS`, with settings or without, or ``"module:function"``; or a function. See
            :mod:`ttt_eval.audit.estimators` for its arguments.

    Raises:
        TypeError: neither a string nor a function.
        ValueError: an unknown name or setting, an invalid value, or a function that cannot be called so.
    """
    if isinstance(spec, Estimator):
        return spec
    if not isinstance(spec, str):
        if not callable(spec):
            raise TypeError(f"{spec!r} is no estimator: {GRAMMAR}")
        return _check_call(Estimator(getattr(spec, "__name__", type(spec).__name__), spec))
    try:
        parsed = parse_spec(spec)
    except ValueError:
        raise ValueError(f"{spec[:80]!r} is no estimator: {GRAMMAR}") from None
    if parsed.name in ESTIMATORS:
        one = ESTIMATORS[parsed.name]
        function, estimates = load_object(f"{_HOME}:{one.function}"), one.estimates
    elif ":" in parsed.name:
        if isinstance(spec, FromFile) and not trusted():
            raise ValueError(f"{parsed.name[:80]!r} was read from a file, which may name built-in estimators only")
        function, estimates = load_object(parsed.name), "advantage"
        if not callable(function):
            raise ValueError(f"{parsed.name} is no function: it is {function!r}")
    else:
        raise ValueError(f"there is no estimator {parsed.name!r}: {closest_names(parsed.name, ESTIMATORS)}")
    settings = _settings(parsed, function)
    return _check_call(Estimator(spec, functools.partial(function, **settings) if settings else function, estimates))


def _settings(spec: Spec, function: Function) -> dict[str, Any]:
    """Return the settings of a spec, converted to the types of their defaults or annotations."""
    known = {
        name.replace("_", "-"): parameter for name, parameter in _keywords(function).items() if name not in SUPPLIED
    }
    given = dict(spec.keyed)
    if spec.unkeyed is not None:
        if not known:
            raise ValueError(f"{spec.name} has no settings: write {spec.name!r} without {spec.unkeyed!r}")
        given = {next(iter(known)): spec.unkeyed, **given}
    found = {}
    for key, value in given.items():
        parameter = known.get(key.replace("_", "-"))
        if parameter is None:
            raise ValueError(f"{spec.name} has no setting {key!r}: {closest_names(key, known)}")
        kind = type(parameter.default) if parameter.default is not parameter.empty else parameter.annotation
        found[parameter.name] = convert_value(spec.name, key, value, kind)
        if isinstance(found[parameter.name], float) and not np.isfinite(found[parameter.name]):
            raise ValueError(f"{spec.name}: {key}={value!r} is not finite")
    return found


def _keywords(function: Function) -> dict[str, inspect.Parameter]:
    """Return the parameters that are passed by name: those after the arrays."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # a builtin without a signature
        return {}
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {
        one.name: one
        for index, one in enumerate(parameters)
        if one.kind in kinds and (one.kind is one.KEYWORD_ONLY or index >= len(ARRAYS))
    }


def _check_call(estimator: Estimator) -> Estimator:
    """Raise ValueError unless the function takes the arrays, and nothing more that it must be given."""
    keywords = {name: None for name in SUPPLIED if name in _keywords(estimator.function)}
    try:
        inspect.signature(estimator.function).bind(*ARRAYS, **keywords)
    except TypeError as problem:
        raise ValueError(
            f"{estimator.name} cannot be called as function({', '.join(ARRAYS)}), with the keyword arguments "
            f"{', '.join(SUPPLIED)} where it has them: {problem}"
        ) from None
    except ValueError:  # no signature: the call will tell
        pass
    return estimator


class EpisodeArrays(NamedTuple):
    """Arguments of an estimator, see :mod:`ttt_eval.audit.estimators`."""

    rewards: Float64Array
    values: Float64Array
    terminated: BoolArray
    truncated: BoolArray
    mask: BoolArray

    def first(self, count: int) -> EpisodeArrays:
        """Return copies of the arrays of the first ``count`` episodes."""
        return EpisodeArrays(
            self.rewards[:count].copy(),
            self.values[:count].copy(),
            self.terminated[:count].copy(),
            self.truncated[:count].copy(),
            self.mask[:count].copy(),
        )


class KeywordArguments(NamedTuple):
    """Keyword arguments that an estimator may have."""

    discount: float
    ratios: Float64Array
    group_size: int


def estimate_advantages(estimator: Estimator, arrays: EpisodeArrays, supplied: KeywordArguments) -> Float64Array:
    """Return the estimates of advantages, float64[E, T], 0 where there is no decision.

    Raises:
        ValueError: the estimator fails, changes its arguments, returns another shape or no finite numbers, or mixes
            episodes without ``group_size``.
    """
    found = _call(estimator, arrays, supplied)
    if not estimator.uses_groups and len(found) > 1:
        few = max(1, min(MAX_COMPARED, len(found) // 2))
        alone = _call(estimator, arrays.first(few), supplied._replace(ratios=supplied.ratios[:few]))
        if not np.allclose(alone, found[:few], rtol=TOLERANCE, atol=TOLERANCE):
            raise ValueError(
                f"{estimator.name} gives an episode other estimates beside other episodes: give it the keyword "
                f"argument group_size, so that the audit knows which episodes it compares"
            )
    return found


def _call(estimator: Estimator, arrays: EpisodeArrays, supplied: KeywordArguments) -> Float64Array:
    given = arrays.first(len(arrays.mask))
    named = _keywords(estimator.function)
    copied = supplied._replace(ratios=supplied.ratios.copy())._asdict()
    keywords = {name: value for name, value in copied.items() if name in named}
    try:
        answer = np.asarray(estimator.function(*given, **keywords))
    except Exception as problem:
        kind = "" if isinstance(problem, ValueError) else f", {type(problem).__name__}"
        raise ValueError(f"{estimator.name} failed{kind}: {problem}") from problem
    for name, before, after in [
        *zip(ARRAYS, arrays, given, strict=True),
        ("ratios", supplied.ratios, copied["ratios"]),
    ]:
        if after.shape != before.shape or not np.array_equal(before, after):
            raise ValueError(f"{estimator.name} changed its argument {name}: it must work on a copy")
    if answer.shape != arrays.mask.shape or answer.dtype.kind not in "fiu":
        raise ValueError(
            f"{estimator.name} returned {answer.dtype}{list(answer.shape)} for {len(arrays.mask)} episodes of up to "
            f"{arrays.mask.shape[1]} decisions: it must return numbers {list(arrays.mask.shape)}"
        )
    found = np.where(arrays.mask, answer, 0.0)
    if not np.isfinite(found).all():
        episode, step = (int(index[0]) for index in np.nonzero(~np.isfinite(found)))
        raise ValueError(
            f"{estimator.name} returned {answer[episode, step]} for decision {step} of episode {episode}: "
            f"it must return finite numbers wherever mask is true"
        )
    return found
