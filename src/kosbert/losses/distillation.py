"""Distillation: point where the teacher points, and be as similar to the others as the teacher says."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from kosbert.errors import UsageError
from kosbert.losses.base import Loss, Needs, labels_of
from kosbert.losses.features import Features
from kosbert.losses.forward import unwrapped
from kosbert.losses.loss_state import sync_module


class DistillationLoss(Loss):
    """Mean of 1 − cosine to the teacher's vector, plus `weight` × the squared error of the batch's cosine matrix.

    Where a row has several sentences (a sentence and edited copies of it), their own cosines are counted once more with
    that weight: among the many unrelated pairs of a batch the few close ones, which similarity is about, would drown.

    Arguments:
        model: the student.
        teacher_dimension: the dimension of the teacher's vectors.
        weight: of the cosines, which come from the student's own vectors and so need no projection.
        projection: a linear layer to the teacher's dimension, for training only; by default where the two differ.

    Reference: Reimers and Gurevych 2020, Making Monolingual Sentence Embeddings Multilingual, §2 (vectors as targets);
    Park et al. 2019, Relational Knowledge Distillation, §3 (relations within the batch as targets).

    Inputs: one text column (sentence) or more; labels are the teacher's vectors, (batch, teacher_dimension), or with
    more columns (batch, columns, teacher_dimension).

    Prefer another: anything with human labels, if they exist in number; this one needs only text and a better model.

    Example:
        >>> loss = Distillation(model, teacher_dimension=768)
        >>> loss([sentences], teacher_vectors)
    """

    needs: Needs = "vectors"
    texts = ("sentence",)
    citation = "Reimers and Gurevych 2020, Making Monolingual Sentence Embeddings Multilingual, https://arxiv.org/abs/2004.09813"

    def __init__(
        self, model: nn.Module, teacher_dimension: int, weight: float = 1.0, projection: bool | None = None
    ) -> None:
        super().__init__(model)
        own = unwrapped(model).get_embedding_dimension()
        projection = own != teacher_dimension if projection is None else projection
        if weight < 0 or (own != teacher_dimension and not projection):
            raise UsageError(
                f"Distillation from {teacher_dimension} to {own} dimensions got weight {weight} and projection "
                f"{projection}; give a weight of 0 or more, and a projection where the dimensions differ."
            )
        self.teacher_dimension, self.weight = teacher_dimension, weight
        linear = nn.Linear(own, teacher_dimension, bias=False, device=unwrapped(model).device)
        self.projection = sync_module(linear) if projection else nn.Identity()

    def columns(self, features: list[Features]) -> list[Features]:
        """Any number of sentences a row."""
        return features

    def compute_loss(self, embeddings: list[Tensor], labels: Tensor | None, columns: list[Features]) -> Tensor:
        """The terms; those of the cosines are 0 for one sentence."""
        student = torch.stack(embeddings, dim=1)  # (batch, columns, dimension)
        teacher = labels_of(labels, self, len(student)).to(student.dtype)
        if teacher.ndim == 2:
            teacher = teacher.unsqueeze(1)
        if teacher.shape != (*student.shape[:2], self.teacher_dimension):
            raise UsageError(
                f"The teacher's vectors have the shape {tuple(teacher.shape)} but {self.teacher_dimension} dimensions "
                f"for {student.shape[1]} columns were announced; set teacher_dimension to that of the stored vectors."
            )
        distance = 1 - functional.cosine_similarity(self.projection(student), teacher, dim=-1)  # (batch, columns)
        errors = functional.mse_loss(_cosines(student.flatten(0, 1)), _cosines(teacher.flatten(0, 1)))
        if student.shape[1] > 1:
            errors = errors + functional.mse_loss(_cosines(student), _cosines(teacher))
        return distance.mean() + self.weight * errors

    def get_config_dict(self) -> dict[str, Any]:
        """The options, for the model card."""
        projection = not isinstance(self.projection, nn.Identity)
        return {"teacher_dimension": self.teacher_dimension, "weight": self.weight, "projection": projection}


def _cosines(vectors: Tensor) -> Tensor:
    """Every vector with every other, (…, vectors, vectors)."""
    unit = functional.normalize(vectors, dim=-1)
    return unit @ unit.mT
