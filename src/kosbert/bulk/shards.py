"""Vectors on disk: shards that are there as a whole or not at all, and a manifest that says which count.

    OUT/manifest.json        the input, the model, the settings, every finished shard, how far the input is read
    OUT/00000.parquet        id, vector (and text, if asked for); or 00000.npy with 00000.ids.jsonl beside it
    OUT/rejects.jsonl        rows that could not be used: line, reason, content

A shard counts once the manifest names it, and the manifest is replaced in one step, after everything it names is safely
on disk. So a process may be killed at any moment: what it left beside the manifest is written anew.
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

from kosbert.bulk.records import Reject, Row
from kosbert.errors import KosbertError, UsageError
from kosbert.files import atomic_write, disk_error, remove_partial, try_lock

Form = Literal["parquet", "npy"]
_MANIFEST, _REJECTS = "manifest.json", "rejects.jsonl"
_LOCK = ".lock"


@dataclass
class Manifest:
    """What is on disk and what made it."""

    settings: dict[str, Any]
    shards: list[dict[str, Any]] = field(default_factory=list)
    records: int = 0
    rejects: int = 0
    reject_bytes: int = 0
    finished: bool = False

    @property
    def rows(self) -> int:
        """Vectors that are safely on disk."""
        return sum(shard["rows"] for shard in self.shards)


class Shards:
    """The output of one job; opened again, it goes on after the last shard that counts.

    Args:
        folder: a folder of its own.
        settings: what makes the vectors what they are; another job's folder is refused.
        form: parquet or npy.
    """

    def __init__(self, folder: Path, settings: dict[str, Any], form: Form) -> None:
        self._folder, self._form = folder, form
        self.manifest = self._standing(json.loads(json.dumps(settings)))
        self._tidy()

    @classmethod
    @contextmanager
    def open(cls, folder: Path, settings: dict[str, Any], form: Form) -> Iterator["Shards"]:
        """Make the folder or go on with it, with nobody else at work in it."""
        with _room(folder):
            folder.mkdir(parents=True, exist_ok=True)
        busy = f"another process writes vectors into {folder}: wait for it, or choose another --out"
        with try_lock(folder / _LOCK, busy):
            yield cls(folder, settings, form)

    def _standing(self, settings: dict[str, Any]) -> Manifest:
        file = self._folder / _MANIFEST
        if not file.is_file():
            remove_partial(self._folder)
            if any(path.name != _LOCK for path in self._folder.iterdir()):
                raise UsageError(f"{self._folder} holds other things: choose an empty or new folder for --out")
            manifest = Manifest(settings)
            self._write_manifest(manifest)
            return manifest
        try:
            manifest = Manifest(**json.loads(file.read_text(encoding="utf-8")))
        except (ValueError, TypeError) as error:
            raise KosbertError(f"{file} is damaged ({error}): choose another --out") from error
        if not manifest.records and not manifest.finished:  # nothing is there yet that other settings could spoil
            manifest.settings = settings
            self._write_manifest(manifest)
        for name, value in manifest.settings.items():
            if not _alike(value, settings.get(name)):
                raise UsageError(
                    f"{self._folder} was begun with {name} {value!r} and not {settings.get(name)!r}: choose another "
                    "--out, or give the same input and options"
                )
        return manifest

    def _tidy(self) -> None:
        """Remove what a killed process left beside the manifest."""
        counted = {name for shard in self.manifest.shards for name in shard["files"]} | {_MANIFEST, _REJECTS}
        remove_partial(self._folder)
        for file in self._folder.iterdir():
            if file.name not in counted and file.name[:5].isdigit():
                file.unlink()
        rejects = self._folder / _REJECTS
        if rejects.is_file() and rejects.stat().st_size > self.manifest.reject_bytes:
            os.truncate(rejects, self.manifest.reject_bytes)
        missing = [name for name in counted - {_REJECTS} if not (self._folder / name).is_file()]
        if missing:
            raise KosbertError(f"{self._folder / missing[0]} is missing: put it back, or choose another --out")

    def add(
        self, rows: Sequence[Row], blocks: Iterable[NDArray[Any]], rejects: Sequence[Reject], *, texts: bool, last: bool
    ) -> None:
        """Make a shard of some rows count, with the rejects that stood between them; their vectors come in blocks."""
        manifest = self.manifest
        with _room(self._folder):
            if rows:
                stem = f"{len(manifest.shards):05d}"
                files = self._write(stem, rows, blocks, texts)
                manifest.shards.append({"files": files, "rows": len(rows)})
            if rejects:
                lines = "".join(f"{json.dumps(asdict(each), ensure_ascii=False)}\n" for each in rejects)
                with (self._folder / _REJECTS).open("ab") as stream:
                    stream.write(lines.encode("utf-8", "replace"))
                    _safely(stream)
                    manifest.reject_bytes = stream.tell()
            manifest.rejects += len(rejects)
            manifest.records += len(rows) + len(rejects)
            manifest.finished = last
            self._write_manifest(manifest)

    def _write(self, stem: str, rows: Sequence[Row], blocks: Iterable[NDArray[Any]], texts: bool) -> list[str]:
        """Write the blocks as they come: a shard is never in memory as a whole."""
        precision, dim = np.dtype(self.manifest.settings["precision"]), self.manifest.settings["model"]["dim"]
        if self._form == "npy":
            with atomic_write(self._folder / f"{stem}.npy", "wb") as stream:
                shape = {"descr": npy.dtype_to_descr(precision), "fortran_order": False, "shape": (len(rows), dim)}
                npy.write_array_header_1_0(stream, shape)
                for block in blocks:
                    stream.write(block.astype(precision, copy=False).tobytes())
            with atomic_write(self._folder / f"{stem}.ids.jsonl", "wb") as stream:
                for row in rows:
                    fields = {"id": row.id} | ({"text": row.text} if texts else {})
                    stream.write(f"{json.dumps(fields, ensure_ascii=False)}\n".encode())
            return [f"{stem}.npy", f"{stem}.ids.jsonl"]
        import pyarrow
        from pyarrow import parquet

        names = ["id", *(["text"] if texts else [])]
        vector = pyarrow.list_(pyarrow.from_numpy_dtype(precision), dim)
        schema = pyarrow.schema([*((name, pyarrow.string()) for name in names), ("vector", vector)])
        how = {"compression": "zstd", "use_dictionary": False}  # no number of a vector comes twice
        with (
            atomic_write(self._folder / f"{stem}.parquet", "wb") as stream,
            parquet.ParquetWriter(stream, schema, **how) as writer,
        ):
            done = 0
            for block in blocks:
                part = rows[done : done + len(block)]
                done += len(block)
                columns: list[Any] = [
                    pyarrow.array([getattr(row, name) for row in part], schema.types[0]) for name in names
                ]
                flat = pyarrow.array(block.astype(precision, copy=False).reshape(-1))
                columns.append(pyarrow.FixedSizeListArray.from_arrays(flat, dim))
                writer.write_batch(pyarrow.record_batch(columns, schema=schema))
        return [f"{stem}.parquet"]

    def _write_manifest(self, manifest: Manifest) -> None:
        with _room(self._folder), atomic_write(self._folder / _MANIFEST, "wb") as stream:
            stream.write(json.dumps(asdict(manifest), ensure_ascii=False, indent=1).encode())


def _alike(before: Any, now: Any) -> bool:
    """Whether settings are those of before; numbers of a probe may differ by what another batch or thread makes."""
    if isinstance(before, dict) and isinstance(now, dict):
        return all(_alike(value, now.get(name)) for name, value in before.items())
    if isinstance(before, list) and isinstance(now, list):
        return bool(np.allclose(before, now, atol=1e-2))
    return bool(before == now)


def _safely(stream: Any) -> None:
    stream.flush()
    os.fsync(stream.fileno())


@contextmanager
def _room(folder: Path) -> Iterator[None]:
    """A full disk is one sentence, and nothing that counted is lost."""
    try:
        yield
    except OSError as error:
        advice = "free some space and run the same command; it resumes after the last complete shard"
        raise disk_error(error, folder, advice) from error


def read_shards(folder: str | Path) -> Iterator[tuple[list[str], NDArray[Any]]]:
    """The ids and vectors of every shard of a finished or unfinished job, in the order of the input."""
    folder = Path(folder)
    try:
        manifest = Manifest(**json.loads((folder / _MANIFEST).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        raise UsageError(f"{folder} holds no vectors: give a folder that kosbert encode wrote") from None
    for shard in manifest.shards:
        first = folder / shard["files"][0]
        if first.suffix == ".npy":
            with (folder / shard["files"][1]).open(encoding="utf-8", newline="\n") as lines:
                ids = [json.loads(line)["id"] for line in lines]
            yield ids, np.load(first, allow_pickle=False)
        else:
            from pyarrow import parquet

            table = parquet.read_table(first, columns=["id", "vector"])
            column = table["vector"].combine_chunks()
            yield table["id"].to_pylist(), column.flatten().to_numpy(zero_copy_only=False).reshape(len(table), -1)
