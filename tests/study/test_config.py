"""Study files: the built-in ones, and errors in a user's own."""

import copy
from pathlib import Path

import pytest
import yaml

from kosbert.cli.study import QUESTIONS
from kosbert.errors import UsageError
from kosbert.study.config import StudyConfig, builtin_studies

MORE_PRESETS = {"order": {"multi-seed"}, "simcse": {"paper-roberta", "multi-seed"}}


def test_every_builtin_study_is_a_command_and_has_three_presets():
    assert set(builtin_studies()) == set(QUESTIONS)
    for name in builtin_studies():
        study = StudyConfig.builtin(name)
        presets = {"quick", "real", "paper"} | MORE_PRESETS.get(name, set())
        assert (study.name, set(study.presets)) == (name, presets)
        assert study.presets["multi-seed" if "multi-seed" in presets else "paper"].seeds == 5
        assert all(preset.test and preset.dev for preset in study.presets.values())
        assert not any("klue-sts-dev" in preset.dev for preset in study.presets.values())


def test_grid_multiplies_variants():
    names = [variant.name for variant in StudyConfig.builtin("pooling").all_variants()]
    assert names == ["NLI, MEAN", "NLI, MAX", "NLI, CLS", "STS, MEAN", "STS, MAX", "STS, CLS"]
    variants = StudyConfig.builtin("concat").all_variants()
    assert len(variants) == 7
    assert variants[5].published_model == "NLI, (u, v, |u-v|)"
    assert variants[5].overrides == {"stages": {"nli": {"options": {"concatenation": "u,v,|u-v|"}}}}


def test_every_published_model_has_published_scores():
    from kosbert.evaluation.published_scores import published_scores

    for name in builtin_studies():
        study = StudyConfig.builtin(name)
        scores = published_scores(study.published_scores) if study.published_scores else []
        models = {score.model for score in scores}
        for preset in study.presets.values():
            assert {variant.published_model for variant in study.variants_of(preset)} - {""} <= models


def test_preset_chooses_variants_and_their_published_models():
    study = StudyConfig.builtin("simcse")
    chosen = {variant.name: variant.published_model for variant in study.variants_of(study.preset("paper-roberta"))}
    assert chosen == {"unsupervised": "SimCSE-RoBERTa-KO (unsup)", "supervised": "SimCSE-RoBERTa-KO (sup)"}
    assert len(study.variants_of(study.preset("multi-seed"))) == len(study.all_variants()) == 9


@pytest.mark.parametrize(
    ("seeds", "count", "expected"),
    [
        (3, None, (1, 2, 3)),
        (3, 1, (1,)),
        (3, 5, (1, 2, 3, 4, 5)),
        ([777], None, (777,)),
        ([777], 3, (777, 778, 779)),
        ([9, 4], 1, (9,)),
        ([9, 4], 4, (9, 4, 10, 11)),
    ],
)
def test_seeds_are_counted_or_listed(study, seeds, count, expected):
    assert study.preset("quick").model_copy(update={"seeds": seeds}).first_seeds(count) == expected


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"questoin": "?"}, "questoin"),
        ({"variants": []}, "variants"),
        ({"variants": [{"name": "a", "stages": ["stss"]}]}, "there is no stage 'stss'; did you mean sts"),
        ({"variants": [{"name": "a"}, {"name": "a"}]}, "two variants have the same name"),
        ({"preset": {"variants": ["NIL"]}}, "preset quick: there is no variant 'NIL'; did you mean NLI"),
        ({"preset": {"published_models": {"NIL": "x"}}}, "preset quick: there is no variant 'NIL'"),
        ({"preset": {"seeds": [1, 1]}}, "preset quick: a seed occurs twice"),
        ({"preset": {"seeds": []}}, "seeds"),
    ],
)
def test_error_names_the_mistake(document, change, message, tmp_path):
    path = tmp_path / "wrong.yaml"
    changed = copy.deepcopy(document)
    changed["presets"]["quick"] |= change.get("preset", {})
    changed |= {key: value for key, value in change.items() if key != "preset"}
    path.write_text(yaml.safe_dump(changed, allow_unicode=True), encoding="utf-8")
    with pytest.raises(UsageError, match=r"^.*wrong\.yaml: ") as caught:
        StudyConfig.load(path)
    assert message in str(caught.value)


def test_unknown_study_preset_and_file(study, tmp_path):
    with pytest.raises(UsageError, match="there is no study 'oder': did you mean order"):
        StudyConfig.builtin("oder")
    with pytest.raises(UsageError, match="has no preset 'quik': did you mean quick"):
        study.preset("quik")
    with pytest.raises(UsageError, match="cannot be read"):
        StudyConfig.load(tmp_path / "nothing.yaml")


def test_example_in_the_documentation_is_valid():
    text = (Path(__file__).parents[2] / "docs" / "studies.md").read_text(encoding="utf-8")
    document = yaml.safe_load(text.split("```yaml\n")[1].split("```")[0])
    names = [variant.name for variant in StudyConfig.model_validate(document).all_variants()]
    assert names == ["no fine-tuning", "STS, 32", "STS, 64"]
