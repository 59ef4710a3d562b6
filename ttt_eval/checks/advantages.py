"""Are advantages right? What an estimator reads, and the gradient that it gives."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ttt_envs.agents.policy import Policy
from ttt_envs.core.checks import Refusal, TypeRefusal, check_range
from ttt_envs.core.jit import Float64Array
from ttt_envs.game.boards import Boards
from ttt_envs.game.game import Game
from ttt_eval.checks.batches import BatchSize, ClassSource, EpisodeSource
from ttt_eval.checks.calls import CallError, CallTimeoutError, GuardedCaller
from ttt_eval.checks.check import Check, CheckRow, Status
from ttt_eval.checks.decisions import BOTH, DecisionModel, parse_game
from ttt_eval.checks.directions import (
    MAX_DEGREES,
    NUM_BLOCKS,
    Effect,
    compare_blocks,
    compare_exactly,
)
from ttt_eval.checks.input_probes import RECOGNISED, probe_batch, probe_rollout
from ttt_eval.checks.rollouts import (
    BURN_IN,
    Arrays,
    Estimator,
    RolloutSource,
    exact_rollout_gradient,
)
from ttt_eval.checks.tokens import Sample

ROLLOUT_NAMES = {"rewards", "values", "dones", "next_value", "next_done", "movers"}
BATCH_NAMES = {"rewards", "values", "mask", "groups", "roles", "lengths", "states"}
CLASS_NAMES = BATCH_NAMES - {"values", "states"}
"""Arrays that are equal for games of equal result and lengths."""
DEFAULT_BATCH = 8
EXACT_DEGREES = 0.05
"""Largest angle of the exact gradient of rollouts that counts as no turn."""

Critic = float | str | Callable[[Boards], Any]
"""``"exact"``; the standard deviation of random errors of exact values; or values of positions for
the mover, float64[B]."""

CAUSES = {
    "answers": "the function fails, or returns another form",
    "ends": (
        "rewards and values after the end of an episode move estimates before it: dones[t + 1] "
        "says whether step t ended its episode, dones[t] does not"
    ),
    "next_done": "next_value is used although next_done says that the episode is over",
    "last row": "the last step has no estimate: the loop ends one step early",
    "cut": "next_value is not used where the rollout is cut: a cut counts as the end of the game",
    "environments": "environments are mixed up",
    "past": "estimates depend on steps before the decision",
    "movers": "signs do not follow the movers: after a skip the same player moves again",
    "discount": "later values have another discount",
    "own reward": "the sign is wrong",
    "mask": "values behind the mask are used",
    "groups": "groups are mixed up: estimates compare episodes of other groups",
    "clip": "the clip is on the wrong side, or takes no minimum",
    "weights": "the weight of the policy term is another one than ratio times advantage",
    "gradient": "the expected gradient has another direction",
}
"""Likely causes by failed row, from the most specific to the least."""


@dataclass(frozen=True)
class GradientCheck(Check):
    """The result of a check of advantages or of a loss."""

    effect: Effect | None = None
    """on the expected gradient; None if the function failed"""

    @property
    def recognised(self) -> str:
        """The name of what the function computes; "" if it is unknown."""
        names = [row.measured for row in self.rows if row.name == RECOGNISED]
        return names[0] if names else ""

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready data."""
        effect = None
        if self.effect:
            intervals = {
                name: getattr(self.effect, name).to_dict() for name in ("length", "degrees", "bias")
            }
            effect = {**self.effect._asdict(), **intervals}
        return {**super().to_dict(), "recognised": self.recognised, "effect": effect}


def make_check(subject: str, rows: Sequence[CheckRow], effect: Effect | None) -> GradientCheck:
    """Return a check whose causes are those of its failed rows."""
    failed = {row.name for row in rows if row.status == "fails"}
    causes = [cause for name, cause in CAUSES.items() if name in failed]
    return GradientCheck(subject, rows, causes[:3], effect)


def gradient_row(effect: Effect, rule: str = "") -> CheckRow:
    """Return the row about the expected gradient."""
    statuses: Mapping[str, Status] = {
        "unbiased": "holds", "length only": "holds", "undecided": "no evidence"
    }  # fmt: skip
    status = statuses.get(effect.direction, "fails")
    return CheckRow("gradient", str(effect), status, rule or "unbiased, or of another length only")


class AnswerError(Exception):
    """A function of others failed, or returned no array of numbers of the right shape."""


def asked_names(function: Callable[..., Any], known: set[str]) -> list[str]:
    """Return the known arguments that a function takes.

    Raises:
        TypeError: it is no function.
        ValueError: it needs another argument.
    """
    if not callable(function):
        raise TypeRefusal(f"{function!r} is no function: give a function, see the check's page")
    parameters = inspect.signature(function).parameters.values()
    kinds = inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL
    for parameter in parameters:
        is_needed = parameter.default is parameter.empty and parameter.kind not in kinds
        if is_needed and parameter.name not in known:
            raise Refusal(
                f"the function asks for {parameter.name}, which is unknown: choose from "
                f"{', '.join(sorted(known))}"
            )
    return [parameter.name for parameter in parameters if parameter.name in known]


def call_guarded(caller: GuardedCaller, function: Callable[[], Any]) -> Any:
    """Return what a function of others returns.

    Raises:
        AnswerError: it failed.
    """
    try:
        return caller.call(function, seed=0)
    except (CallError, CallTimeoutError) as error:
        raise AnswerError(str(error)) from None


def guard(function: Callable[..., Any], names: Sequence[str], caller: GuardedCaller) -> Estimator:
    """Return a function of others as an estimator, which raises AnswerError."""

    def estimator(arrays: Arrays) -> Float64Array:
        copies = {name: np.array(arrays[name]) for name in names}
        answer = call_guarded(caller, lambda: np.asarray(function(**copies), np.float64))
        shape = arrays["rewards"].shape
        mask = arrays.get("mask", True)
        if answer.shape != shape or not np.isfinite(answer).all(where=mask):
            raise AnswerError(
                f"numbers {list(answer.shape)} for rewards {list(shape)}: the shape must be the "
                "same, and numbers finite"
            )
        return np.where(mask, answer, 0.0)

    return estimator


class Source(Protocol):
    """Draws arrays for an estimator."""

    weight: int
    """number of games, or of steps, whose mean gradient is judged"""
    num_places: int

    def draw(self, rng: np.random.Generator) -> Sample:
        """Return random arrays."""

    def gradients(self, sums: Float64Array) -> Float64Array:
        """Return gradients, float64[K, S * A], from sums of advantages, float64[K, places]."""


def sum_by_place(sample: Sample, estimates: Float64Array, num_places: int) -> Float64Array:
    """Return the sums of estimates, then of the kinds of exact advantages, float64[1 + R,
    places].
    """
    valid = sample.places >= 0
    places = sample.places[valid]
    parts = estimates, *sample.exact
    return np.stack([np.bincount(places, part[valid], num_places) for part in parts])


def sampled_effect(
    estimator: Estimator,
    source: Source,
    target: Float64Array,
    rng: np.random.Generator,
    cpu: float = 30.0,
    max_degrees: float = MAX_DEGREES,
) -> Effect:
    """Return the effect of an estimator from samples, which double until it is decided.

    Args:
        estimator: the function.
        source: of the samples.
        target: float64[S, A], the exact gradient.
        rng: of all random numbers.
        cpu: CPU s after which no samples are added.
        max_degrees: largest angle that counts as no turn.
    """
    begin = time.process_time()
    sums: dict[int, Float64Array] = {}
    draws = 0
    while True:
        for _ in range(max(1, draws)):
            for block in range(NUM_BLOCKS):
                sample = source.draw(rng)
                part = sum_by_place(sample, estimator(sample.arrays), source.num_places)
                sums[block] = sums.get(block, 0.0) + part
        draws = max(1, 2 * draws)
        parts = np.stack([*sums.values()], axis=1) / (draws * source.weight)
        estimate, *references = map(source.gradients, parts)
        size = target.ravel() / (target**2).sum()
        length = float(estimate.mean(axis=0) @ size)
        spreads = [np.var(estimate - length * one, axis=0).sum() for one in references]
        exact = references[int(np.argmin(spreads))]
        effect = compare_blocks(estimate, exact, target.ravel(), rng, max_degrees)
        if effect.direction != "undecided" or time.process_time() - begin > cpu / 2:
            return effect


def enumerated_effect(
    estimator: Estimator, source: ClassSource, target: Float64Array, max_degrees: float
) -> Effect | None:
    """Return the exact effect of an estimator on small batches; None if they are too many."""
    batches = source.enumerate()
    if batches is None:
        return None
    sums = np.zeros((1, source.num_places))
    for chance, sample in batches:
        part = sum_by_place(sample, estimator(sample.arrays), source.num_places)
        sums += chance / source.weight * part[:1]
    return compare_exactly(source.gradients(sums), target.reshape(1, -1), max_degrees)


def evaluate_critic(critic: Critic, process: DecisionModel, seed: int) -> Float64Array:
    """Return the values of a critic, float64[S]."""
    if critic == "exact":
        return process.values
    if callable(critic):
        return np.asarray(critic(process.boards), np.float64).reshape(process.values.shape)
    if isinstance(critic, str):
        raise Refusal(f"critic {critic} is unknown: choose exact, a number, or a function")
    errors = np.random.default_rng([seed, 1]).normal(0, critic, len(process.values))
    return process.values + errors


def critic_row(critic: Float64Array, process: DecisionModel, effect: Effect) -> CheckRow:
    """Return a remark about a critic: its errors by visits, and what they do to the gradient."""
    weights = process.visits()
    weights = weights / weights.sum()
    errors = critic - process.values
    bias = weights @ errors
    spread = weights @ (errors - bias) ** 2
    variance = weights @ (process.values - weights @ process.values) ** 2
    text = f"explained variance {1 - spread / variance:.3f}, bias {bias:+.3f}; with it {effect}"
    return CheckRow("critic", text, "remark")


def check_advantages(
    function: Callable[..., Any],
    game: str | Game = "2x3/3",
    seats: tuple[int, ...] = (0,),
    *,
    gamma: float = 0.9,
    rollout: tuple[int, int] = (10, 256),
    batch: int | None = None,
    group: int | None = None,
    critic: Critic = "exact",
    tokens: bool = False,
    policy: int | str | Policy = 0,
    max_degrees: float = MAX_DEGREES,
    cpu: float = 60.0,
    seed: int = 0,
    limit_s: float | None = 60.0,
) -> GradientCheck:
    """Check advantages of others against exact ones, by what they do to the policy gradient.

    The function is given the arrays that its arguments name, and returns advantages of the shape of
    ``rewards``: of rollouts, ``rewards, values, dones, next_value, next_done, movers``, see
    :mod:`ttt_eval.checks.rollouts`; or, if it asks for ``mask`` or ``groups``, of whole episodes,
    ``rewards, values, mask, groups, roles, lengths, states``, see
    :mod:`ttt_eval.checks.estimators`.

    Args:
        function: the estimator.
        game: rows x columns / win length, with a skip chance of 1/4; or a game of up to nine cells.
        seats: of the learner: (0,) moves first, (1,) second, (0, 1) both.
        gamma: discount of rollouts for each decision; whole episodes have none.
        rollout: steps and environments of sampled rollouts.
        batch: number of games in a batch, by default 8.
        group: number of games in a group, by default the batch.
        critic: ``"exact"``; the standard deviation of errors; or a function of ``Boards``. Right or
            wrong is decided with exact values; what another critic does is a remark.
        tokens: whether decisions of whole episodes are several tokens, see
            :mod:`ttt_eval.checks.tokens`.
        policy: of both players: the seed of a random softmax policy, or a pure policy.
        max_degrees: largest turn of a sampled gradient that counts as none.
        cpu: CPU s of samples.
        seed: of all random numbers.
        limit_s: maximum s of a call; None for no limit.

    Raises:
        TypeError: ``function`` is no function.
        ValueError: an option is unknown or out of range, or the function asks for an unknown array.
    """
    check_range("gamma", gamma, 0, 1)
    names = asked_names(function, ROLLOUT_NAMES | BATCH_NAMES)
    is_batch = batch is not None or bool(set(names) - ROLLOUT_NAMES)
    size = BatchSize(batch or DEFAULT_BATCH, group or batch or DEFAULT_BATCH)
    if size.games % size.group:
        raise Refusal(f"batch={size.games} has no whole groups of {size.group}: choose a multiple")
    self_play = tuple(seats) == BOTH
    process = DecisionModel(
        parse_game(game),
        seats,
        policy,
        discount=1.0 if is_batch else gamma,
        shift=float(not (is_batch or self_play)),
    )
    rng = np.random.default_rng([seed, 7])
    values = evaluate_critic(critic, process, seed)

    def measure(estimator: Estimator, values: Float64Array) -> Effect:
        if not is_batch:
            probed = {row.name for row in rows} & {"environments", "repeatable"}
            exact = None if probed else exact_rollout_gradient(estimator, process, values)
            if exact is not None:
                target = process.gradient(process.visits(exact.steps, BURN_IN))
                return compare_exactly(exact.gradient, target, EXACT_DEGREES)
            source: Source = RolloutSource(process, rollout, values)
            target = process.gradient(process.visits(rollout[0], BURN_IN))
            return sampled_effect(estimator, source, target, rng, cpu, max_degrees)
        target = process.gradient(process.visits())
        by_action = np.repeat(values[:, None], process.game.cells, axis=1)
        if not tokens and set(names) <= CLASS_NAMES:
            classes = ClassSource(process, size)
            found = enumerated_effect(estimator, classes, target, max_degrees)
            return found or sampled_effect(estimator, classes, target, rng, cpu, max_degrees)
        source = EpisodeSource(process, size, {"values": by_action}, tokens)
        return sampled_effect(estimator, source, target, rng, cpu, max_degrees)

    effect = None
    rows: list[CheckRow] = []
    with GuardedCaller(limit_s) as caller:
        estimator = guard(function, names, caller)
        fast = guard(function, names, GuardedCaller(None))  # probes have shown that calls end
        try:
            if is_batch:
                rows += probe_batch(estimator, size, self_play, rng)
            else:
                rows += probe_rollout(estimator, gamma, self_play, rng)
            effect = measure(fast, process.values)
            rows.append(gradient_row(effect))
            if critic != "exact":
                rows.append(critic_row(values, process, measure(fast, values)))
        except AnswerError as error:
            rows.append(CheckRow("answers", str(error), "fails", "numbers of the right shape"))
    frame = f"batches of {size.games}, groups of {size.group}" if is_batch else "rollouts"
    side = "both seats" if self_play else f"seat {seats[0]}"
    subject = f"advantages, {process.game}, {side}, {frame}"
    return make_check(subject, rows, effect)
