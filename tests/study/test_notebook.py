"""The notebook runs from top to bottom on a finished study and draws its figures."""

from pathlib import Path

import pytest

nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
pytest.importorskip("ipykernel", reason="ipykernel is not installed")

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "study.ipynb"


def test_it_opens_a_finished_study(finished, tmp_path, monkeypatch):
    store, found, page = finished
    monkeypatch.setenv("KOSBERT_STUDIES", str(store.root))
    monkeypatch.setenv("KOSBERT_STUDY", "tiny")
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "clear the outputs before a commit"
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute(cwd=str(tmp_path))
    shown = [output.get("data", {}) for cell in notebook.cells for output in cell.get("outputs", ())]
    assert any(found["answer"] in each.get("text/markdown", "") for each in shown)
    assert sum("image/svg+xml" in each for each in shown) == len(list((page.parent / "figures").iterdir()))
    assert any("image/png" in each for each in shown)
    lines = [line for cell in notebook.cells if cell.cell_type == "code" for line in cell.source.splitlines() if line]
    assert len(lines) < 30
