"""Quick forms of benchmarks."""

import json
from importlib.util import find_spec

import pytest
from processes import ROOT, run_python


def bench(*arguments):
    """A benchmark as a command; it keeps itself on one core, and so has a process of its own."""
    return run_python(*arguments, cwd=ROOT / "benchmarks", code=None)


@pytest.mark.slow
@pytest.mark.needs("tensorflow")
def test_quick_form_of_alpha_zero(tmp_path):
    done = bench("alpha_zero.py", "--quick", "--only", "3x3,move-3x3,search-16", "--json", str(tmp_path / "found.json"))
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "found.json").read_text())
    [[learned]] = found["trainings"]
    assert (learned["name"], len(learned["marks"]), len(learned["tracing"])) == ("3x3", 2, 2)
    for marks in learned["marks"]:
        assert [mark["games"] for mark in marks] == list(range(256, 2_049, 256))
        seconds = [mark["seconds"] for mark in marks]
        assert seconds == sorted(seconds)
        assert seconds[0] > 0
        assert 0 <= marks[-1]["exploitability"] < 0.3
    [thought] = found["moves"]
    assert all(ms["median"] > 0 for ms in thought["ms"])
    measured = {row["name"] for row in found["rows"]}
    assert measured | set(found["skipped"]) == {"search-16"}
    assert bool(measured) == (find_spec("mctx") is not None and find_spec("pgx") is not None)


@pytest.mark.slow
def test_slow_rows_run_only_if_named():
    code = (
        "import sys; import measuring as m; from rich.table import Table;"
        "part = m.Part('part', ('short', 'long'), lambda name, *_: name, lambda found: print(found) or Table());"
        "m.run(m.Benchmark('', (), m.rate('/s'), (), (part,), asked_for=('long',)))"
    )
    assert "['short']" in bench("-c", code).stdout
    assert "['long']" in bench("-c", code, "--only", "long").stdout
    wrong = bench("-c", code, "--only", "longer")
    assert wrong.returncode != 0
    assert "there are no rows longer: choose among short, long" in wrong.stderr


def test_startup_cost_is_measured(tmp_path):
    done = bench("start.py", "--rounds", "1", "--only", "import,board", "--json", str(tmp_path / "found.json"))
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "found.json").read_text())["rows"]
    assert set(rows) == {"import ttt_envs", "explorer: board"}
    [[cold, warm]] = rows["explorer: board"]
    assert cold > 0
    assert warm > 0
    assert "<= 0.3" in done.stdout


def test_quick_form_of_scaling(tmp_path):
    words = ("--json", str(tmp_path / "found.json"), "--pictures", str(tmp_path / "pictures"))
    done = bench("scaling.py", "--quick", "--only", "batch,cells", *words)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "found.json").read_text())
    assert all(point["per_second"] > 0 and point["memory"] > 0 for part in ("batch", "cells") for point in found[part])
    assert {path.name for path in (tmp_path / "pictures").glob("*.svg")} >= {"scaling-batch.svg", "scaling-cells.svg"}


@pytest.mark.slow
def test_quick_form_of_scaling_with_threads(tmp_path):
    done = bench("scaling.py", "--quick", "--only", "threads", "--json", str(tmp_path / "found.json"))
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "found.json").read_text())
    for row in found["threads"]:
        assert row["ratio"]["1"] == [1, 1, 1]
        assert row["ratio"]["2"][1] > 0
    assert bench("scaling.py", "--only", "cores").returncode != 0


@pytest.mark.slow
@pytest.mark.needs("torch", "stable_baselines3", "sb3_contrib")
def test_quick_form_of_sb3_vec_env(tmp_path):
    only = "step,ppo-4-epochs,ppo-processes,dqn"
    done = bench("sb3_vec_env.py", "--quick", "--only", only, "--json", str(tmp_path / "found.json"))
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "found.json").read_text())["rows"]
    assert [row["name"] for row in rows] == only.split(",")
    assert all(row["our_side"]["low"] > 0 and row["peer_side"]["low"] > 0 for row in rows)
