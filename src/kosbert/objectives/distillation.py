"""Distillation: point where the teacher points, and be as similar to the others as the teacher says."""

from typing import Any

from torch import Tensor, nn
from torch.nn import functional

from kosbert.errors import UsageError
from kosbert.objectives.features import Features
from kosbert.objectives.layers import keep_in_step
from kosbert.objectives.objective import Needs, Objective, labels_of
from kosbert.objectives.siamese import unwrapped


class Distillation(Objective):
    """Mean of 1 − cosine to the teacher's vector, plus `weight` × the squared error of the batch's cosine matrix.

    Arguments:
        model: the student.
        teacher_dimension: the dimension of the teacher's vectors.
        weight: of the second term, which sees the student's own vectors and so needs no projection.
        projection: a linear layer to the teacher's dimension, for training only; by default where the two differ.

    Reference: Reimers and Gurevych 2020, Making Monolingual Sentence Embeddings Multilingual, §2 (vectors as targets);
    Park et al. 2019, Relational Knowledge Distillation, §3 (relations within the batch as targets).

    Inputs: one text column (sentence); labels are the teacher's vectors, (batch, teacher_dimension).

    Prefer another: anything with human labels, if they exist in number; this one needs only text and a better model.

    Example:
        >>> objective = Distillation(model, teacher_dimension=768)
        >>> objective([sentences], teacher_vectors)
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
        self.projection = keep_in_step(linear) if projection else nn.Identity()

    def loss_of(self, embeddings: list[Tensor], labels: Tensor | None, columns: list[Features]) -> Tensor:
        """The two terms; the second is 0 for a batch of one."""
        student = embeddings[0]  # (batch, dimension)
        teacher = labels_of(labels, self, len(student)).to(student.dtype)
        if teacher.ndim != 2 or teacher.shape[1] != self.teacher_dimension:
            raise UsageError(
                f"The teacher's vectors have the shape {tuple(teacher.shape)} but {self.teacher_dimension} dimensions "
                "were announced; set teacher_dimension to that of the stored vectors."
            )
        distance = 1 - functional.cosine_similarity(self.projection(student), teacher, dim=1)  # (batch,)
        return distance.mean() + self.weight * functional.mse_loss(_cosines(student), _cosines(teacher))

    def get_config_dict(self) -> dict[str, Any]:
        """The options, for the model card."""
        projection = not isinstance(self.projection, nn.Identity)
        return {"teacher_dimension": self.teacher_dimension, "weight": self.weight, "projection": projection}


def _cosines(vectors: Tensor) -> Tensor:
    """Every vector with every other, (batch, batch)."""
    unit = functional.normalize(vectors, dim=1)
    return unit @ unit.T
