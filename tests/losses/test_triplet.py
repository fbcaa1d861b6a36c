from math import hypot, sqrt

import pytest
import torch
from sentence_transformers.sentence_transformer import losses as st_losses

from kosbert.errors import UsageError
from kosbert.losses.triplet import TripletLoss

ROWS = [[0.0, 1.0], [3.0, 5.0], [4.0, 1.0], [0.0, 9.0]]


def test_known_answer_euclidean(table, column):
    # anchor (0,1): positive (3,5) is 5 away, negatives (4,1) and (0,9) are 4 and 8 away
    loss = TripletLoss(table(ROWS))([column(0, 0), column(1, 1), column(2, 3)])
    positive, first, second = hypot(3, 4), hypot(4, 0), hypot(0, 8)
    expected = (max(positive - first + 1, 0) + max(positive - second + 1, 0)) / 2
    assert expected == 1.0
    assert loss.item() == pytest.approx(expected, rel=1e-6)


def test_known_answer_cosine(table, column):
    loss = TripletLoss(table(ROWS), distance="cosine", margin=0.3)([column(0), column(1), column(2)])
    to_positive, to_negative = 1 - 5 / sqrt(34), 1 - 1 / sqrt(17)
    assert max(to_positive - to_negative + 0.3, 0) == 0
    assert loss.item() == 0
    loss = TripletLoss(table(ROWS), distance="cosine", margin=0.3)([column(0), column(2), column(1)])
    assert loss.item() == pytest.approx(to_negative - to_positive + 0.3, rel=1e-5)


@pytest.mark.parametrize(
    ("distance", "metric"),
    [
        ("euclidean", st_losses.TripletDistanceMetric.EUCLIDEAN),
        ("cosine", st_losses.TripletDistanceMetric.COSINE),
    ],
)
def test_equal_to_sentence_transformers(tiny, tokens, distance, metric):
    tiny.eval()
    columns = [tokens([text, "고양이가 잔다"], "flat") for text in ("비가 온다", "눈이 온다", "오늘 날씨가 맑다")]
    expected = st_losses.TripletLoss(tiny, metric, 1.0)([dict(column) for column in columns], None)
    torch.testing.assert_close(TripletLoss(tiny, distance)(columns), expected, atol=1e-5, rtol=1e-5)


def test_gradient_flows_and_is_finite_if_anchor_and_positive_are_equal(gradients, table, column):
    _, actual = gradients(TripletLoss(table(ROWS), margin=6.0), [column(0), column(0), column(2)])
    assert actual["model.rows"].isfinite().all()
    assert actual["model.rows"][2].abs().sum() > 0


def test_wrong_columns_and_options_are_usage_errors(table, column):
    with pytest.raises(UsageError, match=r"needs 3 text columns \(anchor, positive, negative\) but the data has 2"):
        TripletLoss(table(ROWS))([column(0), column(1)])
    with pytest.raises(UsageError, match="did you mean euclidean"):
        TripletLoss(table(ROWS), distance="euclidian")
    with pytest.raises(UsageError, match="margin must be above 0"):
        TripletLoss(table(ROWS), margin=0)
