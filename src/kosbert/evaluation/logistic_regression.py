"""Logistic regressions by the hundred: every fold and every strength of a task in one matrix product a step."""

from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from kosbert.evaluation.transfer_tasks import Matrix

# When a regression has converged: what a step can still win, by row and strength. For choosing a strength less will do:
# over ten folds of 8,000 rows of 3i4k accuracies are those of 1e-10 within 0.02 points, in 40% of the steps.
CONVERGED, CHOOSING = 1e-10, 1e-7

Labels: TypeAlias = NDArray[np.int64]


class BatchedLogisticRegression:
    """Many logistic regressions over the same rows at once: of each fold, of each strength.

    Each has the optimum of scikit-learn's LogisticRegression: strength × the sum of log losses + half the squared
    weights, the intercept free. All of them take part in one matrix product a step, so a hundred cost little more than
    a few. Rows are turned onto their principal axes, which changes no penalty and no optimum (and therefore tells
    nothing about rows that a regression does not keep). There the curvature has a diagonal bound (Böhning 1992,
    Multinomial logistic regression algorithm), by which Nesterov's method steps without a line search.
    """

    def __init__(self, features: Matrix, labels: Labels, classes: int) -> None:
        rows = torch.from_numpy(np.ascontiguousarray(features, np.float32))
        self._center = rows.mean(dim=0)
        centered = rows - self._center
        spread, axes = torch.linalg.eigh((centered.T @ centered).double())
        self._axes = axes.float()
        self._rows = self._placed(features)  # (n, dim + 1)
        self._columns = 1 if classes == 2 else classes
        total = torch.tensor([float(len(rows))], dtype=torch.float64)  # the intercept's column is all ones
        bound = 0.25 if classes == 2 else 0.5
        # A thousandth more than the bound makes up for rounding.
        self._curvature = (1.001 * bound * torch.cat([spread.clamp(min=0), total])).float()[:, None, None]
        self._penalty = torch.ones_like(self._curvature)
        self._penalty[-1] = 0
        target = torch.from_numpy(labels)
        self._targets = functional.one_hot(target, classes).float() if classes > 2 else target.float()[:, None]

    def _placed(self, features: Matrix) -> torch.Tensor:
        rows = torch.from_numpy(np.ascontiguousarray(features, np.float32))
        return torch.cat([(rows - self._center) @ self._axes, torch.ones(len(rows), 1)], dim=1)

    def fit(
        self,
        kept: NDArray[np.bool_],
        strength: float | NDArray[np.float64],
        start: torch.Tensor | None = None,
        *,
        tolerance: float = CONVERGED,
        most_steps: int = 1000,
    ) -> torch.Tensor:
        """Weights (dim + 1, problems, columns) of a regression for each column of `kept` (n, problems)."""
        n, problems = kept.shape
        shape = (len(self._penalty), problems, self._columns)
        strengths = torch.as_tensor(strength, dtype=torch.float32).expand(problems)[:, None]  # (problems, 1)
        bound = strengths * self._curvature + self._penalty  # (dim + 1, problems, 1)
        mask = torch.from_numpy(kept).float()[:, :, None]
        counts = strengths[:, 0] * mask.sum(dim=(0, 2))
        weights = torch.zeros(shape) if start is None else start
        ahead, pace = weights, torch.ones(problems)
        for _ in range(most_steps):
            logits = (self._rows @ ahead.reshape(shape[0], -1)).reshape(n, problems, self._columns)
            error = torch.softmax(logits, dim=2) if self._columns > 1 else torch.sigmoid(logits)
            error.sub_(self._targets[:, None, :]).mul_(mask)  # (n, problems, columns)
            gradient = (self._rows.T @ error.reshape(n, -1)).reshape(shape) * strengths + self._penalty * ahead
            step = gradient / bound
            new = ahead - step
            if bool(((gradient * step).sum(dim=(0, 2)) <= tolerance * counts).all()):
                return new
            # Momentum starts anew where it points uphill (O'Donoghue and Candès 2015, Adaptive restart).
            uphill = (gradient * (new - weights)).sum(dim=(0, 2)) > 0
            next_pace = torch.where(uphill, 1.0, (1 + torch.sqrt(1 + 4 * pace**2)) / 2)
            momentum = torch.where(uphill, 0.0, (pace - 1) / next_pace)[:, None]
            ahead, weights, pace = new + momentum * (new - weights), new, next_pace
        return weights

    def predict(self, weights: torch.Tensor, features: Matrix | None = None) -> Labels:
        """The class of each row under each regression, (n, problems); of the rows that it was made with, or others."""
        rows = self._rows if features is None else self._placed(features)
        logits = (rows @ weights.reshape(len(weights), -1)).reshape(len(rows), *weights.shape[1:])
        found: Labels = (logits.argmax(dim=2) if self._columns > 1 else (logits[:, :, 0] > 0).long()).numpy()
        return found
