"""Code blocks of the documents run as printed, from a fresh shell, page by page."""

import importlib.util
import itertools
import re
import shlex

import pytest
from documents import ROOT, Shell, blocks, pages
from make_environment_table import PAGE, TABLE, argument_table

from learners import LEARNERS
from ttt_apps.evaluate import COMMANDS

pytestmark = pytest.mark.more

PAGES = pages()
QUICK = ("README.md", "CONTRIBUTING.md", "docs/tutorial.md")
"""Pages whose blocks run by default, except for slow ones."""
POSIX = {
    *(
        ("README.md", command)
        for command in ("make demo", "make test", "source .venv/bin/activate")
    ),
    ("docs/gomocup.md", "examples/files/pbrain-ttt --input examples/files/turns.txt"),
    ("docs/install.md", "sh tools/warm_up.sh"),
}
"""(page, command) of commands for POSIX shells alone; the page says so, or has another command next
to it.
"""


def name_of(page):
    return str(page.relative_to(ROOT))


def test_the_readme_names_the_two_commands_first():
    first = next(block for block in blocks(ROOT / "README.md"))
    assert [line.split("#")[0].strip() for line in first.text.splitlines()] == [
        "make demo",
        "make test",
    ]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_blocks_have_a_language_show_files_of_the_checkout_and_are_the_same_in_every_shell(page):
    """Bash, zsh and PowerShell read commands alike: no pipes, variables, here-documents or lines in
    several parts.
    """
    for block in blocks(page):
        place = f"{name_of(page)}:{block.line}"
        assert block.kind in (
            ("python", "text", "toml") if block.file else ("sh", "python", "text")
        ), place
        assert not block.file or (ROOT / block.file).read_text() == block.text, place
        for line in block.text.splitlines() if block.kind == "sh" else ():
            command = line.partition(" #")[0].rstrip()
            is_plain = re.fullmatch(r"(python|jupytext) [^|<>;&$`\\\n]*", command)
            assert is_plain or (name_of(page), command) in POSIX, f"{place}: {line}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_named_commands_and_learners_exist(page):
    for script, remainder in re.findall(
        r"python (train|evaluate)\.py ([^`\n|]*)", page.read_text()
    ):
        words = shlex.split(remainder.replace("'", " ").removesuffix("\\"), comments=True)
        if script == "evaluate" and words and words[0].isidentifier() and words[0].islower():
            assert words[0] in COMMANDS
        for option, value in itertools.pairwise(words):
            assert option != "--learner" or value in LEARNERS or value == "NAME" or ":" in value, (
                value
            )


def test_generated_tables_and_files_of_pages_are_those_of_the_checkout():
    assert TABLE.findall(PAGE.read_text()) == [argument_table()]
    files = {
        f"examples/files/{path.name}"
        for path in (ROOT / "examples" / "files").iterdir()
        if path.is_file()
    }
    text = "\n".join(page.read_text() for page in PAGES)
    assert {file for file in files if file not in text} == set()


@pytest.mark.parametrize(
    "page",
    [
        page if name_of(page) in QUICK else pytest.param(page, marks=pytest.mark.slow)
        for page in PAGES
    ],
    ids=name_of,
)
def test_blocks_run(page, tmp_path, request):
    slow_too = request.config.getoption("markexpr") == "slow"
    shell = Shell(tmp_path, active=page.name != "README.md")
    missing = set()
    output = ""
    try:
        for block in blocks(page):
            if block.output:
                lines = {" ".join(line.split()) for line in output.splitlines()}
                unprinted = {
                    line for line in block.text.splitlines() if " ".join(line.split()) not in lines
                }
                assert not unprinted, f"{name_of(page)}:{block.line}: {unprinted} not in\n{output}"
            elif block.kind in ("sh", "python") and not block.file and (slow_too or not block.slow):
                absent = {name for name in block.needs if importlib.util.find_spec(name) is None}
                missing |= absent
                if not absent:
                    output = shell.run(block)
    finally:
        shell.close()
    if missing:
        pytest.skip(
            f"{' and '.join(sorted(missing))} not installed: all blocks but theirs have run"
        )


def test_a_failing_block_is_reported(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\nprint(unheard_of)\n```\n\n```sh\nfalse\n```\n")
    shell = Shell(tmp_path, active=True)
    try:
        for block, problem in zip(blocks(page), ("unheard_of", "printed"), strict=True):
            with pytest.raises(AssertionError, match=problem):
                shell.run(block)
    finally:
        shell.close()
