"""An index on disk: generations, and a manifest that names the current one.

DIR/index.json               manifest: backend, model, count, the current generation and its files with checksums
DIR/generation-7/            documents.parquet, the vectors (vectors.npy, graph.usearch, …), and bm25/ for hybrid search
DIR/milvus.db                the vectors of a local Milvus

An edit writes a new generation and then replaces the manifest atomically, so a crash leaves the old state or the new
one. The next edit deletes the generations that are not current.
"""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypedDict

from kosbert.errors import KosbertError, UsageError
from kosbert.files import atomic_write, sha256_file, wait_lock
from kosbert.search.encoding import ModelIdentity

MANIFEST = "index.json"
DOCUMENTS = "documents.parquet"
BM25 = "bm25"
FORMAT = 2


class FileEntry(TypedDict):
    """Size and checksum of a file of a generation."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """The content of index.json."""

    backend: str
    model: ModelIdentity
    count: int
    next_key: int
    lexical: str
    backend_settings: dict[str, Any]
    generation: int
    files: dict[str, FileEntry]


def read_manifest(directory: Path) -> Manifest:
    """Read the manifest of an index directory."""
    path = directory / MANIFEST
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content.pop("format") != FORMAT:
            raise KosbertError(f"{directory} was written by another version of kosbert: build the index again")
        model = content.pop("model")
        model["probe"] = tuple(map(tuple, model["probe"]))
        return Manifest(model=ModelIdentity(**model), **content)
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(f"{directory} holds no index: make one with kosbert index build FILE --out DIR") from None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise KosbertError(f"{path} is damaged ({type(error).__name__}): build the index again") from error


def current_generation(directory: Path, manifest: Manifest) -> Path:
    """Return the folder of the current generation; raise if a file is missing or has the wrong size."""
    folder = directory / f"generation-{manifest.generation}"
    for name, entry in manifest.files.items():
        path = folder / name
        try:
            size = path.stat().st_size
        except FileNotFoundError:  # damaged, or another process has switched to a new generation meanwhile
            size = -1
        if size != entry["bytes"]:
            problem = "is missing" if size < 0 else f"has {size:,} bytes instead of {entry['bytes']:,}"
            raise KosbertError(f"{path} {problem}: build the index again from its source")
    return folder


def verify_checksums(directory: Path, manifest: Manifest) -> None:
    """Read every file of the current generation and compare its checksum with the manifest."""
    folder = current_generation(directory, manifest)
    for name, entry in manifest.files.items():
        if sha256_file(folder / name) != entry["sha256"]:
            raise KosbertError(f"{folder / name} is damaged (checksum): build the index again from its source")


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Allow one process at a time to edit an index."""
    directory.mkdir(parents=True, exist_ok=True)
    with wait_lock(directory / ".lock", directory / MANIFEST):
        yield


def new_generation(directory: Path, number: int) -> Path:
    """Create the folder of generation `number`; delete what crashed edits left behind."""
    for folder in directory.glob("generation-*"):
        if folder.name != f"generation-{number - 1}":
            shutil.rmtree(folder, ignore_errors=True)
    for temporary in directory.glob(f".{MANIFEST}-*"):
        temporary.unlink(missing_ok=True)
    folder = directory / f"generation-{number}"
    folder.mkdir(parents=True)
    return folder


def sync_files(folder: Path) -> dict[str, FileEntry]:
    """Flush every file of a generation to disk; return their sizes and checksums."""
    entries: dict[str, FileEntry] = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        with path.open("rb+") as stream:
            os.fsync(stream.fileno())
        entries[path.relative_to(folder).as_posix()] = {"bytes": path.stat().st_size, "sha256": sha256_file(path)}
    return entries


def switch_generation(directory: Path, manifest: Manifest) -> None:
    """Make a generation the current one atomically, and delete the previous one."""
    with atomic_write(directory / MANIFEST, newline="\n") as stream:
        json.dump({"format": FORMAT, **asdict(manifest)}, stream, ensure_ascii=False, indent=1)
    # On Windows a reader may have a file of it open; then the next edit deletes it.
    shutil.rmtree(directory / f"generation-{manifest.generation - 1}", ignore_errors=True)
