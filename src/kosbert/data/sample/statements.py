"""Statements, from which the sentences of the sample set are written.

A statement holds what a sentence says (who did what, when, where, how, how many, or not at all) and how it says it
(speech level, order, synonyms, particles). `invent` thinks of one that makes sense, `write` gives its sentence, and
`kosbert.data.sample.edits` changes statements, never text, so that particles and endings always agree.
"""

from random import Random
from typing import NamedTuple, TypeVar

from kosbert.data.sample.hangul import Level, Negation, Tense, attach, inflect, takes_short_negation
from kosbert.data.sample.vocabulary import TIMES, Hand, Noun, Phrase

T = TypeVar("T")
_NUMERALS = ("", "한", "두", "세", "네", "다섯", "여섯", "일곱", "여덟", "아홉")
LEVELS: tuple[Level, ...] = ("plain", "plain", "polite", "formal")  # written Korean is mostly 해라체
ORDERS = (
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
    order = ORDERS[statement.order]
    if statement.hand.frame.particle == "와/과" and order[0] == "O":
        return ORDERS[0]  # a fronted 유나와 would read as one of two subjects
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


def may_be_bare(statement: Statement) -> bool:
    """Whether the object can do without its particle."""
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
    if statement.bare and next_to_verb and may_be_bare(statement):
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


def invent(rng: Random, hands: tuple[Hand, ...], subject: Noun | None = None) -> Statement:
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
        level=pick(rng, LEVELS),
        honorific=subject.group == "elder" and rng.random() < 0.6,
        long_negation=rng.random() < 0.5,
        topic=rng.random() < 0.4,
        bare=rng.random() < 0.15,
        floating=rng.random() < 0.5,
        digits=rng.random() < 0.2,
        order=int(rng.random() ** 2 * len(ORDERS)),  # the usual order most often
        synonyms=tuple(int(rng.random() * 1.6) for _ in SLOTS),
    )
    if about:
        return statement._replace(tense="past")
    if rng.random() < 0.22:
        statement = statement._replace(negation=pick(rng, frame.negations))
    times = times_of(statement)
    if times and rng.random() < 0.5:
        statement = statement._replace(time=pick(rng, times))
    if frame.places and rng.random() < 0.45:
        statement = statement._replace(place=pick(rng, frame.places))
    if statement.negation:
        return statement
    if frame.manners and rng.random() < 0.35:
        statement = statement._replace(manner=pick(rng, frame.manners))
    if rng.random() < 0.45:
        statement = counted(rng, statement) or statement
    elif rng.random() < 0.12:
        statement = widened(rng, statement, somebody=False) or statement
    return statement


def times_of(statement: Statement) -> tuple[Phrase, ...]:
    """The times at which it can have happened."""
    frame = statement.hand.frame
    times = TIMES[statement.tense, frame.span]
    return tuple(time for time in times if not (time.habitual and statement.negation))


def counted(rng: Random, s: Statement) -> Statement | None:
    """With a count of the objects or else of the subjects; None where neither can be counted."""
    if s.negation or s.subject_count or s.object_count or s.several or s.partner:
        return None
    count = 2 + int(rng.random() * 6)
    if s.hand.frame.countable and s.object.counter and not s.object_general and rng.random() < 0.65:
        return s._replace(object_count=count)
    if s.hand.frame.shareable and s.subject.counter and not s.subject_general:
        return s._replace(subject_count=count)
    return None


def widened(rng: Random, s: Statement, *, somebody: bool = True) -> Statement | None:
    """With the wider word for the subject or the object, 누군가 only if allowed; None where there is none."""
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
