"""Softmax loss: Sentence-BERT's classification loss for NLI."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from kosbert.data.readers import NLI_LABELS
from kosbert.distributed import sync_module
from kosbert.errors import UsageError, did_you_mean
from kosbert.losses.base import Loss, RowType, check_labels
from kosbert.losses.features import Features
from kosbert.losses.forward import unwrap
from kosbert.model.placement import copied

# The seven rows of the paper's Table 6, in its order.
CONCATENATIONS = ("u,v", "|u-v|", "u*v", "|u-v|,u*v", "u,v,u*v", "u,v,|u-v|", "u,v,|u-v|,u*v")


class SoftmaxLoss(Loss):
    """Softmax loss (Reimers & Gurevych 2019, §3).

    Classifies a pair with a linear layer over a concatenation of its embeddings u and v. The layer is dropped after
    training.

    Args:
        model: the SentenceTransformer to train.
        concatenation: one of `CONCATENATIONS`; the paper found "u,v,|u-v|" best (§6).
        labels: the class names, in the order of their ids.

    References: Reimers and Gurevych 2019, Sentence-BERT, §3 (classification objective) and §6, Table 6
    (concatenations).

    Requirements: labeled pairs of at least two classes.

    Inputs: two text columns (premise, hypothesis); labels are class ids, (batch,).

    Relations: `multiple-negatives-ranking` or `simcse-supervised` on NLI triplets usually give better sentence
    similarity. This loss also predicts the label, and uses the neutral pairs.

    Example:
        >>> loss = SoftmaxLoss(model, concatenation="u,v,|u-v|")
        >>> loss.accuracy(["비가 온다."], ["날씨가 맑다."], ["contradiction"])
    """

    row_type: RowType = "labeled pairs"
    text_columns = ("premise", "hypothesis")
    citation = "Reimers and Gurevych 2019, Sentence-BERT, https://arxiv.org/abs/1908.10084"

    def __init__(self, model: nn.Module, concatenation: str = "u,v,|u-v|", labels: Sequence[str] = NLI_LABELS) -> None:
        super().__init__(model)
        name = concatenation.replace(" ", "").replace("−", "-").strip("()")
        if name not in CONCATENATIONS:
            raise UsageError(f"there is no concatenation {concatenation!r}: {did_you_mean(name, CONCATENATIONS)}")
        if len(set(labels)) < 2 or len(set(labels)) < len(labels):
            raise UsageError(f"the softmax loss needs two or more distinct classes but got {list(labels)}: name them")
        self.concatenation = name
        self.labels = tuple(labels)
        width = len(name.split(",")) * unwrap(model).get_embedding_dimension()
        # With a bias, as in the authors' code, although §3 has the weight matrix alone.
        self.classifier = sync_module(nn.Linear(width, len(self.labels), device=unwrap(model).device))

    def logits(self, u: Tensor, v: Tensor) -> Tensor:
        """Return class scores, (batch, classes), from two (batch, dimension) tensors."""
        parts = {"u": u, "v": v, "|u-v|": (u - v).abs(), "u*v": u * v}
        scores: Tensor = self.classifier(torch.cat([parts[name] for name in self.concatenation.split(",")], dim=1))
        return scores

    def compute_loss(self, embeddings: list[Tensor], labels: Tensor | None, columns: list[Features]) -> Tensor:
        """Return the cross-entropy over the classes."""
        u, v = embeddings
        ids = check_labels(labels, self, len(u)).view(-1)
        if ids.is_floating_point() or int(ids.min()) < 0 or int(ids.max()) >= len(self.labels):
            raise UsageError(
                f"label ids must be integers from 0 to {len(self.labels) - 1} ({', '.join(self.labels)}) but a batch "
                f"has {sorted(set(ids.tolist()))}: map the labels of the data to these"
            )
        return functional.cross_entropy(self.logits(u, v), copied(ids.long(), u.device))

    @torch.no_grad()
    def predict(self, premises: Sequence[str], hypotheses: Sequence[str], batch_size: int = 32) -> list[str]:
        """Return the name of the most likely class of each pair."""
        encode = unwrap(self.model).encode
        u, v = (
            encode(list(column), batch_size=batch_size, convert_to_tensor=True, show_progress_bar=False)
            for column in (premises, hypotheses)
        )
        # Cloned, because encode returns inference tensors, which autograd rejects.
        return [self.labels[index] for index in self.logits(u.clone(), v.clone()).argmax(1).tolist()]

    def accuracy(
        self, premises: Sequence[str], hypotheses: Sequence[str], labels: Sequence[str], batch_size: int = 32
    ) -> float:
        """Return the accuracy of `predict`, 0 to 1."""
        if not labels or not len(premises) == len(hypotheses) == len(labels) or not set(labels) <= set(self.labels):
            raise UsageError(
                f"accuracy needs at least one pair and one label per pair, each of {', '.join(self.labels)}: check the "
                "columns of the data"
            )
        predicted = self.predict(premises, hypotheses, batch_size)
        return sum(label == gold for label, gold in zip(predicted, labels, strict=True)) / len(labels)

    def get_config_dict(self) -> dict[str, Any]:
        """Return the options, for the model card."""
        return {"concatenation": self.concatenation, "labels": list(self.labels)}
