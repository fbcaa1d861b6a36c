"""What a filter keeps, and that nothing in it is ever run."""

import json

import pytest

from kosbert.errors import UsageError
from kosbert.search.documents import Documents
from kosbert.search.filters import Condition, parse

ROWS = [
    {"source": "news", "year": 2019, "day": "2019-12-31"},
    {"source": "news", "year": "2021", "day": "2021-05-01"},
    {"source": "영화, 리뷰", "year": 2020.5, "good": True},
    {"source": None, "tags": ["가"]},
]


@pytest.fixture
def documents() -> Documents:
    import numpy as np

    return Documents().appended(np.arange(4), list("abcd"), ["하나", "둘", "셋", "넷"], ROWS, None)


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
def test_filters(documents: Documents, expression: str, expected: list[int]) -> None:
    assert documents.keys_where(expression).tolist() == expected


@pytest.mark.parametrize("expression", ["", " ", "news", "year>>2020", "=3", "year>2020 or source=news,", "a=1,,b=2"])
def test_what_is_no_filter_is_one_sentence(expression: str) -> None:
    if "or" in expression:  # reads as one value, never as code
        assert parse(expression) == [Condition("year", ">", "2020 or source=news")]
        return
    with pytest.raises(UsageError, match=r"filter|year>>2020") as caught:
        Documents().keys_where(expression)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("expression", ['source="news', 'path="C:\\dir"', 'a="x"y'])
def test_quotes_that_are_not_closed(expression: str) -> None:
    with pytest.raises(UsageError, match="not between two double quotes|cannot be read"):
        parse(expression)


@pytest.mark.parametrize("cell", ["1234567890123456789", '"1234567890123456789"', "9" * 400])
def test_long_numbers_are_compared_to_the_last_digit(cell: str) -> None:
    value = cell.strip('"')
    assert Condition("user", "=", value).holds(cell)
    assert Condition("user", "!=", value[:-1] + "0").holds(cell)
    assert Condition("user", ">", value[:-1] + "0").holds(cell)


def test_an_unknown_field_names_the_nearest(documents: Documents) -> None:
    with pytest.raises(UsageError, match="no field 'yaer' to filter by: did you mean year"):
        documents.keys_where("yaer=2020")
    with pytest.raises(UsageError, match="no metadata"):
        Documents().keys_where("year=2020")


def test_metadata_comes_back_as_it_was(documents: Documents) -> None:
    assert documents.row(2) == ("c", "셋", {"source": "영화, 리뷰", "year": 2020.5, "good": True})
    assert documents.row(3) == ("d", "넷", {"tags": ["가"]})
    assert json.dumps(documents.row(1)[2]["year"]) == '"2021"'


def test_metadata_that_is_not_json() -> None:
    import numpy as np

    with pytest.raises(UsageError, match="not JSON"):
        Documents().appended(np.arange(1), ["a"], ["글"], [{"x": float("nan")}], None)
