"""The notebooks run from top to bottom, and are kept without outputs."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))
SECONDS = 600


def outputs(notebook, kind: str) -> int:
    return sum(kind in output.get("data", {}) for cell in notebook.cells for output in cell.get("outputs", []))


def test_both_are_there():
    assert [path.stem for path in NOTEBOOKS] == ["gas", "power"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_kept_clean(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert set(notebook.metadata) == {"kernelspec", "language_info"}
    for cell in notebook.cells:
        assert cell.metadata == {}
        assert cell.cell_type == "markdown" or (cell.outputs == [] and cell.execution_count is None)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs(path, tmp_path, monkeypatch):
    monkeypatch.delenv("MPLBACKEND", raising=False)
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=SECONDS, resources={"metadata": {"path": str(tmp_path)}}).execute()
    drawings = sum(".plot" in cell.source for cell in notebook.cells if cell.cell_type == "code")
    assert outputs(notebook, "image/png") == drawings > 3
    assert outputs(notebook, "text/html") >= 5
    assert list(tmp_path.iterdir()) == []
