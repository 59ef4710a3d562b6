"""What results depend on beside their settings: versions, and the revision of this code."""

from __future__ import annotations

import platform
import shutil
import subprocess
from importlib import metadata
from pathlib import Path


def versions() -> dict[str, str]:
    """Of what results depend on, as far as it is installed."""
    found = {"python": platform.python_version()}
    for package in (
        "ttt_envs",
        "numpy",
        "numba",
        "gymnasium",
        "pettingzoo",
        "open_spiel",
        "tensorflow",
        "stable_baselines3",
        "torch",
    ):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:  # an extra; or we ourselves, run from a checkout
            continue
    return found


def revision() -> str | None:
    """The git revision of this code, where it is a checkout."""
    git = shutil.which("git")
    if git is None:
        return None
    here = Path(__file__).parent
    answer = subprocess.run([git, "rev-parse", "HEAD"], cwd=here, capture_output=True, encoding="utf-8", check=False)
    return answer.stdout.strip() or None
