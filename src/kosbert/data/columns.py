"""Rows as columns: the distinct sentences of data sets, and per row their numbers. Training uses these.

A million NLI rows as objects take a gigabyte and most of a minute; as columns 200 MB and a few seconds. Plain TSV and
text files are split by numpy without an object per cell. All other files, and a plain file with anything unusual in it
(a malformed row, a wrong label, a byte that is not UTF-8), are read by `Table`, which reports the file and the line.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby, islice
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from kosbert.data.loading import check_row_count, open_sources
from kosbert.data.plain_files import read_cells
from kosbert.data.readers import TableReader
from kosbert.data.records import LabeledPair, LabeledSentence, Record, ScoredPair, sentences_of
from kosbert.progress import ProgressCallback

Numbers = NDArray[np.integer[Any]]

_BLOCK = 50_000  # records converted at a time


class SentenceArray(Sequence[str]):
    """Sentences in one Arrow array, which takes a third of the memory of a list of strings.

    Args:
        array: a pyarrow.LargeStringArray.
        numbers: its elements to use, in this order; by default all.
    """

    def __init__(self, array: Any, numbers: Numbers | None = None) -> None:
        self._array, self._numbers = array, numbers

    @classmethod
    def of(cls, texts: Iterable[str]) -> "SentenceArray":
        """Return sentences as given, with duplicates."""
        return cls(_array(texts))

    @property
    def array(self) -> Any:
        """The sentences as an Arrow array."""
        return self._array if self._numbers is None else self._array.take(_indices(self._numbers))

    def __len__(self) -> int:
        return len(self._array) if self._numbers is None else len(self._numbers)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        numbers = np.arange(len(self))[index] if self._numbers is None else self._numbers[index]
        value: list[str] = self._array.take(_indices(np.atleast_1d(numbers))).to_pylist()
        return value if isinstance(index, slice) else value[0]

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self), _BLOCK):
            yield from self.take(np.arange(start, min(start + _BLOCK, len(self)))).array.to_pylist()

    def take(self, numbers: Numbers) -> "SentenceArray":
        """Return the sentences with these numbers, without a copy."""
        return SentenceArray(self._array, numbers if self._numbers is None else self._numbers[numbers])

    def characters(self) -> Numbers:
        """Return the number of characters of each sentence."""
        import pyarrow.compute as pc

        count: Numbers = pc.utf8_length(self.array).to_numpy(zero_copy_only=False)
        return count

    def stripped(self) -> "SentenceArray":
        """Return the sentences without white space at both ends, as `str.strip` does; itself if none has any."""
        import pyarrow.compute as pc

        array = self.array
        stripped = pc.utf8_trim_whitespace(array)
        return self if stripped.equals(array) else SentenceArray(stripped)

    def distinct(self) -> tuple["SentenceArray", Numbers]:
        """Return the distinct sentences in order of appearance, and for each sentence the number of its equal."""
        encoded = self.array.dictionary_encode()
        return SentenceArray(encoded.dictionary), encoded.indices.to_numpy(zero_copy_only=False)


@dataclass(frozen=True)
class Part:
    """Rows of one kind.

    Args:
        kind: the record type of the rows.
        texts: sentence numbers, (rows,) for each sentence of a row.
        labels: (rows,) numbers into `label_names`, for kinds with a label.
        label_names: the distinct labels in order of appearance.
        scores: (rows,) for scored pairs.
    """

    kind: type[Record]
    texts: tuple[Numbers, ...]
    labels: Numbers | None = None
    label_names: tuple[str, ...] = ()
    scores: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return len(self.texts[0])

    def present_labels(self) -> set[str]:
        """Return the labels of the rows; after a selection some of `label_names` may be missing."""
        return set() if self.labels is None else {self.label_names[code] for code in np.unique(self.labels)}

    def select(self, rows: NDArray[Any]) -> "Part":
        """Return some of the rows, given by numbers or a mask."""
        labels, scores = (None if values is None else values[rows] for values in (self.labels, self.scores))
        return replace(self, texts=tuple(column[rows] for column in self.texts), labels=labels, scores=scores)


@dataclass(frozen=True)
class Columns:
    """Rows of any kinds: one list of distinct sentences, and parts of rows of one kind.

    >>> from kosbert.data.records import Sentence
    >>> columns = Columns.from_records([Sentence("비"), Sentence("눈"), Sentence("비")])
    >>> list(columns.sentences), columns.parts[0].texts[0].tolist()
    (['비', '눈'], [0, 1, 0])
    """

    sentences: SentenceArray
    parts: tuple[Part, ...]

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    @classmethod
    def from_records(cls, records: Iterable[Record]) -> "Columns":
        """Convert records; consecutive ones of one kind become one part."""
        return _number(_blocks_of_records(records))

    def texts(self) -> Iterator[str]:
        """Yield every sentence of every row, in order."""
        for part in self.parts:
            for start in range(0, len(part), _BLOCK):
                rows = np.stack([column[start : start + _BLOCK] for column in part.texts], axis=1)
                yield from self.sentences.take(rows.ravel()).array.to_pylist()

    def scored_pairs(self) -> list[ScoredPair]:
        """Return the rows as records, without sub-corpus and votes; an empty list if there are rows of other kinds."""
        pairs = []
        for part in self.parts:
            if part.scores is None:
                return []
            texts = (self.sentences.take(column) for column in part.texts)
            pairs += [ScoredPair(*row) for row in zip(*texts, part.scores.tolist(), strict=True)]
        return pairs

    def keep_sentences(self, allowed: NDArray[np.bool_]) -> "Columns":
        """Return the rows that have only allowed sentences; (sentences,)."""
        masks = (np.logical_and.reduce([allowed[column] for column in part.texts]) for part in self.parts)
        parts = [part.select(mask) for part, mask in zip(self.parts, masks, strict=True)]
        return Columns(self.sentences, tuple(part for part in parts if len(part)))

    def fingerprint(self) -> dict[str, Any]:
        """Return the number of rows, and a SHA-256 of what determines training and scores: texts, labels, scores."""
        digest = hashlib.sha256()
        kinds = [(part.kind.__name__, len(part.texts), len(part), part.label_names) for part in self.parts]
        digest.update(json.dumps([len(self.sentences), kinds]).encode())
        array = self.sentences.array
        if array.offset or (len(array) and np.frombuffer(array.buffers()[1], np.int64, 1)[0]):
            array = array.take(_indices(np.arange(len(array))))  # a slice of a larger array
        if len(array):
            offsets = np.frombuffer(array.buffers()[1], np.int64, len(array) + 1)
            digest.update(np.diff(offsets).astype("<i8").tobytes())
            digest.update(memoryview(array.buffers()[2] or b"")[: offsets[-1]])
        for part in self.parts:
            for column in (*part.texts, *(() if part.labels is None else (part.labels,))):
                digest.update(column.astype("<i4").tobytes())
            if part.scores is not None:
                digest.update(part.scores.astype("<f8").tobytes())
        return {"rows": len(self), "sha256": digest.hexdigest()}


def read_columns(
    references: str | Sequence[str],
    *,
    columns: dict[str, str] | None = None,
    encoding: str = "",
    sheet: str = "",
    data_dir: Path | None = None,
    on_progress: ProgressCallback | None = None,
) -> Columns:
    """Read splits and user files as `read_records` does, into columns."""
    blocks: list[_Block] = []
    for source in open_sources(
        references, columns=columns, encoding=encoding, sheet=sheet, data_dir=data_dir, on_progress=on_progress
    ):
        plain = _plain_blocks(source.read, source.paths) if isinstance(source.read, TableReader) else None
        source_blocks = list(_blocks_of_records(source.read(source.paths))) if plain is None else plain
        check_row_count(source, sum(len(block.texts[0]) for block in source_blocks))
        blocks += source_blocks
    return _number(blocks)


@dataclass(frozen=True)
class _Block:
    """Rows of one kind. Texts and labels are Arrow dictionary arrays: a premise is in memory once, not three times."""

    kind: type[Record]
    texts: list[Any]
    labels: Any = None
    scores: NDArray[np.float64] | None = None


def _plain_blocks(read: TableReader, paths: Sequence[Path]) -> list[_Block] | None:
    """Read plain files; None if one of them needs `Table`."""
    if read.make.kind is ScoredPair:
        return None
    names = [*read.make.texts, *([read.make.label] if read.make.label else [])]
    blocks = []
    for path in paths:
        cells = read_cells(path, read.format, names)
        if cells is None:
            return None
        for arrays in cells:
            labels = arrays[-1] if read.make.label else None
            if labels is not None and read.make.labels:
                if not set(labels.dictionary.to_pylist()) <= set(read.make.labels):
                    return None
                if isinstance(read.make.labels, Mapping):
                    labels = _renamed(labels, read.make.labels)
            blocks.append(_Block(read.make.kind, arrays[: len(read.make.texts)], labels))
    return blocks


def _blocks_of_records(records: Iterable[Record]) -> Iterator[_Block]:
    for kind, rows in groupby(records, type):
        while block := list(islice(rows, _BLOCK)):
            texts = [_array(column).dictionary_encode() for column in zip(*map(sentences_of, block), strict=True)]
            names = [row.label for row in block if isinstance(row, LabeledPair | LabeledSentence)]
            scores = [row.score for row in block if isinstance(row, ScoredPair)]
            labels = _array(names).dictionary_encode() if names else None
            yield _Block(kind, texts, labels, np.array(scores, np.float64) if scores else None)


def _number(blocks: Iterable[_Block]) -> Columns:
    """Number the sentences of all blocks; consecutive blocks of one kind become one part."""
    import pyarrow as pa

    groups = [list(group) for _, group in groupby(blocks, lambda block: block.kind)]
    arrays = [[[block.texts[column] for block in group] for column in range(len(group[0].texts))] for group in groups]
    sentences, numbers = _join(chain.from_iterable(chain.from_iterable(arrays)))
    parts = []
    for group, columns in zip(groups, arrays, strict=True):
        texts = tuple(np.concatenate([next(numbers) for _ in column]) for column in columns)
        part = Part(group[0].kind, texts)
        if group[0].labels is not None:
            names, labels = _join(block.labels for block in group)
            part = replace(part, labels=np.concatenate(list(labels)), label_names=tuple(names.to_pylist()))
        if group[0].scores is not None:
            part = replace(part, scores=np.concatenate([block.scores for block in group if block.scores is not None]))
        parts.append(part)
    pa.default_memory_pool().release_unused()
    return Columns(SentenceArray(sentences), tuple(parts))


def _join(arrays: Iterable[Any]) -> tuple[Any, Iterator[Numbers]]:
    """Return the distinct strings of dictionary arrays in order of appearance, and for each array their numbers."""
    import pyarrow as pa

    arrays = list(arrays)
    dictionaries = pa.chunked_array([array.dictionary for array in arrays], pa.large_string())
    pa.default_memory_pool().release_unused()
    chunks = dictionaries.dictionary_encode().chunks
    distinct = chunks[-1].dictionary if chunks else pa.array([], pa.large_string())
    numbers = (
        chunk.indices.to_numpy(zero_copy_only=False)[array.indices.to_numpy(zero_copy_only=False)]
        for chunk, array in zip(chunks, arrays, strict=True)
    )
    return distinct, numbers


def _renamed(labels: Any, names: Mapping[str, str]) -> Any:
    import pyarrow as pa

    dictionary = _array(names[code] for code in labels.dictionary.to_pylist())
    return pa.DictionaryArray.from_arrays(labels.indices, dictionary)


def _array(texts: Iterable[str]) -> Any:
    import pyarrow as pa

    return pa.array(list(texts), pa.large_string())


def _indices(numbers: Numbers) -> Any:
    import pyarrow as pa

    return pa.array(np.ascontiguousarray(numbers))
