"""Studies as files: those that are shipped, and mistakes in one's own."""

import copy

import pytest
import yaml

from kosbert.cli.study import QUESTIONS
from kosbert.errors import UsageError
from kosbert.study.config import Study, laid_over, shipped


def test_every_shipped_study_is_a_command_and_has_three_presets():
    assert set(shipped()) == set(QUESTIONS)
    for name in shipped():
        study = Study.named(name)
        assert (study.name, set(study.presets)) == (name, {"quick", "real", "paper"})
        assert study.presets["paper"].seeds == 5
        assert all(each.test and each.dev for each in study.presets.values())
        assert not any("klue-sts-dev" in each.dev for each in study.presets.values())


def test_the_grid_multiplies_rows():
    names = [row.name for row in Study.named("pooling").every_row()]
    assert names == ["NLI, MEAN", "NLI, MAX", "NLI, CLS", "STS, MEAN", "STS, MAX", "STS, CLS"]
    rows = Study.named("concat").every_row()
    assert len(rows) == 7
    assert rows[5].published == "NLI, (u, v, |u-v|)"
    assert rows[5].over == {"stages": {"nli": {"options": {"concatenation": "u,v,|u-v|"}}}}


def test_every_published_row_is_known():
    from kosbert.evaluation.published_scores import published_scores

    for name in shipped():
        study = Study.named(name)
        known = {each.model for each in published_scores(study.published)} if study.published else set()
        assert {row.published for row in study.every_row()} - {""} <= known


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"questoin": "?"}, "questoin"),
        ({"rows": []}, "rows"),
        ({"rows": [{"name": "a", "stages": ["stss"]}]}, "there is no stage 'stss'; did you mean sts"),
        ({"rows": [{"name": "a"}, {"name": "a"}]}, "two rows have the same name"),
    ],
)
def test_mistakes_are_named(document, change, message, tmp_path):
    path = tmp_path / "wrong.yaml"
    path.write_text(yaml.safe_dump(copy.deepcopy(document) | change, allow_unicode=True), encoding="utf-8")
    with pytest.raises(UsageError, match=r"^.*wrong\.yaml: ") as caught:
        Study.read(path)
    assert message in str(caught.value)


def test_names_and_files_that_are_not_there(study, tmp_path):
    with pytest.raises(UsageError, match="there is no study 'oder': did you mean order"):
        Study.named("oder")
    with pytest.raises(UsageError, match="has no preset 'quik': did you mean quick"):
        study.preset("quik")
    with pytest.raises(UsageError, match="cannot be read"):
        Study.read(tmp_path / "nothing.yaml")


def test_laid_over():
    below = {"a": 1, "b": {"c": 2, "d": [1, 2]}}
    assert laid_over(below, {"b": {"d": [3]}, "e": 4}) == {"a": 1, "b": {"c": 2, "d": [3]}, "e": 4}
    assert below == {"a": 1, "b": {"c": 2, "d": [1, 2]}}
