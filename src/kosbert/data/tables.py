"""The one table reader: text, CSV, TSV, JSON, JSON Lines and Parquet, plain or compressed with gzip or zstandard.

    for row in Table(Path("reviews.csv.gz")).rows():
        print(row.line, row.text("review"), row.number("stars"))

The file ending decides the format; data sets with their own layout pass a `TableFormat`. Rows are streamed in constant
memory (except .json, which is one document). A malformed row is an error with file and line, or with
`on_error="reject"` a `Reject` between the rows: one bad row in a billion must not stop a job that runs all night.
"""

import csv
import gzip
import io
import json
import logging
import math
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal, cast, overload

from kosbert.errors import KosbertError, UsageError, did_you_mean
from kosbert.text import clean

logger = logging.getLogger(__name__)

COMPRESSIONS = (".gz", ".zst")
_PARQUET_BATCH = 4_096  # rows
_MAX_CONTENT = 200  # characters of a rejected row that are kept
_SURROGATES = re.compile("[\ud800-\udfff]")

OnError = Literal["raise", "reject"]


@dataclass(frozen=True)
class TableFormat:
    """How a file is split into rows.

    Args:
        kind: text (one sentence per line), delimited, jsonl (one object per line), json (a list of objects) or parquet.
        delimiter: between the cells of a delimited file.
        quoting: whether double quotes enclose cells (RFC 4180). TSV files have none: with csv's default quoting,
            KorSTS loses 46 train and 29 dev rows.
        header: the column names of a file without a header line.
        allow_extra_cells: accept rows with more cells than columns (STS benchmark: license text on some lines).
        encoding: of text files; UTF-8 may begin with a byte order mark.
    """

    kind: Literal["text", "delimited", "jsonl", "json", "parquet"]
    delimiter: str = ""
    quoting: bool = False
    header: tuple[str, ...] = ()
    allow_extra_cells: bool = False
    encoding: str = "utf-8"


TEXT = TableFormat("text")
CSV = TableFormat("delimited", ",", quoting=True)
TSV = TableFormat("delimited", "\t")
JSON = TableFormat("json")
JSONL = TableFormat("jsonl")
PARQUET = TableFormat("parquet")

FORMATS = {
    ".txt": TEXT,
    ".csv": CSV,
    ".tsv": TSV,
    ".json": JSON,
    ".jsonl": JSONL,
    ".ndjson": JSONL,
    ".parquet": PARQUET,
}
"""Format by file ending; all but Parquet also with .gz or .zst."""


def table_format(path: Path) -> TableFormat:
    """Return the format that a file name stands for."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    compressed = bool(suffixes) and suffixes[-1] in COMPRESSIONS
    suffix = suffixes[-2:-1] if compressed else suffixes[-1:]
    format = FORMATS.get(suffix[0]) if suffix else None
    if format is None or (compressed and format is PARQUET):
        raise UsageError(
            f"{path.name} has no known ending: use one of {', '.join(FORMATS)}, all but Parquet also with .gz or .zst"
        )
    return format


@dataclass(frozen=True, slots=True)
class Row:
    """The named cells of one row and its line (counted from 1; for JSON and Parquet the number of the object)."""

    fields: Mapping[str, Any]
    path: Path
    line: int
    raw: str | None = None

    def get(self, name: str) -> Any:
        """Return a cell by column name; dots go into nested objects (`labels.real-label`)."""
        if name in self.fields:
            return self.fields[name]
        value: Any = self.fields
        for key in name.split("."):
            if not isinstance(value, Mapping) or key not in value:
                raise self.error(f"there is no field {name!r}; {did_you_mean(name, map(str, self.fields))}")
            value = value[key]
        return value

    def text(self, name: str) -> str:
        """Return a cell as a string; numbers are converted, a missing value or an object is an error."""
        value = self.get(name)
        if value is None or isinstance(value, Mapping | list):
            raise self.error(f"field {name!r} is {value!r} where text is expected")
        return str(value)

    def number(self, name: str) -> float:
        """Return a cell as a finite number."""
        value = self.get(name)
        try:
            number = float(value)
        except (TypeError, ValueError):
            raise self.error(f"field {name!r} is {value!r} where a number is expected") from None
        if not math.isfinite(number):
            raise self.error(f"field {name!r} is {value!r} where a finite number is expected")
        return number

    def error(self, reason: str) -> KosbertError:
        """Return an error that names the file and the line."""
        return KosbertError(f"{self.path}, line {self.line}: {reason}")

    def reject(self, reason: str) -> "Reject":
        """Return this row as a reject."""
        return _reject(self.line, reason, str(dict(self.fields)) if self.raw is None else self.raw)


@dataclass(frozen=True, slots=True)
class Reject:
    """A row that cannot be used: its line, the reason and the beginning of its content."""

    line: int
    reason: str
    content: str


def _reject(line: int, reason: str, content: str) -> Reject:
    return Reject(line, reason, content[:_MAX_CONTENT].encode("utf-8", "replace").decode().rstrip())


class Table:
    """A file of rows.

    Args:
        path: the file.
        format: how to read it; the file ending decides by default.
    """

    def __init__(self, path: Path, format: TableFormat | None = None) -> None:
        self.path = path
        self.format = format or table_format(path)
        if not path.is_file():
            raise UsageError(f"there is no file {path}: check the path")
        self.size = path.stat().st_size
        self._tell: Callable[[], int] = lambda: 0

    @property
    def position(self) -> int:
        """Bytes of `size` that have been read, for progress bars (for Parquet estimated from the rows)."""
        return min(self._tell(), self.size)

    def columns(self) -> list[str] | None:
        """Return the column names; None for JSON, where every object has its own."""
        match self.format.kind:
            case "text":
                return ["text"]
            case "delimited":
                return list(self.format.header) or self._header_line()
            case "parquet":
                with self._parquet_file() as file:
                    return list(file.schema_arrow.names)
        return None

    def _header_line(self) -> list[str]:
        cells = (cells for _, cells in self._cells("reject"))
        header = next((names for names in cells if isinstance(names, list) and names), [])
        self._tell = lambda: 0
        return header

    @overload
    def rows(self, on_error: Literal["raise"] = "raise", columns: Sequence[str] = ()) -> Iterator[Row]: ...
    @overload
    def rows(self, on_error: Literal["reject"], columns: Sequence[str] = ()) -> Iterator[Row | Reject]: ...
    def rows(self, on_error: OnError = "raise", columns: Sequence[str] = ()) -> Iterator[Row | Reject]:
        """Yield the rows in order.

        Args:
            on_error: "raise" stops at a malformed row with an error that names file and line. "reject" yields a
                `Reject` in its place; bytes that cannot be decoded become lone surrogates (see `SentenceStream`).
            columns: read only these, where the format allows it (Parquet).
        """
        parsers = {
            "text": self._text,
            "delimited": self._delimited,
            "jsonl": self._jsonl,
            "json": self._json,
        }
        kind = self.format.kind
        for row in self._parquet(columns) if kind == "parquet" else parsers[kind](on_error):
            if on_error == "raise" and isinstance(row, Reject):
                raise KosbertError(f"{self.path}, line {row.line}: {row.reason}")
            yield row

    def lines(self, on_error: OnError = "raise") -> Iterator[tuple[int, str]]:
        """Yield the numbered lines, split only at line feeds.

        `str.splitlines` also splits at U+0085 and U+2028, which occur inside sentences of the MR and SUBJ files.
        """
        encoding = self.format.encoding
        with _open(self.path) as (file, stream):
            self._tell = file.tell
            for number, line in enumerate(stream, start=1):
                try:
                    text = line.decode(encoding, "strict" if on_error == "raise" else "surrogateescape")
                except UnicodeDecodeError as error:
                    reason = f"not {encoding} ({error.reason} at byte {error.start})"
                    raise KosbertError(f"{self.path}, line {number}: {reason}") from None
                text = text.removeprefix("\ufeff") if number == 1 else text
                yield number, text.removesuffix("\n").removesuffix("\r")
        self._tell = lambda: self.size

    def _text(self, on_error: OnError) -> Iterator[Row | Reject]:
        for number, text in self.lines(on_error):
            yield Row({"text": text}, self.path, number, text)

    def _delimited(self, on_error: OnError) -> Iterator[Row | Reject]:
        names: Sequence[str] = self.format.header
        for number, cells in self._cells(on_error):
            if isinstance(cells, Reject):
                yield cells
            elif not names:
                names = cells
            else:
                content = self.format.delimiter.join(cells)
                if len(cells) == len(names) or (self.format.allow_extra_cells and len(cells) > len(names)):
                    yield Row(dict(zip(names, cells, strict=False)), self.path, number, content)
                else:
                    yield _reject(number, f"{len(cells)} fields where {len(names)} are expected", content)

    def _cells(self, on_error: OnError) -> Iterator[tuple[int, list[str] | Reject]]:
        if not self.format.quoting:
            for number, text in self.lines(on_error):
                yield number, text.split(self.format.delimiter)
            return
        lines = (f"{text}\n" for _, text in self.lines(on_error))
        reader = csv.reader(lines, delimiter=self.format.delimiter, strict=on_error == "raise")
        while True:
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                yield reader.line_num, _reject(reader.line_num, str(error), "")
            else:
                yield reader.line_num, cells

    def _jsonl(self, on_error: OnError) -> Iterator[Row | Reject]:
        for number, text in self.lines(on_error):
            if not text.strip():
                continue  # a blank line is not a row in JSON Lines
            try:
                value = json.loads(text)
            except (ValueError, RecursionError) as error:
                yield _reject(number, f"not JSON ({error})", text)
                continue
            yield self._object(value, number, text)

    def _json(self, on_error: OnError) -> Iterator[Row | Reject]:
        with _open(self.path) as (_, stream):
            try:
                values = json.loads(stream.read().decode("utf-8-sig"))
            except (ValueError, RecursionError) as error:
                raise KosbertError(f"{self.path} is not JSON ({error}): get the file again") from None
        self._tell = lambda: self.size
        if not isinstance(values, list):
            raise KosbertError(f"{self.path} holds a JSON {type(values).__name__} where a list of objects is expected")
        for number, value in enumerate(values, start=1):
            yield self._object(value, number, None)

    def _object(self, value: object, number: int, content: str | None) -> Row | Reject:
        if isinstance(value, dict):
            return Row(value, self.path, number, content)
        return _reject(number, f"{type(value).__name__} where an object is expected", content or str(value))

    def _parquet(self, columns: Sequence[str]) -> Iterator[Row]:
        with self._parquet_file() as file:
            total, number = max(1, file.metadata.num_rows), 0
            self._tell = lambda: self.size * number // total
            for batch in file.iter_batches(_PARQUET_BATCH, columns=list(columns) or None):
                for fields in batch.to_pylist():
                    number += 1
                    yield Row(fields, self.path, number)

    @contextmanager
    def _parquet_file(self) -> Iterator[Any]:
        import pyarrow
        from pyarrow import parquet

        try:
            with parquet.ParquetFile(self.path) as file:
                yield file
        except (pyarrow.ArrowException, OSError) as error:
            raise KosbertError(f"{self.path} is not a readable Parquet file ({error}): get the file again") from error


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for reading its decompressed bytes."""
    with _open(path) as (_, stream):
        yield stream


@contextmanager
def _open(path: Path) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """Open a file for reading: the file itself, and its decompressed bytes."""
    try:
        with path.open("rb") as file:
            if path.suffix.lower() == ".gz":
                yield file, cast(IO[bytes], gzip.GzipFile(fileobj=file))
            elif path.suffix.lower() == ".zst":
                import pyarrow

                stream = pyarrow.CompressedInputStream(pyarrow.PythonFile(file, "r"), "zstd")
                yield file, cast(IO[bytes], io.BufferedReader(stream))
            else:
                yield file, file
    except (OSError, EOFError, zlib.error) as error:
        raise KosbertError(f"{path} cannot be read to its end ({error}): get the file again") from error


def check_columns(path: Path, present: Iterable[str], columns: Mapping[str, str]) -> None:
    """Raise a `UsageError` for the first column that a file does not have; `columns` is option -> column name."""
    present = list(present)
    for option, column in columns.items():
        if column and column not in present:
            raise UsageError(f"{path.name} has no column {column!r} ({option}): {did_you_mean(column, present)}")


# --- sentences with ids ---------------------------------------------------------------------------------------------


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
    """

    def __init__(self, path: Path, *, text_column: str = "text", id_column: str = "") -> None:
        self.table = Table(path)
        if self.table.format.kind == "text":
            if id_column:
                raise UsageError("a text file has no columns and therefore no ids: omit --id-column")
            text_column = "text"
        self._text, self._id = text_column, id_column
        if (columns := self.table.columns()) is not None:
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
            return row.reject("not UTF-8")
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


def read_sentences(path: Path, *, text_column: str = "", id_column: str = "") -> Sentences:
    """Read the sentences of a file into memory, with all other columns as metadata.

    Rows without text are skipped with a warning; malformed rows are errors.

    Args:
        path: a file that `Table` reads.
        text_column: the column with the sentences; `text` by default.
        id_column: the column with their ids, if there is one.
    """
    text_column = text_column or "text"
    sentences = Sentences([], [] if id_column else None, [], [])
    empty = 0
    for row in Table(path).rows():
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
    if empty:
        logger.warning("%d rows of %s have no text and were skipped", empty, path)
    if not sentences.texts:
        raise UsageError(f"{path} has no sentences: give a file with at least one")
    return sentences
