"""Functions behind `kosbert index build`, `add` and `info`: from a file to an index, and a summary of it."""

import time
from dataclasses import dataclass
from pathlib import Path

from kosbert.data.sentences import read_sentences
from kosbert.errors import UsageError
from kosbert.progress import ProgressCallback
from kosbert.search import storage
from kosbert.search.documents import Documents
from kosbert.search.index import Index
from kosbert.search.lexical import default_analyzer

EXACT_LIMIT = 100_000
"""Sentences up to which exact search answers within some milliseconds."""


@dataclass(frozen=True)
class BuildSummary:
    """Result of `build`."""

    directory: str
    backend: str
    model: str
    count: int
    seconds: float


@dataclass(frozen=True)
class AddSummary:
    """Result of `add`: sentences added, and sentences in the index."""

    added: int
    count: int


@dataclass(frozen=True)
class IndexSummary:
    """Contents of an index; `lexical` is the analyzer for hybrid search, "" without one."""

    backend: str
    count: int
    model: str
    checksum: str
    dim: int
    lexical: str
    fields: list[str]
    bytes: int


def build(
    file: Path,
    directory: Path,
    *,
    model: str = "builtin",
    backend: str = "",
    precision: str = "float32",
    uri: str = "",
    text_column: str = "text",
    id_column: str = "",
    encoding: str = "",
    sheet: str = "",
    hybrid: bool = False,
    overwrite: bool = False,
    on_progress: ProgressCallback | None = None,
) -> BuildSummary:
    """Encode the sentences of a file into a new index.

    Args:
        file: a .txt, .csv, .tsv, .json, .jsonl, .parquet or .xlsx file.
        directory: a new or empty directory, or an index with `overwrite`.
        model: builtin, a directory, a Hugging Face name or a baseline.
        backend: exact, hnsw, binary or milvus; by default exact up to 100,000 sentences, hnsw beyond.
        precision: float32, float16 or int8 (hnsw only).
        uri: of a Milvus server; by default a local file in `directory`.
        text_column: the column with the sentences.
        id_column: the column with the ids; consecutive numbers by default.
        encoding: of the text; detected by default.
        sheet: of an .xlsx file; the first by default.
        hybrid: also index BM25 tokens for hybrid search.
        overwrite: replace an existing index.
        on_progress: called with the progress of encoding.
    """
    started = time.perf_counter()
    _check_target(directory, overwrite=overwrite)
    rows = read_sentences(file, text_column=text_column, id_column=id_column, encoding=encoding, sheet=sheet)
    backend = backend or ("exact" if len(rows.texts) <= EXACT_LIMIT and precision == "float32" else "hnsw")
    if backend == "milvus":
        from kosbert.search.backends.milvus import LOCAL_FILE

        uri = uri or str(directory / LOCAL_FILE)
    index = Index(model, backend=backend, precision=precision, uri=uri, lexical=default_analyzer() if hybrid else "")
    index.add(rows.texts, ids=rows.ids, metadata=rows.metadata, on_progress=on_progress)
    index.save(directory, overwrite=overwrite)
    index.close()
    return BuildSummary(str(directory), backend, model, len(index), time.perf_counter() - started)


def _check_target(directory: Path, *, overwrite: bool) -> None:
    """Raise before hours of encoding if the index could not be written."""
    if (directory / storage.MANIFEST).exists():
        if not overwrite:
            raise UsageError(f"{directory} holds an index already: add to it, or replace it with --overwrite")
        return
    # A crashed build may have left a generation or a Milvus file.
    leftovers = ("generation-", storage.MANIFEST, "milvus.db")
    if any(not path.name.startswith(leftovers) for path in directory.glob("[!.]*")):
        raise UsageError(f"{directory} is not empty and holds no index: give a new or empty directory by --out")


def add(
    file: Path,
    directory: Path,
    *,
    upsert: bool = False,
    text_column: str = "text",
    id_column: str = "",
    encoding: str = "",
    sheet: str = "",
    on_progress: ProgressCallback | None = None,
) -> AddSummary:
    """Add the sentences of a file to an index; `upsert` replaces those whose id is already in it."""
    if upsert and not id_column:
        raise UsageError("--upsert replaces by id: name the column of the ids by --id-column")
    rows = read_sentences(file, text_column=text_column, id_column=id_column, encoding=encoding, sheet=sheet)
    with Index.edit(directory) as index:
        if upsert and rows.ids is not None:
            index.upsert(rows.texts, ids=rows.ids, metadata=rows.metadata, on_progress=on_progress)
        else:
            index.add(rows.texts, ids=rows.ids, metadata=rows.metadata, on_progress=on_progress)
        return AddSummary(len(rows.texts), len(index))


def describe(directory: Path) -> IndexSummary:
    """Return a summary of an index after verifying the checksums of its files."""
    manifest = storage.read_manifest(directory)
    storage.verify_checksums(directory, manifest)
    documents = Documents.read(storage.current_generation(directory, manifest) / storage.DOCUMENTS)
    return IndexSummary(
        backend=manifest.backend, count=manifest.count, model=manifest.model.name, checksum=manifest.model.checksum,
        dim=manifest.model.dim, lexical=manifest.lexical, fields=documents.fields,
        bytes=sum(path.stat().st_size for path in directory.rglob("*") if path.is_file()),
    )  # fmt: skip
