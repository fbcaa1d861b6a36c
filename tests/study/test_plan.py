"""What is trained once: a stage's hash holds everything that decides it, and nothing else."""

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kosbert.study.config import Study, laid_over
from kosbert.study.plan import fingerprint, plan


def keys(document, seeds=1):
    return {stage.key for stage in plan(Study.model_validate(document), "quick", seeds=seeds).stages()}


def test_four_orders_are_four_stages_and_not_six(study):
    planned = plan(study, "quick")
    assert len(planned.runs) == 1 + 4 * 2
    assert sum(len(run.stages) for run in planned.runs) == 6 * 2
    assert len(planned.stages()) == 4 * 2
    by_row = {run.row: run for run in planned.runs if run.seed == 1}
    assert by_row["NLI→STS"].stages[0] == by_row["NLI"].stages[0]
    assert by_row["STS→NLI"].stages[0] == by_row["STS"].stages[0]
    assert by_row["NLI→STS"].stages[1].start == by_row["NLI"].stages[0].key


def test_the_shipped_studies_share_stages():
    """The sample set is everybody's, so this is the plan that a user has."""
    order, pooling, concat = (plan(Study.named(name), "quick", seeds=1) for name in ("order", "pooling", "concat"))
    shared = {stage.key for stage in order.stages()} & {stage.key for stage in pooling.stages()}
    assert shared == {run.stages[0].key for run in pooling.runs if run.row == "STS, MEAN"}
    assert shared == {run.stages[0].key for run in order.runs if run.row == "STS"}
    again = {stage.key for stage in pooling.stages()} & {stage.key for stage in concat.stages()}
    assert again == {run.stages[0].key for run in concat.runs if run.row == "(u, v, |u-v|)"}


def test_more_seeds_keep_the_stages_that_are_there(document):
    assert keys(document, seeds=1) < keys(document, seeds=3)


def test_a_default_that_is_written_out_is_the_same_stage(document):
    written = laid_over(
        copy.deepcopy(document), {"recipe": {"pooling": "mean", "train": {"max_grad_norm": 1.0, "warmup": 0.1}}}
    )
    assert keys(written) == keys(document)
    renamed = copy.deepcopy(document) | {"name": "other", "question": "?"}
    assert keys(renamed) == keys(document)


CHANGES = {
    "pooling": st.sampled_from(["max", "cls"]),
    "max_length": st.integers(8, 31),
    "train": st.fixed_dictionaries({"lr": st.floats(1e-5, 9e-4), "batch_size": st.integers(5, 64)}),
}


@settings(max_examples=25, deadline=None)
@given(change=st.one_of([value.map(lambda v, k=name: {k: v}) for name, value in CHANGES.items()]))
def test_any_other_setting_is_another_stage(document, change):
    changed = copy.deepcopy(document)
    preset = changed["presets"]["quick"]
    preset["over"] = laid_over(preset["over"], change)
    assert not keys(changed) & keys(document)


def test_other_rows_are_another_stage(document, rows, tmp_path):
    changed = copy.deepcopy(document)
    other = tmp_path / "sts.tsv"
    other.write_text((rows / "sts.tsv").read_text(encoding="utf-8").replace("\t0.", "\t1.", 1), encoding="utf-8")
    changed["presets"]["quick"]["data"]["sts"] = str(other)
    assert not keys(changed) & keys(document)  # the tokenizer of the backbone has read them too


def test_a_plan_leaves_the_study_as_it_was(document):
    changed = copy.deepcopy(document)
    changed["stages"]["sts"]["data"] = {"rows": "sts"}
    made = Study.model_validate(changed)
    before = made.model_dump()
    plan(made, "quick", seeds=1)
    assert made.model_dump() == before


def test_other_rows_of_the_probe_are_another_run_of_the_same_stages(document, rows, tmp_path):
    changed = copy.deepcopy(document)
    other = tmp_path / "probe.tsv"
    changed["stages"]["nli"] |= {"loss": "softmax", "options": {"concatenation": "u,v"}}
    changed["presets"]["quick"]["probe"] = {"train": str(other), "test": str(other)}
    lines = (rows / "nli.tsv").read_text(encoding="utf-8").splitlines()
    found = []
    for kept in (lines, lines[:-1]):
        other.write_text("\n".join(kept), encoding="utf-8")
        fingerprint.cache_clear()
        found.append(next(run for run in plan(Study.model_validate(changed), "quick").runs if run.row == "NLI"))
    assert found[0].stages == found[1].stages
    assert found[0].identity != found[1].identity


def test_the_first_backbone_at_hand_is_taken(document, tiny_bert):
    changed = copy.deepcopy(document)
    changed["presets"]["quick"]["backbone"] = ["no/where", str(tiny_bert), {"text": "sts"}]
    assert plan(Study.model_validate(changed), "quick").backbone == str(tiny_bert)


@pytest.mark.parametrize("preset", ["quick", "real", "paper"])
def test_every_recipe_of_the_shipped_studies_is_one(preset, monkeypatch):
    """Without data or weights, which are elsewhere."""
    monkeypatch.setattr("kosbert.study.plan.fingerprint", lambda *_: {"rows": 1, "sha256": ""})
    monkeypatch.setattr("kosbert.study.plan._weights", lambda _: "")
    for name in ("order", "pooling", "concat", "simcse", "baselines", "compression"):
        planned = plan(Study.named(name), preset, seeds=1)
        assert len(planned.runs) == len(planned.rows)
