"""The page docs/outside.md: its figures, its adapters, and blocks made again."""

import json
import subprocess

import ask_outside
import outside
import pytest
from environments import CACHE, ROOT

from examples.checks.q_learning import train
from examples.checks.wrong_gradients import WRONG
from ttt_eval.checks import gae

BLOCKS = outside.load_blocks()
RESULTS = {name: json.loads((outside.RESULTS / f"{name}.json").read_text()) for name in BLOCKS}
MAX_ADAPTER_LINES = 15


def test_the_page_has_the_stored_figures():
    assert outside.PAGE.read_text() == outside.render_page()


@pytest.mark.parametrize("name", BLOCKS)
def test_a_fault_was_read_and_is_shown_twice(name):
    block = BLOCKS[name]
    result = RESULTS[name]
    lines = [line for line in outside.show_adapter(block).split("\n") if line]
    assert len(lines) <= MAX_ADAPTER_LINES
    checks = result.get("checks", {})
    first = {name: checks.get(f"{name} {block['games'][0]}", {}) for name in block["functions"]}
    failed = {name: check["failed"] for name, check in first.items() if check.get("failed")}
    assert all(failed.pop(name) == ["gradient"] for name in block["biased"])
    answers = [check["answer"] for check in checks.values() if check.get("answer")]
    assert bool(failed or answers) == bool(block.get("fault"))
    if failed or answers:
        assert answers or block["kind"] != "search"
        assert block["lines"]
        assert all(result["lines"])
        assert (ROOT / "contrib" / outside.package_of(name, block) / "issue.md").exists()


@pytest.mark.parametrize("path", sorted(ROOT.glob("contrib/*/*")), ids=lambda path: path.name)
def test_what_is_offered_is_short(path):
    text = path.read_text()
    if path.suffix == ".py":
        assert len(text.splitlines()) <= 40
    else:
        assert len(text.split()) <= 150


@pytest.mark.parametrize(
    ("kind", "function", "game", "is_right", "note"),
    [
        ("learner", train, "bandit", True, "1 of 1 probes hold"),
        ("learner", lambda *_: None, "credit", True, "credit: it is not for this probe"),
        ("advantages", gae, "2x3/2", True, "GAE(0.9, 0.95); unbiased"),
        ("advantages", WRONG["sign"].function, "2x3/2", False, "opposite"),
    ],
)
def test_learners_and_advantages_are_checked(kind, function, game, is_right, note):
    result = ask_outside.run_check(function, game, {"kind": kind, "options": {}})
    assert (not result["failed"]) == is_right
    assert note in result["note"]
    assert result["cpu_s"] > 0


def without_times(result):
    """Return what is the same whenever a block is made."""
    checks = {
        kind: {name: value for name, value in check.items() if name != "cpu_s"}
        for kind, check in result["checks"].items()
    }
    return {**result, "checks": checks}


def python_of(name):
    """Return the Python of the environment of a block, or skip the test."""
    package = outside.package_of(name, BLOCKS[name])
    path = CACHE / "environments" / f"outside-{package}" / "bin" / "python"
    if not path.exists():
        pytest.skip(f"no environment of {package}: `make outside ONLY={name}` makes it")
    return path


@pytest.mark.more
def test_a_wrong_search_is_asked_again():
    result = ask_outside.run_check(ask_outside.play_first, "plain", BLOCKS["mctspy"])
    *_, note = result["answer"]
    assert note.startswith("plays ")


@pytest.mark.more
@pytest.mark.parametrize("name", ["mcts", "skrl-gae"])
def test_one_block_is_made_again(name):
    python_of(name)
    result = outside.run_block(name, BLOCKS[name])
    assert without_times(result) == without_times(RESULTS[name])


@pytest.mark.more
def test_the_test_that_is_offered_shows_the_fault():
    command = [python_of("mcts"), "-m", "unittest", "test_mcts.py"]
    done = subprocess.run(command, cwd=ROOT / "contrib" / "mcts", capture_output=True, text=True)
    assert "FAILED (failures=1)" in done.stderr
