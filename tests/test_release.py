"""Releases: source distribution, wheel, and metadata."""

import json
import os
import re
import shutil
import tarfile
import zipfile
from pathlib import Path

import pytest
from documents import ROOT, blocks
from processes import run_program, run_python

pytestmark = pytest.mark.needs("build")
LEFT_OUT = (
    ".git",
    ".venv*",
    ".cache",
    "build",
    "dist",
    "site",
    "*.egg-info",
    "__pycache__",
    ".*_cache",
)
OTHERS = ("baselines", "ttt_eval", "learners")
"""packages of ours that other distributions on the index have too"""


def checklist_block(word):
    """The only block of the checklist that contains a word."""
    [text] = [
        block.text for block in blocks(ROOT / "docs" / "dev" / "release.md") if word in block.text
    ]
    return text


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy of the checkout, to build in."""
    anywhere = shutil.ignore_patterns(*LEFT_OUT)

    def left_out(folder, names):
        runs = {"runs"} if Path(folder) == ROOT else set()  # ttt_eval/runs is a package
        return anywhere(folder, names) | runs

    return shutil.copytree(ROOT, tmp_path_factory.mktemp("release") / "checkout", ignore=left_out)


@pytest.fixture(scope="module")
def distributions(checkout):
    """(source distribution, wheel), the wheel built from the source distribution."""
    run_python(
        "-m", "build", "--no-isolation", "--outdir", checkout.parent / "dist", ".", cwd=checkout
    )
    [source], [wheel] = (
        list((checkout.parent / "dist").glob(f"*.{kind}")) for kind in ("tar.gz", "whl")
    )
    return source, wheel


def test_the_source_distribution_contains_the_checkout(distributions):
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout, so nobody knows its files")
    files = run_program("git", "ls-files").stdout.splitlines()
    with tarfile.open(distributions[0]) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    assert {file for file in files if (ROOT / file).exists()} - held == set()
    assert not [
        name for name in held if "__pycache__" in name or name.endswith((".pyc", ".nbi", ".nbc"))
    ]


def test_the_wheel_contains_packages_and_their_data_only(distributions):
    with zipfile.ZipFile(distributions[1]) as archive:
        held = archive.namelist()
    tops = {name.split("/")[0] for name in held}
    assert {top for top in tops if not top.endswith(".dist-info")} == {
        "ttt_envs",
        "ttt_apps",
        *OTHERS,
    }
    for package in ("ttt_envs", "ttt_apps", *OTHERS):
        our_values = {
            str(path.relative_to(ROOT))
            for path in (ROOT / package).rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }
        assert our_values - set(held) == set()


def test_the_release_command_sets_version_and_date(checkout, tmp_path):
    from ttt_envs import __version__

    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert json.loads((ROOT / "codemeta.json").read_text())["version"] == __version__
    for name in ("CHANGELOG.md", "CITATION.cff", "codemeta.json", "ttt_envs/version.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(checkout / name, tmp_path / name)
    commands = checklist_block("VERSION=")
    version = re.search(r"^VERSION=(.*)$", commands, re.M)[1]
    run_program("bash", "-ec", commands, cwd=tmp_path)
    assert (
        (tmp_path / "ttt_envs" / "version.py")
        .read_text()
        .endswith(f'\n__version__ = "{version}"\n')
    )
    assert json.loads((tmp_path / "codemeta.json").read_text())["version"] == version
    cited = (tmp_path / "CITATION.cff").read_text()
    [date] = re.findall(r"^date-released: (\d{4}-\d\d-\d\d)$", cited, re.M)
    assert f"\nversion: {version}\n" in cited
    assert f"\n## {version} ({date})\n" in (tmp_path / "CHANGELOG.md").read_text()


def test_commands_of_the_wheel_work_without_the_checkout(distributions, tmp_path):
    """tests/ttt_envs/test_package_conflicts.py has distributions of others with packages of the
    same names.
    """
    import numpy

    folder = tmp_path / "environment"
    run_python("-m", "venv", "--without-pip", folder, cwd=tmp_path)
    pip = (
        "-m",
        "pip",
        "--python",
        folder / "bin" / "python",
        "--disable-pip-version-check",
        "--quiet",
    )
    run_python(
        *pip, "install", "--no-index", "--no-deps", distributions[1], cwd=tmp_path, PYTHONPATH=""
    )
    [site] = folder.glob("lib/python*/site-packages")
    (site / "requirements.pth").write_text(f"{Path(numpy.__file__).parents[1]}\n")
    clean = {
        name: os.environ[name]
        for name in ("NUMBA_CACHE_DIR", "TTT_ENVS_CACHE")
        if name in os.environ
    }
    clean |= {"PATH": f"{folder / 'bin'}:/usr/bin:/bin", "HOME": str(tmp_path), "LANG": "C.UTF-8"}
    for command in ("ttt-train", "ttt-evaluate", "ttt-play"):
        result = run_program(folder / "bin" / command, "--help", cwd=tmp_path, env=clean)
        assert result.stderr == ""
        assert result.stdout.startswith(f"usage: {command} ")
