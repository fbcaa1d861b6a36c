from itertools import product

import pytest

from kosbert.data.sample.hangul import attach, bases, final_of, honorific_of, inflect, takes_short_negation, with_final
from kosbert.errors import UsageError

SYLLABLES = [chr(code) for code in range(ord("가"), ord("힣") + 1)]  # few enough to try them all


@pytest.mark.parametrize(
    ("word", "particle", "expected"),
    [
        ("학생", "은/는", "학생은"),
        ("친구", "은/는", "친구는"),
        ("학생", "이/가", "학생이"),
        ("의사", "이/가", "의사가"),
        ("책", "을/를", "책을"),
        ("사과", "을/를", "사과를"),
        ("물", "을/를", "물을"),
        ("형", "와/과", "형과"),
        ("누나", "와/과", "누나와"),
        ("누나", "과/와", "누나와"),
        ("서울", "으로/로", "서울로"),
        ("물", "으로/로", "물로"),
        ("집", "으로/로", "집으로"),
        ("학교", "으로/로", "학교로"),
        ("집", "(으)로", "집으로"),
        ("빵", "이나/나", "빵이나"),
        ("사과", "(이)나", "사과나"),
        ("연필", "이나/나", "연필이나"),
        ("부엌", "에서", "부엌에서"),
        ("3", "을/를", "3을"),
        ("2024", "은/는", "2024는"),
        ("7", "으로/로", "7로"),
        ("10", "으로/로", "10으로"),
        ("KBS", "이/가", "KBS가"),
        ("SQL", "으로/로", "SQL로"),
        ("ATM", "은/는", "ATM은"),
        ("Google", "을/를", "Google을"),
        ("email", "으로/로", "email로"),
        ("Facebook", "은/는", "Facebook은"),
        ("Spark", "은/는", "Spark는"),
        ("‘서울’", "은/는", "‘서울’은"),
        ("사과(빨강)", "을/를", "사과(빨강)을"),
        ("ㄹ", "으로/로", "ㄹ로"),
        ("ㅏ", "을/를", "ㅏ를"),
        ("漢", "은/는", "漢은(는)"),
        ("", "을/를", "을(를)"),
    ],
)
def test_attach(word, particle, expected):
    assert attach(word, particle) == expected


def test_unknown_particle_is_a_usage_error():
    with pytest.raises(UsageError, match="을/를"):
        attach("책", "을/르")


@pytest.mark.parametrize("particle", ["은/는", "이/가", "을/를", "과/와", "이나/나"])
def test_particle_form_follows_the_final_consonant(particle):
    first, second = particle.split("/")
    for syllable in SYLLABLES:
        assert attach(syllable, particle) == syllable + (first if final_of(syllable) else second)


def test_ro_after_vowels_and_rieul():
    for syllable in SYLLABLES:
        assert attach(syllable, "으로/로") == syllable + ("로" if final_of(syllable) in ("", "ㄹ") else "으로")


def test_with_final_is_reversible():
    finals = [final_of(syllable) for syllable in SYLLABLES[:28]]
    assert len(set(finals)) == 28
    for syllable, final in product(SYLLABLES, finals):
        changed = with_final(syllable, final)
        assert final_of(changed) == final
        assert with_final(changed, final_of(syllable)) == syllable


# lemma, plain present, polite present, polite past, plain future
CONJUGATIONS = """
먹다 먹는다 먹어요 먹었어요 먹을_것이다
가다 간다 가요 갔어요 갈_것이다
보다 본다 봐요 봤어요 볼_것이다
마시다 마신다 마셔요 마셨어요 마실_것이다
배우다 배운다 배워요 배웠어요 배울_것이다
보내다 보낸다 보내요 보냈어요 보낼_것이다
켜다 켠다 켜요 켰어요 켤_것이다
끄다 끈다 꺼요 껐어요 끌_것이다
쓰다 쓴다 써요 썼어요 쓸_것이다
담그다 담근다 담가요 담갔어요 담글_것이다
쉬다 쉰다 쉬어요 쉬었어요 쉴_것이다
뛰다 뛴다 뛰어요 뛰었어요 뛸_것이다
하다 한다 해요 했어요 할_것이다
청소하다 청소한다 청소해요 청소했어요 청소할_것이다
만들다 만든다 만들어요 만들었어요 만들_것이다
팔다 판다 팔아요 팔았어요 팔_것이다
썰다 썬다 썰어요 썰었어요 썰_것이다
듣다 듣는다 들어요 들었어요 들을_것이다
묻다 묻는다 물어요 물었어요 물을_것이다
돕다 돕는다 도와요 도왔어요 도울_것이다
줍다 줍는다 주워요 주웠어요 주울_것이다
입다 입는다 입어요 입었어요 입을_것이다
모르다 모른다 몰라요 몰랐어요 모를_것이다
부르다 부른다 불러요 불렀어요 부를_것이다
고르다 고른다 골라요 골랐어요 고를_것이다
앞지르다 앞지른다 앞질러요 앞질렀어요 앞지를_것이다
들르다 들른다 들러요 들렀어요 들를_것이다
씻다 씻는다 씻어요 씻었어요 씻을_것이다
짓다 짓는다 지어요 지었어요 지을_것이다
읽다 읽는다 읽어요 읽었어요 읽을_것이다
닦다 닦는다 닦아요 닦았어요 닦을_것이다
쫓다 쫓는다 쫓아요 쫓았어요 쫓을_것이다
이기다 이긴다 이겨요 이겼어요 이길_것이다
지다 진다 져요 졌어요 질_것이다
업히다 업힌다 업혀요 업혔어요 업힐_것이다
빌리다 빌린다 빌려요 빌렸어요 빌릴_것이다
싸우다 싸운다 싸워요 싸웠어요 싸울_것이다
돌려주다 돌려준다 돌려줘요 돌려줬어요 돌려줄_것이다
거닐다 거닌다 거닐어요 거닐었어요 거닐_것이다
않다 않는다 않아요 않았어요 않을_것이다
"""


@pytest.mark.parametrize("line", CONJUGATIONS.split("\n")[1:-1])
def test_conjugations(line):
    lemma, present, polite, past, future = line.replace("_것", "=것").split()
    assert inflect(lemma) == present
    assert inflect(lemma, level="polite") == polite
    assert inflect(lemma, tense="past", level="polite") == past
    assert inflect(lemma, tense="future") == future.replace("=", " ")


@pytest.mark.parametrize(
    ("lemma", "formal", "honorific"),
    [
        ("먹다", "먹습니다", "드시다"),
        ("마시다", "마십니다", "드시다"),
        ("자다", "잡니다", "주무시다"),
        ("읽다", "읽습니다", "읽으시다"),
        ("만들다", "만듭니다", "만드시다"),
        ("썰다", "썹니다", "써시다"),
        ("듣다", "듣습니다", "들으시다"),
        ("돕다", "돕습니다", "도우시다"),
        ("청소하다", "청소합니다", "청소하시다"),
    ],
)
def test_formal_and_honorific(lemma, formal, honorific):
    assert inflect(lemma, level="formal") == formal
    assert honorific_of(lemma) == honorific


def test_honorific_levels():
    assert inflect("읽다", level="polite", honorific=True) == "읽으세요"
    assert inflect("읽다", level="plain", honorific=True) == "읽으신다"
    assert inflect("읽다", level="formal", honorific=True) == "읽으십니다"
    assert inflect("읽다", tense="past", level="polite", honorific=True) == "읽으셨어요"
    assert inflect("가다", tense="future", level="formal", honorific=True) == "가실 것입니다"


def test_negations():
    assert inflect("먹다", tense="past", negation="안") == "안 먹었다"
    assert inflect("먹다", tense="past", negation="안", long_negation=True) == "먹지 않았다"
    assert inflect("먹다", level="polite", negation="못", long_negation=True) == "먹지 못해요"
    assert inflect("먹다", tense="past", negation="안", honorific=True, long_negation=True) == "드시지 않으셨다"
    assert inflect("만들다", tense="future", level="formal", negation="못") == "못 만들 것입니다"


def test_noun_verbs_take_the_long_negation():
    assert inflect("청소하다", tense="past", negation="안") == "청소하지 않았다"
    assert inflect("칭찬받다", tense="past", negation="안") == "칭찬받지 않았다"
    assert takes_short_negation("좋아하다")
    assert takes_short_negation("받다")


def test_bases():
    assert bases("돕다") == ("돕", "도우", "도와")
    assert bases("만들다") == ("만들", "만드", "만들어")
