"""Writes the table of arguments in docs/environments.md, from the configuration of the
environments.

Usage: python tools/make_environment_table.py
"""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import docstring_parser

from ttt_envs.envs.config import EnvConfig

PAGE = Path(__file__).resolve().parents[1] / "docs" / "environments.md"
TABLE = re.compile(r"^\| argument \|.*?\n(?=\n)", re.M | re.S)


def argument_table() -> str:
    """Return the table: name, default and meaning of each argument."""
    defaults = {field.name: field.default for field in dataclasses.fields(EnvConfig)}
    rows = ["| argument | default | |", "|---|---|---|"]
    for config in reversed(EnvConfig.__mro__[:-1]):
        for argument in docstring_parser.parse(config.__doc__ or "").params:
            text = " ".join((argument.description or "").split())
            rows.append(f"| `{argument.arg_name}` | `{defaults[argument.arg_name]!r}` | {text} |")
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    PAGE.write_text(
        TABLE.sub(lambda _: argument_table(), PAGE.read_text("utf-8")), encoding="utf-8"
    )
