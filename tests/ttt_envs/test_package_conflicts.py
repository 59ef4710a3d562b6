"""Folders and distributions of others that have the names of our packages: one sentence says so."""

import shutil

import pytest
from processes import ROOT, python_path, run_python

PACKAGES = ("ttt_envs", "baselines", "learners", "evaluation", "ttt_apps")
# How Python finds us: in a folder of its path, or, as an editable installation, after everything that stands there.
# What is installed already, in whatever way, is left out: only the current folder and one place have packages of ours.
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
sys.meta_path[:] = [Others if finder is importlib.machinery.PathFinder else finder for finder in sys.meta_path]
"""
LAST = f"""
class Last:
    @staticmethod
    def find_spec(name, path=None, target=None):
        return None if path else importlib.machinery.PathFinder.find_spec(name, [{str(ROOT)!r}])
sys.meta_path.append(Last)
"""


def python(options, place, lines, folder):
    """Run lines of Python in a process of its own in a folder, with a place before all that are known."""
    code = "\n".join([BEGIN.format(place=place, packages=PACKAGES), *lines])
    return run_python(*options, "-c", code, cwd=folder, code=None, PYTHONPATH=python_path(place))


def run(folder, *lines, last=False):
    return python((), "" if last else str(ROOT), [LAST * last, *lines], folder)


def command(module, *arguments):
    """A line that does as ``python -m module arguments``."""
    return f"sys.argv[1:] = {list(arguments)!r}; runpy.run_module({module!r}, run_name='__main__')"


def sentence(kind, place, package):
    whose = "" if package == "ttt_envs" else " of ttt_envs"
    return f"the {kind} {place} hides the package {package}{whose}: run from another folder, or rename it"


@pytest.mark.parametrize(
    ("kind", "name", "module", "words"),
    [
        ("folder", "baselines", "evaluate", ("exact", "random", "random")),
        ("folder", "evaluation", "evaluate", ("exact", "random", "random")),
        ("file", "evaluation.py", "play", ()),
    ],
)
def test_commands_name_the_folder_or_file_that_hides_a_package(tmp_path, kind, name, module, words):
    path = tmp_path / name / "__init__.py" if kind == "folder" else tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.touch()
    done = run(tmp_path, command(f"ttt_apps.{module}", *words))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error: {sentence(kind, tmp_path / name, name.removesuffix('.py'))}\n"


@pytest.mark.parametrize("package", ["ttt_envs", "baselines"])
def test_commands_of_an_editable_installation_are_hidden_by_any_folder(tmp_path, package):
    version = command("ttt_apps.evaluate", "--version")
    done = run(tmp_path, version, last=True)
    assert done.stdout.startswith("ttt_envs ")
    (tmp_path / package).mkdir()
    done = run(tmp_path, version, last=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error: {sentence('folder', tmp_path / package, package)}\n"


@pytest.mark.parametrize("written", [{}, {"simple.py": "x = 1\n"}])
def test_spec_errors_name_the_folder_that_hides_a_package(tmp_path, written):
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


def test_other_folders_are_ignored(tmp_path):
    for name in ("runs", "baseline", "tests"):
        (tmp_path / name).mkdir()
    (tmp_path / "baselines").mkdir()  # no package: Python prefers ours, which comes later
    done = run(tmp_path, command("ttt_apps.evaluate", "exact", "random", "random", "--json"))
    assert done.returncode == 0, done.stderr


LOAD = """
from ttt_envs.agents.specs import load_object
try:
    print(load_object(sys.argv[1]).__name__)
except ValueError as problem:
    print(problem)
"""


@pytest.fixture
def installed(tmp_path):
    """A folder with copies of our packages."""
    site = tmp_path / "site-packages"
    for package in PACKAGES:
        shutil.copytree(ROOT / package, site / package, ignore=shutil.ignore_patterns("__pycache__", "assets"))
    return site


def add_distribution(site, name, files):
    """Put files into a folder of installed packages, as an installer does."""
    record = f"{name.replace('-', '_')}-9.9.dist-info"
    metadata = {"METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 9.9\n"}
    metadata["RECORD"] = "".join(f"{place},,\n" for place in files)
    for place, content in {**files, **{f"{record}/{file}": text for file, text in metadata.items()}}.items():
        (site / place).parent.mkdir(parents=True, exist_ok=True)
        (site / place).write_text(content)


def run_installed(site, code, *words):
    """Run lines of Python where ``site`` is the folder of the installed packages, and nothing of the checkout is."""
    words = f"sys.argv[1:] = {list(words)!r}"
    return python(["-P"], str(site), [words, code], site.parent)


@pytest.mark.parametrize("package", PACKAGES[1:-1])
def test_distribution_that_overwrote_a_package_is_named(installed, package):
    message = (
        f"the distribution others-{package} 9.9 has overwritten the package {package} of ttt_envs in "
        f"{installed / package}: reinstall ttt_envs in an environment of its own, without the distribution "
        f"others-{package} 9.9"
    )
    module = {"baselines": "baselines.simple:Random", "learners": "learners.base:Transition"}
    asked = module.get(package, "evaluation.statistics:Interval")
    add_distribution(installed, f"others-{package}", {f"{package}/__init__.py": "raise SystemExit('imported')\n"})
    done = run_installed(installed, LOAD, asked)
    assert done.stdout == f"{message}\n"
    assert f"UserWarning: {message}" in done.stderr  # of importing ttt_envs
    done = run_installed(installed, command("ttt_apps.evaluate", "--version"))
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"error: {message}\n")


def test_missing_init_file_is_reported(installed):
    assert run_installed(installed, LOAD, "learners.base:Transition").stdout == "Transition\n"
    (installed / "learners" / "__init__.py").unlink()
    done = run_installed(installed, LOAD, "learners.base:Transition")
    assert done.stdout.startswith(f"the package learners of ttt_envs has lost files in {installed / 'learners'}, as ")
    assert done.stdout.endswith("reinstall ttt_envs in an environment of its own\n")
    asked = run_installed(installed, command("ttt_apps.evaluate", "--version"))
    assert asked.stderr == f"error: {done.stdout}"


def test_failed_imports_name_distributions_with_files_in_the_package(installed):
    add_distribution(installed, "others", {"evaluation/statistics.py": "x = 1\n", "evaluation/exact/__init__.py": ""})
    message = (
        "the distribution others 9.9 has files in the package evaluation of ttt_envs: reinstall ttt_envs in an "
        "environment of its own, without the distribution others 9.9"
    )
    assert run_installed(installed, LOAD, "evaluation.statistics:Interval").stdout == f"{message}\n"
    done = run_installed(installed, LOAD, "evaluation.matches.match:play_match")
    assert done.stdout.startswith(f"{message} (cannot import name ")
    assert done.stderr == ""


def test_a_distribution_found_first_is_named(installed, tmp_path):
    """As where we are an editable installation."""
    other = tmp_path / "other" / "site-packages"
    add_distribution(other, "others", {"evaluation/__init__.py": ""})
    done = run_installed(
        installed, f"sys.path.insert(0, {str(other)!r})" + LOAD, "evaluation.exact.dynamic_programming:outcome"
    )
    assert done.stdout == (
        f"the distribution others 9.9 hides the package evaluation of ttt_envs in {other / 'evaluation'}: "
        "reinstall ttt_envs in an environment of its own, without the distribution others 9.9\n"
    )
