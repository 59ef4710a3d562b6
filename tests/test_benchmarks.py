"""Quick forms of benchmarks."""

import pytest
from json_files import read_json
from processes import ROOT, run_python

pytestmark = pytest.mark.more


@pytest.fixture
def bench(tmp_path):
    """Run a benchmark as a command, which keeps itself on one core; return its output and its
    JSON.
    """

    def run(*words):
        file = tmp_path / "found.json"
        process_result = run_python(*words, "--json", str(file), cwd=ROOT / "speed", code=None)
        assert process_result.returncode == 0, process_result.stderr
        return process_result.stdout, read_json(file)

    return run


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "only", "parts"),
    [
        ("alpha_zero", "3x3,move-3x3,moves-16", "trainings moves"),
        ("connect_four", "stones-20,moves-20", "rows answers"),
        ("exact", "exploitability-3x3,layers-4x4-c,solve-4x4-alone", "rows alone"),
        ("learners", "q-learning", "rows"),
        ("matches", "placement", "alone"),
        ("environments", "aec,single,vector-self", ""),
        ("mcts", "mcts-3x3-move", ""),
        pytest.param(
            "sb3_vec_env", "step,ppo-4-epochs", "rows", marks=pytest.mark.needs("stable_baselines3")
        ),
    ],
)
def test_quick_form(file, only, parts, bench):
    """Every named row is measured, or skipped for want of its peer."""
    _, result = bench(f"{file}.py", "--quick", "--only", only)
    measured = {row["name"] for part in result.values() if isinstance(part, list) for row in part}
    assert measured | set(result["skipped"]) == set(only.split(","))
    assert all(result[part] for part in parts.split())


def test_unknown_rows_are_refused():
    process_result = run_python("mcts.py", "--only", "mcts", cwd=ROOT / "speed", code=None)
    assert process_result.returncode != 0
    assert "mcts-3x3-move" in process_result.stderr


def test_startup_cost_is_measured(bench):
    output, result = bench("start.py", "--rounds", "1", "--only", "import")
    assert set(result["rows"]) == {"import ttt_envs"}
    assert "<= 0.3" in output


@pytest.mark.slow
def test_quick_form_of_scaling(bench):
    _, result = bench("scaling.py", "--quick")
    assert all(
        point["per_second"] > 0 and point["memory"] > 0
        for part in ("batch", "cells")
        for point in result[part]
    )
    assert all(row["ratio"]["2"][1] > 0 for row in result["threads"])
