"""Slices, leakage masks, and human agreement against its theoretical value."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from kosbert import data
from kosbert.data.records import ScoredPair
from kosbert.evaluation.slices import MIN_PAIRS, bigram_overlap, human_agreement, leaked_pairs, score_slices, terciles


@given(st.lists(st.integers(0, 20), min_size=1, max_size=60))
def test_terciles_are_a_partition(values) -> None:
    numbers = np.array(values, float)
    masks = [mask for _, mask in terciles(numbers, ("low", "middle", "high"), "{:.0f}")]
    assert np.all(np.sum(masks, axis=0) == 1)
    for value in set(values):
        assert sum(mask[numbers == value].any() for mask in masks) == 1  # equal values stay together
    assert all(numbers[low].max() < numbers[high].min() for low, high in pairwise(masks))


def test_terciles_are_thirds_and_named_by_their_limits() -> None:
    masks = dict(terciles(np.arange(1.0, 10.0), ("short", "medium", "long"), "{:.0f} characters"))
    assert list(masks) == ["short: up to 3 characters", "medium: up to 6 characters", "long: above 6 characters"]
    assert [mask.sum() for mask in masks.values()] == [3, 3, 3]


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("비가 온다", "비가온다", 1.0),  # white space does not count
        ("비가온다", "눈이온다", 1 / 5),  # 비가 가온 온다 / 눈이 이온 온다
        ("비", "눈", 0.0),
        ("비", "비", 1.0),
        ("", "", 1.0),
        ("", "비가", 0.0),
    ],
)
def test_bigram_overlap(first, second, expected) -> None:
    assert bigram_overlap(first, second) == pytest.approx(expected)


def random_pairs(count: int, seed: int = 0) -> tuple[list[ScoredPair], np.ndarray]:
    """Pairs of random syllables with different lengths and overlaps, alternately from two sources, and predictions."""
    generator = np.random.default_rng(seed)
    scores = np.round(generator.uniform(0, 5, count), 1)
    pairs = []
    for number, score in enumerate(scores):
        letters = "".join(map(chr, generator.integers(ord("가"), ord("가") + 500, generator.integers(20, 60))))
        shared = int(generator.integers(0, 15))
        pairs.append(ScoredPair(letters, letters[:shared] + letters[::-1], score, "ab"[number % 2]))
    return pairs, scores + generator.normal(0, 1, count)


def test_slice_scores_are_the_correlations_of_their_pairs() -> None:
    pairs, predictions = random_pairs(120)
    scores = score_slices(pairs, predictions, resamples=200)
    assert [score.kind for score in scores] == ["source"] * 2 + ["length"] * 3 + ["overlap"] * 3
    gold = np.array([pair.score for pair in pairs])
    by_name = {score.name: score for score in scores}
    expected = spearmanr(predictions[::2], gold[::2])[0]
    assert by_name["a"].pairs == 60
    assert by_name["a"].spearman.value == pytest.approx(expected)
    assert by_name["a"].spearman.low < expected < by_name["a"].spearman.high
    for kind in ("source", "length", "overlap"):
        assert sum(score.pairs for score in scores if score.kind == kind) == 120


def test_single_source_is_not_a_slice_and_small_slices_have_no_correlation() -> None:
    pairs, predictions = random_pairs(MIN_PAIRS + 2)
    without_source = [ScoredPair(pair.sentence1, pair.sentence2, pair.score) for pair in pairs]
    scores = score_slices(without_source, predictions, resamples=100)
    assert "source" not in {score.kind for score in scores}
    small = [score for score in scores if score.pairs < MIN_PAIRS]
    assert small
    assert all(score.spearman is None and score.pearson is None for score in small)


def test_leaked_pairs_and_sentences_are_found() -> None:
    held_out = [
        ScoredPair("오늘은 비가 많이 온다.", "하늘에서 비가 내린다.", 4.0),
        ScoredPair("하늘이 맑고 푸르다.", "고양이가 지붕에서 잔다.", 0.5),
        ScoredPair("아이가 학교에 걸어간다.", "시장이 연설을 시작했다.", 0.0),
    ]
    training = [
        ScoredPair(
            "하늘에서 비가 내린다!", "오늘은 비가 많이 온다", 3.8
        ),  # the first pair, swapped, with other punctuation
        ScoredPair("하늘이 맑고 푸르다.", "전혀 다른 이야기를 한다.", 1.0),  # one sentence of the second
    ]
    pair_leaked, sentence_leaked = leaked_pairs(held_out, training)
    assert pair_leaked.tolist() == [True, False, False]
    assert sentence_leaked.tolist() == [True, True, False]


def test_leakage_slices_partition_the_dataset() -> None:
    pairs, predictions = random_pairs(60)
    scores = score_slices(pairs, predictions, training=pairs[:20], resamples=100)
    sizes = {score.name: score.pairs for score in scores if score.kind == "leakage"}
    assert sizes["only pairs seen in training"] == 20
    assert sizes["only pairs seen in training"] + sizes["without pairs seen in training"] == 60
    assert sizes["only sentences seen in training"] + sizes["without sentences seen in training"] == 60


def pairs_with_votes(rows: np.ndarray) -> list[ScoredPair]:
    return [ScoredPair("가", "나", float(np.mean(row)), votes=tuple(row)) for row in rows]


def test_agreement_of_annotators_who_always_agree_is_one() -> None:
    agreement = human_agreement(pairs_with_votes(np.repeat(np.arange(50.0)[:, None] % 6, 5, axis=1)), draws=50)
    assert (agreement.pairs, agreement.votes) == (50, 250)
    assert agreement.pearson.value == pytest.approx(1)
    assert (agreement.spearman.low, agreement.spearman.high) == pytest.approx((1, 1))


def test_human_agreement_matches_theory() -> None:
    """True scores with variance 1 and five annotators with errors of variance 1: r = 1 / √(2 · (1 + 1/4))."""
    generator = np.random.default_rng(1)
    truth = generator.normal(size=(800, 1))
    pairs = pairs_with_votes(truth + generator.normal(size=(800, 5)))
    agreement = human_agreement(pairs, draws=200)
    expected = 1 / np.sqrt(2 * 1.25)
    assert agreement.pearson.value == pytest.approx(expected, abs=0.03)
    assert agreement.pearson.low < expected < agreement.pearson.high
    assert agreement == human_agreement(pairs, draws=200) != human_agreement(pairs, draws=200, seed=1)


def test_pairs_may_have_different_numbers_of_votes() -> None:
    pairs = [ScoredPair("가", "나", n % 6, votes=(n % 6,) * (2 + n % 5)) for n in range(40)]
    pairs += [ScoredPair("가", "나", 5, votes=(0,)), ScoredPair("가", "나", 5)]  # no second annotator
    agreement = human_agreement(pairs, draws=20)
    assert agreement.pairs == 40
    assert agreement.pearson.value == pytest.approx(1)


def test_agreement_is_none_without_votes_or_variation() -> None:
    assert human_agreement([ScoredPair("가", "나", 1.0)] * 30) is None
    assert human_agreement([ScoredPair("가", "나", 1.0, votes=(1.0, 1.0))] * 30, draws=5) is None


@pytest.mark.real_data
def test_real_datasets_have_six_sources() -> None:
    for reference in ("korsts-test", "klue-sts-dev"):
        pairs = data.load(reference)
        predictions = np.array([bigram_overlap(pair.sentence1, pair.sentence2) for pair in pairs])
        sources = [score for score in score_slices(pairs, predictions, resamples=100) if score.kind == "source"]
        assert len(sources) == 6
        assert sum(score.pairs for score in sources) == len(pairs)


@pytest.mark.real_data
def test_human_agreement_of_klue_sts() -> None:
    agreement = human_agreement(data.load("klue-sts-dev"), draws=100)
    assert (agreement.pairs, agreement.votes) == (519, 3262)
    assert agreement.spearman.value == pytest.approx(0.841, abs=0.005)
