"""Programs in processes of their own, for tests."""

import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def run_program(*command, cwd=ROOT, code=0, env=os.environ, **variables):
    """Run a program to its end, with more environment variables; return the process, with its
    output as text.

    ``code`` is the exit code that it must have, or None.
    """
    result = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env={**env, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
    )
    assert code is None or result.returncode == code, result.stdout + result.stderr
    return result


def run_python(*arguments, **settings):
    """Run Python with these arguments, as ``run_program``."""
    return run_program(sys.executable, *arguments, **settings)


def start_until(file, *command, lines=1, **settings):
    """Start a program that goes on, wait until it has written lines to a file or has ended, and
    return the process, whose messages can be read.
    """
    words = list(map(str, command))
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, **settings)
    while process.poll() is None and not (file.is_file() and file.read_text().count("\n") >= lines):
        time.sleep(0.02)
    return process


def python_path(*folders):
    """The variable for folders before those that Python searches here."""
    return os.pathsep.join(
        filter(None, [*map(str, filter(None, folders)), os.environ.get("PYTHONPATH")])
    )
