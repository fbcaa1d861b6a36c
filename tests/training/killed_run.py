"""A run that is killed at a given point, as by the power switch; conftest.py's `start` runs it in a process.

Given: RECIPE (the path of a JSON file), OUT, and POINT, one of
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
kind, *place = globals()["POINT"]


def die():
    os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))  # on Windows either ends it at once


def on_progress(event):
    if kind == "step" and place == [event.task, event.done]:
        die()


save_file, save, save_model = checkpoint.save_file, checkpoint.Checkpoints.save, TorchEncoder.save
calls = 0


def save_half_a_file(tensors, file):
    global calls
    calls += 1
    save_file(tensors, file)
    if kind == "writing" and calls == place[0]:
        os.truncate(file, file.stat().st_size // 2)
        die()


def save_and_die(self, number, state, weights, optimizer):
    save(self, number, state, weights, optimizer)
    if kind == "between" and state["stage"] == place[0] and not optimizer:
        die()


def save_half_a_model(self, path, card=None):
    if kind == "model":
        workshop = Path(path).parent / ".model-half"
        workshop.mkdir()
        (workshop / "weights").write_text("half", encoding="utf-8")
        die()
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
