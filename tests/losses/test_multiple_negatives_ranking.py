from math import exp, log

import pytest
import torch
from sentence_transformers.sentence_transformer import losses as st_losses

from kosbert.errors import UsageError
from kosbert.losses.multiple_negatives_ranking import MultipleNegativesRankingLoss

# Unit vectors whose cosines are easy: rows 0 and 1 are the axes.
ROWS = [[1.0, 0.0], [0.0, 1.0], [0.6, 0.8], [0.8, 0.6], [-1.0, 0.0], [0.0, -1.0]]


def cosine(first, second):
    return sum(a * b for a, b in zip(ROWS[first], ROWS[second], strict=True))


def negative_log_likelihood(anchor, positive, candidates, temperature=0.5):
    """Return −log of the softmax of the positive over the candidates."""
    parts = [exp(cosine(anchor, candidate) / temperature) for candidate in candidates]
    return -log(exp(cosine(anchor, positive) / temperature) / sum(parts))


def test_known_answer(table, column):
    loss = MultipleNegativesRankingLoss(table(ROWS), temperature=0.5)([column(0, 1), column(3, 2)])
    expected = (negative_log_likelihood(0, 3, [3, 2]) + negative_log_likelihood(1, 2, [3, 2])) / 2
    assert loss.item() == pytest.approx(expected, rel=1e-6)


def test_known_answer_with_hard_negatives(table, column):
    loss = MultipleNegativesRankingLoss(table(ROWS), temperature=0.5)(
        [column(0, 1), column(3, 2), column(4, 5), column(5, 4)]
    )
    candidates = [3, 2, 4, 5, 5, 4]
    expected = (negative_log_likelihood(0, 3, candidates) + negative_log_likelihood(1, 2, candidates)) / 2
    assert loss.item() == pytest.approx(expected, rel=1e-6)


def test_known_answer_symmetric(table, column):
    loss = MultipleNegativesRankingLoss(table(ROWS), temperature=0.5, symmetric=True)(
        [column(0, 1), column(3, 2), column(4, 5)]
    )
    forward = (negative_log_likelihood(0, 3, [3, 2, 4, 5]) + negative_log_likelihood(1, 2, [3, 2, 4, 5])) / 2
    backward = (negative_log_likelihood(3, 0, [0, 1]) + negative_log_likelihood(2, 1, [0, 1])) / 2
    assert loss.item() == pytest.approx((forward + backward) / 2, rel=1e-6)


@pytest.mark.parametrize("layout", ["flat", "padded"])
def test_a_candidate_with_the_text_of_anchor_or_positive_is_excluded(table, layouts, layout):
    # Row 1 has row 0's positive (3) as its hard negative and row 0's anchor (0) as its positive.
    make = getattr(layouts, layout)
    columns = [make([[number] for number in numbers]) for numbers in ((0, 1), (3, 0), (4, 3))]
    loss = MultipleNegativesRankingLoss(table(ROWS), temperature=0.5)(columns)
    first = negative_log_likelihood(0, 3, [3, 4])  # of 3, 0, 4, 3: the anchor itself and the second 3 are left out
    second = negative_log_likelihood(1, 0, [3, 0, 4, 3])  # nothing to leave out
    assert loss.item() == pytest.approx((first + second) / 2, rel=1e-6)


def test_another_positive_of_the_same_anchor_is_excluded(table, column):
    # Both rows have anchor 0, with positives 2 and 3; their hard negatives 4 and 5 stay negatives of both.
    loss = MultipleNegativesRankingLoss(table(ROWS), temperature=0.5)([column(0, 0), column(2, 3), column(4, 5)])
    expected = (negative_log_likelihood(0, 2, [2, 4, 5]) + negative_log_likelihood(0, 3, [3, 4, 5])) / 2
    assert loss.item() == pytest.approx(expected, rel=1e-6)


def test_another_positive_of_the_same_anchor_is_excluded_in_every_column(table, column):
    # Anchor 0 has the positives 2 and 3; 3 is also the positive of anchor 1 and a hard negative of the first row.
    loss = MultipleNegativesRankingLoss(table(ROWS), temperature=0.5)(
        [column(0, 0, 1), column(2, 3, 3), column(3, 4, 5)]
    )
    first = negative_log_likelihood(0, 2, [2, 4, 5])
    second = negative_log_likelihood(0, 3, [3, 4, 5])
    third = negative_log_likelihood(1, 3, [2, 3, 4, 5])
    assert loss.item() == pytest.approx((first + second + third) / 3, rel=1e-6)


def test_symmetric_excludes_other_anchors_of_the_same_positive(table, column):
    # Anchors 0, 1 and 4; rows 0 and 1 share positive 3, row 2 has positive 5.
    loss = MultipleNegativesRankingLoss(table(ROWS), temperature=0.5, symmetric=True)(
        [column(0, 1, 4), column(3, 3, 5)]
    )
    forward = [
        negative_log_likelihood(0, 3, [3, 5]),
        negative_log_likelihood(1, 3, [3, 5]),
        negative_log_likelihood(4, 5, [3, 3, 5]),
    ]
    backward = [
        negative_log_likelihood(3, 0, [0, 4]),
        negative_log_likelihood(3, 1, [1, 4]),
        negative_log_likelihood(5, 4, [0, 1, 4]),
    ]
    assert loss.item() == pytest.approx((sum(forward) / 3 + sum(backward) / 3) / 2, rel=1e-6)


def test_equal_texts_are_found_despite_padding(table, layouts):
    # The positive [3, 7] comes back as a hard negative in a column that is padded wider.
    columns = [layouts.padded(ids) for ids in ([[0], [1]], [[3, 7], [2, 7]], [[4, 7, 7], [3, 7]])]
    loss = MultipleNegativesRankingLoss(table(ROWS), temperature=0.5)(columns)
    expected = (negative_log_likelihood(0, 3, [3, 2, 4]) + negative_log_likelihood(1, 2, [3, 2, 4, 3])) / 2
    assert loss.item() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("layout", ["flat", "padded"])
@pytest.mark.parametrize("symmetric", [True, False])
def test_equal_to_sentence_transformers_when_no_text_repeats(gradients, tiny, tokens, layout, symmetric):
    tiny.eval()
    texts = (["비가 온다", "고양이가 잔다"], ["눈이 온다", "강아지가 뛴다"], ["사람이 책을 읽는다", "오늘 날씨가 맑다"])
    columns = [tokens(column, layout) for column in texts]
    directions = ("query_to_doc", "doc_to_query") if symmetric else ("query_to_doc",)
    mode = "per_direction" if symmetric else "joint"
    theirs = st_losses.MultipleNegativesRankingLoss(tiny, scale=20.0, directions=directions, partition_mode=mode)
    expected, expected_gradients = gradients(theirs, [dict(column) for column in columns])
    loss, actual = gradients(MultipleNegativesRankingLoss(tiny, symmetric=symmetric), columns)
    torch.testing.assert_close(loss, expected, atol=1e-5, rtol=1e-5)
    for name, gradient in expected_gradients.items():
        torch.testing.assert_close(actual[name], gradient, atol=1e-5, rtol=1e-4)


def test_a_batch_of_a_single_text_has_loss_zero_and_no_nan(gradients, table, column):
    loss, actual = gradients(
        MultipleNegativesRankingLoss(table(ROWS), symmetric=True), [column(0, 0), column(0, 0), column(0, 0)]
    )
    assert loss.item() == 0
    assert actual["model.rows"].abs().sum() == 0


def test_wrong_columns_and_temperature_are_usage_errors(table, column):
    with pytest.raises(UsageError, match="needs 2 text columns"):
        MultipleNegativesRankingLoss(table(ROWS))([column(0)])
    with pytest.raises(UsageError, match="temperature must be above 0"):
        MultipleNegativesRankingLoss(table(ROWS), temperature=0)
