"""A killed and resumed run is identical, bit for bit, to an uninterrupted one."""

import errno
import json
import logging
import os

import pytest
import torch

from kosbert.data import read_records
from kosbert.data.columns import Columns
from kosbert.errors import KosbertError, UsageError
from kosbert.training import Recipe, checkpoint, datasets, train

POINTS = {
    "at the first step": ["step", "nli", 1],
    "in the middle of stage 1": ["step", "nli", 9],
    "between the stages": ["between", 1],
    "during stage 2": ["step", "sts", 4],
    "while the first checkpoint is written": ["writing", 1],
    "while a checkpoint is written": ["writing", 12],
    "while an optimizer is written": ["writing", 37],
    "after the last stage": ["between", 2],
    "while the model is written": ["model"],
}


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory, files, tiny_bert):
    """Train the recipe of conftest.py with a new backbone, without interruption."""
    directory = tmp_path_factory.mktemp("uninterrupted")
    document = {
        "name": "tiny",
        "backbone": {
            "text": ["nli", "sts"],
            "layers": 1,
            "hidden_size": 32,
            "heads": 2,
            "vocab_size": 100,
        },  # so small that words are split into syllables
        "max_length": 32,
        "data": {"nli": str(files / "nli.tsv"), "sts": str(files / "sts.tsv")},
        "train": {"batch_size": 4, "lr": 1e-3, "evals_per_epoch": 2, "group_by_length": True},
        "dev": str(files / "dev.tsv"),
        "stages": [
            {"name": "nli", "data": "nli", "loss": "softmax", "epochs": 1},
            {"name": "sts", "data": "sts", "loss": "cosine-similarity", "epochs": 1},
        ],
    }
    (directory / "recipe.json").write_text(json.dumps(document), encoding="utf-8")
    train(Recipe.parse(document), directory / "run")
    return directory


@pytest.fixture
def kill(uninterrupted, start_process, tmp_path):
    """Return a function that starts or resumes the run in a new process that is killed at a point."""

    def run(point):
        process = start_process(
            "train_and_die.py", RECIPE=str(uninterrupted / "recipe.json"), OUT=str(tmp_path / "run"), POINT=point
        )
        process.join(120)
        assert process.exitcode not in (0, 1, None)  # killed, not ended by an error
        assert not (tmp_path / "run" / "model").exists()

    return run


@pytest.fixture
def resume(uninterrupted, tmp_path):
    """Return a function that resumes the run in this process, to the end."""

    def run(**options):
        return train(Recipe.parse(json.loads((uninterrupted / "recipe.json").read_text("utf-8"))), tmp_path / "run",
                     resume=True, **options)  # fmt: skip

    return run


@pytest.mark.parametrize("point", POINTS.values(), ids=POINTS)
def test_resume_gives_identical_weights(point, kill, resume, uninterrupted, assert_same, tmp_path):
    kill(point)
    resume()
    assert_same(tmp_path / "run", uninterrupted / "run")
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["curves.json", "model", "recipe.json"]


def test_resume_after_several_kills_gives_identical_weights(kill, resume, uninterrupted, assert_same, tmp_path):
    for point in (["step", "nli", 3], ["writing", 5], ["step", "sts", 2], ["step", "sts", 9]):
        kill(point)
    resume()
    assert_same(tmp_path / "run", uninterrupted / "run")


def test_resume_skips_a_damaged_checkpoint(kill, resume, uninterrupted, assert_same, tmp_path, caplog):
    kill(["step", "sts", 5])
    newest = sorted((tmp_path / "run" / "checkpoints").iterdir())[-1]
    content = bytearray((newest / "weights.safetensors").read_bytes())
    content[len(content) // 2] ^= 1
    (newest / "weights.safetensors").write_bytes(content)
    with caplog.at_level(logging.WARNING):
        resume(checkpoint_every=0)
    assert f"the checkpoint {newest} is damaged (weights.safetensors has a different checksum)" in caplog.text
    assert_same(tmp_path / "run", uninterrupted / "run")


def test_a_run_with_only_damaged_checkpoints_restarts(kill, resume, uninterrupted, assert_same, tmp_path):
    kill(["step", "nli", 4])
    for state in (tmp_path / "run" / "checkpoints").rglob("state.json"):
        state.write_text("{", encoding="utf-8")
    resume()
    assert_same(tmp_path / "run", uninterrupted / "run")


def test_a_full_disk_keeps_the_previous_checkpoint(resume, uninterrupted, assert_same, tmp_path, monkeypatch):
    real, calls = checkpoint.save_file, []

    def full(tensors, file):
        calls.append(file)
        if len(calls) > 6:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(tensors, file)

    monkeypatch.setattr(checkpoint, "save_file", full)
    with pytest.raises(KosbertError, match=r"^stage nli: the checkpoint .*the disk is full.*--resume$"):
        resume(checkpoint_every=0)
    kept = tmp_path / "run" / "checkpoints"
    assert sorted(path.name for path in kept.iterdir()) == ["00000002", "00000003"]
    monkeypatch.setattr(checkpoint, "save_file", real)
    resume()
    assert_same(tmp_path / "run", uninterrupted / "run")


def test_a_full_disk_while_the_model_is_written_can_be_resumed(
    resume, uninterrupted, assert_same, tmp_path, monkeypatch
):
    from kosbert.model import TorchEncoder

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(TorchEncoder, "save", full)
        with pytest.raises(KosbertError, match=r"No space left.*free some space.*--resume$"):
            resume()
    resume()
    assert_same(tmp_path / "run", uninterrupted / "run")


def test_a_finished_run_is_not_trained_again(uninterrupted, monkeypatch):
    monkeypatch.setattr("kosbert.training.trainer.Trainer._load_backbone", None)  # training would fail
    recipe = Recipe.parse(json.loads((uninterrupted / "recipe.json").read_text("utf-8")))
    result = train(recipe, uninterrupted / "run", resume=True)
    card = json.loads((uninterrupted / "run" / "model" / "kosbert.json").read_text("utf-8"))
    assert result.scores == card["scores"]
    assert [len(curve) for curve in result.curves.values()] == [
        16,
        11,
    ]  # the score before training, and each step
    with pytest.raises(UsageError, match="already holds a run: add --resume to continue it, or choose another --out"):
        train(recipe, uninterrupted / "run")


def test_resume_rejects_changed_recipe_data_or_world_size(kill, resume, uninterrupted, tmp_path, monkeypatch):
    kill(["step", "nli", 4])
    document = json.loads((uninterrupted / "recipe.json").read_text("utf-8"))
    with pytest.raises(UsageError, match=r"differs in seed, train: choose another --out$"):
        train(Recipe.parse(document | {"seed": 1, "train": {"lr": 1}}), tmp_path / "run", resume=True)
    with monkeypatch.context() as patch:
        patch.setattr("kosbert.training.trainer.world_size", lambda: 2)
        with pytest.raises(UsageError, match="had 1 processes and this one has 2: start 1$"):
            resume()

    def without_last_row(*names, **options):
        return Columns.from_records(read_records(*names, **options)[:-1])

    monkeypatch.setattr(datasets, "read_columns", without_last_row)
    with pytest.raises(UsageError, match="the data of the run in .* has changed"):
        resume()


def test_resume_restores_the_layers_of_the_loss(one_stage, tmp_path, monkeypatch):
    """The head of the softmax loss is not part of the model."""
    from kosbert.training import trainer

    recipe = one_stage(8, data="nli", loss="softmax")
    heads, real = [], trainer.run_stage

    def record_heads(model, train_datasets, *arguments, **options):
        heads.append(train_datasets[0].loss.classifier.weight.detach().clone())
        try:
            real(model, train_datasets, *arguments, **options)
        finally:
            heads.append(train_datasets[0].loss.classifier.weight.detach().clone())

    def stop(event):
        if event.done == 6:
            raise KeyboardInterrupt

    monkeypatch.setattr(trainer, "run_stage", record_heads)
    with pytest.raises(KeyboardInterrupt):
        train(recipe, tmp_path / "run", checkpoint_every=0, on_progress=stop)
    train(recipe, tmp_path / "run", resume=True)
    train(recipe, tmp_path / "other")
    fresh, _, restored, at_the_end, fresh_again, at_the_other_end = heads
    assert torch.equal(fresh, fresh_again)
    assert not torch.equal(fresh, restored)
    assert torch.equal(at_the_end, at_the_other_end)
