"""What an estimator reads: changed inputs, and the estimates that move with them.

Nothing is sampled from a game, and no number has a tolerance but that of single precision.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ttt_envs.core.jit import Float64Array
from ttt_eval.checks.check import CheckRow, judge
from ttt_eval.checks.samples import EQUAL, Arrays, Estimator, Source, gae

SHAPE = (6, 6)
"""Steps and environments of probed rollouts; the last environment never changes, see
:func:`align`."""
END = 3
"""Step of them at which an episode begins."""
END_CHANCE = 0.4
"""Chance of an end at a step of rollouts by which an estimator is recognised: several in each."""
HIDDEN = {"values", "logp", "old_logp", "ref_logp", "advantages", "entropy"}
"""Arrays with other numbers behind the mask."""
HIDDEN_MEAN = -1
HIDDEN_DEVIATION = 0.3
"""Mean and deviation of what is added to them: nearly always below 0, as log probabilities are."""
ROUNDING = 1e-5
"""Largest size of a number that counts as 0."""
RECOGNISED = "recognised"
UNREPEATABLE = CheckRow(
    "repeatable", "what it reads: equal inputs have other answers", "no evidence"
)
ALL = slice(None)
BEFORE = slice(END)
AFTER = slice(END, None)
FIRST = ALL, 0
OTHERS = ALL, slice(1, None)
ENDS: dict[str, Any] = {
    "dones": (slice(END - 1, END + 1), 0),
    "truncated": (END - 1, 0),
    "next_done": 0,
}
"""Places of ends of the first environment."""


class InputProbe(NamedTuple):
    """A change of the inputs of rollouts, and the estimates that must move, or must not."""

    name: str
    raised: dict[str, Any]
    """places of inputs that are larger by 1 before and after the change"""
    changed: dict[str, Any]
    """places of inputs that have other numbers after it"""
    read: Any
    """place of the estimates"""
    moves: bool
    rule: str
    required: frozenset[str] = frozenset()
    """arrays without which a function is not probed"""


CUT = {"dones": END, "truncated": END - 1}
"""Places of a truncation before the episode of step :data:`END`."""
PROBES = (
    InputProbe(
        "ends",
        {"dones": END},
        {"rewards": AFTER, "values": AFTER, "next_value": ALL},
        BEFORE,
        moves=False,
        rule="estimates do not move with what follows the end of their episode",
    ),
    InputProbe(
        "next_done",
        {"next_done": ALL},
        {"next_value": ALL},
        ALL,
        moves=False,
        rule="estimates do not move with next_value after next_done",
    ),
    InputProbe(
        "cut",
        {},
        {"next_value": ALL},
        -1,
        moves=True,
        rule="the last estimates move with next_value where the rollout is cut",
    ),
    InputProbe(
        "past",
        {},
        {"rewards": BEFORE, "values": BEFORE},
        AFTER,
        moves=False,
        rule="estimates do not move with earlier steps",
    ),
    # without next_values, values[END] may be of the position in which the game was cut
    InputProbe(
        "trace at truncation",
        CUT,
        {"rewards": AFTER, "values": slice(END + 1, None), "next_value": ALL},
        BEFORE,
        moves=False,
        rule="estimates do not move with what follows a truncation",
        required=frozenset({"truncated"}),
    ),
)


def differ(numbers: Float64Array, others: Float64Array | float) -> bool:
    """Return whether two answers differ."""
    return bool(np.abs(numbers - others).max(initial=0) > EQUAL)


def align(estimates: Float64Array, reference: Float64Array) -> Float64Array:
    """Return estimates times a number plus a number, so that those of the last environment have the
    mean and the deviation that they have in a reference: what a normalisation over the rollout did
    to all of them is undone.

    Args:
        estimates, reference: float64[T, E].
    """
    column = estimates[:, -1]
    expected = reference[:, -1]
    scale = expected.std() / max(column.std(), ROUNDING)
    return np.asarray((estimates - column.mean()) * scale + expected.mean())


def rule_row(name: str, holds: bool, rule: str, measured: str = "") -> CheckRow:
    """Return a row about a rule."""
    text = measured or ("yes" if holds else "no")
    return judge(name, text, holds, True, minimum=True, rule=rule)


def number_row(
    name: str, numbers: Float64Array | float, expected: float | None, limit: float = 1.0
) -> CheckRow:
    """Return a row about equal numbers, which are an expected one; if that is None, from 0 to a
    limit.
    """
    low, high = (0.0, limit) if expected is None else (expected, expected)
    return rule_row(
        name,
        np.allclose(numbers, np.clip(numbers, low, high), EQUAL, ROUNDING),
        f"from {low:g} to {high:g}",
        f"{np.mean(numbers):.4g}",
    )


class Weights(NamedTuple):
    """What the reward and the value of step 1 weigh in estimates, of E - 1 environments."""

    own: float
    """the smallest weight of a reward in the estimate of its step"""
    own_size: float
    """its size, as a divisor"""
    own_values: Float64Array
    """of values in the estimates of their step"""
    next_values: Float64Array
    """of values alone, and not by the trace, in the estimates of step 0"""
    discounts: Float64Array
    """the same for the mover of step 1, and for an own weight of 1"""
    traces: Float64Array
    """the same of rewards"""
    lam: float
    """lambda, by the weights of rewards"""


class RolloutProbe:
    """An estimator of rollouts, inputs, and its estimates of them.

    Changes of the inputs are two dictionaries of places by the name of an array: of inputs that
    grow by 1, and of inputs that have other numbers. Those of the last environment never change.
    """

    def __init__(
        self, estimator: Estimator, signs: tuple[float, float], rng: np.random.Generator
    ) -> None:
        """Make inputs.

        Args:
            estimator: the function.
            signs: of the two movers.
            rng: of the inputs.
        """
        steps, environments = SHAPE
        movers = rng.choice(signs, (steps + 1, environments))
        movers[:2] = np.power.outer(signs, np.arange(environments))
        shapes: dict[str, Any] = {
            "rewards": SHAPE,
            "values": SHAPE,
            "next_value": environments,
            "cut_values": SHAPE,
        }
        inputs, self.noise = (
            {name: rng.normal(size=shape) for name, shape in shapes.items()} for _ in range(2)
        )
        self.estimator = estimator
        self.inputs = inputs | {
            "dones": np.zeros(SHAPE),
            "next_done": np.zeros(environments),
            "movers": movers,
            "truncated": np.zeros(SHAPE),
        }
        self.reference = self.answer({}, {})
        """float64[T, E], estimates of the inputs without a change"""

    def answer(self, raised: dict[str, Any], changed: dict[str, Any]) -> Float64Array:
        """Return the estimates of changed inputs, float64[T, E]."""
        arrays = {name: array.copy() for name, array in self.inputs.items()}
        for name, place in raised.items():
            arrays[name][place] += 1
        for name, place in changed.items():
            arrays[name][place] = self.noise[name][place]
        for name, array in arrays.items():
            array[..., -1] = self.inputs[name][..., -1]
        return self.estimator(arrays)

    def aligned(self, raised: dict[str, Any], changed: dict[str, Any]) -> Float64Array:
        """Return the same without a normalisation, see :func:`align`, and without the last
        environment, float64[T, E - 1].
        """
        return align(self.answer(raised, changed), self.reference)[:, :-1]

    def change(self, raised: dict[str, Any]) -> Float64Array:
        """Return the change of these, float64[T, E - 1]."""
        return self.aligned(raised, {}) - self.reference[:, :-1]

    def obstacles(self) -> Iterator[CheckRow]:
        """Yield rows of errors with which nothing else can be probed."""
        reference = self.reference
        if differ(reference, self.answer({}, {})):
            yield UNREPEATABLE
        if reference.any() and (reference == reference.astype(np.float16)).all():
            yield rule_row(
                "digits",
                False,
                "those of single precision",
                "whole numbers" if (reference == reference.round()).all() else "those of float16",
            )
        moved = np.abs(self.answer({}, {"rewards": (END, 2)}) - reference) > EQUAL
        if moved[END, :3].all() and moved.sum() == 3:
            yield rule_row(
                "axes",
                False,
                "a reward moves estimates of earlier steps in its environment",
                "it moves those of earlier environments in its step alone",
            )
        yield from self._mixtures()
        column = align(self.answer({}, {"rewards": (0, 0)}), reference)[1:, :1]
        reference_column = reference[1:, :1]
        is_moved = differ(column, reference_column) and reference_column.std() > ROUNDING
        if is_moved and not differ(align(column, reference_column), reference_column):
            yield rule_row(
                "normalisation",
                False,
                "one scale and shift of the whole rollout",
                "the first reward of an environment changes the scale or the shift of its other "
                "estimates: nothing else was probed",
            )

    def _mixtures(self) -> Iterator[CheckRow]:
        """Yield a row if estimates move with other environments."""
        reference = self.reference
        mixture = self.answer({}, {"rewards": (END, 0), "values": (END, 0)})
        is_mixed = differ(align(mixture, reference)[OTHERS], reference[OTHERS])
        change = (mixture - reference)[OTHERS]
        errors = (
            differ(change[BEFORE], 0.0) and not differ(change[AFTER], 0.0),
            is_mixed and not differ(reference[FIRST], mixture[FIRST]),
            not is_mixed and differ(self.change(ENDS)[OTHERS], 0.0),
        )
        is_wrong = any(errors)
        if is_mixed or is_wrong:
            yield CheckRow(
                "environments",
                "estimates move with other environments: ends, trace, values and lambda were not "
                "probed; check the function without what mixes environments",
                "fails" if is_wrong else "no evidence",
                "one scale and shift of all; no trace or end of others",
            )

    def judge_moves(self, names: set[str]) -> Iterator[CheckRow]:
        """Yield rows of :data:`PROBES`, and whether the last row moves.

        Args:
            names: of the arrays that the estimator asks for.
        """
        for probe in PROBES:
            if probe.required <= names:
                before = self.aligned(probe.raised, {})[probe.read]
                after = self.aligned(probe.raised, probe.changed)[probe.read]
                holds = differ(before, after) == probe.moves
                # together these leave the advantage of their step as it is
                both = {"rewards": END, "values": END} | probe.raised
                estimates = self.aligned(both, {})[probe.read]
                is_traced = probe.name == "ends" and not (holds or differ(before, estimates))
                yield rule_row(probe.name, holds, probe.rule, "by the trace" if is_traced else "")
        last_row = self.reference[-1, :-1]
        yield rule_row("last row", last_row.std() > ROUNDING, "the last row is not all the same")

    def weigh(self) -> Weights:
        """Return the weights of rewards and values."""
        movers = self.inputs["movers"]
        of_rewards = self.change({"rewards": 1})
        of_values = self.change({"values": 1})
        own = of_rewards[1].min()
        own_size = max(abs(own), EQUAL)
        # together these leave the advantages of step 1, and so the trace, as they are
        next_values = (of_rewards + of_values)[0]
        units = (movers[0] * movers[1])[:-1] / np.copysign(own_size, own)
        discounts = next_values * units
        lam = np.abs(of_rewards[0]).mean() / max(abs(own) * np.abs(discounts).mean(), EQUAL)
        traces = of_rewards[0] * units
        return Weights(own, own_size, of_values[1], next_values, discounts, traces, lam)

    def judge_start(self, next_values: Float64Array) -> CheckRow:
        """Return a row about the start of the trace.

        Args:
            next_values: see :class:`Weights`.
        """
        # without next_value, what moves the last row is the start of the trace; "cut" judges no
        # move
        end = np.abs(self.change({"next_done": ALL}))[-1]
        bootstrap = np.abs(next_values * self.inputs["next_value"][:-1])
        return rule_row(
            "start of trace",
            not differ(end * (end - bootstrap), 0.0),
            "the trace begins at 0: an end after the last step takes gamma times next_value alone "
            "away",
        )

    def judge_truncation(self, own_size: float, discount: float) -> CheckRow:
        """Return a row about the value at a truncation.

        Args:
            own_size: see :class:`Weights`.
            discount: that the estimator is meant to have.
        """
        before, with_value, with_reset = (
            self.aligned(CUT | place, {})[END - 1]
            for place in ({}, {"cut_values": END - 1}, {"values": END})
        )
        sizes = np.abs(with_value - before) / own_size
        row = number_row("value at truncation", sizes, discount)
        text = "values[t + 1] instead" if differ(with_reset, before) else "not used"
        if differ(with_value, before):
            text = f"discount {row.measured}"
        return row._replace(measured=text)

    def is_gae(self, discount: float, lam: float, rng: np.random.Generator) -> bool:
        """Return whether the estimates are GAE of a discount and a lambda, with random ends."""
        ends = (rng.random(SHAPE) < END_CHANCE).astype(np.float64)
        inputs = self.inputs | {"dones": ends, "next_done": ends[0]}
        estimates = self.estimator({name: array.copy() for name, array in inputs.items()})
        names = inputs.keys() - {"truncated", "cut_values"}
        expected = gae(**{name: inputs[name] for name in names}, discount=discount, lam=lam)
        return not differ(estimates, expected)


def judge_weights(
    weights: Weights, has_values: bool, discount: float, self_play: bool
) -> Iterator[CheckRow]:
    """Yield rows about the sizes and the signs of weights.

    Args:
        weights: of the estimator.
        has_values: whether it asks for values.
        discount, self_play: see :func:`probe_rollouts`.
    """
    own = weights.own
    sizes = np.abs(weights.discounts)
    yield number_row("baseline" if sizes.mean() > 1 + EQUAL else "discount", sizes, discount)
    if has_values:
        yield rule_row(
            "own value",
            own < EQUAL or differ(weights.own_values, 0.0),
            "estimates move with the value of their position",
        )
    yield rule_row(
        "own reward", own >= EQUAL, "above 0", f"an estimate has {own:.4g} times its reward"
    )
    yield rule_row(
        "movers" if self_play else "next value",
        weights.discounts.min() >= -EQUAL,
        "the other player's values count negative, and the own ones positive",
    )
    yield rule_row(
        "sign of trace",
        weights.traces.min() >= -EQUAL,
        "later rewards of the other player count negative, and the own ones positive",
    )


def probe_rollouts(
    estimator: Estimator,
    names: set[str],
    discount: float,
    lam: float | None,
    self_play: bool,
    rng: np.random.Generator,
) -> Iterator[CheckRow]:
    """Yield what an estimator of rollouts reads.

    Args:
        estimator: the function.
        names: of the arrays that it asks for.
        discount, lam: that it is meant to have; None for any lambda.
        self_play: whether movers change.
        rng: of the inputs.
    """
    probe = RolloutProbe(estimator, (1.0, -1.0 if self_play else 1.0), rng)
    obstacle = next(probe.obstacles(), None)
    if obstacle is not None:
        yield obstacle
        return
    yield from probe.judge_moves(names)
    weights = probe.weigh()
    yield from judge_weights(weights, "values" in names, discount, self_play)
    yield probe.judge_start(weights.next_values)
    if discount:
        yield number_row("lambda", weights.lam, lam)
    if discount and {"truncated", "next_values"} <= names:
        yield probe.judge_truncation(weights.own_size, discount)
    if probe.is_gae(discount, weights.lam, rng):
        yield CheckRow(RECOGNISED, f"GAE({discount:g}, {weights.lam:.4g})", "remark")


def probe_batch(
    estimator: Estimator, source: Source, rng: np.random.Generator
) -> Iterator[CheckRow]:
    """Yield what an estimator of batches, or a loss, reads.

    Args:
        estimator: the function.
        source: of its inputs.
        rng: of the games, and of changed inputs.
    """
    inputs = source.make(rng.integers(len(source.chances), size=source.chunks[0]))
    mask = inputs["mask"]
    hidden = {name: np.pad(array, [(0, 0), (0, 2)][: array.ndim]) for name, array in inputs.items()}
    noise = rng.normal(HIDDEN_MEAN, HIDDEN_DEVIATION, hidden["mask"].shape) * ~hidden["mask"]
    # other noise for each, or differences such as log ratios would stay 0
    for scale, name in enumerate(sorted(hidden.keys() & HIDDEN), 1):
        hidden[name] = hidden[name] + scale * noise

    def ask(arrays: Arrays) -> Float64Array:
        return np.asarray(estimator(arrays)[:, : mask.shape[1]] * mask)

    whole = ask(inputs)
    if differ(whole, ask(inputs)):
        yield UNREPEATABLE
        return
    # of a loss, also the derivatives in the entropy
    parts = estimator(hidden).reshape(len(mask), -1, hidden["mask"].shape[1])
    behind = parts * ~hidden["mask"][:, None]
    yield rule_row(
        "mask",
        not (differ(whole, ask(hidden)) or differ(behind, 0.0)),
        "nothing behind the mask moves estimates, or has a gradient",
    )
    if "rewards" not in inputs:
        return
    first = np.logical_and.accumulate(mask, axis=1)
    later = mask & ~first
    if "values" in inputs and later.any():
        changed = {name: inputs[name] + later for name in ("rewards", "values")}
        yield rule_row(
            "gaps",
            differ((ask({**inputs, **changed}) - whole) * first, 0.0),
            "estimates before a gap of the mask move with what follows it",
        )
    last = mask & (mask.cumsum(axis=1) == inputs["lengths"][:, None])
    itself = np.eye(len(mask), dtype=bool)
    changes = [
        ask({**inputs, "rewards": inputs["rewards"] + chosen[:, None] * last}) - whole
        for chosen in itself
    ]
    moved = np.abs(changes).max(axis=2)
    same = inputs["groups"][:, None] == inputs["groups"]
    share = 1 - 1 / same[0].sum()
    if not differ(moved[itself], share):
        yield CheckRow(
            "own sample", f"the result is in its own baseline: length x{share:.3g}", "remark"
        )
    if not same.all():
        outside = moved[~same].mean()
        within = moved[same & ~itself].mean() if share else 0.0
        yield rule_row(
            "groups",
            outside < max(within - EQUAL, EQUAL),
            "estimates move with their own group more than with others",
            f"{within:.3g} with the group, {outside:.3g} with others",
        )
