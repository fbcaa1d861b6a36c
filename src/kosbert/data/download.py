"""One file from the network to the disk: whole and proven, or not there at all.

    fetch("https://example.org/sts.tsv", Path("sts.tsv"), checksum="git:ce013625030ba8dba906f756967f9e9ca394464a")

Bytes gather in `sts.tsv.part`, and `sts.tsv.part.json` says whose they are, so that a run which was killed can go on.
Only when size and checksum agree is the part renamed onto the target. `sts.tsv.lock` makes a second process wait.
Read `fetch`, `_download`, `_attempt` in this order; the rest serves them.
"""

import gzip
import hashlib
import json
import os
import random
import re
import ssl
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from email.message import Message
from email.utils import parsedate_to_datetime
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import IO, Any
from urllib.error import HTTPError
from urllib.parse import quote, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from kosbert.data.archive import BROKEN, ENDINGS, copy_member
from kosbert.errors import KosbertError, UsageError
from kosbert.files import disk_error, sha256_file, wait_lock

BLOCK = 1 << 20
LONGEST_PAUSE = 60.0  # seconds; also the most that a server's Retry-After can make a user wait
CHECKSUM = re.compile(r"sha256:[0-9a-f]{64}|git:[0-9a-f]{40}", re.IGNORECASE)
AGAIN = "run the same command again, it resumes"
WRITE_ADVICE = f"free some space or set KOSBERT_CACHE to a directory that is writable, then {AGAIN}"

Progress = Callable[[int, int | None], None]


def fetch(
    url: str,
    target: Path,
    *,
    checksum: str = "",
    member: str = "",
    attempts: int = 5,
    timeout: float = 30.0,
    progress: Progress | None = None,
) -> Path:
    """Download `url` to `target`, which appears only when it is whole; go on with what an earlier run left.

    A target that is here already is kept, unless `checksum` shows that it is another file.

    Args:
        url: an http or https address.
        target: the file to write; its folder is made.
        checksum: `sha256:<hex>` or `git:<hex>` (a git blob name). Without one the length that the server announces
            must agree, and an empty body or a web page is refused.
        member: the file to take out of the .zip, .tar.gz or .tgz at `url`; the checksum is then the archive's. The
            archive stays beside the target, so that its other members need no second download.
        attempts: how often to ask before giving up on a failure that may pass.
        timeout: seconds without a byte that count as a failure.
        progress: called with the bytes that are here and, where known, the bytes in all. It never goes back, except
            when the bytes of an earlier attempt turn out to be of no use.
    """
    _check_call(url, checksum, attempts, timeout)
    job = _Job(url, target, checksum.lower(), attempts, timeout, progress)
    own_checksum = "" if member else job.checksum
    archive = target.with_name(_archive_name(url)) if member else target
    try:
        if _is_here(target, own_checksum):
            return target
        target.parent.mkdir(parents=True, exist_ok=True)
        if member:
            fetch(url, archive, checksum=checksum, attempts=attempts, timeout=timeout, progress=progress)
        with wait_lock(job.beside(".lock"), job.part):
            if not _is_here(target, own_checksum):  # another process may have brought it while we waited
                if member:
                    _extract(archive, member, job)
                else:
                    _download(job)
                _publish(job)
    except OSError as error:
        raise disk_error(error, target, WRITE_ADVICE) from error
    return target


def digest(path: Path, kind: str, *, packed: bool = False) -> str:
    """The hexadecimal `sha256` of a file, or its `git` blob name; of what is in it where it is `packed` by gzip."""
    if kind not in ("sha256", "git"):
        raise UsageError(f"{kind!r} is not a kind of checksum: use sha256 or git")
    if kind == "sha256" and not packed:
        return sha256_file(path)
    size = sum(map(len, _blocks(path, packed))) if packed and kind == "git" else path.stat().st_size
    state = hashlib.sha256() if kind == "sha256" else hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    for block in _blocks(path, packed):
        state.update(block)
    return state.hexdigest()


def _blocks(path: Path, packed: bool) -> Iterator[bytes]:
    with path.open("rb") as raw:
        file: Any = gzip.GzipFile(fileobj=raw) if packed else raw
        while block := file.read(BLOCK):
            yield block


def verify(path: Path, checksum: str, *, packed: bool = False) -> bool:
    """Whether a file is here and has this checksum (`sha256:<hex>` or `git:<hex>`); one cut short has not."""
    _check_checksum(checksum)
    kind, _, expected = checksum.lower().partition(":")
    try:
        return path.is_file() and digest(path, kind, packed=packed) == expected
    except (EOFError, gzip.BadGzipFile, zlib.error):
        return False


def pause(seconds: float) -> None:
    """Wait before the next attempt: a function of its own, so that tests need not wait."""
    time.sleep(seconds)


@dataclass(frozen=True)
class _Job:
    url: str
    target: Path
    checksum: str
    attempts: int
    timeout: float
    progress: Progress | None

    def beside(self, suffix: str) -> Path:
        return self.target.with_name(self.target.name + suffix)

    @property
    def part(self) -> Path:
        return self.beside(".part")

    @property
    def note(self) -> Path:
        return self.beside(".part.json")

    @property
    def by_hand(self) -> str:
        return (
            f"download it by hand from {self.url} and put it at {self.target}, or set KOSBERT_DATA to where you have it"
        )

    def discard(self) -> None:
        self.part.unlink(missing_ok=True)
        self.note.unlink(missing_ok=True)

    def report(self, done: int, total: int | None) -> None:
        if self.progress:
            self.progress(done, total)


@dataclass(frozen=True)
class _Note:
    """Whose bytes a part holds: what proves, in a later run, that the rest belongs to the same file."""

    url: str = ""
    validator: str = ""
    total: int | None = None


class _TryAgain(Exception):
    """A failure that may pass, with the seconds that the server asked us to wait."""

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.wait = wait


class _StalePart(Exception):
    """The bytes that are here cannot be continued."""


def _check_call(url: str, checksum: str, attempts: int, timeout: float) -> None:
    try:
        address = urlsplit(url)
        usable = address.scheme in ("http", "https") and bool(address.hostname) and address.port != 0
    except ValueError:  # a malformed host or port
        usable = False
    if not usable:
        raise UsageError(f"{url!r} cannot be downloaded: give an address that starts with https:// or http://")
    if checksum:
        _check_checksum(checksum)
    if attempts < 1 or timeout <= 0:
        raise UsageError(f"attempts={attempts} and timeout={timeout} cannot work: give 1 or more, and more than 0")


def _check_checksum(checksum: str) -> None:
    if not CHECKSUM.fullmatch(checksum):
        raise UsageError(f"{checksum!r} is not a checksum: write sha256: and 64 hex digits, or git: and 40")


def _is_here(target: Path, checksum: str) -> bool:
    return verify(target, checksum) if checksum else target.is_file() and target.stat().st_size > 0


# --- the download ---------------------------------------------------------------------------------------------------


def _download(job: _Job) -> None:
    """Leave a part that is whole and right, or raise."""
    resumed = _transfer(job)
    fault = _fault(job)
    if fault and resumed:  # the old bytes may be to blame, and would be again on every later run
        job.discard()
        _transfer(job)
        fault = _fault(job)
    if fault:
        job.discard()
        raise KosbertError(f"{job.url} {fault}")


def _transfer(job: _Job) -> bool:
    attempt = 1
    while True:
        try:
            return _attempt(job)
        except _TryAgain as trouble:
            if attempt >= job.attempts:
                message = f"{job.url} did not arrive in {attempt} attempts ({trouble}): {AGAIN}, or {job.by_hand}"
                raise KosbertError(message) from trouble
            # Jitter keeps machines that failed together from coming back together.
            backoff = min(2.0 ** (attempt - 1), LONGEST_PAUSE) * random.uniform(0.5, 1.0)
            pause(backoff if trouble.wait is None else trouble.wait)
            attempt += 1


def _attempt(job: _Job) -> bool:
    """One request and its body into the part; True if bytes of an earlier request were kept."""
    offset, note = _resume_point(job)
    if offset and offset == note.total:  # killed between the last byte and the rename
        job.report(offset, offset)
        return True
    try:
        with _request(job, offset, note) as response:
            _refuse_unprovable(job, response)
            offset, note = _place(job, response, offset, note)
            _receive(job, response, offset, note)
    except _StalePart:
        job.discard()
        return _attempt(job)  # from zero, where nothing can be stale
    return offset > 0


def _resume_point(job: _Job) -> tuple[int, _Note]:
    try:
        note = _Note(**json.loads(job.note.read_text(encoding="utf-8")))
        offset = job.part.stat().st_size
        fits = note.url == job.url and (note.total is None or offset <= note.total)
    except (FileNotFoundError, ValueError, TypeError):
        return 0, _Note()
    # With neither a validator nor a checksum nobody could tell two releases glued together from the real file.
    return (offset, note) if fits and (note.validator or job.checksum) else (0, _Note())


def _request(job: _Job, offset: int, note: _Note) -> HTTPResponse:
    headers = {"User-Agent": "kosbert", "Accept-Encoding": "identity"}
    if offset:
        headers["Range"] = f"bytes={offset}-"
        if note.validator:
            headers["If-Range"] = note.validator
    request = Request(quote(job.url, safe="%/:=&?~#+!$,;'@()*[]"), headers=headers)
    try:
        response: HTTPResponse = build_opener(_SafeRedirects).open(request, timeout=job.timeout)
        return response
    except HTTPError as error:
        with error:
            raise _status_trouble(job, error, offset) from error
    except ValueError as error:
        raise KosbertError(f"{job.url} cannot be asked for ({error}): {job.by_hand}") from error
    except (OSError, HTTPException) as error:
        if isinstance(getattr(error, "reason", None), ssl.SSLCertVerificationError):
            message = f"{job.url} has a certificate that this machine does not trust: update its certificates, or "
            raise KosbertError(message + job.by_hand) from error
        raise _network_trouble(job, error) from error


class _SafeRedirects(HTTPRedirectHandler):
    def redirect_request(self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str) -> Any:
        before, after = urlsplit(req.full_url).scheme, urlsplit(newurl).scheme
        if after not in ("http", "https") or (before, after) == ("https", "http"):
            raise HTTPError(newurl, code, "unsafe redirect", headers, fp)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _status_trouble(job: _Job, error: HTTPError, offset: int) -> Exception:
    if error.code == 416 and offset:
        return _StalePart()
    if error.code in (408, 429) or error.code >= 500:
        return _TryAgain(f"the server answered {error.code}", _retry_after(error.headers))
    if 300 <= error.code < 400:
        return KosbertError(f"{job.url} redirects to where it is not safe to follow: {job.by_hand}")
    return KosbertError(f"{job.url} is not to be had (the server answered {error.code}): {job.by_hand}")


def _retry_after(headers: Message) -> float | None:
    value = headers.get("Retry-After", "")
    with suppress(ValueError):
        seconds = float(value) if value.isdecimal() else parsedate_to_datetime(value).timestamp() - time.time()
        return min(max(seconds, 0.0), LONGEST_PAUSE)
    return None


def _network_trouble(job: _Job, error: Exception) -> _TryAgain:
    reason = getattr(error, "reason", error)
    if isinstance(reason, TimeoutError):
        return _TryAgain(f"nothing came for {job.timeout:g} seconds")
    return _TryAgain(getattr(reason, "strerror", None) or str(reason) or type(reason).__name__)


def _refuse_unprovable(job: _Job, response: HTTPResponse) -> None:
    """Refuse before a byte is written, so that a log-in page cannot cost the user the part that is here."""
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise KosbertError(f"{job.url} comes compressed although plain bytes were asked for: {job.by_hand}")
    if job.checksum:
        return
    if response.headers.get_content_type() == "text/html" and not _expects_page(job):
        raise KosbertError(f"{job.url} is a web page and not the file: {job.by_hand}")
    if response.length is None and not response.chunked:
        raise KosbertError(f"{job.url} has neither a length nor a checksum that could prove it whole: {job.by_hand}")


def _place(job: _Job, response: HTTPResponse, offset: int, note: _Note) -> tuple[int, _Note]:
    """Where in the file this body begins, and what to remember of the file."""
    # RFC 9110, 13.1.5: a weak ETag does not promise the same bytes, so it cannot vouch for a range.
    etag = response.headers.get("ETag", "")
    validator = etag if etag.startswith('"') else response.headers.get("Last-Modified", "")
    if response.status != 206:
        return 0, _Note(job.url, validator, response.length)
    if not offset:
        raise _TryAgain("the server sent a part where the whole was asked for")
    span = re.fullmatch(r"bytes (\d+)-\d+/(\d+)", response.headers.get("Content-Range", ""))
    same = validator in ("", note.validator)  # asked again, as there are servers that ignore If-Range
    if not span or not same or int(span[1]) != offset or note.total not in (None, int(span[2])):
        raise _StalePart
    return offset, _Note(job.url, note.validator, int(span[2]))


def _receive(job: _Job, response: HTTPResponse, offset: int, note: _Note) -> None:
    left, done = response.length, offset
    with job.part.open("ab" if offset else "wb") as file:
        # Only now that the part is empty: a kill in between must not leave old bytes under a new note.
        job.note.write_text(json.dumps(asdict(note)), encoding="utf-8")
        job.report(done, note.total)
        while left is None or left > 0:
            try:
                # Not read: it loses what came before a stall. And not past `left`: older Pythons would wait for more.
                block = response.read1(BLOCK if left is None else min(BLOCK, left))
            except (OSError, HTTPException) as error:
                raise _network_trouble(job, error) from error
            if not block:
                break
            file.write(block)
            done += len(block)
            left = None if left is None else left - len(block)
            job.report(done, note.total)
    if left or note.total not in (None, done):
        raise _TryAgain(f"the connection ended after {done:,} of {note.total:,} bytes")
    if note.total is None:
        job.report(done, done)


def _expects_page(job: _Job) -> bool:
    return job.target.suffix.lower() in (".html", ".htm")


def _fault(job: _Job) -> str:
    """What is wrong with a part that has arrived, and the fix; nothing if it is right."""
    with job.part.open("rb") as file:
        start = file.read(512).removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    is_page = start.startswith((b"<!doctype html", b"<html", b"<head", b"<body", b"<script"))
    if job.checksum:
        kind = job.checksum.partition(":")[0]
        got = f"{kind}:{digest(job.part, kind)}"
        if got == job.checksum:
            return ""
        page = " (a web page)" if is_page else ""
        return (
            f"should be {job.checksum} but what came is {got}{page}: run the same command again, "
            "and if that stays so the publisher has changed the file: update kosbert"
        )
    if job.part.stat().st_size == 0:
        return f"is empty: {job.by_hand}"
    return f"is a web page and not the file: {job.by_hand}" if is_page and not _expects_page(job) else ""


# --- the disk -------------------------------------------------------------------------------------------------------


def _publish(job: _Job) -> None:
    with job.part.open("r+b") as file:  # Windows syncs only what is open for writing
        os.fsync(file.fileno())
    job.part.replace(job.target)
    job.note.unlink(missing_ok=True)


def _archive_name(url: str) -> str:
    """A name for the archive beside its members: two addresses that end alike must not share a file."""
    name = re.sub(r"[^\w.-]", "_", Path(urlsplit(url).path).name)
    if not name.lower().endswith(ENDINGS):
        raise UsageError(f"{url} has no members to take out: give the address of a .zip, .tar.gz or .tgz")
    return f"{hashlib.sha256(url.encode()).hexdigest()[:8]}-{name}"


def _extract(archive: Path, member: str, job: _Job) -> None:
    """Stream one member into the part."""
    job.discard()
    try:
        with job.part.open("wb") as sink:
            copy_member(archive, member, sink)
    except BROKEN as error:
        job.discard()
        if not job.checksum:  # a proven archive will not get better by another download
            archive.unlink(missing_ok=True)
        fix = f"run the same command again, or unpack {member} yourself to {job.target}"
        raise KosbertError(f"{archive} from {job.url} cannot be unpacked ({error}): {fix}") from error
    except KosbertError:
        job.discard()
        raise
