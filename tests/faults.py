"""Measures the strength of the tests: each fault is put into a copy of the project, and its tests must fail.

    python tests/faults.py                      # all faults, some 50 minutes
    python tests/faults.py --only mcts --list   # those whose file has this name

A fault is a small mistake that somebody could make: a wrong sign, bound or seat. All are in data/faults.diff. A line
per fault says whether the tests caught it, and by which. The exit code is the number of missed faults. The project
itself is not changed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]


class Fault(NamedTuple):
    """A replacement of text in a file, and the tests that must notice it."""

    file: str
    right: str
    wrong: str
    tests: str


def read_faults(text: str) -> list[Fault]:
    """Read blocks of a line ``file: tests``, and below it each fault as a diff has it, with the right lines first."""
    faults = []
    for block in text.rstrip("\n").split("\n\n"):
        head, *lines = block.split("\n")
        file, _, tests = head.partition(": ")
        runs = ["\n".join(line[1:] for line in run) for _, run in groupby(lines, key=lambda line: line[0])]
        faults += [Fault(file, right, wrong, tests) for right, wrong in zip(runs[::2], runs[1::2], strict=True)]
    return faults


FAULTS = read_faults((ROOT / "tests" / "data" / "faults.diff").read_text("utf-8"))


def copy_project(folder: Path) -> None:
    """Copy the files that git tracks, as they are now."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)


def is_caught(fault: Fault, folder: Path) -> tuple[bool, str]:
    """Return whether the tests of a fault fail with it, and the first one that does.

    Raises:
        ValueError: the text to replace is not in the file exactly once.
    """
    file = folder / fault.file
    text = file.read_text("utf-8")
    if text.count(fault.right) != 1:
        raise ValueError(f"{fault.file} has {text.count(fault.right)} times, not once: {fault.right}")
    tests = [f"tests/{name}" for name in fault.tests.split()]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-m", "not slow", "--tb=no", "--timeout=900", *tests]
    file.write_text(text.replace(fault.right, fault.wrong), "utf-8")
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(folder)},
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        file.write_text(text, "utf-8")
    if done.returncode not in (0, 1, 2):
        raise RuntimeError(done.stdout + done.stderr)
    lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return done.returncode != 0, lines[0] if lines else ""


def main() -> int:
    """Return the number of faults that no test caught."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="", metavar="TEXT", help="faults in files with this text in their names")
    parser.add_argument("--list", action="store_true", help="list the faults and run no test")
    options = parser.parse_args()
    faults = [fault for fault in FAULTS if options.only in fault.file]
    if options.list:
        for fault in faults:
            print(f"{fault.file}\n  - {fault.right.strip()}\n  + {fault.wrong.strip()}")
        return 0
    missed = 0
    with tempfile.TemporaryDirectory() as name:
        copy_project(Path(name))
        for number, fault in enumerate(faults, 1):
            caught, by = is_caught(fault, Path(name))
            missed += not caught
            print(f"{number}/{len(faults)} {'caught' if caught else 'MISSED'} {fault.file}: {by}", flush=True)
    print(f"{len(faults) - missed} of {len(faults)} faults caught")
    return missed


if __name__ == "__main__":
    sys.exit(main())
