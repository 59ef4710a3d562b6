"""Public names of a package, which are imported when they are first used."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def public_names(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package.

    The public names are those that its ``__init__.py`` imports under ``if TYPE_CHECKING:``, one a line, as
    ``from module import name as name``: the list for type checkers is the list at run time. Importing compiled code
    takes half a second, which printing help or registering environments does not need. A package with a module and
    a public function of one name imports its names at once instead.

    Args:
        package: its ``__name__``.
        file: its ``__file__``.
    """
    lines = re.findall(r"^    from (\S+) import (\w+) as \2$", Path(file).read_text("utf-8"), re.M)
    places = {name: module for module, name in lines}

    def import_name(name: str) -> Any:
        """Import and return a public name."""
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if places[name] == package:  # a module of the package
            return importlib.import_module(f"{package}.{name}")
        value = getattr(importlib.import_module(places[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    def list_names() -> list[str]:
        """Return the public names, including those not yet imported."""
        names = vars(sys.modules[package])
        return sorted([*names["__all__"], *(name for name in names if name.startswith("__"))])

    return import_name, list_names, sorted(places)
