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
HIDDEN = {"values", "logp", "old_logp", "ref_logp", "advantages", "entropy"}
"""Arrays with other numbers behind the mask."""
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
    ones: dict[str, Any]
    """places of inputs that are 1 before and after the change"""
    changed: dict[str, Any]
    """places of inputs that have other numbers after it"""
    read: Any
    """place of the estimates"""
    moves: bool
    rule: str
    asked: frozenset[str] = frozenset()
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
        asked=frozenset({"truncated"}),
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
    now = estimates[:, -1]
    meant = reference[:, -1]
    scale = meant.std() / max(now.std(), ROUNDING)
    return np.asarray((estimates - now.mean()) * scale + meant.mean())


def rule_row(name: str, holds: bool, rule: str, measured: str = "") -> CheckRow:
    """Return a row about a rule."""
    text = measured or ("yes" if holds else "no")
    return judge(name, text, holds, True, minimum=True, rule=rule)


def number_row(
    name: str, numbers: Float64Array | float, meant: float | None, limit: float = 1.0
) -> CheckRow:
    """Return a row about equal numbers, which are what is meant; if that is None, from 0 to a
    limit.
    """
    low, high = (0.0, limit) if meant is None else (meant, meant)
    return rule_row(
        name,
        np.allclose(numbers, np.clip(numbers, low, high), EQUAL, ROUNDING),
        f"from {low:g} to {high:g}",
        f"{np.mean(numbers):.4g}",
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
    steps, environments = SHAPE
    signs = 1.0, -1.0 if self_play else 1.0
    movers = rng.choice(signs, (steps + 1, environments))
    movers[:2] = np.power.outer(signs, np.arange(environments))
    shapes: dict[str, Any] = {
        "rewards": SHAPE,
        "values": SHAPE,
        "next_value": environments,
        "cut_values": SHAPE,
    }
    inputs, noise = (
        {name: rng.normal(size=shape) for name, shape in shapes.items()} for _ in range(2)
    )
    inputs |= {"dones": np.zeros(SHAPE), "next_done": np.zeros(environments), "movers": movers}
    inputs["truncated"] = np.zeros(SHAPE)

    def answer(ones: dict[str, Any], changed: dict[str, Any]) -> Float64Array:
        arrays = {name: array.copy() for name, array in inputs.items()}
        for name, place in ones.items():
            arrays[name][place] += 1
        for name, place in changed.items():
            arrays[name][place] = noise[name][place]
        for name, array in arrays.items():
            array[..., -1] = inputs[name][..., -1]
        return estimator(arrays)

    def ask(ones: dict[str, Any], changed: dict[str, Any]) -> Float64Array:
        return align(answer(ones, changed), reference)[:, :-1]

    reference = answer({}, {})
    if differ(reference, answer({}, {})):
        yield UNREPEATABLE
        return
    if reference.any() and (reference == reference.astype(np.float16)).all():
        yield rule_row(
            "digits",
            False,
            "those of single precision",
            "whole numbers" if (reference == reference.round()).all() else "those of float16",
        )
        return
    moved = np.abs(answer({}, {"rewards": (END, 2)}) - reference) > EQUAL
    if moved[END, :3].all() and moved.sum() == 3:
        yield rule_row(
            "axes",
            False,
            "a reward moves estimates of earlier steps in its environment",
            "it moves those of earlier environments in its step alone",
        )
        return
    whole = reference[:, :-1]
    mixture = answer({}, {"rewards": (END, 0), "values": (END, 0)})
    is_mixed = differ(align(mixture, reference)[OTHERS], reference[OTHERS])
    change = (mixture - reference)[OTHERS]
    errors = (
        differ(change[BEFORE], 0.0) and not differ(change[AFTER], 0.0),
        is_mixed and not differ(reference[FIRST], mixture[FIRST]),
        not is_mixed and differ(ask(ENDS, {})[OTHERS], whole[OTHERS]),
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
        return
    column = align(answer({}, {"rewards": (0, 0)}), reference)[1:, :1]
    own_column = reference[1:, :1]
    is_part = differ(column, own_column) and own_column.std() > ROUNDING
    if is_part and not differ(align(column, own_column), own_column):
        yield rule_row(
            "normalisation",
            False,
            "one scale and shift of the whole rollout",
            "the first reward of an environment changes the scale or the shift of its other "
            "estimates: nothing else was probed",
        )
        return
    for probe in PROBES:
        if probe.asked <= names:
            before = ask(probe.ones, {})[probe.read]
            moves = differ(before, ask(probe.ones, probe.changed)[probe.read])
            holds = moves == probe.moves
            # together these leave the advantage of their step as it is
            estimates = ask({"rewards": END, "values": END} | probe.ones, {})[probe.read]
            is_traced = probe.name == "ends" and not (holds or differ(before, estimates))
            yield rule_row(probe.name, holds, probe.rule, "by the trace" if is_traced else "")
    yield rule_row("last row", whole[-1].std() > ROUNDING, "the last row is not all the same")
    of_reward = ask({"rewards": 1}, {}) - whole
    of_value = ask({"values": 1}, {}) - whole
    of_next = (of_reward + of_value)[0]
    own = of_reward[1].min()
    unit = (movers[0] * movers[1])[:-1] / np.copysign(max(abs(own), EQUAL), own)
    relative = of_next * unit
    sizes = np.abs(relative)
    yield number_row("baseline" if sizes.mean() > 1 + EQUAL else "discount", sizes, discount)
    if "values" in names:
        yield rule_row(
            "own value",
            own < EQUAL or differ(of_value[1], 0.0),
            "estimates move with the value of their position",
        )
    yield rule_row(
        "own reward", own >= EQUAL, "above 0", f"an estimate has {own:.4g} times its reward"
    )
    yield rule_row(
        "movers" if self_play else "next value",
        relative.min() >= -EQUAL,
        "the other player's values count negative, and the own ones positive",
    )
    yield rule_row(
        "sign of trace",
        (of_reward[0] * unit).min() >= -EQUAL,
        "later rewards of the other player count negative, and the own ones positive",
    )
    # without next_value, what moves the last row is the start of the trace; "cut" judges no move
    of_end = np.abs(ask({"next_done": ALL}, {}) - whole)[-1]
    bootstrap = np.abs(of_next * inputs["next_value"][:-1])
    yield rule_row(
        "start of trace",
        not differ(of_end * (of_end - bootstrap), 0.0),
        "the trace begins at 0: an end after the last step takes gamma times next_value alone away",
    )
    own_lam = np.abs(of_reward[0]).mean() / max(abs(own) * sizes.mean(), EQUAL)
    if discount:
        yield number_row("lambda", own_lam, lam)
    if discount and {"truncated", "next_values"} <= names:
        cut, of_cut, of_reset = (
            ask(CUT | place, {})[END - 1]
            for place in ({}, {"cut_values": END - 1}, {"values": END})
        )
        row = number_row(
            "value at truncation", np.abs(of_cut - cut) / max(abs(own), EQUAL), discount
        )
        text = "values[t + 1] instead" if differ(of_reset, cut) else "not used"
        if differ(of_cut, cut):
            text = f"discount {row.measured}"
        yield row._replace(measured=text)
    ends = (rng.random(SHAPE) < 0.4).astype(np.float64)
    inputs |= {"dones": ends, "next_done": ends[0]}
    estimates = answer({}, {})
    del inputs["truncated"], inputs["cut_values"]
    if not differ(estimates, gae(**inputs, discount=discount, lam=own_lam)):
        yield CheckRow(RECOGNISED, f"GAE({discount:g}, {own_lam:.4g})", "remark")


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
    noise = rng.normal(-1, 0.3, hidden["mask"].shape) * ~hidden["mask"]
    for name in hidden.keys() & HIDDEN:
        hidden[name] = hidden[name] + noise

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
            outside <= within + EQUAL,
            "estimates move with their own group more than with others",
            f"{within:.3g} with the group, {outside:.3g} with others",
        )
