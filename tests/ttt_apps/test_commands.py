"""The commands on the real thing: what they write, and what they say to nonsense."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from learners.checkpoint import load_arrays, load_policy, save_arrays
from ttt_apps import cli, evaluate, train
from ttt_envs import Boards, Game, make_policy
from ttt_envs.files import write_whole

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "first"
    options = ["--games", "3000", "--skip-chance", "0.1", "--epsilon", "0.2", "--log-every", "500"]
    train.main([*options, "--out", str(folder)])
    return folder


def sentence(capsys, command, arguments):
    """What a command says when it refuses, with exit code 2 and no traceback."""
    with pytest.raises(SystemExit) as end:
        command(arguments)
    assert end.value.code == 2
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    return " ".join((said.err + said.out).split())


def test_training_writes_a_run(run):
    config = json.loads((run / "config.json").read_text())
    assert Game.from_dict(config["game"]) == Game(skip_chance=0.1)
    assert config["settings"]["epsilon"] == 0.2
    assert {"python", "numpy", "numba", "ttt_envs"} <= config["versions"].keys()
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert rows[-1]["games"] == 3000
    assert rows[-1]["wins"] + rows[-1]["draws"] + rows[-1]["losses"] == 3000
    cost = json.loads((run / "cost.json").read_text())
    assert list(cost["phases"]) == ["set-up", "training"]
    assert not list(run.glob("*.tmp"))


def test_a_run_is_a_policy(run):
    policy = make_policy(f"run:{run}", Game(skip_chance=0.1))
    assert str(policy) == f"run:{run}"
    assert policy.probabilities(Boards.start(policy.learner.game, 2)).sum() == pytest.approx(2)
    assert policy.action_values(Boards.start(policy.learner.game)).shape == (1, 9)


def test_the_same_command_gives_the_same_learner(run, tmp_path):
    train.main(["--games", "3000", "--skip-chance", "0.1", "--out", str(tmp_path / "again"), "--epsilon", "0.2"])
    first, again = load_arrays(run / "checkpoint.npz"), load_arrays(tmp_path / "again/checkpoint.npz")
    assert first.keys() == again.keys()
    for name, array in first.items():
        np.testing.assert_array_equal(array, again[name])


def test_a_match_as_json(run, capsys):
    evaluate.main(["match", f"run:{run}", "random", "--games", "400", "--seed", "1", "--skip-chance", "0.1", "--json"])
    result = json.loads(capsys.readouterr().out)
    assert result["games"] == 400
    assert result["score"]["low"] < result["score"]["mean"] < result["score"]["high"]
    assert sum(result["first"]) == sum(result["second"]) == 200
    assert sum(result["pentanomial"]) == 200
    assert result["game"]["skip_chance"] == 0.1


def test_a_match_as_text(capsys):
    evaluate.main(["match", "win-or-block", "random", "--games", "400"])
    shown = capsys.readouterr().out
    for word in ("win-or-block against random, 400 games", "moving first", "95% interval", "draws"):
        assert word in shown


def test_all_policies_are_listed(capsys):
    evaluate.main(["policies"])
    shown = capsys.readouterr().out
    assert "win-or-block" in shown
    assert "random" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--size", "20"], "rows=20 is not the edge of a board: choose 1 to 19"),
        (["--size", "3 by 3"], "--size 3 by 3 is not a board: write an edge such as 3"),
        (["--win-length", "4"], "win_length=4 does not fit a board of 3 x 3: choose 1 to 3"),
        (["--skip-chance", "1"], "skip_chance=1.0 is not a probability below 1"),
        (["--opponent", "randon"], "there is no policy 'randon': did you mean 'random'?"),
        (["--opponent", "random:("], "its parentheses do not match"),
        (["--learner", "q-lerning"], "there is no learner 'q-lerning': did you mean 'q-learning'?"),
        (["--games", "-5"], "games=-5 is negative"),
        (["--batch", "0"], "batch=0 leaves nothing to play"),
        (["--log-every", "0"], "log_every=0 is no number of games"),
        (["--epsilon", "2"], "epsilon=2.0 does not work for q-learning: choose 0 to 1"),
        (["--bootstrap", "ply"], "which only self-play shows"),
        (["--games", "many"], "--games"),
        (["--gamse", "5"], "--gamse"),
    ],
)
def test_train_says_what_to_type_instead(arguments, message, capsys, tmp_path):
    assert message in sentence(capsys, train.main, [*arguments, "--out", str(tmp_path / "run")])
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["match", "random", "rndom"], "there is no policy 'rndom': did you mean 'random'?"),
        (["match", "random", "random", "--games", "7"], "--games 7 makes no pairs"),
        (["match", "random", "random", "--games", "0"], "--games 0 makes no pairs"),
        (["match", "random", "random", "--size", "0"], "rows=0 is not the edge of a board"),
        (["match", "random", "run:nowhere"], "nowhere is no run: there is no config.json in it"),
        (["match", "random", "run"], "run needs its argument path: write run:path=..."),
        (["match", "random"], "B"),
        (["mtach", "random", "random"], "match"),
        ([], "match"),
    ],
)
def test_evaluate_says_what_to_type_instead(arguments, message, capsys):
    assert message in sentence(capsys, evaluate.main, arguments)


def test_a_run_is_not_replaced_unless_asked(run, capsys):
    assert "holds a run already: choose another --out, or --overwrite" in sentence(
        capsys, train.main, ["--out", str(run), "--games", "10"]
    )


def test_a_run_of_another_board_is_refused(run):
    with pytest.raises(ValueError, match=r"learned on a board of 3 x 3, and the game here is 4 x 4, 3 to win"):
        load_policy(Game(4, 4), str(run))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:100]), "cannot be read as a checkpoint"),
        (lambda path: path.unlink(), "cannot be read as a checkpoint"),
        (lambda path: np.savez(path, values=np.array([{}], dtype=object)), "cannot be read as a checkpoint"),
        (lambda path: save_arrays(path, {"other": np.zeros(3)}), "need epsilon"),
    ],
    ids=["cut off", "gone", "objects", "another learner's"],
)
def test_a_damaged_checkpoint_is_one_sentence(damage, message, tmp_path):
    train.main(["--games", "10", "--out", str(tmp_path)])
    damage(tmp_path / "checkpoint.npz")
    with pytest.raises(ValueError, match=message):
        load_policy(Game(), str(tmp_path))


def test_a_checkpoint_that_would_fill_the_memory_is_not_unpacked(tmp_path):
    np.savez_compressed(tmp_path / "bomb.npz", zeros=np.zeros(1_000_000))
    with pytest.raises(ValueError, match="it unpacks to 8,000,"):
        load_arrays(tmp_path / "bomb.npz", limit=1_000_000)


@pytest.mark.parametrize("config", ["{", "[]", "{}", '{"game": {}, "learner": "q", "settings": {}}'])
def test_a_damaged_config_is_one_sentence(config, tmp_path):
    (tmp_path / "config.json").write_text(config)
    with pytest.raises(ValueError, match=r"cannot be read as the settings of a run|there is no learner 'q'"):
        load_policy(Game(), str(tmp_path))


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    path = tmp_path / "checkpoint.npz"
    save_arrays(path, {"good": np.arange(3)})
    with pytest.raises(AttributeError):
        write_whole(path, lambda file: file.no_such_method())
    assert load_arrays(path)["good"].tolist() == [0, 1, 2]
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(("text", "size"), [("3", (3, 3)), ("5x6", (5, 6)), (" 12X4 ", (12, 4))])
def test_sizes_are_read(text, size):
    assert cli.parse_size(text) == size


@pytest.mark.parametrize("script", ["train.py", "evaluate.py"])
def test_the_scripts_at_the_top_start_in_a_fresh_process(script):
    answer = subprocess.run([sys.executable, ROOT / script, "--help"], capture_output=True, text=True, cwd=ROOT)
    assert answer.returncode == 0
    assert "usage" in answer.stdout
    nonsense = subprocess.run([sys.executable, ROOT / script, "--nonsense"], capture_output=True, text=True, cwd=ROOT)
    assert nonsense.returncode == 2
    assert "Traceback" not in nonsense.stderr
