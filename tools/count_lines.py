"""Compares the lines of code with their limits: ``python tools/count_lines.py``, a part of ``make lint``.

A line of code holds a token of a statement; comments, docstrings and blank lines are free. The library is every Python
file that is not in tests, benchmarks or examples, also the scripts in ``docs``, ``tools`` and the root.
"""

import subprocess
import sys
import tokenize
from pathlib import Path

LIMITS = {"library": 26_064, "tests": 17_964}
"""Most lines of code. A change lowers them to what it leaves, and none raises them."""
LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def count_code_lines(path: Path) -> int:
    """Return the number of lines of code of a Python file."""
    lines, statement = set[int](), list[tokenize.TokenInfo]()
    with tokenize.open(path) as file:
        for token in tokenize.generate_tokens(file.readline):
            if token.type == tokenize.NEWLINE:
                if any(part.type != tokenize.STRING for part in statement):
                    lines.update(line for part in statement for line in range(part.start[0], part.end[0] + 1))
                statement = []
            elif token.type not in LAYOUT:
                statement.append(token)
    return len(lines)


def main(root: Path, limits: dict[str, int]) -> int:
    """Print the counts of the files that git tracks or would add; return 1 if one is above its limit, else 0."""
    command = ["git", "ls-files", "-co", "--exclude-standard", "*.py", ":!benchmarks", ":!examples"]
    names = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout.split()
    counts = {"library": 0, "tests": 0}
    for name in filter(lambda name: (root / name).exists(), names):
        counts["tests" if name.startswith("tests/") else "library"] += count_code_lines(root / name)
    for part, limit in limits.items():
        excess = counts[part] - limit
        advice = (
            "remove code, in the files of the change or elsewhere" if excess > 0 else "lower the limit to the count"
        )
        print(f"{part}: {counts[part]:_} lines of code, limit {limit:_}{f': {advice}' * bool(excess)}")
    return int(any(counts[part] > limit for part, limit in limits.items()))


if __name__ == "__main__":
    sys.exit(main(Path(__file__).resolve().parents[1], LIMITS))
