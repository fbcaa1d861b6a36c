"""The nearest in a part: exact there, never the sentence itself, a function of the seed."""

import numpy as np
import pytest

from kosbert.training import nearest_neighbors as module
from kosbert.training.nearest_neighbors import neighbors


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(module, "_BLOCK", 7)


def test_where_all_are_one_part_they_are_the_nearest_of_all():
    vectors = np.random.default_rng(1).normal(size=(40, 8)).astype(np.float16)
    unit = vectors.astype(np.float32) / np.linalg.norm(vectors.astype(np.float32), axis=1, keepdims=True)
    cosines = unit @ unit.T
    np.fill_diagonal(cosines, -2)
    np.testing.assert_array_equal(neighbors(vectors, 3, seed=0), np.argsort(-cosines, axis=1)[:, :3])


def test_parts_are_drawn_with_the_seed(monkeypatch):
    monkeypatch.setattr(module, "_PART", 10)
    vectors = np.random.default_rng(1).normal(size=(40, 8)).astype(np.float32)
    first, again, other = (neighbors(vectors, 2, seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    assert (first != np.arange(40)[:, None]).all()
    parts = {frozenset((place, *row)) for place, row in enumerate(first.tolist())}
    assert len(set().union(*parts)) == 40
    groups = np.array_split(np.random.default_rng(0).permutation(40), 4)
    assert all(any(part <= set(group.tolist()) for group in groups) for part in parts)


def test_a_vector_of_zeros_does_no_harm():
    assert neighbors(np.zeros((3, 4), np.float16), 1, seed=0).shape == (3, 1)
