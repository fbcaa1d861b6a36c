"""Write a user's file again without some of its rows: what stays, stays as it was, and the file appears whole."""

import csv
import gzip
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from kosbert.data.tables import CSV, JSON, PARQUET, Table, table_format
from kosbert.errors import UsageError


def check_target(source: Path, target: Path) -> None:
    """Refuse a place that cannot hold the copy, before hours of work."""
    if table_format(source) != table_format(target):
        ending = Path(source.name.removesuffix(".gz").removesuffix(".zst")).suffix
        raise UsageError(f"{target.name} must end as {source.name} does: give a name that ends in {ending}")
    if target.suffix.lower() == ".zst":
        raise UsageError(f"{target.name} cannot be written: .zst is only read, give a name without it or with .gz")
    if target.exists() and target.samefile(source):
        raise UsageError(f"{target} is the file itself: give another name, nothing is written over")
    if not target.parent.is_dir():
        raise UsageError(f"the folder {target.parent} does not exist: make it, or give another name")


def write_without(source: Path, target: Path, dropped: set[int]) -> None:
    """Copy a file but for some rows, by the line numbers that `read_sentences` gave them."""
    draft = target.with_name(f".{target.name}.part")
    table_file = Table(source)
    if table_file.format == PARQUET:
        import pyarrow.parquet

        table = pyarrow.parquet.read_table(source)
        pyarrow.parquet.write_table(table.filter([line not in dropped for line in range(1, len(table) + 1)]), draft)
    else:
        with _text(draft, packed=target.suffix == ".gz") as stream:
            if table_file.format == CSV:
                _write_csv(table_file, stream, dropped)
            elif table_file.format == JSON:
                kept = [row.fields for row in table_file.rows() if row.line not in dropped]
                json.dump(kept, stream, ensure_ascii=False, indent=1)
            else:
                stream.writelines(f"{text}\n" for line, text in table_file.lines() if line not in dropped)
    draft.replace(target)


def _write_csv(table: Table, stream: IO[str], dropped: set[int]) -> None:
    writer = csv.writer(stream, lineterminator="\n")
    for number, row in enumerate(table.rows()):
        if not number:
            writer.writerow(row.fields)
        if row.line not in dropped:
            writer.writerow(row.fields.values())


@contextmanager
def _text(path: Path, *, packed: bool) -> Iterator[IO[str]]:
    if packed:
        with gzip.open(path, "wt", encoding="utf-8", newline="") as stream:
            yield cast(IO[str], stream)
    else:
        with path.open("w", encoding="utf-8", newline="") as stream:
            yield stream
