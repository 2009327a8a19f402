"""The notebooks of examples/ run from top to bottom, and show something in each cell."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

pytestmark = pytest.mark.full  # starts kernels of notebooks

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("name", sorted(file.name for file in EXAMPLES.glob("*.ipynb")))
def test_a_notebook_runs(name: str) -> None:
    notebook = nbformat.read(EXAMPLES / name, as_version=4)
    stored = [cell for cell in notebook.cells if cell.cell_type == "code" and cell.outputs]
    assert not stored  # what is stored could be of another version
    folder = {"metadata": {"path": str(EXAMPLES)}}
    NotebookClient(notebook, timeout=120, resources=folder).execute()  # raises where a cell fails
    shown = {
        kind
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        for kind in output.get("data", {})
    }
    assert {"text/html", "image/png"} <= shown
