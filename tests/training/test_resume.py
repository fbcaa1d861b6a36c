"""A run that was killed and goes on ends bit by bit where an undisturbed one ends."""

import errno
import json
import logging
import os

import pytest
import torch

from kosbert.errors import KosbertError, UsageError
from kosbert.training import Recipe, checkpoint, datasets, train
from kosbert.training.columns import read_rows

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
def undisturbed(tmp_path_factory, files, tiny_bert):
    """The recipe of conftest.py, with a new backbone, trained in one go."""
    folder = tmp_path_factory.mktemp("undisturbed")
    document = {
        "name": "tiny",
        "backbone": {
            "text": ["nli", "sts"],
            "layers": 1,
            "hidden_size": 32,
            "heads": 2,
            "vocab_size": 100,
        },  # so few that words fall into syllables
        "max_length": 32,
        "data": {"nli": str(files / "nli.tsv"), "sts": str(files / "sts.tsv")},
        "train": {"batch_size": 4, "lr": 1e-3, "evals_per_epoch": 2, "group_by_length": True},
        "dev": str(files / "dev.tsv"),
        "stages": [
            {"name": "nli", "data": "nli", "loss": "softmax", "epochs": 1},
            {"name": "sts", "data": "sts", "loss": "cosine-similarity", "epochs": 1},
        ],
    }
    (folder / "recipe.json").write_text(json.dumps(document), encoding="utf-8")
    train(Recipe.parse(document), folder / "run")
    return folder


@pytest.fixture
def kill(undisturbed, start, tmp_path):
    """A function that starts or resumes the run in a process of its own and lets it be killed at a point."""

    def run(point):
        process = start(
            "killed_run.py", RECIPE=str(undisturbed / "recipe.json"), OUT=str(tmp_path / "run"), POINT=point
        )
        process.join(120)
        assert process.exitcode not in (0, 1, None)  # killed, and not by an error of its own
        assert not (tmp_path / "run" / "model").exists()

    return run


@pytest.fixture
def resume(undisturbed, tmp_path):
    """A function that resumes the run here, to its end."""

    def run(**options):
        return train(Recipe.parse(json.loads((undisturbed / "recipe.json").read_text("utf-8"))), tmp_path / "run",
                     resume=True, **options)  # fmt: skip

    return run


@pytest.mark.parametrize("point", POINTS.values(), ids=POINTS)
def test_killed_and_resumed_ends_equal(point, kill, resume, undisturbed, assert_same, tmp_path):
    kill(point)
    resume()
    assert_same(tmp_path / "run", undisturbed / "run")
    assert sorted(each.name for each in (tmp_path / "run").iterdir()) == ["curves.json", "model", "recipe.json"]


def test_killed_again_and_again(kill, resume, undisturbed, assert_same, tmp_path):
    for point in (["step", "nli", 3], ["writing", 5], ["step", "sts", 2], ["step", "sts", 9]):
        kill(point)
    resume()
    assert_same(tmp_path / "run", undisturbed / "run")


def test_a_damaged_checkpoint_is_passed_over(kill, resume, undisturbed, assert_same, tmp_path, caplog):
    kill(["step", "sts", 5])
    newest = sorted((tmp_path / "run" / "checkpoints").iterdir())[-1]
    whole = bytearray((newest / "weights.safetensors").read_bytes())
    whole[len(whole) // 2] ^= 1
    (newest / "weights.safetensors").write_bytes(whole)
    with caplog.at_level(logging.WARNING):
        resume(checkpoint_every=0)
    assert f"the checkpoint {newest} is damaged (weights.safetensors has a different checksum)" in caplog.text
    assert_same(tmp_path / "run", undisturbed / "run")


def test_a_run_whose_checkpoints_are_all_damaged_starts_again(kill, resume, undisturbed, assert_same, tmp_path):
    kill(["step", "nli", 4])
    for state in (tmp_path / "run" / "checkpoints").rglob("state.json"):
        state.write_text("{", encoding="utf-8")
    resume()
    assert_same(tmp_path / "run", undisturbed / "run")


def test_a_full_disk_keeps_the_checkpoint_before(resume, undisturbed, assert_same, tmp_path, monkeypatch):
    real, calls = checkpoint.save_file, []

    def full(tensors, file):
        calls.append(file)
        if len(calls) > 6:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(tensors, file)

    monkeypatch.setattr(checkpoint, "save_file", full)
    with pytest.raises(KosbertError, match=r"^stage nli: the checkpoint .*the disk is full.*--resume$"):
        resume(checkpoint_every=0)
    kept = tmp_path / "run" / "checkpoints"
    assert sorted(each.name for each in kept.iterdir()) == ["00000002", "00000003"]
    monkeypatch.setattr(checkpoint, "save_file", real)
    resume()
    assert_same(tmp_path / "run", undisturbed / "run")


def test_a_full_disk_at_the_very_end(resume, undisturbed, assert_same, tmp_path, monkeypatch):
    from kosbert.model import TorchEncoder

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(TorchEncoder, "save", full)
        with pytest.raises(KosbertError, match=r"No space left.*free some space.*--resume$"):
            resume()
    resume()
    assert_same(tmp_path / "run", undisturbed / "run")


def test_a_finished_run_is_not_trained_again(undisturbed, monkeypatch):
    monkeypatch.setattr("kosbert.training.trainer.Trainer._load_backbone", None)  # any training would fail now
    recipe = Recipe.parse(json.loads((undisturbed / "recipe.json").read_text("utf-8")))
    again = train(recipe, undisturbed / "run", resume=True)
    card = json.loads((undisturbed / "run" / "model" / "kosbert.json").read_text("utf-8"))
    assert again.scores == card["scores"]
    assert [len(curve) for curve in again.curves.values()] == [
        16,
        11,
    ]  # the scores before the first step, and each step
    with pytest.raises(UsageError, match="already holds a run: add --resume to continue it, or choose another --out"):
        train(recipe, undisturbed / "run")


def test_a_resumed_run_must_be_the_same(kill, resume, undisturbed, tmp_path, monkeypatch):
    kill(["step", "nli", 4])
    document = json.loads((undisturbed / "recipe.json").read_text("utf-8"))
    with pytest.raises(UsageError, match=r"differs in seed, train: choose another --out$"):
        train(Recipe.parse(document | {"seed": 1, "train": {"lr": 1}}), tmp_path / "run", resume=True)
    with monkeypatch.context() as patch:
        patch.setattr("kosbert.training.trainer.world_size", lambda: 2)
        with pytest.raises(UsageError, match="had 1 processes and this one has 2: start 1$"):
            resume()
    monkeypatch.setattr(datasets, "read_rows", lambda *arguments: read_rows(*arguments)[:-1])
    with pytest.raises(UsageError, match="the data of the run in .* has changed"):
        resume()


def test_the_objectives_own_layer_is_restored(one_stage, tmp_path, monkeypatch):
    """The head of classification is not in the model: what its restored weights are must be asked for."""
    from kosbert.training import trainer

    recipe = one_stage(8, data="nli", loss="softmax")
    heads, real = [], trainer.run_stage

    def spy(model, lessons, *arguments, **options):
        heads.append(lessons[0].loss.classifier.weight.detach().clone())
        try:
            real(model, lessons, *arguments, **options)
        finally:
            heads.append(lessons[0].loss.classifier.weight.detach().clone())

    def stop(event):
        if event.done == 6:
            raise KeyboardInterrupt

    monkeypatch.setattr(trainer, "run_stage", spy)
    with pytest.raises(KeyboardInterrupt):
        train(recipe, tmp_path / "run", checkpoint_every=0, on_progress=stop)
    train(recipe, tmp_path / "run", resume=True)
    train(recipe, tmp_path / "other")
    fresh, _, restored, at_the_end, fresh_again, at_the_other_end = heads
    assert torch.equal(fresh, fresh_again)
    assert not torch.equal(fresh, restored)
    assert torch.equal(at_the_end, at_the_other_end)
