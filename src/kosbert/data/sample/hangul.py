"""Korean morphology: particles that agree with a word, and verbs in three tenses, three speech levels and negation.

    >>> attach("서울", "으로/로"), attach("학생", "은/는")
    ('서울로', '학생은')
    >>> inflect("듣다", tense="past", level="polite"), inflect("돕다", honorific=True, level="formal")
    ('들었어요', '도우십니다')

Every ending is attached to one of three bases of a verb: the stem (듣-), the base before 으-endings (들으-) and the
base before 아/어-endings (들어). Those of regular verbs are computed, those of irregular verbs are listed.
"""

import re
from functools import cache, lru_cache
from typing import Literal, NamedTuple

from kosbert.errors import UsageError, did_you_mean

Tense = Literal["past", "present", "future"]
Level = Literal["plain", "polite", "formal"]
Negation = Literal["", "안", "못"]

_FIRST, _LAST = ord("가"), ord("힣")
_VOWELS = "ㅏㅐㅑㅒㅓㅔㅕㅖㅗㅘㅙㅚㅛㅜㅝㅞㅟㅠㅡㅢㅣ"
_FINALS: tuple[str, ...] = ("", *"ㄱㄲㄳㄴㄵㄶㄷㄹㄺㄻㄼㄽㄾㄿㅀㅁㅂㅄㅅㅆㅇㅈㅊㅋㅌㅍㅎ")


def final_of(syllable: str) -> str:
    """Return the final consonant of a Hangul syllable, or an empty string."""
    return _FINALS[(ord(syllable) - _FIRST) % 28]


def with_final(syllable: str, final: str) -> str:
    """Return the syllable with another final consonant ('' removes it)."""
    code = ord(syllable) - _FIRST
    return chr(_FIRST + code - code % 28 + _FINALS.index(final))


def _vowel_of(syllable: str) -> str:
    return _VOWELS[(ord(syllable) - _FIRST) // 28 % 21]


def _with_vowel(syllable: str, vowel: str) -> str:
    code = ord(syllable) - _FIRST
    return chr(_FIRST + code // 588 * 588 + _VOWELS.index(vowel) * 28)


# ── Particles ────────────────────────────────────────────────────────────────────────────────────────────────────────

# (after a consonant, after a vowel)
_PARTICLES = (
    ("은", "는"),
    ("이", "가"),
    ("을", "를"),
    ("과", "와"),
    ("으로", "로"),
    ("이나", "나"),
    ("이랑", "랑"),
    ("아", "야"),
    ("이라고", "라고"),
    ("이며", "며"),
)
_PARTICLE_BY_NAME = {
    name: pair
    for pair in _PARTICLES
    for name in (
        f"{pair[0]}/{pair[1]}",
        f"{pair[1]}/{pair[0]}",
        f"({pair[0][0]}){pair[1]}" if pair[0].endswith(pair[1]) else f"{pair[0]}({pair[1]})",
    )
}
# Digits and letters count as they are pronounced: 3 is 삼, L is 엘. A final 0 is 영, 십, 백, 천, 만 or 억: a consonant.
_DIGIT_FINALS = dict(zip("0123456789", ("ㅇ", "ㄹ", "", "ㅁ", "", "", "ㄱ", "ㄹ", "ㄹ", ""), strict=True))
_LETTER_FINALS = {"L": "ㄹ", "M": "ㅁ", "N": "ㄴ", "R": "ㄹ"}
_LATIN = re.compile(r"[A-Za-z]+$")


@lru_cache(maxsize=1 << 14)
def attach(word: str, particle: str) -> str:
    """Append a particle to a word in the form that agrees with the last sound of the word.

    A particle with two forms is given by both, "은/는", "이/가", "을/를", "와/과", "으로/로", "이나/나", in either
    order or as "(으)로"; any other particle ("에서") is appended unchanged. Digits and Latin letters count as they are
    pronounced ("3을", "KBS가"); after a symbol without a pronunciation both forms are written ("♪은(는)").

    >>> attach("물", "으로/로"), attach("집", "으로/로"), attach("친구", "와/과")
    ('물로', '집으로', '친구와')
    """
    if "/" not in particle and "(" not in particle:
        return word + particle
    pair = _PARTICLE_BY_NAME.get(particle)
    if pair is None:
        raise UsageError(f"there is no particle {particle!r}: {did_you_mean(particle, _PARTICLE_BY_NAME)}")
    after_consonant, after_vowel = pair
    final = _sounding_final(word)
    if final is None:
        return f"{word}{after_consonant}({after_vowel})"
    # Only before (으)로, ㄹ counts as a vowel: 서울로, 물로.
    return word + (after_consonant if final and not (final == "ㄹ" and after_consonant == "으로") else after_vowel)


def _sounding_final(word: str) -> str | None:
    """Return the final consonant of a word as pronounced, '' for a vowel, None if unknown."""
    spoken = word
    while spoken and not spoken[-1].isalnum():  # a closing quote or bracket is not pronounced
        spoken = spoken[:-1]
    if not spoken:
        return None
    last = spoken[-1]
    if _FIRST <= ord(last) <= _LAST:
        return final_of(last)
    if last in _DIGIT_FINALS:
        return _DIGIT_FINALS[last]
    if "ㄱ" <= last <= "ㅎ":  # a single consonant is pronounced as its name, 기역 or 리을
        return "ㄹ" if last == "ㄹ" else "ㄱ"
    if "ㅏ" <= last <= "ㅣ":
        return ""
    latin = _LATIN.search(spoken)
    return _latin_final(latin.group()) if latin else None


def _latin_final(word: str) -> str:
    if word.isupper():  # letter by letter: KTX is 케이티엑스
        return _LETTER_FINALS.get(word[-1], "")
    word = word.lower()
    if word.endswith(("l", "le")):  # 메일, 구글
        return "ㄹ"
    if word.endswith(("m", "n", "ng", "me", "ne")):  # 팀, 버전, 프로그래밍, 게임, 라인
        return "ㅁ"
    if word[-1] in "bckpt" and len(word) > 1 and word[-2] in "aeiou":  # 북 and 챗, but 리스트 and 스파크
        return "ㄱ"
    return ""


# ── Verbs ────────────────────────────────────────────────────────────────────────────────────────────────────────────


class Bases(NamedTuple):
    """The three forms to which endings are attached, as in 돕, 도우, 도와."""

    stem: str
    before_eu: str
    before_a: str


# Stem: (before 으, before 아/어). For the verbs of our vocabulary: 굽다 (to bend) and 묻다 (to bury) are regular.
_IRREGULAR = {
    "듣": ("들으", "들어"),
    "걷": ("걸으", "걸어"),
    "묻": ("물으", "물어"),
    "싣": ("실으", "실어"),
    "깨닫": ("깨달으", "깨달아"),
    "돕": ("도우", "도와"),
    "굽": ("구우", "구워"),
    "줍": ("주우", "주워"),
    "눕": ("누우", "누워"),
    "짓": ("지으", "지어"),
    "젓": ("저으", "저어"),
    "잇": ("이으", "이어"),
    "붓": ("부으", "부어"),
}
_REGULAR_REU = ("따르", "들르", "치르")  # 따라, not 딸라
_CONTRACTED = {"ㅗ": "ㅘ", "ㅜ": "ㅝ", "ㅣ": "ㅕ", "ㅚ": "ㅙ"}  # 오+아 → 와, 배우+어 → 배워, 마시+어 → 마셔, 되+어 → 돼
_ABSORBING = "ㅏㅓㅐㅔㅕ"  # 가+아 → 가, 보내+어 → 보내, 켜+어 → 켜

# Verbs with a separate honorific form.
_HONORIFIC = {"먹다": "드시다", "마시다": "드시다", "자다": "주무시다", "있다": "계시다", "말하다": "말씀하시다"}
_NOT_NOUN_HADA = {"하다", "못하다", "좋아하다", "싫어하다"}


@cache
def bases(lemma: str) -> Bases:
    """Return the bases of a verb from its dictionary form.

    >>> bases("모르다"), bases("쓰다")
    (Bases(stem='모르', before_eu='모르', before_a='몰라'), Bases(stem='쓰', before_eu='쓰', before_a='써'))
    """
    stem = lemma.removesuffix("다")
    if irregular := _IRREGULAR.get(stem):
        return Bases(stem, *irregular)
    return Bases(stem, _before_eu(stem), _before_a(stem))


def _before_eu(stem: str) -> str:
    final = final_of(stem[-1])
    if not final:
        return stem
    # ㄹ is dropped: 만드시다, 만들 것이다 (which is 만드 + ㄹ).
    return stem[:-1] + with_final(stem[-1], "") if final == "ㄹ" else stem + "으"


def _before_a(stem: str) -> str:
    last, vowel = stem[-1], _vowel_of(stem[-1])
    if last == "하":
        return stem[:-1] + "해"
    if final_of(last):
        return stem + ("아" if vowel in "ㅏㅑㅗ" else "어")
    if vowel == "ㅡ":
        bright = len(stem) > 1 and _vowel_of(stem[-2]) in "ㅏㅗ"
        if last == "르" and not stem.endswith(_REGULAR_REU):
            return stem[:-2] + with_final(stem[-2], "ㄹ") + ("라" if bright else "러")
        return stem[:-1] + _with_vowel(last, "ㅏ" if bright else "ㅓ")
    if vowel in _ABSORBING:
        return stem
    if vowel in _CONTRACTED:
        return stem[:-1] + _with_vowel(last, _CONTRACTED[vowel])
    return stem + "어"  # 쉬어, 뛰어


def honorific_of(lemma: str) -> str:
    """Return the honorific form of a verb: 읽다 → 읽으시다, 먹다 → 드시다."""
    return _HONORIFIC.get(lemma) or bases(lemma).before_eu + "시다"


def takes_short_negation(lemma: str) -> bool:
    """Return whether 안 and 못 can precede the verb: 안 먹다, but not 안 청소하다 or 안 칭찬받다."""
    if lemma.endswith("하다"):
        return lemma in _NOT_NOUN_HADA
    return not (lemma.endswith("받다") and len(lemma) > 2)


@cache
def inflect(
    lemma: str,
    *,
    tense: Tense = "present",
    level: Level = "plain",
    honorific: bool = False,
    negation: Negation = "",
    long_negation: bool = False,
) -> str:
    """Return the declarative form of a verb: 먹는다, 먹었어요, 드시지 않을 것입니다.

    The levels are 해라체 (plain), 해요체 (polite) and 합쇼체 (formal). The negation is long (-지 않다, -지 못하다) on
    request and where the short form would be ungrammatical.
    """
    verb = honorific_of(lemma) if honorific else lemma
    if negation and (long_negation or not takes_short_negation(lemma)):
        auxiliary = "않다" if negation == "안" else "못하다"
        ending = inflect(auxiliary, tense=tense, level=level, honorific=honorific)
        return f"{bases(verb).stem}지 {ending}"
    form = _end(verb, tense, level, honorific=honorific)
    return f"{negation} {form}" if negation else form


def _end(verb: str, tense: Tense, level: Level, *, honorific: bool) -> str:
    stem, before_eu, before_a = bases(verb)
    if tense == "past":
        past = before_a[:-1] + with_final(before_a[-1], "ㅆ")
        return past + {"plain": "다", "polite": "어요", "formal": "습니다"}[level]
    if tense == "future":
        future = before_eu[:-1] + with_final(before_eu[-1], "ㄹ")
        return future + {"plain": " 것이다", "polite": " 거예요", "formal": " 것입니다"}[level]
    if level == "polite":
        return stem[:-1] + "세요" if honorific else before_a + "요"
    if final_of(stem[-1]) in ("", "ㄹ"):
        return stem[:-1] + (
            with_final(stem[-1], "ㄴ") + "다" if level == "plain" else with_final(stem[-1], "ㅂ") + "니다"
        )
    return stem + ("는다" if level == "plain" else "습니다")
