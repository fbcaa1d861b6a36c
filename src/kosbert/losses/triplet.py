"""Triplet loss: the positive is closer to the anchor than the negative, by a margin."""

from typing import Any

from sentence_transformers.sentence_transformer import losses as st_losses
from torch import Tensor, nn

from kosbert.errors import UsageError, did_you_mean
from kosbert.losses.base import Loss, RowType
from kosbert.losses.features import Features

DISTANCES = {"euclidean": st_losses.TripletDistanceMetric.EUCLIDEAN, "cosine": st_losses.TripletDistanceMetric.COSINE}


class TripletLoss(Loss):
    """Triplet loss (Reimers & Gurevych 2019, §3).

    Mean of max(distance(anchor, positive) − distance(anchor, negative) + margin, 0).

    Args:
        model: the SentenceTransformer to train.
        distance: "euclidean" (as in the paper) or "cosine" (1 − cosine, between 0 and 2).
        margin: how much closer the positive must be; 1 in the paper. For "cosine" 0.2 to 0.5 is common.

    References: Reimers and Gurevych 2019, Sentence-BERT, §3 (triplet objective).

    Requirements: triplets, for example premise, entailment and contradiction of NLI.

    Inputs: three text columns (anchor, positive, negative); no labels.

    Relations: `multiple-negatives-ranking` uses all other sentences of the batch as negatives, and needs no margin.

    Example:
        >>> loss = TripletLoss(model, distance="cosine", margin=0.3)
        >>> loss(features)
    """

    row_type: RowType = "triplets"
    text_columns = ("anchor", "positive", "negative")
    citation = "Reimers and Gurevych 2019, Sentence-BERT, https://arxiv.org/abs/1908.10084"

    def __init__(self, model: nn.Module, distance: str = "euclidean", margin: float = 1.0) -> None:
        super().__init__(model)
        if distance not in DISTANCES:
            raise UsageError(f"there is no distance {distance!r}: {did_you_mean(distance, DISTANCES)}")
        if not margin > 0:
            raise UsageError(f"the margin must be above 0 but is {margin}: the paper uses 1")
        self.distance, self.margin = distance, margin
        # Only the formula; we embed ourselves.
        self.formula = st_losses.TripletLoss(None, distance_metric=DISTANCES[distance], triplet_margin=margin)

    def compute_loss(self, embeddings: list[Tensor], labels: Tensor | None, columns: list[Features]) -> Tensor:
        """Return sentence-transformers' triplet loss."""
        loss: Tensor = self.formula.compute_loss_from_embeddings(embeddings, labels)
        return loss

    def get_config_dict(self) -> dict[str, Any]:
        """Return the options, for the model card."""
        return {"distance": self.distance, "margin": self.margin}
