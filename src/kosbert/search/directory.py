"""An index on disk: complete generations side by side, and one small file that says which of them counts.

DIR/index.json               kind, model, count, the generation that counts, and its files with their checksums
DIR/generation-7/            documents.parquet, and vectors.npy or graph.usearch, and words/ for BM25
DIR/milvus.db                the vectors of a local Milvus

A change writes a new generation and then replaces index.json, which is one step for the operating system: whoever is
killed leaves the old state or the new one. Generations that do not count are deleted by the next change.
"""

import json
import os
import shutil
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kosbert.errors import KosbertError, UsageError
from kosbert.files import wait_lock
from kosbert.search.encoding import ModelIdentity

MANIFEST = "index.json"
FORMAT = 1


@dataclass(frozen=True)
class Manifest:
    """What index.json says."""

    kind: str
    model: ModelIdentity
    count: int
    next_key: int
    words: str
    store: dict[str, Any]
    generation: int
    files: dict[str, dict[str, int]]


def read_manifest(directory: Path) -> Manifest:
    """What an index directory says of itself."""
    file = directory / MANIFEST
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        if content.pop("format") != FORMAT:
            raise KosbertError(f"{directory} was written by another version of kosbert: build the index again")
        model = content.pop("model")
        model["probe"] = tuple(map(tuple, model["probe"]))
        return Manifest(model=ModelIdentity(**model), **content)
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(f"{directory} holds no index: make one with kosbert index build FILE --out DIR") from None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        if isinstance(error, KosbertError):
            raise
        raise KosbertError(f"{file} is damaged ({type(error).__name__}): build the index again") from error


def generation_folder(directory: Path, manifest: Manifest) -> Path:
    """The folder of the generation that counts, its files there and of the right size."""
    folder = directory / f"generation-{manifest.generation}"
    for name, expected in manifest.files.items():
        file = folder / name
        try:
            size = file.stat().st_size
        except FileNotFoundError:  # also while we look: another process may have switched
            size = -1
        if size != expected["bytes"]:
            state = "is missing" if size < 0 else f"has {size:,} bytes where {expected['bytes']:,} were written"
            raise KosbertError(f"{file} {state}: build the index again from its source")
    return folder


def check_files(directory: Path, manifest: Manifest) -> None:
    """Read every file of the index and compare its checksum."""
    folder = generation_folder(directory, manifest)
    for name, expected in manifest.files.items():
        if _checksum(folder / name) != expected["crc32"]:
            raise KosbertError(f"{folder / name} is damaged (checksum): build the index again from its source")


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Let one process at a time change an index."""
    directory.mkdir(parents=True, exist_ok=True)
    with wait_lock(directory / ".lock", directory / MANIFEST):
        yield


def new_generation(directory: Path, number: int) -> Path:
    """An empty folder to write into; the remains of changes that were killed go away."""
    counting = number - 1
    for folder in directory.glob("generation-*"):
        if folder.name != f"generation-{counting}":
            shutil.rmtree(folder, ignore_errors=True)
    folder = directory / f"generation-{number}"
    folder.mkdir(parents=True)
    return folder


def files_of(folder: Path) -> dict[str, dict[str, int]]:
    """Size and checksum of every file, each of them safely on disk."""
    files = {}
    for file in sorted(file for file in folder.rglob("*") if file.is_file()):
        with file.open("rb+") as stream:
            os.fsync(stream.fileno())
        files[file.relative_to(folder).as_posix()] = {"bytes": file.stat().st_size, "crc32": _checksum(file)}
    return files


def switch(directory: Path, manifest: Manifest) -> None:
    """Make a generation the one that counts, in one step, and delete the one before."""
    content = {"format": FORMAT, **asdict(manifest)}
    draft = directory / f"{MANIFEST}.new"
    with draft.open("w", encoding="utf-8", newline="\n") as stream:
        json.dump(content, stream, ensure_ascii=False, indent=1)
        stream.flush()
        os.fsync(stream.fileno())
    draft.replace(directory / MANIFEST)
    if hasattr(os, "O_DIRECTORY"):
        handle = os.open(directory, os.O_RDONLY)
        os.fsync(handle)
        os.close(handle)
    # On Windows a reader may hold a file of it; the next change tries again.
    shutil.rmtree(directory / f"generation-{manifest.generation - 1}", ignore_errors=True)


def _checksum(file: Path) -> int:
    value = 0
    with file.open("rb") as stream:
        while block := stream.read(1 << 20):
            value = zlib.crc32(block, value)
    return value
