"""The sentences of an index with their ids and metadata: an Arrow table in memory, a Parquet file on disk.

Columns: `key` (our own number of a row, never used twice), `id` (the user's), `text`, `words` (for BM25, where asked
for) and `metadata.NAME` for each field, as JSON text, so that numbers, texts and truth values come back as they were.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.compute
import pyarrow.parquet
from numpy.typing import NDArray

from kosbert.errors import KosbertError, UsageError, did_you_mean
from kosbert.search.filters import parse

FIELD = "metadata."
_EMPTY = {"key": pyarrow.int64(), "id": pyarrow.string(), "text": pyarrow.large_string()}


class Documents:
    """Rows in the order of their keys."""

    def __init__(self, table: Any = None) -> None:
        self.table = pyarrow.table({name: pyarrow.array([], kind) for name, kind in _EMPTY.items()})
        if table is not None:
            self.table = table
        self.keys: NDArray[np.int64] = self.table["key"].to_numpy()

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def fields(self) -> list[str]:
        """The names of the metadata fields."""
        return [name.removeprefix(FIELD) for name in self.table.column_names if name.startswith(FIELD)]

    def appended(
        self,
        keys: NDArray[np.int64],
        ids: Sequence[str],
        texts: Sequence[str],
        metadata: Sequence[Mapping[str, Any]] | None,
        words: Sequence[Sequence[str]] | None,
    ) -> "Documents":
        """These documents and new ones after them."""
        columns: dict[str, Any] = {"key": keys, "id": list(ids), "text": pyarrow.array(texts, pyarrow.large_string())}
        if words is not None:
            columns["words"] = pyarrow.array([" ".join(each) for each in words], pyarrow.large_string())
        for name in dict.fromkeys(name for row in metadata or () for name in row):
            cells = (row.get(name) for row in metadata or ())
            columns[FIELD + name] = pyarrow.array([None if cell is None else _json(cell) for cell in cells], "string")
        return Documents(pyarrow.concat_tables([self.table, pyarrow.table(columns)], promote_options="default"))

    def without(self, keys: NDArray[np.int64]) -> "Documents":
        """These documents but for some."""
        return Documents(self.table.filter(pyarrow.array(~np.isin(self.keys, keys))))

    def find(self, ids: Sequence[str]) -> NDArray[np.int64]:
        """The key of each id, -1 where there is none."""
        places = pyarrow.compute.index_in(pyarrow.array(ids, "string"), self.table["id"].combine_chunks())
        found = places.fill_null(-1).to_numpy()
        return np.where(found < 0, -1, self.keys[found]) if len(self) else np.full(len(ids), -1, np.int64)

    def keys_where(self, expression: str) -> NDArray[np.int64]:
        """The keys of the rows that fulfill a filter."""
        keep = np.ones(len(self), bool)
        for condition in parse(expression):
            if condition.field not in self.fields:
                known = did_you_mean(condition.field, self.fields) if self.fields else "its sentences have no metadata"
                raise UsageError(f"the index has no field {condition.field!r} to filter by: {known}")
            # Each distinct value is compared once: a million rows have few sources and few years.
            column = self.table[FIELD + condition.field].combine_chunks().dictionary_encode()
            holds = np.array(
                [condition.holds(cell) for cell in column.dictionary.to_pylist()] + [condition.holds(None)]
            )
            keep &= holds[column.indices.fill_null(len(holds) - 1).to_numpy(zero_copy_only=False)]
        return self.keys[keep]

    def places(self, keys: NDArray[np.int64]) -> NDArray[np.intp]:
        """Where the rows of some keys stand, -1 for an unknown key."""
        if not len(self):
            return np.full(keys.shape, -1, np.intp)
        places = np.minimum(np.searchsorted(self.keys, keys), len(self) - 1)
        return np.where(self.keys[places] == keys, places, -1)

    def row(self, place: int) -> tuple[str, str, dict[str, Any]]:
        """Id, text and metadata of the row at a place; fields without a value are left out."""
        row = self.table.slice(place, 1).to_pylist()[0]
        metadata = {name: json.loads(row[FIELD + name]) for name in self.fields if row[FIELD + name] is not None}
        return row["id"], row["text"], metadata

    def ids_at(self, places: NDArray[np.intp]) -> list[str]:
        """The ids of the rows at some places."""
        ids: list[str] = self.table["id"].take(pyarrow.array(places)).to_pylist()
        return ids

    @property
    def texts(self) -> list[str]:
        """Every text."""
        texts: list[str] = self.table["text"].to_pylist()
        return texts

    @property
    def words(self) -> list[list[str]]:
        """Every text as words, for BM25."""
        return [line.split(" ") if line else [] for line in self.table["words"].to_pylist()]

    def write(self, path: Path) -> None:
        """Write a Parquet file, which every data tool reads."""
        pyarrow.parquet.write_table(self.table, path, compression="zstd")

    @classmethod
    def read(cls, path: Path) -> "Documents":
        """Read what `write` wrote."""
        try:
            return cls(pyarrow.parquet.read_table(path).combine_chunks())
        except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError, OSError, KeyError) as error:
            raise KosbertError(
                f"{path} is damaged ({type(error).__name__}): build the index again from its source"
            ) from error


def _json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError):
        raise UsageError(f"the metadata value {value!r} is not JSON: give text, finite numbers, lists") from None
