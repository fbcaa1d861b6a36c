from math import sqrt

import pytest
import torch

from kosbert.errors import UsageError
from kosbert.losses.distillation import DistillationLoss

ROWS = [[1.0, 0.0], [1.0, 1.0]]
TEACHER = [[2.0, 0.0], [0.0, 3.0]]


def test_known_answer(table, column):
    loss = DistillationLoss(table(ROWS), teacher_dimension=2, weight=0.5)([column(0, 1)], torch.tensor(TEACHER))
    direction = ((1 - 1.0) + (1 - 1 / sqrt(2))) / 2
    # Cosine matrices: student 1/√2 off the diagonal, teacher 0, and 1 on both diagonals.
    relations = (0 + (1 / sqrt(2)) ** 2 + (1 / sqrt(2)) ** 2 + 0) / 4
    assert loss.item() == pytest.approx(direction + 0.5 * relations, rel=1e-6)


def test_known_answer_with_projection(table, column):
    loss_fn = DistillationLoss(table(ROWS), teacher_dimension=3, weight=0)
    with torch.no_grad():
        loss_fn.projection.weight.copy_(torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]))  # (x, y) to (0, x, y)
    loss = loss_fn([column(0, 1)], torch.tensor([[0.0, 1.0, 0.0], [1.0, 0.0, 1.0]]))
    # (0,1,0)·(0,1,0) = 1; (0,1,1)·(1,0,1) / 2 = 1/2
    assert loss.item() == pytest.approx(((1 - 1) + (1 - 0.5)) / 2, rel=1e-6)


def test_loss_is_zero_for_a_perfect_student(table, column):
    loss = DistillationLoss(table(TEACHER), teacher_dimension=2)([column(0, 1)], torch.tensor(TEACHER) * 5)
    assert loss.item() == pytest.approx(0, abs=1e-6)


def test_known_answer_with_two_sentences_per_row(table, column):
    loss_fn = DistillationLoss(table(ROWS), teacher_dimension=2, weight=0.5)
    loss = loss_fn([column(0), column(1)], torch.tensor([TEACHER]))
    direction = ((1 - 1.0) + (1 - 1 / sqrt(2))) / 2
    # A single row: its cosines are all cosines of the batch, so they count twice.
    relations = (0 + (1 / sqrt(2)) ** 2 + (1 / sqrt(2)) ** 2 + 0) / 4
    assert loss.item() == pytest.approx(direction + 0.5 * 2 * relations, rel=1e-6)


def test_gradients_reach_student_and_projection(gradients, table, column):
    loss_fn = DistillationLoss(table(ROWS), teacher_dimension=5)
    _, by_name = gradients(loss_fn, [column(0, 1)], torch.randn(2, 5))
    assert by_name["model.rows"].abs().sum() > 0
    assert by_name["projection.weight"].abs().sum() > 0


def test_cosine_errors_train_the_student_and_not_the_projection(gradients, table, column):
    loss_fn = DistillationLoss(table(ROWS), teacher_dimension=2, projection=True, weight=1.0)
    without = DistillationLoss(table(ROWS), teacher_dimension=2, projection=True, weight=0.0)
    without.projection.load_state_dict(loss_fn.projection.state_dict())
    _, both = gradients(loss_fn, [column(0, 1)], torch.tensor(TEACHER))
    _, without_relations = gradients(without, [column(0, 1)], torch.tensor(TEACHER))
    torch.testing.assert_close(both["projection.weight"], without_relations["projection.weight"])
    assert not torch.allclose(both["model.rows"], without_relations["model.rows"])


def test_wrong_shapes_and_options_are_usage_errors(table, column):
    with pytest.raises(UsageError, match="set teacher_dimension"):
        DistillationLoss(table(ROWS), teacher_dimension=2)([column(0, 1)], torch.ones(2, 3))
    with pytest.raises(UsageError, match="2 dimensions for 2 columns"):
        DistillationLoss(table(ROWS), teacher_dimension=2)([column(0), column(1)], torch.ones(1, 2))
    with pytest.raises(UsageError, match="one label per row but got none"):
        DistillationLoss(table(ROWS), teacher_dimension=2)([column(0, 1)])
    with pytest.raises(UsageError, match="if the dimensions differ"):
        DistillationLoss(table(ROWS), teacher_dimension=3, projection=False)
