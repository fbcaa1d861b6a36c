"""A file as a stream of sentences, however large: text, CSV, TSV, JSON Lines or Parquet, plain, gzipped or zstandard.

A row that cannot be used becomes a `Reject` with its line, and the stream goes on: one bad row in a billion must not
cost a night. (`kosbert.data.readers` stops at the first bad row, because a data set with one is another data set.)
"""

import csv
import gzip
import io
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from kosbert.errors import KosbertError, UsageError, did_you_mean

KINDS = (".txt", ".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")
_PACKED = (".gz", ".zst")
_PARQUET_ROWS = 4_096
_BROKEN = re.compile("[\ud800-\udfff]")
_SHOWN = 200  # characters of a bad row that are kept


@dataclass(frozen=True, slots=True)
class Row:
    """A sentence, where it stood (counted from 1), and the name by which its vector will be found."""

    line: int
    id: str
    text: str


@dataclass(frozen=True, slots=True)
class Reject:
    """A row that could not be used, and why."""

    line: int
    reason: str
    content: str


class Records:
    """The rows of a file, one at a time; `position` of `size` says how far the reading is.

    Args:
        path: the file; its ending says what it is.
        text: the column with the sentences (not for .txt, where every line is one).
        id: the column with their names; the number of the line without it.
    """

    def __init__(self, path: Path, *, text: str = "text", id: str = "") -> None:
        suffixes = [suffix.lower() for suffix in path.suffixes]
        self._packing = suffixes.pop() if suffixes and suffixes[-1] in _PACKED else ""
        self._kind = suffixes[-1] if suffixes else ""
        if self._kind not in KINDS or (self._kind == ".parquet" and self._packing):
            raise UsageError(
                f"{path.name} has no known ending: use one of {', '.join(KINDS)}, all but Parquet also with .gz or .zst"
            )
        if not path.is_file():
            raise UsageError(f"there is no file {path}: give the path of one")
        if self._kind == ".txt" and id:
            raise UsageError("a text file has no columns, and so none with ids: leave --id-column out")
        self._path, self._text, self._id = path, text, id
        self.size = path.stat().st_size
        self._tell: Callable[[], int] = lambda: 0

    @property
    def position(self) -> int:
        """How much of `size` has been read; only for showing progress."""
        return min(self._tell(), self.size)

    def __iter__(self) -> Iterator[Row | Reject]:
        if self._kind == ".parquet":
            yield from self._parquet()
            return
        with self._path.open("rb") as raw:
            self._tell = raw.tell
            lines = _unpacked(raw, self._packing, self._path)
            match self._kind:
                case ".txt":
                    yield from self._plain(lines)
                case ".csv" | ".tsv":
                    yield from self._table(lines, "," if self._kind == ".csv" else "\t")
                case _:
                    yield from self._json(lines)
            self._tell = lambda: self.size

    def _plain(self, lines: Iterator[str]) -> Iterator[Row | Reject]:
        for number, line in enumerate(lines, start=1):
            text = line.rstrip("\r\n")
            yield self._row(number, text, str(number), text)

    def _json(self, lines: Iterator[str]) -> Iterator[Row | Reject]:
        for number, line in enumerate(lines, start=1):
            try:
                found = json.loads(line)
            except (ValueError, RecursionError):
                yield Reject(number, "no JSON", line[:_SHOWN].rstrip())
                continue
            yield self._fields(number, found if isinstance(found, dict) else {}, line)

    def _table(self, lines: Iterator[str], separator: str) -> Iterator[Row | Reject]:
        # A tab-separated file knows no quotes, here as in `kosbert.data.readers`: " is a letter of a sentence.
        quoted = separator != "\t"
        reader = csv.reader(lines, delimiter=separator, quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE)
        header = next(reader, [])
        self._check_columns(header)
        while True:
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                yield Reject(reader.line_num, f"no {self._kind[1:].upper()} ({error})", "")
                continue
            content = separator.join(cells)
            if len(cells) != len(header):
                yield Reject(reader.line_num, f"{len(cells)} cells where {len(header)} belong", content[:_SHOWN])
                continue
            yield self._fields(reader.line_num, dict(zip(header, cells, strict=True)), content)

    def _parquet(self) -> Iterator[Row | Reject]:
        import pyarrow
        from pyarrow import parquet

        try:
            with parquet.ParquetFile(self._path) as file:
                self._check_columns(file.schema_arrow.names)
                total, number = max(1, file.metadata.num_rows), 0
                self._tell = lambda: self.size * number // total
                columns = [self._text, *([self._id] if self._id else [])]
                for batch in file.iter_batches(_PARQUET_ROWS, columns=columns):
                    for found in batch.to_pylist():
                        number += 1
                        yield self._fields(number, found, str(found))
        except pyarrow.ArrowException as error:
            raise KosbertError(f"{self._path} is not a readable Parquet file ({error}): write it again") from error

    def _check_columns(self, present: list[str]) -> None:
        for option, column in (("--text-column", self._text), ("--id-column", self._id)):
            if column and column not in present:
                raise UsageError(
                    f"{self._path.name} has no column {column!r}: {did_you_mean(column, present)} Give it by {option}"
                )

    def _fields(self, number: int, found: dict[str, Any], content: str) -> Row | Reject:
        text, name = found.get(self._text), found.get(self._id) if self._id else number
        if not isinstance(text, str):
            reason = f"no column {self._text!r}" if self._text not in found else f"{self._text!r} is no text"
            return Reject(number, reason, content[:_SHOWN].rstrip())
        if name is None or (self._id and self._id not in found):
            return Reject(number, f"no id in {self._id!r}", content[:_SHOWN].rstrip())
        return self._row(number, text, str(name), content)

    def _row(self, number: int, text: str, name: str, content: str) -> Row | Reject:
        if _BROKEN.search(text) or _BROKEN.search(name):
            return Reject(number, "not UTF-8", content[:_SHOWN].encode("utf-8", "replace").decode().rstrip())
        if not text.strip():
            return Reject(number, "empty", content[:_SHOWN].rstrip())
        return Row(number, name, text)


def _unpacked(raw: IO[bytes], packing: str, path: Path) -> Iterator[str]:
    """Lines as text; bytes that are no UTF-8 become lone surrogates, which `_row` finds."""
    stream: Any = raw
    if packing == ".gz":
        stream = gzip.GzipFile(fileobj=raw)
    elif packing == ".zst":
        import pyarrow

        stream = io.BufferedReader(pyarrow.CompressedInputStream(pyarrow.PythonFile(raw, "r"), "zstd"))
    try:
        for number, line in enumerate(stream):
            text = line.decode("utf-8", "surrogateescape")
            yield text if number else text.removeprefix("\ufeff")
    except (OSError, EOFError) as error:
        raise KosbertError(f"{path} cannot be unpacked to its end ({error}): download or pack it again") from error
