"""Right advantages and losses, and sampled intervals, for tests of their checks.

``python tests/gradients.py alarms 0 1000`` prints right functions that are called wrong, ``...
coverage`` the shares of 200 intervals that hold an exact number.
"""

import inspect
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path
from unittest.mock import patch

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from examples.checks import losses
from examples.checks.estimators import ESTIMATORS, reinforce, rloo
from ttt_eval.checks import check_advantages, check_loss, directions, gae
from ttt_eval.checks.decisions import DecisionModel
from ttt_eval.checks.samples import BatchSize, Source, list_batch_rows

SEATS = ((0,), (1,), (0, 1))


def normalised(rewards, values, dones, next_value, next_done, movers, *, settings):
    """Return GAE over its standard deviation in the rollout."""
    advantages = gae(rewards, values, dones, next_value, next_done, movers, **settings)
    return advantages / (advantages.std() + 1e-8)


def with_truncations(rewards, values, terminations, truncations, next_values, movers, *, settings):
    """Return GAE through the flags of Gymnasium."""
    ends = np.vstack([terminations[:1], terminations | truncations])
    cut = settings["discount"] * truncations * movers[1:] * movers[:-1] * next_values
    return gae(rewards + cut, values, ends[:-1], next_values[-1], ends[-1], movers, **settings)


def right_call(seed):
    """Return the check of a right function, without arguments."""
    rng = np.random.default_rng([seed, 99])
    seats = SEATS[seed % 3]
    policy = int(rng.integers(1_000_000))
    if seed % 10 == 9:
        right = losses.POLICY_LOSSES + losses.REGULARISED_LOSSES
        loss = right[seed // 10 % len(right)]
        return partial(check_loss, loss, seats=seats, policy=policy)
    options = {"seats": seats, "policy": policy, "seed": seed, "cpu": 20}
    if seed % 10 in (7, 8):
        size = int(rng.choice([2, 4, 8, 32, 64]))
        function = rloo if len(seats) == 1 else reinforce
        return partial(check_advantages, function, batch=size, **options)
    settings = {
        "discount": float(rng.choice([0.9, 0.97, 1.0])),
        "lam": float(rng.choice([0.0, 0.5, 0.95, 1.0])),
    }
    function = partial(gae, **settings)
    if seed % 10 == 6:  # not linear, so that it is sampled
        function = partial(normalised, settings=settings)
    if seed % 10 == 5:
        function = partial(with_truncations, settings=settings)
    game = ("2x3/2", "2x3/3")[seed // 3 % 2]
    return partial(check_advantages, function, game, gamma=settings["discount"], **options)


def print_alarms(first, last):
    """Print right functions that are called wrong or undecided."""
    verdicts = Counter()
    cpu = []
    for seed in range(first, last):
        call = right_call(seed)
        begin = time.process_time()
        check = call()
        cpu.append(time.process_time() - begin)
        direction = check.effect.direction if check.effect else "none"
        verdict = "undecided" if direction == "undecided" else "right"
        if check.failed:
            verdict = "wrong"
        verdicts[verdict] += 1
        if verdict != "right":
            print(seed, call, check.effect, check.failed, flush=True)
    print(verdicts, f"CPU s: median {np.median(cpu):.2f}, maximum {max(cpu):.2f}")


def call_with(function, arrays):
    """Return the result for those of the arrays that a function has as arguments."""
    return function(**{name: arrays[name] for name in inspect.signature(function).parameters})


def coverage(function, runs):
    """Return the shares of sampled intervals of length and degrees that hold the exact
    number, for an estimator of results in batches of two games.
    """
    model = DecisionModel("2x3/3")
    tables = {"values": model.values[:, None] + 0 * model.policy}
    names = "rewards", "mask", "states", "lengths"
    source = Source(list_batch_rows(model, tables, names), BatchSize(2, 2), model.policy)
    source.exact_sums = lambda *_: (None, False)  # so that numbers are sampled
    exact = check_advantages(function, batch=2).effect
    counts = np.zeros(2)
    limit = patch.object(directions, "MAX_DEGREES", 0.0)  # so that all samples are drawn
    for seed in range(runs):
        rng = np.random.default_rng([seed, 3])
        with limit:
            effect = directions.measure_effect(partial(call_with, function), source, rng, cpu=0.2)
        for place, name in enumerate(("length", "degrees")):
            interval = getattr(effect, name)
            number = getattr(exact, name).mean
            counts[place] += interval.low - 1e-9 <= number <= interval.high + 1e-9
    return counts / runs


if __name__ == "__main__":
    if sys.argv[1] == "alarms":
        print_alarms(*map(int, sys.argv[2:]))
    else:
        for name in ("rloo", "grpo", "grpo-centred", "opo"):
            print(name, coverage(ESTIMATORS[name], 200), flush=True)
