"""Statements: the structures from which the sentences of the sample set are generated.

A statement holds the content of a sentence (who did what, when, where, how, how many, or not at all) and its form
(speech level, word order, synonyms, particles). `sample_statement` draws a plausible one, `realize` returns its
sentence, and `kosbert.data.sample.edits` changes statements, never text, so that particles and endings always agree.
"""

from random import Random
from typing import NamedTuple, TypeVar

from kosbert.data.sample.hangul import Level, Negation, Tense, attach, inflect, takes_short_negation
from kosbert.data.sample.vocabulary import TIMES, Frame, Noun, Phrase, SplitFrame

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


def choose(rng: Random, options: tuple[T, ...]) -> T:
    """Return a random option. Uses only `random()`: its numbers are the same in every Python version."""
    return options[int(rng.random() * len(options))]


class Statement(NamedTuple):
    """The content of a sentence (fields up to `conjunction`) and its form (the rest)."""

    split_frame: SplitFrame
    subject: Noun
    object: Noun
    tense: Tense
    time: Phrase | None = None
    place: Noun | None = None
    manner: Phrase | None = None
    subject_count: int = 0
    object_count: int = 0
    several: bool = False
    subject_as_hypernym: bool = False
    object_as_hypernym: bool = False
    negation: Negation = ""
    opposite: bool = False
    second_object: Noun | None = None
    conjunction: str = ""
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

    @property
    def frame(self) -> Frame:
        """The verb frame."""
        return self.split_frame.frame

    def words(self, slot: int) -> tuple[str, ...]:
        """Return the synonyms for a slot: verb, subject, object, time, place or manner."""
        if slot == VERB:
            frame = self.frame
            return (frame.passive,) if self.passive else frame.opposites if self.opposite else frame.verbs
        if slot == SUBJECT:
            return (self.subject.hypernym,) if self.subject_as_hypernym else self.subject.words
        if slot == OBJECT:
            return (self.object.hypernym,) if self.object_as_hypernym else self.object.words
        adverbial = (self.time, self.place, self.manner)[slot - TIME]
        return adverbial.words if adverbial else ("",)

    def word(self, slot: int) -> str:
        """Return the chosen synonym of a slot."""
        words = self.words(slot)
        return words[self.synonyms[slot] % len(words)]


# ── Surface realization ──────────────────────────────────────────────────────────────────────────────────────────────


def realize(statement: Statement) -> str:
    """Return the sentence of a statement."""
    order = _order(statement)
    parts = {
        "T": statement.word(TIME),
        "S": _realize_subject(statement, first=order[0] != "O"),
        "P": attach(statement.word(PLACE), "에서") if statement.place else "",
        "O": "",
        "M": statement.word(MANNER),
    }
    before_verb = [letter for letter in order if letter == "O" or parts[letter]][-1]
    parts["O"] = _realize_object(statement, next_to_verb=before_verb == "O")
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
    if statement.frame.particle == "와/과" and order[0] == "O":
        return ORDERS[0]  # a fronted 유나와 would read as part of the subject
    if statement.object_count and order[0] != "O":
        return order.replace("M", "").replace("O", "MO")  # 사과를 세 개 먹다: nothing comes between object and count
    return order


def _count(count: int, counter: str, digits: bool) -> str:
    # 4분 would mean four minutes.
    return f"{count}{counter}" if digits and counter != "분" else f"{_NUMERALS[count]} {counter}"


def _realize_subject(statement: Statement, *, first: bool) -> str:
    word = statement.word(OBJECT if statement.passive else SUBJECT)
    if statement.subject_count:
        word = f"{word} {_count(statement.subject_count, statement.subject.counter, statement.digits)}"
    elif statement.several:
        word += "들"
    topic = statement.topic and first and word != "누군가"
    if statement.honorific:
        return word + ("께서는" if topic else "께서")
    return attach(word, "은/는" if topic else "이/가")


def can_drop_particle(statement: Statement) -> bool:
    """Return whether the object can lose its particle."""
    # Only in spoken style, not if the verb contains a noun (영어를 지도해요), and not if the object could then be read
    # as the subject (작가를 이겼어요).
    frame = statement.frame
    possible = statement.level == "polite" and frame.particle == "을/를" and not frame.swap
    return possible and takes_short_negation(statement.word(VERB))


def _realize_object(statement: Statement, *, next_to_verb: bool) -> str:
    frame = statement.frame
    if statement.passive:
        return attach(statement.word(SUBJECT), "에게")
    particle = frame.alternative if statement.alternative and frame.alternative else frame.particle
    if statement.bare and next_to_verb and can_drop_particle(statement):
        particle = ""
    word = statement.word(OBJECT)
    if statement.second_object:
        word = f"{attach(word, statement.conjunction)} {statement.second_object.words[0]}"
    if not statement.object_count:
        return attach(word, particle)
    count = _count(statement.object_count, statement.object.counter, statement.digits)
    if statement.floating and next_to_verb:
        return f"{attach(word, particle)} {count}"
    return attach(f"{word} {count}", particle)


# ── Sampling a statement ─────────────────────────────────────────────────────────────────────────────────────────────


def sample_statement(rng: Random, frames: tuple[SplitFrame, ...], subject: Noun | None = None) -> Statement:
    """Return a random statement with some details; with a given subject, a past one without details."""
    split_frame = choose(rng, frames)
    frame = split_frame.frame
    has_subject = subject is not None
    subject = subject or choose(rng, split_frame.subjects)
    objects = tuple(noun for noun in split_frame.objects if noun != subject)
    statement = Statement(
        split_frame=split_frame,
        subject=subject,
        object=choose(rng, objects),
        tense=choose(rng, frame.tenses),
        level=choose(rng, LEVELS),
        honorific=subject.group == "elder" and rng.random() < 0.6,
        long_negation=rng.random() < 0.5,
        topic=rng.random() < 0.4,
        bare=rng.random() < 0.15,
        floating=rng.random() < 0.5,
        digits=rng.random() < 0.2,
        order=int(rng.random() ** 2 * len(ORDERS)),  # mostly the usual order
        synonyms=tuple(int(rng.random() * 1.6) for _ in SLOTS),
    )
    if has_subject:
        return statement._replace(tense="past")
    if rng.random() < 0.22:
        statement = statement._replace(negation=choose(rng, frame.negations))
    times = times_of(statement)
    if times and rng.random() < 0.5:
        statement = statement._replace(time=choose(rng, times))
    if frame.places and rng.random() < 0.45:
        statement = statement._replace(place=choose(rng, frame.places))
    if statement.negation:
        return statement
    if frame.manners and rng.random() < 0.35:
        statement = statement._replace(manner=choose(rng, frame.manners))
    if rng.random() < 0.45:
        statement = add_count(rng, statement) or statement
    elif rng.random() < 0.12:
        statement = generalize(rng, statement, somebody=False) or statement
    return statement


def times_of(statement: Statement) -> tuple[Phrase, ...]:
    """Return the time phrases that fit a statement."""
    frame = statement.frame
    times = TIMES[statement.tense, frame.span]
    return tuple(time for time in times if not (time.habitual and statement.negation))


def add_count(rng: Random, s: Statement) -> Statement | None:
    """Add a count to the object or else to the subject; None if neither can be counted."""
    if s.negation or s.subject_count or s.object_count or s.several or s.second_object:
        return None
    count = 2 + int(rng.random() * 6)
    if s.frame.countable and s.object.counter and not s.object_as_hypernym and rng.random() < 0.65:
        return s._replace(object_count=count)
    if s.frame.shareable and s.subject.counter and not s.subject_as_hypernym:
        return s._replace(subject_count=count)
    return None


def generalize(rng: Random, s: Statement, *, somebody: bool = True) -> Statement | None:
    """Replace the subject or the object by its hypernym (누군가 only with `somebody`); None if there is none."""
    if s.negation or s.passive or s.second_object:
        return None
    slots = []
    is_single = not (s.subject_count or s.several or s.subject_as_hypernym)
    if is_single and s.subject.hypernym and (somebody or s.subject.hypernym != "누군가"):
        slots.append("subject")
    # 사과를 좋아하다 does not entail 과일을 좋아하다; and of two people, one must stay specific to the split.
    is_event = not (s.frame.is_state or s.frame.swap)
    if is_event and s.object.hypernym in s.split_frame.hypernyms and not (s.object_count or s.object_as_hypernym):
        slots.append("object")
    if not slots:
        return None
    if choose(rng, tuple(slots)) == "object":
        return s._replace(object_as_hypernym=True)
    return s._replace(subject_as_hypernym=True, honorific=False)
