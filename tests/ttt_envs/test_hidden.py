"""A folder of somebody's own that has the name of one of our packages: one sentence says so."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# How Python finds us: in a folder of its path, or, as an editable installation, after everything that stands there. An
# editable installation that is there is left out.
BEGIN = """
import importlib.machinery, runpy, sys
sys.meta_path[:] = [finder for finder in sys.meta_path if "ditable" not in str(finder)]
"""
LAST = f"""
import sysconfig
class Others(importlib.machinery.PathFinder):  # a plain installation, which stands before an editable one, is left out
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if path is None and name in ("ttt_envs", "baselines", "learners", "evaluation", "ttt_apps"):
            path = [place for place in sys.path if place not in sysconfig.get_paths().values()]
        return super().find_spec(name, path, target)
sys.meta_path[:] = [Others if finder is importlib.machinery.PathFinder else finder for finder in sys.meta_path]
class Last:
    @staticmethod
    def find_spec(name, path=None, target=None):
        return None if path else importlib.machinery.PathFinder.find_spec(name, [{str(ROOT)!r}])
sys.meta_path.append(Last)
"""


def run(folder, *lines, last=False):
    """Run lines of Python in a process of its own in a folder."""
    return subprocess.run(
        [sys.executable, "-c", "\n".join([BEGIN, LAST * last, *lines])],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": "" if last else str(ROOT)},
        capture_output=True,
        text=True,
    )


def command(module, *arguments):
    """A line that does as ``python -m module arguments``."""
    return f"sys.argv[1:] = {list(arguments)!r}; runpy.run_module({module!r}, run_name='__main__')"


def sentence(kind, place, package):
    whose = "" if package == "ttt_envs" else " of ttt_envs"
    return f"the {kind} {place} hides the package {package}{whose}: run from another folder, or rename it"


@pytest.mark.parametrize("package", ["baselines", "evaluation"])
def test_commands_say_which_folder_hides_a_package(tmp_path, package):
    (tmp_path / package).mkdir()
    (tmp_path / package / "__init__.py").touch()
    done = run(tmp_path, command("ttt_apps.evaluate", "exact", "random", "random"))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error: {sentence('folder', tmp_path / package, package)}\n"


@pytest.mark.parametrize("package", ["ttt_envs", "baselines"])
def test_commands_of_an_editable_installation_are_hidden_by_any_folder(tmp_path, package):
    version = command("ttt_apps.evaluate", "--version")
    done = run(tmp_path, version, last=True)
    assert done.stdout.startswith("ttt_envs ")
    (tmp_path / package).mkdir()
    done = run(tmp_path, version, last=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error: {sentence('folder', tmp_path / package, package)}\n"


def test_a_file_hides_too(tmp_path):
    (tmp_path / "evaluation.py").touch()
    done = run(tmp_path, command("ttt_apps.play"))
    assert done.stderr == f"error: {sentence('file', tmp_path / 'evaluation.py', 'evaluation')}\n"


@pytest.mark.parametrize("written", [{}, {"simple.py": "x = 1\n"}])
def test_opponents_say_which_folder_hides_them(tmp_path, written):
    folder = tmp_path / "baselines"
    folder.mkdir()
    for name, content in {"__init__.py": "", **written}.items():
        (folder / name).write_text(content)
    done = run(
        tmp_path,
        "import gymnasium",
        "print(gymnasium.make('ttt_envs:ttt/TicTacToe-v0', opponent='self').reset(seed=0)[1]['mover'])",
        "try:",
        "    gymnasium.make('ttt/TicTacToe-v0')",
        "except ValueError as problem:",
        "    print(problem)",
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["0", sentence("folder", folder, "baselines")]  # what needs none of it works


def test_other_folders_hide_nothing(tmp_path):
    for name in ("runs", "baseline", "tests"):
        (tmp_path / name).mkdir()
    (tmp_path / "baselines").mkdir()  # no package: Python prefers ours, which comes later
    done = run(tmp_path, command("ttt_apps.evaluate", "exact", "random", "random", "--json"))
    assert done.returncode == 0, done.stderr
