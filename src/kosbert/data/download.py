"""Resumable, verified, atomic download of one file.

    fetch("https://example.org/sts.tsv", Path("sts.tsv"), checksum="git:ce013625030ba8dba906f756967f9e9ca394464a")

Bytes are written to `sts.tsv.part`; `sts.tsv.part.json` records their origin, so that an interrupted download resumes.
The part is renamed to the target when size and checksum are right. `sts.tsv.lock` makes a second process wait.
Read `fetch`, `_download` and `_attempt` first; the rest are their helpers.
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
from collections.abc import Iterator
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

from kosbert.data.archive import CORRUPT_ERRORS, ENDINGS, copy_member
from kosbert.errors import KosbertError, UsageError
from kosbert.files import disk_error, sha256_file, wait_lock
from kosbert.progress import ProgressCallback, ProgressEvent

BLOCK = 1 << 20
MAX_WAIT = 60.0  # seconds between attempts, also if the server's Retry-After asks for more
CHECKSUM = re.compile(r"sha256:[0-9a-f]{64}|git:[0-9a-f]{40}", re.IGNORECASE)
RETRY_ADVICE = "run the same command again, it resumes"
WRITE_ADVICE = f"free some space or set KOSBERT_CACHE to a directory that is writable, then {RETRY_ADVICE}"


def fetch(
    url: str,
    target: Path,
    *,
    checksum: str = "",
    member: str = "",
    attempts: int = 5,
    timeout: float = 30.0,
    on_progress: ProgressCallback | None = None,
) -> Path:
    """Download `url` to `target` atomically, resuming an earlier attempt; return the target.

    An existing target is kept unless its checksum is wrong.

    Args:
        url: an http or https address.
        target: the file to write; its directory is created.
        checksum: `sha256:<hex>` or `git:<hex>` (a git blob name). Without one the file must have the length that the
            server announces, and an empty body or a web page is refused.
        member: the file to extract from the .zip, .tar.gz or .tgz at `url`; the checksum is then the archive's. The
            archive is kept next to the target, so that other members need no second download.
        attempts: how many times to try after temporary failures.
        timeout: seconds without a byte that count as a failure.
        on_progress: called with the bytes so far and, if known, the total. They decrease only when the bytes of an
            earlier attempt turn out to be unusable.
    """
    _check_arguments(url, checksum, attempts, timeout)
    job = _Job(url, target, checksum.lower(), attempts, timeout, on_progress)
    target_checksum = "" if member else job.checksum
    archive = target.with_name(_archive_name(url)) if member else target
    try:
        if _is_complete(target, target_checksum):
            return target
        target.parent.mkdir(parents=True, exist_ok=True)
        if member:
            fetch(url, archive, checksum=checksum, attempts=attempts, timeout=timeout, on_progress=on_progress)
        with wait_lock(job.sibling(".lock"), job.part):
            if not _is_complete(target, target_checksum):  # another process may have downloaded it while we waited
                if member:
                    _extract(archive, member, job)
                else:
                    _download(job)
                _publish(job)
    except OSError as error:
        raise disk_error(error, target, WRITE_ADVICE) from error
    return target


def digest(path: Path, kind: str, *, gzipped: bool = False) -> str:
    """Return the hexadecimal `sha256` or `git` blob name of a file, or of its decompressed content if `gzipped`."""
    if kind not in ("sha256", "git"):
        raise UsageError(f"{kind!r} is not a kind of checksum: use sha256 or git")
    if kind == "sha256" and not gzipped:
        return sha256_file(path)
    size = sum(map(len, _blocks(path, gzipped))) if gzipped and kind == "git" else path.stat().st_size
    state = hashlib.sha256() if kind == "sha256" else hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    for block in _blocks(path, gzipped):
        state.update(block)
    return state.hexdigest()


def _blocks(path: Path, gzipped: bool) -> Iterator[bytes]:
    with path.open("rb") as raw:
        file: Any = gzip.GzipFile(fileobj=raw) if gzipped else raw
        while block := file.read(BLOCK):
            yield block


def verify(path: Path, checksum: str, *, gzipped: bool = False) -> bool:
    """Return whether a file exists and has this checksum (`sha256:<hex>` or `git:<hex>`); a truncated one has not."""
    _check_checksum(checksum)
    kind, _, expected = checksum.lower().partition(":")
    try:
        return path.is_file() and digest(path, kind, gzipped=gzipped) == expected
    except (EOFError, gzip.BadGzipFile, zlib.error):
        return False


def pause(seconds: float) -> None:
    """Wait before the next attempt (a function that tests can replace)."""
    time.sleep(seconds)


@dataclass(frozen=True)
class _Job:
    url: str
    target: Path
    checksum: str
    attempts: int
    timeout: float
    on_progress: ProgressCallback | None

    def sibling(self, suffix: str) -> Path:
        return self.target.with_name(self.target.name + suffix)

    @property
    def part(self) -> Path:
        return self.sibling(".part")

    @property
    def origin_file(self) -> Path:
        return self.sibling(".part.json")

    @property
    def manual_advice(self) -> str:
        return (
            f"download {self.url} yourself and put it at {self.target}, or set KOSBERT_DATA to a directory that has it"
        )

    def discard(self) -> None:
        self.part.unlink(missing_ok=True)
        self.origin_file.unlink(missing_ok=True)

    def report(self, done: int, total: int | None) -> None:
        if self.on_progress:
            name = Path(urlsplit(self.url).path).name or self.target.name
            self.on_progress(ProgressEvent(f"download {name}", done, total, "bytes"))


@dataclass(frozen=True)
class _Origin:
    """Where the bytes of a part are from: proves to a later run that the rest belongs to the same file."""

    url: str = ""
    validator: str = ""
    total: int | None = None


class _TemporaryError(Exception):
    """A temporary failure, with the seconds that the server asked us to wait."""

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.wait = wait


class _StalePart(Exception):
    """The download of this part cannot be resumed."""


def _check_arguments(url: str, checksum: str, attempts: int, timeout: float) -> None:
    try:
        address = urlsplit(url)
        usable = address.scheme in ("http", "https") and bool(address.hostname) and address.port != 0
    except ValueError:  # a malformed host or port
        usable = False
    if not usable:
        raise UsageError(f"{url!r} cannot be downloaded: give a URL that starts with https:// or http://")
    if checksum:
        _check_checksum(checksum)
    if attempts < 1 or timeout <= 0:
        raise UsageError(f"attempts={attempts}, timeout={timeout}: attempts must be at least 1 and timeout above 0")


def _check_checksum(checksum: str) -> None:
    if not CHECKSUM.fullmatch(checksum):
        raise UsageError(f"{checksum!r} is not a checksum: write sha256: and 64 hex digits, or git: and 40")


def _is_complete(target: Path, checksum: str) -> bool:
    return verify(target, checksum) if checksum else target.is_file() and target.stat().st_size > 0


# --- download -------------------------------------------------------------------------------------------------------


def _download(job: _Job) -> None:
    """Download a complete and correct part, or raise."""
    resumed = _transfer(job)
    problem = _find_problem(job)
    if problem and resumed:  # the old bytes may be wrong, and would be wrong again on every later run
        job.discard()
        _transfer(job)
        problem = _find_problem(job)
    if problem:
        job.discard()
        raise KosbertError(f"{job.url} {problem}")


def _transfer(job: _Job) -> bool:
    attempt = 1
    while True:
        try:
            return _attempt(job)
        except _TemporaryError as error:
            if attempt >= job.attempts:
                reason = f"could not be downloaded in {attempt} attempts ({error})"
                raise KosbertError(f"{job.url} {reason}: {RETRY_ADVICE}, or {job.manual_advice}") from error
            # Jitter keeps machines that failed together from retrying together.
            backoff = min(2.0 ** (attempt - 1), MAX_WAIT) * random.uniform(0.5, 1.0)
            pause(backoff if error.wait is None else error.wait)
            attempt += 1


def _attempt(job: _Job) -> bool:
    """Make one request and write its body to the part; return True if bytes of an earlier request were kept."""
    offset, origin = _resume_point(job)
    if offset and offset == origin.total:  # killed between the last byte and the rename
        job.report(offset, offset)
        return True
    try:
        with _request(job, offset, origin) as response:
            _refuse_unverifiable(job, response)
            offset, origin = _body_offset(job, response, offset, origin)
            _write_body(job, response, offset, origin)
    except _StalePart:
        job.discard()
        return _attempt(job)  # from zero, which cannot be stale
    return offset > 0


def _resume_point(job: _Job) -> tuple[int, _Origin]:
    try:
        origin = _Origin(**json.loads(job.origin_file.read_text(encoding="utf-8")))
        offset = job.part.stat().st_size
        fits = origin.url == job.url and (origin.total is None or offset <= origin.total)
    except (FileNotFoundError, ValueError, TypeError):
        return 0, _Origin()
    # Without a validator and a checksum, parts of two releases could be joined unnoticed.
    return (offset, origin) if fits and (origin.validator or job.checksum) else (0, _Origin())


def _request(job: _Job, offset: int, origin: _Origin) -> HTTPResponse:
    headers = {"User-Agent": "kosbert", "Accept-Encoding": "identity"}
    if offset:
        headers["Range"] = f"bytes={offset}-"
        if origin.validator:
            headers["If-Range"] = origin.validator
    request = Request(quote(job.url, safe="%/:=&?~#+!$,;'@()*[]"), headers=headers)
    try:
        response: HTTPResponse = build_opener(_SafeRedirects).open(request, timeout=job.timeout)
        return response
    except HTTPError as error:
        with error:
            raise _status_error(job, error, offset) from error
    except ValueError as error:
        raise KosbertError(f"{job.url} is not a valid request ({error}): {job.manual_advice}") from error
    except (OSError, HTTPException) as error:
        if isinstance(getattr(error, "reason", None), ssl.SSLCertVerificationError):
            message = f"{job.url} has a certificate that this machine does not trust: update the certificates, or "
            raise KosbertError(message + job.manual_advice) from error
        raise _network_error(job, error) from error


class _SafeRedirects(HTTPRedirectHandler):
    def redirect_request(self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str) -> Any:
        before, after = urlsplit(req.full_url).scheme, urlsplit(newurl).scheme
        if after not in ("http", "https") or (before, after) == ("https", "http"):
            raise HTTPError(newurl, code, "unsafe redirect", headers, fp)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _status_error(job: _Job, error: HTTPError, offset: int) -> Exception:
    if error.code == 416 and offset:
        return _StalePart()
    if error.code in (408, 429) or error.code >= 500:
        return _TemporaryError(f"the server answered {error.code}", _retry_after(error.headers))
    if 300 <= error.code < 400:
        return KosbertError(f"{job.url} redirects to an unsafe address: {job.manual_advice}")
    return KosbertError(f"{job.url} could not be downloaded (the server answered {error.code}): {job.manual_advice}")


def _retry_after(headers: Message) -> float | None:
    value = headers.get("Retry-After", "")
    with suppress(ValueError):
        seconds = float(value) if value.isdecimal() else parsedate_to_datetime(value).timestamp() - time.time()
        return min(max(seconds, 0.0), MAX_WAIT)
    return None


def _network_error(job: _Job, error: Exception) -> _TemporaryError:
    reason = getattr(error, "reason", error)
    if isinstance(reason, TimeoutError):
        return _TemporaryError(f"no data for {job.timeout:g} seconds")
    return _TemporaryError(getattr(reason, "strerror", None) or str(reason) or type(reason).__name__)


def _refuse_unverifiable(job: _Job, response: HTTPResponse) -> None:
    """Refuse before a byte is written, so that a login page does not overwrite the existing part."""
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise KosbertError(f"{job.url} is sent compressed although plain bytes were requested: {job.manual_advice}")
    if job.checksum:
        return
    if response.headers.get_content_type() == "text/html" and not _expects_page(job):
        raise KosbertError(f"{job.url} is a web page, not the file: {job.manual_advice}")
    if response.length is None and not response.chunked:
        raise KosbertError(f"{job.url} has neither a length nor a checksum to verify it: {job.manual_advice}")


def _body_offset(job: _Job, response: HTTPResponse, offset: int, origin: _Origin) -> tuple[int, _Origin]:
    """Return the offset in the file at which this body begins, and the origin to record."""
    # RFC 9110, 13.1.5: a weak ETag does not promise the same bytes, so it cannot validate a range.
    etag = response.headers.get("ETag", "")
    validator = etag if etag.startswith('"') else response.headers.get("Last-Modified", "")
    if response.status != 206:
        return 0, _Origin(job.url, validator, response.length)
    if not offset:
        raise _TemporaryError("the server sent a range that was not requested")
    span = re.fullmatch(r"bytes (\d+)-\d+/(\d+)", response.headers.get("Content-Range", ""))
    same = validator in ("", origin.validator)  # checked here too, because some servers ignore If-Range
    if not span or not same or int(span[1]) != offset or origin.total not in (None, int(span[2])):
        raise _StalePart
    return offset, _Origin(job.url, origin.validator, int(span[2]))


def _write_body(job: _Job, response: HTTPResponse, offset: int, origin: _Origin) -> None:
    remaining, done = response.length, offset
    with job.part.open("ab" if offset else "wb") as file:
        # Only now that the part is empty: a kill in between must not leave old bytes with a new origin.
        job.origin_file.write_text(json.dumps(asdict(origin)), encoding="utf-8")
        job.report(done, origin.total)
        while remaining is None or remaining > 0:
            try:
                # Not `read`: it loses what arrived before a stall. Not past `remaining`: older Pythons wait for more.
                block = response.read1(BLOCK if remaining is None else min(BLOCK, remaining))
            except (OSError, HTTPException) as error:
                raise _network_error(job, error) from error
            if not block:
                break
            file.write(block)
            done += len(block)
            remaining = None if remaining is None else remaining - len(block)
            job.report(done, origin.total)
    if remaining or origin.total not in (None, done):
        raise _TemporaryError(f"the connection ended after {done:,} of {origin.total:,} bytes")
    if origin.total is None:
        job.report(done, done)


def _expects_page(job: _Job) -> bool:
    return job.target.suffix.lower() in (".html", ".htm")


def _find_problem(job: _Job) -> str:
    """Return what is wrong with a complete part and the fix; an empty string if nothing is."""
    with job.part.open("rb") as file:
        start = file.read(512).removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    is_page = start.startswith((b"<!doctype html", b"<html", b"<head", b"<body", b"<script"))
    if job.checksum:
        kind = job.checksum.partition(":")[0]
        actual = f"{kind}:{digest(job.part, kind)}"
        if actual == job.checksum:
            return ""
        page = " (a web page)" if is_page else ""
        return (
            f"should be {job.checksum} but is {actual}{page}: run the same command again; "
            "if the error persists, the publisher has changed the file: update kosbert"
        )
    if job.part.stat().st_size == 0:
        return f"is empty: {job.manual_advice}"
    return f"is a web page, not the file: {job.manual_advice}" if is_page and not _expects_page(job) else ""


# --- disk -----------------------------------------------------------------------------------------------------------


def _publish(job: _Job) -> None:
    with job.part.open("r+b") as file:  # Windows syncs only what is open for writing
        os.fsync(file.fileno())
    job.part.replace(job.target)
    job.origin_file.unlink(missing_ok=True)


def _archive_name(url: str) -> str:
    """Return a file name for an archive that is unique per URL: different URLs may end in the same name."""
    name = re.sub(r"[^\w.-]", "_", Path(urlsplit(url).path).name)
    if not name.lower().endswith(ENDINGS):
        raise UsageError(f"{url} has no members to extract: give the URL of a .zip, .tar.gz or .tgz")
    return f"{hashlib.sha256(url.encode()).hexdigest()[:8]}-{name}"


def _extract(archive: Path, member: str, job: _Job) -> None:
    """Extract one member into the part."""
    job.discard()
    try:
        with job.part.open("wb") as sink:
            copy_member(archive, member, sink)
    except CORRUPT_ERRORS as error:
        job.discard()
        if not job.checksum:  # a verified archive would be the same after another download
            archive.unlink(missing_ok=True)
        advice = f"run the same command again, or extract {member} yourself to {job.target}"
        raise KosbertError(f"{archive} from {job.url} cannot be extracted ({error}): {advice}") from error
    except KosbertError:
        job.discard()
        raise
