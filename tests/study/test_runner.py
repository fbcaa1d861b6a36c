"""Training once, going on, failing alone, several processes, a budget."""

import copy
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest
import torch
from safetensors.torch import load_file

from kosbert.errors import UsageError
from kosbert.model.torch_loading import load_torch
from kosbert.study import runner
from kosbert.study.analysis import sentence_map
from kosbert.study.config import Study
from kosbert.study.estimate import estimates
from kosbert.study.plan import plan
from kosbert.study.run_study import again, conduct
from kosbert.study.runner import carry_out, train_stage
from kosbert.study.store import Store, read_json, stored_runs


def one_seed(document, **changes):
    small = copy.deepcopy(document) | changes
    small["presets"]["quick"]["seeds"] = 1
    return Study.model_validate(small)


def test_a_finished_study_trains_nothing(study, finished, monkeypatch):
    store, found, _ = finished
    monkeypatch.setattr(runner, "train_stage", None)
    monkeypatch.setattr(runner, "_score", None)
    outcome = carry_out(plan(study, "quick"), store)
    assert (outcome.failed, outcome.not_reached, outcome.trained) == ({}, [], 0)
    assert found["stages"] == {"distinct": 8, "in_chains": 12}


def test_another_study_reuses_what_is_there(document, finished, monkeypatch):
    store, _, _ = finished
    other = one_seed(document, name="other", rows=[{"name": "NLI then STS", "stages": ["nli", "sts"]}])
    monkeypatch.setattr(runner, "train_stage", None)
    outcome = carry_out(plan(other, "quick"), store)
    assert (outcome.trained, outcome.reused, outcome.failed) == (0, 2, {})


def test_one_failure_stops_no_other_and_is_tried_again(document, tmp_path, monkeypatch):
    study, store = one_seed(document), Store(tmp_path / "studies")

    def fail(stage, *arguments):
        if stage.label == "nli" and not stage.start:
            raise MemoryError("no room <here>")
        train_stage(stage, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(runner, "train_stage", fail)
        found, page, outcome = conduct(study, "quick", store)
    assert set(outcome.failed) == {"03-nli-seed-1", "05-nli-sts-seed-1"}
    assert outcome.failed["03-nli-seed-1"] == "MemoryError: no room <here>"
    text = page.read_text(encoding="utf-8")
    assert "03-nli-seed-1 failed: MemoryError: no room &lt;here&gt;" in text
    assert found["failed_rows"] == ["NLI", "NLI→STS"]
    assert len(stored_runs(store.study("tiny-quick"))) == 3
    found, _, outcome = conduct(study, "quick", store)
    assert (outcome.failed, found["failed"]) == ({}, {})
    assert len(stored_runs(store.study("tiny-quick"))) == 5


def test_when_the_time_is_up_nothing_more_is_begun(document, tmp_path):
    store = Store(tmp_path / "studies")
    found, page, outcome = conduct(one_seed(document), "quick", store, time_budget=1e-9)
    assert outcome.not_reached == ["02-sts-seed-1", "03-nli-seed-1", "04-sts-nli-seed-1", "05-nli-sts-seed-1"]
    assert "the time was up" in page.read_text(encoding="utf-8")
    assert [each.row for each in stored_runs(store.study("tiny-quick"))] == ["untouched"]
    assert found["answer"].startswith("untouched reaches ")


def test_a_known_stage_that_would_take_too_long_is_not_begun(study, finished, monkeypatch):
    store, _, _ = finished
    clock = runner._Clock(3600.0, store)
    stage = plan(study, "quick").stages()[0]
    assert clock.allows(stage)
    clock.known[stage.kind] = 7200.0
    assert not clock.allows(stage)


def test_two_processes_give_the_same_scores(document, finished, tmp_path):
    store, _, _ = finished
    rows = [{"name": "untouched", "seeds": 1}, {"name": "STS", "stages": ["sts"]}, {"name": "NLI", "stages": ["nli"]}]
    study = one_seed(document, rows=rows)
    other = Store(tmp_path / "studies")
    outcome = carry_out(plan(study, "quick"), other, jobs=2)
    assert outcome.failed == {}
    for run in stored_runs(other.study("tiny-quick")):
        assert run.scores == read_json(store.run("tiny-quick", run.folder.name) / "scores.json")


def test_again_gives_the_same(finished):
    store, _, _ = finished
    found = again(store.find("tiny"), "04-sts-nli-seed-1")
    assert found["equal"]
    assert found["before"] == found["after"]


def test_an_estimate_says_where_it_is_from(study, finished, tmp_path):
    store, _, _ = finished
    planned = plan(study, "quick")
    known = estimates(planned, store)
    assert len(known) == 8
    assert all(each.trained and each.seconds == 0 and each.known_from == "a finished stage" for each in known)
    new = estimates(planned, Store(tmp_path))
    assert not any(each.trained for each in new)
    assert all(each.seconds > 0 and each.known_from.endswith(" timed steps") for each in new)
    assert [each.steps for each in new] == [each.steps for each in known]


def test_with_several_jobs_a_step_is_timed_with_a_share_of_the_processors(monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    before = torch.get_num_threads()
    with runner.shared_processors(4):
        assert torch.get_num_threads() == 2
    assert torch.get_num_threads() == before
    with runner.shared_processors(1):
        assert torch.get_num_threads() == before


def test_dropout_is_set_in_a_copy(document, tiny_bert, tmp_path):
    changed = copy.deepcopy(document)
    changed["presets"]["quick"] |= {"backbone": str(tiny_bert), "seeds": 1}
    changed["recipe"] |= {"dropout": 0.3}
    changed["stages"] = {"simcse": {"data": "sts", "loss": "simcse", "steps": 2}}
    changed["rows"] = [{"name": "SimCSE", "stages": ["simcse"]}]
    store = Store(tmp_path / "studies")
    planned = plan(Study.model_validate(changed), "quick")
    assert [each.steps for each in estimates(planned, store)] == [2]  # SimCSE refuses a backbone that drops nothing
    assert carry_out(planned, store).failed == {}
    config = read_json(store.stage(planned.stages()[0].key) / "model" / "config.json")
    assert (config["hidden_dropout_prob"], config["attention_probs_dropout_prob"]) == (0.3, 0.3)


def test_backbones_of_one_name_are_not_confused(tiny_bert, tmp_path):
    other = load_torch(tiny_bert)
    with torch.no_grad():
        next(other.sentence_transformer.parameters()).add_(1.0)
    store = Store(tmp_path / "studies")
    copies = [
        runner._with_dropout(str(each), 0.3, store) for each in (tiny_bert, other.save(tmp_path / "b" / tiny_bert.name))
    ]
    weights = [load_file(each / "model.safetensors") for each in copies]
    assert any(not torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_processes_that_begin_together_make_one_copy(tiny_bert, tmp_path):
    store = Store(tmp_path / "studies")
    with ThreadPoolExecutor(8) as pool:
        (copy_of,) = set(pool.map(lambda _: runner._with_dropout(str(tiny_bert), 0.3, store), range(8)))
    assert load_torch(copy_of).dim == load_torch(tiny_bert).dim


def test_two_studies_do_not_work_in_one_store(study, finished):
    store, _, _ = finished
    with store.alone(), pytest.raises(UsageError, match="another study works in .*: wait for it"):
        conduct(study, "quick", Store(store.root))
    assert conduct(study, "quick", store)[2].trained == 0  # and afterwards it is free


def test_a_worker_ends_with_the_process_that_it_works_for():
    script = (
        "from concurrent.futures import wait\nimport time\nfrom kosbert.study.runner import _pool\n"
        "if __name__ == '__main__':\n"
        "    pool = _pool(1)\n"
        "    print(pool.submit(__import__('os').getpid).result(), flush=True)\n"
        "    wait([pool.submit(time.sleep, 600)])\n"
    )
    boss = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, encoding="utf-8")
    worker = psutil.Process(int(boss.stdout.readline()))
    boss.kill()
    boss.wait()
    assert psutil.wait_procs([worker], timeout=60)[1] == []


def test_the_map_is_of_a_seed_that_is_there(document, tmp_path):
    planned = plan(one_seed(document), "quick", seeds=2)
    store = Store(tmp_path / "studies")
    carry_out(planned, store)
    first = next(run for run in planned.runs if run.row == "STS" and run.seed == 1)
    shutil.rmtree(store.run(planned.name, first.name))
    shutil.rmtree(store.stage(first.stages[0].key))
    found = sentence_map(planned, "STS", store, None)
    assert found["panels"][1]["title"] == "after STS, seed 2"


def test_another_backbone_has_a_folder_of_its_own_and_is_found_again(document, tiny_bert, tmp_path):
    rows = [{"name": "untouched", "seeds": 1}]
    store = Store(tmp_path / "studies")
    conduct(one_seed(document, rows=rows), "quick", store)
    found, page, _ = conduct(one_seed(document, rows=rows), "quick", store, backbone=str(tiny_bert))
    assert found["backbone"] == str(tiny_bert)
    assert f"--backbone {tiny_bert}" in found["command"]
    assert "is not here" not in page.read_text(encoding="utf-8")
    own, other = store.names()
    assert own == "tiny-quick"
    assert page.parent.name == other
    assert again(store.study(other), "01-untouched-seed-1")["equal"]


def test_a_run_that_is_not_there_cannot_be_done_again(finished):
    store, _, _ = finished
    with pytest.raises(UsageError, match="has no run '02-stss-seed-1': did you mean 02-sts-seed-1"):
        again(store.find("tiny"), "02-stss-seed-1")


def test_what_is_not_trained_and_what_is_smaller(document, tiny_bert, tmp_path, monkeypatch):
    """Rows of `baselines` and `compression`: an encoder, a cross-encoder, shorter vectors, a student with one layer."""
    monkeypatch.setenv("KOSBERT_CACHE", str(tmp_path / "cache"))
    changed = copy.deepcopy(document)
    changed["presets"]["quick"] |= {"backbone": str(tiny_bert), "seeds": 1}
    one_layer = {"backbone": {"from": "backbone", "layers": 1}}
    distill = {"loss": "distillation", "data": [{"rows": "sts", "teacher": "backbone"}], "steps": 3}
    changed["stages"] = {"distill": distill}
    changed["presets"]["quick"]["data"] |= {"text": changed["presets"]["quick"]["data"]["sts"]}
    changed["rows"] = [
        {"name": "random words", "encoder": "random-words"},
        {"name": "whole"},
        {"name": "8 dimensions", "vectors": {"dim": 8}},
        {"name": "8 main axes", "vectors": {"pca": 8}},
        {"name": "bits", "vectors": {"kind": "binary"}},
        {"name": "one layer", "over": one_layer},
        {"name": "one layer, taught", "stages": ["distill"], "over": one_layer},
        {"name": "cross-encoder", "cross_encoder": {"rows": "sts", "epochs": 0.1, "batch_size": 4}},
    ]
    store = Store(tmp_path / "studies")
    found, page, outcome = conduct(Study.model_validate(changed), "quick", store)
    assert outcome.failed == {}
    assert found["bytes"] == {
        "random words": 1024, "whole": 128, "8 dimensions": 32, "8 main axes": 32, "bits": 4, "one layer": 128,
        "one layer, taught": 128,
    }  # fmt: skip
    assert len(found["sets"][0]["rows"]) == 8
    assert "bytes a vector" in page.read_text(encoding="utf-8")
    (stage,) = plan(Study.model_validate(changed), "quick").stages()
    assert f"teacher {tiny_bert}" in stage.data
    assert read_json(store.stage(stage.key) / "model" / "config.json")["num_hidden_layers"] == 1
