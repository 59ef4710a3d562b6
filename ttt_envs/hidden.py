"""Folders of others that Python imports in the place of this project's packages, which have common names."""

from __future__ import annotations

import importlib.util
from pathlib import Path

PACKAGES = ("ttt_envs", "baselines", "learners", "evaluation", "ttt_apps")


def hidden_by(package: str) -> str | None:
    """Which folder or file hides a package, and what to do about it, in one sentence; None where nothing does.

    Args:
        package: what to look at; what is none of ``PACKAGES`` is not hidden.
    """
    root = Path(__file__).resolve().parents[1]
    if package not in PACKAGES or not (root / package / "__init__.py").is_file():
        return None
    spec = importlib.util.find_spec(package)
    places = [] if spec is None else list(spec.submodule_search_locations or filter(None, [spec.origin]))
    if not places or Path(places[0]).resolve() == root / package:
        return None
    kind = "folder" if Path(places[0]).is_dir() else "file"
    return f"the {kind} {places[0]} hides the package {package} of ttt_envs: run from another folder, or rename it"
