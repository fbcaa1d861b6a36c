"""The web page in a real browser, against `kosbert serve` as users start it.

Needs Debian's chromium and fonts-noto-cjk and the package playwright. Set KOSBERT_SCREENSHOTS to a directory to save
screenshots.
"""

import contextlib
import csv
import io
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
PAGE = Path(__file__).parents[2] / "src" / "kosbert" / "serving" / "page"
TABS = ("compare", "heatmap", "search", "clusters", "file")
KEY = "0123456789abcdef0123"
TIMEOUT = 90_000  # milliseconds: the machine may be busy
CLUSTERS_TIMEOUT = 120_000  # the first request imports scikit-learn
expect = playwright.expect
expect.set_options(timeout=TIMEOUT)

# Elements whose text has too little contrast (WCAG AA). Colors are drawn on a canvas to resolve them.
LOW_CONTRAST = """() => {
  const canvas = Object.assign(document.createElement("canvas"), { width: 1, height: 1 });
  const context = canvas.getContext("2d", { willReadFrequently: true });
  const blend = colors => {
    context.clearRect(0, 0, 1, 1);
    for (const color of colors) { context.fillStyle = color; context.fillRect(0, 0, 1, 1); }
    return [...context.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const luminance = color => {
    const linear = color.map(part => (part /= 255) <= .04045 ? part / 12.92 : ((part + .055) / 1.055) ** 2.4);
    return .2126 * linear[0] + .7152 * linear[1] + .0722 * linear[2];
  };
  const failures = [];
  for (const element of document.querySelectorAll("body *")) {
    const text = [...element.childNodes].some(node => node.nodeType === 3 && node.data.trim());
    if (!text || !element.checkVisibility() || element.closest("svg, option, [disabled], .hidden")) continue;
    const layers = [];
    for (let node = element; node; node = node.parentElement) layers.unshift(getComputedStyle(node).backgroundColor);
    const background = luminance(blend(layers)), ink = luminance(blend([...layers, getComputedStyle(element).color]));
    const ratio = (Math.max(background, ink) + .05) / (Math.min(background, ink) + .05);
    if (ratio < 4.5) failures.push(`${ratio.toFixed(2)} ${element.outerHTML.slice(0, 90)}`);
  }
  return failures;
}"""
UNLABELED = """() => [...document.querySelectorAll("input, textarea, select, button, a[href], meter, progress")]
  .filter(element => element.checkVisibility())
  .filter(element => !(element.labels?.length || element.getAttribute("aria-label") || element.textContent.trim()))
  .map(element => element.outerHTML)"""


def _wait_until_ready(address: str) -> None:
    for _ in range(600):
        with contextlib.suppress(httpx.TransportError):
            if httpx.get(f"{address}/ready", timeout=10).status_code == 200:
                return
        time.sleep(0.1)
    raise AssertionError(f"{address} is not ready after a minute")


@contextlib.contextmanager
def serving(*arguments: str) -> Iterator[str]:
    """Run `kosbert serve` in a separate process; yield its URL."""
    command = [sys.executable, "-c", "from kosbert.cli import main; main()", "serve", "--port", "0", *arguments]
    log = subprocess.DEVNULL
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, encoding="utf-8", env=os.environ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line, "the server did not start"
            address = line.split()[-1]
            _wait_until_ready(address)
            yield address
        finally:
            process.send_signal(signal.SIGKILL)


@pytest.fixture(scope="module")
def address(model_directory, index_directory, tmp_path_factory):
    """A server with an index and a report."""
    report = tmp_path_factory.mktemp("page") / "report.html"
    report.write_text("<!doctype html><title>보고서</title>", encoding="utf-8")
    with serving(str(model_directory), "--index", str(index_directory), "--report", str(report)) as url:
        yield url


@pytest.fixture(scope="module")
def address_with_keys(model_directory, tmp_path_factory):
    """A server with keys and small limits, without an index."""
    keys = tmp_path_factory.mktemp("page") / "keys"
    keys.write_text(KEY, encoding="utf-8")
    limits = ("--max-body", "3000", "--max-texts", "16")
    with serving(str(model_directory), "--keys", str(keys), *limits) as url:
        yield url


@pytest.fixture
def visit(browser, address):
    """A function that opens the page. Console messages and requests to other hosts fail the test."""
    contexts, visits = [], []

    def open_page(url="", tab="", *, width=1280, scheme="light", language="ko-KR", http_errors=False, prepare=None):
        context = browser.new_context(
            viewport={"width": width, "height": 800}, color_scheme=scheme, locale=language, accept_downloads=True
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(TIMEOUT)
        page.messages, page.requests = [], []
        page.on("console", lambda message: page.messages.append(message.text))
        page.on("pageerror", lambda error: page.messages.append(str(error)))
        page.on("request", lambda request: page.requests.append(request.url))
        if prepare:
            prepare(page)
        home = url or address
        page.goto(f"{home}/{'#/' if tab else ''}{tab}")
        visits.append((page, home, http_errors))
        return page

    yield open_page
    for page, home, http_errors in visits:
        # Browsers log every HTTP error; scripts and the content security policy must never log anything.
        messages = [line for line in page.messages if not (http_errors and line.startswith("Failed to load resource"))]
        assert messages == []
        assert [url for url in page.requests if not url.startswith((home, "data:", "blob:"))] == []
    for context in contexts:
        context.close()


def save_screenshot(page, name: str) -> None:
    if os.environ.get("KOSBERT_SCREENSHOTS"):
        directory = Path(os.environ["KOSBERT_SCREENSHOTS"])
        directory.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=directory / f"{name}.png", full_page=True)


def number(locator) -> float:
    return float(locator.inner_text().replace("\u2212", "-"))


def choose_file(page, name: str, content: bytes) -> None:
    page.set_input_files("#file-input", {"name": name, "mimeType": "text/plain", "buffer": content})


# ── Tabs ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_compare_shows_cosine_and_word_effects(visit, encoder):
    page = visit()
    expect(page.locator("#left-words li")).to_have_count(5)  # the example
    page.fill("#left", "오늘은 날씨가 매우 좋다.")
    page.fill("#right", "비가 온다.")
    expect(page.locator("#left-words li")).to_have_count(4)
    expect(page.locator("#right-words li")).to_have_count(2)
    expected = encoder.similarity(["오늘은 날씨가 매우 좋다."], ["비가 온다."])[0, 0]
    assert number(page.locator("#cosine")) == pytest.approx(expected, abs=6e-4)
    assert float(page.get_attribute("#cosine-bar", "aria-valuenow")) == pytest.approx(expected, abs=6e-4)
    expect(page.locator("#announce")).to_contain_text("코사인 유사도")
    word = page.locator("#right-words button").first
    shorter = encoder.similarity(["오늘은 날씨가 매우 좋다."], ["온다."])[0, 0]
    assert number(word.locator("small")) == pytest.approx(expected - shorter, abs=1.1e-3)
    word.hover()
    expect(page.locator("#word-note")).to_contain_text("‘비가’")
    page.fill("#right", " ")
    expect(page.locator("#compare-result")).to_be_hidden()
    expect(page.locator("#compare-error")).to_contain_text("두 문장을 모두 입력")
    page.click("#another-example")
    expect(page.locator("#compare-result")).to_be_visible()


def test_markup_in_a_sentence_is_shown_as_text(visit):
    page = visit()
    page.fill("#left", "<img src=x onerror=alert(1)> 비가")
    expect(page.locator("#left-words li").first).to_contain_text("<img")
    assert page.locator("#left-words img").count() == 0


def test_heatmap_is_a_table(visit, encoder):
    page = visit(tab="heatmap")
    expect(page.locator("#heatmap-table tbody tr")).to_have_count(7)
    lines = ["비가 온다.", "커피를 마신다.", "비가 온다", "눈"]
    page.fill("#sentences", "\n".join(["", *lines, "  "]))
    expect(page.locator("#heatmap-table tbody tr")).to_have_count(4)
    cells = page.locator("#heatmap-table td").all_inner_texts()
    shown = np.array([float(cell.replace("\u2212", "-")) for cell in cells]).reshape(4, 4)
    cosines = encoder.similarity(lines, lines)
    assert shown == pytest.approx(cosines, abs=6e-3)
    expect(page.locator("#heatmap-table th[scope=row]").nth(1)).to_have_text("2커피를 마신다.")
    row, column = np.unravel_index(np.argmax(cosines - 9 * np.tri(4)), (4, 4))
    expect(page.locator("#heatmap-closest")).to_contain_text(f"{row + 1}번과 {column + 1}번")
    page.check("#reorder")
    order = [int(number) - 1 for number in page.locator("#heatmap-table th[scope=row] b").all_inner_texts()]
    assert sorted(order) == [0, 1, 2, 3]
    assert abs(order.index(row) - order.index(column)) == 1  # the closest pair is side by side
    page.fill("#sentences", "혼자")
    expect(page.locator("#heatmap-error")).to_contain_text("두 개 이상")
    page.fill("#sentences", "\n".join(f"{number}" for number in range(51)))
    expect(page.locator("#heatmap-error")).to_contain_text("51개")


def test_search_as_you_type(visit):
    page = visit(tab="search")
    expect(page.locator("#hits > li")).to_have_count(10)
    expect(page.locator("#search-lead")).to_contain_text("문장 40개")
    page.locator("#query").press_sequentially("비가 온다.", delay=10)
    page.fill("#query", "비가 온다.")
    expect(page.locator("#hits > li").first).to_contain_text("비가 온다.")
    expect(page.locator("#hits .score").first).to_have_text("1.000")
    page.fill("#filter", "year>=2035")
    expect(page.locator("#hits > li")).to_have_count(5)
    expect(page.locator("#hits .chips").first).to_contain_text(re.compile("year 203[5-9]"))
    page.check("#hybrid")
    expect(page.locator("#hits > li")).to_have_count(5)
    page.fill("#filter", "year>=3000")
    expect(page.locator("#search-empty")).to_have_text("검색 결과가 없습니다.")
    page.fill("#filter", "")
    text = page.locator("#hits p").first.inner_text()
    page.locator("#hits button").first.click()  # explain
    expect(page.locator("#right")).to_have_value(text)
    expect(page.locator("#compare-result")).to_be_visible()


def test_late_response_is_not_shown(visit):
    """The first response is delayed until the second has been shown."""
    delayed = []

    def delay(page):
        def handle(route):
            if "커피" in route.request.post_data:
                delayed.append(route)
                return
            route.continue_()

        page.route("**/search", handle)

    page = visit(tab="search", prepare=delay)
    expect(page.locator("#hits > li")).to_have_count(10)
    with page.expect_request(lambda request: "커피" in (request.post_data or "")):
        page.fill("#query", "커피를 마신다.")
    page.fill("#query", "비가 온다.")
    expect(page.locator("#hits > li").first).to_contain_text("비가 온다.")
    with contextlib.suppress(playwright.Error):  # the page has aborted the request
        delayed[0].fulfill(json={"hits": [{"id": "1", "text": "늦은 답", "score": 1, "cosine": 1, "metadata": {}}]})
    page.wait_for_timeout(200)
    expect(page.locator("#hits > li").first).to_contain_text("비가 온다.")


def test_clusters_on_a_map(visit):
    page = visit(tab="clusters")
    expect(page.locator("#map .mark").first).to_be_visible(timeout=CLUSTERS_TIMEOUT)
    sizes = [int(size) for size in page.locator("#cluster-list small").all_inner_texts()]
    assert sum(sizes) == 40
    page.fill("#n-clusters", "3")
    page.click("#clusters-form button")
    expect(page.locator("#cluster-list button")).to_have_count(3)
    assert (
        len(set(page.locator("#map .mark").evaluate_all("marks => marks.map(mark => getComputedStyle(mark).fill)")))
        == 3
    )
    box = page.locator("#map").bounding_box()
    mark = page.evaluate(
        """() => { const { x, y, width, height } = document.querySelector("#map .mark").getBBox();
                   return [x + width / 2, y + height / 2]; }"""
    )
    move = page.evaluate("""() => document.querySelector("#map .mark").getAttribute("d").match(/M[^a]*/)[0]""")
    left, top = (float(coordinate) for coordinate in move[1:].split())
    assert 0 <= mark[0] <= 1000
    page.mouse.move(box["x"] + (left + 8) * box["width"] / 1000, box["y"] + top * box["height"] / 760)
    expect(page.locator("#map-caption span[lang=ko]")).not_to_be_empty()
    first = page.locator("#cluster-list button").first
    first.focus()
    page.keyboard.press("Enter")
    expect(first).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#cluster-list .examples:visible li").first).not_to_be_empty()
    assert page.locator("#map .mark.faded").count() == 2
    page.select_option("#method", "hdbscan")
    expect(page.locator("#n-clusters")).to_be_hidden()
    page.click("#clusters-form button")
    expect(page.locator("#cluster-list small").first).to_be_visible()


def test_file_is_embedded(visit, encoder):
    page = visit(tab="file")
    texts = ["비가 온다.", '커피, "물"', "", "두 줄\n문장", *(f"눈 {number}" for number in range(150))]
    stream = io.StringIO()
    csv.writer(stream).writerows([["번호", "문장"], *enumerate(texts)])
    choose_file(page, "내 문장.csv", stream.getvalue().encode("cp949"))  # as Excel writes it in Korea
    expect(page.locator("#file-size")).to_contain_text("154행 · CP949 · 빈 행 1개")
    expect(page.locator("#column")).to_have_value("1")
    expect(page.locator("#preview li").nth(1)).to_have_text('커피, "물"')
    page.click("#file-start")
    expect(page.locator("#download")).to_be_focused()
    expect(page.locator("#file-status")).to_contain_text("문장 153개, 32차원")
    with page.expect_download() as download:
        page.click("#download")
    assert download.value.suggested_filename == "내 문장-embeddings.csv"
    content = Path(download.value.path()).read_bytes().decode("utf-8-sig")
    rows = list(csv.reader(io.StringIO(content)))
    assert rows[0] == ["row", "text", *(f"d{index}" for index in range(32))]
    assert [row[1] for row in rows[1:]] == [text for text in texts if text]
    assert [int(row[0]) for row in rows[1:5]] == [2, 3, 5, 6]  # as in a spreadsheet; the blank row is skipped
    vectors = np.array([row[2:] for row in rows[1:]], np.float32)
    assert vectors == pytest.approx(encoder.encode([row[1] for row in rows[1:]], normalize_embeddings=True), abs=1e-5)
    embeds = [url for url in page.requests if url.endswith("/embed")]
    assert len(embeds) == 3  # at most 64 texts per request


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("빈.txt", b"\n \n", "문장이 없습니다"),
        ("그림.csv", b"\x89PNG\x00\x00\xff\xfe\x81", "읽을 수 없습니다"),
        ("열림.csv", '번호,문장\n1,"비가 온다\n2,눈\n'.encode(), "2번째 줄"),
    ],
)
def test_unusable_files_give_an_error(visit, name, content, message):
    page = visit(tab="file")
    choose_file(page, name, content)
    expect(page.locator("#file-error")).to_contain_text(message)
    expect(page.locator("#file-ready")).to_be_hidden()


def test_dropped_file_with_a_row_that_is_too_long(visit):
    page = visit(tab="file", http_errors=True)
    lines = ["비가 온다.", "눈 " * 200, "커피를 마신다.", "물"]
    page.evaluate(
        """text => { const data = new DataTransfer();
             data.items.add(new File([text], "문장.txt", { type: "text/plain" }));
             document.getElementById("drop-zone").dispatchEvent(
               new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true })); }""",
        "\n".join(lines),
    )
    expect(page.locator("#file-size")).to_contain_text("4행 · UTF-8")
    expect(page.locator("#column-field")).to_be_hidden()
    page.click("#file-start")
    expect(page.locator("#file-status")).to_contain_text("문장 3개")
    expect(page.locator("#file-failed-rows li")).to_have_count(1)
    expect(page.locator("#file-failed-rows li")).to_contain_text("2행")
    expect(page.locator("#file-failed-rows li")).to_contain_text("tokens")  # the server's message
    page.check("#truncate")
    page.click("#file-start")
    expect(page.locator("#file-status")).to_contain_text("문장 4개")
    expect(page.locator("#file-failed-rows")).to_be_hidden()


# ── Errors ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def enter_key(page, key=KEY):
    page.fill("#key", key)
    page.press("#key", "Enter")


def test_key_form_limits_and_missing_index(visit, address_with_keys):
    page = visit(address_with_keys, http_errors=True)
    expect(page.locator("#key")).to_be_focused()
    expect(page.locator("#key-note")).to_contain_text("API 키가 필요합니다")
    enter_key(page, "wrong-but-long-enough")
    expect(page.locator("#key-note")).to_contain_text("유효하지 않은")
    enter_key(page, "열쇠")  # not allowed in a header
    expect(page.locator("#key-note")).to_contain_text("유효하지 않은")
    enter_key(page)
    expect(page.locator("#key-form")).to_be_hidden()
    expect(page.locator("#compare-result")).to_be_visible()
    assert page.evaluate("JSON.stringify(localStorage)").find(KEY) < 0
    assert not any(KEY in url for url in page.requests)
    page.fill("#left", "비가 온다 " * 300)
    expect(page.locator("#compare-error")).to_contain_text("3,000바이트")
    page.fill("#left", "비 " * 260)
    expect(page.locator("#compare-error .server-message")).to_contain_text("words are too many")  # the server's message
    expect(page.locator("#compare-error")).to_contain_text("너무 깁니다")
    page.click("#tab-search")
    expect(page.locator("#search-empty code").first).to_contain_text("kosbert index build")
    expect(page.locator("#search-form")).to_be_hidden()
    page.click("#tab-clusters")
    expect(page.locator("#clusters-empty code").last).to_contain_text("kosbert serve --index")
    page.reload()
    expect(page.locator("#clusters-empty")).to_be_visible()  # the key is kept in this tab


def test_busy_server_is_retried(visit):
    """The second request gets a 429; requests from the sixth on never finish and are cancelled."""
    full = {"error": {"message": "too many", "type": "rate_limit_error", "param": None, "code": "too_many"}}
    routes = []

    def intercept(page):
        def handle(route):
            routes.append(route)
            if len(routes) == 2:
                route.fulfill(status=429, headers={"Retry-After": "2"}, json=full)
            elif len(routes) < 6:
                route.continue_()

        page.route("**/embed", handle)

    page = visit(tab="file", http_errors=True, prepare=intercept)
    choose_file(page, "many.txt", "\n".join(f"눈 {number}" for number in range(130)).encode())
    page.click("#file-start")
    expect(page.locator("#file-status")).to_contain_text("서버가 혼잡합니다. 2초 후 다시 시도합니다. (64 / 130행)")
    expect(page.locator("#file-status")).to_contain_text("문장 130개")
    page.check("#truncate")  # a changed option allows another run
    page.click("#file-start")
    expect(page.locator("#file-status")).to_contain_text("64 / 130행")
    page.click("#file-cancel")
    expect(page.locator("#file-status")).to_contain_text("64행까지 처리하고 중지했습니다")
    expect(page.locator("#download")).to_be_visible()  # the finished rows


def test_page_resumes_when_the_server_is_back(visit):
    page = visit(tab="heatmap", http_errors=True)
    expect(page.locator("#heatmap-result")).to_be_visible()
    page.context.set_offline(True)
    page.fill("#sentences", "비가 온다.\n눈")
    expect(page.locator("#connection")).to_contain_text("서버에 연결할 수 없습니다")
    page.click("#tab-file")
    choose_file(page, "two.txt", "비가 온다.\n눈".encode())
    page.click("#file-start")
    expect(page.locator("#file-status")).to_contain_text("다시 연결되기를 기다리고")
    page.context.set_offline(False)
    expect(page.locator("#connection")).to_be_hidden()
    expect(page.locator("#file-status")).to_contain_text("문장 2개")
    page.click("#tab-heatmap")
    expect(page.locator("#heatmap-table tbody tr")).to_have_count(2)


def test_server_message_is_shown(visit):
    page = visit(tab="search", http_errors=True)
    page.fill("#filter", "year")
    expect(page.locator("#search-error .server-message")).to_contain_text("year")
    expect(page.locator("#search-error")).to_contain_text("처리할 수 없는")
    page.fill("#filter", "year>=2000")
    expect(page.locator("#hits > li")).to_have_count(10)
    expect(page.locator("#search-error")).to_be_empty()


# ── Accessibility and languages ───────────────────────────────────────────────────────────────────────────────────────


def open_all(page):
    """Open every tab with a result; yield its name."""
    page.click("#tab-compare")
    expect(page.locator("#compare-result")).to_be_visible()
    yield "compare"
    page.click("#tab-heatmap")
    expect(page.locator("#heatmap-result")).to_be_visible()
    yield "heatmap"
    page.click("#tab-search")
    expect(page.locator("#hits > li")).to_have_count(10)
    yield "search"
    page.click("#tab-clusters")
    expect(page.locator("#cluster-list button").first).to_be_visible(timeout=CLUSTERS_TIMEOUT)
    page.locator("#cluster-list button").first.click()
    yield "clusters"
    page.click("#tab-file")
    choose_file(page, "문장.csv", "번호,문장\n1,비가 온다.\n2,눈\n".encode())
    page.click("#file-start")
    expect(page.locator("#download")).to_be_visible()
    yield "file"


@pytest.mark.parametrize(
    ("width", "scheme", "language"),
    [(360, "dark", "ko-KR"), (360, "light", "en-US"), (1440, "light", "ko-KR"), (1440, "dark", "en-US")],
)
def test_layout_in_every_width_scheme_and_language(visit, width, scheme, language):
    page = visit(width=width, scheme=scheme, language=language)
    assert page.locator("html").get_attribute("lang") == language[:2]
    for tab in open_all(page):
        assert page.evaluate("document.documentElement.scrollWidth") <= width, tab
        overflowing = page.evaluate(
            """() => [...document.querySelectorAll(".frame *")]
                 .filter(element => element.checkVisibility())
                 .filter(element => !element.closest(".scroll, svg, .hidden, [role=tablist]"))
                 .filter(element => element.getBoundingClientRect().right > innerWidth + 1)
                 .map(element => element.outerHTML.slice(0, 80))"""
        )
        assert overflowing == [], tab
        assert page.evaluate(LOW_CONTRAST) == [], tab
        assert page.evaluate(UNLABELED) == [], tab
        save_screenshot(page, f"page-{tab}-{width}-{scheme}-{language[:2]}")
    text, background = (
        page.evaluate(f"getComputedStyle(document.body).{name}") for name in ("color", "backgroundColor")
    )
    dark, light = sorted((text, background), key=lambda color: sum(map(int, re.findall(r"\d+", color)[:3])))
    assert (text, background) == ((light, dark) if scheme == "dark" else (dark, light))


def test_language_switch_translates_everything_and_is_stored(visit):
    page = visit()
    for _ in open_all(page):
        pass
    page.click("#language")
    assert page.locator("html").get_attribute("lang") == "en"
    for tab in TABS:
        page.click(f"#tab-{tab}")
        untranslated = page.evaluate(
            """() => { const korean = /[가-힣]/, untranslated = [];
                 for (const element of document.querySelectorAll(".frame *")) {
                   if (!element.checkVisibility() || element.closest("[lang=ko], option")) continue;
                   const texts = [...element.childNodes].filter(node => node.nodeType === 3).map(node => node.data);
                   const text = texts.join("") + (element.getAttribute("aria-label") ?? "");
                   if (korean.test(text)) untranslated.push(element.outerHTML.slice(0, 120));
                 }
                 return untranslated; }"""
        )
        # File names, topic words and sentences are not translated.
        assert [tag for tag in untranslated if not re.search('id="file-name"|<span>|class="quiet"', tag)] == [], tab
    page.reload()
    assert page.locator("html").get_attribute("lang") == "en"
    expect(page.get_by_role("tab", name="Compare")).to_be_visible()


def test_both_languages_have_every_string():
    source = (PAGE / "strings.js").read_text(encoding="utf-8")
    entries = re.findall(r'^  (\w+): \["((?:[^"\\]|\\.)*)", "((?:[^"\\]|\\.)*)"\],$', source, re.MULTILINE)
    assert len(entries) > 80
    for name, korean, english in entries:
        assert sorted(re.findall(r"{(\w+)}", korean)) == sorted(re.findall(r"{(\w+)}", english)), name
    names = {name for name, _, _ in entries}
    used = set(re.findall(r'data-i18n(?:-label)?="(\w+)"', (PAGE / "index.html").read_text(encoding="utf-8")))
    scripts = "".join(file.read_text(encoding="utf-8") for file in PAGE.glob("*.js"))
    used |= set(re.findall(r'\b(?:t|setRowStatus|showKeyForm)\("(\w+)"', scripts)) | set(
        re.findall(r'key: "(\w+)"', scripts)
    )
    assert used <= names
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", scripts)


def test_keyboard_navigation(visit):
    page = visit()
    expect(page.locator("#compare-result")).to_be_visible()

    def focused():
        return page.evaluate("document.activeElement.id || document.activeElement.className")

    def has_outline():
        return page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"

    seen = []
    for _ in range(9):
        page.keyboard.press("Tab")
        seen.append(focused())
        assert has_outline(), seen
    assert seen[:7] == ["report", "", "language", "tab-compare", "left", "right", "another-example"]
    assert seen[7].startswith("word")  # the words of a sentence are one tab stop
    assert seen[8].startswith("word")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#word-note")).to_contain_text("‘어린이가’")
    page.keyboard.press("End")
    expect(page.locator("#word-note")).to_contain_text("‘뛰어논다.’")
    page.focus("#tab-compare")
    for tab in (*TABS[1:], "compare"):
        page.keyboard.press("ArrowRight")
        assert focused() == f"tab-{tab}"
        expect(page.locator(f"#{tab}")).to_be_visible()
        expect(page.locator("[role=tabpanel]:visible")).to_have_count(1)
    page.keyboard.press("ArrowLeft")
    assert focused() == "tab-file"
    page.keyboard.press("Tab")
    assert focused() == "file-input"
    assert page.evaluate("getComputedStyle(document.querySelector('#file-input + .button')).outlineStyle") == "solid"


def test_report_is_linked(visit):
    page = visit()
    link = page.get_by_role("link", name="실험 보고서")
    with page.context.expect_page() as opened:
        link.click()
    assert opened.value.title() == "보고서"


def test_reduced_motion_disables_transitions(browser, address):
    context = browser.new_context(reduced_motion="reduce")
    page = context.new_page()
    page.goto(address)
    assert page.evaluate("getComputedStyle(document.querySelector('.bar i')).transitionDuration") == "0s"
    context.close()
