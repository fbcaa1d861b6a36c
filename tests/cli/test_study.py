"""`kosbert study`: output, files and exit codes."""

import json
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
def study_file(tmp_path: Path, tiny_bert: Path) -> Path:
    rows = [f"비가 {'온다' if number % 2 else '간다'} {number}.\t눈이 온다.\t{number % 6}" for number in range(24)]
    (tmp_path / "sts.tsv").write_text("\n".join(["sentence1\tsentence2\tscore", *rows]), encoding="utf-8")
    sts = str(tmp_path / "sts.tsv")
    preset = {
        "description": "Generated data.",
        "seeds": 2,
        "backbone": str(tiny_bert),
        "data": {"sts": sts},
        "dev": sts,
        "test": sts,
        "overrides": {"train": {"batch_size": 4, "lr": 1e-3, "evals_per_epoch": 1}},
    }
    document = {
        "name": "tiny",
        "question": "Does training help?",
        "recipe": {"max_length": 32},
        "stages": {"sts": {"data": "sts", "loss": "cosine-similarity", "steps": 4}},
        "variants": [{"name": "no fine-tuning", "seeds": 1}, {"name": "STS", "stages": ["sts"]}],
        "presets": {"quick": preset},
    }
    path = tmp_path / "tiny.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


@pytest.fixture
def call(kosbert):
    return partial(kosbert, "study")


def test_dry_run_run_show_list_publish_and_rerun(call, study_file):
    code, out, _ = call("run", study_file, "--dry-run", "--json")
    plan = json.loads(out)
    assert code == 0
    assert [stage["label"] for stage in plan["stages"]] == ["sts", "sts"]
    assert plan["seconds"] > 0
    assert plan["stages"][0]["source"] == "timed steps"
    assert not Path("studies").exists()

    code, out, _ = call("run", study_file)
    assert code == 0
    assert "Does training help?" in out
    assert "Report: studies/tiny-quick/report.html" in out.replace("\\", "/")

    code, out, _ = call("show", "tiny", "--json")
    summary = json.loads(out)
    assert (code, summary["schema_version"], summary["seeds"], len(summary["eval_sets"])) == (0, 1, 2, 1)
    code, out, _ = call("list", "--json")
    assert json.loads(out)["studies"] == [
        {"name": "tiny-quick", "finished_runs": 3, "planned_runs": 3, "answer": summary["answer"]}
    ]
    assert summary["answer"].split()[0] in call("list")[1]
    assert summary["answer"][:20] in call("show", "tiny-quick")[1]

    code, out, _ = call("publish", "tiny-quick", "public")
    assert (code, out.strip().replace("\\", "/")) == (0, "Report: public/report.html")
    page = Path("public/report.md").read_text(encoding="utf-8")
    assert "Spearman on sts.tsv, 24 pairs" in page
    assert "눈이 온다" not in page
    assert str(Path.cwd()) not in page

    code, out, _ = call("rerun", "tiny", "02-sts-seed-2", "--json")
    assert (code, json.loads(out)["equal"]) == (0, True)
    code, out, _ = call("run", study_file, "--dry-run")
    assert (code, "2 are already trained" in " ".join(out.split())) == (0, True)

    scores = Path("studies/tiny-quick/runs/02-sts-seed-2/scores.json")
    stored = json.loads(scores.read_text(encoding="utf-8"))
    next(iter(stored.values()))["cosine_spearman"] = 0.5
    scores.write_text(json.dumps(stored), encoding="utf-8")
    code, out, err = call("rerun", "tiny", "02-sts-seed-2")
    assert (code, "The scores differ." in out) == (1, True)
    assert "kosbert: the scores differ: compare `provenance`" in err


def test_efficiency_study_is_shown_and_listed_but_has_no_runs_to_rerun(call, tiny_bert):
    assert call("efficiency", "--model", tiny_bert, "--rounds", "1")[0] == 0
    code, out, _ = call("show", "efficiency")
    assert (code, "smart batching, cpu" in out, "Report: " in out) == (0, True, True)
    assert "efficiency-quick" in call("list")[1]
    code, _, err = call("rerun", "efficiency", "x")
    assert (code, "has no training runs" in " ".join(err.split())) == (2, True)


def test_schema_describes_both_kinds_of_summary(call):
    code, out, _ = call("schema")
    assert code == 0
    assert {"StudySummary", "EfficiencySummary"} <= set(json.loads(out)["$defs"])


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
def test_usage_error_is_one_sentence(call, arguments, code, message):
    exit_code, out, err = call(*arguments)
    assert exit_code == code
    assert message in " ".join(err.split())
    assert "Traceback" not in err
    assert out == ""


def test_failed_run_is_reported_with_exit_code_1(call, study_file):
    document = yaml.safe_load(study_file.read_text(encoding="utf-8"))
    document["variants"].append(
        {"name": "diverging", "stages": ["sts"], "overrides": {"train": {"lr": 1e30, "warmup": 0}}}
    )
    study_file.write_text(yaml.safe_dump(document), encoding="utf-8")
    code, out, err = call("run", study_file, "--seeds", "1", "--json")
    assert code == 1
    assert [variant["name"] for variant in json.loads(out)["variants"] if variant["failed"]] == ["diverging"]
    assert "failed: 03-diverging-seed-1: stage cosine-similarity: " in err
    assert "kosbert: 1 runs failed, the others are in the report" in err


def test_help_does_not_import_torch():
    script = (
        "import sys; import kosbert.cli; print([n for n in ('torch', 'matplotlib', 'sklearn') if n in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, encoding="utf-8", check=True, timeout=120
    )
    assert done.stdout.strip() == "[]"


def test_list_of_an_empty_store(call):
    assert "There are no studies in studies yet. Run one: kosbert study order" in call("list")[1]


@pytest.mark.real_data
def test_tfidf_reaches_known_score_on_korsts(tmp_path):
    from kosbert.study.config import StudyConfig
    from kosbert.study.plan import plan_study
    from kosbert.study.runner import execute
    from kosbert.study.store import Store, StudyContext, stored_runs

    document = StudyConfig.builtin("baselines").model_dump()
    document["variants"] = [variant for variant in document["variants"] if variant["encoder"].startswith("tfidf")]
    store = Store(tmp_path)
    plan = plan_study(StudyConfig.model_validate(document), "real")
    assert execute(StudyContext(plan, store)).failed == {}
    (run,) = stored_runs(store.study("baselines-real"))
    assert round(run.scores["korsts-test"]["cosine_spearman"], 4) == 0.6611
