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
    assert len(outside.show_adapter(block).split("\n")) <= MAX_ADAPTER_LINES * 2
    wrong = [key for key, check in result.get("checks", {}).items() if check["failed"]]
    wrong = [key for key in wrong if key.endswith(" plain")]
    assert bool(wrong) == bool(block.get("fault"))
    if wrong:
        assert block["lines"]
        assert all(result["lines"])
        assert any(result["checks"][key]["answer"] for key in wrong)
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
