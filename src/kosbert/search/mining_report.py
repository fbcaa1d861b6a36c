"""What `kosbert mine` reports of a file."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kosbert.model import load_any
from kosbert.search.drop_rows import check_target, write_without
from kosbert.search.encoding import unit_vectors
from kosbert.search.mining import most_similar, near_duplicates
from kosbert.search.rows import read_rows
from kosbert.text import clean


@dataclass(frozen=True)
class MinedPair:
    """Two different sentences of the file."""

    cosine: float
    lines: tuple[int, int]
    texts: tuple[str, str]


@dataclass(frozen=True)
class Dropped:
    """A sentence that repeats one that is kept."""

    line: int
    text: str
    kept_line: int
    kept_text: str
    cosine: float


@dataclass(frozen=True)
class Mined:
    """The pairs, what repeats what, and where the rest was written."""

    sentences: int
    equal: int
    threshold: float
    groups: int
    pairs: list[MinedPair]
    dropped: list[Dropped]
    written: str

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def mine(
    file: Path,
    *,
    k: int = 20,
    threshold: float = 0.95,
    dedup: Path | None = None,
    model: str = "builtin",
    text_column: str = "text",
    progress: bool = False,
) -> Mined:
    """Find the most similar pairs of a file and what repeats; pairs are of different sentences, equal ones only count.

    Args:
        file: any that `read_rows` reads.
        k: how many pairs.
        threshold: cosine from which a sentence repeats an earlier one.
        dedup: where to write the file without what repeats; the same format.
        model: what encodes.
        text_column: the column of the sentences.
        progress: show a progress bar on standard error.
    """
    if dedup:
        check_target(file, dedup)
    rows = read_rows(file, text=text_column)
    first: dict[str, int] = {}
    for place, text in enumerate(rows.texts):
        first.setdefault(clean(text), place)
    places = np.fromiter(first.values(), np.int64, len(first))  # of each different sentence, where it stands first
    vectors = unit_vectors(load_any(model), list(first), progress=progress)
    repeated = near_duplicates(vectors, threshold)
    stands_for = {int(places[pair.right]): (int(places[pair.left]), pair.cosine) for pair in repeated}
    dropped = []
    for place, text in enumerate(rows.texts):
        kept, cosine = first[clean(text)], 1.0
        kept, cosine = stands_for.get(kept, (kept, cosine))
        if kept != place:
            dropped.append(Dropped(rows.lines[place], text, rows.lines[kept], rows.texts[kept], cosine))
    if dedup:
        write_without(file, dedup, {each.line for each in dropped})
    pairs = [
        MinedPair(
            pair.cosine,
            (rows.lines[places[pair.left]], rows.lines[places[pair.right]]),
            (rows.texts[places[pair.left]], rows.texts[places[pair.right]]),
        )
        for pair in most_similar(vectors, k)
    ]
    kept_lines = {each.kept_line for each in dropped}
    return Mined(
        len(rows.texts), len(rows.texts) - len(first), threshold, len(kept_lines), pairs, dropped,
        str(dedup) if dedup else "",
    )  # fmt: skip
