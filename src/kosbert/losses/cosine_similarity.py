"""Cosine similarity loss: Sentence-BERT's regression loss for STS."""

from sentence_transformers.sentence_transformer import losses as st_losses
from torch import Tensor, nn

from kosbert.errors import UsageError
from kosbert.losses.base import Loss, RowType, check_labels
from kosbert.losses.features import Features
from kosbert.model.placement import copied


class CosineSimilarityLoss(Loss):
    """Cosine similarity loss (Reimers & Gurevych 2019, §3): mean squared error between cosine and score.

    Args:
        model: the SentenceTransformer to train.

    References: Reimers and Gurevych 2019, Sentence-BERT, §3 (regression objective).

    Requirements: pairs with scores from 0 to 1; divide STS scores by 5.

    Inputs: two text columns (sentence1, sentence2); labels are scores, (batch,).

    Relations: `cosent` optimizes only the order of the pairs, like Spearman's correlation, and does not pull unrelated
    sentences to a cosine of exactly 0.

    Example:
        >>> loss = CosineSimilarityLoss(model)
        >>> loss(features, torch.tensor([4.2, 0.6]) / 5)
    """

    row_type: RowType = "scored pairs"
    text_columns = ("sentence1", "sentence2")
    citation = "Reimers and Gurevych 2019, Sentence-BERT, https://arxiv.org/abs/1908.10084"

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        self.formula = st_losses.CosineSimilarityLoss(None)  # only the formula; we embed ourselves

    def compute_loss(self, embeddings: list[Tensor], labels: Tensor | None, columns: list[Features]) -> Tensor:
        """Return sentence-transformers' cosine similarity loss after checking the scores."""
        scores = check_labels(labels, self, len(embeddings[0])).float()
        if not bool(((scores >= 0) & (scores <= 1)).all()):  # written this way, NaN fails too
            worst = max(scores.view(-1).tolist(), key=lambda score: abs(score - 0.5))
            raise UsageError(f"scores must lie between 0 and 1 but a batch has {worst:g}: divide STS scores by 5")
        loss: Tensor = self.formula.compute_loss_from_embeddings(embeddings, copied(scores, embeddings[0].device))
        return loss
