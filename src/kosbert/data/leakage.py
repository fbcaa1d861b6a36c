"""Leakage between data sets: how much of a held-out set is already in another one.

Three levels, each of which includes the one before it:

- `exact`: the same string;
- `normalized`: the same once `kosbert.text.clean` has run and spacing, punctuation and case are gone;
- `near`: the Jaccard similarity of the two normalized texts' sets of character trigrams is at least `near`.

Counted are the distinct sentences and the distinct unordered pairs of the held-out set that have a match in the other
set. So a duplicate counts once, `count / total` is the share of the held-out set that leaked, and at level `exact` both
directions give the same count. A pair matches when one pair of the other set matches both of its sentences, in either
order. The search for near duplicates is exact, not approximate: see `TrigramIndex`.
"""

import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

import numpy as np

from kosbert.data.columns import Columns, Part
from kosbert.data.records import LabeledSentence, Record, sentences_of
from kosbert.data.trigrams import TrigramIndex, TrigramPrefilter, trigrams_of
from kosbert.errors import UsageError
from kosbert.progress import ProgressCallback, ProgressEvent
from kosbert.text import clean

Level = Literal["exact", "normalized", "near"]
Unit = Literal["sentence", "pair"]

_LEVELS: tuple[Level, ...] = ("near", "normalized", "exact")  # from weakest to strongest
_Grade = tuple[int, float]  # position in _LEVELS, similarity: a better match compares greater
_Best = tuple[_Grade, tuple[str, ...]]  # with the matching texts of the other set

_BLOCK = 32_768  # rows per lookup: about 200 MB of trigrams
_SHARD = 200_000  # held-out texts per index: building one takes about 500 MB


@dataclass(frozen=True, slots=True)
class Match:
    """A sentence (one text) or pair (two texts) of the held-out set with its best match in the other set.

    The texts of a pair are in the order of the held-out set; its similarity is that of the less similar side.
    """

    held_out: tuple[str, ...]
    rows: tuple[str, ...]
    similarity: float


@dataclass(frozen=True, slots=True)
class Overlap:
    """Number of the `total` distinct units of the held-out set that match at a level.

    The examples are matches that the stronger levels do not have.
    """

    level: Level
    unit: Unit
    count: int
    total: int
    examples: list[Match]


def overlap(
    rows: Iterable[Record],
    held_out: Iterable[Record],
    *,
    near: float = 0.8,
    examples: int = 5,
    total: int | None = None,
    on_progress: ProgressCallback | None = None,
) -> list[Overlap]:
    """Count how much of the held-out set is also in `rows`: three levels for sentences and three for pairs.

    `rows` is read once, block by block, and may be larger than memory; `held_out` is kept in memory. A triplet has two
    pairs: anchor and positive, anchor and negative. Rows of one sentence have none.

    Args:
        rows: the set to search, such as the training data.
        held_out: the set to look for, such as the test data.
        near: the similarity of a near-duplicate.
        examples: matches per level.
        total: the number of rows, for the progress bar.
        on_progress: called after every block of rows.

    >>> from kosbert.data.records import Sentence
    >>> overlaps = overlap([Sentence("비가 온다.")], [Sentence("비가  온다!"), Sentence("눈이 온다.")])
    >>> [(level.level, level.count, level.total) for level in overlaps if level.unit == "sentence"]
    [('exact', 0, 2), ('normalized', 1, 2), ('near', 1, 2)]
    """
    if not 0 < near <= 1:
        raise UsageError(f"near is a Jaccard similarity, not {near}: give a number above 0 and at most 1")
    if examples < 0:
        raise UsageError(f"{examples} examples are impossible: give 0 or more")
    texts, pairs = _distinct(held_out)
    keys = _normalize(texts)
    indexes = {start: TrigramIndex(keys[start : start + _SHARD], near) for start in range(0, len(keys), _SHARD)}
    prefilter = TrigramPrefilter(indexes.values(), near)
    partners: dict[int, list[int]] = defaultdict(list)
    for first, second in pairs:
        partners[first].append(second)

    best_sentence: dict[int, _Best] = {}
    best_pair: dict[tuple[int, int], _Best] = {}
    remaining, done = iter(rows), 0
    while block := list(islice(remaining, _BLOCK)):
        block_texts, block_pairs = _distinct(block)
        block_keys = _normalize(block_texts)
        candidates = prefilter.candidates(block_keys)
        trigrams = trigrams_of([block_keys[number] for number in candidates])
        grades: dict[int, dict[int, _Grade]] = defaultdict(dict)  # block number -> held-out number -> grade
        for start, index in indexes.items():
            for candidate, match, similarity in index.matches(*trigrams):
                row, target = candidates[candidate], start + match
                level = (block_keys[row] == keys[target]) + (block_texts[row] == texts[target])
                _improve(best_sentence, target, (level, similarity), (block_texts[row],))
                if block_pairs and pairs:
                    grades[row][target] = (level, similarity)
        for row1, row2 in block_pairs:
            if row1 not in grades or row2 not in grades:
                continue
            for left, right in ((row1, row2), (row2, row1)):
                for first, grade in grades[left].items():
                    for second in partners.get(first, ()):
                        if second in grades[right]:
                            weaker = min(grade, grades[right][second])
                            _improve(best_pair, (first, second), weaker, (block_texts[left], block_texts[right]))
        done += len(block)
        if on_progress:
            on_progress(ProgressEvent("comparing", done, total, "rows"))

    sentence_matches = [((texts[number],), best_sentence[number]) for number in sorted(best_sentence)]
    pair_matches = [((texts[pair[0]], texts[pair[1]]), best_pair[pair]) for pair in pairs if pair in best_pair]
    return [
        *_report("sentence", len(texts), sentence_matches, examples),
        *_report("pair", len(pairs), pair_matches, examples),
    ]


def _improve(best: dict[Any, _Best], unit: int | tuple[int, int], grade: _Grade, texts: tuple[str, ...]) -> None:
    if unit not in best or grade > best[unit][0]:
        best[unit] = (grade, texts)


def _report(unit: Unit, total: int, matches: Sequence[tuple[tuple[str, ...], _Best]], limit: int) -> Iterator[Overlap]:
    for position, level in reversed(list(enumerate(_LEVELS))):
        count = sum(grade[0] >= position for _, (grade, _) in matches)
        added = (Match(texts, row_texts, grade[1]) for texts, (grade, row_texts) in matches if grade[0] == position)
        yield Overlap(level, unit, count, total, list(islice(added, limit)))


def _distinct(rows: Iterable[Record]) -> tuple[list[str], list[tuple[int, int]]]:
    """Return the distinct sentences and the distinct unordered pairs of their indices, in order of appearance."""
    numbers: dict[str, int] = {}
    pairs: dict[tuple[int, int], None] = {}
    for row in rows:
        first, *rest = [numbers.setdefault(text, len(numbers)) for text in sentences_of(row)]
        for second in rest:
            if (second, first) not in pairs:
                pairs[first, second] = None
    return list(numbers), list(pairs)


class _Letters(dict[int, int | None]):
    """Table for `str.translate` that drops spacing and punctuation; filled as characters occur.

    Emoji and mathematical symbols stay, because they carry meaning; `~` is one only in Unicode's classification.
    """

    def __missing__(self, code: int) -> int | None:
        character = chr(code)
        dropped = unicodedata.category(character) in _DROPPED or character in "~∼"
        self[code] = None if dropped else code
        return self[code]


_DROPPED = {"Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Zs", "Zl", "Zp", "Cf", "Sk"}
_LETTERS = _Letters()


def exclude_overlap(rows: Columns, held_out: Columns, *, groups: bool = False) -> Columns:
    """Return the rows that share no sentence with the held-out set, compared at level `normalized`.

    With `groups`, sentences with the same label form a group, and a group with one shared sentence is dropped entirely.

    >>> from kosbert.data.records import LabeledSentence, Sentence
    >>> records = [LabeledSentence("비가 온다.", "1"), LabeledSentence("비 온다.", "1"), LabeledSentence("춥다.", "2")]
    >>> rows, held_out = Columns.from_records(records), Columns.from_records([Sentence("비가 온다!")])
    >>> list(exclude_overlap(rows, held_out).texts())
    ['비 온다.', '춥다.']
    >>> list(exclude_overlap(rows, held_out, groups=True).texts())
    ['춥다.']
    """
    keys = set(_normalize(list(held_out.sentences)))
    allowed = np.array([key not in keys for key in _normalize(rows.sentences)], np.bool_)
    clean_rows = rows.keep_sentences(allowed)
    if not groups:
        return clean_rows
    dropped: set[str] = set()
    for part in rows.parts:
        if part.kind is LabeledSentence:
            dropped |= part.select(~allowed[part.texts[0]]).present_labels()
    return Columns(rows.sentences, tuple(filter(len, (_without_labels(part, dropped) for part in clean_rows.parts))))


def _without_labels(part: Part, dropped: set[str]) -> Part:
    if part.kind is not LabeledSentence or part.labels is None:
        return part
    kept = np.array([name not in dropped for name in part.label_names], np.bool_)
    return part.select(kept[part.labels])


def _normalize(texts: Iterable[str]) -> list[str]:
    """Reduce texts to letters, digits and symbols; a text of only punctuation keeps it."""
    keys = []
    for text in texts:
        cleaned = clean(text).casefold()
        keys.append(cleaned.translate(_LETTERS) or cleaned.replace(" ", ""))
    return keys
