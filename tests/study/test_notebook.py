"""The notebook runs on a finished study and draws its figures."""

from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
pytest.importorskip("ipykernel", reason="ipykernel is not installed")

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "study.ipynb"


def test_notebook_shows_a_finished_study(finished, tmp_path, monkeypatch):
    store, summary, page = finished
    monkeypatch.setenv("KOSBERT_STUDIES", str(store.root))
    monkeypatch.setenv("KOSBERT_STUDY", "tiny")
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "clear the outputs before a commit"
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute(cwd=str(tmp_path))
    outputs = [output.get("data", {}) for cell in notebook.cells for output in cell.get("outputs", ())]
    assert any(summary.answer in output.get("text/markdown", "") for output in outputs)
    assert sum("image/svg+xml" in output for output in outputs) == len(list((page.parent / "figures").iterdir()))
    assert any("image/png" in output for output in outputs)
    lines = [line for cell in notebook.cells if cell.cell_type == "code" for line in cell.source.splitlines() if line]
    assert len(lines) < 30
