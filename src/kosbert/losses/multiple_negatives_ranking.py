"""Multiple negatives ranking loss: find the anchor's positive among all candidates of the batch.

sentence-transformers counts a candidate as a negative even if its text equals the anchor's positive, and relies on a
sampler to avoid such batches. NLI repeats its premises three times and its short hypotheses often, so we compare the
sentences instead. That works across devices and with any sampler.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from kosbert.distributed import first_local_row, gather_counts, gather_rows
from kosbert.errors import UsageError
from kosbert.losses.base import Loss, RowType
from kosbert.losses.features import Features, sentence_ids
from kosbert.model.placement import copied


def info_nce(
    embeddings: list[Tensor],
    ids: list[Tensor],
    temperature: float,
    *,
    symmetric: bool = False,
    across_devices: bool = True,
) -> Tensor:
    """Return InfoNCE over the batch without false negatives.

    Args:
        embeddings: anchors, positives and any number of hard negatives, (rows, dimension) each.
        ids: sentence ids in the same order, (rows,) each; see `features.sentence_ids`.
        temperature: divisor of the cosines.
        symmetric: also find the anchor of each positive, and average both directions.
        across_devices: use the candidates of all ranks.
    """
    anchors, positives = embeddings[:2]
    rows = len(anchors)
    counts = gather_counts(rows) if across_devices else [rows]
    total = sum(counts)  # rows of all ranks
    first = first_local_row(counts)
    targets = torch.arange(first, first + rows, device=anchors.device)  # index of each anchor's positive
    # Stacked, so that there is one exchange instead of one per column; then (total, dimension) and (total,) each.
    all_embeddings = gather_rows(torch.stack(embeddings, dim=1), counts).unbind(1)
    all_ids = gather_rows(torch.stack(ids, dim=1), counts).unbind(1)

    # The ids of our trainer are on the host, where repeated anchors are found without waiting for a GPU.
    excluded = copied(_false_negatives(ids[0], ids[1], all_ids[0], torch.cat(all_ids[1:]), first), anchors.device)
    loss = _cross_entropy(anchors, torch.cat(all_embeddings[1:]), targets, excluded, temperature)
    if symmetric:
        excluded = copied(_false_negatives(ids[1], ids[0], all_ids[1], all_ids[0], first), anchors.device)
        loss = (loss + _cross_entropy(positives, all_embeddings[0], targets, excluded, temperature)) / 2
    # The sum over the local anchors; `gather_rows` explains why this gives the gradients of a single process.
    return loss * len(counts) / total


def _false_negatives(anchors: Tensor, positives: Tensor, all_anchors: Tensor, candidates: Tensor, first: int) -> Tensor:
    """Return which candidates are not negatives of which anchor, (rows, candidates), from sentence ids.

    These are candidates equal to the anchor, to its positive, or to a positive of another row with the same anchor; not
    the anchor's own positive, which is the target. The positives are the first candidates, in the order of
    `all_anchors`; that of the first local row has the index `first`.
    """
    excluded = (candidates == anchors[:, None]) | (candidates == positives[:, None])
    same_anchor = all_anchors == anchors[:, None]  # (rows, all rows)
    for row in torch.nonzero(same_anchor.sum(1) > 1).flatten().tolist():  # few anchors are repeated
        excluded[row] |= torch.isin(candidates, candidates[: len(all_anchors)][same_anchor[row]])
    excluded.diagonal(first).fill_(False)  # excluded[row, first + row]
    return excluded


def _cross_entropy(
    anchors: Tensor, candidates: Tensor, targets: Tensor, excluded: Tensor, temperature: float
) -> Tensor:
    cosines = functional.normalize(anchors, dim=1) @ functional.normalize(candidates, dim=1).T  # (rows, candidates)
    logits = (cosines.float() / temperature).masked_fill(excluded, -torch.inf)
    return functional.cross_entropy(logits, targets, reduction="sum")


def check_temperature(temperature: float) -> float:
    """Return the temperature; raise unless it is above 0."""
    if not temperature > 0:
        raise UsageError(f"the temperature must be above 0 but is {temperature}: 0.05 is usual")
    return temperature


class MultipleNegativesRankingLoss(Loss):
    """Multiple negatives ranking loss (Henderson et al. 2017, §4.4), also known as InfoNCE with in-batch negatives.

    Cross-entropy of the anchor's positive among all positives and hard negatives of the batch.

    Args:
        model: the SentenceTransformer to train.
        temperature: divisor of the cosines; 0.05 is a scale of 20.
        symmetric: also find the anchor of each positive, and average both directions.
        across_devices: use the candidates of all ranks; no effect in a single process.

    References: Henderson et al. 2017, Efficient Natural Language Response Suggestion, §4.4 (multiple negatives); van
    den Oord et al. 2018, Contrastive Predictive Coding, §2.3 (InfoNCE).

    Requirements: pairs or triplets; large batches help.

    Inputs: text columns (anchor, positive) and any number of hard negatives; no labels. A candidate with the text of
    the anchor, of its positive, or of another positive of the same anchor does not count as a negative.

    Relations: `cosent` or `cosine-similarity` for scored pairs; `simcse-supervised` for the same data with a training
    head; wrap in `GradCacheLoss` for batches that do not fit into memory.

    Example:
        >>> loss = MultipleNegativesRankingLoss(model, temperature=0.05, symmetric=True)
        >>> loss([anchors, positives, negatives])
    """

    row_type: RowType = "pairs"  # triplets are pairs with a hard negative
    text_columns = ("anchor", "positive")
    accepts_hard_negatives = True
    citation = "Henderson et al. 2017, Efficient Natural Language Response Suggestion, https://arxiv.org/abs/1705.00652"

    def __init__(
        self, model: nn.Module, temperature: float = 0.05, symmetric: bool = False, across_devices: bool = True
    ) -> None:
        super().__init__(model)
        self.temperature = check_temperature(temperature)
        self.symmetric, self.across_devices = symmetric, across_devices

    def compute_loss(self, embeddings: list[Tensor], labels: Tensor | None, columns: list[Features]) -> Tensor:
        """Return InfoNCE over the batch."""
        ids = [sentence_ids(column) for column in columns]
        options = {"symmetric": self.symmetric, "across_devices": self.across_devices}
        return info_nce(embeddings, ids, self.temperature, **options)

    def get_config_dict(self) -> dict[str, Any]:
        """Return the options, for the model card."""
        names = ("temperature", "symmetric", "across_devices")
        return {name: getattr(self, name) for name in names}
