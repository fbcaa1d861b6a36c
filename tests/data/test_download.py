"""Downloads against a real server on this machine that misbehaves on request."""

import errno
import functools
import gzip
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import threading
import time
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request

import pytest

from kosbert import files
from kosbert.data import download
from kosbert.data.download import digest, fetch, verify
from kosbert.errors import KosbertError, UsageError

STALL = 0.5  # seconds of silence: long enough that a busy machine does not look like a stalled server
BODY = bytes(range(256)) * 4096 + "한국어 문장\n".encode()  # a little over 1 MiB, so that more than one block is needed
SIZE = len(BODY)
PAGE = b"\n <!DOCTYPE html><html><body>Please log in</body></html>"


def sha256(body: bytes) -> str:
    return "sha256:" + hashlib.sha256(body).hexdigest()


class Site(ThreadingHTTPServer):
    """Answers each request in the next way of `script`, then in the way `after`; keeps every request's headers."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.body, self.etag, self.modified, self.location = BODY, '"v1"', "", ""
        self.script: list[str] = []
        self.after = "ok"
        self.requests: list[dict[str, str]] = []
        self.extra: dict[str, str] = {}
        self.closing = threading.Event()

    def url(self, name="file.tsv"):
        return f"http://127.0.0.1:{self.server_port}/{name}"

    def ranges(self):
        return [request.get("range") for request in self.requests]

    def handle_error(self, request, client_address):
        pass  # a client that was killed is what some tests are about


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Site

    def log_message(self, *arguments):
        pass

    def do_GET(self):
        site = self.server
        site.requests.append({name.lower(): value for name, value in self.headers.items()} | {"path": self.path})
        way = site.script.pop(0) if site.script else site.after
        if way.isdecimal():
            self.reply(int(way), b"sorry", site.extra)
        elif way == "redirect":
            self.reply(302, b"", {"Location": site.location})
        elif way == "page":
            self.reply(200, PAGE, site.extra)
        elif way == "empty":
            self.reply(200, b"", {})
        elif way == "compressed":
            self.reply(200, gzip.compress(site.body), {"Content-Encoding": "gzip"})
        elif way == "endless":
            self.close_connection = True
            self.reply(200, site.body, {}, length=False)
        elif way.startswith("chunked"):
            self.chunked(cut=way == "chunked-cut")
        else:
            self.whole_or_range(way)

    def reply(self, status, body, headers, *, length=True, send=None, hold=False):
        self.send_response(status)
        if length:
            self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body[:send])
        if send is not None:
            self.close_connection = True
        if hold:
            self.wfile.flush()
            self.server.closing.wait(20)

    def validators(self):
        headers = {"ETag": self.server.etag, "Last-Modified": self.server.modified}
        return {name: value for name, value in headers.items() if value}

    def chunked(self, *, cut):
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        for name, value in self.validators().items():
            self.send_header(name, value)
        self.end_headers()
        body = self.server.body
        half = len(body) // 2
        for piece in [body[:half]] if cut else [body[:half], body[half:]]:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        self.wfile.write(b"" if cut else b"0\r\n\r\n")
        self.close_connection = True

    def whole_or_range(self, way):
        site = self.server
        body = site.body[::-1] if way == "wrong" else site.body
        status, start, headers = 200, 0, self.validators()
        asked, condition = self.headers.get("Range"), self.headers.get("If-Range")
        fresh = way == "careless" or condition in (None, site.etag, site.modified)
        if asked and fresh and way != "no-range":
            start = int(asked.removeprefix("bytes=").rstrip("-"))
            if start >= len(body):
                self.reply(416, b"", {"Content-Range": f"bytes */{len(body)}"})
                return
            status = 206
            begin = start - 1 if way == "shifted" else start
            headers["Content-Range"] = f"bytes {begin}-{len(body) - 1}/{len(body)}"
        rest = body[start:]
        send = len(rest) // 2 if way in ("cut", "stall") else None
        if way == "slow":
            time.sleep(0.4)
        self.reply(status, rest, headers, send=send, hold=way == "stall")


@pytest.fixture
def site(monkeypatch):
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "127.0.0.1")
    server = Site()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.closing.set()
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def pauses(monkeypatch):
    waited: list[float] = []
    monkeypatch.setattr(download, "pause", waited.append)
    return waited


@pytest.fixture
def target(tmp_path):
    return tmp_path / "data" / "file.tsv"


def leave_part(target, site, body, *, total: int | None = SIZE):
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    part.write_bytes(body)
    note = {"url": site.url(), "validator": '"v1"', "total": total}
    part.with_name(part.name + ".json").write_text(json.dumps(note), encoding="utf-8")
    return part


def names(target):
    return sorted(path.name for path in target.parent.iterdir() if not path.name.endswith(".lock"))


def refusal(*arguments, kind=KosbertError, **options):
    with pytest.raises(kind) as caught:
        fetch(*arguments, **options)
    message = str(caught.value)
    assert "\n" not in message
    return message


# --- checksums


def test_digest_and_verify_known_answers(tmp_path):
    path = tmp_path / "hello"
    path.write_bytes(b"hello\n")
    plain = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03"
    assert digest(path, "git") == "ce013625030ba8dba906f756967f9e9ca394464a"
    assert digest(path, "sha256") == plain
    assert verify(path, "git:CE013625030BA8DBA906F756967F9E9CA394464A")
    assert verify(path, f"sha256:{plain}")
    assert not verify(path, sha256(b"hello"))
    assert not verify(tmp_path / "absent", f"sha256:{plain}")
    with pytest.raises(UsageError, match="sha256 or git"):
        digest(path, "md5")


@pytest.mark.parametrize(
    "checksum", ["md5:00", "sha256:00", "git:" + "g" * 40, "ce013625030ba8dba906f756967f9e9ca394464a"]
)
def test_a_malformed_checksum_is_refused_before_any_request(site, target, checksum):
    refusal(site.url(), target, checksum=checksum, kind=UsageError)
    with pytest.raises(UsageError):
        verify(target, checksum)
    assert not site.requests


# --- what goes right


@pytest.mark.parametrize("way", ["ok", "chunked", "no-range"])
@pytest.mark.parametrize("checksum", ["", sha256(BODY), "git:" + hashlib.sha1(b"blob %d\0" % SIZE + BODY).hexdigest()])
def test_the_right_bytes_arrive_and_nothing_else_stays(site, target, way, checksum):
    site.after = way
    seen = []
    assert fetch(site.url(), target, checksum=checksum, progress=lambda *pair: seen.append(pair)) == target
    assert target.read_bytes() == BODY
    assert names(target) == ["file.tsv"]
    done = [pair[0] for pair in seen]
    assert done == sorted(done)
    assert done[0] == 0
    assert seen[-1] == (SIZE, SIZE)
    assert {total for _, total in seen[:-1]} == ({None} if way == "chunked" else {SIZE})
    assert site.requests[0]["accept-encoding"] == "identity"


def test_a_file_that_is_here_is_kept_unless_its_checksum_is_wrong(site, target):
    target.parent.mkdir()
    target.write_bytes(b"by hand")
    fetch(site.url(), target)
    fetch(site.url(), target, checksum=sha256(b"by hand"))
    assert not site.requests
    fetch(site.url(), target, checksum=sha256(BODY))
    assert target.read_bytes() == BODY


def test_an_empty_file_that_is_here_is_no_download(site, target):
    target.parent.mkdir()
    target.touch()
    assert fetch(site.url(), target).read_bytes() == BODY


def test_an_address_with_korean_letters(site, target):
    fetch(site.url("한국어 말뭉치.tsv?a=1&b=%20"), target)
    assert site.requests[0]["path"] == ("/%ED%95%9C%EA%B5%AD%EC%96%B4%20%EB%A7%90%EB%AD%89%EC%B9%98.tsv?a=1&b=%20")


def test_a_page_is_welcome_where_a_page_is_asked_for(site, tmp_path):
    site.after, site.extra = "page", {"Content-Type": "text/html"}
    assert fetch(site.url(), tmp_path / "page.html").read_bytes() == PAGE


def test_a_checksum_outweighs_a_wrong_content_type(site, target):
    site.after, site.extra = "page", {"Content-Type": "text/html"}
    assert fetch(site.url(), target, checksum=sha256(PAGE)).read_bytes() == PAGE


def test_a_redirect_to_http_is_followed(site, target):
    site.script, site.location = ["redirect"], site.url("moved.tsv")
    assert fetch(site.url(), target).read_bytes() == BODY
    assert [request["path"] for request in site.requests] == ["/file.tsv", "/moved.tsv"]


# --- failures that may pass


@pytest.mark.parametrize("script", [["cut"], ["stall"], ["500"], ["503", "429"], ["cut", "500", "stall", "cut"]])
@pytest.mark.parametrize("checksum", ["", sha256(BODY)])
def test_a_passing_failure_is_survived(site, target, pauses, script, checksum):
    site.script = list(script)
    seen = []
    fetch(site.url(), target, checksum=checksum, timeout=STALL, progress=lambda *pair: seen.append(pair[0]))
    assert target.read_bytes() == BODY
    assert names(target) == ["file.tsv"]
    assert len(site.requests) == len(script) + 1
    assert seen == sorted(seen)
    assert seen[-1] == SIZE
    for attempt, wait in enumerate(pauses):
        assert 0.5 * 2**attempt <= wait <= 2**attempt


@pytest.mark.parametrize("way", ["cut", "stall"])
def test_a_broken_transfer_is_continued_with_a_validated_range(site, target, pauses, way):
    site.script = [way]
    fetch(site.url(), target, timeout=STALL)
    assert target.read_bytes() == BODY
    assert site.ranges() == [None, f"bytes={SIZE // 2}-"]
    assert site.requests[1]["if-range"] == '"v1"'


def test_a_weak_etag_gives_way_to_the_date(site, target, pauses):
    site.etag, site.modified = 'W/"v1"', "Mon, 01 Jan 2024 00:00:00 GMT"
    site.script = ["cut"]
    fetch(site.url(), target)
    assert target.read_bytes() == BODY
    assert site.requests[1]["if-range"] == site.modified
    assert site.ranges()[1]


@pytest.mark.parametrize(("checksum", "resumes"), [("", False), (sha256(BODY), True)])
def test_without_validator_only_a_checksum_allows_to_resume(site, target, pauses, checksum, resumes):
    site.etag = ""
    site.script = ["cut"]
    fetch(site.url(), target, checksum=checksum)
    assert target.read_bytes() == BODY
    assert bool(site.ranges()[1]) is resumes


def test_a_cut_in_a_body_of_unknown_length_is_noticed(site, target, pauses):
    site.script = ["chunked-cut"]
    fetch(site.url(), target)
    assert target.read_bytes() == BODY
    assert site.ranges() == [None, f"bytes={SIZE // 2}-"]


def test_giving_up_keeps_the_part_and_the_next_run_goes_on(site, target, pauses):
    site.after = "cut"
    message = refusal(site.url(), target, attempts=2)
    assert site.url() in message
    assert "resumes" in message
    assert len(site.requests) == 2
    assert len(pauses) == 1
    assert names(target) == ["file.tsv.part", "file.tsv.part.json"]
    site.after = "ok"
    fetch(site.url(), target, attempts=1)
    assert target.read_bytes() == BODY
    assert site.ranges()[2] == f"bytes={SIZE // 2 + (SIZE - SIZE // 2) // 2}-"


def test_a_stalled_server_is_named_as_such(site, target, pauses):
    site.after = "stall"
    assert "nothing came for 0.5 seconds" in refusal(site.url(), target, attempts=1, timeout=STALL)
    assert not target.exists()


@pytest.mark.parametrize(
    ("value", "least", "most"),
    [
        ("7", 7, 7),
        ("86400", 60, 60),
        ("Fri, 01 Jan 2100 00:00:00 GMT", 60, 60),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0, 0),
        ("soon", 0.5, 1),
    ],
)
def test_retry_after_is_honored_up_to_a_cap(site, target, pauses, value, least, most):
    site.script, site.extra = ["429"], {"Retry-After": value}
    fetch(site.url(), target)
    assert target.read_bytes() == BODY
    assert len(pauses) == 1
    assert least <= pauses[0] <= most


def test_a_server_that_is_not_there(site, target, pauses):
    site.shutdown()
    site.server_close()
    message = refusal(site.url(), target, attempts=3)
    assert "3 attempts" in message
    assert "refused" in message.lower() or sys.platform == "win32"
    assert len(pauses) == 2


# --- parts that do not fit


def test_a_server_that_ignores_ranges_starts_again(site, target):
    leave_part(target, site, b"x" * 1000)
    site.after = "no-range"
    fetch(site.url(), target)
    assert target.read_bytes() == BODY
    assert site.ranges() == ["bytes=1000-"]


def test_a_changed_etag_starts_again(site, target, pauses):
    leave_part(target, site, b"x" * 1000)
    site.etag = '"v2"'
    fetch(site.url(), target)
    assert target.read_bytes() == BODY
    assert site.ranges() == ["bytes=1000-"]


@pytest.mark.parametrize("way", ["careless", "shifted"])
def test_a_range_that_does_not_fit_is_not_glued_on(site, target, way):
    leave_part(target, site, b"x" * 1000)
    site.etag = '"v2"' if way == "careless" else '"v1"'
    site.after = way
    fetch(site.url(), target, attempts=1)
    assert target.read_bytes() == BODY
    assert site.ranges() == ["bytes=1000-", None]


def test_a_range_past_the_end_starts_again(site, target):
    leave_part(target, site, b"x" * (SIZE + 5), total=None)
    fetch(site.url(), target, attempts=1)
    assert target.read_bytes() == BODY
    assert site.ranges() == [f"bytes={SIZE + 5}-", None]


def test_a_part_that_is_whole_needs_no_request(site, target):
    leave_part(target, site, BODY)
    seen = []
    fetch(site.url(), target, checksum=sha256(BODY), progress=lambda *pair: seen.append(pair))
    assert target.read_bytes() == BODY
    assert not site.requests
    assert seen == [(SIZE, SIZE)]


@pytest.mark.parametrize("length", [1000, SIZE])
def test_a_bad_part_is_fetched_again_from_zero_once(site, target, length):
    leave_part(target, site, b"x" * length)
    fetch(site.url(), target, checksum=sha256(BODY))
    assert target.read_bytes() == BODY
    assert site.ranges()[-1] is None
    target.unlink()
    leave_part(target, site, b"x" * 1000)
    site.requests.clear()
    refusal(site.url(), target, checksum=sha256(b"never"))
    assert site.ranges() == ["bytes=1000-", None]
    assert names(target) == []


@pytest.mark.parametrize(
    "note", ["", "[]", "{", '{"url": 1, "other": 2}', '{"url": "http://elsewhere/", "validator": "\\"v1\\""}']
)
def test_a_part_with_a_doubtful_note_is_not_used(site, target, note):
    part = leave_part(target, site, b"x" * 1000)
    part.with_name(part.name + ".json").write_text(note, encoding="utf-8")
    fetch(site.url(), target)
    assert target.read_bytes() == BODY
    assert site.ranges() == [None]


# --- refusals


def test_wrong_bytes_are_refused_with_both_checksums(site, target):
    site.after = "wrong"
    message = refusal(site.url(), target, checksum=sha256(BODY))
    assert site.url() in message
    assert sha256(BODY) in message
    assert sha256(BODY[::-1]) in message
    assert "run the same command again" in message
    assert names(target) == []
    assert len(site.requests) == 1


@pytest.mark.parametrize("status", ["404", "403", "410", "401"])
def test_a_final_no_fails_at_once(site, target, pauses, status):
    site.after = status
    message = refusal(site.url(), target)
    assert status in message
    assert f"put it at {target}" in message
    assert len(site.requests) == 1
    assert not pauses
    assert names(target) == []


@pytest.mark.parametrize("extra", [{}, {"Content-Type": "text/html; charset=utf-8"}])
def test_a_page_with_status_200_is_refused(site, target, extra):
    site.after, site.extra = "page", extra
    assert "web page" in refusal(site.url(), target)
    assert names(target) == []
    assert "web page" in refusal(site.url(), target, checksum=sha256(BODY))
    assert names(target) == []


def test_a_log_in_page_does_not_cost_the_part(site, target):
    part = leave_part(target, site, BODY[:1000])
    site.after, site.extra = "page", {"Content-Type": "text/html"}
    refusal(site.url(), target)
    assert part.read_bytes() == BODY[:1000]


@pytest.mark.parametrize(
    ("way", "words"), [("empty", "is empty"), ("endless", "neither a length"), ("compressed", "compressed")]
)
def test_a_body_that_nothing_vouches_for_is_refused(site, target, way, words):
    site.after = way
    assert words in refusal(site.url(), target)
    assert names(target) == []


def test_a_checksum_vouches_for_empty_and_endless_bodies(site, target):
    site.script = ["endless", "empty"]
    assert fetch(site.url(), target, checksum=sha256(BODY)).read_bytes() == BODY
    assert fetch(site.url(), target.with_name("empty"), checksum=sha256(b"")).read_bytes() == b""


@pytest.mark.parametrize("location", ["file:///etc/hostname", "ftp://127.0.0.1/file", "data:,hello"])
def test_a_redirect_away_from_http_is_refused(site, target, pauses, location):
    site.after, site.location = "redirect", location
    assert "not safe to follow" in refusal(site.url(), target)
    assert names(target) == []
    assert not pauses


def test_a_redirect_loop_ends(site, target, pauses):
    site.after, site.location = "redirect", site.url()
    refusal(site.url(), target)
    assert not pauses


def test_https_is_never_left_for_http():
    handler = download._SafeRedirects()
    for new, allowed in [("http://b/", False), ("https://b/", True)]:
        arguments = (Request("https://a/"), io.BytesIO(), 302, "", {}, new)
        if allowed:
            assert handler.redirect_request(*arguments).full_url == new
        else:
            with pytest.raises(HTTPError) as caught:
                handler.redirect_request(*arguments)
            caught.value.close()


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "ftp://a/b", "/etc/passwd", "", "http://", "http://[::1/x", "http://a:b/"]
)
def test_only_http_addresses_are_accepted(target, url):
    refusal(url, target, kind=UsageError)
    assert not target.parent.exists()


@pytest.mark.parametrize("options", [{"attempts": 0}, {"timeout": 0}])
def test_impossible_options(site, target, options):
    refusal(site.url(), target, kind=UsageError, **options)


# --- the disk


def test_a_folder_that_cannot_be_made(site, tmp_path):
    (tmp_path / "file").write_bytes(b"in the way")
    assert "writable" in refusal(site.url(), tmp_path / "file" / "below" / "x.tsv")
    assert not site.requests


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root and Windows may write anywhere")
def test_a_folder_that_may_not_be_written(site, target):
    target.parent.mkdir(mode=0o500)
    assert "writable" in refusal(site.url(), target)


def test_a_full_disk_keeps_the_part(site, target, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(download.os, "fsync", full)
        message = refusal(site.url(), target, checksum=sha256(BODY))
    assert "full" in message
    assert "resumes" in message
    assert names(target) == ["file.tsv.part", "file.tsv.part.json"]
    fetch(site.url(), target, checksum=sha256(BODY))
    assert target.read_bytes() == BODY
    assert len(site.requests) == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_disk_that_fills_while_bytes_arrive(site, target):
    target.parent.mkdir()
    target.with_name("file.tsv.part").symlink_to("/dev/full")
    assert "is full" in refusal(site.url(), target)
    assert not target.exists()
    assert len(site.requests) == 1


def test_an_interruption_leaves_the_part(site, target):
    def interrupt(done, total):
        if done > 1000:
            raise KeyboardInterrupt

    site.script = ["stall"]
    with pytest.raises(KeyboardInterrupt):
        fetch(site.url(), target, progress=interrupt)
    kept = target.with_name("file.tsv.part").stat().st_size
    assert 0 < kept < SIZE
    assert not target.exists()
    fetch(site.url(), target)
    assert target.read_bytes() == BODY
    assert site.ranges()[1] == f"bytes={kept}-"


# --- real processes


def run(url, target, *, checksum=""):
    code = "import sys; from pathlib import Path; from kosbert.data.download import fetch; " + (
        "fetch(sys.argv[1], Path(sys.argv[2]), checksum=sys.argv[3])"
    )
    return subprocess.Popen([sys.executable, "-c", code, url, str(target), checksum])


def until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.01)


def test_a_killed_process_is_continued_by_the_next(site, target):
    site.script = ["stall"]
    part = target.with_name("file.tsv.part")
    process = run(site.url(), target)
    try:
        until(lambda: part.exists() and part.stat().st_size >= SIZE // 3)
    finally:
        process.kill()
        process.wait()
    kept = part.stat().st_size
    assert not target.exists()
    assert target.with_name("file.tsv.lock").exists()  # left behind, and blocks nobody
    fetch(site.url(), target, checksum=sha256(BODY))
    assert target.read_bytes() == BODY
    assert site.ranges() == [None, f"bytes={kept}-"]


def test_processes_that_want_the_same_file_share_one_download(site, target):
    site.after = "slow"
    processes = [run(site.url(), target, checksum=sha256(BODY)) for _ in range(3)]
    assert [process.wait(60) for process in processes] == [0, 0, 0]
    assert target.read_bytes() == BODY
    assert names(target) == ["file.tsv"]
    assert len(site.requests) == 1


def test_threads_that_want_the_same_file_share_one_download(site, target):
    site.after = "slow"
    threads = [threading.Thread(target=fetch, args=(site.url(), target)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert target.read_bytes() == BODY
    assert len(site.requests) == 1


def test_a_process_that_holds_the_lock_and_does_nothing_is_not_waited_for_for_ever(site, target, monkeypatch):
    monkeypatch.setattr(download, "wait_lock", functools.partial(files.wait_lock, patience=0.1))
    target.parent.mkdir()
    with files.try_lock(target.with_name("file.tsv.lock"), "busy"):
        assert "another process" in refusal(site.url(), target)
    fetch(site.url(), target)
    assert target.read_bytes() == BODY


# --- archives

MEMBERS = {"set/train.tsv": BODY, "set/dev.tsv": b"dev\n", "../escape.tsv": b"outside\n"}


def archive(name):
    buffer = io.BytesIO()
    if name.endswith(".zip"):
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as bundle:
            for path, body in MEMBERS.items():
                bundle.writestr(path, body)
    else:
        with tarfile.open(fileobj=buffer, mode="w:gz") as bundle:
            for path, body in MEMBERS.items():
                item = tarfile.TarInfo(path)
                item.size = len(body)
                bundle.addfile(item, io.BytesIO(body))
    return buffer.getvalue()


@pytest.mark.parametrize("name", ["set.zip", "set.tar.gz", "set.TGZ"])
@pytest.mark.parametrize("proven", [True, False])
def test_members_come_from_one_download_and_land_only_on_the_target(site, tmp_path, name, proven):
    site.body = archive(name)
    folder = tmp_path / "data"
    for number, (member, body) in enumerate(MEMBERS.items()):
        path = folder / f"{number}.tsv"
        checksum = sha256(site.body) if proven else ""
        assert fetch(site.url(name), path, checksum=checksum, member=member).read_bytes() == body
    assert len(site.requests) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
    kept = [path for path in folder.iterdir() if path.suffix not in (".tsv", ".lock")]
    assert [path.name.split("-", 1)[1] for path in kept] == [name]
    assert kept[0].read_bytes() == site.body


@pytest.mark.parametrize("name", ["set.zip", "set.tgz"])
def test_a_member_that_is_not_there(site, target, name):
    site.body = archive(name)
    assert "set/train.tsv" in refusal(site.url(name), target, member="set/trian.tsv", kind=UsageError)
    assert not target.exists()
    assert not target.with_name("file.tsv.part").exists()


@pytest.mark.parametrize("name", ["set.zip", "set.tgz"])
@pytest.mark.parametrize("damage", ["cut", "flipped"])
def test_a_damaged_archive_is_refused_and_fetched_anew(site, target, name, damage):
    whole = archive(name)
    if damage == "cut":
        site.body = whole[: len(whole) * 2 // 3]
    else:
        # In a zip the bytes of the first member; in a gzip its own checksum, which nothing but a read to the end meets.
        place = whole.index(b"set/train.tsv") + 100 if name.endswith("zip") else len(whole) - 6
        site.body = whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :]
    assert "cannot be unpacked" in refusal(site.url(name), target, member="set/train.tsv")
    assert names(target) == []
    site.body = whole
    assert fetch(site.url(name), target, member="set/train.tsv").read_bytes() == BODY


def test_archives_of_one_name_from_two_places_are_not_mixed_up(site, tmp_path):
    site.body = archive("main.zip")
    fetch(site.url("one/main.zip"), tmp_path / "one.tsv", member="set/dev.tsv")
    fetch(site.url("two/main.zip"), tmp_path / "two.tsv", member="set/dev.tsv")
    assert len(site.requests) == 2


def test_an_archive_with_a_wrong_checksum_gives_no_member(site, target):
    site.body = archive("set.zip")
    refusal(site.url("set.zip"), target, member="set/dev.tsv", checksum=sha256(BODY))
    assert names(target) == []


def test_a_member_of_what_is_no_archive(site, target):
    refusal(site.url("file.tsv"), target, member="a", kind=UsageError)
    assert not site.requests
