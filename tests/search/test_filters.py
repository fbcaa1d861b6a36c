"""Filters on metadata: what they match, and that nothing in them is evaluated."""

import json

import numpy as np
import pytest

from kosbert.errors import UsageError
from kosbert.search.documents import Documents
from kosbert.search.filters import Condition, parse

METADATA = [
    {"source": "news", "year": 2019, "day": "2019-12-31"},
    {"source": "news", "year": "2021", "day": "2021-05-01"},
    {"source": "영화, 리뷰", "year": 2020.5, "good": True},
    {"source": None, "tags": ["가"]},
]


@pytest.fixture
def documents() -> Documents:
    return Documents().append(np.arange(4), list("abcd"), ["하나", "둘", "셋", "넷"], METADATA, None)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("source=news", [0, 1]),
        ("source!=news", [2, 3]),
        ("year>=2020", [1, 2]),
        ("year = 2021", [1]),
        ("year<2020", [0]),
        ("source=news,year>2020", [1]),
        (' source = "영화, 리뷰" , year < 2021', [2]),
        ("day>2020-01-01", [1]),
        ("good=true", [2]),
        ("year>=nan", []),
        ("source=", []),
    ],
)
def test_filter_matches_the_expected_rows(documents: Documents, expression: str, expected: list[int]) -> None:
    assert documents.keys_where(expression).tolist() == expected


@pytest.mark.parametrize("expression", ["", " ", "news", "year>>2020", "=3", "a=1,,b=2"])
def test_invalid_filter_is_a_one_sentence_error(expression: str) -> None:
    with pytest.raises(UsageError, match=r"filter|year>>2020") as caught:
        Documents().keys_where(expression)
    assert "\n" not in str(caught.value)


def test_text_after_a_value_is_part_of_the_value_and_not_code() -> None:
    assert parse("year>2020 or source=news,") == [Condition("year", ">", "2020 or source=news")]


@pytest.mark.parametrize("expression", ['source="news', 'path="C:\\dir"', 'a="x"y'])
def test_wrong_quotes_are_an_error(expression: str) -> None:
    with pytest.raises(UsageError, match="the quotes of the value|cannot be parsed"):
        parse(expression)


@pytest.mark.parametrize("cell", ["1234567890123456789", '"1234567890123456789"', "9" * 400])
def test_long_numbers_are_compared_exactly(cell: str) -> None:
    value = cell.strip('"')
    assert Condition("user", "=", value).matches(cell)
    assert Condition("user", "!=", value[:-1] + "0").matches(cell)
    assert Condition("user", ">", value[:-1] + "0").matches(cell)


def test_unknown_field_suggests_the_closest_one(documents: Documents) -> None:
    with pytest.raises(UsageError, match="no field 'yaer' to filter by: did you mean year"):
        documents.keys_where("yaer=2020")
    with pytest.raises(UsageError, match="no metadata"):
        Documents().keys_where("year=2020")


def test_metadata_keeps_its_types(documents: Documents) -> None:
    assert documents.document(2) == ("c", "셋", {"source": "영화, 리뷰", "year": 2020.5, "good": True})
    assert documents.document(3) == ("d", "넷", {"tags": ["가"]})
    assert json.dumps(documents.document(1)[2]["year"]) == '"2021"'
