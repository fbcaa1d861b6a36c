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

# The plain definition, O(n·m), from Python sets: what the fast path must equal.


@cache
def plain_key(text):
    cleaned = clean(text).casefold()
    kept = [
        c for c in cleaned if unicodedata.category(c)[0] not in "PZ" and unicodedata.category(c) not in ("Cf", "Sk")
    ]
    return "".join(c for c in kept if c not in "~∼") or cleaned.replace(" ", "")


def plain_similarity(one, other):
    one, other = plain_key(one), plain_key(other)
    if len(one) < 3 or len(other) < 3:
        return float(one == other)
    one, other = ({key[i : i + 3] for i in range(len(key) - 2)} for key in (one, other))
    return len(one & other) / len(one | other)


def plain_grade(one, other):
    """Level (2 exact, 1 normalized, 0 at most near) and similarity."""
    return ((one == other) + (plain_key(one) == plain_key(other)), plain_similarity(one, other))


def plain_pairs(rows):
    pairs = {}
    for row in rows:
        first, *others = sentences_of(row)
        for other in others:
            pairs.setdefault(frozenset((first, other)), (first, other))
    return list(pairs.values())


def plain_overlap(rows, against, near):
    """(unit, level) → (the units of against that match, with the similarity of the best match), and totals."""
    ours = list(dict.fromkeys(text for row in rows for text in sentences_of(row)))
    theirs = list(dict.fromkeys(text for row in against for text in sentences_of(row)))
    best = {"sentence": {}, "pair": {}}
    for text in theirs:
        grades = [grade for other in ours if (grade := plain_grade(other, text))[1] >= near]
        if grades:
            best["sentence"][(text,)] = max(grades)
    for first, second in plain_pairs(against):
        grades = []
        for one, other in plain_pairs(rows):
            for left, right in ((one, other), (other, one)):
                grade = min(plain_grade(left, first), plain_grade(right, second))
                if grade[1] >= near:
                    grades.append(grade)
        if grades:
            best["pair"][first, second] = max(grades)
    totals = {"sentence": len(theirs), "pair": len(plain_pairs(against))}
    return best, totals


def assert_equals_plain(rows, against, near):
    best, totals = plain_overlap(rows, against, near)
    found = overlap(rows, against, near=near, examples=10_000)
    assert [(one.unit, one.level) for one in found] == [
        (unit, level) for unit in ("sentence", "pair") for level in ("exact", "normalized", "near")
    ]
    for one in found:
        place = ("near", "normalized", "exact").index(one.level)
        assert one.total == totals[one.unit]
        assert one.count == sum(grade[0] >= place for grade in best[one.unit].values())
        expected = {unit: grade[1] for unit, grade in best[one.unit].items() if grade[0] == place}
        assert {match.held_out: match.similarity for match in one.examples} == expected
        for match in one.examples:  # what is shown beside it is really such a match, side by side
            pairs = zip(match.rows, match.held_out, strict=True)
            assert min(plain_grade(*pair) for pair in pairs) == (place, match.similarity)


def counts(rows, against, unit="sentence", **options):
    return [one.count for one in overlap(rows, against, **options) if one.unit == unit]


def sentences(*texts):
    return [Sentence(text) for text in texts]


# Few letters make many shared trigrams; the rest is what normalization is about, and short and empty texts.
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
def test_the_index_finds_exactly_what_comparing_everything_with_everything_finds(rows, against, near):
    assert_equals_plain(rows, against, near)


@settings(max_examples=100, deadline=None)
@given(
    rows=st.lists(records, max_size=12),
    against=st.lists(records, max_size=12),
    near=thresholds,
    block=st.integers(1, 4),
    shard=st.integers(1, 4),
    candidates=st.integers(1, 20),
)
def test_the_sizes_of_blocks_do_not_matter(rows, against, near, block, shard, candidates):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leakage, "_BLOCK", block)
        patch.setattr(leakage, "_SHARD", shard)
        patch.setattr(trigrams, "CANDIDATES", candidates)
        assert_equals_plain(rows, against, near)


@settings(max_examples=50, deadline=None)
@given(st.lists(records, max_size=12), st.lists(records, max_size=12), thresholds)
def test_exact_counts_are_symmetric_and_matching_at_any_level_is_mutual(rows, against, near):
    there, back = overlap(rows, against, near=near), overlap(against, rows, near=near)
    for one, other in zip(there, back, strict=True):
        if one.level == "exact":
            assert one.count == other.count
        assert bool(one.count) == bool(other.count)


@settings(max_examples=50, deadline=None)
@given(st.lists(records, max_size=12), thresholds)
def test_a_set_against_itself_is_all_leaked_exactly(rows, near):
    for one in overlap(rows, rows, near=near):
        assert one.count == one.total


@settings(max_examples=50, deadline=None)
@given(st.lists(records, max_size=8), st.lists(records, max_size=8), st.integers(2, 3))
def test_duplicates_within_a_side_and_the_order_of_rows_change_no_count(rows, against, times):
    def summary(found):
        return [(one.level, one.unit, one.count, one.total) for one in found]

    assert summary(overlap(rows * times, (against * times)[::-1])) == summary(overlap(rows, against))


@settings(max_examples=50, deadline=None)
@given(st.lists(records, max_size=12), st.lists(records, max_size=12), thresholds, thresholds)
def test_each_level_includes_the_one_before_and_a_lower_threshold_finds_no_less(rows, against, one, other):
    strict, loose = (overlap(rows, against, near=near) for near in (max(one, other), min(one, other)))
    for found in (strict, loose):
        by_unit = [[each.count for each in found if each.unit == unit] for unit in ("sentence", "pair")]
        assert all(by_level == sorted(by_level) for by_level in by_unit)
    assert all(more.count >= fewer.count for more, fewer in zip(loose, strict, strict=True))


@pytest.mark.parametrize(("rows", "against"), [([], []), ([], [ScoredPair("가", "나", 1.0)]), (sentences("가"), [])])
def test_an_empty_side_overlaps_with_nothing(rows, against):
    assert [one.count for one in overlap(rows, against)] == [0] * 6


@pytest.mark.parametrize(
    "variant",
    [
        unicodedata.normalize("NFD", "한국어 AI를 배운다."),
        "한국어AI를배운다",
        "  한국어,  ai를 — 배운다…  ",
        "「한국어」 ＡＩ를\u200b 배운다~^^",
    ],
)
def test_spelling_variants_are_equal_at_the_normalized_level_only(variant):
    assert counts(sentences(variant), sentences("한국어 AI를 배운다.")) == [0, 1, 1]


@pytest.mark.parametrize(
    ("one", "other"),
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
def test_short_texts_and_texts_without_letters_do_not_match_each_other(one, other):
    assert counts(sentences(one), sentences(other), near=0.01) == [0, 0, 0]
    assert counts(sentences(one), sentences(one)) == [1, 1, 1]


def test_a_known_similarity():
    # 가나다라마바사아 has six trigrams, and one character more makes a seventh.
    rows, against = sentences("가나다라 마바사아자"), sentences("가나다라 마바사아")
    assert counts(rows, against, near=6 / 7) == [0, 0, 1]
    assert counts(rows, against, near=0.86) == [0, 0, 0]
    assert overlap(rows, against)[2].examples == [Match(("가나다라 마바사아",), ("가나다라 마바사아자",), 6 / 7)]


def test_a_pair_matches_in_either_order_and_only_as_a_whole():
    against = [ScoredPair("비가 온다", "눈이 온다", 1.0)]
    assert counts([LabeledPair("눈이 온다", "비가 온다", "x")], against, "pair") == [1, 1, 1]
    assert counts([LabeledPair("눈이 온다!", "비가 온다", "x")], against, "pair") == [0, 1, 1]
    assert counts(sentences("눈이 온다", "비가 온다"), against, "pair") == [0, 0, 0]
    assert counts([ScoredPair("비가 온다", "비가 온다", 1.0)], against, "pair") == [0, 0, 0]
    split = [ScoredPair("비가 온다", "해가 뜬다", 1.0), ScoredPair("눈이 온다", "해가 뜬다", 1.0)]
    assert counts(split, against, "pair") == [0, 0, 0]
    swapped = [ScoredPair("눈이 온다", "비가 온다", 2.0), *against]
    assert [(one.count, one.total) for one in overlap(against, swapped) if one.unit == "pair"] == [(1, 1)] * 3


def test_a_pair_across_blocks_finds_its_best_match(monkeypatch):
    monkeypatch.setattr(leakage, "_BLOCK", 1)
    against = [ScoredPair("가나다라마바사", "아자차카타파하", 1.0)]
    near = LabeledPair("아자차카타파하", "가나다라마바사아", "x")
    normalized = LabeledPair("아자차카 타파하", "가나다라마바사", "x")
    found = [one for one in overlap([near, normalized, near], against) if one.unit == "pair"]
    assert [(one.count, len(one.examples)) for one in found] == [(0, 0), (1, 1), (1, 0)]
    assert found[1].examples[0] == Match(
        ("가나다라마바사", "아자차카타파하"), ("가나다라마바사", "아자차카 타파하"), 1.0
    )


def test_a_triplet_has_the_pairs_of_its_anchor():
    rows = [Triplet("가", "나", "다")]
    against = [ScoredPair(*pair, 0.0) for pair in (("가", "나"), ("다", "가"), ("나", "다"))]
    assert counts(rows, against, "pair") == [2, 2, 2]


def test_broken_characters_are_compared_too():
    assert counts(sentences("가나\ud800다라"), sentences("가나\ud800다라", "\x00")) == [1, 1, 1]


def test_examples_are_limited_and_come_in_the_order_of_the_held_out_set():
    rows = sentences(*"다나가라")
    found = overlap(rows, sentences(*"가나다라"), examples=2)
    assert [match.held_out for match in found[0].examples] == [("가",), ("나",)]
    assert all(not one.examples for one in overlap(rows, rows, examples=0))


def test_a_result_is_json():
    found = overlap([ScoredPair("가", "나", 1.0)], [ScoredPair("나", "가", 1.0)])
    assert json.loads(json.dumps([asdict(one) for one in found]))[3] == {
        "level": "exact",
        "unit": "pair",
        "count": 1,
        "total": 1,
        "examples": [{"held_out": ["나", "가"], "rows": ["나", "가"], "similarity": 1.0}],
    }


def test_rows_may_be_streams():
    assert counts(iter(sentences("가")), iter(sentences("가"))) == [1, 1, 1]


@pytest.mark.parametrize("options", [{"near": 0}, {"near": 1.01}, {"near": float("nan")}, {"examples": -1}])
def test_an_impossible_option_is_refused(options):
    with pytest.raises(UsageError, match="give"):
        overlap([], [], **options)


@pytest.fixture(scope="module")
def korsts():
    folder = Path(os.environ.get("KOSBERT_DATA", "no data")) / "korsts"
    if not folder.is_dir():
        pytest.skip("KorSTS is not in KOSBERT_DATA")

    def read(split):
        with (folder / f"sts-{split}.tsv").open(encoding="utf-8", newline="") as file:
            lines = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
            return [ScoredPair(row["sentence1"], row["sentence2"], float(row["score"])) for row in lines]

    return {split: read(split) for split in ("train", "dev", "test")}


@pytest.mark.parametrize(
    ("rows", "against", "sentence_count", "pair_count"),
    [("train", "test", 153, 2), ("dev", "test", 85, 6), ("train", "dev", 166, 3), ("test", "train", 153, 2)],
)
def test_korsts_has_its_known_exact_overlap(korsts, rows, against, sentence_count, pair_count):
    found = {one.unit: one for one in overlap(korsts[rows], korsts[against]) if one.level == "exact"}
    assert (found["sentence"].count, found["pair"].count) == (sentence_count, pair_count)


def test_the_index_equals_the_plain_definition_on_korsts(korsts):
    assert_equals_plain(korsts["train"][:300], korsts["test"][:150], 0.5)
