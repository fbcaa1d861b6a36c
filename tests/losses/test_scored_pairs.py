"""The two losses for scored pairs: cosine similarity and CoSENT."""

from math import exp, log, sqrt

import pytest
import torch
from sentence_transformers.sentence_transformer import losses as st_losses

from kosbert.errors import UsageError
from kosbert.losses.cosent import CoSENTLoss
from kosbert.losses.cosine_similarity import CosineSimilarityLoss

ROWS = [[1.0, 0.0], [1.0, 1.0], [0.0, 2.0], [3.0, 4.0]]
FIRST_WITH_ALL = ((0, 0, 0), (1, 2, 3))  # cosines of row 0 with rows 1, 2, 3
COSINES = [1 / sqrt(2), 0.0, 3 / 5]


def test_cosine_similarity_known_answer(table, column):
    scores = [0.9, 0.2, 0.5]
    loss = CosineSimilarityLoss(table(ROWS))([column(*numbers) for numbers in FIRST_WITH_ALL], torch.tensor(scores))
    expected = sum((cosine - score) ** 2 for cosine, score in zip(COSINES, scores, strict=True)) / 3
    assert loss.item() == pytest.approx(expected, rel=1e-6)


def test_cosent_known_answer(table, column):
    # The first pair has the highest score, the other two tie: only pairs of pairs with different scores count.
    loss = CoSENTLoss(table(ROWS))([column(*numbers) for numbers in FIRST_WITH_ALL], torch.tensor([4.0, 1.0, 1.0]))
    high, low, tied = COSINES
    expected = log(1 + exp(20 * (low - high)) + exp(20 * (tied - high)))
    assert loss.item() == pytest.approx(expected, rel=1e-5)


def test_cosent_depends_only_on_the_order(table, column):
    features = [column(*numbers) for numbers in FIRST_WITH_ALL]
    loss_fn = CoSENTLoss(table(ROWS), scale=3.0)
    assert torch.equal(loss_fn(features, torch.tensor([5.0, 0, 3])), loss_fn(features, torch.tensor([0.3, 0.1, 0.2])))


def test_cosent_gradient_is_that_of_the_plain_formula(gradients, table, column):
    torch.manual_seed(0)
    rows = torch.randn(8, 3).tolist()
    features, labels = [column(0, 1, 2, 3), column(4, 5, 6, 7)], torch.tensor([1.0, 3.0, 3.0, 0.0])
    loss_fn = CoSENTLoss(table(rows))
    loss, ours = gradients(loss_fn, features, labels)
    vectors = torch.tensor(rows, requires_grad=True)
    cosines = torch.cosine_similarity(vectors[:4], vectors[4:])
    terms = [(20 * (cosines[k] - cosines[i])).exp() for i in range(4) for k in range(4) if labels[i] > labels[k]]
    plain = (1 + torch.stack(terms).sum()).log()
    plain.backward()
    torch.testing.assert_close(loss, plain.detach())
    torch.testing.assert_close(ours["model.rows"], vectors.grad, atol=1e-5, rtol=1e-4)


def test_cosent_of_equal_scores_is_zero_with_finite_gradient(gradients, table, column):
    features = [column(*numbers) for numbers in FIRST_WITH_ALL]
    loss, actual = gradients(CoSENTLoss(table(ROWS)), features, torch.ones(3))
    assert loss.item() == 0
    assert actual["model.rows"].isfinite().all()


@pytest.mark.parametrize(
    ("ours", "theirs"), [(CosineSimilarityLoss, st_losses.CosineSimilarityLoss), (CoSENTLoss, st_losses.CoSENTLoss)]
)
@pytest.mark.parametrize("layout", ["flat", "padded"])
def test_equal_to_sentence_transformers(tiny, tokens, ours, theirs, layout):
    tiny.eval()
    first = tokens(["비가 온다", "고양이가 잔다", "오늘 날씨가 맑다"], layout)
    second = tokens(["눈이 온다", "강아지가 뛴다", "내일 비가 온다"], layout)
    labels = torch.tensor([0.8, 0.4, 0.0])
    expected = theirs(tiny)([dict(first), dict(second)], labels)
    torch.testing.assert_close(ours(tiny)([first, second], labels), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("loss_fn", [CosineSimilarityLoss, CoSENTLoss])
def test_gradient_flows(gradients, table, column, loss_fn):
    features = [column(*numbers) for numbers in FIRST_WITH_ALL]
    _, actual = gradients(loss_fn(table(ROWS)), features, torch.tensor([0.1, 0.9, 0.5]))
    assert actual["model.rows"].abs().sum() > 0


@pytest.mark.parametrize("score", [4.2, -0.1, float("nan")])
def test_scores_outside_0_to_1_are_usage_errors(table, column, score):
    with pytest.raises(UsageError, match="divide STS scores by 5"):
        CosineSimilarityLoss(table(ROWS))([column(0, 0), column(1, 2)], torch.tensor([0.5, score]))


def test_wrong_labels_columns_and_scale_are_usage_errors(table, column):
    with pytest.raises(UsageError, match="not a number"):
        CoSENTLoss(table(ROWS))([column(0), column(1)], torch.tensor([float("nan")]))
    with pytest.raises(UsageError, match="scale must be above 0"):
        CoSENTLoss(table(ROWS), scale=0)
    for loss_fn in (CosineSimilarityLoss, CoSENTLoss):
        with pytest.raises(UsageError, match="one label per row but got none"):
            loss_fn(table(ROWS))([column(0), column(1)])
        with pytest.raises(UsageError, match=r"needs 2 text columns \(sentence1, sentence2\) but the data has 3"):
            loss_fn(table(ROWS))([column(0), column(1), column(2)], torch.tensor([0.5]))
