"""Sweeps: the same results with any workers and after any kill."""

import contextlib
import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import psutil
import pytest
from commands import error_of
from kills import train_until
from pages import read_page
from plain import assert_same_runs
from processes import ROOT

from learners.checkpoint import load_checkpoint
from ttt_apps import sweep, train, train_subprocess
from ttt_apps.signals import INTERRUPTED
from ttt_envs import Game, PhantomGame
from ttt_envs.agents.specs import TRUST
from ttt_envs.core.files import write_json
from ttt_eval.cost import ProcessFailed
from ttt_eval.exact import exploitability
from ttt_eval.exact.strength import strength
from ttt_eval.run_files import REPORT, RunDirectory

SWEEP = """
seeds = 2
fixed = {games = 60, batch = 4, no_report = true}
"""


@pytest.fixture(scope="module", autouse=True)
def same_code():
    """The code is taken for the same, whatever is edited while these tests run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sweep, "make_provenance", lambda: {"code": "as it is"})
        yield


def train_here(config, run):
    """In the place of a process of its own, which takes seconds to begin."""
    run.path.mkdir(exist_ok=True)
    if not run.exists():
        run.write_config(config)
    train.main(["--resume", str(run), "--quiet"])


def measure_here(unit, log):
    """In the place of a process of its own, as above."""
    asked, found = log.with_suffix(".asked"), log.with_suffix(".found")
    asked.write_text(json.dumps(unit))
    sweep.write_numbers(str(asked), str(found))
    return json.loads(found.read_text())


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setattr(sweep, "train_in_subprocess", train_here)
    monkeypatch.setattr(sweep, "measure_in_subprocess", measure_here)


@pytest.fixture(scope="module")
def once(tmp_path_factory):
    """The folder of a sweep that one process did, to be read only."""
    folder = tmp_path_factory.mktemp("once")
    (folder / "tiny.toml").write_text(SWEEP)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sweep, "train_in_subprocess", train_here)
        train.main(["--sweep", str(folder / "tiny.toml"), "--out", str(folder / "out"), "--quiet"])
    return folder


def results_of(out):
    """The numbers without cost, and the learners in the checkpoints."""
    data = json.loads((out / "result.json").read_text())
    numbers = [
        {name: value for name, value in run["numbers"].items() if name not in ("cpu_s", "peak_rss_bytes")}
        for run in data["runs"]
    ]
    learners = [load_checkpoint(out / run["run"])["learner"] for run in data["runs"]]
    return numbers, [{name: array.tobytes() for name, array in learner.items()} for learner in learners]


def rows_of_csv(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def run_sweep(once, out, *words):
    train.main(["--sweep", str(once / "tiny.toml"), "--out", str(out), "--quiet", *words])
    return results_of(out)


def test_results_of_every_setting(once, capsys):
    numbers, learners = results_of(once / "out")
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
def test_two_workers_give_the_same_results(once, tmp_path):
    assert run_sweep(once, tmp_path / "out", "--jobs", "2") == results_of(once / "out")


@pytest.mark.slow  # by default the test of ttt_envs/core/parallel.py works on the cluster
@pytest.mark.needs("ray")
def test_cluster_gives_the_same_results_and_sends_the_runs_back(once, tmp_path, cluster):
    assert run_sweep(once, tmp_path / "out", "--cluster", cluster) == results_of(once / "out")


@pytest.mark.usefixtures("at_once")
def test_killed_sweep_resumes(once, tmp_path):
    """Killed after the first run: its line is there, the second is trained, or gone on with from what it has."""
    out = tmp_path / "out"
    shutil.copytree(once / "out", out)
    for name in ("result.json", "table.md"):
        (out / name).unlink()
    lines = (out / "units.jsonl").read_text().splitlines(keepends=True)
    (out / "units.jsonl").write_text("".join(lines[:-1]) + lines[-1][:50])
    kept = out / "runs" / json.loads(lines[-1])["unit"]["name"] / "checkpoint.npz"
    before = kept.stat().st_mtime_ns
    assert run_sweep(once, out) == results_of(once / "out")
    assert kept.stat().st_mtime_ns == before  # a finished run is not trained again


@pytest.mark.slow
@pytest.mark.usefixtures("at_once")
def test_sweep_killed_at_any_change_of_a_file(tmp_path):
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
        assert results_of(whole) == results_of(out)
        assert files(whole) == files(out)
        for run in (whole / "runs").iterdir():
            assert_same_runs(run, out / "runs" / run.name)


@pytest.mark.skipif(os.name != "posix", reason="signals of this system have other meanings")
@pytest.mark.parametrize(
    ("number", "jobs"),
    [(signal.SIGTERM, 1), (signal.SIGKILL, 1), pytest.param(signal.SIGKILL, 2, marks=pytest.mark.slow)],
)
def test_trainings_end_with_a_sweep_that_a_signal_ends(number, jobs, tmp_path):
    """The signal reaches the sweep alone. A stopped sweep waits for a checkpoint of the run."""
    (tmp_path / "long.toml").write_text("fixed = {games = 1000000000, log_every = 100}\nseeds = 2")
    words = ["--sweep", "long.toml", "--out", "out", "--jobs", str(jobs), "--quiet"]
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "train.py"), *words], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    runs = [RunDirectory(tmp_path / "out" / "runs" / f"0001-q-learning-3x3-3-seed{seed}") for seed in range(jobs)]
    while process.poll() is None and not all(run.metrics.is_file() and run.metrics.stat().st_size for run in runs):
        time.sleep(0.05)
    started = psutil.Process(process.pid).children(recursive=True)
    try:
        assert sum("--resume" in child.cmdline() for child in started) == jobs
        process.send_signal(number)
        message = process.communicate()[1]
        stopped = number == signal.SIGTERM
        assert process.returncode == (INTERRUPTED if stopped else -number)
        assert ("stopped; finished work is stored in out: the same command continues" in message) == stopped
        assert psutil.wait_procs(started, 60)[1] == []
        assert not stopped or runs[0].read_state().progress.games > 0
    finally:
        for child in started:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()


def test_sweep_completes_its_runs(once, tmp_path):
    """As those that another machine has sent, without what can be made from their files."""
    out = tmp_path / "out"
    shutil.copytree(once / "out", out)
    run = next((out / "runs").iterdir())
    config = json.loads((run / "config.json").read_text())
    write_json(run / "config.json", {**config, "no_report": False})
    assert REPORT in RunDirectory(run).read_state().missing
    assert run_sweep(once, out) == results_of(once / "out")
    assert not RunDirectory(run).read_state().missing


@pytest.mark.parametrize("change", ["code", "option", "link", "linked run"])
def test_runs_of_others_are_kept_and_refused(change, once, tmp_path, monkeypatch, capsys):
    """Those of other code, of an edited file, and of another sweep to which a link leads."""
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    shutil.copytree(once / "out", out)
    shutil.copy(once / "tiny.toml", tmp_path)
    if change == "code":
        monkeypatch.setattr(sweep, "make_provenance", lambda: {"code": "other"})
    elif change == "option":
        (tmp_path / "tiny.toml").write_text(SWEEP.replace("60", "40"))
    else:
        place = out / "runs" if change == "link" else next((out / "runs").iterdir())
        place.rename(elsewhere)
        place.symlink_to(elsewhere, target_is_directory=True)
        (out / "units.jsonl").unlink()
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    error_of(capsys, train.main, "--sweep", tmp_path / "tiny.toml", "--out", out, "--quiet")
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


OWN = """
[[runs]]
learner = "favourite:FavouriteConfig"
[[runs]]
agent = "win-or-block"
[[runs]]
agent = "corner:Corner:firmly=0.5"
"""


@pytest.mark.usefixtures("at_once")
def test_own_learners_and_agents_stand_beside_the_others(tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(ROOT / "examples" / "files")
    (tmp_path / "own.toml").write_text(SWEEP + OWN)
    words = ("--sweep", str(tmp_path / "own.toml"), "--out", str(tmp_path / "out"), "--quiet")
    refused = error_of(capsys, train.main, *words)
    assert "learner favourite:FavouriteConfig is a class outside this package: add --trust to run it" in refused
    assert not (tmp_path / "out").exists()
    monkeypatch.setenv(TRUST, "1")
    monkeypatch.setenv("COLUMNS", "200")
    train.main([*words, "--trust"])
    shown = capsys.readouterr().out.splitlines()
    names = [line.split()[0] for line in shown if line.startswith((" favourite:", " win-or-block", " corner:"))]
    command = "train.py --sweep own.toml --trust"
    assert command in read_page(tmp_path / "out" / REPORT).text()
    assert names == ["favourite:FavouriteConfig", "win-or-block", "corner:Corner:firmly=0.5"]
    found = json.loads((tmp_path / "out" / "result.json").read_text())
    numbers = [run["numbers"] for run in found["runs"]]
    assert [len(numbers), found["table"][1]["seeds"]] == [4, 1]
    assert numbers[2]["exploitability"] == exploitability(Game(), "win-or-block")
    assert "cpu_s" in numbers[0]
    assert "cpu_s" not in numbers[2]


def test_the_opponent_of_an_agent_runs_no_code(tmp_path, monkeypatch):
    monkeypatch.setenv(TRUST, "0")
    write_json(tmp_path / "unit", {"agent": "win-or-block", "game": Game().to_dict(), "opponent": "uuid:uuid4"})
    with pytest.raises(ValueError, match="'uuid:uuid4' was read from a file"):
        sweep.write_numbers(str(tmp_path / "unit"), str(tmp_path / "numbers"))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ('agent = "random"\nlearner = "q-learning"', "has a run with an agent and a learner: write one of them"),
        ('agent = "randm"', "did you mean 'random'"),
        (
            'agent = "expectiminimax:depth=1,leaf=(uuid:uuid4)"',
            "'uuid:uuid4' was read from a file, which may name built-in policies only",
        ),
        ('agent = "gomocup:engine"', "'gomocup' was read from a file, which may not name what runs a program"),
        ('learner = "q-lerning"', "did you mean 'q-learning'"),
        (
            'phantom = "classic"\nsize = "3x4"',
            "choose a board of up to 9",
        ),
    ],
)
def test_a_sweep_of_unknown_agents_is_refused(tmp_path, capsys, monkeypatch, row, message):
    monkeypatch.setenv(TRUST, "0")
    (tmp_path / "a.toml").write_text(f"[[runs]]\n{row}\n")
    assert message in error_of(capsys, train.main, "--sweep", tmp_path / "a.toml", "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(
    ("rule", "game", "opponents"),
    [
        ('phantom = "classic"', PhantomGame(Game(2, 2, 2), "classic"), ["random", "win-or-block"]),
        ("misere = true", Game(2, 2, 2, misere=True), ["random", "optimal"]),
    ],
    ids=["phantom", "misere"],
)
def test_agents_play_by_the_rules_of_the_learners(tmp_path, rule, game, opponents):
    fixed = f"fixed = {{games = 50, size = 2, win-length = 2, {rule}}}"
    runs = '[[runs]]\nlearner = "q-learning"\n[[runs]]\nagent = "random"\n'
    (tmp_path / "a.toml").write_text(f"{fixed}\n{runs}")
    train.main(["--sweep", str(tmp_path / "a.toml"), "--out", str(tmp_path / "out"), "--quiet"])
    learner, agent = json.loads((tmp_path / "out" / "result.json").read_text())["runs"]
    exact = strength(game, "random", opponents)
    assert agent["numbers"]["exploitability"] == exact.exploitability
    expected = {f"score_against_{name}": result.score for name, result in exact.results.items()}
    assert {name: agent["numbers"][name] for name in expected} == expected
    assert expected.keys() < learner["numbers"].keys()


def test_the_page_of_a_sweep_has_learning_curves(once):
    page, curves = read_page(once / "out" / REPORT), rows_of_csv(once / "out" / "curves.csv")
    assert "h2 Learning curves" in page.outline
    assert any(label.startswith("Curves by games") for label in page.attributes("aria-label", "svg"))
    runs = json.loads((once / "out" / "result.json").read_text())["runs"]
    ends = [run["numbers"]["exploitability"] for run in runs]
    assert float(curves[-1]["exploitability"]) == pytest.approx(sum(ends) / 2)
    assert [float(curves[-1][name]) for name in ("low", "high")] == pytest.approx(sorted(ends))


@pytest.mark.parametrize(
    ("code", "words"), [(-11, "ended by SIGSEGV before the first line"), (1, "failed with exit code 1 before")]
)
def test_the_end_of_a_process_is_explained_and_its_output_kept(tmp_path, monkeypatch, code, words):
    def fail(command, environment):
        raise ProcessFailed(command, code, "compiling\nerror: something went wrong\n")

    monkeypatch.setattr(train_subprocess, "measure_usage", fail)
    run = RunDirectory(tmp_path / "run")
    (tmp_path / "run.log0123abcd.tmp").touch()  # of a command that was killed while it wrote such a file
    with pytest.raises(ValueError, match=f"{run} {words}.*; its output is in {run}.log"):
        train_subprocess.train_in_subprocess({"games": 3}, run)
    assert "something went wrong" in (tmp_path / "run.log").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "run.log"]


DYING = """
import os, signal
from ttt_envs import Policy

class Dies(Policy):
    def __init__(self, game, number: int):
        self.number = number

    def probabilities(self, boards):
        if self.number:
            os.kill(os.getpid(), self.number)
        raise KeyError("no such cell")
"""


@pytest.mark.parametrize(
    ("number", "words"),
    [(11, "ended by SIGSEGV while it was measured"), (0, "failed with exit code 1 while it was measured")],
)
@pytest.mark.skipif(os.name != "posix", reason="signals of this system have other numbers")
def test_an_agent_that_kills_its_process_is_named(tmp_path, monkeypatch, capsys, number, words):
    (tmp_path / "dying.py").write_text(DYING)
    (tmp_path / "dying.toml").write_text(f"[[runs]]\nagent = 'dying:Dies:number={number}'")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(TRUST, "1")
    said = error_of(capsys, train.main, "--sweep", "dying.toml", "--out", "out", "--trust", "--quiet")
    assert f"error: agent dying:Dies:number={number} {words}; its output is in " in said
    log = next((tmp_path / "out" / "runs").glob("*.log"))
    assert str(log) in said
    assert said.endswith("KeyError: 'no such cell'" if number == 0 else log.name)
    assert ("KeyError" if number == 0 else "Segmentation fault") in log.read_text()
