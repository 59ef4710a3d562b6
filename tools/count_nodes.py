"""Prints the size of the code and its limits: ``python tools/count_nodes.py``, a part of ``make
lint``.

The unit is the node of the syntax tree, without docstrings, type annotations, imports and
expression contexts: line breaks, comments, types and longer names are free, so packed code is not
smaller. The library is every Python file that is not in tests, speed, examples or contrib, also the
scripts in ``docs``, ``tools`` and the root.
"""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

LIMITS = {"library": 229_450, "tests": 177_000}
"""Maximum number of nodes, with room for a small feature. Try to pay for a new one by making two
ideas one; a change that needs more raises its limit here, in the same commit, whose body says why.
"""
ANNOTATIONS = {"annotation", "returns", "type_comment", "type_params"}
"""fields of nodes that hold types"""
FREE = (ast.Import, ast.ImportFrom, ast.expr_context)


def is_docstring(node: ast.AST) -> bool:
    """Return whether a node is a string that stands alone as a statement."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def walk(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes below a node that count."""
    for field, value in ast.iter_fields(node):
        if field in ANNOTATIONS:
            continue
        for child in value if isinstance(value, list) else [value]:
            if (
                isinstance(child, ast.AST)
                and not isinstance(child, FREE)
                and not is_docstring(child)
            ):
                yield child
                yield from walk(child)


def count_nodes(source: str) -> int:
    """Return the number of nodes of a Python source that count."""
    return sum(1 for _ in walk(ast.parse(source)))


def main(root: Path, limits: dict[str, int]) -> int:
    """Print the sizes of the files that git tracks or would add, and what to do where one is above
    its limit; then return 1, else 0.
    """
    command = [
        "git",
        "ls-files",
        "-co",
        "--exclude-standard",
        "*.py",
        ":!speed",
        ":!examples",
        ":!contrib",
    ]
    names = subprocess.run(
        command, cwd=root, capture_output=True, text=True, check=True
    ).stdout.split()
    sizes = dict.fromkeys(limits, 0)
    for path in filter(Path.exists, (root / name for name in names)):
        part = "tests" if path.is_relative_to(root / "tests") else "library"
        sizes[part] += count_nodes(path.read_text("utf-8"))
    for part, limit in limits.items():
        print(f"{part}: {sizes[part]:_} nodes of the syntax tree, limit {limit:_}")
        if sizes[part] > limit:
            print(
                f"the size of {part} exceeds its limit: make two ideas one, or raise it in LIMITS "
                "of tools/count_nodes.py in the same commit, whose body says why",
                file=sys.stderr,
            )
    return int(any(sizes[part] > limit for part, limit in limits.items()))


if __name__ == "__main__":
    sys.exit(main(Path(__file__).resolve().parents[1], LIMITS))
