"""Fast reading of plain files: UTF-8 text, or cells between delimiters without quoting.

The cells of a block are one Arrow array: numpy finds the delimiters and line ends, and removing them from the bytes
leaves the cells one after the other. A file that is in any way unusual is left to `Table`.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kosbert.data.tables import Table, TableFormat, open_bytes

_BLOCK = 1 << 21  # bytes
_BOM = b"\xef\xbb\xbf"


def read_cells(path: Path, format: TableFormat, names: Sequence[str]) -> list[list[Any]] | None:
    """Return the columns with these names, per block a list of Arrow dictionary arrays; None if the file is unusual.

    Unusual are quoting, extra cells, other encodings, duplicate or missing columns, rows of different length.
    """
    if format.kind not in ("text", "delimited") or format.quoting or format.allow_extra_cells:
        return None
    if format.encoding != "utf-8":
        return None
    present = Table(path, format).columns()
    if present is None or len(set(present)) < len(present) or not set(names) <= set(present):
        return None
    positions = [present.index(name) for name in names]
    has_header = format.kind == "delimited" and not format.header
    blocks = []
    try:
        for number, lines in enumerate(_line_blocks(path)):
            data = lines.removeprefix(_BOM) if number == 0 else lines
            if has_header and number == 0:
                data = data[data.index(b"\n") + 1 :]
            cells = _cells(data, format.delimiter.encode(), len(present))
            columns = [cells.take(_positions(position, len(cells), len(present))) for position in positions]
            blocks.append([column.dictionary_encode() for column in columns])
    except _UnusualFile:
        return None
    return blocks


class _UnusualFile(Exception):
    """The block has a row of another length or is not UTF-8."""


def _line_blocks(path: Path) -> Iterator[bytes]:
    """Yield blocks of complete lines, each ended by a line feed."""
    with open_bytes(path) as stream:
        rest = b""
        while block := stream.read(_BLOCK):
            end = block.rfind(b"\n") + 1
            if end:
                yield rest + block[:end]
                rest = b""
            rest += block[end:]
        if rest:
            yield rest + b"\n"


def _cells(data: bytes, delimiter: bytes, width: int) -> Any:
    """Return all cells of a block row by row, after checking that every row has `width` of them."""
    import pyarrow as pa

    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        raise _UnusualFile from None
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n")
    content = np.frombuffer(data, np.uint8)
    is_end = content == ord("\n")
    separates = is_end | (content == ord(delimiter)) if delimiter else is_end
    separators = np.flatnonzero(separates)
    line_ends = is_end[separators]
    if len(separators) % width or line_ends.sum() * width != len(separators) or not line_ends[width - 1 :: width].all():
        raise _UnusualFile
    offsets = np.zeros(len(separators) + 1, np.int64)
    offsets[1:] = separators - np.arange(len(separators))
    return pa.LargeStringArray.from_buffers(len(separators), pa.py_buffer(offsets), pa.py_buffer(content[~separates]))


def _positions(position: int, cells: int, width: int) -> Any:
    import pyarrow as pa

    return pa.array(np.arange(position, cells, width))
