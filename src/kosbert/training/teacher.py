"""Teacher vectors for distillation: computed once, kept on disk, memory-mapped; an interrupted computation goes on.

A teacher is anything with `encode`: one of our encoders, any sentence-transformers model, or an ONNX file that takes
strings (such as a Universal Sentence Encoder with its tokenizer inside the graph).
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kosbert.data.locate import cache_dir
from kosbert.errors import KosbertError, UsageError

_BLOCK = 4096  # sentences between two notes of how far we are


class Teacher(Protocol):
    """What can teach."""

    def encode(self, sentences: Sequence[str]) -> NDArray[np.floating[Any]]:
        """One vector a sentence, (sentences, dimension)."""


class OnnxTeacher:
    """An ONNX graph from strings to vectors; custom string operators come from onnxruntime-extensions."""

    def __init__(self, path: Path) -> None:
        try:
            import onnxruntime
        except ImportError:
            raise UsageError("an ONNX teacher needs ONNX Runtime: pip install 'kosbert[onnx]'") from None
        options = onnxruntime.SessionOptions()
        try:
            from onnxruntime_extensions import get_library_path

            options.register_custom_ops_library(get_library_path())
        except ImportError:
            pass  # only graphs with a tokenizer inside need it
        try:
            self._session = onnxruntime.InferenceSession(str(path), options)
        except Exception as error:  # the runtime raises its own unnamed kinds
            reason = " ".join(str(error).split())[:200]
            raise KosbertError(
                f"{path} cannot be run ({reason}): pip install onnxruntime-extensions may help"
            ) from error
        (text,) = self._session.get_inputs()
        if text.type != "tensor(string)":
            raise UsageError(f"{path} reads {text.type} and not strings: give a model directory instead")
        self._name = text.name

    def encode(self, sentences: Sequence[str]) -> NDArray[np.floating[Any]]:
        """The first output of the graph."""
        (vectors, *_) = self._session.run(None, {self._name: np.array(sentences, dtype=object)})
        return np.asarray(vectors)


def load_teacher(name: str) -> Teacher:
    """A teacher by the name of a model, a directory, or the path of an ONNX file."""
    if Path(name).suffix == ".onnx":
        if not Path(name).is_file():
            raise UsageError(f"there is no teacher {name}: give the path of an ONNX file or of a model directory")
        return OnnxTeacher(Path(name))
    from kosbert.model import load

    return load(name)


def teacher_vectors(
    name: str,
    sentences: Sequence[str],
    *,
    teacher: Teacher | None = None,
    report: Callable[[int, int], None] | None = None,
) -> NDArray[np.float16]:
    """The teacher's vectors of the sentences, (sentences, dimension), in float16, from the cache where they are there.

    The cache is keyed by the teacher's name and every sentence. Half precision is far finer than what is learnt.
    """
    digest = hashlib.sha256(json.dumps([name, list(sentences)], ensure_ascii=False).encode()).hexdigest()[:24]
    folder = cache_dir().parent / "teachers"
    file, note = folder / f"{digest}.npy", folder / f"{digest}.json"
    done = int(json.loads(note.read_text(encoding="utf-8"))["done"]) if note.is_file() and file.is_file() else 0
    if done < len(sentences):
        folder.mkdir(parents=True, exist_ok=True)
        teacher = teacher or load_teacher(name)
        store = np.load(file, mmap_mode="r+") if done else None
        while done < len(sentences):
            vectors = np.asarray(teacher.encode(list(sentences[done : done + _BLOCK])), np.float16)
            if store is None:
                shape = (len(sentences), vectors.shape[1])
                store = np.lib.format.open_memmap(file, mode="w+", dtype=np.float16, shape=shape)
            store[done : done + len(vectors)] = vectors
            store.flush()
            done += len(vectors)
            note.write_text(json.dumps({"done": done, "teacher": name}), encoding="utf-8")
            if report:
                report(done, len(sentences))
    stored: NDArray[np.float16] = np.load(file, mmap_mode="r")
    return stored
