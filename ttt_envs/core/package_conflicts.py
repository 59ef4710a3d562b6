"""Detects foreign folders and distributions that shadow or overwrite this project's packages.

The packages have common names. ``baselines``, ``learners`` and ``evaluation`` are also other projects' distributions on
the package index, and an installer overwrites files of the same name without a warning. So each package marks itself in
its ``__init__`` with ``__ttt_envs__ = True``, and this module checks the mark before first use.
"""

from __future__ import annotations

import importlib.util
import warnings
from functools import cache
from pathlib import Path

PACKAGES = ("ttt_envs", "baselines", "learners", "evaluation", "ttt_apps")
MARKER = b"__ttt_envs__ = True"
ROOT = Path(__file__).resolve().parents[2]
"""Folder of the imported packages: a checkout, or ``site-packages``."""


def shadowed_by(package: str) -> str | None:
    """Return a sentence on which folder, file or distribution shadows a package, and the remedy; None if none does.

    Args:
        package: package name; a name outside ``PACKAGES`` gives None.
    """
    if package not in PACKAGES or not (ROOT / package).is_dir():
        return None
    spec = importlib.util.find_spec(package)
    places = [] if spec is None else list(spec.submodule_search_locations or filter(None, [spec.origin]))
    if not places or Path(places[0]).resolve() == ROOT / package:
        return overwritten_by(package)
    others = other_distributions(package)
    if others and Path(places[0]).parent.name in ("site-packages", "dist-packages"):
        return f"{others} hides the package {package} of ttt_envs in {places[0]}: {_own_environment(others)}"
    kind = "folder" if Path(places[0]).is_dir() else "file"
    return f"the {kind} {places[0]} hides the package {package} of ttt_envs: run from another folder, or rename it"


def overwritten_by(package: str) -> str | None:
    """Return a sentence on which distribution has overwritten a package in place; None if none has.

    Args:
        package: one of ``PACKAGES``; only its ``__init__`` is read.
    """
    folder = ROOT / package
    if not folder.is_dir():
        return None
    try:
        if MARKER in (folder / "__init__.py").read_bytes():
            return None
    except FileNotFoundError:
        return (
            f"the package {package} of ttt_envs has lost files in {folder}, as uninstalling another distribution with "
            f"a package {package} does: reinstall ttt_envs in an environment of its own"
        )
    others = other_distributions(package) or "another distribution"
    return f"{others} has overwritten the package {package} of ttt_envs in {folder}: {_own_environment(others)}"


def mixed_with(package: str) -> str | None:
    """Return a sentence on which distribution has files inside a package, to explain a failed import; None if none has.

    Args:
        package: any name; a name outside ``PACKAGES`` gives None.
    """
    others = other_distributions(package) if package in PACKAGES else ""
    return f"{others} has files in the package {package} of ttt_envs: {_own_environment(others)}" if others else None


def _own_environment(others: str) -> str:
    return f"reinstall ttt_envs in an environment of its own, without {others}"


def other_distributions(package: str) -> str:
    """Return the names and versions of other distributions that install a package of this name; "" if there are none.

    This reads the metadata of all distributions, which is slow.
    """
    from importlib import metadata

    names = set(metadata.packages_distributions().get(package, ())) - {"ttt_envs", "ttt-envs"}
    versions = {found.name: found.version for found in metadata.distributions()}
    return " and ".join(f"the distribution {name} {versions[name]}" for name in sorted(names))


@cache
def check_package(package: str) -> None:
    """Check a package before its import; the result is cached.

    Raises:
        ValueError: it is one of ``PACKAGES``, and a folder or distribution shadows it or has overwritten it.
    """
    problem = shadowed_by(package)
    if problem:
        raise ValueError(problem)


def warn_of_overwritten() -> None:
    """Warn about each package overwritten by another distribution: code may import it without :func:`check_package`."""
    for package in PACKAGES[1:]:
        problem = overwritten_by(package)
        if problem:
            warnings.warn(problem, stacklevel=3)
