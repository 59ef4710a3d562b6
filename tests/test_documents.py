"""Code blocks of the documents run as printed, from a fresh shell, page by page."""

import itertools
import re
import shlex

import pytest
from documents import ROOT, Shell, blocks, pages

from learners import LEARNERS
from ttt_apps import evaluate
from ttt_apps.evaluate import COMMANDS
from ttt_envs.agents.specs import load_object

PAGES = pages()
QUICK = ("README.md", "CONTRIBUTING.md", "docs/tutorial.md")
"""Pages whose blocks run by default, except for slow ones."""


def name_of(page):
    return str(page.relative_to(ROOT))


def test_the_readme_names_the_two_commands_first():
    first = next(block for block in blocks(ROOT / "README.md"))
    assert [line.split("#")[0].strip() for line in first.text.splitlines()] == ["make demo", "make test"]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_block_has_a_language(page):
    for block in blocks(page):
        assert block.kind in ("sh", "python", "text"), f"{name_of(page)}:{block.line} is {block.kind or 'nothing'!r}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_named_commands_and_learners_exist(page):
    for script, rest in re.findall(r"python (train|evaluate)\.py ([^`\n|]*)", page.read_text()):
        words = shlex.split(rest.replace("'", " ").removesuffix("\\"), comments=True)
        if script == "evaluate" and words and words[0].isidentifier() and words[0].islower():
            assert words[0] in COMMANDS, f"{name_of(page)} names evaluate.py {words[0]}"
        for option, value in itertools.pairwise(words):
            if option == "--learner" and value != "NAME":
                assert value in LEARNERS, f"{name_of(page)} names the learner {value}"


@pytest.mark.parametrize(
    "page",
    [page if name_of(page) in QUICK else pytest.param(page, marks=pytest.mark.slow) for page in PAGES],
    ids=name_of,
)
def test_blocks_run(page, tmp_path, request):
    slow_too = request.config.getoption("markexpr") == "slow"
    shell = Shell(tmp_path, active=page.name != "README.md")
    try:
        for block in blocks(page):
            if block.kind in ("sh", "python") and (slow_too or not block.slow):
                shell.run(block)
    finally:
        shell.close()


def test_commands_of_slow_blocks_are_parsed_by_default(monkeypatch):
    """``make slow`` runs them."""
    commands = [
        shlex.split(line)
        for name in QUICK
        for block in blocks(ROOT / name)
        if block.slow and block.kind == "sh"
        for line in block.text.splitlines()
        if line.startswith("python evaluate.py")
    ]
    read = []
    for _, _, *words in commands:
        monkeypatch.setattr(load_object(COMMANDS[words[0]][0]), "run", lambda asked: read.append(asked))
        evaluate.main(words)
    assert len(read) == len(commands) > 0


def test_a_failing_block_is_reported(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\nnumber = 3\n```\n\n```python\nprint(number + unheard_of)\n```\n\n```sh\nfalse\n```\n")
    first, second, third = blocks(page)
    shell = Shell(tmp_path, active=True)
    try:
        shell.run(first)
        with pytest.raises(AssertionError, match="unheard_of"):
            shell.run(second)
        with pytest.raises(AssertionError, match="printed"):
            shell.run(third)
    finally:
        shell.close()
