"""A tiny exported model, in float32 and int8, and pairs for the quality gate."""

from pathlib import Path

import numpy as np
import pytest

from kosbert.data.records import ScoredPair
from kosbert.export import export
from kosbert.model.torch_loading import load_torch


@pytest.fixture(scope="session")
def pairs(sentences, tiny_bert) -> list[ScoredPair]:
    """All pairs of sentences, scored by the tiny model itself, so that its correlation is 1."""
    encoder = load_torch(tiny_bert)
    cosines = encoder.similarity(sentences, sentences)
    indices = [(i, j) for i in range(len(sentences)) for j in range(i)]
    return [ScoredPair(sentences[i], sentences[j], float(cosines[i, j])) for i, j in indices]


@pytest.fixture(scope="session")
def exported(tiny_bert, tmp_path_factory) -> Path:
    return export(tiny_bert, tmp_path_factory.mktemp("exported") / "model").path


@pytest.fixture
def unit_vectors(sentences, tiny_bert):
    return np.asarray(load_torch(tiny_bert).encode(sentences, normalize_embeddings=True))


@pytest.fixture(scope="session")
def exported_int8(tiny_bert, pairs, tmp_path_factory) -> Path:
    gate = ("pairs", pairs)
    return export(tiny_bert, tmp_path_factory.mktemp("exported") / "int8", int8=True, gate=gate, max_drop=5).path
