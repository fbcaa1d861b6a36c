"""Distillation loss: match the direction of the teacher's embedding and its cosines within the batch."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from kosbert.distributed import sync_module
from kosbert.errors import UsageError
from kosbert.losses.base import Loss, RowType, check_labels
from kosbert.losses.features import Features
from kosbert.losses.forward import unwrap
from kosbert.model.placement import copied


class DistillationLoss(Loss):
    """Mean of 1 − cosine to the teacher's embedding, plus `weight` × the squared error of the batch's cosine matrix.

    If a row has several sentences (a sentence and edited copies), the cosines within the row are counted once more with
    the same weight. Otherwise these few similar pairs, which matter most, would be lost among the many unrelated ones.

    Args:
        model: the student.
        teacher_dimension: dimension of the teacher's embeddings.
        weight: weight of the cosine errors. They use the student's embeddings directly and need no projection.
        projection: a linear layer to the teacher's dimension, for training only; by default if the dimensions differ.

    References: Reimers and Gurevych 2020, Making Monolingual Sentence Embeddings Multilingual, §2 (embeddings as
    targets); Park et al. 2019, Relational Knowledge Distillation, §3 (relations within the batch as targets).

    Requirements: sentences and a better model; no labels.

    Inputs: one text column (sentence) or more; labels are the teacher's embeddings, (batch, teacher_dimension), or with
    several columns (batch, columns, teacher_dimension).

    Relations: prefer a loss for human labels if there are many of them.

    Example:
        >>> loss = DistillationLoss(model, teacher_dimension=768)
        >>> loss([sentences], teacher_embeddings)
    """

    row_type: RowType = "vectors"
    text_columns = ("sentence",)
    citation = "Reimers and Gurevych 2020, Making Monolingual Sentence Embeddings Multilingual, https://arxiv.org/abs/2004.09813"

    def __init__(
        self, model: nn.Module, teacher_dimension: int, weight: float = 1.0, projection: bool | None = None
    ) -> None:
        super().__init__(model)
        dimension = unwrap(model).get_embedding_dimension()
        projection = dimension != teacher_dimension if projection is None else projection
        if weight < 0 or (dimension != teacher_dimension and not projection):
            raise UsageError(
                f"distillation from {teacher_dimension} to {dimension} dimensions got weight {weight} and projection "
                f"{projection}: give a weight of 0 or more, and a projection if the dimensions differ"
            )
        self.teacher_dimension, self.weight = teacher_dimension, weight
        linear = nn.Linear(dimension, teacher_dimension, bias=False, device=unwrap(model).device)
        self.projection = sync_module(linear) if projection else nn.Identity()

    def prepare_columns(self, features: list[Features]) -> list[Features]:
        """Accept any number of sentences per row."""
        return features

    def compute_loss(self, embeddings: list[Tensor], labels: Tensor | None, columns: list[Features]) -> Tensor:
        """Return the sum of both terms; the cosine term is 0 for a single sentence."""
        student = torch.stack(embeddings, dim=1)  # (batch, columns, dimension)
        teacher = copied(check_labels(labels, self, len(student)), student.device).to(student.dtype)
        if teacher.ndim == 2:
            teacher = teacher.unsqueeze(1)
        if teacher.shape != (*student.shape[:2], self.teacher_dimension):
            raise UsageError(
                f"the teacher's embeddings have the shape {tuple(teacher.shape)} but {self.teacher_dimension} "
                f"dimensions for {student.shape[1]} columns were expected: set teacher_dimension to that of the teacher"
            )
        distance = 1 - functional.cosine_similarity(self.projection(student), teacher, dim=-1)  # (batch, columns)
        errors = functional.mse_loss(_cosines(student.flatten(0, 1)), _cosines(teacher.flatten(0, 1)))
        if student.shape[1] > 1:
            errors = errors + functional.mse_loss(_cosines(student), _cosines(teacher))
        return distance.mean() + self.weight * errors

    def get_config_dict(self) -> dict[str, Any]:
        """Return the options, for the model card."""
        projection = not isinstance(self.projection, nn.Identity)
        return {"teacher_dimension": self.teacher_dimension, "weight": self.weight, "projection": projection}


def _cosines(vectors: Tensor) -> Tensor:
    """Return the cosine matrix, (…, vectors, vectors)."""
    unit = functional.normalize(vectors, dim=-1)
    return unit @ unit.mT
