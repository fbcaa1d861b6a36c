"""API keys. Each client can have its own key, so that one key can be revoked. Keys are never printed or logged."""

import hashlib
import hmac
import logging
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from kosbert.errors import UsageError

KEYS_VARIABLE = "KOSBERT_API_KEYS"
MIN_KEY_LENGTH = 16
"""Characters per key: shorter keys can be guessed."""

logger = logging.getLogger(__name__)


class ApiKeys:
    """The keys that the server accepts. Without keys every request is accepted."""

    def __init__(self, keys: Iterable[str] = ()) -> None:
        unique_keys = list(dict.fromkeys(keys))
        for number, key in enumerate(unique_keys, start=1):
            if len(key) < MIN_KEY_LENGTH or not key.isascii() or not key.isprintable() or " " in key:
                raise UsageError(
                    f"API key {number} must have at least {MIN_KEY_LENGTH} ASCII characters and no spaces: "
                    "create one with `openssl rand -hex 24`"
                )
        # Digests have equal length, so a comparison takes the same time for any guess.
        self._digests = [_digest(key) for key in unique_keys]

    @classmethod
    def read(cls, file: Path | None = None, variable: str | None = None) -> "ApiKeys":
        """Read keys from a file (one per line, # starts a comment) and from the value of KOSBERT_API_KEYS (commas)."""
        keys = [key.strip() for key in (variable or "").split(",")]
        if file is not None:
            try:
                lines = file.read_text(encoding="utf-8").splitlines()
            except (OSError, UnicodeDecodeError):
                raise UsageError(f"the key file {file} cannot be read: use a text file with one key per line") from None
            if os.name == "posix" and file.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                logger.warning("other users of this machine can read %s: run chmod 600 on it", file)
            keys += [line.partition("#")[0].strip() for line in lines]
            if not any(keys):
                raise UsageError(f"{file} contains no keys: write one per line, or omit --keys")
        return cls(filter(None, keys))

    def __len__(self) -> int:
        return len(self._digests)

    def __repr__(self) -> str:
        return f"ApiKeys({len(self)})"

    def match(self, authorization: str) -> int | None:
        """Return the number (from 1) of the key in an Authorization header, or None if it is not valid."""
        scheme, _, key = authorization.partition(" ")
        key_digest = _digest(key.strip())
        # Always compare with every key: the time must not depend on which one matches.
        matches = [hmac.compare_digest(key_digest, digest) for digest in self._digests]
        return matches.index(True) + 1 if True in matches and scheme.lower() == "bearer" else None


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()
