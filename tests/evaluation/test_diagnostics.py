"""Diagnostics against hand-computed values, perfect encoders and random encoders."""

import json
from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from kosbert.data.minimal_pairs import MinimalPair, load_minimal_pairs
from kosbert.data.records import LabeledPair, LabeledSentence, ScoredPair, Sentence, Triplet
from kosbert.errors import KosbertError, UsageError
from kosbert.evaluation import diagnostics
from kosbert.evaluation.diagnostics import (
    PrincipalVariance,
    alignment,
    diagnose,
    iso_score,
    mean_cosine,
    positive_pairs,
    principal_variance,
    space_stats,
    uniformity,
)
from kosbert.model.baselines import CharacterTfidf

ITEMS = load_minimal_pairs()


class LookupEncoder:
    """An encoder with fixed vectors; records its calls."""

    def __init__(self, vectors: dict[str, Sequence[float]]) -> None:
        self.vectors, self.calls = vectors, []

    def encode(self, sentences: Sequence[str]) -> np.ndarray:
        self.calls.append(list(sentences))
        return np.array([self.vectors[sentence] for sentence in sentences], np.float32)


class ConstantEncoder:
    """The same vector for every sentence."""

    def encode(self, sentences: Sequence[str]) -> np.ndarray:
        return np.ones((len(sentences), 3))


class RandomEncoder:
    """Random vectors, new at each call."""

    def __init__(self, seed: int) -> None:
        self.generator = np.random.default_rng(seed)

    def encode(self, sentences: Sequence[str]) -> np.ndarray:
        return self.generator.normal(size=(len(sentences), 64))


def lookup_encoder(near: str) -> LookupEncoder:
    """Return an encoder with `near` ("paraphrase" or "changed") close to the anchor and the other one opposite."""
    angles = np.linspace(0, np.pi, len(ITEMS), endpoint=False)
    vectors = {}
    for angle, item in zip(angles, ITEMS, strict=True):
        turns = {"anchor": 0.0, "paraphrase": np.pi, "changed": np.pi} | {near: 0.1}
        for name, turn in turns.items():
            vectors[getattr(item, name)] = (np.cos(angle + turn), np.sin(angle + turn))
    return LookupEncoder(vectors)


def unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


RANDOM = unit(np.random.default_rng(1).normal(size=(40, 6)) * np.arange(1, 7) + 0.5)


# Geometry of the space.


def test_alignment_matches_hand_computed_values() -> None:
    """Squared distances: 0 for equal vectors, 2 for orthogonal, 4 for opposite ones."""
    first = np.array([[1.0, 0.0], [1.0, 0.0]])
    assert alignment(first, np.array([[1.0, 0.0], [0.0, 1.0]])) == pytest.approx(1)
    assert alignment(first[:1], -first[:1]) == pytest.approx(4)
    assert alignment(first[:0], first[:0]) is None


def test_uniformity_matches_hand_computed_values() -> None:
    """North, south and east: one pair at squared distance 4 and two at 2, so log((e⁻⁸ + 2e⁻⁴) / 3)."""
    vectors = np.array([[0.0, 1.0], [0.0, -1.0], [1.0, 0.0]])
    assert uniformity(vectors) == pytest.approx(np.log((np.exp(-8) + 2 * np.exp(-4)) / 3))
    assert uniformity(np.array([[1.0, 0.0]] * 4)) == pytest.approx(0)
    assert uniformity(vectors[:1]) is None


def test_mean_cosine_matches_hand_computed_values() -> None:
    """North, south and east: -1, 0 and 0."""
    vectors = np.array([[0.0, 1.0], [0.0, -1.0], [1.0, 0.0]])
    assert mean_cosine(vectors) == pytest.approx(-1 / 3)
    assert mean_cosine(vectors[:1]) is None


def test_fast_formulas_equal_the_definitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnostics, "_BLOCK", 7)
    pairs = list(combinations(RANDOM, 2))
    assert uniformity(RANDOM) == pytest.approx(np.log(np.mean([np.exp(-2 * ((a - b) ** 2).sum()) for a, b in pairs])))
    assert mean_cosine(RANDOM) == pytest.approx(np.mean([a @ b for a, b in pairs]))
    variances = np.linalg.eigvalsh(np.cov(RANDOM.T))[::-1]
    variance = principal_variance(RANDOM)
    assert variance.largest == pytest.approx(variances)
    assert (variance.total, variance.squares) == (pytest.approx(variances.sum()), pytest.approx((variances**2).sum()))


def test_principal_variance_of_wide_and_sparse_vectors() -> None:
    wide = unit(np.random.default_rng(2).normal(size=(30, 500)))
    variances = np.linalg.eigvalsh(np.cov(wide.T))[::-1]
    for vectors in (wide, csr_matrix(wide)):
        variance = principal_variance(vectors)
        assert variance.largest == pytest.approx(variances[:10])
        assert variance.squares == pytest.approx((variances**2).sum())
        assert uniformity(vectors) == pytest.approx(uniformity(wide))
        assert mean_cosine(vectors) == pytest.approx(mean_cosine(wide))


def test_principal_variance_of_large_matrices_is_deterministic() -> None:
    """Above 200 dimensions only the largest eigenvalues are computed, by an iterative method."""
    vectors = unit(np.random.default_rng(3).normal(size=(400, 300)) * np.linspace(1, 3, 300))
    variance = principal_variance(vectors)
    assert variance.largest == pytest.approx(np.linalg.eigvalsh(np.cov(vectors.T))[::-1][:10])
    assert (principal_variance(vectors).largest == variance.largest).all()


@pytest.mark.parametrize("variances", [(1, 1, 1, 1), (1, 0, 0, 0), (1, 1, 0, 0), (5, 2, 1, 0.5)])
def test_iso_score_equals_its_published_steps(variances: Sequence[float]) -> None:
    """Rudman et al. 2022: normalize, isotropy defect δ, dimensions used φ, rescale."""
    diagonal, n = np.array(variances, float), len(variances)
    normalized = np.sqrt(n) * diagonal / np.linalg.norm(diagonal)
    defect = np.linalg.norm(normalized - 1) / np.sqrt(2 * (n - np.sqrt(n)))
    used = (n - defect**2 * (n - np.sqrt(n))) ** 2 / n**2
    variance = PrincipalVariance(diagonal.sum(), (diagonal**2).sum(), diagonal)
    assert iso_score(variance, n) == pytest.approx((n * used - 1) / (n - 1))


def test_iso_score_at_its_limits() -> None:
    assert iso_score(PrincipalVariance(4, 4, np.ones(4)), 4) == 1
    assert iso_score(PrincipalVariance(3, 9, np.array([3.0])), 4) == 0
    assert iso_score(PrincipalVariance(3, 9, np.array([3.0])), 1) is None


def test_variance_shares_match_hand_computed_values() -> None:
    """Coordinates ±0.8 along x and ±0.6 along y, all four signs: variances 0.64 and 0.36."""
    vectors = np.array([[0.8, 0.6], [0.8, -0.6], [-0.8, 0.6], [-0.8, -0.6]])
    space = space_stats(vectors, vectors[:0], vectors[:0])
    assert space.top_1_variance == pytest.approx(0.64)
    assert space.top_10_variance == pytest.approx(1)
    assert space.iso_score == pytest.approx(1 / (0.64**2 + 0.36**2) - 1)
    assert (space.sentences, space.dimensions, space.positive_pairs, space.alignment) == (4, 2, 0, None)


def test_space_of_a_constant_encoder() -> None:
    space = diagnose(ConstantEncoder()).space
    assert space.alignment == pytest.approx(0)
    assert space.uniformity == pytest.approx(0)
    assert space.mean_cosine == pytest.approx(1)
    assert (space.top_1_variance, space.top_10_variance, space.iso_score) == (None, None, None)


def test_space_does_not_depend_on_vector_norms() -> None:
    encoder = lookup_encoder("paraphrase")
    scaled = LookupEncoder({text: np.multiply(v, 1 + len(text)) for text, v in encoder.vectors.items()})
    space, scaled_space = (diagnose(model).to_dict()["space"] for model in (encoder, scaled))
    assert space == pytest.approx(scaled_space, abs=1e-6)


def test_zero_vector_has_cosine_zero() -> None:
    pair = MinimalPair("x", "가", "나", "다")
    diagnosis = diagnose(LookupEncoder({"가": (1, 0), "나": (0, 0), "다": (-1, 0)}), [pair])
    assert diagnosis.phenomena[0].paraphrase_cosine == 0
    assert diagnosis.space.alignment == pytest.approx(1)


# Minimal pairs.


def test_perfect_encoder_passes_every_item() -> None:
    diagnosis = diagnose(lookup_encoder("paraphrase"))
    assert [result.accuracy.value for result in diagnosis.phenomena] == [1] * 7
    assert diagnosis.overall
    assert diagnosis.overall.passed == diagnosis.overall.count == len(ITEMS)
    assert diagnosis.overall.paraphrase_cosine == pytest.approx(np.cos(0.1))
    assert diagnosis.overall.changed_cosine == pytest.approx(-1)
    assert diagnosis.phenomena[0].worst(3) == []
    assert diagnosis.space.alignment == pytest.approx(2 - 2 * np.cos(0.1))


def test_inverted_encoder_passes_no_item() -> None:
    diagnosis = diagnose(lookup_encoder("changed"))
    assert [result.passed for result in diagnosis.phenomena] == [0] * 7
    assert all(result.accuracy.low == 0 < result.accuracy.high < 0.1 for result in diagnosis.phenomena)
    assert diagnosis.space.alignment == pytest.approx(4)


def test_constant_encoder_ties_on_every_item() -> None:
    overall = diagnose(ConstantEncoder()).overall
    assert overall
    assert (overall.passed, overall.tied) == (0, len(ITEMS))


def test_random_encoder_passes_half() -> None:
    """Ten draws of 355 items: a standard deviation of 0.8 points."""
    accuracies = [diagnose(RandomEncoder(seed), ITEMS, [], []).overall.accuracy.value for seed in range(10)]
    assert 0.47 < np.mean(accuracies) < 0.53


class UnspacedTfidf:
    """Character n-grams that ignore spaces."""

    def __init__(self, sentences: Sequence[str]) -> None:
        self.tfidf = CharacterTfidf([text.replace(" ", "") for text in sentences])

    def encode(self, sentences: Sequence[str]) -> csr_matrix:
        return self.tfidf.encode([text.replace(" ", "") for text in sentences])


def test_tfidf_handles_spacing_but_not_negation() -> None:
    """TF-IDF without spaces passes all spacing items; any TF-IDF fails where the meaning changes.

    TF-IDF with spaces passes 31% to 75% of the spacing items, depending on what it was fitted on.
    """
    sentences = [text for item in ITEMS for text in (item.anchor, item.paraphrase, item.changed)]
    for encoder in (CharacterTfidf(sentences), UnspacedTfidf(sentences)):
        accuracy = {result.phenomenon: result.accuracy.value for result in diagnose(encoder).phenomena}
        assert max(accuracy["negation"], accuracy["particle"], accuracy["number"]) < 0.25
        assert accuracy["spacing"] > accuracy["negation"] + 0.2
        assert accuracy["loanword"] > 0.7
    assert accuracy["spacing"] == 1


def test_worst_returns_failures_with_the_lowest_margins() -> None:
    pairs = [MinimalPair("x", f"{n}가", f"{n}나", f"{n}다") for n in range(3)]
    cosines = {0: (0.9, 0.1), 1: (0.2, 0.9), 2: (0.5, 0.6)}  # passes, fails by 0.7, fails by 0.1
    vectors = {}
    for n, (paraphrase, changed) in cosines.items():
        vectors[f"{n}가"] = (1, 0)
        vectors[f"{n}나"], vectors[f"{n}다"] = ((c, np.sqrt(1 - c * c)) for c in (paraphrase, changed))
    (result,) = diagnose(LookupEncoder(vectors), pairs).phenomena
    assert [failure.item.anchor for failure in result.worst(5)] == ["1가", "2가"]
    assert result.worst(1)[0].margin == pytest.approx(-0.7)
    assert (result.count, result.passed) == (3, 1)
    assert result.margin.value == pytest.approx(0, abs=1e-6)
    assert -0.7 <= result.margin.low < 0 < result.margin.high <= 0.8


# Inputs.


def test_each_distinct_sentence_is_encoded_once() -> None:
    encoder = lookup_encoder("paraphrase")
    sentences = [ITEMS[0].anchor, ITEMS[0].anchor, ITEMS[0].paraphrase]
    diagnosis = diagnose(encoder, ITEMS[:2], sentences, [(ITEMS[0].anchor, ITEMS[3].anchor)])
    (texts,) = encoder.calls
    assert len(texts) == len(set(texts)) == 7  # two items and one more anchor
    assert (diagnosis.space.sentences, diagnosis.space.positive_pairs) == (2, 1)


def test_sentences_without_minimal_pairs() -> None:
    diagnosis = diagnose(lookup_encoder("paraphrase"), [], [item.anchor for item in ITEMS])
    assert (diagnosis.phenomena, diagnosis.overall, diagnosis.space.alignment) == ((), None, None)
    assert diagnosis.space.sentences == len(ITEMS)


def test_many_sentences_are_sampled_at_equal_distances(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnostics, "MAX_SENTENCES", 3)
    encoder = lookup_encoder("paraphrase")
    anchors = [item.anchor for item in ITEMS[:9]]
    assert diagnose(encoder, [], anchors).space.sentences == 3
    assert encoder.calls == [[anchors[0], anchors[3], anchors[6]]]


def test_diagnosis_is_deterministic_and_valid_json() -> None:
    first, second = (diagnose(RandomEncoder(4)).to_dict(examples=2) for _ in range(2))
    assert first == second
    assert json.loads(json.dumps(first, allow_nan=False)) == first
    assert {len(result["worst"]) for result in first["phenomena"]} == {2}
    assert {"anchor", "paraphrase", "changed", "note", "paraphrase_cosine"} <= set(first["phenomena"][0]["worst"][0])


def test_positive_pairs_of_each_record_type() -> None:
    rows = [
        ScoredPair("가", "나", 4.0),
        ScoredPair("가", "다", 3.9),
        LabeledPair("라", "마", "entailment"),
        LabeledPair("라", "바", "neutral"),
        Triplet("사", "아", "자"),
        Sentence("차"),
        LabeledSentence("카", "1"),
    ]
    assert positive_pairs(rows) == [("가", "나"), ("라", "마"), ("사", "아")]


def test_diagnosing_nothing_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="nothing to diagnose: give"):
        diagnose(ConstantEncoder(), [])


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        (np.full((3, 2), np.nan), "NaN or infinity: train"),
        (csr_matrix(np.full((3, 2), np.inf)), "NaN or infinity: train"),
        (np.ones((2, 2)), r"shape \(2, 2\) for 3 sentences"),
        (np.ones(3), r"shape \(3,\) for 3 sentences"),
    ],
)
def test_invalid_vectors_raise_an_error(vectors: object, message: str) -> None:
    class BrokenEncoder:
        def encode(self, sentences: Sequence[str]) -> object:
            return vectors

    with pytest.raises(KosbertError, match=message):
        diagnose(BrokenEncoder(), [MinimalPair("x", "가", "나", "다")])
