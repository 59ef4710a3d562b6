"""The command train.py: its files, its options, and tools that write pages."""

import json
import shutil
import subprocess
from unittest import mock

import ground_truth
import numpy as np
import pytest
import tiny
import warm_up
from commands import rows_of
from processes import ROOT

from baselines.exact import solve
from learners.checkpoint import RunPolicy, load_checkpoint, save_arrays
from ttt_apps import train, versions
from ttt_apps.train_options import batch_note, default_folder, folder_name, parse_options
from ttt_envs import Game, make_policy
from ttt_envs.core.jit import kernel_folder
from ttt_eval import exact
from ttt_eval.run_files import EVENTS, METRICS


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "first"
    train.main(
        ["--games", "3000", "--skip-chance", "0.1", "--epsilon", "0.2", "--log-every", "500", "--out", str(folder)]
    )
    return folder


def test_training_writes_a_run(run):
    config = json.loads((run / "config.json").read_text())
    assert Game.from_dict(config["game"]) == Game(skip_chance=0.1)
    assert config["settings"]["epsilon"] == 0.2
    assert {"python", "numpy", "numba", "ttt_envs"} <= config["versions"].keys()
    last = rows_of(run / "metrics.jsonl")[-1]
    assert last["games"] == last["wins"] + last["draws"] + last["losses"] == 3000
    cost = json.loads((run / "cost.json").read_text())
    assert list(cost["phases"]) == ["set-up", "compiling", "training", "evaluation"]
    assert not list(run.glob("*.tmp"))
    with pytest.raises(ValueError, match=r"learned 3 x 3.*, and the game here is 4 x 4, 3 to win"):
        RunPolicy(Game(4, 4), str(run))


@pytest.mark.skipif(shutil.which("git") is None, reason="git")
@pytest.mark.parametrize(("folder", "own"), [(".", True), (".venv/lib/site-packages", False)])
def test_the_revision_is_that_of_its_own_checkout(folder, own, tmp_path, monkeypatch):
    copy = tmp_path / folder / "ttt_apps" / "versions.py"
    copy.parent.mkdir(parents=True)
    git = ("git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x")
    for words in (("init", "-q"), ("commit", "-q", "--allow-empty", "-m", "x")):
        subprocess.run([*git, *words], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    monkeypatch.setattr(versions, "__file__", str(copy))
    assert versions.revision() == (head if own else None)


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(path.read_bytes()[:100]),
        lambda path: path.unlink(),
        lambda path: save_arrays(path, {"other": np.zeros(3)}),
        lambda path: path.with_name("config.json").write_text('{"learner": "q"}'),
        lambda path: path.with_name("config.json").write_text("[]"),
    ],
    ids=["truncated", "missing", "of another learner", "config", "no config"],
)
def test_damaged_runs_are_refused(damage, run, tmp_path):
    shutil.copytree(run, tmp_path / "copy")
    damage(tmp_path / "copy" / "checkpoint.npz")
    with pytest.raises(ValueError, match=r"cannot be read|q-learning needs |there is no learner 'q'"):
        RunPolicy(Game(skip_chance=0.1), str(tmp_path / "copy"))


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ([], "q-learning-3x3-3-random-seed0"),
        (["--opponent", "self"], "q-learning-3x3-3-self-seed0"),
        (["--epsilon", "0.2", "--seed", "3"], "q-learning-3x3-3-random-epsilon0.2-seed3"),
        (["--games", "70", "--skip-chance", "0.25"], "q-learning-3x3-3-skip0.25-random-games70-seed0"),
        (["--opponent", "pool:every=50,size=2"], "q-learning-3x3-3-pool_every_50_size_2-seed0"),
        (["--learner", "naive-mc", "--seat", "first"], "naive-mc-3x3-3-random-seatfirst-seed0"),
    ],
)
def test_default_folder_names_settings(words, name):
    assert str(default_folder(*parse_options(words, "train.py"))) == f"runs/{name}"


def test_folder_names_are_within_a_folder_and_cut_if_long():
    assert folder_name([".."]) == "_."
    opponents = [f"expectiminimax:depth=2,leaf=(run:{'long' * 40}{depth})" for depth in (3, 4)]
    names = [default_folder(*parse_options(["--opponent", opponent], "train.py")).name for opponent in opponents]
    assert names[0] != names[1]
    assert max(map(len, names)) < 130


@pytest.mark.parametrize(
    ("words", "noted"), [(["--games=2000"], True), (["--games=2049"], False), (["--games=100", "--batch=100"], False)]
)
def test_a_training_in_one_batch_is_noted(words, noted):
    """Its games do not learn from each other: no setting of its exploration makes a difference."""
    assert bool(batch_note(*parse_options(["--learner=q-learning", *words], "train.py"))) == noted


def test_exact_measurements_do_not_change_training(tmp_path):
    options = ["--games", "900", "--log-every", "200", "--batch", "32", "--skip-chance", "0.25", "--no-report", "--out"]
    train.main([*options, str(tmp_path / "plain"), "--exact-every", "0"])
    train.main([*options, str(tmp_path / "measured"), "--exact-every", "400"])
    plain, measured = (rows_of(tmp_path / name / "metrics.jsonl") for name in ("plain", "measured"))
    keys = {"exploitability", "regret", "exact_win", "exact_draw", "exact_loss"}
    assert [keys <= row.keys() for row in measured] == [False, True, False, True, True]  # 200, 400, ..., and the end
    for row, other in zip(plain, measured, strict=True):
        times = {"games_per_s": 0, "cpu_s": 0}
        assert {**row, **times} == {**{name: other[name] for name in row}, **times}
    first, second = (load_checkpoint(tmp_path / name)["learner"] for name in ("plain", "measured"))
    assert {name: array.tobytes() for name, array in first.items()} == {
        name: array.tobytes() for name, array in second.items()
    }
    game, last = Game(skip_chance=0.25), measured[-1]
    learner = make_policy(f"run:{tmp_path / 'measured'}", game)
    assert last["exploitability"] == exact.exploitability(game, learner)
    assert last["regret"] == exact.regret(game, learner)
    assert last["exact_win"] == exact.match_outcome(game, learner, "random").win


@pytest.mark.parametrize("seat", ["first", "second"])
def test_learner_of_one_seat_is_measured_in_that_seat(seat, tmp_path):
    options = ["--games", "200", "--log-every", "200", "--exact-every", "200", "--seat", seat]
    train.main([*options, "--out", str(tmp_path)])
    players = [f"run:{tmp_path}", "random"][:: 1 if seat == "first" else -1]
    result = exact.outcome(Game(), *players)
    assert rows_of(tmp_path / "metrics.jsonl")[-1]["exact_win"] == (result.win if seat == "first" else result.loss)


def test_tensorboard_has_the_measurements(tmp_path):
    loader = pytest.importorskip("tensorboard.backend.event_processing.event_file_loader")
    run = tiny.train_run("q-learning", tmp_path)
    train.main(["--resume", str(run), "--games", "300"])
    events = list(loader.LegacyEventFileLoader(str(run / EVENTS)).Load())
    scalars = {event.step: {value.tag: value.simple_value for value in event.summary.value} for event in events[1:]}
    assert list(scalars) == [row["games"] for row in rows_of(run / METRICS)]
    before, last = rows_of(run / METRICS)[-2:]
    rate = (last["wins"] - before["wins"]) / (last["games"] - before["games"])
    assert scalars[last["games"]]["rate/wins"] == pytest.approx(rate)
    assert {"td_error", "epsilon", "games_per_s"} <= scalars[last["games"]].keys()


# ---------------------------------------------------------------------------------------------------------------------
# Tools


def compute_ground_truth(folder, capsys, *words):
    """Lines of the page and of the CSV file that the tool makes."""
    ground_truth.main([*words, "--out", str(folder / "results"), "--data", str(folder / "data.csv")])
    return capsys.readouterr().out.splitlines(), (folder / "data.csv").read_text().splitlines()


def test_ground_truth_is_the_output_of_its_command(tmp_path, capsys):
    page, data = ((ROOT / "docs" / f"ground-truth.{kind}").read_text().splitlines() for kind in ("md", "csv"))
    words = ("--largest", "9", "--no-proofs")
    made = compute_ground_truth(tmp_path, capsys, *words)
    assert [len(lines) > 25 for lines in made] == [True, False]
    assert set(made[0]) <= set(page)
    assert set(made[1]) <= set(data)
    assert len(made[1]) == 1 + 4 * 6
    with mock.patch("ground_truth.solve", side_effect=AssertionError("it is stored")):
        assert compute_ground_truth(tmp_path, capsys, *words) == made


def test_facts_of_a_board_solved_by_layers(tmp_path):
    """1 x 17, two to win, is small enough for a test; what is on its page is that of `solve`."""
    game = Game(1, 17, 2, 0.25)
    facts = ground_truth.measure_unit(tmp_path, {"solve": game.to_dict()})
    assert facts["value"] == solve(game, cache=False).value
    assert facts["optimal"] == list(range(1, 16))
    win, draw, loss = facts["outcome"]
    assert (win + draw + loss, win - loss) == pytest.approx((1, facts["value"]), abs=1e-6)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_ground_truth_up_to_16_cells_is_the_output_of_its_command(tmp_path, capsys):
    page, data = compute_ground_truth(tmp_path, capsys, "--largest", "16", "--jobs", "2")
    assert set(page) <= set((ROOT / "docs" / "ground-truth.md").read_text().splitlines())
    assert set(data) <= set((ROOT / "docs" / "ground-truth.csv").read_text().splitlines())


@pytest.mark.needs("fastapi")
def test_warm_up_names_the_cache(capsys):
    warm_up.main()
    assert str(kernel_folder()) in capsys.readouterr().out
