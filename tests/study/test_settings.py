"""`--set` and `--limit`: recipe keys for every variant, checked before anything is read."""

import copy
from collections.abc import Sequence

import pytest

from kosbert.errors import UsageError
from kosbert.study.config import StudyConfig
from kosbert.study.plan import plan_study
from kosbert.study.settings import parse_settings
from kosbert.study.summarize import study_command


def recipes(document, settings: Sequence[str] = (), **options):
    """Return the recipe of every stage by variant and label."""
    plan = plan_study(StudyConfig.model_validate(document), "quick", seeds=1, settings=settings, **options)
    return {(run.variant, stage.label): stage.recipe for run in plan.runs for stage in run.stages}


def test_setting_applies_to_every_stage_of_every_variant(document):
    changed = copy.deepcopy(document)
    changed["stages"]["nli"]["train"] = {"batch_size": 16, "lr": 1e-4}  # of the study: --set wins
    for (_, label), recipe in recipes(changed, ["train.batch_size=2", "max_length=16", "pooling=cls"]).items():
        assert (recipe.max_length, recipe.pooling) == (16, "cls")
        arguments = recipe.training_arguments(recipe.stages[0])
        assert (arguments.batch_size, arguments.lr) == (2, 1e-4 if label == "nli" else 1e-3)


def test_setting_of_one_stage_leaves_the_others(document):
    settings = ["stages.nli.steps=3", "stages.nli.data.triplets=last", "stages.nli.options.temperature=0.1"]
    for (_, label), recipe in recipes(document, settings).items():
        (stage,) = recipe.stages
        assert (stage.epochs, stage.steps) == ((None, 3) if label == "nli" else (1.0, None))
        assert stage.data[0].triplets == ("last" if label == "nli" else "all")
        assert stage.options == ({"temperature": 0.1} if label == "nli" else {})


def test_roles_dev_and_test_sets_can_be_changed(document, data_files, tmp_path):
    paths = {}
    for name, split in (("nli", "nli"), ("dev", "test"), ("test", "dev")):
        paths[name] = tmp_path / f"my-{name}.tsv"
        paths[name].write_text((data_files / f"{split}.tsv").read_text(encoding="utf-8"), encoding="utf-8")
    settings = [f"data.nli={paths['nli']}", f"dev={paths['dev']}", f"test=[{paths['test']}]"]
    plan = plan_study(StudyConfig.model_validate(document), "quick", settings=settings)
    run = next(run for run in plan.runs if run.variant == "NLI")
    assert run.stages[0].recipe.stages[0].data[0].rows == [str(paths["nli"])]
    assert (run.dev, run.test) == ((str(paths["dev"]),), (str(paths["test"]),))
    assert plan.preset.data["sts"] == [str(data_files / "sts.tsv")]


def test_variant_keeps_what_defines_it(document):
    changed = copy.deepcopy(document)
    changed["variants"] = [
        {"name": "32", "stages": ["sts"]},
        {"name": "16", "stages": ["sts"], "overrides": {"max_length": 16}},
    ]
    result = recipes(changed, ["max_length=24"])
    assert [recipe.max_length for recipe in result.values()] == [24, 16]
    changed["variants"][0]["overrides"] = {"max_length": 32}
    with pytest.raises(UsageError, match="--set max_length: the variants of tiny differ in it, so drop this setting"):
        recipes(changed, ["max_length=24"])


def test_limit_samples_every_training_source(document):
    changed = copy.deepcopy(document)
    changed["stages"]["sts"]["data"] = [{"rows": "sts", "limit": 5}, {"rows": "sts"}]
    limits = {label: [source.limit for source in recipe.stages[0].data] for (_, label), recipe in recipes(
        changed, limit=8).items()}  # fmt: skip
    assert limits == {"nli": [8], "sts": [5, 8]}


def test_limit_covers_cross_encoders_and_pca(document, tiny_bert):
    changed = copy.deepcopy(document)
    changed["presets"]["quick"] |= {"backbone": str(tiny_bert)}
    changed["presets"]["quick"]["data"]["text"] = changed["presets"]["quick"]["data"]["sts"]
    changed["variants"] = [
        {"name": "cross-encoder", "cross_encoder": {"rows": "sts", "epochs": 1}},
        {"name": "PCA", "compress": {"pca": 16}},
    ]
    cross_encoder, pca = plan_study(StudyConfig.model_validate(changed), "quick", seeds=1, limit=8).runs
    assert cross_encoder.cross_encoder["limit"] == 8
    assert pca.compress["limit"] == 16  # an axis needs a sentence


def test_changed_study_has_its_own_directory_and_the_full_command(document):
    study = StudyConfig.model_validate(document)
    plans = [
        plan_study(study, "quick", seeds=1, **options)
        for options in (
            {},
            {"limit": 8},
            {"settings": ["train.lr=1e-4"]},
            {"settings": ["train.lr=2e-4"]},
            {"limit": 8, "settings": ["train.lr=2e-4"]},
        )
    ]
    names = [plan.name for plan in plans]
    assert len(set(names)) == 5
    assert names[:2] == ["tiny-quick", "tiny-quick-limit-8"]
    assert names[4].startswith("tiny-quick-limit-8-set-")
    keys = [{stage.key for stage in plan.stages()} for plan in plans]
    assert all(not keys[a] & keys[b] for a in range(5) for b in range(a))
    assert study_command(plans[4]).endswith("--preset quick --seeds 1 --set train.lr=2e-4 --limit 8")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("trian.lr=1", "--set trian.lr: there is no key 'trian'; did you mean train"),
        ("train.lrr=1", "there is no key 'train.lrr'; did you mean lr"),
        ("stages.nil.epochs=1", "there is no key 'stages.nil'; did you mean nli"),
        ("stages.0.epochs=1", "there is no key 'stages.0'; did you mean nli or sts"),
        ("stages.nli.epoch=1", "there is no key 'stages.nli.epoch'; did you mean epochs"),
        ("stages.nli.train.lrr=1", "there is no key 'stages.nli.train.lrr'; did you mean lr"),
        ("stages.nli.data.triplet=last", "there is no key 'stages.nli.data.triplet'; did you mean triplets"),
        ("data.nl=x.tsv", "there is no key 'data.nl'; did you mean nli"),
        ("train=5", "--set train: this is a group of keys; did you mean "),
        ("seed=7", "--set seed: use the option --seeds"),
        ("backbone=x", "--set backbone: use the option --backbone"),
        ("train.lr", "write it as key=value"),
        ("train.lr=fast", "train.lr: Input should be a valid number"),
        ("dev=5", "--set dev: Input should be a valid list"),
        ("probe.limit=5", "there is no key 'probe'"),
    ],
)
def test_wrong_setting_is_one_sentence(study, setting, message):
    with pytest.raises(UsageError) as caught:
        plan_study(study, "quick", seeds=1, settings=[setting])
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("name", "preset", "setting"),
    [("baselines", "quick", "train.lr=1e-4"), ("order", "paper", "stages.both.epochs=2")],
)
def test_setting_without_effect_is_an_error(name, preset, setting):
    study = StudyConfig.builtin(name)
    with pytest.raises(UsageError, match="no variant of this preset is trained with it, so drop this setting"):
        parse_settings([setting], study, study.preset(preset))


def test_pooling_of_the_pooling_study_cannot_be_set():
    study = StudyConfig.builtin("pooling")
    with pytest.raises(UsageError, match="--set pooling: the variants of pooling differ in it"):
        parse_settings(["pooling=cls"], study, study.preset("quick"))


def test_probe_of_a_study_that_has_one_can_be_changed():
    study = StudyConfig.builtin("concat")
    assert parse_settings(["probe.limit=500"], study, study.preset("quick")) == {"probe": {"limit": 500}}
