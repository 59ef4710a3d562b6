"""Sweeps: the same results with any workers and after any kill."""

import contextlib
import json
import os
import shutil
import signal
import sys

import psutil
import pytest
from commands import words_of
from json_files import read_json
from pages import read_page
from processes import ROOT, start_until

from learners.checkpoint import load_checkpoint
from ttt_apps.cli.signals import INTERRUPTED
from ttt_apps.training import command as train
from ttt_apps.training import sweep
from ttt_envs import Game, PhantomGame
from ttt_envs.agents.specs import TRUST
from ttt_eval.exact import exploitability
from ttt_eval.exact.strength import strength
from ttt_eval.runs.run_files import REPORT, RunDirectory
from ttt_eval.store.cost import cpu_seconds

pytestmark = pytest.mark.more

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


TRAIN_IN_SUBPROCESS = sweep.train_in_subprocess


def sweep_line(file):
    """The command of a sweep whose results are beside its file."""
    return f"sweep {file} --quiet --out {file.with_name('out')}"


def train_here(config, run):
    """In the place of a process of its own, which takes seconds to begin."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            sweep, "measure_usage", lambda command, _: train.main([*command[-2:], "--quiet"])
        )
        with contextlib.suppress(AttributeError):  # there is no usage
            TRAIN_IN_SUBPROCESS(config, run)


@pytest.fixture(scope="module")
def at_once():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sweep, "train_in_subprocess", train_here)
        yield


@pytest.fixture(scope="module")
def once(tmp_path_factory, at_once):
    """The folder of a sweep that one process did, to be read only."""
    folder = tmp_path_factory.mktemp("once")
    (folder / "tiny.toml").write_text(SWEEP)
    train.main(words_of(sweep_line(folder / "tiny.toml")))
    return folder


def results_of(out):
    """The numbers without cost, and the learners in the checkpoints."""
    data = read_json(out / "result.json")
    rows = [run["numbers"] for run in data["runs"]]
    numbers = [
        {name: row[name] for name in row.keys() - {"cpu_s", "peak_rss_bytes"}} for row in rows
    ]
    learners = [load_checkpoint(out / run["run"])["learner"] for run in data["runs"]]
    return numbers, [
        {name: array.tobytes() for name, array in learner.items()} for learner in learners
    ]


def run_sweep(once, out, *words):
    train.main(words_of(f"sweep {once / 'tiny.toml'} --quiet --out {out}", *words))
    return results_of(out)


def test_results_of_every_setting(once, train_py):
    numbers, learners = results_of(once / "out")
    assert len(numbers) == len(learners) == 2
    assert numbers[0] != numbers[1]
    assert learners[0] != learners[1]
    assert all(0 < row["exploitability"] <= 1 and "score_against_optimal" in row for row in numbers)
    assert "| seeds | exploitability | regret |" in (once / "out" / "table.md").read_text()
    data = read_json(once / "out" / "result.json")
    for run in data["runs"]:
        cost = RunDirectory(once / "out" / run["run"]).read_cost()
        assert not (once / "out" / run["run"] / REPORT).exists()
        assert run["numbers"]["cpu_s"] == cpu_seconds(cost["training"])
        assert run["numbers"]["peak_rss_bytes"] == max(
            phase["peak_rss_bytes"] for phase in cost.values()
        )
    assert train_py.json(sweep_line(once / "tiny.toml")) == data  # nothing was trained again
    assert "h2 Learning curves" in read_page(once / "out" / REPORT).outline


@pytest.mark.slow
@pytest.mark.parametrize(
    "workers", ["--jobs=2", pytest.param("--cluster", marks=pytest.mark.needs("ray"))]
)
def test_workers_give_the_same_results(workers, once, tmp_path, request):
    words = (workers, request.getfixturevalue("cluster")) if workers == "--cluster" else (workers,)
    assert run_sweep(once, tmp_path / "out", *words) == results_of(once / "out")


def test_killed_sweep_resumes_and_completes_its_runs(once, tmp_path):
    """Killed after the first run: its line is there, the second is trained, and lacks what is made
    from its files.
    """
    out = tmp_path / "out"
    shutil.copytree(once / "out", out)
    (out / "result.json").unlink()
    lines = (out / "units.jsonl").read_text().splitlines(keepends=True)
    (out / "units.jsonl").write_text("".join(lines[:-1]) + lines[-1][:50])
    run = RunDirectory(out / "runs" / json.loads(lines[-1])["unit"]["name"])
    run.write_config({**run.read_config(), "no_report": False})
    before = run.checkpoint.stat().st_mtime_ns
    assert run_sweep(once, out) == results_of(once / "out")
    assert run.checkpoint.stat().st_mtime_ns == before  # a finished run is not trained again
    assert not run.read_state().missing


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("level", ["runs", "runs/0001-q-learning-3x3-3-seed0"])
def test_sweep_writes_nothing_through_a_linked_folder(level, tmp_path, train_py):
    (tmp_path / "tiny.toml").write_text(SWEEP)
    (tmp_path / "outside").mkdir()
    path = tmp_path / "out" / level
    path.parent.mkdir(parents=True)
    path.symlink_to(tmp_path / "outside")
    assert f"{path.name} is a link" in train_py.error(sweep_line(tmp_path / "tiny.toml"))
    assert not list((tmp_path / "outside").iterdir())


@pytest.mark.skipif(os.name != "posix", reason="signals of this system have other meanings")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_trainings_end_with_a_sweep_that_a_signal_ends(number, tmp_path):
    """The signal reaches the sweep alone. A stopped sweep waits for a checkpoint of the run."""
    (tmp_path / "long.toml").write_text("fixed = {games = 1000000000, log_every = 100}\nseeds = 2")
    words = words_of("sweep long.toml --out out --quiet")
    run = RunDirectory(tmp_path / "out" / "runs" / "0001-q-learning-3x3-3-seed0")
    process = start_until(run.metrics, sys.executable, ROOT / "train.py", *words, cwd=tmp_path)
    started = psutil.Process(process.pid).children(recursive=True)
    try:
        assert sum("resume" in child.cmdline() for child in started) == 1
        process.send_signal(number)
        message = process.communicate()[1]
        stopped = number == signal.SIGTERM
        assert process.returncode == (INTERRUPTED if stopped else -number)
        assert ("finished work is stored in out: the same command continues" in message) == stopped
        assert psutil.wait_procs(started, 60)[1] == []
        assert not stopped or run.read_state().progress.games > 0
    finally:
        for child in started:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()


@pytest.mark.parametrize("change", ["code", "option"])
def test_runs_of_others_are_kept_and_refused(change, once, tmp_path, monkeypatch, train_py):
    """Those of other code, and of an edited file."""
    out = tmp_path / "out"
    shutil.copytree(once / "out", out)
    shutil.copy(once / "tiny.toml", tmp_path)
    if change == "code":
        monkeypatch.setattr(sweep, "make_provenance", lambda: {"code": "other"})
    else:
        (tmp_path / "tiny.toml").write_text(SWEEP.replace("60", "40"))
    results = {
        path: path.read_bytes()
        for path in tmp_path.rglob("*")
        if path.is_file() and path.suffix != ".jsonl"
    }
    train_py.error(sweep_line(tmp_path / "tiny.toml"))
    assert {path: path.read_bytes() for path in results} == results


OWN = """
[[runs]]
learner = "favourite:FavouriteConfig"
[[runs]]
agent = "win-or-block"
[[runs]]
agent = "corner:Corner:weight=0.5"
"""


@pytest.mark.usefixtures("at_once")
def test_own_learners_and_agents_stand_beside_the_others(tmp_path, monkeypatch, train_py):
    monkeypatch.syspath_prepend(ROOT / "examples" / "files")
    (tmp_path / "own.toml").write_text(SWEEP + OWN)
    line = sweep_line(tmp_path / "own.toml")
    assert "add --trust to run it" in train_py.error(line)
    assert not (tmp_path / "out").exists()
    monkeypatch.setenv(TRUST, "1")
    train_py(line, "--trust")
    data = read_json(tmp_path / "out" / "result.json")
    numbers = [run["numbers"] for run in data["runs"]]
    assert [len(numbers), data["table"][1]["seeds"]] == [4, 1]
    assert numbers[2]["exploitability"] == exploitability(Game(), "win-or-block")
    assert ["cpu_s" in row for row in numbers] == [True, True, False, False]
    monkeypatch.setattr(sweep, "policy_identity", lambda spec: "edited")
    assert "has other settings, versions or code" in train_py.error(line, "--trust")


def test_the_opponent_of_an_agent_runs_no_code(monkeypatch):
    monkeypatch.setenv(TRUST, "0")
    unit = {"agent": "win-or-block", "game": Game().to_dict(), "opponent": "uuid:uuid4"}
    with pytest.raises(ValueError, match="'uuid:uuid4' was read from a file"):
        sweep.train_unit(None, {}, unit)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ('agent = "randm"', "did you mean 'random'"),
        ('agent = "expectiminimax:depth=1,leaf=(uuid:uuid4)"', "'uuid:uuid4' was read from a file"),
        ('phantom = "classic"\nsize = "3x4"', "choose a board of up to 9"),
    ],
)
def test_a_sweep_of_unknown_agents_is_refused(tmp_path, train_py, monkeypatch, row, message):
    monkeypatch.setenv(TRUST, "0")
    (tmp_path / "a.toml").write_text(f"[[runs]]\n{row}\n")
    assert message in train_py.error(sweep_line(tmp_path / "a.toml"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("row", "game"),
    [
        ("overlines = false", Game(overlines=False)),
        ("no-overlines = true\nmisere = true\ngravity = false", Game(overlines=False, misere=True)),
        ("game = 'connect-four'\ngravity = false", Game(6, 7, 4)),
        ("game = 'connect-four'\nsize = 5", Game.of_size(5, gravity=True)),
    ],
)
def test_rules_of_a_sweep_are_those_of_its_file(row, game, tmp_path):
    """Of a learner and of an agent, also where a rule is given that holds by default."""
    path = tmp_path / "rules.toml"
    path.write_text(
        f"fixed = {{opponent = 'table'}}\n[[runs]]\n{row}\n[[runs]]\n{row}\nagent = 'random'"
    )
    learner, agent = sweep.sweep_units(path, *sweep.sweeps.read_sweep(path))
    assert learner["config"]["game"] == agent["game"] == game.to_dict()
    assert agent["opponent"] == "table"


@pytest.mark.parametrize(
    ("row", "lines"), [("lines = false", False), ("no-lines = true", False), ("lines = true", True)]
)
def test_settings_that_are_on_by_default_are_turned_off(row, lines, tmp_path):
    path = tmp_path / "settings.toml"
    path.write_text(f"[[runs]]\nlearner = 'alpha-zero'\n{row}")
    (unit,) = sweep.sweep_units(path, *sweep.sweeps.read_sweep(path))
    assert unit["config"]["settings"]["lines"] is lines


@pytest.mark.usefixtures("at_once")
def test_agents_play_by_the_rules_of_the_learners(tmp_path, train_py):
    fixed = 'fixed = {games = 50, size = 2, win-length = 2, phantom = "classic"}'
    (tmp_path / "a.toml").write_text(
        f'{fixed}\n[[runs]]\nlearner = "q-learning"\n[[runs]]\nagent = "random"\n'
    )
    train_py(sweep_line(tmp_path / "a.toml"))
    learner, agent = read_json(tmp_path / "out" / "result.json")["runs"]
    reference = strength(
        PhantomGame(Game(2, 2, 2), "classic"), "random", ["random", "win-or-block"]
    )
    assert agent["numbers"]["exploitability"] == reference.exploitability
    expected = {f"score_against_{name}": result.score for name, result in reference.results.items()}
    assert expected.items() <= agent["numbers"].items()
    assert expected.keys() < learner["numbers"].keys()
