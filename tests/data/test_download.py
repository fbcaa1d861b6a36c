"""Downloads from a real local server that misbehaves as scripted."""

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


class FakeServer(ThreadingHTTPServer):
    """Answers with the behaviors of `script` in order, then always with `after`; records the request headers."""

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
        pass  # some tests kill the client


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FakeServer

    def log_message(self, *arguments):
        pass

    def do_GET(self):
        server = self.server
        server.requests.append({name.lower(): value for name, value in self.headers.items()} | {"path": self.path})
        behavior = server.script.pop(0) if server.script else server.after
        if behavior.isdecimal():
            self.reply(int(behavior), b"sorry", server.extra)
        elif behavior == "redirect":
            self.reply(302, b"", {"Location": server.location})
        elif behavior == "page":
            self.reply(200, PAGE, server.extra)
        elif behavior == "empty":
            self.reply(200, b"", {})
        elif behavior == "compressed":
            self.reply(200, gzip.compress(server.body), {"Content-Encoding": "gzip"})
        elif behavior == "endless":
            self.close_connection = True
            self.reply(200, server.body, {}, length=False)
        elif behavior.startswith("chunked"):
            self.chunked(cut=behavior == "chunked-cut")
        else:
            self.full_or_range(behavior)

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

    def full_or_range(self, behavior):
        server = self.server
        body = server.body[::-1] if behavior == "wrong" else server.body
        status, start, headers = 200, 0, self.validators()
        requested_range, condition = self.headers.get("Range"), self.headers.get("If-Range")
        unchanged = behavior == "careless" or condition in (None, server.etag, server.modified)
        if requested_range and unchanged and behavior != "no-range":
            start = int(requested_range.removeprefix("bytes=").rstrip("-"))
            if start >= len(body):
                self.reply(416, b"", {"Content-Range": f"bytes */{len(body)}"})
                return
            status = 206
            begin = start - 1 if behavior == "shifted" else start
            headers["Content-Range"] = f"bytes {begin}-{len(body) - 1}/{len(body)}"
        rest = body[start:]
        send = len(rest) // 2 if behavior in ("cut", "stall") else None
        if behavior == "slow":
            time.sleep(0.4)
        self.reply(status, rest, headers, send=send, hold=behavior == "stall")


@pytest.fixture
def server(monkeypatch):
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "127.0.0.1")
    server = FakeServer()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.closing.set()
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def pauses(monkeypatch):
    """Record the waiting times instead of waiting."""
    pauses: list[float] = []
    monkeypatch.setattr(download, "pause", pauses.append)
    return pauses


@pytest.fixture
def target(tmp_path):
    return tmp_path / "data" / "file.tsv"


def leave_part(target, server, body, *, total: int | None = SIZE):
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    part.write_bytes(body)
    origin = {"url": server.url(), "validator": '"v1"', "total": total}
    part.with_name(part.name + ".json").write_text(json.dumps(origin), encoding="utf-8")
    return part


def names(target):
    return sorted(path.name for path in target.parent.iterdir() if not path.name.endswith(".lock"))


def error_of(*arguments, kind=KosbertError, **options):
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
def test_malformed_checksum_is_refused_before_any_request(server, target, checksum):
    error_of(server.url(), target, checksum=checksum, kind=UsageError)
    with pytest.raises(UsageError):
        verify(target, checksum)
    assert not server.requests


# --- successful downloads


@pytest.mark.parametrize("behavior", ["ok", "chunked", "no-range"])
@pytest.mark.parametrize("checksum", ["", sha256(BODY), "git:" + hashlib.sha1(b"blob %d\0" % SIZE + BODY).hexdigest()])
def test_download_is_complete_and_leaves_no_other_files(server, target, behavior, checksum):
    server.after = behavior
    seen = []
    assert (
        fetch(server.url(), target, checksum=checksum, on_progress=lambda event: seen.append((event.done, event.total)))
        == target
    )
    assert target.read_bytes() == BODY
    assert names(target) == ["file.tsv"]
    done = [pair[0] for pair in seen]
    assert done == sorted(done)
    assert done[0] == 0
    assert seen[-1] == (SIZE, SIZE)
    assert {total for _, total in seen[:-1]} == ({None} if behavior == "chunked" else {SIZE})
    assert server.requests[0]["accept-encoding"] == "identity"


def test_existing_file_is_kept_unless_its_checksum_is_wrong(server, target):
    target.parent.mkdir()
    target.write_bytes(b"existing")
    fetch(server.url(), target)
    fetch(server.url(), target, checksum=sha256(b"existing"))
    assert not server.requests
    fetch(server.url(), target, checksum=sha256(BODY))
    assert target.read_bytes() == BODY


def test_existing_empty_file_is_downloaded_again(server, target):
    target.parent.mkdir()
    target.touch()
    assert fetch(server.url(), target).read_bytes() == BODY


def test_url_with_korean_characters_is_quoted(server, target):
    fetch(server.url("한국어 말뭉치.tsv?a=1&b=%20"), target)
    assert server.requests[0]["path"] == ("/%ED%95%9C%EA%B5%AD%EC%96%B4%20%EB%A7%90%EB%AD%89%EC%B9%98.tsv?a=1&b=%20")


def test_html_target_accepts_a_web_page(server, tmp_path):
    server.after, server.extra = "page", {"Content-Type": "text/html"}
    assert fetch(server.url(), tmp_path / "page.html").read_bytes() == PAGE


def test_matching_checksum_overrides_the_content_type(server, target):
    server.after, server.extra = "page", {"Content-Type": "text/html"}
    assert fetch(server.url(), target, checksum=sha256(PAGE)).read_bytes() == PAGE


def test_http_redirect_is_followed(server, target):
    server.script, server.location = ["redirect"], server.url("moved.tsv")
    assert fetch(server.url(), target).read_bytes() == BODY
    assert [request["path"] for request in server.requests] == ["/file.tsv", "/moved.tsv"]


# --- temporary failures


@pytest.mark.parametrize("script", [["cut"], ["stall"], ["500"], ["503", "429"], ["cut", "500", "stall", "cut"]])
@pytest.mark.parametrize("checksum", ["", sha256(BODY)])
def test_temporary_failures_are_retried(server, target, pauses, script, checksum):
    server.script = list(script)
    seen = []
    fetch(server.url(), target, checksum=checksum, timeout=STALL, on_progress=lambda event: seen.append(event.done))
    assert target.read_bytes() == BODY
    assert names(target) == ["file.tsv"]
    assert len(server.requests) == len(script) + 1
    assert seen == sorted(seen)
    assert seen[-1] == SIZE
    for attempt, wait in enumerate(pauses):
        assert 0.5 * 2**attempt <= wait <= 2**attempt


@pytest.mark.parametrize("behavior", ["cut", "stall"])
def test_interrupted_transfer_resumes_with_a_validated_range(server, target, pauses, behavior):
    server.script = [behavior]
    fetch(server.url(), target, timeout=STALL)
    assert target.read_bytes() == BODY
    assert server.ranges() == [None, f"bytes={SIZE // 2}-"]
    assert server.requests[1]["if-range"] == '"v1"'


def test_weak_etag_is_replaced_by_the_date(server, target, pauses):
    server.etag, server.modified = 'W/"v1"', "Mon, 01 Jan 2024 00:00:00 GMT"
    server.script = ["cut"]
    fetch(server.url(), target)
    assert target.read_bytes() == BODY
    assert server.requests[1]["if-range"] == server.modified
    assert server.ranges()[1]


@pytest.mark.parametrize(("checksum", "resumes"), [("", False), (sha256(BODY), True)])
def test_resume_needs_a_validator_or_a_checksum(server, target, pauses, checksum, resumes):
    server.etag = ""
    server.script = ["cut"]
    fetch(server.url(), target, checksum=checksum)
    assert target.read_bytes() == BODY
    assert bool(server.ranges()[1]) is resumes


def test_truncated_chunked_body_is_detected(server, target, pauses):
    server.script = ["chunked-cut"]
    fetch(server.url(), target)
    assert target.read_bytes() == BODY
    assert server.ranges() == [None, f"bytes={SIZE // 2}-"]


def test_part_is_kept_after_the_last_attempt_and_resumed(server, target, pauses):
    server.after = "cut"
    message = error_of(server.url(), target, attempts=2)
    assert server.url() in message
    assert "resumes" in message
    assert len(server.requests) == 2
    assert len(pauses) == 1
    assert names(target) == ["file.tsv.part", "file.tsv.part.json"]
    server.after = "ok"
    fetch(server.url(), target, attempts=1)
    assert target.read_bytes() == BODY
    assert server.ranges()[2] == f"bytes={SIZE // 2 + (SIZE - SIZE // 2) // 2}-"


def test_stalled_server_is_reported(server, target, pauses):
    server.after = "stall"
    assert "no data for 0.5 seconds" in error_of(server.url(), target, attempts=1, timeout=STALL)
    assert not target.exists()


@pytest.mark.parametrize(
    ("value", "min_wait", "max_wait"),
    [
        ("7", 7, 7),
        ("86400", 60, 60),
        ("Fri, 01 Jan 2100 00:00:00 GMT", 60, 60),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0, 0),
        ("soon", 0.5, 1),
    ],
)
def test_retry_after_is_respected_up_to_a_limit(server, target, pauses, value, min_wait, max_wait):
    server.script, server.extra = ["429"], {"Retry-After": value}
    fetch(server.url(), target)
    assert target.read_bytes() == BODY
    assert len(pauses) == 1
    assert min_wait <= pauses[0] <= max_wait


def test_unreachable_server_is_an_error_after_all_attempts(server, target, pauses):
    server.shutdown()
    server.server_close()
    message = error_of(server.url(), target, attempts=3)
    assert "3 attempts" in message
    assert "refused" in message.lower() or sys.platform == "win32"
    assert len(pauses) == 2


# --- unusable parts


def test_server_without_ranges_restarts_the_download(server, target):
    leave_part(target, server, b"x" * 1000)
    server.after = "no-range"
    fetch(server.url(), target)
    assert target.read_bytes() == BODY
    assert server.ranges() == ["bytes=1000-"]


def test_changed_etag_restarts_the_download(server, target, pauses):
    leave_part(target, server, b"x" * 1000)
    server.etag = '"v2"'
    fetch(server.url(), target)
    assert target.read_bytes() == BODY
    assert server.ranges() == ["bytes=1000-"]


@pytest.mark.parametrize("behavior", ["careless", "shifted"])
def test_wrong_range_is_not_appended(server, target, behavior):
    leave_part(target, server, b"x" * 1000)
    server.etag = '"v2"' if behavior == "careless" else '"v1"'
    server.after = behavior
    fetch(server.url(), target, attempts=1)
    assert target.read_bytes() == BODY
    assert server.ranges() == ["bytes=1000-", None]


def test_range_past_the_end_restarts_the_download(server, target):
    leave_part(target, server, b"x" * (SIZE + 5), total=None)
    fetch(server.url(), target, attempts=1)
    assert target.read_bytes() == BODY
    assert server.ranges() == [f"bytes={SIZE + 5}-", None]


def test_complete_part_needs_no_request(server, target):
    leave_part(target, server, BODY)
    seen = []
    fetch(server.url(), target, checksum=sha256(BODY), on_progress=lambda event: seen.append((event.done, event.total)))
    assert target.read_bytes() == BODY
    assert not server.requests
    assert seen == [(SIZE, SIZE)]


@pytest.mark.parametrize("length", [1000, SIZE])
def test_wrong_part_is_downloaded_again_once(server, target, length):
    leave_part(target, server, b"x" * length)
    fetch(server.url(), target, checksum=sha256(BODY))
    assert target.read_bytes() == BODY
    assert server.ranges()[-1] is None
    target.unlink()
    leave_part(target, server, b"x" * 1000)
    server.requests.clear()
    error_of(server.url(), target, checksum=sha256(b"never"))
    assert server.ranges() == ["bytes=1000-", None]
    assert names(target) == []


@pytest.mark.parametrize(
    "origin", ["", "[]", "{", '{"url": 1, "other": 2}', '{"url": "http://elsewhere/", "validator": "\\"v1\\""}']
)
def test_part_with_an_unusable_origin_file_is_ignored(server, target, origin):
    part = leave_part(target, server, b"x" * 1000)
    part.with_name(part.name + ".json").write_text(origin, encoding="utf-8")
    fetch(server.url(), target)
    assert target.read_bytes() == BODY
    assert server.ranges() == [None]


# --- refusals


def test_wrong_bytes_are_refused_with_both_checksums(server, target):
    server.after = "wrong"
    message = error_of(server.url(), target, checksum=sha256(BODY))
    assert server.url() in message
    assert sha256(BODY) in message
    assert sha256(BODY[::-1]) in message
    assert "run the same command again" in message
    assert names(target) == []
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", ["404", "403", "410", "401"])
def test_permanent_failure_is_not_retried(server, target, pauses, status):
    server.after = status
    message = error_of(server.url(), target)
    assert status in message
    assert f"put it at {target}" in message
    assert len(server.requests) == 1
    assert not pauses
    assert names(target) == []


@pytest.mark.parametrize("extra", [{}, {"Content-Type": "text/html; charset=utf-8"}])
def test_web_page_with_status_200_is_refused(server, target, extra):
    server.after, server.extra = "page", extra
    assert "web page" in error_of(server.url(), target)
    assert names(target) == []
    assert "web page" in error_of(server.url(), target, checksum=sha256(BODY))
    assert names(target) == []


def test_login_page_does_not_overwrite_the_part(server, target):
    part = leave_part(target, server, BODY[:1000])
    server.after, server.extra = "page", {"Content-Type": "text/html"}
    error_of(server.url(), target)
    assert part.read_bytes() == BODY[:1000]


@pytest.mark.parametrize(
    ("behavior", "words"), [("empty", "is empty"), ("endless", "neither a length"), ("compressed", "compressed")]
)
def test_unverifiable_body_is_refused(server, target, behavior, words):
    server.after = behavior
    assert words in error_of(server.url(), target)
    assert names(target) == []


def test_checksum_verifies_bodies_without_length(server, target):
    server.script = ["endless", "empty"]
    assert fetch(server.url(), target, checksum=sha256(BODY)).read_bytes() == BODY
    assert fetch(server.url(), target.with_name("empty"), checksum=sha256(b"")).read_bytes() == b""


@pytest.mark.parametrize("location", ["file:///etc/hostname", "ftp://127.0.0.1/file", "data:,hello"])
def test_redirect_to_another_scheme_is_refused(server, target, pauses, location):
    server.after, server.location = "redirect", location
    assert "unsafe address" in error_of(server.url(), target)
    assert names(target) == []
    assert not pauses


def test_redirect_loop_is_an_error(server, target, pauses):
    server.after, server.location = "redirect", server.url()
    error_of(server.url(), target)
    assert not pauses


def test_redirect_from_https_to_http_is_refused():
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
def test_only_http_urls_are_accepted(target, url):
    error_of(url, target, kind=UsageError)
    assert not target.parent.exists()


@pytest.mark.parametrize("options", [{"attempts": 0}, {"timeout": 0}])
def test_impossible_options_are_usage_errors(server, target, options):
    error_of(server.url(), target, kind=UsageError, **options)


# --- the disk


def test_directory_that_cannot_be_created_is_an_error(server, tmp_path):
    (tmp_path / "file").write_bytes(b"in the behavior")
    assert "writable" in error_of(server.url(), tmp_path / "file" / "below" / "x.tsv")
    assert not server.requests


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root and Windows may write anywhere")
def test_read_only_directory_is_an_error(server, target):
    target.parent.mkdir(mode=0o500)
    assert "writable" in error_of(server.url(), target)


def test_full_disk_keeps_the_part(server, target, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(download.os, "fsync", full)
        message = error_of(server.url(), target, checksum=sha256(BODY))
    assert "full" in message
    assert "resumes" in message
    assert names(target) == ["file.tsv.part", "file.tsv.part.json"]
    fetch(server.url(), target, checksum=sha256(BODY))
    assert target.read_bytes() == BODY
    assert len(server.requests) == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_disk_full_during_the_transfer_is_reported(server, target):
    target.parent.mkdir()
    target.with_name("file.tsv.part").symlink_to("/dev/full")
    assert "is full" in error_of(server.url(), target)
    assert not target.exists()
    assert len(server.requests) == 1


def test_interruption_keeps_the_part(server, target):
    def interrupt(event):
        if event.done > 1000:
            raise KeyboardInterrupt

    server.script = ["stall"]
    with pytest.raises(KeyboardInterrupt):
        fetch(server.url(), target, on_progress=interrupt)
    kept = target.with_name("file.tsv.part").stat().st_size
    assert 0 < kept < SIZE
    assert not target.exists()
    fetch(server.url(), target)
    assert target.read_bytes() == BODY
    assert server.ranges()[1] == f"bytes={kept}-"


# --- real processes


def run(url, target, *, checksum=""):
    code = "import sys; from pathlib import Path; from kosbert.data.download import fetch; " + (
        "fetch(sys.argv[1], Path(sys.argv[2]), checksum=sys.argv[3])"
    )
    return subprocess.Popen([sys.executable, "-c", code, url, str(target), checksum])


def wait_for(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.01)


def test_download_of_a_killed_process_is_resumed(server, target):
    server.script = ["stall"]
    part = target.with_name("file.tsv.part")
    process = run(server.url(), target)
    try:
        wait_for(lambda: part.exists() and part.stat().st_size >= SIZE // 3)
    finally:
        process.kill()
        process.wait()
    kept = part.stat().st_size
    assert not target.exists()
    assert target.with_name("file.tsv.lock").exists()  # left behind, but not locked
    fetch(server.url(), target, checksum=sha256(BODY))
    assert target.read_bytes() == BODY
    assert server.ranges() == [None, f"bytes={kept}-"]


def test_concurrent_processes_share_one_download(server, target):
    server.after = "slow"
    processes = [run(server.url(), target, checksum=sha256(BODY)) for _ in range(3)]
    assert [process.wait(60) for process in processes] == [0, 0, 0]
    assert target.read_bytes() == BODY
    assert names(target) == ["file.tsv"]
    assert len(server.requests) == 1


def test_concurrent_threads_share_one_download(server, target):
    server.after = "slow"
    threads = [threading.Thread(target=fetch, args=(server.url(), target)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert target.read_bytes() == BODY
    assert len(server.requests) == 1


def test_stuck_process_with_the_lock_is_reported(server, target, monkeypatch):
    monkeypatch.setattr(download, "wait_lock", functools.partial(files.wait_lock, patience=0.1))
    target.parent.mkdir()
    with files.try_lock(target.with_name("file.tsv.lock"), "busy"):
        assert "another process" in error_of(server.url(), target)
    fetch(server.url(), target)
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
@pytest.mark.parametrize("with_checksum", [True, False])
def test_members_are_extracted_from_one_download_to_the_target_only(server, tmp_path, name, with_checksum):
    server.body = archive(name)
    directory = tmp_path / "data"
    for number, (member, body) in enumerate(MEMBERS.items()):
        path = directory / f"{number}.tsv"
        checksum = sha256(server.body) if with_checksum else ""
        assert fetch(server.url(name), path, checksum=checksum, member=member).read_bytes() == body
    assert len(server.requests) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
    kept = [path for path in directory.iterdir() if path.suffix not in (".tsv", ".lock")]
    assert [path.name.split("-", 1)[1] for path in kept] == [name]
    assert kept[0].read_bytes() == server.body


@pytest.mark.parametrize("name", ["set.zip", "set.tgz"])
def test_missing_member_is_a_usage_error(server, target, name):
    server.body = archive(name)
    assert "set/train.tsv" in error_of(server.url(name), target, member="set/trian.tsv", kind=UsageError)
    assert not target.exists()
    assert not target.with_name("file.tsv.part").exists()


@pytest.mark.parametrize("name", ["set.zip", "set.tgz"])
@pytest.mark.parametrize("damage", ["cut", "flipped"])
def test_damaged_archive_is_downloaded_again(server, target, name, damage):
    complete = archive(name)
    if damage == "cut":
        server.body = complete[: len(complete) * 2 // 3]
    else:
        # In a zip, the bytes of the first member; in a gzip, its checksum, which only a read to the end checks.
        position = complete.index(b"set/train.tsv") + 100 if name.endswith("zip") else len(complete) - 6
        server.body = complete[:position] + bytes([complete[position] ^ 0xFF]) + complete[position + 1 :]
    assert "cannot be extracted" in error_of(server.url(name), target, member="set/train.tsv")
    assert names(target) == []
    server.body = complete
    assert fetch(server.url(name), target, member="set/train.tsv").read_bytes() == BODY


def test_archives_with_the_same_name_from_two_urls_are_kept_apart(server, tmp_path):
    server.body = archive("main.zip")
    fetch(server.url("one/main.zip"), tmp_path / "one.tsv", member="set/dev.tsv")
    fetch(server.url("two/main.zip"), tmp_path / "two.tsv", member="set/dev.tsv")
    assert len(server.requests) == 2


def test_archive_with_a_wrong_checksum_is_not_extracted(server, target):
    server.body = archive("set.zip")
    error_of(server.url("set.zip"), target, member="set/dev.tsv", checksum=sha256(BODY))
    assert names(target) == []


def test_member_of_a_file_that_is_no_archive_is_a_usage_error(server, target):
    error_of(server.url("file.tsv"), target, member="a", kind=UsageError)
    assert not server.requests
