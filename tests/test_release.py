"""Releases: source distribution, wheel, metadata, and conflicts with other distributions."""

import os
import re
import shutil
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
from documents import ROOT, blocks
from processes import run_program, run_python

pytestmark = pytest.mark.needs("build")
LEFT_OUT = (".git", ".venv*", ".cache", "runs", "build", "dist", "site", "*.egg-info", "__pycache__", ".*_cache")
OTHERS = ("baselines", "ttt_eval", "learners")
"""packages of ours that other distributions on the index have too"""


def checklist_block(word):
    """The only block of the checklist that contains a word."""
    [text] = [block.text for block in blocks(ROOT / "docs" / "dev" / "release.md") if word in block.text]
    return text


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy of the checkout, to build in."""
    return shutil.copytree(
        ROOT, tmp_path_factory.mktemp("release") / "checkout", ignore=shutil.ignore_patterns(*LEFT_OUT)
    )


@pytest.fixture(scope="module")
def distributions(checkout):
    """(source distribution, wheel), the wheel built from the source distribution."""
    run_python("-m", "build", "--no-isolation", "--outdir", checkout.parent / "dist", ".", cwd=checkout)
    [source], [wheel] = (list((checkout.parent / "dist").glob(f"*.{kind}")) for kind in ("tar.gz", "whl"))
    return source, wheel


def test_the_source_distribution_contains_the_checkout(distributions):
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout, so nobody knows its files")
    files = run_program("git", "ls-files").stdout.splitlines()
    with tarfile.open(distributions[0]) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    assert {file for file in files if (ROOT / file).exists()} - held == set()
    assert not [name for name in held if "__pycache__" in name or name.endswith((".pyc", ".nbi", ".nbc"))]


def test_the_wheel_contains_packages_and_their_data_only(distributions):
    with zipfile.ZipFile(distributions[1]) as archive:
        held = archive.namelist()
    tops = {name.split("/")[0] for name in held}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"ttt_envs", "ttt_apps", "ttt_text.py", *OTHERS}
    for package in ("ttt_envs", "ttt_apps", *OTHERS):
        ours = {
            str(path.relative_to(ROOT))
            for path in (ROOT / package).rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }
        assert ours - set(held) == set()


def test_the_address_completes_all_links(checkout, tmp_path):
    """The first command of the checklist fills in the address everywhere."""
    if not re.search("^#.*= ADDRESS", (ROOT / "setup.cfg").read_text(), re.M):
        pytest.skip("no line waits: setuptools leaves comments out of a source distribution, or the address is known")
    tree = shutil.copytree(checkout, tmp_path / "tree")
    run_program("bash", "-ec", checklist_block("ADDRESS=https"), cwd=tree)
    address, pages = "https://github.com/OWNER/ttt_envs", "https://OWNER.github.io/ttt_envs/"
    for name in ("setup.cfg", "CITATION.cff", "mkdocs.yml"):
        before, after = ((folder / name).read_text().splitlines() for folder in (checkout, tree))
        changed = [line for line, other in zip(before, after, strict=True) if line != other]
        assert changed == [line for line in before if re.match("#.*[:=] (ADDRESS|PAGES)", line)] != []
    code = "import setuptools.build_meta as backend; backend.prepare_metadata_for_build_wheel('metadata')"
    (tree / "metadata").mkdir()
    run_python("-c", code, cwd=tree)
    [file] = (tree / "metadata").glob("*.dist-info/METADATA")
    metadata = Parser().parsestr(file.read_text())
    assert [line.split(", ")[1] for line in metadata.get_all("Project-URL")][::3] == [address, pages]
    targets = re.findall(r"\]\(([^)\s]+)\)", metadata.get_payload())
    assert len(targets) > 15
    assert [target for target in targets if not target.startswith("https://")] == []
    assert f"[security]({address}/blob/v{metadata['Version']}/SECURITY.md)" in metadata.get_payload()


def test_the_release_command_sets_version_and_date(checkout, tmp_path):
    from ttt_envs import __version__

    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text()
    for name in ("CHANGELOG.md", "CITATION.cff", "ttt_envs/version.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(checkout / name, tmp_path / name)
    commands = checklist_block("VERSION=")
    version = re.search(r"^VERSION=(.*)$", commands, re.M)[1]
    run_program("bash", "-ec", commands, cwd=tmp_path)
    assert (tmp_path / "ttt_envs" / "version.py").read_text().endswith(f'\n__version__ = "{version}"\n')
    cited = (tmp_path / "CITATION.cff").read_text()
    [date] = re.findall(r"^date-released: (\d{4}-\d\d-\d\d)$", cited, re.M)
    assert f"\nversion: {version}\n" in cited
    assert f"\n## {version} ({date})\n" in (tmp_path / "CHANGELOG.md").read_text()


# ---------------------------------------------------------------------------------------------------------------------
# Distributions with packages of the same names


def wheel_of_others(folder, package):
    """A wheel of another project with a package of the same name as ours."""
    record = f"{package}-9.9.dist-info"
    files = {
        f"{package}/__init__.py": "def measure():\n    return 'theirs'\n",
        f"{package}/theirs.py": "",
        f"{record}/METADATA": f"Metadata-Version: 2.1\nName: {package}\nVersion: 9.9\n",
        f"{record}/WHEEL": "Wheel-Version: 1.0\nGenerator: hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{record}/top_level.txt": f"{package}\n",
    }
    files[f"{record}/RECORD"] = "".join(f"{name},,\n" for name in [*files, f"{record}/RECORD"])
    path = folder / f"{package}-9.9-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


@pytest.fixture
def environment(tmp_path):
    """The folder of a new environment."""
    folder = tmp_path / "environment"
    run_python("-m", "venv", "--without-pip", folder, cwd=tmp_path)
    return folder


def path_file(environment):
    """The file that makes the installed requirements visible in an environment."""
    [site] = environment.glob("lib/python*/site-packages")
    return site / "requirements.pth"


def pip(environment, *words):
    """Run pip, which must not see what is installed elsewhere."""
    path_file(environment).unlink(missing_ok=True)
    command = ("-m", "pip", "--python", environment / "bin" / "python", "--quiet")
    run_python(*command, "--disable-pip-version-check", *words, cwd=environment, PYTHONPATH="")


def install(environment, wheel, *options):
    pip(environment, "install", "--no-index", "--no-deps", *options, wheel)


def call(environment, *command):
    """Run a command in an environment; return exit code, standard output, standard error."""
    import numpy

    path_file(environment).write_text(f"{Path(numpy.__file__).parents[1]}\n")
    clean = {name: os.environ[name] for name in ("NUMBA_CACHE_DIR", "TTT_ENVS_CACHE") if name in os.environ}
    clean |= {"PATH": f"{environment / 'bin'}:/usr/bin:/bin", "HOME": str(environment), "LANG": "C.UTF-8"}
    program = environment / "bin" / command[0]
    done = run_program(program, *command[1:], cwd=environment, code=None, env=clean)
    return done.returncode, done.stdout, done.stderr


def test_commands_of_the_wheel_work_without_the_checkout(distributions, environment):
    install(environment, distributions[1])
    for command in ("ttt-train", "ttt-evaluate", "ttt-play"):
        code, out, err = call(environment, command, "--help")
        assert (code, err) == (0, "")
        assert out.startswith(f"usage: {command} ")


@pytest.mark.slow  # its quick form, without pip, is in tests/ttt_envs/test_package_conflicts.py
@pytest.mark.parametrize("package", OTHERS)
def test_both_orders_of_installation(distributions, environment, tmp_path, package):
    ours, theirs = distributions[1], wheel_of_others(tmp_path, package)
    learners = ("ttt-evaluate", "list", "learners")
    install(environment, theirs)
    install(environment, ours)
    code, out, err = call(environment, *learners)
    assert (code, err) == (0, ""), "the last one has overwritten the other"
    install(environment, theirs, "--force-reinstall")
    code, out, err = call(environment, *learners)
    assert (code, out) == (2, "")
    assert err.startswith(f"error: the distribution {package} 9.9 has overwritten the package {package} of ttt_envs")
    code, out, err = call(environment, "python", "-c", "import ttt_envs; print(ttt_envs.__version__)")
    assert code == 0
    assert f"UserWarning: the distribution {package} 9.9 has overwritten the package {package} of ttt_envs" in err
    pip(environment, "uninstall", "--yes", package)
    code, out, err = call(environment, *learners)
    assert code == 2
    assert "has lost files" in err
