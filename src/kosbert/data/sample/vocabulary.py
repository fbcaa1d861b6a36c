"""The vocabulary of the sample set: words, verb frames, and the words of each frame per split.

A frame is a verb with the subjects, objects, places and manners that fit it. Every sentence contains the object of its
frame (or, for verbs such as 가다, the place in its role), and the objects of each frame are divided among the splits,
differently for every frame: 사과 may be eaten in train and peeled in test. So no sentence can occur in two splits,
while nearly every word occurs in all of them. Frames with two people or animals (쫓다, 만나다) take both from the
objects of the split.

In the tables `_` is a space, `/` separates synonyms, `@` sets the counter of a word, `+` marks a habit, `-` is empty.
"""

from dataclasses import dataclass
from functools import cache
from typing import Literal, TypeVar

from kosbert.data.sample.hangul import Negation, Tense

T = TypeVar("T")
Swap = Literal["", "excludes", "allows", "mutual", "unclear"]

SPLITS = ("train", "dev", "test")
_SPLIT_CYCLE = ("train", "train", "dev", "train", "test")  # split of the first, second, … object of a frame


@dataclass(frozen=True, slots=True)
class Noun:
    """A noun: its synonyms, its counter ('' if it is not counted) and its hypernym ('' if it has none)."""

    words: tuple[str, ...]
    counter: str
    hypernym: str
    group: str


@dataclass(frozen=True, slots=True)
class Phrase:
    """An adverbial with its synonyms. Habitual ones (날마다) are not combined with negation."""

    words: tuple[str, ...]
    habitual: bool = False


# group | counter | hypernym | words
_NOUNS = """
child | 명 | 누군가 | 아이/어린이 유치원생 소년/남자아이 소녀/여자아이
youth | 명 | 학생 | 초등학생 중학생 고등학생 대학생
worker | 명 | 누군가 | 회사원/직장인 경찰관/경찰 소방관 기자 농부 군인 요리사 점원/판매원 변호사 목수 통역사
    상인/장사꾼
guest | 명 | 누군가 | 관광객/여행객 손님/고객 청년/젊은이 아주머니 아저씨 이웃/이웃_사람
artist | 명 | 예술가 | 화가 가수 배우/연기자 작가 작곡가 조각가
medic | 명 | 의료인 | 의사 간호사 약사 물리치료사
kin | - | 친척 | 이모 삼촌 고모 사촌
elder | 분 | 누군가 | 할머니 할아버지 선생님 교수님 사장님 원장님 어머니@- 아버지@-
name | - | 누군가 | 민수 지호 서아 유나 민지 수지 은비 준호 현우 태호 나리 보라 미나 영수 철수 영희 지수 윤아 소희
    동하 재희 세라 도희 주하
pet | 마리 | 동물 | 강아지 고양이 토끼 햄스터 거북이 앵무새 금붕어 고슴도치 병아리 기니피그
beast | 마리 | 동물 | 여우 너구리 오리 거위 염소 다람쥐 원숭이 족제비 사슴 망아지 송아지 돼지
fruit | 개 | 과일 | 사과 귤 복숭아 포도@송이 수박@통 바나나 감 참외 자두 키위 배 딸기
vegetable | 개 | 채소 | 당근 오이 감자 고구마 양파 호박 가지 무 배추@포기 고추 피망 양배추@통
meal | 그릇 | 음식 | 국수 비빔밥 김밥@줄 떡볶이@접시 만두@개 냉면 볶음밥 카레 불고기@접시 잡채@접시 샌드위치@개
    케이크@조각 삼계탕 피자@조각 계란말이/달걀말이@접시
snack | 개 | 간식 | 빵 떡 도넛 호떡 찐빵 초콜릿 사탕 붕어빵 옥수수 계란/달걀 핫도그 꽈배기
drink | 잔 | 음료 | 커피 우유 주스 녹차 홍차 콜라 사이다 두유 식혜 레모네이드 보리차 유자차
clothes | 벌 | 옷 | 셔츠 바지 치마 코트/외투 원피스 스웨터 한복 조끼 점퍼/잠바 재킷 운동복/체육복 비옷/우비
shoes | 켤레 | 신발 | 운동화 구두 장화 슬리퍼 부츠 샌들 등산화 실내화 축구화 고무신
book | 권 | 책 | 소설책 시집 동화책 만화책 잡지 사전 교과서 위인전 요리책 여행기 그림책 역사책
stationery | 자루 | 문구 | 연필 볼펜 지우개@개 공책/노트@권 가위@개 필통@개 만년필 수첩@권 크레파스@개 형광펜
furniture | 개 | 가구 | 의자 책상 침대 옷장/장롱 책장/책꽂이 식탁 소파 서랍장 화장대 진열장
appliance | 대 | 전자제품 | 냉장고 세탁기 텔레비전/티브이 컴퓨터 선풍기 에어컨/냉방기 청소기 라디오 프린터/인쇄기
    가습기 전자레인지 제습기
vehicle | 대 | 차량 | 승용차 트럭/화물차 오토바이 버스 택시 트랙터 승합차 지게차 스쿠터 캠핑카
instrument | - | 악기 | 피아노 기타 바이올린 첼로 플루트 하모니카 가야금 장구 해금 트럼펫 드럼 색소폰
flower | 송이 | 꽃 | 장미 튤립 국화 백합 해바라기 코스모스 카네이션 수국 수선화 팬지
tree | 그루 | 나무 | 소나무 사과나무 은행나무 단풍나무 벚나무 감나무 대추나무 느티나무 밤나무 자작나무
toy | 개 | 장난감 | 인형 로봇 팽이 구슬 퍼즐 풍선 요요 딱지 물총 모형_비행기
belonging | 개 | 물건 | 지갑 우산 가방 열쇠 안경 손목시계 모자 장갑@켤레 반지 목걸이 손수건@장 휴대폰/핸드폰@대
    카메라/사진기@대 여권
dish | 개 | 주방용품 | 접시 컵 냄비 밥그릇 숟가락 주전자 프라이팬 도마 국자 쟁반 찻잔 물병
show | 편 | - | 영화 연극 뮤지컬 오페라 인형극 다큐멘터리 마술_쇼@- 서커스@- 패션쇼@- 불꽃놀이@- 사진전@-
    축구_경기@-
study | - | - | 수학 영어 역사 과학 물리 화학 중국어 프랑스어 한문 경제학 철학 지리
sport | - | 운동 | 축구 농구 야구 배구 탁구 테니스 배드민턴 피구 하키 핸드볼 족구 럭비
writing | 편 | - | 시 소설 동화 수필 독후감 기행문 대본 일기@- 가사@- 편지@통 엽서@장 축사@-
document | 부 | 문서 | 보고서 계획서 이력서 제안서 신청서 회의록 계약서 견적서 설명서 안내문 추천서 사유서
parcel | 개 | - | 소포 상자 선물 편지@통 엽서@장 초대장@장 서류@- 김치@- 책@권 옷@벌 사진@장 쌀@-
picture | 점 | 그림 | 풍경화 초상화 자화상 정물화 수채화 벽화 추상화 동양화 산수화 민화
room | - | - | 방 거실 부엌/주방 화장실 교실 마당/뜰 사무실 창고 복도 베란다 계단 차고 다락방
openable | 개 | - | 창문 대문 현관문@- 서랍 상자 금고 옷장_문 냉장고_문@- 창고_문@- 가방 뚜껑 교실_문@-
switch | 대 | - | 텔레비전/티브이 컴퓨터 선풍기 에어컨/냉방기 라디오 가습기 난로 전등@개 휴대폰/핸드폰 프린터/인쇄기
    청소기 스탠드
venue | - | - | 공원 학교 도서관 시장 병원 백화점 우체국 은행 박물관 미술관 영화관/극장 수영장 체육관 공항 기차역
    서점/책방 약국 미용실 동물원 바닷가/해변 시청 경찰서
city | - | - | 서울 부산 대구 인천 광주 대전 제주도 강릉 춘천 전주 경주 여수 속초 목포 파리 런던 뉴욕 도쿄
bedroom | - | - | 방 거실 호텔 기차 텐트 사무실 기숙사 병실 친구_집 소파 다락방 버스
outdoors | - | - | 공원 운동장 바닷가/해변 들판 숲길 골목 잔디밭 강가 산길 광장 둑길 언덕
retreat | - | - | 카페/커피숍 공원 바닷가/해변 호텔 정원 휴게실 나무_그늘 강가 거실 찜질방 별장 벤치
scenery | - | 풍경 | 돌담길 폭포 성곽 단풍 꽃밭 호수 등대 설산 억새밭 무지개 갈대밭 계곡
song | 곡 | 노래 | 동요 민요 가곡 유행가 자장가@- 교가@- 캐럴 찬송가 응원가 발라드 판소리@- 군가
sound | - | - | 강의 뉴스 연설 옛날이야기 빗소리 파도_소리 피아노_연주 안내_방송 새소리 합창 록_음악
    클래식_음악
question | - | - | 길 이름/성함 나이 가격/값 이유/까닭 주소 방법 날짜 연락처 고향 취미 직업
choice | 개 | - | 선물 넥타이 벽지@- 반지 커튼@- 결혼식장@- 꽃다발 기념품 신혼집@- 액자 찻잔 화분
ticket | - | - | 호텔 식당/음식점 비행기표/항공권 기차표 영화표 회의실 펜션 관광버스 공연장 연극표 렌터카 테니스장
memory | - | - | 약속 비밀번호 주소 전화번호 생일 결혼기념일 꿈 노래_가사 영어_단어 첫사랑 그날의_일 어릴_적_별명
exam | - | - | 운전면허_시험 대학_입시 공무원_시험 면접 오디션 자격증_시험 편입_시험 승진_시험 입사_시험 기말시험
    변호사_시험 어학_시험
venture | - | - | 금연 다이어트 창업 실험 등반 협상 신제품_개발 취업 재활 유학_준비 신기록_도전 화해
event | - | - | 마라톤_대회 봉사_활동 토론회 합창_대회 축제 캠프 학술_회의 바자회 백일장 체육_대회 장기_자랑 연수
fragile | 개 | - | 접시 컵 거울 꽃병 화분 유리창 찻잔 어항 액자 항아리 술병@병 안경
"""

_MANNERS = """
천천히 빠르게/재빨리 급하게/서둘러 조용히/소리_없이 시끄럽게/요란하게 열심히/부지런히 정성껏/공들여 즐겁게/신나게
조심스럽게/조심조심 거칠게/난폭하게 꼼꼼하게/꼼꼼히 깨끗이/깨끗하게 맛있게 멋지게/근사하게 능숙하게/솜씨_좋게
서툴게/어설프게 싸게/저렴하게 비싸게 일찍 늦게 얇게 두껍게 재미있게/흥미롭게 힘겹게/힘들게 편하게/편안하게 크게
우연히/뜻밖에 실수로 몰래/남몰래 오랫동안/한참_동안 잠깐/잠시 쉽게/수월하게 간신히/겨우
"""

OPPOSITE_MANNERS = {
    manner: opposite
    for left, right in (
        ("천천히", "빠르게"),
        ("조용히", "시끄럽게"),
        ("조심스럽게", "거칠게"),
        ("능숙하게", "서툴게"),
        ("싸게", "비싸게"),
        ("일찍", "늦게"),
        ("얇게", "두껍게"),
        ("쉽게", "간신히"),
        ("오랫동안", "잠깐"),
    )
    for manner, opposite in ((left, right), (right, left))
}

# short: takes minutes or hours; long: takes weeks.
_TIMES = {
    ("past", "short"): "어제 그저께 오늘_아침에 어젯밤에/간밤에 며칠_전에 지난주에/저번_주에 지난_주말에",
    ("past", "long"): "지난달에/저번_달에 작년에/지난해에 지난여름에 지난봄에 몇_해_전에",
    ("present", "short"): "지금 요즘/요새 +매일/날마다 +아침마다/매일_아침 +주말마다",
    ("present", "long"): "요즘/요새 올해",
    ("future", "short"): "내일 모레 오늘_저녁에 이번_주말에 다음_주에 곧",
    ("future", "long"): "다음_달에 내년에 내년_봄에 이번_가을에",
}


@dataclass(frozen=True, slots=True)
class Frame:
    """A verb with the words that fit it.

    Args:
        verbs: synonyms; `opposites` are their antonyms.
        particle: marks the object; `alternative` is another particle with the same meaning.
        swap: the meaning after swapping subject and object: "excludes" (이기다), "allows" (칭찬하다: both may be true),
            "mutual" (만나다: the same) or "unclear" (기다리다).
        passive: the verb with the roles swapped.
        span: the kind of time phrase that fits.
        negations: some verbs take only one: 못 합격하다 but not 안, 안 깨다 but not 못.
        countable: the object can have a count.
        shareable: the subject can have a count (not for 오토바이를 타다).
        joinable: two objects can be coordinated.
    """

    name: str
    topic: str
    verbs: tuple[str, ...]
    subjects: tuple[Noun, ...]
    objects: tuple[Noun, ...]
    particle: str
    alternative: str
    places: tuple[Noun, ...]
    manners: tuple[Phrase, ...]
    opposites: tuple[str, ...]
    tenses: tuple[Tense, ...]
    span: str
    swap: Swap
    passive: str
    negations: tuple[Negation, ...]
    countable: bool
    shareable: bool
    joinable: bool

    @property
    def is_state(self) -> bool:
        """Whether the verb is a state, not an event: 좋아하다, 기억하다."""
        return self.span == "none"


def _parse_table(table: str) -> list[list[str]]:
    """Return the cells of a table; an indented line continues the previous one."""
    lines = table.strip().replace("\n    ", " ").splitlines()
    return [[cell.strip() for cell in line.split("|")] for line in lines]


def _read_nouns() -> dict[str, tuple[Noun, ...]]:
    groups = {}
    for group, counter, hypernym, words in _parse_table(_NOUNS):
        nouns = []
        for entry in words.split():
            names, _, word_counter = entry.partition("@")
            nouns.append(
                Noun(
                    words=tuple(names.replace("_", " ").split("/")),
                    counter=(word_counter or counter).replace("-", ""),
                    hypernym=hypernym.replace("-", ""),
                    group=group,
                )
            )
        groups[group] = tuple(nouns)
    return groups


def _read_phrase(entry: str) -> Phrase:
    return Phrase(tuple(entry.removeprefix("+").replace("_", " ").split("/")), habitual=entry.startswith("+"))


NOUNS = _read_nouns()
MANNERS = {phrase.words[0]: phrase for phrase in map(_read_phrase, _MANNERS.split())}
TIMES = {key: tuple(map(_read_phrase, entries.split())) for key, entries in _TIMES.items()}
TIMES.update({(tense, "both"): TIMES[tense, "short"][4:] + TIMES[tense, "long"] for tense, _ in tuple(TIMES)})
TIMES.update({(tense, "none"): () for tense, _ in tuple(TIMES)})

_NOUN_BY_WORD = {noun.words[0]: noun for group in reversed(NOUNS.values()) for noun in group}
_ALIASES = {
    "people": "child youth worker guest artist medic kin elder name",
    "grown": "worker guest artist medic kin elder name",
    "paired": "name artist medic",
}


def _nouns(names: str) -> tuple[Noun, ...]:
    """Return nouns by group name, by an alias for several groups, or by the word itself."""
    nouns: list[Noun] = []
    for name in names.split():
        if name in _ALIASES:
            nouns.extend(_nouns(_ALIASES[name]))
        elif name in NOUNS:
            nouns.extend(NOUNS[name])
        else:
            word = name.replace("_", " ")
            nouns.append(_NOUN_BY_WORD.get(word) or Noun((word,), "", "", "place"))
    return tuple(nouns)


# name | topic | verbs | subjects | objects | places | manners | options
_FRAMES = """
eat | food | 먹다 | people | meal fruit |
    식당 공원 부엌 거실 마당 | 맛있게 천천히 빠르게 조용히 시끄럽게 | -
snack | food | 먹다 | people | snack |
    교실 공원 거실 길거리 방 | 맛있게 천천히 빠르게 몰래 | -
drink | food | 마시다 | people | drink |
    카페 거실 사무실 공원 식당 | 천천히 빠르게 맛있게 조용히 | -
cook | food | 만들다 | people | meal |
    부엌 식당 캠핑장 학교 | 정성껏 능숙하게 서툴게 빠르게 천천히 | -
peel | food | 깎다 | people | 사과 배 감 참외 복숭아 감자 오이 당근 무 키위 고구마 자두 |
    부엌 거실 식당 | 얇게 두껍게 능숙하게 서툴게 | -
slice | food | 썰다 자르다 | grown | vegetable |
    부엌 식당 캠핑장 | 얇게 두껍게 빠르게 천천히 능숙하게 | -
grow | farm | 기르다 키우다 재배하다 | grown | vegetable |
    텃밭 농장 옥상 마당 | 정성껏 열심히 | span=long uncounted
keep | animal | 키우다 기르다 | people | pet |
    집 시골 방 마당 | 정성껏 몰래 | span=long
groceries | shop | 사다 구입하다 | grown youth | fruit vegetable |
    시장 마트 가게 백화점 | 싸게 비싸게 급하게 | -
goods | shop | 사다 구입하다 | grown youth | clothes shoes stationery book |
    백화점 시장 상가 할인점 | 싸게 비싸게 급하게 | tenses=past,future span=both
household | shop | 사다 구입하다 | grown | furniture appliance 승용차 트럭 오토바이 승합차 |
    부산 서울 대구 | 싸게 비싸게 | tenses=past,future span=both
sell | shop | 팔다 판매하다 | 상인 점원 농부 아주머니 아저씨 청년 할머니 할아버지 이모 삼촌 name | flower fruit
    snack vegetable |
    시장 길거리 가게 광장 | 싸게 비싸게 | -
read | school | 읽다 | people | book |
    도서관 카페 방 거실 공원 교실 | 조용히 천천히 빠르게 열심히 재미있게 | -
borrow | school | 빌리다 | people | book |
    도서관 학교 문화원 | 급하게 | tenses=past,future
return | school | 반납하다 돌려주다 | people | book |
    도서관 학교 문화원 | 일찍 늦게 | tenses=past,future
write | writing | 쓰다 | people | writing |
    방 카페 도서관 교실 | 정성껏 급하게 천천히 빠르게 열심히 | -
document | office | 작성하다 쓰다 | grown 대학생 | document |
    사무실 회사 도서관 카페 | 꼼꼼하게 급하게 천천히 빠르게 | -
send | office | 보내다 부치다 | grown youth | parcel |
    우체국 편의점 회사 | 급하게 일찍 늦게 | -
wear | clothes | 입다 | people | clothes |
    방 탈의실 집 | 급하게 천천히 빠르게 조용히 | opposites=벗다 uncounted
shoes | clothes | 신다 | people | shoes |
    현관 복도 집 | 급하게 천천히 빠르게 조용히 | opposites=벗다 uncounted unjoined
launder | chores | 빨다 세탁하다 | grown youth | clothes |
    집 빨래방 마당 | 깨끗이 급하게 꼼꼼하게 | -
iron | chores | 다리다 다림질하다 | grown | 셔츠 바지 치마 원피스 한복 재킷 손수건 조끼 코트 운동복 |
    거실 방 세탁소 | 꼼꼼하게 급하게 능숙하게 서툴게 | -
dishes | chores | 씻다 닦다 | people | dish |
    부엌 식당 캠핑장 | 깨끗이 꼼꼼하게 급하게 조용히 시끄럽게 | -
clean | chores | 청소하다 치우다 | people | room |
    - | 깨끗이 꼼꼼하게 급하게 열심히 천천히 빠르게 | -
break | chores | 깨뜨리다 깨다 | people | fragile |
    거실 식당 교실 사무실 | 실수로 | tenses=past not=안
open | home | 열다 | people | openable |
    - | 천천히 빠르게 조용히 시끄럽게 조심스럽게 거칠게 | opposites=닫다
switch | home | 켜다 | people | switch |
    거실 사무실 방 | 급하게 몰래 조용히 | opposites=끄다
repair | repair | 고치다 수리하다 | grown | appliance furniture vehicle |
    차고 집 창고 회사 | 꼼꼼하게 능숙하게 서툴게 빠르게 천천히 | -
carry | repair | 옮기다 나르다 | grown youth | furniture appliance |
    - | 조심스럽게 거칠게 힘겹게 급하게 | -
drive | traffic | 운전하다 | grown | vehicle |
    서울 부산 시내 시골 | 조심스럽게 거칠게 빠르게 천천히 능숙하게 서툴게 | uncounted unshared
music | music | 연주하다 | people | instrument |
    무대 교실 광장 공원 | 멋지게 능숙하게 서툴게 열심히 즐겁게 | -
sing | music | 부르다 | people | song |
    무대 노래방 교실 공원 | 크게 멋지게 즐겁게 서툴게 | -
listen | music | 듣다 | people | sound |
    방 교실 카페 기차 | 조용히 열심히 오랫동안 잠깐 | uncounted
learn | school | 배우다 | people | study |
    학교 학원 도서관 | 열심히 재미있게 쉽게 간신히 | span=long
teach | school | 가르치다 지도하다 | 선생님 교수님 대학생 이모 삼촌 고모 할아버지 name | study |
    학교 학원 시골 | 열심히 재미있게 꼼꼼하게 | span=long
play | sport | 하다 | people | sport |
    체육관 학교 동네 | 즐겁게 열심히 오랫동안 잠깐 | -
watch | culture | 보다 관람하다 | people | show |
    시내 서울 부산 학교 | 재미있게 조용히 즐겁게 | -
plant | farm | 심다 | people | tree flower |
    마당 정원 공원 학교 언덕 | 정성껏 조심스럽게 거칠게 빠르게 천천히 | opposites=뽑다
paint | culture | 그리다 | people | picture |
    화실 공원 거실 학교 바닷가 | 정성껏 멋지게 천천히 빠르게 열심히 | -
photograph | culture | 찍다 촬영하다 | people | scenery |
    - | 멋지게 급하게 조심스럽게 즐겁게 | -
lose | belongings | 잃어버리다 분실하다 | people | belonging |
    공원 지하철 시장 학교 공항 | 실수로 | tenses=past not=안 uncounted unshared
pick-up | belongings | 줍다 | people | belonging |
    공원 길거리 시장 운동장 | 우연히 | tenses=past uncounted unshared
hide | belongings | 숨기다 감추다 | people | toy belonging |
    - | 급하게 조용히 조심스럽게 | -
choose | shop | 고르다 선택하다 | grown youth | choice |
    백화점 시내 상가 | 꼼꼼하게 천천히 빠르게 급하게 | -
ask | talk | 묻다 물어보다 | people | question |
    시장 병원 기차역 시청 | 조용히 조심스럽게 급하게 | -
reserve | travel | 예약하다 | grown youth | ticket |
    - | 일찍 늦게 급하게 간신히 쉽게 | tenses=past,future uncounted
go | travel | 가다 | people | venue |
    - | 급하게 조용히 일찍 늦게 | particle=에 alternative=으로/로
arrive | travel | 도착하다 | people | venue city |
    - | 일찍 늦게 간신히 | particle=에 tenses=past,future unjoined
relocate | travel | 이사하다 | grown | city |
    - | 급하게 조용히 | particle=으로/로 tenses=past,future span=both unjoined
tour | travel | 여행하다 | people | city |
    - | 즐겁게 오랫동안 잠깐 | tenses=past,future span=both
rest | leisure | 쉬다 휴식하다 | people | retreat |
    - | 편하게 오랫동안 잠깐 조용히 | particle=에서 unjoined
sleep | leisure | 자다 | people 강아지 고양이 토끼 햄스터 | bedroom |
    - | 편하게 오랫동안 잠깐 조용히 | particle=에서 unjoined
run | sport | 달리다 뛰다 | people 강아지 고양이 토끼 여우 사슴 망아지 송아지 | outdoors |
    - | 빠르게 천천히 즐겁게 열심히 오랫동안 잠깐 | particle=에서 unjoined
stroll | leisure | 산책하다 거닐다 | people | outdoors |
    - | 천천히 조용히 즐겁게 오랫동안 잠깐 | -
like | taste | 좋아하다 | people | fruit sport study drink |
    - | - | opposites=싫어하다 tenses=present,past span=none not=안 uncounted unshared
remember | memory | 기억하다 | people | memory |
    - | - | opposites=잊다,잊어버리다 tenses=past span=none not=못 unshared
exam | exam | 합격하다 붙다 | youth worker guest kin name | exam |
    - | 쉽게 간신히 | particle=에 opposites=떨어지다,불합격하다 tenses=past span=both not=못
succeed | venture | 성공하다 | worker guest kin name | venture |
    - | 쉽게 간신히 | particle=에 opposites=실패하다 tenses=past,future span=both not=못
attend | event | 참가하다 참여하다 | people | event |
    - | 열심히 즐겁게 | particle=에 opposites=불참하다 tenses=past,future span=both
win | contest | 이기다 | - | paired |
    결승전 체육관 대회 | 쉽게 간신히 | swap=excludes passive=지다 not=못 tenses=past,future
overtake | contest | 앞지르다 추월하다 | - | paired |
    결승선_앞 경기장 언덕길 | 쉽게 간신히 빠르게 | swap=excludes tenses=past,future
chase | animal | 쫓다 뒤쫓다 | - | 강아지 고양이 토끼 beast |
    마당 들판 숲 골목 농장 | 빠르게 오랫동안 잠깐 | swap=excludes passive=쫓기다 not=안
piggyback | family | 업다 | - | name |
    공원 골목 거실 | 조심스럽게 오랫동안 잠깐 | swap=excludes passive=업히다 not=안 unjoined
bite | animal | 물다 | - | 강아지 고양이 토끼 beast |
    마당 들판 숲 농장 | - | swap=allows passive=물리다 not=안 tenses=past
help | relation | 돕다 도와주다 | - | paired |
    학교 병원 시장 회사 | 열심히 조용히 | swap=allows
praise | relation | 칭찬하다 | - | paired |
    학교 무대 회사 사무실 | 조용히 크게 | swap=allows passive=칭찬받다 not=안
comfort | relation | 위로하다 | - | paired |
    병원 카페 공원 기차역 | 조용히 오랫동안 잠깐 | swap=allows passive=위로받다
deceive | relation | 속이다 | - | paired |
    - | 쉽게 간신히 | swap=allows passive=속다
hug | relation | 껴안다 끌어안다 | - | paired |
    공항 무대 기차역 거실 | 조용히 오랫동안 잠깐 | swap=allows
invite | relation | 초대하다 | - | paired |
    - | 급하게 조용히 | tenses=past,future swap=allows passive=초대받다
await | relation | 기다리다 | - | paired |
    카페 공항 기차역 병원 학교 | 조용히 오랫동안 잠깐 | swap=unclear
meet | relation | 만나다 | - | paired |
    카페 시장 학교 공원 기차역 | 잠깐 오랫동안 몰래 | swap=mutual
marry | family | 결혼하다 | - | paired |
    서울 부산 제주도 | 몰래 조용히 | particle=와/과 alternative=하고 tenses=past,future span=long swap=mutual unjoined
quarrel | relation | 싸우다 다투다 | - | paired |
    길거리 사무실 카페 학교 | 오랫동안 잠깐 시끄럽게 조용히 | particle=와/과 alternative=하고 swap=mutual
    not=안 unjoined
talk | talk | 대화하다 이야기하다 | - | paired |
    카페 공원 사무실 기차 | 오랫동안 잠깐 조용히 시끄럽게 | particle=와/과 alternative=하고 swap=mutual unjoined
reconcile | relation | 화해하다 | - | paired |
    카페 학교 공원 | 간신히 쉽게 | particle=와/과 alternative=하고 tenses=past,future swap=mutual unjoined
"""

_TENSES: tuple[Tense, ...] = ("past", "present", "future")
_NEGATIONS: tuple[Negation, ...] = ("안", "못")
_SWAPS: tuple[Swap, ...] = ("excludes", "allows", "mutual", "unclear")


def _read_frame(record: list[str]) -> Frame:
    name, topic, verbs, subjects, objects, places, manners, options = ("" if cell == "-" else cell for cell in record)
    option = dict(entry.partition("=")[::2] for entry in options.split())
    swap: Swap = next((kind for kind in _SWAPS if kind == option.get("swap")), "")
    return Frame(
        name=name,
        topic=topic,
        verbs=tuple(verbs.split()),
        subjects=_nouns(subjects),
        objects=_nouns(objects),
        particle=option.get("particle", "을/를"),
        alternative=option.get("alternative", ""),
        places=_nouns(places),
        manners=tuple(MANNERS[manner] for manner in manners.split()),
        opposites=tuple(option["opposites"].split(",")) if "opposites" in option else (),
        tenses=tuple(tense for tense in _TENSES if tense in option.get("tenses", "past,present,future")),
        span=option.get("span", "short"),
        swap=swap,
        passive=option.get("passive", ""),
        negations=tuple(word for word in _NEGATIONS if word in option.get("not", "안,못")),
        countable="uncounted" not in option and not swap,
        shareable="unshared" not in option and not swap,
        joinable="unjoined" not in option,
    )


FRAMES = tuple(map(_read_frame, _parse_table(_FRAMES)))


@dataclass(frozen=True, slots=True)
class SplitFrame:
    """A frame with the subjects, objects and hypernyms of objects that one split may use."""

    split: str
    frame: Frame
    subjects: tuple[Noun, ...]
    objects: tuple[Noun, ...]
    hypernyms: frozenset[str]


@cache
def frames_for(split: str) -> tuple[SplitFrame, ...]:
    """Return the frames of a split."""
    names = frozenset(_assigned(NOUNS["name"], split, 0))
    frames = []
    for offset, frame in enumerate(FRAMES):
        objects = _assigned(frame.objects, split, offset)
        hypernyms = tuple(dict.fromkeys(noun.hypernym for noun in frame.objects if noun.hypernym))
        # Frames with two people use the same nouns in both roles. Elsewhere only the names differ between splits.
        subjects = (
            objects if frame.swap else tuple(noun for noun in frame.subjects if noun.group != "name" or noun in names)
        )
        frames.append(SplitFrame(split, frame, subjects, objects, frozenset(_assigned(hypernyms, split, offset))))
    return tuple(frames)


def _assigned(items: tuple[T, ...], split: str, offset: int) -> tuple[T, ...]:
    """Return the items of a split; `offset` makes the assignment differ between frames."""
    return tuple(
        item for position, item in enumerate(items) if _SPLIT_CYCLE[(position + offset) % len(_SPLIT_CYCLE)] == split
    )


@cache
def frames_with_subject(split: str, subject: Noun) -> tuple[SplitFrame, ...]:
    """Return the frames of a split that can have this subject."""
    return tuple(split_frame for split_frame in frames_for(split) if subject in split_frame.subjects)
