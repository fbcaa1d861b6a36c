"""Convert rows to what a loss takes: text columns and labels, checked before training starts."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from kosbert.data.columns import Columns, Part, SentenceArray
from kosbert.data.nli import NLIColumns, TripletChoice
from kosbert.data.readers import NLI_LABELS
from kosbert.data.records import LabeledPair, LabeledSentence, Triplet
from kosbert.errors import UsageError
from kosbert.losses import RowType

MAX_SCORE = 5.0  # every STS set here is scored 0 to 5; the losses take 0 to 1

Numbers = NDArray[np.integer[Any]]


@dataclass(frozen=True)
class TrainColumns:
    """Text columns of equal length, and for some losses one label per row.

    Args:
        sentences: the sentences of the data; some may be in no row.
        numbers: sentence numbers, (rows,) per column.
        labels: (rows,) or (rows, …).
    """

    sentences: SentenceArray
    numbers: tuple[Numbers, ...]
    labels: NDArray[Any] | None = None

    @classmethod
    def from_texts(cls, texts: Sequence[Sequence[str]]) -> "TrainColumns":
        """Number the sentences of text columns."""
        sentences, numbers = SentenceArray.of(text for column in texts for text in column).distinct()
        return cls(sentences, tuple(np.split(numbers, len(texts))))

    def __len__(self) -> int:
        return len(self.numbers[0])

    @property
    def texts(self) -> tuple[tuple[str, ...], ...]:
        """The text columns, (columns, rows)."""
        return tuple(tuple(self.sentences.take(column)) for column in self.numbers)

    def select(self, rows: NDArray[np.integer[Any]]) -> "TrainColumns":
        """Return some of the rows, in the given order."""
        numbers = tuple(column[rows] for column in self.numbers)
        return TrainColumns(self.sentences, numbers, None if self.labels is None else self.labels[rows])

    def compact(self) -> "TrainColumns":
        """Return the same rows with only the sentences that occur in them, in order of appearance, column by column."""
        used, first = np.unique(np.concatenate(self.numbers), return_index=True)
        used = used[np.argsort(first)]
        new_numbers = np.zeros(len(self.sentences), np.int32)
        new_numbers[used] = np.arange(len(used))
        numbers = tuple(new_numbers[column] for column in self.numbers)
        return TrainColumns(self.sentences.take(used), numbers, self.labels)


@dataclass(frozen=True)
class NLIOptions:
    """How NLI rows become pairs and triplets; see `kosbert.data.nli_triplets`."""

    triplets: TripletChoice = "all"
    both_directions: bool = False
    seed: int = field(default=0, compare=False)


ALL_TRIPLETS = NLIOptions()


def to_columns(
    rows: Columns, row_type: RowType | Literal["rows"], where: str, nli: NLIOptions = ALL_TRIPLETS
) -> TrainColumns:
    """Convert rows to the row type of a loss.

    Args:
        rows: rows of any kind; other kinds are converted where the conversion is unambiguous.
        row_type: what the loss takes; "rows" for all sentences of each row as columns.
        where: stage and data, for error messages.
        nli: for NLI rows.
    """
    if not len(rows):
        raise UsageError(f"{where} has no rows: name a data set that has some")
    takes_nli = row_type in ("pairs", "triplets") and any(part.kind is LabeledPair for part in rows.parts)
    if nli != ALL_TRIPLETS and not takes_nli:
        raise UsageError(
            f"{where}: triplets and both_directions are for NLI rows and a loss on pairs or triplets: drop them"
        )
    try:
        columns = _CONVERTERS[row_type](rows, nli)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None
    if columns is None or not len(columns):
        kinds = ", ".join(sorted({part.kind.__name__ for part in rows.parts}))
        raise UsageError(f"{where} has {kinds} rows, which give no {row_type}: choose data and a loss that fit")
    return columns


def _joined(parts: Iterable[Part]) -> tuple[Numbers, ...]:
    """Return the text columns of parts of one kind, one part after the other."""
    return tuple(np.concatenate(columns) for columns in zip(*(part.texts for part in parts), strict=True))


def _scored_pairs(rows: Columns, _: NLIOptions) -> TrainColumns | None:
    scores = [part.scores for part in rows.parts if part.scores is not None]
    if len(scores) < len(rows.parts):
        return None
    values = np.concatenate(scores).astype(np.float32) / np.float32(MAX_SCORE)
    if not (values.min() >= 0 and values.max() <= 1):  # written this way, NaN fails too
        raise UsageError(f"scores must lie between 0 and {MAX_SCORE:g}: rescale the column")
    return TrainColumns(rows.sentences, _joined(rows.parts), values)


def _nli_columns(rows: Columns) -> NLIColumns:
    """Return the rows of all labeled pairs."""
    parts = [part for part in rows.parts if part.kind is LabeledPair]
    if not parts:
        empty = np.zeros(0, np.int32)
        return NLIColumns(empty, empty, empty)
    labels = []
    for part in parts:
        codes = [NLI_LABELS.index(name) if name in NLI_LABELS else -1 for name in part.label_names]
        labels.append(np.array(codes, np.int8)[part.labels])
    premises, hypotheses = _joined(parts)
    return NLIColumns(premises, hypotheses, np.concatenate(labels))


def _labeled_pairs(rows: Columns, _: NLIOptions) -> TrainColumns | None:
    if any(part.kind is not LabeledPair for part in rows.parts):
        return None
    names = {name for part in rows.parts for name in part.present_labels()}
    names.discard("-")  # SNLI: the annotators reached no majority
    if not names <= set(NLI_LABELS):
        raise UsageError(f"the labels are {', '.join(sorted(names))}: NLI needs {', '.join(NLI_LABELS)}")
    if len(names) == 1:
        raise UsageError(f"every row has the label {names.pop()}: classification needs rows of two or more classes")
    nli = _nli_columns(rows)
    labeled = np.flatnonzero(nli.labels >= 0)
    numbers = (nli.premises[labeled], nli.hypotheses[labeled])
    return TrainColumns(rows.sentences, numbers, nli.labels[labeled].astype(np.int64))


def _triplets(rows: Columns, nli: NLIOptions) -> TrainColumns | None:
    parts = [part for part in rows.parts if part.kind is Triplet]
    sentences, nli_columns = rows.sentences, _nli_columns(rows)
    if nli.triplets != "all" and (stripped := sentences.stripped()) is not sentences:  # as in the published scripts
        sentences, numbers = stripped.distinct()
        parts = [Part(part.kind, tuple(numbers[column] for column in part.texts)) for part in parts]
        nli_columns = NLIColumns(numbers[nli_columns.premises], numbers[nli_columns.hypotheses], nli_columns.labels)
    triplets = nli_columns.triplets(nli.triplets, both_directions=nli.both_directions, seed=nli.seed)
    columns = _joined([*parts, Part(Triplet, triplets)])
    return TrainColumns(sentences, columns) if len(columns[0]) else None


def _pairs(rows: Columns, nli: NLIOptions) -> TrainColumns | None:
    """Return triplets if there are any, else adjacent sentences of paraphrase groups and entailments."""
    triplets = _triplets(rows, nli)
    if triplets is not None or nli.triplets != "all":
        return triplets
    pairs = _nli_columns(rows).pairs(both_directions=nli.both_directions)
    columns = _joined([Part(LabeledPair, _paraphrases(rows)), Part(LabeledPair, pairs)])
    return TrainColumns(rows.sentences, columns) if len(columns[0]) else None


def _paraphrases(rows: Columns) -> tuple[Numbers, Numbers]:
    """Return the adjacent sentences of each paraphrase group, groups in order of appearance."""
    parts = [part for part in rows.parts if part.kind is LabeledSentence]
    codes: dict[str, int] = {}
    groups = [
        np.array([codes.setdefault(name, len(codes)) for name in part.label_names])[part.labels] for part in parts
    ]
    if not groups:
        return np.zeros(0, np.int32), np.zeros(0, np.int32)
    group, (text,) = np.concatenate(groups), _joined(parts)
    distinct = np.sort(np.unique(group * np.int64(len(rows.sentences)) + text, return_index=True)[1])
    first = np.zeros(len(codes), np.int64)
    first[group[::-1]] = np.arange(len(group))[::-1]  # of repeated indices, numpy keeps the last
    order = distinct[np.argsort(first[group[distinct]], kind="stable")]
    group, text = group[order], text[order]
    adjacent = np.flatnonzero(group[1:] == group[:-1])
    return text[adjacent], text[adjacent + 1]


def _sentences(rows: Columns, _: NLIOptions) -> TrainColumns:
    """Return every distinct sentence once, from rows of any kind."""
    numbers = np.concatenate([np.stack(part.texts, axis=1).ravel() for part in rows.parts])
    first = np.sort(np.unique(numbers, return_index=True)[1])
    visible = rows.sentences.stripped().characters() > 0
    distinct = numbers[first]
    return TrainColumns(rows.sentences, (distinct[visible[distinct]],))


def _rows(rows: Columns, _: NLIOptions) -> TrainColumns | None:
    """Return the sentences of each distinct row as columns, if all rows have the same number of sentences."""
    if len({len(part.texts) for part in rows.parts}) > 1:
        return None
    table = np.stack(_joined(rows.parts), axis=1)
    first = np.sort(np.unique(table, axis=0, return_index=True)[1])
    return TrainColumns(rows.sentences, tuple(np.ascontiguousarray(table[first].T)))


_CONVERTERS = {
    "scored pairs": _scored_pairs,
    "labeled pairs": _labeled_pairs,
    "triplets": _triplets,
    "pairs": _pairs,
    "sentences": _sentences,
    "vectors": _sentences,
    "rows": _rows,
}
