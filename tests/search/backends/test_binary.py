"""Binary search with rescoring finds nearly what exact search finds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from kosbert.model.similarity import unit
from kosbert.model.topk import nearest_rows
from kosbert.search.backends.base import quantize_int8
from kosbert.search.backends.binary import BinaryBackend, pack_signs


@pytest.fixture(scope="module")
def vectors():
    generator = np.random.default_rng(0)
    centers = generator.standard_normal((50, 128))
    return unit(
        (centers[generator.integers(0, 50, 5_000)] + generator.standard_normal((5_000, 128))).astype(np.float32)
    )


def test_recall_against_exact_search(vectors):
    backend = BinaryBackend(128)
    backend.add(np.arange(5_000), vectors)
    queries = unit(vectors[:200] + 0.05)
    exact_rows, exact_cosines = nearest_rows(queries, vectors, 10)
    keys, cosines = backend.search(queries, 10, None)
    assert np.mean([len(set(a) & set(b)) / 10 for a, b in zip(keys, exact_rows, strict=True)]) > 0.95
    assert np.abs(cosines[:, 0] - exact_cosines[:, 0]).max() < 0.01
    allowed = np.arange(0, 5_000, 7)
    keys, _ = backend.search(queries, 10, allowed)
    assert set(keys.ravel().tolist()) <= set(allowed.tolist())
    exact_rows, _ = nearest_rows(queries, vectors[allowed], 10)
    assert np.mean([len(set(a) & set(allowed[b])) / 10 for a, b in zip(keys, exact_rows, strict=True)]) > 0.95


@given(npst.arrays(np.float32, st.tuples(st.integers(1, 4), st.integers(1, 140)), elements=st.floats(-1, 1, width=32)))
def test_packed_bits_are_the_signs(values):
    words = pack_signs(values)
    assert words.shape == (len(values), -(-values.shape[1] // 64))
    assert np.bitwise_count(words).sum(axis=1).tolist() == (values > 0).sum(axis=1).tolist()
    distances = np.bitwise_count(words ^ words[:1]).sum(axis=1)
    assert distances.tolist() == ((values > 0) != (values[:1] > 0)).sum(axis=1).tolist()


def test_int8_keeps_the_direction_and_uses_the_full_range(vectors):
    quantized = quantize_int8(vectors)
    assert np.abs(quantized).max(axis=1).min() == 127
    assert (unit(quantized.astype(np.float32)) * vectors).sum(axis=1).min() > 0.9995
