"""Checks of learners: agents with known results, learners with planted errors, and refusals."""

import random
import shutil
from collections import defaultdict
from functools import partial
from math import comb

import gymnasium
import learner_runs
import numpy as np
import pytest
from planted_learners import LEARNER_ERRORS, SETTINGS, plant
from processes import ROOT, run_python

from ttt_eval.checks import PROBES, check_learner
from ttt_eval.checks.learner import (
    BETTER,
    FAMILIES,
    NO_MASK,
    NO_SELF_PLAY,
    NOT_CONVERGED,
    OTHER_REWARD,
    OTHER_SETTINGS,
    OTHER_SIGN,
    POLICY_SIGN,
    WRONG_UPDATE,
    LearnerCheck,
    LearnerRun,
    ProbeLimits,
    measure_agent,
)
from ttt_eval.checks.wrong_targets import (
    NEXT_GAME,
    PREDICTED_ERRORS,
    RESET_STEP,
    REWARD_TOO,
    WrongTarget,
)

SHORT = ("bandit", "credit", "defence")
TORCH = (pytest.mark.needs("torch"), pytest.mark.smoke)


def planted_families(*marks):
    """Decorate a test of all families, of which those that need torch have marks."""
    return pytest.mark.parametrize(
        "family",
        [pytest.param(family, marks=() if family == "tabular" else marks) for family in FAMILIES],
    )


def probe_of(make_env):
    """Return the probe with these environments."""
    return next(probe for probe in PROBES.values() if probe.make_env == make_env)


def make_agent(probe, scores, **functions):
    """Return an agent that looks scores, and the answers of other functions, up in tables."""
    rows = {row.tobytes(): place for place, row in enumerate(probe.exact.observations)}

    def look_up(table):
        return lambda observations: table[[rows[row.tobytes()] for row in observations]]

    agent = look_up(scores)
    for name, table in functions.items():
        setattr(agent, name, look_up(table))
    return agent


def train_exactly(error_of=""):
    """Return ``train`` of a learner that has reached the fixed point of an error, or of one that
    depends on the arguments.
    """

    def train(*arguments):
        probe = probe_of(arguments[0])
        error = error_of if isinstance(error_of, str) else error_of(*arguments)
        wrong = PREDICTED_ERRORS[error] if error else WrongTarget()
        if wrong.at_cuts and "max_episode_steps" not in probe.options:
            wrong = WrongTarget()
        values = probe.exact.learned_values(wrong)[1]
        return make_agent(probe, values, values=values)

    return train


# -- agents with known results


@pytest.mark.parametrize("family", FAMILIES)
def test_a_perfect_learner_holds_in_all_rows(family):
    check = check_learner(train_exactly(), family=family)
    note, *judged, _, alarms = check.rows
    assert note.measured.endswith("leave the family out")
    assert {row.status for row in judged} == {"holds"}
    names = [row.name for row in judged if "," not in row.name]
    assert sorted(names) == sorted(PROBES)
    assert sorted(names, key=lambda name: PROBES[name].steps) == names  # the cheapest first
    assert len(judged) == 2 * len(PROBES)
    odds = {"tabular": 20_301, "dqn": 861, "ppo": 861}[family] // len(judged)
    assert alarms.measured.endswith(f"in at most 1 of {odds:,} checks")
    assert "all 2 seeds" in alarms.measured
    assert check.causes == []
    check.assert_ok()


@pytest.mark.parametrize("error", PREDICTED_ERRORS)
def test_a_wrong_fixed_point_fails_and_is_named(error):
    limits = ProbeLimits(0.9, "error", 0.004)
    checker = LearnerCheck(train_exactly(error), lambda *_: limits, {"error"}, range(1))
    for probe in PROBES.values():
        checker.check_probe(probe)
    assert checker.causes() == [error]


@pytest.mark.more
@pytest.mark.parametrize("error", [e for e in PREDICTED_ERRORS if e != "discount 0.99"])
def test_a_wrong_fixed_point_is_named_with_the_limits_of_a_family(error):
    assert check_learner(train_exactly(error), family="tabular").cause == error


def test_the_worst_position_of_a_failed_probe_is_shown():
    check = check_learner(train_exactly("sign of the next value"), "credit", "tabular")
    [evidence] = check.row("credit").evidence
    assert "which loses" in evidence.note
    assert evidence.position in str(check.to_dict())


def test_all_seeds_must_fail():
    train = train_exactly(lambda _, steps, seed: "" if seed == 8 else "sign of the next value")
    assert check_learner(train, SHORT, "tabular", 2, seed=7).ok
    failed = check_learner(train, SHORT, "tabular", 2, seed=9)
    assert "credit" in failed.failed
    runs = FAMILIES["tabular"]["credit"].runs
    assert f"1 of {comb(runs + 2, 2):,}" in failed.row("false alarms").measured


def test_right_learners_train_once():
    seeds = []

    def train(make_env, steps, seed):
        seeds.append(seed)
        return train_exactly()(make_env, steps, seed)

    check_learner(train, SHORT, "dqn", 3)
    assert seeds == [0, 0, 0]


def learn_critic(share=1, growth=0, shift=0, error="", discount=0.9):
    """Return ``train`` of a learner with a share of right values as its critic, or a growing one,
    the same error everywhere, and a discount; the policy has the fixed point of an error.
    """

    def train(make_env, steps, seed):
        probe = probe_of(make_env)
        wrong = PREDICTED_ERRORS.get(error, WrongTarget())
        logits = 1_000 * probe.exact.learned_values(wrong)[1]
        values = probe.exact.model.policy_values(probe.exact.softmax(logits), discount=discount)[0]
        part = share + growth * steps / probe.steps
        return make_agent(probe, logits, critic=part * values + shift)

    return train


def test_critics_are_compared_with_their_own_policy():
    right = check_learner(learn_critic(), ["credit", "defence", "self-play"], "ppo", 1, gamma=0.9)
    assert right.ok
    assert right.row("credit, critic").measured.startswith("error 0.000")
    assert right.row("self-play, entropy").status == "remark"
    wrong = check_learner(learn_critic(shift=0.5), ["credit"], "ppo", 1, gamma=0.9)
    assert wrong.failed == ("credit, critic",)
    assert wrong.row("credit, critic").measured.startswith("error 0.500")


@pytest.mark.parametrize(("share", "cause"), [(1, POLICY_SIGN), (-1, OTHER_REWARD)])
def test_a_critic_tells_rewards_from_the_sign_of_a_policy(share, cause):
    train = learn_critic(share, error=OTHER_REWARD)
    assert check_learner(train, SHORT, gamma=0.9).cause == cause
    assert check_learner(lambda *job: partial(train(*job)), SHORT).cause == OTHER_SIGN


@pytest.mark.parametrize(
    ("discount", "name", "cause"),
    [
        (0.9, "truncation", ""),
        (-1, "credit", "sign of the next value"),
        (0, "credit", "no next value, or truncation taken for an end"),
        (0, "truncation", "no next value, or truncation taken for an end"),
    ],
)
def test_wrong_critics_are_named_by_their_discount(discount, name, cause):
    check = check_learner(learn_critic(discount=discount), ["bandit", name], gamma=0.9)
    assert check.cause == cause
    assert check.ok == (not cause)


@planted_families(TORCH[0])
def test_errors_of_an_automatic_reset_are_named(family):
    rows = {NEXT_GAME: "truncation, next game", RESET_STEP: "truncation, reset step"}
    probes = ["bandit", "truncation"]
    right = check_learner(plant(family), probes)
    assert right.ok
    for error, name in rows.items():
        assert right.row(name).status == "holds"
        wrong = check_learner(plant(family, error), probes, seeds=1)
        assert name in wrong.failed
        assert wrong.cause == error


def test_the_entropy_is_that_of_the_policy():
    probe = PROBES["second"]
    logits = np.zeros_like(probe.exact.action_values)
    run = measure_agent(probe, make_agent(probe, logits, critic=probe.exact.values))
    weights = probe.exact.weights(probe.exact.softmax(logits))
    num_legal = probe.exact.model.allowed.sum(axis=1)
    assert run.entropy == pytest.approx(weights @ np.log(num_legal))


# -- other families: values that cannot be, and the curve


def learn_without_ends(autoreset):
    """Return ``train`` of tabular Q-learning that never reads whether a game is over."""

    def train(make_env, steps, seed):
        rng = np.random.default_rng(seed)
        envs = make_env(8, **autoreset)
        table = defaultdict(lambda: np.zeros(envs.single_action_space.n))

        def action_values(observations):
            return np.array([table[row.tobytes()] for row in observations])

        obs, info = envs.reset(seed=seed)
        for _ in range(steps // 8):
            values = action_values(obs)
            explores = rng.random((8, 1)) < 0.3
            scores = np.where(explores, rng.random(values.shape), values)
            action = np.where(info["action_mask"] == 1, scores, -np.inf).argmax(axis=1)
            next_obs, reward, _, _, info = envs.step(action)
            for game in range(8):
                target = reward[game] + table[next_obs[game].tobytes()].max()
                row = table[obs[game].tobytes()]
                row[action[game]] += 0.1 * (target - row[action[game]])
            obs = next_obs

        action_values.values = action_values
        return action_values

    return train


@pytest.mark.parametrize(
    ("autoreset", "family"),
    [({}, "tabular"), ({"autoreset_mode": gymnasium.vector.AutoresetMode.SAME_STEP}, None)],
    ids=str,
)
def test_values_of_the_next_game_fail_and_are_named(autoreset, family):
    check = check_learner(learn_without_ends(autoreset), ["bandit", "gravity"], family)
    assert {"bandit, values", "gravity, values"} <= set(check.failed)
    assert check.cause == NO_MASK


@pytest.mark.parametrize("setting", SETTINGS["tabular"])
def test_other_settings_of_right_learners_hold_without_a_family(setting):
    check = check_learner(plant("tabular", setting), ["bandit", "defence", "credit"])
    assert not check.failed


def learn_share(share_of):
    """Return ``train`` of a learner that has a share of the right values, by its budgets."""

    def train(make_env, steps, seed):
        probe = probe_of(make_env)
        values = probe.exact.action_values * share_of(steps / probe.steps)
        return make_agent(probe, values, values=values)

    return train


def test_values_in_games_of_one_move_must_be_right_without_a_family():
    check = check_learner(learn_share(lambda part: 0.5), SHORT)
    assert check.failed == ("bandit, values",)
    assert "no longer learns" in check.row("bandit, values").measured
    check = check_learner(learn_share(lambda part: 0.3 * part), SHORT)
    assert not check.failed
    assert check.row("bandit, values").status == "no evidence"
    assert check.row("credit").status == "holds"
    assert check.verdict == "no error found; not judged: bandit, values; values or a critic"
    check_learner(learn_share(lambda part: 1), SHORT).assert_ok()


def test_an_update_with_the_wrong_sign_is_no_missing_mask():
    assert check_learner(learn_share(lambda part: -5), SHORT).cause == WRONG_UPDATE


def test_a_declared_discount_is_judged():
    for error, causes in {
        "discount 0.9": ["", "", "discount 0.9"],
        REWARD_TOO: [REWARD_TOO] * 3,  # in games of one move without a discount too
    }.items():
        train = train_exactly(error)
        gammas = (None, 0.9, 0.95)
        assert [check_learner(train, SHORT, gamma=gamma).cause for gamma in gammas] == causes


@pytest.mark.parametrize(
    ("shares", "status"), [((1, 0), "holds"), ((0.3, 0), "fails"), ((0, 0.2), "no evidence")]
)
def test_critics_are_judged_without_a_family(shares, status):
    check = check_learner(learn_critic(*shares), "credit")
    assert check.row("credit, critic").status == status


def test_the_check_says_what_it_does_not_judge():
    agent = make_agent(PROBES["bandit"], PROBES["bandit"].exact.action_values)
    check = check_learner(lambda *_: agent, "bandit")
    assert check.verdict == "no error found; not judged: values or a critic"
    assert "no next value" in check.row("unseen").measured
    cause = check_learner(train_exactly("no next value"), "truncation").cause
    assert "consistent with no next value; or truncation taken for an end." in cause


def test_values_that_have_not_converged_are_not_called_a_discount():
    check = check_learner(plant("tabular", "step size 0.02"), ["credit", "gravity"], "tabular")
    assert check.failed == ("credit, values", "gravity, values")
    assert check.causes == [OTHER_SETTINGS, NOT_CONVERGED]
    check = check_learner(plant("tabular", "discount 0.9"), ["credit", "gravity"], "tabular")
    assert check.cause == "discount 0.9"


@pytest.mark.parametrize("family", [None, "tabular"])
def test_a_right_learner_that_does_not_know_self_play_is_told_so(family):
    train = train_exactly(lambda make_env, *_: "sign of the next value" * make_env.self_play)
    check = check_learner(train, family=family)
    assert set(check.failed) <= {"self-play", "self-play, values"}
    assert check.cause == NO_SELF_PLAY


def test_rows_are_reported_when_they_are_known():
    reported = []

    def train(make_env, steps, seed):
        trained.append(len(reported))
        return train_exactly()(make_env, steps, seed)

    trained = []
    check = check_learner(train, SHORT, on_row=reported.append)
    assert trained == [0, 2, 4]
    assert reported == list(check.rows)


def learn_until(factor, last=""):
    """Return ``train`` that is right from a multiple of the budget on, and has an error before."""

    def error_of(make_env, steps, seed):
        return last if steps >= factor * probe_of(make_env).steps else "no next value"

    return train_exactly(error_of)


def test_slow_is_not_wrong():
    assert check_learner(learn_until(2), SHORT).ok
    wrong = check_learner(learn_until(2, "maximum over illegal actions"), ["defence", "bandit"])
    assert wrong.row("defence").status == "fails"
    forgetful = check_learner(learn_until(1.5, "nothing is learned"), "credit")
    assert forgetful.row("credit").status == "fails"


@pytest.mark.parametrize("kind", ["values", "critic"])
def test_flat_values_end_the_search_and_are_named(kind):
    steps = []

    def train(make_env, number, seed):
        steps.append(number)
        table = np.zeros_like(probe_of(make_env).exact.action_values)
        table[0, 0] = 0.01
        return make_agent(
            probe_of(make_env), table, **{kind: table if kind == "values" else table[:, 0]}
        )

    check = check_learner(train, "credit")
    assert "broadcasting [B, 1] with [B]" in check.cause
    assert sorted(steps) == [2_500, 10_000, 10_000]


@pytest.mark.parametrize("first", [0, 0.7])
def test_a_rising_curve_is_no_evidence(first):
    def train(make_env, steps, seed):
        probe = probe_of(make_env)
        right = probe.exact.action_values
        part = steps / probe.steps
        share = first if part == 0.25 else part / 4
        keep = np.random.default_rng(0).random(len(right)) < share
        return make_agent(probe, np.where(keep[:, None], right, -right), values=right)

    check = check_learner(train, "second")
    assert check.row("second").status == "no evidence"
    assert check.row("second").measured.endswith(BETTER)
    assert check.verdict == "undecided: no evidence in second"
    assert not check.ok


def test_no_training_is_repeated_for_another_seed():
    trainings = []

    def train(make_env, steps, seed):
        trainings.append((steps, seed))
        return train_exactly("no next value")(make_env, steps, seed)

    check = check_learner(train, "credit", seed=4)
    steps = PROBES["credit"].steps
    curve = [(part * steps // 4, 5) for part in (1, 2, 4)]
    assert trainings == [(steps, 4), (2 * steps, 4), (2 * steps, 5), *curve]
    assert check.row("credit").measured.endswith("it no longer learns")


# -- learners


@planted_families(TORCH[0])
def test_right_learners_hold(family):
    check_learner(plant(family), ["bandit", "credit", "defence"], family, 3, seed=5).assert_ok()


@pytest.mark.parametrize(
    ("family", "error", "name"),
    [
        ("tabular", "sign of the next value", "credit"),
        ("tabular", "truncation taken for an end", "truncation"),
        pytest.param("dqn", "learning rate 0", "bandit", marks=TORCH),
        pytest.param("ppo", "sign of the advantage", "bandit", marks=TORCH),
    ],
)
def test_planted_errors_fail(family, error, name):
    assert name in check_learner(plant(family, error), name, family).failed


@planted_families(*TORCH)
def test_planted_lines_are_lines_of_the_learners(family):
    for name in [*LEARNER_ERRORS[family], *SETTINGS[family]]:
        assert callable(plant(family, name))
    with pytest.raises(KeyError):
        plant(family, "no such error")


@pytest.mark.needs("sb3_contrib")
@pytest.mark.parametrize("name", ["dqn", "ppo", "a2c", "maskable_ppo"])
def test_learners_of_stable_baselines3_hold(name):
    from examples.checks import sb3_learners

    train = getattr(sb3_learners, f"train_{name}")
    check = check_learner(train, ["bandit", "defence", "self-play"])
    assert not check.failed
    assert check.row("bandit").status == "holds"
    assert check.row("self-play").status == "no evidence"


# -- refusals


def test_probes_that_a_learner_is_not_for_have_no_evidence():
    def train(make_env, steps, seed):
        if make_env.self_play or not make_env.masks:
            return None
        return train_exactly()(make_env, steps, seed)

    check = check_learner(train, ["bandit", "illegal", "self-play"], "tabular")
    assert check.ok
    assert [row.status for row in check.rows].count("no evidence") == 2


def test_global_generators_are_seeded_and_restored():
    def train(make_env, steps, seed):
        draws.append((random.random(), np.random.random()))  # noqa: NPY002
        return train_exactly()(make_env, steps, seed)

    draws = []
    random.seed(3)
    check_learner(train, "bandit", "tabular")
    after = random.random()
    random.seed(3)
    assert after == random.random()
    check_learner(train, "bandit", "tabular")
    assert draws[0] == draws[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"probes": "slow"}, "there is no probe 'slow'"),
        ({"probes": ["gravty"]}, "did you mean 'gravity'"),
        ({"family": "sac"}, "family='sac' is not known"),
        ({"seeds": 0}, "seeds"),
        ({"seed": -1}, "seed"),
    ],
)
def test_unknown_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        check_learner(train_exactly(), **arguments)


@pytest.mark.parametrize(
    ("agent", "error", "message"),
    [
        (3, TypeError, "train returned 'int'"),
        (
            lambda observations: np.zeros(len(observations)),
            ValueError,
            "return numbers of the shape",
        ),
        (
            lambda observations: np.full((len(observations), 9), np.nan),
            ValueError,
            "not all finite",
        ),
    ],
)
def test_wrong_agents_are_refused(agent, error, message):
    with pytest.raises(error, match=message):
        check_learner(lambda *_: agent, "bandit")


def test_something_else_than_a_function_is_refused():
    with pytest.raises(TypeError, match="is no function"):
        check_learner("train")


def test_limits_lie_beyond_the_right_runs():
    for rows in FAMILIES.values():
        assert rows.keys() == PROBES.keys()
        for right in rows.values():
            assert right.score_limit < right.min_score <= right.mean_score
            assert right.error_limit > right.max_error >= right.mean_error


# -- tools and the repository to copy


def test_runs_are_kept_and_not_repeated(tmp_path, monkeypatch):
    monkeypatch.setattr(learner_runs, "PROBES", {"bandit": PROBES["bandit"]})
    limits = learner_runs.make_limits(tmp_path, {"tabular": 2})
    assert limits["tabular.bandit"]["runs"] == 2
    assert limits["tabular.bandit"]["min_score"] == 1
    monkeypatch.setattr(learner_runs, "measure_run", None)
    assert str(learner_runs.make_limits(tmp_path, {"tabular": 2})) == str(limits)


def test_verdicts_are_rows_of_a_table(capsys):
    learner_runs.main("errors", families=["tabular"], names=["learning rate 0"], probes=["bandit"])
    assert "| tabular: learning rate 0 | bandit | bandit | " in capsys.readouterr().out


def test_learners_are_planted_from_any_folder(tmp_path):
    code = "import planted_learners; print(planted_learners.plant('tabular'))"
    result = run_python("-c", code, cwd=tmp_path, PYTHONPATH=str(ROOT / "tools"))
    assert "function train" in result.stdout


def test_limits_are_those_of_right_runs():
    runs = [LearnerRun(score, 1 - score, np.nan, 0.0, None) for score in (0.5, 0.7, 0.9)]
    right = learner_runs.summarize(runs)
    sd = np.std([0.5, 0.7, 0.9])
    assert right[:3] == pytest.approx((3, 0.5, 0.7))
    assert right.score_limit == pytest.approx(0.5 - sd)
    assert right.error_limit == pytest.approx(0.5 + sd)


def copy_repository(folder):
    """Return a copy of the repository to copy."""
    return shutil.copytree(ROOT / "examples" / "learner_repository", folder / "repository")


def run_tests(repository, names, code=0):
    """Return what tests of these names print."""
    selected = ["-p", "no:cacheprovider", "-k", names, "tests"]
    path = {"PYTHONPATH": str(ROOT)}
    return run_python("-m", "pytest", "-q", *selected, cwd=repository, code=code, **path).stdout


@pytest.mark.more
def test_the_repository_to_copy_passes_its_test(tmp_path):
    output = run_tests(copy_repository(tmp_path), "bandit or self-play")
    assert "1 passed, 1 skipped, 8 deselected" in output


@pytest.mark.more
def test_the_repository_to_copy_fails_without_a_mask_at_the_end(tmp_path):
    folder = copy_repository(tmp_path)
    path = folder / "my_learner.py"
    source = path.read_text("utf-8")
    old = "        if not terminated:\n"
    new = "        if terminated:\n            next_obs, info = env.reset()\n        if True:\n"
    assert source.count(old) == 1
    path.write_text(source.replace(old, new), "utf-8")
    output = run_tests(folder, "bandit", code=1)
    assert "1 failed, 9 deselected" in output
    assert NO_MASK in output


def test_the_command_shows_rows_when_they_are_known(evaluate_py):
    line = "check learner examples.checks.q_learning:train --probes bandit"
    assert "verdict: no error found" in evaluate_py(line)
    assert "bandit: score 1.00" in evaluate_py.err
