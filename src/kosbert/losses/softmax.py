"""Softmax over a concatenation of two sentence vectors: Sentence-BERT's loss for NLI."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from kosbert.data.readers import NLI_LABELS
from kosbert.errors import UsageError, did_you_mean
from kosbert.losses.base import Loss, Needs, labels_of
from kosbert.losses.features import Features
from kosbert.losses.forward import unwrapped
from kosbert.losses.loss_state import sync_module

# The seven rows of the paper's Table 6, in its order.
CONCATENATIONS = ("u,v", "|u-v|", "u*v", "|u-v|,u*v", "u,v,u*v", "u,v,|u-v|", "u,v,|u-v|,u*v")


class SoftmaxLoss(Loss):
    """Classify a pair by a linear layer over a concatenation of its vectors u and v; the layer is dropped afterwards.

    Arguments:
        model: the SentenceTransformer to train.
        concatenation: one of `CONCATENATIONS`; the paper found "u,v,|u-v|" best (§6).
        labels: the names of the classes, in the order of their ids.

    Reference: Reimers and Gurevych 2019, Sentence-BERT, §3 (classification loss) and §6, Table 6 (concatenations).

    Inputs: two text columns (premise, hypothesis); labels are class ids, (batch,).

    Prefer another: `ranking` or `simcse-supervised` on NLI triplets usually give better sentence similarity; this one
    also predicts the label, and keeps the neutral pairs in use.

    Example:
        >>> loss = Classification(model, concatenation="u,v,|u-v|")
        >>> loss.accuracy(["비가 온다."], ["날씨가 맑다."], ["contradiction"])
    """

    needs: Needs = "labeled pairs"
    texts = ("premise", "hypothesis")
    citation = "Reimers and Gurevych 2019, Sentence-BERT, https://arxiv.org/abs/1908.10084"

    def __init__(self, model: nn.Module, concatenation: str = "u,v,|u-v|", labels: Sequence[str] = NLI_LABELS) -> None:
        super().__init__(model)
        wanted = concatenation.replace(" ", "").replace("−", "-").strip("()")
        if wanted not in CONCATENATIONS:
            raise UsageError(f"There is no concatenation {concatenation!r}; {did_you_mean(wanted, CONCATENATIONS)}")
        if len(set(labels)) < 2 or len(set(labels)) < len(labels):
            raise UsageError(
                f"Classification needs two or more distinct classes but got {list(labels)}; name them all."
            )
        self.concatenation = wanted
        self.labels = tuple(labels)
        width = len(wanted.split(",")) * unwrapped(model).get_embedding_dimension()
        # With a bias, as in the authors' code, though §3 writes the weight matrix alone.
        self.classifier = sync_module(nn.Linear(width, len(self.labels), device=unwrapped(model).device))

    def logits(self, u: Tensor, v: Tensor) -> Tensor:
        """Class scores, (batch, classes), from two (batch, dimension) tensors."""
        part = {"u": u, "v": v, "|u-v|": (u - v).abs(), "u*v": u * v}
        scores: Tensor = self.classifier(torch.cat([part[name] for name in self.concatenation.split(",")], dim=1))
        return scores

    def compute_loss(self, embeddings: list[Tensor], labels: Tensor | None, columns: list[Features]) -> Tensor:
        """Cross-entropy of the softmax over the classes."""
        u, v = embeddings
        ids = labels_of(labels, self, len(u)).view(-1)
        if ids.is_floating_point() or int(ids.min()) < 0 or int(ids.max()) >= len(self.labels):
            raise UsageError(
                f"Label ids must be whole numbers from 0 to {len(self.labels) - 1} ({', '.join(self.labels)}) but a "
                f"batch has {sorted(set(ids.tolist()))}; map the labels of the data to these."
            )
        return functional.cross_entropy(self.logits(u, v), ids.long())

    @torch.no_grad()
    def predict(self, premises: Sequence[str], hypotheses: Sequence[str], batch_size: int = 32) -> list[str]:
        """The name of the likeliest class of each pair."""
        encode = unwrapped(self.model).encode
        u, v = (
            encode(list(column), batch_size=batch_size, convert_to_tensor=True, show_progress_bar=False)
            for column in (premises, hypotheses)
        )
        # A clone, because encode gives inference tensors, which autograd refuses to touch.
        return [self.labels[number] for number in self.logits(u.clone(), v.clone()).argmax(1).tolist()]

    def accuracy(
        self, premises: Sequence[str], hypotheses: Sequence[str], labels: Sequence[str], batch_size: int = 32
    ) -> float:
        """The share of pairs, 0 to 1, whose predicted class is the given one."""
        if not labels or not len(premises) == len(hypotheses) == len(labels) or not set(labels) <= set(self.labels):
            raise UsageError(
                f"Accuracy needs one label a pair, and at least one pair, each of {', '.join(self.labels)}; "
                "check the columns of the data."
            )
        predicted = self.predict(premises, hypotheses, batch_size)
        return sum(a == b for a, b in zip(predicted, labels, strict=True)) / len(labels)

    def get_config_dict(self) -> dict[str, Any]:
        """The options, for the model card."""
        return {"concatenation": self.concatenation, "labels": list(self.labels)}
