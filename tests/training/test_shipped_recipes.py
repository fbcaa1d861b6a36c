"""Every shipped recipe trains on the sample set, with a very small backbone, for a few steps."""

import functools

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from kosbert import data
from kosbert.recipes import shipped_recipes
from kosbert.training import Recipe, train

NAMES = [recipe.name for recipe in shipped_recipes() if "/" not in recipe.name and recipe.kind == "recipe"]
SMALLER = [
    *("backbone.layers=1", "backbone.hidden_size=32", "backbone.heads=2", "backbone.vocab_size=500"),
    *("train.batch_size=8", "train.evals_per_epoch=0", "max_length=32"),
]


@pytest.fixture(autouse=True, scope="module")
def _load_once():
    """The sample set is generated at each call; nine recipes read it."""
    with pytest.MonkeyPatch.context() as patch:
        load = data.load
        rows = functools.cache(lambda name: load(name)[:600])
        patch.setattr(data.loading, "load", lambda name, **options: rows(name))
        yield


@pytest.mark.parametrize("name", NAMES)
def test_trains_on_the_sample_set(name, tmp_path):
    three_steps = tmp_path / "three-steps.yaml"
    three_steps.write_text("stages: {epochs: null, steps: 3}", encoding="utf-8")
    recipe = Recipe.load(name, ["sample", three_steps], SMALLER)
    losses = []
    trained = train(recipe, tmp_path / "run", on_progress=lambda event: losses.append(event.metrics["loss"]))
    assert len(losses) == 3 * len(recipe.stages)
    assert np.isfinite(losses).all()
    assert set(trained.scores) == {"sample-sts-dev", "sample-sts-test"}
    assert -1 < trained.scores["sample-sts-test"]["spearman"] < 1
    vectors = SentenceTransformer(str(trained.path)).encode(["비가 온다."])
    assert vectors.shape == (1, 32)
