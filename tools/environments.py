"""Environments of other libraries with a wheel of this package, below ``.cache/clients``: a part of
``tests/clients/run.py`` and of ``tools/outside.py``.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / ".cache" / "clients"


class CommandError(Exception):
    """A command has failed; the message is its last line."""


def call(
    *command: str | Path, log: str, cwd: Path = ROOT, inherit: bool = True, **variables: str
) -> str:
    """Run a command without the paths of the checkout; return its output, which is kept in
    ``.cache/clients/logs``.

    Args:
        command: program and arguments.
        log: name of the file of the output.
        cwd: folder in which it runs.
        inherit: whether it is given the variables of this process, else ``PATH`` alone.
        variables: further variables.
    """
    ours = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONPATH", "PYTHONHOME") and (inherit or name == "PATH")
    }
    quiet = {
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "PYTHONUNBUFFERED": "1",
    }
    result = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env={**ours, **quiet, **variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    (CACHE / "logs").mkdir(parents=True, exist_ok=True)
    (CACHE / "logs" / f"{log}.txt").write_text(result.stdout)
    if result.returncode:
        lines = [
            line
            for line in result.stdout.splitlines()
            if line.strip() and not line.startswith("WARNING")
        ]
        raise CommandError(lines[-1] if lines else f"exit code {result.returncode}")
    return result.stdout


@functools.cache
def build_wheel() -> Path:
    """Build a wheel of this checkout from its source distribution, which excludes other files."""
    folder = CACHE / "wheel"
    shutil.rmtree(folder, ignore_errors=True)
    call(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT, log="build")
    [wheel] = folder.glob("*.whl")
    return wheel


@functools.cache
def make_environment(
    name: str, packages: tuple[str, ...], alone: tuple[str, ...] = (), base: Path | None = None
) -> Path:
    """Create an environment with the wheel; return its Python.

    Args:
        name: of its folder.
        packages: what is installed in addition to the wheel, in the newest versions that these
            pins allow.
        alone: packages that are installed afterwards, without their dependencies.
        base: the Python of another environment, whose packages are seen here too, so that those
            that both need, and the wheel, are installed once.

    Raises:
        CommandError: something cannot be installed.
    """
    wheel = build_wheel()
    folder = CACHE / "environments" / name
    python = folder / "bin" / "python"
    ready = folder / "ready.txt"
    log = f"install-{name}"
    pip = (sys.executable, "-m", "pip", "--python", python, "install")
    content = " ".join([*packages, *alone])
    if not ready.exists() or ready.read_text() != content:
        shutil.rmtree(folder, ignore_errors=True)
        call(sys.executable, "-m", "venv", "--without-pip", folder, log=log)
        if base:
            [site] = folder.glob("lib/*/site-packages")
            [base_site] = base.parents[1].glob("lib/*/site-packages")
            (site / "base.pth").write_text(f"{base_site}\n")
        requirements: list[str | Path] = [*packages]
        if not base:
            requirements.append(wheel)
        if requirements:
            call(*pip, *requirements, log=log)
        if alone:
            call(*pip, "--no-deps", *alone, log=log)
        ready.write_text(content)
    if not base:
        call(*pip, "--force-reinstall", "--no-deps", wheel, log=log)
    place = call(
        python, "-P", "-c", "import ttt_envs; print(ttt_envs.__file__)", cwd=folder, log=log
    ).strip()
    if not Path(place).is_relative_to(CACHE):
        raise CommandError(f"ttt_envs comes from {place}, not from the wheel")
    return python


def torch_pin() -> str:
    """Return the pinned torch, because others bring gigabytes of CUDA."""
    [torch] = re.findall(r"^torch==.*$", (ROOT / "constraints.txt").read_text(), re.M)
    return str(torch)


def versions_in(python: Path) -> dict[str, str]:
    """Return the versions of all packages that are installed in an environment."""
    packages_json = json.loads(
        call(
            sys.executable, "-m", "pip", "--python", python, "list", "--format=json", log="versions"
        )
    )
    return {
        package["name"].lower().replace("_", "-"): package["version"] for package in packages_json
    }
