"""Regression of the cosine onto the similarity score: Sentence-BERT's loss for STS."""

from sentence_transformers.sentence_transformer import losses as st_losses
from torch import Tensor, nn

from kosbert.errors import UsageError
from kosbert.losses.base import Loss, Needs, labels_of
from kosbert.losses.features import Features


class CosineSimilarityLoss(Loss):
    """Mean squared error between the cosine of a pair and its score.

    Arguments:
        model: the SentenceTransformer to train.

    Reference: Reimers and Gurevych 2019, Sentence-BERT, §3 (regression loss).

    Inputs: two text columns (sentence1, sentence2); labels are scores from 0 to 1, (batch,): STS scores divided by 5.

    Prefer another: `cosent` asks only for the right order of the pairs, as Spearman's correlation does, and does not
    pull unrelated sentences to a cosine of exactly 0.

    Example:
        >>> loss = CosineRegression(model)
        >>> loss(features, torch.tensor([4.2, 0.6]) / 5)
    """

    needs: Needs = "scored pairs"
    texts = ("sentence1", "sentence2")
    citation = "Reimers and Gurevych 2019, Sentence-BERT, https://arxiv.org/abs/1908.10084"

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        self.formula = st_losses.CosineSimilarityLoss(None)  # only its formula: the model is ours

    def compute_loss(self, embeddings: list[Tensor], labels: Tensor | None, columns: list[Features]) -> Tensor:
        """The formula of sentence-transformers, on checked scores."""
        scores = labels_of(labels, self, len(embeddings[0])).float()
        if not bool(((scores >= 0) & (scores <= 1)).all()):  # so written, NaN fails too
            worst = max(scores.view(-1).tolist(), key=lambda score: abs(score - 0.5))
            raise UsageError(f"Scores must lie between 0 and 1 but a batch has {worst:g}; divide STS scores by 5.")
        loss: Tensor = self.formula.compute_loss_from_embeddings(embeddings, scores)
        return loss
