"""Text normalization: what it changes, what it keeps, and that it loses nothing."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kosbert.text import clean


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (unicodedata.normalize("NFD", "한국어 문장 임베딩"), "한국어 문장 임베딩"),
        ("ＫＬＵＥ－ＳＴＳ　（２０２１）！", "KLUE-STS (2021)!"),
        ("ﾡﾢ ﾱ", "ㄱㄲ ㅁ"),  # half-width jamo become the ordinary ones, not conjoining ones
        ("한\u200b국\ufeff어\u2060", "한국어"),
        ("왼쪽\u202e오른쪽\u202c", "왼쪽오른쪽"),
        ("소프트\u00ad하이픈", "소프트하이픈"),
        ("빈\u3164칸\u115f과", "빈 칸 과"),  # Hangul fillers look like spaces
        ("탭\t줄\r\n바꿈\x0b끝", "탭 줄 바꿈 끝"),
        ("벨\x07소리\x00\x9f", "벨소리"),
        ("  여러   칸 \u3000 ", "여러 칸"),
        ("반쪽\ud83d", "반쪽\ufffd"),  # a lone surrogate cannot be encoded as UTF-8
        ("가\u200d나", "가나"),
        ("", ""),
        ("\u200b \n", ""),
    ],
)
def test_clean_repairs(before: str, after: str) -> None:
    assert clean(before) == after


@pytest.mark.parametrize(
    "text",
    [
        "ㅋㅋㅋㅋ ㅠㅠ ㅇㅈ",
        "진짜요?! …「인용」 ~_~ ^^;;",
        "😀 👨‍👩‍👧 ❤️ 🏳️‍🌈 👍🏽",
        "大韓民國 ① ㎏ ㉠ ½",
        "iPhone SE를 샀다",
        "띄어쓰기가없는문장",
    ],
)
def test_clean_keeps_meaningful_characters(text: str) -> None:
    assert clean(text) == text


anything = st.text(st.characters(exclude_categories=()), max_size=40)
mixed = st.lists(
    st.sampled_from(list("가각ㄱㅏ한\u1112\u1161\u11ab \u200b\u200d\ufe0f\u3164😀👨!ＡﾡA\u0301\ud800\n\x07")),
    max_size=12,
).map("".join)


@given(st.one_of(anything, mixed))
def test_clean_is_idempotent(text: str) -> None:
    assert clean(clean(text)) == clean(text)


@given(st.one_of(anything, mixed))
def test_visible_text_never_becomes_empty(text: str) -> None:
    visible = [c for c in text if unicodedata.category(c)[0] in "LNPSM" and c not in "\u034f\u115f\u1160\u3164\uffa0"]
    if visible:
        assert clean(text)


@given(st.one_of(anything, mixed))
def test_result_is_normalized(text: str) -> None:
    result = clean(text)
    result.encode("utf-8")
    assert unicodedata.is_normalized("NFC", result)
    assert result == " ".join(result.split())
    assert not any(unicodedata.category(c) in ("Cc", "Cs") for c in result)


@given(st.text(st.characters(min_codepoint=0xAC00, max_codepoint=0xD7A3), min_size=1))
def test_decomposed_syllables_are_composed(syllables: str) -> None:
    assert clean(unicodedata.normalize("NFD", syllables)) == syllables
