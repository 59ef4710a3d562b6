"""Code blocks of documents, run as they stand: in order, in one fresh folder, from one shell."""

import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
REACHABLE = (
    "train.py",
    "evaluate.py",
    "play.py",
    "benchmarks",
    "speed",
    "tests",
    "examples",
    "tools",
)
"""of a checkout, what commands of documents name"""
RUNNER = """
import contextlib, io, json, sys, traceback
names, said = {"__name__": "__main__"}, sys.stdout
for line in sys.stdin:
    out = io.StringIO()
    try:
        with contextlib.redirect_stdout(out):
            exec(compile(json.loads(line), "a block of the page", "exec"), names)
        problem = ""
    except BaseException:
        problem = traceback.format_exc()
    said.write(json.dumps([out.getvalue(), problem]) + "\\n")
    said.flush()
"""


class Block(NamedTuple):
    """A fenced block of a page."""

    line: int
    kind: str
    """sh, python, text, toml, or nothing"""
    slow: bool
    needs: tuple[str, ...]
    """packages without which it is not run"""
    file: str
    """path of the file in the checkout that the block shows; empty for a block that is run"""
    output: bool
    """whether it shows lines that the block before it prints"""
    text: str


def pages():
    """All documents that people read, README first."""
    results = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in results if blocks(page)]


def blocks(page):
    """The fenced blocks of a page, in order."""
    text = page.read_text()
    results = []
    for match in re.finditer(r"^( *)```([^\n]*)\n(.*?)^ *```$", text, re.M | re.S):
        words = match[2].split()
        line = text.count("\n", 0, match.start()) + 1
        kind = words[0] if words else ""
        title = re.search(r'title="([^"]+)"', match[2])
        needs = tuple(word.removeprefix("needs=") for word in words if word.startswith("needs="))
        file = title[1] if title else ""
        slow, output = (name in words[1:] for name in ("slow", "output"))
        results.append(Block(line, kind, slow, needs, file, output, textwrap.dedent(match[3])))
    return results


class Shell:
    """One shell and one interpreter, in a folder where nothing is but what a checkout's root
    offers.

    ``make`` is a stand-in: what it sets up is there already, in the environment that runs the
    tests.
    """

    def __init__(self, folder, active):
        self.folder = folder
        self._python = None
        for name in REACHABLE:
            if (ROOT / name).exists():
                (folder / name).symlink_to(ROOT / name)
        tools = folder / ".tools"
        tools.mkdir()
        (tools / "make").write_text(f"#!/bin/sh\nln -sfn {sys.prefix} .venv\n")
        (tools / "make").chmod(0o755)
        env = {
            name: os.environ[name]
            for name in ("NUMBA_CACHE_DIR", "TTT_ENVS_CACHE", "HOME")
            if name in os.environ
        }
        path = [str(tools), "/usr/local/sbin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"]
        if active:
            path.insert(0, str(Path(sys.executable).parent))
        self._state = {
            **env,
            "PATH": os.pathsep.join(path),
            "PYTHONPATH": str(ROOT),  # as an installed package is found
            "OPENBLAS_NUM_THREADS": "1",
            "SDL_VIDEODRIVER": "dummy",
            "COLUMNS": "80",
        }

    def run(self, block):
        """Run a block; what it prints is returned, and a failure is an AssertionError that shows
        it.
        """
        return self._sh(block.text) if block.kind == "sh" else self._interpreted(block.text)

    def _sh(self, text):
        script = f"set -e\n{text}\nenv -0 > .state\n"
        streams = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True}
        result = subprocess.run(["bash", "-c", script], cwd=self.folder, env=self._state, **streams)
        assert result.returncode == 0, f"{text}\nprinted\n{result.stdout}{result.stderr}"
        pairs = (self.folder / ".state").read_text().split("\0")
        self._state = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
        return result.stdout + result.stderr

    def _interpreted(self, text):
        if self._python is None:
            self._python = subprocess.Popen(
                ["python", "-c", RUNNER],
                cwd=self.folder,
                env=self._state,
                executable=_program_path("python", self._state["PATH"]),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        self._python.stdin.write(json.dumps(text) + "\n")
        self._python.stdin.flush()
        answer = self._python.stdout.readline()
        assert answer, f"{text}\nended the interpreter"
        text_output, problem = json.loads(answer)
        assert not problem, f"{text}\n{problem}"
        return text_output

    def close(self):
        """End the interpreter."""
        if self._python is not None:
            self._python.stdin.close()
            self._python.wait()
            self._python.stdout.close()


def _program_path(program, path):
    for folder in path.split(os.pathsep):
        if os.access(Path(folder, program), os.X_OK):
            return str(Path(folder, program))
    raise AssertionError(f"there is no {program} on the path: the page has not said where it is")
