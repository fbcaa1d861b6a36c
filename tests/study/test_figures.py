"""Figures are well-formed XML, escape names, and draw values at the right position."""

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kosbert.study import figures

ROWS = {"STS": (81.4, 79.0, 83.0, [81.0, 81.8]), "<NLI> & 한국어 아주 긴 이름의 줄": (83.8, 82.0, 85.0, [83.8])}


def test_long_names_with_a_common_prefix_stay_distinct():
    rows = {f"unsupervised, batch {size}": (70.0 + size, 69.0, 90.0, [70.0]) for size in (1, 2)}
    svg = figures.forest(rows, "x", letters=28)
    assert "unsupervised, batch 1<" in svg
    assert "unsupervised, batch 2<" in svg


def test_every_figure_is_xml_with_names_escaped():
    svgs = [
        figures.forest(ROWS, "scores"),
        figures.curve([[(0, 60.0), (10, 65.0)]], [[(0, 59.0), (20, 61.0)]], [(0, "nli"), (10, "<sts>")], 3, "a & b"),
        figures.scatter([(0, 0), (1, 2), (3, 1)], [0, 5, 7], [(0, 1, 1)], "map"),
        figures.legend_mark(2),
    ]
    for svg in svgs:
        ElementTree.fromstring(svg)
        ElementTree.fromstring(figures.standalone(svg))
        assert "<NLI>" not in svg
        assert "<sts>" not in svg
    assert "prefers-color-scheme: dark" in figures.standalone(svgs[0])
    assert "http://" not in figures.standalone(svgs[0]).replace("http://www.w3.org/2000/svg", "")


def test_dots_are_drawn_at_their_value():
    root = ElementTree.fromstring(figures.forest({"a": (50.0, 40.0, 60.0, []), "b": (60.0, 60.0, 60.0, [])}, ""))
    a, b = (float(circle.get("cx")) for circle in root.iter("circle"))
    low, high = (float(root.find(".//g/line").get(end)) for end in ("x1", "x2"))
    assert a == pytest.approx((low + high) / 2, abs=0.11)
    assert b == pytest.approx(high, abs=0.11)


def test_figures_without_data_are_empty():
    assert figures.forest({}, "") == ""
    assert figures.curve([], [], [], 0, "") == ""
    assert figures.scatter([], [], [], "") == ""


@given(low=st.floats(-1e4, 1e4), span=st.floats(1e-3, 1e4))
def test_ticks_are_sorted_within_range_and_at_most_five(low, span):
    ticks = figures.ticks(low, low + span)
    assert 1 <= len(ticks) <= 5
    assert ticks == sorted(ticks)
    assert all(low - 1e-6 * span <= tick <= low + span * (1 + 1e-6) for tick in ticks)
