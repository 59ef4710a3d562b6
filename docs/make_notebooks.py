"""Notebooks of ``examples/``, with outputs: ``make notebooks``.

Their sources are ``examples/tour.py``, in jupytext's percent format, and the page
``docs/tutorial.md``. Every notebook is executed in an empty folder. If ``setup.cfg`` names the
address of the repository, a notebook begins with a badge that opens it in Colab and with a cell
that installs the package there, and ``docs/clients.md`` has the same links.
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
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

ROOT = Path(__file__).resolve().parents[1]
SOURCES = {"tour": "examples/tour.py", "first_hour": "docs/tutorial.md"}
"""notebooks -> their sources"""
TITLES = {
    "tour": (
        "a learner's falling exploitability as a live figure, values, a compressed table, a match"
    ),
    "first_hour": (
        "the [tutorial](tutorial.md): train, measure, mend an agent of your own, play a match"
    ),
}
"""notebooks -> their contents, as on the page of the examples"""
LEFT_OUT = re.compile(r"^## (?:Install|Further reading)\n.*?(?=^## |\Z)", re.M | re.S)
"""Sections of pages that a notebook does not need."""
OUTPUTS_AND_SECTIONS = re.compile(r"\n+(?:```text.*?\n```\n+)+|\n+(?=## )", re.S)
"""Where a page is divided: the outputs that it shows, which are left out, and the beginnings of
sections.
"""
COMMAND = re.compile(r"^(?:%%sh\n)?python (train|evaluate|play)\.py\b(.*)$", re.M)
LINKS = re.compile(r"(<!-- written by make notebooks -->\n).*?(<!-- end -->)", re.S)
MAX_SECONDS = 600


def address() -> str:
    """Return the address of the repository, empty if none is published yet."""
    match = re.search(
        r"^ *Source = (https://\S+)$", (ROOT / "setup.cfg").read_text(encoding="utf-8"), re.M
    )
    return match[1] if match else ""


def colab(name: str, place: str) -> str:
    """Return the link that opens a notebook of the repository at ``place`` in Colab."""
    path = place.removeprefix("https://github.com/")
    return f"https://colab.research.google.com/github/{path}/blob/main/examples/{name}.ipynb"


def make_notebook(name: str, place: str) -> Any:
    """Return a notebook without outputs; ``place`` is the address of the repository, or empty."""
    path = ROOT / SOURCES[name]
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        text = LEFT_OUT.sub("", rewrite_links(text, place))
        # jupytext begins a cell after two empty lines
        text = OUTPUTS_AND_SECTIONS.sub("\n\n\n", text).rstrip()
    cells = []
    for cell in jupytext.reads(text, path.suffix).cells:
        new_cell = new_markdown_cell if cell.cell_type == "markdown" else new_code_cell
        cells.append(new_cell(COMMAND.sub(r"!ttt-\1\2 --quiet", cell.source)))
    if place:
        image = "https://colab.research.google.com/assets/colab-badge.svg"
        badge = f"[![Open in Colab]({image})]({colab(name, place)})"
        install = (
            'import importlib.util\n\nif importlib.util.find_spec("ttt_envs") is None:  # as in '
            "Colab\n"
            f'    %pip install --quiet "ttt_envs[report] @ git+{place}"'
        )
        cells = [new_markdown_cell(badge), new_code_cell(install), *cells]
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return new_notebook(
        cells=cells, metadata={"kernelspec": kernel, "language_info": {"name": "python"}}
    )


def rewrite_links(text: str, place: str) -> str:
    """Rewrite links between pages of ``docs/`` for a notebook in ``examples/``."""
    start = f"{place}/blob/main/docs/" if place else "../docs/"
    return re.sub(r"\]\((?![a-z]+:|#)([^)\s]+)\)", rf"]({start}\1)", text)


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


def page_links(place: str) -> str:
    """Return the lines about the notebooks on the page of the examples."""
    lines = []
    for name, title in TITLES.items():
        link = f" ([open in Colab]({colab(name, place)}))" if place else ""
        lines.append(f"- [{name}.ipynb](../examples/{name}.ipynb){link}: {title}\n")
    return "".join(lines)


def main() -> None:
    """Write all notebooks, and the links to them."""
    place = address()
    for name in SOURCES:
        path = ROOT / "examples" / f"{name}.ipynb"
        notebook = make_notebook(name, place)
        print(f"{path.name}: running", flush=True)
        execute(notebook)
        nbformat.write(notebook, path)
    page = ROOT / "docs" / "clients.md"
    text = LINKS.sub(rf"\g<1>{page_links(place)}\g<2>", page.read_text(encoding="utf-8"))
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
