"""Are advantages right? What an estimator reads, and the gradient that it gives."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ttt_envs.core.checks import Refusal, check_range
from ttt_envs.core.files import read_table
from ttt_envs.core.jit import Float32Array, Float64Array
from ttt_envs.game.game import Game
from ttt_eval.checks.calls import (
    CallError,
    GuardedCaller,
    check_function,
    open_caller,
    read_numbers,
)
from ttt_eval.checks.check import (
    MAX_CAUSES,
    Check,
    CheckRow,
    judge,
    list_fitting,
    no_error,
)
from ttt_eval.checks.decisions import DecisionModel
from ttt_eval.checks.directions import Effect, measure_effect
from ttt_eval.checks.input_probes import RECOGNISED, UNREPEATABLE, probe_batch, probe_rollouts
from ttt_eval.checks.samples import (
    TIME_LIMIT,
    Arrays,
    BatchSize,
    Estimator,
    Source,
    list_batch_rows,
    list_next,
    list_rollouts,
)
from ttt_eval.checks.values import explain

DEFAULT_BATCH = 8
DEFAULT_ENVIRONMENTS = 256

Critic = float | Callable[[Float32Array], Any]
"""Standard deviation of random errors of exact values; or a function of observations,
float32[S, 2 * cells], that returns values for the mover, float[S]."""

TEXTS = read_table(__file__)
ALIASES: Mapping[str, str] = TEXTS["aliases"]
"""Other names of arrays of rollouts."""
ROLLOUT_NAMES = {*TEXTS["arrays"]["rollouts"], *ALIASES}
BATCH_NAMES = {*TEXTS["arrays"]["batches"]}
CAUSES: Mapping[str, str] = TEXTS["causes"]
"""Likely causes by the beginning of the name of a failed row and what it measured, from the most
specific to the least."""
DECIDING = {
    UNREPEATABLE.name: "{}",
    "gradient": "the gradient, {}: give more CPU s as cpu= (--cpu)",
}
"""Rows without whose evidence nothing is decided, and what is said of them."""
ENDS: Mapping[str, str] = TEXTS["ends"]
"""What says where episodes end, by the name of the argument."""


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
        return {
            **super().to_dict(),
            "recognised": self.recognised,
            "effect": self.effect and self.effect.to_dict(),
        }


def asked_names(function: Callable[..., Any], known: set[str], note: str = "") -> list[str]:
    """Return the known arguments that a function takes.

    Args:
        function: the function.
        known: the arguments.
        note: ends the message about another one.

    Raises:
        TypeError: it is no function.
        ValueError: it needs another argument.
    """
    check_function(function)
    signature = inspect.signature(function)
    names = [name for name in signature.parameters if name in known]
    try:
        signature.bind(**dict.fromkeys(names))
    except TypeError as error:
        raise Refusal(
            f"{error}, which is unknown: choose from {', '.join(sorted(known))}{note}"
        ) from None
    return names


def refuse_tuple(answer: Any, name: str) -> Any:
    """Return an answer.

    Args:
        answer: of a function of others.
        name: of what it is to return.

    Raises:
        ValueError: it is a tuple.
    """
    if isinstance(answer, tuple):
        raise Refusal(f"you returned a tuple: return the {name} alone")
    return answer


def name_steps(arrays: Arrays) -> Arrays:
    """Return arrays of rollouts, also those that say at each step what follows it, by Gymnasium's
    names.
    """
    ends = list_next(arrays["dones"], arrays["next_done"]) > 0
    cuts = arrays["truncated"] > 0
    next_values = list_next(arrays["values"], arrays["next_value"])
    return {
        **arrays,
        "terminated": ends & ~cuts,
        "truncated": cuts,
        "next_values": np.where(cuts, arrays["cut_values"], next_values),
    }


def guard(
    function: Callable[..., Any],
    names: Sequence[str],
    like: str,
    caller: GuardedCaller,
    columns: int = 1,
) -> Estimator:
    """Return a function of others as an estimator, which raises CallError.

    Args:
        function: the function.
        names: of its arguments.
        like: name of an array whose shape the estimates have.
        caller: of the function.
        columns: number of arrays of that shape, beside each other; 2 are the derivatives of a loss.
            If it asks for the mask, it has none behind it.
    """

    def estimator(arrays: Arrays) -> Float64Array:
        known = name_steps(arrays) if "dones" in arrays else arrays
        copies = {name: np.array(known[ALIASES.get(name, name)]) for name in names}
        rows, width = arrays[like].shape
        where = np.tile(arrays.get("mask", True) | (columns == 2 and "mask" in names), columns)
        answer: Float64Array = caller.call(
            lambda: read_numbers(
                refuse_tuple(function(**copies), "advantages"),
                (rows, columns * width),
                "estimates",
                where,
            ),
            seed=0,
        )
        return answer

    return estimator


def list_errors(critic: Critic, model: DecisionModel, seed: int) -> Float64Array:
    """Return the errors of the values of a critic, float64[S]."""
    if not callable(critic):
        check_range("critic", critic, 0)
        return np.random.default_rng([seed, 1]).normal(0, critic, len(model.signs))
    truth = model.actions.policy_values(model.policy, discount=model.discount)[0]
    observations = model.actions.observations.copy()
    return read_numbers(critic(observations), truth.shape, "values of the critic") - truth


def run_check(
    subject: str,
    examine: Callable[[GuardedCaller], Iterator[CheckRow | Effect]],
    limit_s: float | None,
    unjudged: Sequence[str] = (),
    names: Sequence[str] = (),
    kind: str = "loss",
    batch: int | None = None,
) -> GradientCheck:
    """Return a check whose causes are those of its failed rows. Rows without evidence are not
    judged, and a function whose answers vary is undecided.

    Args:
        subject: what is checked.
        examine: yields rows and the effect, with a caller of functions of others.
        limit_s: maximum s of a call.
        unjudged: what is not judged.
        names: of the function's arguments.
        kind: ``"loss"``, ``"batches"`` or ``"rollouts"``, whose words the causes have.
        batch: the declared number of games in a batch; None if there is none.
    """
    effect = None
    ends = "".join(ENDS.get(name, "") for name in names)
    rows: list[CheckRow] = []
    with open_caller(limit_s) as caller:
        try:
            for item in examine(caller):
                if isinstance(item, Effect):
                    effect = item
                    item = CheckRow(
                        "gradient", str(item), item.status, "unbiased, or of another length only"
                    )
                rows.append(item)
        except CallError as error:
            rows.append(CheckRow("answers", str(error), "fails", "numbers of the right shape"))
    turned = TEXTS[kind]["at size" if batch else "at any size"]
    if effect and effect.explanation:
        turned = f"{effect.explanation} ({effect.degrees.mean:.1f} degrees here)"
    causes = [
        cause.format(measured=row.measured, ends=ends, turned=turned, **TEXTS[kind])
        for start, cause in CAUSES.items()
        for row in rows
        if row.status == "fails" and f"{row.name} {row.measured}".startswith(start)
    ]
    gaps = {row.name: row.measured for row in rows if row.status == "no evidence"}
    undecided = [text.format(gaps.pop(name)) for name, text in DECIDING.items() if name in gaps]
    missing = [f"{name}: {measured}" for name, measured in gaps.items()]
    return GradientCheck(
        subject,
        rows,
        causes[:MAX_CAUSES],
        effect,
        right=no_error([*unjudged, *missing]),
        undecided=undecided,
    )


def check_advantages(
    function: Callable[..., Any],
    game: str | Game = "2x3/3",
    seats: tuple[int, ...] | None = None,
    *,
    gamma: float | None = None,
    lam: float | None = None,
    environments: int | None = None,
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
        seats: of the learner: (0,) moves first, (1,) second, (0, 1) both; by default both for a
            function that asks for ``movers``, or else the first.
        gamma: discount of rollouts for each decision, by default 0.9; whole games have none.
        lam: lambda of rollouts; None for any from 0 to 1.
        environments: number in a rollout, by default 256, for functions that mix them; whole games
            have none.
        batch: number of games in a batch, by default 8.
        group: number of games in a group, by default the batch.
        critic: the errors of a critic, or its values, see :data:`Critic`. Right or wrong is decided
            with exact values; the row ``critic`` says what these do.
        tokens: whether decisions of whole games are several tokens; rollouts have none.
        policy: of both players: the seed of a random softmax policy.
        cpu: CPU s of samples, of which there are few if a row has failed.
        seed: of all random numbers.
        limit_s: maximum s of a call; None for no limit.

    Raises:
        TypeError: ``function`` is no function.
        ValueError: an option is unknown or out of range, the function asks for an unknown array, or
            for arrays of rollouts and of whole games, or an option has no effect: ``gamma`` or
            ``lam`` below 1 or ``environments`` with whole games, ``tokens`` with rollouts.
    """
    discount = 0.9 if gamma is None else gamma
    check_range("gamma", discount, 0, 1)
    check_range("lam", lam, 0, 1)
    for name, count in {"environments": environments, "batch": batch, "group": group}.items():
        check_range(name, count, 1)
    names = asked_names(function, ROLLOUT_NAMES | BATCH_NAMES)
    if seats is None:
        seats = (0, 1) if "movers" in names else (0,)
    array_names = {ALIASES.get(name, name) for name in names}
    limit = TIME_LIMIT if {"truncated", "next_values"} <= array_names else None
    is_batch = not (batch is None and group is None and ROLLOUT_NAMES.issuperset(names))
    if is_batch:
        games = batch or DEFAULT_BATCH
        size = BatchSize(games, group or games)
        is_ignored = {
            "gamma": gamma not in (None, 1),
            "lam": lam not in (None, 1),
            "environments": environments is not None,
        }
    else:
        size = BatchSize(environments or DEFAULT_ENVIRONMENTS, 1)
        is_ignored = {"tokens": tokens}
    if size.games % size.group:
        raise Refusal(f"batch={size.games} has no whole groups of {size.group}: choose a multiple")
    for name in list_fitting(is_ignored):
        raise Refusal(TEXTS["ignored"][name])
    of_rollouts = [name for name in names if name not in BATCH_NAMES]
    if is_batch and of_rollouts:
        raise Refusal(
            f"whole episodes have no {of_rollouts[0]}, and rollouts no batch=, group= and no "
            f"{', '.join(sorted(BATCH_NAMES - ROLLOUT_NAMES))}: ask for the arrays of one of them"
        )
    settings = {} if is_batch else {"discount": discount, "shift": 1.0}
    model = DecisionModel(game, seats, policy, **settings)
    errors = list_errors(critic, model, seed)
    rng = np.random.default_rng([seed, 7])

    def make_source(values: Float64Array) -> Source:
        if not is_batch:
            return Source(list_rollouts(model, values, limit), size, model.policy)
        tables = {"values": values[:, None] + 0 * model.policy}
        return Source(
            list_batch_rows(model, tables, {*names, "rewards"}, tokens), size, model.policy
        )

    def examine(caller: GuardedCaller) -> Iterator[CheckRow | Effect]:
        estimator = guard(function, names, "rewards", caller)
        source = make_source(model.values)
        if is_batch:
            rows = probe_batch(estimator, source, rng)
        else:
            rows = probe_rollouts(estimator, array_names, discount, lam, model.self_play, rng)
        statuses = {}
        for row in rows:
            yield row
            statuses[row.name] = row.status
        if "axes" in statuses:
            return  # a gradient would tell no more
        sampling_cpu = 0.0 if "fails" in statuses.values() else cpu

        def of_rows(arrays: Arrays) -> Float64Array:
            return estimator({name: array.T for name, array in arrays.items()}).T

        def measure(source: Source) -> Effect:
            return measure_effect(estimator if is_batch else of_rows, source, rng, sampling_cpu)

        yield measure(source)
        if critic != 0.0:
            share, text = explain(errors, model.values, model.visits)
            yield judge(
                "critic",
                f"{text}; with it {measure(make_source(model.values + errors))}",
                share,
                0.0,
                minimum=True,
                rule="explains more of the values than a constant",
            )

    kind = "batches" if is_batch else "rollouts"
    frame = f"batches of {size.games}, groups of {size.group}" if is_batch else kind
    unjudged = {
        "lambda, without lam=": lam is None and not is_batch,
        "the value at a truncation, without next_values": (
            "truncated" in array_names and limit is None
        ),
    }
    return run_check(
        f"advantages, {model.game}, seats {seats}, {frame}",
        examine,
        limit_s,
        list_fitting(unjudged),
        names,
        kind,
        batch,
    )
