"""Commands that install a missing extra of this package."""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path
from typing import Any

from ttt_envs.core.package_conflicts import ROOT

PACKAGE = "ttt_envs"


def install_command(extra: str) -> str:
    """Return the command that installs an extra: from the checkout, if the packages are imported from one.

    An editable installation stays editable. A package that was installed from a folder or file is installed from there
    again.
    """
    origin = _origin()
    url = str(origin.get("url", ""))
    if (ROOT / "setup.cfg").is_file():
        place = "." if Path.cwd() == ROOT else str(ROOT)
        editable = "-e " if origin.get("dir_info", {}).get("editable") else ""
        return f'pip install {editable}"{place}[{extra}]"'
    return f'pip install "{PACKAGE}[{extra}]{f" @ {url}" if url.startswith("file:") else ""}"'


def _origin() -> dict[str, Any]:
    """Return pip's record of the place from which the package was installed; empty for a package index."""
    try:
        text = metadata.distribution(PACKAGE).read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        return {}
    found: dict[str, Any] = json.loads(text) if text else {}
    return found
