"""Writes the table of arguments in docs/environments.md, from the configuration of the environments.

Usage: python tools/make_environment_table.py
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from pathlib import Path

from ttt_envs.envs.config import EnvConfig

PAGE = Path(__file__).resolve().parents[1] / "docs" / "environments.md"
TABLE = re.compile(r"^\| argument \|.*?\n(?=\n)", re.M | re.S)


def argument_table() -> str:
    """Return the table: name, default and meaning of each argument."""
    defaults = {field.name: field.default for field in dataclasses.fields(EnvConfig)}
    rows = ["| argument | default | |", "|---|---|---|"]
    for config in reversed(EnvConfig.__mro__[:-1]):
        arguments = inspect.cleandoc(config.__doc__ or "").partition("\nArgs:\n")[2]
        for name, text in re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", arguments, re.M):
            rows.append(f"| `{name}` | `{defaults[name]!r}` | {' '.join(text.split())} |")
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    PAGE.write_text(TABLE.sub(lambda _: argument_table(), PAGE.read_text(encoding="utf-8")), encoding="utf-8")
