"""NLI rows to triplets and pairs."""

import random
from itertools import permutations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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


def test_all_triplets_are_every_entailment_with_every_contradiction() -> None:
    triplets = nli_triplets(ROWS)
    assert len(triplets) == len(set(triplets)) == 6
    assert triplets[0] == Triplet("개가 뛴다", "동물이 뛴다", "개가 잔다")
    assert not any(
        "공원" in text for triplet in triplets for text in (triplet.anchor, triplet.positive, triplet.negative)
    )


def test_last_is_the_last_entailment_and_contradiction() -> None:
    expected = Triplet("개가 뛴다", "무언가 움직인다", "개가 가만히 있다")
    assert nli_triplets(ROWS, triplets="last") == [expected]
    again = [*ROWS, LabeledPair("개가 뛴다 ", " 동물이 뛴다", "entailment")]  # texts are stripped
    assert nli_triplets(again, triplets="last") == [Triplet("개가 뛴다", "동물이 뛴다", "개가 가만히 있다")]


def test_random_draws_one_triplet_per_premise_with_the_seed() -> None:
    every = nli_triplets(ROWS)
    drawn = [nli_triplets(ROWS, triplets="random", seed=seed) for seed in range(60)]
    assert all(len(triplets) == 1 for triplets in drawn)
    assert {triplet for triplets in drawn for triplet in triplets} == set(every)
    assert drawn[7] == nli_triplets(ROWS, triplets="random", seed=7)


def test_both_directions_makes_anchors_of_hypotheses_and_swaps_anchor_and_positive() -> None:
    rows = [LabeledPair("가", "나", "entailment"), LabeledPair("나", "다", "contradiction")]
    assert nli_triplets(rows) == []
    # 가→나, 나→가 entail, 나→다, 다→나 contradict: only 나 has both.
    assert nli_triplets(rows, both_directions=True) == [Triplet("나", "가", "다"), Triplet("가", "나", "다")]


LABELS = ("entailment", "neutral", "contradiction", "-")
nli_rows = st.lists(
    st.builds(LabeledPair, st.sampled_from("가나다라"), st.sampled_from("가나다라 마"), st.sampled_from(LABELS)),
    max_size=25,
)


def published_groups(rows: list[LabeledPair]) -> dict[str, dict[str, set[str]]]:
    """Group rows as the published notebook does: in both directions, texts stripped, nothing skipped."""
    groups: dict[str, dict[str, set[str]]] = {}

    def add(first: str, second: str, label: str) -> None:
        groups.setdefault(first, {"entailment": set(), "neutral": set(), "contradiction": set()})[label].add(second)

    for row in rows:
        if row.label in ("contradiction", "entailment", "neutral"):
            add(row.sentence1.strip(), row.sentence2.strip(), row.label)
            add(row.sentence2.strip(), row.sentence1.strip(), row.label)
    return {anchor: group for anchor, group in groups.items() if group["entailment"] and group["contradiction"]}


@given(nli_rows, st.integers(0, 3))
@settings(max_examples=150, deadline=None)
def test_random_in_both_directions_follows_the_published_notebook(rows: list[LabeledPair], seed: int) -> None:
    groups = published_groups(rows)
    triplets = nli_triplets(rows, triplets="random", both_directions=True, seed=seed)
    assert len(triplets) == 2 * len(groups)
    assert sorted(triplet.anchor for triplet in triplets[::2]) == sorted(groups)
    for triplet, swapped in zip(triplets[::2], triplets[1::2], strict=True):
        assert triplet.positive in groups[triplet.anchor]["entailment"]
        assert triplet.negative in groups[triplet.anchor]["contradiction"]
        assert swapped == Triplet(triplet.positive, triplet.anchor, triplet.negative)


@given(nli_rows)
@settings(max_examples=150, deadline=None)
def test_all_triplets_and_pairs_equal_a_plain_loop(rows: list[LabeledPair]) -> None:
    groups: dict[str, tuple[dict[str, None], dict[str, None]]] = {}
    for row in rows:
        positives, negatives = groups.setdefault(row.sentence1, ({}, {}))
        if row.label in ("entailment", "contradiction") and row.sentence1 != row.sentence2:
            (positives if row.label == "entailment" else negatives)[row.sentence2] = None
    triplets, pairs = [], []
    for premise, (positives, negatives) in groups.items():
        only_positive = [text for text in positives if text not in negatives]
        only_negative = [text for text in negatives if text not in positives]
        triplets += [Triplet(premise, *texts) for texts in product(only_positive, only_negative)]
        pairs += [(premise, text) for text in only_positive]
    assert nli_triplets(rows) == triplets
    assert nli_pairs(rows) == pairs


def test_pairs_are_distinct_entailments() -> None:
    assert nli_pairs(ROWS) == [("개가 뛴다", "동물이 뛴다"), ("개가 뛴다", "무언가 움직인다")]
    assert len(nli_pairs(ROWS, both_directions=True)) == 4
    assert nli_pairs(ROWS + ROWS) == nli_pairs(ROWS)


@pytest.mark.parametrize(("triplets", "count"), [("all", 0), ("random", 1), ("last", 1)])
def test_useless_rows_are_skipped_except_as_published(triplets, count) -> None:
    rows = [
        LabeledPair("가", "가", "entailment"),
        LabeledPair("가", "나", "entailment"),
        LabeledPair("가", "나", "contradiction"),
        LabeledPair("가", "다", "contradiction"),
    ]
    assert len(nli_triplets(rows, triplets=triplets)) == count
    assert nli_pairs(rows) == []


def test_triplets_do_not_depend_on_the_order_of_rows() -> None:
    expected = set(nli_triplets(ROWS))
    assert all(set(nli_triplets(order)) == expected for order in list(permutations(ROWS))[::97])


def test_draws_are_uniform() -> None:
    generator = random.Random(0)
    rows = [
        LabeledPair(str(number), f"긍정 {hypothesis}", "entailment") for number in range(900) for hypothesis in "가나다"
    ]
    rows += [LabeledPair(str(number), "부정", "contradiction") for number in range(900)]
    generator.shuffle(rows)
    drawn = [triplet.positive for triplet in nli_triplets(rows, triplets="random")]
    assert all(240 < drawn.count(f"긍정 {hypothesis}") < 360 for hypothesis in "가나다")
