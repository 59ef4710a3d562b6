"""Fingerprint of the code that determines a result: the project's relevant files, and a hash of them."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from ttt_envs.agents.specs import POLICIES, parse_spec

BY_NAME = ("ttt_envs", "baselines", "learners")
"""Packages with modules loaded by name, such as policies and learners: all their files count."""
SHOWS = ("evaluation.reports", "evaluation.exact.estimate")
"""Modules and packages that format results or estimate cost, and determine no result."""


def source_files(*modules: str) -> list[Path]:
    """Return the files that determine the results of these modules, in order.

    Of the packages that load by name these are all files; of ``evaluation`` and of the modules' own packages these are
    the modules, their direct and indirect imports, and the enclosing packages. Modules of :data:`SHOWS` are excluded
    unless given.
    """
    here = Path(__file__).parents[1]
    files = {file for package in BY_NAME for file in (here / package).rglob("*.py")}
    packages = {"evaluation", *(module.partition(".")[0] for module in modules)}
    found: dict[str, Path] = {}
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        spec = None if name in found else find_spec(name)
        if spec is None or not spec.origin:
            continue
        found[name] = Path(spec.origin)
        named = {*_imported_by(found[name].read_text("utf-8")), name.rpartition(".")[0]}
        waiting += [one for one in named if one.partition(".")[0] in packages - set(BY_NAME) and _is_module(one)]
    return sorted(files | set(found.values()))


def code_hash(*modules: str) -> str:
    """Return the SHA-256 of the names and contents of the files of :func:`source_files`."""
    here = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for file in source_files(*modules):
        name = file.relative_to(here) if file.is_relative_to(here) else Path(file.name)
        content = file.read_bytes()
        digest.update(f"{name.as_posix()} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def policy_identity(spec: str) -> str:
    """Return a SHA-256 of a policy's dependencies beyond its spec string: "" if only our own code.

    It covers the files and folders in the spec, at any depth, as in ``run:PATH`` and ``sb3:PATH``, and the file of a
    class that is not ours.

    Args:
        spec: of a policy.

    Raises:
        TypeError, ValueError: no spec.
    """
    digest, found = hashlib.sha256(), False
    for file in _files_of(spec):
        content = file.read_bytes()
        digest.update(f"{file.name} {len(content)}\n".encode() + content)
        found = True
    return digest.hexdigest() if found else ""


def _files_of(spec: str) -> Iterator[Path]:
    parsed = parse_spec(spec)
    module = parsed.name.partition(":")[0] if ":" in parsed.name else ""
    found = find_spec(module) if module else None
    if found is not None and found.origin:
        yield Path(found.origin)
    for value in (parsed.unkeyed, *(parsed.keyed[key] for key in sorted(parsed.keyed))):
        path = None if value is None or "\0" in value else Path(value)
        if path is None or len(value or "") > 1000:
            continue
        if path.is_file():
            yield path
        elif path.is_dir():
            # of a run its weights and config, of a database its hashes; figures and pages do not affect a move
            names = ("config.json", "manifest.json", "*.npz", "*.zip", "*.keras")
            yield from sorted({file for name in names for file in path.glob(name) if file.is_file()})
        elif set("(:") & set(value or "") or value in POLICIES:
            yield from _files_of(str(value))


@cache
def _imported_by(code: str) -> frozenset[str]:
    """Return the dotted names imported anywhere in the code: modules, and names in modules."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.update((node.module, *(f"{node.module}.{alias.name}" for alias in node.names)))
    return frozenset(names)


def determines_results(module: str) -> bool:
    """Return whether a module may affect results: whether it is outside :data:`SHOWS`."""
    return not f"{module}.".startswith(tuple(f"{one}." for one in SHOWS))


def _is_module(name: str) -> bool:
    """Return whether a dotted name is a relevant module, and not a name in one."""
    try:
        return determines_results(name) and find_spec(name) is not None
    except ModuleNotFoundError:  # its parent is no package
        return False
