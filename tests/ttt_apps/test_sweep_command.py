"""Sweeps: the same whoever trains, also where they were killed."""

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from kills import train_until
from plain import assert_same_runs

from evaluation.run_files import REPORT, RunDirectory
from learners.checkpoint import load_checkpoint
from ttt_apps import sweep, train
from ttt_envs.core.files import write_json

SWEEP = """
seeds = 2
fixed = {games = 60, batch = 4, no_report = true}
"""


@pytest.fixture(scope="module", autouse=True)
def same_code():
    """The code is taken for the same, whatever is edited while these tests run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sweep, "code_hash", lambda *modules: "as it is")
        yield


def train_here(config, run):
    """In the place of a process of its own, which takes seconds to begin."""
    run.path.mkdir(exist_ok=True)
    if not run.exists():
        run.write_config(config)
    train.main(["--resume", str(run), "--quiet"])


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setattr(sweep, "train_in_subprocess", train_here)


@pytest.fixture(scope="module")
def once(tmp_path_factory):
    """The folder of a sweep that one process did, to be read only."""
    folder = tmp_path_factory.mktemp("once")
    (folder / "tiny.toml").write_text(SWEEP)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sweep, "train_in_subprocess", train_here)
        train.main(["--sweep", str(folder / "tiny.toml"), "--out", str(folder / "out"), "--quiet"])
    return folder


def learned(out):
    """What was learned: the numbers without cost, and what the runs' checkpoints hold."""
    data = json.loads((out / "result.json").read_text())
    numbers = [
        {name: value for name, value in run["numbers"].items() if name not in ("cpu_s", "peak_rss_bytes")}
        for run in data["runs"]
    ]
    learners = [load_checkpoint(out / run["run"])["learner"] for run in data["runs"]]
    return numbers, [{name: array.tobytes() for name, array in learner.items()} for learner in learners]


def swept(once, out, *words):
    train.main(["--sweep", str(once / "tiny.toml"), "--out", str(out), "--quiet", *words])
    return learned(out)


def test_it_says_what_became_of_every_setting(once, capsys):
    numbers, learners = learned(once / "out")
    assert len(numbers) == len(learners) == 2
    assert numbers[0] != numbers[1]
    assert learners[0] != learners[1]
    assert all(0 < one["exploitability"] <= 1 and "score_against_optimal" in one for one in numbers)
    table = (once / "out" / "table.md").read_text()
    assert "| runs | exploitability | regret | score against random |" in table
    again = json.loads((once / "out" / "result.json").read_text())
    train.main(["--sweep", str(once / "tiny.toml"), "--out", str(once / "out"), "--json", "--quiet"])
    assert json.loads(capsys.readouterr().out) == again  # nothing was trained again


@pytest.mark.slow  # that any number of workers does is tested of units, and of every study that they do
def test_two_workers_do_the_same(once, tmp_path):
    assert swept(once, tmp_path / "out", "--jobs", "2") == learned(once / "out")


@pytest.mark.slow  # by default the test of ttt_envs/core/parallel.py works on the cluster
@pytest.mark.needs("ray")
def test_a_cluster_does_the_same_and_sends_the_runs_back(once, tmp_path, cluster):
    assert swept(once, tmp_path / "out", "--cluster", cluster.address) == learned(once / "out")


@pytest.mark.usefixtures("at_once")
def test_a_sweep_that_was_killed_goes_on(once, tmp_path):
    """Killed after the first run: its line is there, the second is trained, or gone on with from what it has."""
    out = tmp_path / "out"
    shutil.copytree(once / "out", out)
    for name in ("result.json", "table.md"):
        (out / name).unlink()
    lines = (out / "units.jsonl").read_text().splitlines(keepends=True)
    (out / "units.jsonl").write_text("".join(lines[:-1]) + lines[-1][:50])
    kept = out / "runs" / json.loads(lines[-1])["unit"]["name"] / "checkpoint.npz"
    before = kept.stat().st_mtime_ns
    assert swept(once, out) == learned(once / "out")
    assert kept.stat().st_mtime_ns == before  # a finished run is not trained again


@pytest.mark.slow
def test_a_sweep_killed_at_any_instant_ends_as_if_it_had_never_been(once, tmp_path):
    out = tmp_path / "out"
    command = [sys.executable, "-m", "ttt_apps.train", "--sweep", str(once / "tiny.toml"), "--out", str(out), "--quiet"]
    root = Path(train.__file__).parents[1]
    for seconds in (2.0, 4.5, 7.0, 9.5):
        process = subprocess.Popen(command, cwd=root, stdout=subprocess.DEVNULL, start_new_session=True)
        time.sleep(seconds)
        process.send_signal(signal.SIGKILL)
        process.wait()
        time.sleep(3)  # the run that it had started ends by itself, or holds its folder
    assert swept(once, out) == learned(once / "out")


@pytest.mark.slow
@pytest.mark.usefixtures("at_once")
def test_a_sweep_killed_at_any_change_of_a_file_ends_as_one_never_killed(tmp_path):
    """Every file is there, and those of each run are the same."""
    game = "size = '2x3', win_length = 2, log_every = 10"
    (tmp_path / "tiny.toml").write_text(f"seeds = 2\nfixed = {{games = 20, batch = 4, {game}}}")
    whole, out = tmp_path / "whole", tmp_path / "out"

    def words(folder):
        return ["--sweep", str(tmp_path / "tiny.toml"), "--out", str(folder), "--quiet"]

    def files(folder):
        return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))

    changes = train_until(None, whole, words(whole))
    for kill_at in range(changes):
        shutil.rmtree(out, ignore_errors=True)
        train_until(kill_at, out, words(out))
        train.main(words(out))
        assert learned(whole) == learned(out)
        assert files(whole) == files(out)
        for run in (whole / "runs").iterdir():
            assert_same_runs(run, out / "runs" / run.name)


def test_a_sweep_completes_its_runs(once, tmp_path):
    """As those that another machine has sent, without what can be made from their files."""
    out = tmp_path / "out"
    shutil.copytree(once / "out", out)
    run = next((out / "runs").iterdir())
    config = json.loads((run / "config.json").read_text())
    write_json(run / "config.json", {**config, "no_report": False})
    assert REPORT in RunDirectory(run).read_state().missing
    assert swept(once, out) == learned(once / "out")
    assert not RunDirectory(run).read_state().missing


def test_other_code_trains_anew(once, tmp_path, monkeypatch):
    out = tmp_path / "out"
    shutil.copytree(once / "out", out)
    monkeypatch.setattr(sweep, "code_hash", lambda *modules: "other")
    begun = []
    monkeypatch.setattr(sweep, "train_unit", lambda runs, code, unit: begun.append(unit["name"]) or {"numbers": {}})
    train.main(["--sweep", str(once / "tiny.toml"), "--out", str(out), "--quiet"])
    assert len(begun) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fixed = {epsilom = 0.1}", "run 1 of .*: there is no option --epsilom: did you mean --epsilon"),
        ("[[runs]]\ngames = 5\n[[runs]]\nlearner = 'nobody'", "run 2 of .*: there is no learner 'nobody'"),
        ("fixed = {win_length = 9}", "run 1 of .*win_length=9"),
        ("fixed = {out = 'x'}", "has 'out', which is not for a file to say"),
    ],
)
def test_options_that_make_no_sense_are_told_before_anything_is_trained(text, message, tmp_path, capsys):
    (tmp_path / "sweep.toml").write_text(text)
    with pytest.raises(SystemExit):
        train.main(["--sweep", str(tmp_path / "sweep.toml"), "--out", str(tmp_path / "out")])
    assert re.search(message, capsys.readouterr().err)
    assert not (tmp_path / "out").exists()
