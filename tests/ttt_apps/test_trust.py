"""What somebody else's run folder may not do: run code, write elsewhere, wait for ever, or go on with damaged files."""

import json
import sys

import pytest

from learners.checkpoint import read_config
from ttt_apps import train
from ttt_apps.evaluate import main as evaluate
from ttt_envs.policy import TRUST, FromFile

EVIL = """
from pathlib import Path
from baselines.simple import Random

Path(__file__).with_suffix(".ran").touch()

class Policy(Random):
    pass
"""


@pytest.fixture(autouse=True)
def untrusting(monkeypatch):
    monkeypatch.setenv(TRUST, "0")


def made(run, *more):
    train.main(["--games=40", "--batch=4", "--log-every=10", "--no-report", "--out", str(run), *more])
    return run


def changed(run, **changes):
    path = run / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    return run


def refused(capsys, command, words):
    with pytest.raises(SystemExit) as end:
        command(list(map(str, words)))
    said = capsys.readouterr().err
    assert end.value.code == 2, said
    assert "Traceback" not in said
    return " ".join(said.split())


@pytest.fixture
def evil(tmp_path, monkeypatch):
    """A module that leaves a mark when it is imported, inside the folder of a run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    run = made(tmp_path / "runs" / "x")
    (run / "evil.py").write_text(EVIL)
    yield run
    for name in [name for name in sys.modules if name.split(".")[0] == "runs"]:
        del sys.modules[name]


ATTACKS = [
    "runs.x.evil:Policy",
    "expectiminimax:depth=1,leaf=(runs.x.evil:Policy)",
    "mcts:simulations=2,rollout=(runs.x.evil:Policy)",
    "svd:rank=1,source=(runs.x.evil:Policy)",
    "table:source=(runs.x.evil:Policy)",
    "mcts:simulations=2,rollout=(expectiminimax:depth=1,leaf=(mcts:simulations=2,rollout=(runs.x.evil:Policy)))",
    "joblib.numpy_pickle:dump:filename=runs/x/evil.ran",
    "expectiminimax:depth=1,leaf=(joblib.numpy_pickle:dump:filename=runs/x/evil.ran)",
    "multiprocessing.forkserver:main:listener-fd=0,alive-r=0,preload=evil,main-path=runs/x/evil.py",
    "sb3:path=runs/x/evil.py,algorithm=dqn,trust=true",
    "mcts:simulations=2,rollout=(sb3:path=runs/x/evil.py,algorithm=dqn,trust=TRUE)",
]


@pytest.mark.parametrize("opponent", ATTACKS)
@pytest.mark.parametrize("whole", [True, False], ids=["from a checkpoint", "from the start"])
def test_an_opponent_from_a_file_runs_no_code(opponent, whole, evil, capsys):
    changed(evil, opponent=opponent)
    if not whole:
        (evil / "checkpoint.npz").unlink()
    assert "was read from a file" in refused(capsys, train.main, ["--resume", evil, "--games=80"])
    assert not (evil / "evil.ran").exists()


@pytest.mark.parametrize("teacher", ATTACKS[:3])
def test_a_teacher_from_a_file_runs_no_code(teacher, evil, capsys):
    settings = {"teacher": teacher, "jobs": 1}
    changed(evil, learner="value-net", opponent="teacher", settings=settings)
    assert "was read from a file" in refused(capsys, train.main, ["--resume", evil])
    assert not (evil / "evil.ran").exists()


@pytest.mark.parametrize("learner", ["sb3-dqn", "sb3-ppo"])
def test_an_opponent_of_stable_baselines_from_a_file_runs_no_code(learner, evil, capsys):
    changed(evil, learner=learner, opponent="runs.x.evil:Policy", settings={})
    (evil / "metrics.jsonl").unlink()
    assert "was read from a file" in refused(capsys, train.main, ["--resume", evil])
    assert not (evil / "evil.ran").exists()


def test_costs_of_a_run_run_no_code(evil, capsys):
    changed(evil, opponent="runs.x.evil:Policy")
    assert "was read from a file" in refused(capsys, evaluate, ["cost", evil, "--repeats=1"])
    assert not (evil / "evil.ran").exists()


def test_a_run_that_a_file_names_runs_no_code_of_its_own(evil, tmp_path):
    """``run:PATH`` is data: it plays what was learned, whomever its settings name."""
    other = changed(made(tmp_path / "other"), opponent="run:runs/x")
    changed(evil, opponent="runs.x.evil:Policy")
    train.main(["--resume", str(other), "--games=80"])
    assert json.loads((other / "config.json").read_text())["games"] == 80
    assert not (evil / "evil.ran").exists()


def test_trust_on_the_command_line_runs_what_a_file_names(evil):
    changed(evil, opponent="runs.x.evil:Policy")
    train.main(["--resume", str(evil), "--games=80", "--trust"])
    assert (evil / "evil.ran").exists()
    assert json.loads((evil / "config.json").read_text())["games"] == 80


def test_what_stands_on_the_command_line_is_trusted_there(evil):
    run = made(evil.parent / "y", "--opponent=runs.x.evil:Policy")
    assert (evil / "evil.ran").exists()
    assert isinstance(read_config(run)["opponent"], FromFile)
