"""``evaluate.py sprt`` and ``tournament``: what they say, and that a kill at any time changes nothing."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from evaluation.matches.sprt import RESULT
from evaluation.result_store import UNITS
from ttt_apps import evaluate

ROOT = Path(__file__).parents[2]
SPRT = ["sprt", "random", "random", "--elo1", "5", "--games", "25600"]
TOURNAMENT = ["tournament", "random", "win-or-block", "mcts:simulations=2", "--games", "3200"]


def test_a_sequential_test_as_text_and_as_json(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["sprt", "win-or-block", "random", "--elo1", "50"]
    evaluate.main(words)
    shown = capsys.readouterr().out
    for said in ("A is ahead by more than 0 Elo: 50 is accepted", "LLR +", "from -2.94 to 2.94", "test of fixed size"):
        assert said in shown
    path = Path("runs", "sprt", "3x3-3-win-or-block-random", RESULT)
    assert f"written: {path}" in shown
    evaluate.main([*words, "--json"])
    data = json.loads(capsys.readouterr().out)
    assert data == json.loads(path.read_text())
    assert (data["format"], data["kind"], data["accepted"]) == (1, "sprt", "elo1")
    evaluate.main(["--quiet", "sprt", "random", "random", "--elo1", "5", "--games", "64"])
    assert "undecided between 0 and 5 Elo: allow more with --games" in capsys.readouterr().out


def test_a_tournament_as_text_and_as_json(tmp_path, capsys):
    words = ["tournament", "random", "win-or-block", "--games", "200", "--anchor", "random", "--out", str(tmp_path)]
    evaluate.main(words)
    shown = capsys.readouterr().out
    assert shown.index("1 win-or-block") < shown.index("2 random")
    assert "+0 to +0" in shown
    evaluate.main([*words, "--json"])
    data = json.loads(capsys.readouterr().out)
    assert (data["format"], data["kind"], data["anchor"]) == (1, "tournament", "random")
    cost = json.loads((tmp_path / "cost.json").read_text())
    assert cost["players"] == ["random", "win-or-block"]
    assert cost["pairings"][0]["cpu_s"] > 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["sprt", "random", "random", "--games", "7"], "--games 7 makes no pairs: "),
        (["sprt", "random", "random", "--games", "1e9"], "is more than is kept: choose up to 10,000,000"),
        (["sprt", "random", "random", "--elo0", "20"], "elo0=20 is not below elo1=20"),
        (["sprt", "random", "rndom"], "there is no policy 'rndom': did you mean 'random'?"),
        (["sprt", "random", "random", "--openings", "nowhere"], "nowhere"),
        (["tournament", "random"], "1 player makes no tournament: name two or more"),
        (["tournament", "random", "win-or-block", "random"], "random is named twice"),
        (["tournament", "random", "win-or-block", "--anchor", "optimal"], "anchor='optimal' does not play"),
    ],
)
def test_nonsense_is_told(words, says, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        evaluate.main(words)
    assert end.value.code == 2
    assert says in " ".join(capsys.readouterr().err.split())
    assert not list(tmp_path.iterdir())


def test_an_interrupt_says_how_to_go_on(tmp_path, capsys, monkeypatch):
    def stopped(*settings, **more):
        raise KeyboardInterrupt

    monkeypatch.setattr("ttt_apps.evaluate.sprt.run_sprt", stopped)
    with pytest.raises(SystemExit) as end:
        evaluate.main([*SPRT, "--out", str(tmp_path / "x")])
    assert end.value.code == 130
    assert f"what was played is kept in {tmp_path / 'x'}: the same command goes on" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.slow)])
def test_a_signal_to_stop_stops_the_workers_too(number, tmp_path):
    words = ["sprt", "random", "random", "--elo1", "0.1", "--games", "1e7", "--jobs", "2", "--out", str(tmp_path / "x")]
    command = [sys.executable, str(ROOT / "evaluate.py"), *words]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    while process.poll() is None and len(kept(tmp_path / "x")) < 3:
        time.sleep(0.01)
    workers = psutil.Process(process.pid).children(recursive=True)
    assert len(workers) >= 2
    process.send_signal(number)
    said = " ".join(process.communicate()[1].split())
    assert process.returncode == 130
    assert f"what was played is kept in {tmp_path / 'x'}: the same command goes on" in said
    assert psutil.wait_procs(workers, 60)[1] == []


@pytest.mark.slow
@pytest.mark.parametrize("words", [SPRT, TOURNAMENT], ids=["sprt", "tournament"])
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_command_that_is_killed_goes_on(words, jobs, tmp_path):
    def begin(folder, jobs):
        command = [sys.executable, str(ROOT / "evaluate.py"), "--quiet", *words, "--jobs", jobs, "--out", str(folder)]
        return subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, start_new_session=True)

    assert begin(tmp_path / "whole", "1").wait() == 0
    kills, folder = 0, tmp_path / "killed"
    for lines in (3, 20, 60):
        process = begin(folder, jobs)
        while process.poll() is None and len(kept(folder)) < lines:
            time.sleep(0.005)
        kills += process.poll() is None
        os.killpg(process.pid, signal.SIGKILL) if process.poll() is None else None
        process.wait()
    assert kills
    assert begin(folder, jobs).wait() == 0
    assert (folder / RESULT).read_bytes() == (tmp_path / "whole" / RESULT).read_bytes()


def kept(folder):
    try:
        return (folder / UNITS).read_text().splitlines()
    except FileNotFoundError:
        return []
