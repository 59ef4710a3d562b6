"""Audits of advantage estimators: against definitions, exact values, other libraries, and bad
functions.
"""

import math

import numpy as np
import pytest
from commands import error_of, json_of, text_of
from hypothesis import given, settings
from hypothesis import strategies as st

from examples.audit_rollouts import sb3_rollout_buffer
from ttt_apps import evaluate
from ttt_envs import Game
from ttt_envs.agents.specs import FromFile, make_policy
from ttt_envs.game.boards import from_text
from ttt_envs.game.game import Position
from ttt_eval.audit import ESTIMATORS, Auditor, AuditSettings, audit, make_estimator
from ttt_eval.audit.episodes import Players, enumerate_episodes, sample_episodes
from ttt_eval.audit.estimators import Batch
from ttt_eval.exact import evaluate_policy
from ttt_eval.exact.dynamic_programming import outcome

pytestmark = pytest.mark.more

LATE = "ox./xo./.o. x"
"""A position of 3 x 3 from which some hundred episodes can occur."""
GROUPS = [
    "rloo",
    "grpo",
    "grpo:scale=false",
    "per-turn",
    "per-turn:leave_one_out=true",
    "per-turn-return",
]


# --------------------------------------------------------------------------------------------------
# Estimators are what their sources define


def random_arrays(seed, episodes=12, steps=5):
    """Padded arrays with rewards after every decision, of episodes that are terminated or
    truncated.
    """
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, steps + 1, episodes)
    mask = np.arange(steps) < lengths[:, None]
    last = np.arange(steps) == lengths[:, None] - 1
    cut = rng.random(episodes) < 0.4
    values = rng.normal(size=(episodes, steps + 1)) * (
        np.arange(steps + 1) < (lengths + cut)[:, None]
    )
    rewards = rng.normal(size=mask.shape) * mask
    cut = cut[:, None]
    return Batch(
        rewards, values, last & ~cut, last & cut, mask, rng.uniform(0.2, 3.0, mask.shape) * mask
    )


def k_step(arrays, episode, step, k, discount):
    """The k-step estimate of an advantage, from its definition."""
    length = int(arrays.mask[episode].sum())
    end = min(step + k, length)
    total = sum(discount ** (i - step) * arrays.rewards[episode, i] for i in range(step, end))
    return (
        total
        + discount ** (end - step) * arrays.values[episode, end]
        - arrays.values[episode, step]
    )


def by_definition(name, arrays, discount, setting):
    """An estimator of single episodes as its source writes it, decision by decision."""
    out = np.zeros(arrays.mask.shape)
    for episode, step in zip(*np.nonzero(arrays.mask), strict=True):
        remaining = int(arrays.mask[episode].sum()) - step
        value = arrays.values[episode, step]
        steps = np.array(
            [k_step(arrays, episode, step, k, discount) for k in range(1, remaining + 1)]
        )
        rewards = [discount**i * arrays.rewards[episode, step + i] for i in range(remaining)]
        if name in ("monte-carlo", "return-minus-value"):
            out[episode, step] = sum(rewards) - (name != "monte-carlo") * value
        elif name == "n-step":
            out[episode, step] = steps[min(setting, remaining) - 1]
        elif name in ("gae", "td-lambda"):
            weights = [(1 - setting) * setting**k for k in range(remaining - 1)] + [
                setting ** (remaining - 1)
            ]
            out[episode, step] = weights @ steps + (name == "td-lambda") * value
        elif name == "gae-finite":
            weights = np.array([setting**k for k in range(remaining)])
            out[episode, step] = weights @ steps / weights.sum()
        elif name == "importance-sampling":
            weights = np.cumprod([1.0, *arrays.ratios[episode, step + 1 : step + remaining]])
            follows = discount**remaining * arrays.values[episode, step + remaining]
            out[episode, step] = weights @ rewards + weights[-1] * follows - value
        else:
            follows = v_trace_target(arrays, episode, step + 1, discount)
            out[episode, step] = arrays.rewards[episode, step] + discount * follows - value
    return out


def v_trace_target(arrays, episode, start, discount):
    """Equation 1 of Espeholt et al. (2018)."""
    length = int(arrays.mask[episode].sum())
    target = arrays.values[episode, start]
    traces = 1.0
    for step in range(start, length):
        error = (
            arrays.rewards[episode, step]
            + discount * arrays.values[episode, step + 1]
            - arrays.values[episode, step]
        )
        target += (
            discount ** (step - start) * traces * min(1.0, arrays.ratios[episode, step]) * error
        )
        traces *= min(1.0, arrays.ratios[episode, step])
    return target


SINGLE = ["monte-carlo", "return-minus-value", "n-step", "td-lambda", "gae", "gae-finite"]
SINGLE += ["v-trace", "importance-sampling"]


@pytest.mark.parametrize("name", SINGLE)  # each with examples of its own
@settings(max_examples=8, deadline=None)
@given(
    st.integers(0, 2**32),
    st.sampled_from([0.0, 0.7, 1.0]),
    st.sampled_from([0.0, 0.3, 0.95, 1.0]),
    st.integers(1, 7),
)
def test_estimators_are_their_definitions(name, seed, discount, lam, n):
    arrays = random_arrays(seed)
    setting = {
        "n-step": f":n={n}",
        "td-lambda": f":lam={lam}",
        "gae": f":lam={lam}",
        "gae-finite": f":lam={lam}",
    }
    result = make_estimator(name + setting.get(name, "")).estimate(
        arrays._replace(discount=discount)
    )
    expected = by_definition(name, arrays, discount, n if name == "n-step" else lam)
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-12)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([2, 3, 4]))
def test_group_estimators_are_their_definitions(seed, size):
    arrays = random_arrays(seed)._replace(group_size=size)
    results = {name: make_estimator(name).estimate(arrays) for name in GROUPS}
    for episode, step in zip(*np.nonzero(arrays.mask), strict=True):
        group = [episode // size * size + member for member in range(size)]
        others = [other for other in group if other != episode]
        rest = arrays.rewards[:, step:].sum(axis=1)
        whole = arrays.rewards.sum(axis=1)
        centred = whole[episode] - whole[group].mean()
        expected = {
            "rloo": whole[episode] - whole[others].mean(),
            "grpo": centred / (whole[group].std(ddof=1) + 1e-6),
            "grpo:scale=false": centred,
            "per-turn-return": rest[episode] - rest[others].mean(),
        }
        for name, compared in (("per-turn", group), ("per-turn:leave_one_out=true", others)):
            turns = range(step, int(arrays.mask[episode].sum()))
            present = [[other for other in compared if arrays.mask[other, turn]] for turn in turns]
            means = [
                arrays.rewards[rows, turn].mean() if rows else 0.0
                for turn, rows in zip(turns, present, strict=True)
            ]
            expected[name] = rest[episode] - sum(means)
        assert {name: results[name][episode, step] for name in GROUPS} == pytest.approx(
            expected, abs=1e-9
        )


# --------------------------------------------------------------------------------------------------
# Other libraries


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([0.9, 1.0]), st.sampled_from([0.0, 0.95, 1.0]))
def test_the_buffer_of_sb3_gives_the_same_numbers(seed, discount, lam):
    pytest.importorskip("stable_baselines3")
    arrays = random_arrays(seed)._replace(discount=discount)
    ours = make_estimator(f"gae:lam={lam}").estimate(arrays)
    reference = sb3_rollout_buffer(arrays, lam=lam)
    np.testing.assert_allclose(
        np.where(arrays.mask, reference, 0.0), ours, rtol=0, atol=1e-6 * np.abs(ours).max()
    )


# --------------------------------------------------------------------------------------------------
# Episodes


def players(
    game, start=None, max_steps=None, seat=0, behaviour="random", opponent="optimal:epsilon=0.6"
):
    position = (
        Position(np.zeros(game.cells, np.int8), 0) if start is None else from_text(start, game)
    )
    return Players(
        game, make_policy(behaviour, game), make_policy(opponent, game), seat, max_steps, position
    )


@pytest.mark.parametrize(("skip", "seat"), [(0.0, 1), (0.5, 0), (0.25, 1)])
def test_enumerated_episodes_have_the_exact_result(skip, seat):
    game = Game(2, 3, 2, skip)
    own = "random"
    other = "optimal:epsilon=0.6"
    episodes = enumerate_episodes(players(game, seat=seat))
    exact = outcome(game, own, other) if seat == 0 else outcome(game, other, own).reversed()
    results = np.where(
        episodes.mask.any(axis=1), episodes.rewards.sum(axis=1), -1
    )  # over before the first turn: lost
    assert [episodes.weights @ (results == result) for result in (1, 0, -1)] == pytest.approx(
        list(exact), abs=1e-12
    )
    assert episodes.mask[:, 0].all() == (seat == 0 or skip == 0)


def test_sampled_episodes_occur_as_often_as_enumerated_ones():
    game = Game(3, 3, 3, 0.25)
    exact = enumerate_episodes(players(game, LATE, seat=1))
    sampled = sample_episodes(players(game, LATE, seat=1), 20_000, 1)

    def shares(episodes):
        totals = {}
        for row, weight in enumerate(episodes.weights):
            boards = [episodes.cells[i].tobytes() for i in episodes.positions[row] if i >= 0]
            key = (
                *boards,
                *episodes.actions[row][episodes.mask[row]].tolist(),
                episodes.rewards[row].sum(),
            )
            totals[key] = totals.get(key, 0.0) + weight
        return totals

    expected = shares(exact)
    counted = shares(sampled)
    assert len(expected) == len(exact.weights)
    assert set(counted) <= set(expected)
    for key, share in expected.items():
        assert abs(counted.get(key, 0.0) - share) < 5 * math.sqrt(share / 20_000)


def test_the_first_episodes_of_a_seed_do_not_depend_on_their_number():
    few, many = (
        sample_episodes(players(Game(3, 3, 3, 0.25), max_steps=2), count, 7) for count in (50, 200)
    )
    np.testing.assert_array_equal(few.actions, many.actions[:50, : few.actions.shape[1]])
    np.testing.assert_array_equal(few.truncated, many.truncated[:50])
    assert few.truncated.any()
    assert not (
        sample_episodes(players(Game()), 200, 8).actions[:, :2] == many.actions[:, :2]
    ).all()


# --------------------------------------------------------------------------------------------------
# Bias and variance


@pytest.mark.parametrize(
    ("game", "start", "seat"),
    [(Game(2, 3, 2), "", 0), (Game(2, 3, 3, 0.5), "", 1), (Game(3, 3, 3, 0.25), LATE, 1)],
)
def test_gae_with_exact_values_is_unbiased_and_its_variance_grows_with_lambda(game, start, seat):
    auditor = Auditor(
        game,
        "random",
        "optimal:epsilon=0.6",
        AuditSettings(seat=seat, episodes=None, position=start),
    )
    audits = [auditor.audit(f"gae:lam={lam}") for lam in (0.0, 0.3, 0.9, 1.0)]
    few = [AuditSettings(seat=seat, episodes=40, position=start, seed=seed) for seed in range(4)]
    sampled = [audit("gae", game, "random", "optimal:epsilon=0.6", settings) for settings in few]
    for kind in ("advantage", "gradient"):
        errors = [getattr(result, kind) for result in audits]
        assert max(each.bias_squared.mean for each in errors) < 1e-24
        assert (
            min(getattr(result, kind).bias_squared.mean for result in sampled) < 0
        )  # noise is no bias
        variances = [each.variance.mean for each in errors]
        assert variances == sorted(variances) == pytest.approx([each.mse.mean for each in errors])
        assert variances[0] < variances[-1]
    assert {(result.exact, result.biased, result.biased_advantage) for result in audits} == {
        (True, False, False)
    }


def test_a_wrong_critic_biases_bootstrapped_estimates_alone():
    auditor = Auditor(
        Game(2, 3, 2, 0.25),
        "random",
        "optimal:epsilon=0.6",
        AuditSettings(critic="zero", episodes=None),
    )
    biases = [auditor.audit(f"gae:lam={lam}").gradient.bias_squared.mean for lam in (0.0, 0.5, 1.0)]
    assert biases[0] > biases[1] > 1e-6
    assert biases[2] < 1e-24
    assert auditor.audit("monte-carlo").biased_advantage is False  # it estimates the return
    returns = auditor.audit("return-minus-value")
    assert returns.biased is False
    assert (
        returns.biased_advantage is True
    )  # by the missing baseline, which is the same for all actions
    assert returns.cosine.mean == pytest.approx(1)


def test_bootstrapping_at_truncation_removes_its_bias():
    settings = AuditSettings(episodes=None, max_steps=2)
    auditor = Auditor(Game(2, 3, 2, 0.25), "random", "optimal:epsilon=0.6", settings)
    assert auditor.audit("gae:lam=1").biased is False
    assert auditor.audit("gae:lam=1,bootstrap=false").biased is True
    assert auditor.audit("return-minus-value").biased is True


def test_off_policy_corrections():
    settings = AuditSettings(seat=1, episodes=None, position=LATE, behaviour="random")
    auditor = Auditor(Game(3, 3, 3, 0.25), "optimal:epsilon=0.5", "random", settings)
    assert auditor.audit("importance-sampling").biased is False
    assert auditor.audit("v-trace:max_rho=100,max_c=100").biased is False
    assert auditor.audit("v-trace").biased is True  # of clipped weights
    assert auditor.audit("gae:lam=1").biased is True
    assert auditor.audit("gae:lam=0").biased is False  # exact values follow the audited policy


@pytest.mark.parametrize(
    "spec", ["n-step:n=2", "gae:lam=0.5", "importance-sampling", "rloo", "per-turn"]
)
def test_sampled_bias_agrees_with_exact_bias(spec):
    game = Game(3, 3, 3, 0.25)
    start = "oxo/xo./x.. x" if spec in GROUPS else LATE
    common = {"seat": 1, "position": start, "group_size": 2, "critic": "zero"}
    exact, sampled = (
        audit(
            spec,
            game,
            "optimal:epsilon=0.5",
            "random",
            AuditSettings(episodes=episodes, seed=3, **common),
        )
        for episodes in (None, 20_000)
    )
    for kind in ("advantage", "gradient"):
        for true, interval in zip(getattr(exact, kind), getattr(sampled, kind), strict=True):
            half = (interval.high - interval.low) / 2 / 2.02  # Student's t of 40 blocks
            assert abs(true.mean - interval.mean) <= 4 * half + 1e-12


def test_intervals_of_sampled_bias_have_their_documented_coverage():
    game = Game(2, 3, 2, 0.25)
    inside = []
    options = {
        "critic": lambda boards: 0.3 * np.sin(boards.cells @ np.arange(1, 7) * 1.7 + boards.mover)
    }
    true = audit("gae:lam=0.9", game, "random", "random", AuditSettings(episodes=None, **options))
    for seed in range(60):
        sampled = audit(
            "gae:lam=0.9",
            game,
            "random",
            "random",
            AuditSettings(episodes=2_000, seed=seed, **options),
        )
        assert sampled.coverage > 0.99
        low, high = sampled.advantage.bias_squared[1:]
        inside.append(low <= true.advantage.bias_squared.mean <= high)
    assert np.mean(inside) >= 0.9 - 3 * (0.9 * 0.1 / 60) ** 0.5


def test_a_verdict_that_the_sample_leaves_open_is_printed(capsys):
    words = ["audit", "gae:lam=0.9", "monte-carlo", "--skip-chance=0.25", "--episodes=500"]
    verdicts = [
        audit[key]
        for audit in json_of(capsys, *words)["estimators"]
        for key in ("biased", "biased_advantage")
    ]
    assert verdicts == [None] * 4
    assert text_of(capsys, *words).count(" undecided ") == 4


def test_a_discount_weighs_rewards_and_no_visits():
    game = Game(2, 3, 2, 0.25)
    result = audit(
        "gae:lam=1", game, "random", "random", AuditSettings(seat=1, discount=0.5, episodes=None)
    )
    exact = evaluate_policy(game, "random", "random", seat=1, discount=0.5)
    gradient = exact.occupancy[:, None] * exact.probabilities * np.nan_to_num(exact.advantages)
    assert result.biased is False
    assert result.exact_gradient_squared.mean == pytest.approx((gradient**2).sum(), rel=1e-12)


def test_symmetric_policies_are_evaluated_by_class():
    """The same as in every single position, on 2 x 5."""
    game = Game(2, 5, 3, 0.25)
    single = make_policy("optimal:epsilon=0.5", Game(2, 5, 3, 0.25))
    object.__setattr__(single, "symmetric", False)
    options = AuditSettings(episodes=400, critic="zero")
    merged, single = (
        audit("gae:lam=0.5", game, policy, "random", options)
        for policy in ("optimal:epsilon=0.5", single)
    )
    for kind in ("advantage", "gradient", "exact_gradient_squared"):
        np.testing.assert_allclose(getattr(merged, kind), getattr(single, kind), rtol=0, atol=1e-12)


def rewards_of_groups(batch):
    return batch.rewards


rewards_of_groups.uses_groups = True


def test_groups_of_independent_estimates_have_the_variance_of_single_ones():
    settings = AuditSettings(seat=1, position="oxo/xo./x.. x", group_size=3, episodes=None)
    single, grouped = (
        audit(function, Game(3, 3, 3, 0.25), "random", "random", settings).gradient.variance
        for function in (lambda batch: batch.rewards, rewards_of_groups)
    )
    assert single.mean > 0.01
    assert grouped == pytest.approx(single)


def test_learned_values_approach_exact_ones():
    """Those of the audited policy in whole episodes, although another policy plays, and only
    once.
    """
    errors = []
    for count in (20, 20_000):
        settings = AuditSettings(
            episodes=None, critic=f"learned:{count}", behaviour="random", max_steps=1
        )
        errors.append(
            audit(
                "gae:lam=0", Game(2, 3, 2), "win-or-block", "random", settings
            ).gradient.bias_squared.mean
        )
    assert 100 * errors[1] < errors[0]


# --------------------------------------------------------------------------------------------------
# Bad input


def changes(batch):
    batch.rewards[:] -= batch.values[:, :-1]
    return batch.rewards


def mixes(batch):
    return batch.rewards - batch.rewards.mean()


def fails(batch):
    raise KeyError("nothing")


def test_an_estimator_may_change_its_batch():
    batch = random_arrays(7)
    np.testing.assert_array_equal(
        make_estimator(changes).estimate(batch), batch.rewards - batch.values[:, :-1] * batch.mask
    )


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda batch: batch.rewards[:, :1], r"returned float64\[50, 1\]"),
        (lambda batch: np.full(batch.mask.shape, np.nan), "finite"),
        (mixes, "mixes gives an episode other estimates beside other episodes"),
        (fails, "fails failed, KeyError"),
        ("gea", "did you mean 'gae'"),
        ("gae:lamda=1", "did you mean 'lam'"),
        ("", "'' is no estimator"),
        ("numpy:pi", "is no function"),
        (FromFile("examples.audit_rollouts:to_rollout"), "read from a file"),
    ],
)
def test_bad_estimators_are_one_sentence(function, message):
    with pytest.raises(ValueError, match=message):
        audit(function, Game(2, 3, 2), "random", settings=AuditSettings(episodes=50))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"group_size": 1}, "group_size=1"),
        ({"episodes": 0}, "episodes=0"),
        ({"critic": "learned:x"}, "learned:x has no number of episodes"),
        ({"critic": "random"}, "random has no values"),
        ({"critic": lambda boards: np.zeros(3)}, r"shape \[3\]"),
        ({"behaviour": "optimal"}, "the behaviour optimal never plays some moves of random"),
        ({"position": "o../... o"}, "comes from no game without skips"),
        ({"episodes": None, "group_size": 60}, "make more than 250,000 groups of 60"),
    ],
)
def test_bad_settings_are_one_sentence(given, message):
    with pytest.raises(ValueError, match=message):
        audit("rloo", Game(2, 3, 2), "random", settings=AuditSettings(**{"episodes": 100} | given))


def test_positions_out_of_reach_and_too_many_episodes_are_refused():
    with pytest.raises(ValueError, match="never reaches"):
        audit(
            "gae",
            Game(),
            "optimal",
            "optimal",
            AuditSettings(episodes=10, position="ox./.../... o"),
        )
    with pytest.raises(ValueError, match="more than 200,000 episodes can occur"):
        audit("gae", Game(), "random", settings=AuditSettings(episodes=None))


# --------------------------------------------------------------------------------------------------
# The command


def test_command(capsys):
    board = ["--size", "2x3", "--win-length", "2", "--skip-chance", "0.25"]
    data = json_of(capsys, "audit", "gae:lam=0", "return-minus-value", *board, "--enumerate")
    low, high = data["estimators"]
    assert low["biased"] is high["biased"] is False
    assert low["advantage"]["variance"]["mean"] < high["advantage"]["variance"]["mean"]
    output = text_of(
        capsys,
        "audit",
        "all",
        "--size",
        "2",
        "--win-length",
        "2",
        "--enumerate",
        "--group-size",
        "2",
    )
    assert all(name in output for name in ESTIMATORS)
    words = ("--size", "2x3", "--win-length", "2", "--enumerate", "--group-size", "8")
    evaluate.main(["audit", "all", *words])
    output = capsys.readouterr()
    assert "rloo is left out: " in output.err
    assert "rloo" not in output.out
    error_of(capsys, evaluate.main, "audit", "rloo", *words)
