"""The edits of the sample set: each changes a statement, or returns None if it does not apply.

`EDITS` is the table of `grammar` in code: name, score and label of every edit. Two of them, `add_count` and
`generalize`, are also used to sample statements and are defined in `kosbert.data.sample.statements`.
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
    add_count,
    can_drop_particle,
    choose,
    generalize,
    sample_statement,
    times_of,
)
from kosbert.data.sample.vocabulary import MANNERS, OPPOSITE_MANNERS, Noun, Phrase, frames_for, frames_with_subject


def _particle(rng: Random, s: Statement) -> Statement | None:
    kinds = ["topic"]
    if s.frame.alternative:
        kinds.append("alternative")
    if can_drop_particle(s):
        kinds.append("bare")
    kind = choose(rng, tuple(kinds))
    changes: dict[str, Any] = {kind: not getattr(s, kind)}
    return s._replace(**changes)


def _word_order(rng: Random, s: Statement) -> Statement | None:
    order = (s.order + 1 + int(rng.random() * (len(ORDERS) - 1))) % len(ORDERS)
    return s._replace(order=order, floating=rng.random() < 0.5)


def _numeral(rng: Random, s: Statement) -> Statement | None:
    return s._replace(digits=not s.digits) if s.subject_count or s.object_count else None


def _speech_level(rng: Random, s: Statement) -> Statement | None:
    return s._replace(level=choose(rng, tuple(level for level in LEVELS[1:] if level != s.level)))


def _honorific(rng: Random, s: Statement) -> Statement | None:
    if s.subject.group != "elder" or s.subject_as_hypernym:
        return None
    return s._replace(honorific=not s.honorific)


def _negation_form(rng: Random, s: Statement) -> Statement | None:
    return s._replace(long_negation=not s.long_negation) if s.negation else None


def _synonym(rng: Random, s: Statement) -> Statement | None:
    slots = [slot for slot in SLOTS if len(s.words(slot)) > 1]
    if not slots:
        return None
    changed = choose(rng, tuple(slots))
    return s._replace(synonyms=tuple(index + (slot == changed) for slot, index in enumerate(s.synonyms)))


def _voice(rng: Random, s: Statement) -> Statement | None:
    # A manner describes the agent (쉽게 이기다 is not 쉽게 지다), and 못 쫓기다 is not said.
    if not s.frame.passive or s.manner or s.negation == "못" or s.second_object or s.subject_as_hypernym:
        return None
    return s._replace(passive=not s.passive)


def _swap_roles(s: Statement) -> Statement | None:
    """Swap subject and object."""
    if s.subject_as_hypernym or s.object_as_hypernym or s.second_object:
        return None
    verb, first, second, *rest = s.synonyms
    return s._replace(subject=s.object, object=s.subject, synonyms=(verb, second, first, *rest))


def _mutual(rng: Random, s: Statement) -> Statement | None:
    return _swap_roles(s) if s.frame.swap == "mutual" else None


def _swap_excluded(rng: Random, s: Statement) -> Statement | None:
    # The present can be habitual, and then both can be true: 민수가 유나를 업는다, 유나가 민수를 업는다.
    is_single_event = s.tense != "present" and not s.negation
    return _swap_roles(s) if s.frame.swap == "excludes" and is_single_event else None


def _swap_allowed(rng: Random, s: Statement) -> Statement | None:
    return _swap_roles(s) if s.frame.swap == "allows" and not s.negation else None


def _swap_unclear(rng: Random, s: Statement) -> Statement | None:
    return _swap_roles(s) if s.frame.swap == "unclear" else None


def _ability(rng: Random, s: Statement) -> Statement | None:
    return s._replace(negation="못") if s.negation == "안" and "못" in s.frame.negations and not s.passive else None


def _specialize(rng: Random, s: Statement) -> Statement | None:
    if s.negation or not (s.subject_as_hypernym or s.object_as_hypernym):
        return None
    return s._replace(subject_as_hypernym=False, object_as_hypernym=False)


def drop_detail(rng: Random, s: Statement) -> Statement | None:
    """Remove the time, place or manner (the result is still entailed); None under negation."""
    present = [slot for slot in ("time", "place", "manner") if getattr(s, slot)]
    if s.negation or not present:
        return None
    changes: dict[str, Any] = {choose(rng, tuple(present)): None}
    return s._replace(**changes)


def _add_detail(rng: Random, s: Statement) -> Statement | None:
    if s.negation:
        return None
    frame = s.frame
    options: dict[str, tuple[Noun, ...] | tuple[Phrase, ...]] = {
        "time": times_of(s) if not s.time else (),
        "place": frame.places if not s.place else (),
        "manner": frame.manners if not s.manner and not s.passive else (),
    }
    slots = tuple(slot for slot, choices in options.items() if choices)
    if not slots:
        return None
    slot = choose(rng, slots)
    changes: dict[str, Any] = {slot: choose(rng, options[slot])}
    return s._replace(**changes)


def _change_detail(rng: Random, s: Statement) -> Statement | None:
    if s.place and rng.random() < 0.5:
        return s._replace(place=choose(rng, s.frame.places))
    return s._replace(time=choose(rng, times_of(s))) if s.time else None


def _join(rng: Random, s: Statement, conjunction: str) -> Statement | None:
    objects = tuple(noun for noun in s.split_frame.objects if noun not in (s.object, s.subject))
    if s.negation or s.object_count or s.object_as_hypernym or s.passive or s.second_object or not objects:
        return None
    if not s.frame.joinable:
        return None
    return s._replace(second_object=choose(rng, objects), conjunction=conjunction)


def _join_and(rng: Random, s: Statement) -> Statement | None:
    return _join(rng, s, "와/과")


def _join_or(rng: Random, s: Statement) -> Statement | None:
    return None if s.frame.is_state else _join(rng, s, "이나/나")


def _remove_count(rng: Random, s: Statement) -> Statement | None:
    if s.object_count:
        return s._replace(object_count=0)
    return s._replace(subject_count=0, several=True) if s.subject_count else None


def _change_count(rng: Random, s: Statement) -> Statement | None:
    old = s.object_count or s.subject_count
    if not old:
        return None
    count = 2 + (old - 2 + 1 + int(rng.random() * 5)) % 6
    return s._replace(object_count=count) if s.object_count else s._replace(subject_count=count)


def _subject(rng: Random, s: Statement) -> Statement | None:
    # 소년 and 아이 can be the same person, so within a group only names are replaced.
    subjects = tuple(
        noun
        for noun in s.split_frame.subjects
        if noun not in (s.subject, s.object) and (noun.group == "name" or noun.group != s.subject.group)
    )
    if not subjects or s.passive or s.subject_as_hypernym:
        return None
    subject = choose(rng, subjects)
    if s.subject_count and not subject.counter:
        return None
    return s._replace(subject=subject, honorific=s.honorific and subject.group == "elder")


def _negate(rng: Random, s: Statement) -> Statement | None:
    if s.negation:
        return s._replace(negation="")
    if s.subject_count or s.several or s.second_object or s.word(SUBJECT) == "누군가":
        return None  # 세 명이 안 왔다 does not exclude that three others came
    negations = ("안",) if s.passive else s.frame.negations
    # Drop manner, count and habit: the negation could be read as applying to them (천천히 먹지 않았다).
    time = None if s.time and s.time.habitual else s.time
    return s._replace(negation=choose(rng, negations), manner=None, object_count=0, time=time)


def _antonym(rng: Random, s: Statement) -> Statement | None:
    if s.negation or s.passive:
        return None
    opposite = OPPOSITE_MANNERS.get(s.manner.words[0]) if s.manner else None
    if opposite and MANNERS[opposite] in s.frame.manners:
        return s._replace(manner=MANNERS[opposite])
    # Habitual opposites can both be true: a window that is opened every morning is also closed every morning.
    frame = s.frame
    if not frame.opposites or (s.tense == "present" and not frame.is_state):
        return None
    return s._replace(opposite=not s.opposite, manner=None)  # 간신히 합격하다, but not 간신히 떨어지다


def _object(rng: Random, s: Statement) -> Statement | None:
    objects = tuple(noun for noun in s.split_frame.objects if noun not in (s.object, s.subject, s.second_object))
    if not objects or s.object_as_hypernym or s.passive:
        return None
    new_object = choose(rng, objects)
    if s.object_count and not new_object.counter:
        return None
    return s._replace(object=new_object)


def _object_neither(rng: Random, s: Statement) -> Statement | None:
    return _object(rng, s) if s.negation else None


def _object_instead(rng: Random, s: Statement) -> Statement | None:
    # 서울에 왔다 excludes 부산에 왔다: if one object excludes the others, only a negated statement is neutral.
    changed = _object(rng, s) if s.negation or s.frame.joinable else None
    return changed and _negate(rng, changed)


def _action(rng: Random, s: Statement) -> Statement | None:
    # Only in the past: someone who eats now does not draw now, but someone who ate may also have drawn.
    if s.tense != "past" or s.subject_count or s.subject_as_hypernym:
        return None
    action = sample_statement(rng, frames_with_subject(s.split_frame.split, s.subject), s.subject)
    if action.frame == s.frame:
        return None
    negation = choose(rng, action.frame.negations) if rng.random() < 0.5 else ""
    return action._replace(level=s.level, negation=negation)


def _topic(rng: Random, s: Statement) -> Statement | None:
    unrelated = sample_statement(rng, frames_for(s.split_frame.split))
    if unrelated.frame.topic == s.frame.topic or (s.place and s.place in (unrelated.place, unrelated.object)):
        return None
    shared_groups = {unrelated.subject.group, unrelated.object.group} & {s.subject.group, s.object.group}
    return None if shared_groups else unrelated


@dataclass(frozen=True, slots=True)
class Edit:
    """A row of the table in `kosbert.data.sample.grammar`; `label` is empty if it is not certain.

    Edits are drawn in proportion to their weight; those that rarely apply have a higher one.
    """

    source: str
    score: float
    change: Callable[[Random, Statement], Statement | None]
    label: str = ""
    weight: int = 1


EDITS = (
    Edit("particle", 4.9, _particle, "entailment"),
    Edit("word-order", 4.9, _word_order, "entailment"),
    Edit("numeral", 4.9, _numeral, "entailment", weight=4),
    Edit("speech-level", 4.8, _speech_level, "entailment"),
    Edit("honorific", 4.8, _honorific, "entailment", weight=4),
    Edit("negation-form", 4.8, _negation_form, "entailment", weight=4),
    Edit("synonym", 4.6, _synonym, "entailment"),
    Edit("voice", 4.5, _voice, "entailment", weight=4),
    Edit("mutual", 4.5, _mutual, "entailment", weight=4),
    Edit("ability", 4.0, _ability, "neutral", weight=4),
    Edit("hypernym", 3.8, generalize, "entailment"),
    Edit("hypernym", 3.8, _specialize, "neutral", weight=4),
    Edit("detail", 3.6, drop_detail, "entailment"),
    Edit("detail", 3.6, _add_detail, "neutral"),
    Edit("number", 3.5, _remove_count, "entailment"),
    Edit("number", 3.5, add_count, "neutral"),
    Edit("coordination", 3.2, _join_and, "neutral"),
    Edit("coordination", 3.2, _join_or, "entailment"),
    Edit("detail", 3.1, _change_detail),
    Edit("number", 2.8, _change_count, "contradiction", weight=4),
    Edit("swap", 2.4, _swap_excluded, "contradiction", weight=4),
    Edit("swap", 2.4, _swap_allowed, "neutral", weight=4),
    Edit("swap", 2.4, _swap_unclear, weight=4),
    Edit("subject", 2.2, _subject),
    Edit("negation", 2.0, _negate, "contradiction"),
    Edit("antonym", 1.7, _antonym, "contradiction", weight=4),
    Edit("object", 1.5, _object),
    Edit("object", 1.5, _object_neither, "neutral"),
    Edit("object", 1.2, _object_instead, "neutral"),
    Edit("action", 0.9, _action, "neutral"),
    Edit("topic", 0.2, _topic),
)
