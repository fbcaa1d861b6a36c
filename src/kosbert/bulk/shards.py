"""Vectors on disk: atomically written shards and a manifest that lists the finished ones.

    OUT/manifest.json        the input, the model, the settings, every finished shard, how far the input is read
    OUT/00000.parquet        id, vector (and text, with keep_text); or 00000.npy with 00000.ids.jsonl
    OUT/rejects.jsonl        rows that could not be used: line, reason, content

The manifest is replaced atomically after the shards it lists are on disk. A process can be killed at any moment: the
next one deletes files that are not in the manifest and writes them again.
"""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from kosbert.data.sentences import SentenceRow
from kosbert.data.tables import Reject
from kosbert.errors import KosbertError, UsageError
from kosbert.files import atomic_write, disk_error, remove_partial, try_lock

ShardFormat = Literal["parquet", "npy"]
_MANIFEST, _REJECTS, _LOCK = "manifest.json", "rejects.jsonl", ".lock"


@dataclass
class Manifest:
    """The finished shards of a job, its settings, and how much of the input they cover."""

    settings: dict[str, Any]
    shards: list[dict[str, Any]] = field(default_factory=list)
    records: int = 0
    rejects: int = 0
    reject_bytes: int = 0
    finished: bool = False

    @property
    def rows(self) -> int:
        """Vectors on disk."""
        return sum(shard["rows"] for shard in self.shards)


class ShardWriter:
    """Writes the shards of one job; opened again, it continues after the last finished shard.

    Args:
        directory: the output directory of the job.
        settings: everything that determines the vectors; the directory of a job with others is refused.
        format: parquet or npy.
    """

    def __init__(self, directory: Path, settings: dict[str, Any], format: ShardFormat) -> None:
        self._directory, self._format = directory, format
        self.manifest = self._load_manifest(json.loads(json.dumps(settings)))
        self._remove_unfinished()

    @classmethod
    @contextmanager
    def open(cls, directory: Path, settings: dict[str, Any], format: ShardFormat) -> Iterator["ShardWriter"]:
        """Create the directory or continue in it, with a lock against other processes."""
        with _disk_errors(directory):
            directory.mkdir(parents=True, exist_ok=True)
        busy = f"another process writes vectors into {directory}: wait for it, or choose another --out"
        with try_lock(directory / _LOCK, busy):
            yield cls(directory, settings, format)

    def _load_manifest(self, settings: dict[str, Any]) -> Manifest:
        path = self._directory / _MANIFEST
        if not path.is_file():
            remove_partial(self._directory)
            if any(path.name != _LOCK for path in self._directory.iterdir()):
                raise UsageError(f"{self._directory} contains other files: choose an empty or new directory for --out")
            manifest = Manifest(settings)
            self._write_manifest(manifest)
            return manifest
        try:
            manifest = Manifest(**json.loads(path.read_text(encoding="utf-8")))
        except (ValueError, TypeError) as error:
            raise KosbertError(f"{path} is damaged ({error}): choose another --out") from error
        if not manifest.records and not manifest.finished:  # no shard yet that other settings could conflict with
            manifest.settings = settings
            self._write_manifest(manifest)
        for name, value in manifest.settings.items():
            if not _same_settings(value, settings.get(name)):
                raise UsageError(
                    f"{self._directory} was started with {name} {value!r}, not {settings.get(name)!r}: choose another "
                    "--out, or give the same input and options"
                )
        return manifest

    def _remove_unfinished(self) -> None:
        """Delete what a killed process left beside the manifest."""
        finished = {name for shard in self.manifest.shards for name in shard["files"]}
        remove_partial(self._directory)
        for path in self._directory.iterdir():
            if path.name not in finished and path.name[:5].isdigit():
                path.unlink()
        rejects = self._directory / _REJECTS
        if rejects.is_file() and rejects.stat().st_size > self.manifest.reject_bytes:
            os.truncate(rejects, self.manifest.reject_bytes)
        missing = sorted(name for name in finished if not (self._directory / name).is_file())
        if missing:
            raise KosbertError(f"{self._directory / missing[0]} is missing: put it back, or choose another --out")

    def add(
        self,
        sentences: Sequence[SentenceRow],
        blocks: Iterable[NDArray[Any]],
        rejects: Sequence[Reject],
        *,
        keep_text: bool,
        last: bool,
    ) -> None:
        """Write a shard and record it in the manifest.

        Args:
            sentences: the rows of the shard.
            blocks: their vectors, a block at a time.
            rejects: unusable rows between them.
            keep_text: write the sentences too.
            last: whether the input ends here.
        """
        manifest = self.manifest
        with _disk_errors(self._directory):
            if sentences:
                stem = f"{len(manifest.shards):05d}"
                write = self._write_npy if self._format == "npy" else self._write_parquet
                manifest.shards.append({"files": write(stem, sentences, blocks, keep_text), "rows": len(sentences)})
            if rejects:
                lines = "".join(f"{json.dumps(asdict(reject), ensure_ascii=False)}\n" for reject in rejects)
                with (self._directory / _REJECTS).open("ab") as stream:
                    stream.write(lines.encode("utf-8", "replace"))
                    stream.flush()
                    os.fsync(stream.fileno())
                    manifest.reject_bytes = stream.tell()
            manifest.rejects += len(rejects)
            manifest.records += len(sentences) + len(rejects)
            manifest.finished = last
            self._write_manifest(manifest)

    def discard(self) -> str:
        """Delete what the job has written, because it has no vectors; return its first reject as `line N: reason`."""
        rejects = self._directory / _REJECTS
        first = ""
        if rejects.is_file():
            with rejects.open(encoding="utf-8") as lines:
                reject = json.loads(next(lines))
            first = f"line {reject['line']}: {reject['reason']}"
            rejects.unlink()
        (self._directory / _MANIFEST).unlink()
        return first

    def _write_npy(
        self, stem: str, sentences: Sequence[SentenceRow], blocks: Iterable[NDArray[Any]], keep_text: bool
    ) -> list[str]:
        precision, dim = self._vector_type()
        with atomic_write(self._directory / f"{stem}.npy", "wb") as stream:
            header = {"descr": npy.dtype_to_descr(precision), "fortran_order": False, "shape": (len(sentences), dim)}
            npy.write_array_header_1_0(stream, header)
            for block in blocks:
                stream.write(block.astype(precision, copy=False).tobytes())
        with atomic_write(self._directory / f"{stem}.ids.jsonl", newline="\n") as stream:
            for sentence in sentences:
                fields = {"id": sentence.id} | ({"text": sentence.text} if keep_text else {})
                stream.write(f"{json.dumps(fields, ensure_ascii=False)}\n")
        return [f"{stem}.npy", f"{stem}.ids.jsonl"]

    def _write_parquet(
        self, stem: str, sentences: Sequence[SentenceRow], blocks: Iterable[NDArray[Any]], keep_text: bool
    ) -> list[str]:
        import pyarrow
        from pyarrow import parquet

        precision, dim = self._vector_type()
        names = ["id", *(["text"] if keep_text else [])]
        vector_type = pyarrow.list_(pyarrow.from_numpy_dtype(precision), dim)
        schema = pyarrow.schema([*((name, pyarrow.string()) for name in names), ("vector", vector_type)])
        options = {"compression": "zstd", "use_dictionary": False}  # the numbers of a vector do not repeat
        with (
            atomic_write(self._directory / f"{stem}.parquet", "wb") as stream,
            parquet.ParquetWriter(stream, schema, **options) as writer,
        ):
            start = 0
            for block in blocks:
                part = sentences[start : start + len(block)]
                start += len(block)
                columns: list[Any] = [
                    pyarrow.array([getattr(sentence, name) for sentence in part], pyarrow.string()) for name in names
                ]
                numbers = pyarrow.array(block.astype(precision, copy=False).reshape(-1))
                columns.append(pyarrow.FixedSizeListArray.from_arrays(numbers, dim))
                writer.write_batch(pyarrow.record_batch(columns, schema=schema))
        return [f"{stem}.parquet"]

    def _vector_type(self) -> tuple[np.dtype[Any], int]:
        settings = self.manifest.settings
        return np.dtype(settings["precision"]), settings["model"]["dim"]

    def _write_manifest(self, manifest: Manifest) -> None:
        with _disk_errors(self._directory), atomic_write(self._directory / _MANIFEST) as stream:
            json.dump(asdict(manifest), stream, ensure_ascii=False, indent=1)


def _same_settings(old: Any, new: Any) -> bool:
    """Compare settings; the numbers of the probe may vary slightly with threads and batches."""
    if isinstance(old, dict) and isinstance(new, dict):
        return all(_same_settings(value, new.get(name)) for name, value in old.items())
    if isinstance(old, list) and isinstance(new, list):
        return bool(np.allclose(old, new, atol=1e-2))
    return bool(old == new)


@contextmanager
def _disk_errors(directory: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        advice = "free some space and run the same command; it resumes after the last finished shard"
        raise disk_error(error, directory, advice) from error


def read_shards(directory: str | Path) -> Iterator[tuple[list[str], NDArray[Any]]]:
    """Yield the ids and vectors of every finished shard of a job, in the order of the input."""
    directory = Path(directory)
    try:
        manifest = Manifest(**json.loads((directory / _MANIFEST).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        raise UsageError(f"{directory} contains no vectors: give a directory that kosbert encode wrote") from None
    for shard in manifest.shards:
        path = directory / shard["files"][0]
        if path.suffix == ".npy":
            with (directory / shard["files"][1]).open(encoding="utf-8", newline="\n") as lines:
                ids = [json.loads(line)["id"] for line in lines]
            yield ids, np.load(path, allow_pickle=False)
        else:
            from pyarrow import parquet

            table = parquet.read_table(path, columns=["id", "vector"])
            vectors = table["vector"].combine_chunks()
            yield table["id"].to_pylist(), vectors.flatten().to_numpy(zero_copy_only=False).reshape(len(table), -1)
