"""The report in a real browser: nothing asked of the network, nothing too wide, light and dark, Hangul in its font.

Needs Debian's chromium and fonts-noto-cjk and the package playwright; set KOSBERT_SCREENSHOTS to keep the pictures.
"""

import os
from pathlib import Path

import pytest

WIDTHS = (360, 1280)


@pytest.fixture
def visit(browser, finished):
    """A function that opens the report; whatever the page logs or asks for is kept."""
    _, _, report = finished

    def go(width, scheme, report=report):
        page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
        page.problems, page.requests = [], []
        page.on("console", lambda message: page.problems.append(message.text))
        page.on("pageerror", lambda error: page.problems.append(str(error)))
        page.on("request", lambda request: page.requests.append(request.url))
        page.goto(report.as_uri())
        return page

    return go


def keep(picture: bytes, name: str) -> None:
    if os.environ.get("KOSBERT_SCREENSHOTS"):
        folder = Path(os.environ["KOSBERT_SCREENSHOTS"])
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.png").write_bytes(picture)


@pytest.mark.parametrize("width", WIDTHS)
def test_light_and_dark_at_phone_and_desk_width(visit, finished, width):
    pictures = {}
    for scheme in ("light", "dark"):
        page = visit(width, scheme)
        assert page.problems == []
        assert [each for each in page.requests if not each.startswith(("file:", "data:"))] == []
        assert len(page.requests) <= 2
        # The page itself never scrolls sideways; a wide table does, inside its own box.
        assert page.evaluate("document.documentElement.scrollWidth") == width
        overflowing = page.evaluate(
            """[...document.querySelectorAll('main *')].filter(each => !each.closest('.scroll') && !each.closest('svg')
               && each.getBoundingClientRect().right > innerWidth + 1).map(each => each.outerHTML.slice(0, 80))"""
        )
        assert overflowing == []
        pictures[scheme] = page.screenshot(full_page=True)
        keep(pictures[scheme], f"report-{width}-{scheme}")
        ink, paper = (page.evaluate(f"getComputedStyle(document.body).{name}") for name in ("color", "backgroundColor"))
        assert brightness(ink) < brightness(paper) if scheme == "light" else brightness(ink) > brightness(paper)
        page.close()
    assert pictures["light"] != pictures["dark"]


def brightness(color: str) -> float:
    return sum(float(part) for part in color.strip("rgba()").split(",")[:3])


def test_hangul_is_drawn_by_a_font_that_has_it(visit):
    page = visit(1280, "light")
    session = page.context.new_cdp_session(page)
    session.send("DOM.enable")
    session.send("CSS.enable")
    root = session.send("DOM.getDocument", {"depth": -1})["root"]["nodeId"]
    cells = session.send("DOM.querySelectorAll", {"nodeId": root, "selector": "td.text"})["nodeIds"]
    assert cells, "the report shows no sentences"
    fonts = session.send("CSS.getPlatformFontsForNode", {"nodeId": cells[0]})["fonts"]
    names = {each["familyName"] for each in fonts}
    assert any(known in name for name in names for known in ("CJK", "Noto Sans KR", "Malgun", "Gothic", "Nanum")), names
    # Two syllables are two pictures; a font without them would draw the same empty box twice.
    page.set_content('<meta charset="utf-8"><p id="a">가가가</p><p id="b">힣힣힣</p>')
    a, b = (page.locator(f"#{name}").screenshot() for name in "ab")
    assert a != b
    page.close()


def test_the_figures_alone_open_too(visit, finished):
    _, _, report = finished
    for figure in sorted((report.parent / "figures").glob("*.svg")):
        page = visit(400, "dark", figure)
        assert page.problems == []
        keep(page.screenshot(), figure.stem)
        page.close()
