"""Replace Sphinx roles in docstrings, such as ``:func:`play```, by code for the site."""

from __future__ import annotations

import re
from typing import Any

import griffe

ROLE = re.compile(r":(?:\w+:)?\w+:`~?([^`]+)`")


class StripSphinxRoles(griffe.Extension):
    """mkdocstrings calls it for every object, before it parses the docstring."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Strip the roles from an object's docstring."""
        if obj.docstring is not None:
            obj.docstring.value = ROLE.sub(r"`\1`", obj.docstring.value)
