"""Runs that are killed, stopped, resumed, damaged or completed: they end as runs that were never
interrupted.
"""

import errno
import os
import shutil
import signal
import sys

import numpy as np
import pytest
import tiny
from commands import words_of
from json_files import read_json, rows_of
from kills import train_until
from plain import assert_same_runs
from processes import ROOT, start_until

from learners import LEARNERS
from learners.checkpoint import load_checkpoint, save_checkpoint
from ttt_apps.training import command as train
from ttt_envs.core.files import write_json
from ttt_eval.reports import runs as run_report
from ttt_eval.runs.run_files import CHECKPOINT, EVENTS, METRICS, REPORT, RunDirectory

pytestmark = pytest.mark.more

OPPONENTS = ["random", "win-or-block", "self", "pool:every=40,size=3"]
RESUMABLE = [(name, opponent) for name in (*tiny.OURS, "ppo") for opponent in OPPONENTS]
RESUMABLE += [("alpha-zero", "self"), ("exact-pg", "self")]
"""learners that are resumed at any step, and their opponents"""
NETS = {"alpha-zero": tiny.OPTIONS["alpha-zero"][1:], "q-net": ()}
"""nets, which start in seconds, with settings that make them fast"""
GAMES = {"value-net": 6, "q-net": 24, "alpha-zero": 24}


def options(name, out, opponent="random", games=600, **more):
    """A run on 3 x 3 without a report."""
    settings = {
        "games": games,
        "batch": 16,
        "log-every": 50,
        "skip-chance": 0.25,
        "seat": "random",
        "exact-every": 0,
    }
    line = f"--learner {name} --opponent {opponent} --no-report --out {out}"
    words = (f"--{key}={value}" for key, value in {**settings, **more}.items())
    return words_of(line, *NETS.get(name, ()), *words)


def arguments(name, folder, *more):
    """A tiny run with metrics, checkpoints and a report."""
    games = GAMES.get(name, 60)
    line = f"--games={games} --quiet --out {folder}"
    board = "--size=2x3 --win-length=2 --skip-chance=0.25 --batch=4"
    # no checkpoint depends on the time
    every = f"--log-every={games // 3} --checkpoint-games={games // 2} --checkpoint-seconds=1e9"
    return words_of("--learner", name, *tiny.OPTIONS[name], line, board, every, *more)


def resume(folder, *more):
    return words_of("resume --quiet", folder, *more)


# --------------------------------------------------------------------------------------------------
# Killed and stopped


@pytest.fixture(scope="module")
def curves_drawn_once():
    """Curves of the same numbers are drawn once: drawing is most of what a tiny run costs."""
    drawn = {}
    draw = run_report.parts.curves_figure

    def embed(*arguments, **options):
        key = repr((arguments, options))
        if key not in drawn:
            drawn[key] = draw(*arguments, **options)
        return drawn[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_report.parts, "curves_figure", embed)
        yield


@pytest.mark.parametrize(
    ("name", "opponent"),
    [
        tiny.case(
            name,
            name,
            opponent,
            id=f"{name}-{opponent}",
            slow=name in NETS and "pool" not in opponent,
        )
        for name, opponent in RESUMABLE
    ],
)
def test_run_killed_several_times(name, opponent, tmp_path, train_py):
    games = 130 if name in NETS else 200
    whole = tmp_path / "whole"
    folder = tmp_path / "killed"
    every_step = {"checkpoint-games": 1, "checkpoint-seconds": 1e9}
    if name in ("exact-pg", "ppo"):  # they list all positions whenever they start
        every_step |= {"size": "2x3", "win-length": 2}
    if name not in ("alpha-zero", "exact-pg"):  # which have no openings of others
        every_step |= {"openings": "random:1-3:0.5"}
    changes = train_until(None, whole, options(name, whole, opponent, games, **every_step))
    words = options(name, folder, opponent, games, **every_step)
    kills = (
        (changes * 2 // 5, changes // 3)
        if name in NETS
        else (changes * 2 // 5, changes // 4, changes // 5)
    )
    for kill_at in kills:
        train_until(kill_at, folder, words)
        words = resume(folder)
    train_py(*words)
    assert len(read_json(folder / "config.json")["resumed"]) == len(kills)
    assert_same_runs(whole, folder)


@pytest.mark.usefixtures("curves_drawn_once")
@pytest.mark.parametrize(
    ("name", "step"),
    [
        *(tiny.case(name, name, 1, slow=name != "q-learning") for name in LEARNERS),
        *(
            tiny.case(name, name, 3, id=f"{name}-every-third")
            for name in ("exact-pg", "sb3-dqn", "value-net")
        ),
    ],
)
def test_run_killed_at_any_change_of_a_file(name, step, tmp_path):
    """By default, learners with loops of their own are killed at every third change."""
    whole = tmp_path / "whole"
    folder = tmp_path / "killed"
    changes = train_until(None, whole, arguments(name, whole))
    assert RunDirectory(whole).read_state().is_trained()
    assert not RunDirectory(whole).read_state().missing
    for kill_at in range(0, changes, step):
        shutil.rmtree(folder, ignore_errors=True)
        train_until(kill_at, folder, arguments(name, folder))
        train.main(resume(folder) if (folder / "config.json").exists() else arguments(name, folder))
        assert_same_runs(whole, folder)


@pytest.mark.usefixtures("curves_drawn_once")
def test_run_killed_while_it_is_extended(tmp_path, train_py):
    part, whole, folder = (tmp_path / each for each in ("part", "whole", "killed"))
    train_py(*arguments("q-learning", part))
    more = "--games=68"
    shutil.copytree(part, whole)
    for kill_at in range(train_until(None, whole, resume(whole, more))):
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(part, folder)
        train_until(kill_at, folder, resume(folder, more))
        train_py(*resume(folder, more))
        assert_same_runs(whole, folder)


@pytest.mark.usefixtures("curves_drawn_once")
def test_run_killed_while_it_replaces_another(tmp_path, train_py):
    old, new, folder = (tmp_path / each for each in ("old", "new", "killed"))
    train_py(*arguments("q-learning", old))
    train_py(*arguments("q-learning", new, "--seed=1"))
    shutil.copytree(old, folder)
    words = arguments("q-learning", folder, "--seed=1", "--overwrite")
    seeds = set()
    for kill_at in range(train_until(None, folder, words)):
        shutil.rmtree(folder)
        shutil.copytree(old, folder)
        train_until(kill_at, folder, words)
        config = folder / "config.json"
        seed = read_json(config)["seed"] if config.exists() else None
        seeds.add(seed)
        if seed == 0:
            train_py(*resume(folder))
            assert_same_runs(old, folder)
        train.main(resume(folder) if seed == 1 else words)
        assert_same_runs(new, folder)
    assert seeds == {0, 1, None}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_signal_stops_with_a_checkpoint(number, tmp_path):
    arguments = options("q-learning", tmp_path / "stopped", games=10**9)
    metrics = tmp_path / "stopped" / METRICS
    process = start_until(metrics, sys.executable, ROOT / "train.py", *arguments)
    process.send_signal(number)
    message = process.communicate()[1]
    assert process.returncode == 130
    assert f"continue with train.py resume {tmp_path / 'stopped'}" in " ".join(message.split())
    _, steps, *_ = load_checkpoint(tmp_path / "stopped")["training"]["counts"]
    assert steps > 0
    assert (tmp_path / "stopped" / "cost.json").exists()


# --------------------------------------------------------------------------------------------------
# Resumed and damaged


def test_finished_run_is_extended_and_never_shortened(tmp_path, train_py):
    assert "is no run" in train_py.error("resume", tmp_path / "run")
    train_py(*options("q-learning", tmp_path / "run", games=300, batch=400))
    assert "--games 200" in train_py.error("resume", tmp_path / "run", "--games 200")
    assert "--overwrite" in train_py.error(*options("q-learning", tmp_path / "run"))
    train_py("resume", tmp_path / "run", "--games 500")
    rows = rows_of(tmp_path / "run" / "metrics.jsonl")
    assert rows[-1]["games"] == rows[-1]["wins"] + rows[-1]["draws"] + rows[-1]["losses"] == 500
    train_py("resume", tmp_path / "run")  # does nothing
    assert rows_of(tmp_path / "run" / "metrics.jsonl") == rows


# --------------------------------------------------------------------------------------------------
# Files of a finished run


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished run, to be read only."""
    run = tmp_path_factory.mktemp("finished") / "run"
    train.main(arguments("q-learning", run))
    return run


@pytest.fixture
def run(finished, tmp_path):
    """A copy of it."""
    return shutil.copytree(finished, tmp_path / "run")


def without(finished, folder, *names):
    shutil.copytree(finished, folder)
    for name in names:
        (folder / name).unlink()
    return folder


def test_derived_files_are_regenerated(finished, tmp_path, train_py):
    pytest.importorskip("tensorboard")
    for names in ([REPORT], [EVENTS]):
        run = without(finished, tmp_path / names[0], *names)
        train_py("resume", run)
        assert_same_runs(finished, run)
    assert "nothing was done. --games N plays more" in train_py("resume", run)


@pytest.mark.skipif(
    not os.path.isdir("/proc/self/fd"), reason="a descriptor does not tell its path"
)
def test_full_disk_keeps_the_last_checkpoint(finished, run, monkeypatch, train_py):
    def full(descriptor):
        if "checkpoint" in os.readlink(f"/proc/self/fd/{descriptor}"):
            raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        assert "No space left" in train_py.error("resume", run, "--games=80")
    assert not list(run.glob("*.tmp"))
    assert (run / "checkpoint.npz").read_bytes() == (finished / "checkpoint.npz").read_bytes()


def test_resuming_leaves_files_alone_that_share_a_hard_link(finished, run, tmp_path, train_py):
    names = [name for name in (METRICS, EVENTS) if (run / name).exists()]
    for name in names:
        os.link(run / name, tmp_path / name)
    train_py("resume", run, "--games=80")
    for name in names:
        assert (
            (tmp_path / name).read_bytes()
            == (finished / name).read_bytes()
            != (run / name).read_bytes()
        )


def test_missing_and_cut_files_of_training_are_reported(finished, tmp_path, train_py):
    for name in ("metrics.jsonl", "cost.json"):
        run = without(finished, tmp_path / name, name)
        assert f"{run} lacks {name}" in train_py.error("resume", run)
    run = without(finished, tmp_path / "cut")
    (run / "metrics.jsonl").write_bytes((finished / "metrics.jsonl").read_bytes()[:-1])
    assert f"{run} lacks metrics.jsonl" in train_py.error("resume", run)


def test_report_is_regenerated_byte_for_byte_of_finished_runs_alone(
    finished, tmp_path, evaluate_py
):
    good, begun = (without(finished, tmp_path / name, REPORT) for name in ("good", "begun"))
    config = read_json(begun / "config.json")
    write_json(begun / "config.json", {**config, "games": 100})
    assert "60 of its 100 games are played" in evaluate_py.error("report", good, begun)
    assert not (good / REPORT).exists()
    evaluate_py("report", good)
    assert_same_runs(finished, good)
    (begun / "checkpoint.npz").unlink()
    assert "it has no checkpoint yet" in evaluate_py.error("report", begun)


@pytest.mark.parametrize(
    ("part", "array", "value"),
    [
        ("training", "decisions.action", 77),
        ("training", "board.symmetry", -2),
        ("learner", "table.values", np.nan),
    ],
)
def test_arrays_out_of_range_are_refused_by_file_and_name(
    part, array, value, run, evaluate_py, train_py
):
    parts = load_checkpoint(run)
    parts[part][array][:1] = value
    save_checkpoint(run, **parts)
    message = train_py.error("resume", run, "--games=80")
    assert f"{run / CHECKPOINT}: " in message
    assert f" needs {array} as numbers from " in message
    if part == "learner":
        assert f"{run / CHECKPOINT}: " in evaluate_py.error(f"exploitability run:{run}")


def test_a_table_that_fills_its_memory_is_played_reported_and_resumed(
    tmp_path, evaluate_py, train_py
):
    """Its 2 ** 14 slots take 2.6 of 3 MiB; twice as many would not fit."""
    run = tmp_path / "run"
    line = "--opponent=self --symmetries=none --memory=0.0029 --batch=16 --exact-every=0"
    train_py(line, "--no-report --games=20000 --out", run)
    assert len(load_checkpoint(run)["learner"]["table.keys"]) > 6_000
    train_py("resume", run, "--games=20100")
    evaluate_py(f"exploitability run:{run}")
    message = train_py.error("--memory=1e-7 --games=100 --out", tmp_path / "small")
    assert "may take 0.000102 MiB: give more with memory=" in message


@pytest.mark.needs("torch", "stable_baselines3")
def test_learner_without_stored_state_cannot_be_extended(tmp_path, train_py):
    run = tiny.train_run("sb3-dqn", tmp_path / "run")
    assert "cannot continue to 90 games" in train_py.error("resume", run, "--games=90")
    assert train_py("resume", run).endswith(" games are played: nothing was done.\n")


# --------------------------------------------------------------------------------------------------
# Refused


def test_a_refused_run_leaves_no_folder_and_replaces_no_run(finished, run, tmp_path, train_py):
    line = "--size=7 --skip-chance=0.1 --games=20 --exact-every=1 --out"
    assert "not measured exactly: 7 x 7" in train_py.error(line, tmp_path / "runs" / "large")
    assert not (tmp_path / "runs" / "large").exists()
    train_py(
        *arguments("q-learning", without(finished, tmp_path / "a", CHECKPOINT, METRICS))
    )  # it has stored nothing
    assert_same_runs(finished, tmp_path / "a")
    train_py.error("--overwrite", line, run)
    assert_same_runs(finished, run)
