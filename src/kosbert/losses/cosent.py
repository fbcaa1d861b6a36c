"""CoSENT loss: order the pairs of a batch by their scores."""

from typing import Any

from sentence_transformers.sentence_transformer import losses as st_losses
from torch import Tensor, nn

from kosbert.errors import UsageError
from kosbert.losses.base import Loss, RowType, check_labels
from kosbert.losses.features import Features
from kosbert.model.placement import copied


class CoSENTLoss(Loss):
    """CoSENT loss (Huang et al. 2024).

    log(1 + Σ exp(scale · (cosine of the lower pair − cosine of the higher pair))), over all pairs of pairs with
    different scores.

    Args:
        model: the SentenceTransformer to train.
        scale: inverse temperature; 20, as in sentence-transformers.

    References: Huang et al. 2024, CoSENT: Consistent Sentence Embedding via Similarity Ranking.

    Requirements: scored pairs with different scores within a batch; a batch of equal scores has a loss of 0.

    Inputs: two text columns (sentence1, sentence2); labels are scores on any scale, (batch,). Only their order counts.

    Relations: prefer `cosine-similarity` if the cosine itself should be readable as a score, or for very small batches.

    Example:
        >>> loss = CoSENTLoss(model, scale=20.0)
        >>> loss(features, torch.tensor([4.2, 0.6]))
    """

    row_type: RowType = "scored pairs"
    text_columns = ("sentence1", "sentence2")
    citation = "Huang et al. 2024, CoSENT, https://doi.org/10.1109/TASLP.2024.3402087"

    def __init__(self, model: nn.Module, scale: float = 20.0) -> None:
        super().__init__(model)
        if not scale > 0:
            raise UsageError(f"the scale must be above 0 but is {scale}: 20 is usual")
        self.scale = scale
        self.formula = st_losses.CoSENTLoss(None, scale=scale)  # only the formula; we embed ourselves

    def compute_loss(self, embeddings: list[Tensor], labels: Tensor | None, columns: list[Features]) -> Tensor:
        """Return sentence-transformers' CoSENT loss after checking the scores."""
        scores = check_labels(labels, self, len(embeddings[0])).float()
        if not bool(scores.isfinite().all()):
            raise UsageError("a score is not a number: remove the rows without a score")
        loss: Tensor = self.formula.compute_loss_from_embeddings(embeddings, copied(scores, embeddings[0].device))
        return loss

    def get_config_dict(self) -> dict[str, Any]:
        """Return the options, for the model card."""
        return {"scale": self.scale}
