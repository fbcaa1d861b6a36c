import pytest

from kosbert.errors import UsageError
from kosbert.objectives import OBJECTIVES, Objective, build
from kosbert.objectives.gradcache import GradCache
from kosbert.objectives.matryoshka import Matryoshka
from kosbert.objectives.ranking import Ranking

ROWS = [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]]


@pytest.fixture
def model(table):
    return table(ROWS, dropout=0.1)


@pytest.mark.parametrize(
    ("name", "needs", "texts"),
    [
        ("classification", "labelled pairs", 2),
        ("cosine", "scored pairs", 2),
        ("cosent", "scored pairs", 2),
        ("triplet", "triplets", 3),
        ("ranking", "pairs", 2),
        ("simcse", "sentences", 1),
        ("simcse-supervised", "triplets", 3),
        ("distillation", "vectors", 1),
    ],
)
def test_every_objective_declares_its_needs_also_when_wrapped(model, name, needs, texts):
    options = {"teacher_dimension": 3} if name == "distillation" else {}
    for wrappers in ({}, {"matryoshka": [2]}, {"gradcache": 8}, {"matryoshka": [2], "gradcache": 8}):
        objective = build(name, model, **wrappers, **options)
        assert isinstance(objective, Objective)
        assert (objective.needs, len(objective.texts)) == (needs, texts)
        assert objective.more_negatives == OBJECTIVES[name].more_negatives
        assert objective.citation
        assert isinstance(objective.get_config_dict(), dict)
    assert OBJECTIVES[name].needs == needs  # known before a model is loaded


def test_the_table_above_is_complete():
    assert len(OBJECTIVES) == 8


def test_options_and_wrappers(model):
    objective = build("ranking", model, temperature=0.1, symmetric=True, matryoshka=[2], gradcache=16)
    assert isinstance(objective, GradCache)
    assert isinstance(objective.objective, Matryoshka)
    assert isinstance(objective.objective.objective, Ranking)
    expected = {"temperature": 0.1, "symmetric": True, "mini_batch": 16, "matryoshka": {"4": 1.0, "2": 1.0}}
    assert expected.items() <= objective.get_config_dict().items()


def test_mistakes(model):
    with pytest.raises(UsageError, match=r"no objective 'rankng'; did you mean ranking\?"):
        build("rankng", model)
    with pytest.raises(UsageError, match=r"no option 'temprature'; did you mean temperature"):
        build("ranking", model, temprature=0.1)
    with pytest.raises(UsageError, match="no option 'scale'; there is nothing to choose from"):
        build("cosine", model, scale=3)
    with pytest.raises(UsageError, match="needs the option teacher_dimension"):
        build("distillation", model)
