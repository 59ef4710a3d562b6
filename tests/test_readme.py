"""What the README shows runs."""

import re
import shlex
from pathlib import Path

import pytest

from ttt_apps import evaluate, train

README = (Path(__file__).parents[1] / "README.md").read_text()


def test_its_first_lines_are_the_two_commands():
    lines = README.splitlines()
    assert lines[3].startswith("make demo")
    assert lines[4].startswith("make test")


@pytest.mark.parametrize("block", re.findall(r"```python\n(.*?)```", README, re.S))
def test_its_python_runs(block, capsys):
    exec(compile(block, "README.md", "exec"), {})
    assert capsys.readouterr().out


def test_its_commands_run(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    commands = re.findall(r"^python (\w+)\.py (.*)$", README, re.M)
    assert len(commands) >= 4
    for script, arguments in commands:
        few = re.sub(r"--games \d+", "--games 200", arguments)
        words = shlex.split(few) + ([] if "--games" in few or script == "evaluate" else ["--games", "200"])
        {"train": train.main, "evaluate": evaluate.main}[script](words)
        assert capsys.readouterr().out
