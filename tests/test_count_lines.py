"""Lines of code and their limits: tools/count_lines.py."""

import runpy

import pytest
from documents import ROOT
from processes import run_program

SOURCE = '"""A module."""\n\n# a comment\nX = (  # a comment\n    1,\n\n    """a\n\n    b""",\n)\n"""About X."""\n'
"""six lines of code"""


@pytest.mark.parametrize(("limit", "code", "advice"), [(5, 1, ": remove"), (6, 0, ""), (7, 0, ": lower")])
def test_lines_of_code_are_compared_with_their_limits(limit, code, advice, tmp_path, capsys):
    run_program("git", "init", "--quiet", tmp_path)
    for name in ("docs/new.py", "tests/new.py", "examples/new.py"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(SOURCE)
    main = runpy.run_path(str(ROOT / "tools" / "count_lines.py"))["main"]
    assert main(tmp_path, {"library": 6, "tests": limit}) == code
    library, tests = capsys.readouterr().out.splitlines()
    assert library == "library: 6 lines of code, limit 6"
    assert tests.startswith(f"tests: 6 lines of code, limit {limit}{advice}")
