"""Folders and distributions of others that Python imports in the place of this project's packages.

The packages have common names. ``baselines``, ``learners`` and ``evaluation`` are also distributions of others on the
package index, and an installer overwrites files of the same name without a word. So each package says in its
``__init__`` that it is ours, by ``__ttt_envs__ = True``, and is looked at here the first time that it is needed.
"""

from __future__ import annotations

import importlib.util
import warnings
from functools import cache
from pathlib import Path

PACKAGES = ("ttt_envs", "baselines", "learners", "evaluation", "ttt_apps")
MARKER = b"__ttt_envs__ = True"
ROOT = Path(__file__).resolve().parents[1]


def hidden_by(package: str) -> str | None:
    """Which folder, file or distribution hides a package, and what to do about it, in one sentence; None if none does.

    Args:
        package: what to look at; what is none of ``PACKAGES`` is not hidden.
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
    """Which distribution has overwritten a package of ours in its place, in one sentence; None if none has.

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
            f"a package {package} does: install ttt_envs anew in an environment of its own"
        )
    others = other_distributions(package) or "another distribution"
    return f"{others} has overwritten the package {package} of ttt_envs in {folder}: {_own_environment(others)}"


def mixed_with(package: str) -> str | None:
    """Which distribution has files beside ours in a package, in one sentence, to explain an import that has failed.

    Args:
        package: any; other projects' packages are mixed with nothing.
    """
    others = other_distributions(package) if package in PACKAGES else ""
    return f"{others} has files in the package {package} of ttt_envs: {_own_environment(others)}" if others else None


def _own_environment(others: str) -> str:
    return f"install ttt_envs anew in an environment of its own, without {others}"


def other_distributions(package: str) -> str:
    """The other distributions that have installed a package of this name, with versions; "" if there are none.

    It reads the metadata of all distributions, which takes a while.
    """
    from importlib import metadata

    names = set(metadata.packages_distributions().get(package, ())) - {"ttt_envs", "ttt-envs"}
    versions = {found.name: found.version for found in metadata.distributions()}
    return " and ".join(f"the distribution {name} {versions[name]}" for name in sorted(names))


@cache
def check_package(package: str) -> None:
    """Look once at a package that is about to be imported.

    Raises:
        ValueError: it is one of ``PACKAGES``, and a folder or distribution hides it or has overwritten it.
    """
    problem = hidden_by(package)
    if problem:
        raise ValueError(problem)


def warn_of_overwritten() -> None:
    """Warn of each package that another distribution has overwritten: code may import it without asking here."""
    for package in PACKAGES[1:]:
        problem = overwritten_by(package)
        if problem:
            warnings.warn(problem, stacklevel=3)
