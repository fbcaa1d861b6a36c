"""CoSENT: put the pairs of a batch into the order of their scores."""

from typing import Any

from sentence_transformers.sentence_transformer import losses as st_losses
from torch import Tensor, nn

from kosbert.errors import UsageError
from kosbert.losses.base import Loss, Needs, labels_of
from kosbert.losses.features import Features


class CoSENTLoss(Loss):
    """log(1 + Σ exp(scale · (cos of the lower pair − cos of the higher pair))), over all pairs of pairs that differ.

    Arguments:
        model: the SentenceTransformer to train.
        scale: the inverse temperature; 20, as in sentence-transformers.

    Reference: Huang et al. 2024, CoSENT: Consistent Sentence Embedding via Similarity Ranking.

    Inputs: two text columns (sentence1, sentence2); labels are scores on any scale, (batch,): only their order counts.

    Prefer another: `cosine` when the cosine itself shall be readable as a score, or when batches are so small that few
    pairs differ (all scores equal gives a loss of 0).

    Example:
        >>> loss = CoSENT(model, scale=20.0)
        >>> loss(features, torch.tensor([4.2, 0.6]))
    """

    needs: Needs = "scored pairs"
    texts = ("sentence1", "sentence2")
    citation = "Huang et al. 2024, CoSENT, https://doi.org/10.1109/TASLP.2024.3402087"

    def __init__(self, model: nn.Module, scale: float = 20.0) -> None:
        super().__init__(model)
        if not scale > 0:
            raise UsageError(f"The scale must be above 0 but is {scale}; 20 is the usual one.")
        self.scale = scale
        self.formula = st_losses.CoSENTLoss(None, scale=scale)  # only its formula: the model is ours

    def compute_loss(self, embeddings: list[Tensor], labels: Tensor | None, columns: list[Features]) -> Tensor:
        """The formula of sentence-transformers, on checked scores."""
        scores = labels_of(labels, self, len(embeddings[0])).float()
        if not bool(scores.isfinite().all()):
            raise UsageError("A score is not a number; remove the rows without a score.")
        loss: Tensor = self.formula.compute_loss_from_embeddings(embeddings, scores)
        return loss

    def get_config_dict(self) -> dict[str, Any]:
        """The options, for the model card."""
        return {"scale": self.scale}
