"""Deleting models: what is kept, what can still be done without them, and a kill in the middle."""

import copy
import shutil
import subprocess
import sys

import pytest

from kosbert.study import runner
from kosbert.study.config import StudyConfig
from kosbert.study.plan import plan_study
from kosbert.study.prune import delete_model, prune
from kosbert.study.run_study import run_study, stored_context
from kosbert.study.runner import is_trained, missing_stages
from kosbert.study.store import Store, read_json, stored_runs, write_json
from kosbert.study.summary import load_summary


@pytest.fixture
def store(finished, tmp_path) -> Store:
    """A copy of the finished study, which may be changed."""
    shutil.copytree(finished[0].root, tmp_path / "studies")
    return Store(tmp_path / "studies")


def models(store: Store) -> set[str]:
    return {path.parent.name for path in store.root.glob("stages/*/model")}


def best_stage(store: Store) -> str:
    """Return the last stage of the seed with the best dev score of the trained variant with the best mean."""
    dev = load_summary(store.study("tiny-quick")).dev_set
    means = {name: scores.spearman.mean for name, scores in dev.scores.items() if name != "no fine-tuning"}
    best = max(means, key=means.get)
    runs = [run for run in stored_runs(store.study("tiny-quick")) if run.variant == best]
    return max(runs, key=lambda run: run.scores[dev.name]["cosine_spearman"]).record["stages"][-1]["key"]


def test_best_keeps_one_model_and_reports_the_bytes(store):
    before = {path: path.stat().st_size for path in store.root.rglob("*") if path.is_file()}
    expected = models(store) - {best_stage(store)}
    assert len(expected) == 7
    planned = prune(store, "best", dry_run=True)
    assert (set(planned.stages), {path for path in store.root.rglob("*") if path.is_file()}) == (expected, set(before))
    assert prune(store, "best") == planned
    assert models(store) == {best_stage(store)}
    deleted = {path: size for path, size in before.items() if not path.exists()}
    assert planned.bytes == sum(deleted.values()) > 0
    assert {path.relative_to(store.root).parts[2] for path in deleted} == {"model"}  # everything else stays
    assert prune(store, "best").stages == []


def test_pruned_study_stays_finished_and_its_report_is_identical(study, store, monkeypatch):
    page = store.study("tiny-quick") / "report.html"
    before = page.read_text(encoding="utf-8")
    assert len(prune(store, "none").stages) == 8
    assert models(store) == set()
    monkeypatch.setattr(runner, "train_stage", None)
    _, _, outcome = run_study(study, "quick", store)
    assert (outcome.trained, outcome.failed) == (0, {})
    assert page.read_text(encoding="utf-8") == before


def test_deleted_model_that_another_study_needs_is_trained_again(document, store):
    prune(store, "none")
    other = copy.deepcopy(document) | {"name": "other", "variants": [{"name": "x", "stages": ["nli", "sts"]}]}
    other["presets"]["quick"]["seeds"] = 1
    _, _, outcome = run_study(StudyConfig.model_validate(other), "quick", store)
    assert (outcome.trained, outcome.reused, outcome.failed) == (2, 0, {})
    (run,) = stored_runs(store.study("other-quick"))
    assert run.scores == read_json(store.run("tiny-quick", "05-nli-sts-seed-1") / "scores.json")


def test_run_with_the_last_model_needs_no_other(study, store):
    run = next(run for run in plan_study(study, "quick").runs if run.variant == "NLI→STS")
    delete_model(store.stage(run.stages[0].key))
    assert not is_trained(run.stages[0], store)
    assert missing_stages(run, store) == []
    delete_model(store.stage(run.stages[1].key))
    assert missing_stages(run, store) == list(run.stages)


def test_models_of_other_studies_and_unfinished_runs_stay(document, study, store):
    other = copy.deepcopy(document) | {"name": "other", "variants": [{"name": "x", "stages": ["nli"]}]}
    run_study(StudyConfig.model_validate(other), "quick", store)
    nli = {stage.key for stage in plan_study(study, "quick").stages() if stage.label == "nli" and not stage.parent}
    shutil.rmtree(store.run("tiny-quick", "04-sts-nli-seed-2"))  # still to be scored
    plan = plan_study(study, "quick")
    unfinished = {stage.key for run in plan.runs if run.name == "04-sts-nli-seed-2" for stage in run.stages}
    prune(store, "none", "tiny-quick")
    assert models(store) == nli | unfinished
    shutil.rmtree(store.study("tiny-quick"))
    prune(store, "all")  # models that no study uses
    assert models(store) == nli


def test_without_a_report_the_best_model_is_unknown_and_all_stay(store):
    (store.study("tiny-quick") / "summary.json").unlink()
    assert prune(store, "best").stages == []


def test_keep_none_deletes_models_while_the_study_runs(document, finished, tmp_path, monkeypatch):
    reference, _, _ = finished
    store = Store(tmp_path / "studies")
    counts, train_stage = [], runner.train_stage

    def counted(*arguments):
        train_stage(*arguments)
        counts.append(len(models(store)))

    monkeypatch.setattr(runner, "train_stage", counted)
    study = StudyConfig.model_validate(document | {"variants": document["variants"][:3]})
    _, page, outcome = run_study(study, "quick", store, keep="none", seeds=3)
    assert outcome.failed == {}
    assert counts == [1, 2, 3, 3, 3, 3]  # one per trained variant, and the one in training
    assert models(store) == set()
    assert (page.parent / "map.json").is_file()
    runs = [run for run in stored_runs(store.study("tiny-quick")) if run.seed < 3]
    assert len(runs) == 5
    for run in runs:
        assert run.scores == read_json(reference.run("tiny-quick", run.directory.name) / "scores.json")


@pytest.mark.slow
def test_kill_while_a_model_is_deleted(study, store):
    """The process dies in the middle of the deletion: no half of a model counts, and the next call cleans up."""
    script = (
        "import os, shutil, sys\nfrom pathlib import Path\nfrom kosbert.study.prune import prune\n"
        "from kosbert.study.store import Store\n"
        "def killed(path, **_):\n"
        "    next(file for file in Path(path).rglob('*') if file.is_file()).unlink()\n"
        "    os._exit(9)\n"
        "shutil.rmtree = killed\n"
        "prune(Store(Path(sys.argv[1])), 'none')\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(store.root)], timeout=120)
    assert done.returncode == 9
    context = stored_context(store.study("tiny-quick"))
    untrained = [stage for stage in context.plan.stages() if not is_trained(stage, store)]
    assert len(untrained) == 1
    assert len(list(store.root.glob("stages/*/.model-*"))) == 1
    assert len(context.finished_runs()) == len(context.plan.runs)
    rest = prune(store, "none")
    assert len(rest.stages) == 7
    assert not list(store.root.glob("stages/*/.model-*"))


def test_study_json_of_an_earlier_version_is_read(store):
    path = store.study("tiny-quick") / "study.json"
    content = read_json(path)
    content = {key: content[key] for key in ("study", "preset", "seeds", "backbone_override")}
    write_json(path, content | {"runs": ["01-no-fine-tuning-seed-1"]})
    assert len(stored_context(path.parent).finished_runs()) == 9
    assert len(prune(store, "best").stages) == 7
