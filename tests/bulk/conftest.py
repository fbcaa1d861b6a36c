"""A tiny exported model that loads quickly, also in the processes that are killed."""

from pathlib import Path

import pytest

pytest.importorskip("onnx")


@pytest.fixture(scope="session")
def model(tiny_bert, tmp_path_factory) -> Path:
    from kosbert.export import export

    return export(tiny_bert, tmp_path_factory.mktemp("bulk") / "model").path
