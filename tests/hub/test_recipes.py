"""Every shipped recipe trains on a backbone from the hub, and its card names the commit."""

import functools
import json

import numpy as np
import pytest
from hub_repositories import SENTENCES

import kosbert
from kosbert import data
from kosbert.export import export
from kosbert.recipes import shipped_recipes
from kosbert.training import Recipe, train

NAMES = [recipe.name for recipe in shipped_recipes() if "/" not in recipe.name and recipe.kind == "recipe"]
BACKBONE = "klue/roberta-base"
SETTINGS = ["train.batch_size=8", "train.evals_per_epoch=0", "max_length=32", "dev=[]", "test=[]"]


@pytest.fixture(autouse=True, scope="module")
def _load_once():
    """The sample set is generated at each call; nine recipes read it."""
    with pytest.MonkeyPatch.context() as patch:
        load = data.load
        rows = functools.cache(lambda name: load(name)[:200])
        patch.setattr(data.loading, "load", lambda name, **options: rows(name))
        yield


def two_steps(name: str, backbone: str, tmp_path) -> Recipe:
    overlay = tmp_path / "two-steps.yaml"
    overlay.write_text("stages: {epochs: null, steps: 2}", encoding="utf-8")
    recipe = Recipe.load(name, ["sample", overlay], SETTINGS)
    return recipe.model_copy(update={"backbone": backbone})


def test_there_are_nine_recipes():
    assert len(NAMES) == 9


@pytest.mark.parametrize("name", NAMES)
def test_recipe_trains_on_a_backbone_from_the_hub(name, hub, repository_files, tmp_path):
    commit = hub.add(BACKBONE, repository_files(BACKBONE))
    losses = []
    recipe = two_steps(name, f"{BACKBONE}@main", tmp_path)
    result = train(recipe, tmp_path / "run", on_progress=lambda event: losses.append(event.metrics["loss"]))
    assert len(losses) == 2 * len(recipe.stages)
    assert np.isfinite(losses).all()
    card = json.loads((result.path / "kosbert.json").read_text(encoding="utf-8"))
    assert card["backbone"] == {"name": f"{BACKBONE}@main", "commit": commit}
    trained, start = (kosbert.load(model, pooling="mean").encode(SENTENCES) for model in (result.path, BACKBONE))
    assert np.abs(trained - start).max() > 1e-6


def test_card_of_an_export_names_the_commit(hub, repository_files, tmp_path):
    commit = hub.add(BACKBONE, repository_files(BACKBONE))
    exported = export(BACKBONE, tmp_path / "exported")
    card = json.loads((exported.path / "kosbert.json").read_text(encoding="utf-8"))
    assert card["exported_from"] == {"name": BACKBONE, "commit": commit}
