"""Mine a file: its most similar pairs, its duplicates, and a copy without them."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kosbert.data.sentences import read_sentences
from kosbert.model import load_any
from kosbert.progress import ProgressCallback
from kosbert.search.drop_rows import check_target, write_without
from kosbert.search.encoding import unit_vectors
from kosbert.search.mining import most_similar_pairs, near_duplicates
from kosbert.text import clean


@dataclass(frozen=True)
class MinedPair:
    """Two similar sentences of the file."""

    cosine: float
    lines: tuple[int, int]
    texts: tuple[str, str]


@dataclass(frozen=True)
class Duplicate:
    """A sentence that duplicates an earlier one, which is kept."""

    line: int
    text: str
    kept_line: int
    kept_text: str
    cosine: float


@dataclass(frozen=True)
class MiningReport:
    """Similar pairs and duplicates of a file.

    Args:
        sentences: number of sentences.
        exact_duplicates: sentences that are equal to an earlier one after normalization.
        threshold: cosine from which a sentence is a duplicate.
        duplicate_groups: number of kept sentences that have duplicates.
        pairs: the most similar pairs of different sentences, best first.
        duplicates: all duplicates, exact ones included.
        dedup_file: path of the copy without duplicates, "" without one.
    """

    sentences: int
    exact_duplicates: int
    threshold: float
    duplicate_groups: int
    pairs: list[MinedPair]
    duplicates: list[Duplicate]
    dedup_file: str

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary for JSON."""
        return asdict(self)


def mine(
    file: Path,
    *,
    k: int = 20,
    threshold: float = 0.95,
    dedup: Path | None = None,
    model: str = "builtin",
    text_column: str = "text",
    encoding: str = "",
    sheet: str = "",
    on_progress: ProgressCallback | None = None,
) -> MiningReport:
    """Find the most similar pairs of different sentences in a file, and its duplicates.

    Args:
        file: a .txt, .csv, .tsv, .json, .jsonl, .parquet or .xlsx file.
        k: number of pairs.
        threshold: cosine from which a sentence is a duplicate of an earlier one.
        dedup: where to write the file without duplicates, in the same format and encoding (.xlsx: as CSV).
        model: builtin, a directory, a Hugging Face name or a baseline.
        text_column: the column with the sentences.
        encoding: of the text; detected by default.
        sheet: of an .xlsx file; the first by default.
        on_progress: called with the progress of encoding and comparing.
    """
    if dedup:
        check_target(file, dedup)
    rows = read_sentences(file, text_column=text_column, encoding=encoding, sheet=sheet)
    first_row: dict[str, int] = {}  # of each distinct sentence
    for row, text in enumerate(rows.texts):
        first_row.setdefault(clean(text), row)
    distinct_rows = np.fromiter(first_row.values(), np.int64, len(first_row))
    vectors = unit_vectors(load_any(model), list(first_row), on_progress=on_progress)
    near = near_duplicates(vectors, threshold, on_progress=on_progress)
    duplicate_of = {int(distinct_rows[pair.second]): (int(distinct_rows[pair.first]), pair.cosine) for pair in near}
    duplicates = []
    for row, text in enumerate(rows.texts):
        kept = first_row[clean(text)]
        kept, cosine = duplicate_of.get(kept, (kept, 1.0))
        if kept != row:
            duplicates.append(Duplicate(rows.lines[row], text, rows.lines[kept], rows.texts[kept], cosine))
    if dedup:
        dropped = {duplicate.line for duplicate in duplicates}
        write_without(file, dedup, dropped, encoding=encoding, sheet=sheet)
    pairs = []
    for pair in most_similar_pairs(vectors, k, on_progress=on_progress):
        first, second = distinct_rows[pair.first], distinct_rows[pair.second]
        lines, texts = (rows.lines[first], rows.lines[second]), (rows.texts[first], rows.texts[second])
        pairs.append(MinedPair(pair.cosine, lines, texts))
    return MiningReport(
        sentences=len(rows.texts), exact_duplicates=len(rows.texts) - len(first_row), threshold=threshold,
        duplicate_groups=len({duplicate.kept_line for duplicate in duplicates}), pairs=pairs, duplicates=duplicates,
        dedup_file=str(dedup) if dedup else "",
    )  # fmt: skip
