"""Figures are well-formed, small and honest about names."""

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kosbert.study import figures

ROWS = {"STS": (81.4, 79.0, 83.0, [81.0, 81.8]), "<NLI> & 한국어 아주 긴 이름의 줄": (83.8, 82.0, 85.0, [83.8])}


def test_long_names_that_begin_alike_stay_apart():
    rows = {f"unsupervised, batch {size}": (70.0 + size, 69.0, 90.0, [70.0]) for size in (1, 2)}
    svg = figures.forest(rows, "x", letters=28)
    assert "unsupervised, batch 1<" in svg
    assert "unsupervised, batch 2<" in svg


def test_every_figure_is_xml_with_its_names_escaped():
    drawn = [
        figures.forest(ROWS, "scores"),
        figures.curve([[(0, 60.0), (10, 65.0)]], [[(0, 59.0), (20, 61.0)]], [(0, "nli"), (10, "<sts>")], 3, "a & b"),
        figures.cloud([(0, 0), (1, 2), (3, 1)], [0, 5, 7], [(0, 1, 1)], "map"),
        figures.key_mark(2),
    ]
    for svg in drawn:
        ElementTree.fromstring(svg)
        ElementTree.fromstring(figures.standalone(svg))
        assert "<NLI>" not in svg
        assert "<sts>" not in svg
    assert "prefers-color-scheme: dark" in figures.standalone(drawn[0])
    assert "http://" not in figures.standalone(drawn[0]).replace("http://www.w3.org/2000/svg", "")


def test_dots_stand_where_the_numbers_are():
    root = ElementTree.fromstring(figures.forest({"a": (50.0, 40.0, 60.0, []), "b": (60.0, 60.0, 60.0, [])}, ""))
    a, b = (float(each.get("cx")) for each in root.iter("circle"))
    low, high = (float(root.find(".//g/line").get(end)) for end in ("x1", "x2"))
    assert a == pytest.approx((low + high) / 2, abs=0.11)
    assert b == pytest.approx(high, abs=0.11)


def test_nothing_to_draw():
    assert figures.forest({}, "") == ""
    assert figures.curve([], [], [], 0, "") == ""


@given(low=st.floats(-1e4, 1e4), span=st.floats(1e-3, 1e4))
def test_ticks_are_within_and_few(low, span):
    found = figures.ticks(low, low + span)
    assert 1 <= len(found) <= 5
    assert found == sorted(found)
    assert all(low - 1e-6 * span <= each <= low + span * (1 + 1e-6) for each in found)
