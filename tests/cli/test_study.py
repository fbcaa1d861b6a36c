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
        (["order", "--set", "train.batchsize=8"], 2, "there is no key 'train.batchsize'; did you mean batch_size"),
        (["order", "--limit", "0"], 2, "limit"),
        (["order", "--keep", "one"], 2, "keep"),
        (["prune"], 2, "there is no store studies: name its directory with --store"),
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


@pytest.fixture
def published_format(tmp_path: Path) -> dict[str, Path]:
    """Files in the format of KorNLI and KorSTS, 30 and 24 rows."""
    labels = ("entailment", "neutral", "contradiction")
    words = ("비", "눈", "바람", "하늘", "아침", "사람", "남자", "여자", "아이", "고양이")
    nli = [f"{words[row // 3]}가 온다.\t{words[row % 7]} {words[row % 3]}.\t{labels[row % 3]}" for row in range(30)]
    sts = [
        f"main\tnews\t2012\t{row}\t{row % 6}.0\t{words[row % 10]}가 온다.\t{words[row % 7]} 간다." for row in range(24)
    ]
    files = {
        "nli": ["sentence1\tsentence2\tgold_label", *nli],
        "sts": ["genre\tfilename\tyear\tid\tscore\tsentence1\tsentence2", *sts],
        "test": ["genre\tfilename\tyear\tid\tscore\tsentence1\tsentence2", *sts[::-1]],
    }
    for name, lines in files.items():
        (tmp_path / f"{name}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return {name: tmp_path / f"{name}.tsv" for name in files}


def test_shortened_paper_preset_runs_from_start_to_report(call, tiny_bert, published_format, monkeypatch):
    """The published experiment on a tiny backbone and a few rows: every option that makes a study short."""
    monkeypatch.delenv("KOSBERT_DATA", raising=False)
    nli, sts = published_format["nli"], published_format["sts"]
    command = [
        "order", "--preset", "paper", "--limit", "8", "--backbone", tiny_bert, "--set", "train.batch_size=4",
        "--set", "max_length=32", "--set", "stages.sts.epochs=2", "--set", f"data.nli={nli}",
        "--set", "stages.nli.data.columns={label: gold_label}", "--set", f"data.sts={sts}", "--set", f"dev={sts}",
        "--set", f"test={published_format['test']}", "--keep", "best",
    ]  # fmt: skip
    code, out, _ = call(*command, "--json")
    summary = json.loads(out)
    assert (code, summary["limit"], summary["settings"][0]) == (0, 8, "train.batch_size=4")
    steps = {variant["name"]: variant["steps"] for variant in summary["variants"]}
    assert steps == {"STS": 4, "NLI": 2, "STS→NLI": 6, "NLI→STS": 6}  # 8 rows, two epochs of STS
    assert summary["eval_sets"][0]["scores"]["STS"]["seeds"] == [777]
    assert summary["eval_sets"][0]["pairs"] == 24  # the limit concerns training only
    page = Path(summary["report"])
    assert "This is a shortened run: at most 8 random rows" in page.read_text(encoding="utf-8")
    assert len(list(Path("studies/stages").glob("*/model"))) == 1
    (name,) = [path.name for path in Path("studies").glob("order-paper-*")]
    assert f"-limit-8-set-{name[-6:]}" in name

    code, out, _ = call("prune", "--keep", "none", "--dry-run", "--json")
    planned = json.loads(out)
    assert (code, len(planned["stages"]), planned["dry_run"]) == (0, 1, True)
    code, out, _ = call("prune", name, "--keep", "none")
    assert f"1 model deleted, {planned['bytes']:,} bytes" in " ".join(out.split())
    assert list(Path("studies/stages").glob("*/model")) == []
    code, out, _ = call("show", name, "--json")
    assert json.loads(out)["answer"] == summary["answer"]
    code, out, _ = call(*command, "--dry-run")
    assert "4 are already trained" in " ".join(out.split())

    call("publish", name, "public")
    for path in Path("public").rglob("*.*"):
        assert str(Path.cwd()) not in path.read_text(encoding="utf-8")


def test_study_is_refused_under_torchrun(call, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "4")
    code, out, err = call("order", "--preset", "paper")
    assert (code, out) == (2, "")
    assert "run `kosbert study order --preset paper --jobs 4` without torchrun" in " ".join(err.split())
