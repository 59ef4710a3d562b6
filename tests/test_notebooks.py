"""Notebooks: their cells are those of their sources, and they have run without an error."""

import importlib.util
import re

import pytest
from documents import ROOT

pytestmark = pytest.mark.needs("jupytext", "nbclient", "nbformat")


@pytest.fixture(scope="module")
def maker():
    spec = importlib.util.spec_from_file_location(
        "make_notebooks", ROOT / "docs" / "make_notebooks.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def names():
    return sorted(path.stem for path in (ROOT / "examples").glob("*.ipynb"))


def test_every_notebook_has_a_source_and_a_line_on_the_page(maker):
    assert names() == sorted(maker.SOURCES)
    page = (ROOT / "docs" / "clients.md").read_text()
    assert [name for name in names() if f"](../examples/{name}.ipynb)" not in page] == []


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


@pytest.mark.parametrize("name", names())
def test_code_is_that_of_the_source(maker, name):
    import nbformat

    code = code_cells(nbformat.read(ROOT / "examples" / f"{name}.ipynb", as_version=4))
    made = code_cells(maker.make_notebook(name))
    assert [cell.source for cell in code] == [cell.source for cell in made], "run make notebooks"
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell.outputs]
    assert outputs
    assert not [
        output
        for output in outputs
        if output.output_type == "error" or output.get("name") == "stderr"
    ]


def test_outputs_of_the_first_hour_are_those_of_the_page(maker):
    import nbformat

    stored = nbformat.read(ROOT / "examples" / "first_hour.ipynb", as_version=4)
    text_output = "".join(
        output.get("text", "") for cell in stored.cells for output in cell.get("outputs", [])
    )
    outputs = re.findall(
        r"^```text output\n(.*?)^```$", (ROOT / "docs" / "tutorial.md").read_text(), re.M | re.S
    )
    lines = [
        " ".join(line.split()) for text in outputs for line in text.splitlines() if line.strip()
    ]
    assert lines
    plain = " ".join(re.sub(r"\x1b\[[0-9;]*m", "", text_output).split())
    assert [line for line in lines if line not in plain] == []
