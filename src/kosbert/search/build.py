"""From a file to an index and back to a description: what the commands do, as functions."""

import time
from dataclasses import dataclass
from pathlib import Path

from kosbert.data.tables import read_sentences
from kosbert.errors import UsageError
from kosbert.search import directory as disk
from kosbert.search.index import Index
from kosbert.search.lexical import best_analyzer

EXACT_UP_TO = 100_000
"""Sentences up to which comparing every vector answers in some milliseconds."""


@dataclass(frozen=True)
class Built:
    """What `build` made."""

    directory: str
    kind: str
    model: str
    count: int
    seconds: float


@dataclass(frozen=True)
class Added:
    """What `add` did."""

    added: int
    count: int


@dataclass(frozen=True)
class Description:
    """What an index says of itself."""

    kind: str
    count: int
    model: str
    checksum: str
    dim: int
    words: str
    fields: list[str]
    bytes: int


def build(
    file: Path,
    directory: Path,
    *,
    model: str = "builtin",
    kind: str = "",
    precision: str = "float32",
    address: str = "",
    text_column: str = "text",
    id_column: str = "",
    hybrid: bool = False,
    overwrite: bool = False,
    progress: bool = False,
) -> Built:
    """Encode the sentences of a file into a new index."""
    started = time.perf_counter()
    if (directory / disk.MANIFEST).exists() and not overwrite:
        raise UsageError(f"{directory} holds an index already: add to it, or replace it with --overwrite")
    strangers = {path.name for path in directory.glob("[!.]*")} if not (directory / disk.MANIFEST).exists() else set()
    if any(not name.startswith(("generation-", disk.MANIFEST, "milvus.db")) for name in strangers):
        raise UsageError(f"{directory} holds something that is no index: give a new or empty directory by --out")
    rows = read_sentences(file, text_column=text_column, id_column=id_column)
    kind = kind or ("exact" if len(rows.texts) <= EXACT_UP_TO and precision == "float32" else "hnsw")
    if kind == "milvus":
        from kosbert.search.backends.milvus import LOCAL

        address = address or str(directory / LOCAL)
    words = best_analyzer() if hybrid else ""
    index = Index(model, kind=kind, precision=precision, address=address, words=words)
    index.add(rows.texts, ids=rows.ids, metadata=rows.metadata, progress=progress)
    index.save(directory, replace=overwrite)
    index.close()
    return Built(str(directory), kind, model, len(index), time.perf_counter() - started)


def add(
    file: Path,
    directory: Path,
    *,
    upsert: bool = False,
    text_column: str = "text",
    id_column: str = "",
    progress: bool = False,
) -> Added:
    """Add the sentences of a file to an index."""
    if upsert and not id_column:
        raise UsageError("--upsert replaces by id: name the column of the ids by --id-column")
    rows = read_sentences(file, text_column=text_column, id_column=id_column)
    with Index.change(directory) as index:
        if upsert and rows.ids is not None:
            index.upsert(rows.texts, ids=rows.ids, metadata=rows.metadata, progress=progress)
        else:
            index.add(rows.texts, ids=rows.ids, metadata=rows.metadata, progress=progress)
        return Added(len(rows.texts), len(index))


def describe(directory: Path) -> Description:
    """Say what an index holds, after its files have been read and compared with their checksums."""
    manifest = disk.read_manifest(directory)
    disk.check_files(directory, manifest)
    from kosbert.search.documents import Documents

    documents = Documents.read(disk.generation_folder(directory, manifest) / "documents.parquet")
    size = sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())
    return Description(
        manifest.kind, manifest.count, manifest.model.name, manifest.model.checksum, manifest.model.dim,
        manifest.words, documents.fields, size,
    )  # fmt: skip
