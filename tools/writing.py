"""What tools write: pages in Markdown from templates, tables row by row, and TOML."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jinja2


def render_page(tool: str, filters: Mapping[str, Callable[..., Any]], **names: Any) -> str:
    """Return the page of a tool, the path of a Python file, from the template beside it.

    Args:
        tool: the path.
        filters: that the template uses, by name.
        names: what the template names.
    """
    # of Markdown, which needs no escapes
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True, autoescape=False)
    environment.filters |= filters
    template = Path(tool).with_suffix(".md.jinja").read_text("utf-8")
    return environment.from_string(template).render(names).rstrip() + "\n"


def print_row(*cells: object) -> None:
    """Print the row of a table."""
    print("|", " | ".join(map(str, cells)), "|", flush=True)


def print_head(*cells: str) -> None:
    """Print an empty line and the head of a table."""
    print()
    print_row(*cells)
    print("|" + "---|" * len(cells))


def to_toml(
    tool: str,
    tables: Mapping[str, Mapping[str, Any]],
    write: Callable[[Any], str] = json.dumps,
) -> str:
    """Return the text of a file of tables that a tool has made.

    Args:
        tool: name of its file.
        tables: by name.
        write: returns a value as TOML.
    """
    lines = [f"# Made by tools/{tool}"]
    for name, table in tables.items():
        lines += ["", f"[{name}]", *(f"{key} = {write(value)}" for key, value in table.items())]
    return "\n".join([*lines, ""])
