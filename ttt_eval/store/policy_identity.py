"""Identity of a policy: a hash of the files on which it depends."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ttt_envs.agents.specs import POLICIES, parse_spec
from ttt_envs.core.checks import Refusal

SETTLED_NS = 2_000_000_000
"""Age of files from which their times tell whether they have changed, in nanoseconds: some systems
count seconds.
"""


def policy_identity(spec: str) -> str:
    """Return a SHA-256 of a policy's dependencies beyond its spec string: "" if only our own code.

    It covers the files and folders in the spec, at any depth, as in ``run:PATH`` and ``sb3:PATH``,
    and the file of a class that is not ours.

    Args:
        spec: of a policy.

    Raises:
        TypeError, ValueError: no spec.
    """
    states = tuple(map(_state_of, _files_of(spec)))
    if not states:
        return ""
    # a file that is written again within the resolution of its time looks the same
    is_settled = time.time_ns() - max(time_ns for *_, time_ns in states) > SETTLED_NS
    return _hash_files(states) if is_settled else _hash_files.__wrapped__(states)


def _state_of(file: Path) -> tuple[Path, int, int, int]:
    status = file.stat()
    return file, status.st_size, status.st_ino, status.st_mtime_ns


@lru_cache(maxsize=64)
def _hash_files(states: tuple[tuple[Path, int, int, int], ...]) -> str:
    """Return the SHA-256 of the names and contents of files, which are read once for each size,
    inode and time.
    """
    digest = hashlib.sha256()
    for file, size, *_ in states:
        digest.update(f"{file.name} {size}\n".encode())
        with file.open("rb") as content:
            hashlib.file_digest(content, lambda: digest)
    return digest.hexdigest()


def _files_of(spec: str) -> Iterator[Path]:
    parts = parse_spec(spec)
    module, colon, _ = parts.name.partition(":")
    if colon:
        package, *inner_names = module.split(".")
        with suppress(ValueError):  # a script's module
            module_spec: Any = find_spec(package)
            # find_spec("a.b") would import a
            for name in inner_names:
                folders = getattr(module_spec, "submodule_search_locations", None) or ()
                module_spec = PathFinder.find_spec(name, folders)
            if getattr(module_spec, "has_location", False):
                yield Path(module_spec.origin)
    for value in filter(None, (parts.unkeyed, *(parts.keyed[key] for key in sorted(parts.keyed)))):
        if os.path.isfile(value):
            yield Path(value)
        elif os.path.isdir(value):
            # of a run its weights and config, of a database its hashes; figures and pages do not
            # affect a move
            names = ("config.json", "manifest.json", "*.npz", "*.zip", "*.keras")
            yield from sorted(
                {file for name in names for file in Path(value).glob(name) if file.is_file()}
            )
        elif set("(:") & set(value) or value in POLICIES:
            with suppress(Refusal):  # other text, such as the arguments of a program
                yield from _files_of(value)
