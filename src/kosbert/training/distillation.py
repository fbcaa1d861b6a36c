"""Teacher embeddings for distillation: computed once, cached on disk, memory-mapped; resumes after an interruption.

A teacher is anything with `encode`: one of our encoders, any sentence-transformers model, or an ONNX file that takes
strings. `PACKAGE:PATH` names a file or directory inside an installed package (see `kosbert.model.load_any`).
"""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kosbert.errors import KosbertError
from kosbert.files import cache_root, sha256_file, write_text
from kosbert.model import load_any
from kosbert.model.directory import package_path
from kosbert.progress import ProgressCallback, ProgressEvent

_MODEL_FILES = (".safetensors", ".onnx", ".json", ".txt", ".model")
_BLOCK = 4096  # sentences encoded between two writes


class Teacher(Protocol):
    """Teacher protocol."""

    def encode(self, sentences: Sequence[str]) -> NDArray[np.floating[Any]]:
        """Return one embedding per sentence, (sentences, dimension)."""


def teacher_embeddings(
    name: str,
    sentences: Sequence[str],
    *,
    teacher: Teacher | None = None,
    on_progress: ProgressCallback | None = None,
) -> NDArray[np.float16]:
    """Return the teacher's embeddings, (sentences, dimension), from the cache if they are there.

    The cache key is the teacher's name, its files and all sentences. float16 is far more precise than what a student
    learns.

    Args:
        name: the teacher, as in a recipe.
        sentences: what the teacher encodes.
        teacher: an object to use instead of loading `name`.
        on_progress: called after each block of sentences.
    """
    key = json.dumps([name, teacher_checksums(name), list(sentences)], ensure_ascii=False)
    stem = cache_root() / "teachers" / hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:24]
    vectors_path, state_path = stem.with_suffix(".f16"), stem.with_suffix(".json")
    try:
        done, dimension = _cached(vectors_path, state_path)
        if done < len(sentences):
            stem.parent.mkdir(parents=True, exist_ok=True)
            teacher = teacher or load_any(name)
        while teacher and done < len(sentences):
            vectors = np.asarray(teacher.encode(list(sentences[done : done + _BLOCK])), np.float16)
            if not np.isfinite(vectors).all():
                raise KosbertError(f"the teacher {name} gives embeddings that are not finite: choose another teacher")
            dimension = vectors.shape[1]
            _write_at(vectors_path, done * vectors[0].nbytes, vectors.tobytes())
            done += len(vectors)
            write_text(state_path, json.dumps({"done": done, "dimension": dimension, "teacher": name}))
            if on_progress:
                task = f"encode with teacher {Path(name).name}"
                on_progress(ProgressEvent(task, done, len(sentences), unit="sentences"))
        return np.memmap(vectors_path, np.float16, "r", shape=(len(sentences), dimension))
    except OSError as error:
        raise KosbertError(
            f"the teacher embeddings could not be written to {stem.parent} ({error.strerror or error}): free some "
            "space there, or set KOSBERT_CACHE to another directory"
        ) from error


def combined_embeddings(
    teachers: Mapping[str, float], sentences: Sequence[str], on_progress: ProgressCallback | None = None
) -> NDArray[np.float16]:
    """Return the embeddings of one teacher, or of several concatenated so that cosines are the weighted mean of theirs.

    Args:
        teachers: name → weight. The embeddings of a single teacher are returned unchanged, memory-mapped.
        sentences: what the teachers encode.
        on_progress: called while a teacher encodes.
    """
    embeddings = [teacher_embeddings(name, sentences, on_progress=on_progress) for name in teachers]
    if len(embeddings) == 1:
        return embeddings[0]
    combined = np.empty((len(sentences), sum(vectors.shape[1] for vectors in embeddings)), np.float16)
    offset = 0
    for vectors, weight in zip(embeddings, teachers.values(), strict=True):
        for start in range(0, len(sentences), _BLOCK):
            block = vectors[start : start + _BLOCK].astype(np.float32)
            block *= np.sqrt(weight) / np.linalg.norm(block, axis=1, keepdims=True).clip(1e-12)
            combined[start : start + _BLOCK, offset : offset + block.shape[1]] = block
        offset += vectors.shape[1]
    return combined


def _cached(vectors_path: Path, state_path: Path) -> tuple[int, int]:
    """Return the number of cached embeddings and their dimension; 0 if the two files do not match."""
    try:
        state = json.loads(state_path.read_text(encoding="utf-8"))
        done, dimension = int(state["done"]), int(state["dimension"])
        return (done, dimension) if vectors_path.stat().st_size >= done * dimension * 2 else (0, 0)
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return 0, 0


def _write_at(path: Path, offset: int, content: bytes) -> None:
    """Write bytes at an offset of a file.

    Plain writes instead of a memory map, so that a full disk raises an error and does not kill the process. The file is
    not truncated: another process may have started it, and writes the same bytes.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o644)
    with os.fdopen(descriptor, "r+b") as stream:
        stream.seek(offset)
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())


def teacher_checksums(name: str) -> list[str]:
    """Return the checksums of the teacher's files, which change when it is trained further; none for a hub name."""
    path = package_path(name)
    if path.is_file():
        files = sorted(path.parent.glob(f"{path.stem}*"))  # an ONNX graph may have its weights in a second file
    else:
        files = sorted(file for file in path.rglob("*") if file.suffix in _MODEL_FILES)
    return [f"{file.name} {sha256_file(file)}" for file in files if file.is_file()]
