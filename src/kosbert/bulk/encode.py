"""A file of sentences becomes shards of vectors: constant memory, and killed at any moment it goes on.

encode_file("sentences.txt.gz", "vectors")
for ids, vectors in read_shards("vectors"): …
"""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from kosbert.bulk.embedding_cache import EmbeddingCache
from kosbert.bulk.records import Records, Reject, Row
from kosbert.bulk.shards import Form, Manifest, Shards
from kosbert.errors import UsageError
from kosbert.model.batching import WINDOW
from kosbert.model.directory import model_checksum
from kosbert.model.encoder import Encoder
from kosbert.model.loading import load

SHARD = 50_000
"""Rows of the input that make a shard: what is computed again, at most, after a kill."""

_ENDS = 1 << 20
_PROBES = ("비가 많이 온다.", "주식이 올랐다.")

Precision = Literal["float32", "float16"]
Report = Callable[[int, int, Manifest], None]
"""Called with the position in the input, its size, and what is on disk."""


@dataclass(frozen=True)
class EncodeSummary:
    """What a job left: vectors, rejected rows, shards, and how many sentences had been seen before."""

    path: Path
    rows: int
    rejects: int
    shards: int
    remembered: int


def encode_file(
    source: str | Path,
    out: str | Path,
    *,
    model: str | Path | Encoder = "builtin",
    text: str = "text",
    id: str = "",
    form: Form = "parquet",
    precision: Precision = "float32",
    dim: int | None = None,
    normalize: bool = True,
    keep_text: bool = False,
    shard: int = SHARD,
    report: Report | None = None,
) -> EncodeSummary:
    """Encode the sentences of a file into a folder of shards; called again, it goes on where it stopped.

    Args:
        source: a .txt, .csv, .tsv, .jsonl or .parquet file, all but the last also as .gz or .zst.
        out: a folder of its own.
        model: an encoder, or its name.
        text: the column with the sentences.
        id: the column with their names; the number of the line without it.
        form: parquet, or npy with a list of ids beside it.
        precision: float32, or float16 for half the size.
        dim: only the first dimensions.
        normalize: vectors of length 1.
        keep_text: write the sentences beside their vectors.
        shard: rows of the input that make a shard.
        report: called after every window of sentences.
    """
    if shard < 1:
        raise UsageError(f"a shard of {shard} rows is impossible; give 1 or more")
    records = Records(Path(source), text=text, id=id)
    encoder = model if isinstance(model, Encoder) else load(model)
    settings = {
        "input": {
            "name": Path(source).name,
            "bytes": records.size,
            "ends": _fingerprint(Path(source)),
            "text": text,
            "id": id,
        },
        "model": {
            "name": encoder.source,
            "checksum": model_checksum(encoder),
            "dim": dim or encoder.dim,
            "max_length": encoder.max_length,
            "probe": encoder.encode(list(_PROBES), normalize_embeddings=True)[
                :, :8
            ].tolist(),  # pooling and prompt are no file
        },
        "form": form,
        "precision": precision,
        "normalize": normalize,
        "keep_text": keep_text,
        "shard": shard,
    }

    def vectors_of(texts: list[str]) -> NDArray[np.float32]:
        return encoder.encode(texts, normalize_embeddings=normalize, truncate_dim=dim)

    with Shards.open(Path(out), settings, form) as shards:
        manifest = shards.manifest
        remembered = EmbeddingCache(vectors_of, dim or encoder.dim)
        if not manifest.finished:
            encoder.tune_token_budget()
            stream = iter(records)
            for _ in islice(stream, manifest.records):  # reading is a thousand times faster than encoding
                pass
        while not manifest.finished:
            found = list(islice(stream, shard))
            rows = [each for each in found if isinstance(each, Row)]
            rejects = [each for each in found if isinstance(each, Reject)]
            blocks = _encoded(rows, remembered, records, manifest, report)
            shards.add(rows, blocks, rejects, texts=keep_text, last=len(found) < shard)
            if report:
                report(records.position, records.size, manifest)
    return EncodeSummary(Path(out), manifest.rows, manifest.rejects, len(manifest.shards), remembered.found)


def _encoded(
    rows: list[Row], remembered: EmbeddingCache, records: Records, manifest: Manifest, report: Report | None
) -> Iterator[NDArray[np.float32]]:
    """The vectors of a shard, a few thousand sentences at a time: the bar moves, and no shard is held in memory."""
    for start in range(0, len(rows), WINDOW):
        yield remembered([row.text for row in rows[start : start + WINDOW]])
        if report:
            report(records.position, records.size, manifest)


def _fingerprint(path: Path) -> str:
    """A hash of the beginning and the end: enough to see that a file was changed, for files of any size."""
    with path.open("rb") as stream:
        content = stream.read(_ENDS)
        stream.seek(max(0, path.stat().st_size - _ENDS))
        return hashlib.sha256(content + stream.read(_ENDS)).hexdigest()
