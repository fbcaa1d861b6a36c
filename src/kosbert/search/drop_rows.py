"""Copy a table without some of its rows, in the same format and encoding; .xlsx becomes CSV."""

import csv
import gzip
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from kosbert.data.tables import CSV, XLSX, Table, table_format, user_format
from kosbert.errors import UsageError
from kosbert.files import atomic_write


def check_target(source: Path, target: Path) -> None:
    """Raise if the copy could not be written, before hours of encoding."""
    if table_format(source) == XLSX:
        if table_format(target) != CSV:
            raise UsageError(f"{target.name} cannot be written: .xlsx can only be read, give a name that ends in .csv")
    elif table_format(source) != table_format(target):
        ending = Path(source.name.removesuffix(".gz").removesuffix(".zst")).suffix
        raise UsageError(f"{target.name} must end as {source.name} does: give a name that ends in {ending}")
    if target.suffix.lower() == ".zst":
        raise UsageError(f"{target.name} cannot be written: .zst can only be read, give a name without it or with .gz")
    if target.exists() and target.samefile(source):
        raise UsageError(f"{target} is the file itself: give another name, it is never overwritten")
    if not target.parent.is_dir():
        raise UsageError(f"the directory {target.parent} does not exist: create it, or give another name")


def write_without(source: Path, target: Path, lines: set[int], *, encoding: str = "", sheet: str = "") -> None:
    """Copy a file atomically without the rows at some line numbers, as `read_sentences` counts them."""
    table = Table(source, user_format(source, encoding=encoding, sheet=sheet))
    format = table.format
    if format.kind == "parquet":
        import pyarrow.parquet

        rows = pyarrow.parquet.read_table(source)
        kept_rows = rows.filter([line not in lines for line in range(1, len(rows) + 1)])
        with atomic_write(target, "wb") as binary:
            pyarrow.parquet.write_table(kept_rows, binary)
        return
    codec = "utf-16" if format.encoding.startswith("utf-16") else format.encoding
    with _open_text(target, "utf-8-sig" if format.kind == "xlsx" else codec) as stream:  # Excel needs the mark
        if format.quoting or format.kind == "xlsx":
            _write_csv(table, stream, lines)
        elif format.kind == "json":
            kept = [row.fields for row in table.rows() if row.line not in lines]
            json.dump(kept, stream, ensure_ascii=False, indent=1)
        else:
            stream.writelines(f"{text}\n" for line, text in table.lines() if line not in lines)


def _write_csv(table: Table, stream: IO[str], lines: set[int]) -> None:
    writer = csv.writer(stream, lineterminator="\n")
    for number, row in enumerate(table.rows()):
        if not number:
            writer.writerow(row.fields)
        if row.line not in lines:
            writer.writerow(row.fields.values())


@contextmanager
def _open_text(path: Path, encoding: str) -> Iterator[IO[str]]:
    if path.suffix == ".gz":
        with atomic_write(path, "wb") as binary, gzip.open(binary, "wt", encoding=encoding, newline="") as stream:
            yield cast(IO[str], stream)
    else:
        with atomic_write(path, newline="", encoding=encoding) as stream:
            yield stream
