"""NLI rows to triplets and pairs."""

from itertools import permutations

import pytest

from kosbert.data.nli import nli_pairs, nli_triplets
from kosbert.data.records import LabeledPair, Triplet

ROWS = [
    LabeledPair("개가 뛴다", "동물이 뛴다", "entailment"),
    LabeledPair("개가 뛴다", "개가 잔다", "contradiction"),
    LabeledPair("비가 온다", "날이 맑다", "contradiction"),  # no entailment: no triplet
    LabeledPair("개가 뛴다", "개가 공원에서 뛴다", "neutral"),
    LabeledPair("개가 뛴다", "무언가 움직인다", "entailment"),
    LabeledPair("개가 뛴다", "아무것도 움직이지 않는다", "contradiction"),
    LabeledPair("개가 뛴다", "개가 가만히 있다", "contradiction"),
]


@pytest.mark.parametrize(("combine", "count"), [("all", 6), ("zip", 2), ("first", 1)])
def test_number_of_triplets_by_combination(combine: str, count: int) -> None:
    triplets = nli_triplets(ROWS, combine=combine)
    assert len(triplets) == len(set(triplets)) == count
    assert triplets[0] == Triplet("개가 뛴다", "동물이 뛴다", "개가 잔다")
    assert not any(
        "공원" in text for triplet in triplets for text in (triplet.anchor, triplet.positive, triplet.negative)
    )


def test_zip_combines_in_order() -> None:
    assert [(t.positive, t.negative) for t in nli_triplets(ROWS, combine="zip")] == [
        ("동물이 뛴다", "개가 잔다"),
        ("무언가 움직인다", "아무것도 움직이지 않는다"),
    ]


def test_symmetric_adds_triplets_from_the_entailment() -> None:
    both = nli_triplets(ROWS, combine="first", symmetric=True)
    assert both == [
        Triplet("개가 뛴다", "동물이 뛴다", "개가 잔다"),
        Triplet("동물이 뛴다", "개가 뛴다", "개가 잔다"),
    ]


def test_pairs_are_distinct_entailments() -> None:
    assert nli_pairs(ROWS) == [("개가 뛴다", "동물이 뛴다"), ("개가 뛴다", "무언가 움직인다")]
    assert len(nli_pairs(ROWS, symmetric=True)) == 4
    assert nli_pairs(ROWS + ROWS) == nli_pairs(ROWS)


def test_useless_rows_are_skipped() -> None:
    rows = [
        LabeledPair("가", "가", "entailment"),
        LabeledPair("가", "나", "entailment"),
        LabeledPair("가", "나", "contradiction"),
        LabeledPair("가", "다", "contradiction"),
    ]
    assert nli_triplets(rows) == []
    assert nli_pairs(rows) == []


def test_triplets_do_not_depend_on_the_order_of_rows() -> None:
    expected = set(nli_triplets(ROWS))
    assert all(set(nli_triplets(order)) == expected for order in list(permutations(ROWS))[::97])
