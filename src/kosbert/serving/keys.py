"""API keys: several, so that each client has its own and one can be withdrawn. They are never printed or logged."""

import hashlib
import hmac
import logging
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from kosbert.errors import UsageError

ENVIRONMENT = "KOSBERT_API_KEYS"
SHORTEST = 16
"""Characters of a key: shorter ones can be guessed."""

logger = logging.getLogger(__name__)


class Keys:
    """The keys that open the server; none at all leaves it open."""

    def __init__(self, keys: Iterable[str] = ()) -> None:
        distinct = list(dict.fromkeys(keys))
        for number, key in enumerate(distinct, start=1):
            if len(key) < SHORTEST or not key.isascii() or not key.isprintable() or " " in key:
                raise UsageError(
                    f"API key {number} is not {SHORTEST} or more ASCII characters without spaces: "
                    "make one with `openssl rand -hex 24`"
                )
        # Of equal length, so that comparing takes the same time whatever was guessed.
        self._digests = [_digest(key) for key in distinct]

    @classmethod
    def read(cls, file: Path | None = None, environment: str | None = None) -> "Keys":
        """The keys of a file, one a line (# begins a comment), and those of KOSBERT_API_KEYS, separated by commas."""
        found = [key.strip() for key in (environment or "").split(",")]
        if file is not None:
            try:
                lines = file.read_text(encoding="utf-8").splitlines()
            except (OSError, UnicodeDecodeError):
                raise UsageError(f"the keys in {file} cannot be read: give a text file with one key a line") from None
            if os.name == "posix" and file.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                logger.warning("%s can be read by other users of this machine: chmod 600 it", file)
            found += [line.partition("#")[0].strip() for line in lines]
            if not any(found):
                raise UsageError(f"{file} holds no key: write one a line, or leave --keys out")
        return cls(filter(None, found))

    def __len__(self) -> int:
        return len(self._digests)

    def __repr__(self) -> str:
        return f"Keys({len(self)})"

    def number(self, authorization: str) -> int | None:
        """Which key, from 1 on, an Authorization header holds; None if it holds none of them."""
        scheme, _, given = authorization.partition(" ")
        digest = _digest(given.strip())
        # Every key is compared, also after the right one.
        fits = [hmac.compare_digest(digest, each) for each in self._digests]
        return fits.index(True) + 1 if True in fits and scheme.lower() == "bearer" else None


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()
