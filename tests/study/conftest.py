"""Fixtures: a study that trains in seconds (a backbone of one layer, sixty rows, two seeds)."""

import random
from pathlib import Path

import pytest
import torch
import yaml

from kosbert.study.config import StudyConfig
from kosbert.study.run_study import run_study
from kosbert.study.store import Store

SUBJECTS = ("오늘은", "남자가", "여자가", "아이가", "고양이가", "강아지는", "대통령이", "사람이")
OBJECTS = ("날씨를", "기타를", "노래를", "음식을", "물을", "커피를", "학교에", "집에", "책을", "영화를")
VERBS = ("좋다", "마신다", "본다", "간다", "한다", "연주한다", "달린다", "잔다")


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def data_files(tmp_path_factory) -> Path:
    """A directory with sts.tsv (40 rows), dev.tsv (24), test.tsv (40) and nli.tsv (60)."""
    directory = tmp_path_factory.mktemp("data")
    rng = random.Random(7)

    def sentence() -> str:
        return f"{rng.choice(SUBJECTS)} {rng.choice(OBJECTS)} {rng.choice(VERBS)}."

    def write(name: str, header: str, lines: list[str]) -> None:
        (directory / name).write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")

    scored = [f"{sentence()}\t{sentence()}\t{rng.randint(0, 50) / 10}" for _ in range(104)]
    write("sts.tsv", "sentence1\tsentence2\tscore", scored[:40])
    write("dev.tsv", "sentence1\tsentence2\tscore", scored[40:64])
    write("test.tsv", "sentence1\tsentence2\tscore", [*scored[64:103], "<b>비가</b> 온다 & 눈\t비가 온다.\t4.2"])
    labels = ("entailment", "neutral", "contradiction")
    premises = [sentence() for _ in range(20)]
    pairs = [f"{premise}\t{sentence()}\t{label}" for premise in premises for label in labels]
    write("nli.tsv", "sentence1\tsentence2\tlabel", pairs)
    return directory


@pytest.fixture(scope="session")
def document(data_files):
    """A study with four training orders and the backbone without fine-tuning, as a YAML document."""
    return {
        "name": "tiny",
        "question": "Which order <first>?",
        "description": "Four orders.",
        "published_scores": "korsts-test",
        "recipe": {"max_length": 32},
        "stages": {
            "nli": {"data": "nli", "loss": "multiple-negatives-ranking", "epochs": 1},
            "sts": {"data": "sts", "loss": "cosine-similarity", "epochs": 1},
        },
        "variants": [
            {"name": "no fine-tuning", "seeds": 1},
            {"name": "STS", "stages": ["sts"], "published_model": "SBERT klue/roberta-base, STS only"},
            {"name": "NLI", "stages": ["nli"]},
            {"name": "STS→NLI", "stages": ["sts", "nli"]},
            {"name": "NLI→STS", "stages": ["nli", "sts"]},
        ],
        "presets": {
            "quick": {
                "description": "Generated data.",
                "seeds": 2,
                "backbone": {"text": ["nli", "sts"], "layers": 1, "hidden_size": 32, "heads": 2, "vocab_size": 100},
                "data": {"nli": str(data_files / "nli.tsv"), "sts": str(data_files / "sts.tsv")},
                "dev": str(data_files / "dev.tsv"),
                "test": str(data_files / "test.tsv"),
                "overrides": {"train": {"batch_size": 4, "lr": 1e-3, "evals_per_epoch": 2}},
            }
        },
    }


@pytest.fixture(scope="session")
def study(document) -> StudyConfig:
    return StudyConfig.model_validate(document)


@pytest.fixture(scope="session")
def study_file(document, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("study") / "tiny.yaml"
    path.write_text(yaml.safe_dump(document, allow_unicode=True), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def finished(study, tmp_path_factory):
    """The finished study, read only: `(store, summary, page)`."""
    store = Store(tmp_path_factory.mktemp("finished") / "studies")
    summary, page, outcome = run_study(study, "quick", store)
    assert not outcome.failed
    return store, summary, page
