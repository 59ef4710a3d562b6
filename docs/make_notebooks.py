"""Notebooks of ``examples/``, with outputs: ``make notebooks``.

Their sources are ``examples/tour.py``, in jupytext's percent format, and the page
``docs/tutorial.md``. Every notebook is executed in an empty folder.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import jupytext
import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[1]
SOURCES = {"tour": "examples/tour.py", "first_hour": "docs/tutorial.md"}
"""notebooks -> their sources"""
LEFT_OUT = re.compile(r"^## (?:Install|Further reading)\n.*?(?=^## |\Z)", re.M | re.S)
"""Sections of pages that a notebook does not need."""
OUTPUTS_AND_SECTIONS = re.compile(r"\n+(?:```text.*?\n```\n+)+|\n+(?=## )", re.S)
"""Where a page is divided: the outputs that it shows, which are left out, and the beginnings of
sections.
"""
COMMAND = re.compile(r"^(?:%%sh\n)?python (train|evaluate|play)\.py\b(.*)$", re.M)
MAX_SECONDS = 600


def make_notebook(name: str) -> Any:
    """Return a notebook without outputs."""
    path = ROOT / SOURCES[name]
    text = path.read_text("utf-8")
    if path.suffix == ".md":
        text = LEFT_OUT.sub("", rewrite_links(text))
        # jupytext begins a cell after two empty lines
        text = OUTPUTS_AND_SECTIONS.sub("\n\n\n", text).rstrip()
    notebook = jupytext.reads(text, path.suffix)
    for number, cell in enumerate(notebook.cells):
        source = COMMAND.sub(r"!ttt-\1\2 --quiet", cell.source)
        cell.update(id=f"cell-{number}", metadata={}, source=source)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook.metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return notebook


def rewrite_links(text: str) -> str:
    """Rewrite links between pages of ``docs/`` for a notebook in ``examples/``."""
    return re.sub(r"\]\((?![a-z]+:|#)([^)\s]+)\)", r"](../docs/\1)", text)


def execute(notebook: Any) -> None:
    """Execute a notebook in an empty folder, with the packages of this checkout."""
    paths = [str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    os.environ |= {"TTT_ENVS_COMPILE_NOTICE": "0", "COLUMNS": "100"}
    with tempfile.TemporaryDirectory() as folder:
        settings = {"kernel_name": "python3", "timeout": MAX_SECONDS, "record_timing": False}
        NotebookClient(notebook, resources={"metadata": {"path": folder}}, **settings).execute()
    notebook.metadata["language_info"] = {"name": "python"}  # without the version of this Python


def main() -> None:
    """Write all notebooks."""
    for name in SOURCES:
        path = ROOT / "examples" / f"{name}.ipynb"
        notebook = make_notebook(name)
        print(f"{path.name}: running", flush=True)
        execute(notebook)
        nbformat.write(notebook, path)


if __name__ == "__main__":
    main()
