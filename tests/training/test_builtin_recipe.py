"""The built-in model's whole chain on the sample set, in seconds: a teacher, distillation, NLI, STS; and once more."""

from pathlib import Path

import numpy as np
import pytest

import kosbert
from kosbert import data
from kosbert.data.registry import resolve
from kosbert.export import export, verify
from kosbert.model.torch_loading import load_torch
from kosbert.training import Recipe, train
from kosbert.training.soup import soup

RECIPES = Path(__file__).parents[2] / "src" / "kosbert" / "recipes" / "builtin"
SMALL = """
backbone: {layers: 1, hidden_size: 32, heads: 2, vocab_size: 500}
max_length: 32
data: {text: sample-nli-train, held-out: sample-sts-test}
dev: sample-sts-dev
train: {batch_size: 16, evals_per_epoch: 2}
stages: {epochs: 1, data: {teacher: TEACHER, limit: 160, min_chars: 0, max_chars: 100}}
"""
NEAR = """
data: {near: sample-nli-train, held-out: sample-sts-test}
max_length: 32
dev: sample-sts-dev
train: {batch_size: 16, evals_per_epoch: 2}
stages: {epochs: 1, data: {teacher: TEACHER, limit: 160}}
"""
MIXED = """
data:
  near: sample-nli-train
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
TAUGHT = """
data:
  sts: sample-sts-train
  nli: sample-nli-train
  near: sample-nli-train
  titles: sample-sts-train
  reviews: sample-nli-train
  documents: sample-nli-train
  held-out: sample-sts-test
max_length: 32
dev: sample-sts-dev
stages: {epochs: null, steps: 12, data: {limit: 80, batch_size: 16}}
"""


def test_from_text_to_the_shipped_files(tiny_bert, tmp_path, monkeypatch):
    pytest.importorskip("onnx")
    monkeypatch.setenv("KOSBERT_CACHE", str(tmp_path / "cache"))
    small, near, mixed, nli, sts = (tmp_path / f"{name}.yaml" for name in ("small", "near", "mixed", "nli", "sts"))
    for path, text in ((small, SMALL), (near, NEAR), (mixed, MIXED), (nli, NLI), (sts, STS)):
        path.write_text(text.replace("TEACHER", str(tiny_bert)), encoding="utf-8")

    distilled = train(Recipe.load(RECIPES / "1-distill.yaml", [small]), tmp_path / "distilled", time_budget=20)
    losses = [point["loss"] for point in distilled.curves["distill"] if "loss" in point]
    assert np.mean(losses[-3:]) < np.mean(losses[:3])
    changes = [f"backbone={distilled.path}"]
    nearer = train(Recipe.load(RECIPES / "2-distill-captions.yaml", [near], changes), tmp_path / "near", time_budget=20)
    changes = [f"backbone={nearer.path}"]
    edited = train(
        Recipe.load(RECIPES / "3-distill-augmented.yaml", [mixed], changes), tmp_path / "edited", time_budget=20
    )
    changes = [f"backbone={edited.path}", "stages.0.steps=8"]
    longer = Recipe.load(RECIPES / "3-distill-augmented.yaml", [mixed, RECIPES / "4-base.yaml"], changes)
    base = train(longer, tmp_path / "base", time_budget=20)

    changes = [f"backbone={base.path}"]
    inferred = train(Recipe.load(RECIPES / "5-nli.yaml", [nli], changes), tmp_path / "nli", time_budget=20)

    models = []
    for seed in (1, 2):
        changes = [f"seed={seed}", f"backbone={inferred.path}"]
        overlays = [RECIPES / "7-sts-korsts-only.yaml", sts] if seed == 2 else [sts]
        run = train(Recipe.load(RECIPES / "6-sts.yaml", overlays, changes), tmp_path / f"sts-{seed}", time_budget=20)
        assert "sts" in run.curves
        models.append(run.path)
    pairs = {"sample-sts-dev": data.load("sample-sts-dev")}
    made = soup(models, pairs, tmp_path / "soup")
    assert made.score >= max(made.dev.values())

    shipped = export(
        made.path, tmp_path / "shipped", format="both", int8=True, gate=next(iter(pairs.items())), max_drop=5
    )
    assert len(verify(shipped.path)) == 3
    assert kosbert.load(shipped.path).encode(["비가 많이 온다"], truncate_dim=16).shape == (1, 16)
    assert kosbert.load(shipped.path).card["soup"]["ingredients"] == made.ingredients


def test_a_second_teacher_learns_labels_and_teaches(tiny_bert, tmp_path, monkeypatch):
    monkeypatch.setenv("KOSBERT_CACHE", str(tmp_path / "cache"))
    labels, lessons, sts = (tmp_path / f"{name}.yaml" for name in ("labels", "lessons", "sts"))
    for path, text in ((labels, TEACHER), (lessons, TAUGHT), (sts, STS)):
        path.write_text(text, encoding="utf-8")
    tuned = train(
        Recipe.load(RECIPES / "8-teacher-sts.yaml", [labels], [f"backbone={tiny_bert}"]), tmp_path / "teacher"
    )
    assert set(tuned.curves) == {"sts"}
    plain = load_torch(tiny_bert, max_length=32).save(tmp_path / "plain")
    pairs = {"sample-sts-dev": data.load("sample-sts-dev")}
    mixed = soup([tuned.path, plain], pairs, tmp_path / "teacher-average", shares=[4, 1])

    recipe = Recipe.load(RECIPES / "9-distill-two-teachers.yaml")
    teachers = f"{{{mixed.path}: 0.65, {tiny_bert}: 0.35}}"
    changes = [f"stages.0.data.{source}.teacher={teachers}" for source in range(len(recipe.stages[0].data))]
    readers = set()
    taught = train(
        Recipe.load(RECIPES / "9-distill-two-teachers.yaml", [lessons], [f"backbone={tiny_bert}", *changes]),
        tmp_path / "taught",
        reading=lambda teacher, done, every: readers.add(teacher),
    )
    assert readers == {str(mixed.path), str(tiny_bert)}
    changes += [f"backbone={taught.path}", "stages.0.options.matryoshka=[32, 16]"]
    taught = train(
        Recipe.load(RECIPES / "9-distill-two-teachers.yaml", [RECIPES / "11-matryoshka.yaml", lessons], changes),
        tmp_path / "short",
    )
    overlays = [RECIPES / "7-sts-korsts-only.yaml", RECIPES / "10-sts-second-pass.yaml", sts]
    again = train(Recipe.load(RECIPES / "6-sts.yaml", overlays, [f"backbone={taught.path}"]), tmp_path / "again")
    assert kosbert.load(again.path).encode(["비가 많이 온다"], truncate_dim=16).shape == (1, 16)


def test_nothing_that_is_reported_on_is_learned_from():
    """Every source of every step leaves out the dev and test sets."""
    below = {  # what an overlay is laid over
        "4-base.yaml": ["3-distill-augmented.yaml"],
        "7-sts-korsts-only.yaml": ["6-sts.yaml"],
        "10-sts-second-pass.yaml": ["6-sts.yaml"],
        "11-matryoshka.yaml": ["9-distill-two-teachers.yaml"],
    }
    for path in sorted(RECIPES.glob("*.yaml")):
        first, *overlays = [*(RECIPES / name for name in below.get(path.name, [])), path]
        recipe = Recipe.load(first, overlays)
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
        assert not recipe.test  # scored once, by `kosbert evaluate`, when everything is chosen
        for stage in recipe.stages:
            assert all(source.exclude == ["held-out"] for source in stage.data)
        read = set(
            recipe.references([name for stage in recipe.stages for source in stage.data for name in source.rows])
        )
        if any(resolve(name)[0].language == "en" for name in read):
            assert {"stsb-dev", "stsb-test"} <= held_out  # KorSTS dev and test are their translations
