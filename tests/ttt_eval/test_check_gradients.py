"""Checks of advantages and losses: exact parts against enumeration, right functions, planted
errors, broken functions, and the functions of other libraries.
"""

import importlib
import itertools
import json
from functools import partial

import gradients
import numpy as np
import pytest
from numpy.testing import assert_allclose

from examples.checks import advantages as adapters
from examples.checks import losses
from examples.checks.estimators import ESTIMATORS, rloo
from examples.checks.wrong_gradients import WRONG, token_gae
from ttt_envs import Game
from ttt_envs.arrays import game_arrays
from ttt_envs.core.files import read_table
from ttt_eval.checks import advantages, check_advantages, check_loss, decisions, gae, samples
from ttt_eval.checks.decisions import DecisionModel
from ttt_eval.checks.directions import compare
from ttt_eval.checks.losses import TARGETS, list_tables
from ttt_eval.exact import evaluate_policy, policy_gradient

SEATS = ((0,), (1,), (0, 1))
TINY = Game(1, 4, 2, 0.25)
RESULTS = (1.0, 0.0, -1.0)


def exact_gradient(model):
    return model.visits[:, None] * model.policy * model.advantages


# -- the game


@pytest.mark.parametrize("seats", SEATS)
def test_the_exact_gradient_is_that_of_the_library(seats, monkeypatch):
    monkeypatch.setattr(decisions, "SPREAD", 0.0)  # all actions equally often
    model = DecisionModel("2x3/2", seats)
    seat = {"seat": seats[0], "opponent": "random"} if len(seats) == 1 else {}
    exact = evaluate_policy(model.game, "random", **seat)
    reached = model.visits > 0
    movers = ((1 - model.signs) / 2).astype(int)[reached]
    parts = [game_arrays(model.game).boards(seat) for seat in (0, 1)]
    first, second = (part.take(model.actions.rows[reached]) for part in parts)
    rows = np.where(movers, exact.find(second), exact.find(first))
    assert_allclose(model.values[reached], exact.values[rows], atol=1e-12)
    gradient = exact_gradient(model)[reached] / model.visits.sum()
    expected = policy_gradient(exact)[rows] * len(seats) / exact.occupancy.sum()
    assert_allclose(gradient, expected, atol=1e-12)


def test_the_squared_gradient_of_random_play_is_the_known_one(monkeypatch):
    monkeypatch.setattr(decisions, "SPREAD", 0.0)
    model = DecisionModel("2x3/2")
    assert (exact_gradient(model) ** 2).sum() == pytest.approx(0.006596532186, abs=1e-12)
    assert model.start @ model.values == pytest.approx(0.471875)


# -- enumeration in plain Python


def paths(model, state, steps=None):
    """Yield the probability, decisions (state, action, result or None) and last state of all games
    from a state on; or, of rollouts with a number of steps, through ends of games.
    """
    if steps == 0:
        yield 1.0, (), state
        return
    for action in np.flatnonzero(model.legal[state]):
        row = model.actions.outcomes[[state * model.game.cells + action]].toarray()[0]
        for following in np.flatnonzero(row):
            chance = model.policy[state, action] * row[following]
            over = following >= len(model.signs)
            step = state, action, RESULTS[following - len(model.signs)] if over else None
            if over and steps is None:
                yield chance, (step,), None
                continue
            begin = np.argmax(model.start) if over else following
            steps_left = None if steps is None else steps - 1
            for share, path, end in paths(model, begin, steps_left):
                yield chance * share, (step, *path), end


def add_score(gradient, model, decision, weight):
    state, action = decision[:2]
    gradient[state] -= weight * model.policy[state]
    gradient[state, action] += weight


def assert_effect(effect, gradient, target):
    """The effect is that of a gradient."""
    sample = target.reshape(1, -1)
    exact = compare(gradient.reshape(1, -1), sample, sample, np.random.default_rng(0))
    assert effect.exact
    assert_allclose(effect.length, exact.length, atol=1e-12)
    assert_allclose(effect.degrees, exact.degrees, atol=1e-5)


@pytest.mark.parametrize("seats", SEATS)
@pytest.mark.parametrize(("steps", "limit"), [(2, 9), (1, 1)])
def test_rollout_gradients_are_those_of_enumeration(seats, steps, limit, monkeypatch):
    """Of a function that is not linear, with a wrong critic; with a limit of one step games are
    truncated.
    """
    monkeypatch.setattr(samples, "MAX_STEPS", steps)
    monkeypatch.setattr(advantages, "TIME_LIMIT", limit)
    model = DecisionModel(TINY, seats, 3, discount=0.9, shift=1.0)

    def estimate(rewards, values, dones, next_value, next_done, movers, truncated, next_values):
        rewards = rewards + truncated * next_values
        return abs(gae(rewards, values**2, dones, next_value, next_done, movers))

    expected = np.zeros(model.legal.shape)
    target = np.zeros(model.legal.shape)
    begin = np.argmax(model.start)
    for chance, path, end in paths(model, begin, steps):
        over = [0 if result is None else 1 for *_, result in path]
        is_cut = steps == limit and not over[-1]
        last = begin if is_cut else end
        states = np.array([state for state, *_ in path] + [last])
        rewards = [0.0 if result is None else result + model.results[1] for *_, result in path]
        estimates = estimate(
            np.array(rewards)[:, None],
            model.values[states[:-1], None],
            np.array([1, *over[:-1]])[:, None],
            model.values[[last]],
            over[-1] | is_cut,
            model.signs[states, None],
            is_cut,
            model.signs[[end, begin]].prod() * model.values[end],
        )
        for decision, number in zip(path, estimates[:, 0], strict=True):
            add_score(expected, model, decision, chance * number)
            add_score(target, model, decision, chance * model.advantages[decision[:2]])
    check = check_advantages(estimate, TINY, seats, policy=3)
    assert_effect(check.effect, expected, target)


def batch_of(model, chosen):
    """Return the arrays of a batch of games, one group, and the decisions of each row."""
    num_rows = 2 if model.self_play else 1
    rows = []
    results = []
    for _, path, _ in chosen:
        last_state, _, result = path[-1]
        for player in range(num_rows):
            sign = 1 - 2 * player if model.self_play else model.signs[0]
            rows.append([step for step in path if model.signs[step[0]] == sign])
            results.append(sign * model.signs[last_state] * result)
    width = max(1, *map(len, rows))
    mask = np.array([[t < len(own) for t in range(width)] for own in rows])
    rewards = np.zeros(mask.shape)
    states = np.zeros(mask.shape, int)
    for row, own in enumerate(rows):
        rewards[row, max(len(own) - 1, 0)] = results[row]
        states[row, : len(own)] = [step[0] for step in own]
    arrays = {
        "rewards": rewards,
        "mask": mask,
        "groups": np.zeros(len(rows), int),
        "states": states,
        "roles": np.arange(len(rows)) % num_rows,
        "lengths": mask.sum(1),
        "values": model.values[states] * mask,
    }
    return arrays, rows


def enumerated_gradient(model, estimator, size=2):
    """Return the expected gradient of a game, from all batches of a size."""
    gradient = np.zeros(model.legal.shape)
    games = [
        (model.start[state] * chance, path, end)
        for state in np.flatnonzero(model.start)
        for chance, path, end in paths(model, state)
    ]
    for chosen in itertools.product(games, repeat=size):
        chance = np.prod([game[0] for game in chosen]) / size
        arrays, rows = batch_of(model, chosen)
        for own, estimates in zip(rows, estimator(arrays), strict=True):
            for decision, number in zip(own, estimates, strict=False):
                add_score(gradient, model, decision, chance * number)
    return gradient


@pytest.mark.parametrize(
    ("name", "seats"),
    [
        ("grpo", (1,)),
        ("per-turn", (0,)),
        ("gigpo", (0,)),
        ("rae", (0, 1)),
        pytest.param("turn-level", (0, 1), marks=pytest.mark.more),
    ],
)
def test_batches_are_those_of_enumeration(name, seats):
    model = DecisionModel(TINY, seats, 3)
    expected = enumerated_gradient(model, partial(gradients.call_with, ESTIMATORS[name]))
    check = check_advantages(ESTIMATORS[name], TINY, seats, batch=2, policy=3)
    assert_effect(check.effect, expected, exact_gradient(model))


@pytest.mark.needs("torch")
@pytest.mark.parametrize("seats", SEATS)
def test_means_over_the_tokens_of_a_batch_are_those_of_enumeration(seats):
    """Action a has a + 1 tokens; batches of two are known without asking for them."""
    model = DecisionModel(TINY, seats, 3)
    expected = np.zeros(model.legal.shape)
    games = [
        (model.start[state] * chance, path)
        for state in np.flatnonzero(model.start)
        for chance, path, _ in paths(model, state)
    ]
    for pair in itertools.product(games, repeat=2):
        number = sum(1 + action for _, path in pair for _, action, _ in path)
        for step in pair[0][1] + pair[1][1]:
            advantage = model.advantages[step[:2]]
            weight = len(seats) * pair[0][0] * pair[1][0] * advantage / number
            add_score(expected, model, step, weight)
    check = check_loss(losses.batch_mean, TINY, seats, tokens=True, batch=2, policy=3)
    assert_effect(check.effect, expected, exact_gradient(model))


# -- losses, against the derivative of the whole expectation


def logits_of(torch, policy):
    return torch.log(torch.as_tensor(np.where(policy > 0, policy, 1e-300)))


@pytest.mark.needs("torch")
@pytest.mark.parametrize("kind", ["policy", *TARGETS])
def test_targets_are_derivatives_of_expectations(kind):
    import torch

    model = DecisionModel("2x3/2", (0,), 0)
    reference = DecisionModel("2x3/2", (0,), 1).policy
    logits = logits_of(torch, model.policy).requires_grad_()
    logp = torch.log_softmax(logits, 1)
    legal = torch.as_tensor(model.legal)
    logs = torch.where(legal, logp - logits_of(torch, reference), 0.0)
    chances, places, *_ = samples.unroll(model, restarts=False)
    mask = torch.as_tensor(places >= 0)
    played = torch.as_tensor(np.maximum(places, 0))
    of_path = (logp.reshape(-1)[played] * mask).sum(1)
    own = torch.as_tensor(chances) * (of_path - of_path.detach()).exp()  # as the policy changes
    visits = torch.as_tensor(model.visits)[:, None]
    of_reference = torch.as_tensor(reference) * torch.where(legal, logp, 0.0)
    terms = {
        "kl": -visits * logp.exp() * logs,
        "kl of episodes": -own * (logs.reshape(-1)[played] * mask).sum(1),
        "reverse kl": visits * of_reference,
        "entropy": -visits * logp.exp() * torch.where(legal, logp, 0.0),
        "policy": visits * logp.exp() * torch.as_tensor(model.advantages),
    }
    terms[kind].sum().backward()
    table = list_tables(model, model.policy, reference, kind)["right"]
    sums = model.visits[:, None] * model.policy * table
    gradient = sums - model.policy * sums.sum(axis=1, keepdims=True)
    assert_allclose(gradient, logits.grad.numpy(), atol=1e-12)


@pytest.mark.needs("torch")
@pytest.mark.parametrize("seats", SEATS)
def test_expected_losses_are_derivatives_of_their_expectation(seats):
    """Of a ratio of sequences; the entropy, whose weight depends on what was played, is apart."""
    import torch

    def loss(logp, old_logp, advantages, entropy, mask):
        ratio = ((logp - old_logp) * mask).sum(1).exp()
        lengths = mask.sum(1).clamp_min(1)
        return -((ratio * (advantages * mask).sum(1) + (entropy * mask).sum(1)) / lengths).mean()

    model = DecisionModel("1x5/3", seats, 0)
    names = "old_logp", "advantages", "mask"
    tables = list_tables(model, model.policy, model.policy, "policy")
    rows = samples.list_batch_rows(model, tables | {"advantages": model.advantages}, names)
    logits = logits_of(torch, model.policy).requires_grad_()
    logp = torch.log_softmax(logits, 1)
    entropy = -(logp.exp() * torch.where(torch.as_tensor(model.legal), logp, 0.0)).sum(1).detach()
    terms = []
    for chance, places, arrays in zip(
        rows.chances,
        rows.places,
        zip(*map(rows.arrays.get, names), strict=True),
        strict=True,
    ):
        played = torch.as_tensor(np.maximum(places, 0))
        old, advantages, mask = map(torch.as_tensor, arrays)
        states = played // model.game.cells
        terms.append(
            chance
            * loss(logp.reshape(-1)[played] * mask, old, advantages, entropy[states] * mask, mask)
        )
    (-len(seats) * torch.stack(terms).sum()).backward()
    check = check_loss(loss, "1x5/3", seats, entropy=0.0, updates=(0.0,))
    assert_effect(check.effect, logits.grad.numpy(), exact_gradient(model))


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


# -- verdicts


@pytest.mark.parametrize("seats", SEATS)
def test_right_advantages_are_recognised(seats):
    check = check_advantages(gae, seats=seats)
    assert check.ok, check
    assert check.recognised == "GAE(0.9, 0.95)"
    assert check.verdict == "no error found; not judged: lambda, without lam="
    assert check.effect.exact
    assert_allclose((check.effect.length.mean, check.effect.degrees.mean), (1, 0), atol=1e-6)
    critic = check_advantages(gae, seats=seats, critic=0.1)
    assert critic.ok
    assert "turned" in critic.row("critic").measured


@pytest.mark.parametrize("axis", [None, 1])
def test_normalised_advantages_are_probed_and_those_of_one_step_are_not_judged(axis):
    def estimate(rewards, values, dones, next_value, next_done):
        estimates = gae(rewards, values, dones, next_value, next_done)
        return estimates - estimates.mean(axis, keepdims=True)

    check = check_advantages(estimate, "1x4/2", lam=0.9, environments=8)
    assert check.failed == ("lambda",) * (axis is None)
    assert ("not judged: environments" in check.verdict) == (axis == 1)


@pytest.mark.parametrize(("scale", "failed"), [(1, ()), (-1, ("critic",))])
def test_values_of_a_critic_are_judged(scale, failed):
    values = DecisionModel("2x3/2", discount=0.9).values
    check = check_advantages(gae, "2x3/2", (0,), critic=lambda observations: scale * values)
    assert check.failed == failed
    assert ("unbiased" in check.row("critic").measured) == (scale == 1)


PINNED, CAUSES = read_table(__file__).values()
"""Length and degrees in batches of two games, on 2 x 3 with two and with three to win; of functions
of positions on 1 x 4, with two and with three to win. And parts of causes by planted error."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.more if name == "gigpo" else ()) for name in ESTIMATORS],
)
def test_named_estimators_have_their_exact_numbers(name):
    numbers = []
    seats = (0, 1) if name in ("turn-level", "rae") else (0,)
    for game in ("1x4/2", "1x4/3") if name == "gigpo" else ("2x3/2", "2x3/3"):
        check = check_advantages(ESTIMATORS[name], game, seats, batch=2)
        assert check.effect.exact
        numbers += [check.effect.length.mean, check.effect.degrees.mean]
    assert_allclose(numbers, PINNED[name], atol=6e-5)


@pytest.mark.more
@pytest.mark.needs("torch")
@pytest.mark.parametrize("error", WRONG)
def test_planted_errors_are_found_and_named(error):
    check = WRONG[error].run()
    assert check.failed or check.row("own sample"), check
    assert CAUSES.get(error, "") in check.verdict


@pytest.mark.parametrize("size", [2, 8])
def test_the_deviation_of_a_group_is_named_as_a_method(size):
    check = check_advantages(ESTIMATORS["grpo"], batch=size, group=min(size, 4))
    assert check.cause.startswith(
        "divided by the deviation of its group, as GRPO does: a known bias ("
        f"{check.effect.degrees.mean:.1f} degrees here)"
    )


@pytest.mark.parametrize("seats", SEATS)
@pytest.mark.parametrize("lam", [0.0, 0.8, 0.99, 1.0])
def test_gae_of_tokens_is_right_with_any_lambda(seats, lam):
    """Lambda counts at each token, or once for each decision."""
    for once in (False, True):
        function = partial(token_gae, lam=lam, once=once)
        check = check_advantages(function, "1x4/2", seats, tokens=True)
        assert check.ok, check
        assert check.effect.exact
        assert_allclose((check.effect.length.mean, check.effect.degrees.mean), (1, 0), atol=1e-6)


def test_declared_settings_and_names_of_gymnasium_are_right():
    function = partial(gradients.with_truncations, settings={"discount": 0.99, "lam": 0.5})
    assert check_advantages(function, gamma=0.99, lam=0.5).verdict == "no error found"


def test_without_next_values_no_value_at_a_truncation_is_asked_for():
    def estimate(rewards, values, terminated, truncated, last_values):
        begins = np.vstack([truncated[:1], terminated | truncated])
        return gae(rewards, values, begins[:-1], last_values, begins[-1])

    assert check_advantages(estimate).verdict.endswith(
        "not judged: lambda, without lam=; the value at a truncation, without next_values"
    )


@pytest.mark.needs("torch")
@pytest.mark.parametrize(("entropy", "clip"), [(None, None), (0.01, 0.2), (0.01, (0.2, 0.2))])
def test_right_bonuses_and_ranges_of_the_clip_are_right(entropy, clip):
    loss = losses.ppo_clip_with_bonus
    check = check_loss(loss, "2x3/2", entropy=entropy, clip=clip, meant="PPO clip")
    assert check.ok
    assert ("without entropy=" in check.verdict) == (entropy is None)
    assert ("range of the clip, without clip=" in check.verdict) == (clip is None)


@pytest.mark.needs("torch")
@pytest.mark.parametrize("kl", [losses.k2, losses.k3, losses.k1_in_reward, losses.k1_in_return])
@pytest.mark.parametrize(
    ("coefficient", "meant", "row"),
    [
        (0.04, 0.04, "divergence"),
        (2.0, None, "divergence"),
        (-0.04, None, "sign of divergence"),
        (0.044, 0.04, "divergence"),
    ],
)
def test_the_coefficient_of_a_divergence_beside_the_clip(kl, coefficient, meant, row):
    def loss(logp, old_logp, ref_logp, advantages, mask):
        divergence = coefficient * kl(logp, ref_logp, mask)
        return losses.ppo_clip(logp, old_logp, advantages, mask) + divergence

    check = check_loss(loss, "2x3/2", meant="PPO clip", kl=meant, clip=0.2, cpu=1)
    assert check.failed == (() if coefficient in (2.0, meant) else (row,))
    assert ("without kl=" in check.verdict) == (coefficient == 2.0)
    assert float(check.row(row).measured) == coefficient


@pytest.mark.more
@pytest.mark.needs("torch")
@pytest.mark.parametrize("ddof", [0, 1])
def test_a_bonus_beside_normalised_advantages_is_right(ddof):
    def loss(logp, old_logp, advantages, entropy, mask):
        played = advantages[mask.bool()]
        scaled = (advantages - played.mean()) / (played.std(correction=ddof) + 1e-8)
        return losses.ppo_clip_with_bonus(logp, old_logp, scaled, entropy, mask)

    check = check_loss(loss, entropy=0.01, batch=64)
    assert check.verdict == "no error found; not judged: the clip, without meant="
    assert check.effect.length.low > 2
    assert check_loss(loss, entropy=0.0109, batch=64, cpu=1).failed == ("entropy",)
    assert "; normalisation: advantages are" in check_loss(loss, entropy=0.01).verdict
    small = check_loss(loss, entropy=0.01, batch=8, cpu=6)
    assert small.failed == ("gradient",)
    assert small.cause == "the expected gradient has another direction"


@pytest.mark.needs("torch")
@pytest.mark.parametrize(
    ("low", "high", "clip", "end"),
    [
        (0.8, 1.2, 0.2, "not judged: mask: the loss does not ask for it"),
        (0.9997, 1.0004, (3e-4, 4e-4), "not judged: mask: the loss does not ask for it"),
        (-0.2, 0.2, 0.2, "A = -1"),
    ],
)
def test_losses_without_a_mask_and_with_a_wrong_clip(low, high, clip, end):
    def loss(logp, old_logp, advantages, entropy):
        ratio = (logp - old_logp).exp()
        terms = (ratio * advantages).minimum(ratio.clamp(low, high) * advantages)
        return -(terms + 0.01 * entropy).mean()

    assert check_loss(loss, meant="PPO clip", entropy=0.01, clip=clip).verdict.endswith(end)


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

    check = check_advantages(sb3_rollout_buffer, "2x3/2", limit_s=None)
    assert check.ok
    assert check.recognised == "GAE(0.9, 0.95)"


@pytest.mark.needs("torch")
def test_cleanrl_and_functions_with_the_arguments_of_verl():
    def of_verl(token_level_rewards, response_mask, index):
        scores = token_level_rewards.sum(dim=-1)
        for group in set(index.tolist()):
            rows = (index == group).nonzero()[0]
            scores[rows] = scores[rows] - scores[rows].mean()
        return scores.unsqueeze(-1) * response_mask, scores

    assert check_advantages(adapters.cleanrl_ppo, "2x3/2").recognised == "GAE(0.9, 0.95)"
    check = check_advantages(adapters.from_verl(of_verl), batch=2)
    assert check.ok
    assert check.effect.length.mean == pytest.approx(0.5)


def test_the_command_prints_the_verdict(evaluate_py):
    data = evaluate_py.json("check advantages gae --game 2x3/2")
    assert data["ok"]
    assert data["effect"]["direction"] == "unbiased"
    line = "check advantages examples.checks.estimators:per_turn --batch 2"
    assert "another direction" in evaluate_py.error(line)
    line = "check loss examples.checks.losses:k2 --meant=x"
    assert "invalid choice" in evaluate_py.error(line)


@pytest.mark.needs("torch")
@pytest.mark.parametrize(
    ("clip", "is_right"), [("0.2", True), ("0.2 0.2", True), ("0.2 0.28", False)]
)
def test_the_command_takes_ranges_of_a_clip(clip, is_right, evaluate_py):
    line = f"check loss examples.checks.losses:ppo_clip --game 2x3/2 --cpu 1 --clip {clip}"
    if is_right:
        assert evaluate_py.json(line)["ok"]
    else:
        assert "clip=(0.2) (--clip" in evaluate_py.error(line)


def wrong_shape(rewards, dones):
    return rewards[:-1]


def no_numbers(rewards, mask):
    return rewards * np.nan


def an_error(rewards, dones):
    raise RuntimeError("unfinished")


def a_tuple(rewards, values):
    return rewards, values


@pytest.mark.parametrize("function", [wrong_shape, no_numbers, an_error, a_tuple])
def test_broken_functions_fail(function):
    check = check_advantages(function)
    assert ("a tuple: return the advantages alone" in check.cause) == (function is a_tuple)
    assert check.failed == ("answers",)
    assert check.cause.endswith(f": {check.row('answers').measured}")
    assert check.effect is None
    assert json.loads(json.dumps(check.to_dict()))["effect"] is None


def test_random_functions_are_sampled():
    rng = np.random.default_rng(0)

    def noisy(rewards, mask):
        return (rewards.sum(axis=1) + rng.normal(size=len(mask)))[:, None] * mask

    check = check_advantages(noisy, "2x3/2", batch=1, cpu=1)
    assert check.row("repeatable").status == "no evidence"
    assert not check.effect.exact
    assert not check.failed
    assert not check.ok
    assert check.verdict.startswith("undecided: no evidence in what it reads")


def test_a_gradient_without_enough_samples_decides_nothing():
    check = check_advantages(ESTIMATORS["grpo"], batch=8, cpu=0)
    assert check.effect.direction == "undecided"
    assert not check.failed
    assert not check.ok
    assert check.verdict.startswith("undecided: no evidence in the gradient")


@pytest.mark.parametrize(
    ("function", "options", "words"),
    [
        (3, {}, "is no function"),
        (lambda returns: returns, {}, "argument: 'returns', which is unknown"),
        (rloo, {"batch": 8, "group": 3}, "whole groups"),
        (rloo, {"game": "3x3/3"}, "too many games"),
        (rloo, {"gamma": 0.9}, "no discount"),
        (gae, {"seats": (2,)}, "seats"),
        (gae, {"game": "tic-tac-toe"}, "is unknown"),
        (gae, {"game": Game(4, 4, 4)}, "too large"),
        (gae, {"game": Game(2, 2, 2)}, "no gradient"),
        (gae, {"gamma": 1.5}, "gamma"),
        (gae, {"lam": 1.5}, "lam"),
        (gae, {"critic": -1.0}, "critic"),
        (rloo, {"batch": -8}, "batch"),
        (rloo, {"group": 0}, "group"),
        (gae, {"environments": 0}, "environments"),
        (rloo, {"environments": 8}, "no environments, and environments= no effect"),
        (gae, {"tokens": True}, "no tokens, and tokens= .* no effect"),
        (gae, {"group": 4}, "whole episodes have no dones"),
        (lambda rewards, dones, mask: rewards, {}, "whole episodes have no dones"),
    ],
)
def test_invalid_options_are_refused(function, options, words):
    with pytest.raises((ValueError, TypeError), match=words):
        check_advantages(function, **options)


@pytest.mark.parametrize(
    ("loss", "options", "words"),
    [
        (losses.k1, {"meant": "fun"}, "meant"),
        (losses.k1, {"backend": "x"}, "backend"),
        (lambda entropy: entropy.sum(), {}, "logp"),
        (lambda logp, values: logp.sum(), {}, "a value loss is not judged: use check_learner"),
        (losses.ppo_clip, {"clip": 0.5}, "clip"),
    ],
)
def test_invalid_options_of_losses_are_refused(loss, options, words):
    with pytest.raises(ValueError, match=words):
        check_loss(loss, **options)


def test_a_backend_that_is_not_installed_is_refused(monkeypatch):
    monkeypatch.setattr("ttt_eval.checks.losses.find_spec", lambda name: None)
    with pytest.raises(ValueError, match="torch is not installed"):
        check_loss(losses.k1)
