"""Exact top-k in blocks equals a full sort."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from kosbert.model.topk import nearest_rows, top_k

# Integers have exact products, so ties are ties in both implementations.
INTEGERS = st.integers(-4, 4).map(float)


@settings(deadline=None)
@given(st.data())
def test_top_k_equals_a_stable_sort(data: st.DataObject) -> None:
    shape = data.draw(st.tuples(st.integers(1, 6), st.integers(1, 30)))
    values = data.draw(arrays.arrays(np.float32, shape, elements=INTEGERS))
    k = data.draw(st.integers(0, 35))
    assert np.array_equal(top_k(values, k), np.argsort(-values, axis=1, kind="stable")[:, :k])


@settings(deadline=None)
@given(st.data())
def test_nearest_rows_equal_a_full_sort(data: st.DataObject) -> None:
    dim = data.draw(st.integers(1, 5))
    queries = data.draw(arrays.arrays(np.float32, (data.draw(st.integers(1, 5)), dim), elements=INTEGERS))
    vectors = data.draw(arrays.arrays(np.float32, (data.draw(st.integers(0, 40)), dim), elements=INTEGERS))
    k = data.draw(st.integers(1, 45))
    rows, products = nearest_rows(queries, vectors, k, block=data.draw(st.integers(1, 12)))
    expected = queries @ vectors.T
    assert np.array_equal(rows, np.argsort(-expected, axis=1, kind="stable")[:, :k])
    assert np.array_equal(products, np.take_along_axis(expected, rows, axis=1))


def test_nearest_rows_with_more_queries_than_a_block() -> None:
    queries = np.random.default_rng(0).standard_normal((2_500, 8)).astype(np.float32)
    unit = queries / np.linalg.norm(queries, axis=1, keepdims=True)
    assert np.array_equal(nearest_rows(unit, unit, 1)[0][:, 0], np.arange(2_500))
