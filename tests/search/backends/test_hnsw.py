"""HNSW finds nearly what exact search finds, also with int8 and with a filter."""

from pathlib import Path

import numpy as np
import pytest

from kosbert.search import Index
from kosbert.search.backends import base, hnsw

pytest.importorskip("usearch")


class RowEncoder:
    """An encoder whose sentences are row numbers of a matrix."""

    def __init__(self, vectors: np.ndarray) -> None:
        self.vectors, self.dim = vectors, vectors.shape[1]

    def encode(self, sentences: list[str]) -> np.ndarray:
        return self.vectors[[int(text) if text.isdigit() else 0 for text in sentences]]


@pytest.fixture(scope="module")
def encoder() -> RowEncoder:
    generator = np.random.default_rng(0)
    centers = generator.standard_normal((50, 64))
    vectors = centers[generator.integers(0, 50, 4_000)] + generator.standard_normal((4_000, 64))
    return RowEncoder(vectors.astype(np.float32))


def recall(rankings: list[list[str]], exact_rankings: list[list[str]]) -> float:
    return float(np.mean([len(set(a) & set(b)) / len(b) for a, b in zip(rankings, exact_rankings, strict=True)]))


@pytest.mark.parametrize(("precision", "min_recall"), [("float32", 0.97), ("float16", 0.97), ("int8", 0.93)])
def test_recall_against_exact_search(encoder: RowEncoder, precision: str, min_recall: float, tmp_path: Path) -> None:
    texts = [str(row) for row in range(4_000)]
    metadata = [{"part": row % 4, "rare": row % 400} for row in range(4_000)]
    exact, in_memory = Index(encoder), Index(encoder, backend="hnsw", precision=precision)
    for index in (exact, in_memory):
        index.add(texts, metadata=metadata)
    in_memory.save(tmp_path)
    mapped = Index.load(tmp_path, encoder)
    queries = encoder.vectors[:200] + 0.1
    for where in ("", "part=1", "rare=7", "part!=1"):
        exact_rankings, _ = exact.query(queries, 10, where=where)
        for index in (in_memory, mapped):
            assert recall(index.query(queries, 10, where=where)[0], exact_rankings) >= min_recall, (where, precision)
    with Index.edit(tmp_path, encoder) as index:
        index.delete(texts[:2_000])
    mapped = Index.load(tmp_path, encoder)
    exact.delete(texts[:2_000])
    assert recall(mapped.query(queries, 10)[0], exact.query(queries, 10)[0]) >= min_recall


def test_int8_scales_each_vector_by_its_largest_value(encoder: RowEncoder) -> None:
    """One scale of 127 for all unit vectors would use few of the 255 levels."""
    index = Index(encoder, backend="hnsw", precision="int8")
    index.add([str(row) for row in range(500)])
    exact = encoder.vectors[:500] / np.linalg.norm(encoder.vectors[:500], axis=1, keepdims=True)
    assert np.abs(np.sum(index.vectors(np.arange(500)) * exact, axis=1) - 1).max() < 2e-4


def test_filtered_search_increases_k_until_enough_hits_are_allowed(
    encoder: RowEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_brute_force(*arguments):
        return base.filtered_search(*arguments, brute_force_limit=10)

    monkeypatch.setattr(hnsw, "filtered_search", without_brute_force)
    approximate, exact = Index(encoder, backend="hnsw"), Index(encoder)
    for index in (approximate, exact):
        index.add([str(row) for row in range(4_000)], metadata=[{"part": row % 4} for row in range(4_000)])
    rankings, exact_rankings = (
        index.query(encoder.vectors[:100], 5, where="part!=2")[0] for index in (approximate, exact)
    )
    assert recall(rankings, exact_rankings) > 0.97
