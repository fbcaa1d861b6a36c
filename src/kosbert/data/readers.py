"""How a file becomes rows: a parser splits a file into fields, a maker turns the fields into a record.

    read = reader(tab_separated(), scored("sentence1", "sentence2", "score", source="filename"))
    for pair in read([Path("korsts/sts-test.tsv")]): ...

A malformed line raises an error with file and line number; no row is ever dropped silently.
"""

import csv
import gzip
import json
import math
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from kosbert.data.records import LabeledPair, LabeledSentence, Record, ScoredPair, Sentence, Triplet
from kosbert.errors import KosbertError, UsageError, did_you_mean

NLI_LABELS = ("entailment", "neutral", "contradiction")


@dataclass(frozen=True, slots=True)
class Row:
    """The named fields of one line and where they stand, for error messages."""

    fields: Mapping[str, Any]
    path: Path
    line: int

    def get(self, name: str) -> Any:
        """A field by name; dots go into nested objects (`labels.real-label`)."""
        if name in self.fields:
            return self.fields[name]
        value: Any = self.fields
        for part in name.split("."):
            if not isinstance(value, Mapping) or part not in value:
                raise self.error(f"there is no field {name!r}; {did_you_mean(name, map(str, self.fields))}")
            value = value[part]
        return value

    def text(self, name: str) -> str:
        """A field that must be a string (numbers are written out)."""
        value = self.get(name)
        if value is None or isinstance(value, Mapping | list):
            raise self.error(f"field {name!r} is {value!r} where text is expected")
        return str(value)

    def number(self, name: str) -> float:
        """A field that must be a finite number."""
        value = self.get(name)
        try:
            number = float(value)
        except (TypeError, ValueError):
            raise self.error(f"field {name!r} is {value!r} where a number is expected") from None
        if not math.isfinite(number):
            raise self.error(f"field {name!r} is {value!r} where a finite number is expected")
        return number

    def error(self, what: str) -> KosbertError:
        """An error that says where the row stands."""
        return KosbertError(f"{self.path}, line {self.line}: {what}")


Parser = Callable[[Path], Iterator[Row]]
Maker = Callable[[Row], Record]
Reader = Callable[[Sequence[Path]], Iterator[Record]]


def reader(parse: Parser, make: Maker) -> Reader:
    """A reader that takes the files of a split one after the other."""

    def read(paths: Sequence[Path]) -> Iterator[Record]:
        for path in paths:
            for row in parse(path):
                yield make(row)

    return read


# ---------------------------------------------------------------- parsers: a file becomes rows


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    """Open a plain or gzipped file; anything that breaks while reading becomes one clear sentence."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            yield cast(IO[bytes], file)
    except FileNotFoundError:
        raise UsageError(f"{path} does not exist: check the path") from None
    except (OSError, EOFError, zlib.error) as error:
        raise KosbertError(f"{path} cannot be read ({error}): get the file again") from error


def lines(path: Path, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
    """The numbered lines of a text file, split at line feeds only.

    Python's own `splitlines` also splits at U+0085 and U+2028, which stand inside sentences of the MR and SUBJ files.
    """
    with _opened(path) as file:
        for number, raw in enumerate(file, start=1):
            try:
                text = raw.decode(encoding)
            except UnicodeDecodeError as error:
                raise KosbertError(
                    f"{path}, line {number}: not {encoding} ({error.reason} at byte {error.start})"
                ) from None
            yield number, (text.removeprefix("\ufeff") if number == 1 else text).removesuffix("\n").removesuffix("\r")


def tab_separated(header: Sequence[str] = (), *, encoding: str = "utf-8", spare: bool = False) -> Parser:
    """Tab-separated values without quoting; the first line names the columns unless `header` does.

    Quotation marks are text here: read with csv's default quoting, KorSTS loses 46 train and 29 dev rows.
    `spare` allows more fields than names (the STS benchmark has license columns on some lines).
    """

    def parse(path: Path) -> Iterator[Row]:
        names = list(header)
        for number, text in lines(path, encoding):
            values = text.split("\t")
            if not names:
                names = values
            elif len(values) == len(names) or (spare and len(values) > len(names)):
                yield Row(dict(zip(names, values, strict=False)), path, number)
            else:
                raise _wrong_width(path, number, values, names)

    return parse


def comma_separated(delimiter: str = ",") -> Parser:
    """Values with a header and double quotes around what needs them (RFC 4180), between commas or another delimiter."""

    def parse(path: Path) -> Iterator[Row]:
        table = csv.reader((text + "\n" for _, text in lines(path)), delimiter=delimiter, strict=True)
        names: list[str] = []
        try:
            for values in table:
                if not names:
                    names = values
                elif len(values) == len(names):
                    yield Row(dict(zip(names, values, strict=True)), path, table.line_num)
                else:
                    raise _wrong_width(path, table.line_num, values, names)
        except csv.Error as error:
            raise KosbertError(f"{path}, line {table.line_num}: {error}") from None

    return parse


def _wrong_width(path: Path, line: int, values: Sequence[str], names: Sequence[str]) -> KosbertError:
    return KosbertError(f"{path}, line {line}: {len(values)} fields where {len(names)} are expected")


def json_list() -> Parser:
    """One JSON array of objects; `line` counts the objects."""

    def parse(path: Path) -> Iterator[Row]:
        with _opened(path) as file:
            try:
                items = json.loads(file.read().decode("utf-8-sig"))
            except ValueError as error:
                raise KosbertError(f"{path} is not JSON ({error}): get the file again") from None
        if not isinstance(items, list):
            raise KosbertError(f"{path} holds a JSON {type(items).__name__} where a list of objects is expected")
        for number, item in enumerate(items, start=1):
            yield _json_row(item, path, number)

    return parse


def json_lines() -> Parser:
    """One JSON object a line."""

    def parse(path: Path) -> Iterator[Row]:
        for number, text in lines(path):
            if not text.strip():
                continue  # a blank line is not a row in JSON Lines
            try:
                item = json.loads(text)
            except ValueError as error:
                raise KosbertError(f"{path}, line {number}: not JSON ({error})") from None
            yield _json_row(item, path, number)

    return parse


def _json_row(item: object, path: Path, number: int) -> Row:
    if not isinstance(item, dict):
        raise KosbertError(f"{path}, line {number}: {type(item).__name__} where an object is expected")
    return Row(item, path, number)


def parquet() -> Parser:
    """A Parquet table, read in batches."""

    def parse(path: Path) -> Iterator[Row]:
        import pyarrow.parquet

        try:
            number = 0
            with pyarrow.parquet.ParquetFile(path) as table:
                for batch in table.iter_batches():
                    for item in batch.to_pylist():
                        number += 1
                        yield Row(item, path, number)
        except FileNotFoundError:
            raise UsageError(f"{path} does not exist: check the path") from None
        except (pyarrow.ArrowInvalid, OSError) as error:
            raise KosbertError(f"{path} is not a readable Parquet file ({error}): get the file again") from None

    return parse


def plain_lines(encoding: str = "utf-8") -> Parser:
    """One sentence a line, as the field `text`."""

    def parse(path: Path) -> Iterator[Row]:
        for number, text in lines(path, encoding):
            yield Row({"text": text}, path, number)

    return parse


# ---------------------------------------------------------------- makers: a row becomes a record


def scored(
    sentence1: str = "sentence1",
    sentence2: str = "sentence2",
    score: str = "score",
    *,
    source: str = "",
    votes: str = "",
    high: float = 5.0,
) -> Maker:
    """Rows of an STS set; a score outside 0 to `high` is an error."""

    def make(row: Row) -> ScoredPair:
        value = row.number(score)
        if not 0 <= value <= high:
            raise row.error(f"score {value} is outside 0 to {high:g}")
        return ScoredPair(
            row.text(sentence1),
            row.text(sentence2),
            value,
            row.text(source) if source else "",
            tuple(map(float, row.get(votes))) if votes else (),
        )

    return make


def labeled_pair(
    sentence1: str = "sentence1",
    sentence2: str = "sentence2",
    label: str = "label",
    *,
    labels: Sequence[str] = NLI_LABELS,
    source: str = "",
) -> Maker:
    """Rows of an NLI or paraphrase set; a label outside `labels` is an error."""

    def make(row: Row) -> LabeledPair:
        value = _checked(row, row.text(label), labels)
        return LabeledPair(row.text(sentence1), row.text(sentence2), value, row.text(source) if source else "")

    return make


def labeled(text: str = "text", label: str = "label", *, labels: Sequence[str] | Mapping[str, str] = ()) -> Maker:
    """Rows of a classification set; `labels` lists what is allowed, or maps the file's codes to names."""

    def make(row: Row) -> LabeledSentence:
        value = _checked(row, row.text(label), labels)
        return LabeledSentence(row.text(text), labels[value] if isinstance(labels, Mapping) else value)

    return make


def _checked(row: Row, value: str, labels: Iterable[str]) -> str:
    allowed = list(labels)
    if allowed and value not in allowed:
        raise row.error(f"label {value!r} is not one of {', '.join(allowed)}")
    return value


def sentence(text: str = "text") -> Maker:
    """Rows of an unlabeled corpus."""
    return lambda row: Sentence(row.text(text))


def triplet(anchor: str = "anchor", positive: str = "positive", negative: str = "negative") -> Maker:
    """Rows that are triplets already."""
    return lambda row: Triplet(row.text(anchor), row.text(positive), row.text(negative))
