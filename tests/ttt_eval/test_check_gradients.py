"""Checks of advantages and losses: exact parts against enumeration, right functions, planted
errors, broken functions, and the functions of other libraries.
"""

import importlib
import itertools
import json

import gradients
import numpy as np
import pytest
from commands import error_of, json_of
from numpy.testing import assert_allclose

from examples.checks import advantages as adapters
from examples.checks import losses
from examples.checks.wrong_gradients import WRONG
from ttt_apps import evaluate
from ttt_envs import Game
from ttt_eval.checks import check_advantages, check_loss
from ttt_eval.checks.advantages import enumerated_effect, sampled_effect
from ttt_eval.checks.batches import BatchSize, ClassSource, EpisodeSource
from ttt_eval.checks.decisions import DecisionModel, parse_game
from ttt_eval.checks.directions import compare_exactly
from ttt_eval.checks.divergences import TARGETS, PolicyPair
from ttt_eval.checks.estimators import ESTIMATORS, gae, rloo
from ttt_eval.checks.rollouts import BURN_IN, exact_rollout_gradient
from ttt_eval.exact import evaluate_policy, policy_gradient

SEATS = ((0,), (1,), (0, 1))
TINY = Game(1, 4, 2, 0.25)


def right(arrays):
    return gae(**arrays, discount=0.9, lam=0.95)


def by_name(function, *names):
    return lambda arrays: function(**{name: arrays[name] for name in names})


# -- the game


@pytest.mark.parametrize("seats", SEATS)
def test_the_exact_gradient_is_that_of_the_library(seats):
    game = parse_game("2x3/2")
    process = DecisionModel(game, seats, "random")
    opponent = None if len(seats) == 2 else "random"
    exact = evaluate_policy(game, "random", opponent, seat=seats[0] if opponent else None)
    rows = exact.find(process.boards)
    assert_allclose(process.values, exact.values[rows], atol=1e-12)
    gradient = process.gradient(process.visits()) / process.visits().sum()
    expected = policy_gradient(exact)[rows] * len(seats) / exact.occupancy.sum()
    assert_allclose(gradient, expected, atol=1e-12)


def test_the_squared_gradient_of_random_play_is_the_known_one():
    process = DecisionModel(parse_game("2x3/2"), (0,), "random")
    assert (process.gradient(process.visits()) ** 2).sum() == pytest.approx(
        0.006596532186, abs=1e-12
    )
    assert process.start @ process.values == pytest.approx(0.471875)


# -- rollouts, against enumeration in plain Python


def rollouts(process, steps):
    """Yield the probability, states, actions, rewards, ends and next state of each rollout."""

    def follow(state, length):
        if length == 0:
            yield 1.0, (), state
            return
        for action in np.flatnonzero(process.legal[state]):
            pair = state * process.game.cells + action
            chance = process.policy[state, action]
            row = process.next[[pair]].tocoo()
            branches = [(p, n, 0.0, 0.0) for p, n in zip(row.data, row.col, strict=False)]
            for p, result in zip(process.ends[pair], process.results, strict=False):
                branches += [
                    (p * q, n, result, 1.0) for n, q in enumerate(process.start) if p * q > 0
                ]
            for p, following, reward, done in branches:
                for rest, path, end in follow(following, length - 1):
                    yield chance * p * rest, ((state, action, reward, done), *path), end

    for first, chance in enumerate(process.start):
        if chance > 0:
            for p, path, end in follow(first, steps + BURN_IN):
                yield chance * p, path, end


@pytest.mark.parametrize("seats", SEATS)
def test_rollout_gradients_are_those_of_enumeration(seats, monkeypatch):
    monkeypatch.setattr("ttt_eval.checks.rollouts.BURN_IN", 1)
    monkeypatch.setitem(globals(), "BURN_IN", 1)
    monkeypatch.setattr("ttt_eval.checks.rollouts.EXACT_STEPS", {1: 2, 2: 2})
    process = DecisionModel(TINY, seats, 3, discount=0.9, shift=float(len(seats) == 1))
    critic = process.values + np.random.default_rng(0).normal(size=len(process.values))
    expected = np.zeros(process.legal.shape)
    for chance, path, end in rollouts(process, 2):
        states, actions, rewards, dones = (np.array(part) for part in zip(*path, strict=False))
        states = np.append(states, end)
        arrays = {
            "rewards": rewards[1:, None], "values": critic[states[1:-1], None],
            "dones": dones[:-1, None], "next_value": critic[[end]], "next_done": dones[-1:],
            "movers": process.signs[states[1:], None],
        }  # fmt: skip
        for state, action, estimate in zip(
            states[1:], actions[1:], right(arrays)[:, 0], strict=False
        ):
            expected[state] -= chance * estimate * process.policy[state] / 2
            expected[state, action] += chance * estimate / 2
    found = exact_rollout_gradient(right, process, critic)
    assert found.steps == 2
    assert_allclose(found.gradient, expected, atol=1e-12)


# -- batches, against enumeration in plain Python


def games(process):
    """Yield the probability, decisions (state, action), and first player's result of each game."""

    def follow(state):
        for action in np.flatnonzero(process.legal[state]):
            pair = state * process.game.cells + action
            chance = process.policy[state, action]
            for p, result in zip(process.ends[pair], (-1, 0, 1), strict=False):
                if p:
                    yield chance * p, ((state, action),), result * process.signs[state]
            row = process.next[[pair]].tocoo()
            for p, following in zip(row.data, row.col, strict=False):
                for rest, path, result in follow(following):
                    yield chance * p * rest, ((state, action), *path), result

    for state in np.flatnonzero(process.start):
        for chance, path, result in follow(state):
            yield process.start[state] * chance, path, result


def batch_of(process, chosen):
    """Return the arrays of a batch of games, one group, and the decisions of each row."""
    num_rows = 2 if process.self_play else 1
    rows, results = [], []
    for _, path, result in chosen:
        for player in range(num_rows):
            sign = 1 - 2 * player if process.self_play else process.signs[0]
            own = [pair for pair in path if num_rows == 1 or process.signs[pair[0]] == sign]
            rows.append(own)
            results.append(sign * result)
    width = max(1, *map(len, rows))
    mask = np.array([[t < len(own) for t in range(width)] for own in rows])
    rewards, states = np.zeros(mask.shape), np.zeros(mask.shape, int)
    for row, own in enumerate(rows):
        rewards[row, max(len(own) - 1, 0)] = results[row]
        states[row, : len(own)] = [state for state, _ in own]
    arrays = {
        "rewards": rewards, "mask": mask, "groups": np.zeros(len(rows), int), "states": states,
        "roles": np.arange(len(rows)) % num_rows, "lengths": mask.sum(1),
        "values": process.values[states] * mask,
    }  # fmt: skip
    return arrays, rows


def enumerated_gradient(process, estimator, size=2):
    """Return the expected gradient of a game, from all batches of a size."""
    gradient = np.zeros(process.legal.shape)
    for chosen in itertools.product(list(games(process)), repeat=size):
        chance = np.prod([game[0] for game in chosen]) / size
        arrays, rows = batch_of(process, chosen)
        for own, estimates in zip(rows, estimator(arrays), strict=False):
            for (state, action), estimate in zip(own, estimates, strict=False):
                gradient[state] -= chance * estimate * process.policy[state]
                gradient[state, action] += chance * estimate
    return gradient


BY_RESULTS = {
    name: function
    for name, function in ESTIMATORS.items()
    if name not in ("return-minus-value", "gigpo")
}


def from_arrays(function):
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    return by_name(function, *names)


@pytest.mark.parametrize("seats", SEATS)
@pytest.mark.parametrize("name", ["grpo", "rloo", "opo", "per-turn", "turn-level", "rae"])
def test_batches_by_classes_are_those_of_enumeration(name, seats):
    process = DecisionModel(TINY, seats, 3)
    estimator = from_arrays(ESTIMATORS[name])
    expected = enumerated_gradient(process, estimator)
    target = process.gradient(process.visits())
    found = enumerated_effect(estimator, ClassSource(process, BatchSize(2, 2)), target, 2.0)
    exact = compare_exactly(expected, target)
    assert_allclose(found.length, exact.length, atol=1e-12)
    assert_allclose(found.degrees, exact.degrees, atol=1e-6)
    assert_allclose(found.bias, exact.bias, atol=1e-12)


@pytest.mark.parametrize("name", ["gigpo", "return-minus-value"])
def test_estimators_of_positions_and_values_are_sampled_around_enumeration(name):
    process = DecisionModel(TINY, (0,), 3)
    estimator = from_arrays(ESTIMATORS[name])
    target = process.gradient(process.visits())
    exact = compare_exactly(enumerated_gradient(process, estimator), target)
    by_action = np.repeat(process.values[:, None], TINY.cells, axis=1)
    source = EpisodeSource(process, BatchSize(2, 2), {"values": by_action})
    rng = np.random.default_rng(0)
    found = sampled_effect(estimator, source, target, rng, cpu=1.0, max_degrees=0.0)
    assert found.length.low - 1e-9 <= exact.length.mean <= found.length.high + 1e-9
    assert found.degrees.low <= exact.degrees.mean + 1e-6
    assert exact.degrees.mean <= found.degrees.high + 1e-6


# -- losses, against the derivative of the whole expectation


def logits_of(torch, policy):
    return torch.log(torch.as_tensor(np.where(policy > 0, policy, 1e-300)))


@pytest.mark.needs("torch")
@pytest.mark.parametrize("kind", ["kl", "kl of episodes", "reverse kl", "entropy", "policy"])
def test_directions_are_derivatives_of_expectations(kind):
    import torch

    process = DecisionModel(parse_game("2x3/2"), (0,), 0)
    reference = DecisionModel(parse_game("2x3/2"), (0,), 1).policy
    pair = PolicyPair(process, process.policy, reference)
    logits = logits_of(torch, process.policy).requires_grad_()
    logp = torch.log_softmax(logits, 1)
    legal = torch.as_tensor(process.legal)
    logs = torch.where(legal, logp - logits_of(torch, reference), 0.0)
    places, chances = process.episodes()
    mask = torch.as_tensor(places >= 0)
    played = torch.as_tensor(np.maximum(places, 0))
    of_path = (logp.reshape(-1)[played] * mask).sum(1)
    own = torch.as_tensor(chances) * (of_path - of_path.detach()).exp()  # as the policy changes
    visits = torch.as_tensor(process.visits())[:, None]
    terms = {
        "kl": lambda: -(visits * logp.exp() * logs).sum(),
        "kl of episodes": lambda: -(own * (logs.reshape(-1)[played] * mask).sum(1)).sum(),
        "reverse kl": lambda: (
            visits * torch.as_tensor(reference) * torch.where(legal, logp, 0.0)
        ).sum(),
        "entropy": lambda: -(visits * logp.exp() * torch.where(legal, logp, 0.0)).sum(),
        "policy": lambda: (visits * logp.exp() * torch.as_tensor(process.advantages)).sum(),
    }
    terms[kind]().backward()
    assert_allclose(TARGETS[kind](pair), logits.grad.numpy(), atol=1e-12)


@pytest.mark.needs("torch")
def test_expected_losses_are_derivatives_of_their_expectation():
    import torch

    from ttt_eval.checks.calls import GuardedCaller
    from ttt_eval.checks.losses import EpisodeLosses, differentiate, loss_tables

    def loss(logp, old_logp, advantages, mask):
        ratio = ((logp - old_logp) * mask).sum(1).exp()  # of the sequence
        return -(ratio * (advantages * mask).sum(1) / mask.sum(1)).mean()

    process = DecisionModel(parse_game("2x3/2"), (0,), 0)
    present = DecisionModel(parse_game("2x3/2"), (0,), 1).policy
    pair = PolicyPair(process, present, present)
    tables = loss_tables(pair, process.advantages)
    derivative = differentiate(
        loss, ["logp", "old_logp", "advantages", "mask"], "torch", GuardedCaller(None)
    )
    found = EpisodeLosses(process, False).expected(derivative, pair, tables)
    logits = logits_of(torch, present).requires_grad_()
    places, chances = process.episodes()
    mask = torch.as_tensor(places >= 0)
    played = torch.as_tensor(np.maximum(places, 0))
    arrays = [torch.log_softmax(logits, 1).reshape(-1)[played] * mask]
    arrays += [
        torch.as_tensor(tables[name]).reshape(-1)[played] * mask
        for name in ("old_logp", "advantages")
    ]
    rows = [loss(*(array[[row]] for array in (*arrays, mask))) for row in range(len(chances))]
    (-(torch.stack(rows) * torch.as_tensor(chances)).sum()).backward()
    assert_allclose(found, logits.grad.numpy(), atol=1e-12)


def clipped(library):
    def loss(logp, old_logp, advantages, mask):
        ratio = library.exp(logp - old_logp)
        terms = library.minimum(ratio, library.clip(ratio, 0.8, 1.2)) * abs(advantages)
        return -(terms * mask).sum() / len(mask)

    return loss


@pytest.mark.needs("torch")
@pytest.mark.parametrize(
    ("module", "backend"),
    [("numpy", "numpy"), pytest.param("jax.numpy", "jax", marks=pytest.mark.needs("jax"))],
)
def test_backends_agree(module, backend):
    import torch

    other = clipped(importlib.import_module(module))
    effects = [
        check_loss(loss, "2x3/2", backend=name, updates=(0.1,)).effect
        for loss, name in ((clipped(torch), "torch"), (other, backend))
    ]
    assert_allclose(effects[0].length, effects[1].length, rtol=1e-5)
    assert_allclose(effects[0].degrees, effects[1].degrees, rtol=1e-4)


@pytest.mark.needs("torch")
def test_a_mean_over_the_tokens_of_a_sequence_is_that_of_enumeration():
    process = DecisionModel(TINY, (0,), 3)
    expected = np.zeros(process.legal.shape)
    for chance, path, _ in games(process):
        number = sum(1 + action for _, action in path)
        for state, action in path:
            weight = chance * process.advantages[state, action] / number
            expected[state] -= weight * process.policy[state]
            expected[state, action] += weight
    exact = compare_exactly(expected, process.gradient(process.visits()))
    check = check_loss(losses.sequence_mean, TINY, tokens=True, policy=3)
    assert_allclose(check.effect.length, exact.length, atol=1e-12)
    assert_allclose(check.effect.degrees, exact.degrees, atol=1e-9)


# -- verdicts


@pytest.mark.parametrize("seats", SEATS)
def test_right_advantages_are_recognised(seats):
    check = check_advantages(gae, seats=seats)
    assert check.ok, check
    assert check.recognised == "GAE(0.9, 0.95)"
    assert check.effect.exact
    assert check.effect.direction == "unbiased"
    critic = check_advantages(gae, seats=seats, critic=0.3)
    assert critic.ok
    assert "turned" in critic.row("critic").measured


PINNED = {
    "reinforce": (1.0, 0.0, 1.0, 0.0),
    "rae": (1.0, 0.0, 1.0, 0.0),
    "reinforce-plus-plus": (0.455005, 1.3937, 0.872817, 3.3376),
    "reinforce-plus-plus-baseline": (0.455005, 1.3937, 0.872817, 3.3376),
    "rloo": (1.0, 0.0, 1.0, 0.0),
    "grpo": (0.353553, 0.0, 0.679359, 2.7386),
    "grpo-centred": (0.5, 0.0, 0.5, 0.0),
    "opo": (0.526342, 1.5894, 0.479983, 5.1658),
    "gpg": (0.5, 0.0, 0.96076, 2.7386),
    "pass-at-k": (0.288573, 0.0, 0.862985, 13.7667),
    "turn-level": (0.526342, 1.5894, 0.479983, 5.1658),
    "per-turn": (0.587449, 10.9261, 0.394039, 22.0266),
}
"""Length and degrees in batches of two games, on 2 x 3 with two and with three to win."""


@pytest.mark.parametrize("name", BY_RESULTS)
def test_named_estimators_have_their_exact_numbers(name):
    numbers = []
    for game in ("2x3/2", "2x3/3"):
        check = check_advantages(ESTIMATORS[name], game, batch=2)
        assert check.effect.exact
        numbers += [check.effect.length.mean, check.effect.degrees.mean]
    assert_allclose(numbers, PINNED[name], atol=6e-5)


@pytest.mark.more
@pytest.mark.needs("torch")
@pytest.mark.parametrize("error", WRONG)
def test_planted_errors_are_found(error):
    check = WRONG[error].run()
    assert check.failed or check.row("own sample"), check


@pytest.mark.more
@pytest.mark.parametrize("seed", range(12))
def test_right_functions_are_not_called_wrong(seed):
    assert not gradients.right_call(seed)().failed


@pytest.mark.more
@pytest.mark.parametrize("name", ["rloo", "grpo", "opo"])
def test_sampled_intervals_hold_exact_numbers(name):
    assert min(gradients.coverage(ESTIMATORS[name], 40)) >= 0.94


# -- other libraries, the command, and broken functions


@pytest.mark.needs("stable_baselines3")
def test_stable_baselines3_is_right():
    from examples.checks.sb3_buffer import sb3_rollout_buffer

    check = check_advantages(sb3_rollout_buffer, limit_s=None)
    assert check.ok
    assert check.recognised == "GAE(0.9, 0.95)"


@pytest.mark.needs("torch")
def test_cleanrl_and_functions_with_the_arguments_of_verl_and_trl():
    def of_verl(token_level_rewards, response_mask, index, epsilon=1e-6):
        scores = token_level_rewards.sum(dim=-1)
        advantages = scores.clone()
        for group in set(index.tolist()):
            rows = (index == group).nonzero()[0]
            advantages[rows] = (scores[rows] - scores[rows].mean()) / (scores[rows].std() + epsilon)
        return advantages.unsqueeze(-1) * response_mask, scores

    def of_trl(rewards, num_generations):
        grouped = rewards.view(-1, num_generations)
        return (grouped - grouped.mean(dim=1, keepdim=True)).flatten()

    assert check_advantages(adapters.cleanrl_ppo).recognised == "GAE(0.9, 0.95)"
    verl = check_advantages(adapters.from_verl(of_verl), batch=32, group=16, max_degrees=5)
    assert verl.ok
    assert verl.recognised == "grpo"
    trl = check_advantages(adapters.from_trl(of_trl), batch=8, group=4)
    assert trl.recognised == "grpo-centred"


def test_the_command_prints_the_verdict(capsys):
    data = json_of(capsys, "check", "advantages", "gae", "--game", "2x3/2")
    assert data["ok"]
    assert data["effect"]["direction"] == "unbiased"
    words = "check", "advantages", "per-turn", "--batch", "2"
    assert "another direction" in error_of(capsys, evaluate.main, *words)
    words = "check", "loss", "examples.checks.losses:k2", "--meant=x"
    assert "invalid choice" in error_of(capsys, evaluate.main, *words)


def wrong_shape(rewards, dones):
    return rewards[:-1]


def no_numbers(rewards, mask):
    return rewards * np.nan


def an_error(rewards, dones):
    raise RuntimeError("unfinished")


@pytest.mark.parametrize("function", [wrong_shape, no_numbers, an_error])
def test_broken_functions_fail(function):
    check = check_advantages(function)
    assert check.failed == ("answers",)
    assert check.effect is None
    assert json.loads(json.dumps(check.to_dict()))["effect"] is None


@pytest.mark.parametrize(
    ("function", "options", "words"),
    [
        (3, {}, "is no function"),
        (lambda returns: returns, {}, "asks for returns"),
        (rloo, {"batch": 8, "group": 3}, "whole groups"),
        (gae, {"seats": (2,)}, "seats"),
        (gae, {"game": "tic-tac-toe"}, "is unknown"),
        (gae, {"game": Game(4, 4, 4)}, "too large"),
        (gae, {"game": Game(2, 2, 2)}, "no gradient"),
        (gae, {"gamma": 1.5}, "gamma"),
        (gae, {"critic": "wrong"}, "critic"),
    ],
)
def test_invalid_options_are_refused(function, options, words):
    with pytest.raises((ValueError, TypeError), match=words):
        check_advantages(function, **options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"meant": "fun"}, "meant"),
        ({"backend": "x"}, "backend"),
        ({"batch": 8, "meant": "kl"}, "batches"),
    ],
)
def test_invalid_options_of_losses_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        check_loss(lambda logp: logp.sum(), **options)
