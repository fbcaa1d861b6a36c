"""`kosbert train`: output, exit codes, names and --list."""

import json
from functools import partial
from pathlib import Path

import pytest
import torch


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)


@pytest.fixture
def recipe(tmp_path: Path, tiny_bert: Path) -> Path:
    rows = [f"비가 {'온다' if number % 2 else '간다'}.\t눈이 온다.\t{number % 6}" for number in range(16)]
    (tmp_path / "sts.tsv").write_text("\n".join(["sentence1\tsentence2\tscore", *rows]), encoding="utf-8")
    path = tmp_path / "recipe.yaml"
    path.write_text(
        f"""
name: small
backbone: {tiny_bert}
max_length: 32
data: {{sts: {tmp_path / "sts.tsv"}}}
dev: sts
train: {{batch_size: 4, lr: 1e-3}}
stages: [{{name: sts, data: sts, loss: cosine-similarity, epochs: 1}}]
""",
        encoding="utf-8",
    )
    return path


@pytest.fixture
def call(kosbert):
    return partial(kosbert, "train")


def test_prints_a_table_of_scores(call, recipe):
    code, out, _ = call(recipe)
    assert code == 0
    assert "small: cosine vs. human scores" in out
    assert "runs/small/model" in out.replace("\\", "/")


def test_json_settings_and_resume(call, recipe, tmp_path):
    overlay = tmp_path / "overlay.yaml"
    overlay.write_text("stages: {epochs: null, steps: 3}", encoding="utf-8")
    arguments = (recipe, "--with", overlay, "--set", "train.lr=3e-5", "--set", "stages.0.name=other", "--out", "here")
    code, out, _ = call(*arguments, "--json")
    assert code == 0
    document = json.loads(out)
    assert document["model"] == str(Path("here") / "model")
    (scores,) = document["scores"].values()
    assert set(scores) == {"pearson", "spearman"}
    trained = json.loads(Path("here/recipe.json").read_text(encoding="utf-8"))
    assert (trained["train"]["lr"], trained["stages"][0]["name"]) == (3e-5, "other")
    assert len(json.loads(Path("here/curves.json").read_text(encoding="utf-8"))["other"]) == 4
    again = call(*arguments, "--resume", "--json")
    assert (again[0], json.loads(again[1])) == (0, document)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--set", "train.lrr=1"], 2, "there is no key 'train.lrr'; did you mean lr"),
        (["--with", "nowhere.yaml"], 2, "there is no recipe nowhere.yaml"),
        (["--with", "smple"], 2, "there is no recipe 'smple': did you mean sample"),
        (["--set", "stages.0.data=stss"], 2, "there is no role, data set or file 'stss': did you mean sts"),
        (["--set", "stages.0.loss=triplet"], 2, "which give no triplets"),
        (["--set", "stages.0.options={scale: 3}"], 2, "has no option 'scale'"),
        (["--set", "backbone=klue/nothing"], 1, "neither a directory nor in the cache"),
        (["--set", "train.lr=1e30", "--set", "train.warmup=0"], 1, "stage sts: the "),
        (["--out", "recipe.yaml"], 2, "cannot be written"),
        (["--track", "tensorbord"], 2, "there is no tracker 'tensorbord'"),
    ],
)
def test_errors_are_one_sentence_without_a_traceback(call, recipe, arguments, code, message):
    exit_code, out, err = call(recipe, *arguments)
    assert exit_code == code
    (line,) = [line for line in err.splitlines() if line.startswith("kosbert: ")]
    assert message in line
    assert "Traceback" not in err
    assert out == ""


def test_list_prints_recipes_and_overlays(call):
    code, out, _ = call("--list", "--json")
    recipes = {recipe["name"]: recipe for recipe in json.loads(out)}
    assert code == 0
    assert recipes["nli-sts"]["kind"] == "recipe"
    assert recipes["nli-sts"]["description"].startswith("NLI, then STS")
    assert recipes["sample"]["kind"] == "overlay"
    code, out, _ = call("--list")
    assert code == 0
    assert all(name in out for name in recipes)


@pytest.mark.parametrize(
    ("arguments", "message"), [(["nli-stss"], "did you mean nli-sts"), ([], "no recipe given: name one of")]
)
def test_an_unknown_or_missing_name_is_a_usage_error(call, arguments, message):
    code, out, err = call(*arguments)
    assert (code, out) == (2, "")
    assert message in err


def test_a_recipe_by_name_with_an_overlay_by_name(call):
    smaller = ("backbone.layers=1", "backbone.hidden_size=32", "backbone.heads=2", "backbone.vocab_size=500")
    settings = [*smaller, "stages.0.data={rows: sts, limit: 40}", "stages.0.epochs=0.5", "train.batch_size=16"]
    code, out, _ = call("sts", "--with", "sample", *(part for value in settings for part in ("--set", value)), "--json")
    assert code == 0
    assert set(json.loads(out)["scores"]) == {"sample-sts-dev", "sample-sts-test"}
    assert Path("runs/sts/model/modules.json").is_file()
