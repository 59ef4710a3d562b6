"""Public names: every package lists them, documents and examples import no others, and no test uses
a private one.
"""

import ast
import importlib
import inspect
import re
import textwrap

import pytest
from documents import ROOT, blocks, pages

pytestmark = pytest.mark.more

TOPS = ("ttt_envs", "baselines", "learners", "ttt_eval", "ttt_apps", "studies")
PACKAGES = sorted(
    ".".join(file.parent.relative_to(ROOT).parts)
    for top in TOPS
    for file in (ROOT / top).rglob("__init__.py")
)
ARGUMENTS = re.compile(r"^Args:\n((?: {4}.*\n?|\n)+)", re.MULTILINE)
DOCUMENTED = re.compile(r"^ {4}(\*{0,2}\w+(?:, \*{0,2}\w+)*):", re.MULTILINE)
STALE = {"QTable": {"which"}, "NetEvaluator": {"which"}}
"""to be called ``kind`` with the next trainings: the leaderboard names the hash of this code"""
PYTHON = [
    (page, block.text) for page in pages() for block in blocks(page) if block.kind == "python"
]
PYTHON += [(file, file.read_text()) for file in sorted((ROOT / "examples").rglob("*.py"))]


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_lists_at_most_25_names_that_exist(package):
    module = importlib.import_module(package)
    assert len(set(module.__all__)) == len(module.__all__) <= 25
    assert [
        name for name in module.__all__ if not hasattr(module, name) or name.startswith("_")
    ] == []
    assert set(module.__all__) <= set(dir(module))
    assert not hasattr(module, "nothing")


def test_documents_and_examples_import_public_names_only():
    """A name is public if its package lists it, or its module, which has a list then."""
    imported = set()
    for place, text in PYTHON:
        for node in ast.walk(ast.parse(textwrap.dedent(text))):
            if isinstance(node, ast.ImportFrom) and node.module.partition(".")[0] in TOPS:
                imported |= {(place.name, node.module, alias.name) for alias in node.names}
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names if alias.name.partition(".")[0] in TOPS]
                assert set(names) <= set(TOPS), f"{place.name} imports {names}"
    lists = {module: listed_names(module) for _, module, _ in imported}
    assert sorted(what for what in imported if what[2] not in lists[what[1]]) == []
    assert len(imported) > 100


def listed_names(module):
    """The list of a module, which may need a library that is not installed."""
    path = ROOT.joinpath(*module.split("."))
    if path.is_dir():
        return importlib.import_module(module).__all__
    for node in ast.parse(path.with_suffix(".py").read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return ast.literal_eval(node.value)
    return []


def test_no_test_patches_a_private_name():
    """That none uses one is for ruff: PLC2701 and SLF001."""
    patched = re.compile(r'(setattr|patch|object)\([^"()]*"([\w.]*\.)?_[a-z]')
    files = (ROOT / "tests").rglob("*.py")
    assert [file.name for file in files if patched.search(file.read_text())] == []


def test_docstrings_document_arguments_that_exist():
    files = [file for top in (*TOPS, "tools") for file in sorted((ROOT / top).rglob("*.py"))]
    wrong = {}
    for node in (node for file in files for node in ast.walk(ast.parse(file.read_text()))):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            section = ARGUMENTS.search(inspect.cleandoc(ast.get_docstring(node) or ""))
            lists = DOCUMENTED.findall(section[1]) if section else []
            documented = {name.lstrip("*") for names in lists for name in names.split(", ")}
            if documented - arguments_of(node):
                wrong[node.name] = documented - arguments_of(node)
    assert wrong == STALE


def arguments_of(node):
    """The arguments of a function, or of the methods of a class, and its fields."""
    arguments = {child.arg for child in ast.walk(node) if isinstance(child, ast.arg)}
    fields = [child.target for child in ast.walk(node) if isinstance(child, ast.AnnAssign)]
    return arguments | {target.id for target in fields if isinstance(target, ast.Name)}
