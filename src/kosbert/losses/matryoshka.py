"""Matryoshka loss: train the first dimensions of an embedding to be an embedding on their own.

sentence-transformers' wrapper replaces `model.forward` and calls the inner loss once per dimension, normalizes the
embeddings that the inner loss sees, and cannot wrap a loss with a layer of fixed width. Here the sentences are embedded
once and the tail of each embedding is set to zero. For cosines that is the same. Euclidean losses stay unchanged at the
full dimension, and a layer uses its first columns: the tied weights of the paper's "efficient" variant (MRL-E, §3).
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from kosbert.errors import UsageError
from kosbert.losses.base import Loss
from kosbert.losses.features import Features
from kosbert.losses.forward import unwrap


class MatryoshkaLoss(Loss):
    """Matryoshka loss (Kusupati et al. 2022, §3): weighted sum of a loss at several dimensions, including the full one.

    Args:
        loss_fn: any loss.
        dimensions: dimensions to train besides the full one, such as [256, 128, 64].
        weights: one per dimension, 1 by default. The full dimension has weight 1 unless it is listed.

    References: Kusupati et al. 2022, Matryoshka Representation Learning, §3.

    Inputs: those of the inner loss.

    Relations: without it if only full embeddings are used; every further dimension costs a little of the full one.

    Example:
        >>> loss = MatryoshkaLoss(MultipleNegativesRankingLoss(model), [256, 128, 64])
        >>> model.encode("오늘 날씨가 좋다.", truncate_dim=64)
    """

    def __init__(self, loss_fn: Loss, dimensions: Sequence[int], weights: Sequence[float] | None = None) -> None:
        super().__init__(loss_fn.model)
        full = unwrap(loss_fn.model).get_embedding_dimension()
        if not dimensions or min(dimensions) < 1 or max(dimensions) > full or len(set(dimensions)) < len(dimensions):
            raise UsageError(f"Matryoshka dimensions must be distinct and from 1 to {full} but are {list(dimensions)}")
        if weights is not None and len(weights) != len(dimensions):
            raise UsageError(f"{len(weights)} weights for {len(dimensions)} dimensions: give one weight per dimension")
        self.loss = loss_fn
        # The full dimension is always trained: it is what users get by default.
        self.weights = {full: 1.0} | dict(zip(dimensions, weights or [1.0] * len(dimensions), strict=True))
        self.row_type, self.text_columns = loss_fn.row_type, loss_fn.text_columns
        self.accepts_hard_negatives = loss_fn.accepts_hard_negatives
        self.citation = f"{loss_fn.citation}; Kusupati et al. 2022, Matryoshka, https://arxiv.org/abs/2205.13147"

    def prepare_columns(self, features: list[Features]) -> list[Features]:
        """Prepare the columns as the inner loss does."""
        return self.loss.prepare_columns(features)

    def embed(self, columns: list[Features]) -> list[Tensor]:
        """Embed the columns as the inner loss does."""
        return self.loss.embed(columns)

    def compute_loss(self, embeddings: list[Tensor], labels: Tensor | None, columns: list[Features]) -> Tensor:
        """Return the weighted sum of the inner loss over all dimensions."""
        losses = [
            weight * self.loss.compute_loss([_truncate(vectors, size) for vectors in embeddings], labels, columns)
            for size, weight in self.weights.items()
        ]
        return torch.stack(losses).sum()

    def get_config_dict(self) -> dict[str, Any]:
        """Return the options, for the model card."""
        inner = {"loss": type(self.loss).__name__, **self.loss.get_config_dict()}
        return {**inner, "matryoshka": {str(size): weight for size, weight in self.weights.items()}}


def _truncate(vectors: Tensor, size: int) -> Tensor:
    """Set all but the first `size` dimensions to zero: (batch, dimension) to (batch, dimension)."""
    return functional.pad(vectors[:, :size], (0, vectors.shape[1] - size))
