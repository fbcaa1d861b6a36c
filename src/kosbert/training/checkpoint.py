"""Checkpoints that survive anything: safetensors and JSON, written beside their place and renamed onto it.

    OUT/checkpoints/00000120/   weights.safetensors  optimizer.safetensors  state.json  sha256.json

A checkpoint exists as a whole or not at all. `sha256.json` holds the checksums of the other files; one that does not
agree is passed over for the one before it. No pickle: the optimizer's state is tensors by name.
"""

import errno
import hashlib
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

logger = logging.getLogger(__name__)

_CHECKSUMS = "sha256.json"
_KEPT = 2  # the newest, and the one before in case the newest is damaged


@dataclass(frozen=True)
class Checkpoint:
    """What a run needs to go on: where it was, and every tensor."""

    state: dict[str, Any]
    weights: dict[str, Tensor]
    optimizer: dict[str, Tensor]


class Checkpoints:
    """The checkpoints of one run, numbered by the steps that were done over all stages."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def save(
        self, number: int, state: Mapping[str, Any], weights: Mapping[str, Tensor], optimizer: Mapping[str, Tensor]
    ) -> Path:
        """Write a checkpoint, all of it or nothing, and remove those that are too old or were found damaged."""
        self._sweep()
        target = self.folder / f"{number:08d}"
        workshop = self.folder / f".{target.name}"
        try:
            workshop.mkdir(parents=True)
            for name, tensors in (("weights", weights), ("optimizer", optimizer)):
                ready = {key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()}
                save_file(ready, workshop / f"{name}.safetensors")
            (workshop / "state.json").write_text(json.dumps(state, ensure_ascii=False), encoding="utf-8")
            checksums = {file.name: _digest(file) for file in workshop.iterdir()}
            (workshop / _CHECKSUMS).write_text(json.dumps(checksums), encoding="utf-8")
            for file in workshop.iterdir():
                _sync(file)
            if target.exists():  # a run that went on from an earlier checkpoint comes to the same step again
                shutil.rmtree(target)
            workshop.rename(target)
        except (OSError, SafetensorError) as error:
            shutil.rmtree(workshop, ignore_errors=True)
            raise KosbertError(_trouble(error, self.folder)) from error
        kept = [folder for folder in self._all() if folder <= target][-_KEPT:]  # a later one could not be read
        for other in set(self._all()) - set(kept):
            shutil.rmtree(other, ignore_errors=True)
        return target

    def newest(self) -> Checkpoint | None:
        """The newest checkpoint that is whole; None where there is none."""
        self._sweep()
        for folder in reversed(self._all()):
            try:
                return _read(folder)
            except (OSError, ValueError, AttributeError, SafetensorError) as error:
                logger.warning("the checkpoint %s is damaged (%s): going back to what was before it", folder, error)
        return None

    def clear(self) -> None:
        """Remove all of them: the run is done."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _sweep(self) -> None:
        """Remove what a killed process left half-written."""
        for workshop in self.folder.glob(".[0-9]*"):
            shutil.rmtree(workshop, ignore_errors=True)

    def _all(self) -> list[Path]:
        return sorted(folder for folder in self.folder.glob("[0-9]*") if folder.is_dir())


def _read(folder: Path) -> Checkpoint:
    for name, expected in json.loads((folder / _CHECKSUMS).read_text(encoding="utf-8")).items():
        if _digest(folder / name) != expected:
            raise ValueError(f"{name} has another checksum")
    state = json.loads((folder / "state.json").read_text(encoding="utf-8"))
    return Checkpoint(state, *(load_file(folder / f"{name}.safetensors") for name in ("weights", "optimizer")))


def _digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _sync(file: Path) -> None:
    """Make sure that the bytes are on the disk before the rename says so."""
    with file.open("r+b") as stream:
        os.fsync(stream.fileno())


def _trouble(error: Exception, folder: Path) -> str:
    if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT) or "No space left" in str(error):
        reason = "the disk is full"
    else:
        reason = str(getattr(error, "strerror", None) or error)
    return (
        f"no checkpoint can be written to {folder} ({reason}), and the one before is kept: make room or make it "
        "writable, then run the same command with --resume"
    )


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimizer's state as tensors by name: parameter number and kind (`12.exp_avg`)."""
    state = optimizer.state_dict()["state"]
    return {f"{number}.{kind}": value for number, kinds in state.items() for kind, value in kinds.items()}


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Put back what `optimizer_tensors` gave."""
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        number, kind = name.split(".", 1)
        state.setdefault(int(number), {})[kind] = value
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
