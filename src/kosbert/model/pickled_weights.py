"""Weights in pickle (`pytorch_model.bin`) as safetensors, without running code.

Many Korean models have no safetensors. `torch.load(weights_only=True)` reads the tensors of a pickle and refuses
everything else. It happens once: the result is a directory in kosbert's cache, with the other files of the model and
`origin.json` (where the weights come from, and their SHA-256), and the pickle is not opened again.
"""

import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import is_zipfile

from kosbert.errors import KosbertError
from kosbert.files import atomic_directory, cache_root, remove_partial, sha256_file, wait_lock, write_text

if TYPE_CHECKING:
    from torch import Tensor

ORIGIN_FILE = "origin.json"
WEIGHTS_INDEX = "pytorch_model.bin.index.json"
_WEIGHTS = "pytorch_model.bin"
_COPIED_SUFFIXES = (".json", ".txt", ".model", ".safetensors")
_MODULES_WITHOUT_WEIGHTS = ("Pooling", "Normalize", "Dropout", "BoW", "Asym", "Router")


def is_weights_pickle(path: str) -> bool:
    """Return whether a file of a repository is a model's weights: not training_args.bin, optimizer.bin and the like."""
    return re.fullmatch(r"pytorch_model(-\d+-of-\d+)?\.bin", Path(path).name) is not None


def folders_without_safetensors(directory: Path) -> list[Path]:
    """Return the folders of a torch model that need weights and have no safetensors.

    These are the directory itself, or those that modules.json lists, with folders inside them that have a pickle.
    """
    if not (directory / "modules.json").is_file():
        folders = [directory] if (directory / "config.json").is_file() else []
    else:
        try:
            modules = json.loads((directory / "modules.json").read_text(encoding="utf-8"))
            folders = [
                _inside(directory, module["path"])
                for module in modules
                if str(module["type"]).rpartition(".")[2] not in _MODULES_WITHOUT_WEIGHTS
            ]
            below = [_inside(directory, module["path"]) for module in modules if module["path"]]
        except (ValueError, TypeError, KeyError) as error:
            raise KosbertError(f"{directory / 'modules.json'} is damaged; save or download the model again") from error
        folders += [file.parent for folder in below for file in folder.rglob("*.bin") if is_weights_pickle(file.name)]
    return [folder for folder in dict.fromkeys(folders) if not any(folder.glob("model*.safetensors"))]


def _inside(directory: Path, path: str) -> Path:
    if Path(path).is_absolute() or ".." in Path(path).parts:
        raise ValueError(path)
    return directory / path


def missing_pickles(directory: Path) -> bool:
    """Return whether a folder that needs weights has neither safetensors nor a complete pickle."""
    return not all(_pickles(folder) for folder in folders_without_safetensors(directory))


def _pickles(folder: Path) -> list[Path]:
    """Return the file or the shards with the pickled weights of a folder; empty if one of them is missing."""
    if (folder / _WEIGHTS).is_file():
        return [folder / _WEIGHTS]
    if not (folder / WEIGHTS_INDEX).is_file():
        return []
    try:
        index = json.loads((folder / WEIGHTS_INDEX).read_text(encoding="utf-8"))
        names = sorted({str(name) for name in index["weight_map"].values()})
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise KosbertError(f"{folder / WEIGHTS_INDEX} is damaged; download the model again") from error
    shards = [folder / name for name in names if Path(name).name == name and is_weights_pickle(name)]
    return shards if len(shards) == len(names) and all(shard.is_file() for shard in shards) else []


def converted_directory(directory: Path) -> Path:
    """Return a local model directory as it is, or its copy with safetensors in the cache if it has only pickles."""
    if not folders_without_safetensors(directory) or missing_pickles(directory):
        return directory
    resolved = directory.resolve()
    state = [
        (str(file), file.stat().st_size, file.stat().st_mtime_ns)
        for file in sorted(resolved.rglob("*"))
        if file.is_file()
    ]
    digest = sha256(repr(state).encode()).hexdigest()[:24]
    target = cache_root() / "converted" / "local" / f"{resolved.name}-{digest}"
    return target if target.is_dir() else convert(directory, target, {"directory": str(resolved)})


def convert(source: Path, target: Path, origin: Mapping[str, Any]) -> Path:
    """Write a copy of a model directory with safetensors in place of pickles; return `target`.

    Args:
        source: a directory in which no pickle is missing.
        target: a directory in the cache; nothing happens if another process has written it.
        origin: what `origin.json` records, next to the SHA-256 of every pickle.
    """
    folders = folders_without_safetensors(source)
    with _new_directory(target) as folder:
        if folder is not None:
            _copy_other_files(source, folder)
            checksums: dict[str, str] = {}
            for old in folders:
                files = _pickles(old)
                checksums |= {file.relative_to(source).as_posix(): sha256_file(file) for file in files}
                _write_safetensors(files, folder / old.relative_to(source))
            _write_json(folder / ORIGIN_FILE, {**origin, "files": checksums})
    return target


def link_safetensors(source: Path, weights: Path, target: Path, origin: Mapping[str, Any]) -> None:
    """Write a directory with the settings and tokenizer of `source` and the safetensors of `weights`."""
    with _new_directory(target) as folder:
        if folder is not None:
            _copy_other_files(source, folder)
            for file in weights.rglob("*"):
                if file.name.startswith("model") and file.name.endswith((".safetensors", ".safetensors.index.json")):
                    _copy(file, folder / file.relative_to(weights))
            _write_json(folder / ORIGIN_FILE, origin)


@contextmanager
def _new_directory(target: Path) -> Iterator[Path | None]:
    """Yield an empty directory that becomes `target`, or None if another process wrote it while this one waited."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with wait_lock(target.with_name(f".{target.name}.lock"), target):
        if target.is_dir():
            yield None
            return
        remove_partial(target.parent)
        with atomic_directory(target) as folder:
            yield folder


def _copy_other_files(source: Path, target: Path) -> None:
    """Copy settings, tokenizer and existing safetensors: those beside the model and in the folders of its modules."""
    folders = [source]
    if (source / "modules.json").is_file():
        modules = json.loads((source / "modules.json").read_text(encoding="utf-8"))
        folders += [
            file.parent for module in modules if module["path"] for file in (source / module["path"]).rglob("*")
        ]
    for file in {file for folder in folders for file in folder.iterdir() if file.is_file()}:
        if file.suffix in _COPIED_SUFFIXES and not file.name.endswith(".bin.index.json"):
            _copy(file, target / file.relative_to(source))


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.suffix == ".safetensors":
        try:
            os.link(source.resolve(), target)  # the hub's cache has symbolic links
            return
        except OSError:  # another file system
            pass
    shutil.copyfile(source, target)


def _write_safetensors(pickles: list[Path], target: Path) -> None:
    """Write the weights of one folder, with as many shards as the pickles had."""
    from safetensors.torch import save_file

    target.mkdir(parents=True, exist_ok=True)
    weight_map: dict[str, str] = {}
    total = 0
    for number, file in enumerate(pickles, 1):
        name = "model.safetensors" if len(pickles) == 1 else f"model-{number:05}-of-{len(pickles):05}.safetensors"
        tensors = read_tensors(file)
        save_file(tensors, target / name, metadata={"format": "pt"})
        weight_map |= dict.fromkeys(tensors, name)
        total += sum(tensor.nbytes for tensor in tensors.values())
    if len(pickles) > 1:
        index = {"metadata": {"total_size": total}, "weight_map": weight_map}
        _write_json(target / "model.safetensors.index.json", index)


def read_tensors(file: Path) -> dict[str, "Tensor"]:
    """Return the tensors of a pickle. No code in it runs: anything but tensors in a dictionary is an error."""
    import pickle

    import torch

    try:
        # The old format, from before torch 1.6, is no zip file and cannot be mapped into memory.
        content = torch.load(file, map_location="cpu", weights_only=True, mmap=is_zipfile(file))
    except pickle.UnpicklingError as error:
        raise KosbertError(
            f"{file.name} in {file.parent} is damaged or holds more than weights, which could run code, so it was not "
            "read; use a model with safetensors"
        ) from error
    except Exception as error:  # a damaged file raises whatever its reader raises
        raise KosbertError(f"{file} is damaged ({type(error).__name__}); download it again") from error
    tensors: dict[str, Tensor] = {}
    storages: set[int] = set()
    for name, value in content.items() if isinstance(content, dict) else ():
        if isinstance(value, torch.Tensor):
            tensor = value.detach().contiguous()
            # Tied weights share memory, which safetensors cannot express: they become two copies.
            tensors[name] = tensor.clone() if tensor.untyped_storage().data_ptr() in storages else tensor
            storages.add(tensor.untyped_storage().data_ptr())
    if not tensors:
        raise KosbertError(f"{file} holds no weights; download it again, or use another model")
    return tensors


def _write_json(path: Path, document: Mapping[str, Any]) -> None:
    write_text(path, json.dumps(document, ensure_ascii=False, indent=2, sort_keys=True) + "\n")
