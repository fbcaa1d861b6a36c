"""Recipes: the shipped ones match the published settings; names, overlays, settings, and errors in one sentence."""

from pathlib import Path

import pytest
import yaml

from kosbert.errors import UsageError
from kosbert.recipes import shipped_recipes
from kosbert.training import Recipe

NAMES = [recipe.name for recipe in shipped_recipes() if "/" not in recipe.name and recipe.kind == "recipe"]
OVERLAYS = ["sample", "small"]
BASE = {
    "name": "base",
    "backbone": "somewhere",
    "data": {"sts": "korsts-train"},
    "stages": [{"name": "sts", "data": "sts", "loss": "cosine-similarity", "epochs": 1}],
}


@pytest.fixture
def base(tmp_path) -> Path:
    path = tmp_path / "base.yaml"
    path.write_text(yaml.safe_dump(BASE), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", NAMES)
def test_shipped_recipes_load_with_and_without_overlays(name):
    assert Recipe.load(name).name == name
    for overlay in OVERLAYS:
        assert Recipe.load(name, [overlay]).test


def test_shipped_recipes_are_listed_in_order_with_descriptions():
    recipes = shipped_recipes()
    names = [recipe.name for recipe in recipes]
    assert names[:3] == ["joint", "nli", "nli-sts"]
    assert [recipe.name for recipe in recipes if recipe.kind == "overlay"][:2] == OVERLAYS
    steps = [name for name in names if name.startswith("builtin/")]
    assert [int(step.removeprefix("builtin/").split("-")[0]) for step in steps] == list(range(1, 12))
    for recipe in recipes:
        assert recipe.description
        assert (
            f"kosbert train {recipe.name}" in (text := recipe.path.read_text("utf-8"))
            or f"--with {recipe.name}" in text
        )
        assert "\n# " in text


def test_a_recipe_is_found_by_name_and_by_path():
    (path,) = [recipe.path for recipe in shipped_recipes() if recipe.name == "nli-sts"]
    assert Recipe.load("nli-sts") == Recipe.load(path) == Recipe.load(str(path))
    assert Recipe.load("builtin/6-sts").name == "builtin-sts"
    sample = Recipe.load("nli-sts", overlays=["sample"])
    assert sample.references(["nli"]) == ["sample-nli-train"]


@pytest.mark.parametrize(
    ("name", "overlays", "message"),
    [
        ("nli-stss", [], "there is no recipe 'nli-stss': did you mean nli-sts"),
        ("builtin/6-st", [], "did you mean builtin/6-sts"),
        ("nli-sts", ["smple"], "there is no recipe 'smple': did you mean sample"),
        ("nowhere.yaml", [], "there is no recipe nowhere.yaml: give the path of a YAML file, or a name of"),
    ],
)
def test_unknown_names_end_with_a_suggestion(name, overlays, message):
    with pytest.raises(UsageError) as caught:
        Recipe.load(name, overlays)
    assert message in str(caught.value)


@pytest.mark.parametrize("name", ["simcse-unsupervised", "simcse-supervised"])
def test_simcse_has_the_published_settings(name):
    recipe = Recipe.load(name)
    (stage,) = recipe.stages
    settings = recipe.training_arguments(stage)
    assert (settings.batch_size, settings.lr, recipe.max_length, recipe.pooling) == (256, 5e-5, 64, "cls")
    assert stage.options["temperature"] == 0.05
    assert stage.loss == {"simcse-unsupervised": "simcse"}.get(name, name)


def test_overlays_and_settings_are_applied_in_order(base, tmp_path):
    overlay = tmp_path / "overlay.yaml"
    overlay.write_text(
        "train: {lr: 3e-5, group_by_length: true}\nstages: {options: {matryoshka: [8]}}", encoding="utf-8"
    )
    settings = ["train.batch_size=8", "stages.0.epochs=2", "seed=7", "dev=[klue-sts-dev, korsts-dev]", "data.sts=x.tsv"]
    settings += ["stages.0.train.lr=1e-2", "stages.0.data={rows: sts, options: {scale: 2e1, symmetric: false}}"]
    recipe = Recipe.load(base, [overlay], settings)
    (stage,) = recipe.stages
    assert (recipe.train.lr, recipe.train.group_by_length, recipe.train.batch_size, recipe.seed) == (3e-5, True, 8, 7)
    assert (stage.epochs, stage.options, recipe.training_arguments(stage).lr) == (2, {"matryoshka": [8]}, 0.01)
    assert (recipe.dev, recipe.references(["sts", "other"])) == (["klue-sts-dev", "korsts-dev"], ["x.tsv", "other"])
    # Values without a schema must have the right type too: "false" would be true, "2e1" a string.
    assert stage.data[0].options == {"scale": 20.0, "symmetric": False}


def test_a_mapping_overlay_applies_to_every_item_of_a_list(tmp_path):
    overlay = tmp_path / "overlay.yaml"
    overlay.write_text("stages: {epochs: 0.5}", encoding="utf-8")
    assert [stage.epochs for stage in Recipe.load("nli-sts", [overlay]).stages] == [0.5, 0.5]


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("trian.lr=1", "there is no key 'trian'; did you mean train"),
        ("train.learning_rate=1", "there is no key 'train.learning_rate'; did you mean"),
        ("train.batchsize=1", "'train.batchsize'; did you mean batch_size"),
        ("stages.0.epoch=1", "'stages.0.epoch'; did you mean epochs"),
        ("stages.0.train.lrr=1", "'stages.0.train.lrr'; did you mean lr"),
        ("stages.0.data={rows: sts, limt: 3}", "'stages.0.data.0.limt'; did you mean limit"),
        ("backbone={txt: sts}", "'backbone.txt'; did you mean text"),
        ("backbone={from: x, layer: 2}", "'backbone.layer'; did you mean layers"),
        ("stages.0.loss=cosin", "there is no loss 'cosin'; did you mean cosent"),
        ("stages.0.loss=", "stages.0.loss: "),
        ("stages.0.loss=''", "give a loss, one of softmax"),
        ("stages.0.steps=3", "stages.0: give epochs or steps, one of them"),
        ("stages.0.data=3", "stages.0.data: "),
        ("train.lr=-1", "train.lr: Input should be greater than 0"),
        ("train.lr=.inf", "train.lr: Input should be a finite number"),
        ("stages.0.train.lr=fast", "stages.0.train.lr: "),
        ("train.schedule=step", "train.schedule: Input should be 'linear', 'cosine' or 'constant'"),
        ("pooling=min", "pooling: "),
        ("backbone=7", "backbone: "),
        ("stages=[]", "stages: "),
        ("seed", "--set seed: write it as key=value, for example train.lr=3e-5"),
        ("stages.3.epochs=1", "--set stages.3.epochs=1: there is nothing at '3'"),
        ("name.x=1", "there is nothing at 'x'"),
    ],
)
def test_errors_are_one_sentence_with_a_suggestion(base, setting, message):
    with pytest.raises(UsageError) as caught:
        Recipe.load(base, settings=[setting])
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_two_stages_with_one_name_are_rejected():
    with pytest.raises(UsageError, match="two stages have the same name"):
        Recipe.parse(BASE | {"stages": BASE["stages"] * 2})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "there is no recipe .*: give the path of a YAML file"),
        ("a: [", "is not a readable YAML file"),
        ("- a\n- b", "is not a mapping of keys to values"),
        ("", "is not a mapping of keys to values"),
        ("!!python/object/apply:os.system [ls]", "is not a readable YAML file"),
    ],
)
def test_unreadable_files_are_usage_errors(tmp_path, text, message):
    path = tmp_path / "recipe.yaml"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=message) as caught:
        Recipe.load(path)
    assert "\n" not in str(caught.value)
