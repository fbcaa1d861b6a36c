"""`kosbert study`: what it prints, where, and with which exit code."""

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import torch
import yaml


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)


@pytest.fixture
def file(tmp_path: Path, tiny_bert: Path) -> Path:
    rows = [f"비가 {'온다' if number % 2 else '간다'} {number}.\t눈이 온다.\t{number % 6}" for number in range(24)]
    (tmp_path / "sts.tsv").write_text("\n".join(["sentence1\tsentence2\tscore", *rows]), encoding="utf-8")
    sts = str(tmp_path / "sts.tsv")
    preset = {
        "about": "Made up.",
        "seeds": 2,
        "backbone": str(tiny_bert),
        "data": {"sts": sts},
        "dev": sts,
        "test": sts,
        "over": {"train": {"batch_size": 4, "lr": 1e-3, "evals_per_epoch": 1}},
    }
    document = {
        "name": "tiny",
        "question": "Is training any good?",
        "recipe": {"max_length": 32},
        "stages": {"sts": {"data": "sts", "loss": "cosine-similarity", "steps": 4}},
        "rows": [{"name": "untouched", "seeds": 1}, {"name": "STS", "stages": ["sts"]}],
        "presets": {"quick": preset},
    }
    path = tmp_path / "tiny.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


@pytest.fixture
def call(kosbert):
    return partial(kosbert, "study")


def test_from_the_plan_to_the_report_and_back(call, file):
    code, out, _ = call("run", file, "--dry-run", "--json")
    plan = json.loads(out)
    assert code == 0
    assert [each["label"] for each in plan["stages"]] == ["sts", "sts"]
    assert plan["seconds"] > 0
    assert plan["stages"][0]["known_from"] == "3 timed steps"
    assert not Path("studies").exists()

    code, out, _ = call("run", file)
    assert code == 0
    assert "Is training any good?" in out
    assert "Report: studies/tiny-quick/report.html" in out.replace("\\", "/")

    code, out, _ = call("show", "tiny", "--json")
    found = json.loads(out)
    assert (code, found["seeds"], len(found["sets"])) == (0, 2, 1)
    code, out, _ = call("list", "--json")
    (listed,) = json.loads(out)["studies"]
    assert (listed["name"], listed["runs"], listed["of"]) == ("tiny-quick", 3, 3)
    assert listed["answer"] == found["answer"]
    assert found["answer"].split()[0] in call("list")[1]
    assert found["answer"][:20] in call("show", "tiny-quick")[1]

    code, out, _ = call("publish", "tiny-quick", "public")
    assert (code, out.strip().replace("\\", "/")) == (0, "Report: public/report.html")
    page = Path("public/report.md").read_text(encoding="utf-8")
    assert "Spearman on sts.tsv, 24 pairs" in page
    assert "눈이 온다" not in page
    assert str(Path.cwd()) not in page

    code, out, _ = call("rerun", "tiny", "02-sts-seed-2", "--json")
    assert (code, json.loads(out)["equal"]) == (0, True)
    code, out, _ = call("run", file, "--dry-run")
    assert (code, "2 are in the store" in " ".join(out.split())) == (0, True)

    scores = Path("studies/tiny-quick/runs/02-sts-seed-2/scores.json")
    stored = json.loads(scores.read_text(encoding="utf-8"))
    next(iter(stored.values()))["cosine_spearman"] = 0.5
    scores.write_text(json.dumps(stored), encoding="utf-8")
    code, out, err = call("rerun", "tiny", "02-sts-seed-2")
    assert (code, "They differ." in out) == (1, True)
    assert "kosbert: the scores differ: compare the lineage" in err


def test_a_study_of_speed_is_shown_and_has_nothing_to_train_again(call, tiny_bert):
    assert call("efficiency", "--model", tiny_bert, "--rounds", "1")[0] == 0
    code, out, _ = call("show", "efficiency")
    assert (code, "smart batching, cpu" in out, "Report: " in out) == (0, True, True)
    assert "efficiency-quick" in call("list")[1]
    code, _, err = call("rerun", "efficiency", "x")
    assert (code, "has no runs to train again" in " ".join(err.split())) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["order", "--preset", "quik"], 2, "the study order has no preset 'quik': did you mean quick"),
        (["show", "order"], 2, "there is no study 'order' in studies: run one first: kosbert study order"),
        (["run", "nothing.yaml"], 2, "the study nothing.yaml cannot be read"),
        (["order", "--seeds", "0"], 2, "seeds"),
        (["efficiency", "--preset", "huge"], 2, "has no preset 'huge': choose quick, real, paper"),
        (["rerun", "tiny", "x"], 2, "there is no study 'tiny'"),
        (["publish", "tiny", "public"], 2, "there is no study 'tiny'"),
    ],
)
def test_mistakes_are_one_sentence(call, arguments, code, message):
    found, out, err = call(*arguments)
    assert found == code
    assert message in " ".join(err.split())
    assert "Traceback" not in err
    assert out == ""


def test_a_failed_run_is_said_and_is_exit_code_one(call, file):
    document = yaml.safe_load(file.read_text(encoding="utf-8"))
    document["rows"].append({"name": "wild", "stages": ["sts"], "over": {"train": {"lr": 1e30, "warmup": 0}}})
    file.write_text(yaml.safe_dump(document), encoding="utf-8")
    code, out, err = call("run", file, "--seeds", "1", "--json")
    assert code == 1
    assert json.loads(out)["failed_rows"] == ["wild"]
    assert "failed: 03-wild-seed-1: stage cosine: " in err
    assert "kosbert: 1 runs failed and the others are in the report" in err


def test_help_is_light():
    """No torch and no matplotlib before there is something to do."""
    script = (
        "import sys; import kosbert.cli; print([n for n in ('torch', 'matplotlib', 'sklearn') if n in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, encoding="utf-8", check=True, timeout=120
    )
    assert done.stdout.strip() == "[]"


def test_nothing_in_the_store_yet(call):
    assert "There is no study in studies yet: kosbert study order" in call("list")[1]


@pytest.mark.skipif(not os.environ.get("KOSBERT_DATA"), reason="KOSBERT_DATA is not set")
def test_character_ngrams_on_korsts(tmp_path):
    """A known answer: TF-IDF fitted on KorSTS train reaches 66.11 on KorSTS test."""
    from kosbert.study.config import Study
    from kosbert.study.plan import plan
    from kosbert.study.runner import carry_out
    from kosbert.study.store import Store, stored_runs

    document = Study.named("baselines").model_dump()
    document["rows"] = [row for row in document["rows"] if row["encoder"].startswith("tfidf")]
    store = Store(tmp_path)
    assert carry_out(plan(Study.model_validate(document), "real"), store).failed == {}
    (run,) = stored_runs(store.study("baselines-real"))
    assert round(run.scores["korsts-test"]["cosine_spearman"], 4) == 0.6611
