"""The sentences of a file, with ids and metadata: streamed for bulk encoding, or read into memory.

for row in SentenceStream(Path("reviews.csv.gz"), text_column="review"): ...
"""

import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kosbert.data.tables import Reject, Row, Table, check_columns, user_format
from kosbert.errors import KosbertError, UsageError
from kosbert.text import clean

logger = logging.getLogger(__name__)

_SURROGATES = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class SentenceRow:
    """A sentence, its line (counted from 1) and its id."""

    line: int
    id: str
    text: str


class SentenceStream:
    """The sentences of a file of any size; unusable rows are yielded as `Reject`.

    Args:
        path: a file that `Table` reads.
        text_column: the column with the sentences (in a .txt file every line is one).
        id_column: the column with their ids; the line number by default.
        encoding: of the text; detected by default.
        sheet: of an .xlsx file; the first by default.
    """

    def __init__(
        self, path: Path, *, text_column: str = "text", id_column: str = "", encoding: str = "", sheet: str = ""
    ) -> None:
        self.table = Table(path, user_format(path, encoding=encoding, sheet=sheet))
        if self.table.format.kind == "text":
            if id_column:
                raise UsageError("a text file has no columns and therefore no ids: omit --id-column")
            text_column = "text"
        self._text, self._id = text_column, id_column
        if columns := self.table.columns():  # an empty file has none
            check_columns(path, columns, {"--text-column": text_column, "--id-column": id_column})

    def __iter__(self) -> Iterator[SentenceRow | Reject]:
        for row in self.table.rows("reject", columns=[name for name in (self._text, self._id) if name]):
            yield row if isinstance(row, Reject) else self._sentence(row)

    def _sentence(self, row: Row) -> SentenceRow | Reject:
        text = row.fields.get(self._text)
        if not isinstance(text, str):
            missing = self._text not in row.fields
            return row.reject(f"no column {self._text!r}" if missing else f"{self._text!r} is not text")
        id = row.fields.get(self._id) if self._id else row.line
        if id is None:
            return row.reject(f"no id in {self._id!r}")
        if _SURROGATES.search(text) or _SURROGATES.search(str(id)):
            return row.reject(f"not {self.table.format.encoding.upper()}; another encoding needs --encoding")
        if not text.strip():
            return row.reject("empty")
        return SentenceRow(row.line, str(id), text)


@dataclass(frozen=True)
class Sentences:
    """The sentences of a file with their ids (if it has any), their other columns and their lines."""

    texts: list[str]
    ids: list[str] | None
    metadata: list[dict[str, Any]]
    lines: list[int]


def read_sentences(
    path: Path, *, text_column: str = "", id_column: str = "", encoding: str = "", sheet: str = ""
) -> Sentences:
    """Read the sentences of a file into memory, with all other columns as metadata.

    Rows without text are skipped with a warning; malformed rows are errors.

    Args:
        path: a file that `Table` reads.
        text_column: the column with the sentences; `text` by default.
        id_column: the column with their ids, if there is one.
        encoding: of the text; detected by default.
        sheet: of an .xlsx file; the first by default.
    """
    text_column = text_column or "text"
    sentences = Sentences([], [] if id_column else None, [], [])
    empty = 0
    for row in Table(path, user_format(path, encoding=encoding, sheet=sheet)).rows():
        if not sentences.lines and not empty:
            columns = {"--text-column": text_column, "--id-column": id_column}
            check_columns(path, map(str, row.fields), columns)
        text = "" if row.fields.get(text_column) is None else row.text(text_column)
        if not clean(text):
            empty += 1
            continue
        sentences.texts.append(text)
        if sentences.ids is not None:
            sentences.ids.append(row.text(id_column))
        cells = {str(name): cell for name, cell in row.fields.items() if name not in (text_column, id_column)}
        sentences.metadata.append(cells)
        sentences.lines.append(row.line)
    if not sentences.texts:
        reason = f"none of its {empty:,} rows has text in {text_column!r}" if empty else "it has no rows"
        raise KosbertError(f"{path} has no sentences: {reason}, give a file with at least one")
    if empty:
        logger.warning("%d rows of %s have no text and were skipped", empty, path)
    return sentences
