"""The command train.py: its files, its options, and tools that write pages."""

import shutil
import subprocess
from unittest import mock

import ground_truth
import pytest
import tiny
from commands import words_of
from json_files import read_json, rows_of
from plain import assert_same_arrays
from processes import ROOT
from small_games import SKIP_GAME

from learners.checkpoint import RunPolicy, load_checkpoint
from ttt_apps.training import command as train
from ttt_apps.training.options import default_folder, folder_name, parse_options
from ttt_envs import Game, make_policy
from ttt_eval import exact
from ttt_eval.runs.run_files import EVENTS, METRICS
from ttt_eval.store import versions
from ttt_eval.store.result_store import RESULT_VERSION

pytestmark = pytest.mark.more


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "first"
    train.main(
        words_of("--games=3000 --skip-chance=0.1 --epsilon=0.2 --log-every=500 --out", folder)
    )
    return folder


def test_training_writes_a_run(run):
    config = read_json(run / "config.json")
    assert Game.from_dict(config["game"]) == Game(skip_chance=0.1)
    assert config["settings"]["epsilon"] == 0.2
    assert {"python", "numpy", "numba", "ttt_envs"} <= config["versions"].keys()
    last = rows_of(run / "metrics.jsonl")[-1]
    assert last["games"] == last["wins"] + last["draws"] + last["losses"] == 3000
    assert [*read_json(run / "cost.json")["phases"]] == [
        "set-up",
        "compiling",
        "training",
        "evaluation",
    ]
    assert not list(run.glob("*.tmp"))
    with pytest.raises(ValueError, match=r"learned 3 x 3.*, and the game here is 4 x 4, 3 to win"):
        RunPolicy(Game(4, 4), str(run))


@pytest.mark.skipif(shutil.which("git") is None, reason="git")
def test_the_revision_is_that_of_its_own_checkout(tmp_path, monkeypatch):
    installed = tmp_path / ".venv/lib/site-packages/ttt_eval/store/versions.py"
    installed.parent.mkdir(parents=True)
    git = ("git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x")
    for words in (("init", "-q"), ("commit", "-q", "--allow-empty", "-m", "x")):
        subprocess.run([*git, *words], check=True)
    head = subprocess.run(
        [*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True
    ).stdout.strip()
    for path, revision in (
        (tmp_path / "ttt_eval" / "store" / "versions.py", head),
        (installed, None),
    ):
        monkeypatch.setattr(versions, "__file__", str(path))
        assert versions.revision() == revision


def test_results_name_the_version_of_the_code_that_determines_them():
    assert versions.make_provenance() == {**versions.versions(), "code": str(RESULT_VERSION)}


def test_folder_names_have_the_settings_are_within_a_folder_and_cut_if_long():
    def name_of(*words):
        return default_folder(*parse_options(list(words), "train.py")).name

    name = name_of("--epsilon=0.2", "--skip-chance=0.25", "--opponent=pool:size=2")
    assert name == "q-learning-3x3-3-skip0.25-pool_size_2-epsilon0.2-seed0"
    assert folder_name([".."]) == "_."
    names = [
        name_of(f"--opponent=expectiminimax:depth=2,leaf=(run:{'long' * 40}{depth})")
        for depth in (3, 4)
    ]
    assert names[0] != names[1]
    assert max(map(len, names)) < 130


def test_self_play_has_its_own_number_of_games():
    options, settings = parse_options(["--opponent=self"], "train.py")
    assert options.games == settings.self_play_games != settings.games


def test_exact_measurements_do_not_change_training(tmp_path, train_py):
    line = "--games 900 --log-every 200 --batch 32 --skip-chance 0.25 --no-report"
    train_py(line, "--exact-every 0 --out", tmp_path / "plain")
    train_py(line, "--exact-every 400 --out", tmp_path / "measured")
    plain, measured = (rows_of(tmp_path / name / "metrics.jsonl") for name in ("plain", "measured"))
    keys = {"exploitability", "regret", "mean_loss", "exact_win", "exact_draw", "exact_loss"}
    assert [keys <= row.keys() for row in measured] == [
        False,
        True,
        False,
        True,
        True,
    ]  # 200, 400, ..., and the end
    for row, other in zip(plain, measured, strict=True):
        times = {"games_per_s": 0, "cpu_s": 0}
        assert {**row, **times} == {**{name: other[name] for name in row}, **times}
    assert_same_arrays(
        *(load_checkpoint(tmp_path / name)["learner"] for name in ("plain", "measured"))
    )
    game = SKIP_GAME
    last = measured[-1]
    learner = make_policy(f"run:{tmp_path / 'measured'}", game)
    assert last["exploitability"] == exact.exploitability(game, learner)
    assert last["regret"] == exact.regret(game, learner)
    assert last["mean_loss"] == exact.mean_loss(game, learner)
    assert last["exact_win"] == exact.match_outcome(game, learner, "random").win


def test_a_training_says_what_its_games_tell(tmp_path, train_py):
    out = train_py("--games=20 --size=4 --phantom=classic --out", tmp_path)
    at_once = "all 20 games are played at the same time, because the batch of q-learning is 2,048"
    assert at_once in train_py.err
    assert "while learning it won" in out
    assert "Its strength cannot be computed: the board is too large" in out
    train_py("--learner=ppo --games=20 --rollout=64 --no-report --out", tmp_path / "ppo")
    assert "20 games are less than 16 rollouts of 64 positions" in train_py.err


def test_learner_of_one_seat_is_measured_in_that_seat(tmp_path, train_py):
    line = "--games=200 --log-every=200 --exact-every=200 --seat=second --no-report --out"
    train_py(line, tmp_path)
    expected = exact.outcome(Game(), "random", f"run:{tmp_path}").loss
    assert rows_of(tmp_path / "metrics.jsonl")[-1]["exact_win"] == expected


def test_tensorboard_has_the_measurements(tmp_path, train_py):
    loader = pytest.importorskip("tensorboard.backend.event_processing.event_file_loader")
    run = tiny.train_run("q-learning", tmp_path)
    train_py("resume", run, "--games 300")
    events = list(loader.LegacyEventFileLoader(str(run / EVENTS)).Load())
    scalars = {
        event.step: {value.tag: value.simple_value for value in event.summary.value}
        for event in events[1:]
    }
    assert list(scalars) == [row["games"] for row in rows_of(run / METRICS)]
    before, last = rows_of(run / METRICS)[-2:]
    rate = (last["wins"] - before["wins"]) / (last["games"] - before["games"])
    assert scalars[last["games"]]["rate/wins"] == pytest.approx(rate)
    assert {"td_error", "epsilon", "games_per_s"} <= scalars[last["games"]].keys()


# --------------------------------------------------------------------------------------------------
# Tools


def test_ground_truth_is_the_output_of_its_command(tmp_path, capsys):
    for proved in (True, False):
        with mock.patch(
            "ground_truth.solve", ground_truth.solve if proved else None
        ):  # the second time it is stored
            ground_truth.main(
                largest=9, no_proofs=True, out=tmp_path / "results", data=tmp_path / "data.csv"
            )
        for text, kind in (
            (capsys.readouterr().out, "md"),
            ((tmp_path / "data.csv").read_text(), "csv"),
        ):
            assert {*text.splitlines()} <= {
                *(ROOT / "docs" / f"ground-truth.{kind}").read_text().splitlines()
            }
            assert (
                len(text.splitlines()) == 1 + 4 * 6
                if kind == "csv"
                else len(text.splitlines()) > 25
            )
