"""The client matrix: other libraries with a wheel of this package, each in an environment that its
pins allow.

``make clients``, or ``python tests/clients/run.py``. Builds the wheel, makes the environments in
``.cache/clients``, runs the tests of each client there from an empty folder, and writes its row of
the table of docs/clients.md.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tools"))

from environments import (
    CACHE,
    ROOT,
    CommandError,
    call,
    make_environment,
    torch_pin,
    versions_in,
)

from ttt_apps.cli import options as cli
from ttt_envs.core.files import write_bytes

PAGE = ROOT / "docs" / "clients.md"
SOURCES = "TTT_CLIENTS_SOURCES"


@dataclass(frozen=True)
class Client:
    """A library that runs on our environments."""

    name: str
    tests: str
    """the file of its tests"""
    environment: str
    package: str
    """the package whose version is on the page"""
    checkouts: tuple[str, ...] = ()
    """repositories with tutorials or tests, which no wheel contains"""


ENVIRONMENTS: dict[str, tuple[str, ...]] = {
    "newest": (
        *(
            "pettingzoo",
            "gymnasium",
            "pygame-ce",
            "stable-baselines3",
            "sb3-contrib",
            "tianshou>=2",
            "torchrl",
            "skrl",
        ),
        *("open_spiel", "tyro", "tensorboard"),
    ),
    "tianshou-0.5": ("tianshou==0.5.1", "pygame-ce", "tensorboard"),
    "rllib": ("ray[rllib]",),
    "text": ("textarena>=0.7", "gem-llm"),
    "pufferlib": ("psutil",),
    "jax": ("jax", "flax", "optax", "pymdptoolbox"),
    "searches": ("mctx",),
}
"""Packages of each environment, in addition to the wheel, torch and pytest."""

WITHOUT_DEPENDENCIES = {"pufferlib": ("pufferlib-core",)}
"""Packages that are installed without their dependencies, because these pin another torch."""

CLIENTS = (
    Client("PettingZoo", "test_pettingzoo.py", "newest", "pettingzoo", ("PettingZoo",)),
    Client("Gymnasium", "test_gymnasium.py", "newest", "gymnasium", ("Gymnasium",)),
    Client("Stable-Baselines3", "test_sb3.py", "newest", "stable-baselines3", ("PettingZoo",)),
    Client("CleanRL", "test_cleanrl.py", "newest", "", ("cleanrl",)),
    Client("Tianshou", "test_tianshou.py", "newest", "tianshou", ("tianshou",)),
    Client("Tianshou 0.5", "test_tianshou.py", "tianshou-0.5", "tianshou", ("PettingZoo",)),
    Client("TorchRL", "test_torchrl.py", "newest", "torchrl", ("rl",)),
    Client("skrl", "test_skrl.py", "newest", "skrl"),
    Client("PufferLib", "test_pufferlib.py", "pufferlib", "pufferlib-core"),
    Client("RLlib", "test_rllib.py", "rllib", "ray"),
    Client("OpenSpiel", "test_open_spiel.py", "newest", "open-spiel"),
    Client("JAX", "test_arrays.py", "jax", "jax"),
    Client("mctx", "test_mctx.py", "searches", "mctx"),
    Client(
        "alpha-zero-general", "test_alpha_zero_general.py", "searches", "", ("alpha-zero-general",)
    ),
    Client("TextArena", "test_textarena.py", "text", "textarena"),
    Client("GEM", "test_gem.py", "text", "gem-llm"),
)

CHECKOUTS = {
    "PettingZoo": ("https://github.com/Farama-Foundation/PettingZoo", "pettingzoo", "{}"),
    "Gymnasium": ("https://github.com/Farama-Foundation/Gymnasium", "gymnasium", "v{}"),
    "cleanrl": ("https://github.com/vwxyzjn/cleanrl", "", ""),
    "alpha-zero-general": ("https://github.com/suragnair/alpha-zero-general", "", ""),
    "tianshou": ("https://github.com/thu-ml/tianshou", "tianshou", "v{}"),
    "rl": ("https://github.com/pytorch/rl", "torchrl", "v{}"),
}
"""Maps a checkout to its URL, to the package whose version it has, and to the form of its tags;
none for the newest.
"""


@dataclass(frozen=True)
class Options:
    """Run the libraries that our environments are made for on a wheel of them, and write
    docs/clients.md.
    """

    only: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME,...")] = ()
    """these clients, whose rows of the page are written"""
    sources: Path | None = None
    """a folder with the checkouts of other projects by name; else they are cloned
    """


def fetch(name: str, versions: dict[str, str]) -> None:
    """Clone a checkout at the tag of the installed version, or at the newest state, into the cache,
    if possible.
    """
    url, package, tag = CHECKOUTS[name]
    tag = tag.format(versions.get(package, ""))
    folder = CACHE / "sources" / name
    marker = folder / ".git" / "tag"
    if marker.exists() and marker.read_text() == tag:
        return
    for branch in (["--branch", tag], []) if tag else ([],):
        shutil.rmtree(folder, ignore_errors=True)
        try:
            call("git", "clone", "--depth", "1", *branch, url, folder, log=f"clone-{name}")
        except CommandError:
            continue
        marker.write_text(tag)
        return


def read_report(report: Path) -> str:
    """Return ``passed (N)`` of a report of pytest, or the tests that failed or were not run, and
    why.
    """
    count = 0
    problems = []
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        properties = [
            item.get("value") for item in case.iter("property") if item.get("name") == "tests"
        ]
        count += sum(map(int, properties)) or 1
        for kind, result in (("failure", "failed"), ("error", "failed"), ("skipped", "not run")):
            for element in case.iter(kind):
                reason = (element.get("message") or "").partition("\n")[0]
                problems.append(f"`{case.get('name')}` **{result}**: {reason}")
    return "; ".join(problems) or f"passed ({count})"


def run_tests(client: Client, python: Path, sources: Path) -> str:
    """Run the tests of a client in an empty folder, without access to the checkout; return their
    result.
    """
    with tempfile.TemporaryDirectory(prefix="ttt-clients-") as name:
        folder = Path(name)
        for part in ("tests/clients", "examples"):
            shutil.copytree(
                ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__")
            )
        report = folder / "report.xml"
        words = (
            "-q",
            "-p",
            "no:cacheprovider",
            "-o",
            "junit_family=xunit1",
            f"--junitxml={report}",
        )
        variables = {"TTT_ENVS_CACHE": str(CACHE / "tables"), SOURCES: str(sources)}
        log = client.name.lower().replace(" ", "-")
        try:
            tests = f"tests/clients/{client.tests}"
            call(python, "-P", "-m", "pytest", *words, tests, cwd=folder, log=log, **variables)
        except CommandError:
            if not report.exists():
                raise
        return read_report(report)


def write_rows(results: dict[str, str], versions: dict[str, dict[str, str]]) -> None:
    """Write the results by client, with its version, into their rows of the table of
    docs/clients.md.
    """
    page = PAGE.read_text()
    for client in CLIENTS:
        if client.name in results:
            version = versions.get(client.environment, {}).get(client.package, "")
            head = f"**{client.name}**" + (f" ({client.package} {version})" if version else "")
            result = results[client.name].replace("|", "\\|")
            [row] = re.findall(rf"^\| \*\*{re.escape(client.name)}\*\*.*$", page, re.M)
            page = page.replace(row, f"| {head} | {result} |")
    write_bytes(PAGE, page.encode())


def select_clients(only: Sequence[str]) -> list[Client]:
    """Return the clients of these names; raises ValueError for an unknown name."""
    by_name = {client.name.lower().replace(" ", "-"): client for client in CLIENTS}
    names = [name.lower() for words in only for name in words.split(",") if name]
    for name in names:
        if name not in by_name:
            raise ValueError(f"--only {name} is no client: choose from {', '.join(by_name)}")
    return [by_name[name] for name in names] or list(CLIENTS)


def main() -> None:
    """Create environments, run the tests, write the page; exit with 1 if a client failed or was not
    run.
    """
    options = cli.parse(Options, sys.argv[1:], "python tests/clients/run.py")
    clients = select_clients(options.only)
    sources = (options.sources or CACHE / "sources").resolve()
    results: dict[str, str] = {}
    versions: dict[str, dict[str, str]] = {}
    for client in clients:
        try:
            packages = (torch_pin(), "pytest", *ENVIRONMENTS[client.environment])
            alone = WITHOUT_DEPENDENCIES.get(client.environment, ())
            python = make_environment(client.environment, packages, alone)
            versions[client.environment] = versions_in(python)
            for name in client.checkouts if options.sources is None else ():
                fetch(name, versions[client.environment])
            results[client.name] = run_tests(client, python, sources)
        except CommandError as problem:
            results[client.name] = f"**not run**: {problem}"
        print(f"{client.name}: {results[client.name]}", flush=True)
        write_rows(results, versions)
    sys.exit(0 if all(result.startswith("passed") for result in results.values()) else 1)


if __name__ == "__main__":
    cli.run_command(main)
