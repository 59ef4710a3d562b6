"""The page docs/outside.md: its figures, its adapters, and one block made again."""

import json
import subprocess

import outside
import pytest
from environments import CACHE, ROOT

BLOCKS = outside.load_blocks()
RESULTS = {name: json.loads((outside.RESULTS / f"{name}.json").read_text()) for name in BLOCKS}
MAX_ADAPTER_LINES = 15


def test_the_page_has_the_stored_figures():
    assert outside.PAGE.read_text() == outside.render_page()


@pytest.mark.parametrize("name", BLOCKS)
def test_a_fault_was_read_and_is_shown_twice(name):
    block, result = BLOCKS[name], RESULTS[name]
    lines = [line for line in outside.show_adapter(block).split("\n") if line]
    assert len(lines) <= MAX_ADAPTER_LINES
    checks = result.get("checks", {})
    wrong = [name for name in checks if name.endswith("plain") and checks[name]["failed"]]
    answers = [check["answer"] for check in checks.values() if check["answer"]]
    assert bool(wrong or answers) == bool(block.get("fault"))
    if wrong or answers:
        assert answers
        assert block["lines"]
        assert all(result["lines"])
        assert (ROOT / "contrib" / name / "issue.md").exists()


@pytest.mark.parametrize("path", sorted(ROOT.glob("contrib/*/*")), ids=lambda path: path.name)
def test_what_is_offered_is_short(path):
    text = path.read_text()
    if path.suffix == ".py":
        assert len(text.splitlines()) <= 40
    else:
        assert len(text.split()) <= 150


@pytest.mark.more
def test_one_block_is_made_again():
    python = CACHE / "environments" / "outside-mcts" / "bin" / "python"
    if not python.exists():
        pytest.skip("no environment of mcts: `make outside ONLY=mcts` makes it")
    result = outside.run_block("mcts", BLOCKS["mcts"])
    for made in (result, RESULTS["mcts"]):
        for check in made["checks"].values():
            del check["cpu_s"]
    assert result == RESULTS["mcts"]
    command = [python, "-m", "unittest", "test_mcts.py"]
    assert subprocess.run(command, cwd=ROOT / "contrib" / "mcts", capture_output=True).returncode
