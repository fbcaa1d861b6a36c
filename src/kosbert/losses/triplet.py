"""Triplet loss: the positive nearer to the anchor than the negative, by a margin."""

from typing import Any

from sentence_transformers.sentence_transformer import losses as st_losses
from torch import Tensor, nn

from kosbert.errors import UsageError, did_you_mean
from kosbert.losses.base import Loss, Needs
from kosbert.losses.features import Features

DISTANCES = {"euclidean": st_losses.TripletDistanceMetric.EUCLIDEAN, "cosine": st_losses.TripletDistanceMetric.COSINE}


class TripletLoss(Loss):
    """Mean of max(distance(anchor, positive) − distance(anchor, negative) + margin, 0).

    Arguments:
        model: the SentenceTransformer to train.
        distance: "euclidean" (the paper's) or "cosine" (1 − cosine, between 0 and 2).
        margin: how much nearer the positive must be; 1 in the paper. For "cosine" 0.2 to 0.5 is common.

    Reference: Reimers and Gurevych 2019, Sentence-BERT, §3 (triplet loss).

    Inputs: three text columns (anchor, positive, negative); no labels.

    Prefer another: `ranking` uses every other sentence of the batch as a negative as well, and needs no margin.

    Example:
        >>> loss = Triplet(model, distance="cosine", margin=0.3)
        >>> loss(features)
    """

    needs: Needs = "triplets"
    texts = ("anchor", "positive", "negative")
    citation = "Reimers and Gurevych 2019, Sentence-BERT, https://arxiv.org/abs/1908.10084"

    def __init__(self, model: nn.Module, distance: str = "euclidean", margin: float = 1.0) -> None:
        super().__init__(model)
        if distance not in DISTANCES:
            raise UsageError(f"There is no distance {distance!r}; {did_you_mean(distance, DISTANCES)}")
        if not margin > 0:
            raise UsageError(f"The margin must be above 0 but is {margin}; the paper's is 1.")
        self.distance, self.margin = distance, margin
        # Only its formula: the model is ours.
        self.formula = st_losses.TripletLoss(None, distance_metric=DISTANCES[distance], triplet_margin=margin)

    def compute_loss(self, embeddings: list[Tensor], labels: Tensor | None, columns: list[Features]) -> Tensor:
        """The formula of sentence-transformers."""
        loss: Tensor = self.formula.compute_loss_from_embeddings(embeddings, labels)
        return loss

    def get_config_dict(self) -> dict[str, Any]:
        """The options, for the model card."""
        return {"distance": self.distance, "margin": self.margin}
