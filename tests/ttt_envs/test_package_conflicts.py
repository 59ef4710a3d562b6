"""Folders and distributions of others that have the names of our packages: one sentence says so."""

import shutil

import pytest
from processes import ROOT, python_path, run_python

pytestmark = pytest.mark.more

PACKAGES = ("ttt_envs", "baselines", "learners", "ttt_eval", "ttt_apps")
# What is installed already, in whatever way, is left out: only the current folder and one place
# have packages of ours.
BEGIN = """
import importlib.machinery, runpy, sys
sys.meta_path[:] = [finder for finder in sys.meta_path if "ditable" not in str(finder)]
class Others(importlib.machinery.PathFinder):
    elsewhere = set(sys.path) - {{"", {place!r}}}
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if path is None and name in {packages!r}:
            path = [place for place in sys.path if place not in cls.elsewhere]
        return super().find_spec(name, path, target)
path_finder = importlib.machinery.PathFinder
sys.meta_path[:] = [Others if finder is path_finder else finder for finder in sys.meta_path]
"""


def python(options, place, lines, folder):
    """Run lines of Python in a process of its own in a folder, with a place before all that are
    known.
    """
    code = "\n".join([BEGIN.format(place=place, packages=PACKAGES), *lines])
    return run_python(*options, "-c", code, cwd=folder, code=None, PYTHONPATH=python_path(place))


def run(folder, *lines):
    return python((), str(ROOT), lines, folder)


def command(module, *arguments):
    """A line that does as ``python -m module arguments``."""
    return f"sys.argv[1:] = {list(arguments)!r}; runpy.run_module({module!r}, run_name='__main__')"


def check_refused(done, place):
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert str(place) in done.stderr


@pytest.mark.parametrize(
    ("name", "module", "words"),
    [
        ("baselines/__init__.py", "evaluate", ("exact", "random", "random")),
        ("ttt_eval.py", "terminal", ()),
    ],
)
def test_commands_name_the_folder_or_file_that_hides_a_package(tmp_path, name, module, words):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.touch()
    check_refused(run(tmp_path, command(f"ttt_apps.{module}", *words)), path)
    package = name.partition("/")[0].removesuffix(".py")
    load = f"from ttt_envs.agents.specs import load_object; load_object('{package}.exact:name')"
    assert (
        f"Refusal: no module '{package}.exact' for '{package}.exact:name': {path}"
        in run(tmp_path, load).stderr
    )


def test_a_package_that_others_have_overwritten_is_refused(tmp_path):
    site = tmp_path / "site-packages"
    for package in PACKAGES:
        shutil.copytree(
            ROOT / package, site / package, ignore=shutil.ignore_patterns("__pycache__", "assets")
        )
    path = site / "learners" / "__init__.py"
    path.write_text("raise SystemExit('imported')\n")
    check_refused(
        python(["-P"], str(site), [command("ttt_apps.evaluate", "--version")], tmp_path), path
    )
