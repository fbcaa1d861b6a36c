"""A tiny model exported once for all tests of this folder, and pairs to measure int8 on."""

from pathlib import Path

import numpy as np
import pytest

from kosbert.data.records import ScoredPair
from kosbert.export import export
from kosbert.model.torch_loading import load_torch


@pytest.fixture(scope="session")
def pairs(sentences, tiny_bert) -> list[ScoredPair]:
    """Every two sentences, scored by the tiny model itself: its own correlation is 1."""
    encoder = load_torch(tiny_bert)
    cosines = encoder.similarity(sentences, sentences)
    numbers = [(one, two) for one in range(len(sentences)) for two in range(one)]
    return [ScoredPair(sentences[one], sentences[two], float(cosines[one, two])) for one, two in numbers]


@pytest.fixture(scope="session")
def exported(tiny_bert, tmp_path_factory) -> Path:
    return export(tiny_bert, tmp_path_factory.mktemp("exported") / "model").path


@pytest.fixture
def unit_vectors(sentences, tiny_bert):
    return np.asarray(load_torch(tiny_bert).encode(sentences, normalize_embeddings=True))


@pytest.fixture(scope="session")
def in_int8(tiny_bert, pairs, tmp_path_factory) -> Path:
    gate = ("pairs", pairs)
    return export(tiny_bert, tmp_path_factory.mktemp("exported") / "int8", int8=True, gate=gate, max_drop=5).path
