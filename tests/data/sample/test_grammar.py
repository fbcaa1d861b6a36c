"""The sample set: reproducible, separated splits, grammatical, and scores and labels that hold."""

import os
import re
import subprocess
import sys
from collections import Counter, defaultdict
from itertools import chain, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr
from sklearn.feature_extraction.text import TfidfVectorizer

from kosbert.data.records import sentences_of
from kosbert.data.sample import grammar
from kosbert.data.sample.edits import EDITS
from kosbert.data.sample.grammar import MAX_ROWS, SPLITS, attach, generate_nli, generate_sts
from kosbert.data.sample.vocabulary import FRAMES, NOUNS, frames_for
from kosbert.errors import UsageError

LABELS = ("entailment", "neutral", "contradiction")
NEGATED = re.compile(r"(?:^| )[안못] |지 (?:않|못)")
NUMERALS = {"두": 2, "세": 3, "네": 4, "다섯": 5, "여섯": 6, "일곱": 7}
COUNTERS = "|".join(sorted({noun.counter for group in NOUNS.values() for noun in group} - {""}))
COUNT = re.compile(rf"(?:({'|'.join(NUMERALS)}) |(\d))(?:{COUNTERS})")
PEOPLE_AND_ANIMALS = "|".join(
    word for group in ("name", "artist", "medic", "pet", "beast") for n in NOUNS[group] for word in n.words
)
ROLE = re.compile(rf"(?:^| )({PEOPLE_AND_ANIMALS})(이|가|은|는|을|를|에게)(?= )")
SYNONYMS = {word: noun.words[0] for group in NOUNS.values() for noun in group for word in noun.words}


# The largest test split is generated once, for the test of its size and for all others.
SIZES = {"train": 9_000, "dev": 3_900, "test": MAX_ROWS["test"]}


@pytest.fixture(scope="module")
def sts():
    return {split: generate_sts(split, size) for split, size in SIZES.items()}


@pytest.fixture(scope="module")
def nli():
    return {split: generate_nli(split, size) for split, size in SIZES.items()}


def every_sentence(rows):
    return {sentence for row in rows for sentence in sentences_of(row)}


def is_negated(sentence):
    return bool(NEGATED.search(sentence))


def count_in(sentence):
    match = COUNT.search(sentence)
    return match and (NUMERALS[match[1]] if match[1] else int(match[2]))


def roles(sentence):
    """Return agent and patient, also of a passive sentence."""
    nouns = {particle: SYNONYMS[word] for word, particle in ROLE.findall(sentence)}
    subject = next(nouns[particle] for particle in "이가은는" if particle in nouns)
    if "에게" in nouns:
        return nouns["에게"], subject
    return subject, next(nouns[particle] for particle in "을를" if particle in nouns)


# ── Size and reproducibility ────────────────────────────────────────────────────────────────────────────────────────


@settings(deadline=None, max_examples=12)
@given(st.sampled_from(SPLITS), st.integers(0, 90), st.integers(0, 2**32))
def test_rows_are_reproducible_and_of_the_requested_size(split, size, seed):
    for generate in (generate_sts, generate_nli):
        rows = generate(split, size, seed=seed)
        assert len(rows) == size
        assert rows == generate(split, size, seed=seed)
        assert rows == generate(split, size + 20, seed=seed)[:size]


def test_seeds_and_splits_differ():
    assert generate_sts("train", 50, seed=1) != generate_sts("train", 50, seed=2)
    assert generate_nli("train", 50) != generate_nli("dev", 50)


def test_another_process_generates_the_same_rows():
    script = (
        "import sys; sys.stdout.reconfigure(encoding='utf-8')\n"
        "from kosbert.data.sample.grammar import generate_nli, generate_sts\n"
        "print(generate_sts('dev', 40, seed=7), generate_nli('dev', 40, seed=7), end='')"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "4242", "PYTHONIOENCODING": "utf-8"}
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, env=environment, check=True)
    expected = f"{generate_sts('dev', 40, seed=7)} {generate_nli('dev', 40, seed=7)}"
    assert run.stdout.decode("utf-8") == expected


@pytest.mark.parametrize("generate", [generate_sts, generate_nli])
def test_wrong_arguments_are_usage_errors(generate):
    with pytest.raises(UsageError, match="did you mean train"):
        generate("trian", 10)
    with pytest.raises(UsageError, match="give 0 or more"):
        generate("train", -1)
    with pytest.raises(UsageError, match="at most 30,000"):
        generate("test", 30_001)
    assert generate("train", 0) == []


def test_max_rows_are_large_enough():
    assert MAX_ROWS["train"] >= 50_000
    assert min(MAX_ROWS.values()) >= 2_000


def test_max_rows_can_be_generated(sts, nli):
    for rows in (sts["test"], nli["test"]):
        assert len(set(rows)) == MAX_ROWS["test"]


# ── Splits ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_no_sentence_is_in_two_splits(sts, nli):
    sentences = {split: every_sentence(sts[split]) | every_sentence(nli[split]) for split in SPLITS}
    assert not sentences["train"] & sentences["dev"]
    assert not sentences["train"] & sentences["test"]
    assert not sentences["dev"] & sentences["test"]


def test_combinations_of_verb_and_object_are_in_one_split():
    """This keeps the splits separate, however many rows are generated."""
    splits = {}
    for split, frames in ((split, frames_for(split)) for split in SPLITS):
        for split_frame in frames:
            verbs = {*split_frame.frame.verbs, *split_frame.frame.opposites, split_frame.frame.passive} - {""}
            words = {word for noun in split_frame.objects for word in noun.words} | split_frame.hypernyms
            for pair in product(verbs, words):
                assert splits.setdefault(pair, (split_frame.frame.name, split)) == (split_frame.frame.name, split)


def test_every_split_frame_has_several_nouns():
    for split in SPLITS:
        for split_frame in frames_for(split):
            assert len(split_frame.objects) >= (3 if split_frame.frame.swap else 2), (split, split_frame.frame.name)
            assert len(set(split_frame.objects)) == len(split_frame.objects)
            assert len(set(split_frame.subjects)) == len(split_frame.subjects) >= 3


def test_most_test_words_occur_in_train(sts):
    train_words = {word for sentence in every_sentence(sts["train"]) for word in sentence.split()}
    words = [word for sentence in every_sentence(sts["test"]) for word in sentence.split()]
    assert sum(word in train_words for word in words) / len(words) > 0.8


# ── Sentences ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_sentences_are_well_formed(sts, nli):
    shape = re.compile(r"[가-힣0-9]+(?: [가-힣0-9]+)+\.")
    for rows in (*sts.values(), *nli.values()):
        for sentence in every_sentence(rows):
            assert shape.fullmatch(sentence), sentence


def test_particles_agree_everywhere(sts):
    """No noun of the vocabulary is followed by the wrong form of a particle."""
    nouns = {word for group in NOUNS.values() for noun in group for word in noun.words if " " not in word}
    wrong = set()
    for noun, pair in product(nouns, ("은/는", "이/가", "을/를", "와/과", "이나/나", "으로/로")):
        right = attach(noun, pair)
        wrong |= {noun + form for form in pair.split("/")} - {right}
    wrong -= nouns | {attach(noun, pair) for noun in nouns for pair in ("은/는", "이/가", "을/를")}
    used = {word.rstrip(".") for rows in sts.values() for s in every_sentence(rows) for word in s.split()}
    assert not used & wrong


def test_counters_fit_their_nouns(sts):
    text = " ".join(sentence for rows in sts.values() for sentence in every_sentence(rows))
    for noun, counter in [("고등학생", "명"), ("강아지", "마리"), ("시집", "권"), ("구두", "켤레"), ("할머니", "분")]:
        counters = re.findall(rf"(?<!\S){noun}(?:을|를)? (?:(?:{'|'.join(NUMERALS)}) |\d)([가-힣]+)", text)
        assert counters, noun
        assert all(word.startswith(counter) for word in counters), (noun, counters)
    assert re.search(r"할머니 (두|세|네) 분", text)
    assert not re.search(r"[1-9]분", text)


def test_all_speech_levels_and_honorifics_occur(sts):
    text = " ".join(every_sentence(sts["train"]))
    for ending in (
        "었다.",
        "었어요.",
        "었습니다.",
        "는다.",
        "ㅂ니다."[1:],
        "것이다.",
        "거예요.",
        "것입니다.",
        "셨다.",
        "세요.",
    ):
        assert ending in text


# ── STS ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_sts_rows_are_different_pairs(sts):
    for rows in sts.values():
        assert len({frozenset(sentences_of(row)) for row in rows}) == len(rows)
        assert all(row.sentence1 != row.sentence2 for row in rows)


def test_scores_are_distributed_over_the_range(sts):
    for rows in sts.values():
        assert all(0 <= row.score <= 5 for row in rows)
        bands = Counter(min(4, int(row.score)) for row in rows)
        assert all(0.13 < bands[band] / len(rows) < 0.27 for band in range(5)), bands
        assert len({row.score for row in rows}) > 200


def test_every_phenomenon_occurs_in_every_split(sts):
    for rows in sts.values():
        assert {row.source for row in rows} == {edit.source for edit in EDITS}


def test_scores_follow_the_table(sts):
    scores = defaultdict(list)
    for row in chain.from_iterable(sts.values()):
        scores[row.source].append(row.score)
    for source, values in scores.items():
        of_source = [edit.score for edit in EDITS if edit.source == source]
        assert max(values) <= max(of_source) + 0.15 + 1e-9
        assert min(values) >= max(0, min(of_source) - 0.5 - 0.15 - 1e-9)
    means = [np.mean(scores[s]) for s in ("word-order", "detail", "number", "negation", "object", "action", "topic")]
    assert means == sorted(means, reverse=True)


def test_table_in_the_docstring_matches_the_code():
    documented = {}
    for source, scores, label in re.findall(r"^\| ([a-z-]+) +\| ([\d., ]+?) +\| ([a-z]+)", grammar.__doc__, re.M):
        documented[source] = {float(score) for score in scores.split(",")}
        labels = {edit.label for edit in EDITS if edit.source == source} - {""}
        assert label in labels if label != "none" else not labels
    assert documented.keys() == {edit.source for edit in EDITS}
    for source, scores in documented.items():
        assert scores == {edit.score for edit in EDITS if edit.source == source}


def test_character_overlap_does_not_solve_sts(sts):
    rows = sts["test"][:4_000]
    vectors = TfidfVectorizer(analyzer="char", ngram_range=(3, 3)).fit_transform(
        s for r in rows for s in sentences_of(r)
    )
    cosines = np.asarray(vectors[0::2].multiply(vectors[1::2]).sum(axis=1)).ravel()
    assert 0.2 < spearmanr(cosines, [row.score for row in rows]).statistic < 0.9


# ── NLI ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_premise_has_each_label_once(nli):
    for rows in nli.values():
        assert len(set(rows)) == len(rows)
        assert len({row.sentence1 for row in rows}) == len(rows) // 3
        for triple in zip(rows[0::3], rows[1::3], rows[2::3], strict=True):
            assert tuple(row.label for row in triple) == LABELS
            assert len({row.sentence1 for row in triple}) == 1
            assert len({triple[0].sentence1, *(row.sentence2 for row in triple)}) == 4


def test_last_premise_may_be_incomplete():
    assert [row.label for row in generate_nli("dev", 5)] == [*LABELS, *LABELS[:2]]


def test_every_labeled_phenomenon_occurs(nli):
    expected = {(edit.source, edit.label) for edit in EDITS if edit.label}
    for rows in nli.values():
        assert {(row.source, row.label) for row in rows} == expected


def test_negation_does_not_predict_the_label(nli):
    for label in LABELS:
        rows = [row for row in nli["train"] if row.label == label]
        assert 0.1 < np.mean([is_negated(row.sentence2) for row in rows]) < 0.6


# ── Phenomena ────────────────────────────────────────────────────────────────────────────────────────────────────────


def of_source(source, *tables):
    rows = [row for table in tables for rows in table.values() for row in rows if row.source == source]
    assert len(rows) > 20
    return rows


def test_negation_pairs_differ_in_negation(sts, nli):
    assert all(is_negated(row.sentence1) != is_negated(row.sentence2) for row in of_source("negation", sts, nli))


@pytest.mark.parametrize(
    "source", ["synonym", "voice", "mutual", "honorific", "word-order", "particle", "negation-form"]
)
def test_rewording_keeps_negation_and_number(source, sts, nli):
    for row in of_source(source, sts, nli):
        assert is_negated(row.sentence1) == is_negated(row.sentence2)
        assert count_in(row.sentence1) == count_in(row.sentence2)


def test_details_are_dropped_only_without_negation(nli):
    for source in ("detail", "hypernym", "coordination"):
        assert not any(is_negated(row.sentence1) or is_negated(row.sentence2) for row in of_source(source, nli))


def test_number_pairs_differ_in_count(sts, nli):
    for row in of_source("number", sts, nli):
        assert count_in(row.sentence1) != count_in(row.sentence2)
    for row in of_source("number", nli):
        premise, hypothesis = count_in(row.sentence1), count_in(row.sentence2)
        expected = {"entailment": (True, False), "neutral": (False, True), "contradiction": (True, True)}[row.label]
        assert (premise is not None, hypothesis is not None) == expected


def test_numeral_pairs_have_the_same_count(sts):
    for row in of_source("numeral", sts):
        assert count_in(row.sentence1) == count_in(row.sentence2) is not None
        assert bool(re.search(r"\d", row.sentence1)) != bool(re.search(r"\d", row.sentence2))


def test_swap_pairs_have_swapped_roles(sts, nli):
    for row in of_source("swap", sts, nli):
        assert roles(row.sentence1) == roles(row.sentence2)[::-1]


def test_voice_keeps_the_roles(sts):
    for row in of_source("voice", sts):
        assert roles(row.sentence1) == roles(row.sentence2)
        assert ("에게 " in row.sentence1) != ("에게 " in row.sentence2)


def test_word_order_keeps_the_words(sts):
    same = 0
    for row in of_source("word-order", sts):
        same += sorted(row.sentence1[:-1].split()) == sorted(row.sentence2[:-1].split())
    assert same > 10


def test_honorific_is_on_one_side(sts):
    for row in of_source("honorific", sts):
        assert ("께서" in row.sentence1) != ("께서" in row.sentence2)


def test_swap_contradicts_only_single_events(nli):
    excluding = {verb for frame in FRAMES if frame.swap == "excludes" for verb in (*frame.verbs, frame.passive) if verb}
    stems = tuple({verb[0] for verb in excluding})
    for row in of_source("swap", nli):
        if row.label == "contradiction":
            assert any(stem in row.sentence2 for stem in (*stems, "져", "졌", "질"))
            assert not re.search("매일|날마다|마다", row.sentence2)
