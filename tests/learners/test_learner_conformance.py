"""The contract of every registered learner. Settings are in test_settings.py; tests/ttt_apps/test_runs.py compares
every file of killed and resumed runs."""

import dataclasses
import io
import json
import sys
from functools import cache

import numpy as np
import plain
import pytest
import tiny
from numpy.testing import assert_allclose, assert_array_equal

from learners import LEARNERS
from learners.base import Transition
from learners.checkpoint import load_checkpoint
from learners.pettingzoo_loop import train_in
from learners.training import Trainer
from ttt_envs import Boards, Game, act, mnk_v0
from ttt_envs.agents.policy import Policy
from ttt_envs.agents.specs import load_object
from ttt_eval.exact.dynamic_programming import exploitability, match_outcome

FORMS = {
    "naive-mc": ({}, {"symmetries": "all", "rewards": "unit"}),
    "q-learning": (
        {},
        {"backup": "negamax", "symmetries": "rotations"},
        {"values": "afterstate", "rewards": "report", "epsilon_decay": 0.01},
        {"values": "afterstate", "backup": "negamax", "target": "sarsa", "symmetries": "all"},
    ),
    "q-net": (
        {},
        {"hidden": 8, "buffer_size": 64, "batch_size": 16, "gradient_steps": 2, "target_update_interval": 3,
         "optimizer": "sgd", "backup": "negamax", "symmetries": "rotations"},
    ),
}  # fmt: skip
"""name -> the settings to test"""
GAMES_TO_LEARN = {"q-net": 4_000}
"""name -> number of games after which it plays clearly better than at random, 10,000 for others"""

CASES = [
    tiny.case(name, (name, settings), id=",".join([name, *(f"{key}={value}" for key, value in settings.items())]))
    for name in tiny.OURS
    for settings in FORMS.get(name, ({},))
]
LEARNING = [case for case in CASES if "buffer_size" not in case.values[0][1]]
"""cases that learn within these games"""
OWN_LOOPS = [tiny.case(name) for name in sorted(LEARNERS) if name not in tiny.OURS]


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


@pytest.fixture(params=[0.0, 0.25], ids=["", "skip"])
def game(request):
    return Game(skip_chance=request.param)


@pytest.fixture(scope="module", params=CASES)
def make(request):
    return Maker(*request.param)


@pytest.fixture(scope="module")
def learned(make):
    """A trained learner of a game, the same one for all tests, which do not change it."""
    return cache(make.trained)


class Between(Policy):
    """Passes everything between a learner and its training loop."""

    def __init__(self, learner):
        self.learner = learner
        self.game = learner.game
        self.backup = learner.backup
        self.on_policy = learner.on_policy

    def probabilities(self, boards, rng=None):
        return self.learner.probabilities(boards, rng)

    def explore(self, boards, rng):
        return self.learner.explore(boards, rng)

    def update(self, transition):
        return self.learner.update(transition)


class Recorder(Between):
    """Stores transitions and metrics."""

    def __init__(self, learner):
        super().__init__(learner)
        self.seen, self.logged = [], []

    def update(self, transition):
        self.seen.append(copied(transition))
        self.logged.append(self.learner.update(transition))
        return self.logged[-1]


class Backwards(Between):
    """Gives the opponent's reward to the learner, the mistake of a well-known self-play wrapper."""

    def update(self, transition):
        return self.learner.update(transition._replace(reward=-transition.reward))


def copied(transition):
    return Transition(
        *(Boards(*(a.copy() for a in part)) if isinstance(part, Boards) else part.copy() for part in transition)
    )


def stored(learner):
    """The learner's arrays as a file keeps them, which shares nothing with the learner."""
    file = io.BytesIO()
    np.savez(file, **learner.state)
    file.seek(0)
    with np.load(file, allow_pickle=False) as arrays:
        return dict(arrays)


def assert_same(a, b):
    plain.assert_same_arrays(stored(a), stored(b))


def assert_learned(learner, untrained):
    """Against random play it gained a share of what perfect play wins over both seats; random itself gets 0."""
    value, before, perfect = (
        match_outcome(learner.game, policy, "random").value for policy in (learner, untrained, "optimal")
    )
    assert value > max(0.0, before) + (0.5 if str(learner) in FORMS else 0.3) * perfect


def test_attributes(make, game):
    learner = make(game)
    assert isinstance(learner, Policy)
    assert learner.game == game
    assert learner.pure
    assert learner.backup in ("agent", "negamax")
    assert isinstance(learner.on_policy, bool)
    assert str(learner) == make.name


@pytest.mark.parametrize(
    "game",
    [
        *(Game(), Game(skip_chance=0.25), Game(2, 4, 3, 0.1), Game(7, 7, 5)),
        *(Game(4, 4, 4, gravity=True), Game(misere=True), Game(3, 3, 3, 0.25, misere=True, gravity=True)),
    ],
    ids=str,
)
def test_probabilities_are_of_legal_moves_and_sum_to_one(make, learned, game):
    if not {*game.variants} <= {*make.config.variants}:
        return  # it refuses this game, as test_conformance.py tests
    learner = learned(game)
    boards = plain.positions_of_random_play(game, 64)
    frozen = Boards(*(array.copy() for array in boards))
    p = learner.probabilities(frozen)
    assert p.dtype == np.float64
    assert p.shape == (64, game.cells)
    legal = boards.legal(game)
    assert (p >= 0).all()
    assert (p[~legal] == 0).all()
    assert_allclose(p.sum(axis=1), 1, rtol=1e-12)
    actions = learner.explore(frozen, np.random.default_rng(0))
    assert actions.dtype == np.int64
    assert legal[np.arange(64), actions].all()
    if learner.action_values is not None:
        assert_array_equal(np.isnan(learner.action_values(frozen)), ~legal)
    for array, was in zip(frozen, boards, strict=True):
        assert_array_equal(array, was)


def test_probabilities_depend_on_the_position_alone(learned, game):
    learner = learned(game)
    boards = plain.positions_of_random_play(game, 64)
    p = learner.probabilities(boards)
    assert_array_equal(learner.probabilities(boards), p)
    order = np.random.default_rng(1).permutation(64)
    assert_allclose(learner.probabilities(boards.take(order)), p[order], atol=1e-12)
    assert_allclose(learner.probabilities(boards, np.random.default_rng(2)), p, atol=1e-12)


def test_probabilities_do_not_depend_on_colours(learned, game):
    learner = learned(game)
    boards = plain.positions_of_random_play(game, 64)
    turned = Boards(((3 - boards.cells) % 3).astype(np.int8), (1 - boards.mover).astype(np.int8))
    assert_array_equal(learner.probabilities(turned), learner.probabilities(boards))


def test_values_are_of_legal_moves_and_the_best_is_played(learned, game):
    learner = learned(game)
    boards = plain.positions_of_random_play(game, 64)
    if learner.values is not None:
        assert learner.values(boards).shape == (64,)
        assert np.isfinite(learner.values(boards)).all()
    if learner.action_values is not None:
        values = learner.action_values(boards)
        best = values == np.nanmax(values, axis=1, keepdims=True)
        assert_allclose(learner.probabilities(boards), best / best.sum(axis=1, keepdims=True), rtol=1e-12)


@pytest.mark.parametrize("make", [case for case in CASES if case.values[0][0] in FORMS], indirect=True)
def test_exploration_has_probability_epsilon_which_decays(make):
    game = Game()
    config = dataclasses.replace(make.config, symmetries="none")  # with others q-net explores by one image
    learner = dataclasses.replace(config, epsilon=0.5, epsilon_decay=0.0).build(game, np.random.default_rng(0))
    Trainer(learner, "self", 8, batch=4).run()
    boards = plain.positions_of_random_play(game, 2).take(np.ones(40_000, np.int64))
    shares = np.bincount(learner.explore(boards, np.random.default_rng(1)), minlength=9) / len(boards.mover)
    legal = boards.cells[0] == 0
    assert_allclose(shares, (learner.probabilities(boards)[0] + legal / legal.sum()) / 2, atol=0.01)
    shrinking = dataclasses.replace(config, epsilon=1.0, epsilon_decay=0.5).build(game, np.random.default_rng(0))
    shrinking.explore(Boards.start(game), np.random.default_rng(1))
    assert shrinking.epsilon[0] == 0.5


def test_same_seed_same_learner(make, game):
    one, again, other = (make.trained(game, seed=seed) for seed in (5, 5, 6))
    assert_same(one, again)
    with pytest.raises(AssertionError):
        assert_same(one, other)


@pytest.mark.parametrize(
    ("make", "opponent"),
    [
        pytest.param(case.values[0], opponent, id=f"{case.id}-{opponent}", marks=case.marks)
        for case in CASES
        for opponent in ("random", "self")
        if opponent == "self" or case.values[0][1].get("backup") != "negamax"  # which is for self-play
    ],
    indirect=["make"],
)
def test_lockstep_and_pettingzoo_train_the_same_learner(make, game, opponent):
    lockstep, seated = make(game), make(game)
    played = Trainer(lockstep, opponent, 24, batch=1, seed=7).run()
    env = mnk_v0.env(skip_chance=game.skip_chance)
    assert played == train_in(env, seated, opponent, 24, seed=7)
    assert played.games == 24
    assert_same(lockstep, seated)


def test_restored_in_the_middle_of_games_it_continues_exactly(make, game):
    recorder = Recorder(make(game))
    Trainer(recorder, "self", 96, batch=24, seed=3).run()
    half = len(recorder.seen) // 2
    first = make(game)
    boards = plain.positions_of_random_play(game, 64)
    rngs = [np.random.default_rng(4), np.random.default_rng(4)]
    for transition in recorder.seen[:half]:
        first.explore(transition.boards, rngs[0])
        first.update(transition)
    rngs[1].bit_generator.state = rngs[0].bit_generator.state
    second = make(game, seed=1)
    second.state = stored(first)
    assert_same(first, second)
    assert_array_equal(first.probabilities(boards), second.probabilities(boards))
    for transition in recorder.seen[half:]:
        moves = [one.explore(transition.boards, rng) for one, rng in zip((first, second), rngs, strict=True)]
        assert_array_equal(*moves)
        logged = [one.update(transition) for one in (first, second)]
        assert logged[0] == logged[1]
    assert_same(first, second)
    assert_array_equal(first.probabilities(boards), second.probabilities(boards))


def test_arrays_have_plain_dtypes(learned, game):
    arrays = learned(game).state
    assert arrays
    for name, array in arrays.items():
        assert isinstance(name, str)
        assert isinstance(array, np.ndarray)
        assert array.dtype.kind in "biufU", name


def test_an_untrained_learner_can_be_stored(make, game):
    one, other = make(game), make(game, seed=1)
    other.state = stored(one)
    assert_same(one, other)


def assert_refused(learner, arrays):
    with pytest.raises(ValueError, match=r"\w") as caught:
        learner.state = arrays
    message = str(caught.value)
    assert "\n" not in message
    assert len(message.split()) > 5


def test_arrays_of_another_game_are_refused(make):
    arrays = stored(make.trained(Game(4, 4, 3), games=8))
    assert_refused(make(Game()), arrays)


@pytest.mark.parametrize("damage", ["missing", "one dimension more", "a single number", "dtype"])
def test_damaged_arrays_are_refused(make, damage):
    arrays = stored(make.trained(Game(), games=8))
    learner = make(Game())
    assert_refused(learner, {})
    for name, array in arrays.items():
        broken = dict(arrays)
        if damage == "missing":
            del broken[name]
        elif damage == "one dimension more":
            broken[name] = array[None]
        elif damage == "a single number":
            broken[name] = np.zeros((2, 3) if array.ndim == 0 else (), array.dtype)
        else:
            broken[name] = array.astype(np.complex64) if array.dtype.kind != "U" else np.zeros(array.shape)
        assert_refused(learner, broken)
    learner.state = arrays  # refused arrays changed nothing
    again = stored(learner)
    plain.assert_same_arrays(arrays, again)


def test_evaluation_changes_nothing(make, game):
    learner, other = make.trained(game), make.trained(game)
    boards = plain.positions_of_random_play(game, 64)
    learner.probabilities(boards)
    act(learner, boards, np.random.default_rng(0))
    for name in ("values", "action_values"):
        if getattr(learner, name) is not None:
            getattr(learner, name)(boards)
    exploitability(game, learner)
    assert_same(learner, other)
    for one in (learner, other):  # and nothing in what it does next
        Trainer(one, "self", 8, batch=4, seed=1).run()
    assert_same(learner, other)


def test_metrics_are_finite_floats(make, game):
    recorder = Recorder(make(game))
    Trainer(recorder, "self", 16, batch=8).run()
    assert recorder.logged
    for logged in recorder.logged:
        assert all(type(name) is str and type(value) is float for name, value in logged.items())
        assert np.isfinite(list(logged.values())).all()


def training_opponent(learner):
    return "self" if learner.backup == "negamax" else "random"


@pytest.mark.parametrize("make", LEARNING, indirect=True)
def test_training_beats_random_play(make, game):
    learner = make(game)
    Trainer(learner, training_opponent(learner), GAMES_TO_LEARN.get(make.name, 10_000), batch=32).run()
    assert_learned(learner, make(game))


@pytest.mark.parametrize("make", LEARNING, indirect=True)
def test_training_on_the_opponents_reward_is_noticed(make):
    game = Game(skip_chance=0.25)
    learner = make(game)
    Trainer(Backwards(learner), training_opponent(learner), GAMES_TO_LEARN.get(make.name, 10_000), batch=32).run()
    with pytest.raises(AssertionError):
        assert_learned(learner, make(game))
    assert match_outcome(game, learner, "random").value < -0.2  # it learned to lose


# ---------------------------------------------------------------------------------------------------------------------
# Learners with their own loops; tests/test_conformance.py tests their policies


def load_learned(run):
    return load_checkpoint(run)["learner"]


@pytest.mark.parametrize("name", OWN_LOOPS)
def test_same_seed_same_run(name, tiny_run, tmp_path):
    first = load_learned(tiny_run(name))
    plain.assert_same_arrays(first, load_learned(tiny.train_run(name, tmp_path / "again")))
    other = load_learned(tiny.train_run(name, tmp_path / "other", "--seed=1"))
    assert first.keys() == other.keys()
    assert any((array != other[name]).any() for name, array in first.items())
    for array in first.values():
        assert array.dtype.kind in "biufU"


@pytest.mark.parametrize("name", OWN_LOOPS)
def test_logged_games_ascend_and_numbers_are_finite(name, tiny_run):
    rows = [json.loads(line) for line in (tiny_run(name) / "metrics.jsonl").read_text().splitlines()]
    games = [row["games"] for row in rows]
    assert games == sorted(games)
    assert rows[-1]["games"] == rows[-1]["wins"] + rows[-1]["draws"] + rows[-1]["losses"] > 0
    assert all(np.isfinite(value) for row in rows for value in row.values() if value is not None)


@pytest.mark.parametrize("name", [name for name, needed in tiny.PACKAGES.items() if "tensorflow" in needed])
def test_missing_tensorflow_is_reported(name, monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    with pytest.raises(SystemExit):
        tiny.train_run(name, tmp_path / "run")
    assert f"{name} needs TensorFlow" in " ".join(capsys.readouterr().err.split())


def test_importing_and_configuring_imports_no_large_library(fresh):
    lines = (
        "import sys",
        "from learners import LEARNERS",
        "from ttt_envs.agents.specs import load_object",
        "for path in LEARNERS.values(): load_object(path)()",
        "print(sorted({'tensorflow', 'torch', 'stable_baselines3', 'sb3_contrib'} & set(sys.modules)))",
    )
    assert fresh(*lines).strip() == "[]"
