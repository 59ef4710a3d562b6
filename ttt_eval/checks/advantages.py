"""Are advantages right? What an estimator reads, and the gradient that it gives."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ttt_envs.core.checks import Refusal, TypeRefusal, check_range
from ttt_envs.core.jit import Float32Array, Float64Array
from ttt_envs.game.game import Game
from ttt_eval.checks.calls import CallError, GuardedCaller, open_caller, read_numbers
from ttt_eval.checks.check import Check, CheckRow, judge
from ttt_eval.checks.decisions import DecisionModel
from ttt_eval.checks.directions import Effect, measure_effect
from ttt_eval.checks.input_probes import RECOGNISED, UNREPEATABLE, probe_batch, probe_rollouts
from ttt_eval.checks.samples import (
    Arrays,
    BatchSize,
    Estimator,
    Source,
    list_batch_rows,
    list_rollouts,
)
from ttt_eval.checks.values import explain

ROLLOUT_NAMES = {"rewards", "values", "dones", "next_value", "next_done", "movers"}
BATCH_NAMES = {"rewards", "values", "mask", "groups", "roles", "lengths", "states"}
DEFAULT_BATCH = 8

Critic = float | Callable[[Float32Array], Any]
"""Standard deviation of random errors of exact values; or a function of observations,
float32[S, 2 * cells], that returns values for the mover, float[S]."""

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
    "discount": (
        "later values have another discount: yours is {measured}: if it is meant, call with "
        "gamma={measured} (--gamma {measured})"
    ),
    "baseline": "later values count more than rewards: the baseline is missing, or added",
    "own reward": "the sign is wrong",
    "mask": "what is behind the mask is used",
    "groups": "groups are mixed up: estimates compare episodes of other groups",
    "opposite": "the sign is wrong, or the ratio is inverted",
    "no effect": "nothing is learned: the log-probabilities are detached, or all terms cancel",
    "weights": "the weight of the policy term is another one than ratio times advantage",
    "gradient": "the expected gradient has another direction",
    "clip": "the clip is on the wrong side, or takes no minimum",
    "critic": "the values of the critic are worse than a constant",
}
"""Likely causes by failed row, and of a loss with wrong weights by the direction of its gradient,
from the most specific to the least."""


@dataclass(frozen=True)
class GradientCheck(Check):
    """The result of a check of advantages or of a loss."""

    effect: Effect | None = None
    """on the expected gradient; None if the function failed"""

    @property
    def recognised(self) -> str:
        """The name of what the function computes; "" if it is unknown."""
        return next((row.measured for row in self.rows if row.name == RECOGNISED), "")

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready data."""
        effect = self.effect and self.effect.to_dict()
        return {**super().to_dict(), "recognised": self.recognised, "effect": effect}


def asked_names(function: Callable[..., Any], known: set[str]) -> list[str]:
    """Return the known arguments that a function takes.

    Raises:
        TypeError: it is no function.
        ValueError: it needs another argument.
    """
    if not callable(function):
        raise TypeRefusal(f"{function!r} is no function: give a function, see the check's page")
    signature = inspect.signature(function)
    names = [name for name in signature.parameters if name in known]
    try:
        signature.bind(**dict.fromkeys(names))
    except TypeError as error:
        raise Refusal(
            f"{error}, which is unknown: choose from {', '.join(sorted(known))}"
        ) from None
    return names


def guard(
    function: Callable[..., Any],
    names: Sequence[str],
    like: str,
    caller: GuardedCaller,
    of_loss: bool = False,
) -> Estimator:
    """Return a function of others as an estimator, which raises CallError.

    Args:
        function: the function.
        names: of its arguments.
        like: name of an array whose shape the estimates have.
        caller: of the function.
        of_loss: whether the estimates are two arrays of that shape beside each other: the
            derivatives of a loss. If it asks for the mask, it has none behind it.
    """

    def estimator(arrays: Arrays) -> Float64Array:
        copies = {name: np.array(arrays[name]) for name in names}
        columns = 2 if of_loss else 1
        shape = np.tile(arrays[like], columns).shape
        where = np.tile(arrays.get("mask", True), columns)
        if of_loss and "mask" in names:
            where[:] = True
        answer: Float64Array = caller.call(
            lambda: read_numbers(function(**copies), shape, "estimates", where), seed=0
        )
        return answer

    return estimator


def list_errors(critic: Critic, model: DecisionModel, seed: int) -> Float64Array:
    """Return the errors of the values of a critic, float64[S]."""
    if not callable(critic):
        check_range("critic", critic, 0)
        return np.random.default_rng([seed, 1]).normal(0, critic, len(model.signs))
    truth = model.actions.policy_values(model.policy, discount=model.discount)[0]
    values = critic(model.actions.observations.copy())
    return read_numbers(values, truth.shape, "values of the critic") - truth


def run_check(
    subject: str,
    examine: Callable[[GuardedCaller], Iterator[CheckRow | Effect]],
    limit_s: float | None,
) -> GradientCheck:
    """Return a check whose causes are those of its failed rows.

    Args:
        subject: what is checked.
        examine: yields rows and the effect, with a caller of functions of others.
        limit_s: maximum s of a call.
    """
    effect = None
    rows: list[CheckRow] = []
    with open_caller(limit_s) as caller:
        try:
            for item in examine(caller):
                if isinstance(item, Effect):
                    effect = item
                    rule = "unbiased, or of another length only"
                    item = CheckRow("gradient", str(item), item.status, rule)
                rows.append(item)
        except CallError as error:
            rows.append(CheckRow("answers", str(error), "fails", "numbers of the right shape"))
    failed = {row.name: row.measured for row in rows if row.status == "fails"}
    if effect is not None and "weights" in failed:
        failed[effect.direction] = ""
    causes = [
        cause.format(measured=failed[name]) for name, cause in CAUSES.items() if name in failed
    ]
    return GradientCheck(subject, rows, causes[:3], effect)


def check_advantages(
    function: Callable[..., Any],
    game: str | Game = "2x3/3",
    seats: tuple[int, ...] = (0,),
    *,
    gamma: float = 0.9,
    environments: int = 256,
    batch: int | None = None,
    group: int | None = None,
    critic: Critic = 0.0,
    tokens: bool = False,
    policy: int = 0,
    cpu: float = 60.0,
    seed: int = 0,
    limit_s: float | None = 60.0,
) -> GradientCheck:
    """Check advantages of others against exact ones, by what they do to the policy gradient.

    The function is given the arrays that its arguments name, and returns advantages of the shape of
    ``rewards``: of rollouts, or of whole games if it asks for ``mask``, ``groups``, ``roles``,
    ``lengths`` or ``states``; see :mod:`ttt_eval.checks.samples`.

    Args:
        function: the estimator.
        game: rows x columns / win length, with a skip chance of 1/4; or a game of up to nine cells.
        seats: of the learner: (0,) moves first, (1,) second, (0, 1) both.
        gamma: discount of rollouts for each decision; whole games have none.
        environments: number in a rollout, for functions that mix them.
        batch: number of games in a batch, by default 8.
        group: number of games in a group, by default the batch.
        critic: the errors of a critic, or its values, see :data:`Critic`. Right or wrong is decided
            with exact values; the row ``critic`` says what these do.
        tokens: whether decisions of whole games are several tokens.
        policy: of both players: the seed of a random softmax policy.
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
    size = BatchSize(environments, 1)
    if is_batch:
        games = batch or DEFAULT_BATCH
        size = BatchSize(games, group or games)
    if size.games % size.group:
        raise Refusal(f"batch={size.games} has no whole groups of {size.group}: choose a multiple")
    settings = {} if is_batch else {"discount": gamma, "shift": 1.0}
    model = DecisionModel(game, seats, policy, **settings)
    errors = list_errors(critic, model, seed)
    rng = np.random.default_rng([seed, 7])
    probing = np.random.default_rng([seed, 8])

    def make_source(values: Float64Array) -> Source:
        if not is_batch:
            return Source(list_rollouts(model, values), size, model.policy)
        tables = {"values": values[:, None] + 0 * model.policy}
        return Source(
            list_batch_rows(model, tables, {*names, "rewards"}, tokens), size, model.policy
        )

    def examine(caller: GuardedCaller) -> Iterator[CheckRow | Effect]:
        estimator = guard(function, names, "rewards", caller)
        source = make_source(model.values)
        if is_batch:
            probes = probe_batch(estimator, source, probing)
        else:
            probes = probe_rollouts(estimator, gamma, model.self_play, probing)
        rows = [*probes]
        yield from rows

        def of_rows(arrays: Arrays) -> Float64Array:
            return estimator({name: array.T for name, array in arrays.items()}).T

        def measure(source: Source) -> Effect:
            return measure_effect(
                estimator if is_batch else of_rows, source, rng,
                exactly=UNREPEATABLE not in rows, cpu=cpu,
            )  # fmt: skip

        yield measure(source)
        if critic != 0.0:
            share, text = explain(errors, model.values, model.visits)
            text = f"{text}; with it {measure(make_source(model.values + errors))}"
            rule = "explains more of the values than a constant"
            yield judge("critic", text, share, 0.0, minimum=True, rule=rule)

    frame = f"batches of {size.games}, groups of {size.group}" if is_batch else "rollouts"
    return run_check(f"advantages, {model.game}, seats {seats}, {frame}", examine, limit_s)
