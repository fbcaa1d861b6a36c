"""Leakage between data sets: how much of a held-out set is already in another one.

Three levels, each of which includes the one before it:

- `exact`: the same string;
- `normalised`: the same once `kosbert.text.clean` has run and spacing, punctuation and case are gone;
- `near`: the Jaccard similarity of the two normalised texts' sets of character trigrams is at least `near`.

What is counted are the held-out set's distinct sentences, and its distinct pairs without regard to order, that have a
match in the other set. So a duplicate counts once, `count / total` is the share of the held-out set that leaked, and at
the level `exact` both directions give the same count. A pair matches when one pair of the other set matches both of its
sentences, in either order. Near duplicates are found exactly, not by sketches: see `_TrigramIndex`.
"""

import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kosbert.data.records import Record, sentences_of
from kosbert.errors import UsageError
from kosbert.text import clean

Level = Literal["exact", "normalised", "near"]
Unit = Literal["sentence", "pair"]
Integers = NDArray[np.integer[Any]]

_LEVELS: tuple[Level, ...] = ("near", "normalised", "exact")  # a grade holds a place in this list, so better is greater
_Grade = tuple[int, float]  # place, similarity
_Best = tuple[_Grade, tuple[str, ...]]  # with the texts of the other set

_BLOCK = 32_768  # rows looked up at once: about 200 MB of trigrams
_SHARD = 200_000  # held-out texts in one index: building it takes about 500 MB for as long as it lasts
_CANDIDATES = 4_000_000  # compared at once, so that sets made from one template fit into memory too


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
    [('exact', 0, 2), ('normalised', 1, 2), ('near', 1, 2)]
    """
    if not 0 < near <= 1:
        raise UsageError(f"near is a Jaccard similarity, not {near}: give a number above 0 and at most 1.")
    if examples < 0:
        raise UsageError(f"There cannot be {examples} examples: give 0 or more.")
    texts, pairs = _distinct(against)
    keys = _normalise(texts)
    indexes = {start: _TrigramIndex(keys[start : start + _SHARD], near) for start in range(0, len(keys), _SHARD)}
    vocabulary = _Vocabulary(indexes.values(), near)
    partners: dict[int, list[int]] = defaultdict(list)
    for first, second in pairs:
        partners[first].append(second)

    best_sentence: dict[int, _Best] = {}
    best_pair: dict[tuple[int, int], _Best] = {}
    remaining = iter(rows)
    while block := list(islice(remaining, _BLOCK)):
        block_texts, block_pairs = _distinct(block)
        block_keys = _normalise(block_texts)
        likely = vocabulary.covers(block_keys)
        trigrams = _trigrams([block_keys[number] for number in likely])
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


def _normalise(texts: list[str]) -> list[str]:
    """Reduce texts to their letters, digits and symbols; a text of punctuation alone keeps its own."""
    keys = []
    for text in texts:
        cleaned = clean(text).casefold()
        keys.append(cleaned.translate(_LETTERS) or cleaned.replace(" ", ""))
    return keys


class _Vocabulary:
    """A quick look at which texts can be near to any indexed one at all; most cannot, and their sets are never built.

    Most of the trigrams of a near text are indexed. Both sides of that are bounded without sorting: indexed trigrams are
    counted with repetitions, in a table of hashes where a collision only makes one more; and a text of n different
    characters has at least n - 2 different trigrams, because each trigram after the first brings one new character.
    """

    def __init__(self, indexes: Iterable["_TrigramIndex"], near: float) -> None:
        self.near = near
        self.table = np.zeros(1 << 24, dtype=np.bool_)
        for index in indexes:
            self.table[self._slots(index.vocabulary)] = True

    def covers(self, keys: list[str]) -> list[int]:
        """The numbers of the keys that may be near to an indexed one."""
        rows, trigrams = _pack(keys)
        covered = np.bincount(rows[self.table[self._slots(trigrams)]], minlength=len(keys))
        fewest = np.fromiter((len(set(key)) - 2 for key in keys), dtype=np.int64, count=len(keys))
        likely: list[int] = np.flatnonzero(covered >= _needed(fewest, self.near)).tolist()
        return likely

    def _slots(self, trigrams: Integers) -> Integers:
        slots: Integers = (trigrams.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(40)
        return slots


class _TrigramIndex:
    """All pairs of texts whose trigram sets have a Jaccard similarity of at least `near`, by prefix filtering.

    |a∩b| ≥ near·|a∪b| means |a∩b| ≥ near·|a|: all but `|a| - ceil(near·|a|)` of a's trigrams are in b. Order all
    trigrams by rarity. Then among the rarest `|a| - ceil(near·|a|) + 1` of a and those of b, at least one is shared
    (Chaudhuri, Ganti and Kaushik 2006; Bayardo, Ma and Srikant 2007). Joining on the rare ones only leaves few
    candidates, and each candidate's similarity is then computed from the whole sets.
    """

    def __init__(self, keys: list[str], near: float) -> None:
        self.near = near
        self.vocabulary, rows, columns = _trigrams(keys)
        order = np.argsort(np.bincount(columns), kind="stable")
        self.rank = np.empty_like(order)  # of each trigram of the vocabulary; 0 is the rarest
        self.rank[order] = np.arange(len(order))
        self.sizes = np.bincount(rows)
        self.matrix = self._matrix(rows, self.rank[columns], len(keys))  # (texts, vocabulary)
        self.rarest = self._rarest(self.matrix, self.sizes).T.tocsr()  # (vocabulary, texts)

    def matches(self, values: Integers, rows: Integers, columns: Integers) -> Iterator[tuple[int, int, float]]:
        """Yield the number of a key whose `_trigrams` these are, that of a near text of the index, their similarity."""
        sizes = np.bincount(rows)  # every key has a trigram, so this is as long as the keys
        places = np.minimum(np.searchsorted(self.vocabulary, values), len(self.vocabulary) - 1)
        known = (self.vocabulary[places] == values)[columns]
        # Most texts end here: too many of their trigrams are nowhere in the index.
        possible = np.bincount(rows[known], minlength=len(sizes)) >= _needed(sizes, self.near)
        kept = known & possible[rows]
        numbers = np.flatnonzero(possible)
        rows = (np.cumsum(possible) - 1)[rows[kept]]
        sizes = sizes[numbers]
        matrix = self._matrix(rows, self.rank[places[columns[kept]]], len(numbers))  # (possible, vocabulary)
        rarest = self._rarest(matrix, sizes)
        work = np.cumsum(
            rarest @ np.diff(self.rarest.indptr).astype(np.int64)
        )  # candidates up to and with each row, at most
        start = 0
        while start < len(numbers):
            done = work[start - 1] if start else 0
            stop = max(start + 1, int(np.searchsorted(work, done + _CANDIDATES, side="right")))
            found = (rarest[start:stop] @ self.rarest).tocoo()
            ours, theirs = found.row + start, found.col
            smaller, larger = np.minimum(sizes[ours], self.sizes[theirs]), np.maximum(sizes[ours], self.sizes[theirs])
            likely = smaller >= _needed(larger, self.near)
            ours, theirs = ours[likely], theirs[likely]
            shared = matrix[ours].multiply(self.matrix[theirs]).sum(axis=1)
            similarity = shared / (sizes[ours] + self.sizes[theirs] - shared)
            near = similarity >= self.near
            yield from zip(numbers[ours[near]].tolist(), theirs[near].tolist(), similarity[near].tolist(), strict=True)
            start = stop

    def _matrix(self, rows: Integers, ranks: Integers, count: int) -> Any:
        pointers = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=count))])
        shape = (count, len(self.vocabulary))
        matrix = sparse.csr_array((np.ones(len(rows), dtype=np.int32), ranks, pointers), shape=shape)
        matrix.sort_indices()  # the rarest first
        return matrix

    def _rarest(self, matrix: Any, sizes: Integers) -> Any:
        """Keep the prefix of each row. Trigrams outside the vocabulary are rarer than all: they use up part of it."""
        inside = np.diff(matrix.indptr)
        length = np.maximum(inside - _needed(sizes, self.near) + 1, 0)
        position = np.arange(matrix.nnz) - np.repeat(matrix.indptr[:-1], inside)
        kept = position < np.repeat(length, inside)
        pointers = np.concatenate([[0], np.cumsum(length)])
        return sparse.csr_array((matrix.data[kept], matrix.indices[kept], pointers), shape=matrix.shape)


def _needed(sizes: Integers, near: float) -> Integers:
    """The fewest trigrams that a near text must share with a text of so many; rounding errs to the safe side."""
    needed: Integers = np.maximum(np.ceil(near * sizes - 1e-6), 1).astype(np.int64)
    return needed


def _trigrams(keys: list[str]) -> tuple[Integers, Integers, Integers]:
    """The distinct trigrams in order, and each key's own set as (row, place in that list), by row."""
    rows, trigrams = _pack(keys)
    values, places = np.unique(trigrams, return_inverse=True)
    cells = np.sort(rows * len(values) + places)
    # A trigram that a key repeats counts once. (np.unique gives the same; since numpy 2.3 it hashes, 10 times slower.)
    cells = cells[np.diff(cells, prepend=-1) > 0]
    rows, places = np.divmod(cells, max(len(values), 1))
    return values, rows, places


def _pack(keys: list[str]) -> tuple[Integers, Integers]:
    """The trigrams of every key as (row, trigram), in the order of the text.

    A key of fewer than three characters is one trigram, filled up with a character that no key has: it is near only to
    itself. Three code points of 21 bits fit into one integer, so different trigrams are different integers.
    """
    padded = [key.ljust(3, "\n") for key in keys]
    lengths = np.fromiter(map(len, padded), dtype=np.int64, count=len(padded)) - 2  # trigrams a key
    codes = np.frombuffer("".join(padded).encode("utf-32-le"), dtype="<u4").astype(np.int64)
    rows = np.repeat(np.arange(len(padded)), lengths)
    starts = np.arange(len(rows)) + 2 * rows  # each key before this one has two more characters than trigrams
    return rows, codes[starts] << 42 | codes[starts + 1] << 21 | codes[starts + 2]
