"""Diagnostics against answers worked out by hand, and against encoders that know everything or nothing."""

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
    Variance,
    alignment,
    diagnose,
    iso_score,
    mean_cosine,
    measure,
    positives_of,
    principal,
    uniformity,
    wilson,
)
from kosbert.model.baselines import CharacterTfidf

ITEMS = load_minimal_pairs()


class Dictionary:
    """Looks vectors up, and remembers what it was asked."""

    def __init__(self, vectors: dict[str, Sequence[float]]) -> None:
        self.vectors, self.asked = vectors, []

    def encode(self, sentences: Sequence[str]) -> np.ndarray:
        self.asked.append(list(sentences))
        return np.array([self.vectors[sentence] for sentence in sentences], np.float32)


class Constant:
    """Knows nothing at all."""

    def encode(self, sentences: Sequence[str]) -> np.ndarray:
        return np.ones((len(sentences), 3))


class Noise:
    """Vectors without any rule."""

    def __init__(self, seed: int) -> None:
        self.generator = np.random.default_rng(seed)

    def encode(self, sentences: Sequence[str]) -> np.ndarray:
        return self.generator.normal(size=(len(sentences), 64))


def oracle(near: str) -> Dictionary:
    """A direction for each item; of `kept` and `changed`, the one named lies beside the anchor, the other opposite."""
    angles = np.linspace(0, np.pi, len(ITEMS), endpoint=False)
    vectors = {}
    for angle, item in zip(angles, ITEMS, strict=True):
        turns = {"anchor": 0.0, "kept": np.pi, "changed": np.pi} | {near: 0.1}
        for name, turn in turns.items():
            vectors[getattr(item, name)] = (np.cos(angle + turn), np.sin(angle + turn))
    return Dictionary(vectors)


def unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


RANDOM = unit(np.random.default_rng(1).normal(size=(40, 6)) * np.arange(1, 7) + 0.5)


# ---------------------------------------------------------------- the space


def test_alignment_by_hand() -> None:
    """Equal vectors are 0 apart, right angles √2: (0 + 2) / 2; opposite ones 2: squared 4."""
    first = np.array([[1.0, 0.0], [1.0, 0.0]])
    assert alignment(first, np.array([[1.0, 0.0], [0.0, 1.0]])) == pytest.approx(1)
    assert alignment(first[:1], -first[:1]) == pytest.approx(4)
    assert alignment(first[:0], first[:0]) is None


def test_uniformity_by_hand() -> None:
    """North, south and east: one pair at squared distance 4 and two at 2, so log((e⁻⁸ + 2e⁻⁴) / 3)."""
    vectors = np.array([[0.0, 1.0], [0.0, -1.0], [1.0, 0.0]])
    assert uniformity(vectors) == pytest.approx(np.log((np.exp(-8) + 2 * np.exp(-4)) / 3))
    assert uniformity(np.array([[1.0, 0.0]] * 4)) == pytest.approx(0)
    assert uniformity(vectors[:1]) is None


def test_mean_cosine_by_hand() -> None:
    """North, south and east: -1, 0 and 0."""
    vectors = np.array([[0.0, 1.0], [0.0, -1.0], [1.0, 0.0]])
    assert mean_cosine(vectors) == pytest.approx(-1 / 3)
    assert mean_cosine(vectors[:1]) is None


def test_the_fast_formulas_equal_the_plain_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnostics, "_BLOCK", 7)
    pairs = list(combinations(RANDOM, 2))
    assert uniformity(RANDOM) == pytest.approx(np.log(np.mean([np.exp(-2 * ((a - b) ** 2).sum()) for a, b in pairs])))
    assert mean_cosine(RANDOM) == pytest.approx(np.mean([a @ b for a, b in pairs]))
    variances = np.linalg.eigvalsh(np.cov(RANDOM.T))[::-1]
    found = principal(RANDOM)
    assert found.largest == pytest.approx(variances)
    assert (found.total, found.squares) == (pytest.approx(variances.sum()), pytest.approx((variances**2).sum()))


def test_more_dimensions_than_sentences_and_sparse_vectors() -> None:
    wide = unit(np.random.default_rng(2).normal(size=(30, 500)))
    variances = np.linalg.eigvalsh(np.cov(wide.T))[::-1]
    for vectors in (wide, csr_matrix(wide)):
        found = principal(vectors)
        assert found.largest == pytest.approx(variances[:10])
        assert found.squares == pytest.approx((variances**2).sum())
        assert uniformity(vectors) == pytest.approx(uniformity(wide))
        assert mean_cosine(vectors) == pytest.approx(mean_cosine(wide))


def test_large_matrices_give_the_same_largest_variances_every_time() -> None:
    """Above 200 only the largest are computed, by another method."""
    vectors = unit(np.random.default_rng(3).normal(size=(400, 300)) * np.linspace(1, 3, 300))
    found = principal(vectors)
    assert found.largest == pytest.approx(np.linalg.eigvalsh(np.cov(vectors.T))[::-1][:10])
    assert (principal(vectors).largest == found.largest).all()


@pytest.mark.parametrize("variances", [(1, 1, 1, 1), (1, 0, 0, 0), (1, 1, 0, 0), (5, 2, 1, 0.5)])
def test_iso_score_equals_its_published_steps(variances: Sequence[float]) -> None:
    """Rudman et al. 2022: normalize, isotropy defect δ, dimensions used φ, rescale."""
    diagonal, n = np.array(variances, float), len(variances)
    normalized = np.sqrt(n) * diagonal / np.linalg.norm(diagonal)
    defect = np.linalg.norm(normalized - 1) / np.sqrt(2 * (n - np.sqrt(n)))
    used = (n - defect**2 * (n - np.sqrt(n))) ** 2 / n**2
    mine = iso_score(Variance(diagonal.sum(), (diagonal**2).sum(), diagonal), n)
    assert mine == pytest.approx((n * used - 1) / (n - 1))


def test_iso_score_at_its_ends() -> None:
    assert iso_score(Variance(4, 4, np.ones(4)), 4) == 1
    assert iso_score(Variance(3, 9, np.array([3.0])), 4) == 0
    assert iso_score(Variance(3, 9, np.array([3.0])), 1) is None


def test_shares_of_the_variance() -> None:
    """Along x the coordinates are ±0.8, along y ±0.6, and each sign is there: variances as 0.64 to 0.36."""
    vectors = np.array([[0.8, 0.6], [0.8, -0.6], [-0.8, 0.6], [-0.8, -0.6]])
    space = measure(vectors, vectors[:0], vectors[:0])
    assert space.top_1_share == pytest.approx(0.64)
    assert space.top_10_share == pytest.approx(1)
    assert space.iso_score == pytest.approx(1 / (0.64**2 + 0.36**2) - 1)
    assert (space.sentences, space.dimensions, space.positives, space.alignment) == (4, 2, 0, None)


def test_a_space_of_one_point() -> None:
    space = diagnose(Constant()).space
    assert space.alignment == pytest.approx(0)
    assert space.uniformity == pytest.approx(0)
    assert space.mean_cosine == pytest.approx(1)
    assert (space.top_1_share, space.top_10_share, space.iso_score) == (None, None, None)


def test_the_length_of_a_vector_does_not_matter() -> None:
    encoder = oracle("kept")
    longer = Dictionary({text: np.multiply(v, 1 + len(text)) for text, v in encoder.vectors.items()})
    one, other = (diagnose(each).to_dict()["space"] for each in (encoder, longer))
    assert one == pytest.approx(other, abs=1e-6)


def test_a_vector_of_zeros_is_like_nothing() -> None:
    pair = MinimalPair("x", "가", "나", "다")
    found = diagnose(Dictionary({"가": (1, 0), "나": (0, 0), "다": (-1, 0)}), [pair])
    assert found.findings[0].similarity_kept == 0
    assert found.space.alignment == pytest.approx(1)


# ---------------------------------------------------------------- minimal pairs


def test_an_encoder_that_knows_everything_passes_everything() -> None:
    found = diagnose(oracle("kept"))
    assert [each.share.value for each in found.findings] == [1] * 7
    assert found.overall
    assert found.overall.passed == found.overall.count == len(ITEMS)
    assert found.overall.similarity_kept == pytest.approx(np.cos(0.1))
    assert found.overall.similarity_changed == pytest.approx(-1)
    assert found.findings[0].worst(3) == []
    assert found.space.alignment == pytest.approx(2 - 2 * np.cos(0.1))


def test_an_encoder_that_is_always_wrong_passes_nothing() -> None:
    found = diagnose(oracle("changed"))
    assert [each.passed for each in found.findings] == [0] * 7
    assert all(each.share.low == 0 < each.share.high < 0.1 for each in found.findings)
    assert found.space.alignment == pytest.approx(4)


def test_an_encoder_that_knows_nothing_ties_and_does_not_pass() -> None:
    overall = diagnose(Constant()).overall
    assert overall
    assert (overall.passed, overall.tied) == (0, len(ITEMS))


def test_noise_passes_half() -> None:
    """Ten draws of 355 items: a standard deviation of 0.8 points."""
    shares = [diagnose(Noise(seed), ITEMS, [], []).overall.share.value for seed in range(10)]
    assert 0.47 < np.mean(shares) < 0.53


class Unspaced:
    """Character n-grams that do not see spaces."""

    def __init__(self, sentences: Sequence[str]) -> None:
        self.letters = CharacterTfidf([text.replace(" ", "") for text in sentences])

    def encode(self, sentences: Sequence[str]) -> csr_matrix:
        return self.letters.encode([text.replace(" ", "") for text in sentences])


def test_letters_see_spacing_but_not_negation() -> None:
    """What does not see spaces must pass all of spacing; what sees only letters must fail where meaning changes.

    TF-IDF that sees spaces is in between: 31% to 75% of spacing, by what it was fitted on.
    """
    own = [text for item in ITEMS for text in (item.anchor, item.kept, item.changed)]
    for kind in (CharacterTfidf, Unspaced):
        share = {each.phenomenon: each.share.value for each in diagnose(kind(own)).findings}
        assert max(share["negation"], share["particle"], share["number"]) < 0.25
        assert share["spacing"] > share["negation"] + 0.2
        assert share["loanword"] > 0.7
    assert share["spacing"] == 1


def test_worst_are_the_failures_furthest_off() -> None:
    pairs = [MinimalPair("x", f"{n}가", f"{n}나", f"{n}다") for n in range(3)]
    cosines = {0: (0.9, 0.1), 1: (0.2, 0.9), 2: (0.5, 0.6)}  # passes, fails by 0.7, fails by 0.1
    vectors = {}
    for n, (kept, changed) in cosines.items():
        vectors[f"{n}가"] = (1, 0)
        vectors[f"{n}나"], vectors[f"{n}다"] = ((c, np.sqrt(1 - c * c)) for c in (kept, changed))
    (finding,) = diagnose(Dictionary(vectors), pairs).findings
    assert [outcome.item.anchor for outcome in finding.worst(5)] == ["1가", "2가"]
    assert finding.worst(1)[0].margin == pytest.approx(-0.7)
    assert (finding.count, finding.passed) == (3, 1)
    assert finding.margin.value == pytest.approx(0, abs=1e-6)
    assert -0.7 <= finding.margin.low < 0 < finding.margin.high <= 0.8


def test_wilson_as_in_the_textbook() -> None:
    """81 of 263: 0.2553 to 0.3662 (Newcombe 1998, table I, method 3); 0 of 20: 0 to 0.1611."""
    found = wilson(81, 263)
    assert (round(found.low, 4), round(found.high, 4)) == (0.2553, 0.3662)
    assert found.value == pytest.approx(81 / 263)
    found = wilson(0, 20)
    assert (found.low, round(found.high, 4)) == (0, 0.1611)


# ---------------------------------------------------------------- what is encoded


def test_every_distinct_sentence_is_encoded_once() -> None:
    encoder = oracle("kept")
    sentences = [ITEMS[0].anchor, ITEMS[0].anchor, ITEMS[0].kept]
    found = diagnose(encoder, ITEMS[:2], sentences, [(ITEMS[0].anchor, ITEMS[3].anchor)])
    (asked,) = encoder.asked
    assert len(asked) == len(set(asked)) == 7  # two items and one more anchor
    assert (found.space.sentences, found.space.positives) == (2, 1)


def test_sentences_without_minimal_pairs() -> None:
    found = diagnose(oracle("kept"), [], [item.anchor for item in ITEMS])
    assert (found.findings, found.overall, found.space.alignment) == ((), None, None)
    assert found.space.sentences == len(ITEMS)


def test_of_very_many_sentences_some_are_taken_from_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnostics, "LARGEST_SAMPLE", 3)
    encoder = oracle("kept")
    anchors = [item.anchor for item in ITEMS[:9]]
    assert diagnose(encoder, [], anchors).space.sentences == 3
    assert encoder.asked == [[anchors[0], anchors[3], anchors[6]]]


def test_the_same_call_gives_the_same_numbers_and_they_are_json() -> None:
    one, other = (diagnose(Noise(4)).to_dict(examples=2) for _ in range(2))
    assert one == other
    assert json.loads(json.dumps(one, allow_nan=False)) == one
    assert {len(each["worst"]) for each in one["phenomena"]} == {2}
    assert {"anchor", "kept", "changed", "note", "similarity_kept"} <= set(one["phenomena"][0]["worst"][0])


def test_positives_of_each_kind_of_rows() -> None:
    rows = [
        ScoredPair("가", "나", 4.0),
        ScoredPair("가", "다", 3.9),
        LabeledPair("라", "마", "entailment"),
        LabeledPair("라", "바", "neutral"),
        Triplet("사", "아", "자"),
        Sentence("차"),
        LabeledSentence("카", "1"),
    ]
    assert positives_of(rows) == [("가", "나"), ("라", "마"), ("사", "아")]


def test_nothing_to_diagnose() -> None:
    with pytest.raises(UsageError, match="nothing to diagnose: give"):
        diagnose(Constant(), [])


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        (np.full((3, 2), np.nan), "NaN or infinity: train"),
        (csr_matrix(np.full((3, 2), np.inf)), "NaN or infinity: train"),
        (np.ones((2, 2)), r"shape \(2, 2\) for 3 sentences"),
        (np.ones(3), r"shape \(3,\) for 3 sentences"),
    ],
)
def test_a_broken_encoder_is_named(vectors: object, message: str) -> None:
    class Broken:
        def encode(self, sentences: Sequence[str]) -> object:
            return vectors

    with pytest.raises(KosbertError, match=message):
        diagnose(Broken(), [MinimalPair("x", "가", "나", "다")])
