"""The hash of a stage covers everything that determines its result, and nothing else."""

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kosbert.study.config import StudyConfig
from kosbert.study.plan import data_checksum, plan_study
from kosbert.training.config import merge
from kosbert.training.recipe import Recipe


def stage_keys(document, seeds=1):
    return {stage.key for stage in plan_study(StudyConfig.model_validate(document), "quick", seeds=seeds).stages()}


def test_four_orders_need_four_stages_per_seed(study):
    plan = plan_study(study, "quick")
    assert len(plan.runs) == 1 + 4 * 2
    assert sum(len(run.stages) for run in plan.runs) == 6 * 2
    assert len(plan.stages()) == 4 * 2
    by_variant = {run.variant: run for run in plan.runs if run.seed == 1}
    assert by_variant["NLI→STS"].stages[0] == by_variant["NLI"].stages[0]
    assert by_variant["STS→NLI"].stages[0] == by_variant["STS"].stages[0]
    assert by_variant["NLI→STS"].stages[1].parent == by_variant["NLI"].stages[0].key


def test_builtin_studies_share_stages():
    order, pooling, concat = (
        plan_study(StudyConfig.builtin(name), "quick", seeds=1) for name in ("order", "pooling", "concat")
    )
    shared = {stage.key for stage in order.stages()} & {stage.key for stage in pooling.stages()}
    assert shared == {run.stages[0].key for run in pooling.runs if run.variant == "STS, MEAN"}
    assert shared == {run.stages[0].key for run in order.runs if run.variant == "STS"}
    shared = {stage.key for stage in pooling.stages()} & {stage.key for stage in concat.stages()}
    assert shared == {run.stages[0].key for run in concat.runs if run.variant == "(u, v, |u-v|)"}


def test_more_seeds_keep_existing_stages(document):
    assert stage_keys(document, seeds=1) < stage_keys(document, seeds=3)


def test_explicit_default_does_not_change_the_hash(document):
    defaults = {"recipe": {"pooling": "mean", "train": {"max_grad_norm": 1.0, "warmup": 0.1}}}
    assert stage_keys(merge(copy.deepcopy(document), defaults)) == stage_keys(document)
    renamed = copy.deepcopy(document) | {"name": "other", "question": "?"}
    assert stage_keys(renamed) == stage_keys(document)


CHANGES = {
    "pooling": st.sampled_from(["max", "cls"]),
    "max_length": st.integers(8, 31),
    "train": st.fixed_dictionaries({"lr": st.floats(1e-5, 9e-4), "batch_size": st.integers(5, 64)}),
}


@settings(max_examples=25, deadline=None)
@given(change=st.one_of([value.map(lambda v, k=name: {k: v}) for name, value in CHANGES.items()]))
def test_changed_setting_changes_the_hash(document, change):
    changed = copy.deepcopy(document)
    preset = changed["presets"]["quick"]
    preset["overrides"] = merge(preset["overrides"], change)
    assert not stage_keys(changed) & stage_keys(document)


def test_changed_rows_change_the_hash(document, data_files, tmp_path):
    changed = copy.deepcopy(document)
    path = tmp_path / "sts.tsv"
    path.write_text((data_files / "sts.tsv").read_text(encoding="utf-8").replace("\t0.", "\t1.", 1), encoding="utf-8")
    changed["presets"]["quick"]["data"]["sts"] = str(path)
    assert not stage_keys(changed) & stage_keys(document)  # the tokenizer of the backbone is trained on them too


def test_roles_of_excluded_rows_are_resolved(document, data_files):
    changed = copy.deepcopy(document)
    changed["stages"]["sts"]["data"] = {"rows": "sts", "exclude": "held-out"}
    changed["presets"]["quick"]["data"]["held-out"] = str(data_files / "dev.tsv")
    plan = plan_study(StudyConfig.model_validate(changed), "quick", seeds=1)
    run = next(run for run in plan.runs if run.variant == "STS")
    assert run.stages[0].recipe.stages[0].data[0].exclude == [str(data_files / "dev.tsv")]


def test_planning_leaves_the_config_unchanged(document):
    changed = copy.deepcopy(document)
    changed["stages"]["sts"]["data"] = {"rows": "sts"}
    study = StudyConfig.model_validate(changed)
    before = study.model_dump()
    plan_study(study, "quick", seeds=1)
    assert study.model_dump() == before


def test_changed_probe_rows_change_the_run_but_not_its_stages(document, data_files, tmp_path):
    changed = copy.deepcopy(document)
    path = tmp_path / "probe.tsv"
    changed["stages"]["nli"] |= {"loss": "softmax", "options": {"concatenation": "u,v"}}
    changed["presets"]["quick"]["probe"] = {"train": str(path), "test": str(path)}
    lines = (data_files / "nli.tsv").read_text(encoding="utf-8").splitlines()
    runs = []
    for kept in (lines, lines[:-1]):
        path.write_text("\n".join(kept), encoding="utf-8")
        data_checksum.cache_clear()
        plan = plan_study(StudyConfig.model_validate(changed), "quick")
        runs.append(next(run for run in plan.runs if run.variant == "NLI"))
    assert runs[0].stages == runs[1].stages
    assert runs[0].key != runs[1].key


def test_first_local_backbone_is_chosen(document, tiny_bert):
    changed = copy.deepcopy(document)
    changed["presets"]["quick"]["backbone"] = ["no/where", str(tiny_bert), {"text": "sts"}]
    assert plan_study(StudyConfig.model_validate(changed), "quick").backbone == str(tiny_bert)


@pytest.fixture
def _no_files(monkeypatch):
    """Replace the checksums, so that planning needs neither data nor weights."""
    monkeypatch.setattr("kosbert.study.plan.data_checksum", lambda *_: {"rows": 1, "sha256": ""})
    monkeypatch.setattr("kosbert.study.plan._model_checksum", lambda _: "")


@pytest.mark.usefixtures("_no_files")
@pytest.mark.parametrize("name", ["order", "pooling", "concat", "simcse", "baselines", "compression"])
def test_recipes_of_builtin_studies_are_valid(name):
    study = StudyConfig.builtin(name)
    for preset in study.presets:
        plan = plan_study(study, preset, seeds=1)
        assert len(plan.runs) == len(plan.variants) > 1


def paper_stages(name, preset="paper"):
    """Return the plan, and by variant the recipe, the stage and the arguments of every stage."""
    plan = plan_study(StudyConfig.builtin(name), preset)
    stages = {}
    for run in plan.runs:
        recipes = [stage.recipe for stage in run.stages]
        stages[run.variant] = [(r, r.stages[0], r.training_arguments(r.stages[0])) for r in recipes]
    return plan, stages


@pytest.mark.usefixtures("_no_files")
def test_paper_preset_of_order_has_the_published_settings():
    """As in the notebooks of dwhouse/ko-sbert-experiment."""
    plan, stages = paper_stages("order")
    assert (plan.backbone, plan.seeds) == ("klue/roberta-base", (777,))
    assert [run.name for run in plan.runs] == [
        "01-sts-seed-777", "02-nli-seed-777", "03-sts-nli-seed-777", "04-nli-sts-seed-777",
    ]  # fmt: skip
    assert len(plan.stages()) == 4
    for chain in stages.values():
        for recipe, stage, arguments in chain:
            assert (recipe.seed, recipe.pooling, recipe.max_length) == (777, "mean", 128)
            assert (recipe.dev, plan.preset.test) == (["korsts-dev"], ["korsts-test"])
            assert (arguments.lr, arguments.warmup, arguments.schedule) == (2e-5, 0.1, "linear")
            assert (arguments.weight_decay, arguments.max_grad_norm, arguments.evals_per_epoch) == (0.01, 1.0, 1)
            (source,) = stage.data
            if stage.loss == "cosine-similarity":
                assert (source.rows, stage.epochs, arguments.batch_size) == (["korsts-train"], 4, 16)
                assert not arguments.no_duplicates
            else:
                assert (stage.loss, stage.options) == ("multiple-negatives-ranking", {"temperature": 0.05})
                assert source.rows == ["kornli-snli-train", "kornli-multinli-train"]
                assert (source.triplets, source.both_directions, arguments.no_duplicates) == ("random", True, True)
                assert (stage.epochs, arguments.batch_size) == (1, 64)


ORDERS = {"STS": "sts", "NLI": "nli", "STS→NLI": "sts-nli", "NLI→STS": "nli-sts"}


@pytest.mark.usefixtures("_no_files")
@pytest.mark.parametrize("variant", ORDERS)
def test_recipes_of_the_four_orders_follow_the_paper_preset(variant):
    plan, stages = paper_stages("order")
    recipe = Recipe.load(ORDERS[variant])
    assert (recipe.backbone, recipe.test) == (plan.backbone, plan.preset.test)
    assert len(recipe.stages) == len(stages[variant])
    for stage, (planned, planned_stage, arguments) in zip(recipe.stages, stages[variant], strict=True):
        for name in ("pooling", "max_length", "seed", "dev"):
            assert getattr(recipe, name) == getattr(planned, name)
        assert recipe.training_arguments(stage) == arguments
        rows = [source.model_copy(update={"rows": recipe.references(source.rows)}) for source in stage.data]
        assert rows == planned_stage.data
        assert (stage.loss, stage.epochs) == (planned_stage.loss, planned_stage.epochs)


@pytest.mark.usefixtures("_no_files")
@pytest.mark.parametrize(("preset", "backbone"), [("paper", "klue/bert-base"), ("paper-roberta", "klue/roberta-base")])
def test_paper_presets_of_simcse_have_the_published_settings(preset, backbone):
    """As in the code of snumin44/SimCSE-KO, without its mistakes."""
    plan, stages = paper_stages("simcse", preset)
    assert (plan.backbone, plan.seeds, set(stages)) == (backbone, (42,), {"unsupervised", "supervised"})
    assert plan.preset.test == ["korsts-test", "klue-sts-dev"]
    for ((recipe, stage, arguments),) in stages.values():
        assert (recipe.seed, recipe.pooling, recipe.max_length) == (42, "cls", 64)
        assert (arguments.batch_size, arguments.lr, arguments.warmup) == (256, 5e-5, 0.0)
        assert (arguments.schedule, arguments.weight_decay) == ("constant", 0.01)
        assert arguments.max_grad_norm >= 1e9  # off
        assert (stage.epochs, stage.options) == (1, {"temperature": 0.05, "head": False})
    (_, supervised, arguments), (_, unsupervised, other) = (stages[name][0] for name in ("supervised", "unsupervised"))
    assert supervised.data[0].rows == ["kornli-multinli-train", "kornli-snli-train"]
    assert (supervised.data[0].triplets, unsupervised.data[0].rows) == ("last", ["korean-wiki-text"])
    assert (arguments.evals_per_epoch, other.evals_per_epoch) == (277_811 // 256 // 100 + 1, 1_000_000 // 256 // 100)
    assert {stage.recipe.dropout for stage in plan.stages()} == {0.1}
    text = " ".join(plan.preset.differences)
    assert all(word in text for word in ("T_max=1", "Pearson", "commas", "n/a", "float16", "Head"))
