"""The one table reader: text, CSV, TSV, JSON, JSON Lines, Parquet and .xlsx; text also compressed (gzip, zstandard).

    for row in Table(Path("reviews.csv.gz")).rows():
        print(row.line, row.text("review"), row.number("stars"))

The file ending decides the format and `data.encodings` the encoding; data sets with their own layout pass a
`TableFormat`. Rows are streamed in constant memory (except .json, which is one document). A malformed row is an error
with file and line, or with `on_error="reject"` a `Reject` between the rows: one bad row in a billion must not stop a
job that runs all night.
"""

import csv
import gzip
import io
import json
import math
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, Literal, cast, overload

from kosbert.data.encodings import (
    SAMPLE,
    UNDECODABLE,
    check_name,
    decode_line,
    detect,
    first_undecodable,
    split_lines,
    utf16_order,
)
from kosbert.data.workbook import workbook_rows
from kosbert.errors import KosbertError, UsageError, did_you_mean

COMPRESSIONS = (".gz", ".zst")
_PARQUET_BATCH = 4_096  # rows
_MAX_CONTENT = 200  # characters of a rejected row that are kept

OnError = Literal["raise", "reject"]


@dataclass(frozen=True)
class TableFormat:
    """How a file is split into rows.

    Args:
        kind: text (one sentence per line), delimited, jsonl (one object per line), json (a list of objects), parquet
            or xlsx.
        delimiter: between the cells of a delimited file.
        quoting: whether double quotes enclose cells (RFC 4180). TSV files have none: with csv's default quoting,
            KorSTS loses 46 train and 29 dev rows.
        header: the column names of a file without a header line.
        allow_extra_cells: accept rows with more cells than columns (STS benchmark: license text on some lines).
        encoding: of text files; UTF-8 and UTF-16 may begin with a byte order mark.
        sheet: of a workbook; the first by default.
    """

    kind: Literal["text", "delimited", "jsonl", "json", "parquet", "xlsx"]
    delimiter: str = ""
    quoting: bool = False
    header: tuple[str, ...] = ()
    allow_extra_cells: bool = False
    encoding: str = "utf-8"
    sheet: str = ""


TEXT = TableFormat("text")
CSV = TableFormat("delimited", ",", quoting=True)
TSV = TableFormat("delimited", "\t")
JSON = TableFormat("json")
JSONL = TableFormat("jsonl")
PARQUET = TableFormat("parquet")
XLSX = TableFormat("xlsx", ",")

FORMATS = {
    ".txt": TEXT,
    ".csv": CSV,
    ".tsv": TSV,
    ".json": JSON,
    ".jsonl": JSONL,
    ".ndjson": JSONL,
    ".parquet": PARQUET,
    ".xlsx": XLSX,
}
"""Format by file ending; text formats also with .gz or .zst."""


def table_format(path: Path) -> TableFormat:
    """Return the format that a file name stands for."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    compressed = bool(suffixes) and suffixes[-1] in COMPRESSIONS
    suffix = suffixes[-2:-1] if compressed else suffixes[-1:]
    format = FORMATS.get(suffix[0]) if suffix else None
    if suffix == [".xls"]:
        raise UsageError(f"{path.name} has the old Excel format: save it as .xlsx or CSV")
    if format is None or (compressed and format in (PARQUET, XLSX)):
        raise UsageError(
            f"{path.name} has no known ending: use one of {', '.join(FORMATS)}; text formats also with .gz or .zst"
        )
    return format


def user_format(path: Path, *, encoding: str = "", sheet: str = "") -> TableFormat:
    """Return the format of a user's file: by its ending, with the encoding that its first bytes show.

    Args:
        path: the file.
        encoding: of the text; detected by default.
        sheet: of an .xlsx file; the first by default.
    """
    format = table_format(path)
    codec = check_name(encoding) if encoding else ""
    _check_exists(path)
    if sheet and format.kind != "xlsx":
        raise UsageError(f"{path.name} has no sheets: omit --sheet, it is for .xlsx files")
    if format.kind in ("parquet", "xlsx"):
        if encoding:
            raise UsageError(f"{path.name} is not a text file: omit --encoding")
        return replace(format, sheet=sheet)
    if not codec or codec == "utf-16":
        with open_bytes(path) as stream:
            sample = stream.read(SAMPLE)
        codec = utf16_order(sample) if codec else detect(sample, is_whole=len(sample) < SAMPLE) or ""
        if not codec:
            line, byte = first_undecodable(sample)
            raise KosbertError(
                f"{path}, line {line}: byte {byte} is not UTF-8, and the text is not plainly Korean in CP949 or "
                "UTF-16: name its encoding, e.g. --encoding cp949"
            )
    return replace(format, encoding=codec)


def _check_exists(path: Path) -> None:
    if not path.is_file():
        raise UsageError(f"there is no file {path}: check the path")


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
        format: how to read it; that of `user_format` by default.
    """

    def __init__(self, path: Path, format: TableFormat | None = None) -> None:
        self.path = path
        self.format = format or user_format(path)
        _check_exists(path)
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
            case "delimited" | "xlsx":
                return list(self.format.header) or self._header_line()
            case "parquet":
                with self._parquet_file() as file:
                    return list(file.schema_arrow.names)
        return None

    def _header_line(self) -> list[str]:
        cells = (cells for _, cells in self._cells("reject"))
        header = next((names for names in cells if isinstance(names, list) and names), [])
        self._tell = lambda: 0
        if UNDECODABLE in "".join(header):
            encoding = self.format.encoding
            raise KosbertError(f"{self.path}, line 1: the column names are not {encoding}: name their --encoding")
        return header

    @overload
    def rows(self, on_error: Literal["raise"] = "raise", columns: Sequence[str] = ()) -> Iterator[Row]: ...
    @overload
    def rows(self, on_error: Literal["reject"], columns: Sequence[str] = ()) -> Iterator[Row | Reject]: ...
    def rows(self, on_error: OnError = "raise", columns: Sequence[str] = ()) -> Iterator[Row | Reject]:
        """Yield the rows in order.

        Args:
            on_error: "raise" stops at a malformed row with an error that names file and line. "reject" yields a
                `Reject` in its place; bytes that cannot be decoded become lone surrogates (see `data.sentences`).
            columns: read only these, where the format allows it (Parquet).
        """
        parsers = {
            "text": self._text,
            "delimited": self._delimited,
            "xlsx": self._delimited,
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
            for number, line in enumerate(split_lines(stream, encoding), start=1):
                try:
                    text = decode_line(line, encoding, strict=on_error == "raise")
                except UnicodeDecodeError as error:
                    reason = f"not {encoding} ({error.reason} at byte {error.start}): correct it, or give --encoding"
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
        if self.format.kind == "xlsx":
            yield from workbook_rows(self.path, self.format.sheet)
            self._tell = lambda: self.size
            return
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
                values = json.loads(stream.read().decode(self.format.encoding).removeprefix("\ufeff"))
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
