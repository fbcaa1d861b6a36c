"""Leakage: the index equals a brute-force comparison, and known overlaps of KorSTS."""

import csv
import json
import os
import unicodedata
from dataclasses import asdict
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kosbert.data import leakage, trigrams
from kosbert.data.leakage import Match, overlap
from kosbert.data.records import LabeledPair, LabeledSentence, ScoredPair, Sentence, Triplet, sentences_of
from kosbert.errors import UsageError
from kosbert.text import clean

# Brute force, O(n·m), with Python sets: the definition that the index must equal.


@cache
def brute_key(text):
    cleaned = clean(text).casefold()
    kept = [
        c for c in cleaned if unicodedata.category(c)[0] not in "PZ" and unicodedata.category(c) not in ("Cf", "Sk")
    ]
    return "".join(c for c in kept if c not in "~∼") or cleaned.replace(" ", "")


def brute_similarity(left, right):
    left, right = brute_key(left), brute_key(right)
    if len(left) < 3 or len(right) < 3:
        return float(left == right)
    left, right = ({key[i : i + 3] for i in range(len(key) - 2)} for key in (left, right))
    return len(left & right) / len(left | right)


def brute_grade(left, right):
    """Return the level (2 exact, 1 normalized, 0 at most near) and the similarity."""
    return ((left == right) + (brute_key(left) == brute_key(right)), brute_similarity(left, right))


def brute_pairs(rows):
    pairs = {}
    for row in rows:
        first, *rest = sentences_of(row)
        for second in rest:
            pairs.setdefault(frozenset((first, second)), (first, second))
    return list(pairs.values())


def brute_overlap(rows, held_out, near):
    """Return the best grade of every matching held-out unit, and the totals."""
    row_texts = list(dict.fromkeys(text for row in rows for text in sentences_of(row)))
    held_out_texts = list(dict.fromkeys(text for row in held_out for text in sentences_of(row)))
    best = {"sentence": {}, "pair": {}}
    for text in held_out_texts:
        grades = [grade for row_text in row_texts if (grade := brute_grade(row_text, text))[1] >= near]
        if grades:
            best["sentence"][(text,)] = max(grades)
    for first, second in brute_pairs(held_out):
        grades = []
        for pair in brute_pairs(rows):
            for left, right in (pair, pair[::-1]):
                grade = min(brute_grade(left, first), brute_grade(right, second))
                if grade[1] >= near:
                    grades.append(grade)
        if grades:
            best["pair"][first, second] = max(grades)
    totals = {"sentence": len(held_out_texts), "pair": len(brute_pairs(held_out))}
    return best, totals


def assert_equals_brute_force(rows, held_out, near):
    best, totals = brute_overlap(rows, held_out, near)
    overlaps = overlap(rows, held_out, near=near, examples=10_000)
    assert [(result.unit, result.level) for result in overlaps] == [
        (unit, level) for unit in ("sentence", "pair") for level in ("exact", "normalized", "near")
    ]
    for result in overlaps:
        level = ("near", "normalized", "exact").index(result.level)
        assert result.total == totals[result.unit]
        assert result.count == sum(grade[0] >= level for grade in best[result.unit].values())
        expected = {unit: grade[1] for unit, grade in best[result.unit].items() if grade[0] == level}
        assert {match.held_out: match.similarity for match in result.examples} == expected
        for match in result.examples:  # the texts that are shown really match
            pairs = zip(match.rows, match.held_out, strict=True)
            assert min(brute_grade(*pair) for pair in pairs) == (level, match.similarity)


def counts(rows, held_out, unit="sentence", **options):
    return [result.count for result in overlap(rows, held_out, **options) if result.unit == unit]


def sentences(*texts):
    return [Sentence(text) for text in texts]


# A small alphabet gives many shared trigrams; the rest is for normalization, and short and empty texts.
words = st.text("가나다", max_size=12)
marks = st.text("가나Aaａ .!😀ㅋ\u200b\n한\u1112\u1161\u11ab", max_size=8)
texts = words | marks | st.builds(lambda head, tail: "가나다라마바사아자차" + head + tail, words, marks)
records = (
    st.builds(Sentence, texts)
    | st.builds(LabeledSentence, texts, st.just("x"))
    | st.builds(LabeledPair, texts, texts, st.just("x"))
    | st.builds(ScoredPair, texts, texts, st.just(1.0))
    | st.builds(Triplet, texts, texts, texts)
)
thresholds = st.sampled_from([0.01, 0.3, 0.5, 2 / 3, 0.7, 0.8, 0.9, 1.0]) | st.floats(0.001, 1.0)


@settings(max_examples=300, deadline=None)
@given(st.lists(records, max_size=12), st.lists(records, max_size=12), thresholds)
def test_index_equals_brute_force(rows, held_out, near):
    assert_equals_brute_force(rows, held_out, near)


@settings(max_examples=100, deadline=None)
@given(
    rows=st.lists(records, max_size=12),
    held_out=st.lists(records, max_size=12),
    near=thresholds,
    block=st.integers(1, 4),
    shard=st.integers(1, 4),
    candidates=st.integers(1, 20),
)
def test_block_sizes_do_not_change_the_result(rows, held_out, near, block, shard, candidates):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leakage, "_BLOCK", block)
        patch.setattr(leakage, "_SHARD", shard)
        patch.setattr(trigrams, "CANDIDATES", candidates)
        assert_equals_brute_force(rows, held_out, near)


@settings(max_examples=50, deadline=None)
@given(st.lists(records, max_size=12), st.lists(records, max_size=12), thresholds)
def test_exact_counts_are_symmetric(rows, held_out, near):
    forward, backward = overlap(rows, held_out, near=near), overlap(held_out, rows, near=near)
    for left, right in zip(forward, backward, strict=True):
        if left.level == "exact":
            assert left.count == right.count
        assert bool(left.count) == bool(right.count)


@settings(max_examples=50, deadline=None)
@given(st.lists(records, max_size=12), thresholds)
def test_set_overlaps_completely_with_itself(rows, near):
    for result in overlap(rows, rows, near=near):
        assert result.count == result.total


@settings(max_examples=50, deadline=None)
@given(st.lists(records, max_size=8), st.lists(records, max_size=8), st.integers(2, 3))
def test_duplicates_and_row_order_do_not_change_counts(rows, held_out, times):
    def summary(overlaps):
        return [(result.level, result.unit, result.count, result.total) for result in overlaps]

    assert summary(overlap(rows * times, (held_out * times)[::-1])) == summary(overlap(rows, held_out))


@settings(max_examples=50, deadline=None)
@given(st.lists(records, max_size=12), st.lists(records, max_size=12), thresholds, thresholds)
def test_weaker_levels_and_lower_thresholds_find_at_least_as_many(rows, held_out, near1, near2):
    strict, loose = (overlap(rows, held_out, near=near) for near in (max(near1, near2), min(near1, near2)))
    for overlaps in (strict, loose):
        by_unit = [[result.count for result in overlaps if result.unit == unit] for unit in ("sentence", "pair")]
        assert all(by_level == sorted(by_level) for by_level in by_unit)
    assert all(more.count >= fewer.count for more, fewer in zip(loose, strict, strict=True))


@pytest.mark.parametrize(("rows", "held_out"), [([], []), ([], [ScoredPair("가", "나", 1.0)]), (sentences("가"), [])])
def test_empty_set_has_no_overlap(rows, held_out):
    assert [result.count for result in overlap(rows, held_out)] == [0] * 6


@pytest.mark.parametrize(
    "variant",
    [
        unicodedata.normalize("NFD", "한국어 AI를 배운다."),
        "한국어AI를배운다",
        "  한국어,  ai를 — 배운다…  ",
        "「한국어」 ＡＩ를\u200b 배운다~^^",
    ],
)
def test_spelling_variants_match_only_when_normalized(variant):
    assert counts(sentences(variant), sentences("한국어 AI를 배운다.")) == [0, 1, 1]


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("!!!", "?"),
        ("...", "!!!"),
        ("", "!"),
        ("", "가"),
        ("가", "나"),
        ("가", "가나"),
        ("가나", "가나다"),
        ("😀", "😡"),
        ("ㅋ", "ㅠ"),
    ],
)
def test_short_texts_match_only_themselves(left, right):
    assert counts(sentences(left), sentences(right), near=0.01) == [0, 0, 0]
    assert counts(sentences(left), sentences(left)) == [1, 1, 1]


def test_known_similarity():
    # 가나다라마바사아 has six trigrams, and one character more makes a seventh.
    rows, held_out = sentences("가나다라 마바사아자"), sentences("가나다라 마바사아")
    assert counts(rows, held_out, near=6 / 7) == [0, 0, 1]
    assert counts(rows, held_out, near=0.86) == [0, 0, 0]
    assert overlap(rows, held_out)[2].examples == [Match(("가나다라 마바사아",), ("가나다라 마바사아자",), 6 / 7)]


def test_pair_matches_in_either_order_and_only_with_both_sides():
    held_out = [ScoredPair("비가 온다", "눈이 온다", 1.0)]
    assert counts([LabeledPair("눈이 온다", "비가 온다", "x")], held_out, "pair") == [1, 1, 1]
    assert counts([LabeledPair("눈이 온다!", "비가 온다", "x")], held_out, "pair") == [0, 1, 1]
    assert counts(sentences("눈이 온다", "비가 온다"), held_out, "pair") == [0, 0, 0]
    assert counts([ScoredPair("비가 온다", "비가 온다", 1.0)], held_out, "pair") == [0, 0, 0]
    split = [ScoredPair("비가 온다", "해가 뜬다", 1.0), ScoredPair("눈이 온다", "해가 뜬다", 1.0)]
    assert counts(split, held_out, "pair") == [0, 0, 0]
    swapped = [ScoredPair("눈이 온다", "비가 온다", 2.0), *held_out]
    assert [(result.count, result.total) for result in overlap(held_out, swapped) if result.unit == "pair"] == [
        (1, 1)
    ] * 3


def test_best_match_of_a_pair_is_found_across_blocks(monkeypatch):
    monkeypatch.setattr(leakage, "_BLOCK", 1)
    held_out = [ScoredPair("가나다라마바사", "아자차카타파하", 1.0)]
    near = LabeledPair("아자차카타파하", "가나다라마바사아", "x")
    normalized = LabeledPair("아자차카 타파하", "가나다라마바사", "x")
    overlaps = [result for result in overlap([near, normalized, near], held_out) if result.unit == "pair"]
    assert [(result.count, len(result.examples)) for result in overlaps] == [(0, 0), (1, 1), (1, 0)]
    assert overlaps[1].examples[0] == Match(
        ("가나다라마바사", "아자차카타파하"), ("가나다라마바사", "아자차카 타파하"), 1.0
    )


def test_triplet_has_two_pairs():
    rows = [Triplet("가", "나", "다")]
    held_out = [ScoredPair(*pair, 0.0) for pair in (("가", "나"), ("다", "가"), ("나", "다"))]
    assert counts(rows, held_out, "pair") == [2, 2, 2]


def test_lone_surrogates_are_compared():
    assert counts(sentences("가나\ud800다라"), sentences("가나\ud800다라", "\x00")) == [1, 1, 1]


def test_examples_are_limited_and_in_held_out_order():
    rows = sentences(*"다나가라")
    overlaps = overlap(rows, sentences(*"가나다라"), examples=2)
    assert [match.held_out for match in overlaps[0].examples] == [("가",), ("나",)]
    assert all(not result.examples for result in overlap(rows, rows, examples=0))


def test_result_is_json_serializable():
    overlaps = overlap([ScoredPair("가", "나", 1.0)], [ScoredPair("나", "가", 1.0)])
    assert json.loads(json.dumps([asdict(result) for result in overlaps]))[3] == {
        "level": "exact",
        "unit": "pair",
        "count": 1,
        "total": 1,
        "examples": [{"held_out": ["나", "가"], "rows": ["나", "가"], "similarity": 1.0}],
    }


def test_rows_can_be_iterators():
    assert counts(iter(sentences("가")), iter(sentences("가"))) == [1, 1, 1]


@pytest.mark.parametrize("options", [{"near": 0}, {"near": 1.01}, {"near": float("nan")}, {"examples": -1}])
def test_impossible_options_are_usage_errors(options):
    with pytest.raises(UsageError, match="give"):
        overlap([], [], **options)


@pytest.fixture(scope="module")
def korsts():
    directory = Path(os.environ.get("KOSBERT_DATA", "no data")) / "korsts"
    if not directory.is_dir():
        pytest.skip("KorSTS is not in KOSBERT_DATA")

    def read(split):
        with (directory / f"sts-{split}.tsv").open(encoding="utf-8", newline="") as file:
            lines = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
            return [ScoredPair(row["sentence1"], row["sentence2"], float(row["score"])) for row in lines]

    return {split: read(split) for split in ("train", "dev", "test")}


@pytest.mark.parametrize(
    ("rows", "held_out", "sentence_count", "pair_count"),
    [("train", "test", 153, 2), ("dev", "test", 85, 6), ("train", "dev", 166, 3), ("test", "train", 153, 2)],
)
def test_korsts_exact_overlap_is_as_published(korsts, rows, held_out, sentence_count, pair_count):
    overlaps = {result.unit: result for result in overlap(korsts[rows], korsts[held_out]) if result.level == "exact"}
    assert (overlaps["sentence"].count, overlaps["pair"].count) == (sentence_count, pair_count)


def test_index_equals_brute_force_on_korsts(korsts):
    assert_equals_brute_force(korsts["train"][:300], korsts["test"][:150], 0.5)
