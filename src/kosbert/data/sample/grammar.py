"""The sample set: NLI and STS pairs written by a small Korean grammar of our own, labeled by construction.

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
| swap          | 2.4      | contradiction | who did it to whom; neutral where the favor may have been returned      |
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

The splits never share a sentence: see `kosbert.data.sample.vocabulary`. The same call always gives the same rows, and a
shorter call the first rows of a longer one.
"""

from collections.abc import Iterable
from random import Random
from typing import NamedTuple

from kosbert.data.records import LabeledPair, ScoredPair
from kosbert.data.sample.edits import EDITS, Edit, drop_detail
from kosbert.data.sample.hangul import attach
from kosbert.data.sample.statements import Statement, invent, pick, write
from kosbert.data.sample.vocabulary import SPLITS, Hand, world
from kosbert.errors import UsageError, did_you_mean

__all__ = ["LARGEST", "SPLITS", "attach", "generate_nli", "generate_sts"]

# Far below the number of sentences that the grammar can say, so that finding new ones stays quick.
LARGEST = {"train": 300_000, "dev": 30_000, "test": 30_000}


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


def generate_nli(split: str, size: int, *, seed: int = 0) -> list[LabeledPair]:
    """Write `size` different pairs of premise and hypothesis; `source` names what changed.

    Every premise comes with an entailment, a neutral and a contradiction, in this order; the last may be cut short.

    >>> [row.label for row in generate_nli("train", 4)]
    ['entailment', 'neutral', 'contradiction', 'entailment']
    """
    _check(split, size)
    rng = Random(f"kosbert nli {split} {seed}")
    rows: list[LabeledPair] = []
    seen: set[str] = set()
    while len(rows) < size:
        triple = _labeled(rng, world(split))
        if triple and triple[0].sentence1 not in seen:
            seen.add(triple[0].sentence1)
            rows.extend(triple)
    return rows[:size]


def _check(split: str, size: int) -> None:
    if split not in SPLITS:
        raise UsageError(f"The sample set has no split {split!r}; {did_you_mean(split, SPLITS)}")
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
    statement = invent(rng, hands)
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


def _labeled(rng: Random, hands: tuple[Hand, ...]) -> list[LabeledPair] | None:
    statement = invent(rng, hands)
    premise = Draft(statement, write(statement))
    rows = []
    for label, edits in _BY_LABEL.items():
        start = premise
        # What the shorter premise entails or excludes, the longer one does, too.
        if label != "neutral" and rng.random() < 0.25 and (shorter := drop_detail(rng, statement)):
            start = Draft(shorter, write(shorter), "detail", 3.6)
        hypothesis = _revise(rng, start, edits)
        if hypothesis is None:
            return None
        if rng.random() < 0.4:
            hypothesis = _revise(rng, hypothesis, _REWORDINGS) or hypothesis
        rows.append(LabeledPair(premise.text, hypothesis.text, label, hypothesis.source))
    different = {premise.text, *(row.sentence2 for row in rows)}
    return rows if len(different) == 4 else None
