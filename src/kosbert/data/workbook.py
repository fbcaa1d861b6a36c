"""Rows of an .xlsx workbook, every cell as text, as in a CSV file. Only its distinct strings are in memory."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, time
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import ParseError
from zipfile import BadZipFile

from kosbert.errors import KosbertError, UsageError, did_you_mean


def workbook_rows(path: Path, sheet: str = "") -> Iterator[tuple[int, list[str]]]:
    """Yield number (from 1) and cells of every row that is not blank; formulas as their values.

    Rows have at least as many cells as the first one, the names of the columns.

    Args:
        path: the workbook.
        sheet: the name of a sheet; the first by default.
    """
    with _open_workbook(path) as workbook:
        sheets = {worksheet.title: worksheet for worksheet in workbook.worksheets}
        if sheet and sheet not in sheets:
            raise UsageError(f"{path.name} has no sheet {sheet!r} (--sheet): {did_you_mean(sheet, sheets)}")
        worksheet, width = sheets[sheet] if sheet else workbook.worksheets[0], 0
        worksheet.reset_dimensions()  # some programs write a wrong size
        for number, values in enumerate(worksheet.iter_rows(values_only=True), start=1):
            cells = [_text(value) for value in values]
            while cells and not cells[-1]:
                cells.pop()
            if cells:
                width = width or len(cells)
                yield number, cells + [""] * (width - len(cells))


@contextmanager
def _open_workbook(path: Path) -> Iterator[Any]:
    try:
        from openpyxl import load_workbook
    except ImportError:
        raise UsageError(f"{path.name} needs openpyxl: pip install 'kosbert[office]', or save it as CSV") from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # styles and extensions that openpyxl does not read
            workbook = load_workbook(path, read_only=True, data_only=True)
            try:
                yield workbook
            finally:
                workbook.close()
    except KosbertError:
        raise
    except (BadZipFile, ParseError, KeyError, ValueError, IndexError, OSError) as error:
        raise KosbertError(
            f"{path} is not a readable .xlsx workbook ({error}): if it has a password, save it without"
        ) from error


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, datetime):
        return value.date().isoformat() if value.time() == time() else value.isoformat(" ")
    return str(value)
