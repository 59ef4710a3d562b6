"""What an advantage estimator reads: changed inputs, and the estimates that move with them.

Nothing is sampled from a game, and no number has a tolerance but that of single precision.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ttt_envs.core.jit import Float64Array
from ttt_eval.checks.batches import BatchSize, row_arrays
from ttt_eval.checks.check import CheckRow
from ttt_eval.checks.estimators import ESTIMATORS, gae
from ttt_eval.checks.rollouts import Estimator

EQUAL = 1e-4
"""Largest difference of equal answers to inputs of size 1, maybe in single precision."""
SHAPE = (6, 5)
"""Steps and environments of probed rollouts."""
END = 3
"""Step of them at which an episode begins."""
RECOGNISED = "recognised"
MIN_RECOGNISED = 4
"""Smallest batch in which estimators differ."""


def differ(one: Float64Array, other: Float64Array) -> bool:
    """Return whether two answers differ."""
    return bool(np.abs(one - other).max(initial=0) > EQUAL)


class _Rows:
    """Rows of a check, from questions whose answer must be no."""

    def __init__(self) -> None:
        self.rows: list[CheckRow] = []

    def add(self, name: str, found: bool, rule: str, measured: str = "") -> None:
        """Add a row that fails if something was found."""
        text = measured or ("no" if found else "yes")
        self.rows.append(CheckRow(name, text, "fails" if found else "holds", rule))

    def remark(self, name: str, measured: str) -> None:
        """Add a row without a limit."""
        self.rows.append(CheckRow(name, measured, "remark"))


def probe_rollout(
    estimator: Estimator, discount: float, self_play: bool, rng: np.random.Generator
) -> list[CheckRow]:
    """Return what an estimator of rollouts reads.

    Args:
        estimator: the function.
        discount: that it is meant to have.
        self_play: whether movers change.
        rng: of the inputs.
    """
    steps, environments = SHAPE
    inputs: dict[str, Float64Array] = {
        "rewards": rng.normal(size=SHAPE),
        "values": rng.normal(size=SHAPE),
        "dones": np.zeros(SHAPE),
        "next_value": rng.normal(size=environments),
        "next_done": np.zeros(environments),
        "movers": np.ones((steps + 1, environments)),
    }
    if self_play:
        inputs["movers"] = rng.choice([-1.0, 1.0], size=(steps + 1, environments))
        inputs["movers"][0] = 1.0
        inputs["movers"][1] = (-1.0) ** np.arange(environments)

    def ask(**changes: Float64Array) -> Float64Array:
        return estimator({**inputs, **changes})

    def change(name: str, place: Any, number: float | None = None) -> dict[str, Float64Array]:
        """Return an input with other numbers in some places."""
        array = inputs[name].copy()
        noise = rng.normal(size=array.shape)
        array[place] = noise[place] if number is None else array[place] + number
        return {name: array}

    table = _Rows()
    whole = ask()
    if differ(whole, ask()):
        table.remark("repeatable", "equal inputs have other answers: nothing was probed")
        return table.rows
    first = slice(None), 0
    mixed = ask(**change("rewards", first), **change("values", first))
    if differ(whole[:, 1:], mixed[:, 1:]):
        table.add(
            "environments", not differ(whole[:, 0], mixed[:, 0]),
            "estimates move with their own environment",
            "estimates move with other environments: nothing else was probed",
        )  # fmt: skip
        return table.rows
    ended = change("dones", END, 1.0)
    after = slice(END, None)
    later = {**change("rewards", after), **change("values", after), "next_value": whole[0]}
    table.add(
        "ends", differ(ask(**ended)[:END], ask(**ended, **later)[:END]),
        "estimates do not move with what follows the end of their episode",
    )  # fmt: skip
    final = {"next_done": np.ones(environments)}
    raised = {"next_value": inputs["next_value"] + 1}
    table.add(
        "next_done", differ(ask(**final), ask(**final, **raised)),
        "estimates do not move with next_value after next_done",
    )  # fmt: skip
    table.add(
        "cut", not differ(whole[-1], ask(**raised)[-1]),
        "the last estimates move with next_value where the rollout is cut",
    )  # fmt: skip
    table.add("last row", not np.any(whole[-1]), "the last row is not all zero")
    past = slice(0, END)
    early = ask(**change("rewards", past), **change("values", past))
    table.add("past", differ(whole[END:], early[END:]), "estimates do not move with earlier steps")
    of_reward = ask(**change("rewards", 1, 1.0)) - whole
    of_value = ask(**change("values", 1, 1.0)) - whole
    sign = inputs["movers"][0] * inputs["movers"][1]
    found = (of_reward + of_value)[0]
    sizes = np.abs(found)
    table.add(
        "discount", bool(np.abs(sizes - discount).max() > EQUAL),
        f"{discount:g}", f"{sizes.mean():.4g}",
    )  # fmt: skip
    if self_play:
        table.add(
            "movers", bool((found * sign < -EQUAL).any()),
            "the other player's values count negative, and the own ones positive",
        )  # fmt: skip
    own = of_reward[1].min()
    table.add(
        "own reward", bool(own < EQUAL), "above 0", f"an estimate has {own:.4g} times its reward"
    )
    lam = np.abs(of_reward[0]).mean() / discount if discount else 0.0
    cuts = (rng.random(SHAPE) < 0.4).astype(np.float64)
    inputs |= {"dones": cuts, "next_done": cuts[0]}
    if not differ(ask(), gae(**inputs, discount=discount, lam=lam)):
        table.remark(RECOGNISED, f"GAE({discount:g}, {lam:.4g})")
    return table.rows


def batch_inputs(
    size: BatchSize, self_play: bool, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Return a batch of random numbers, with 2 to 4 decisions in a row."""
    num_rows = 2 if self_play else 1
    lengths = rng.integers(2, 5, size.games * num_rows)
    lengths[0] = 4
    results = rng.normal(size=len(lengths))
    results[1::3] = 0.0
    arrays = row_arrays(size, num_rows, results, lengths)
    shape = arrays["mask"].shape
    return {
        **arrays,
        "values": rng.normal(size=shape),
        "states": rng.integers(0, 4, shape) * arrays["mask"],
    }


def probe_batch(
    estimator: Estimator, size: BatchSize, self_play: bool, rng: np.random.Generator
) -> list[CheckRow]:
    """Return what an estimator of batches reads.

    Args:
        estimator: the function.
        size: of the batch.
        self_play: whether each game has two rows.
        rng: of the inputs.
    """
    inputs = batch_inputs(size, self_play, rng)
    mask = inputs["mask"]
    last = np.arange(len(mask)), np.maximum(inputs["lengths"] - 1, 0)
    table = _Rows()
    whole = estimator(inputs) * mask
    if differ(whole, estimator(inputs) * mask):
        table.remark("repeatable", "equal inputs have other answers: nothing was probed")
        return table.rows
    noise = rng.normal(size=mask.shape)
    hidden = {"values": np.where(mask, inputs["values"], noise)}
    table.add(
        "mask", differ(whole, estimator({**inputs, **hidden}) * mask),
        "estimates do not move with values behind the mask",
    )  # fmt: skip
    moved = np.zeros((len(mask), len(mask)))
    for row in range(len(mask)):
        rewards = inputs["rewards"].copy()
        rewards[row, last[1][row]] += 1
        change = estimator({**inputs, "rewards": rewards}) * mask - whole
        moved[row] = np.abs(change).max(axis=1)
    moved[moved < EQUAL] = 0
    same = inputs["groups"][:, None] == inputs["groups"]
    itself = np.eye(len(mask), dtype=bool)
    within = moved[same & ~itself].mean() if size.group > 1 else 0.0
    share = 1 - 1 / same[0].sum()
    if np.abs(moved[itself] - share).max() < EQUAL:
        table.remark("own sample", f"the result is in its own baseline: length x{share:.3g}")
    if not same.all():
        outside = moved[~same].mean()
        table.add(
            "groups", bool(outside > within),
            "estimates move with their own group more than with others",
            f"{within:.3g} with the group, {outside:.3g} with others",
        )  # fmt: skip
    names = [
        name for name, function in ESTIMATORS.items() if not differ(whole, _call(function, inputs))
    ]
    if names and size.games >= MIN_RECOGNISED:
        table.remark(RECOGNISED, names[0])
    return table.rows


def _call(function: Callable[..., Float64Array], inputs: Mapping[str, np.ndarray]) -> Float64Array:
    """Return the answer of a named estimator."""
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    return function(**{name: inputs[name] for name in names})
