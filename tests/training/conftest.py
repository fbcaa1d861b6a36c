"""A recipe of two stages that trains in a second, its data, and a way to run scripts in their own process."""

import copy
import json
import multiprocessing
import random
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from kosbert.training import Recipe

SUBJECTS = ("오늘은", "남자가", "여자가", "아이가", "고양이가", "강아지는", "대통령이", "사람이")
OBJECTS = ("날씨를", "기타를", "노래를", "음식을", "물을", "커피를", "학교에", "집에", "책을", "영화를")
VERBS = ("좋다", "마신다", "본다", "간다", "한다", "연주한다", "달린다", "잔다")


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def files(tmp_path_factory) -> Path:
    """sts.tsv (40 rows), nli.tsv (60), dev.tsv (24), text.txt (50), in the vocabulary of the tiny models."""
    directory = tmp_path_factory.mktemp("files")
    generator = random.Random(7)

    def sentence() -> str:
        words = (
            generator.choice(SUBJECTS),
            generator.choice(OBJECTS),
            *(["함께"] * generator.randint(0, 6)),
            generator.choice(VERBS),
        )
        return " ".join(words) + "."

    def write(name: str, head: str, rows: list[str]) -> None:
        (directory / name).write_text("\n".join([head, *rows] if head else rows) + "\n", encoding="utf-8")

    scored = [f"{sentence()}\t{sentence()}\t{generator.randint(0, 50) / 10}" for _ in range(64)]
    write("sts.tsv", "sentence1\tsentence2\tscore", scored[:40])
    write("dev.tsv", "sentence1\tsentence2\tscore", scored[40:])
    labels = ("entailment", "neutral", "contradiction")
    premises = [sentence() for _ in range(20)]
    nli = [f"{premise}\t{sentence()}\t{label}" for premise in premises for label in labels]
    write("nli.tsv", "sentence1\tsentence2\tlabel", nli)
    write("text.txt", "", sorted({f"{sentence()} {number}" for number in range(50)}))
    return directory


@pytest.fixture
def document(files: Path, tiny_bert: Path) -> dict[str, Any]:
    """Return a recipe: softmax on NLI (15 steps), then cosine similarity on STS (10 steps)."""
    return {
        "name": "tiny",
        "backbone": str(tiny_bert),
        "max_length": 32,
        "data": {"nli": str(files / "nli.tsv"), "sts": str(files / "sts.tsv")},
        "train": {"batch_size": 4, "lr": 1e-3, "evals_per_epoch": 2},
        "dev": str(files / "dev.tsv"),
        "stages": [
            {"name": "nli", "data": "nli", "loss": "softmax", "epochs": 1},
            {"name": "sts", "data": "sts", "loss": "cosine-similarity", "epochs": 1},
        ],
    }


@pytest.fixture
def one_stage(document):
    """Return a function that makes a recipe with one stage; by default cosine similarity on STS."""

    def make(steps: int = 6, train: dict[str, Any] | None = None, **stage: Any) -> Recipe:
        recipe = copy.deepcopy(document)
        recipe["stages"] = [{"name": "only", "data": "sts", "loss": "cosine-similarity", "steps": steps, **stage}]
        recipe["train"] |= train or {}
        return Recipe.parse(recipe)

    return make


@pytest.fixture(scope="session")
def weights():
    """Return a function that reads all weights of a model directory."""
    from safetensors.torch import load_file

    def read(directory: Path) -> dict[str, torch.Tensor]:
        tensors = {}
        for file in sorted(directory.rglob("*.safetensors")):
            tensors |= {f"{file.parent.relative_to(directory)}/{key}": value for key, value in load_file(file).items()}
        assert tensors
        return tensors

    return read


@pytest.fixture(scope="session")
def assert_same(weights):
    """Return a function that asserts that two runs are identical: weights, scores, data, curves."""

    def compare(first_run: Path, second_run: Path) -> None:
        first, second = weights(first_run / "model"), weights(second_run / "model")
        assert first.keys() == second.keys()
        assert all(torch.equal(first[name], second[name]) for name in first)
        for name in ("model/kosbert.json", "curves.json"):
            assert json.loads((first_run / name).read_text("utf-8")) == json.loads(
                (second_run / name).read_text("utf-8")
            )

    return compare


@pytest.fixture(scope="session")
def start_process():
    """Return a function that runs a script of this directory in a new process with torch already imported."""
    context: Any = multiprocessing.get_context("spawn" if sys.platform == "win32" else "forkserver")
    if sys.platform != "win32":
        context.set_forkserver_preload(["kosbert.training.trainer", "kosbert.cli.app"])
    started = []

    def run(script: str, **variables: Any) -> multiprocessing.Process:
        path = str(Path(__file__).with_name(script))
        process = context.Process(target=runpy.run_path, args=(path, variables), kwargs={"run_name": "__main__"})
        process.start()
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
