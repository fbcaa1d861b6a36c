"""The edits of the sample set: each changes a statement, or gives None where it does not apply.

`EDITS` is the table of `grammar` in code: the name, the score and the label of every edit. Two of them,
`counted` and `widened`, are also used to think of a statement and live in `kosbert.data.sample.statements`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from kosbert.data.sample.statements import (
    LEVELS,
    ORDERS,
    SLOTS,
    SUBJECT,
    Statement,
    counted,
    invent,
    may_be_bare,
    pick,
    times_of,
    widened,
)
from kosbert.data.sample.vocabulary import MANNERS, OPPOSITE_MANNERS, Noun, Phrase, hands_for, world


def _particle(rng: Random, s: Statement) -> Statement | None:
    kinds = ["topic"]
    if s.hand.frame.alternative:
        kinds.append("alternative")
    if may_be_bare(s):
        kinds.append("bare")
    kind = pick(rng, tuple(kinds))
    changes: dict[str, Any] = {kind: not getattr(s, kind)}
    return s._replace(**changes)


def _word_order(rng: Random, s: Statement) -> Statement | None:
    order = (s.order + 1 + int(rng.random() * (len(ORDERS) - 1))) % len(ORDERS)
    return s._replace(order=order, floating=rng.random() < 0.5)


def _numeral(rng: Random, s: Statement) -> Statement | None:
    return s._replace(digits=not s.digits) if s.subject_count or s.object_count else None


def _speech_level(rng: Random, s: Statement) -> Statement | None:
    return s._replace(level=pick(rng, tuple(level for level in LEVELS[1:] if level != s.level)))


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


def _narrowed(rng: Random, s: Statement) -> Statement | None:
    if s.negation or not (s.subject_general or s.object_general):
        return None
    return s._replace(subject_general=False, object_general=False)


def drop_detail(rng: Random, s: Statement) -> Statement | None:
    """Without its time, its place or its manner, which it then still entails; None under negation."""
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
        "time": times_of(s) if not s.time else (),
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
    return s._replace(time=pick(rng, times_of(s))) if s.time else None


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
    other = invent(rng, hands_for(s.hand.split, s.subject), s.subject)
    if other.hand.frame == s.hand.frame:
        return None
    negation = pick(rng, other.hand.frame.negations) if rng.random() < 0.5 else ""
    return other._replace(level=s.level, negation=negation)


def _topic(rng: Random, s: Statement) -> Statement | None:
    other = invent(rng, world(s.hand.split))
    if other.hand.frame.topic == s.hand.frame.topic or (s.place and s.place in (other.place, other.object)):
        return None
    return None if {other.subject.group, other.object.group} & {s.subject.group, s.object.group} else other


@dataclass(frozen=True, slots=True)
class Edit:
    """A row of the table in `kosbert.data.sample.grammar`: `label` is empty where the edit has no certain one.

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
    Edit("hypernym", 3.8, widened, "entailment"),
    Edit("hypernym", 3.8, _narrowed, "neutral", tickets=4),
    Edit("detail", 3.6, drop_detail, "entailment"),
    Edit("detail", 3.6, _add_detail, "neutral"),
    Edit("number", 3.5, _uncounted, "entailment"),
    Edit("number", 3.5, counted, "neutral"),
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
