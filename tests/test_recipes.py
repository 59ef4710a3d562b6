"""The recipes of CONTRIBUTING.md for an opponent, a learner and a measure of the package, followed
in a copy of the checkout.
"""

import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest
from documents import ROOT
from processes import run_program

from ttt_envs.core.jit import kernel_folder

pytestmark = pytest.mark.more

PAGE = ROOT / "CONTRIBUTING.md"
ENTRY = re.compile(r'`("\w+":\s"[\w.:]+")`\s+into\s+`(\w+)`\s+\(`([\w/.]+)`\)')
"""an entry of a registry, the registry, and its file"""
CONFORMANCE = (
    "python -m pytest -rp -n 0 -p no:cacheprovider -m 'not slow' "
    "-k 'corner or favourite or navigation' "
    "tests/test_conformance.py tests/learners tests/test_site.py"
)
MEASURING = {
    "python train.py --learner q-learning --games 2000 --out runs/new": "loss in the worse seat",
    "python evaluate.py compare runs/new --out runs/compared.html": "runs/compared.html",
    "python evaluate.py plot runs/new --y worst_seat": "worst seat",
    "python evaluate.py ladder": "mean loss",
    "python evaluate.py ladder random --json": '"worst_seat": 0.99479',
    "python evaluate.py exploitability random": "loss in the worse seat +0.994792",
}
"""commands that show the measure of the recipe, and patterns of what they print"""
COPY = "git ls-files -z | tar -c --null --ignore-failed-read --files-from - | tar -x --directory"
"""command that copies the files that git tracks, as they are now, into a folder"""
PROPERTY = '''
    @property
    def {}(self) -> float | None:
        """The larger gain."""
        return {}
'''


def insert(file, start, more):
    """Insert ``more`` after the only part of a file that is at the start of a line and matches a
    pattern.
    """
    text, count = re.subn(rf"^{start}", rf"\g<0>{more}", file.read_text(), flags=re.M)
    assert count == 1
    file.write_text(text)


def add_measure(folder):
    """Follow the recipe for a measure, with the code and the files that it names."""
    recipe = PAGE.read_text().partition("## A new measure\n")[2].partition("\n`train.py`")[0]
    code = re.findall("`([^`]+)`", " ".join(recipe.split()))
    metrics_toml, *table, metrics, field, _, axis, strength, name, _, value = code
    insert(folder / metrics_toml, "# .*\n", "\n" + "\n".join([*table, ""]))
    insert(folder / metrics, "    mean_loss: .*\n", f"    {field}\n")
    insert(folder / metrics, rf"{axis} = Literal\[", f'"{name}", ')
    insert(folder / strength, "    mean_loss: .*\n    .*\n", PROPERTY.format(name, value))


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """The copy, with the recipes followed."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout, so nobody knows its files")
    folder = tmp_path_factory.mktemp("checkout")
    run_program("sh", "-c", f"{COPY} {folder}")
    files = folder / "examples" / "files"
    assert "`examples/files/corner.py`" in PAGE.read_text()
    shutil.copy(files / "corner.py", folder / "baselines")
    shutil.copy(files / "favourite.py", folder / "learners")
    (folder / "docs" / "learners" / "favourite.md").write_text(
        "# Favourite\n\nPrefers cells that ended games well.\n"
    )
    insert(folder / "mkdocs.yml", "( +- learners/)index.md\n", r"\g<1>favourite.md\n")
    insert(folder / "docs" / "policies.md", r"\| `random` .*\n", "| `corner` | corners | |\n")
    add_measure(folder)
    for entry, registry, file in ENTRY.findall(PAGE.read_text()):
        insert(folder / file, f"{registry}:.*\n", f"    {' '.join(entry.split())},\n")
    return folder


def run_in(checkout, command):
    """Run a command there with the programs of this environment; return what it prints."""
    program, *words = shlex.split(command)
    variables = {"PYTHONPATH": str(checkout), "NUMBA_CACHE_DIR": str(kernel_folder())}
    path = Path(sys.executable).parent / program
    return run_program(path, *words, cwd=checkout, **variables).stdout


@pytest.mark.parametrize(
    "command", ["ruff check .", "ruff format --check .", "lint-imports", "mypy"]
)
def test_lint_accepts_the_recipes(command, checkout):
    run_in(checkout, command)


def test_conformance_tests_accept_the_recipes(checkout):
    output = run_in(checkout, CONFORMANCE)
    for name in ("[corner-", "favourite]", "navigation"):
        assert name in output


def test_commands_show_the_measure_of_the_recipe(checkout):
    """For random play it is 191/192, the gain of a responder who moves first."""
    for command, pattern in MEASURING.items():
        assert re.search(pattern, run_in(checkout, command)), command
    assert "loss in the worse seat" in (checkout / "runs" / "compared.html").read_text()
