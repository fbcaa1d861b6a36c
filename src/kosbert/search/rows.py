"""A user's file as sentences to index, group or mine: the text of each row, and all other columns as metadata."""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kosbert.data.user_files import PARSERS
from kosbert.errors import UsageError, did_you_mean
from kosbert.text import clean

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Rows:
    """The sentences of a file; `lines` says where each stood."""

    texts: list[str]
    ids: list[str] | None
    metadata: list[dict[str, Any]]
    lines: list[int]


def read_rows(path: Path, *, text: str = "", id: str = "") -> Rows:
    """Read a file; rows without any text are left out, with a warning.

    Args:
        path: a .txt, .csv, .tsv, .json, .jsonl or .parquet file; all but the last also as .gz.
        text: the column of the sentences; `text` without it.
        id: the column of the ids; none without it.
    """
    suffix = Path(path.name.removesuffix(".gz")).suffix.lower()
    if suffix not in PARSERS:
        raise UsageError(
            f"{path.name} has no known ending: use one of {', '.join(PARSERS)}, all but Parquet also as .gz"
        )
    column = text or "text"
    rows = Rows([], [] if id else None, [], [])
    empty = 0
    for row in PARSERS[suffix](path):
        if not rows.lines and not empty:
            _check_columns(path, set(map(str, row.fields)), column, id)
        sentence = "" if row.fields.get(column) is None else row.text(column)
        if not clean(sentence):
            empty += 1
            continue
        rows.texts.append(sentence)
        if rows.ids is not None:
            rows.ids.append(row.text(id))
        rows.metadata.append({str(name): cell for name, cell in row.fields.items() if name not in (column, id)})
        rows.lines.append(row.line)
    if empty:
        logger.warning("%d rows of %s have no text and were left out", empty, path)
    if not rows.texts:
        raise UsageError(f"{path} has no sentences: give a file with at least one")
    return rows


def _check_columns(path: Path, present: set[str], text: str, id: str) -> None:
    for option, column in (("--text-column", text), ("--id-column", id)):
        if column and column not in present:
            raise UsageError(
                f"{path.name} has no column {column!r}: {did_you_mean(column, present)} give it by {option}"
            )
