"""Filters on metadata: `source=news, year>=2020` keeps the rows that match every condition. No code is evaluated.

Operators: = != < <= > >=. Two numbers are compared as numbers, also where a CSV file had them as text. Everything else
is compared as text, so that dates such as 2020-01-31 sort correctly. A row without the field matches only !=.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from operator import eq, ge, gt, le, lt, ne
from typing import Any

from kosbert.errors import UsageError

OPERATORS: dict[str, Callable[[Any, Any], bool]] = {"=": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}
_CONDITION = re.compile(r'\s*([^\s=!<>,"]+)\s*(!=|<=|>=|=|<|>)\s*("(?:[^"\\]|\\.)*"|[^,]*?)\s*(?:,|$)')


@dataclass(frozen=True)
class Condition:
    """A comparison of a field with a value."""

    field: str
    operator: str
    value: str

    def matches(self, cell: str | None) -> bool:
        """Return whether a cell matches: JSON, or None for a missing value."""
        if cell is None:
            return self.operator == "!="
        content = json.loads(cell)
        left, right = _to_number(content), _to_number(self.value)
        compare = OPERATORS[self.operator]
        if left is not None and right is not None:
            return compare(left, right)
        text = content if isinstance(content, str) else cell
        return compare(text, self.value)


def parse(expression: str) -> list[Condition]:
    """Parse comma-separated conditions; a value that contains a comma is in double quotes."""
    conditions: list[Condition] = []
    position = 0
    while position < len(expression):
        match = _CONDITION.match(expression, position)
        if not match:
            raise UsageError(
                f"the filter {expression!r} cannot be parsed at {expression[position:].strip()!r}: "
                "write conditions such as source=news,year>=2020"
            )
        field, operator, value = match.groups()
        conditions.append(Condition(field, operator, _unquote(value)))
        position = match.end()
    if not conditions:
        raise UsageError("the filter is empty: write a condition such as year>=2020, or leave it out")
    return conditions


def _unquote(value: str) -> str:
    if not value.startswith('"'):
        return value
    try:
        return str(json.loads(value))
    except ValueError:
        raise UsageError(
            f"the quotes of the value {value} are wrong: close them, and write \\\\ for a backslash inside"
        ) from None


def _to_number(value: Any) -> Decimal | None:
    """Return an exact number, None if it is not one; a float could not distinguish two long ids."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = Decimal(str(value).strip())
    except InvalidOperation:
        return None
    return number if number.is_finite() else None  # "nan" and "inf" are compared as text
