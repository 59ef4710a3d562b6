"""Files that are written whole or not at all."""

from __future__ import annotations

import json
import os
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any


def write_whole(path: Path, write: Any) -> None:
    """Write a file beside ``path`` by ``write(file)``, then put it in the place of ``path`` in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    file = NamedTemporaryFile(dir=path.parent, prefix=path.name, suffix=".tmp", delete=False)  # noqa: SIM115
    try:
        with file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(file.name, path)
    except BaseException:
        Path(file.name).unlink(missing_ok=True)
        raise


def write_json(path: Path, data: Any) -> None:
    """Write JSON, whole or not at all."""
    write_whole(path, lambda file: file.write(json.dumps(data, indent=2).encode() + b"\n"))
