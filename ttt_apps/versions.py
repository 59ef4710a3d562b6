"""Versions of packages and revision of the code, on which results depend."""

from __future__ import annotations

import platform
import shutil
import subprocess
from importlib import metadata
from pathlib import Path


def versions(*others: str) -> dict[str, str]:
    """Return the versions of installed packages on which results depend, and of others."""
    found = {"python": platform.python_version()}
    for package in (
        "ttt_envs",
        "numpy",
        "scipy",
        "numba",
        "gymnasium",
        "pettingzoo",
        "open_spiel",
        "tensorflow",
        "stable_baselines3",
        "sb3_contrib",
        "torch",
        *others,
    ):
        try:
            found[package] = metadata.version(package)
        except (metadata.PackageNotFoundError, ValueError):  # an extra, this package in a checkout, or no name
            continue
    return found


def make_provenance() -> dict[str, str]:
    """Return the causes of stored results: versions of packages, and of the code that determines them as ``code``."""
    from ttt_eval.result_store import RESULT_VERSION

    return {**versions(), "code": str(RESULT_VERSION)}


def revision() -> str | None:
    """Return the git revision of this code, if it is a checkout."""
    git = shutil.which("git")
    if git is None:
        return None
    root = Path(__file__).resolve().parents[1]
    command = [git, "rev-parse", "--show-toplevel", "HEAD"]
    answer = subprocess.run(command, cwd=root, capture_output=True, encoding="utf-8", check=False)
    if answer.returncode != 0:
        return None
    checkout, _, commit = answer.stdout.strip().rpartition("\n")
    # an installed copy may be in the checkout of another project, in its virtual environment
    return commit if Path(checkout).resolve() == root else None
