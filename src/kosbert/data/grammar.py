"""The sample set: NLI and STS pairs written by a small Korean grammar of our own, labelled by construction.

It is for trying and for testing, never for claims: the sentences are simple and few things happen in them. What makes
it useful is that everybody has it, that any size can be had, and that each pair shows one phenomenon of Korean by name.

A pair is a sentence and an edit of it. The edit decides the score and the label:

| source        | score    | label         | what changes                                                             |
|---------------|----------|---------------|--------------------------------------------------------------------------|
| particle      | 4.9      | entailment    | 은/는 for 이/가, 하고 for 와, (으)로 for 에, a dropped 을/를             |
| word-order    | 4.9      | entailment    | time, place, subject and object change places                            |
| numeral       | 4.9      | entailment    | 세 명 as 3명                                                             |
| speech-level  | 4.8      | entailment    | 해라체, 해요체, 합쇼체                                                   |
| honorific     | 4.8      | entailment    | -시- and 께서                                                            |
| negation-form | 4.8      | entailment    | 안 먹다 as 먹지 않다, 못 먹다 as 먹지 못하다                             |
| synonym       | 4.6      | entailment    | another word for the same                                                |
| voice         | 4.5      | entailment    | 쫓다 from the other side, as 쫓기다                                      |
| mutual        | 4.5      | entailment    | subject and object of 만나다 change places                               |
| ability       | 4.0      | neutral       | who did not (안) need not have been unable (못)                          |
| hypernym      | 3.8      | entailment    | 강아지 as 동물; neutral the other way round                              |
| detail        | 3.6, 3.1 | entailment    | a time, place or manner is dropped; neutral when added; 3.1 when changed |
| coordination  | 3.2      | neutral       | 사과 as 사과와 배; entailment as 사과나 배                               |
| number        | 2.8, 3.5 | contradiction | another count; 3.5 dropped (entailment) or added (neutral)               |
| swap          | 2.4      | contradiction | who did it to whom; neutral where the favour may have been returned      |
| subject       | 2.2      | none          | somebody else does it                                                    |
| negation      | 2.0      | contradiction | negated, or no longer negated                                            |
| antonym       | 1.7      | contradiction | 열다 for 닫다, 빠르게 for 천천히                                         |
| object        | 1.5, 1.2 | neutral       | another object, neutral under negation; 1.2 when one was and one was not |
| action        | 0.9      | neutral       | the same subject did, or did not do, something else                      |
| topic         | 0.2      | none          | nothing in common                                                        |

Two edits score the lower of the two, less 0.1 when one of them keeps the meaning and less 0.4 otherwise; the source is
the edit with the lower score. A little noise, at most 0.15, keeps ranks from being ties. Scores are spread evenly over
the five unit bands before edits are combined.

Labels hold for two reports of one situation, as in SNLI: a count is exact, and what is opened is not what is closed.
Dropping a detail entails only for statements without negation, so it is done only there; likewise the wider word.

The splits never share a sentence: see `kosbert.data.vocabulary`. The same call always gives the same rows, and a
shorter call the first rows of a longer one.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple, TypeVar

from kosbert.data.hangul import Level, Negation, Tense, attach, inflect, takes_short_negation
from kosbert.data.records import LabelledPair, ScoredPair
from kosbert.data.vocabulary import MANNERS, OPPOSITE_MANNERS, SPLITS, TIMES, Hand, Noun, Phrase, hands_for, world
from kosbert.errors import UsageError, nearest

__all__ = ["LARGEST", "SPLITS", "attach", "generate_nli", "generate_sts"]

# Far below the number of sentences that the grammar can say, so that finding new ones stays quick.
LARGEST = {"train": 300_000, "dev": 30_000, "test": 30_000}

T = TypeVar("T")
_NUMERALS = ("", "한", "두", "세", "네", "다섯", "여섯", "일곱", "여덟", "아홉")
_LEVELS: tuple[Level, ...] = ("plain", "plain", "polite", "formal")  # written Korean is mostly 해라체
_ORDERS = (
    "TSPOM",
    "STPOM",
    "TPSOM",
    "TSOPM",
    "TSPMO",
    "OTSPM",
)  # time, subject, place, object, manner; the verb is last
VERB, SUBJECT, OBJECT, TIME, PLACE, MANNER = SLOTS = range(6)


def pick(rng: Random, options: tuple[T, ...]) -> T:
    """One of the options. Only `random()` gives the same numbers in every Python, so nothing else of it is used."""
    return options[int(rng.random() * len(options))]


class Statement(NamedTuple):
    """What a sentence says (the fields up to `joined_by`) and how it says it (the rest)."""

    hand: Hand
    subject: Noun
    object: Noun
    tense: Tense
    time: Phrase | None = None
    place: Noun | None = None
    manner: Phrase | None = None
    subject_count: int = 0
    object_count: int = 0
    several: bool = False
    subject_general: bool = False
    object_general: bool = False
    negation: Negation = ""
    opposite: bool = False
    partner: Noun | None = None
    joined_by: str = ""
    level: Level = "plain"
    honorific: bool = False
    long_negation: bool = False
    topic: bool = False
    alternative: bool = False
    bare: bool = False
    floating: bool = False
    digits: bool = False
    passive: bool = False
    order: int = 0
    synonyms: tuple[int, ...] = (0,) * len(SLOTS)

    def words(self, slot: int) -> tuple[str, ...]:
        """The synonyms to choose from for the verb, the subject, the object, the time, the place or the manner."""
        if slot == VERB:
            frame = self.hand.frame
            return (frame.passive,) if self.passive else frame.opposites if self.opposite else frame.verbs
        if slot == SUBJECT:
            return (self.subject.general,) if self.subject_general else self.subject.words
        if slot == OBJECT:
            return (self.object.general,) if self.object_general else self.object.words
        adverbial = (self.time, self.place, self.manner)[slot - TIME]
        return adverbial.words if adverbial else ("",)

    def word(self, slot: int) -> str:
        """The word that stands there."""
        words = self.words(slot)
        return words[self.synonyms[slot] % len(words)]


# ── Writing a statement down ─────────────────────────────────────────────────────────────────────────────────────────


def write(statement: Statement) -> str:
    """The sentence that a statement stands for."""
    order = _order(statement)
    parts = {
        "T": statement.word(TIME),
        "S": _write_subject(statement, first=order[0] != "O"),
        "P": attach(statement.word(PLACE), "에서") if statement.place else "",
        "O": "",
        "M": statement.word(MANNER),
    }
    before_verb = [letter for letter in order if letter == "O" or parts[letter]][-1]
    parts["O"] = _write_object(statement, next_to_verb=before_verb == "O")
    verb = inflect(
        statement.word(VERB),
        tense=statement.tense,
        level=statement.level,
        honorific=statement.honorific,
        negation=statement.negation,
        long_negation=statement.long_negation,
    )
    return " ".join([*(parts[letter] for letter in order if parts[letter]), verb]) + "."


def _order(statement: Statement) -> str:
    order = _ORDERS[statement.order]
    if statement.hand.frame.particle == "와/과" and order[0] == "O":
        return _ORDERS[0]  # a fronted 유나와 would read as one of two subjects
    if statement.object_count and order[0] != "O":
        return order.replace("M", "").replace("O", "MO")  # 사과를 세 개 먹다 is not parted
    return order


def _count(count: int, counter: str, digits: bool) -> str:
    # 4분 would be read as four minutes.
    return f"{count}{counter}" if digits and counter != "분" else f"{_NUMERALS[count]} {counter}"


def _write_subject(statement: Statement, *, first: bool) -> str:
    word = statement.word(OBJECT if statement.passive else SUBJECT)
    if statement.subject_count:
        word = f"{word} {_count(statement.subject_count, statement.subject.counter, statement.digits)}"
    elif statement.several:
        word += "들"
    topic = statement.topic and first and word != "누군가"
    if statement.honorific:
        return word + ("께서는" if topic else "께서")
    return attach(word, "은/는" if topic else "이/가")


def _may_be_bare(statement: Statement) -> bool:
    # Only speech drops the particle, not where the verb has a noun of its own (영어를 지도해요), nor where the object
    # could then be the one who acts (작가를 이겼어요).
    frame = statement.hand.frame
    possible = statement.level == "polite" and frame.particle == "을/를" and not frame.swap
    return possible and takes_short_negation(statement.word(VERB))


def _write_object(statement: Statement, *, next_to_verb: bool) -> str:
    frame = statement.hand.frame
    if statement.passive:
        return attach(statement.word(SUBJECT), "에게")
    particle = frame.alternative if statement.alternative and frame.alternative else frame.particle
    if statement.bare and next_to_verb and _may_be_bare(statement):
        particle = ""
    word = statement.word(OBJECT)
    if statement.partner:
        word = f"{attach(word, statement.joined_by)} {statement.partner.words[0]}"
    if not statement.object_count:
        return attach(word, particle)
    count = _count(statement.object_count, statement.object.counter, statement.digits)
    if statement.floating and next_to_verb:
        return f"{attach(word, particle)} {count}"
    return attach(f"{word} {count}", particle)


# ── Thinking of a statement ──────────────────────────────────────────────────────────────────────────────────────────


def _invent(rng: Random, hands: tuple[Hand, ...], subject: Noun | None = None) -> Statement:
    """A statement with some details; about a given subject, plain and without any."""
    hand = pick(rng, hands)
    frame = hand.frame
    about = subject
    subject = subject or pick(rng, hand.subjects)
    others = tuple(noun for noun in hand.objects if noun != subject)
    statement = Statement(
        hand=hand,
        subject=subject,
        object=pick(rng, others),
        tense=pick(rng, frame.tenses),
        level=pick(rng, _LEVELS),
        honorific=subject.group == "elder" and rng.random() < 0.6,
        long_negation=rng.random() < 0.5,
        topic=rng.random() < 0.4,
        bare=rng.random() < 0.15,
        floating=rng.random() < 0.5,
        digits=rng.random() < 0.2,
        order=int(rng.random() ** 2 * len(_ORDERS)),  # the usual order most often
        synonyms=tuple(int(rng.random() * 1.6) for _ in SLOTS),
    )
    if about:
        return statement._replace(tense="past")
    if rng.random() < 0.22:
        statement = statement._replace(negation=pick(rng, frame.negations))
    times = _times(statement)
    if times and rng.random() < 0.5:
        statement = statement._replace(time=pick(rng, times))
    if frame.places and rng.random() < 0.45:
        statement = statement._replace(place=pick(rng, frame.places))
    if statement.negation:
        return statement
    if frame.manners and rng.random() < 0.35:
        statement = statement._replace(manner=pick(rng, frame.manners))
    if rng.random() < 0.45:
        statement = _counted(rng, statement) or statement
    elif rng.random() < 0.12:
        statement = _widened(rng, statement, somebody=False) or statement
    return statement


def _times(statement: Statement) -> tuple[Phrase, ...]:
    frame = statement.hand.frame
    times = TIMES[statement.tense, frame.span]
    return tuple(time for time in times if not (time.habitual and statement.negation))


# ── Edits: each gives the changed statement, or None where it does not apply ─────────────────────────────────────────


def _particle(rng: Random, s: Statement) -> Statement | None:
    kinds = ["topic"]
    if s.hand.frame.alternative:
        kinds.append("alternative")
    if _may_be_bare(s):
        kinds.append("bare")
    kind = pick(rng, tuple(kinds))
    changes: dict[str, Any] = {kind: not getattr(s, kind)}
    return s._replace(**changes)


def _word_order(rng: Random, s: Statement) -> Statement | None:
    order = (s.order + 1 + int(rng.random() * (len(_ORDERS) - 1))) % len(_ORDERS)
    return s._replace(order=order, floating=rng.random() < 0.5)


def _numeral(rng: Random, s: Statement) -> Statement | None:
    return s._replace(digits=not s.digits) if s.subject_count or s.object_count else None


def _speech_level(rng: Random, s: Statement) -> Statement | None:
    return s._replace(level=pick(rng, tuple(level for level in _LEVELS[1:] if level != s.level)))


def _honorific(rng: Random, s: Statement) -> Statement | None:
    if s.subject.group != "elder" or s.subject_general:
        return None
    return s._replace(honorific=not s.honorific)


def _negation_form(rng: Random, s: Statement) -> Statement | None:
    return s._replace(long_negation=not s.long_negation) if s.negation else None


def _synonym(rng: Random, s: Statement) -> Statement | None:
    slots = [slot for slot in SLOTS if len(s.words(slot)) > 1]
    if not slots:
        return None
    changed = pick(rng, tuple(slots))
    return s._replace(synonyms=tuple(index + (place == changed) for place, index in enumerate(s.synonyms)))


def _voice(rng: Random, s: Statement) -> Statement | None:
    # A manner belongs to the one who acts (쉽게 이기다 is not 쉽게 지다), and nobody is 못 쫓기다.
    if not s.hand.frame.passive or s.manner or s.negation == "못" or s.partner or s.subject_general:
        return None
    return s._replace(passive=not s.passive)


def _turned(s: Statement) -> Statement | None:
    """The same with subject and object in each other's place."""
    if s.subject_general or s.object_general or s.partner:
        return None
    verb, first, second, *rest = s.synonyms
    return s._replace(subject=s.object, object=s.subject, synonyms=(verb, second, first, *rest))


def _mutual(rng: Random, s: Statement) -> Statement | None:
    return _turned(s) if s.hand.frame.swap == "mutual" else None


def _swap_excluded(rng: Random, s: Statement) -> Statement | None:
    # The present may be a habit, and habits take turns: 민수가 유나를 업는다, 유나가 민수를 업는다.
    once = s.tense != "present" and not s.negation
    return _turned(s) if s.hand.frame.swap == "excludes" and once else None


def _swap_allowed(rng: Random, s: Statement) -> Statement | None:
    return _turned(s) if s.hand.frame.swap == "allows" and not s.negation else None


def _swap_unclear(rng: Random, s: Statement) -> Statement | None:
    return _turned(s) if s.hand.frame.swap == "unclear" else None


def _ability(rng: Random, s: Statement) -> Statement | None:
    return (
        s._replace(negation="못") if s.negation == "안" and "못" in s.hand.frame.negations and not s.passive else None
    )


def _widened(rng: Random, s: Statement, *, somebody: bool = True) -> Statement | None:
    if s.negation or s.passive or s.partner:
        return None
    kinds = []
    single = not (s.subject_count or s.several or s.subject_general)
    if single and s.subject.general and (somebody or s.subject.general != "누군가"):
        kinds.append("subject")
    # Who likes apples need not like fruit; of two beings, one must stay the split's own.
    happens = not (s.hand.frame.is_state or s.hand.frame.swap)
    if happens and s.object.general in s.hand.generals and not (s.object_count or s.object_general):
        kinds.append("object")
    if not kinds:
        return None
    if pick(rng, tuple(kinds)) == "object":
        return s._replace(object_general=True)
    return s._replace(subject_general=True, honorific=False)


def _narrowed(rng: Random, s: Statement) -> Statement | None:
    if s.negation or not (s.subject_general or s.object_general):
        return None
    return s._replace(subject_general=False, object_general=False)


def _drop_detail(rng: Random, s: Statement) -> Statement | None:
    present = [slot for slot in ("time", "place", "manner") if getattr(s, slot)]
    if s.negation or not present:
        return None
    changes: dict[str, Any] = {pick(rng, tuple(present)): None}
    return s._replace(**changes)


def _add_detail(rng: Random, s: Statement) -> Statement | None:
    if s.negation:
        return None
    frame = s.hand.frame
    options: dict[str, tuple[Noun, ...] | tuple[Phrase, ...]] = {
        "time": _times(s) if not s.time else (),
        "place": frame.places if not s.place else (),
        "manner": frame.manners if not s.manner and not s.passive else (),
    }
    slots = tuple(slot for slot, choices in options.items() if choices)
    if not slots:
        return None
    slot = pick(rng, slots)
    changes: dict[str, Any] = {slot: pick(rng, options[slot])}
    return s._replace(**changes)


def _change_detail(rng: Random, s: Statement) -> Statement | None:
    if s.place and rng.random() < 0.5:
        return s._replace(place=pick(rng, s.hand.frame.places))
    return s._replace(time=pick(rng, _times(s))) if s.time else None


def _join(rng: Random, s: Statement, joined_by: str) -> Statement | None:
    others = tuple(noun for noun in s.hand.objects if noun not in (s.object, s.subject))
    if s.negation or s.object_count or s.object_general or s.passive or s.partner or not others:
        return None
    if not s.hand.frame.joinable:
        return None
    return s._replace(partner=pick(rng, others), joined_by=joined_by)


def _join_and(rng: Random, s: Statement) -> Statement | None:
    return _join(rng, s, "와/과")


def _join_or(rng: Random, s: Statement) -> Statement | None:
    return None if s.hand.frame.is_state else _join(rng, s, "이나/나")


def _counted(rng: Random, s: Statement) -> Statement | None:
    if s.negation or s.subject_count or s.object_count or s.several or s.partner:
        return None
    count = 2 + int(rng.random() * 6)
    if s.hand.frame.countable and s.object.counter and not s.object_general and rng.random() < 0.65:
        return s._replace(object_count=count)
    if s.hand.frame.shareable and s.subject.counter and not s.subject_general:
        return s._replace(subject_count=count)
    return None


def _uncounted(rng: Random, s: Statement) -> Statement | None:
    if s.object_count:
        return s._replace(object_count=0)
    return s._replace(subject_count=0, several=True) if s.subject_count else None


def _recounted(rng: Random, s: Statement) -> Statement | None:
    old = s.object_count or s.subject_count
    if not old:
        return None
    count = 2 + (old - 2 + 1 + int(rng.random() * 5)) % 6
    return s._replace(object_count=count) if s.object_count else s._replace(subject_count=count)


def _subject(rng: Random, s: Statement) -> Statement | None:
    # 소년 and 아이 may be one person, so that only names are exchanged within a group.
    others = tuple(
        noun
        for noun in s.hand.subjects
        if noun not in (s.subject, s.object) and (noun.group == "name" or noun.group != s.subject.group)
    )
    if not others or s.passive or s.subject_general:
        return None
    subject = pick(rng, others)
    if s.subject_count and not subject.counter:
        return None
    return s._replace(subject=subject, honorific=s.honorific and subject.group == "elder")


def _negated(rng: Random, s: Statement) -> Statement | None:
    if s.negation:
        return s._replace(negation="")
    if s.subject_count or s.several or s.partner or s.word(SUBJECT) == "누군가":
        return None  # 세 명이 안 왔다 leaves open whether three others came
    negations = ("안",) if s.passive else s.hand.frame.negations
    # Without manner, count and habit, which a listener could take for what is denied: 천천히 먹지 않았다.
    time = None if s.time and s.time.habitual else s.time
    return s._replace(negation=pick(rng, negations), manner=None, object_count=0, time=time)


def _antonym(rng: Random, s: Statement) -> Statement | None:
    if s.negation or s.passive:
        return None
    contrary = OPPOSITE_MANNERS.get(s.manner.words[0]) if s.manner else None
    if contrary and MANNERS[contrary] in s.hand.frame.manners:
        return s._replace(manner=MANNERS[contrary])
    # Again, habits take turns: a window that is opened every morning is closed every morning.
    frame = s.hand.frame
    if not frame.opposites or (s.tense == "present" and not frame.is_state):
        return None
    return s._replace(opposite=not s.opposite, manner=None)  # 간신히 합격하다, but not 간신히 떨어지다


def _object(rng: Random, s: Statement) -> Statement | None:
    others = tuple(noun for noun in s.hand.objects if noun not in (s.object, s.subject, s.partner))
    if not others or s.object_general or s.passive:
        return None
    thing = pick(rng, others)
    if s.object_count and not thing.counter:
        return None
    return s._replace(object=thing)


def _object_neither(rng: Random, s: Statement) -> Statement | None:
    return _object(rng, s) if s.negation else None


def _object_instead(rng: Random, s: Statement) -> Statement | None:
    # Who came to Seoul did not come to Busan: where one object excludes the others, only 안 leaves them open.
    changed = _object(rng, s) if s.negation or s.hand.frame.joinable else None
    return changed and _negated(rng, changed)


def _action(rng: Random, s: Statement) -> Statement | None:
    # In the past alone: who eats now does not draw now, but whoever ate may have drawn, too.
    if s.tense != "past" or s.subject_count or s.subject_general:
        return None
    other = _invent(rng, hands_for(s.hand.split, s.subject), s.subject)
    if other.hand.frame == s.hand.frame:
        return None
    negation = pick(rng, other.hand.frame.negations) if rng.random() < 0.5 else ""
    return other._replace(level=s.level, negation=negation)


def _topic(rng: Random, s: Statement) -> Statement | None:
    other = _invent(rng, world(s.hand.split))
    if other.hand.frame.topic == s.hand.frame.topic or (s.place and s.place in (other.place, other.object)):
        return None
    return None if {other.subject.group, other.object.group} & {s.subject.group, s.object.group} else other


@dataclass(frozen=True, slots=True)
class Edit:
    """A row of the table above: `label` is empty where the edit has no certain one.

    The more tickets an edit has, the earlier it is tried; edits that seldom apply have more.
    """

    source: str
    score: float
    change: Callable[[Random, Statement], Statement | None]
    label: str = ""
    tickets: int = 1


EDITS = (
    Edit("particle", 4.9, _particle, "entailment"),
    Edit("word-order", 4.9, _word_order, "entailment"),
    Edit("numeral", 4.9, _numeral, "entailment", tickets=4),
    Edit("speech-level", 4.8, _speech_level, "entailment"),
    Edit("honorific", 4.8, _honorific, "entailment", tickets=4),
    Edit("negation-form", 4.8, _negation_form, "entailment", tickets=4),
    Edit("synonym", 4.6, _synonym, "entailment"),
    Edit("voice", 4.5, _voice, "entailment", tickets=4),
    Edit("mutual", 4.5, _mutual, "entailment", tickets=4),
    Edit("ability", 4.0, _ability, "neutral", tickets=4),
    Edit("hypernym", 3.8, _widened, "entailment"),
    Edit("hypernym", 3.8, _narrowed, "neutral", tickets=4),
    Edit("detail", 3.6, _drop_detail, "entailment"),
    Edit("detail", 3.6, _add_detail, "neutral"),
    Edit("number", 3.5, _uncounted, "entailment"),
    Edit("number", 3.5, _counted, "neutral"),
    Edit("coordination", 3.2, _join_and, "neutral"),
    Edit("coordination", 3.2, _join_or, "entailment"),
    Edit("detail", 3.1, _change_detail),
    Edit("number", 2.8, _recounted, "contradiction", tickets=4),
    Edit("swap", 2.4, _swap_excluded, "contradiction", tickets=4),
    Edit("swap", 2.4, _swap_allowed, "neutral", tickets=4),
    Edit("swap", 2.4, _swap_unclear, tickets=4),
    Edit("subject", 2.2, _subject),
    Edit("negation", 2.0, _negated, "contradiction"),
    Edit("antonym", 1.7, _antonym, "contradiction", tickets=4),
    Edit("object", 1.5, _object),
    Edit("object", 1.5, _object_neither, "neutral"),
    Edit("object", 1.2, _object_instead, "neutral"),
    Edit("action", 0.9, _action, "neutral"),
    Edit("topic", 0.2, _topic),
)


def _urn(edits: Iterable[Edit]) -> tuple[Edit, ...]:
    return tuple(edit for edit in edits for _ in range(edit.tickets))


_LABELS = ("entailment", "neutral", "contradiction")
_BY_LABEL = {label: _urn(edit for edit in EDITS if edit.label == label) for label in _LABELS}
# A second edit moves scores down, above all from the third band into the second: hence the uneven shares.
_BANDS = tuple(
    _urn(edit for edit in EDITS if band <= edit.score < band + 1) for band in (0, 0, 0, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4)
)
_REWORDINGS = _urn(edit for edit in EDITS if edit.score >= 4.5)  # these keep the meaning, and so every label
_DETAILS = _urn(edit for edit in EDITS if edit.source == "detail")


# ── Rows ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def generate_sts(split: str, size: int, *, seed: int = 0) -> list[ScoredPair]:
    """Write `size` different pairs with a similarity from 0 to 5; `source` names what changed.

    >>> generate_sts("train", 2) == generate_sts("train", 5)[:2]
    True
    """
    _check(split, size)
    rng = Random(f"kosbert sts {split} {seed}")  # a text seeds by its SHA-512, the same on every machine
    rows: list[ScoredPair] = []
    seen: set[tuple[str, str]] = set()
    while len(rows) < size:
        row = _scored(rng, world(split))
        if row is None:
            continue
        key = min(row.sentence1, row.sentence2), max(row.sentence1, row.sentence2)
        if key not in seen:
            seen.add(key)
            rows.append(row)
    return rows


def generate_nli(split: str, size: int, *, seed: int = 0) -> list[LabelledPair]:
    """Write `size` different pairs of premise and hypothesis; `source` names what changed.

    Every premise comes with an entailment, a neutral and a contradiction, in this order; the last may be cut short.

    >>> [row.label for row in generate_nli("train", 4)]
    ['entailment', 'neutral', 'contradiction', 'entailment']
    """
    _check(split, size)
    rng = Random(f"kosbert nli {split} {seed}")
    rows: list[LabelledPair] = []
    seen: set[str] = set()
    while len(rows) < size:
        triple = _labelled(rng, world(split))
        if triple and triple[0].sentence1 not in seen:
            seen.add(triple[0].sentence1)
            rows.extend(triple)
    return rows[:size]


def _check(split: str, size: int) -> None:
    if split not in SPLITS:
        raise UsageError(f"The sample set has no split {split!r}; {nearest(split, SPLITS)}")
    if size < 0:
        raise UsageError(f"A sample of {size} rows cannot be written; ask for 0 or more")
    if size > LARGEST[split]:
        raise UsageError(f"The sample set has no {size:,} different {split} rows; ask for at most {LARGEST[split]:,}")


class Draft(NamedTuple):
    """A statement on its way through the edits, with the name and score of the gravest so far, and what to take off."""

    statement: Statement
    text: str
    source: str = ""
    score: float = 5.0
    less: float = 0.0


def _revise(rng: Random, draft: Draft, edits: tuple[Edit, ...], *, less: float = 0.0) -> Draft | None:
    """Apply one of the edits: the first drawn that can be seen in the sentence."""
    left = list(edits)
    while left:
        edit = left.pop(int(rng.random() * len(left)))
        changed = edit.change(rng, draft.statement)
        if changed is None or (text := write(changed)) == draft.text:
            continue
        source, score = (edit.source, edit.score) if edit.score < draft.score else (draft.source, draft.score)
        return Draft(changed, text, source, score, draft.less + less)
    return None


def _scored(rng: Random, hands: tuple[Hand, ...]) -> ScoredPair | None:
    statement = _invent(rng, hands)
    first = Draft(statement, write(statement))
    second = _revise(rng, first, pick(rng, _BANDS))
    if second is None:
        return None
    if 1 < second.score < 4 and second.source != "detail" and rng.random() < 0.25:
        second = _revise(rng, second, _DETAILS, less=0.4) or second
    if rng.random() < 0.5:
        second = _revise(rng, second, _REWORDINGS, less=0.1) or second
    if second.text == first.text:  # the second edit took the first one back
        return None
    score = second.score - second.less + 0.3 * (rng.random() - 0.5)
    one, two = (first.text, second.text) if rng.random() < 0.5 else (second.text, first.text)
    return ScoredPair(one, two, round(min(5.0, max(0.0, score)), 2), second.source)


def _labelled(rng: Random, hands: tuple[Hand, ...]) -> list[LabelledPair] | None:
    statement = _invent(rng, hands)
    premise = Draft(statement, write(statement))
    rows = []
    for label, edits in _BY_LABEL.items():
        start = premise
        # What the shorter premise entails or excludes, the longer one does, too.
        if label != "neutral" and rng.random() < 0.25 and (shorter := _drop_detail(rng, statement)):
            start = Draft(shorter, write(shorter), "detail", 3.6)
        hypothesis = _revise(rng, start, edits)
        if hypothesis is None:
            return None
        if rng.random() < 0.4:
            hypothesis = _revise(rng, hypothesis, _REWORDINGS) or hypothesis
        rows.append(LabelledPair(premise.text, hypothesis.text, label, hypothesis.source))
    different = {premise.text, *(row.sentence2 for row in rows)}
    return rows if len(different) == 4 else None
