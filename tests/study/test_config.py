"""Study files: the built-in ones, and errors in a user's own."""

import copy
from pathlib import Path

import pytest
import yaml

from kosbert.cli.study import QUESTIONS
from kosbert.errors import UsageError
from kosbert.study.config import StudyConfig, builtin_studies


def test_every_builtin_study_is_a_command_and_has_three_presets():
    assert set(builtin_studies()) == set(QUESTIONS)
    for name in builtin_studies():
        study = StudyConfig.builtin(name)
        assert (study.name, set(study.presets)) == (name, {"quick", "real", "paper"})
        assert study.presets["paper"].seeds == 5
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
        assert {variant.published_model for variant in study.all_variants()} - {""} <= models


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"questoin": "?"}, "questoin"),
        ({"variants": []}, "variants"),
        ({"variants": [{"name": "a", "stages": ["stss"]}]}, "there is no stage 'stss'; did you mean sts"),
        ({"variants": [{"name": "a"}, {"name": "a"}]}, "two variants have the same name"),
    ],
)
def test_error_names_the_mistake(document, change, message, tmp_path):
    path = tmp_path / "wrong.yaml"
    path.write_text(yaml.safe_dump(copy.deepcopy(document) | change, allow_unicode=True), encoding="utf-8")
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
