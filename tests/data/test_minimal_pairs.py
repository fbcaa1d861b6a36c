"""The minimal pairs: enough items, well formed, and each shows its phenomenon."""

import re
import unicodedata
from collections import Counter
from difflib import SequenceMatcher
from importlib.resources import files
from pathlib import Path

import pytest

from kosbert import data
from kosbert.data.minimal_pairs import CHANGES_MEANING, KEEPS_MEANING, MinimalPair, load_minimal_pairs
from kosbert.data.sample.hangul import final_of
from kosbert.errors import KosbertError, UsageError
from kosbert.text import clean

ITEMS = load_minimal_pairs()
JAMO = re.compile("[ㄱ-ㅣ]")


def items_of(phenomenon: str) -> list[MinimalPair]:
    return [item for item in ITEMS if item.phenomenon == phenomenon]


def texts(item: MinimalPair) -> tuple[str, str, str]:
    return item.anchor, item.paraphrase, item.changed


def different_words(text: str, reference: str) -> int:
    """Count the eojeols of `text` that are not in `reference`."""
    return (Counter(text.split()) - Counter(reference.split())).total()


def letters(text: str) -> str:
    """Return the jamo of a text, composed or not."""
    return "".join(
        unicodedata.normalize("NFKD", letter) for letter in unicodedata.normalize("NFKD", text) if not letter.isspace()
    )


def wrong_particles(sentence: str) -> list[str]:
    """Return eojeols that seem to end in the wrong form of a particle: 학교을, 집로.

    A part-of-speech tagger does not help: it does not tag 을 in 학교을 as a particle.
    """
    after_consonant = dict(zip("은이을과는가를와", [True] * 4 + [False] * 4, strict=True))
    words = []
    for word in re.findall(r"[가-힣]{2,}(?=[\s.,?]|$)", sentence):
        if word.endswith("으로") and len(word) > 2:
            wrong = final_of(word[-3]) in ("", "ㄹ")
        elif word.endswith("로"):
            wrong = final_of(word[-2]) not in ("", "ㄹ")
        else:
            wrong = bool(final_of(word[-2])) != after_consonant.get(word[-1], bool(final_of(word[-2])))
        if wrong:
            words.append(word)
    return words


def test_at_least_40_of_each_phenomenon() -> None:
    counts = Counter(item.phenomenon for item in ITEMS)
    assert set(counts) == {*CHANGES_MEANING, *KEEPS_MEANING}
    assert min(counts.values()) >= 40


def test_file_is_in_the_package() -> None:
    assert (files("kosbert.data") / "minimal_pairs.tsv").is_file()


def test_no_sentence_is_repeated() -> None:
    counts = Counter(text for item in ITEMS for text in texts(item))
    assert [text for text, count in counts.items() if count > 1] == []


def test_text_is_clean() -> None:
    """NFC, no extra spaces or invisible characters: otherwise normalization, not the model, would be tested."""
    for item in ITEMS:
        for text in (*texts(item), item.note):
            assert clean(text) == text
            assert unicodedata.is_normalized("NFC", text)
        assert item.note


def test_all_sentences_end_like_the_anchor() -> None:
    for item in ITEMS:
        assert item.anchor[-1] in ".?"
        assert {text[-1] for text in texts(item)} == {item.anchor[-1]}, item


def test_single_jamo_occur_only_in_typos() -> None:
    for item in ITEMS:
        assert not JAMO.search(item.anchor + item.changed)
        assert item.phenomenon == "typo" or not JAMO.search(item.paraphrase)
    assert sum(bool(JAMO.search(item.paraphrase)) for item in items_of("typo")) >= 10


def test_spacing_items_differ_only_in_spaces() -> None:
    for item in items_of("spacing"):
        assert item.paraphrase.replace(" ", "") == item.anchor.replace(" ", "")


def test_typos_keep_nearly_all_letters() -> None:
    for item in items_of("typo"):
        assert SequenceMatcher(None, letters(item.anchor), letters(item.paraphrase), autojunk=False).ratio() > 0.8, item


def test_loanwords_change_one_word() -> None:
    for item in items_of("loanword"):
        assert len(item.paraphrase.split()) == len(item.anchor.split())
        assert different_words(item.paraphrase, item.anchor) == 1, item
        assert any(item.note[:2] in text or item.note[-2:] in text for text in (item.anchor, item.paraphrase)), item


@pytest.mark.parametrize("phenomenon", KEEPS_MEANING)
def test_meaning_changes_in_one_or_two_words(phenomenon: str) -> None:
    for item in items_of(phenomenon):
        assert 1 <= different_words(item.changed, item.anchor) <= 2, item


def test_number_items_change_only_the_number() -> None:
    for item in items_of("number"):
        assert 1 <= different_words(item.changed, item.anchor) <= 2, item
        assert abs(len(item.changed.split()) - len(item.anchor.split())) <= 1, item


@pytest.mark.parametrize("phenomenon", CHANGES_MEANING)
def test_surface_similarity_is_misleading(phenomenon: str) -> None:
    """`changed` mostly shares more characters with the anchor, so character overlap does not solve it."""
    misleading = 0
    for item in items_of(phenomenon):
        paraphrase, changed = (
            SequenceMatcher(None, item.anchor, text, autojunk=False).ratio() for text in (item.paraphrase, item.changed)
        )
        misleading += changed > paraphrase
    assert misleading / len(items_of(phenomenon)) > 0.7


def test_anchors_are_negated_in_about_half_of_the_items() -> None:
    """Otherwise detecting a negation would be enough to answer."""
    negative = re.compile(r"안 |못|않|없|아니|아닙|아닌|말고|마세요|몰라")
    anchors = sum(bool(negative.search(item.anchor)) for item in items_of("negation"))
    assert 0.3 < anchors / len(items_of("negation")) < 0.75


def test_particles_agree_with_their_words() -> None:
    assert wrong_particles("학생가 학교을 떠나 서울으로, 집로 갔다.") == ["학생가", "학교을", "서울으로", "집로"]
    no_particles = {"먹는", "믿는", "삶는", "없는", "어이없는", "물가", "창가", "사과", "치과"}
    for item in ITEMS:
        correct = (item.anchor, item.changed) if item.phenomenon in ("spacing", "typo") else texts(item)
        for text in correct:
            assert set(wrong_particles(text)) <= no_particles, text


@pytest.mark.real_data
@pytest.mark.parametrize("reference", ["korsts-train", "korsts-dev", "korsts-test", "klue-sts-train", "klue-sts-dev"])
def test_no_sentence_is_copied_from(reference: str) -> None:
    sentences = {text for row in data.load(reference, download=False) for text in data.sentences_of(row)}
    assert sentences.isdisjoint(text for item in ITEMS for text in texts(item))


def test_user_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "user.tsv"
    path.write_text("phenomenon\tanchor\tparaphrase\tchanged\n사투리\t뭐 하니?\t뭐 하노?\t뭐 먹니?\n", encoding="utf-8")
    assert load_minimal_pairs(path) == [MinimalPair("사투리", "뭐 하니?", "뭐 하노?", "뭐 먹니?")]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("negation\t가\t나", "3 fields where 4"),
        ("negation\t가\t나\t", "three different sentences"),
        ("negation\t가\t나\t나", "three different sentences"),
        ("\t가\t나\t다", "needs a phenomenon"),
    ],
)
def test_malformed_line_is_reported(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "user.tsv"
    path.write_text(f"phenomenon\tanchor\tparaphrase\tchanged\n{line}\n", encoding="utf-8")
    with pytest.raises(KosbertError, match=rf"line 2: .*{message}"):
        load_minimal_pairs(path)


def test_missing_file_or_column_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no file"):
        load_minimal_pairs(tmp_path / "gone.tsv")
    path = tmp_path / "user.tsv"
    path.write_text("phenomenon\tanchor\tsame\tchanged\na\tb\tc\td\n", encoding="utf-8")
    with pytest.raises(KosbertError, match="no field 'paraphrase'"):
        load_minimal_pairs(path)
