"""Multiple-negatives ranking: find the anchor's positive among all candidates of the batch.

sentence-transformers has this loss, but counts a candidate as a negative even when its text is the anchor's own
positive, and leaves it to a sampler to keep such batches out. NLI repeats its premises three times and its short
hypotheses often, so we look at the texts instead, which holds across devices and for any sampler.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from kosbert.errors import UsageError
from kosbert.losses.base import Loss, Needs
from kosbert.losses.features import Features, fingerprints
from kosbert.losses.gather import first_own_row, gather_counts, gather_rows


def info_nce(
    embeddings: list[Tensor],
    texts: list[Tensor],
    temperature: float,
    *,
    symmetric: bool = False,
    across_devices: bool = True,
) -> Tensor:
    """InfoNCE over the batch, without false negatives.

    `embeddings` are anchors, positives and any number of hard negatives, (rows, dimension) each; `texts` their
    fingerprints, (rows,) each, in the same order.
    """
    anchors, positives = embeddings[:2]
    rows = len(anchors)
    counts = gather_counts(rows, anchors.device) if across_devices else [rows]
    total = sum(counts)  # rows of all processes
    own = first_own_row(counts) + torch.arange(rows, device=anchors.device)  # where each anchor's positive stands
    # Stacked, so that there is one exchange and not one a column; then (total, dimension) and (total,) each.
    every = gather_rows(torch.stack(embeddings, dim=1), counts).unbind(1)
    every_text = gather_rows(torch.stack(texts, dim=1), counts).unbind(1)

    known = _known(texts[0], texts[1], every_text[0], torch.cat(every_text[1:]))
    loss = _cross_entropy(anchors, torch.cat(every[1:]), own, known, temperature)
    if symmetric:
        known = _known(texts[1], texts[0], every_text[1], every_text[0])
        loss = (loss + _cross_entropy(positives, every[0], own, known, temperature)) / 2
    # The sum over our own anchors: see gather.py for why this makes the gradients those of one process.
    return loss * len(counts) / total


def _known(anchors: Tensor, positives: Tensor, every_anchor: Tensor, candidates: Tensor) -> Tensor:
    """Which candidates are no negatives of which anchor, because they are known to mean the same: (rows, candidates).

    Those with the text of the anchor or of its positive, or of a positive of another row with the same anchor, wherever
    it stands; positives are the first candidates, in the order of `every_anchor`. All arguments are fingerprints.
    """
    known = (candidates == anchors[:, None]) | (candidates == positives[:, None])
    same = every_anchor == anchors[:, None]  # (rows, every row)
    for row in torch.nonzero(same.sum(1) > 1).flatten().tolist():  # few rows have an anchor that comes again
        known[row] |= torch.isin(candidates, candidates[: len(every_anchor)][same[row]])
    return known


def _cross_entropy(anchors: Tensor, candidates: Tensor, own: Tensor, known: Tensor, temperature: float) -> Tensor:
    known[torch.arange(len(own)), own] = False  # the anchor's own positive is what it has to find
    cosines = functional.normalize(anchors, dim=1) @ functional.normalize(candidates, dim=1).T  # (rows, candidates)
    logits = (cosines.float() / temperature).masked_fill(known, -torch.inf)
    return functional.cross_entropy(logits, own, reduction="sum")


def checked_temperature(temperature: float) -> float:
    """A temperature above 0."""
    if not temperature > 0:
        raise UsageError(f"The temperature must be above 0 but is {temperature}; 0.05 is the usual one.")
    return temperature


class MultipleNegativesRankingLoss(Loss):
    """Cross-entropy of the anchor's own positive among all positives and hard negatives of the batch.

    Arguments:
        model: the SentenceTransformer to train.
        temperature: what the cosines are divided by; 0.05 is a scale of 20.
        symmetric: also let each positive find its anchor, and take the mean of the two.
        across_devices: take the candidates of all processes; of no effect in a single one.

    Reference: Henderson et al. 2017, Efficient Natural Language Response Suggestion, §4.4 (multiple negatives); van den
    Oord et al. 2018, Contrastive Predictive Coding, §2.3 (InfoNCE).

    Inputs: text columns (anchor, positive) and any number of hard negatives; no labels. A candidate with the text of
    the anchor, of its positive, or of another positive of the same anchor is not counted as a negative.

    Prefer another: `cosent` or `cosine` for scored pairs; `simcse-supervised` for the same data with a training head;
    wrap in `GradCacheLoss` for batches that do not fit into memory.

    Example:
        >>> loss = Ranking(model, temperature=0.05, symmetric=True)
        >>> loss([anchors, positives, negatives])
    """

    needs: Needs = "pairs"  # triplets are pairs with a hard negative
    texts = ("anchor", "positive")
    more_negatives = True
    citation = "Henderson et al. 2017, Efficient Natural Language Response Suggestion, https://arxiv.org/abs/1705.00652"

    def __init__(
        self, model: nn.Module, temperature: float = 0.05, symmetric: bool = False, across_devices: bool = True
    ) -> None:
        super().__init__(model)
        self.temperature = checked_temperature(temperature)
        self.symmetric, self.across_devices = symmetric, across_devices

    def compute_loss(self, embeddings: list[Tensor], labels: Tensor | None, columns: list[Features]) -> Tensor:
        """InfoNCE over the batch."""
        texts = [fingerprints(column) for column in columns]
        options = {"symmetric": self.symmetric, "across_devices": self.across_devices}
        return info_nce(embeddings, texts, self.temperature, **options)

    def get_config_dict(self) -> dict[str, Any]:
        """The options, for the model card."""
        names = ("temperature", "symmetric", "across_devices")
        return {name: getattr(self, name) for name in names}
