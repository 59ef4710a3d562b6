"""What somebody else's run folder may not do: run code, write elsewhere, wait for ever, or go on with damaged files."""

import json
import os
import shutil
import signal
import sys
import time

import pytest

from learners.checkpoint import read_config
from learners.imitation import training_examples
from learners.training import Progress, Task
from learners.value_net import ValueNetConfig
from ttt_apps import runs, train
from ttt_apps.evaluate import main as evaluate
from ttt_envs import Game
from ttt_envs.agents.specs import TRUST, FromFile
from ttt_envs.core.files import locked

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


def learned(run, *more):
    train.main(["--games=40", "--batch=4", "--log-every=10", "--no-report", "--out", str(run), *more])
    return run


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder is made that of a run; all of them are copies of one."""
    first = learned(tmp_path_factory.mktemp("made") / "run")
    return lambda run: shutil.copytree(first, run)


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
def evil(made, tmp_path, monkeypatch):
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
    "gomocup:python,arguments=(runs/x/evil.py)",
    "expectiminimax:depth=1,leaf=(gomocup:python,arguments=(runs/x/evil.py))",
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
    (evil / "checkpoint.npz").unlink()
    assert "was read from a file" in refused(capsys, train.main, ["--resume", evil])
    assert not (evil / "evil.ran").exists()


@pytest.mark.parametrize("learner", ["sb3-dqn", "sb3-ppo"])
def test_an_opponent_of_stable_baselines_from_a_file_runs_no_code(learner, evil, capsys):
    changed(evil, learner=learner, opponent="runs.x.evil:Policy", settings={})
    (evil / "checkpoint.npz").unlink()
    assert "was read from a file" in refused(capsys, train.main, ["--resume", evil])
    assert not (evil / "evil.ran").exists()


def test_the_report_of_a_run_runs_no_code(evil, capsys):
    changed(evil, opponent="runs.x.evil:Policy")
    assert "was read from a file" in refused(capsys, evaluate, ["report", evil])
    assert not (evil / "evil.ran").exists()


def test_costs_of_a_run_run_no_code(evil, capsys):
    changed(evil, opponent="runs.x.evil:Policy")
    assert "was read from a file" in refused(capsys, evaluate, ["cost", evil, "--repeats=1"])
    assert not (evil / "evil.ran").exists()


def test_a_run_that_a_file_names_runs_no_code_of_its_own(made, evil, tmp_path):
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
    run = learned(evil.parent / "y", "--opponent=runs.x.evil:Policy")
    assert (evil / "evil.ran").exists()
    assert isinstance(read_config(run)["opponent"], FromFile)


# ---------------------------------------------------------------------------------------------------------------------
# Files


@pytest.mark.parametrize("name", ["metrics.jsonl", "events.out.tfevents.run"])
def test_nothing_is_written_through_a_link(made, name, tmp_path, capsys):
    if name != "metrics.jsonl":
        pytest.importorskip("tensorboard")
    run = made(tmp_path / "run")
    outside = tmp_path / "outside"
    outside.write_text("precious")
    (run / name).unlink()
    (run / name).symlink_to(outside)
    assert f"{name} is a link" in refused(capsys, train.main, ["--resume", run, "--games=80"])
    assert outside.read_text() == "precious"


@pytest.mark.parametrize("name", ["config.json", "checkpoint.npz", "cost.json", "metrics.jsonl"])
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_what_is_no_file_is_not_read_and_nobody_waits(made, name, kind, tmp_path, capsys):
    run = made(tmp_path / "run")
    (run / name).unlink()
    if kind == "pipe":
        os.mkfifo(run / name)
    else:
        (run / name).symlink_to("/dev/zero")
    said = refused(capsys, train.main, ["--resume", run, "--games=80"])
    assert f"{name} is a {'pipe' if kind == 'pipe' else 'link'}, and neither read nor written" in said


def test_a_teacher_s_games_are_not_written_through_a_link(tmp_path):
    config = ValueNetConfig(teacher="expectiminimax:depth=1", jobs=1)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "teacher").symlink_to(tmp_path / "elsewhere")
    nothing = Task(Game(), "teacher", "first", 1, 1, 0, tmp_path, 1, (), lambda *_: None, lambda *_: None)
    with pytest.raises(ValueError, match="teacher is a link, and nothing is written through it"):
        training_examples(nothing, config.teacher, config.epsilon, config.jobs, Progress())
    assert not list((tmp_path / "elsewhere").iterdir())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"opponent": 5}, "opponent is 5, and must be a word"),
        ({"games": "many"}, "games is 'many', and must be a whole number"),
        ({"games": True}, "games is True, and must be a whole number"),
        ({"games": None}, "games is None, and must be a whole number"),
        ({"batch": 1.5}, "batch is 1.5, and must be a whole number or null"),
        ({"seed": []}, "seed is [], and must be a whole number"),
        ({"resumed": 5}, "resumed is 5, and must be a list"),
        ({"settings": []}, "settings is [], and must be an object"),
        ({"settings": {"epsilon": "x"}}, "epsilon='x' does not work for q-learning: choose a number"),
        ({"settings": {"epsilon": []}}, "epsilon=[] does not work for q-learning: choose a number"),
        ({"learner": []}, "learner is [], and must be a word"),
        ({"game": {"rows": []}}, "config.json"),
        ({"game": 5}, "game is 5, and must be an object"),
        ({"seat": "third"}, "seat"),
    ],
)
def test_a_config_of_another_shape_is_one_sentence(made, change, said, tmp_path, capsys):
    run = changed(made(tmp_path / "run"), **change)
    assert said in refused(capsys, train.main, ["--resume", run, "--games=80"])


@pytest.mark.parametrize("name", ["games", "opponent", "seed"])
@pytest.mark.parametrize("command", [train.main, evaluate])
def test_a_config_that_lacks_something_is_one_sentence(made, command, name, tmp_path, capsys):
    run = made(tmp_path / "run")
    config = json.loads((run / "config.json").read_text())
    del config[name]
    (run / "config.json").write_text(json.dumps(config))
    words = ["--resume", run] if command == train.main else ["cost", run]
    assert f"it does not say its {name}" in refused(capsys, command, words)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.json", "[" * 100_000),
        ("config.json", '{"a":' * 500 + "1" + "}" * 500),
        ("config.json", "9" * 5_000_000),
        ("cost.json", '{"phases": 5}'),
        ("cost.json", '{"phases": {"training": 5}}'),
        ("cost.json", "{"),
        ("cost.json", "[" * 100_000),
        ("metrics.jsonl", '{"games": 1}\n'),
        ("metrics.jsonl", "5\n"),
        ("metrics.jsonl", "{\n"),
        ("metrics.jsonl", "[" * 100_000),
    ],
)
def test_damaged_json_names_its_file(made, name, content, tmp_path, capsys):
    run = made(tmp_path / "run")
    size = (run / "metrics.jsonl").stat().st_size
    (run / name).write_text(content + " " * (size - len(content)) if name == "metrics.jsonl" else content)
    assert name in refused(capsys, train.main, ["--resume", run, "--games=80"])


# ---------------------------------------------------------------------------------------------------------------------
# Several processes, and killed ones


def test_of_two_that_go_on_with_a_run_the_second_is_refused(made, tmp_path, capsys):
    run = made(tmp_path / "run")
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    with locked(run):
        assert f"another process is writing in {run}" in refused(capsys, train.main, ["--resume", run, "--games=80"])
        again = ["--out", run, "--overwrite", "--games=40", "--no-report"]
        assert f"another process is writing in {run}" in refused(capsys, train.main, again)
        assert {path.name: path.read_bytes() for path in run.iterdir()} == before
    train.main(["--resume", str(run), "--games=80"])
    assert {path.name for path in run.iterdir()} == before.keys()


def test_a_run_is_held_while_it_learns(tmp_path, capsys, monkeypatch):
    said = []
    learn = runs.Run.train

    def meanwhile(run, *rest):
        said.append(refused(capsys, train.main, ["--resume", run.directory]))
        return learn(run, *rest)

    monkeypatch.setattr(runs.Run, "train", meanwhile)
    run = learned(tmp_path / "run")
    train.main(["--resume", str(run), "--games=80"])
    assert len(said) == 2
    assert all(f"another process is writing in {run}" in each for each in said)


def test_what_a_killed_writer_left_is_gone_when_a_run_goes_on(made, tmp_path):
    run = made(tmp_path / "run")
    (run / "teacher").mkdir()
    left = ["checkpoint.npzabcdefgh.tmp", "config.jsonabc_efg1.tmp", "teacher/000003.npzabcdefgh.tmp"]
    kept = ["notes.tmp", "teacher/minenpzabcdefgh.tmp"]
    for name in (*left, *kept):
        (run / name).touch()
    train.main(["--resume", str(run), "--games=80"])
    assert not any((run / name).exists() for name in left)
    assert all((run / name).exists() for name in kept)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_learner_in_a_loop_of_its_own_takes_signals(number, tmp_path, capsys, monkeypatch):
    def fit(self, task):
        os.kill(os.getpid(), number)
        time.sleep(60)

    monkeypatch.setattr(ValueNetConfig, "fit", fit)
    before = signal.getsignal(signal.SIGTERM)
    # who starts the tests in the background may have Ctrl-C ignored, and a run then ignores it, too
    interrupted = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(SystemExit) as end:
            train.main(["--learner=value-net", "--games=4", "--out", str(tmp_path / "run")])
    finally:
        signal.signal(signal.SIGINT, interrupted)
    assert end.value.code == 130
    assert f"go on with train.py --resume {tmp_path / 'run'}" in " ".join(capsys.readouterr().err.split())
    assert signal.getsignal(signal.SIGTERM) == before


# ---------------------------------------------------------------------------------------------------------------------
# Numbers


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--memory=inf"], "memory=inf does not work for q-learning: choose above 0, up to 1,048,576"),
        (["--memory=nan"], "memory=nan does not work for q-learning"),
        (["--learner=naive-mc", "--memory=1e300"], "memory=1e+300 does not work for naive-mc"),
        ([f"--opponent=pool:every={'9' * 30}"], "is not a whole number of up to 15 digits"),
        ([f"--opponent=pool:size={'9' * 5000}"], "is no policy, it has 5,010 letters"),
        ([f"--opponent=mcts:simulations={'9' * 30}"], "is not a whole number of 64 bits"),
        (["--games=999999999999999999999999999999"], "is more than anybody can wait for"),
    ],
)
def test_numbers_have_bounds_that_are_told(words, said, tmp_path, capsys):
    assert said in refused(capsys, train.main, [*words, "--out", tmp_path / "run"])


def test_a_function_in_the_place_of_a_policy_is_one_sentence(capsys):
    said = refused(capsys, evaluate, ["match", "importlib.util:find_spec", "random"])
    assert "importlib.util:find_spec made no policy of 3 x 3" in said
