from math import exp, log

import pytest
import torch
from sentence_transformers.sentence_transformer import losses as st_losses

from kosbert.errors import UsageError
from kosbert.losses.softmax import CONCATENATIONS, NLI_LABELS, SoftmaxLoss


def set_weights(loss_fn, rows):
    with torch.no_grad():
        loss_fn.classifier.weight.copy_(torch.tensor(rows))
        loss_fn.classifier.bias.zero_()


def test_known_answer(table, column):
    # u = (1, 2), v = (3, 1): (u, v, |u−v|) = (1, 2, 3, 1, 2, 1)
    loss_fn = SoftmaxLoss(table([[1.0, 2.0], [3.0, 1.0]]))
    set_weights(loss_fn, [[1.0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 1.0, 0], [0, 0, 1.0, 0, 0, 0]])
    logits = [1, 2, 3]
    expected = -log(exp(logits[1]) / sum(exp(logit) for logit in logits))
    assert loss_fn([column(0), column(1)], torch.tensor([1])).item() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("concatenation", "expected"),
    [
        ("u,v", [1, 2, 3, 1]),
        ("|u-v|", [2, 1]),
        ("u*v", [3, 2]),
        ("|u-v|,u*v", [2, 1, 3, 2]),
        ("u,v,u*v", [1, 2, 3, 1, 3, 2]),
        ("u,v,|u-v|", [1, 2, 3, 1, 2, 1]),
        ("(u, v, |u−v|, u*v)", [1, 2, 3, 1, 2, 1, 3, 2]),
    ],
)
def test_known_answers_of_the_seven_concatenations(table, concatenation, expected):
    loss_fn = SoftmaxLoss(table([[1.0, 2.0], [3.0, 1.0]]), concatenation)
    width = loss_fn.classifier.in_features
    assert width == len(expected)
    seen = []
    for position in range(width):  # a weight of 1 at one position reads that position of the concatenation
        rows = torch.zeros(3, width)
        rows[0, position] = 1
        set_weights(loss_fn, rows.tolist())
        seen.append(loss_fn.logits(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 1.0]]))[0, 0].item())
    assert seen == expected


def test_all_seven_concatenations_of_table_6_exist():
    assert len(set(CONCATENATIONS)) == 7


def test_equals_sentence_transformers(tiny, tokens):
    tiny.eval()
    features = [tokens(["비가 온다", "고양이가 잔다"], "padded"), tokens(["눈이 온다", "강아지가 뛴다"], "padded")]
    labels = torch.tensor([0, 2])
    theirs = st_losses.SoftmaxLoss(tiny, 16, num_labels=3)
    ours = SoftmaxLoss(tiny)
    ours.classifier.load_state_dict(theirs.classifier.state_dict())
    torch.testing.assert_close(ours(features, labels), theirs([dict(column) for column in features], labels))


def test_gradients_reach_model_and_classifier(table, column):
    loss_fn = SoftmaxLoss(table([[1.0, 2.0], [3.0, 1.0]]))
    loss_fn([column(0), column(1)], torch.tensor([2])).backward()
    assert loss_fn.model.rows.grad.abs().sum() > 0
    assert loss_fn.classifier.weight.grad.abs().sum() > 0


def test_predict_and_accuracy(table):
    # Reads |u−v| only: the class is the position of the largest difference.
    loss_fn = SoftmaxLoss(table([[0.0, 0, 0], [9.0, 0, 0], [0, 9.0, 0], [0, 0, 9.0]]), "|u-v|")
    set_weights(loss_fn, torch.eye(3).tolist())
    assert NLI_LABELS == ("entailment", "neutral", "contradiction")
    assert loss_fn.predict(["0", "0", "0"], ["1", "2", "3"]) == list(NLI_LABELS)
    gold = ["entailment", "entailment", "contradiction"]
    assert loss_fn.accuracy(["0", "0", "0"], ["1", "2", "3"], gold) == pytest.approx(2 / 3)


def test_predict_with_a_real_model(tiny):
    loss_fn = SoftmaxLoss(tiny)
    predicted = loss_fn.predict(["비가 온다"] * 3, ["눈이 온다", "비가 온다", "고양이가 잔다"], batch_size=2)
    assert len(predicted) == 3
    assert set(predicted) <= set(NLI_LABELS)


@pytest.mark.parametrize("labels", [[0, 3], [-1, 0], [0.0, 1.0]])
def test_wrong_label_ids_are_usage_errors(table, column, labels):
    loss_fn = SoftmaxLoss(table([[1.0, 2.0], [3.0, 1.0]]))
    with pytest.raises(UsageError, match="from 0 to 2"):
        loss_fn([column(0, 1), column(1, 0)], torch.tensor(labels))


def test_wrong_options_and_labels_are_usage_errors(table, column):
    model = table([[1.0, 2.0]])
    with pytest.raises(UsageError, match=r"did you mean .*\|u-v\|"):
        SoftmaxLoss(model, "u,v,|u+v|")
    for labels in (["entailment"], ["a", "a"]):
        with pytest.raises(UsageError, match="distinct classes"):
            SoftmaxLoss(model, labels=labels)
    with pytest.raises(UsageError, match="one label per row but got none"):
        SoftmaxLoss(model)([column(0), column(0)], None)
    with pytest.raises(UsageError, match="one label per pair"):
        SoftmaxLoss(model).accuracy(["0"], ["0"], ["unknown"])
    with pytest.raises(UsageError, match="one label per pair"):
        SoftmaxLoss(model).accuracy([], [], [])
