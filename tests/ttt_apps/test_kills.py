"""Runs killed at every change of a file: once resumed, they end as runs that were never killed."""

import json
import shutil

import pytest
import tiny
from kills import train_until
from plain import assert_same_runs

from evaluation.run_files import EVENTS, REPORT, RunDirectory
from ttt_apps import evaluate, train
from ttt_envs.core.files import write_json

LEARNERS = ["q-learning", "naive-mc", "q-net", "alpha-zero", "value-net", "sb3-dqn", "sb3-ppo", "sb3-maskable-ppo"]
GAMES = {"value-net": 6, "q-net": 24, "alpha-zero": 24}
SLOW = {"naive-mc", "q-net", "alpha-zero", "sb3-ppo", "sb3-maskable-ppo"}
"""whose every start takes seconds, or that write as another one does"""


def arguments(name, folder, *more):
    """A tiny run with lines, checkpoints and a report."""
    games = GAMES.get(name, 60)
    board = ("--size=2x3", "--win-length=2", "--skip-chance=0.25")
    # no checkpoint depends on the time
    every = ("--batch=4", f"--log-every={games // 3}", f"--checkpoint-games={games // 2}", "--checkpoint-seconds=1e9")
    words = ("--learner", name, *tiny.OPTIONS[name], f"--games={games}", *board, *every, *more, "--out", str(folder))
    return [*words, "--quiet"]


def resume(folder, *more):
    return ["--resume", str(folder), "--quiet", *more]


@pytest.mark.parametrize("name", [tiny.case(name, slow=name in SLOW) for name in LEARNERS])
def test_a_run_killed_at_any_change_of_a_file_ends_as_one_never_killed(name, tmp_path, monkeypatch):
    monkeypatch.setattr("learners.sb3.configs.SAVE_EVERY", 0.0)  # at every line, whatever the time
    whole, folder = tmp_path / "whole", tmp_path / "killed"
    changes = train_until(None, whole, arguments(name, whole))
    assert RunDirectory(whole).read_state().is_trained()
    assert not RunDirectory(whole).read_state().missing
    for kill_at in range(changes):
        shutil.rmtree(folder, ignore_errors=True)
        train_until(kill_at, folder, arguments(name, folder))
        train.main(resume(folder) if (folder / "config.json").exists() else arguments(name, folder))
        assert_same_runs(whole, folder)


def kill_each(whole, folder, begin, words, changes, finish):
    """Kill the command ``words`` at each of its changes of files, then do what is left; it must be the whole run."""
    for kill_at in range(changes):
        begin()
        train_until(kill_at, folder, words)
        finish()
        assert_same_runs(whole, folder)


@pytest.mark.parametrize("name", [tiny.case("q-learning"), tiny.case("value-net", slow=True)])
def test_a_run_killed_while_it_goes_on_to_more_games_ends_as_one_never_killed(name, tmp_path):
    begun, whole, folder = (tmp_path / each for each in ("begun", "whole", "killed"))
    train.main(arguments(name, begun))
    more = f"--games={GAMES.get(name, 60) + 8}"
    shutil.copytree(begun, whole)
    changes = train_until(None, whole, resume(whole, more))

    def begin():
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(begun, folder)

    kill_each(whole, folder, begin, resume(folder, more), changes, lambda: train.main(resume(folder, more)))


def test_a_run_killed_while_it_replaces_another_is_the_new_one_or_the_old_one(tmp_path):
    old, new, folder = (tmp_path / each for each in ("old", "new", "killed"))
    train.main(arguments("q-learning", old))
    train.main(arguments("q-learning", new, "--seed=1"))
    shutil.copytree(old, folder)
    words = arguments("q-learning", folder, "--seed=1", "--overwrite")
    changes = train_until(None, folder, words)
    assert_same_runs(new, folder)
    seen = set()

    def begin():
        shutil.rmtree(folder)
        shutil.copytree(old, folder)

    def finish():
        config = folder / "config.json"
        seed = json.loads(config.read_text())["seed"] if config.exists() else None
        seen.add(seed)
        if seed == 0:
            train.main(resume(folder))
            assert_same_runs(old, folder)
        train.main(resume(folder) if seed == 1 else words)

    kill_each(new, folder, begin, words, changes, finish)
    assert seen == {0, 1, None}


def test_a_run_killed_again_and_again_ends_as_one_never_killed(tmp_path):
    whole, folder = tmp_path / "whole", tmp_path / "killed"
    words = arguments("q-learning", whole)
    changes = train_until(None, whole, words)
    words = arguments("q-learning", folder)
    for kill_at in range(2, changes // 2, 3):
        train_until(kill_at, folder, words)
        words = resume(folder)
    train.main(words)
    assert_same_runs(whole, folder)


# ---------------------------------------------------------------------------------------------------------------------
# What a finished run contains


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished run, to be read only."""
    run = tmp_path_factory.mktemp("finished") / "run"
    train.main(arguments("q-learning", run))
    return run


def without(finished, folder, *names):
    shutil.copytree(finished, folder)
    for name in names:
        (folder / name).unlink()
    return folder


def refused(capsys, command, *words):
    with pytest.raises(SystemExit) as end:
        command([str(word) for word in words])
    assert end.value.code == 2
    return " ".join(capsys.readouterr().err.split())


def test_what_is_made_from_other_files_is_made_again(finished, tmp_path, capsys):
    pytest.importorskip("tensorboard")
    for names in ([REPORT], [EVENTS], [REPORT, EVENTS]):
        run = without(finished, tmp_path / "-".join(names), *names)
        assert RunDirectory(run).read_state().missing == tuple(name for name in (EVENTS, REPORT) if name in names)
        train.main(["--resume", str(run)])
        assert "nothing was done" not in capsys.readouterr().out
        assert_same_runs(finished, run)
        train.main(["--resume", str(run)])
        assert "is finished, all 60 games are played: nothing was done" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["metrics.jsonl", "choices.jsonl", "cost.json"])
def test_a_run_without_what_only_training_writes_says_so(finished, name, tmp_path, capsys):
    run = without(finished, tmp_path / "gone", name)
    said = refused(capsys, train.main, "--resume", run)
    assert f"{run} lacks {name}, or a part of it, which only its training writes: train anew, with --out {run}" in said
    if name != "cost.json":
        (run / name).write_bytes((finished / name).read_bytes()[:-1])
        assert f"{run} lacks {name}, or a part" in refused(capsys, train.main, "--resume", run)


def test_a_run_without_a_report_is_finished_where_none_was_asked_for(tmp_path, capsys):
    run = tiny.train_run("q-learning", tmp_path / "run")
    train.main(["--resume", str(run)])
    assert "is finished" in capsys.readouterr().out
    evaluate.main(["report", str(run)])
    assert (run / REPORT).is_file()


def test_a_report_is_made_anew_from_the_files_of_its_run_byte_for_byte(finished, tmp_path, capsys):
    runs = [without(finished, tmp_path / name, REPORT) for name in ("a", "b")]
    files = {path: path.read_bytes() for run in runs for path in run.iterdir()}
    evaluate.main(["report", *map(str, runs)])
    said = capsys.readouterr().out
    assert [f"a report to look at: {run / REPORT}" in said for run in runs] == [True, True]
    assert {path: path.read_bytes() for path in files} == files
    assert_same_runs(finished, runs[0])
    before = (finished / REPORT).read_bytes()
    evaluate.main(["report", str(finished)])
    assert (finished / REPORT).read_bytes() == before


def test_no_report_is_made_of_what_is_not_finished(finished, tmp_path, capsys):
    assert "report needs runs" in refused(capsys, evaluate.main, "report")
    assert "is no run" in refused(capsys, evaluate.main, "report", tmp_path)
    good = without(finished, tmp_path / "good", REPORT)
    run = without(finished, tmp_path / "begun", REPORT)
    config = json.loads((run / "config.json").read_text())
    write_json(run / "config.json", {**config, "games": 100})
    said = refused(capsys, evaluate.main, "report", good, run)
    assert f"{run} is not finished, 60 of its 100 games are played: go on with train.py --resume {run}" in said
    assert not (good / REPORT).exists()
    (run / "checkpoint.npz").unlink()
    assert "it has no checkpoint yet" in refused(capsys, evaluate.main, "report", run)


@pytest.mark.needs("torch", "stable_baselines3")
def test_a_learner_that_keeps_no_state_of_its_training_cannot_go_on_to_more_games(tmp_path, capsys):
    run = tiny.train_run("sb3-dqn", tmp_path / "run")
    said = refused(capsys, train.main, "--resume", run, "--games=90")
    assert "cannot go on to 90 games, because sb3-dqn trains in a loop of its own and keeps no state" in said
    train.main(["--resume", str(run)])
    said = capsys.readouterr().out
    assert "is finished, all 60 games are played: nothing was done" in said
    assert "It goes on to more" not in said
