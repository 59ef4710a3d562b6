"""``evaluate.py match`` as a sequential test and as a tournament: output and signals."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from commands import json_of, text_of
from processes import ROOT

from ttt_eval.matches.sprt import RESULT
from ttt_eval.result_store import UNITS


def test_sprt(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ("match", "win-or-block", "random", "--sprt", "0", "50")
    path = Path("runs", "sprt", "3x3-3-win-or-block-random", RESULT)
    text = text_of(capsys, *words)
    for part in ("A is ahead by more than 0 Elo: 50 is accepted", "LLR +", "from -2.94 to 2.94", "test of fixed size"):
        assert part in text
    assert f"written: {path}" in text
    data = json_of(capsys, *words)
    assert data == json.loads(path.read_text())
    assert (data["format"], data["kind"], data["accepted"]) == (1, "sprt", "elo1")
    undecided = text_of(capsys, "--quiet", "match", "random", "random", "--sprt", "0", "5", "--games", "64")
    assert "undecided between 0 and 5 Elo: allow more with --games" in undecided


def test_tournament(tmp_path, capsys):
    words = ("match", "random", "win-or-block", "table", "--games", "200", "--anchor", "random", "--out", tmp_path)
    text = text_of(capsys, *words)
    assert text.index("win-or-block") < text.index("3 random")
    assert "+0 to +0" in text
    data = json_of(capsys, *words)
    assert (data["format"], data["kind"], data["anchor"]) == (1, "tournament", "random")
    cost = json.loads((tmp_path / "cost.json").read_text())
    assert cost["players"] == ["random", "win-or-block", "table"]
    assert cost["pairings"][0]["cpu_s"] > 0


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.slow)])
def test_signal_stops_workers(number, tmp_path):
    words = ["match", "random", "random", "--sprt", "0", "0.1", "--games", "1e7", "--jobs", "2"]
    words += ["--out", str(tmp_path / "x")]
    command = [sys.executable, str(ROOT / "evaluate.py"), *words]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    while process.poll() is None and len(kept(tmp_path / "x")) < 3:
        time.sleep(0.01)
    workers = psutil.Process(process.pid).children(recursive=True)
    assert len(workers) >= 2
    process.send_signal(number)
    said = " ".join(process.communicate()[1].split())
    assert process.returncode == 130
    assert f"finished work is stored in {tmp_path / 'x'}: the same command continues" in said
    assert psutil.wait_procs(workers, 60)[1] == []


def kept(folder):
    try:
        return (folder / UNITS).read_text().splitlines()
    except FileNotFoundError:
        return []
