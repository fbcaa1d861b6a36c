"""Convert rows to what a loss takes: text columns and labels, checked before training starts."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from kosbert import data
from kosbert.data.nli import TripletChoice
from kosbert.data.readers import NLI_LABELS
from kosbert.data.records import LabeledPair, LabeledSentence, Record, ScoredPair, Triplet
from kosbert.errors import UsageError
from kosbert.losses import RowType

MAX_SCORE = 5.0  # every STS set here is scored 0 to 5; the losses take 0 to 1


@dataclass(frozen=True)
class TrainColumns:
    """Text columns of equal length, (columns, rows), and for some losses one label per row."""

    texts: tuple[tuple[str, ...], ...]
    labels: NDArray[Any] | None = None

    def __len__(self) -> int:
        return len(self.texts[0])

    def select(self, rows: NDArray[np.integer[Any]]) -> "TrainColumns":
        """Return some of the rows, in the given order."""
        texts = tuple(tuple(column[row] for row in rows) for column in self.texts)
        return TrainColumns(texts, None if self.labels is None else self.labels[rows])


@dataclass(frozen=True)
class NLIOptions:
    """How NLI rows become pairs and triplets; see `kosbert.data.nli_triplets`."""

    triplets: TripletChoice = "all"
    both_directions: bool = False
    seed: int = 0


def to_columns(
    rows: Sequence[Record],
    row_type: RowType | Literal["rows"],
    where: str,
    *,
    triplets: TripletChoice = "all",
    both_directions: bool = False,
    seed: int = 0,
) -> TrainColumns:
    """Convert rows to the row type of a loss.

    Args:
        rows: records of any kind; other kinds are converted where the conversion is unambiguous.
        row_type: what the loss takes; "rows" for all sentences of each row as columns.
        where: stage and data, for error messages.
        triplets: which triplets NLI rows give; see `kosbert.data.nli_triplets`.
        both_directions: whether NLI rows are also swapped; see there.
        seed: for random triplets.
    """
    if not rows:
        raise UsageError(f"{where} has no rows: name a data set that has some")
    if (triplets != "all" or both_directions) and (
        row_type not in ("pairs", "triplets") or not any(isinstance(row, LabeledPair) for row in rows)
    ):
        raise UsageError(
            f"{where}: triplets and both_directions are for NLI rows and a loss on pairs or triplets: drop them"
        )
    nli = NLIOptions(triplets, both_directions, seed)
    try:
        columns = _CONVERTERS[row_type](rows, nli)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None
    if columns is None or not len(columns):
        kinds = ", ".join(sorted({type(row).__name__ for row in rows}))
        raise UsageError(f"{where} has {kinds} rows, which give no {row_type}: choose data and a loss that fit")
    return columns


def _scored_pairs(rows: Sequence[Record], _: NLIOptions) -> TrainColumns | None:
    pairs = [row for row in rows if isinstance(row, ScoredPair)]
    if len(pairs) < len(rows):
        return None
    scores = np.array([pair.score for pair in pairs], np.float32) / MAX_SCORE
    if not (scores.min() >= 0 and scores.max() <= 1):  # written this way, NaN fails too
        raise UsageError(f"scores must lie between 0 and {MAX_SCORE:g}: rescale the column")
    return TrainColumns((tuple(pair.sentence1 for pair in pairs), tuple(pair.sentence2 for pair in pairs)), scores)


def _labeled_pairs(rows: Sequence[Record], _: NLIOptions) -> TrainColumns | None:
    pairs = [row for row in rows if isinstance(row, LabeledPair)]
    if len(pairs) < len(rows):
        return None
    pairs = [pair for pair in pairs if pair.label != "-"]  # SNLI: the annotators reached no majority
    names = sorted({pair.label for pair in pairs})
    if not set(names) <= set(NLI_LABELS):
        raise UsageError(f"the labels are {', '.join(names)}: NLI needs {', '.join(NLI_LABELS)}")
    if len(names) == 1:
        raise UsageError(f"every row has the label {names[0]}: classification needs rows of two or more classes")
    labels = np.array([NLI_LABELS.index(pair.label) for pair in pairs], np.int64)
    return TrainColumns((tuple(pair.sentence1 for pair in pairs), tuple(pair.sentence2 for pair in pairs)), labels)


def _triplets(rows: Sequence[Record], nli: NLIOptions) -> TrainColumns | None:
    triplets = [row for row in rows if isinstance(row, Triplet)]
    nli_rows = [row for row in rows if isinstance(row, LabeledPair)]
    triplets += data.nli_triplets(nli_rows, triplets=nli.triplets, both_directions=nli.both_directions, seed=nli.seed)
    if not triplets:
        return None
    anchors, positives = (tuple(getattr(row, name) for row in triplets) for name in ("anchor", "positive"))
    return TrainColumns((anchors, positives, tuple(row.negative for row in triplets)))


def _pairs(rows: Sequence[Record], nli: NLIOptions) -> TrainColumns | None:
    """Return triplets if there are any, else adjacent sentences of paraphrase groups and entailments."""
    triplets = _triplets(rows, nli)
    if triplets is not None or nli.triplets != "all":
        return triplets
    groups: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        if isinstance(row, LabeledSentence):
            groups[row.label].append(row.text)
    pairs = [pair for texts in groups.values() for pair in pairwise(dict.fromkeys(texts))]
    pairs += data.nli_pairs([row for row in rows if isinstance(row, LabeledPair)], both_directions=nli.both_directions)
    return TrainColumns((tuple(first for first, _ in pairs), tuple(second for _, second in pairs))) if pairs else None


def _sentences(rows: Sequence[Record], _: NLIOptions) -> TrainColumns:
    """Return every distinct sentence once, from rows of any kind."""
    distinct = dict.fromkeys(text for row in rows for text in data.sentences_of(row) if text.strip())
    return TrainColumns((tuple(distinct),))


def _rows(rows: Sequence[Record], _: NLIOptions) -> TrainColumns | None:
    """Return the sentences of each row as columns, if all rows have the same number of sentences."""
    distinct = dict.fromkeys(tuple(data.sentences_of(row)) for row in rows)
    columns = tuple(zip(*distinct, strict=True)) if len({len(texts) for texts in distinct}) == 1 else ()
    return TrainColumns(columns) if columns else None


_CONVERTERS = {
    "scored pairs": _scored_pairs,
    "labeled pairs": _labeled_pairs,
    "triplets": _triplets,
    "pairs": _pairs,
    "sentences": _sentences,
    "vectors": _sentences,
    "rows": _rows,
}
