"""Which model it is, wherever it stands: a checksum over what decides its vectors."""

import hashlib
from pathlib import Path

from kosbert.model.encoder import Encoder
from kosbert.model.loading import find_model

# The card and the readme may change without the vectors changing.
_PARTS = (".safetensors", ".onnx", ".model", ".txt", ".json")
_CARDS = ("kosbert.json", "probe.json")


def checksum_of(directory: Path) -> str:
    """SHA-256 over the names and contents of a model's files, the same wherever the directory stands."""
    files = (each for each in directory.rglob("*") if each.suffix in _PARTS and each.name not in _CARDS)
    total = hashlib.sha256()
    for file in sorted(each for each in files if each.is_file()):
        total.update(f"{file.relative_to(directory).as_posix()}\0".encode())
        with file.open("rb") as stream:
            total.update(hashlib.file_digest(stream, "sha256").digest())
    return total.hexdigest()


def model_checksum(encoder: Encoder) -> str:
    """The checksum of the files that an encoder was loaded from."""
    return checksum_of(find_model(encoder.source))
