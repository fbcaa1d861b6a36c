"""Encode a file of sentences into shards of vectors, in constant memory; resumes after a crash.

encode_file("sentences.txt.gz", "vectors")
for ids, vectors in read_shards("vectors"): ...
"""

import hashlib
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from kosbert.bulk.embedding_cache import EmbeddingCache
from kosbert.bulk.shards import ShardFormat, ShardWriter
from kosbert.data.sentences import SentenceRow, SentenceStream
from kosbert.data.tables import Reject
from kosbert.errors import KosbertError, UsageError
from kosbert.model.batching import WINDOW
from kosbert.model.directory import model_checksum
from kosbert.model.encoder import Encoder
from kosbert.model.loading import load
from kosbert.progress import ProgressCallback, ProgressEvent

SHARD_SIZE = 50_000
"""Default rows per shard: the work lost if a job is interrupted."""

_HASHED_BYTES = 1 << 20  # at each end of the input
_PROBES = ("비가 많이 온다.", "주식이 올랐다.")

Precision = Literal["float32", "float16"]


@dataclass(frozen=True)
class EncodeSummary:
    """Result of a job: its directory, vectors, rejected rows, shards, and sentences served from the cache."""

    path: Path
    rows: int
    rejects: int
    shards: int
    cache_hits: int


def encode_file(
    source: str | Path,
    out: str | Path,
    *,
    model: str | Path | Encoder = "builtin",
    text_column: str = "text",
    id_column: str = "",
    encoding: str = "",
    sheet: str = "",
    format: ShardFormat = "parquet",
    precision: Precision = "float32",
    truncate_dim: int | None = None,
    normalize_embeddings: bool = True,
    keep_text: bool = False,
    shard_size: int = SHARD_SIZE,
    on_progress: ProgressCallback | None = None,
) -> EncodeSummary:
    """Encode the sentences of a file into a directory of shards; a second call resumes the first.

    A file without a usable sentence is an error, and nothing is written.

    Args:
        source: a .txt, .csv, .tsv, .json, .jsonl, .parquet or .xlsx file; text formats also with .gz or .zst.
        out: a new or empty directory, or that of an interrupted job.
        model: an encoder or the name of one.
        text_column: the column with the sentences.
        id_column: the column with their ids; the line number by default.
        encoding: of the text; detected by default.
        sheet: of an .xlsx file; the first by default.
        format: parquet, or npy with the ids in a second file.
        precision: float32, or float16 for half the size.
        truncate_dim: keep only the first dimensions.
        normalize_embeddings: scale vectors to length 1.
        keep_text: write the sentences next to their vectors.
        shard_size: rows of the input per shard.
        on_progress: called after every window of sentences with the bytes of the input read so far.
    """
    if shard_size < 1:
        raise UsageError(f"a shard of {shard_size} rows is impossible; give 1 or more")
    source = Path(source)
    stream = SentenceStream(source, text_column=text_column, id_column=id_column, encoding=encoding, sheet=sheet)
    encoder = model if isinstance(model, Encoder) else load(model)
    dim = truncate_dim or encoder.dim
    settings = {
        "input": {
            "name": source.name,
            "bytes": stream.table.size,
            "sha256_of_ends": _checksum_of_ends(source),
            "text_column": text_column,
            "id_column": id_column,
            "encoding": stream.table.format.encoding,
            "sheet": sheet,
        },
        "model": {
            "name": encoder.source,
            "checksum": model_checksum(encoder),
            "dim": dim,
            "max_length": encoder.max_length,
            # Vectors reveal another pooling or prompt, which the checksum of the files does not.
            "probe": encoder.encode(list(_PROBES), normalize_embeddings=True)[:, :8].tolist(),
        },
        "format": format,
        "precision": precision,
        "normalize_embeddings": normalize_embeddings,
        "keep_text": keep_text,
        "shard_size": shard_size,
    }

    def encode(texts: list[str]) -> NDArray[np.float32]:
        return encoder.encode(texts, normalize_embeddings=normalize_embeddings, truncate_dim=truncate_dim)

    def report() -> None:
        if on_progress:
            task, table = f"encode {source.name}", stream.table
            shards = {"shards": float(len(manifest.shards))}
            on_progress(ProgressEvent(task, table.position, table.size, "bytes", metrics=shards))

    is_new, cache = not Path(out).exists(), EmbeddingCache(encode, dim)
    with ShardWriter.open(Path(out), settings, format) as writer:
        manifest = writer.manifest
        if not manifest.finished:
            encoder.tune_token_budget()
            rows = iter(stream)
            for _ in islice(rows, manifest.records):  # skip what is done: reading is 1,000 times faster than encoding
                pass
        while not manifest.finished:
            records = list(islice(rows, shard_size))
            sentences = [record for record in records if isinstance(record, SentenceRow)]
            rejects = [record for record in records if isinstance(record, Reject)]
            blocks = _encode_windows(sentences, cache, report)
            writer.add(sentences, blocks, rejects, keep_text=keep_text, last=len(records) < shard_size)
            report()
        first_reject = "" if manifest.rows else writer.discard()
    if not manifest.rows:
        if is_new:
            shutil.rmtree(out)
        reason = f"all {manifest.rejects:,} rows were rejected ({first_reject})" if first_reject else "it has no rows"
        raise KosbertError(f"{source} has no sentences: {reason}, give a file with at least one")
    return EncodeSummary(Path(out), manifest.rows, manifest.rejects, len(manifest.shards), cache.hits)


def _encode_windows(
    sentences: list[SentenceRow], cache: EmbeddingCache, report: Callable[[], None]
) -> Iterator[NDArray[np.float32]]:
    """Yield the vectors of a shard a few thousand sentences at a time, so that no whole shard is in memory."""
    for start in range(0, len(sentences), WINDOW):
        yield cache([sentence.text for sentence in sentences[start : start + WINDOW]])
        report()


def _checksum_of_ends(path: Path) -> str:
    """Return the SHA-256 of the first and last megabyte: detects a changed file, for files of any size."""
    with path.open("rb") as stream:
        content = stream.read(_HASHED_BYTES)
        stream.seek(max(0, path.stat().st_size - _HASHED_BYTES))
        return hashlib.sha256(content + stream.read(_HASHED_BYTES)).hexdigest()
