"""Matryoshka: train the first dimensions of the vector to be a vector of their own.

sentence-transformers' wrapper replaces `model.forward` while it calls the inner loss once a dimension, normalizes the
vectors that the inner loss sees, and cannot wrap a loss with a layer of fixed width. Here the vectors are embedded once
and their tail is set to zero. That is the same for a cosine, leaves Euclidean losses unchanged at full dimension, and
makes a layer use its first columns: the tied weights of the paper's "efficient" variant (MRL-E, §3).
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from kosbert.errors import UsageError
from kosbert.losses.base import Loss
from kosbert.losses.features import Features
from kosbert.losses.forward import unwrapped


class MatryoshkaLoss(Loss):
    """The sum of a loss's losses at several dimensions, always with the full one among them.

    Arguments:
        loss: any loss.
        dimensions: the sizes to train besides the model's own, such as [256, 128, 64].
        weights: of each of `dimensions`, 1 by default; the full dimension has weight 1 unless it is listed.

    Reference: Kusupati et al. 2022, Matryoshka Representation Learning, §3.

    Inputs: those of the loss.

    Prefer another: none, if only the full vectors will be used; every further size costs a little of the full one.

    Example:
        >>> loss = Matryoshka(Ranking(model), [256, 128, 64])
        >>> model.encode("오늘 날씨가 좋다.", truncate_dim=64)
    """

    def __init__(self, loss_fn: Loss, dimensions: Sequence[int], weights: Sequence[float] | None = None) -> None:
        super().__init__(loss_fn.model)
        full = unwrapped(loss_fn.model).get_embedding_dimension()
        if not dimensions or min(dimensions) < 1 or max(dimensions) > full or len(set(dimensions)) < len(dimensions):
            raise UsageError(f"Matryoshka dimensions must be distinct and from 1 to {full} but are {list(dimensions)}.")
        if weights is not None and len(weights) != len(dimensions):
            raise UsageError(f"{len(weights)} weights for {len(dimensions)} dimensions; give one weight a dimension.")
        self.loss = loss_fn
        self.full = full
        # Without the full size the vectors that users get by default would never be trained.
        self.weights = {full: 1.0} | dict(zip(dimensions, weights or [1.0] * len(dimensions), strict=True))
        self.needs, self.texts, self.more_negatives = loss_fn.needs, loss_fn.texts, loss_fn.more_negatives
        self.citation = f"{loss_fn.citation}; Kusupati et al. 2022, Matryoshka, https://arxiv.org/abs/2205.13147"

    def columns(self, features: list[Features]) -> list[Features]:
        """Those of the loss."""
        return self.loss.columns(features)

    def vectors(self, columns: list[Features]) -> list[Tensor]:
        """Those of the loss."""
        return self.loss.vectors(columns)

    def compute_loss(self, embeddings: list[Tensor], labels: Tensor | None, columns: list[Features]) -> Tensor:
        """The loss's loss for each size, weighted and summed."""
        losses = [
            weight * self.loss.compute_loss([_head_of(vectors, size) for vectors in embeddings], labels, columns)
            for size, weight in self.weights.items()
        ]
        return torch.stack(losses).sum()

    def get_config_dict(self) -> dict[str, Any]:
        """The options, for the model card."""
        inner = {"loss": type(self.loss).__name__, **self.loss.get_config_dict()}
        return {**inner, "matryoshka": {str(size): weight for size, weight in self.weights.items()}}


def _head_of(vectors: Tensor, size: int) -> Tensor:
    """The first `size` dimensions, the rest zero: (batch, dimension) to (batch, dimension)."""
    return functional.pad(vectors[:, :size], (0, vectors.shape[1] - size))
