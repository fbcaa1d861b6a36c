"""Train and kill the process at a point, as a power failure would; run by `start_process` of conftest.py.

Variables: RECIPE (the path of a JSON file), OUT, and POINT, one of
    ["step", stage, step]     after that step
    ["between", number]       right after the checkpoint at the end of that stage
    ["writing", number]       in the middle of writing a checkpoint, at that call of save_file
    ["model"]                 while the model is written
"""

import json
import os
import signal
from pathlib import Path

import torch

from kosbert.model import TorchEncoder
from kosbert.training import Recipe, checkpoint, train

RECIPE: str = globals()["RECIPE"]
OUT: str = globals()["OUT"]
kind, *position = globals()["POINT"]


def kill_this_process():
    os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))  # on Windows either ends it immediately


def on_progress(event):
    if kind == "step" and position == [event.task, event.done]:
        kill_this_process()


save_file, save, save_model = checkpoint.save_file, checkpoint.Checkpoints.save, TorchEncoder.save
calls = 0


def save_half_a_file(tensors, file):
    global calls
    calls += 1
    checksum = save_file(tensors, file)
    if kind == "writing" and calls == position[0]:
        os.truncate(file, file.stat().st_size // 2)
        kill_this_process()
    return checksum


def save_and_die(self, number, state, weights, optimizer):
    save(self, number, state, weights, optimizer)
    if kind == "between" and state["stage"] == position[0] and not optimizer:
        kill_this_process()


def save_half_a_model(self, path, card=None):
    if kind == "model":
        partial = Path(path).parent / ".model-half"
        partial.mkdir()
        (partial / "weights").write_text("half", encoding="utf-8")
        kill_this_process()
    return save_model(self, path, card)


if __name__ == "__main__":
    torch.set_num_threads(1)
    checkpoint.save_file, checkpoint.Checkpoints.save, TorchEncoder.save = (
        save_half_a_file,
        save_and_die,
        save_half_a_model,
    )
    recipe = Recipe.parse(json.loads(Path(RECIPE).read_text(encoding="utf-8")))
    train(recipe, OUT, resume=True, checkpoint_every=0, on_progress=on_progress)
