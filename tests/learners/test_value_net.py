"""The value net: what it learns from, that it learns it, how it plays, and that no work is lost."""

import dataclasses
import json

import numpy as np
import plain
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from learners import imitation
from learners.base import one_ply_ahead
from learners.checkpoint import load_checkpoint
from learners.imitation import Teacher, TrainingExamples, play_blocks
from learners.mlp import TFNet, dense_layers, forward, layer_shapes, planes
from learners.value_net import PRESETS, ValueNet, ValueNetConfig, hold_out
from ttt_apps import train
from ttt_envs import Boards, Game, make_policy
from ttt_envs.game.symmetry import symmetries
from ttt_eval.exact.dynamic_programming import match_outcome

pytestmark = pytest.mark.xdist_group("large")

SKIP = Game(skip_chance=0.25)
FAST = {"teacher": "expectiminimax:depth=2", "jobs": 1}


@pytest.fixture(scope="module")
def tf():
    return pytest.importorskip("tensorflow")


def games_of(config, game=SKIP, numbers=range(6), seed=0):
    """The examples of the teacher's games with these numbers."""
    blocks = play_blocks(game, config.teacher, config.epsilon, seed, numbers, config.jobs)
    return TrainingExamples.concatenate(list(blocks))


def training(game=SKIP, games=6, seed=0, **settings):
    return ValueNetConfig(**{**FAST, **settings}).training(game, games, batch=1, seed=seed, opponent="teacher")


# ---------------------------------------------------------------------------------------------------------------------
# The teacher's games


def test_targets_are_the_teachers_values():
    obs, value, _, results = games_of(ValueNetConfig(**FAST))
    assert len(results) == 6
    assert set(results) <= {-1.0, 0.0, 1.0}
    search = make_policy(FAST["teacher"], SKIP)
    for own_first, expected in zip(obs, value, strict=True):
        position = Boards(own_first[None], np.zeros(1, np.int8)).position(0)
        assert search.analyse(position).value == pytest.approx(expected)


def test_games_of_a_perfect_teacher_are_draws():
    """Without skips, perfect play draws every game, and every position has value 0."""
    _, value, _, results = games_of(ValueNetConfig(teacher="optimal", jobs=1), game=Game())
    assert not value.any()
    assert not results.any()


def test_random_moves_lead_to_other_values():
    _, value, _, _ = games_of(ValueNetConfig(teacher="optimal", epsilon=0.5, jobs=1), game=Game())
    assert set(value) == {-1.0, 0.0, 1.0}


def test_a_game_depends_on_its_number_and_the_seed():
    config = ValueNetConfig(teacher="expectiminimax:depth=2,width=2", jobs=1)
    few, rest, many = (games_of(config, numbers=range(*ends)) for ends in ((0, 5), (5, 14), (0, 14)))
    plain.assert_same_arrays(TrainingExamples.concatenate([few, rest])._asdict(), many._asdict())
    other = games_of(config, numbers=range(5), seed=1)
    assert len(other[0]) != len(few[0]) or (other[0] != few[0]).any()


def test_games_do_not_depend_on_processes(monkeypatch):
    config = ValueNetConfig(teacher="expectiminimax:depth=2,width=2", jobs=1)
    alone = games_of(config, numbers=range(20))
    monkeypatch.setattr(imitation, "MIN_SECONDS_FOR_WORKERS", 0.0)
    together = games_of(dataclasses.replace(config, jobs=2), numbers=range(20))
    plain.assert_same_arrays(alone._asdict(), together._asdict())


def test_short_work_starts_no_processes(monkeypatch):
    def never(*work):
        raise AssertionError("processes were started")

    monkeypatch.setattr(imitation, "map_blocks", never)
    config = ValueNetConfig(teacher="expectiminimax:depth=2,width=2", jobs=2)
    assert len(games_of(config, numbers=range(8)).results) == 8


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"jobs": 10**30}, r"^jobs=10{30} is no number of processes"),
        ({"jobs": 0}, "^jobs=0 is no number of processes"),
        ({"teacher": "random"}, "teacher=random has no action values: choose a search"),
        ({"games": 0}, "games=0 gives no training data"),
    ],
)
def test_invalid_trainings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        training(**settings)


# ---------------------------------------------------------------------------------------------------------------------
# Learning


def trained(games=25, **settings):
    lines, fitted = [], training(games=games, **settings)
    fitted.run(log=lambda games, measured: lines.append(measured))
    return fitted.learner, lines


@pytest.mark.parametrize("at", [1, 3, 5])
def test_a_restored_training_ends_with_the_same_net(tf, at):
    """In the games, in the first iterations, and in later ones; also with more games than before."""
    whole, part = training(games=10, iterations=20), training(games=10, iterations=20)
    whole.run()
    for _ in range(at):
        part.step()
    resumed, longer = training(games=10, iterations=20), training(games=14, iterations=20)
    for begun in (resumed, longer):
        begun.learner.state = part.learner.state
        begun.state = part.state
        begun.run()
    plain.assert_same_arrays(resumed.learner.state, whole.learner.state)
    fresh = training(games=14, iterations=20)
    fresh.run()
    plain.assert_same_arrays(longer.learner.state, fresh.learner.state)
    assert longer.done == fresh.done


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_beats_random(tf, preset):
    """As in the report: 25 games of the search, Adam at 0.01."""
    net, lines = trained(preset=preset, teacher="expectiminimax:depth=3,width=15")
    result = match_outcome(SKIP, net, "random")
    assert result.win > result.loss + 0.1
    assert lines[-1]["loss"] < lines[0]["loss"] / 5


def test_presets_are_those_of_the_report():
    weights = {
        name: [array.shape for key, array in state_of(ValueNetConfig(preset=name)).items() if key.endswith("weights")]
        for name in PRESETS
    }
    assert weights == {
        "40-20": [(27, 40), (40, 20), (20, 1)],
        "20": [(27, 20), (20, 1)],
        "30-10": [(27, 30), (30, 10), (10, 1)],
        "10-20": [(27, 10), (10, 20), (20, 1)],
    }
    activations = [("linear", "sigmoid"), ("sigmoid",), ("tanh", "tanh"), ("sigmoid", "sigmoid")]
    assert [layers[1] for layers in PRESETS.values()] == activations


def test_training_on_perfect_values_plays_nearly_perfectly(tf):
    """A large net with enough games plays as its teacher."""
    net, lines = trained(
        teacher="optimal",
        epsilon=0.8,
        games=300,
        hidden=(64,),
        activations=("relu",),
        iterations=600,
        learning_rate=0.02,
        symmetries="all",
        held_out=0.2,
        keep="best",
    )
    assert match_outcome(SKIP, net, "random").value > 0.9 * match_outcome(SKIP, "optimal", "random").value
    assert lines[-1]["held_out_loss"] < 0.2


@pytest.mark.parametrize("share", [0.2, 0.5])
def test_positions_held_out_are_of_other_games_and_classes(share):
    examples = games_of(ValueNetConfig(**FAST), numbers=range(10))
    learned, held = hold_out(SKIP, examples, share, np.random.default_rng(0))
    assert len(held)
    assert len(set(examples.game[learned])) == round(10 * (1 - share))
    assert not set(examples.game[learned]) & set(examples.game[held])
    classes = [
        {b.tobytes() for b in examples.obs[rows][:, symmetries(SKIP)].reshape(-1, 9)} for rows in (learned, held)
    ]
    assert not classes[0] & classes[1]
    both = np.sort(np.concatenate([learned, held]))
    dropped = np.setdiff1d(np.arange(len(examples.value)), both)
    assert all(examples.obs[row].tobytes() in classes[0] for row in dropped)


def test_games_are_held_out_until_a_new_position_is_found():
    """Three games of which two are the same, and a single game, of which nothing can be held out."""
    obs = np.array([[0, 0, 0], [1, 0, 0], [0, 0, 0], [1, 0, 0], [0, 0, 0], [0, 1, 0]], np.int8)
    examples = TrainingExamples(obs, np.zeros(6), np.repeat(np.arange(3), 2), np.zeros(3))
    for seed in range(5):
        _, held = hold_out(Game(1, 3, 3), examples, 0.1, np.random.default_rng(seed))
        assert len(held)
    single = TrainingExamples(obs[:2], np.zeros(2), np.zeros(2, np.int64), np.zeros(1))
    learned, held = hold_out(Game(1, 3, 3), single, 0.5, np.random.default_rng(0))
    assert (len(learned), len(held)) == (2, 0)


def test_the_log_has_both_errors(tf):
    _, lines = trained(games=4, iterations=25)
    assert [line["iterations"] for line in lines] == [0, 10, 20, 25]
    assert all({"loss", "held_out_loss", "positions", "wins"} <= line.keys() for line in lines)
    _, lines = trained(games=4, iterations=3, held_out=0.0)
    assert "held_out_loss" not in lines[-1]


def test_the_best_of_no_validation_errors_is_refused(tf):
    with pytest.raises(ValueError, match="choose more games than 1"):
        trained(games=1, keep="best")


def test_divergence_is_reported(tf):
    with pytest.raises(
        ValueError, match=r"value-net has diverged after \d+ updates: choose a learning_rate below 1e\+30"
    ):
        trained(games=2, iterations=20, learning_rate=1e30, activations=("relu", "relu"))


# ---------------------------------------------------------------------------------------------------------------------
# Playing


def state_of(config, game=Game()):  # noqa: B008  # frozen
    return config.build(game, np.random.default_rng(0)).state


def net_of(game, bound=0.75, seed=0, symmetries="none"):
    """A net with random weights."""
    rng = np.random.default_rng(seed)
    config = ValueNetConfig(hidden=(8,), activations=("tanh",), symmetries=symmetries)
    arrays = {name: rng.normal(size=array.shape).astype(np.float32) for name, array in state_of(config, game).items()}
    return ValueNet(config, game, arrays | {"scale": np.array(4, np.float32), "bound": np.array(bound, np.float32)})


@pytest.mark.parametrize("game", [Game(), SKIP, Game(3, 5, 3, 0.1), Game(7, 7, 5, 0.5)], ids=str)
def test_moves_are_valued_one_ply_ahead_by_bounded_values(game):
    net = net_of(game, bound=0.125)
    assert net.action_values is not None
    boards = plain.positions_of_random_play(game, 40)
    assert abs(net.values(boards)).max() == 0.125
    found = net.action_values(boards)
    assert_array_equal(found, one_ply_ahead(game, boards, net.values))
    assert_array_equal(net.probabilities(boards) > 0, found == np.nanmax(found, axis=1, keepdims=True))


def test_symmetric_positions_share_values():
    game = SKIP
    plain_net, mean = net_of(game), net_of(game, symmetries="all")
    boards = plain.positions_of_random_play(game, 20)
    turned = Boards(np.rot90(boards.cells.reshape(-1, 3, 3), axes=(1, 2)).reshape(-1, 9).copy(), boards.mover)
    assert_allclose(mean.values(boards), mean.values(turned))
    assert (abs(plain_net.values(boards) - plain_net.values(turned)) > 1e-6).any()


def test_training_and_play_compute_the_same(tf):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(5, 6)).astype(np.float32)
    for hidden, activations in [*PRESETS.values(), ((4,), ("relu",))]:
        shapes = layer_shapes((6, *hidden, 1))
        weights = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
        found = forward(x, dense_layers(weights, (*activations, "linear")))
        assert_allclose(found, TFNet("a test", weights, (*activations, "linear"), 0.1).outputs(x), rtol=1e-4, atol=1e-4)
        layers = [tf.keras.layers.Dense(n, a) for n, a in zip((*hidden, 1), (*activations, "linear"), strict=True)]
        net = tf.keras.Sequential([tf.keras.Input((6,)), *layers])
        net.set_weights(list(weights.values()))
        assert_allclose(found, net(x), rtol=1e-4, atol=1e-4)


def test_planes_are_own_other_and_empty():
    assert planes(np.array([[0, 1, 2]], np.int8)).tolist() == [[0, 1, 0, 0, 0, 1, 1, 0, 0]]


def test_teachers_have_their_scales():
    search = Teacher.from_spec("expectiminimax:depth=3", Game())
    assert (search.scale, search.bound) == (4.0, 0.75)
    exact = Teacher.from_spec("optimal", Game())
    assert exact.scale == 1.0
    assert 0.99 < exact.bound < 1


# ---------------------------------------------------------------------------------------------------------------------
# Settings, files and the command line


def test_a_run_is_trained_played_and_extended(tf, tmp_path, capsys):
    run = tmp_path / "run"
    arguments = ["--learner", "value-net", "--skip-chance", "0.25", "--teacher", FAST["teacher"], "--jobs", "1"]
    train.main([*arguments, "--games", "6", "--iterations", "50", "--preset", "20", "--out", str(run)])
    assert "value-net made 6 games in 3 x 3" in " ".join(capsys.readouterr().out.split())
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert lines[-1]["iterations"] == 50
    boards = plain.positions_of_random_play(SKIP, 20)
    policy = make_policy(f"run:{run}", SKIP)
    assert_array_equal(np.isnan(policy.action_values(boards)), boards.cells != 0)
    for spec in (f"expectiminimax:depth=2,leaf=(run:{run})", f"mcts:simulations=20,rollout=(run:{run})"):
        served = make_policy(spec, SKIP)
        assert_allclose(served.probabilities(boards, np.random.default_rng(0)).sum(axis=1), 1)
    model = load_checkpoint(run)["learner"]
    train.main(["--resume", str(run)])
    plain.assert_same_arrays(load_checkpoint(run)["learner"], model)
    train.main(["--resume", str(run), "--games", "9"])
    assert json.loads((run / "config.json").read_text())["games"] == 9
    fresh = tmp_path / "fresh"
    train.main([*arguments, "--games", "9", "--iterations", "50", "--preset", "20", "--out", str(fresh)])
    plain.assert_same_arrays(load_checkpoint(fresh)["learner"], load_checkpoint(run)["learner"])


def test_opponents_are_refused():
    with pytest.raises(ValueError, match="value-net has no opponent random"):
        ValueNetConfig().check_opponent("random", Game())


def test_weights_of_another_net_are_refused():
    net, other = (
        config.build(Game(), np.random.default_rng(0)) for config in (ValueNetConfig(), ValueNetConfig(hidden=(64, 20)))
    )
    with pytest.raises(ValueError, match=r"value-net needs 0.weights as float32\[27, 64\]"):
        other.state = net.state
