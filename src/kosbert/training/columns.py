"""Rows become what a loss learns from: text columns and labels, checked before anything is trained."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from kosbert import data
from kosbert.data.readers import NLI_LABELS
from kosbert.data.records import LabeledPair, LabeledSentence, Record, ScoredPair, Triplet
from kosbert.errors import UsageError
from kosbert.losses import Needs

HIGHEST_SCORE = 5.0  # every STS set here is scored 0 to 5; the losses want 0 to 1


@dataclass(frozen=True)
class Examples:
    """Text columns of equal length, (columns, rows), and for some losses one label a row."""

    columns: tuple[tuple[str, ...], ...]
    labels: NDArray[Any] | None = None

    def __len__(self) -> int:
        return len(self.columns[0])

    def take(self, numbers: NDArray[np.integer[Any]]) -> "Examples":
        """Some of the rows, in the given order."""
        columns = tuple(tuple(column[number] for number in numbers) for column in self.columns)
        return Examples(columns, None if self.labels is None else self.labels[numbers])


def read_rows(
    references: Sequence[str], columns: dict[str, str] | None = None, folder: Path | None = None
) -> list[Record]:
    """The rows of data sets (`korsts-train`) and files (`my.tsv`), one after the other."""
    rows: list[Record] = []
    for reference in references:
        is_file = bool(Path(reference).suffix)  # no data set has a dot in its name
        rows += data.read_file(reference, columns) if is_file else data.load(reference, folder=folder)
    return rows


def examples(rows: Sequence[Record], needs: Needs | Literal["rows"], where: str) -> Examples:
    """Rows in the shape that a loss needs; rows of another kind are converted where that has one meaning."""
    if not rows:
        raise UsageError(f"{where} has no rows: name a data set that has some")
    try:
        made = _MAKERS[needs](rows)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None
    if made is None or not len(made):
        kinds = ", ".join(sorted({type(row).__name__ for row in rows}))
        raise UsageError(f"{where} has {kinds} rows, which give no {needs}: choose data or a loss that fit")
    return made


def _scored_pairs(rows: Sequence[Record]) -> Examples | None:
    pairs = [row for row in rows if isinstance(row, ScoredPair)]
    if len(pairs) < len(rows):
        return None
    scores = np.array([pair.score for pair in pairs], np.float32) / HIGHEST_SCORE
    if not (scores.min() >= 0 and scores.max() <= 1):  # in this form NaN is refused too
        raise UsageError(f"scores must lie between 0 and {HIGHEST_SCORE:g}: rescale the column")
    return Examples((tuple(p.sentence1 for p in pairs), tuple(p.sentence2 for p in pairs)), scores)


def _labeled_pairs(rows: Sequence[Record]) -> Examples | None:
    pairs = [row for row in rows if isinstance(row, LabeledPair)]
    if len(pairs) < len(rows):
        return None
    pairs = [pair for pair in pairs if pair.label != "-"]  # SNLI: the annotators reached no majority
    found = sorted({pair.label for pair in pairs})
    if not set(found) <= set(NLI_LABELS):
        raise UsageError(f"the labels are {', '.join(found)}: NLI needs {', '.join(NLI_LABELS)}")
    if len(found) == 1:
        raise UsageError(f"every row has the label {found[0]}: classification needs rows of two or more classes")
    labels = np.array([NLI_LABELS.index(pair.label) for pair in pairs], np.int64)
    return Examples((tuple(p.sentence1 for p in pairs), tuple(p.sentence2 for p in pairs)), labels)


def _triplets(rows: Sequence[Record]) -> Examples | None:
    triplets = [row for row in rows if isinstance(row, Triplet)]
    triplets += data.nli_triplets([row for row in rows if isinstance(row, LabeledPair)])
    if not triplets:
        return None
    return Examples(
        (
            tuple(each.anchor for each in triplets),
            tuple(each.positive for each in triplets),
            tuple(each.negative for each in triplets),
        )
    )


def _pairs(rows: Sequence[Record]) -> Examples | None:
    """Triplets where there are any; else neighbors in a group of paraphrases; else entailments."""
    triplets = _triplets(rows)
    if triplets is not None:
        return triplets
    groups: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        if isinstance(row, LabeledSentence):
            groups[row.label].append(row.text)
    pairs = [pair for texts in groups.values() for pair in pairwise(dict.fromkeys(texts))]
    pairs += data.nli_pairs([row for row in rows if isinstance(row, LabeledPair)])
    return Examples((tuple(first for first, _ in pairs), tuple(second for _, second in pairs))) if pairs else None


def _sentences(rows: Sequence[Record]) -> Examples:
    """Every distinct sentence once, whatever kind of row it stands in."""
    distinct = dict.fromkeys(text for row in rows for text in data.sentences_of(row) if text.strip())
    return Examples((tuple(distinct),))


def _rows(rows: Sequence[Record]) -> Examples | None:
    """Every row with its sentences, if all have equally many."""
    texts = dict.fromkeys(tuple(data.sentences_of(row)) for row in rows)
    columns = tuple(zip(*texts, strict=True)) if len({len(each) for each in texts}) == 1 else ()
    return Examples(columns) if columns else None


_MAKERS = {
    "scored pairs": _scored_pairs,
    "labeled pairs": _labeled_pairs,
    "triplets": _triplets,
    "pairs": _pairs,
    "sentences": _sentences,
    "vectors": _sentences,
    "rows": _rows,
}
