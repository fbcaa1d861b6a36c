"""Extract one member of an archive. Its path inside the archive is never used, so it cannot escape the target."""

import gzip
import shutil
import tarfile
import zipfile
import zlib
from pathlib import Path
from typing import IO, TypeVar

from kosbert.errors import UsageError, did_you_mean

BLOCK = 1 << 20
ENDINGS = (".zip", ".tar.gz", ".tgz")
CORRUPT_ERRORS = (zipfile.BadZipFile, tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError, RuntimeError)
"""Exceptions that reading a corrupt archive raises."""

Item = TypeVar("Item")


def copy_member(archive: Path, member: str, sink: IO[bytes]) -> None:
    """Copy a member of a .zip, .tar.gz or .tgz into an open file."""
    copy = _copy_from_zip if archive.name.lower().endswith(".zip") else _copy_from_tar
    copy(archive, member, sink)


def _copy_from_zip(archive: Path, member: str, sink: IO[bytes]) -> None:
    with zipfile.ZipFile(archive) as bundle:
        files = {item.filename: item for item in bundle.infolist() if not item.is_dir()}
        with bundle.open(_select(files, member, archive)) as source:
            shutil.copyfileobj(source, sink, BLOCK)


def _copy_from_tar(archive: Path, member: str, sink: IO[bytes]) -> None:
    with gzip.open(archive) as stream, tarfile.open(fileobj=stream, mode="r:") as bundle:
        files = {item.name: item for item in bundle.getmembers() if item.isfile()}
        source = bundle.extractfile(_select(files, member, archive))
        assert source is not None  # only regular files are candidates
        shutil.copyfileobj(source, sink, BLOCK)
        while stream.read(BLOCK):  # gzip has its checksum at the very end
            pass


def _select(files: dict[str, Item], member: str, archive: Path) -> Item:
    if member not in files:
        raise UsageError(f"{archive} has no file {member!r}: {did_you_mean(member, files)}")
    return files[member]
