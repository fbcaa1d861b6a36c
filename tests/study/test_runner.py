"""Execution: stages are trained once, failures stay isolated, processes, time budget, reproduction."""

import copy
import shutil
import subprocess
import sys

import psutil
import pytest
import torch

from kosbert.errors import UsageError
from kosbert.model.directory import directory_checksum
from kosbert.study import runner
from kosbert.study.analysis import embedding_map
from kosbert.study.config import StudyConfig
from kosbert.study.estimate import estimate_stages
from kosbert.study.plan import plan_study
from kosbert.study.run_study import reproduce, run_study
from kosbert.study.runner import execute, train_stage
from kosbert.study.store import Store, StudyContext, read_json, stored_runs


def one_seed(document, **changes):
    changed = copy.deepcopy(document) | changes
    changed["presets"]["quick"]["seeds"] = 1
    return StudyConfig.model_validate(changed)


def context_of(study, store, **options):
    return StudyContext(plan_study(study, "quick", **options), store)


def test_finished_study_trains_nothing(study, finished, monkeypatch):
    store, summary, _ = finished
    monkeypatch.setattr(runner, "train_stage", None)
    monkeypatch.setattr(runner, "_score", None)
    outcome = execute(context_of(study, store))
    assert (outcome.failed, outcome.not_started, outcome.trained) == ({}, [], 0)
    assert (summary.stages.distinct, summary.stages.total) == (8, 12)


def test_another_study_reuses_trained_stages(document, finished, monkeypatch):
    store, _, _ = finished
    other = one_seed(document, name="other", variants=[{"name": "NLI then STS", "stages": ["nli", "sts"]}])
    monkeypatch.setattr(runner, "train_stage", None)
    outcome = execute(context_of(other, store))
    assert (outcome.trained, outcome.reused, outcome.failed) == (0, 2, {})


def test_progress_counts_runs_at_level_0_and_steps_at_level_1(document, tmp_path):
    study = one_seed(document, variants=[{"name": "no fine-tuning", "seeds": 1}, {"name": "STS", "stages": ["sts"]}])
    events = []
    run_study(study, "quick", Store(tmp_path / "studies"), on_progress=events.append)
    runs = [event for event in events if event.level == 0]
    assert {event.task for event in runs} == {"study tiny-quick"}
    assert [(event.done, event.total) for event in runs] == [(0, 2), (1, 2), (2, 2)]
    steps = [event for event in events if event.level == 1]
    assert {event.task for event in steps} == {"STS, seed 1: stage sts"}
    assert steps[-1].done == steps[-1].total == 10


def test_failed_run_is_isolated_and_retried(document, tmp_path, monkeypatch):
    study, store = one_seed(document), Store(tmp_path / "studies")

    def fail(stage, *arguments):
        if stage.label == "nli" and not stage.parent:
            raise MemoryError("no room <here>")
        train_stage(stage, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(runner, "train_stage", fail)
        summary, page, outcome = run_study(study, "quick", store)
    assert set(outcome.failed) == {"03-nli-seed-1", "05-nli-sts-seed-1"}
    assert outcome.failed["03-nli-seed-1"] == "MemoryError: no room <here>"
    text = page.read_text(encoding="utf-8")
    assert "03-nli-seed-1 failed: MemoryError: no room &lt;here&gt;" in text
    assert [variant.name for variant in summary.variants if variant.failed] == ["NLI", "NLI→STS"]
    assert len(stored_runs(store.study("tiny-quick"))) == 3
    summary, _, outcome = run_study(study, "quick", store)
    assert (outcome.failed, summary.failed_runs) == ({}, {})
    assert len(stored_runs(store.study("tiny-quick"))) == 5


def test_no_stage_starts_after_the_time_budget(document, tmp_path):
    store = Store(tmp_path / "studies")
    summary, page, outcome = run_study(one_seed(document), "quick", store, time_budget=1e-9)
    assert outcome.not_started == ["02-sts-seed-1", "03-nli-seed-1", "04-sts-nli-seed-1", "05-nli-sts-seed-1"]
    assert "time budget used up" in page.read_text(encoding="utf-8")
    assert [run.variant for run in stored_runs(store.study("tiny-quick"))] == ["no fine-tuning"]
    assert summary.answer.startswith("no fine-tuning reaches ")


def test_stage_known_to_exceed_the_budget_does_not_start(study, finished):
    store, _, _ = finished
    budget = runner._TimeBudget(3600.0, store)
    stage = plan_study(study, "quick").stages()[0]
    assert budget.allows(stage)
    budget.measured[stage.cost_key] = 7200.0
    assert not budget.allows(stage)


@pytest.mark.slow
def test_two_processes_give_the_same_scores(document, finished, tmp_path):
    reference, _, _ = finished
    variants = [
        {"name": "no fine-tuning", "seeds": 1},
        {"name": "STS", "stages": ["sts"]},
        {"name": "NLI", "stages": ["nli"]},
    ]
    store = Store(tmp_path / "studies")
    scored = []
    context = context_of(one_seed(document, variants=variants), store)
    outcome = execute(context, jobs=2, on_run_scored=lambda: scored.append(len(context.finished_runs())))
    assert outcome.failed == {}
    assert len(scored) == scored[-1] == 3  # called once per run, after its scores are written
    assert len(stored_runs(store.study("tiny-quick"))) == 3
    for run in stored_runs(store.study("tiny-quick")):
        assert run.scores == read_json(reference.run("tiny-quick", run.directory.name) / "scores.json")


def test_reproduced_run_has_identical_scores(finished):
    store, _, _ = finished
    result = reproduce(store.find("tiny"), "04-sts-nli-seed-1")
    assert result.equal
    assert result.before == result.after


def test_estimate_uses_finished_stages_or_timed_steps(study, finished, tmp_path):
    store, _, _ = finished
    from_store = estimate_stages(context_of(study, store))
    assert len(from_store) == 8
    assert all(item.trained and item.seconds == 0 and item.source == "a finished stage" for item in from_store)
    timed = estimate_stages(context_of(study, Store(tmp_path)))
    assert not any(item.trained for item in timed)
    assert all(item.seconds > 0 and item.source == "timed steps" for item in timed)
    assert [item.steps for item in timed] == [item.steps for item in from_store]


def test_threads_are_divided_among_processes(monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    before = torch.get_num_threads()
    with runner.limited_threads(4):
        assert torch.get_num_threads() == 2
    assert torch.get_num_threads() == before
    with runner.limited_threads(1):
        assert torch.get_num_threads() == before


def test_dropout_of_the_recipe_is_set_in_the_backbone(document, tiny_bert, tmp_path):
    changed = copy.deepcopy(document)
    changed["presets"]["quick"] |= {"backbone": str(tiny_bert), "seeds": 1}
    changed["recipe"] |= {"dropout": 0.3}
    changed["stages"] = {"simcse": {"data": "sts", "loss": "simcse", "steps": 2}}
    changed["variants"] = [{"name": "SimCSE", "stages": ["simcse"]}]
    context = context_of(StudyConfig.model_validate(changed), Store(tmp_path / "studies"))
    assert [item.steps for item in estimate_stages(context)] == [2]  # SimCSE refuses a backbone without dropout
    assert execute(context).failed == {}
    config = read_json(context.store.stage(context.plan.stages()[0].key) / "model" / "config.json")
    assert (config["hidden_dropout_prob"], config["attention_probs_dropout_prob"]) == (0.3, 0.3)


def test_store_allows_one_study_at_a_time(study, finished):
    store, _, _ = finished
    with store.lock(), pytest.raises(UsageError, match="another study is running in .*: wait for it"):
        run_study(study, "quick", Store(store.root))
    assert run_study(study, "quick", store)[2].trained == 0  # the lock is released


@pytest.mark.slow
def test_worker_exits_with_its_parent():
    script = (
        "from concurrent.futures import wait\nimport time\nfrom kosbert.study.workers import process_pool\n"
        "if __name__ == '__main__':\n"
        "    pool = process_pool(1)\n"
        "    print(pool.submit(__import__('os').getpid).result(), flush=True)\n"
        "    wait([pool.submit(time.sleep, 600)])\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, encoding="utf-8")
    worker = psutil.Process(int(parent.stdout.readline()))
    parent.kill()
    parent.wait()
    assert psutil.wait_procs([worker], timeout=60)[1] == []


def test_embedding_map_uses_a_finished_seed(document, tmp_path):
    context = context_of(one_seed(document), Store(tmp_path / "studies"), seeds=2)
    execute(context)
    first = next(run for run in context.plan.runs if run.variant == "STS" and run.seed == 1)
    shutil.rmtree(context.store.run(context.plan.name, first.name))
    shutil.rmtree(context.store.stage(first.stages[0].key))
    assert embedding_map(context, "STS").panels[1].title == "after STS, seed 2"


def test_backbone_override_has_its_own_directory_and_can_be_reproduced(document, tiny_bert, tmp_path):
    variants = [{"name": "no fine-tuning", "seeds": 1}]
    store = Store(tmp_path / "studies")
    run_study(one_seed(document, variants=variants), "quick", store)
    summary, page, _ = run_study(one_seed(document, variants=variants), "quick", store, backbone=str(tiny_bert))
    assert summary.backbone == str(tiny_bert)
    assert summary.provenance.backbone == {"name": str(tiny_bert), "sha256": directory_checksum(tiny_bert)}
    assert f"--backbone {tiny_bert}" in summary.command
    assert "is not available" not in page.read_text(encoding="utf-8")
    default, override = store.names()
    assert default == "tiny-quick"
    assert page.parent.name == override
    assert reproduce(store.study(override), "01-no-fine-tuning-seed-1").equal


def test_unknown_run_cannot_be_reproduced(finished):
    store, _, _ = finished
    with pytest.raises(UsageError, match="has no run '02-stss-seed-1': did you mean 02-sts-seed-1"):
        reproduce(store.find("tiny"), "02-stss-seed-1")


def test_baselines_and_compressed_variants(document, tiny_bert, tmp_path, monkeypatch):
    """An encoder without training, a cross-encoder, compressed embeddings, and a distilled student with one layer."""
    monkeypatch.setenv("KOSBERT_CACHE", str(tmp_path / "cache"))
    changed = copy.deepcopy(document)
    changed["presets"]["quick"] |= {"backbone": str(tiny_bert), "seeds": 1}
    one_layer = {"backbone": {"from": "backbone", "layers": 1}}
    distill = {"loss": "distillation", "data": [{"rows": "sts", "teacher": "backbone"}], "steps": 3}
    changed["stages"] = {"distill": distill}
    changed["presets"]["quick"]["data"] |= {"text": changed["presets"]["quick"]["data"]["sts"]}
    changed["variants"] = [
        {"name": "random words", "encoder": "random-words"},
        {"name": "full model"},
        {"name": "8 dimensions", "compress": {"truncate_dim": 8}},
        {"name": "PCA to 8", "compress": {"pca": 8}},
        {"name": "binary", "compress": {"precision": "binary"}},
        {"name": "one layer", "overrides": one_layer},
        {"name": "one layer, distilled", "stages": ["distill"], "overrides": one_layer},
        {"name": "cross-encoder", "cross_encoder": {"rows": "sts", "epochs": 0.1, "batch_size": 4}},
    ]
    store = Store(tmp_path / "studies")
    summary, page, outcome = run_study(StudyConfig.model_validate(changed), "quick", store)
    assert outcome.failed == {}
    assert {variant.name: variant.bytes_per_vector for variant in summary.variants} == {
        "random words": 1024, "full model": 128, "8 dimensions": 32, "PCA to 8": 32, "binary": 4, "one layer": 128,
        "one layer, distilled": 128, "cross-encoder": None,
    }  # fmt: skip
    assert len(summary.eval_sets[0].scores) == 8
    assert summary.variants[-1].stages == ["cross-encoder"]
    assert "bytes per vector" in page.read_text(encoding="utf-8")
    (stage,) = plan_study(StudyConfig.model_validate(changed), "quick").stages()
    assert f"teacher {tiny_bert}" in stage.data
    assert read_json(store.stage(stage.key) / "model" / "config.json")["num_hidden_layers"] == 1
