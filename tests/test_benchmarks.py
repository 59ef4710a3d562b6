"""Quick forms of benchmarks."""

import json

import pytest
from processes import ROOT, run_python


def bench(*arguments, code=0):
    """A benchmark as a command; it keeps itself on one core, and so has a process of its own."""
    return run_python(*arguments, cwd=ROOT / "benchmarks", code=code)


def found_by(tmp_path, *arguments):
    """The numbers that a benchmark writes."""
    bench(*arguments, "--json", tmp_path / "found.json")
    return json.loads((tmp_path / "found.json").read_text())


@pytest.mark.slow
@pytest.mark.needs("tensorflow")
def test_quick_form_of_alpha_zero(tmp_path):
    found = found_by(tmp_path, "alpha_zero.py", "--quick", "--only", "3x3,move-3x3")
    [[learned]] = found["trainings"]
    for marks in learned["marks"]:
        assert [mark["games"] for mark in marks] == list(range(256, 2_049, 256))
        assert 0 <= marks[-1]["exploitability"] < 0.3
    [thought] = found["moves"]
    assert all(ms["median"] > 0 for ms in thought["ms"])


def test_startup_cost_is_measured_and_other_rows_are_refused(tmp_path):
    rows = found_by(tmp_path, "start.py", "--rounds", "1", "--only", "import")["rows"]
    assert set(rows) == {"import ttt_envs"}
    assert bench("scaling.py", "--only", "longer", code=None).returncode != 0


@pytest.mark.slow
def test_quick_form_of_scaling(tmp_path):
    found = found_by(
        tmp_path, "scaling.py", "--quick", "--only", "batch,cells,threads", "--pictures", tmp_path / "pictures"
    )
    assert all(point["per_second"] > 0 and point["memory"] > 0 for part in ("batch", "cells") for point in found[part])
    assert all(row["ratio"]["2"][1] > 0 for row in found["threads"])
    assert {path.name for path in (tmp_path / "pictures").glob("*.svg")} >= {"scaling-batch.svg", "scaling-cells.svg"}


@pytest.mark.slow
@pytest.mark.needs("torch", "stable_baselines3", "sb3_contrib")
def test_quick_form_of_sb3_vec_env(tmp_path):
    only = "step,ppo-4-epochs,ppo-processes,dqn"
    rows = found_by(tmp_path, "sb3_vec_env.py", "--quick", "--only", only)["rows"]
    assert [row["name"] for row in rows] == only.split(",")
    assert all(row["our_side"]["low"] > 0 and row["peer_side"]["low"] > 0 for row in rows)
