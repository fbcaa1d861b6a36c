"""Checkpoints: safetensors and JSON, written atomically.

    OUT/checkpoints/00000120/   weights.safetensors  optimizer.safetensors  state.json  sha256.json

`sha256.json` has the checksums of the other files. A checkpoint that does not match is skipped for the one before it.
There is no pickle: the optimizer state is stored as named tensors.
"""

import errno
import json
import logging
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from kosbert.errors import KosbertError
from kosbert.files import atomic_directory, sha256_file

logger = logging.getLogger(__name__)

_CHECKSUMS = "sha256.json"
_KEEP = 2  # the newest, and the previous one in case the newest is damaged


@dataclass(frozen=True)
class Checkpoint:
    """Everything that a run needs to resume."""

    state: dict[str, Any]
    weights: dict[str, Tensor]
    optimizer: dict[str, Tensor]


class Checkpoints:
    """The checkpoints of one run, numbered by the steps done in all stages."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def save(
        self, number: int, state: Mapping[str, Any], weights: Mapping[str, Tensor], optimizer: Mapping[str, Tensor]
    ) -> Path:
        """Write a checkpoint atomically, then delete old and damaged ones."""
        self._remove_partial()
        target = self.directory / f"{number:08d}"
        try:
            # `replace`: a run that resumed from an earlier checkpoint reaches the same step again.
            with atomic_directory(target, replace=True) as directory:
                for name, tensors in (("weights", weights), ("optimizer", optimizer)):
                    on_cpu = {key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()}
                    save_file(on_cpu, directory / f"{name}.safetensors")
                (directory / "state.json").write_text(json.dumps(state, ensure_ascii=False), encoding="utf-8")
                checksums = {path.name: sha256_file(path) for path in directory.iterdir()}
                (directory / _CHECKSUMS).write_text(json.dumps(checksums), encoding="utf-8")
                for path in directory.iterdir():
                    _fsync(path)
        except (OSError, SafetensorError) as error:
            raise KosbertError(_write_error(error, self.directory)) from error
        keep = [path for path in self._all() if path <= target][-_KEEP:]  # a later one was damaged
        for path in set(self._all()) - set(keep):
            shutil.rmtree(path, ignore_errors=True)
        return target

    def newest(self) -> Checkpoint | None:
        """Return the newest undamaged checkpoint, or None."""
        self._remove_partial()
        for directory in reversed(self._all()):
            try:
                return _read(directory)
            except (OSError, ValueError, AttributeError, SafetensorError) as error:
                logger.warning("the checkpoint %s is damaged (%s): using the previous one", directory, error)
        return None

    def clear(self) -> None:
        """Delete all checkpoints: the run is finished."""
        shutil.rmtree(self.directory, ignore_errors=True)

    def _remove_partial(self) -> None:
        """Delete what a killed process left half-written."""
        for directory in self.directory.glob(".[0-9]*"):
            shutil.rmtree(directory, ignore_errors=True)

    def _all(self) -> list[Path]:
        return sorted(path for path in self.directory.glob("[0-9]*") if path.is_dir())


def _read(directory: Path) -> Checkpoint:
    for name, expected in json.loads((directory / _CHECKSUMS).read_text(encoding="utf-8")).items():
        if sha256_file(directory / name) != expected:
            raise ValueError(f"{name} has a different checksum")
    state = json.loads((directory / "state.json").read_text(encoding="utf-8"))
    return Checkpoint(state, *(load_file(directory / f"{name}.safetensors") for name in ("weights", "optimizer")))


def _fsync(path: Path) -> None:
    """Flush a file to disk before the rename makes it visible."""
    with path.open("r+b") as stream:
        os.fsync(stream.fileno())


def _write_error(error: Exception, directory: Path) -> str:
    if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT) or "No space left" in str(error):
        reason = "the disk is full"
    else:
        reason = str(getattr(error, "strerror", None) or error)
    return (
        f"the checkpoint could not be written to {directory} ({reason}), and the previous one is kept: free some space "
        "or make the directory writable, then run the same command with --resume"
    )


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the optimizer state as named tensors: parameter number and kind (`12.exp_avg`)."""
    state = optimizer.state_dict()["state"]
    return {f"{number}.{kind}": value for number, kinds in state.items() for kind, value in kinds.items()}


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Restore the state that `optimizer_tensors` returned."""
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        number, kind = name.split(".", 1)
        state.setdefault(int(number), {})[kind] = value
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
