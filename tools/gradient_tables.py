"""The tables of docs/how-to/check-gradient.md.

``python tools/gradient_tables.py`` prints all of them, and ``... estimators`` (losses, divergences,
tokens, errors) one. ``... alarms 0 100`` checks right functions with the seeds 0 to 99, and prints
those that fail. ``... coverage`` counts sampled intervals that hold an exact number.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from examples.checks import losses
from examples.checks.wrong_gradients import WRONG
from ttt_eval.checks import GradientCheck, check_advantages, check_loss
from ttt_eval.checks.advantages import enumerated_effect, sampled_effect
from ttt_eval.checks.batches import BatchSize, ClassSource, EpisodeSource
from ttt_eval.checks.decisions import DecisionProcess, parse_game
from ttt_eval.checks.directions import Effect
from ttt_eval.checks.divergences import TARGETS
from ttt_eval.checks.estimators import ESTIMATORS, gae, grpo, grpo_centred, opo, rloo

SIZES = (2, 8, 64, 512)
UPDATES = (0.0, 0.3)
SEATS = ((0,), (1,), (0, 1))


def short(effect: Effect | None) -> str:
    """Return an effect as the cell of a table."""
    if effect is None or effect.direction == "no effect":
        return "no effect"
    limit = "" if effect.exact else f" ({effect.degrees.low:.1f} to {effect.degrees.high:.1f})"
    return f"x{effect.length.mean:.2f}, {effect.degrees.mean:.1f}{limit}"


def row(*cells: object) -> None:
    """Print the row of a table."""
    print("|", " | ".join(map(str, cells)), "|", flush=True)


def head(*cells: str) -> None:
    """Print the head of a table."""
    print()
    row(*cells)
    print("|" + "---|" * len(cells))


def print_estimators() -> None:
    """Print the effects of the named estimators by the size of the batch."""
    head("estimator", *(f"batch of {size}" for size in SIZES))
    for name, function in ESTIMATORS.items():
        seats = (0, 1) if name == "turn-level" else (0,)
        checks = [check_advantages(function, seats=seats, batch=size, cpu=20) for size in SIZES]
        row(name, *(short(check.effect) for check in checks))


def print_losses() -> None:
    """Print the weights and effects of policy losses."""
    head("loss", "weights at ratios 0.5, 1, 1.5 and A = 1, then A = -1", *map(str, UPDATES))
    for loss in losses.POLICY_LOSSES:
        check = check_loss(loss, updates=UPDATES)
        after = check.row(f"after an update of {UPDATES[1]:g}").measured
        row(loss.__name__, check.row("weights").measured.partition(" at")[0], check.effect, after)


def print_divergences() -> None:
    """Print what divergences and entropies in a loss descend."""
    kinds = [name for name in TARGETS if name != "policy"]
    head("in the loss", *kinds)
    for loss in (*losses.DIVERGENCES, *losses.ENTROPIES):
        row(loss.__name__, *(short(check_loss(loss, meant=kind).effect) for kind in kinds))


def print_tokens() -> None:
    """Print the effects of means over tokens."""
    head("loss", *(f"{size} sequences" for size in (1, *SIZES)))
    for loss in losses.TOKEN_LOSSES:
        checks = [check_loss(loss, tokens=True, batch=size, cpu=20) for size in (1, *SIZES)]
        row(loss.__name__, *(short(check.effect) for check in checks))


def print_errors() -> None:
    """Print which planted errors are found, and by which rows."""
    head("error", "gradient", "rows", "CPU s")
    found = 0
    for error, wrong in WRONG.items():
        begin = time.process_time()
        check = wrong.run()
        names = {line.name for line in check.rows if line.name == "own sample"} | set(check.failed)
        found += bool(names)
        row(
            error, short(check.effect), ", ".join(sorted(names)) or "-",
            f"{time.process_time() - begin:.1f}",
        )  # fmt: skip
    print(f"\n{found} of {len(WRONG)} found")


def right_call(seed: int) -> tuple[str, Callable[..., GradientCheck], Any, dict[str, Any]]:
    """Return a check of a right function: its name, the check, the function and options."""
    rng = np.random.default_rng([seed, 99])
    seats = SEATS[seed % 3]
    policy = int(rng.integers(1_000_000))
    if seed % 10 == 9:
        loss = losses.POLICY_LOSSES[seed // 10 % len(losses.POLICY_LOSSES)]
        return loss.__name__, check_loss, loss, {"seat": seats[0], "policy": policy}
    options = {"seats": seats, "policy": policy, "seed": seed, "cpu": 20}
    if seed % 10 in (7, 8):
        size = int(rng.choice([2, 4, 8, 32, 64]))
        function = rloo if len(seats) == 1 else ESTIMATORS["reinforce"]
        return f"{function.__name__} {size}", check_advantages, function, options | {"batch": size}
    gamma = float(rng.choice([0.9, 0.97, 1.0]))
    lam = float(rng.choice([0.0, 0.5, 0.95, 1.0]))
    steps = int(rng.choice([6, 10, 16]))
    scale = float(rng.choice([0.5, 1.0, 2.0]))
    estimator: Any = partial(gae, discount=gamma, lam=lam)
    if seed % 10 == 6:  # not linear, so that it is sampled
        estimator = partial(normalised, gamma, lam, scale)
    game = ("2x3/2", "2x3/3")[seed // 3 % 2]
    options |= {"gamma": gamma, "rollout": (steps, 256), "game": game}
    return f"gae {gamma} {lam} {steps}", check_advantages, estimator, options


def normalised(
    gamma: float,
    lam: float,
    scale: float,
    *,
    rewards: Any,
    values: Any,
    dones: Any,
    next_value: Any,
    next_done: Any,
    movers: Any,
) -> Any:
    """Return GAE over its standard deviation in the rollout."""
    arrays = rewards, values, dones, next_value, next_done, movers
    advantages = gae(*arrays, discount=gamma, lam=lam)
    return scale * advantages / (advantages.std() + 1e-8)


def print_alarms(first: int, last: int) -> None:
    """Print the right functions that are called wrong, and how many are undecided."""
    verdicts = {"wrong": 0, "undecided": 0, "right": 0}
    cpu = []
    for seed in range(first, last):
        name, check_function, function, options = right_call(seed)
        begin = time.process_time()
        check = check_function(function, **options)
        cpu.append(time.process_time() - begin)
        undecided = check.effect is None or check.effect.direction == "undecided"
        verdict = "wrong" if check.failed else "undecided" if undecided else "right"
        verdicts[verdict] += 1
        if verdict != "right":
            row(seed, name, options, check.effect, check.failed)
    print(verdicts, f"CPU s: median {np.median(cpu):.2f}, maximum {max(cpu):.2f}")


def print_coverage() -> None:
    """Print the shares of 200 sampled intervals that hold the exact number."""
    head("estimator in batches of 2", "length", "degrees", "bias")
    process = DecisionProcess(parse_game("2x3/3"))
    target = process.gradient(process.visits())
    size = BatchSize(2, 2)
    for function in (rloo, grpo, grpo_centred, opo):

        def estimator(arrays: Any) -> Any:
            return function(**{name: arrays[name] for name in ("rewards", "mask", "groups")})

        exact = enumerated_effect(estimator, ClassSource(process, size), target, 2.0)
        assert exact is not None
        counts = np.zeros(3)
        for seed in range(200):
            rng = np.random.default_rng([seed, 3])
            source = EpisodeSource(process, size, {})
            effect = sampled_effect(estimator, source, target, rng, cpu=0.5, max_degrees=0.0)
            for place, name in enumerate(("length", "degrees", "bias")):
                truth = getattr(exact, name).mean
                interval = getattr(effect, name)
                counts[place] += interval.low - 1e-9 <= truth <= interval.high + 1e-9
        row(function.__name__, *(counts / 200))


TABLES: dict[str, Callable[[], None]] = {
    "estimators": print_estimators,
    "losses": print_losses,
    "divergences": print_divergences,
    "tokens": print_tokens,
    "errors": print_errors,
}


def main(words: Sequence[str]) -> None:
    """Print what is asked for."""
    if words[:1] == ["alarms"]:
        print_alarms(int(words[1]), int(words[2]))
    elif words[:1] == ["coverage"]:
        print_coverage()
    else:
        for name in words or TABLES:
            TABLES[name]()


if __name__ == "__main__":
    main(sys.argv[1:])
