"""Run directories of others cannot run code, write elsewhere, block, or continue with damaged
files.
"""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest
from commands import words_of
from json_files import read_json

from learners.checkpoint import read_config
from ttt_apps.training import command as train
from ttt_apps.training import runs
from ttt_envs import Game
from ttt_envs.agents.specs import TRUST, FromFile

EVIL = """
from pathlib import Path
from ttt_envs.agents.simple import Random

Path(__file__).with_suffix(".ran").touch()

class Policy(Random):
    pass
"""


@pytest.fixture(autouse=True)
def untrusting(monkeypatch):
    monkeypatch.setenv(TRUST, "0")


def train_run(run, *more):
    train.main(words_of("--games=40 --batch=4 --log-every=10 --no-report --out", run, *more))
    return run


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Makes copies of one run."""
    first = train_run(tmp_path_factory.mktemp("made") / "run")
    return lambda run: shutil.copytree(first, run)


def change_config(run, **changes):
    path = run / "config.json"
    path.write_text(json.dumps({**read_json(path), **changes}))
    return run


def forget_runs():
    for name in [name for name in sys.modules if name.split(".")[0] == "runs"]:
        del sys.modules[name]


@pytest.fixture
def evil(made, tmp_path, monkeypatch):
    """A module that leaves a mark when it is imported, inside the folder of a run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    run = made(tmp_path / "runs" / "x")
    (run / "evil.py").write_text(EVIL)
    yield run
    forget_runs()


ATTACKS = [
    "runs.x.evil:Policy",
    "mcts:simulations=2,rollout=(expectiminimax:depth=1,leaf=(mcts:simulations=2,rollout=(runs.x.evil:Policy)))",
    "joblib.numpy_pickle:dump:filename=runs/x/evil.ran",
    "multiprocessing.forkserver:main:listener-fd=0,alive-r=0,preload=evil,main-path=runs/x/evil.py",
    "expectiminimax:depth=1,leaf=(gomocup:python,arguments=(runs/x/evil.py))",
    "mcts:simulations=2,rollout=(sb3:path=runs/x/evil.py,algorithm=dqn,trust=TRUE)",
]


@pytest.mark.parametrize(
    ("changes", "resumed"),
    [
        *(({"opponent": attack}, True) for attack in ATTACKS),
        (
            {
                "learner": "value-net",
                "opponent": "teacher",
                "settings": {"teacher": ATTACKS[0], "jobs": 1},
            },
            False,
        ),
        ({"learner": "sb3-ppo", "opponent": ATTACKS[0], "settings": {}}, False),
    ],
)
def test_opponent_or_teacher_from_a_file_runs_no_code(changes, resumed, evil, train_py):
    change_config(evil, **changes)
    if not resumed:
        (evil / "checkpoint.npz").unlink()
    more = ["--games=80"] * resumed
    assert "was read from a file" in train_py.error("resume", evil, *more)
    assert not (evil / "evil.ran").exists()


def test_learner_from_a_file_runs_no_code(evil, evaluate_py, train_py):
    change_config(evil, learner="runs.x.evil:Policy")
    assert "was read from a file" in train_py.error("resume runs/x --games=80")
    for line in ("exact run:runs/x random", "compare runs/x runs/x"):
        assert "was read from a file" in evaluate_py.error(line)
    assert not (evil / "evil.ran").exists()


def test_learner_named_by_its_user_is_trained_and_loaded_with_trust(
    tmp_path, monkeypatch, evaluate_py, train_py
):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "examples" / "files")
    name = "favourite:FavouriteConfig"
    train_run(tmp_path / "run", f"--learner={name}", "--epsilon=0.1")
    monkeypatch.setattr("learners.config.callers_classes", set())  # as in a new process
    line = f"exploitability run:{tmp_path / 'run'}"
    assert "was read from a file" in evaluate_py.error(line)
    assert 0 <= evaluate_py.json(line, "--trust")["exploitability"] <= 1
    assert "favourite:Favourite" in train_py.error("--learner=favourite:Favourite")


def test_run_that_a_file_names_runs_no_code_of_its_own(made, evil, tmp_path, train_py):
    """``run:PATH`` is data: it plays what was learned, whomever its settings name."""
    other = change_config(made(tmp_path / "other"), opponent="run:runs/x")
    change_config(evil, opponent=ATTACKS[0])
    train_py("resume", other, "--games=80")
    assert read_json(other / "config.json")["games"] == 80
    assert not (evil / "evil.ran").exists()


def test_the_command_line_and_the_trust_option_allow_code(evil, train_py):
    run = train_run(evil.parent / "y", "--opponent=runs.x.evil:Policy")
    assert isinstance(read_config(run)["opponent"], FromFile)
    (evil / "evil.ran").unlink()
    forget_runs()
    change_config(evil, opponent=ATTACKS[0])
    train_py("resume", evil, "--games=80 --trust")
    assert (evil / "evil.ran").exists()


# --------------------------------------------------------------------------------------------------
# Files


EVENTS = pytest.param("events.out.tfevents.run", marks=pytest.mark.needs("tensorboard"))


@pytest.mark.parametrize("name", ["metrics.jsonl", EVENTS])
def test_nothing_is_written_through_a_link(made, name, tmp_path, train_py):
    run = made(tmp_path / "run")
    outside = tmp_path / "outside"
    outside.write_text("precious")
    (run / name).unlink()
    (run / name).symlink_to(outside)
    assert f"{name} is a link" in train_py.error("resume", run, "--games=80")
    assert outside.read_text() == "precious"


@pytest.mark.parametrize("kind", ["pipe", "device"])
@pytest.mark.parametrize("name", ["config.json", "checkpoint.npz", "metrics.jsonl"])
def test_pipes_and_devices_are_rejected_at_once(made, name, kind, tmp_path, train_py):
    run = made(tmp_path / "run")
    (run / name).unlink()
    if kind == "pipe":
        os.mkfifo(run / name)
    else:
        (run / name).symlink_to("/dev/zero")
    assert f"{name} is a" in train_py.error("resume", run, "--games=80")


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"games": "many"}, "`int`"),
        ({"seed": -1}, "Expected `int` >= 0 - at `$.seed`"),
        ({"settings": {"epsilon": "x"}}, "epsilon='x'"),
        ({"game": {"rows": 99}}, "config.json"),
        ({"game": Game(4, 4, 3).to_dict()}, "another game's"),
    ],
)
def test_config_that_is_invalid_or_of_another_run_is_one_sentence(
    made, change, word, tmp_path, train_py
):
    run = change_config(made(tmp_path / "run"), **change)
    assert word in train_py.error("resume", run, "--games=80")


# --------------------------------------------------------------------------------------------------
# Several processes, and killed ones


@pytest.mark.more
def test_second_process_is_refused(tmp_path, train_py, monkeypatch):
    """During a training, and during its continuation."""
    errors = []
    run = tmp_path / "run"
    learn = runs.Run.train

    def meanwhile(training, *rest):
        before = {path.name: path.read_bytes() for path in run.iterdir()}
        for line in ("resume --games=80", "--overwrite --games=40 --no-report --out"):
            errors.append(train_py.error(line, run))
        assert {path.name: path.read_bytes() for path in run.iterdir()} == before
        return learn(training, *rest)

    monkeypatch.setattr(runs.Run, "train", meanwhile)
    train_run(run)
    train_py("resume", run, "--games=80")
    assert [f"another process is writing in {run}" in error for error in errors] == [True] * 4
