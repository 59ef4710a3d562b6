"""Identity of a policy: a hash of the files on which it depends."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from ttt_envs.agents.specs import POLICIES, parse_spec


def policy_identity(spec: str) -> str:
    """Return a SHA-256 of a policy's dependencies beyond its spec string: "" if only our own code.

    It covers the files and folders in the spec, at any depth, as in ``run:PATH`` and ``sb3:PATH``, and the file of a
    class that is not ours.

    Args:
        spec: of a policy.

    Raises:
        TypeError, ValueError: no spec.
    """
    files = [(file.name, file.read_bytes()) for file in _files_of(spec)]
    data = b"".join(f"{name} {len(content)}\n".encode() + content for name, content in files)
    return hashlib.sha256(data).hexdigest() if files else ""


def _files_of(spec: str) -> Iterator[Path]:
    parsed = parse_spec(spec)
    module = parsed.name.partition(":")[0] if ":" in parsed.name else ""
    module_spec = find_spec(module) if module else None
    if module_spec is not None and module_spec.origin:
        yield Path(module_spec.origin)
    for value in filter(None, (parsed.unkeyed, *(parsed.keyed[key] for key in sorted(parsed.keyed)))):
        if os.path.isfile(value):
            yield Path(value)
        elif os.path.isdir(value):
            # of a run its weights and config, of a database its hashes; figures and pages do not affect a move
            names = ("config.json", "manifest.json", "*.npz", "*.zip", "*.keras")
            yield from sorted({file for name in names for file in Path(value).glob(name) if file.is_file()})
        elif set("(:") & set(value) or value in POLICIES:
            yield from _files_of(value)
