"""Slices cut where they say they cut, and the human ceiling has the value that theory gives it."""

import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from kosbert import data
from kosbert.data.records import ScoredPair
from kosbert.evaluation.slices import FEWEST, bigram_overlap, human_agreement, leaked, slices, terciles

real_data = pytest.mark.skipif("KOSBERT_DATA" not in os.environ, reason="needs real data: set KOSBERT_DATA")


@given(st.lists(st.integers(0, 20), min_size=1, max_size=60))
def test_terciles_are_a_partition(values) -> None:
    numbers = np.array(values, float)
    parts = [chosen for _, chosen in terciles(numbers, ("low", "middle", "high"), "{:.0f}")]
    assert np.all(np.sum(parts, axis=0) == 1)  # each in one part
    for value in set(values):
        assert sum(part[numbers == value].any() for part in parts) == 1  # equal values in the same one
    tops = [numbers[part].max() for part in parts]
    bottoms = [numbers[part].min() for part in parts]
    assert all(top < bottom for top, bottom in zip(tops, bottoms[1:], strict=False))


def test_terciles_are_thirds_and_say_where_they_cut() -> None:
    found = dict(terciles(np.arange(1.0, 10.0), ("short", "medium", "long"), "{:.0f} characters"))
    assert list(found) == ["short: up to 3 characters", "medium: up to 6 characters", "long: above 6 characters"]
    assert [chosen.sum() for chosen in found.values()] == [3, 3, 3]


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


def pairs_of(count: int, seed: int = 0) -> tuple[list[ScoredPair], np.ndarray]:
    """Pairs of random syllables, of all lengths, the second sharing some of the first; two sources take turns."""
    generator = np.random.default_rng(seed)
    scores = np.round(generator.uniform(0, 5, count), 1)
    pairs = []
    for number, score in enumerate(scores):
        letters = "".join(map(chr, generator.integers(ord("가"), ord("가") + 500, generator.integers(20, 60))))
        shared = int(generator.integers(0, 15))
        pairs.append(ScoredPair(letters, letters[:shared] + letters[::-1], score, "ab"[number % 2]))
    return pairs, scores + generator.normal(0, 1, count)


def test_slices_are_the_correlations_of_their_pairs() -> None:
    pairs, predictions = pairs_of(120)
    found = slices(pairs, predictions, resamples=200)
    assert [each.kind for each in found] == ["source"] * 2 + ["length"] * 3 + ["overlap"] * 3
    gold = np.array([pair.score for pair in pairs])
    by_name = {each.name: each for each in found}
    expected = spearmanr(predictions[::2], gold[::2])[0]
    assert by_name["a"].pairs == 60
    assert by_name["a"].spearman.value == pytest.approx(expected)
    assert by_name["a"].spearman.low < expected < by_name["a"].spearman.high
    for kind in ("source", "length", "overlap"):
        assert sum(each.pairs for each in found if each.kind == kind) == 120


def test_one_source_is_no_slice_and_few_pairs_have_no_correlation() -> None:
    pairs, predictions = pairs_of(FEWEST + 2)
    alone = [ScoredPair(pair.sentence1, pair.sentence2, pair.score) for pair in pairs]
    found = slices(alone, predictions, resamples=100)
    assert "source" not in {each.kind for each in found}
    assert all(each.spearman is None and each.pearson is None for each in found if each.pairs < FEWEST)
    assert any(each.pairs < FEWEST for each in found)


def test_what_leaked() -> None:
    held_out = [
        ScoredPair("오늘은 비가 많이 온다.", "하늘에서 비가 내린다.", 4.0),
        ScoredPair("하늘이 맑고 푸르다.", "고양이가 지붕에서 잔다.", 0.5),
        ScoredPair("아이가 학교에 걸어간다.", "시장이 연설을 시작했다.", 0.0),
    ]
    training = [
        ScoredPair("하늘에서 비가 내린다!", "오늘은 비가 많이 온다", 3.8),  # the first pair, turned round, other marks
        ScoredPair("하늘이 맑고 푸르다.", "전혀 다른 이야기를 한다.", 1.0),  # one sentence of the second
    ]
    whole, part = leaked(held_out, training)
    assert whole.tolist() == [True, False, False]
    assert part.tolist() == [True, True, False]


def test_leakage_slices_are_with_and_without() -> None:
    pairs, predictions = pairs_of(60)
    found = slices(pairs, predictions, training=pairs[:20], resamples=100)
    sizes = {each.name: each.pairs for each in found if each.kind == "leakage"}
    assert sizes["only pairs seen in training"] == 20
    assert sizes["only pairs seen in training"] + sizes["without pairs seen in training"] == 60
    assert sizes["only sentences seen in training"] + sizes["without sentences seen in training"] == 60


def voted(rows: np.ndarray) -> list[ScoredPair]:
    return [ScoredPair("가", "나", float(np.mean(row)), votes=tuple(row)) for row in rows]


def test_people_who_always_agree() -> None:
    found = human_agreement(voted(np.repeat(np.arange(50.0)[:, None] % 6, 5, axis=1)), draws=50)
    assert (found.pairs, found.votes) == (50, 250)
    assert found.pearson.value == pytest.approx(1)
    assert (found.spearman.low, found.spearman.high) == pytest.approx((1, 1))


def test_the_ceiling_is_what_theory_says() -> None:
    """Truth with variance 1 and five voters with errors of variance 1: r = 1 / √(2 · (1 + 1/4))."""
    generator = np.random.default_rng(1)
    truth = generator.normal(size=(800, 1))
    pairs = voted(truth + generator.normal(size=(800, 5)))
    found = human_agreement(pairs, draws=200)
    expected = 1 / np.sqrt(2 * 1.25)
    assert found.pearson.value == pytest.approx(expected, abs=0.03)
    assert found.pearson.low < expected < found.pearson.high
    assert found == human_agreement(pairs, draws=200) != human_agreement(pairs, draws=200, seed=1)


def test_rows_may_have_different_numbers_of_votes() -> None:
    pairs = [ScoredPair("가", "나", n % 6, votes=(n % 6,) * (2 + n % 5)) for n in range(40)]
    pairs += [ScoredPair("가", "나", 5, votes=(0,)), ScoredPair("가", "나", 5)]  # nobody to compare with
    found = human_agreement(pairs, draws=20)
    assert found.pairs == 40
    assert found.pearson.value == pytest.approx(1)


def test_no_ceiling_without_votes_or_without_variation() -> None:
    assert human_agreement([ScoredPair("가", "나", 1.0)] * 30) is None
    assert human_agreement([ScoredPair("가", "나", 1.0, votes=(1.0, 1.0))] * 30, draws=5) is None


@real_data
def test_real_sets_have_their_six_sources() -> None:
    for reference in ("korsts-test", "klue-sts-dev"):
        pairs = data.load(reference)
        predictions = np.array([bigram_overlap(pair.sentence1, pair.sentence2) for pair in pairs])
        found = slices(pairs, predictions, resamples=100)
        assert sum(each.kind == "source" for each in found) == 6
        assert sum(each.pairs for each in found if each.kind == "source") == len(pairs)


@real_data
def test_the_ceiling_of_klue() -> None:
    found = human_agreement(data.load("klue-sts-dev"), draws=100)
    assert (found.pairs, found.votes) == (519, 3262)
    assert found.spearman.value == pytest.approx(0.841, abs=0.005)
