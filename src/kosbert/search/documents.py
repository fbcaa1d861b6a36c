"""The sentences of an index with their ids and metadata: an Arrow table in memory, a Parquet file on disk.

Columns: `key` (internal row number, never reused), `id` (the user's), `text`, `tokens` (for hybrid search) and
`metadata.NAME` for each field, as JSON, so that numbers, strings and booleans keep their type.
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

METADATA_PREFIX = "metadata."
_SCHEMA = {"key": pyarrow.int64(), "id": pyarrow.string(), "text": pyarrow.large_string()}


class Documents:
    """Immutable rows in ascending order of their keys."""

    def __init__(self, table: Any = None) -> None:
        if table is None:
            table = pyarrow.table({name: pyarrow.array([], dtype) for name, dtype in _SCHEMA.items()})
        self.table = table
        self.keys: NDArray[np.int64] = table["key"].to_numpy()

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def fields(self) -> list[str]:
        """Names of the metadata fields."""
        return [
            name.removeprefix(METADATA_PREFIX) for name in self.table.column_names if name.startswith(METADATA_PREFIX)
        ]

    def append(
        self,
        keys: NDArray[np.int64],
        ids: Sequence[str],
        texts: Sequence[str],
        metadata: Sequence[Mapping[str, Any]] | None,
        tokens: Sequence[Sequence[str]] | None,
    ) -> "Documents":
        """Return these documents followed by new ones."""
        columns: dict[str, Any] = {"key": keys, "id": list(ids), "text": pyarrow.array(texts, pyarrow.large_string())}
        if tokens is not None:
            columns["tokens"] = pyarrow.array([" ".join(words) for words in tokens], pyarrow.large_string())
        for name in dict.fromkeys(name for row in metadata or () for name in row):
            values = (row.get(name) for row in metadata or ())
            cells = [None if value is None else _to_json(value) for value in values]
            columns[METADATA_PREFIX + name] = pyarrow.array(cells, "string")
        return Documents(pyarrow.concat_tables([self.table, pyarrow.table(columns)], promote_options="default"))

    def drop(self, keys: NDArray[np.int64]) -> "Documents":
        """Return these documents without those of the given keys."""
        return Documents(self.table.filter(pyarrow.array(~np.isin(self.keys, keys))))

    def keys_of(self, ids: Sequence[str]) -> NDArray[np.int64]:
        """Return the key of each id, -1 for an unknown id."""
        if not len(self):
            return np.full(len(ids), -1, np.int64)
        rows = pyarrow.compute.index_in(pyarrow.array(ids, "string"), self.table["id"].combine_chunks())
        rows = rows.fill_null(-1).to_numpy()
        return np.where(rows < 0, -1, self.keys[rows])

    def keys_where(self, expression: str) -> NDArray[np.int64]:
        """Return the keys of the rows that match a filter."""
        matches = np.ones(len(self), bool)
        for condition in parse(expression):
            if condition.field not in self.fields:
                hint = "its sentences have no metadata"
                if self.fields:
                    hint = did_you_mean(condition.field, self.fields)
                raise UsageError(f"the index has no field {condition.field!r} to filter by: {hint}")
            # Each distinct value is compared once: a million rows have few sources and few years.
            column = self.table[METADATA_PREFIX + condition.field].combine_chunks().dictionary_encode()
            distinct = [condition.matches(cell) for cell in (*column.dictionary.to_pylist(), None)]
            codes = column.indices.fill_null(len(distinct) - 1).to_numpy(zero_copy_only=False)
            matches &= np.array(distinct)[codes]
        return self.keys[matches]

    def rows_of(self, keys: NDArray[np.int64]) -> NDArray[np.intp]:
        """Return the row of each key, -1 for an unknown key."""
        if not len(self):
            return np.full(keys.shape, -1, np.intp)
        rows = np.minimum(np.searchsorted(self.keys, keys), len(self) - 1)
        return np.where(self.keys[rows] == keys, rows, -1)

    def document(self, row: int) -> tuple[str, str, dict[str, Any]]:
        """Return id, text and metadata of a row; fields without a value are left out."""
        cells = self.table.slice(row, 1).to_pylist()[0]
        values = {name: cells[METADATA_PREFIX + name] for name in self.fields}
        metadata = {name: json.loads(value) for name, value in values.items() if value is not None}
        return cells["id"], cells["text"], metadata

    def ids_of(self, rows: NDArray[np.intp]) -> list[str]:
        """Return the ids of some rows."""
        ids: list[str] = self.table["id"].take(pyarrow.array(rows)).to_pylist()
        return ids

    @property
    def texts(self) -> list[str]:
        """Every sentence."""
        texts: list[str] = self.table["text"].to_pylist()
        return texts

    @property
    def tokens(self) -> list[list[str]]:
        """The BM25 tokens of every sentence."""
        return [line.split(" ") if line else [] for line in self.table["tokens"].to_pylist()]

    def write(self, path: Path) -> None:
        """Write a Parquet file."""
        pyarrow.parquet.write_table(self.table, path, compression="zstd")

    @classmethod
    def read(cls, path: Path) -> "Documents":
        """Read the file that `write` wrote."""
        try:
            return cls(pyarrow.parquet.read_table(path).combine_chunks())
        except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError, OSError, KeyError) as error:
            raise KosbertError(
                f"{path} is damaged ({type(error).__name__}): build the index again from its source"
            ) from error


def _to_json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError):
        raise UsageError(
            f"the metadata value {value!r} cannot be written as JSON: give strings, finite numbers, lists"
        ) from None
