"""Write a user's file again without some of its rows: what stays, stays as it was, and the file appears whole."""

import csv
import gzip
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from kosbert.data.readers import comma_separated, lines
from kosbert.errors import UsageError


def check_target(source: Path, target: Path) -> None:
    """Refuse a place that cannot hold the copy, before hours of work."""
    if _kind(source) != _kind(target):
        raise UsageError(f"{target.name} must end as {source.name} does: give a name that ends in {_kind(source)}")
    if target.exists() and target.samefile(source):
        raise UsageError(f"{target} is the file itself: give another name, nothing is written over")
    if not target.parent.is_dir():
        raise UsageError(f"the folder {target.parent} does not exist: make it, or give another name")


def write_without(source: Path, target: Path, dropped: set[int]) -> None:
    """Copy a file but for some rows, by the line numbers that `read_rows` gave them."""
    draft = target.with_name(f".{target.name}.part")
    kind = _kind(source)
    if kind == ".parquet":
        import pyarrow.parquet

        table = pyarrow.parquet.read_table(source)
        pyarrow.parquet.write_table(table.filter([line not in dropped for line in range(1, len(table) + 1)]), draft)
    else:
        with _text(draft, packed=target.suffix == ".gz") as stream:
            if kind == ".csv":
                _write_csv(source, stream, dropped)
            elif kind == ".json":
                with gzip.open(source) if source.suffix == ".gz" else source.open("rb") as file:
                    items = json.loads(file.read().decode("utf-8-sig"))
                kept = [item for line, item in enumerate(items, start=1) if line not in dropped]
                json.dump(kept, stream, ensure_ascii=False, indent=1)
            else:
                stream.writelines(f"{text}\n" for line, text in lines(source) if line not in dropped)
    draft.replace(target)


def _write_csv(source: Path, stream: IO[str], dropped: set[int]) -> None:
    writer = csv.writer(stream, lineterminator="\n")
    for number, row in enumerate(comma_separated()(source)):
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


def _kind(path: Path) -> str:
    return Path(path.name.removesuffix(".gz")).suffix.lower()
