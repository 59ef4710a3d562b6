"""Docstrings as the site shows them: what stands in Sphinx's roles, such as ``:func:`play```, becomes code."""

from __future__ import annotations

import re
from typing import Any

import griffe

ROLE = re.compile(r":(?:\w+:)?\w+:`~?([^`]+)`")


class Roles(griffe.Extension):
    """Called by mkdocstrings with every object, before its docstring is read."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Take the roles out of an object's docstring."""
        if obj.docstring is not None:
            obj.docstring.value = ROLE.sub(r"`\1`", obj.docstring.value)
