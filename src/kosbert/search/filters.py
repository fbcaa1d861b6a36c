"""Filters on metadata: `source=news, year>=2020` keeps what fulfills every condition. No code is ever evaluated.

Operators: = != < <= > >=. Two numbers are compared as numbers, also where a CSV file had them as text; anything else
as text, so that dates such as 2020-01-31 have their order. A row without the field fulfills no condition on it but !=.
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
    """One comparison of a field with a value."""

    field: str
    operator: str
    value: str

    def holds(self, cell: str | None) -> bool:
        """Whether a cell, JSON text or None for a missing one, fulfills the condition."""
        if cell is None:
            return self.operator == "!="
        content = json.loads(cell)
        left, right = _number(content), _number(self.value)
        compare = OPERATORS[self.operator]
        if left is not None and right is not None:
            return compare(left, right)
        text = content if isinstance(content, str) else cell
        return compare(text, self.value)


def parse(expression: str) -> list[Condition]:
    """The conditions of an expression, all of which must hold; a value with a comma stands in double quotes."""
    conditions: list[Condition] = []
    place = 0
    while place < len(expression):
        found = _CONDITION.match(expression, place)
        if not found:
            raise UsageError(
                f"the filter {expression!r} cannot be read at {expression[place:].strip()!r}: "
                "write conditions such as source=news,year>=2020"
            )
        field, operator, value = found.groups()
        conditions.append(Condition(field, operator, _unquoted(value)))
        place = found.end()
    if not conditions:
        raise UsageError("the filter is empty: write a condition such as year>=2020, or leave it out")
    return conditions


def _unquoted(value: str) -> str:
    if not value.startswith('"'):
        return value
    try:
        return str(json.loads(value))
    except ValueError:
        raise UsageError(
            f"the value {value} is not between two double quotes: close them, and write \\\\ for a backslash within"
        ) from None


def _number(value: Any) -> Decimal | None:
    """A number to the last digit: a float would take two long ids for one."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = Decimal(str(value).strip())
    except InvalidOperation:
        return None
    return number if number.is_finite() else None  # "nan" and "inf" are words
