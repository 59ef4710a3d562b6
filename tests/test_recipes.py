"""The recipes of CONTRIBUTING.md for an opponent and a learner of the package, followed in a copy
of the checkout.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from documents import ROOT
from processes import run_program, run_python

from ttt_envs.core.jit import kernel_folder

pytestmark = pytest.mark.more

PAGE = ROOT / "CONTRIBUTING.md"
ENTRY = re.compile(r'`("\w+":\s"[\w.:]+")`\s+into\s+`(\w+)`\s+\(`([\w/.]+)`\)')
"""an entry of a registry, the registry, and its file"""


def copy_project(folder):
    """Copy the files that git tracks, as they are now."""
    names = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)


def insert(file, line, more):
    """Insert ``more`` below the only line of a file that begins with ``line``."""
    text, count = re.subn(rf"^{line}.*\n", rf"\g<0>{more}\n", file.read_text(), flags=re.M)
    assert count == 1
    file.write_text(text)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """The copy, with both recipes followed."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout, so nobody knows its files")
    folder = tmp_path_factory.mktemp("checkout")
    copy_project(folder)
    files = ROOT / "examples" / "files"
    assert "`examples/files/corner.py`" in PAGE.read_text()
    (folder / "baselines" / "corner.py").write_text((files / "corner.py").read_text())
    (folder / "learners" / "favourite.py").write_text(
        (files / "favourite.py").read_text().partition("\n\nif __name__")[0]
    )
    (folder / "docs" / "learners" / "favourite.md").write_text(
        "# Favourite\n\nPrefers cells that ended games well.\n"
    )
    insert(
        folder / "mkdocs.yml", "          - learners/index.md", "          - learners/favourite.md"
    )
    for entry, registry, file in ENTRY.findall(PAGE.read_text()):
        insert(folder / file, f"{registry}:", f"    {' '.join(entry.split())},")
    return folder


@pytest.mark.parametrize("command", ["ruff check .", "ruff format --check .", "lint-imports"])
def test_lint_accepts_the_recipes(command, checkout):
    program, *words = command.split()
    run_program(
        Path(sys.executable).parent / program, *words, cwd=checkout, PYTHONPATH=str(checkout)
    )


def test_conformance_tests_accept_the_recipes(checkout):
    choice = ("-m", "not slow", "-k", "corner or favourite or navigation")
    paths = ("tests/test_conformance.py", "tests/learners", "tests/test_site.py")
    words = ("-m", "pytest", "-rp", "-n", "0", "-p", "no:cacheprovider", *choice, *paths)
    result = run_python(
        *words, cwd=checkout, PYTHONPATH=str(checkout), NUMBA_CACHE_DIR=str(kernel_folder())
    )
    assert [
        name for name in ("[corner-", "favourite]", "navigation") if name not in result.stdout
    ] == []
