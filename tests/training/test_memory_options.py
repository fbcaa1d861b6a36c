"""Gradient checkpointing and LoRA."""

import json
import sys

import pytest
import torch
from transformers.models.bert.modeling_bert import BertLayer

from kosbert.errors import UsageError
from kosbert.model import load_torch
from kosbert.training import Recipe, train, trainer


def test_gradient_checkpointing_gives_the_same_weights(one_stage, tmp_path, monkeypatch):
    """Dropout included: the second forward of a layer draws the same random numbers."""
    calls, forward = [], BertLayer.forward

    def counted(self, *arguments, **options):
        calls.append(1)
        return forward(self, *arguments, **options)

    monkeypatch.setattr(BertLayer, "forward", counted)
    recipe = one_stage(3, {"evals_per_epoch": 0})
    recipe = recipe.model_copy(update={"dev": [], "dropout": 0.1})
    counts = []
    for name, setting in (("plain", False), ("checkpointed", True)):
        calls.clear()
        trained = train(recipe.model_copy(update={"gradient_checkpointing": setting}), tmp_path / name)
        counts.append(len(calls))
    assert counts[1] - counts[0] == 3 * 2  # steps and layers
    plain_run, checkpointed = (
        load_torch(tmp_path / name / "model", device="cpu").sentence_transformer.state_dict()
        for name in ("plain", "checkpointed")
    )
    for name, value in plain_run.items():
        torch.testing.assert_close(checkpointed[name], value, atol=1e-6, rtol=0)
    assert trained.curves["only"][-1]["loss"] == pytest.approx(
        json.loads((tmp_path / "plain" / "curves.json").read_text("utf-8"))["only"][-1]["loss"], abs=1e-6
    )


def test_lora_without_peft_names_the_install_line(one_stage, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(UsageError, match=r"LoRA needs PEFT, which is not installed: pip install 'kosbert\[lora\]'$"):
        train(with_lora(one_stage(1)), tmp_path / "run")


def with_lora(recipe, **options):
    return Recipe.parse(recipe.model_dump(mode="json") | {"lora": options})


@pytest.fixture
def peft():
    return pytest.importorskip("peft", reason="peft is not installed: pip install 'kosbert[lora]'")


def test_lora_trains_few_parameters_and_saves_a_plain_model(one_stage, tmp_path, peft, sentences, weights, tiny_bert):
    recipe = with_lora(one_stage(6, {"lr": 1e-2}), rank=2, targets=["query", "value"])
    run = trainer.Trainer(recipe, tmp_path / "unused")
    run.setup()
    stage = run.build_stage(0)
    trained_numbers = sum(value.numel() for group in stage.optimizer.param_groups for value in group["params"])
    assert trained_numbers == 2 * 2 * (32 * 2 + 2 * 32)  # layers, targets, the two matrices
    trained = train(recipe, tmp_path / "run")
    before, after = load_torch(tiny_bert, device="cpu"), load_torch(trained.path, device="cpu")
    old, new = before.sentence_transformer.state_dict(), after.sentence_transformer.state_dict()
    assert old.keys() == new.keys()
    changed = {name for name in old if not torch.equal(old[name], new[name])}
    assert changed == {name for name in old if name.endswith(("query.weight", "value.weight"))}
    # The test scores are those of the merged model, which is what the directory holds.
    assert trained.scores


def test_lora_on_all_linear_layers_resumes_exactly(one_stage, tmp_path, peft, assert_same):
    recipe = with_lora(one_stage(8), dropout=0.1)

    def stop(event):
        if event.done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(recipe, tmp_path / "run", checkpoint_every=0, on_progress=stop)
    train(recipe, tmp_path / "run", resume=True)
    train(recipe, tmp_path / "whole")
    assert_same(tmp_path / "run", tmp_path / "whole")


def test_lora_on_layers_that_do_not_exist_is_a_usage_error(one_stage, tmp_path, peft):
    with pytest.raises(UsageError, match=r"^LoRA cannot be added to qkv .* such as query and value$"):
        train(with_lora(one_stage(1), targets="qkv"), tmp_path / "run")
