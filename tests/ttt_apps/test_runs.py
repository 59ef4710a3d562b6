"""Runs that are stopped, killed, damaged, or go on."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import plain
import pytest
import tiny

from learners.checkpoint import load_checkpoint, save_checkpoint
from learners.training import ResumableTraining, make_exploration_rng, make_initial_rng
from ttt_apps import train
from ttt_apps.runs import WARM_UP_GAMES
from ttt_envs import Game

ROOT = Path(__file__).parents[2]
OPPONENTS = ["random", "win-or-block", "self", "pool:every=40,size=3"]
GOING_ON = [(name, opponent) for name in tiny.OURS for opponent in OPPONENTS] + [("alpha-zero", "self")]
"""learners that go on wherever they were stopped, and their opponents"""
SLOWER = {"alpha-zero": tiny.OPTIONS["alpha-zero"][1:], "q-net": ()}
"""nets: each start takes seconds; and settings that make them quicker"""


def options(name, out, opponent="random", games=600, **more):
    settings = {"games": games, "batch": 16, "log-every": 50, "skip-chance": 0.25, "seat": "random", **more}
    settings = {"exact-every": 0, **settings}
    words = [*SLOWER.get(name, ()), *(f"--{key}={value}" for key, value in settings.items())]
    return ["--learner", name, "--opponent", opponent, *words, "--no-report", "--out", str(out)]


class KilledError(Exception):
    """In place of a signal."""


def killed_after(steps, arguments, monkeypatch):
    """Train, and die after some steps without a chance to write anything; with None live, and tell how many it took."""
    count = 0

    def counted(step):
        def counts(self):
            nonlocal count
            count += self.games > WARM_UP_GAMES
            if steps is not None and count > steps:
                raise KilledError
            step(self)

        return counts

    with monkeypatch.context() as patch:
        for kind in ResumableTraining.__subclasses__():
            patch.setattr(kind, "step", counted(kind.step))
        with nullcontext() if steps is None else pytest.raises(KilledError):
            train.main(arguments)
    return count


@pytest.mark.parametrize(
    ("name", "opponent"),
    [
        tiny.case(name, name, opponent, id=f"{name}-{opponent}", slow=name in SLOWER and "pool" not in opponent)
        for name, opponent in GOING_ON
    ],
)
def test_a_run_that_goes_on_ends_as_if_it_had_never_stopped(name, opponent, tmp_path, monkeypatch):
    """Killed each time with what is on the disk at that step; at last when most games are over."""
    games = 130 if name in SLOWER else 200  # a step of which takes longest, and a start, too
    whole = killed_after(None, options(name, tmp_path / "whole", opponent, games=games), monkeypatch)
    folder = tmp_path / "killed"
    arguments = options(name, folder, opponent, games=games, **{"checkpoint-games": 1})
    before_the_last = {"q-net": (14,), "alpha-zero": (3, 1)}.get(name, (0, 9, 14))
    for steps in (*before_the_last, whole - sum(before_the_last) - 2):
        killed_after(steps, arguments, monkeypatch)
        arguments = ["--resume", str(folder)]
    train.main(arguments)
    assert len(json.loads((folder / "config.json").read_text())["resumed"]) >= max(2, len(before_the_last))
    plain.assert_same_runs(tmp_path / "whole", folder)


def test_what_was_measured_after_the_last_checkpoint_is_measured_again(tmp_path, monkeypatch):
    exact = {"exact-every": 120}
    train.main(options("q-learning", tmp_path / "whole", **exact))
    killed_after(60, options("q-learning", tmp_path / "killed", **exact, **{"checkpoint-games": 170}), monkeypatch)
    train.main(["--resume", str(tmp_path / "killed")])
    plain.assert_same_runs(tmp_path / "whole", tmp_path / "killed")
    rows = [json.loads(line) for line in (tmp_path / "killed" / "metrics.jsonl").read_text().splitlines()]
    assert sum("exploitability" in row for row in rows) == 5
    config = json.loads((tmp_path / "killed" / "config.json").read_text())
    assert 170 <= config["resumed"][0]["games"] < 600


@pytest.mark.parametrize(
    ("name", "kills"),
    [
        tiny.case(name, name, kills, slow=(name, kills) != ("q-learning", 1))
        for name in (*tiny.OURS, "alpha-zero")
        for kills in (1, 10)
    ],
)
def test_a_run_killed_at_any_instant_ends_as_if_it_had_never_been(name, kills, tmp_path):
    """SIGKILL after a random time since the first line of metrics, until it gets through."""
    games = {"q-net": 120, "alpha-zero": 1_000}.get(
        name, 8_000
    )  # which take a second or more after the first checkpoint
    settings = {"games": games, "checkpoint-games": games // 8, "log-every": games // 4, "batch": 4}
    arguments = options(name, tmp_path / "whole", "self", **settings)
    train.main(arguments)
    folder = tmp_path / "killed"
    first = [*arguments[:-1], str(folder)]
    rng = np.random.default_rng(kills)
    died = 0
    for _ in range(kills):
        words = ["--resume", str(folder)] if (folder / "config.json").exists() else first
        process = subprocess.Popen([sys.executable, ROOT / "train.py", *words], stderr=subprocess.DEVNULL)
        before = (folder / "checkpoint.npz").stat().st_mtime_ns if (folder / "checkpoint.npz").exists() else 0
        while process.poll() is None:  # until it has begun to learn
            if (folder / "checkpoint.npz").exists() and (folder / "checkpoint.npz").stat().st_mtime_ns > before:
                break
            time.sleep(0.01)
        time.sleep(rng.uniform(0, 0.3))
        process.kill()
        died += process.wait() == -signal.SIGKILL
    assert died >= 1
    train.main(["--resume", str(folder)])
    plain.assert_same_runs(tmp_path / "whole", folder)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_cleanly_with_a_checkpoint(number, tmp_path):
    arguments = options("q-learning", tmp_path / "stopped", games=10**9)
    process = subprocess.Popen([sys.executable, ROOT / "train.py", *arguments], stderr=subprocess.PIPE, text=True)
    metrics = tmp_path / "stopped" / "metrics.jsonl"
    while process.poll() is None and not (metrics.exists() and metrics.stat().st_size):
        time.sleep(0.05)
    process.send_signal(number)
    said = process.communicate()[1]
    assert process.returncode == 130
    assert f"go on with train.py --resume {tmp_path / 'stopped'}" in " ".join(said.split())
    counts = load_checkpoint(tmp_path / "stopped")["training"]["counts"]
    assert counts[0] == 10**9
    assert counts[3] > 0
    assert (tmp_path / "stopped" / "cost.json").exists()


def test_a_finished_run_goes_on_to_more_games(tmp_path):
    train.main(options("q-learning", tmp_path, games=300))
    train.main(["--resume", str(tmp_path), "--games", "500"])
    assert json.loads((tmp_path / "config.json").read_text())["games"] == 500
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert rows[-1]["games"] == rows[-1]["wins"] + rows[-1]["draws"] + rows[-1]["losses"] == 500
    train.main(["--resume", str(tmp_path)])  # there is nothing left to do
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == len(rows)


def refused(capsys, arguments):
    with pytest.raises(SystemExit) as end:
        train.main(arguments)
    assert end.value.code == 2
    said = capsys.readouterr().err
    assert "Traceback" not in said
    return " ".join(said.split())


def test_what_cannot_go_on_says_why(tmp_path, capsys):
    run = tmp_path / "run"
    assert "is no run" in refused(capsys, ["--resume", str(run)])
    train.main(options("q-learning", run, games=300))
    assert "--games 200 is fewer than the 300" in refused(capsys, ["--resume", str(run), "--games", "200"])
    again = refused(capsys, options("q-learning", run))
    assert f"go on with it by train.py --resume {run}" in again
    config = json.loads((run / "config.json").read_text())
    for change, said in (
        ({"batch": 8}, "or it is another training's"),
        ({"opponent": "pool"}, "lacks 'opponent."),
        ({"game": Game(4, 4, 3).to_dict()}, "another game's"),
        ({"opponent": "randon"}, "did you mean 'random'?"),
        ({"batch": "many"}, "cannot be read as the settings of a run"),
    ):
        (run / "config.json").write_text(json.dumps({**config, **change}))
        assert said in refused(capsys, ["--resume", str(run), "--games", "400"])
    (run / "config.json").write_text(json.dumps(config))
    whole = (run / "checkpoint.npz").read_bytes()
    (run / "checkpoint.npz").write_bytes(whole[: len(whole) // 2])
    assert "cannot be read as a checkpoint" in refused(capsys, ["--resume", str(run)])


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("turns.action", 10**9, "'turns.action' of the state of the training is not within 0 to 8: it is damaged"),
        ("board.cells", 3, "'board.cells' of the state of the training is not within 0 to 2"),
        ("board.outcome", -2, "is not within -1 to 5"),
        ("turns.rng", 0, "the state of the training is damaged"),
        ("counts", -(2**63), "its counts of games do not fit together"),
        ("counts", [300, 300, 0, -(2**63), 0, 0, -(2**63)], "its counts of games do not fit together"),
        ("counts", [300, 301, 0, 301, 301, 0, 0], "it has started more games than there are"),
    ],
)
def test_a_state_with_numbers_out_of_range_is_one_sentence(name, value, said, tmp_path, capsys):
    train.main(options("q-learning", tmp_path, games=300))
    parts = load_checkpoint(tmp_path)
    parts["training"][name][...] = value
    save_checkpoint(tmp_path, **parts)
    assert said in refused(capsys, ["--resume", str(tmp_path), "--games", "400"])


def test_a_full_disk_is_one_sentence_and_the_last_checkpoint_stays(tmp_path):
    arguments = options("q-learning", tmp_path, games=200_000, **{"checkpoint-games": 1_000, "log-every": 10**6})
    limit = 600_000  # bytes that a file may have, in place of a disk that is full

    def small_files():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    environment = {**os.environ, "NUMBA_DISABLE_CACHING": "1"}
    command = [sys.executable, ROOT / "train.py", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=small_files, env=environment)
    said = " ".join(done.stderr.split())
    assert done.returncode == 2
    assert "Traceback" not in said
    assert "checkpoint.npz cannot be written (File too large): the checkpoint before it is still there" in said
    assert load_checkpoint(tmp_path)["training"]["counts"][3] > 0
    assert not list(tmp_path.glob("*.tmp"))


def test_a_pool_of_nonsense_is_one_sentence(tmp_path, capsys):
    assert "pool: every=0 does not work" in refused(capsys, ["--opponent", "pool:every=0", "--out", str(tmp_path)])


def test_exploration_and_the_learner_s_own_draws_are_different_streams():
    assert make_exploration_rng(3).random() != make_initial_rng(3).random()
