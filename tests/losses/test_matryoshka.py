from math import sqrt

import pytest
import torch
from sentence_transformers.sentence_transformer import losses as st_losses

from kosbert.errors import UsageError
from kosbert.losses import build
from kosbert.losses.cosine_similarity import CosineSimilarityLoss
from kosbert.losses.matryoshka import MatryoshkaLoss
from kosbert.losses.multiple_negatives_ranking import MultipleNegativesRankingLoss
from kosbert.losses.triplet import TripletLoss

ROWS = [[1.0, 0.0, 2.0, 0.0], [1.0, 1.0, 0.0, 1.0]]


def test_known_answer(table, column):
    loss_fn = MatryoshkaLoss(CosineSimilarityLoss(table(ROWS)), [2, 1], weights=[3.0, 0.5])
    loss = loss_fn([column(0), column(1)], torch.tensor([0.4]))
    full, two, one = 1 / (sqrt(5) * sqrt(3)), 1 / sqrt(2), 1.0
    expected = (full - 0.4) ** 2 + 3 * (two - 0.4) ** 2 + 0.5 * (one - 0.4) ** 2
    assert loss.item() == pytest.approx(expected, rel=1e-6)


def test_the_full_dimension_is_always_trained(table):
    assert MatryoshkaLoss(CosineSimilarityLoss(table(ROWS)), [2]).weights == {4: 1.0, 2: 1.0}
    assert MatryoshkaLoss(CosineSimilarityLoss(table(ROWS)), [4, 2], weights=[0.1, 2.0]).weights == {4: 0.1, 2: 2.0}


def test_equal_to_sentence_transformers(gradients, tiny, tokens):
    tiny.eval()
    columns = [
        tokens([first, second], "flat")
        for first, second in (("비가 온다", "고양이가 잔다"), ("눈이 온다", "강아지가 뛴다"))
    ]
    theirs = st_losses.MatryoshkaLoss(tiny, st_losses.MultipleNegativesRankingLoss(tiny), [16, 8, 4])
    expected, expected_gradients = gradients(theirs, [dict(column) for column in columns])
    loss, actual = gradients(MatryoshkaLoss(MultipleNegativesRankingLoss(tiny), [8, 4]), columns)
    torch.testing.assert_close(loss, expected, atol=1e-5, rtol=1e-5)
    for name, gradient in expected_gradients.items():
        torch.testing.assert_close(actual[name], gradient, atol=1e-4, rtol=1e-3)


def test_the_model_is_called_once(table, column):
    model = table(ROWS)
    MatryoshkaLoss(CosineSimilarityLoss(model), [3, 2, 1])([column(0), column(1)], torch.tensor([0.4]))
    assert model.calls == [2]


def test_a_euclidean_loss_keeps_the_vector_lengths(table, column):
    inner = TripletLoss(table([[0.0, 0.0], [3.0, 4.0], [1.0, 0.0]]))
    loss = MatryoshkaLoss(inner, [1])([column(0), column(1), column(2)])
    assert loss.item() == pytest.approx((5 - 1 + 1) + (3 - 1 + 1), rel=1e-6)


@pytest.mark.parametrize(
    ("name", "columns", "labels", "options"),
    [
        ("softmax", 2, torch.tensor([0, 2]), {}),
        ("simcse", 1, None, {}),
        ("simcse-supervised", 3, None, {}),
        ("distillation", 1, torch.randn(2, 7), {"teacher_dimension": 7}),
    ],
)
def test_layers_of_a_loss_use_their_first_columns(gradients, tiny, tokens, name, columns, labels, options):
    texts = (["비가 온다", "고양이가 잔다"], ["눈이 온다", "강아지가 뛴다"], ["책을 읽는다", "노래를 부른다"])
    loss_fn = build(name, tiny, matryoshka=[4], **options)
    loss_fn.weights = {4: 1.0}  # only the truncated embeddings, so that the other columns get no gradient
    _, actual = gradients(loss_fn, [tokens(column, "flat") for column in texts[:columns]], labels)
    of_the_loss = {key: value for key, value in actual.items() if key.startswith("loss.") and value.ndim == 2}
    assert len(of_the_loss) == 1
    (gradient,) = of_the_loss.values()  # (out, parts · 16)
    by_dimension = gradient.view(len(gradient), -1, 16).abs().sum((0, 1))
    assert (by_dimension[:4] > 0).all()
    assert (by_dimension[4:] == 0).all()


def test_wrong_dimensions_and_weights_are_usage_errors(table):
    inner = CosineSimilarityLoss(table(ROWS))
    for dimensions in ([], [0], [5], [2, 2]):
        with pytest.raises(UsageError, match="distinct and from 1 to 4"):
            MatryoshkaLoss(inner, dimensions)
    with pytest.raises(UsageError, match="one weight per dimension"):
        MatryoshkaLoss(inner, [2, 1], weights=[1.0])
