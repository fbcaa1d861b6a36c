"""Recipes: those we ship say what the published documents say, and a typing error never trains something else."""

from pathlib import Path

import pytest
import yaml

from kosbert.errors import UsageError
from kosbert.training import Recipe

RECIPES = Path(__file__).parents[2] / "src" / "kosbert" / "recipes"
SHIPPED = sorted(RECIPES.glob("*.yaml"))
OVERLAYS = sorted((RECIPES / "overlays").glob("*.yaml"))
BASE = {
    "name": "base",
    "backbone": "somewhere",
    "data": {"sts": "korsts-train"},
    "stages": [{"name": "one", "data": "sts", "loss": "cosine-similarity", "epochs": 1}],
}


@pytest.fixture
def base(tmp_path) -> Path:
    path = tmp_path / "base.yaml"
    path.write_text(yaml.safe_dump(BASE), encoding="utf-8")
    return path


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_recipes_are_right_with_and_without_overlays(path):
    assert Recipe.load(path).name == path.stem
    for overlay in OVERLAYS:
        assert Recipe.load(path, [overlay]).test


ORDERS = {"nli": ["nli"], "sts": ["sts"], "nli-sts": ["nli", "sts"], "sts-nli": ["sts", "nli"]}


@pytest.mark.parametrize("name", ORDERS)
def test_the_four_orders_have_the_documents_settings(name):
    recipe = Recipe.load(RECIPES / f"{name}.yaml")
    assert [stage.name for stage in recipe.stages] == ORDERS[name]
    assert (recipe.backbone, recipe.pooling, recipe.dev, recipe.test) == (
        "klue/roberta-base", "mean", ["korsts-dev"], ["korsts-test"],
    )  # fmt: skip
    for stage in recipe.stages:
        settings = recipe.settings(stage)
        assert (settings.batch_size, settings.lr, settings.warmup, settings.schedule) == (16, 2e-5, 0.1, "linear")
        assert (stage.epochs, stage.loss) == {
            "nli": (1, "multiple-negatives-ranking"),
            "sts": (4, "cosine-similarity"),
        }[stage.name]
    assert recipe.references(["nli"]) == ["kornli-snli-train", "kornli-multinli-train"]


@pytest.mark.parametrize("name", ["simcse-unsupervised", "simcse-supervised"])
def test_simcse_has_the_documents_settings(name):
    recipe = Recipe.load(RECIPES / f"{name}.yaml")
    (stage,) = recipe.stages
    settings = recipe.settings(stage)
    assert (settings.batch_size, settings.lr, recipe.max_length, recipe.pooling) == (256, 5e-5, 64, "cls")
    assert stage.options["temperature"] == 0.05
    assert stage.loss == {"simcse-unsupervised": "simcse"}.get(name, name)


def test_overlays_and_settings(base, tmp_path):
    overlay = tmp_path / "overlay.yaml"
    overlay.write_text(
        "train: {lr: 3e-5, group_by_length: true}\nstages: {options: {matryoshka: [8]}}\n", encoding="utf-8"
    )
    settings = ["train.batch_size=8", "stages.0.epochs=2", "seed=7", "dev=[klue-sts-dev, korsts-dev]", "data.sts=x.tsv"]
    settings += ["stages.0.train.lr=1e-2", "stages.0.data={rows: sts, options: {scale: 2e1, symmetric: false}}"]
    recipe = Recipe.load(base, [overlay], settings)
    (stage,) = recipe.stages
    assert (recipe.train.lr, recipe.train.group_by_length, recipe.train.batch_size, recipe.seed) == (3e-5, True, 8, 7)
    assert (stage.epochs, stage.options, recipe.settings(stage).lr) == (2, {"matryoshka": [8]}, 0.01)
    assert (recipe.dev, recipe.references(["sts", "other"])) == (["klue-sts-dev", "korsts-dev"], ["x.tsv", "other"])
    # Values that no field checks must have the right kind as well: "false" would be true, "2e1" a word.
    assert stage.data[0].options == {"scale": 20.0, "symmetric": False}


def test_a_mapping_over_a_list_changes_every_item(tmp_path):
    overlay = tmp_path / "overlay.yaml"
    overlay.write_text("stages: {epochs: 0.5}", encoding="utf-8")
    assert [stage.epochs for stage in Recipe.load(RECIPES / "nli-sts.yaml", [overlay]).stages] == [0.5, 0.5]


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("trian.lr=1", "there is no key 'trian'; the nearest is 'train'"),
        ("train.learning_rate=1", "there is no key 'train.learning_rate'; the nearest is"),
        ("train.batchsize=1", "'train.batchsize'; the nearest is 'batch_size'"),
        ("stages.0.epoch=1", "'stages.0.epoch'; the nearest is 'epochs'"),
        ("stages.0.train.lrr=1", "'stages.0.train.lrr'; the nearest is 'lr'"),
        ("stages.0.data={rows: sts, limt: 3}", "'stages.0.data.0.limt'; the nearest is 'limit'"),
        ("backbone={txt: sts}", "'backbone.txt'; the nearest is 'text'"),
        ("backbone={from: x, layer: 2}", "'backbone.layer'; the nearest is 'layers'"),
        ("stages.0.loss=cosin", "there is no loss 'cosin'; the nearest is 'cosent'"),
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
def test_mistakes_are_one_sentence(base, setting, message):
    with pytest.raises(UsageError) as caught:
        Recipe.load(base, settings=[setting])
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_two_stages_of_one_name_are_refused():
    with pytest.raises(UsageError, match="two stages have the same name"):
        Recipe.parse(BASE | {"stages": BASE["stages"] * 2})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "there is no recipe .*: give the path of a YAML file"),
        ("a: [", "is not a readable YAML file"),
        ("- a\n- b", "holds no keys and values"),
        ("", "holds no keys and values"),
        ("!!python/object/apply:os.system [ls]", "is not a readable YAML file"),
    ],
)
def test_unreadable_recipes(tmp_path, text, message):
    path = tmp_path / "recipe.yaml"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=message) as caught:
        Recipe.load(path)
    assert "\n" not in str(caught.value)
