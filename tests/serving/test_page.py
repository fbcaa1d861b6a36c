"""The page in a real browser, against `kosbert serve` as its users start it.

Needs Debian's chromium and fonts-noto-cjk and the package playwright; set KOSBERT_SCREENSHOTS to keep the pictures.
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
TABS = ("compare", "heat", "search", "groups", "file")
KEY = "0123456789abcdef0123"
PATIENCE = 90_000  # milliseconds: the machine may be busy with something else
FIRST_GROUPS = 120_000  # the server imports scikit-learn for them
expect = playwright.expect
expect.set_options(timeout=PATIENCE)

# Contrast of everything that shows text with what is behind it, by WCAG; colors drawn on a canvas to resolve them.
CONTRAST = """() => {
  const canvas = Object.assign(document.createElement("canvas"), { width: 1, height: 1 });
  const context = canvas.getContext("2d", { willReadFrequently: true });
  const mixed = colors => {
    context.clearRect(0, 0, 1, 1);
    for (const color of colors) { context.fillStyle = color; context.fillRect(0, 0, 1, 1); }
    return [...context.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const light = color => {
    const linear = color.map(part => (part /= 255) <= .04045 ? part / 12.92 : ((part + .055) / 1.055) ** 2.4);
    return .2126 * linear[0] + .7152 * linear[1] + .0722 * linear[2];
  };
  const poor = [];
  for (const element of document.querySelectorAll("body *")) {
    const text = [...element.childNodes].some(node => node.nodeType === 3 && node.data.trim());
    if (!text || !element.checkVisibility() || element.closest("svg, option, [disabled], .hidden")) continue;
    const behind = [];
    for (let each = element; each; each = each.parentElement) behind.unshift(getComputedStyle(each).backgroundColor);
    const paper = light(mixed(behind)), ink = light(mixed([...behind, getComputedStyle(element).color]));
    const ratio = (Math.max(paper, ink) + .05) / (Math.min(paper, ink) + .05);
    if (ratio < 4.5) poor.push(`${ratio.toFixed(2)} ${element.outerHTML.slice(0, 90)}`);
  }
  return poor;
}"""
WITHOUT_NAME = """() => [...document.querySelectorAll("input, textarea, select, button, a[href], meter, progress")]
  .filter(each => each.checkVisibility())
  .filter(each => !(each.labels?.length || each.getAttribute("aria-label") || each.textContent.trim()))
  .map(each => each.outerHTML)"""


def _wait_for(address: str) -> None:
    for _ in range(600):
        with contextlib.suppress(httpx.TransportError):
            if httpx.get(f"{address}/ready", timeout=10).status_code == 200:
                return
        time.sleep(0.1)
    raise AssertionError(f"{address} is not ready after a minute")


@contextlib.contextmanager
def serving(*arguments: str) -> Iterator[str]:
    """`kosbert serve` in a process of its own; its address."""
    command = [sys.executable, "-c", "from kosbert.cli import main; main()", "serve", "--port", "0", *arguments]
    log = subprocess.DEVNULL
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, encoding="utf-8", env=os.environ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()  # it listens from here on, and answers a moment later
            assert line, "the server did not start"
            address = line.split()[-1]
            _wait_for(address)
            yield address
        finally:
            process.send_signal(signal.SIGKILL)


@pytest.fixture(scope="module")
def address(model_directory, index_directory, tmp_path_factory):
    """A server with everything."""
    report = tmp_path_factory.mktemp("page") / "report.html"
    report.write_text("<!doctype html><title>보고서</title>", encoding="utf-8")
    with serving(str(model_directory), "--index", str(index_directory), "--report", str(report)) as url:
        yield url


@pytest.fixture(scope="module")
def guarded(model_directory, tmp_path_factory):
    """A server with keys and small limits, and without an index."""
    keys = tmp_path_factory.mktemp("page") / "keys"
    keys.write_text(KEY, encoding="utf-8")
    limits = ("--max-body", "3000", "--max-texts", "16")
    with serving(str(model_directory), "--keys", str(keys), *limits) as url:
        yield url


@pytest.fixture
def visit(browser, address):
    """A function that opens the page. What it logs and what leaves the server's host fails the test at its end."""
    contexts, quiet = [], []

    def go(url="", tab="", *, width=1280, scheme="light", language="ko-KR", noisy=False, prepare=None):
        context = browser.new_context(
            viewport={"width": width, "height": 800}, color_scheme=scheme, locale=language, accept_downloads=True
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.problems, page.requests = [], []
        page.on("console", lambda message: page.problems.append(message.text))
        page.on("pageerror", lambda error: page.problems.append(str(error)))
        page.on("request", lambda request: page.requests.append(request.url))
        if prepare:
            prepare(page)
        home = url or address
        page.goto(f"{home}/{'#/' if tab else ''}{tab}")
        quiet.append((page, home, noisy))
        return page

    yield go
    for page, home, noisy in quiet:
        # A browser logs every answer that is an error; scripts and the policy must log nothing in any case.
        rest = [line for line in page.problems if not (noisy and line.startswith("Failed to load resource"))]
        assert rest == []
        assert [url for url in page.requests if not url.startswith((home, "data:", "blob:"))] == []
    for context in contexts:
        context.close()


def keep(page, name: str) -> None:
    if os.environ.get("KOSBERT_SCREENSHOTS"):
        folder = Path(os.environ["KOSBERT_SCREENSHOTS"])
        folder.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=folder / f"{name}.png", full_page=True)


def number(locator) -> float:
    return float(locator.inner_text().replace("\u2212", "-"))


def choose_file(page, name: str, content: bytes) -> None:
    page.set_input_files("#chosen", {"name": name, "mimeType": "text/plain", "buffer": content})


# ── What it shows ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_two_sentences_have_a_cosine_and_words_that_carry_it(visit, encoder):
    page = visit()
    expect(page.locator("#left-words li")).to_have_count(5)  # the example is there before anybody types
    page.fill("#left", "오늘은 날씨가 매우 좋다.")
    page.fill("#right", "비가 온다.")
    expect(page.locator("#left-words li")).to_have_count(4)
    expect(page.locator("#right-words li")).to_have_count(2)
    wanted = encoder.similarity(["오늘은 날씨가 매우 좋다."], ["비가 온다."])[0, 0]
    assert number(page.locator("#cosine")) == pytest.approx(wanted, abs=6e-4)
    assert float(page.get_attribute("#cosine-bar", "aria-valuenow")) == pytest.approx(wanted, abs=6e-4)
    expect(page.locator("#announce")).to_contain_text("코사인 유사도")
    word = page.locator("#right-words button").first
    shorter = encoder.similarity(["오늘은 날씨가 매우 좋다."], ["온다."])[0, 0]
    assert number(word.locator("small")) == pytest.approx(wanted - shorter, abs=1.1e-3)
    word.hover()
    expect(page.locator("#word-note")).to_contain_text("‘비가’")
    page.fill("#right", " ")
    expect(page.locator("#compare-result")).to_be_hidden()
    expect(page.locator("#compare-problem")).to_contain_text("두 칸에")
    page.click("#another")
    expect(page.locator("#compare-result")).to_be_visible()


def test_markup_in_a_sentence_stays_text(visit):
    page = visit()
    page.fill("#left", "<img src=x onerror=alert(1)> 비가")
    expect(page.locator("#left-words li").first).to_contain_text("<img")
    assert page.locator("#left-words img").count() == 0


def test_heat_map_is_a_table(visit, encoder):
    page = visit(tab="heat")
    expect(page.locator("#heat-table tbody tr")).to_have_count(7)
    lines = ["비가 온다.", "커피를 마신다.", "비가 온다", "눈"]
    page.fill("#sentences", "\n".join(["", *lines, "  "]))
    expect(page.locator("#heat-table tbody tr")).to_have_count(4)
    cells = page.locator("#heat-table td").all_inner_texts()
    shown = np.array([float(cell.replace("\u2212", "-")) for cell in cells]).reshape(4, 4)
    cosines = encoder.similarity(lines, lines)
    assert shown == pytest.approx(cosines, abs=6e-3)
    expect(page.locator("#heat-table th[scope=row]").nth(1)).to_have_text("2커피를 마신다.")
    one, two = np.unravel_index(np.argmax(cosines - 9 * np.tri(4)), (4, 4))
    expect(page.locator("#heat-note")).to_contain_text(f"{one + 1}번과 {two + 1}번")
    page.check("#gather")
    order = [int(each) - 1 for each in page.locator("#heat-table th[scope=row] b").all_inner_texts()]
    assert sorted(order) == [0, 1, 2, 3]
    assert abs(order.index(one) - order.index(two)) == 1  # the closest pair is side by side
    page.fill("#sentences", "혼자")
    expect(page.locator("#heat-problem")).to_contain_text("두 문장부터")
    page.fill("#sentences", "\n".join(f"{place}" for place in range(51)))
    expect(page.locator("#heat-problem")).to_contain_text("51문장")


def test_search_as_you_type(visit):
    page = visit(tab="search")
    expect(page.locator("#hits > li")).to_have_count(10)
    expect(page.locator("#search-lead")).to_contain_text("40문장")
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
    expect(page.locator("#search-empty")).to_have_text("찾은 문장이 없습니다.")
    page.fill("#filter", "")
    text = page.locator("#hits p").first.inner_text()
    page.locator("#hits button").first.click()  # why was it found?
    expect(page.locator("#right")).to_have_value(text)
    expect(page.locator("#compare-result")).to_be_visible()


def test_a_late_answer_is_never_shown(visit):
    """The first answer is held back until the second has been shown."""
    held = []

    def hold(page):
        def answer(route):
            if "커피" in route.request.post_data:
                held.append(route)
                return
            route.continue_()

        page.route("**/search", answer)

    page = visit(tab="search", prepare=hold)
    expect(page.locator("#hits > li")).to_have_count(10)
    with page.expect_request(lambda request: "커피" in (request.post_data or "")):
        page.fill("#query", "커피를 마신다.")
    page.fill("#query", "비가 온다.")
    expect(page.locator("#hits > li").first).to_contain_text("비가 온다.")
    with contextlib.suppress(playwright.Error):  # the page has given it up
        held[0].fulfill(json={"hits": [{"id": "1", "text": "늦은 답", "score": 1, "cosine": 1, "metadata": {}}]})
    page.wait_for_timeout(200)
    expect(page.locator("#hits > li").first).to_contain_text("비가 온다.")


def test_groups_on_a_map(visit):
    page = visit(tab="groups")
    expect(page.locator("#map .mark").first).to_be_visible(timeout=FIRST_GROUPS)
    sizes = [int(each) for each in page.locator("#group-list small").all_inner_texts()]
    assert sum(sizes) == 40
    page.fill("#count", "3")
    page.click("#groups-form button")
    expect(page.locator("#group-list button")).to_have_count(3)
    assert len(set(page.locator("#map .mark").evaluate_all("all => all.map(each => getComputedStyle(each).fill)"))) == 3
    box = page.locator("#map").bounding_box()
    mark = page.evaluate(
        """() => { const { x, y, width, height } = document.querySelector("#map .mark").getBBox();
                   return [x + width / 2, y + height / 2]; }"""
    )
    places = page.evaluate("""() => document.querySelector("#map .mark").getAttribute("d").match(/M[^a]*/)[0]""")
    left, top = (float(each) for each in places[1:].split())
    assert 0 <= mark[0] <= 1000
    page.mouse.move(box["x"] + (left + 8) * box["width"] / 1000, box["y"] + top * box["height"] / 760)
    expect(page.locator("#map-shown span[lang=ko]")).not_to_be_empty()
    first = page.locator("#group-list button").first
    first.focus()
    page.keyboard.press("Enter")
    expect(first).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#group-list .examples:visible li").first).not_to_be_empty()
    assert page.locator("#map .mark.off").count() == 2
    page.select_option("#method", "hdbscan")
    expect(page.locator("#count")).to_be_hidden()
    page.click("#groups-form button")
    expect(page.locator("#group-list small").first).to_be_visible()


def test_a_file_becomes_vectors(visit, encoder):
    page = visit(tab="file")
    texts = ["비가 온다.", '커피, "물"', "", "두 줄\n문장", *(f"눈 {place}" for place in range(150))]
    stream = io.StringIO()
    csv.writer(stream).writerows([["번호", "문장"], *enumerate(texts)])
    choose_file(page, "내 문장.csv", stream.getvalue().encode("cp949"))  # as Excel writes it in Korea
    expect(page.locator("#file-size")).to_contain_text("154행 · CP949 · 빈 행 1개")
    expect(page.locator("#column")).to_have_value("1")
    expect(page.locator("#preview li").nth(1)).to_have_text('커피, "물"')
    page.click("#file-start")
    expect(page.locator("#download")).to_be_focused()
    expect(page.locator("#file-state")).to_contain_text("153문장, 32차원")
    with page.expect_download() as download:
        page.click("#download")
    assert download.value.suggested_filename == "내 문장-vectors.csv"
    content = Path(download.value.path()).read_bytes().decode("utf-8-sig")
    rows = list(csv.reader(io.StringIO(content)))
    assert rows[0] == ["row", "text", *(f"d{place}" for place in range(32))]
    assert [row[1] for row in rows[1:]] == [text for text in texts if text]
    assert [int(row[0]) for row in rows[1:5]] == [2, 3, 5, 6]  # as a spreadsheet counts; the blank one is left out
    vectors = np.array([row[2:] for row in rows[1:]], np.float32)
    assert vectors == pytest.approx(encoder.encode([row[1] for row in rows[1:]], normalize_embeddings=True), abs=1e-5)
    embeds = [url for url in page.requests if url.endswith("/embed")]
    assert len(embeds) == 3  # at most 64 a request


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("빈.txt", b"\n \n", "문장이 없습니다"),
        ("그림.csv", b"\x89PNG\x00\x00\xff\xfe\x81", "읽을 수 없습니다"),
        ("열림.csv", '번호,문장\n1,"비가 온다\n2,눈\n'.encode(), "2번째 줄"),
    ],
)
def test_files_that_cannot_be_used(visit, name, content, words):
    page = visit(tab="file")
    choose_file(page, name, content)
    expect(page.locator("#file-problem")).to_contain_text(words)
    expect(page.locator("#file-ready")).to_be_hidden()


def test_a_dropped_file_and_its_row_that_is_too_long(visit):
    page = visit(tab="file", noisy=True)
    lines = ["비가 온다.", "눈 " * 200, "커피를 마신다.", "물"]
    page.evaluate(
        """text => { const data = new DataTransfer();
             data.items.add(new File([text], "문장.txt", { type: "text/plain" }));
             document.getElementById("drop").dispatchEvent(
               new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true })); }""",
        "\n".join(lines),
    )
    expect(page.locator("#file-size")).to_contain_text("4행 · UTF-8")
    expect(page.locator("#column-field")).to_be_hidden()
    page.click("#file-start")
    expect(page.locator("#file-state")).to_contain_text("3문장")
    expect(page.locator("#file-errors li")).to_have_count(1)
    expect(page.locator("#file-errors li")).to_contain_text("2행")
    expect(page.locator("#file-errors li")).to_contain_text("tokens")  # the server's own sentence
    page.check("#truncate")
    page.click("#file-start")
    expect(page.locator("#file-state")).to_contain_text("4문장")
    expect(page.locator("#file-errors")).to_be_hidden()


# ── When something is wrong ───────────────────────────────────────────────────────────────────────────────────────────


def enter_key(page, key=KEY):
    page.fill("#key", key)
    page.press("#key", "Enter")


def test_key_small_limits_and_no_index(visit, guarded):
    page = visit(guarded, noisy=True)
    expect(page.locator("#key")).to_be_focused()
    expect(page.locator("#key-note")).to_contain_text("API 키가 있어야")
    enter_key(page, "wrong-but-long-enough")
    expect(page.locator("#key-note")).to_contain_text("받아들이지 않았습니다")
    enter_key(page, "열쇠")  # no header can carry it
    expect(page.locator("#key-note")).to_contain_text("받아들이지 않았습니다")
    enter_key(page)
    expect(page.locator("#key-form")).to_be_hidden()
    expect(page.locator("#compare-result")).to_be_visible()
    assert page.evaluate("JSON.stringify(localStorage)").find(KEY) < 0
    assert not any(KEY in url for url in page.requests)
    page.fill("#left", "비가 온다 " * 300)
    expect(page.locator("#compare-problem")).to_contain_text("3,000바이트")
    page.fill("#left", "비 " * 260)
    expect(page.locator("#compare-problem .theirs")).to_contain_text("words are too many")  # the server's own sentence
    expect(page.locator("#compare-problem")).to_contain_text("너무 깁니다")
    page.click("#tab-search")
    expect(page.locator("#search-empty code").first).to_contain_text("kosbert index build")
    expect(page.locator("#search-form")).to_be_hidden()
    page.click("#tab-groups")
    expect(page.locator("#groups-hint code").last).to_contain_text("kosbert serve --index")
    page.reload()
    expect(page.locator("#groups-hint")).to_be_visible()  # the key is still known to this tab


def test_a_busy_server_is_waited_for(visit):
    """The second request meets a full queue; later ones never end, until they are cancelled."""
    full = {"error": {"message": "too many", "type": "rate_limit_error", "param": None, "code": "too_many"}}
    asked = []

    def busy(page):
        def answer(route):
            asked.append(route)
            if len(asked) == 2:
                route.fulfill(status=429, headers={"Retry-After": "2"}, json=full)
            elif len(asked) < 6:
                route.continue_()

        page.route("**/embed", answer)

    page = visit(tab="file", noisy=True, prepare=busy)
    choose_file(page, "many.txt", "\n".join(f"눈 {place}" for place in range(130)).encode())
    page.click("#file-start")
    expect(page.locator("#file-state")).to_contain_text("서버가 바쁩니다. 2초 뒤에 이어 갑니다. (64 / 130행)")
    expect(page.locator("#file-state")).to_contain_text("130문장")
    page.check("#truncate")  # something changed: it can run again
    page.click("#file-start")
    expect(page.locator("#file-state")).to_contain_text("64 / 130행")
    page.click("#file-cancel")
    expect(page.locator("#file-state")).to_contain_text("64행에서 멈추었습니다")
    expect(page.locator("#download")).to_be_visible()  # what is done is not lost


def test_a_server_that_goes_away_is_waited_for(visit):
    page = visit(tab="heat", noisy=True)
    expect(page.locator("#heat-result")).to_be_visible()
    page.context.set_offline(True)
    page.fill("#sentences", "비가 온다.\n눈")
    expect(page.locator("#connection")).to_contain_text("서버에 닿지 않습니다")
    page.click("#tab-file")
    choose_file(page, "two.txt", "비가 온다.\n눈".encode())
    page.click("#file-start")
    expect(page.locator("#file-state")).to_contain_text("서버를 기다리는 중")
    page.context.set_offline(False)
    expect(page.locator("#connection")).to_be_hidden()
    expect(page.locator("#file-state")).to_contain_text("2문장")
    page.click("#tab-heat")
    expect(page.locator("#heat-table tbody tr")).to_have_count(2)


def test_the_servers_own_sentence_is_shown(visit):
    page = visit(tab="search", noisy=True)
    page.fill("#filter", "year")
    expect(page.locator("#search-problem .theirs")).to_contain_text("year")
    expect(page.locator("#search-problem")).to_contain_text("받을 수 없습니다")
    page.fill("#filter", "year>=2000")
    expect(page.locator("#hits > li")).to_have_count(10)
    expect(page.locator("#search-problem")).to_be_empty()


# ── For everybody ─────────────────────────────────────────────────────────────────────────────────────────────────────


def open_all(page):
    """Every tab with something in it, one after the other."""
    page.click("#tab-compare")
    expect(page.locator("#compare-result")).to_be_visible()
    yield "compare"
    page.click("#tab-heat")
    expect(page.locator("#heat-result")).to_be_visible()
    yield "heat"
    page.click("#tab-search")
    expect(page.locator("#hits > li")).to_have_count(10)
    yield "search"
    page.click("#tab-groups")
    expect(page.locator("#group-list button").first).to_be_visible(timeout=FIRST_GROUPS)
    page.locator("#group-list button").first.click()
    yield "groups"
    page.click("#tab-file")
    choose_file(page, "문장.csv", "번호,문장\n1,비가 온다.\n2,눈\n".encode())
    page.click("#file-start")
    expect(page.locator("#download")).to_be_visible()
    yield "file"


@pytest.mark.parametrize(
    ("width", "scheme", "language"),
    [(360, "dark", "ko-KR"), (360, "light", "en-US"), (1440, "light", "ko-KR"), (1440, "dark", "en-US")],
)
def test_every_width_scheme_and_language(visit, width, scheme, language):
    page = visit(width=width, scheme=scheme, language=language)
    assert page.locator("html").get_attribute("lang") == language[:2]
    for tab in open_all(page):
        assert page.evaluate("document.documentElement.scrollWidth") <= width, tab
        overflowing = page.evaluate(
            """() => [...document.querySelectorAll(".frame *")]
                 .filter(each => each.checkVisibility() && !each.closest(".scroll, svg, .hidden, [role=tablist]"))
                 .filter(each => each.getBoundingClientRect().right > innerWidth + 1)
                 .map(each => each.outerHTML.slice(0, 80))"""
        )
        assert overflowing == [], tab
        assert page.evaluate(CONTRAST) == [], tab
        assert page.evaluate(WITHOUT_NAME) == [], tab
        keep(page, f"page-{tab}-{width}-{scheme}-{language[:2]}")
    ink, paper = (page.evaluate(f"getComputedStyle(document.body).{name}") for name in ("color", "backgroundColor"))
    dark, light = sorted((ink, paper), key=lambda color: sum(map(int, re.findall(r"\d+", color)[:3])))
    assert (ink, paper) == ((light, dark) if scheme == "dark" else (dark, light))


def test_the_language_changes_everything_and_is_remembered(visit):
    page = visit()
    for _ in open_all(page):
        pass
    page.click("#language")
    assert page.locator("html").get_attribute("lang") == "en"
    for tab in TABS:
        page.click(f"#tab-{tab}")
        left = page.evaluate(
            """() => { const korean = /[가-힣]/, found = [];
                 for (const each of document.querySelectorAll(".frame *")) {
                   if (!each.checkVisibility() || each.closest("[lang=ko], option")) continue;
                   const own = [...each.childNodes].filter(node => node.nodeType === 3).map(node => node.data);
                   const words = own.join("") + (each.getAttribute("aria-label") ?? "");
                   if (korean.test(words)) found.push(each.outerHTML.slice(0, 120));
                 }
                 return found; }"""
        )
        # Names of files, words of the index and sentences stay as they are.
        assert [each for each in left if not re.search('id="file-name"|<span>|class="quiet"', each)] == [], tab
    page.reload()
    assert page.locator("html").get_attribute("lang") == "en"
    expect(page.get_by_role("tab", name="Compare")).to_be_visible()


def test_both_languages_have_every_word():
    table = (PAGE / "words.js").read_text(encoding="utf-8")
    entries = re.findall(r'^  (\w+): \["((?:[^"\\]|\\.)*)", "((?:[^"\\]|\\.)*)"\],$', table, re.MULTILINE)
    assert len(entries) > 80
    for name, korean, english in entries:
        assert sorted(re.findall(r"{(\w+)}", korean)) == sorted(re.findall(r"{(\w+)}", english)), name
    names = {name for name, _, _ in entries}
    used = set(re.findall(r'data-say(?:-label)?="(\w+)"', (PAGE / "index.html").read_text(encoding="utf-8")))
    scripts = "".join(file.read_text(encoding="utf-8") for file in PAGE.glob("*.js"))
    used |= set(re.findall(r'(?:say|told|askForKey)\("(\w+)"', scripts)) | set(re.findall(r'key: "(\w+)"', scripts))
    assert used <= names
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", scripts)


def test_the_whole_way_by_keyboard(visit):
    page = visit()
    expect(page.locator("#compare-result")).to_be_visible()

    def focused():
        return page.evaluate("document.activeElement.id || document.activeElement.className")

    def ringed():
        return page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"

    seen = []
    for _ in range(9):
        page.keyboard.press("Tab")
        seen.append(focused())
        assert ringed(), seen
    assert seen[:7] == ["report", "", "language", "tab-compare", "left", "right", "another"]
    assert seen[7].startswith("word")  # the words of a sentence are one stop
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
    assert focused() == "chosen"
    assert page.evaluate("getComputedStyle(document.querySelector('#chosen + .button')).outlineStyle") == "solid"


def test_the_report_is_linked(visit):
    page = visit()
    link = page.get_by_role("link", name="연구 보고서")
    with page.context.expect_page() as opened:
        link.click()
    assert opened.value.title() == "보고서"


def test_without_motion_nothing_moves(browser, address):
    context = browser.new_context(reduced_motion="reduce")
    page = context.new_page()
    page.goto(address)
    assert page.evaluate("getComputedStyle(document.querySelector('.bar i')).transitionDuration") == "0s"
    context.close()
