"""``evaluate.py policies``: everything that plays, by name."""

from __future__ import annotations

import inspect
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from ttt_envs.policy import POLICIES, load_object


@dataclass(frozen=True)
class Policies:
    """List everything that plays and can be named."""

    def run(self) -> None:
        """Print the list."""
        table = Table()
        table.add_column("name")
        table.add_column("what it does")
        for name, factory in sorted(POLICIES.items()):
            table.add_row(name, (inspect.getdoc(load_object(factory)) or "").split("\n")[0])
        Console().print(table)
