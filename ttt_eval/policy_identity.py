"""Identity of a policy: a hash of the files on which it depends."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache, partial
from importlib.util import find_spec
from pathlib import Path

from ttt_envs.agents.specs import POLICIES, FromFile, parse_spec, trusted


def policy_identity(spec: str) -> str:
    """Return a SHA-256 of a policy's dependencies beyond its spec string: "" if only our own code.

    It covers the files and folders in the spec, at any depth, as in ``run:PATH`` and ``sb3:PATH``, and the file of a
    class that is not ours.

    Args:
        spec: of a policy.

    Raises:
        TypeError, ValueError: no spec.
    """
    states = tuple((file, _file_state(file.stat())) for file in _files_of(spec))
    return _hash_files(states) if states else ""


def _file_state(status: os.stat_result) -> tuple[int, ...]:
    """Return what changes whenever a file is replaced or written."""
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


@lru_cache(maxsize=64)
def _hash_files(states: tuple[tuple[Path, tuple[int, ...]], ...]) -> str:
    """Return the SHA-256 of the names and contents of files, which are read once in each state."""
    digest = hashlib.sha256()
    for file, (_, size, *_) in states:
        digest.update(f"{file.name} {size}\n".encode())
        with file.open("rb") as content:
            for part in iter(partial(content.read, 1 << 20), b""):
                digest.update(part)
    return digest.hexdigest()


def _files_of(spec: str) -> Iterator[Path]:
    parsed = parse_spec(spec)
    is_refused = isinstance(parsed.name, FromFile) and not trusted()  # the search for a module may import a package
    if ":" in parsed.name and not is_refused:
        with suppress(ImportError, ValueError):  # there is no such module, or it is a script's
            module = find_spec(parsed.name.partition(":")[0])
            if module is not None and module.origin:
                yield Path(module.origin)
    for value in filter(None, (parsed.unkeyed, *(parsed.keyed[key] for key in sorted(parsed.keyed)))):
        if os.path.isfile(value):
            yield Path(value)
        elif os.path.isdir(value):
            # of a run its weights and config, of a database its hashes; figures and pages do not affect a move
            names = ("config.json", "manifest.json", "*.npz", "*.zip", "*.keras")
            yield from sorted({file for name in names for file in Path(value).glob(name) if file.is_file()})
        elif set("(:") & set(value) or value in POLICIES:
            yield from _files_of(value)
