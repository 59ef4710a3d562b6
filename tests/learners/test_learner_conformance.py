"""The contract of every registered learner. Settings are in test_settings.py;
tests/ttt_apps/test_runs.py compares every file of killed and resumed runs, whose checkpoints are in
the middle of games."""

import dataclasses
import io
import sys
from functools import cache
from itertools import product

import numpy as np
import plain
import pytest
import tiny
from json_files import read_json, rows_of
from numpy.testing import assert_allclose, assert_array_equal
from small_games import SKIP_GAME

from learners import LEARNERS
from learners.checkpoint import load_checkpoint
from learners.pettingzoo_loop import train_in
from learners.training import Trainer
from ttt_envs import Boards, Game, PhantomGame, make_policy, mnk_v0
from ttt_envs.agents.policy import Policy
from ttt_envs.agents.specs import load_object
from ttt_envs.game.phantom import game_from_dict
from ttt_eval.exact import exploitability, match_outcome

CASES = [
    tiny.case(
        name,
        (name, settings),
        id=",".join([name, *(f"{key}={value}" for key, value in settings.items())]),
    )
    for name in tiny.OURS
    for settings in tiny.FORMS.get(name, ({},))
]
OWN_LOOPS = [
    tiny.case(name, more=name in ("sb3-dqn", "sb3-maskable-ppo"))
    for name in sorted(LEARNERS)
    if name not in tiny.OURS
]


def with_more(case, is_more):
    """The case, marked ``more`` if that is so."""
    marks = [*case.marks, pytest.mark.more] if is_more else case.marks
    return pytest.param(*case.values, id=case.id, marks=marks)


class Maker:
    """Makes learners of one kind."""

    def __init__(self, name, settings):
        self.name = name
        self.config = load_object(LEARNERS[name])(**settings)

    def __call__(self, game, seed=0):
        return self.config.build(game, np.random.default_rng(seed))

    def trained(self, game, opponent="self", games=192, batch=64, seed=0):
        learner = self(game)
        Trainer(learner, opponent, games, batch=batch, seed=seed).run()
        return learner


@pytest.fixture(scope="module", params=CASES)
def make(request):
    return Maker(*request.param)


@pytest.fixture(scope="module")
def learned(make):
    """A trained learner of a game, the same one for all tests, which do not change it."""
    return cache(make.trained)


class Signed(Policy):
    """A learner whose rewards have this sign."""

    def __init__(self, learner, sign):
        self.learner = learner
        self.sign = sign
        self.game = learner.game
        self.backup = learner.backup
        self.on_policy = learner.on_policy

    def explore(self, boards, rng):
        return self.learner.explore(boards, rng)

    def update(self, transition):
        return self.learner.update(transition._replace(reward=self.sign * transition.reward))


def stored(learner):
    """The learner's arrays as a file keeps them, which shares nothing with the learner."""
    file = io.BytesIO()
    np.savez(file, **learner.state)
    file.seek(0)
    with np.load(file, allow_pickle=False) as arrays:
        return dict(arrays)


def assert_same(a, b):
    plain.assert_same_arrays(stored(a), stored(b))


@pytest.mark.parametrize(
    "game",
    [Game(2, 4, 3, 0.1), Game(7, 7, 5), Game(3, 3, 3, 0.25, misere=True, gravity=True)],
    ids=str,
)
def test_probabilities_are_of_legal_moves_and_sum_to_one(make, learned, game):
    if not {*game.variants} <= {*make.config.variants}:
        pytest.skip("the learner refuses this game, as test_conformance.py tests")
    learner = learned(game)
    boards = plain.positions_of_random_play(game, 64)
    frozen = Boards(*(array.copy() for array in boards))
    p = learner.probabilities(frozen)
    legal = boards.legal(game)
    assert (p.dtype, p.shape, str(learner)) == (np.float64, (64, game.cells), make.name)
    assert (p >= 0).all()
    assert (p[~legal] == 0).all()
    assert_allclose(p.sum(axis=1), 1, rtol=1e-12)
    actions = learner.explore(frozen, np.random.default_rng(0))
    assert legal[np.arange(64), actions].all()
    if learner.action_values is not None:
        values = learner.action_values(frozen)
        assert_array_equal(np.isnan(values), ~legal)
        best = values == np.nanmax(values, axis=1, keepdims=True)
        assert_allclose(p, plain.shares_of(best), rtol=1e-12)
    for array, was in zip(frozen, boards, strict=True):
        assert_array_equal(array, was)


@pytest.mark.parametrize(
    "make", [case for case in CASES if case.values[0][0] in tiny.FORMS], indirect=True
)
def test_exploration_has_probability_epsilon_which_decays(make):
    game = Game()
    config = dataclasses.replace(
        make.config, symmetries="none"
    )  # with others q-net explores by one image
    learner = dataclasses.replace(config, epsilon=0.5, epsilon_decay=0.0).build(
        game, np.random.default_rng(0)
    )
    Trainer(learner, "self", 8, batch=4).run()
    boards = plain.positions_of_random_play(game, 2).take(np.ones(40_000, np.int64))
    shares = np.bincount(learner.explore(boards, np.random.default_rng(1)), minlength=9) / len(
        boards.mover
    )
    legal = boards.cells[0] == 0
    assert_allclose(shares, (learner.probabilities(boards)[0] + legal / legal.sum()) / 2, atol=0.01)
    shrinking = dataclasses.replace(config, epsilon=1.0, epsilon_decay=0.5).build(
        game, np.random.default_rng(0)
    )
    shrinking.explore(Boards.start(game), np.random.default_rng(1))
    assert shrinking.epsilon[0] == 0.5


@pytest.mark.smoke
@pytest.mark.parametrize(
    "make",
    [with_more(case, "gradient_steps" in case.values[0][1]) for case in CASES],
    indirect=True,
)
def test_the_seed_decides(make):
    first, same, other = (make.trained(Game(), seed=seed) for seed in (5, 5, 6))
    assert_same(first, same)
    with pytest.raises(AssertionError):
        assert_same(first, other)


def lockstep_cases():
    """Learners, skip chances, kinds of phantom games and opponents that fit together, see
    test_settings.py.
    """
    for case, skip_chance, phantom, opponent in product(
        CASES, (0.0, 0.25), (None, "classic", "abrupt"), ("random", "self")
    ):
        name, settings = case.values[0]
        is_negamax = settings.get("backup") == "negamax"
        has_afterstates = settings.get("values") == "afterstate"
        if is_negamax and (opponent == "random" or phantom):
            continue
        if phantom and (has_afterstates or skip_chance == 0):
            continue
        if name == "q-net" and (opponent, phantom, skip_chance) != ("self", None, 0.25):
            continue  # the loops are those of tables, which take a hundredth of the time
        label = f"{case.id}-{skip_chance}-{phantom}-{opponent}"
        marks = with_more(case, name == "q-net").marks
        yield pytest.param(*case.values, skip_chance, phantom, opponent, marks=marks, id=label)


@pytest.mark.parametrize(
    ("make", "skip_chance", "phantom", "opponent"), [*lockstep_cases()], indirect=["make"]
)
def test_lockstep_and_pettingzoo_train_the_same_learner(make, skip_chance, phantom, opponent):
    """One game at a time in lockstep is a PettingZoo environment: views, failed attempts, skips and
    replies.
    """
    game = Game(skip_chance=skip_chance)
    variant = game if phantom is None else PhantomGame(game, phantom)
    lockstep = make(variant)
    seated = make(variant)
    played = Trainer(lockstep, opponent, 24, batch=1, seed=7).run()
    env = mnk_v0.env(skip_chance=skip_chance, phantom=phantom)
    assert played == train_in(env, seated, opponent, 24, seed=7)
    assert played.games == 24
    assert_same(lockstep, seated)


def test_damaged_arrays_and_those_of_another_game_are_refused(make):
    learner = make(Game())
    arrays = stored(make.trained(Game(), games=8))
    for name, array in arrays.items():
        for broken in (
            array[None],
            np.zeros((2, 3) if array.ndim == 0 else (), array.dtype),
            array.astype(complex),
        ):
            with pytest.raises(ValueError, match=name):
                learner.state = {**arrays, name: broken}
        with pytest.raises(ValueError, match=name):
            learner.state = {other: array for other, array in arrays.items() if other != name}
    with pytest.raises(ValueError, match="another game's or learner's, or damaged"):
        learner.state = stored(make(Game(4, 4, 3)))
    learner.state = arrays  # refused arrays changed nothing
    plain.assert_same_arrays(arrays, stored(learner))


@pytest.mark.parametrize("sign", [1, -1], ids=["own", "the opponent's"])
@pytest.mark.parametrize(
    "make",
    [
        with_more(case, case.values[0][0] == "q-net")
        for case in CASES
        if "buffer_size" not in case.values[0][1]
    ],
    indirect=True,
)
def test_training_on_its_rewards_beats_random_play_and_on_the_opponents_loses(make, sign):
    """The opponent's rewards are the mistake of a well-known self-play wrapper."""
    game = SKIP_GAME
    learner = make(game)
    games = 4_000 if make.name == "q-net" else 10_000
    opponent = "self" if learner.backup == "negamax" else "random"
    before = match_outcome(game, learner, "random").value
    Trainer(Signed(learner, sign), opponent, games, batch=32).run()
    value, perfect = (
        match_outcome(game, policy, "random").value for policy in (learner, "optimal")
    )
    gain = 0.5 if make.name in tiny.FORMS else 0.3
    assert value > max(0.0, before) + gain * perfect if sign == 1 else value < -0.2


# --------------------------------------------------------------------------------------------------
# Learners with their own loops; tests/test_conformance.py tests their policies


def load_learned(run):
    return load_checkpoint(run)["learner"]


@pytest.mark.smoke
@pytest.mark.parametrize("name", OWN_LOOPS)
def test_same_seed_same_run(name, tiny_run, tmp_path):
    first = load_learned(tiny_run(name))
    plain.assert_same_arrays(first, load_learned(tiny.train_run(name, tmp_path / "again")))
    other = load_learned(tiny.train_run(name, tmp_path / "other", "--seed=1"))
    assert first.keys() == other.keys()
    assert any((array != other[name]).any() for name, array in first.items())
    for array in first.values():
        assert array.dtype.kind in "biufU"


VARIED = {"gravity": ("--gravity", "--misere"), "hidden": ("--phantom=classic", "--exact-every=20")}


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        pytest.param(*case.values, rule, marks=case.marks, id=f"{case.id}-{rule}")
        for rule in VARIED
        for case in tiny.cases_of_rules(rule)
    ],
)
def test_a_run_has_the_rules_of_its_game(name, rule, tmp_path):
    """It plays by them and by no others."""
    run = tiny.train_run(name, tmp_path / "run", *VARIED[rule])
    game = game_from_dict(read_json(run / "config.json")["game"])
    falling = dataclasses.replace(tiny.GAME, gravity=True, misere=True)
    assert game == (falling if rule == "gravity" else PhantomGame(tiny.GAME, "classic"))
    policy = make_policy(f"run:{run}", game)
    if rule == "gravity":
        boards = plain.positions_of_random_play(game, 60)
        assert (policy.probabilities(boards)[~boards.legal(game)] == 0).all()
    else:
        rows = rows_of(run / "metrics.jsonl")
        *_, last = (row["exploitability"] for row in rows if "exploitability" in row)
        assert exploitability(game, policy) == pytest.approx(last, abs=1e-12)
    with pytest.raises(ValueError, match=r"by its rules|and the game here is"):
        make_policy(f"run:{run}", tiny.GAME)


@pytest.mark.parametrize(
    "name", [name for name, needed in tiny.PACKAGES.items() if "tensorflow" in needed]
)
def test_missing_tensorflow_is_reported(name, monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    with pytest.raises(SystemExit):
        tiny.train_run(name, tmp_path / "run")
    assert f"{name} needs TensorFlow" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("name", ["alpha-zero", "value-net"])
def test_nets_in_numpy_learn_without_tensorflow(name, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    run = tiny.train_run(name, tmp_path / "run")
    assert make_policy(f"run:{run}", tiny.GAME)


def test_importing_and_configuring_imports_no_large_library(fresh):
    lines = (
        "import sys",
        "from learners import LEARNERS",
        "from ttt_envs.agents.specs import load_object",
        "for path in LEARNERS.values(): load_object(path)()",
        "print(sorted({'tensorflow', 'torch', 'stable_baselines3', 'sb3_contrib'} & "
        "set(sys.modules)))",
    )
    assert fresh(*lines).strip() == "[]"
