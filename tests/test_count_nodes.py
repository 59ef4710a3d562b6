"""The size of the code and its limits: tools/count_nodes.py."""

import runpy

import pytest
from documents import ROOT
from processes import run_program

pytestmark = pytest.mark.more

SOURCE = '"""A module."""\n\nimport os\n\n# a comment\nX: int = (\n    1\n)\n"""About X."""\n'
"""three nodes: an assignment, its target and its value"""
FILE = ROOT / "tools" / "count_nodes.py"
COUNT_NODES = runpy.run_path(str(FILE))


@pytest.mark.parametrize(("limit", "code"), [(2, 1), (3, 0), (4, 0)])
def test_sizes_are_compared_with_their_limits(limit, code, tmp_path, capsys):
    run_program("git", "init", "--quiet", tmp_path)
    for name in ("docs/new.py", "tests/new.py", "examples/new.py"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(SOURCE)
    assert COUNT_NODES["main"](tmp_path, {"library": 3, "tests": limit}) == code
    output = capsys.readouterr()
    library, tests = output.out.splitlines()
    assert library == "library: 3 nodes of the syntax tree, limit 3"
    assert tests == f"tests: 3 nodes of the syntax tree, limit {limit}"
    assert ("the size of tests exceeds its limit" in output.err) == bool(code)
    assert (f"LIMITS of tools/{FILE.name}" in output.err) == bool(code)


def test_layout_types_names_and_comments_are_free():
    packed = "def f(x): return g(x) if x else h(x)"
    airy = (
        "def long_name(\n    argument: int,\n) -> int:\n"
        '    """Return it."""\n    return (\n        g(argument)  # why\n'
        "        if argument\n        else h(argument)\n    )\n"
    )
    assert COUNT_NODES["count_nodes"](packed) == COUNT_NODES["count_nodes"](airy)
