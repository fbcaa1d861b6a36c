"""Teacher vectors for distillation: computed once, kept on disk, memory-mapped; an interrupted computation goes on.

A teacher is anything with `encode`: one of our encoders, any sentence-transformers model, or an ONNX file that takes
strings. `PACKAGE:PATH` names a file or a folder that an installed package carries (see `kosbert.model.load_any`).
"""

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kosbert.data.locate import cache_dir
from kosbert.errors import KosbertError
from kosbert.model import load_any
from kosbert.model.directory import package_path

_FILES = (".safetensors", ".onnx", ".json", ".txt", ".model")
_BLOCK = 4096  # sentences between two notes of how far we are


Reading = Callable[[str, int, int], None]
"""Told who reads, how many sentences are done, and of how many."""


class Teacher(Protocol):
    """What can teach."""

    def encode(self, sentences: Sequence[str]) -> NDArray[np.floating[Any]]:
        """One vector a sentence, (sentences, dimension)."""


def teacher_vectors(
    name: str,
    sentences: Sequence[str],
    *,
    teacher: Teacher | None = None,
    report: Callable[[int, int], None] | None = None,
) -> NDArray[np.float16]:
    """The teacher's vectors of the sentences, (sentences, dimension), in float16, from the cache where they are there.

    The cache is keyed by the teacher's name and files and by every sentence. Half precision is far finer than what is
    learned.
    """
    key = json.dumps([name, teacher_checksums(name), list(sentences)], ensure_ascii=False)
    stem = cache_dir().parent / "teachers" / hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:24]
    file, note = stem.with_suffix(".f16"), stem.with_suffix(".json")
    try:
        done, dimension = _standing(file, note)
        if done < len(sentences):
            stem.parent.mkdir(parents=True, exist_ok=True)
            teacher = teacher or load_any(name)
        while teacher and done < len(sentences):
            vectors = np.asarray(teacher.encode(list(sentences[done : done + _BLOCK])), np.float16)
            if not np.isfinite(vectors).all():
                raise KosbertError(f"the teacher {name} gives vectors that are not finite: choose another teacher")
            dimension = vectors.shape[1]
            # Plain writes and no memory map: a full disk is then an error and not the end of the process.
            # Nor is the file emptied: another process may have begun it, and writes the same.
            with os.fdopen(os.open(file, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o644), "r+b") as stream:
                stream.seek(done * vectors[0].nbytes)
                stream.write(vectors.tobytes())
                stream.flush()
                os.fsync(stream.fileno())
            done += len(vectors)
            _replace(note, json.dumps({"done": done, "dimension": dimension, "teacher": name}))
            if report:
                report(done, len(sentences))
        return np.memmap(file, np.float16, "r", shape=(len(sentences), dimension))
    except OSError as error:
        raise KosbertError(
            f"the teacher's vectors cannot be kept in {stem.parent} ({error.strerror or error}): make room there, or "
            "set KOSBERT_CACHE to another folder"
        ) from error


def joint_vectors(
    teachers: Mapping[str, float], sentences: Sequence[str], reading: Reading | None = None
) -> NDArray[np.float16]:
    """The vectors of one teacher; or those of several beside each other, so that their cosine is the mean of theirs.

    The shares weigh the mean. One teacher's vectors are left as they are, on disk.
    """
    found = [teacher_vectors(name, sentences, report=reading and partial(reading, name)) for name in teachers]
    if len(found) == 1:
        return found[0]
    joint = np.empty((len(sentences), sum(each.shape[1] for each in found)), np.float16)
    at = 0
    for vectors, share in zip(found, teachers.values(), strict=True):
        for start in range(0, len(sentences), _BLOCK):
            block = vectors[start : start + _BLOCK].astype(np.float32)
            block *= np.sqrt(share) / np.linalg.norm(block, axis=1, keepdims=True).clip(1e-12)
            joint[start : start + _BLOCK, at : at + block.shape[1]] = block
        at += vectors.shape[1]
    return joint


def _standing(file: Path, note: Path) -> tuple[int, int]:
    """How many vectors are there, and their dimension; none where the two files do not fit each other."""
    try:
        noted = json.loads(note.read_text(encoding="utf-8"))
        done, dimension = int(noted["done"]), int(noted["dimension"])
        return (done, dimension) if file.stat().st_size >= done * dimension * 2 else (0, 0)
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return 0, 0


def _replace(file: Path, text: str) -> None:
    """Write a file as a whole or not at all."""
    fresh = file.with_suffix(f".{os.getpid()}")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(file)


def teacher_checksums(name: str) -> list[str]:
    """Checksums of the teacher's files, so that a teacher trained further is another one; none for a hub name."""
    path = package_path(name)
    if path.is_file():
        files = sorted(path.parent.glob(f"{path.stem}*"))  # an ONNX graph may keep its weights beside it
    else:
        files = sorted(each for each in path.rglob("*") if each.suffix in _FILES)
    digests = []
    for file in filter(Path.is_file, files):
        with file.open("rb") as stream:
            digests.append(f"{file.name} {hashlib.file_digest(stream, 'sha256').hexdigest()}")
    return digests
