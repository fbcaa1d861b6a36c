"""HNSW finds what exact search finds, nearly always, also in eight bits and under a filter."""

from pathlib import Path

import numpy as np
import pytest

from kosbert.search import Index

pytest.importorskip("usearch")


class Columns:
    """An encoder whose sentences are the numbers of rows."""

    def __init__(self, vectors: np.ndarray) -> None:
        self.vectors, self.dim = vectors, vectors.shape[1]

    def encode(self, sentences: list[str]) -> np.ndarray:
        return self.vectors[[int(each) if each.isdigit() else 0 for each in sentences]]


@pytest.fixture(scope="module")
def encoder() -> Columns:
    generator = np.random.default_rng(0)
    centers = generator.standard_normal((50, 64))
    vectors = centers[generator.integers(0, 50, 4_000)] + generator.standard_normal((4_000, 64))
    return Columns(vectors.astype(np.float32))


def recall(found: list[list[str]], truth: list[list[str]]) -> float:
    return float(np.mean([len(set(a) & set(b)) / len(b) for a, b in zip(found, truth, strict=True)]))


@pytest.mark.parametrize(("precision", "least"), [("float32", 0.97), ("float16", 0.97), ("int8", 0.93)])
def test_recall_against_exact(encoder: Columns, precision: str, least: float, tmp_path: Path) -> None:
    texts = [str(place) for place in range(4_000)]
    parts = [{"part": place % 4, "rare": place % 400} for place in range(4_000)]
    exact, hnsw = Index(encoder), Index(encoder, kind="hnsw", precision=precision)
    for index in (exact, hnsw):
        index.add(texts, metadata=parts)
    hnsw.save(tmp_path)
    mapped = Index.load(tmp_path, encoder)
    queries = encoder.vectors[:200] + 0.1
    for where in ("", "part=1", "rare=7", "part!=1"):
        truth, _ = exact.nearest(queries, 10, where=where)
        for index in (hnsw, mapped):
            assert recall(index.nearest(queries, 10, where=where)[0], truth) >= least, (where, precision)
    with Index.change(tmp_path, encoder) as index:
        index.delete(texts[:2_000])
    mapped = Index.load(tmp_path, encoder)
    exact.delete(texts[:2_000])
    assert recall(mapped.nearest(queries, 10)[0], exact.nearest(queries, 10)[0]) >= least


def test_eight_bits_use_all_their_steps(encoder: Columns) -> None:
    """A unit vector times 127 would have a few steps only; each is scaled to its own largest value instead."""
    index = Index(encoder, kind="hnsw", precision="int8")
    index.add([str(place) for place in range(500)])
    kept = index._store.vectors(np.arange(500))
    exact = encoder.vectors[:500] / np.linalg.norm(encoder.vectors[:500], axis=1, keepdims=True)
    assert np.abs(np.sum(kept * exact, axis=1) - 1).max() < 2e-4


def test_filtered_search_asks_for_more(encoder: Columns, monkeypatch: pytest.MonkeyPatch) -> None:
    from kosbert.search.backends import base, hnsw

    monkeypatch.setattr(
        hnsw, "filtered", lambda *arguments: base.filtered(*arguments, few=10)
    )  # so that 3,000 allowed are many
    index, exact = Index(encoder, kind="hnsw"), Index(encoder)
    for each in (index, exact):
        each.add([str(place) for place in range(4_000)], metadata=[{"part": place % 4} for place in range(4_000)])
    found, truth = (each.nearest(encoder.vectors[:100], 5, where="part!=2")[0] for each in (index, exact))
    assert recall(found, truth) > 0.97
