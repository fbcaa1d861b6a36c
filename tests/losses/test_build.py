import pytest

from kosbert.errors import UsageError
from kosbert.losses import LOSSES, Loss, build
from kosbert.losses.gradcache import GradCacheLoss
from kosbert.losses.matryoshka import MatryoshkaLoss
from kosbert.losses.multiple_negatives_ranking import MultipleNegativesRankingLoss

ROWS = [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]]


@pytest.fixture
def model(table):
    return table(ROWS, dropout=0.1)


@pytest.mark.parametrize(
    ("name", "row_type", "text_columns"),
    [
        ("softmax", "labeled pairs", 2),
        ("cosine-similarity", "scored pairs", 2),
        ("cosent", "scored pairs", 2),
        ("triplet", "triplets", 3),
        ("multiple-negatives-ranking", "pairs", 2),
        ("simcse", "sentences", 1),
        ("simcse-supervised", "triplets", 3),
        ("distillation", "vectors", 1),
    ],
)
def test_every_loss_declares_its_inputs_also_when_wrapped(model, name, row_type, text_columns):
    options = {"teacher_dimension": 3} if name == "distillation" else {}
    for wrappers in ({}, {"matryoshka": [2]}, {"gradcache": 8}, {"matryoshka": [2], "gradcache": 8}):
        loss_fn = build(name, model, **wrappers, **options)
        assert isinstance(loss_fn, Loss)
        assert (loss_fn.row_type, len(loss_fn.text_columns)) == (row_type, text_columns)
        assert loss_fn.accepts_hard_negatives == LOSSES[name].accepts_hard_negatives
        assert loss_fn.citation
        assert isinstance(loss_fn.get_config_dict(), dict)
    assert LOSSES[name].row_type == row_type  # available without a model


def test_the_table_above_has_every_loss():
    assert len(LOSSES) == 8


def test_build_passes_options_and_applies_wrappers(model):
    loss_fn = build("multiple-negatives-ranking", model, temperature=0.1, symmetric=True, matryoshka=[2], gradcache=16)
    assert isinstance(loss_fn, GradCacheLoss)
    assert isinstance(loss_fn.loss, MatryoshkaLoss)
    assert isinstance(loss_fn.loss.loss, MultipleNegativesRankingLoss)
    expected = {"temperature": 0.1, "symmetric": True, "mini_batch": 16, "matryoshka": {"4": 1.0, "2": 1.0}}
    assert expected.items() <= loss_fn.get_config_dict().items()


def test_unknown_names_and_options_are_usage_errors(model):
    with pytest.raises(UsageError, match=r"no loss 'simcs': did you mean simcse\?"):
        build("simcs", model)
    with pytest.raises(UsageError, match=r"no option 'temprature': did you mean temperature"):
        build("multiple-negatives-ranking", model, temprature=0.1)
    with pytest.raises(UsageError, match="no option 'scale': there is nothing to choose from"):
        build("cosine-similarity", model, scale=3)
    with pytest.raises(UsageError, match="needs the option teacher_dimension"):
        build("distillation", model)
