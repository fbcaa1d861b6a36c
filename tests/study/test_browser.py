"""The report in a browser: no network requests, no overflow, light and dark mode, Hangul glyphs.

Needs Debian's chromium and fonts-noto-cjk and the package playwright; set KOSBERT_SCREENSHOTS to keep the screenshots.
"""

import os
from pathlib import Path

import pytest

WIDTHS = (360, 1280)


@pytest.fixture
def visit(browser, finished):
    """Return a function that opens the report and records its console messages and requests."""
    _, _, report = finished

    def open_page(width, scheme, report=report):
        page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
        page.problems, page.requests = [], []
        page.on("console", lambda message: page.problems.append(message.text))
        page.on("pageerror", lambda error: page.problems.append(str(error)))
        page.on("request", lambda request: page.requests.append(request.url))
        page.goto(report.as_uri())
        return page

    return open_page


def save_screenshot(image: bytes, name: str) -> None:
    if os.environ.get("KOSBERT_SCREENSHOTS"):
        directory = Path(os.environ["KOSBERT_SCREENSHOTS"])
        directory.mkdir(parents=True, exist_ok=True)
        (directory / f"{name}.png").write_bytes(image)


@pytest.mark.parametrize("width", WIDTHS)
def test_no_overflow_in_light_and_dark_mode(visit, finished, width):
    screenshots = {}
    for scheme in ("light", "dark"):
        page = visit(width, scheme)
        assert page.problems == []
        assert [url for url in page.requests if not url.startswith(("file:", "data:"))] == []
        assert len(page.requests) <= 2
        # The page never scrolls sideways; a wide table scrolls inside its box.
        assert page.evaluate("document.documentElement.scrollWidth") == width
        overflowing = page.evaluate(
            """[...document.querySelectorAll('main *')].filter(node => !node.closest('.scroll') && !node.closest('svg')
               && node.getBoundingClientRect().right > innerWidth + 1).map(node => node.outerHTML.slice(0, 80))"""
        )
        assert overflowing == []
        screenshots[scheme] = page.screenshot(full_page=True)
        save_screenshot(screenshots[scheme], f"report-{width}-{scheme}")
        text, background = (
            page.evaluate(f"getComputedStyle(document.body).{name}") for name in ("color", "backgroundColor")
        )
        assert (brightness(text) < brightness(background)) == (scheme == "light")
        page.close()
    assert screenshots["light"] != screenshots["dark"]


def brightness(color: str) -> float:
    return sum(float(part) for part in color.strip("rgba()").split(",")[:3])


def test_hangul_is_rendered_by_a_font_with_hangul_glyphs(visit):
    page = visit(1280, "light")
    session = page.context.new_cdp_session(page)
    session.send("DOM.enable")
    session.send("CSS.enable")
    root = session.send("DOM.getDocument", {"depth": -1})["root"]["nodeId"]
    cells = session.send("DOM.querySelectorAll", {"nodeId": root, "selector": "td.text"})["nodeIds"]
    assert cells, "the report shows no sentences"
    fonts = session.send("CSS.getPlatformFontsForNode", {"nodeId": cells[0]})["fonts"]
    names = {font["familyName"] for font in fonts}
    assert any(family in name for name in names for family in ("CJK", "Noto Sans KR", "Malgun", "Gothic", "Nanum")), (
        names
    )
    # A font without Hangul would draw the same empty box for both syllables.
    page.set_content('<meta charset="utf-8"><p id="a">가가가</p><p id="b">힣힣힣</p>')
    a, b = (page.locator(f"#{name}").screenshot() for name in "ab")
    assert a != b
    page.close()


def test_figure_files_open_without_errors(visit, finished):
    _, _, report = finished
    for figure in sorted((report.parent / "figures").glob("*.svg")):
        page = visit(400, "dark", figure)
        assert page.problems == []
        save_screenshot(page.screenshot(), figure.stem)
        page.close()
