from math import exp, hypot, log, tanh

import pytest
import torch
from safetensors import safe_open
from torch import nn

from kosbert.errors import UsageError
from kosbert.losses import loss_state
from kosbert.losses.multiple_negatives_ranking import MultipleNegativesRankingLoss
from kosbert.losses.simcse import SimCSELoss, SupervisedSimCSELoss

ROWS = [[1.0, 0.2], [-0.5, 1.0], [0.3, 0.9], [2.0, -1.0]]
SENTENCES = ["비가 온다", "오늘 날씨가 맑다", "고양이가 잔다", "사람이 책을 읽는다"]


def cosine(first_vector, second_vector):
    return (first_vector[0] * second_vector[0] + first_vector[1] * second_vector[1]) / (
        hypot(*first_vector) * hypot(*second_vector)
    )


def head_of(row, weight=0.5, bias=0.1):
    """Return the output of a head with the weight 0.5 · identity and the bias 0.1."""
    return [tanh(weight * value + bias) for value in ROWS[row]]


def set_head(loss_fn):
    dense = loss_fn.head[0]
    with torch.no_grad():
        dense.weight.copy_(0.5 * torch.eye(2))
        dense.bias.fill_(0.1)
    return loss_fn


def negative_log_likelihood(anchor, positive, candidates, temperature=0.05):
    parts = [exp(cosine(head_of(anchor), head_of(candidate)) / temperature) for candidate in candidates]
    return -log(exp(cosine(head_of(anchor), head_of(positive)) / temperature) / sum(parts))


def test_unsupervised_known_answer_without_dropout_noise(table, column):
    loss_fn = set_head(SimCSELoss(table(ROWS, dropout=0.1).eval()))
    loss = loss_fn([column(0, 1, 2)])
    expected = sum(negative_log_likelihood(row, row, [0, 1, 2]) for row in range(3)) / 3
    assert loss.item() == pytest.approx(expected, rel=1e-4)


def test_supervised_known_answer(table, column):
    loss_fn = set_head(SupervisedSimCSELoss(table(ROWS)))
    loss = loss_fn([column(0, 1), column(3, 2), column(1, 3)])
    # The second 3 is row 0's own positive, the second 1 is row 1's own anchor: no negatives.
    expected = (negative_log_likelihood(0, 3, [3, 2, 1]) + negative_log_likelihood(1, 2, [3, 2, 3])) / 2
    assert loss.item() == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("layout", ["flat", "padded"])
def test_each_sentence_gets_two_masks_in_one_forward(table, layouts, layout):
    model = table([[1.0] * 50, [2.0] * 50, [3.0] * 50], dropout=0.5)
    loss_fn = SimCSELoss(model)
    columns = loss_fn.prepare_columns([getattr(layouts, layout)([[0], [1], [2]])])
    first, second = loss_fn.embed(columns)
    assert model.calls == [6]
    for first_vector, second_vector in zip(first, second, strict=True):
        assert not torch.equal(first_vector, second_vector)  # different masks …
        assert torch.equal(
            first_vector[(first_vector > 0) & (second_vector > 0)],
            second_vector[(first_vector > 0) & (second_vector > 0)],
        )  # … of the same vector


def test_repeated_sentences_of_a_batch_are_not_negatives(table, column):
    loss_fn = set_head(SimCSELoss(table(ROWS, dropout=0.1).eval(), temperature=1.0))
    loss = loss_fn([column(0, 0, 1)])
    expected = (2 * negative_log_likelihood(0, 0, [0, 1], 1.0) + negative_log_likelihood(1, 1, [0, 0, 1], 1.0)) / 3
    assert loss.item() == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("supervised", [True, False])
def test_the_head_is_trained(gradients, tiny, tokens, supervised):
    tiny.eval()
    if supervised:
        loss_fn, columns = SupervisedSimCSELoss(tiny), [tokens(SENTENCES[k : k + 2], "flat") for k in range(3)]
    else:
        loss_fn, columns = SimCSELoss(tiny), [tokens(SENTENCES, "flat")]
    loss, actual = gradients(loss_fn, columns)
    assert actual["head.0.weight"].abs().sum() > 0
    assert actual["head.0.bias"].abs().sum() > 0
    with torch.no_grad():
        loss_fn.head[0].weight.mul_(-3).add_(1)
    assert not torch.isclose(loss_fn(columns), loss)


@pytest.mark.parametrize("kind", [SimCSELoss, SupervisedSimCSELoss])
def test_the_head_is_not_part_of_the_saved_model(tiny, tmp_path, kind):
    tiny.eval()
    before = tiny.encode(SENTENCES)
    loss_fn = kind(tiny)
    with torch.no_grad():
        loss_fn.head[0].weight.fill_(7)
    assert (tiny.encode(SENTENCES) == before).all()
    tiny.save_pretrained(str(tmp_path), create_model_card=False)
    weights = list(tmp_path.rglob("*.safetensors"))
    assert weights
    for path in weights:
        with safe_open(path, "pt") as saved:
            assert not [name for name in saved.keys() if "head" in name or name == "dense.weight"]  # noqa: SIM118
    assert not [path for path in tmp_path.rglob("*") if "Dense" in path.name]
    assert sorted(loss_state(loss_fn)) == ["head.0.bias", "head.0.weight"]
    assert not [name for name, _ in tiny.named_parameters() if "head" in name]


def test_supervised_simcse_without_head_equals_multiple_negatives_ranking(table, column):
    columns = [column(0, 1), column(2, 3), column(3, 2)]
    torch.testing.assert_close(
        SupervisedSimCSELoss(table(ROWS), head=False)(columns), MultipleNegativesRankingLoss(table(ROWS))(columns)
    )
    assert loss_state(SupervisedSimCSELoss(table(ROWS), head=False)) == {}


def test_missing_dropout_wrong_columns_and_temperature_are_usage_errors(table, column):
    with pytest.raises(UsageError, match="needs a model with dropout"):
        SimCSELoss(table(ROWS))
    with pytest.raises(UsageError, match=r"needs 1 text column \(sentence\) but the data has 2"):
        SimCSELoss(table(ROWS, dropout=0.1))([column(0), column(1)])
    with pytest.raises(UsageError, match="needs 3 text columns"):
        SupervisedSimCSELoss(table(ROWS))([column(0), column(1)])
    with pytest.raises(UsageError, match="temperature"):
        SimCSELoss(table(ROWS, dropout=0.1), temperature=-1)


def test_the_head_is_initialized_as_in_the_paper(tiny):
    dense = SimCSELoss(tiny).head[0]
    assert isinstance(SimCSELoss(tiny).head[1], nn.Tanh)
    assert dense.bias.abs().sum() == 0
    assert 0.01 < dense.weight.std() < 0.03
