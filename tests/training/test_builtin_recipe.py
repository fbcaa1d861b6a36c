"""All steps of the built-in model on the sample set, in seconds: distillation, NLI, STS, the second teacher."""

from pathlib import Path

import numpy as np
import pytest

import kosbert
from kosbert import data
from kosbert.data.registry import resolve
from kosbert.export import export, verify
from kosbert.model.torch_loading import load_torch
from kosbert.recipes import shipped_recipes
from kosbert.training import Recipe, train
from kosbert.training.soup import soup

pytestmark = pytest.mark.slow

SMALL = """
backbone: {layers: 1, hidden_size: 32, heads: 2, vocab_size: 500}
max_length: 32
data: {text: sample-nli-train, held-out: sample-sts-test}
dev: sample-sts-dev
train: {batch_size: 16, evals_per_epoch: 2}
stages: {epochs: 1, data: {teacher: TEACHER, limit: 160, min_chars: 0, max_chars: 100}}
"""
CAPTIONS = """
data: {captions: sample-nli-train, held-out: sample-sts-test}
max_length: 32
dev: sample-sts-dev
train: {batch_size: 16, evals_per_epoch: 2}
stages: {epochs: 1, data: {teacher: TEACHER, limit: 160}}
"""
AUGMENTED = """
data:
  captions: sample-nli-train
  titles: sample-sts-train
  documents: sample-nli-train
  translated: sample-nli-train
  reviews: sample-nli-train
  held-out: sample-sts-test
max_length: 32
dev: sample-sts-dev
train: {batch_size: 16, evals_per_epoch: 2}
stages: {epochs: 1, data: {teacher: TEACHER, limit: 80, batch_size: 16}}
"""
NLI = """
data: {nli: sample-nli-train, paraphrases: sample-nli-train, held-out: sample-sts-test}
max_length: 32
dev: sample-sts-dev
train: {batch_size: 16, evals_per_epoch: 2}
stages: {epochs: 1, options: {matryoshka: [32, 16]}, data: {limit: 160}}
"""
STS = """
data: {sts: sample-sts-train, held-out: sample-sts-test}
max_length: 32
dev: sample-sts-dev
train: {batch_size: 16, evals_per_epoch: 2}
stages: {epochs: 1, options: {matryoshka: [32, 16]}, data: {limit: 160}}
"""
TEACHER = """
data: {sts: sample-sts-train, english: sample-sts-train, held-out: sample-sts-test}
max_length: 32
dev: sample-sts-dev
stages: {epochs: null, steps: 4, train: {batch_size: 16}, data: {limit: 80}}
"""
TWO_TEACHERS = """
data:
  sts: sample-sts-train
  nli: sample-nli-train
  captions: sample-nli-train
  titles: sample-sts-train
  reviews: sample-nli-train
  documents: sample-nli-train
  held-out: sample-sts-test
max_length: 32
dev: sample-sts-dev
stages: {epochs: null, steps: 12, data: {limit: 80, batch_size: 16}}
"""


@pytest.fixture
def overlay(tmp_path, tiny_bert):
    """Return a function that writes an overlay and returns its path; TEACHER is the tiny model."""

    def write(text: str) -> Path:
        path = tmp_path / f"{abs(hash(text))}.yaml"
        path.write_text(text.replace("TEACHER", str(tiny_bert)), encoding="utf-8")
        return path

    return write


def test_steps_1_to_7_and_export(overlay, tmp_path, monkeypatch):
    pytest.importorskip("onnx")
    monkeypatch.setenv("KOSBERT_CACHE", str(tmp_path / "cache"))

    def run(step: str, *overlays: str | Path, out: str, settings=()):
        return train(Recipe.load(step, overlays, settings), tmp_path / out, time_budget=20)

    distilled = run("builtin/1-distill", overlay(SMALL), out="distill")
    losses = [point["loss"] for point in distilled.curves["distill"] if "loss" in point]
    assert np.mean(losses[-3:]) < np.mean(losses[:3])
    settings = [f"backbone={distilled.path}"]
    captions = run("builtin/2-distill-captions", overlay(CAPTIONS), out="captions", settings=settings)
    settings, augmented_overlay = [f"backbone={captions.path}"], overlay(AUGMENTED)
    augmented = run("builtin/3-distill-augmented", augmented_overlay, out="augmented", settings=settings)
    settings = [f"backbone={augmented.path}", "stages.0.steps=8"]
    base = run("builtin/3-distill-augmented", augmented_overlay, "builtin/4-base", out="base", settings=settings)
    nli = run("builtin/5-nli", overlay(NLI), out="nli", settings=[f"backbone={base.path}"])

    models = []
    for seed in (1, 2):
        settings = [f"seed={seed}", f"backbone={nli.path}"]
        overlays = ["builtin/7-sts-korsts-only", overlay(STS)] if seed == 2 else [overlay(STS)]
        sts = run("builtin/6-sts", *overlays, out=f"sts-{seed}", settings=settings)
        assert "sts" in sts.curves
        models.append(sts.path)
    pairs = {"sample-sts-dev": data.load("sample-sts-dev")}
    averaged = soup(models, pairs, tmp_path / "soup")
    assert averaged.score >= max(averaged.dev.values())

    exported = export(
        averaged.path, tmp_path / "exported", format="both", int8=True, gate=next(iter(pairs.items())), max_drop=5
    )
    assert len(verify(exported.path)) == 3
    assert kosbert.load(exported.path).encode(["비가 많이 온다"], truncate_dim=16).shape == (1, 16)
    assert kosbert.load(exported.path).card["soup"]["ingredients"] == averaged.ingredients


def test_steps_8_to_11(overlay, tiny_bert, tmp_path, monkeypatch):
    monkeypatch.setenv("KOSBERT_CACHE", str(tmp_path / "cache"))
    recipe = Recipe.load("builtin/8-teacher-sts", [overlay(TEACHER)], [f"backbone={tiny_bert}"])
    tuned = train(recipe, tmp_path / "teacher")
    assert set(tuned.curves) == {"sts"}
    plain = load_torch(tiny_bert, max_length=32).save(tmp_path / "plain")
    pairs = {"sample-sts-dev": data.load("sample-sts-dev")}
    teacher = soup([tuned.path, plain], pairs, tmp_path / "teacher-soup", weights=[4, 1])

    sources = len(Recipe.load("builtin/9-distill-two-teachers").stages[0].data)
    teachers = f"{{{teacher.path}: 0.65, {tiny_bert}: 0.35}}"
    settings = [f"stages.0.data.{source}.teacher={teachers}" for source in range(sources)]
    two_teachers = overlay(TWO_TEACHERS)
    tasks = set()
    distilled = train(
        Recipe.load("builtin/9-distill-two-teachers", [two_teachers], [f"backbone={tiny_bert}", *settings]),
        tmp_path / "distilled",
        on_progress=lambda event: tasks.add(event.task),
    )
    assert tasks == {f"encode with teacher {path.name}" for path in (teacher.path, tiny_bert)} | {"distill"}
    settings += [f"backbone={distilled.path}", "stages.0.options.matryoshka=[32, 16]"]
    overlays = ["builtin/11-matryoshka", two_teachers]
    matryoshka = train(Recipe.load("builtin/9-distill-two-teachers", overlays, settings), tmp_path / "matryoshka")
    overlays = ["builtin/7-sts-korsts-only", "builtin/10-sts-second-pass", overlay(STS)]
    second_pass = train(
        Recipe.load("builtin/6-sts", overlays, [f"backbone={matryoshka.path}"]), tmp_path / "second-pass"
    )
    assert kosbert.load(second_pass.path).encode(["비가 많이 온다"], truncate_dim=16).shape == (1, 16)


def test_every_step_excludes_dev_and_test_sets():
    base_of_overlay = {
        "builtin/4-base": "builtin/3-distill-augmented",
        "builtin/7-sts-korsts-only": "builtin/6-sts",
        "builtin/10-sts-second-pass": "builtin/6-sts",
        "builtin/11-matryoshka": "builtin/9-distill-two-teachers",
    }
    steps = [recipe for recipe in shipped_recipes() if recipe.name.startswith("builtin/")]
    assert len(steps) == 11
    for step in steps:
        assert (step.kind == "overlay") == (step.name in base_of_overlay)
        overlays = [step.name] if step.kind == "overlay" else []
        recipe = Recipe.load(base_of_overlay.get(step.name, step.name), overlays)
        held_out = set(recipe.references(["held-out"]))
        assert {
            "korsts-dev",
            "korsts-test",
            "klue-sts-dev",
            "klue-sts-holdout",
            "klue-nli-dev",
            "kornli-test",
        } <= held_out
        assert set(recipe.dev) <= held_out
        assert not recipe.test  # evaluated once, by `kosbert evaluate`, after all selection
        for stage in recipe.stages:
            assert all(source.exclude == ["held-out"] for source in stage.data)
        used = set(
            recipe.references([name for stage in recipe.stages for source in stage.data for name in source.rows])
        )
        if any(resolve(name)[0].language == "en" for name in used):
            assert {"stsb-dev", "stsb-test"} <= held_out  # KorSTS dev and test are their translations
