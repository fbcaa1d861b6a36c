"""Leakage between data sets: how much of a held-out set is already in another one.

Three levels, each of which includes the one before it:

- `exact`: the same string;
- `normalized`: the same once `kosbert.text.clean` has run and spacing, punctuation and case are gone;
- `near`: the Jaccard similarity of the two normalized texts' sets of character trigrams is at least `near`.

What is counted are the held-out set's distinct sentences, and its distinct pairs without regard to order, that have a
match in the other set. So a duplicate counts once, `count / total` is the share of the held-out set that leaked, and at
the level `exact` both directions give the same count. A pair matches when one pair of the other set matches both of its
sentences, in either order. Near duplicates are found exactly, not by sketches: see `TrigramIndex`.
"""

import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

from kosbert.data.records import LabeledSentence, Record, sentences_of
from kosbert.data.trigrams import TrigramIndex, Vocabulary, trigrams_of
from kosbert.errors import UsageError
from kosbert.text import clean

Level = Literal["exact", "normalized", "near"]
Unit = Literal["sentence", "pair"]

_LEVELS: tuple[Level, ...] = ("near", "normalized", "exact")  # a grade holds a place in this list, so better is greater
_Grade = tuple[int, float]  # place, similarity
_Best = tuple[_Grade, tuple[str, ...]]  # with the texts of the other set

_BLOCK = 32_768  # rows looked up at once: about 200 MB of trigrams
_SHARD = 200_000  # held-out texts in one index: building it takes about 500 MB for as long as it lasts


@dataclass(frozen=True, slots=True)
class Match:
    """A sentence (one text) or pair (two texts) of the held-out set beside its best match in the other set.

    The texts of a pair stand in the held-out set's order, and its similarity is that of its less similar side.
    """

    against: tuple[str, ...]
    rows: tuple[str, ...]
    similarity: float


@dataclass(frozen=True, slots=True)
class Overlap:
    """How many of the held-out set's `total` distinct units match at a level; the examples are what the level adds."""

    level: Level
    unit: Unit
    count: int
    total: int
    examples: list[Match]


def overlap(
    rows: Iterable[Record], against: Iterable[Record], *, near: float = 0.8, examples: int = 5
) -> list[Overlap]:
    """Count what of `against` (the held-out set) is also in `rows`: six overlaps, three levels by two units.

    `rows` is read once, block by block, and may be larger than memory; `against` is held in memory. A triplet has two
    pairs: anchor and positive, anchor and negative. Rows of one sentence have none.

    >>> from kosbert.data.records import Sentence
    >>> found = overlap([Sentence("비가 온다.")], [Sentence("비가  온다!"), Sentence("눈이 온다.")])
    >>> [(one.level, one.count, one.total) for one in found if one.unit == "sentence"]
    [('exact', 0, 2), ('normalized', 1, 2), ('near', 1, 2)]
    """
    if not 0 < near <= 1:
        raise UsageError(f"near is a Jaccard similarity, not {near}: give a number above 0 and at most 1.")
    if examples < 0:
        raise UsageError(f"There cannot be {examples} examples: give 0 or more.")
    texts, pairs = _distinct(against)
    keys = _normalize(texts)
    indexes = {start: TrigramIndex(keys[start : start + _SHARD], near) for start in range(0, len(keys), _SHARD)}
    vocabulary = Vocabulary(indexes.values(), near)
    partners: dict[int, list[int]] = defaultdict(list)
    for first, second in pairs:
        partners[first].append(second)

    best_sentence: dict[int, _Best] = {}
    best_pair: dict[tuple[int, int], _Best] = {}
    remaining = iter(rows)
    while block := list(islice(remaining, _BLOCK)):
        block_texts, block_pairs = _distinct(block)
        block_keys = _normalize(block_texts)
        likely = vocabulary.covers(block_keys)
        trigrams = trigrams_of([block_keys[number] for number in likely])
        grades: dict[int, dict[int, _Grade]] = defaultdict(dict)  # number in the block → number in against → grade
        for start, index in indexes.items():
            for our_place, their_place, similarity in index.matches(*trigrams):
                ours, theirs = likely[our_place], start + their_place
                place = (block_keys[ours] == keys[theirs]) + (block_texts[ours] == texts[theirs])
                _improve(best_sentence, theirs, (place, similarity), (block_texts[ours],))
                if block_pairs and pairs:
                    grades[ours][theirs] = (place, similarity)
        for one, other in block_pairs:
            if one not in grades or other not in grades:
                continue
            for left, right in ((one, other), (other, one)):
                for first, grade in grades[left].items():
                    for second in partners.get(first, ()):
                        if second in grades[right]:
                            worse = min(grade, grades[right][second])
                            _improve(best_pair, (first, second), worse, (block_texts[left], block_texts[right]))

    sentence_matches = [((texts[number],), best_sentence[number]) for number in sorted(best_sentence)]
    pair_matches = [((texts[pair[0]], texts[pair[1]]), best_pair[pair]) for pair in pairs if pair in best_pair]
    return [
        *_report("sentence", len(texts), sentence_matches, examples),
        *_report("pair", len(pairs), pair_matches, examples),
    ]


def _improve(best: dict[Any, _Best], unit: int | tuple[int, int], grade: _Grade, texts: tuple[str, ...]) -> None:
    if unit not in best or grade > best[unit][0]:
        best[unit] = (grade, texts)


def _report(unit: Unit, total: int, matches: Sequence[tuple[tuple[str, ...], _Best]], most: int) -> Iterator[Overlap]:
    for place, level in reversed(list(enumerate(_LEVELS))):
        count = sum(grade[0] >= place for _, (grade, _) in matches)
        added = (Match(texts, others, grade[1]) for texts, (grade, others) in matches if grade[0] == place)
        yield Overlap(level, unit, count, total, list(islice(added, most)))


def _distinct(rows: Iterable[Record]) -> tuple[list[str], list[tuple[int, int]]]:
    """List the distinct sentences, and the distinct unordered pairs of their numbers, as they first appear."""
    numbers: dict[str, int] = {}
    pairs: dict[tuple[int, int], None] = {}
    for row in rows:
        first, *others = [numbers.setdefault(text, len(numbers)) for text in sentences_of(row)]
        for other in others:
            if (other, first) not in pairs:
                pairs[first, other] = None
    return list(numbers), list(pairs)


class _Letters(dict[int, int | None]):
    """A table for `str.translate` that drops spacing and punctuation, and learns each character when it first sees it.

    Emoji and mathematical signs stay, because they carry meaning; `~` is one of those signs only by name.
    """

    def __missing__(self, code: int) -> int | None:
        character = chr(code)
        dropped = unicodedata.category(character) in _DROPPED or character in "~∼"
        self[code] = None if dropped else code
        return self[code]


_DROPPED = {"Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Zs", "Zl", "Zp", "Cf", "Sk"}
_LETTERS = _Letters()


def without(rows: Iterable[Record], held_out: Iterable[Record], *, groups: bool = False) -> list[Record]:
    """The rows that have no sentence of the held-out set, compared at the level `normalized`.

    With `groups`, sentences of one label are one group, and a group with such a sentence goes as a whole.

    >>> from kosbert.data.records import LabeledSentence, Sentence
    >>> rows = [LabeledSentence("비가 온다.", "1"), LabeledSentence("비 온다.", "1"), LabeledSentence("춥다.", "2")]
    >>> [row.text for row in without(rows, [Sentence("비가 온다!")])]
    ['비 온다.', '춥다.']
    >>> [row.text for row in without(rows, [Sentence("비가 온다!")], groups=True)]
    ['춥다.']
    """
    keys = set(_normalize([text for row in held_out for text in sentences_of(row)]))
    rows = list(rows)
    clean_rows = [row for row in rows if keys.isdisjoint(_normalize(list(sentences_of(row))))]
    if not groups:
        return clean_rows
    kept, lost = set(map(id, clean_rows)), set()
    for row in rows:
        if isinstance(row, LabeledSentence) and id(row) not in kept:
            lost.add(row.label)
    return [row for row in clean_rows if not (isinstance(row, LabeledSentence) and row.label in lost)]


def _normalize(texts: list[str]) -> list[str]:
    """Reduce texts to their letters, digits and symbols; a text of punctuation alone keeps its own."""
    keys = []
    for text in texts:
        cleaned = clean(text).casefold()
        keys.append(cleaned.translate(_LETTERS) or cleaned.replace(" ", ""))
    return keys
