"""The client matrix: other libraries with a wheel of this package, each in an environment that its pins allow.

``make clients``, or ``python tests/clients/run.py``. Builds the wheel, makes the environments in ``.cache/clients``,
runs the tests of each client there from an empty folder, and writes the table of docs/clients.md.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import tyro
from rich.console import Console

from ttt_apps import cli
from ttt_envs.core.files import read_json, write_atomically, write_json

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PAGE = ROOT / "docs" / "clients.md"
CACHE = ROOT / ".cache" / "clients"
BEGIN, END = "<!-- written by make clients -->", "<!-- until here -->"
SOURCES = "TTT_CLIENTS_SOURCES"


@dataclass(frozen=True)
class Client:
    """A library that runs on our environments."""

    name: str
    tests: str
    """the file of its tests"""
    environment: str
    packages: tuple[str, ...]
    """packages with their versions on the page"""
    checkouts: tuple[str, ...] = ()
    """repositories with tutorials or tests, which no wheel contains"""


ENVIRONMENTS: dict[str, tuple[str, ...]] = {
    "newest": (
        "pettingzoo",
        "gymnasium",
        "pygame-ce",
        "stable-baselines3",
        "sb3-contrib",
        "tianshou>=2",
        "torchrl",
        "skrl",
        "open_spiel",
        "tyro",
        "tensorboard",
    ),
    "tianshou-0.5": ("tianshou==0.5.1", "pygame-ce", "tensorboard"),
    "rllib": ("ray[rllib]",),
    "text": ("verifiers>=0.4", "textarena>=0.7", "gem-llm"),
    "pufferlib": ("psutil",),
}
"""Packages of each environment, in addition to the wheel, torch and pytest."""

WITHOUT_DEPENDENCIES: dict[str, tuple[str, ...]] = {"pufferlib": ("pufferlib-core",)}
"""More packages, installed without their dependencies, because they pin another torch."""

CLIENTS = (
    Client("PettingZoo", "test_pettingzoo.py", "newest", ("pettingzoo", "pygame-ce"), ("PettingZoo",)),
    Client("Gymnasium", "test_gymnasium.py", "newest", ("gymnasium",), ("Gymnasium",)),
    Client("Stable-Baselines3", "test_sb3.py", "newest", ("stable-baselines3", "sb3-contrib"), ("PettingZoo",)),
    Client("CleanRL", "test_cleanrl.py", "newest", ("tyro", "tensorboard"), ("cleanrl",)),
    Client("Tianshou", "test_tianshou.py", "newest", ("tianshou",), ("tianshou",)),
    Client("Tianshou 0.5", "test_tianshou.py", "tianshou-0.5", ("tianshou",), ("PettingZoo",)),
    Client("TorchRL", "test_torchrl.py", "newest", ("torchrl", "tensordict"), ("rl",)),
    Client("skrl", "test_skrl.py", "newest", ("skrl",)),
    Client("PufferLib", "test_pufferlib.py", "pufferlib", ("pufferlib-core",)),
    Client("RLlib", "test_rllib.py", "rllib", ("ray",)),
    Client("OpenSpiel", "test_open_spiel.py", "newest", ("open_spiel",)),
    Client("verifiers", "test_verifiers.py", "text", ("verifiers",)),
    Client("TextArena", "test_textarena.py", "text", ("textarena",)),
    Client("GEM", "test_gem.py", "text", ("gem-llm",)),
)
COMMON = ("ttt_envs", "gymnasium", "pettingzoo", "numpy", "torch")
"""Packages with their versions on the page for every environment."""

CHECKOUTS = {
    "PettingZoo": ("https://github.com/Farama-Foundation/PettingZoo", "pettingzoo", "{}"),
    "Gymnasium": ("https://github.com/Farama-Foundation/Gymnasium", "gymnasium", "v{}"),
    "cleanrl": ("https://github.com/vwxyzjn/cleanrl", None, ""),
    "tianshou": ("https://github.com/thu-ml/tianshou", "tianshou", "v{}"),
    "rl": ("https://github.com/pytorch/rl", "torchrl", "v{}"),
}
"""Maps a checkout to its URL, and to the package whose version determines its tag."""


@dataclass(frozen=True)
class Options:
    """Run the libraries that our environments are made for on a wheel of them, and write docs/clients.md."""

    only: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME,...")] = ()
    """these clients; the page is written once all others have been run too"""
    sources: Path | None = None
    """a folder with checkouts PettingZoo, Gymnasium, cleanrl, tianshou and rl; else they are cloned"""
    fresh: tyro.conf.FlagCreatePairsOff[bool] = False
    """make the environments again"""


QUIET = {
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "PYTHONUNBUFFERED": "1",  # both outputs of a command go into one file, in the order in which it writes them
}
"""variables of every command"""


class CommandError(Exception):
    """A command has failed; the message is its last line."""


def clean_variables() -> dict[str, str]:
    """Return environment variables without the paths of the checkout."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}


def python_output(python: Path, code: str, *words: str) -> str:
    """Return the output of code run by the Python of an environment."""
    with tempfile.TemporaryDirectory() as empty:
        command = [python, "-P", "-c", code, *words]
        return subprocess.run(command, cwd=empty, env=clean_variables(), capture_output=True, text=True).stdout.strip()


def call(*command: str | Path, cwd: Path = ROOT, log: Path, **variables: str) -> None:
    """Run a command, its output into a file."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as file:
        done = subprocess.run(
            list(map(str, command)),
            cwd=cwd,
            env={**clean_variables(), **QUIET, **variables},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    if done.returncode:
        lines = [line for line in log.read_text().splitlines() if line.strip() and not line.startswith("WARNING")]
        raise CommandError(lines[-1] if lines else f"exit code {done.returncode}")


def build_wheel() -> Path:
    """Build a wheel of this checkout from its source distribution, which excludes other files."""
    folder = CACHE / "wheel"
    shutil.rmtree(folder, ignore_errors=True)
    call(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT, log=CACHE / "logs" / "build.txt")
    [wheel] = folder.glob("*.whl")
    return wheel


def make_environment(name: str, wheel: Path, fresh: bool) -> Path:
    """Create an environment with the newest versions that its pins allow, and the wheel; return its Python."""
    folder = CACHE / "environments" / name
    python, ready = folder / "bin" / "python", folder / "ready.json"
    [torch] = re.findall(r"^torch==.*$", (ROOT / "constraints.txt").read_text(), re.M)  # others bring gigabytes of CUDA
    bare = WITHOUT_DEPENDENCIES.get(name, ())
    wanted = [torch, "pytest", *ENVIRONMENTS[name]]
    log = CACHE / "logs" / f"install-{name}.txt"
    if fresh or not ready.exists() or read_json(ready) != [*wanted, *bare]:
        shutil.rmtree(folder, ignore_errors=True)
        call(sys.executable, "-m", "venv", folder, log=log)
        call(python, "-m", "pip", "install", *wanted, log=log)
        if bare:
            call(python, "-m", "pip", "install", "--no-deps", *bare, log=log)
        call(python, "-m", "pip", "install", wheel, log=log)
        write_json(ready, [*wanted, *bare])
    call(python, "-m", "pip", "install", "--force-reinstall", "--no-deps", wheel, log=log)
    place = python_output(python, "import ttt_envs; print(ttt_envs.__file__)")
    if not Path(place).is_relative_to(folder):
        raise CommandError(f"ttt_envs comes from {place or 'nowhere'}, not from the wheel")
    return python


def versions_in(python: Path, packages: Sequence[str]) -> dict[str, str]:
    """Return the versions of packages that are installed in an environment."""
    code = (
        "import importlib.metadata as m, json, sys\n"
        "has = {d.metadata['Name'].lower().replace('_', '-'): d.version for d in m.distributions()}\n"
        "names = {name: has.get(name.replace('_', '-')) for name in sys.argv[1:]}\n"
        "print(json.dumps({name: version for name, version in names.items() if version}))"
    )
    found: dict[str, str] = json.loads(python_output(python, code, *packages))
    return found


def fetch(name: str, python: Path) -> None:
    """Clone a checkout at the tag of the installed version, or at the newest state, into the cache, if possible."""
    url, package, tag = CHECKOUTS[name]
    folder = CACHE / "sources" / name
    version = versions_in(python, [package]).get(package, "") if package else ""
    wanted, marker = tag.format(version), folder / ".git" / "wanted"
    if marker.exists() and marker.read_text() == wanted:
        return
    for branch in (["--branch", wanted], []) if wanted else ([],):
        shutil.rmtree(folder, ignore_errors=True)
        try:
            call("git", "clone", "--depth", "1", *branch, url, folder, log=CACHE / "logs" / f"clone-{name}.txt")
        except (CommandError, OSError):
            continue
        marker.write_text(wanted)
        return


def commit_hash(folder: Path) -> str:
    """Return the commit of a checkout, or an empty string."""
    done = subprocess.run(["git", "-C", folder, "rev-parse", "--short=9", "HEAD"], capture_output=True, text=True)
    return done.stdout.strip() if (folder / ".git").exists() and not done.returncode else ""


def read_report(report: Path) -> Iterator[dict[str, Any]]:
    """Yield the result of each test in a report."""
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        pairs = [(one.get("name"), one.get("value")) for one in case.iter("property")]
        properties = dict(pairs)
        result, why = "passed", ""
        for kind, word in (("failure", "failed"), ("error", "failed"), ("skipped", "not run")):
            for element in case.iter(kind):
                result, why = word, (element.get("message") or "").splitlines()[0]
        speed = properties.get("steps_per_s")
        yield {
            "what": properties.get("what") or f"`{case.get('name')}`",
            "result": result,
            "why": why,
            "tests": sum(int(value) for name, value in pairs if name == "tests") or 1,
            "steps_per_s": float(speed) if speed else None,
        }


def run_tests(client: Client, python: Path, wheel: Path, sources: Path) -> list[dict[str, Any]]:
    """Run the tests of a client in an empty folder, without access to the checkout; return their results."""
    with tempfile.TemporaryDirectory(prefix="ttt-clients-") as name:
        folder = Path(name)
        for part in ("tests/clients", "examples"):
            shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
        report = folder / "report.xml"
        words = ("-q", "-p", "no:cacheprovider", "-o", "junit_family=xunit1", f"--junitxml={report}")
        kernels = CACHE / "numba" / client.environment / str(file_hash(wheel))
        try:
            call(
                *(python, "-P", "-m", "pytest", *words, f"tests/clients/{client.tests}"),
                cwd=folder,
                log=CACHE / "logs" / f"{client.name.lower().replace(' ', '-')}.txt",
                NUMBA_CACHE_DIR=str(kernels),
                TTT_ENVS_CACHE=str(CACHE / "tables"),
                **{SOURCES: str(sources)},
            )
        except CommandError:
            if not report.exists():
                raise
        return list(read_report(report))


def file_hash(path: Path) -> str:
    """Return a hash of a file: numba's cache does not see edits in kernels that a kernel imports."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def result_rows(record: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Return (description, steps per second, result) of a client, one row for tests of one description."""
    if record["reason"]:
        return [("", "", f"**not run**: {record['reason']}")]
    rows = []
    for what in dict.fromkeys(case["what"] for case in record["cases"]):
        same = [case for case in record["cases"] if case["what"] == what]
        speeds = [case["steps_per_s"] for case in same if case["steps_per_s"]]
        worst = next((case for case in same if case["result"] == "failed"), None)
        worst = worst or next((case for case in same if case["result"] != "passed"), None)
        count = sum(case["tests"] for case in same)
        result = f"**{worst['result']}**: {worst['why']}" if worst else "passed" + (f" ({count})" if count > 1 else "")
        rows.append((what, f"{float(f'{median(speeds):.2g}'):,.0f}" if speeds else "", result))
    return rows


def results_table(records: dict[str, dict[str, Any]]) -> str:
    """Return the generated part of the page."""
    lines = ["| client | tests |", "|---|---|"]
    for client in CLIENTS:
        record = records[client.name]
        own = [f"{name} {record['versions'][name]}" for name in client.packages if name in record["versions"]]
        own += [f"{name} at {text}" for name, text in record.get("checkouts", {}).items() if text]
        head = f"**{client.name}**" + (f" ({', '.join(own)})" if own else "")
        count = sum(case["tests"] for case in record["cases"])
        problems = [f"{what} {result}".strip() for what, _, result in result_rows(record) if "**" in result]
        cells = (head, "; ".join(problems) or f"passed ({count})")
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    lines += ["", "Beside them in their environments:", ""]
    for name in ENVIRONMENTS:
        of = next(records[client.name]["versions"] for client in CLIENTS if client.environment == name)
        lines.append(f"- `{name}`: " + ", ".join(f"{one} {of[one]}" for one in COMMON if one in of))
    return "\n".join(lines)


def write_page(records: dict[str, dict[str, Any]]) -> None:
    """Write the table into docs/clients.md, between its two marks."""
    text = PAGE.read_text()
    before, after = text.partition(BEGIN)[0], text.partition(END)[2]
    page = f"{before}{BEGIN}\n\n{results_table(records)}\n\n{END}{after}"
    write_atomically(PAGE, lambda file: file.write(page.encode()))


def select_clients(only: Sequence[str]) -> list[Client]:
    """Return the clients of these names.

    Raises:
        ValueError: an unknown name.
    """
    names = [name for words in only for name in words.split(",") if name]
    known = {client.name.lower().replace(" ", "-"): client for client in CLIENTS}
    for name in names:
        if name.lower() not in known:
            raise ValueError(f"--only {name} is no client: choose from {', '.join(known)}")
    return [known[name.lower()] for name in names] or list(CLIENTS)


def main() -> None:
    """Create environments, run the tests, write the page; exit with 1 if a client failed or was not run."""
    options = cli.parse(Options, sys.argv[1:], "python tests/clients/run.py")
    clients = select_clients(options.only)
    console, bad = Console(stderr=True, highlight=False), False
    sources = (options.sources or CACHE / "sources").resolve()
    with cli.progress_bar() as bar:
        task = bar.add_task("clients", total=len(clients), text="the wheel")
        wheel = build_wheel()
        pythons: dict[str, Path | CommandError] = {}
        for client in clients:
            bar.update(task, text=client.name)
            record: dict[str, Any] = {"versions": {}, "checkouts": {}, "cases": [], "reason": ""}
            try:
                if client.environment not in pythons:
                    try:
                        pythons[client.environment] = make_environment(client.environment, wheel, options.fresh)
                    except CommandError as problem:
                        pythons[client.environment] = CommandError(f"no environment, {problem}")
                python = pythons[client.environment]
                if isinstance(python, CommandError):
                    raise python
                record["versions"] = versions_in(python, (*COMMON, *client.packages))
                for name in client.checkouts if options.sources is None else ():
                    fetch(name, python)
                record["checkouts"] = {name: commit_hash(sources / name) for name in client.checkouts}
                record["cases"] = run_tests(client, python, wheel, sources)
            except CommandError as problem:
                record["reason"] = str(problem)
            write_json(CACHE / "results" / f"{client.name}.json", record)
            for what, speed, result in result_rows(record):
                bad |= not result.startswith("passed")
                console.print(f"{client.name}: {what}: {speed and speed + ' steps/s, '}{result}")
            bar.advance(task)
    files = {client.name: CACHE / "results" / f"{client.name}.json" for client in CLIENTS}
    waiting = [name for name, file in files.items() if not file.exists()]
    if not waiting:
        write_page({name: read_json(file) for name, file in files.items()})
    state = f"waits for {', '.join(waiting)}" if waiting else "is written"
    console.print(f"{PAGE.relative_to(ROOT)} {state}; logs are in {(CACHE / 'logs').relative_to(ROOT)}")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    cli.run_command(main)
