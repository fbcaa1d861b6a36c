"""Checkpoints: safetensors and JSON, written atomically.

    OUT/checkpoints/00000120/   weights.safetensors  optimizer.safetensors  state.json  sha256.json

`sha256.json` has the checksums of the other files. A checkpoint that does not match is skipped for the one before it.
There is no pickle: the optimizer state is stored as named tensors.

Training only stops while the tensors are copied to buffers in host memory. A thread writes them.
"""

import errno
import json
import logging
import os
import shutil
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
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

# How often to write one if the user does not say: often enough to lose little, seldom enough to cost little.
_SHARE_OF_TIME = 0.02
_FIRST_INTERVAL, _SHORTEST_INTERVAL, _LONGEST_INTERVAL = 120.0, 30.0, 1_800.0  # seconds


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


class CheckpointWriter:
    """Writes the checkpoints of one run in a thread, at most `_SHARE_OF_TIME` of the time.

    Args:
        checkpoints: where to write.
        every: seconds between two checkpoints. By default the cost of the last one decides: the time for which training
            stopped, and the processor time that the thread took from it.
    """

    def __init__(self, checkpoints: Checkpoints, every: float | None = None) -> None:
        self._checkpoints, self._every = checkpoints, every
        self._interval = _FIRST_INTERVAL if every is None else every
        self._saved_at = time.monotonic()
        self._executor = ThreadPoolExecutor(1, "checkpoint")
        self._writing: Future[float] | None = None
        self._stall = 0.0  # seconds for which the last checkpoint stopped training
        self._buffers: dict[str, Tensor] = {}

    def due(self) -> bool:
        """Return whether it is time for a checkpoint; raise if the last one could not be written."""
        if self._writing and self._writing.done():
            self.wait()
        if self._writing and self._every is None:
            return False
        return time.monotonic() - self._saved_at >= self._interval

    def save(
        self,
        number: int,
        state: Mapping[str, Any],
        weights: Mapping[str, Tensor],
        optimizer: Mapping[str, Tensor],
        constant: Mapping[str, Tensor] | None = None,
    ) -> None:
        """Copy the tensors and start to write them; first waits until the previous checkpoint is written.

        Args:
            number: steps done in all stages.
            state: everything that is not a tensor. It must not change any more.
            weights: tensors that training changes.
            optimizer: the same, of the optimizer.
            constant: further weights, which stay as they are: they are not copied.
        """
        self.wait()
        started = time.monotonic()
        changing = {**weights, **{f"optimizer {name}": value for name, value in optimizer.items()}}
        if self._every is None and any(name not in self._buffers for name in changing):
            # New memory takes longer than the copy. The thread gets it, and the checkpoint follows at a later step.
            self._writing, self._stall = self._executor.submit(self._allocate, changing), 0.0
            return
        copies = self._copy(changing)
        all_weights = {name: copies[name] for name in weights} | dict(constant or {})
        optimizer_copies = {name: copies[f"optimizer {name}"] for name in optimizer}
        self._saved_at = time.monotonic()
        self._stall = self._saved_at - started
        self._writing = self._executor.submit(self._write, number, state, all_weights, optimizer_copies)

    def wait(self) -> None:
        """Wait until the last checkpoint is written; raise if it could not be."""
        writing, self._writing = self._writing, None
        if writing:
            cost = self._stall + writing.result()
            if self._every is None:
                self._interval = min(max(cost / _SHARE_OF_TIME, _SHORTEST_INTERVAL), _LONGEST_INTERVAL)

    def close(self) -> None:
        """Wait for the thread to end, whether it succeeds or not: the run has ended or failed."""
        self._executor.shutdown()
        self._buffers.clear()

    def _allocate(self, tensors: Mapping[str, Tensor]) -> float:
        """Allocate buffers and write to them once: the system only then provides the memory."""
        for name, tensor in tensors.items():
            self._buffers[name] = _buffer_for(tensor).zero_()
        return 0.0

    def _copy(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return copies in host memory, in the buffers of the last checkpoint where they fit."""
        for name, tensor in tensors.items():
            buffer = self._buffers.get(name)
            if buffer is None or (buffer.shape, buffer.dtype) != (tensor.shape, tensor.dtype):
                self._buffers[name] = buffer = _buffer_for(tensor)
            buffer.copy_(tensor.detach(), non_blocking=True)
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        return {name: self._buffers[name] for name in tensors}

    def _write(
        self, number: int, state: Mapping[str, Any], weights: Mapping[str, Tensor], optimizer: Mapping[str, Tensor]
    ) -> float:
        """Write a checkpoint; return the processor time of this thread."""
        started = time.thread_time()
        self._checkpoints.save(number, state, weights, optimizer)
        return time.thread_time() - started


def _buffer_for(tensor: Tensor) -> Tensor:
    return torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=tensor.device.type == "cuda")


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
